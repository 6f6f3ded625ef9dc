//! Where the pictures of a track come from.

use std::time::Duration;

/// Pictures to send, cut into the payloads of RTP packets. Called on the media thread: neither blocks nor allocates nor
/// locks; what reads and cuts files does so on a thread of its own.
pub trait VideoSource: Send {
    /// The next payload, in the order of sending; the same one until [`Self::take`]. `None`: nothing is ready.
    fn next(&mut self) -> Option<VideoPayload<'_>>;

    /// The payload of [`Self::next`] is done with.
    fn take(&mut self);

    /// Whether no payload will follow.
    fn is_ended(&mut self) -> bool;

    /// What the way to the receiver is like, once for each access unit: a source that has its pictures in several rates chooses by it.
    fn on_way(&mut self, way: VideoWay);
}

/// The way of pictures to their receiver, as a source is told of it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct VideoWay {
    /// What the pictures may take of the path, in bytes a second, if that is known.
    pub rate: Option<f64>,
    /// Whether pictures have waited for it since the last call.
    pub is_held: bool,
    /// Access units left out so far.
    pub left_out: u64,
    /// How long after it was due the present one was begun.
    pub late: Duration,
}

/// A payload of an access unit: of one picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VideoPayload<'a> {
    /// Counts access units.
    pub unit: u64,
    /// Which of the unit's payloads it is, and of how many.
    pub part: (u32, u32),
    /// When the unit may be sent, after the track began: with the picture, or earlier if others need it first.
    pub due: Duration,
    /// When its picture is shown, after the track began.
    pub shown: Duration,
    /// Whether it can be decoded by itself.
    pub is_key: bool,
    /// Whether others can't be decoded without it.
    pub is_needed: bool,
    /// Its temporal layer, 0 for the lowest.
    pub layer: u8,
    /// What the payload format has made.
    pub bytes: &'a [u8],
}

/// A payload without its bytes.
pub(super) struct Head {
    pub unit: u64,
    pub part: (u32, u32),
    pub due: Duration,
    pub shown: Duration,
    pub is_key: bool,
    pub is_needed: bool,
    pub layer: u8,
    pub len: usize,
}

impl Head {
    pub fn of(payload: &VideoPayload<'_>) -> Self {
        let VideoPayload { unit, part, due, shown, is_key, is_needed, layer, bytes } = *payload;
        Head { unit, part, due, shown, is_key, is_needed, layer, len: bytes.len() }
    }
}
