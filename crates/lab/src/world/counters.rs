//! What a medium did, as figures; and whether it lost count.

use std::time::Duration;

use antiphon_link::Counters;
use antiphon_link::wlan::Cell;

use super::medium::{Medium, Part, Shape};
use super::packet::Parcel;
use super::ring::RingPart;
use crate::figures::MediumFigures;

impl Medium {
    /// Whether every packet is accounted for.
    pub fn balances(&self, parts: &[Part]) -> bool {
        self.parts(parts).iter().all(|part| match part {
            Part::Link(link) => link.counters().balances(),
            Part::Replay(replay) => replay.counters().balances(),
            Part::Port(port) => port.counters().balances(),
            Part::Output(switch) => switch.counters(0).is_some_and(|counters| counters.balances()),
            Part::Cell(cell) => cell.balances(),
            Part::Ring(ring) => (0..self.nodes.len())
                .all(|n| ring.ring.counters(n).is_some_and(|counters| counters.balances())),
        })
    }

    /// What it did.
    pub fn figures(&self, parts: &[Part]) -> MediumFigures {
        let counters = match self.parts(parts) {
            [Part::Cell(cell)] => cell_counters(cell),
            [Part::Ring(ring)] => ring_counters(ring, self.nodes.len()),
            parts => {
                let each: Vec<Counters> = parts.iter().map(Part::counters).collect();
                let half = each.len() / 2;
                let names =
                    if self.shape == Shape::Star { [IN_NAMES, OUT_NAMES] } else { [UP_NAMES, DOWN_NAMES] };
                let both = [&each[..half], &each[half..]].map(sum);
                names.iter().zip(both).flat_map(|(names, counters)| named(names, &counters)).collect()
            }
        };
        MediumFigures { name: self.name.clone(), counters }
    }
}

/// What a link counted, as figures; in the world and out of it.
pub fn link_figures(name: &str, up: &Counters, down: &Counters) -> MediumFigures {
    let both = [(&UP_NAMES, up), (&DOWN_NAMES, down)];
    let counters = both.into_iter().flat_map(|(names, counters)| named(names, counters)).collect();
    MediumFigures { name: name.into(), counters }
}

impl Part {
    fn counters(&self) -> Counters {
        match self {
            Part::Link(link) => link.counters(),
            Part::Replay(replay) => replay.counters(),
            Part::Port(port) => port.counters(),
            Part::Output(switch) => switch.counters(0).unwrap_or_default(),
            Part::Cell(_) | Part::Ring(_) => Counters::default(),
        }
    }
}

type Names = [&'static str; 7];

const UP_NAMES: Names = [
    "up_offered",
    "up_duplicated",
    "up_delivered",
    "up_lost",
    "up_overflowed",
    "up_waiting",
    "up_delivered_bytes",
];
const DOWN_NAMES: Names = [
    "down_offered",
    "down_duplicated",
    "down_delivered",
    "down_lost",
    "down_overflowed",
    "down_waiting",
    "down_delivered_bytes",
];
const IN_NAMES: Names = [
    "in_offered",
    "in_duplicated",
    "in_delivered",
    "in_lost",
    "in_overflowed",
    "in_waiting",
    "in_delivered_bytes",
];
const OUT_NAMES: Names = [
    "out_offered",
    "out_duplicated",
    "out_delivered",
    "out_lost",
    "out_overflowed",
    "out_waiting",
    "out_delivered_bytes",
];

fn named(names: &Names, counters: &Counters) -> Vec<(&'static str, f64)> {
    let waiting = counters.queued + counters.in_flight;
    let values = [
        counters.offered,
        counters.duplicated,
        counters.delivered,
        counters.lost,
        counters.overflowed,
        waiting,
        counters.delivered_bytes,
    ];
    names.iter().copied().zip(values.map(|value| value as f64)).collect()
}

fn sum(all: &[Counters]) -> Counters {
    all.iter().fold(Counters::default(), |sum, one| Counters {
        offered: sum.offered + one.offered,
        duplicated: sum.duplicated + one.duplicated,
        delivered: sum.delivered + one.delivered,
        lost: sum.lost + one.lost,
        overflowed: sum.overflowed + one.overflowed,
        queued: sum.queued + one.queued,
        in_flight: sum.in_flight + one.in_flight,
        delivered_bytes: sum.delivered_bytes + one.delivered_bytes,
        ..sum
    })
}

fn cell_counters(cell: &Cell<Parcel>) -> Vec<(&'static str, f64)> {
    let total = cell.totals();
    let counts = [
        ("offered", total.offered),
        ("relayed", total.relayed),
        ("acknowledged", total.acknowledged),
        ("multicast", total.multicast),
        ("overflowed", total.overflowed),
        ("exhausted", total.exhausted),
        ("queued", total.queued),
        ("copies", total.copies),
        ("missed", total.missed),
        ("delivered", total.delivered),
        ("attempts", total.attempts),
        ("collisions", total.collisions),
        ("failures", total.failures),
        ("retries", total.retries),
    ];
    let mut all: Vec<_> = counts.into_iter().map(|(name, count)| (name, count as f64)).collect();
    all.push(("airtime_s", total.airtime.as_secs_f64()));
    all
}

fn ring_counters(ring: &RingPart, nodes: usize) -> Vec<(&'static str, f64)> {
    let each: Vec<Counters> = (0..nodes).filter_map(|n| ring.ring.counters(n)).collect();
    let (total, rotations) = (sum(&each), ring.ring.rotations());
    let seconds = |time: Duration| time.as_secs_f64();
    vec![
        ("offered", total.offered as f64),
        ("delivered", total.delivered as f64),
        ("overflowed", total.overflowed as f64),
        ("queued", total.queued as f64),
        ("delivered_bytes", total.delivered_bytes as f64),
        ("rotations", rotations.count as f64),
        ("rotation_mean_s", seconds(rotations.mean())),
        ("rotation_max_s", seconds(rotations.longest)),
        ("claims", rotations.claims as f64),
    ]
}
