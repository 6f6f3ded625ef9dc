//! Sound as it was sent, while the device's clock agrees with the sender's.
//!
//! A resampler looks ahead by half its filter, 0.42 ms at 48 kHz, for which each cycle of a device has to wait though nothing is resampled. Where
//! one clock paces both ends (one sound server, or a word clock), packets come and cycles begin at times that stay as they are against each other. So a
//! stream at the device's rate begins without the resampler, and its delay stays the same to the sample.
//!
//! When the schedule has settled, sound that is later than it should be is left out, and so much more that each cycle ends where a packet ends:
//! a cycle that needs the first sample of a packet has to wait for it as for the last. It is done where the packets came in time for it.
//!
//! Once the schedule is [`MOST_LAG`] from where it settled, the clocks differ: the resampler takes over at the next sample, and the
//! controller ([`super::Control`]) goes on from there.

use std::time::Duration;

use antiphon_core::{Instant, Ppm};

use super::{ClockedPlayout, ClockedPull, Control};
use crate::CyclePlace;
use crate::playout::Playout;

/// Cycles of a window, those for which the last packet was not there yet, and whether they were many in the window before; and how many of the last ones in
/// a row.
#[derive(Clone, Copy, Default)]
struct Reached {
    cycles: u32,
    missed: u32,
    again: bool,
    row: u32,
}

/// How sound goes out unchanged.
pub(super) struct Direct {
    /// Not while the resampler is at work.
    pub on: bool,
    /// The last sample frames that went out, with which the resampler begins.
    history: Vec<f32>,
    /// The least lag of the last [`WINDOW`], in seconds, of a cycle when it begins: a thread that wakes up late makes it larger, and a longer margin
    /// does not change it. `None` before the first one.
    lag: Option<f64>,
    /// How long before a cycle its last block is pulled, in seconds.
    margin: f64,
    /// The least lag of the current one, and when it began.
    current: Option<(Instant, f64)>,
    /// Since when cycles have been observed, and the lag at that time.
    since: Option<(Instant, f64)>,
    /// The lag at which the sound stays.
    settled: Option<f64>,
    /// Windows in a row whose lag was another; how many before them were halfway there; and the lag of the last one.
    off: u32,
    away: u32,
    before: f64,
    /// When the device's clock last lost time at once; how often a schedule that moved since was not taken for clocks that differ; and for how many windows in a
    /// row the schedule has stayed.
    slipped: Option<Instant>,
    excused: u32,
    calm: u32,
    /// Cycles that have been pulled.
    whole: u64,
    /// Sample frames of the longest cycle so far.
    cycle: usize,
    /// Cycles so far, and of the two places at which the sound may settle, the sooner first, how many of them found all their sound there in time.
    cycles: u32,
    in_time: [u32; 2],
    /// Of this window, once the sound has settled.
    reached: Reached,
    /// Whether it settles again.
    again: bool,
}

impl Direct {
    pub fn new(history: usize) -> Self {
        Direct {
            on: true,
            history: vec![0.0; history],
            lag: None,
            margin: 0.0,
            current: None,
            since: None,
            settled: None,
            off: 0,
            away: 0,
            before: 0.0,
            slipped: None,
            excused: 0,
            calm: 0,
            whole: 0,
            cycle: 0,
            cycles: 0,
            in_time: [0; 2],
            reached: Reached::default(),
            again: false,
        }
    }

    /// How far a block that is pulled now is behind its schedule, in seconds; see [`Self::lag`].
    pub fn lag_now(&self) -> Option<f64> {
        self.lag.map(|lag| lag - self.margin)
    }

    /// Whether the next cycle is one whose packets are looked at when it is due.
    pub fn observes(&self) -> bool {
        self.settled.is_none() && self.whole.is_multiple_of(OBSERVES)
    }

    /// Another stream begins.
    pub fn restart(&mut self) {
        self.history.fill(0.0);
        (self.on, self.lag, self.current, self.cycle, self.again) = (true, None, None, 0, false);
        self.settle_again();
    }

    /// The device's cycles begin at other times.
    fn settle_again(&mut self) {
        (self.since, self.settled, self.off, self.cycles, self.in_time) = (None, None, 0, 0, [0; 2]);
        self.reached = Reached::default();
    }

