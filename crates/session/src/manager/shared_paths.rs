//! The paths to several receivers of one sender: each is known by what its receiver tells, and gets the pictures that it has room for.

use std::time::Duration;

use antiphon_core::{Event, Instant};
use antiphon_media::rtcp::ArrivalReport;

use super::{Budget, CongestionManager, PathFigures, SharedPath, TrackId};
use crate::associations::AssociationId;

/// A [`SharedPath`] for each receiver that has called. A single one is sent what its path takes, as by that; of several, each is asked about every
/// picture ([`CongestionManager::takes`]). A receiver that comes allocates its path; nothing else does.
#[derive(Debug)]
pub struct SharedPaths {
    streams: usize,
    paths: Vec<(AssociationId, SharedPath)>,
    /// The one that was last sent something.
    last: usize,
}

impl SharedPaths {
    /// For so many streams to each receiver: the channel groups of the sound, and the pictures.
    pub fn new(streams: usize) -> Self {
        SharedPaths { streams, paths: Vec::new(), last: 0 }
    }

    fn of(&mut self, on: AssociationId) -> Option<&mut SharedPath> {
        self.paths.iter_mut().find(|(id, _)| *id == on).map(|(_, path)| path)
    }
}

impl CongestionManager for SharedPaths {
    fn on_event(&mut self, _now: Instant, on: AssociationId, event: &Event) {
        if matches!(event, Event::Closed(_)) {
            self.paths.retain(|(id, _)| *id != on);
            self.last = 0;
        }
    }

    fn on_sent(&mut self, now: Instant, on: AssociationId, track: TrackId, packet: &[u8]) {
        self.last = match self.paths.iter().position(|(id, _)| *id == on) {
            Some(at) => at,
            None => {
                self.paths.push((on, SharedPath::new(self.streams)));
                self.paths.len() - 1
            }
        };
        self.paths[self.last].1.on_sent(now, on, track, packet);
    }

    fn on_report(&mut self, now: Instant, on: AssociationId, report: &ArrivalReport<'_>) {
        if let Some(path) = self.of(on) {
            path.on_report(now, on, report);
        }
    }

    fn budget(&mut self, now: Instant, track: TrackId) -> Budget {
        let last = self.last;
        self.paths.get_mut(last).map_or(Budget::All, |(_, path)| path.budget(now, track))
    }

    fn takes(&mut self, now: Instant, on: AssociationId, bytes: usize, patience: Duration) -> bool {
        self.of(on).is_none_or(|path| path.takes(now, on, bytes, patience))
    }

    /// Of the slowest.
    fn figures(&self) -> PathFigures {
        let figures = self.paths.iter().map(|(_, path)| path.figures());
        let rate = |one: &PathFigures| one.rate.unwrap_or(f64::INFINITY);
        let Some(slowest) = figures.min_by(|a, b| rate(a).total_cmp(&rate(b))) else {
            // Nobody has called yet: there is no path of which something could be known.
            return PathFigures::default();
        };
        slowest
    }
}
