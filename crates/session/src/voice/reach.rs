//! Whether the peer is there, as far as the transport and the peer's messages tell.

use std::time::Duration;

use antiphon_core::{BrokenReason, Instant, Profile, Wire};

/// What is known of the peer.
///
/// Many transports hear of a peer that is gone by ICMP errors alone, of which a path may have a single one: the first data of a
/// call may come before the listener. So an error counts until the peer answers, or until none has come for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Whether messages flow.
    pub connected: bool,
    opened: Instant,
    /// Whether the peer has shown that it is there.
    answered: bool,
    broken: Option<(BrokenReason, Instant)>,
    /// Since when no error has come.
    quiet: Instant,
    /// Whether an error is of a connection, which stays broken until there is another one.
    is_stream: bool,
}

impl Reach {
    pub fn new(now: Instant) -> Self {
        Reach { connected: false, opened: now, answered: false, broken: None, quiet: now, is_stream: false }
    }

    /// The peer is to be reached by an association of this kind.
    pub fn on_attached(&mut self, profile: &Profile) {
        (self.connected, self.is_stream) = (false, profile.wire == Wire::ByteStream);
    }

    /// Messages flow from now on.
    pub fn on_connected(&mut self, now: Instant, profile: &Profile) {
        (self.connected, self.broken, self.quiet) = (true, None, now);
        self.answered |= profile.capabilities.connection_oriented;
    }

    /// The peer sent something, or has confirmed something.
    pub fn on_answer(&mut self) {
        (self.answered, self.broken) = (true, None);
    }

    pub fn on_broken(&mut self, now: Instant, why: BrokenReason) {
        // Errors that were absent for so long say that somebody was there.
        self.answered |= self.connected && now.since(self.quiet) >= QUIET;
        (self.broken, self.quiet) = (Some((why, now)), now);
    }

    /// Why the peer cannot be reached, as far as is known at `now`.
    pub fn broken(&self, now: Instant) -> Option<BrokenReason> {
        let lasts = |at| self.is_stream || !self.connected || now.since(at) < RECENT;
        self.broken.filter(|(_, at)| lasts(*at)).map(|(why, _)| why)
    }

    /// Why the peer has never answered, if an error shows that it was still absent after `patience`.
    pub fn never_answered(&self, now: Instant, patience: Duration) -> Option<BrokenReason> {
        let why = self.broken(now).filter(|_| !self.answered)?;
        let (_, at) = self.broken?;
        let until = if self.connected && !self.is_stream { at } else { now };
        (until.since(self.opened) >= patience).then_some(why)
    }
}

/// An error without another one for so long is over: a Linux host reports one a second to a sender that goes on
/// (`icmp_ratelimit`).
const RECENT: Duration = Duration::from_millis(1_250);
/// A peer that is absent causes errors earlier than this: a host without a route is reported after three seconds of ARP.
const QUIET: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(1_500);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Over UDP, or over a transport with connections.
    fn reach(connection_oriented: bool) -> Reach {
        let mut profile = Profile::of_datagrams(1_400, 1_400, 0);
        profile.capabilities.connection_oriented = connection_oriented;
        let mut reach = Reach::new(Instant::ZERO);
        reach.on_attached(&profile);
        reach.on_connected(Instant::ZERO, &profile);
        reach
    }

    #[test]
    fn a_listener_that_is_late_is_not_absent() {
        let mut reach = reach(false);
        (0..70).for_each(|n| reach.on_broken(at(20 * n), BrokenReason::Refused));
        let refused = Some(BrokenReason::Refused);
        assert_eq!(
            (reach.broken(at(1_390)), reach.never_answered(at(1_390), Duration::ZERO)),
            (refused, refused)
        );
        // At the end of the patience no error has come for 0.1 s.
        assert_eq!(reach.never_answered(at(1_500), PATIENCE), None);
        reach.on_broken(at(1_520), BrokenReason::Refused);
        assert_eq!(reach.never_answered(at(1_520), PATIENCE), refused);
        assert_eq!(reach.never_answered(at(2_800), Duration::ZERO), None);
    }

    #[test]
    fn errors_of_a_peer_that_was_there_are_no_absence() {
        // It was silent, as receivers over UDP are, or has confirmed something, or has a connection.
        let (mut silent, mut confirmed, mut connected) = (reach(false), reach(false), reach(true));
        confirmed.on_answer();
        for reach in [&mut silent, &mut confirmed, &mut connected] {
            reach.on_broken(at(6_000), BrokenReason::Refused);
            assert_eq!(reach.never_answered(at(6_000), PATIENCE), None);
            assert_eq!(reach.broken(at(6_000)), Some(BrokenReason::Refused));
        }
        confirmed.on_answer();
        assert_eq!(confirmed.broken(at(6_001)), None);
    }

    #[test]
    fn a_call_that_never_connects_is_absent_by_one_error() {
        let mut reach = Reach::new(Instant::ZERO);
        reach.on_broken(at(1), BrokenReason::Unreachable);
        assert_eq!(reach.never_answered(at(1_499), PATIENCE), None);
        assert_eq!(reach.never_answered(at(1_500), PATIENCE), Some(BrokenReason::Unreachable));
    }
}