    /// Takes the lag of a block. Returns that of a window once it is over.
    fn follow(&mut self, now: Instant, lag: f64) -> Option<f64> {
        let (began, least) = self.current.map_or((now, lag), |(began, least)| (began, least.min(lag)));
        if now.since(began) < WINDOW {
            self.current = Some((began, least));
            return None;
        }
        (self.current, self.lag) = (None, Some(least));
        self.lag
    }

    fn remember(&mut self, sound: &[f32]) {
        let (had, new) = (self.history.len(), sound.len().min(self.history.len()));
        self.history.copy_within(new.., 0);
        self.history[had - new..].copy_from_slice(&sound[sound.len() - new..]);
    }

    /// Whether so many cycles were in time for packets often enough, however many packets are lost.
    fn is_often(&self, in_time: u32) -> bool {
        u64::from(in_time) * IN_TIME.1 >= u64::from(self.cycles) * IN_TIME.0 && self.cycles > 0
    }
}

impl ClockedPlayout {
    /// For a device that says how long its cycles are ([`crate::Wants::block`]): as long as its clock agrees with the sender's, a stream of a fixed playout delay
    /// at its rate goes out unchanged, without the resampler's delay.
    pub fn in_cycles(mut self) -> Self {
        let config = self.playout.config();
        if config.format.rate() == self.rate && config.adapts.is_none() {
            let history = HISTORY * self.resampler.delay() * config.format.channels();
            self.direct = Some(Box::new(Direct::new(history)));
        }
        self
    }

    /// Whether sound goes out without the resampler.
    pub fn is_direct(&self) -> bool {
        self.direct.as_ref().is_some_and(|direct| direct.on)
    }

    /// Fills `out` with sound as it was sent; `place`: where it stands in the device's cycle. `None` once the resampler has taken over.
    pub(super) fn pull_direct(
        &mut self,
        now: Instant,
        place: Option<CyclePlace>,
        out: &mut [f32],
    ) -> Option<ClockedPull> {
        let frames = out.len() / self.playout.config().format.channels();
        let direct = self.direct.as_mut().filter(|direct| direct.on)?;
        if !direct.stays(now, (frames, place), &mut self.playout) {
            self.take_over(now, out);
            return None;
        }
        let pulled = self.playout.pull(now, out);
        direct.remember(out);
        Some(ClockedPull { pulled, speed: Ppm(0.0), lag_nanos: self.lag_nanos() })
    }

    /// The resampler goes on where the sound stands: it is fed with what went out last and with what it looks ahead, until its next sample frame is
    /// the one that would have gone out next. `out` is overwritten.
    fn take_over(&mut self, now: Instant, out: &mut [f32]) {
        let Some(direct) = self.direct.as_mut() else { return };
        direct.on = false;
        self.control = Control { last: Some(now), lag: direct.lag_now(), ..Control::default() };
        self.resampler.restart();
        let channels = self.playout.config().format.channels();
        let (mut history, most) = (&direct.history[..], out.len() / channels);
        let mut left = history.len() / channels + self.resampler.ahead();
        while left > 0 {
            let part = left.min(most);
            let needed = self.resampler.needed(part) * channels;
            let (old, rest) = history.split_at(needed.min(history.len()));
            self.scratch[..old.len()].copy_from_slice(old);
            if old.len() < needed {
                self.playout.pull(now + self.held, &mut self.scratch[old.len()..needed]);
            }
            self.resampler.process(&self.scratch[..needed], &mut out[..part * channels]);
            (history, left) = (rest, left - part);
        }
    }
}

impl Direct {
    /// Before a block of so many sample frames, `rest` before the end of a cycle: whether sound goes on without the resampler. Leaves out what is
    /// too much once the schedule has settled.
    fn stays(
        &mut self,
        now: Instant,
        (frames, place): (usize, Option<CyclePlace>),
        playout: &mut Playout,
    ) -> bool {
        let rate = f64::from(playout.config().format.rate());
        let Some(lag) = playout.lag(now).filter(|_| playout.playing) else {
            self.current = None;
            return true;
        };
        let Some(CyclePlace { rest, margin }) = place else {
            self.settle_again();
            return true;
        };
        self.cycle = self.cycle.max(rest);
        self.margin = margin as f64 / rate;
        let window = self.follow(now, lag / rate + self.margin);
        let agrees = window.is_none_or(|lag| self.agrees(now, (lag, rest), playout));
        if agrees && frames == rest {
            if self.observes() {
                self.settle(now, rest, playout);
            }
            self.whole += 1;
            self.look_at_packets(rest, window.is_some(), playout);
        }
        agrees && !playout.clock().is_told()
    }

