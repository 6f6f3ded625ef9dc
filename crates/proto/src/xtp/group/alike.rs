//! Whether members lack the same packets, or each its own.
//!
//! Where all lack the same, as behind a common line, one request serves all: requests are spread over several round trips, so
//! that the repair for the first reaches most members before they ask; the first is early all the same (`backoff`). Where each lacks
//! its own, nobody else asks for it, and to wait is to lose time.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, PathId};

use super::held::{Held, Packet};
use super::missing::Missing;

/// What reports tell of it.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// Losses that were told lately, oldest first.
    told: VecDeque<Told>,
    /// Smoothed share of the told losses that another member that lacks anything lacks too.
    share: f64,
}

/// A packet that a member lacks.
#[derive(Clone, Copy, Debug)]
struct Told {
    ordinal: u64,
    /// Number of its latest transmission then.
    sent: u64,
    /// Who told first, and when.
    by: PathId,
    at: Instant,
}

/// A member's report, as far as it counts here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lacking<'a> {
    pub by: PathId,
    /// Number of the latest packet that it had.
    pub echo: u64,
    /// Position up to which it says what it lacks.
    pub told: u64,
    pub missing: &'a Missing,
}

impl Alike {
    /// Makes room.
    pub fn reserve(&mut self) {
        self.told.reserve_exact(MOST_TOLD);
    }

    /// From 0, where each lacks its own, to 1, where all lack the same. Members that ask at about the same time lack
    /// the same by chance, too: about one packet in five of those sent meanwhile.
    pub fn degree(&self) -> f64 {
        ((self.share - BY_CHANCE) / (1.0 - BY_CHANCE)).max(0.0)
    }

    /// A member reports.
    pub fn on_report(&mut self, now: Instant, report: Lacking<'_>, held: &Held) {
        while self.told.front().is_some_and(|told| now.since(told.at) > LATELY) {
            self.told.pop_front();
        }
        if report.missing.is_empty() {
            return;
        }
        for told in self.told.iter().filter(|told| told.by != report.by) {
            // It says whether it lacks the packet, of which no repair has left.
            let tells = |packet: Packet<'_>| {
                packet.to() <= report.told && told.sent <= report.echo && packet.sent() == told.sent
            };
            if held.get(told.ordinal).is_some_and(tells) {
                let lacks = report.missing.contains(told.ordinal);
                self.share += WEIGHT * (f64::from(u8::from(lacks)) - self.share);
            }
        }
        for packet in report.missing.all().filter_map(|ordinal| held.get(ordinal)) {
            let Packet { ordinal, .. } = packet;
            if self.told.len() < MOST_TOLD && self.told.iter().all(|told| told.ordinal != ordinal) {
                self.told.push_back(Told { ordinal, sent: packet.sent(), by: report.by, at: now });
            }
        }
    }
}

/// How long a told loss is compared with what others tell: the longest round trip for which requests are spread over four.
const LATELY: Duration = Duration::from_millis(125);
/// Bounds the work for a report.
const MOST_TOLD: usize = 32;
/// Of one comparison.
const WEIGHT: f64 = 1.0 / 32.0;
/// The share of told losses that a member which asks has in common with others where losses are independent: seen 0.1 to 0.3.
const BY_CHANCE: f64 = 0.4;
