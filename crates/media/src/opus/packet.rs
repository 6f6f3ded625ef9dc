//! What a packet of Opus holds, by its first bytes (RFC 6716 §3).
//!
//! ```text
//!  0                   1
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
//! +---------+-+---+-+-+-----------+
//! | config  |s| c |v|p|     M     |   the second byte only if c is 3
//! +---------+-+---+-+-+-----------+
//! ```
//!
//! `config` names mode, bandwidth and duration of a frame, `s` two channels, `c` how many frames there are: one, two of equal
//! length, two, or `M`, whose lengths differ if `v` is set, with padding if `p` is.

use super::{MOST_BYTES, MOST_FRAME_BYTES, MOST_FRAMES};

/// Sample frames at 48 kHz in a packet; `None` if it breaks one of the rules R1 to R7 of RFC 6716 §3.4, or is longer than any
/// sender's. A packet of one byte has frames without data: the sender had nothing to say (DTX).
pub fn packet_frames(packet: &[u8]) -> Option<usize> {
    let (toc, rest) = packet.split_first()?;
    if packet.len() > MOST_BYTES {
        return None;
    }
    let frames = match toc & 3 {
        _ if rest.is_empty() => [1, 2, 2, 0][usize::from(toc & 3)],
        0 => check(&[rest.len()], 1)?,
        1 => check(&[rest.len() / 2], if rest.len().is_multiple_of(2) { 2 } else { 0 })?,
        2 => {
            let (first, second) = take_frame(rest)?;
            check(&[first, second.len()], 2)?
        }
        _ => several(rest)?,
    };
    let total = frames * frame_len(*toc);
    (1..=MOST_FRAMES).contains(&total).then_some(total)
}

/// Sample frames of one frame (RFC 6716 §3.1, table 2).
fn frame_len(toc: u8) -> usize {
    let config = usize::from(toc >> 3);
    match config {
        0..=11 => [480, 960, 1920, 2880][config & 3],
        12..=15 => [480, 960][config & 1],
        _ => [120, 240, 480, 960][config & 3],
    }
}

/// `count`, if none of these frames is too long.
fn check(bytes: &[usize], count: usize) -> Option<usize> {
    bytes.iter().all(|bytes| *bytes <= MOST_FRAME_BYTES).then_some(count)
}

/// The length of a frame in one or two bytes (RFC 6716 §3.2.1), and what follows that frame.
fn take_frame(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, rest) = take_len(bytes)?;
    Some((len, rest.get(len..)?))
}

fn take_len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [short @ 0..=251, rest @ ..] => Some((usize::from(*short), rest)),
        [first, second, rest @ ..] => Some((usize::from(*second) * 4 + usize::from(*first), rest)),
        _ => None,
    }
}

/// Frames of a packet of code 3, from its second byte on.
fn several(bytes: &[u8]) -> Option<usize> {
    let (head, mut rest) = bytes.split_first()?;
    let count = usize::from(head & 0x3f);
    if head & 0x40 != 0 {
        let mut padding = 0;
        loop {
            let (more, after) = rest.split_first()?;
            rest = after;
            if *more < 255 {
                padding += usize::from(*more);
                break;
            }
            padding += 254;
        }
        rest = &rest[..rest.len().checked_sub(padding)?];
    }
    if count == 0 {
        return None;
    }
    if head & 0x80 == 0 {
        return check(&[rest.len() / count], if rest.len().is_multiple_of(count) { count } else { 0 });
    }
    let mut left = rest;
    let mut sum = 0;
    for _ in 1..count {
        let (len, after) = take_len(left)?;
        check(&[len], 1)?;
        (left, sum) = (after, sum + len);
    }
    check(&[left.len().checked_sub(sum)?], count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_by_configuration() {
        let of = |config: u8| packet_frames(&[config << 3, 1]);
        assert_eq!([0, 1, 2, 3].map(of), [480, 960, 1920, 2880].map(Some));
        assert_eq!([12, 13, 14, 15].map(of), [480, 960, 480, 960].map(Some));
        assert_eq!([28, 29, 30, 31].map(of), [120, 240, 480, 960].map(Some));
    }

    #[test]
    fn frames_are_counted() {
        // Two of equal length, two, three of equal length, three, three with padding.
        assert_eq!(packet_frames(&[0xf9, 1, 1]), Some(1920));
        assert_eq!(packet_frames(&[0xfa, 1, 9, 8]), Some(1920));
        assert_eq!(packet_frames(&[0xfb, 3, 1, 2, 3]), Some(2880));
        assert_eq!(packet_frames(&[0xfb, 0x83, 1, 0, 7, 8]), Some(2880));
        assert_eq!(packet_frames(&[0xfb, 0x43, 2, 1, 2, 3, 0, 0]), Some(2880));
        // Nothing to say.
        assert_eq!(
            ([0xf8, 0xf9, 0xfa, 0xfb].map(|toc| packet_frames(&[toc]))),
            [Some(960), Some(1920), Some(1920), None]
        );
        assert_eq!(packet_frames(&[0xfb, 6, 0, 0, 0, 0, 0, 0]), Some(5760));
    }

    #[test]
    fn broken_packets_are_refused() {
        let broken: [&[u8]; 12] = [
            &[],
            &[0xf9, 1],
            &[0xfa, 2, 1],
            &[0xfa, 252],
            &[0xfb, 0],
            &[0xfb, 7, 0, 0, 0, 0, 0, 0, 0],
            &[0xfb, 3, 1, 2],
            &[0xfb, 0x83, 1, 5, 7, 8],
            &[0xfb, 0x43, 255],
            &[0xfb, 0x43, 9, 1],
            &[0x1b, 3, 1, 2, 3],
            &[0xfb, 0x7f],
        ];
        for packet in broken {
            assert_eq!(packet_frames(packet), None, "{packet:?}");
        }
        let mut long = vec![0; 1277];
        long[0] = 0xf8;
        assert_eq!((packet_frames(&long), packet_frames(&long[..1276])), (None, Some(960)));
        long.resize(MOST_BYTES + 1, 0);
        assert_eq!(packet_frames(&long), None);
    }
}
