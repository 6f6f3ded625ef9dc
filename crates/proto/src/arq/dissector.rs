//! Dissects simple ARQ for analysers: the messages in its packets.

use antiphon_core::{Dissected, Fragment};

use super::{text, wire};

/// Finds the message in a datagram of either mode; a retransmitted message keeps its number.
pub(super) fn dissect(datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>)) {
    if let Some(data) = wire::parse(datagram).and_then(|packet| packet.data) {
        each(Dissected::Fragment(Fragment::whole(data.epoch.into(), data.number, data.payload)));
    } else if let Some(text::Text::Data { number, payload }) = text::parse(datagram) {
        // The upper half of a number of 64 bits, above all epochs.
        let line = TEXT | u128::from(number >> 32);
        each(Dissected::Fragment(Fragment::whole(line, number as u32, payload)));
    }
}

/// Distinguishes the text mode's numbers from the binary one's epochs.
const TEXT: u128 = 1 << 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(datagram: &[u8]) -> Vec<(u128, u32, Vec<u8>)> {
        let mut messages = Vec::new();
        dissect(datagram, &mut |inside| {
            let Dissected::Fragment(piece) = inside else { panic!("no IP protocol of its own") };
            assert!(piece.first && piece.last);
            messages.push((piece.line, piece.number, piece.bytes.to_vec()));
        });
        messages
    }

    #[test]
    fn messages_of_both_modes_and_no_acknowledgements() {
        let data = wire::Data { epoch: 6, number: 7, back: 0, repeated: false, payload: b"hello" };
        let ack =
            wire::Ack { epoch: 1, floor: 2, latest: 0, latest_repeated: false, age: 0, map: &[1, 2, 3] };
        let mut buf = [0; 64];
        for (ack, data, expected) in [
            (None, Some(data), vec![(6, 7, b"hello".to_vec())]),
            (Some(ack), Some(wire::Data { repeated: true, ..data }), vec![(6, 7, b"hello".to_vec())]),
            (Some(ack), None, vec![]),
        ] {
            let len = wire::emit(&wire::Packet { ack, data }, &mut buf);
            assert_eq!(messages(&buf[..len]), expected);
        }
        assert_eq!(messages(b"seq:4294967303 hello"), [(TEXT | 1, 7, b"hello".to_vec())]);
        assert_eq!(messages(b"ack:7"), []);
    }
}
