//! Marks of a video frame in the header of each of its packets (RFC 9626): where it begins and ends, and what it is.
//!
//! Without them a receiver can't always tell whether a lost packet was the last of one frame or the first of the next:
//! with nine packets in a frame, every lost last packet would cost two frames. Other programs skip the extension.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  ID   |  L=2  |S|E|I|D|B| TID |      LID      |   TL0PICIDX   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

/// What one packet says of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marking {
    /// The frame's first packet.
    pub start: bool,
    /// The frame's last packet.
    pub end: bool,
    /// Can be decoded without pictures before it.
    pub independent: bool,
    /// No picture needs it.
    pub discardable: bool,
    /// 0 for the base layer.
    pub temporal_layer: u8,
    /// Pictures of the base layer so far, modulo 256.
    pub base_pictures: u8,
}

impl Marking {
    /// The extension's name in SDP's `extmap`.
    pub const URI: &'static str = "urn:ietf:params:rtp-hdrext:framemarking";

    /// Bytes of the element, in its long form.
    pub const BYTES: usize = 3;

    /// The element.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let flags =
            [(self.start, 0x80), (self.end, 0x40), (self.independent, 0x20), (self.discardable, 0x10)];
        let flags = flags.into_iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit);
        [flags | self.temporal_layer.min(7), 0, self.base_pictures]
    }

    /// Reads an element, in its short form or a long one.
    pub fn from_bytes(element: &[u8]) -> Option<Self> {
        let flags = *element.first()?;
        Some(Marking {
            start: flags & 0x80 != 0,
            end: flags & 0x40 != 0,
            independent: flags & 0x20 != 0,
            discardable: flags & 0x10 != 0,
            temporal_layer: if element.len() > 1 { flags & 7 } else { 0 },
            base_pictures: element.get(2).copied().unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_in_both_forms() {
        let marking = Marking {
            start: true,
            independent: true,
            temporal_layer: 1,
            base_pictures: 200,
            ..Marking::default()
        };
        assert_eq!(marking.to_bytes(), [0xa1, 0, 200]);
        assert_eq!(Marking::from_bytes(&marking.to_bytes()), Some(marking));
        let short = Marking::from_bytes(&[0xc1]).expect("the short form");
        assert!(short.start && short.end && !short.independent && short.temporal_layer == 0);
        assert_eq!(Marking::from_bytes(&[]), None);
    }
}
