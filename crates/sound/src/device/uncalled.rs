//! Notices that a server which lives has its client handle no cycles any more.
//!
//! JACK may deactivate a client without telling it, and does not call one that waits for the sound of a program that hangs.

/// Follows when a client last handled a cycle. It counts looks, not time: after a standstill of the whole machine there was one look.
pub(super) struct Uncalled {
    last: u64,
    looks: u32,
    /// So many looks without a cycle are too many.
    patience: u32,
}

impl Uncalled {
    /// Before the first look.
    pub fn new() -> Self {
        Uncalled { last: 0, looks: 0, patience: LEAST }
    }

    /// A client was opened; `last`: when one before it last handled a cycle.
    pub fn restart(&mut self, last: u64) {
        (self.last, self.looks) = (last, 0);
    }

    /// A client that last handled a cycle at `last` was looked at. True if the next one should take its place: the first one at once, those
    /// that never handle a cycle less and less often.
    pub fn look(&mut self, last: u64) -> bool {
        if std::mem::replace(&mut self.last, last) != last {
            (self.looks, self.patience) = (0, LEAST);
            return false;
        }
        self.looks += 1;
        let is_over = self.looks >= self.patience;
        if is_over {
            (self.looks, self.patience) = (0, (self.patience * 2).min(MOST));
        }
        is_over
    }
}

/// 1.2 s, at 20 looks a second: JACK's longest period, 8192 sample frames, lasts 1.02 s at 8 kHz.
const LEAST: u32 = 24;
/// A minute and a quarter.
const MOST: u32 = 64 * LEAST;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_called_now_and_then_stays() {
        let mut uncalled = Uncalled::new();
        // A cycle each second.
        assert!((0..2_000).all(|look| !uncalled.look(look / 20)));
        // One that is called no more is replaced once, and then ever less often.
        let replaced: Vec<u64> = (0..400).filter(|_| uncalled.look(100)).collect();
        let spans: Vec<u64> = replaced.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!((replaced[0], spans), (24, vec![48, 96, 192]));
        uncalled.restart(200);
        assert!(!uncalled.look(201));
        assert_eq!((0..100).position(|_| uncalled.look(201)), Some(23), "patience begins anew with a cycle");
    }
}
