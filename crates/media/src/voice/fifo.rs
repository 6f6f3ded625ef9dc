//! The FIFO of a channel at its receiver.
//!
//! Data go in as they arrive, and a sink takes a byte every 125 us. An empty FIFO underflows: the sink gets something else,
//! and what comes then is taken later than it would have been. A full FIFO overflows: bytes that find no room are dropped,
//! and what follows is taken earlier. So nobody has to measure by how much two clocks differ.
//!
//! Transports may lose data or deliver them out of order, so bytes stand at the places that their time stamps tell. A place
//! whose bytes have not come when the sink gets there is passed over, as [`Piece::Missing`]. A pause that is shorter than what
//! the FIFO holds has places too, so that it keeps its length.

mod counters;
mod segments;

use super::pool::VoicePool;
use super::{NoiseLevel, QUIET};
use segments::Segments;

pub use counters::FifoCounters;

/// What the sink takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// Bytes of mu-law, as they were sent.
    Sound(&'a [u8]),
    /// In place of so many bytes that were sent and have not come.
    Missing(u64),
    /// So many bytes beside those of the sender, as the FIFO was empty.
    Underflow(u64),
    /// So many bytes of a pause, in which the sender sends nothing.
    Pause(u64, NoiseLevel),
}

impl Piece<'_> {
    /// Bytes that the sink takes.
    pub fn bytes(&self) -> u64 {
        match self {
            Piece::Sound(sound) => sound.len() as u64,
            Piece::Missing(bytes) | Piece::Underflow(bytes) | Piece::Pause(bytes, _) => *bytes,
        }
    }
}

/// The bytes of one channel between its arrival and its sink, in segments of a [`VoicePool`], which is the same at each call.
#[derive(Debug)]
pub struct VoiceFifo {
    /// Bytes that it may hold.
    len: usize,
    segments: Segments,
    /// Bytes taken or passed so far.
    read: u64,
    /// Place behind the last byte.
    end: u64,
    /// Where that is in the sender's stream.
    end_sent: u64,
    /// Places before `end` without bytes of the sender, ascending.
    holes: Vec<Hole>,
    /// Places before `end` that are counted and filled with silence, as more holes could not be remembered.
    filled: u64,
    /// What the sink wanted since the FIFO is empty: an underflow if the sender goes on, and nothing if that was the end.
    idle: u64,
    pause: Option<Pause>,
    started: bool,
    counters: FifoCounters,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    at: u64,
    len: u64,
    /// Its first byte in the sender's stream.
    sent: u64,
    why: Why,
}

/// Why there are no bytes at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// They have not come, and may still.
    Late,
    /// They are of a stream before this one, and would not be known any more.
    Gone,
    /// The sender pauses.
    Pause(NoiseLevel),
}

/// The sender sends nothing.
#[derive(Clone, Copy, Debug)]
struct Pause {
    level: NoiseLevel,
    /// Where it began in the sender's stream.
    began: u64,
}

impl VoiceFifo {
    /// Bytes that it has beside itself and its segments.
    pub const BESIDE: usize = MOST_HOLES * size_of::<Hole>();

    /// An empty FIFO for so many bytes, at least one.
    pub fn new(len: usize) -> Self {
        VoiceFifo {
            len: len.max(1),
            segments: Segments::none(),
            read: 0,
            end: 0,
            end_sent: 0,
            holes: Vec::with_capacity(MOST_HOLES),
            filled: 0,
            idle: 0,
            pause: None,
            started: false,
            counters: FifoCounters::default(),
        }
    }

    /// What it has counted so far.
    pub fn counters(&self) -> FifoCounters {
        self.counters
    }

    /// Bytes in it, those that have not come included.
    pub fn level(&self) -> usize {
        (self.end - self.read) as usize
    }

    /// Lets it hold `len` bytes, if it may hold fewer; returns how many more these are.
    pub fn grow(&mut self, len: usize) -> usize {
        let more = len.saturating_sub(self.len);
        self.len += more;
        more
    }

    /// Bytes for which there is room, in itself and in the pool.
    fn room(&self, pool: &VoicePool) -> usize {
        (self.len - self.level()).min(self.segments.room(self.level()) + pool.room())
    }

    /// The noise of the pause that the sink has come to: the sender pauses, and everything before the pause was taken.
    pub fn pausing(&self) -> Option<NoiseLevel> {
        self.pause.filter(|_| self.end == self.read).map(|pause| pause.level)
    }

