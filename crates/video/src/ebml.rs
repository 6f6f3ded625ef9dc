//! EBML (RFC 8794), as Matroska (RFC 9559) uses it: the elements that are read and written here.

/// Identifiers of elements, with their length marker.
pub(crate) mod id {
    pub const EBML: u32 = 0x1a45_dfa3;
    pub const DOC_TYPE: u32 = 0x4282;
    pub const SEGMENT: u32 = 0x1853_8067;
    pub const INFO: u32 = 0x1549_a966;
    pub const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;
    pub const TRACKS: u32 = 0x1654_ae6b;
    pub const TRACK_ENTRY: u32 = 0xae;
    pub const TRACK_NUMBER: u32 = 0xd7;
    pub const TRACK_TYPE: u32 = 0x83;
    pub const CODEC_ID: u32 = 0x86;
    pub const CODEC_PRIVATE: u32 = 0x63a2;
    pub const VIDEO: u32 = 0xe0;
    pub const PIXEL_WIDTH: u32 = 0xb0;
    pub const PIXEL_HEIGHT: u32 = 0xba;
    pub const CONTENT_ENCODINGS: u32 = 0x6d80;
    pub const CONTENT_ENCODING: u32 = 0x6240;
    pub const CONTENT_COMPRESSION: u32 = 0x5034;
    pub const CONTENT_COMP_ALGO: u32 = 0x4254;
    pub const CONTENT_COMP_SETTINGS: u32 = 0x4255;
    pub const CLUSTER: u32 = 0x1f43_b675;
    pub const TIMESTAMP: u32 = 0xe7;
    pub const SIMPLE_BLOCK: u32 = 0xa3;
    pub const BLOCK_GROUP: u32 = 0xa0;
    pub const BLOCK: u32 = 0xa1;
}

/// The size of an element that ends where one of another level begins.
pub(crate) const UNKNOWN_SIZE: u64 = u64::MAX;

/// How many bytes a number has whose first byte is this (RFC 8794 §4); 9 if it is none.
pub(crate) fn vint_len(first: u8) -> usize {
    first.leading_zeros() as usize + 1
}

/// A size (RFC 8794 §6): without its length marker; all ones are [`UNKNOWN_SIZE`].
pub(crate) fn size_of(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let mask = (1u64 << (7 * len)) - 1;
    if value & mask == mask { UNKNOWN_SIZE } else { value & mask }
}

/// An identifier: with its length marker.
pub(crate) fn id_of(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

/// An unsigned integer of at most eight bytes (RFC 8794 §7.2).
pub(crate) fn uint(body: &[u8]) -> u64 {
    body.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The elements in the body of a master element that is in memory; ends before the first that is cut off.
pub(crate) fn children(mut body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let id_len = vint_len(*body.first()?);
        let (id, rest) = body.split_at_checked(id_len).filter(|_| id_len <= 4)?;
        let size_len = vint_len(*rest.first()?);
        let (size, rest) = rest.split_at_checked(size_len).filter(|_| size_len <= 8)?;
        let (content, rest) = rest.split_at_checked(usize::try_from(size_of(size)).ok()?)?;
        body = rest;
        Some((id_of(id), content))
    })
}

/// The first child with that identifier.
pub(crate) fn child(body: &[u8], wanted: u32) -> Option<&[u8]> {
    children(body).find(|(id, _)| *id == wanted).map(|(_, content)| content)
}
