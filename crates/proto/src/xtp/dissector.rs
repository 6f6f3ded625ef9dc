//! Dissects XTP in UDP for analysers: the packet as it would be directly over IP, and the messages in it.

use antiphon_core::{Dissected, Fragment, OverIpPacket};

use super::stack::XtpOverIp;
use super::wire::{self, Segment, option};
use crate::dissect::EachDatagram;

/// Messages and priorities of each datagram.
pub(super) const DISSECTOR: EachDatagram = EachDatagram::new(dissect).with_priority(priority);

/// Dissects a datagram.
fn dissect(datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>)) {
    if wire::header(datagram).is_none() {
        return;
    }
    each(Dissected::Packet(OverIpPacket { over_ip: &XtpOverIp, bytes: datagram }));
    let Some((header, segment)) = wire::parse(datagram) else { return };
    if let Some(bytes) = super::datagram::message_in(&header, &segment) {
        let fragment = Fragment::whole(u128::from(header.key.0), header.sync, bytes);
        return each(Dissected::Fragment(fragment));
    }
    if let Segment::Data { tag, bytes } = segment
        && !bytes.is_empty()
    {
        let key = u128::from(header.key.0);
        // What a group's member says to its sender is always whole, and has no tag.
        let is_member = header.returned && header.has(option::MULTI);
        let whole = match tag {
            Some(tag) => Some(Fragment::whole(key << 64, tag as u32, bytes)),
            None => is_member.then(|| Fragment::whole(key << 64, header.sync, bytes)),
        };
        let whole = whole.filter(|_| header.has(option::EOM));
        each(whole.map_or(Dissected::Part(bytes), Dissected::Fragment));
    }
}

/// The SORT value of a packet that has one: control packets, too, so that they don't wait behind data.
fn priority(datagram: &[u8]) -> Option<u16> {
    let (header, _) = wire::header(datagram)?;
    header.has(option::SORT).then_some(header.sort)
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Header, Key, Writer, format};
    use super::*;

    /// Messages, and parts of such as were cut, in a packet of data without a tag.
    fn messages(returned: bool, options: u32) -> [Vec<Vec<u8>>; 2] {
        let options = options | option::EOM;
        let header = Header { key: Key::new(7, 1, 2), returned, options, sort: 0, sync: 3, seq: 0 };
        let mut buf = [0; 100];
        let mut writer = Writer::new(&mut buf, &header, format::DATA);
        writer.bytes(b"report");
        let len = writer.finish();
        let (mut found, mut parts) = (Vec::new(), Vec::new());
        dissect(&buf[..len], &mut |part| match part {
            Dissected::Fragment(fragment) => {
                assert!(fragment.first && fragment.last);
                found.push(fragment.bytes.to_vec());
            }
            Dissected::Part(bytes) => parts.push(bytes.to_vec()),
            Dissected::Packet(_) => {}
        });
        [found, parts]
    }

    #[test]
    fn a_priority_is_the_sort_value_of_packets_that_have_one() {
        let of = |options, sort| {
            let header = Header { key: Key::new(7, 1, 2), returned: false, options, sort, sync: 3, seq: 0 };
            let mut buf = [0; 100];
            let mut writer = Writer::new(&mut buf, &header, format::DATA);
            writer.bytes(b"voice");
            let len = writer.finish();
            [priority(&buf[..len]), priority(&buf[..len - 1]), priority(&[])]
        };
        assert_eq!(of(option::SORT, 300), [Some(300), None, None]);
        assert_eq!(of(0, 300), [None; 3]);
    }

    #[test]
    fn what_a_member_says_is_a_message_and_the_end_of_one_is_not() {
        let said = vec![b"report".to_vec()];
        assert_eq!(messages(true, option::MULTI), [said.clone(), vec![]]);
        assert_eq!(messages(false, option::MULTI), [vec![], said.clone()]);
        assert_eq!(messages(true, 0), [vec![], said]);
    }
}
