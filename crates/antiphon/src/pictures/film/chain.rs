//! Which of the pictures that came can be decoded, when some did not come.

use antiphon_video::ReceivedFrame;

/// What is missing of a stream of pictures since its last key frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    /// The lowest temporal layer of which a picture is missing that others need: those of this layer and above can't be decoded.
    missing: Option<u8>,
    /// Since then a picture came that could have been decoded.
    is_felt: bool,
}

impl Chain {
    /// Of a stream that was not seen from its beginning: a key frame comes first.
    pub fn new() -> Self {
        Chain { missing: Some(0), is_felt: false }
    }

    /// Whether nothing of what came can be decoded, nor will be until the next key frame.
    pub fn wants_key_frame(&self) -> bool {
        self.is_felt && self.missing == Some(0)
    }

    /// Whether nothing that comes now can be decoded.
    pub fn is_broken(&self) -> bool {
        self.missing == Some(0)
    }

    /// Pictures were left out that others may need.
    pub fn break_off(&mut self) {
        self.missing = Some(0);
    }

    /// The next picture, in the order of sending. Returns whether it can be decoded.
    pub fn on_picture(&mut self, received: &ReceivedFrame) -> bool {
        let picture = received.picture;
        match received.base_lost {
            _ if received.missing == 0 => {}
            // What is missing before it is of no layer that everything needs.
            Some(0) => self.miss(ABOVE),
            // Without marks, what is missing may have been needed.
            Some(_) | None => self.break_off(),
        }
        self.is_felt = true;
        if !received.is_whole() {
            if !picture.droppable {
                self.miss(picture.temporal_layer);
            }
            return false;
        }
        if picture.key {
            self.missing = None;
        }
        self.missing.is_none_or(|missing| picture.temporal_layer < missing)
    }

    fn miss(&mut self, layer: u8) {
        self.missing = Some(self.missing.map_or(layer, |missing| missing.min(layer)));
    }
}

/// The lowest layer that may need a picture of another than the base layer. In streams of two layers, none is needed above the base;
/// H.264, VP8 and AV1 are mostly sent so.
const ABOVE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_core::MediaTime;
    use antiphon_video::{Codec, Frame, Picture};

    fn received(picture: Picture, missing: u64, base_lost: Option<u8>) -> ReceivedFrame {
        let data = vec![1];
        let frame = Frame { codec: Codec::H264, time: MediaTime::new(0, 90_000), picture, data };
        ReceivedFrame { frame: Some(frame), timestamp: 0, packets: 1, missing, base_lost, picture }
    }

    fn picture(key: bool, droppable: bool, temporal_layer: u8) -> Picture {
        Picture { key, droppable, temporal_layer, size: None }
    }

    #[test]
    fn only_what_nothing_is_missing_of_can_be_decoded() {
        let (key, base, top) = (picture(true, false, 0), picture(false, false, 0), picture(false, true, 1));
        let whole = |picture| received(picture, 0, Some(0));
        let broken = |picture| ReceivedFrame { frame: None, ..received(picture, 1, Some(0)) };
        // What comes, whether it can be decoded, and whether a key frame is asked for then.
        let steps = [
            (whole(base), false, true),
            (whole(key), true, false),
            (whole(base), true, false),
            (broken(top), false, false),
            (whole(base), true, false),
            (received(top, 3, Some(0)), true, false),
            (broken(base), false, true),
            (whole(top), false, true),
            (whole(base), false, true),
            (received(key, 5, Some(2)), true, false),
            // A picture of the base layer is lost as a whole.
            (received(base, 2, Some(1)), false, true),
            (whole(key), true, false),
            // Nothing marks the pictures of this sender.
            (received(base, 0, None), true, false),
            (received(base, 1, None), false, true),
            (whole(key), true, false),
        ];
        let mut chain = Chain::new();
        assert!(!chain.wants_key_frame(), "before anything came");
        for (n, (received, decodable, wants)) in steps.iter().enumerate() {
            assert_eq!((chain.on_picture(received), chain.wants_key_frame()), (*decodable, *wants), "{n}");
        }
        chain.break_off();
        assert!(!chain.on_picture(&whole(base)));
    }

    #[test]
    fn lower_layers_go_on_without_the_upper_ones() {
        let (key, needed) = (picture(true, false, 0), picture(false, false, 2));
        let mut chain = Chain::new();
        assert!(chain.on_picture(&received(key, 0, None)));
        assert!(!chain.on_picture(&ReceivedFrame { frame: None, ..received(needed, 1, Some(0)) }));
        for (layer, decodable) in [(0, true), (1, true), (2, false), (3, false)] {
            assert_eq!(chain.on_picture(&received(picture(false, true, layer), 0, Some(0))), decodable);
        }
    }
}
