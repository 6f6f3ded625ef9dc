//! The published packets: text headers in ASCII.
//!
//! ```text
//!     data   "seq:" N " " sound          73 65 71 3a 34 36 38 20 ...      seq:468 ...
//!     ack    "ack:" N                    61 63 6b 3a 34 36 38             ack:468
//! ```
//!
//! N is decimal without leading zeros. The report prints no terminator; its capture shows a space after N, and without
//! one the number would be ambiguous where the sound begins with a digit. So one space is written, and one is skipped.

/// A packet in a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Text<'a> {
    /// Sound with its number.
    Data {
        /// Its number.
        number: u64,
        /// The bytes after the space; never empty.
        payload: &'a [u8],
    },
    /// The receiver has this number.
    Ack {
        /// Which number.
        number: u64,
    },
}

/// The longest header: `seq:`, a number of 20 digits, a space.
pub(super) const MAX_HEADER: usize = 4 + MAX_DIGITS + 1;

/// Digits of the largest 64-bit number.
const MAX_DIGITS: usize = 20;

/// Reads a datagram; `None` if it is neither kind of packet.
pub(super) fn parse(datagram: &[u8]) -> Option<Text<'_>> {
    let (kind, rest) = datagram.split_at_checked(4)?;
    let (number, rest) = split_number(rest)?;
    match kind {
        b"seq:" => {
            let payload = rest.strip_prefix(b" ").unwrap_or(rest);
            (!payload.is_empty()).then_some(Text::Data { number, payload })
        }
        b"ack:" => rest.is_empty().then_some(Text::Ack { number }),
        _ => None,
    }
}

/// Writes a data packet and returns its length; `buf` has room for [`MAX_HEADER`] bytes more than the payload.
pub(super) fn emit_data(number: u64, payload: &[u8], buf: &mut [u8]) -> usize {
    buf[..4].copy_from_slice(b"seq:");
    let header = 4 + put_number(number, &mut buf[4..]);
    buf[header] = b' ';
    let end = header + 1 + payload.len();
    buf[header + 1..end].copy_from_slice(payload);
    end
}

/// Writes an acknowledgement and returns its length.
pub(super) fn emit_ack(number: u64, buf: &mut [u8]) -> usize {
    buf[..4].copy_from_slice(b"ack:");
    4 + put_number(number, &mut buf[4..])
}

fn split_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take(MAX_DIGITS + 1).take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    let add = |n: u64, digit: &u8| n.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    Some((digits.iter().try_fold(0, add)?, rest))
}

fn put_number(mut number: u64, buf: &mut [u8]) -> usize {
    let mut digits = [0; MAX_DIGITS];
    let mut at = MAX_DIGITS;
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let len = MAX_DIGITS - at;
    buf[..len].copy_from_slice(&digits[at..]);
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of the report's capture.
    #[test]
    fn the_captured_packets_are_read_and_written() {
        let mut buf = [0; 64];
        let captured = [0x73, 0x65, 0x71, 0x3a, 0x34, 0x36, 0x38, 0x20, b'P', b'A', b'Y'];
        assert_eq!(parse(&captured), Some(Text::Data { number: 468, payload: b"PAY" }));
        let len = emit_data(468, b"PAY", &mut buf);
        assert_eq!(buf[..len], captured);
        let ack = [0x61, 0x63, 0x6b, 0x3a, 0x34, 0x36, 0x38];
        assert_eq!(parse(&ack), Some(Text::Ack { number: 468 }));
        let len = emit_ack(468, &mut buf);
        assert_eq!(buf[..len], ack);
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        for bad in [
            "",
            "seq",
            "seq:",
            "ack:",
            "seq: x",
            "seq:7",
            "seq:7 ",
            "ack:7 ",
            "ack:-7",
            "seq:07 x",
            "SEQ:7 x",
            "nak:7",
            "ack:18446744073709551616",
            "ack:184467440737095516150",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parse(b"ack:18446744073709551615"), Some(Text::Ack { number: u64::MAX }));
        // As published without the space.
        assert_eq!(parse(b"seq:1\x80x"), Some(Text::Data { number: 1, payload: b"\x80x" }));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(number: u64, payload in prop::collection::vec(any::<u8>(), 1..40)) {
            let mut buf = [0; 100];
            let len = emit_data(number, &payload, &mut buf);
            prop_assert!(len <= MAX_HEADER + payload.len());
            prop_assert_eq!(parse(&buf[..len]), Some(Text::Data { number, payload: &payload }));
            let len = emit_ack(number, &mut buf);
            prop_assert_eq!(parse(&buf[..len]), Some(Text::Ack { number }));
        }

        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..60), ack: bool, digits in "[0-9]{0,25}") {
            let _ = parse(&bytes);
            let mut shaped = if ack { b"ack:".to_vec() } else { b"seq:".to_vec() };
            shaped.extend(digits.bytes());
            shaped.append(&mut bytes);
            let _ = parse(&shaped);
        }
    }
}
