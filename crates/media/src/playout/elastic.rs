//! A playout delay that changes while sound is played: the sound is made longer or shorter by single pieces, in pauses at once.
//!
//! The delay in force follows the target ([`DelayTarget`]). A piece that is heard twice moves everything after it later, one that is
//! left out, earlier. Besides, where the sound runs out and what follows may still come, the last of it is made longer until that is
//! there: a packet that is a little later than the delay in force costs no sound. Where nothing is left, what conceals the gap is
//! put before the late sound instead of in place of it.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime};

use super::target::{AdaptiveDelay, DelayTarget};
use super::{Cause, Clocking, MAX_PACKET_FRAMES, Playout, Pulled};
use crate::StreamFormat;
use crate::stretch::{Piece, Stretch};

/// State of a playout delay that adapts.
pub(super) struct Elastic {
    pub target: DelayTarget,
    stretch: Stretch,
    /// Sound that has been taken from the buffer and not been played, from `begins` to `ends`, in sample frames.
    pending: Vec<f32>,
    begins: usize,
    ends: usize,
    /// Sample frames to be played before the next change, so that single changes stay apart.
    apart: u64,
    /// Since when a change waits for a better place.
    wants: Option<Instant>,
    /// Sample frames gained by waiting, less those played since.
    waited: usize,
    figures: AdaptedFigures,
    /// The sum of the delay in force over the sample frames played, in nanoseconds.
    sum: f64,
    frames: u64,
}

/// What an adaptive playout delay has done.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AdaptedFigures {
    /// The delay that the stream needs now.
    pub target: Duration,
    /// The delay in force.
    pub in_force: Duration,
    /// Its mean over the sound played.
    pub mean: Duration,
    /// How often the target rose.
    pub rises: u64,
    /// How often it fell.
    pub falls: u64,
    /// Sample frames by which the sound was made longer.
    pub stretched_frames: u64,
    /// Sample frames by which it was made shorter.
    pub shortened_frames: u64,
    /// Times at which the sound was made longer because what follows had not come.
    pub waits: u64,
    /// Changes at places where the sound is not alike, since no better place came in time.
    pub rough: u64,
    /// Sample frames that concealed a gap before late sound.
    pub held_frames: u64,
}

/// What follows the sound that can be played without a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// More than was asked for.
    Sound,
    /// Nothing has come.
    Nothing,
    /// A packet is missing, and later ones are there.
    Hole,
    /// The sender pauses, or the stream has ended.
    Pause,
}

impl Elastic {
    pub fn new(config: AdaptiveDelay, format: StreamFormat) -> Self {
        let stretch = Stretch::new(format);
        let room = stretch.most_ahead() + stretch.longest();
        Elastic {
            target: DelayTarget::new(config),
            pending: vec![0.0; room * format.channels()],
            begins: 0,
            ends: 0,
            stretch,
            apart: 0,
            wants: None,
            waited: 0,
            figures: AdaptedFigures::default(),
            sum: 0.0,
            frames: 0,
        }
    }

    /// Sample frames taken from the buffer and not played.
    pub fn pending(&self) -> usize {
        self.ends - self.begins
    }

    /// Another stream begins.
    pub fn restart(&mut self) {
        self.target.restart();
        (self.begins, self.ends, self.waited, self.wants) = (0, 0, 0, None);
    }

    pub(super) fn take_pending(&mut self, out: &mut [f32], channels: usize) -> usize {
        let frames = self.pending().min(out.len() / channels);
        let samples = frames * channels;
        out[..samples].copy_from_slice(&self.pending[self.begins * channels..][..samples]);
        self.begins += frames;
        if self.begins == self.ends {
            (self.begins, self.ends) = (0, 0);
        }
        frames
    }

    /// Sound was played that no change was made of.
    pub(super) fn heard(&mut self, sound: &[f32]) {
        self.stretch.heard(sound);
    }

    /// Whether a piece is taken: a good one always, another one only if there is no time to wait for a better place.
    fn accepts(&mut self, now: Instant, piece: Piece, patience: Duration) -> bool {
        let since = *self.wants.get_or_insert(now);
        let taken = piece.is_good() || now.since(since) >= patience;
        if taken {
            self.figures.rough += u64::from(!piece.is_good());
            self.wants = None;
        }
        taken
    }
}

