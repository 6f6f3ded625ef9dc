//! Dissects DCCP inside UDP for analysers: the packet as it would be directly over IP, and its message.

use antiphon_core::{Dissected, Fragment, OverIpPacket};

use super::stack::DccpOverIp;

/// Dissects a datagram; also shows packets that the endpoint would refuse, if they have the form of DCCP.
///
/// The packet is the datagram's payload with its own ports; the checksum, zero inside UDP (RFC 6773 §3.5), is written
/// for the addresses. Data and DataAck hold a message (RFC 5762 §4.1); data in other types belongs to no message (RFC 4340 §5).
pub(super) fn dissect(datagram: &[u8], each: &mut dyn FnMut(Dissected<'_>)) {
    let Some(header) = datagram.first_chunk::<SHORTEST>() else { return };
    let (offset, kind) = (usize::from(header[4]) * 4, header[8] >> 1 & 0x0f);
    if kind > LISTEN || offset < SHORTEST || offset > datagram.len() {
        return;
    }
    each(Dissected::Packet(OverIpPacket { over_ip: &DccpOverIp, bytes: datagram }));
    let data = &datagram[offset..];
    if matches!(kind, DATA | DATA_ACK) && !data.is_empty() {
        let ports = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        each(Dissected::Fragment(Fragment::whole(ports.into(), number(datagram), data)));
    }
}

/// The lower bits of the sequence number: 32 of 48, or all 24 where X is 0 (RFC 4340 §5.1).
fn number(packet: &[u8]) -> u32 {
    let at = if packet[8] & 1 == 1 { 12 } else { 8 };
    let word =
        packet.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    if at == 8 { word & 0x00ff_ffff } else { word }
}

/// A header with a short sequence number (RFC 4340 §5.1).
const SHORTEST: usize = 12;
/// Packet types (RFC 4340 §5.1; the last one: RFC 5596).
const DATA: u8 = 2;
const DATA_ACK: u8 = 4;
const LISTEN: u8 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    type Seen = (Vec<(u8, Vec<u8>)>, Vec<(u128, u32, Vec<u8>)>);

    fn seen(datagram: &[u8]) -> Seen {
        let (mut packets, mut messages) = Seen::default();
        dissect(datagram, &mut |inside| match inside {
            Dissected::Packet(bare) => {
                let mut bytes = bare.bytes.to_vec();
                bare.over_ip.seal(&mut bytes, [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
                packets.push((bare.over_ip.protocol(), bytes));
            }
            Dissected::Fragment(piece) => {
                assert!(piece.first && piece.last);
                messages.push((piece.line, piece.number, piece.bytes.to_vec()));
            }
            Dissected::Part(_) => panic!("DCCP cuts nothing"),
        });
        (packets, messages)
    }

    /// Packets between 192.0.2.1 and 192.0.2.2 directly over IP, accepted by tshark 4.0.17; inside UDP their checksum
    /// is zero.
    #[test]
    fn packets_come_out_with_the_checksum_that_they_have_over_ip() {
        let hello =
            |coverage: &str, sum: &str| format!("1389138c04{coverage}{sum}0500123456789abd68656c6c6f");
        let line = 0x1389_138c;
        for (coverage, sum) in [("30", "0444"), ("31", "4815"), ("32", "7342")] {
            let (packets, messages) = seen(&hex(&hello(coverage, "0000")));
            assert_eq!(packets, [(33, hex(&hello(coverage, sum)))], "coverage {coverage}");
            assert_eq!(messages, [(line, 0x5678_9abd, b"hello".to_vec())]);
        }
        let ack =
            |sum: &str| hex(&format!("1389138c0800{sum}07000000000000640000000000000064260700c003400500"));
        assert_eq!(seen(&ack("0000")), (vec![(33, ack("15d6"))], vec![]));
    }

    #[test]
    fn messages_are_in_data_and_dataack_alone() {
        for kind in 0..16u8 {
            let mut packet = hex("1389138c07000000ff000000000000640000000000000064000000005041594c4f4144");
            packet[8] = kind << 1 | 1;
            let (packets, messages) = seen(&packet);
            assert_eq!(packets.len(), usize::from(kind <= 10), "type {kind}");
            assert_eq!(messages.len(), usize::from(matches!(kind, 2 | 4)), "type {kind}");
            assert!(messages.iter().all(|(_, number, bytes)| (*number, &bytes[..]) == (100, b"PAYLOAD")));
        }
        // A short sequence number: 24 bits behind the type.
        let (_, messages) = seen(&hex("1389138c03000000041234566869"));
        assert_eq!(messages, [(0x1389_138c, 0x12_3456, b"hi".to_vec())]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80), offset in 0u8..25, kind in 0u8..16, shaped: bool,
        ) {
            if shaped && bytes.len() > 8 {
                (bytes[4], bytes[8]) = (offset, kind << 1 | bytes[8] & 1);
            }
            let (packets, messages) = seen(&bytes);
            prop_assert!(messages.len() <= packets.len() && packets.len() <= 1);
        }
    }
}
