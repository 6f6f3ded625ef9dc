//! How long sound takes in a call, from one mouth to the other ear, without clocks that agree.
//!
//! Each end measures, by its own clock less the peer's stamps: the least transit *p* of a packet, and the time *M* from a packet's
//! stamp to the instant at which it is heard. Both contain the difference *d* of the two clocks. The ends tell each other what
//! they have (`antiphon_media::rtcp::Delays`), and with the peer's *q* and *N*
//!
//! ```text
//! from mouth to ear, both ways together:  M + N            d cancels: this is known
//! round trip of the network:              p + q            likewise
//! this way alone:                         M − d            where −q ≤ d ≤ p, as no packet arrives before it was sent
//! ```
//!
//! So one way alone is known to half the round trip; what one way is longer the other is shorter. A narrower statement needs a
//! path that takes alike both ways: then *d* is in the middle. That is assumed where nothing speaks against it, with room for one
//! way to take up to 70 % of the round trip; `docs/talk.md` says what speaks against it, and what no end can see.

mod window;

use std::time::Duration;

use antiphon_core::{Epoch, Instant, NtpTime};
use antiphon_media::rtcp::{Delays, HeardDelays};

use window::Window;

/// How long sound takes from mouth to ear in a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MouthToEar {
    /// From the peer's mouth to our ear.
    pub from_peer: Duration,
    /// From our mouth to the peer's ear.
    pub to_peer: Duration,
    /// Each of both lies within so much.
    pub half_width: Duration,
    /// Both together lie within so much: what one way is longer than stated, the other is shorter.
    pub sum_half_width: Duration,
    /// The least round trip of the network.
    pub round_trip: Duration,
    /// What the half width rests on.
    pub basis: Basis,
}

/// What the error of one way rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// On nothing but the round trip: it holds on any path.
    RoundTrip,
    /// On the assumption that neither way takes more than 70 % of the round trip; nothing speaks against it.
    Symmetry,
    /// On nothing but the round trip, since something speaks against that assumption: which way takes how much is not known.
    Asymmetry(Asymmetry),
}

/// What speaks against a path that takes alike both ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asymmetry {
    /// Long packets take much longer than short ones, and more so one way.
    Rate,
    /// Packets wait much longer one way.
    Queueing,
    /// The wall clocks of both ends nearly agree, and by them one way takes much longer.
    Clocks,
}

/// What one end measures and is told.
#[derive(Debug, Default)]
pub(crate) struct DelayMeter {
    /// Transit of packets of sound.
    sound: Window<16>,
    /// Transit of what the peer tells, which is short.
    told: Window<32>,
    /// From stamp to ear.
    ear: Window<4>,
    /// Bytes of the packets of sound, smoothed.
    len: f64,
    peer: Option<(Instant, Delays)>,
    /// How often our wall clock was set.
    steps: u32,
    /// From capture to the source; from the sink to the ear; the error of both.
    devices: (Duration, Duration, Duration),
}

impl DelayMeter {
    /// A packet of sound came: its stamp, its bytes, and when its last sample is handed to the sink.
    pub fn on_sound(
        &mut self,
        epoch: Epoch,
        (at, sent, len): (Instant, NtpTime, usize),
        repaired: bool,
        sink: Option<Instant>,
    ) {
        let since_stamp = |at: Instant| epoch.ntp(at).signed_nanos_since(sent);
        // A repair shows how long losing takes.
        if !repaired {
            self.sound.add(at, since_stamp(at));
            let gain = if self.len == 0.0 { 1.0 } else { 1.0 / 64.0 };
            self.len += (len as f64 - self.len) * gain;
        }
        if let Some(sink) = sink {
            self.ear.add(at, since_stamp(sink + self.devices.1));
        }
    }

    /// The peer told what it has.
    pub fn on_told(&mut self, now: Instant, epoch: Epoch, at: Instant, repaired: bool, told: Delays) {
        if self.peer.is_none_or(|(_, before)| (before.ssrc, before.steps) != (told.ssrc, told.steps)) {
            // By another clock, nothing of before counts.
            self.forget();
        }
        if !repaired {
            self.told.add(at, epoch.ntp(at).signed_nanos_since(told.sent));
        }
        self.peer = Some((now, told));
    }

    /// Delays of the devices: from capture to the source, from the sink to the ear, and by how much both may be wrong.
    pub fn set_devices(&mut self, capture: Duration, playback: Duration, error: Duration) {
        self.devices = (capture, playback, error);
    }

    /// Our wall clock was set.
    pub fn on_clock_set(&mut self) {
        self.steps = self.steps.wrapping_add(1);
        self.forget();
    }

    /// Another peer takes the place of the one before.
    pub fn forget(&mut self) {
        *self = DelayMeter { steps: self.steps, devices: self.devices, ..DelayMeter::default() };
    }

    /// What the peer is told.
    pub fn tells(&self, now: Instant, epoch: Epoch, ssrc: u32, hears: Option<u32>) -> Delays {
        let (captured, _, error) = self.devices;
        let sent = epoch.ntp(now);
        let (heard, error) = (self.heard(now), error + RESOLUTION);
        Delays { ssrc, hears, sent, heard, captured, error, steps: self.steps }
    }

