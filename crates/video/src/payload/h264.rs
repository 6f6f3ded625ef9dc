//! H.264 in non-interleaved mode (RFC 6184 §6.3): single NAL units, aggregates (STAP-A) and fragments (FU-A).
//!
//! ```text
//!  0 1 2 3 4 5 6 7
//! +-+-+-+-+-+-+-+-+
//! |F|NRI|  Type   |   1 to 23: a NAL unit; 24: STAP-A; 28: FU-A, and then
//! +-+-+-+-+-+-+-+-+
//! |S|E|R|  Type   |   start and end of the NAL unit, and its type
//! +-+-+-+-+-+-+-+-+
//! ```

use super::Payloads;
use crate::h264::{is_carried, is_first_slice, kind, nal, push_unit, units};

const STAP_A: u8 = 24;
const FU_A: u8 = 28;
const START: u8 = 0x80;
const END: u8 = 0x40;

/// Small NAL units that follow each other share a packet; long ones are cut.
pub fn cut(stream: &[u8], max: usize, out: &mut Payloads) {
    let mut together: Vec<&[u8]> = Vec::new();
    let mut len = 1;
    for unit in units(stream).filter(|unit| is_carried(unit)) {
        if len + 2 + unit.len() > max || unit.len() > 0xffff {
            flush(&mut together, out);
            len = 1;
        }
        if unit.len() > max || unit.len() > 0xffff {
            fragment(unit, max, out);
        } else {
            len += 2 + unit.len();
            together.push(unit);
        }
    }
    flush(&mut together, out);
}

fn flush(together: &mut Vec<&[u8]>, out: &mut Payloads) {
    if let [unit] = together[..] {
        out.push(&[unit]);
    } else if !together.is_empty() {
        // F is set if any has it, NRI is the highest (§5.7).
        let forbidden = together.iter().fold(0, |all, unit| all | unit[0] & 0x80);
        let importance = together.iter().map(|unit| unit[0] & 0x60).max().unwrap_or(0);
        let mut aggregate = vec![forbidden | importance | STAP_A];
        for unit in together.iter() {
            aggregate.extend((unit.len() as u16).to_be_bytes());
            aggregate.extend(*unit);
        }
        out.push(&[&aggregate]);
    }
    together.clear();
}

fn fragment(unit: &[u8], max: usize, out: &mut Payloads) {
    let (header, body) = (unit[0], &unit[1..]);
    let pieces = body.chunks(max - 2);
    let last = pieces.len() - 1;
    for (n, piece) in pieces.enumerate() {
        let start = if n == 0 { START } else { 0 };
        let end = if n == last { END } else { 0 };
        out.push(&[&[header & 0xe0 | FU_A, start | end | header & 0x1f], piece]);
    }
}

/// Whether the payload begins an access unit: with a delimiter, a parameter set, or the first slice of a picture that is
/// no key frame. A key frame's first slice may have lost the parameter sets before it. Information (SEI) lost before a
/// slice goes unnoticed, which harms no decoder; senders that mark frames (RFC 9626) are known exactly.
pub fn is_start(payload: &[u8]) -> bool {
    let begins = |unit: &[u8]| match kind(unit) {
        nal::AUD | nal::SPS => true,
        nal::SLICE => is_first_slice(unit),
        _ => false,
    };
    match kind(payload) {
        STAP_A => payload.get(3..).is_some_and(begins),
        FU_A => match payload {
            [_, header, first, ..] if header & START != 0 => begins(&[header & 0x1f, *first]),
            _ => false,
        },
        _ => begins(payload),
    }
}

/// Whether the payload may begin an access unit: with anything that stands before the slices.
pub fn may_start(payload: &[u8]) -> bool {
    let first = match (kind(payload), payload) {
        (STAP_A, [_, _, _, first, ..]) => first & 0x1f,
        (FU_A, [_, header, ..]) if header & START != 0 => header & 0x1f,
        (kind, _) => kind,
    };
    (nal::SEI..=nal::AUD).contains(&first) || is_start(payload)
}

pub fn assemble(payloads: &[&[u8]]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(payloads.iter().map(|payload| payload.len() + 4).sum());
    let mut in_fragment = false;
    for payload in payloads {
        let kind = kind(payload);
        if kind != FU_A && in_fragment {
            return None;
        }
        match kind {
            STAP_A => disaggregate(payload, &mut out)?,
            FU_A => {
                let [indicator, header, piece @ ..] = payload else { return None };
                if in_fragment == (header & START != 0) {
                    return None;
                }
                if !in_fragment {
                    let first = indicator & 0xe0 | header & 0x1f;
                    if !is_carried(&[first]) {
                        return None;
                    }
                    push_unit(&mut out, &[first]);
                }
                out.extend_from_slice(piece);
                in_fragment = header & END == 0;
            }
            _ if is_carried(payload) => push_unit(&mut out, payload),
            _ => return None,
        }
    }
    (!in_fragment).then_some(out)
}

fn disaggregate(payload: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = &payload[1..];
    while !rest.is_empty() {
        let (len, behind) = rest.split_first_chunk::<2>()?;
        let (unit, behind) = behind.split_at_checked(u16::from_be_bytes(*len).into())?;
        if !is_carried(unit) {
            return None;
        }
        push_unit(out, unit);
        rest = behind;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_that_contradict_each_other_are_no_frame() {
        let (start, middle, end) = (&[0x7c, 0x85, 1][..], &[0x7c, 0x05, 2][..], &[0x7c, 0x45, 3][..]);
        assert_eq!(assemble(&[start, middle, end]), Some(vec![0, 0, 0, 1, 0x65, 1, 2, 3]));
        for wrong in [&[start, start, end][..], &[start, middle], &[middle, end], &[start, &[0x41, 1], end]] {
            assert_eq!(assemble(wrong), None, "{wrong:?}");
        }
        // An aggregate that is cut off in a length, or in a unit.
        assert_eq!(assemble(&[&[0x78, 0, 1, 0x67, 0]]), None);
        assert_eq!(assemble(&[&[0x78, 0, 9, 0x67, 1]]), None);
    }
}
