//! The state of one channel group in the playout buffer: its packets, their numbers, its gaps.

use std::ops::Range;

use super::history::{History, Novelty};
use super::store::{Record, Store};
use super::{Cause, Clocking, PlayoutCounters};
use crate::conceal::{Conceal, Gap};
use crate::packet::MediaPacket;

pub(super) struct Lane {
    /// The lane's channels within a sample frame.
    pub channels: Range<usize>,
    pub store: Store,
    pub history: History,
    conceal: Box<dyn Conceal>,
    /// Whether missing sound is made up by the decoder of its packets.
    pub decoder_conceals: bool,
    /// Whether any of its sound has been played: before that, nothing is concealed.
    begun: bool,
    in_gap: bool,
    /// A gap that has begun: the packet that was not there, and why sound was concealed.
    pub opened: Option<(Option<u64>, Cause)>,
    /// Sequence number after the last packet played.
    pub next_sequence: Option<u64>,
    /// Sample frames of the last packet: the unit of concealment.
    pub unit: usize,
    /// The next sound, as determined by [`Self::plan`].
    next: Next,
    pub counters: PlayoutCounters,
}

/// What a lane plays at a place in media time, and for how many sample frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Nothing now: missing packets may still come, and no clock requires sound.
    Wait,
    /// Nothing of its own: it has ended, or is not waited for. The others decide.
    Idle,
    /// Sound of the first packet that waits.
    Play(usize),
    /// The sender advanced media time without skipping a sequence number: silence.
    Pause(usize),
    /// The stream has ended: the device gets silence.
    Over(usize),
    /// Sound is missing; `hole`: sample frames up to the next packet, if one waits.
    MakeUp { frames: usize, hole: Option<usize>, cause: Cause },
}

/// State common to all lanes when the next stretch is planned.
#[derive(Clone, Copy)]
pub(super) struct Timing {
    pub clocking: Clocking,
    pub finished: bool,
    /// Whether nothing is left to be played or concealed.
    pub is_over: bool,
    pub playing: bool,
    /// Whether all packets received fit while others are waited for.
    pub has_room: bool,
}

/// What a lane played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gave {
    Sound,
    Silence,
    MadeUp(Cause),
}

/// Packets that are waited for at the beginning, since earlier ones may still come: as far as RFC 3550 A.1 lets a packet come late.
const FIRST_PATIENCE: usize = 100;

impl Lane {
    pub fn new(channels: Range<usize>, store: Store, unit: usize, conceal: Box<dyn Conceal>) -> Self {
        Lane {
            store,
            decoder_conceals: false,
            channels,
            history: History::new(),
            conceal,
            begun: false,
            in_gap: false,
            opened: None,
            next_sequence: None,
            unit,
            next: Next::Idle,
            counters: PlayoutCounters::default(),
        }
    }

    /// Whether a packet is new; the caller counts the others.
    pub fn note(&mut self, packet: &MediaPacket<'_>) -> Novelty {
        self.counters.inserted += 1;
        let novelty = self.history.note(packet.sequence);
        self.counters.reordered += u64::from(novelty == Novelty::New { reordered: true });
        novelty
    }

    /// Determines the sound at `position`, at most `room` sample frames.
    pub fn plan(&mut self, position: u64, room: usize, timing: Timing) -> Next {
        self.next = self.find(position, room, timing);
        self.next
    }

    fn find(&self, position: u64, room: usize, timing: Timing) -> Next {
        let is_patient = match timing.clocking {
            Clocking::Unhurried { patience } => {
                !timing.finished && timing.has_room && self.store.len() <= patience
            }
            Clocking::Sender | Clocking::Sink => false,
        };
        let Some(record) = self.store.front() else {
            return match timing.clocking {
                Clocking::Unhurried { .. } if is_patient => Next::Wait,
                Clocking::Unhurried { .. } => Next::Idle,
                Clocking::Sender if timing.is_over => Next::Idle,
                // A device must have its block even after the end.
                Clocking::Sink if timing.is_over => Next::Over(room),
                _ => Next::MakeUp { frames: room.min(self.unit), hole: None, cause: Cause::Starved },
            };
        };
        if record.start <= position {
            // What was sent before the first packet may still come, but not for long.
            let waits = !timing.playing && is_patient && self.store.len() <= FIRST_PATIENCE;
            let left = usize::try_from(record.end() - position).unwrap_or(room);
            return if waits { Next::Wait } else { Next::Play(left.min(room)) };
        }
        let hole = usize::try_from(record.start - position).unwrap_or(usize::MAX);
        if self.next_sequence == Some(record.sequence) {
            return Next::Pause(hole.min(room));
        }
        let made_up = |frames| Next::MakeUp { frames, hole: Some(hole), cause: Cause::Missing };
        match timing.clocking {
            Clocking::Unhurried { .. } if is_patient => Next::Wait,
            // A missing packet's deadline is that of its first sample frame; after it, the whole packet is missing.
            Clocking::Sender => made_up(hole.min(room).min(self.unit)),
            _ => made_up(hole.min(room)),
        }
    }