    fn heard(&self, now: Instant) -> Option<HeardDelays> {
        let sound = self.sound.figures(now).filter(|sound| sound.count >= FEW)?;
        let told = self.told.figures(now);
        let transit = told.map_or(sound.least, |told| told.least.min(sound.least));
        let longer = self.len - Delays::LEN as f64;
        let per_kilobyte = told.filter(|told| told.count >= FEW_TOLD && longer >= LEAST_LONGER);
        let per_kilobyte = per_kilobyte.map(|told| {
            let more = sound.least.saturating_sub(told.least).max(0);
            Duration::from_nanos((more as f64 * 1000.0 / longer) as u64)
        });
        // Stamps are late by as much as a thread was woken late, so the longest time counts.
        let ear = self.ear.figures(now)?.most;
        Some(HeardDelays { transit, ear, queueing: sound.mean_above_least(), per_kilobyte })
    }

    /// What is known now; `None` before both ends have heard each other, and once the peer tells nothing more.
    pub fn estimate(&self, now: Instant) -> Option<MouthToEar> {
        let (at, theirs) = self.peer?;
        if now.since(at) > FRESH {
            return None;
        }
        let ours = self.tells(now, Epoch::default(), 0, None);
        let (here, there) = (ours.heard?, theirs.heard?);
        // Nothing that a peer tells may overflow.
        let wide = |nanos: i64| i128::from(nanos);
        let sum = |one: i64, other: i64| wide(one) + wide(other);
        let round_trip = time(sum(here.transit, there.transit))?;
        // Twice the peer's clock behind ours, if both ways take alike.
        let twice = wide(here.transit) - wide(there.transit);
        let from_peer = time(wide(here.ear) - twice / 2)? + theirs.captured;
        let to_peer = time(wide(there.ear) + twice / 2)? + ours.captured;
        let error = ours.error + theirs.error;
        if from_peer.max(to_peer).max(error) > LONGEST {
            return None;
        }
        let certain = round_trip / 2 + error;
        let assumed = round_trip.mul_f64(MOST_SHARE - 0.5) + error;
        let (half_width, basis) = if certain <= NARROW {
            (certain, Basis::RoundTrip)
        } else if let Some(asymmetry) = asymmetry(round_trip, twice, &here, &there) {
            (certain, Basis::Asymmetry(asymmetry))
        } else {
            (assumed, Basis::Symmetry)
        };
        Some(MouthToEar { from_peer, to_peer, half_width, sum_half_width: 2 * error, round_trip, basis })
    }
}

/// What speaks against a path that takes alike both ways; `twice` the difference of both transits, in nanoseconds.
fn asymmetry(
    round_trip: Duration,
    twice: i128,
    here: &HeardDelays,
    there: &HeardDelays,
) -> Option<Asymmetry> {
    let tolerated = round_trip.mul_f64(MOST_SHARE - 0.5);
    // What the clocks say of either way less half the round trip: more than half of it no path can do.
    let apart = Duration::from_nanos(u64::try_from(twice.unsigned_abs() / 2).unwrap_or(u64::MAX));
    if apart > tolerated && apart <= round_trip / 2 + CLOCKS_AGREE {
        return Some(Asymmetry::Clocks);
    }
    let noise = (here.queueing + there.queueing) / 4;
    if let (Some(one), Some(other)) = (here.per_kilobyte, there.per_kilobyte)
        && one.abs_diff(other) > tolerated + noise
    {
        return Some(Asymmetry::Rate);
    }
    let (least, most) = (here.queueing.min(there.queueing), here.queueing.max(there.queueing));
    (most > round_trip / 4 && most > 3 * least + CLOCKS_AGREE).then_some(Asymmetry::Queueing)
}

/// Not negative; less than a resolution below zero is zero.
fn time(nanos: i128) -> Option<Duration> {
    if nanos < -(RESOLUTION.as_nanos() as i128) {
        return None;
    }
    u64::try_from(nanos.max(0)).ok().map(Duration::from_nanos)
}

/// The greatest share of the round trip that one way is assumed to take.
const MOST_SHARE: f64 = 0.7;
/// An error of one way that needs no assumption to be narrow enough: what musicians do not notice.
const NARROW: Duration = Duration::from_millis(2);
/// The error of each end's own measurements: threads wake up late, and a clock that is 50 ppm off gains 0.2 ms on the other
/// within the windows.
const RESOLUTION: Duration = Duration::from_micros(250);
/// Clocks that agree so well count as agreeing: NTP over a short path.
const CLOCKS_AGREE: Duration = Duration::from_millis(2);
/// Packets of sound from which a least transit is taken.
const FEW: u32 = 16;
/// Packets that the peer told from which a least transit is taken: 2 s.
const FEW_TOLD: u32 = 8;
/// Packets of sound are so many bytes longer than others, or tell nothing of the rate.
const LEAST_LONGER: f64 = 200.0;
/// How long what the peer told counts: several times as long as until it tells again.
const FRESH: Duration = Duration::from_secs(3);
/// No call has longer delays; what says so is wrong.
const LONGEST: Duration = Duration::from_secs(60);
/// How often it is told.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
