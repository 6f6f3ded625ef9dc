//! XTP to a group: one sender, one transmission, many members, repairs on request.
//!
//! The texts of XTP 4.0 are no longer available, and RFC 1458 leaves the rules open, so these are ours:
//!
//! * **Beginning.** FIRST with MULTI, then DATA with MULTI, all with the sender's key. Who hears them has the stream, member or not.
//! * **Members.** Who wants repairs asks with JCNTL, by unicast; the answer is a JCNTL of the same length, whose key and number are a keyed hash
//!   of its address and key. Returned in a third JCNTL they prove the address, and are what each packet of the member carries from then on: so
//!   nobody else reports, asks or leaves in its name. The sender keeps nothing of others, and a full group answers with DIAG (join refused).
//! * **Numbers.** `sync` counts the packets to the group. A report's echo tells which ones the member had had, so what left later is no gap.
//! * **Requests.** A member that finds a gap reports what it has (ECNTL). In groups of more than 16 it waits a random while before (`backoff`), and
//!   longer where it hears of a repair: so hundreds that lack the same do not all ask.
//! * **Repairs** go to the group, in rounds, coded (`combination`, `repair`): at most a quarter of the data's rate, and nothing past its deadline.
//! * **Announcements** (TCNTL with MULTI) say how far the stream is, what is no longer repaired, how many members there are (in `echo`), how often
//!   they may report (`in-rate` of the traffic specifier) and over how long they spread requests (in a field that XTP reserves). They follow a pause in the data soon, so that the last packet before it is asked for.
//! * **Reports** of all members together take 5 % of the data's rate, or one each in 15 s.
//! * **Leaving.** A member says END. One that is silent for 0.5 s, or four round trips, is not waited for; after 3 s, or three of its reports, it
//!   has left. One that lacks more than half of what is sent, or that alone lags behind by half of the window for a second, is told (DIAG, context abandoned) and removed.
//! * **End.** The sender says END three times.

mod backoff;
mod combination;
mod decoder;
mod held;
mod join;
mod member;
mod repair;
mod roster;
mod sender;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(super) use join::GroupValidator;
pub(super) use member::GroupMember;
pub(super) use sender::GroupSender;

/// Members up to which each asks at once: their requests cost less than the wait.
const LARGE_GROUP: usize = 16;
/// The longest time over which requests are spread.
const MOST_SPREAD: Duration = Duration::from_millis(500);
const NEVER_SPREAD: Duration = Duration::ZERO;
/// Bytes that a report has, about: a CNTL with the headers of IP and UDP, or an ECNTL of two spans.
const STATUS_SIZE: usize = 100;
/// The share of the data's rate that all members' reports have together (RFC 3550 §6.2).
const STATUS_SHARE: f64 = 0.05;
/// Bytes that a sender holds for its slowest member, and that a member takes ahead of what is missing.
const WINDOW: usize = 4 << 20;
/// Most members of a group.
pub(super) const MOST_MEMBERS: usize = 1000;
