//! The way out of the playout buffer: what goes out next, and what is made up in its place.

use std::time::Duration;

use antiphon_core::Instant;

use super::store::Record;
use super::{Cause, Clocking, Playout, Pulled};
use crate::conceal::Gap;

impl Playout {
    /// Writes what is to go out at `now` into `out` (whole sample frames): all of `out` under [`Clocking::Sink`], what
    /// is due or there, possibly nothing, otherwise. Call again until nothing comes.
    pub fn pull(&mut self, now: Instant, out: &mut [f32]) -> Pulled {
        let channels = self.config.format.channels();
        let room = out.len() / channels;
        let mut pulled = Pulled { media: self.position, ..Pulled::default() };
        if self.config.clocking == Clocking::Sink {
            self.catch_up(now);
            pulled.media = self.position;
            self.wait(now, &mut out[..room * channels], &mut pulled);
        }
        while pulled.frames < room {
            let rest = &mut out[pulled.frames * channels..room * channels];
            if !self.step(now, rest, &mut pulled) {
                break;
            }
        }
        pulled
    }

    /// Gives out the next stretch: the rest of a packet, or of a gap. False when nothing is to go out now.
    fn step(&mut self, now: Instant, out: &mut [f32], pulled: &mut Pulled) -> bool {
        let Some(position) = self.position else {
            return false;
        };
        if self.config.clocking == Clocking::Sender && !self.finished && !self.is_due(now, position) {
            return false;
        }
        let room = out.len() / self.config.format.channels();
        let Some(record) = self.store.front() else {
            let endless = !matches!(self.config.clocking, Clocking::Unhurried { .. }) && !self.finished;
            // A device must have its block even after the end.
            if !endless && self.config.clocking != Clocking::Sink {
                return false;
            }
            let frames = room.min(self.unit);
            self.make_up(frames, None, Cause::Starved, out, pulled);
            return true;
        };
        if record.start <= position {
            if !self.playing && self.is_patient() {
                return false;
            }
            self.play(record, position, out, pulled);
            return true;
        }
        let hole = (record.start - position).min(usize::MAX as u64) as usize;
        if self.next_sequence == Some(record.sequence) {
            self.pause(hole.min(room), out, pulled);
            return true;
        }
        match self.config.clocking {
            Clocking::Unhurried { .. } if self.is_patient() => false,
            Clocking::Sender => {
                // A missing packet's deadline is that of its first sample frame: with it, all of it is missing.
                self.make_up(hole.min(room).min(self.unit), Some(hole), Cause::Missing, out, pulled);
                true
            }
            _ => {
                self.make_up(hole.min(room), Some(hole), Cause::Missing, out, pulled);
                true
            }
        }
    }

    /// Whether nobody is in a hurry and something earlier may still come.
    fn is_patient(&self) -> bool {
        match self.config.clocking {
            Clocking::Unhurried { patience } => {
                let position = self.position.unwrap_or_default();
                let has_room = self.pressed.is_none_or(|end| self.spans(position, end));
                !self.finished && has_room && self.store.len() <= patience
            }
            Clocking::Sender | Clocking::Sink => false,
        }
    }

    fn play(&mut self, record: Record, position: u64, out: &mut [f32], pulled: &mut Pulled) {
        let channels = self.config.format.channels();
        let frames = ((record.end() - position) as usize).min(out.len() / channels);
        let out = &mut out[..frames * channels];
        self.store.read(position, out);
        self.conceal.good(out);
        (self.playing, self.begun, self.in_gap) = (true, true, false);
        if !record.late {
            // The remains of a packet are no measure, and tiny packets must not make for a flood of tiny gaps.
            self.unit = record.frames.max(16);
        }
        self.counters.played_frames += frames as u64;
        pulled.played += frames;
        self.advance(frames, pulled);
        if self.position >= Some(record.end()) {
            self.store.pop();
            self.next_sequence = Some(record.sequence + 1);
            if !record.late {
                self.counters.played += 1;
                self.history.resolve(record.sequence);
            }
        }
    }

    fn make_up(
        &mut self,
        frames: usize,
        hole: Option<usize>,
        cause: Cause,
        out: &mut [f32],
        pulled: &mut Pulled,
    ) {
        let out = &mut out[..frames * self.config.format.channels()];
        let wanted = self.conceal.look_ahead();
        let ahead = match (wanted, self.store.front()) {
            (1.., Some(record)) => self.store.peek(record, wanted),
            _ => &[],
        };
        self.conceal.lost(Gap { remaining: hole, ahead }, out);
        self.counters.concealments += u64::from(!std::mem::replace(&mut self.in_gap, true));
        self.counters.concealed_frames += frames as u64;
        pulled.concealed += frames;
        pulled.cause = Some(cause);
        self.playing = true;
        self.advance(frames, pulled);
    }

    /// The sender left time out without leaving a number out: silence.
    fn pause(&mut self, frames: usize, out: &mut [f32], pulled: &mut Pulled) {
        let out = &mut out[..frames * self.config.format.channels()];
        out.fill(0.0);
        self.conceal.good(out);
        self.in_gap = false;
        self.counters.paused_frames += frames as u64;
        pulled.silent += frames;
        self.advance(frames, pulled);
    }

    fn advance(&mut self, frames: usize, pulled: &mut Pulled) {
        pulled.frames += frames;
        self.position = self.position.map(|position| position + frames as u64);
    }

    /// Under a sink's clock: fills up to the instant at which the stream begins.
    fn wait(&mut self, now: Instant, out: &mut [f32], pulled: &mut Pulled) {
        let channels = self.config.format.channels();
        let room = out.len() / channels;
        let frames = match self.position.and_then(|position| self.due(position)) {
            _ if self.playing => return,
            Some(due) if due <= now => return,
            Some(due) => {
                let ahead = due.since(now).as_nanos() * u128::from(self.config.format.rate()) / 1_000_000_000;
                room.min(usize::try_from(ahead).unwrap_or(room))
            }
            None => room,
        };
        let out = &mut out[..frames * channels];
        if self.begun {
            self.conceal.lost(Gap { remaining: None, ahead: &[] }, out);
            self.counters.concealments += u64::from(!std::mem::replace(&mut self.in_gap, true));
            self.counters.concealed_frames += frames as u64;
            pulled.concealed += frames;
            pulled.cause = Some(Cause::Resync);
        } else {
            out.fill(0.0);
            pulled.silent += frames;
        }
        pulled.frames += frames;
    }

    /// A sink that stood still for long goes on where the sound is now, not where it left off; one that is far ahead, as
    /// after a longer target was set, waits.
    fn catch_up(&mut self, now: Instant) {
        let (Some(lag), Some(position)) = (self.lag(now), self.position) else {
            return;
        };
        let limit = CATCH_UP.as_secs_f64() * f64::from(self.config.format.rate());
        if !self.playing || lag.abs() <= limit {
            return;
        }
        if lag < 0.0 {
            self.playing = false;
            return;
        }
        let wanted = position + lag as u64;
        while let Some(record) = self.store.front().filter(|record| record.end() <= wanted) {
            self.store.pop();
            if !record.late {
                self.counters.discarded += 1;
                self.history.resolve(record.sequence);
            }
            self.next_sequence = Some(record.sequence + 1);
        }
        self.counters.skipped_frames += wanted - position;
        self.position = Some(wanted);
    }
}

/// A lag that resampling would take minutes to make up.
const CATCH_UP: Duration = Duration::from_millis(100);