    /// Whether the clocks agree, by the lag of a window. A step of the schedule is no drift: once it is over, the sound settles again.
    fn agrees(&mut self, now: Instant, (lag, rest): (f64, usize), playout: &mut Playout) -> bool {
        if self.since.is_none() && !playout.clock().is_settling(now) {
            self.since = Some((now, lag));
        }
        let moved = (lag - std::mem::replace(&mut self.before, lag)).abs();
        let Some(at) = self.settled.or(self.since.map(|(_, lag)| lag)) else { return true };
        let off = (lag - at).abs();
        if off < MOST_LAG {
            self.off = 0;
            self.calm += 1;
            if self.calm >= CALM {
                self.excused = 0;
            }
            self.away = if off < MOST_LAG / 2.0 { 0 } else { self.away.saturating_add(1) };
            return true;
        }
        if moved > FASTER {
            self.off = 0;
            return true;
        }
        self.off += 1;
        self.calm = 0;
        // A drift so slow that it looks like rest takes three windows and more on the way.
        let steps = self.away <= 1 && moved < MOST_LAG / 4.0 || self.off >= OFF && self.is_excused(now);
        if steps {
            self.on_step(now, (lag, rest), playout);
        }
        steps || self.off < OFF
    }

    /// Whether the schedule may have moved because the device's clock loses time again and again.
    fn is_excused(&mut self, now: Instant) -> bool {
        self.excused += 1;
        self.excused <= MOST_EXCUSED && self.slipped.is_some_and(|at| now.since(at) < DISTURBS)
    }

    /// The device's clock has lost time at once.
    pub fn on_slip(&mut self, now: Instant) {
        self.slipped = Some(now);
    }

    /// The schedule has moved. Sound that is still less than a packet before it, and whose cycles end where packets do, stays as it is: after an xrun that
    /// both ends had, the schedule goes away from the cycles and comes back.
    fn on_step(&mut self, now: Instant, (lag, rest): (f64, usize), playout: &mut Playout) {
        let rate = f64::from(playout.config().format.rate());
        let packet = playout.newest().map_or(0.0, |(frames, _)| frames as f64 / rate);
        let ends = playout.packet_end(rest as u64, self.cycle as u64).is_some_and(|(ahead, _)| ahead == 0);
        let stays = lag >= -packet && lag - self.margin <= MOST_LAG;
        if self.settled.is_some() && ends && stays {
            (self.settled, self.off, self.away) = (Some(lag), 0, 0);
        } else {
            self.start_over();
            // Where it waits, its lag is another one afterwards.
            match lag < -packet {
                true => playout.playing = false,
                false => self.since = Some((now, lag)),
            }
        }
    }

    /// The sound settles again.
    fn start_over(&mut self) {
        self.again |= self.settled.is_some();
        self.settle_again();
    }

    /// Sound comes before its schedule where it has settled, or where the margin has become longer. Where packets miss their cycles because of that, it goes
    /// back.
    fn look_at_packets(&mut self, rest: usize, is_over: bool, playout: &mut Playout) {
        // Without a packet nothing waits.
        let received = playout.packet_end(rest as u64, self.cycle as u64).map_or(0, |(_, received)| received);
        let short = (rest as u64).saturating_sub(received);
        // More is missing where packets are lost.
        let reached = &mut self.reached;
        if short <= self.cycle as u64 {
            reached.cycles += 1;
            reached.missed += u32::from(short > 0);
            reached.row = if short > 0 { reached.row + 1 } else { 0 };
        }
        let in_a_row = f64::from(reached.row) * self.cycle as f64;
        let all = in_a_row > ALL_MISSED * f64::from(playout.config().format.rate());
        let Reached { cycles, missed, again, row } = *reached;
        let misses = u64::from(missed) * IN_TIME.1 > u64::from(cycles) * (IN_TIME.1 - IN_TIME.0);
        if is_over {
            *reached = Reached { again: misses, row, ..Reached::default() };
        }
        if (all || is_over && misses && again) && self.lag_now().is_some_and(|lag| lag < -MOST_LAG) {
            self.start_over();
            playout.playing = false;
        }
    }

