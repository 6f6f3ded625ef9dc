//! How long associations wait for a peer that does not answer.

use std::time::Duration;

use antiphon_core::Instant;

/// Time without an answer after which an association ends, in place of RFC 9260's Association.Max.Retrans (ten time-outs,
/// §16): live streams ask again at least once a second, and survive an outage of half a minute.
pub(crate) const GONE: Duration = Duration::from_secs(40);
/// How long a closing association waits for a peer that says nothing, when nothing waits that is of use later: two
/// seconds for a program that ends, with room for what it does besides. Longer than the time-out of any path (1 s).
pub(crate) const LEAVE: Duration = Duration::from_millis(1_500);
/// How long a closing association waits at most without progress, where every message is of use later. SCTP's
/// T5-shutdown-guard (RFC 9260 §9.2) is five times the largest time-out, which is 2 s here.
pub(crate) const LONGEST_LEAVE: Duration = Duration::from_secs(10);
/// Calls without an answer after which the application is told (RFC 9260 §16: Max.Init.Retransmits).
pub(crate) const MOST_CALLS: u32 = 8;

/// Until when a closing association waits, which last made progress at `since`. `last`: the latest deadline of what
/// waits. `longest`: how long it may take in any case.
pub(crate) fn leave_by(since: Instant, last: Option<Instant>, longest: Duration) -> Instant {
    let deadline = last.unwrap_or(Instant::ZERO);
    (since + LEAVE).max(deadline).min(since + longest)
}