impl Playout {
    /// What an adaptive playout delay has done; `None` if the delay is fixed, or told ([`Self::keep_in_step`]).
    pub fn adapted(&self) -> Option<AdaptedFigures> {
        let elastic = self.elastic.as_deref().filter(|_| !self.clock.is_told())?;
        let (rises, falls) = elastic.target.changes();
        let in_force = self.config.playout_delay;
        let mean = match elastic.frames {
            0 => in_force,
            frames => Duration::from_nanos((elastic.sum / frames as f64) as u64),
        };
        Some(AdaptedFigures {
            target: elastic.target.target(),
            in_force,
            mean,
            rises,
            falls,
            ..elastic.figures
        })
    }

    /// How long the transport needs to send a packet again once it is found missing, if the delay adapts; `None` if it sends
    /// nothing again.
    pub fn set_repair(&mut self, time: Option<Duration>) {
        // It is found missing when the next one comes.
        let packet = self.lanes.iter().map(|lane| lane.unit).max().unwrap_or(0);
        let found = self.time(packet);
        if let Some(elastic) = &mut self.elastic {
            elastic.target.set_repair(time.map(|time| time + found));
        }
    }

    /// [`Self::pull`] with a playout delay that adapts.
    pub(super) fn pull_elastic(&mut self, now: Instant, out: &mut [f32], elastic: &mut Elastic) -> Pulled {
        let channels = self.config.format.channels();
        let room = out.len() / channels;
        let mut pulled = Pulled { media: self.position, ..Pulled::default() };
        let is_sink = self.config.clocking == Clocking::Sink;
        if is_sink {
            let reach = MediaTime::new((room + elastic.stretch.overlap()) as u64, self.config.format.rate());
            elastic.target.set_reach(reach.duration());
            self.catch_up(now);
            self.wait(now, &mut out[..room * channels], &mut pulled);
        }
        let lost = self.counters().lost;
        if let Some(schedule) = self.clock.offset() {
            elastic.target.advance(now, schedule, lost);
        }
        while pulled.frames < room {
            let rest = &mut out[pulled.frames * channels..room * channels];
            let before = pulled.frames;
            pulled.frames += elastic.take_pending(rest, channels);
            if pulled.frames > before {
                continue;
            }
            let due = self.position.is_some_and(|position| self.is_due(now, position));
            if !is_sink && !self.finished && !due || self.position.is_none() {
                break;
            }
            if !self.play_elastic(now, rest, &mut pulled, elastic) {
                break;
            }
        }
        let ahead = (elastic.pending() + pulled.frames) as u64;
        pulled.media = self.position.map(|position| position.saturating_sub(ahead));
        if self.playing {
            elastic.frames += pulled.frames as u64;
            elastic.sum += self.config.playout_delay.as_nanos() as f64 * pulled.frames as f64;
        }
        pulled
    }

    /// Plays the next stretch, changed if need be, into `out` or what is pending.
    fn play_elastic(
        &mut self,
        now: Instant,
        out: &mut [f32],
        pulled: &mut Pulled,
        elastic: &mut Elastic,
    ) -> bool {
        let channels = self.config.format.channels();
        let overlap = elastic.stretch.overlap();
        let room = out.len() / channels;
        let wanted = elastic.stretch.most_ahead().max(room + overlap);
        let (run, after) = self.run(wanted);
        let frozen = elastic.target.is_frozen(now);
        let changes = self.playing && run > 0 && !self.finished && !frozen;
        if self.approach_target(now, run, changes && elastic.apart == 0, pulled, elastic) {
            return true;
        }
        if after == After::Pause && run == 0 && self.playing && !frozen {
            self.shorten_pause(elastic);
        }
        let delay = self.config.playout_delay;
        let left = elastic.target.config().max.saturating_sub(delay);
        let waits = changes && self.may_follow(after, elastic);
        // At the last moment any piece is better than a gap; a little before it only a good one is.
        let soon = if delay >= OVERDUE { 2 * overlap } else { overlap };
        if waits && (overlap..=soon).contains(&run) {
            let patience = if run == overlap { Duration::ZERO } else { Duration::MAX };
            let most = self.frames(left.min(MOST_WAIT.saturating_sub(self.time(elastic.waited))));
            if self.lengthen(now, most, patience, elastic) {
                elastic.figures.waits += u64::from(elastic.waited == 0);
                elastic.waited += elastic.ends;
                return true;
            }
        }
        if run == 0 && self.playing && !frozen && after == After::Nothing && left > self.time(overlap) {
            return self.hold(room.min(overlap), out, pulled, elastic);
        }
        // The last of the sound is kept until its time, so that it can be made longer.
        let frames = match run {
            0 => room,
            _ if waits && run > soon => room.min(run - soon),
            _ if waits && run > overlap => room.min((run - overlap).min(overlap / 4)),
            _ => room.min(run),
        };
        let before = pulled.frames;
        if !self.step(None, &mut out[..frames * channels], pulled, None) {
            return false;
        }
        let played = pulled.frames - before;
        elastic.stretch.heard(&out[..played * channels]);
        elastic.apart = elastic.apart.saturating_sub(played as u64);
        elastic.waited = elastic.waited.saturating_sub(played);
        true
    }

