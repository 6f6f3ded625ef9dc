//! The output of the playout buffer: the next sound, and concealment of missing sound.

use std::time::Duration;

use antiphon_core::Instant;

use super::lane::{Gave, Lane, Next, Timing};
use super::{Cause, Clocking, MAX_PACKET_FRAMES, Playout, Pulled};

impl Playout {
    /// Writes the sound that is due at `now` into `out` (whole sample frames): under [`Clocking::Sink`] it fills `out`;
    /// otherwise it writes what is due or available, possibly nothing. Call again until it writes nothing.
    pub fn pull(&mut self, now: Instant, out: &mut [f32]) -> Pulled {
        let pulled = match self.elastic.take() {
            Some(mut elastic) => {
                let pulled = match self.clock.is_told() {
                    true => self.pull_in_step(now, out, &mut elastic),
                    false => self.pull_elastic(now, out, &mut elastic),
                };
                self.elastic = Some(elastic);
                pulled
            }
            None => self.pull_fixed(now, out),
        };
        self.note_gaps(now);
        pulled
    }

    pub(super) fn pull_fixed(&mut self, now: Instant, out: &mut [f32]) -> Pulled {
        let channels = self.config.format.channels();
        let room = out.len() / channels;
        let mut pulled = Pulled { media: self.position, ..Pulled::default() };
        if self.config.clocking == Clocking::Sink {
            self.catch_up(now);
            pulled.media = self.position;
            self.wait(now, &mut out[..room * channels], &mut pulled);
        }
        // A sink without a clock is told which of its sample frames are concealed.
        let apart = self.config.clocking != Clocking::Sink;
        while pulled.frames < room {
            let rest = &mut out[pulled.frames * channels..room * channels];
            let alike = (apart && pulled.frames > 0).then_some(pulled.concealed > 0);
            if !self.step(Some(now), rest, &mut pulled, alike) {
                break;
            }
        }
        pulled
    }

    /// Plays the next stretch, up to the end of the current packet or gap of every group. False if nothing is to be
    /// played now, or not what `alike` asks for: concealed sound, or other sound. Without `now`, whether due or not.
    pub(super) fn step(
        &mut self,
        now: Option<Instant>,
        out: &mut [f32],
        pulled: &mut Pulled,
        alike: Option<bool>,
    ) -> bool {
        let Some(position) = self.position else {
            return false;
        };
        let waits = self.config.clocking == Clocking::Sender && !self.finished;
        if waits && now.is_some_and(|now| !self.is_due(now, position)) {
            return false;
        }
        let Some(frames) = self.plan(position, out.len() / self.config.format.channels()) else {
            return false;
        };
        if alike.is_some_and(|concealed| concealed != self.lanes.iter().any(Lane::conceals)) {
            return false;
        }
        let gave = self.give(frames, out, |lane, out| lane.give(position, out));
        self.playing |= gave != Gave::Silence;
        pulled.add(frames, gave);
        self.position = Some(position + frames as u64);
        true
    }

    /// For how many sample frames, at most `room`, every lane has its next stretch; `None` if one has to be waited for,
    /// or none has any.
    fn plan(&mut self, position: u64, room: usize) -> Option<usize> {
        let timing = Timing {
            clocking: self.config.clocking,
            finished: self.finished,
            is_over: self.is_over(),
            playing: self.playing,
            has_room: self.pressed.is_none_or(|end| self.spans(position, end)),
        };
        let room = if self.lanes.len() > 1 { room.min(MAX_PACKET_FRAMES) } else { room };
        let before_end = self.end.filter(|_| !timing.is_over).map(|end| end - position);
        let room =
            before_end.and_then(|frames| usize::try_from(frames).ok()).map_or(room, |left| room.min(left));
        let mut stretch: Option<usize> = None;
        for lane in &mut self.lanes {
            let frames = match lane.plan(position, room, timing) {
                Next::Wait => return None,
                Next::Idle => continue,
                Next::Play(frames)
                | Next::Pause(frames)
                | Next::Over(frames)
                | Next::MakeUp { frames, .. } => frames,
            };
            stretch = Some(stretch.map_or(frames, |least| least.min(frames)));
        }
        stretch
    }

