//! Dissects XTP in UDP for analysers: the packet as it would be directly over IP, and the messages in it.

use antiphon_core::{Dissected, Fragment, OverIpPacket};

use super::stack::XtpOverIp;
use super::wire::{self, Segment, option};

/// Dissects a datagram. Messages cut into several packets are shown as packets only: their parts have no numbers.
pub(super) fn dissect(datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>)) {
    if wire::header(datagram).is_none() {
        return;
    }
    each(Dissected::Packet(OverIpPacket { over_ip: &XtpOverIp, bytes: datagram }));
    if let Some((header, bytes)) = super::datagram::message(datagram) {
        let fragment = Fragment::whole(u128::from(header.key.0), header.sync, bytes);
        return each(Dissected::Fragment(fragment));
    }
    if let Some((header, Segment::Data { tag: Some(tag), bytes })) = wire::parse(datagram)
        && header.has(option::EOM)
        && !bytes.is_empty()
    {
        each(Dissected::Fragment(Fragment::whole(u128::from(header.key.0) << 64, tag as u32, bytes)));
    }
}