    /// Changes the delay towards its target by one piece of the `run` sample frames that are there, if it differs by enough and a change
    /// `is_free` to be made now.
    fn approach_target(
        &mut self,
        now: Instant,
        run: usize,
        is_free: bool,
        pulled: &mut Pulled,
        elastic: &mut Elastic,
    ) -> bool {
        let overlap = elastic.stretch.overlap();
        if let Some(rise) = self.rise(elastic).filter(|_| is_free && run >= overlap) {
            // A piece longer than the rise is better than one that does not fit.
            let most = match elastic.wants {
                Some(since) if now.since(since) >= RISE_PATIENCE / 2 => elastic.stretch.longest(),
                _ => self.frames(rise).max(overlap),
            };
            return self.lengthen(now, most, RISE_PATIENCE, elastic);
        }
        if let Some(surplus) = self.surplus(elastic).filter(|_| is_free && run >= 2 * overlap) {
            let most = self.frames(surplus);
            let patience = match () {
                () if self.config.playout_delay > elastic.target.config().max => HURRIED_PATIENCE,
                () if most >= elastic.stretch.longest() => FALL_PATIENCE,
                () => LAST_PATIENCE,
            };
            return self.shorten(now, run, most, patience, pulled, elastic);
        }
        elastic.wants = None;
        false
    }

    /// Whether what is missing after the sound may come.
    fn may_follow(&self, after: After, elastic: &Elastic) -> bool {
        match after {
            After::Nothing => true,
            After::Hole => elastic.target.repairs(),
            After::Sound | After::Pause => false,
        }
    }

    /// Makes the sound at the present place longer by at most `most` sample frames, if there is a place for it.
    fn lengthen(&mut self, now: Instant, most: usize, patience: Duration, elastic: &mut Elastic) -> bool {
        let channels = self.config.format.channels();
        let overlap = elastic.stretch.overlap();
        let mut sound = std::mem::take(&mut elastic.pending);
        self.peek(&mut sound[..overlap * channels]);
        let piece = elastic.stretch.to_lengthen(&sound[..overlap * channels], most);
        let piece = piece.filter(|piece| elastic.accepts(now, *piece, patience));
        if let Some(piece) = piece {
            elastic.stretch.lengthen(piece, &mut sound);
            self.keep_changed(piece.frames, &sound, elastic);
            elastic.apart = if piece.silent { 0 } else { self.frames(RISES_APART) as u64 };
            self.config.playout_delay += self.time(piece.frames);
            elastic.figures.stretched_frames += piece.frames as u64;
        }
        elastic.pending = sound;
        piece.is_some()
    }