    /// Lets every lane fill its channels of the first `frames` sample frames of `out`. Returns what they gave:
    /// concealed if one of them concealed.
    pub(super) fn give(
        &mut self,
        frames: usize,
        out: &mut [f32],
        mut fill: impl FnMut(&mut Lane, &mut [f32]) -> Gave,
    ) -> Gave {
        let channels = self.config.format.channels();
        let out = &mut out[..frames * channels];
        if let [lane] = &mut self.lanes[..] {
            return fill(lane, out);
        }
        let mut all = Gave::Silence;
        for lane in &mut self.lanes {
            let own = &mut self.scratch[..frames * lane.channels.len()];
            let gave = fill(lane, own);
            for (to, from) in out.chunks_exact_mut(channels).zip(own.chunks_exact(lane.channels.len())) {
                to[lane.channels.clone()].copy_from_slice(from);
            }
            all = match (all, gave) {
                (Gave::MadeUp(_), _) | (_, Gave::Silence) => all,
                (_, gave) => gave,
            };
        }
        all
    }

    /// Under a sink's clock: fills up to the instant at which the stream begins.
    pub(super) fn wait(&mut self, now: Instant, out: &mut [f32], pulled: &mut Pulled) {
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
        let mut done = 0;
        while done < frames {
            let part = if self.lanes.len() > 1 { (frames - done).min(MAX_PACKET_FRAMES) } else { frames };
            let gave = self
                .give(part, &mut out[done * channels..], |lane, out| lane.make_up(None, Cause::Resync, out));
            pulled.add(part, gave);
            done += part;
        }
    }

    /// A sink that stalled for long continues where the sound is now, not where it stopped; one that is far ahead, as
    /// after a longer playout delay was set, waits. While the schedule still settles, lag that resampling would take
    /// long to correct is left out, too.
    pub(super) fn catch_up(&mut self, now: Instant) {
        let last_pull = self.last_pull.replace(now);
        let (Some(lag), Some(position)) = (self.lag(now), self.position) else {
            return;
        };
        let rate = f64::from(self.config.format.rate());
        let frames = |d: Duration| d.as_secs_f64() * rate;
        let moved = std::mem::take(&mut self.moved);
        let usual = if self.clock.is_settling(now) { SETTLING_LAG } else { CATCH_UP };
        let most = frames(if moved || self.has_come_down(now) { usual.min(STEP_LAG) } else { usual });
        if !self.playing || lag <= most {
            self.playing &= lag >= -frames(if moved { STEP_LAG } else { CATCH_UP });
            return;
        }
        // After a stall there is no sound to blend with.
        let stood_still = last_pull.is_none_or(|last| now.since(last) > CATCH_UP);
        self.leave_out(position + lag as u64, !stood_still);
    }
}

impl Pulled {
    pub(super) fn add(&mut self, frames: usize, gave: Gave) {
        self.frames += frames;
        match gave {
            Gave::Sound => self.played += frames,
            Gave::Silence => self.silent += frames,
            Gave::MadeUp(cause) => (self.concealed, self.cause) = (self.concealed + frames, Some(cause)),
        }
    }
}

/// A lag that resampling would take minutes to correct.
pub(super) const CATCH_UP: Duration = Duration::from_millis(100);
/// The same while the schedule settles: resampling takes ten seconds for 5 ms, and a short blend at the beginning of a
/// stream is less audible than its delay for the rest of it.
const SETTLING_LAG: Duration = Duration::from_millis(5);
/// The same once the schedule has come down at once, or was put on another clock: resampling takes half a minute.
const STEP_LAG: Duration = Duration::from_millis(20);
