//! Sends data beside the sound of a session, in pieces that say where they belong: last in precedence, behind the sound and the pictures.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{BitRate, Instant, Tag};
use antiphon_media::packet::{DATA_HEADER, DataPlace, DataStream, MOST_DATA};

use crate::send_track::NUMBER_BITS;
use crate::video_track::BESIDE;

/// Data tracks of a session, at most.
pub const MOST_DATA_TRACKS: usize = 4;
/// Bytes of a piece, at most: on a path of 120 kbit/s the sound waits behind its packet for 40 ms.
pub const MOST_PIECE: usize = 600 - DATA_HEADER;
/// Bytes of all pieces of a track together, at most: what a peer says of offsets makes no larger file.
pub const MOST_TRACK: u64 = 1 << 30;
const _: () = assert!(MOST_TRACK < MOST_DATA);

/// Where the data of a track come from: in practice, a queue that a reading thread fills.
pub trait DataSource: Send {
    /// The next piece, if one has been read. It is not empty.
    fn pull(&mut self) -> Option<DataPiece>;

    /// Whether all was read and pulled.
    fn is_ended(&mut self) -> bool;

    /// Whether it comes as long as somebody writes it, so that the end of the sound does not wait for its end.
    fn is_live(&self) -> bool;
}

/// A piece of data.
#[derive(Clone, Debug)]
pub struct DataPiece {
    /// A record begins with it: one from which a reader can go on after a hole.
    pub begins: bool,
    len: u16,
    bytes: [u8; MOST_PIECE],
}

impl DataPiece {
    /// A piece of these bytes, of which there are not more than [`MOST_PIECE`].
    pub fn new(begins: bool, from: &[u8]) -> Self {
        let mut bytes = [0; MOST_PIECE];
        bytes[..from.len()].copy_from_slice(from);
        DataPiece { begins, len: from.len() as u16, bytes }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// How a data track is sent.
#[derive(Clone, Copy, Debug)]
pub struct DataTrackConfig {
    /// Which of the sender's data tracks it is, below [`MOST_DATA_TRACKS`].
    pub track: u8,
    /// RTP's number for it.
    pub payload_type: u8,
    /// SSRC of the sound that it goes beside.
    pub sound: u32,
    /// Seed of its SSRC and first number.
    pub seed: u64,
    /// Sends no more than this, in all packets.
    pub rate: Option<BitRate>,
    /// How long after it was read a piece is of use; `None`: for ever.
    pub deadline: Option<Duration>,
}

/// A data track's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataTrackCounters {
    /// Bytes of data handed to the transport.
    pub bytes: u64,
    /// Pieces in them.
    pub pieces: u64,
    /// Pieces that were left out, as their deadline had passed.
    pub expired: u64,
    /// Pieces that the transport refused, or gave up.
    pub refused: u64,
    /// The data have ended, and all of them were handed over or counted above.
    pub ended: bool,
}

/// A data track.
pub struct DataTrack {
    source: Box<dyn DataSource>,
    config: DataTrackConfig,
    stream: DataStream,
    buf: Vec<u8>,
    /// Pieces that were read, and when.
    waiting: VecDeque<(Instant, DataPiece)>,
    /// Offset of the first one.
    offset: u64,
    /// The end of a live source is waited for no longer.
    is_cut: bool,
    /// Times at which the end is still told.
    ends: u32,
    /// Pieces that have no outcome yet.
    open: usize,
    /// Bytes that may leave at once, and when they were counted.
    credit: f64,
    credited: Instant,
    next: Option<Instant>,
    /// When a piece last left, or had its outcome.
    progress: Instant,
    counters: DataTrackCounters,
}

/// What a track may send now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataWay {
    /// Bytes a second at most, where nothing else tells.
    pub pace: Option<f64>,
    /// Pieces without an outcome, at most.
    pub most_open: usize,
}

/// A packet of a data track.
#[derive(Debug)]
pub(crate) struct DataPacket<'a> {
    pub bytes: &'a [u8],
    pub deadline: Option<Instant>,
}

impl DataTrack {
    /// A track of what `source` gives.
    pub fn new(source: Box<dyn DataSource>, config: DataTrackConfig) -> Self {
        DataTrack {
            source,
            stream: DataStream::new(config.track, config.payload_type, config.sound, config.seed),
            config,
            buf: vec![0; DATA_HEADER + MOST_PIECE],
            waiting: VecDeque::with_capacity(WAITING),
            offset: 0,
            is_cut: false,
            ends: ENDS,
            open: 0,
            credit: 0.0,
            credited: Instant::ZERO,
            next: Some(Instant::ZERO),
            progress: Instant::ZERO,
            counters: DataTrackCounters::default(),
        }
    }

    /// Totals.
    pub fn counters(&self) -> DataTrackCounters {
        self.counters
    }

    /// The sound that it goes beside has another SSRC.
    pub(crate) fn set_sound(&mut self, sound: u32) {
        self.stream.set_sound(sound);
    }

    /// When [`Self::poll`] has something to do.
    pub(crate) fn next_call(&self) -> Option<Instant> {
        self.next
    }

    /// The sound has ended: what a live source gives later is not sent any more.
    pub(crate) fn end(&mut self) {
        self.is_cut |= self.source.is_live();
    }

