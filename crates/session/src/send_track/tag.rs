//! The tags of a track's messages, by which a transport tells what became of them.

use antiphon_core::Tag;

use crate::data_track::data_of;
use crate::protect::Emit;
use crate::video_track::video_of;

/// The tag of a copy of a message of a programme: above the message's 48 bits the copy's number, above these 8 the programme's.
pub(crate) fn tag(programme: usize, emit: Emit) -> Tag {
    let above = (programme as u64) << 8 | u64::from(emit.copy);
    Tag(above << NUMBER_BITS | emit.number & NUMBER_MASK)
}

/// The programme of the message that a tag names, and whether it names its first copy.
pub(crate) fn programme_of(tag: Tag) -> (usize, bool) {
    let above = tag.0 >> NUMBER_BITS;
    ((above >> 8) as usize, above & 0xff == 0)
}

/// The number of the message that a tag names; `None` for a tag that is no track message's.
pub(crate) fn number_of(tag: Tag) -> Option<u64> {
    (tag != Tag::NONE && video_of(tag).is_none() && data_of(tag).is_none()).then_some(tag.0 & NUMBER_MASK)
}

/// Bits of a tag that hold the message's number: enough for 8900 years of 1 ms packets.
pub(crate) const NUMBER_BITS: u32 = 48;
pub(crate) const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