    /// Once cycles have been observed: leaves out what is later than it should be. Sound is handed over as it comes, so the margin is no delay where its packets
    /// come before it; where they do not, it is handed over the margin before its cycle as well.
    fn settle(&mut self, now: Instant, rest: usize, playout: &mut Playout) {
        let rate = f64::from(playout.config().format.rate());
        let Some((lag, (since, _))) = self.lag.zip(self.since) else { return };
        let behind = [lag, lag - self.margin].map(|lag| ((lag - MOST_LAG).max(0.0) * rate) as u64);
        let ends = behind.map(|behind| playout.packet_end(rest as u64 + behind, self.cycle as u64));
        let [Some(sooner), Some(later)] = ends else { return };
        self.cycles += 1;
        for (in_time, (behind, (ahead, received))) in
            self.in_time.iter_mut().zip(behind.into_iter().zip([sooner, later]))
        {
            *in_time += u32::from(received >= rest as u64 + behind + ahead);
        }
        if now.since(since) < if self.again { OBSERVED_AGAIN } else { OBSERVED } {
            return;
        }
        let left_out = match self.in_time.map(|in_time| self.is_often(in_time)) {
            [true, _] => behind[0] + sooner.0,
            [false, true] => behind[1] + later.0,
            [false, false] => behind[1],
        };
        playout.skip(left_out);
        let lag = lag - left_out as f64 / rate;
        (self.lag, self.settled, self.current) = (Some(lag), Some(lag), None);
    }
}

impl Playout {
    /// Sample frames from `ahead` after the next one to the end of the packet that holds that place, and from the next one to the end of what was received.
    /// The first is 0 where packets and cycles of `cycle` sample frames do not end together again and again. `None` while nothing waits.
    fn packet_end(&self, ahead: u64, cycle: u64) -> Option<(u64, u64)> {
        let (packet, end) = self.newest()?;
        let received = end.checked_sub(self.position?)?;
        let together =
            packet > 0 && cycle > 0 && (packet.is_multiple_of(cycle) || cycle.is_multiple_of(packet));
        let off = (i128::from(received) - i128::from(ahead)).rem_euclid(i128::from(packet.max(1)));
        Some((if together { off as u64 } else { 0 }, received))
    }

    /// Sample frames of the newest packet, and the media time of its end.
    fn newest(&self) -> Option<(u64, u64)> {
        let newest =
            self.lanes.iter().filter_map(|lane| lane.store.back()).max_by_key(|record| record.end())?;
        Some((newest.frames as u64, newest.end()))
    }
}

/// The resampler is fed with so many times its delay of what went out: its filter is twice as long.
const HISTORY: usize = 3;
/// In seconds: a delay is constant within this, and schedules that follow the queue of an idle path move by less.
const MOST_LAG: f64 = 0.4e-3;
/// For so long, in seconds, packets miss every cycle before the sound goes back: longer than what holds up a thread now and then.
const ALL_MISSED: f64 = 0.1;
/// The lag is looked at so often.
const WINDOW: Duration = Duration::from_secs(1);
/// So many windows in a row tell that the clocks differ: a step of less than a millisecond, which the schedule follows by as much a second, moves it in two.
const OFF: u32 = 3;
/// For so long after a device's clock has lost time, a schedule may move because of that: it is followed within five seconds, and settles within as many.
const DISTURBS: Duration = Duration::from_secs(10);
/// Clocks that differ move it again each time that the sound has settled, within so many windows if they are 20 ppm apart.
const MOST_EXCUSED: u32 = 3;
const CALM: u32 = 30;
/// What the lag changes by in a window if it is no drift, in seconds: clocks are 500 ppm apart at most.
const FASTER: f64 = 0.55e-3;
/// For how long cycles are observed once the schedule comes down no more. It follows a clock that differs from this machine's, as a server's may at both ends, within five
/// seconds of the first packet.
const OBSERVED: Duration = Duration::from_secs(3);
/// The same once the sound has settled before: for longer than the schedule remembers (five seconds), so that it does not follow what comes back.
const OBSERVED_AGAIN: Duration = Duration::from_secs(6);
/// While it is observed how packets come, one cycle of so many is not handed over before it is due.
const OBSERVES: u64 = 8;
/// Of so many cycles, the second, the first are in time, at least: the rest may lack packets that were lost.
const IN_TIME: (u64, u64) = (4, 5);

#[cfg(test)]
mod tests;
