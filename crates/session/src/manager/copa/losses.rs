//! How often a path loses packets, and what a TCP would send on it.

use antiphon_core::cc::tfrc::throughput;

use super::Told;

/// How often packets are lost: losses of one round are one event (RFC 5348 §5.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    events: u32,
    /// Packets since the last event, and smoothed between events.
    since: f64,
    between: f64,
}

impl Losses {
    pub fn note(&mut self, packets: u32, is_event: bool) {
        self.since += f64::from(packets);
        if is_event {
            self.between =
                if self.events == 0 { self.since } else { self.between * 7.0 / 8.0 + self.since / 8.0 };
            (self.events, self.since) = (self.events + 1, 0.0);
        }
    }

    /// The most that may be on its way: what a TCP has on average, Reno or CUBIC (RFC 9438 §5.1, whose 1.054 is of its C and β), and some more.
    pub fn bound(&self, told: &Told) -> f64 {
        if self.events < FEW_EVENTS {
            return f64::INFINITY;
        }
        let p = 1.0 / self.between.max(self.since).max(1.0);
        let round_trip = told.answer.saturating_sub(told.standing);
        let seconds = round_trip.as_secs_f64().max(1e-3);
        let cubic = told.packet * 1.054 * seconds.powf(-0.25) * p.powf(-0.75);
        FRIENDLY * throughput(told.packet, round_trip, p).max(cubic) * told.answer.as_secs_f64()
    }
}

/// Loss events that the path has shown before they bound anything.
const FEW_EVENTS: u32 = 4;
/// The bound by losses, in rates of a TCP: the equation is that of a mean, and shares of two thirds and one third are a fairness of 0.9.
const FRIENDLY: f64 = 1.75;
