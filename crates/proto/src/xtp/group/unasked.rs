//! Combinations that leave without being asked for: a share that the setting `parity=` fixes, and one that follows how scarce the bytes for
//! repairs are.
//!
//! A repair on request comes a round trip after the loss, and is made for the member that lacks most. In a large group, or where much
//! is lost, requests want more than repairs may have; then what is asked for comes too late. Combinations that are
//! sent all along come sooner and serve everybody, so the scarcer the bytes, the more of them are spent on these.
//!
//! Each is of the latest packets (a sliding window, as in RFC 8681): it mends what was lost a moment ago, where the combinations of a
//! block come behind the block.

/// How many combinations leave unasked, and of which packets.
#[derive(Debug)]
pub(super) struct Unasked {
    /// The share of the packets that the setting asks for.
    fixed: f64,
    /// The share that is spent of what repairs may have.
    following: f64,
    /// Part of a combination that the packets sent since the last one are worth.
    owed: f64,
    /// Ordinal of the first packet since the last pause, and of the one that is sent next.
    first: u64,
    next: u64,
}

/// The packets of a combination: the first one's ordinal, and how many.
pub(super) type Window = (u64, usize);

impl Unasked {
    /// `fixed`: the share of the packets that is always added.
    pub fn new(fixed: f64) -> Self {
        Unasked { fixed, following: 0.0, owed: 0.0, first: 0, next: 0 }
    }

    /// Beside the fixed share so much leaves from now on.
    pub fn follow(&mut self, share: f64) {
        self.following = share;
    }

    /// The part of a combination's bytes that counts as repairs.
    pub fn charged(&self) -> f64 {
        let all = self.fixed + self.following;
        if all > 0.0 { self.following / all } else { 0.0 }
    }

    /// The data packet with this ordinal leaves. Returns the packets of a combination that is due.
    pub fn on_data(&mut self, ordinal: u64) -> Option<Window> {
        self.next = ordinal + 1;
        self.owed += self.fixed + self.following;
        self.due(1.0)
    }

    /// Nothing follows for a while: the last packets have their combination now if it is nearly due.
    pub fn on_pause(&mut self) -> Option<Window> {
        let due = (self.window().1 > 0).then(|| self.due(0.5)).flatten();
        self.first = self.next;
        due
    }

    fn due(&mut self, least: f64) -> Option<Window> {
        if self.owed < least {
            return None;
        }
        self.owed -= 1.0;
        Some(self.window())
    }

    /// Whether the packet with this ordinal may be in a combination that is still to come.
    pub fn needs(&self, ordinal: u64) -> bool {
        self.fixed + self.following > 0.0 && ordinal >= self.window().0
    }

    fn window(&self) -> Window {
        let first = self.first.max(self.next.saturating_sub(LATEST));
        (first, (self.next - first) as usize)
    }
}

/// Packets of a combination: as many as one names. Those past their deadline are left out when it is sent.
const LATEST: u64 = super::combination::MOST_NAMED as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redundancy_is_the_share_that_was_asked_for() {
        for (share, packets, wanted) in [(0.2, 1600, 320), (0.03, 1600, 48), (1.0, 160, 160)] {
            let mut unasked = Unasked::new(share);
            let sums = (0..packets).filter_map(|ordinal| unasked.on_data(ordinal)).count();
            assert!(wanted - 1 <= sums && sums <= wanted, "{share}: {sums}");
            assert_eq!(unasked.charged(), 0.0);
        }
    }

    #[test]
    fn each_is_of_the_latest_packets_since_the_last_pause() {
        let mut unasked = Unasked::new(0.25);
        let windows: Vec<Window> = (0..100).filter_map(|ordinal| unasked.on_data(ordinal)).collect();
        assert_eq!((windows[0], windows[1], windows[24]), ((0, 4), (0, 8), (36, 64)));
        assert!(unasked.needs(36) && !unasked.needs(35));
        assert_eq!([unasked.on_data(100), unasked.on_data(101)], [None, None]);
        // Half a combination is owed; the next one comes the later.
        assert_eq!((unasked.on_pause(), unasked.on_pause()), (Some((38, 64)), None));
        assert!(!unasked.needs(101));
        let next: Vec<u64> = (102..200).filter(|ordinal| unasked.on_data(*ordinal).is_some()).collect();
        assert_eq!(next[..2], [107, 111]);
    }

    #[test]
    fn what_follows_the_losses_counts_as_repairs() {
        let mut unasked = Unasked::new(0.1);
        unasked.follow(0.1);
        assert_eq!(unasked.charged(), 0.5);
        unasked.follow(0.0);
        assert_eq!(unasked.charged(), 0.0);
    }
}