    /// Makes the `run` sample frames at the present place shorter by at most `most`, if there is a place for it.
    fn shorten(
        &mut self,
        now: Instant,
        run: usize,
        most: usize,
        patience: Duration,
        pulled: &mut Pulled,
        elastic: &mut Elastic,
    ) -> bool {
        let channels = self.config.format.channels();
        let ahead = run.min(elastic.stretch.most_ahead());
        let mut sound = std::mem::take(&mut elastic.pending);
        self.peek(&mut sound[..ahead * channels]);
        let piece = elastic.stretch.to_shorten(&sound[..ahead * channels], most);
        let piece = piece.filter(|piece| elastic.accepts(now, *piece, patience));
        if let Some(piece) = piece {
            // What follows the blend can be changed again.
            let ahead = piece.frames + elastic.stretch.overlap();
            self.consume(&mut sound[..ahead * channels], pulled);
            elastic.stretch.shorten(piece, &mut sound, ahead);
            self.keep_changed(ahead - piece.frames, &sound, elastic);
            let is_hurried = self.config.playout_delay > elastic.target.config().max;
            let apart = if is_hurried { RISES_APART } else { FALLS_APART };
            elastic.apart = if piece.silent { 0 } else { self.frames(apart) as u64 };
            self.config.playout_delay = self.config.playout_delay.saturating_sub(self.time(piece.frames));
            elastic.figures.shortened_frames += piece.frames as u64;
        }
        elastic.pending = sound;
        piece.is_some()
    }

    /// The sender pauses: silence in place of which the sound may go on is left out.
    fn shorten_pause(&mut self, elastic: &mut Elastic) {
        let surplus = self.config.playout_delay.saturating_sub(elastic.target.target());
        let next = self.lanes.iter().filter_map(|lane| lane.store.front()).map(|record| record.start).min();
        let (Some(position), Some(next)) = (self.position, next) else { return };
        let frames = next.saturating_sub(position).min(self.frames(surplus) as u64);
        if surplus >= LEAST_SURPLUS && self.lanes.iter().all(|lane| !lane.store.is_empty()) {
            self.position = Some(position + frames);
            self.config.playout_delay = self.config.playout_delay.saturating_sub(self.time(frames as usize));
            elastic.figures.shortened_frames += frames;
        }
    }

    fn keep_changed(&self, frames: usize, sound: &[f32], elastic: &mut Elastic) {
        elastic.stretch.heard(&sound[..frames * self.config.format.channels()]);
        (elastic.begins, elastic.ends) = (0, frames);
    }

    /// Conceals without going on: what is late is played after it.
    fn hold(&mut self, frames: usize, out: &mut [f32], pulled: &mut Pulled, elastic: &mut Elastic) -> bool {
        let channels = self.config.format.channels();
        let frames = frames.min(MAX_PACKET_FRAMES);
        let gave = self.give(frames, out, |lane, out| lane.make_up(None, Cause::Starved, out));
        pulled.add(frames, gave);
        elastic.stretch.heard(&out[..frames * channels]);
        elastic.figures.held_frames += frames as u64;
        self.config.playout_delay += self.time(frames);
        true
    }

    /// How many sample frames, up to `most`, are there without a gap in every group, and what follows.
    fn run(&self, most: usize) -> (usize, After) {
        let Some(position) = self.position else { return (0, After::Pause) };
        let mut least = (usize::MAX, After::Sound);
        for lane in &self.lanes {
            let (frames, next) = lane.run(position, most);
            let after = match next {
                _ if frames >= most => After::Sound,
                None if self.finished || self.end.is_some() => After::Pause,
                None => After::Nothing,
                Some(true) => After::Pause,
                Some(false) => After::Hole,
            };
            if frames < least.0 {
                least = (frames, after);
            }
        }
        (least.0.min(most), least.1)
    }

    /// Whether the next `frames` sample frames have come, and more of them than a decision needs that is made when they are due.
    pub(super) fn has_come(&self, frames: usize) -> bool {
        let (needed, pending) = match self.elastic.as_deref().filter(|_| !self.clock.is_told()) {
            Some(elastic) if self.rise(elastic).or(self.surplus(elastic)).is_some() => return false,
            Some(elastic) => (frames + 2 * elastic.stretch.overlap() + 1, elastic.pending()),
            None => (frames, 0),
        };
        self.playing && self.run(needed).0 + pending >= needed
    }

    /// By how much the delay is to rise, if by enough.
    fn rise(&self, elastic: &Elastic) -> Option<Duration> {
        let rise = elastic.target.target().saturating_sub(self.config.playout_delay);
        (rise > LEAST_RISE).then_some(rise)
    }

