//! When each association must be called, the soonest first.

use antiphon_core::Instant;

/// A binary heap of time-outs, at most one for each place. The position of each entry is known: a change moves one
/// entry.
///
/// Ties go to the lower place. Memory is allocated only for a place beyond all earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<(Instant, u32)>,
    /// Position of each place in the heap.
    stands: Vec<Option<u32>>,
}

impl Timers {
    /// Holds memory ready for places below `places`.
    pub fn reserve(&mut self, places: usize) {
        self.heap.reserve(places);
        self.stands.reserve(places);
    }

    /// The soonest time-out.
    pub fn soonest(&self) -> Option<Instant> {
        self.heap.first().map(|(when, _)| *when)
    }

    /// Sets when `place` is to be called; returns whether that differs from before.
    pub fn set(&mut self, place: usize, when: Option<Instant>) -> bool {
        if self.stands.len() <= place {
            self.stands.resize(place + 1, None);
        }
        let at = self.stands[place].map(|at| at as usize);
        match (at, when) {
            (None, None) => false,
            (None, Some(when)) => {
                self.heap.push((when, place as u32));
                self.move_up(self.heap.len() - 1);
                true
            }
            (Some(at), None) => {
                self.remove(at);
                true
            }
            (Some(at), Some(when)) => {
                let before = std::mem::replace(&mut self.heap[at].0, when);
                if before != when {
                    let at = self.move_up(at);
                    self.move_down(at);
                }
                before != when
            }
        }
    }

    /// Removes the place whose time-out has been due longest.
    pub fn pop_due(&mut self, now: Instant) -> Option<usize> {
        let (when, place) = *self.heap.first()?;
        if when > now {
            return None;
        }
        self.remove(0);
        Some(place as usize)
    }

    fn remove(&mut self, at: usize) {
        let (_, place) = self.heap.swap_remove(at);
        self.stands[place as usize] = None;
        if at < self.heap.len() {
            let at = self.move_up(at);
            self.move_down(at);
        }
    }

    /// Moves an entry up to its position; returns that position.
    fn move_up(&mut self, mut at: usize) -> usize {
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.heap.swap(at, (at - 1) / 2);
            self.note(at);
            at = (at - 1) / 2;
        }
        self.note(at);
        at
    }

    fn move_down(&mut self, mut at: usize) {
        loop {
            let below = [2 * at + 1, 2 * at + 2];
            let least = below.into_iter().filter(|at| *at < self.heap.len()).min_by_key(|at| self.heap[*at]);
            match least {
                Some(least) if self.heap[least] < self.heap[at] => {
                    self.heap.swap(at, least);
                    self.note(at);
                    at = least;
                }
                _ => break,
            }
        }
        self.note(at);
    }

    fn note(&mut self, at: usize) {
        self.stands[self.heap[at].1 as usize] = Some(at as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_core::Rng;

    /// Compares with a list that is searched linearly.
    #[test]
    fn the_soonest_comes_first_whatever_was_set_and_taken_back() {
        let (mut rng, mut timers) = (Rng::fork(1, "timers"), Timers::default());
        let mut plain: Vec<Option<Instant>> = vec![None; 60];
        let mut now = Instant::ZERO;
        for _ in 0..20_000 {
            let place = rng.next_u32() as usize % 60;
            // Few different times, so that many are equal; one in eight has none.
            let ahead = u64::from(rng.next_u32() % 16);
            let when = (!rng.next_u32().is_multiple_of(8))
                .then(|| Instant::from_millis(now.as_nanos() / 1_000_000 + ahead));
            assert_eq!(timers.set(place, when), plain[place] != when);
            plain[place] = when;
            assert_eq!(timers.soonest(), plain.iter().flatten().min().copied());
            if rng.next_u32().is_multiple_of(8) {
                now += std::time::Duration::from_millis(2);
                while let Some(place) = timers.pop_due(now) {
                    let times = plain.iter().enumerate().filter_map(|(at, when)| Some(((*when)?, at)));
                    assert_eq!(times.min(), plain[place].map(|when| (when, place)));
                    plain[place] = None;
                }
                assert!(plain.iter().flatten().all(|when| *when > now));
            }
        }
    }
}
