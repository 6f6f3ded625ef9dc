//! Marks of a frame in the header of each of its packets ([`Marking`]).

pub use antiphon_media::packet::Marking;

use crate::frame::Picture;

/// Marks of a packet of a picture. `start` and `end`: whether it is the frame's first and last one; `base_pictures`: of the
/// base layer so far, modulo 256.
pub(crate) fn marks(picture: &Picture, start: bool, end: bool, base_pictures: u8) -> Marking {
    Marking {
        start,
        end,
        independent: picture.key,
        discardable: picture.droppable,
        temporal_layer: picture.temporal_layer.min(7),
        base_pictures,
    }
}

/// A header extension with the marks alone.
pub(crate) fn extension(marking: Marking, id: u8) -> [u8; 1 + Marking::BYTES] {
    let [flags, layer, base] = marking.to_bytes();
    [id << 4 | (Marking::BYTES as u8 - 1), flags, layer, base]
}

/// The identifier of the element unless the two ends agree on another.
pub const MARKING_ID: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_media::packet::ExtensionIds;

    #[test]
    fn marks_have_the_identifier_that_receivers_look_for() {
        assert_eq!(ExtensionIds::default().marking, Some(MARKING_ID));
        let picture = Picture { key: true, temporal_layer: 9, ..Picture::default() };
        let marking = marks(&picture, true, false, 200);
        assert_eq!(extension(marking, 5), [0x52, 0xa7, 0, 200]);
        assert_eq!(Marking::from_bytes(&extension(marking, 5)[1..]), Some(marking));
    }
}
