//! When traffic sends.

use antiphon_core::Instant;

use crate::setup::{MediumKind, Setup, TrafficKind, TrafficSpec};
use crate::world::WorldError;
use crate::world::routes::Map;
use crate::world::traffic::Udp;

/// The UDP packets of one source of traffic: when, and how many at once.
pub struct Departures {
    udp: Udp,
    end: Instant,
    /// UDP payload of each, in bytes.
    pub payload: usize,
}

impl Departures {
    /// Those of `spec` in a run that begins at `begin`, the same that the world sends; a blaster's fill its first
    /// medium. `None`: it is a ping or a TCP.
    pub fn of(
        setup: &Setup,
        spec: &TrafficSpec,
        begin: Instant,
        seed: u64,
    ) -> Result<Option<Self>, WorldError> {
        let start = begin + spec.start;
        let (udp, payload) = match spec.kind {
            TrafficKind::Constant { payload, .. }
            | TrafficKind::Poisson { payload, .. }
            | TrafficKind::Bursts { payload, .. } => (Udp::of(spec, start, seed), payload),
            TrafficKind::Blaster { payload } => {
                (Udp::filling(first_rate(setup, spec)?, payload, start, seed), payload)
            }
            TrafficKind::Ping { .. } | TrafficKind::GreedyTcp { .. } => return Ok(None),
        };
        Ok(Some(Departures { udp, end: begin + setup.duration, payload }))
    }

    /// When the next packets are due; `None` after the last.
    pub fn due(&self) -> Option<Instant> {
        self.udp.next().filter(|at| *at < self.end)
    }

    /// How many are due together then; the next are looked at.
    pub fn take(&mut self) -> u32 {
        self.udp.step()
    }
}

/// The rate of the first medium that traffic goes out on, in bits a second.
fn first_rate(setup: &Setup, spec: &TrafficSpec) -> Result<u64, WorldError> {
    let map = Map::new(setup)?;
    let hop = map.way(&spec.name, spec.from, spec.to)?[0];
    let rate = match &setup.media[hop.medium].kind {
        MediumKind::Link { spec, .. } | MediumKind::Alternating { spec, .. } => {
            if hop.own == 0 {
                spec.up.rate
            } else {
                spec.down.rate
            }
        }
        MediumKind::Cable { rate, .. } | MediumKind::Switch { rate, .. } => Some(*rate),
        _ => None,
    };
    rate.map(|rate| rate.0)
        .ok_or_else(|| WorldError::quantity(&spec.name, "a blaster's first medium needs a rate"))
}
