//! What a session reports of its packets as they pass, for logs, meters and recordings.

use antiphon_core::{BrokenReason, Instant, NtpTime, Outcome, SendError};
use antiphon_media::packet::PacketInfo;
use antiphon_media::playout::Inserted;

use crate::store::Stored;

/// Receives a report of every packet. Called on the media thread, so it must not allocate, lock or wait: an observer
/// that writes to a file copies the report into a bounded queue.
pub trait Observer {
    /// Something passed.
    fn on(&mut self, now: Instant, seen: &Seen);
}

impl<F: FnMut(Instant, &Seen)> Observer for F {
    fn on(&mut self, now: Instant, seen: &Seen) {
        self(now, seen);
    }
}

/// What passes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Seen {
    /// The packets that follow are of another sender, or of the same one that restarted.
    Began {
        /// Rate of its time stamps, in Hz.
        rate: u32,
    },
    /// A packet of our sender arrived.
    Arrived(Arrived),
    /// A message was made and handed to the associations of one peer.
    Sent(Sent),
    /// A transport said what became of a message, or of its last copy.
    Outcome {
        /// The message's number; counts those of the track.
        number: u64,
        /// What became of it.
        outcome: Outcome,
    },
    /// A packet of pictures was handed to the association of one peer.
    PictureSent(PictureSent),
    /// A packet of the pictures that are followed came.
    PictureArrived {
        /// RTP's sequence number.
        sequence: u16,
        /// When it arrived.
        at: Instant,
    },
    /// The path to a peer is broken, while the session is not ending.
    Broken {
        /// Why.
        reason: BrokenReason,
    },
}

/// A packet of the sender that is followed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrived {
    /// The channel group it is of.
    pub group: usize,
    /// RTP's sequence number.
    pub sequence: u16,
    /// RTP's time stamp.
    pub timestamp: u32,
    /// The sender's clock at sending, if it says so.
    pub ntp: Option<NtpTime>,
    /// When it arrived.
    pub at: Instant,
    /// Bytes of the RTP packet.
    pub len: usize,
    /// Bytes of audio payload in it.
    pub payload: usize,
    /// Sample frames in it.
    pub frames: usize,
    /// Whether it had to be sent more than once, as far as this side knows.
    pub repaired: bool,
    /// Whether it came before.
    pub duplicate: bool,
    /// What the playout made of it; `None` for a duplicate, or a packet of another format than the stream's.
    pub inserted: Option<Inserted>,
}

/// A message of a track, on its way to one peer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sent {
    /// Counts up from 0 with the messages of the track, those of all groups together.
    pub number: u64,
    /// The channel group it is of.
    pub group: usize,
    /// Its RTP header.
    pub info: PacketInfo,
    /// Its size in bytes.
    pub len: usize,
    /// When its last sample was captured.
    pub due: Instant,
    /// Whether the transport took it.
    pub result: Result<(), SendError>,
}

/// A packet of a video track, on its way to one peer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PictureSent {
    /// Which video track it is of.
    pub track: usize,
    /// RTP's sequence number.
    pub sequence: u16,
    /// The number of its picture.
    pub picture: u64,
    /// Which of the picture's packets it is, counted from 0, and how many it has.
    pub part: (u32, u32),
    /// Whether what was sent since the last key frame is sent again, with this packet in it.
    pub is_again: bool,
    /// When its picture was due; of one that is sent again, when that was begun.
    pub due: Instant,
    /// Its size in bytes.
    pub len: usize,
    /// Whether the transport took it.
    pub result: Result<(), SendError>,
}

impl Sent {
    pub(crate) fn of(stored: &Stored, len: usize, result: Result<(), SendError>) -> Self {
        let Stored { number, group, info, due, .. } = *stored;
        Sent { number, group, info, len, due, result }
    }
}
