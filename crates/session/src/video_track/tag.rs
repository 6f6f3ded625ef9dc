//! Tags of the messages of video tracks.

use antiphon_core::Tag;

use crate::send_track::{NUMBER_BITS, NUMBER_MASK};

/// The tag of a message of a unit of the video track at `index`; a bit above those of sound's copies marks it.
pub(crate) fn video_tag(index: usize, unit: u64) -> Tag {
    Tag(VIDEO | (index as u64 & 0xff) << NUMBER_BITS | unit & NUMBER_MASK)
}

/// The tag of a message that is sent again, of the video track at `index`.
pub(crate) fn again_tag(index: usize) -> Tag {
    video_tag(index, AGAIN)
}

/// Which video track a tag names, and which of its units, if it does; [`AGAIN`] for what was sent again.
pub(crate) fn video_of(tag: Tag) -> Option<(usize, u64)> {
    let is_video = tag != Tag::NONE && tag.0 & BESIDE == VIDEO;
    is_video.then_some(((tag.0 >> NUMBER_BITS) as usize & 0xff, tag.0 & NUMBER_MASK))
}

/// In place of a unit's number: no track has so many.
pub(crate) const AGAIN: u64 = NUMBER_MASK;

/// Of a tag: it is of a video track, or, with both bits, of a data track.
const VIDEO: u64 = 1 << 62;
pub(crate) const BESIDE: u64 = VIDEO | 1 << 61;
