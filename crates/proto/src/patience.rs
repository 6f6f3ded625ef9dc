//! How long associations wait for a peer that does not answer.

use std::time::Duration;

use antiphon_core::Instant;

/// Time without an answer after which an association ends, in place of RFC 9260's Association.Max.Retrans (ten time-outs,
/// §16): live streams ask again every [`LONGEST_PAUSE`], and survive an outage of half a minute.
pub(crate) const GONE: Duration = Duration::from_secs(40);
/// How long a closing association waits for a peer that says nothing, when nothing waits that is of use later: two
/// seconds for a program that ends, with room for what it does besides. Three of [`LONGEST_PAUSE`].
pub(crate) const LEAVE: Duration = Duration::from_millis(1_500);
/// How long a closing association waits at most without progress, where every message is of use later. SCTP's
/// T5-shutdown-guard (RFC 9260 §9.2) is five times the largest time-out, which is 2 s here.
pub(crate) const LONGEST_LEAVE: Duration = Duration::from_secs(10);
/// How long a call goes without an answer before the application is told, at the next repetition.
pub(crate) const UNANSWERED: Duration = Duration::from_secs(5);
/// The longest time between two packets of a live stream to a peer that answers nothing, unless its round trip is
/// longer. The first packet after an outage finds the path again: with this, the delay of playout and a wake-up, sound is
/// there within a second. The RFCs of SCTP and DCCP wait up to a minute (RFC 9260 §16, RFC 5348 §4.3, RFC 6298 §2.5), for
/// the sake of paths that thousands of senders share; two packets a second of this one are some 20 kbit/s.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Until when a closing association waits, which last made progress at `since`. `last`: the latest deadline of what
/// waits. `longest`: how long it may take in any case.
pub(crate) fn leave_by(since: Instant, last: Option<Instant>, longest: Duration) -> Instant {
    let deadline = last.unwrap_or(Instant::ZERO);
    (since + LEAVE).max(deadline).min(since + longest)
}
