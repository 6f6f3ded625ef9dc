//! The mark of messages that a reflector has returned. A reflector returns only what has none: else one forged packet would make
//! two of them send to each other for ever.
//!
//! RTP keeps its size and stays valid: the header extension of our senders is put under another profile (RFC 3550 §5.3.1). RTCP
//! gets a version that does not exist, so that no other receiver takes a goodbye that came back for its sender's (RFC 3550 §A.2).

use super::extension::ONE_BYTE_PROFILE;
use super::{PacketKind, RTP_HEADER, classify};

/// Marks a message of one of our senders. Returns whether it is one, and not yet marked.
pub fn mark_returned(bytes: &mut [u8]) -> bool {
    match classify(bytes) {
        Some(PacketKind::Rtp) => change_profile(bytes, ONE_BYTE_PROFILE, RETURNED_PROFILE),
        Some(PacketKind::Rtcp) => {
            bytes[0] |= RETURNED_VERSION;
            true
        }
        None => false,
    }
}

/// Makes a message what it was before [`mark_returned`]; others stay as they are.
pub fn unmark_returned(bytes: &mut [u8]) {
    match bytes.first() {
        Some(first) if first & RETURNED_VERSION == RETURNED_VERSION => {
            bytes[0] = (bytes[0] & !RETURNED_VERSION) | VERSION;
        }
        _ => {
            change_profile(bytes, RETURNED_PROFILE, ONE_BYTE_PROFILE);
        }
    }
}

/// Puts the header extension of an RTP packet under another profile, if it is under `from`.
fn change_profile(bytes: &mut [u8], from: u16, to: u16) -> bool {
    let [first, ..] = bytes else { return false };
    let (is_rtp, has_extension) = (*first & RETURNED_VERSION == VERSION, *first & EXTENSION != 0);
    let begins = RTP_HEADER + 4 * usize::from(*first & 0x0f);
    let Some(profile) = bytes.get_mut(begins..begins + 2).filter(|_| is_rtp && has_extension) else {
        return false;
    };
    let is_there = profile == from.to_be_bytes();
    if is_there {
        profile.copy_from_slice(&to.to_be_bytes());
    }
    is_there
}

/// The profile of the header extension of packets that come back: not that of RFC 8285, and no other that is registered.
const RETURNED_PROFILE: u16 = 0xbed0;
/// Version 2 in the first byte (RFC 3550 §5.1, §6.4.1).
const VERSION: u8 = 0x80;
/// Version 3, which does not exist.
const RETURNED_VERSION: u8 = 0xc0;
/// The bit that says that a header extension follows (RFC 3550 §5.1).
const EXTENSION: u8 = 0x10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RTP with a header extension of one word behind `sources` contributing sources.
    fn rtp(sources: u8) -> Vec<u8> {
        let mut packet = vec![VERSION | EXTENSION | sources, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        packet.extend(std::iter::repeat_n(9, 4 * usize::from(sources)));
        packet.extend([0xbe, 0xde, 0, 1, 0x10, 7, 0, 0, 5, 5]);
        packet
    }

    #[test]
    fn what_was_marked_is_not_marked_again_and_can_be_undone() {
        let goodbye = vec![0x81, 203, 0, 1, 0, 0, 0, 7];
        for original in [rtp(0), rtp(3), rtp(15), goodbye] {
            let mut bytes = original.clone();
            assert!(mark_returned(&mut bytes) && bytes != original && bytes.len() == original.len());
            let marked = bytes.clone();
            assert!(!mark_returned(&mut bytes) && bytes == marked, "returned once and no more");
            unmark_returned(&mut bytes);
            assert_eq!(bytes, original);
            unmark_returned(&mut bytes);
            assert_eq!(bytes, original);
        }
    }

    #[test]
    fn what_is_not_of_our_senders_is_not_returned() {
        let plain = [&[0x80, 10, 0, 1][..], &[0; 208]].concat();
        let other_extension = {
            let mut packet = rtp(0);
            packet[12..14].copy_from_slice(&[0x10, 0]);
            packet
        };
        for bytes in
            [plain, other_extension, rtp(0)[..13].to_vec(), rtp(15)[..40].to_vec(), vec![], vec![0; 40]]
        {
            let mut copy = bytes.clone();
            assert!(!mark_returned(&mut copy) && copy == bytes, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_come_back_twice(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if mark_returned(&mut bytes) {
                prop_assert!(!mark_returned(&mut bytes.clone()));
            }
            unmark_returned(&mut bytes);
        }
    }
}