    /// By how much the delay is to fall, if by enough.
    fn surplus(&self, elastic: &Elastic) -> Option<Duration> {
        let surplus = self.config.playout_delay.saturating_sub(elastic.target.target());
        (surplus >= LEAST_SURPLUS).then_some(surplus)
    }

    /// Copies what is played next, as it came; the caller knows that it is there.
    fn peek(&mut self, out: &mut [f32]) {
        let Some(position) = self.position else { return };
        let channels = self.config.format.channels();
        let frames = out.len() / channels;
        for lane in &mut self.lanes {
            lane.store.decode_until(position + frames as u64);
        }
        if let [lane] = &self.lanes[..] {
            return lane.store.read(position, out);
        }
        for lane in &self.lanes {
            let own = lane.channels.len();
            // A piece is shorter than the longest packet, for which there is room.
            let part = &mut self.scratch[..frames * own];
            lane.store.read(position, part);
            for (to, from) in out.chunks_exact_mut(channels).zip(part.chunks_exact(own)) {
                to[lane.channels.clone()].copy_from_slice(from);
            }
        }
    }

    /// Takes sound that is there, due or not.
    fn consume(&mut self, out: &mut [f32], pulled: &mut Pulled) {
        let channels = self.config.format.channels();
        let mut taken = Pulled::default();
        while taken.frames < out.len() / channels {
            if !self.step(None, &mut out[taken.frames * channels..], &mut taken, None) {
                break;
            }
        }
        pulled.played += taken.played;
    }

    fn frames(&self, time: Duration) -> usize {
        (time.as_nanos() * u128::from(self.config.format.rate()) / 1_000_000_000) as usize
    }

    fn time(&self, frames: usize) -> Duration {
        MediaTime::new(frames as u64, self.config.format.rate()).duration()
    }
}

impl super::lane::Lane {
    /// How many sample frames are there from `position` on without a gap, up to `most`; whether the next packet, if there is
    /// one, follows a pause of the sender.
    fn run(&self, position: u64, most: usize) -> (usize, Option<bool>) {
        let (mut end, mut next) = (position, self.next_sequence);
        for record in self.store.iter() {
            if record.start > end {
                return ((end - position) as usize, Some(next == Some(record.sequence)));
            }
            (end, next) = (record.end().max(end), Some(record.sequence + 1));
            if end - position >= most as u64 {
                break;
            }
        }
        ((end - position) as usize, None)
    }
}

/// The delay rises for no less: where a period of the sound is longer than the rise, the delay becomes longer than it need be, and for
/// what is a little late sound is stretched anyway.
const LEAST_RISE: Duration = Duration::from_millis(3);
/// The delay falls for no less: the shortest piece, and as much as it rises for.
const LEAST_SURPLUS: Duration = Duration::from_micros(3500);
/// Changes are so far apart, from the end of one to the beginning of the next: single pieces are heard less than pieces in a
/// row. At 10 ms for a piece, 80 ms of delay go within two seconds.
const FALLS_APART: Duration = Duration::from_millis(100);
/// The same where the delay rises, since what is late until then is missing: 60 ms within half a second.
const RISES_APART: Duration = Duration::from_millis(20);
/// With a delay of at least this, what is missing 5 ms before its time is later than nearly all: a good place for a piece may be taken
/// at once.
const OVERDUE: Duration = Duration::from_millis(20);
/// For so long a rise waits for a place at which it is inaudible. What is late until then is waited for.
const RISE_PATIENCE: Duration = Duration::from_millis(500);
/// The same of a fall, which is not urgent.
const FALL_PATIENCE: Duration = Duration::from_secs(2);
/// The same where less is left than the longest piece, so that periods of the sound may not fit.
const LAST_PATIENCE: Duration = Duration::from_secs(8);
/// The same of a delay that is beyond its bounds, since the sender catches up: 800 ms go within four seconds.
const HURRIED_PATIENCE: Duration = Duration::from_millis(100);
/// By so much in a row sound is made longer because what follows has not come. Concealment by repetition is at 40 % of its strength
/// then (G.711 Appendix I): beyond that, what is heard again is no longer music.
const MOST_WAIT: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests;
