//! The playout delay of a stream that is received: what one that adapts has done, and what others would do.

use std::time::Duration;

use antiphon_core::MediaTime;
use antiphon_session::{AdaptedFigures, LATENESS};

/// What a playout delay that adapts has done, since the stream began.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct AdaptedDelay {
    /// The delay that the stream needs now, in milliseconds.
    pub target_ms: f64,
    /// The mean of the delay in force, over the sound played.
    pub mean_ms: f64,
    /// How often the target rose.
    pub rises: u64,
    /// How often it fell.
    pub falls: u64,
    /// By how much the sound was made longer, in milliseconds.
    pub stretched_ms: f64,
    /// By how much it was made shorter.
    pub shortened_ms: f64,
    /// Times at which it was made longer since what follows had not come.
    pub waits: u64,
    /// Changes of the sound at places where it is not alike, which may be heard.
    pub rough: u64,
    /// Concealment before late sound, in milliseconds.
    pub held_ms: f64,
}

impl AdaptedDelay {
    /// From the track's figures, at `rate` sample frames per second.
    pub(super) fn new(figures: &AdaptedFigures, rate: u32) -> Self {
        let time = |frames| millis(MediaTime::new(frames, rate).duration());
        AdaptedDelay {
            target_ms: millis(figures.target),
            mean_ms: millis(figures.mean),
            rises: figures.rises,
            falls: figures.falls,
            stretched_ms: time(figures.stretched_frames),
            shortened_ms: time(figures.shortened_frames),
            waits: figures.waits,
            rough: figures.rough,
            held_ms: time(figures.held_frames),
        }
    }
}

/// A playout delay, and the share of packets that come later.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct TradeOff {
    /// From the arrival of an undelayed packet, in milliseconds.
    pub latency_ms: f64,
    /// Of the packets that came.
    pub late_percent: f64,
}

impl TradeOff {
    pub(super) fn list(delays: &[Option<Duration>; LATENESS.len()]) -> Vec<Self> {
        let one = |(delay, late): (&Option<Duration>, f64)| {
            Some(TradeOff { latency_ms: millis((*delay)?), late_percent: late * 100.0 })
        };
        delays.iter().zip(LATENESS).filter_map(one).collect()
    }

    /// In words, the shortest delay last: `18 ms: 1 in 10 000 late; 12 ms: 1 in 100 late`; `None` if nothing is known.
    pub fn sentence(list: &[Self]) -> Option<String> {
        let words = |point: &TradeOff| {
            let one_in = (100.0 / point.late_percent).round() as u64;
            // Thin spaces would be right; programs that read the line know only this one.
            let one_in = if one_in >= 10_000 {
                format!("{} {:03}", one_in / 1000, one_in % 1000)
            } else {
                one_in.to_string()
            };
            format!("{:.0} ms: 1 in {one_in} late", point.latency_ms.ceil())
        };
        let all: Vec<String> = list.iter().rev().map(words).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trade_off_is_a_sentence() {
        let ms = |n| Some(Duration::from_micros(n));
        let list = TradeOff::list(&[ms(11_250), ms(15_000), ms(17_750)]);
        let sentence = TradeOff::sentence(&list).unwrap();
        assert_eq!(sentence, "18 ms: 1 in 10 000 late; 15 ms: 1 in 1000 late; 12 ms: 1 in 100 late");
        assert_eq!(TradeOff::sentence(&TradeOff::list(&[None; 3])), None);
    }
}
