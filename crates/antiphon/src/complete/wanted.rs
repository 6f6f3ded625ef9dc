//! The stretches that a recording misses, as they come in.

use std::collections::BTreeMap;

use antiphon_media::completion::Stretch;

/// What is missing; nothing overlaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Sample frames by their first one.
    missing: BTreeMap<u64, u64>,
}

impl Wanted {
    /// Of the sample frames of a sender, those that are not in a recording that begins with `first` and has so many, but not in
    /// `gaps`.
    pub fn new(all: u64, first: u64, frames: u64, gaps: impl Iterator<Item = Stretch>) -> Self {
        let mut wanted = Wanted::default();
        let end = first.saturating_add(frames);
        wanted.add(0, first.min(all));
        for gap in gaps {
            wanted.add(gap.at, gap.end().min(all));
        }
        wanted.add(end, all);
        wanted
    }

    fn add(&mut self, at: u64, end: u64) {
        if end > at {
            match self.missing.last_entry() {
                Some(mut last) if *last.key() + *last.get() == at => *last.get_mut() += end - at,
                _ => drop(self.missing.insert(at, end - at)),
            }
        }
    }

    /// In ascending order.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> {
        self.missing.iter().map(|(at, frames)| Stretch { at: *at, frames: *frames })
    }

    /// Sample frames in all.
    pub fn frames(&self) -> u64 {
        self.missing.values().sum()
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
    }

    /// A stretch has come: returns whether all of it was missing; if not, it is not to be taken.
    pub fn take(&mut self, came: Stretch) -> bool {
        let Some((&at, &frames)) = self.missing.range(..=came.at).next_back() else { return false };
        let Some(end) = came.at.checked_add(came.frames).filter(|end| *end <= at + frames) else {
            return false;
        };
        if came.frames == 0 {
            return false;
        }
        self.missing.remove(&at);
        if came.at > at {
            self.missing.insert(at, came.at - at);
        }
        if end < at + frames {
            self.missing.insert(end, at + frames - end);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(wanted: &Wanted) -> Vec<(u64, u64)> {
        wanted.stretches().map(|one| (one.at, one.frames)).collect()
    }

    fn stretch(at: u64, frames: u64) -> Stretch {
        Stretch { at, frames }
    }

    #[test]
    fn head_gaps_and_tail_are_wanted() {
        let gaps = || [stretch(110, 5), stretch(200, 10), stretch(390, 10)].into_iter();
        let wanted = Wanted::new(500, 100, 300, gaps());
        assert_eq!(list(&wanted), [(0, 100), (110, 5), (200, 10), (390, 110)]);
        assert_eq!(wanted.frames(), 225);
        // A recording that goes on after the sender's last sample frame, or lies behind it.
        assert_eq!(list(&Wanted::new(395, 100, 300, gaps())), [(0, 100), (110, 5), (200, 10), (390, 5)]);
        assert_eq!(list(&Wanted::new(50, 100, 300, std::iter::empty())), [(0, 50)]);
        assert!(Wanted::new(300, 0, 300, std::iter::empty()).is_empty());
    }

    #[test]
    fn only_what_is_missing_is_taken_and_once() {
        let mut wanted = Wanted::new(500, 0, 500, [stretch(100, 100)].into_iter());
        for refused in [
            stretch(99, 2),
            stretch(0, 5),
            stretch(190, 11),
            stretch(300, 1),
            stretch(150, 0),
            stretch(150, u64::MAX),
        ] {
            assert!(!wanted.take(refused), "{refused:?}");
        }
        assert!(wanted.take(stretch(120, 30)));
        assert_eq!(list(&wanted), [(100, 20), (150, 50)]);
        assert!(!wanted.take(stretch(120, 30)) && !wanted.take(stretch(110, 20)));
        assert!(
            wanted.take(stretch(100, 20)) && wanted.take(stretch(190, 10)) && wanted.take(stretch(150, 40))
        );
        assert!(wanted.is_empty());
    }
}
