//! Why ours departs from the paper, from the figures of both.

use super::super::Departure;

pub(super) const DEPARTURES: &[Departure] = &[];