    /// Whether all was sent and is settled.
    pub(crate) fn is_over(&self) -> bool {
        self.ends == 0 && self.open == 0
    }

    /// When a piece last left, or had its outcome.
    pub(crate) fn progress(&self) -> Instant {
        self.progress
    }

    /// Nothing is sent before this instant.
    pub(crate) fn hold(&mut self, until: Instant) {
        self.next = Some(until);
    }

    /// Takes what was read: its time counts from now.
    pub(crate) fn read(&mut self, now: Instant) {
        while self.waiting.len() < WAITING && !self.is_cut {
            let Some(piece) = self.source.pull() else { break };
            self.waiting.push_back((now, piece));
        }
    }

    /// The next packet, if there is one and it may leave.
    pub(crate) fn poll(&mut self, now: Instant, way: DataWay) -> Option<DataPacket<'_>> {
        self.read(now);
        let life = self.config.deadline;
        while let Some((came, piece)) = self.waiting.front()
            && life.is_some_and(|life| now.since(*came) > life)
        {
            // Where it was is a hole.
            self.offset += piece.bytes().len() as u64;
            self.counters.expired += 1;
            self.waiting.pop_front();
        }
        let is_end = self.waiting.is_empty();
        if is_end && !(self.is_cut || self.source.is_ended()) {
            self.next = Some(now + ASK_AGAIN);
            return None;
        }
        if is_end && self.ends == 0 {
            self.next = None;
            return None;
        }
        if self.open >= way.most_open {
            self.next = Some(now + ASK_SOON);
            return None;
        }
        if let Some(wait) = self.pace(now, way) {
            self.next = Some(now + wait);
            return None;
        }
        let (came, piece) = match self.waiting.front() {
            Some((came, piece)) => (*came, Some(piece)),
            None => (now, None),
        };
        let place = DataPlace {
            track: self.config.track,
            offset: self.offset,
            begins: piece.is_some_and(|piece| piece.begins),
            ends: piece.is_none(),
        };
        let len = self.stream.packet(place, piece.map_or(&[], DataPiece::bytes), &mut self.buf)?;
        Some(DataPacket { bytes: &self.buf[..len], deadline: life.map(|life| came + life) })
    }

    /// How long the next packet has to wait for its pace.
    fn pace(&mut self, now: Instant, way: DataWay) -> Option<Duration> {
        let own = self.config.rate.map(|rate| rate.0 as f64 / 8.0);
        let rate = own.or(way.pace)?.max(1.0);
        let gained = rate * now.since(self.credited).as_secs_f64();
        let most = (rate * BURST.as_secs_f64()).max(1.0);
        (self.credit, self.credited) = ((self.credit + gained).min(most), now);
        (self.credit < 0.0)
            .then(|| Duration::from_secs_f64(-self.credit / rate).clamp(ASK_SOON, LONGEST_PAUSE))
    }

    /// What [`Self::poll`] gave found no room: it gives it again.
    pub(crate) fn on_blocked(&mut self, now: Instant) {
        self.next = Some(now + ASK_SOON);
    }

    /// What [`Self::poll`] gave was handed over: so many peers took it, and refused it.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: usize, (taken, refused): (usize, u64)) {
        self.stream.advance();
        self.credit -= bytes as f64;
        self.open += taken;
        (self.progress, self.next) = (now, Some(now));
        match self.waiting.pop_front() {
            Some((_, piece)) => {
                let len = piece.bytes().len() as u64;
                self.offset += len;
                self.counters.pieces += u64::from(taken > 0);
                self.counters.bytes += if taken > 0 { len } else { 0 };
                self.counters.refused += refused;
            }
            None => {
                self.ends = self.ends.saturating_sub(1);
                self.counters.ended = true;
                self.next = Some(now + END_GAP);
            }
        }
    }

    /// A piece has its outcome.
    pub(crate) fn on_outcome(&mut self, now: Instant, is_expired: bool, is_lost: bool) {
        self.open = self.open.saturating_sub(1);
        self.progress = now;
        self.counters.expired += u64::from(is_expired);
        self.counters.refused += u64::from(is_lost);
    }
}

/// The tag of the messages of the data track at `index`.
pub(crate) fn data_tag(index: usize) -> Tag {
    Tag(BESIDE | (index as u64 & 0xff) << NUMBER_BITS)
}

/// Which data track a tag names, if it does.
pub(crate) fn data_of(tag: Tag) -> Option<usize> {
    (tag != Tag::NONE && tag.0 & BESIDE == BESIDE).then_some((tag.0 >> NUMBER_BITS) as usize & 0xff)
}

/// Pieces that wait here: a tenth of a second of 5 Mbit/s.
const WAITING: usize = 128;
/// Times at which the end is told, as goodbyes are, and how far apart.
const ENDS: u32 = 3;
const END_GAP: Duration = Duration::from_millis(30);
/// How soon a source that had nothing is asked again, and a transport that has no room.
const ASK_AGAIN: Duration = Duration::from_millis(10);
const ASK_SOON: Duration = Duration::from_millis(5);
/// What may leave at once where a rate is given, and the longest time to the next packet.
const BURST: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