    /// Whether the sound that is planned is concealment.
    pub fn conceals(&self) -> bool {
        self.begun && matches!(self.next, Next::MakeUp { .. } | Next::Idle)
    }

    /// Fills `out` with the sound planned for `position`, or its beginning.
    pub fn give(&mut self, position: u64, out: &mut [f32]) -> Gave {
        match (self.next, self.store.front()) {
            (Next::Play(_), Some(record)) => self.play(record, position, out),
            (Next::Pause(_), _) => self.pause(out),
            (Next::Over(_), _) => {
                out.fill(0.0);
                Gave::Silence
            }
            (Next::MakeUp { hole, cause, .. }, _) => self.make_up(hole, cause, out),
            _ => self.make_up(None, Cause::Starved, out),
        }
    }

    fn frames(&self, out: &[f32]) -> usize {
        out.len() / self.channels.len()
    }

    fn play(&mut self, record: Record, position: u64, out: &mut [f32]) -> Gave {
        let frames = self.frames(out);
        self.store.decode_until(position + 1);
        self.store.read(position, out);
        self.conceal.good(out);
        (self.begun, self.in_gap) = (true, false);
        if !record.late {
            // The remainder of a packet is not a valid unit, and tiny packets must not cause many tiny gaps.
            self.unit = record.frames.max(16);
        }
        self.counters.played_frames += frames as u64;
        if position + frames as u64 >= record.end() {
            self.store.pop();
            self.next_sequence = Some(record.sequence + 1);
            if !record.late {
                self.counters.played += 1;
                self.history.resolve(record.sequence);
            }
        }
        Gave::Sound
    }

    pub fn make_up(&mut self, hole: Option<usize>, cause: Cause, out: &mut [f32]) -> Gave {
        if !self.begun {
            out.fill(0.0);
            return Gave::Silence;
        }
        if self.decoder_conceals && self.store.make_up(hole, out) {
            // Where sound is left out later, the next is blended with this.
            self.conceal.good(out);
        } else {
            let wanted = self.conceal.look_ahead();
            let ahead = match (wanted, self.store.front()) {
                (1.., Some(record)) if cause != Cause::Resync => self.store.peek(record, wanted),
                _ => &[],
            };
            self.conceal.lost(Gap { remaining: hole, ahead }, out);
        }
        if !std::mem::replace(&mut self.in_gap, true) {
            self.counters.concealments += 1;
            self.opened = Some((self.next_sequence, cause));
        }
        self.counters.concealed_frames += self.frames(out) as u64;
        Gave::MadeUp(cause)
    }

    fn pause(&mut self, out: &mut [f32]) -> Gave {
        out.fill(0.0);
        self.conceal.good(out);
        self.in_gap = false;
        self.counters.paused_frames += self.frames(out) as u64;
        Gave::Silence
    }

    /// Sound is left out here: the next sound is blended with the last, as after a gap of zero length.
    pub fn join(&mut self) {
        if self.begun && !self.in_gap {
            self.conceal.lost(Gap { remaining: Some(0), ahead: &[] }, &mut []);
        }
    }

    /// Discards waiting packets.
    pub fn flush(&mut self) {
        self.discard_until(u64::MAX);
        self.next_sequence = None;
    }

    /// Discards packets that end by then.
    pub fn discard_until(&mut self, media: u64) {
        while let Some(record) = self.store.front().filter(|record| record.end() <= media) {
            self.store.pop();
            if !record.late {
                self.counters.discarded += 1;
                self.history.resolve(record.sequence);
            }
            self.next_sequence = Some(record.sequence + 1);
        }
    }

    /// Another stream: waiting packets are dropped, numbers restart; the totals continue.
    pub fn restart(&mut self) {
        self.flush();
        self.renumber();
        self.store.restart();
    }

    /// Numbers restart; waiting packets are still played, but counted now.
    pub fn renumber(&mut self) {
        for record in self.store.iter_mut().filter(|record| !record.late) {
            record.late = true;
            self.counters.played += 1;
            self.history.resolve(record.sequence);
        }
        self.counters.lost += self.history.lost(0);
        (self.history, self.next_sequence) = (History::new(), None);
    }

    pub fn totals(&self) -> PlayoutCounters {
        let overtaken = self.store.count(|record| !record.late && self.history.is_passed(record.sequence));
        PlayoutCounters {
            buffered: self.store.count(|record| !record.late),
            lost: self.counters.lost + self.history.lost(overtaken),
            ..self.counters
        }
    }
}
