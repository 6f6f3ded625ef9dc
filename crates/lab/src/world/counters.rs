//! Counters of a medium as figures; and whether they balance.

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
            Part::Link(_) | Part::Replay(_) | Part::Port(_) | Part::Output(_) => part.counters().balances(),
            Part::Cell(cell) => cell.balances(),
            Part::Ring(ring) => (0..self.nodes.len())
                .all(|n| ring.ring.counters(n).is_some_and(|counters| counters.balances())),
        })
    }

    /// Its counters as figures.
    pub fn figures(&self, parts: &[Part]) -> MediumFigures {
        let counters = match self.parts(parts) {
            [Part::Cell(cell)] => cell_counters(cell),
            [Part::Ring(ring)] => ring_counters(ring, self.nodes.len()),
            parts => {
                let each: Vec<Counters> = parts.iter().map(Part::counters).collect();
                let half = each.len() / 2;
                let (one, other) = (sum(&each[..half]), sum(&each[half..]));
                let (this, that) = if self.shape == Shape::Star { ("in", "out") } else { ("up", "down") };
                [named(this, &one), named(that, &other)].concat()
            }
        };
        MediumFigures { name: self.name.clone(), counters }
    }
}

/// Counters of a link as figures, in the world and elsewhere.
pub fn link_figures(name: &str, up: &Counters, down: &Counters) -> MediumFigures {
    MediumFigures { name: name.into(), counters: [named("up", up), named("down", down)].concat() }
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

/// Counters of one direction: `up_offered` and so on.
fn named(way: &str, counters: &Counters) -> Vec<(String, f64)> {
    let counts = [
        ("offered", counters.offered),
        ("duplicated", counters.duplicated),
        ("delivered", counters.delivered),
        ("lost", counters.lost),
        ("overflowed", counters.overflowed),
        ("waiting", counters.queued + counters.in_flight),
        ("delivered_bytes", counters.delivered_bytes),
    ];
    counts.map(|(name, count)| (format!("{way}_{name}"), count as f64)).into()
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

fn cell_counters(cell: &Cell<Parcel>) -> Vec<(String, f64)> {
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
        ("unacknowledged", total.unacknowledged),
        ("duplicates", total.duplicates),
        ("exhausted_after_arrival", total.exhausted_after_arrival),
        ("retries", total.retries),
    ];
    let counts = counts.into_iter().map(|(name, count)| (name.into(), count as f64));
    counts.chain([("airtime_s".into(), total.airtime.as_secs_f64())]).collect()
}

fn ring_counters(ring: &RingPart, nodes: usize) -> Vec<(String, f64)> {
    let each: Vec<Counters> = (0..nodes).filter_map(|n| ring.ring.counters(n)).collect();
    let (total, rotations) = (sum(&each), ring.ring.rotations());
    let seconds = |time: Duration| time.as_secs_f64();
    let all = [
        ("offered", total.offered as f64),
        ("delivered", total.delivered as f64),
        ("overflowed", total.overflowed as f64),
        ("queued", total.queued as f64),
        ("delivered_bytes", total.delivered_bytes as f64),
        ("rotations", rotations.count as f64),
        ("rotation_mean_s", seconds(rotations.mean())),
        ("rotation_max_s", seconds(rotations.longest)),
        ("claims", rotations.claims as f64),
    ];
    all.map(|(name, value)| (name.into(), value)).into()
}
