//! Where a recording has no sound of the sender.

/// A stretch of a recording without sound of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Its first sample frame, counted from the beginning of the recording at the stream's rate.
    pub at: u64,
    /// Sample frames.
    pub frames: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Gaps {
    list: Vec<Gap>,
    frames: u64,
    /// Gaps that were not listed, since there are too many.
    unlisted: u64,
}

impl Gaps {
    /// None yet; memory for all that are listed.
    pub fn new() -> Self {
        Gaps { list: Vec::with_capacity(MOST_GAPS), ..Gaps::default() }
    }

    /// Sound is missing here.
    pub fn add(&mut self, at: u64, frames: u64) {
        self.frames += frames;
        let has_room = self.list.len() < MOST_GAPS;
        match self.list.last_mut() {
            Some(last) if last.at + last.frames == at => last.frames += frames,
            _ if has_room => self.list.push(Gap { at, frames }),
            _ => self.unlisted += 1,
        }
    }

    /// In their order.
    pub fn list(&self) -> &[Gap] {
        &self.list
    }

    /// Sample frames in all gaps, listed or not.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Gaps that are not in the list.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }
}

/// Gaps that are listed: those of two hours with 5 % of single losses (67 500), at packets of 5 ms, and as many again.
const MOST_GAPS: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_are_one_gap() {
        let mut gaps = Gaps::new();
        [(0, 256), (256, 10), (1000, 1), (2000, 5), (2005, 5)]
            .into_iter()
            .for_each(|(at, frames)| gaps.add(at, frames));
        let listed: Vec<_> = gaps.list().iter().map(|gap| (gap.at, gap.frames)).collect();
        assert_eq!((listed, gaps.frames()), (vec![(0, 266), (1000, 1), (2000, 10)], 277));
    }

    #[test]
    fn too_many_gaps_are_counted() {
        let mut gaps = Gaps::new();
        (0..MOST_GAPS as u64 + 3).for_each(|n| gaps.add(10 * n, 1));
        assert_eq!((gaps.list().len(), gaps.unlisted(), gaps.frames()), (MOST_GAPS, 3, MOST_GAPS as u64 + 3));
    }
}