    /// The sink takes so many bytes of a pause that has ended while it waits for the sound behind it.
    pub fn wait(&mut self, bytes: u64, level: NoiseLevel, each: &mut impl FnMut(Piece<'_>)) {
        if bytes > 0 {
            self.counters.pause += bytes;
            each(Piece::Pause(bytes, level));
        }
    }

    /// What comes next may stand anywhere in the sender's stream: the sender was gone for a while.
    pub fn restart(&mut self) {
        (self.started, self.pause, self.idle) = (false, None, 0);
    }

    /// Takes in bytes that arrived; `timestamp` says where in the sender's stream they stand.
    pub fn push(
        &mut self,
        pool: &mut VoicePool,
        timestamp: u32,
        sound: &[u8],
        each: &mut impl FnMut(Piece<'_>),
    ) {
        let Some(place) = self.place(timestamp) else { return };
        let old = self.end_sent.saturating_sub(place).min(sound.len() as u64) as usize;
        if old > 0 {
            self.repair(pool, place, &sound[..old]);
        }
        if old == sound.len() {
            return;
        }
        let (begins, new) = (place + old as u64, &sound[old..]);
        match self.pause.take() {
            Some(pause) => self.pass_pause(pool, pause, begins, new.len(), each),
            None => self.pass_gap(pool, begins - self.end_sent, each),
        }
        let at = self.end;
        let room = self.extend(pool, new.len());
        self.write(pool, at, &new[..room]);
        self.end_sent = place + sound.len() as u64;
        self.counters.overflow += (new.len() - room) as u64;
    }

    /// The sender pauses at `timestamp`, with noise of this level.
    pub fn begin_pause(
        &mut self,
        pool: &mut VoicePool,
        timestamp: u32,
        level: NoiseLevel,
        each: &mut impl FnMut(Piece<'_>),
    ) {
        let Some(place) = self.place(timestamp) else { return };
        if place < self.end_sent {
            // Sound that was sent later has overtaken it.
            return;
        }
        let began = match self.pause {
            Some(pause) => pause.began,
            None => {
                self.pass_gap(pool, place - self.end_sent, each);
                place
            }
        };
        self.pause = Some(Pause { level, began });
        self.end_sent = place;
    }

    /// The sink takes so many bytes.
    pub fn take(&mut self, pool: &mut VoicePool, bytes: u64, each: &mut impl FnMut(Piece<'_>)) {
        let until = self.end.min(self.read + bytes);
        let beyond = bytes - (until - self.read);
        while self.read < until {
            let hole = self.holes.first().copied();
            let stop = hole.map_or(until, |hole| hole.at.clamp(self.read, until));
            if stop > self.read {
                self.take_sound(pool, (stop - self.read) as usize, each);
            } else if let Some(hole) = hole {
                self.pass_hole(pool, hole, hole.len.min(until - self.read), each);
            }
        }
        match self.pause {
            _ if beyond == 0 || !self.started => {}
            Some(pause) => self.wait(beyond, pause.level, each),
            None => self.idle += beyond,
        }
    }

    /// Where `timestamp` stands in the sender's stream; `None` where it is that of an old datum before the first.
    fn place(&mut self, timestamp: u32) -> Option<u64> {
        let ahead = i64::from(timestamp.wrapping_sub(self.end_sent as u32) as i32);
        if !self.started || ahead.abs() > LONGEST_JUMP {
            // Begins anew here: no old place may be negative.
            self.started = true;
            self.end_sent = (1 << 32) + u64::from(timestamp);
            self.holes.iter_mut().filter(|hole| hole.why == Why::Late).for_each(|hole| hole.why = Why::Gone);
            if let Some(pause) = &mut self.pause {
                pause.began = self.end_sent;
            }
            return Some(self.end_sent);
        }
        self.end_sent.checked_add_signed(ahead)
    }

    /// The FIFO goes on behind `gap` bytes that have not come. Of these the sink has passed as many as it found the FIFO
    /// empty for; the rest may still come.
    fn pass_gap(&mut self, pool: &mut VoicePool, gap: u64, each: &mut impl FnMut(Piece<'_>)) {
        let idle = std::mem::take(&mut self.idle);
        let passed = idle.min(gap);
        self.counters.missing += passed;
        self.counters.underflow += idle - passed;
        if passed > 0 {
            each(Piece::Missing(passed));
        }
        if idle > passed {
            each(Piece::Underflow(idle - passed));
        }
        let len = (gap - passed).min(self.room(pool) as u64);
        // What there is no room to wait for is missing at once.
        self.counters.missing += gap - passed - len;
        self.leave_out(pool, len, self.end_sent + passed, Why::Late);
    }

    /// The FIFO goes on behind a pause that ends at `ends` of the sender's stream, with a datum of so many bytes. A sink that
    /// has come to the pause has heard it, for as long as that was; another one has it before it, as far as it has room beside the datum.
    fn pass_pause(
        &mut self,
        pool: &mut VoicePool,
        pause: Pause,
        ends: u64,
        datum: usize,
        each: &mut impl FnMut(Piece<'_>),
    ) {
        self.pass_gap(pool, 0, each);
        if self.level() > 0 {
            let room = self.room(pool).saturating_sub(datum) as u64;
            self.leave_out(pool, (ends - pause.began).min(room), pause.began, Why::Pause(pause.level));
        }
    }

    /// So many places at the end have no bytes; `sent`: where the first is in the sender's stream.
    fn leave_out(&mut self, pool: &mut VoicePool, len: u64, sent: u64, why: Why) {
        if len == 0 {
            return;
        }
        let at = self.end;
        // There is room for them; usize is at least as wide as a FIFO is long.
        let len = self.extend(pool, len as usize) as u64;
        if self.holes.len() < MOST_HOLES {
            return self.holes.push(Hole { at, len, sent, why });
        }
        match why {
            Why::Pause(_) => self.counters.pause += len,
            Why::Late | Why::Gone => self.counters.missing += len,
        }
        self.filled += len;
        self.fill(pool, at, len as usize);
    }

    /// Puts bytes of an earlier place where they are missing.
    fn repair(&mut self, pool: &mut VoicePool, place: u64, sound: &[u8]) {
        let mut late = sound.len() as u64;
        let mut at = 0;
        while let Some(hole) = self.holes.get(at).copied() {
            let from = place.max(hole.sent);
            let to = (place + sound.len() as u64).min(hole.sent + hole.len);
            if from >= to || hole.why != Why::Late {
                at += 1;
                continue;
            }
            let (before, behind) = (from - hole.sent, hole.sent + hole.len - to);
            if before > 0 && behind > 0 && self.holes.len() == MOST_HOLES {
                // It would become two, of which one could not be remembered.
                break;
            }
            self.write(pool, hole.at + before, &sound[(from - place) as usize..(to - place) as usize]);
            late -= to - from;
            let rest = Hole { at: hole.at + hole.len - behind, len: behind, sent: to, ..hole };
            match (before, behind) {
                (0, 0) => drop(self.holes.remove(at)),
                (0, _) => self.holes[at] = rest,
                (_, 0) => self.holes[at].len = before,
                _ => {
                    self.holes[at].len = before;
                    self.holes.insert(at + 1, rest);
                }
            }
        }
        self.counters.late += late;
    }

    fn take_sound(&mut self, pool: &mut VoicePool, len: usize, each: &mut impl FnMut(Piece<'_>)) {
        let mut left = len;
        while left > 0 {
            let first = self.segments.first(pool);
            let part = &first[..left.min(first.len())];
            each(Piece::Sound(part));
            let taken = part.len();
            self.pass(pool, taken as u64);
            left -= taken;
        }
        // Which of them are silence is not known any more; when all are taken the sum is right.
        let filled = self.filled.min(len as u64);
        self.filled -= filled;
        self.counters.taken += len as u64 - filled;
    }

    /// The sink passes the first bytes of the first hole.
    fn pass_hole(&mut self, pool: &mut VoicePool, hole: Hole, len: u64, each: &mut impl FnMut(Piece<'_>)) {
        if len == hole.len {
            self.holes.remove(0);
        } else {
            self.holes[0] = Hole { at: hole.at + len, len: hole.len - len, sent: hole.sent + len, ..hole };
        }
        self.pass(pool, len);
        if let Why::Pause(level) = hole.why {
            return self.wait(len, level, each);
        }
        self.counters.missing += len;
        each(Piece::Missing(len));
    }

    /// So many bytes are taken or passed.
    fn pass(&mut self, pool: &mut VoicePool, bytes: u64) {
        self.read += bytes;
        self.segments.pass(pool, bytes as usize, self.level());
    }

    /// Adds places for `len` bytes at the end, or as many as there is room for; returns how many.
    fn extend(&mut self, pool: &mut VoicePool, len: usize) -> usize {
        let level = self.level();
        let room = self.segments.extend(pool, level, len.min(self.len - level));
        self.end += room as u64;
        room
    }

    fn write(&mut self, pool: &mut VoicePool, place: u64, mut sound: &[u8]) {
        self.segments.each_part(pool, (place - self.read) as usize, sound.len(), |bytes| {
            let (part, rest) = sound.split_at(bytes.len());
            bytes.copy_from_slice(part);
            sound = rest;
        });
    }

    fn fill(&mut self, pool: &mut VoicePool, place: u64, len: usize) {
        self.segments.each_part(pool, (place - self.read) as usize, len, |bytes| bytes.fill(QUIET));
    }
}

/// More holes at once are filled with silence: a path that loses every second datum has no more.
const MOST_HOLES: usize = 8;
/// A time stamp further away begins a new stream: a minute.
const LONGEST_JUMP: i64 = 60 * super::VOICE_RATE as i64;

#[cfg(test)]
mod tests;
