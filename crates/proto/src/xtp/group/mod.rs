//! XTP to a group: one sender transmits once, many members receive, and repairs are sent on request.
//!
//! The text of XTP 4.0 is no longer available, and RFC 1458 leaves many rules open. This module uses these rules:
//!
//! * **Start.** The sender sends FIRST with MULTI, then DATA with MULTI, all with its key. A receiver delivers what it hears, whether it is a member
//!   or not.
//! * **Join.** A receiver that wants repairs sends JCNTL to the sender's address. The sender answers with a JCNTL of the same length; its key and
//!   its number are a keyed hash of the receiver's address and key. The receiver returns both in a third JCNTL, which proves its address. All packets
//!   of the member carry them from then on, so that nobody else can report, ask or leave in its name. The sender stores nothing before the proof.
//!   If the group is full, it answers with DIAG (join refused).
//! * **Numbers.** `sync` counts the packets to the group. The echo in a report tells which of them the member had received; what left later
//!   is not missing, and the time since that packet left is a round trip.
//! * **Requests.** A member that finds a gap sends a report of what it lacks (`gaps`). In groups of more than 16 members it first waits for a random time
//!   (`backoff`), and waits again when a repair arrives, so that not all members that miss the same packet ask for it, and not at once: on a WLAN
//!   requests collide with each other and with the stream. The time is longer where members miss the same packets (`alike`), and where
//!   repairs have used up their share, so that requests bring little; in these two cases members of groups of more than four wait as well.
//! * **Repairs** go to the group, in rounds, as coded packets (`combination`, `repair`). They take at most a quarter of the data's rate, and
//!   a packet past its deadline is not repaired. The scarcer these bytes, the more of them are spent on combinations that nobody has asked for
//!   (`unasked`), where packets have deadlines.
//! * **Announcements** (TCNTL with MULTI) say how far the stream is, what is no longer repaired, how many members there are (`echo`), how often each
//!   may report (`in-rate` of the traffic specifier), and over how long members spread requests (a reserved field). One follows each pause
//!   in the data after a few milliseconds, so that members notice that they miss the last packet.
//! * **Given up.** A report with NOERR says that the member has passed over packets that are no longer repaired.
//! * **Reports.** All members' reports together take 5 % of the data's rate; each member sends one at least every 15 s. Where data become faster, this is
//!   announced at once, and members send the next report the sooner (RFC 3550 §6.3.4), before the window is full.
//! * **Polls.** A member whose report is overdue is asked for one, by an announcement to it alone with SREQ, several times in an interval.
//! * **Leaving.** A member leaves with END. The sender does not wait for a member that is silent for 0.5 s, four round trips or two report
//!   intervals, and removes it after 3 s or three report intervals. It sends DIAG (context abandoned) to a member that misses more than half of the
//!   data, or that alone lags behind by half of the window or takes no more for a second, and removes it. That member goes on listening. A
//!   member that hears nothing for 3 s reports no more, and joins anew when it hears the sender again.
//! * **End.** The sender sends END three times.

mod alike;
mod backoff;
mod blocks;
mod combination;
mod decoder;
mod gaps;
mod held;
mod join;
mod member;
mod missing;
mod repair;
mod roster;
mod round_trips;
mod sender;
#[cfg(test)]
mod tests;
mod unasked;
mod wanted;

use std::time::Duration;

pub(super) use join::GroupValidator;
pub(super) use member::GroupMember;
pub(super) use sender::GroupSender;

/// Members up to which each asks at once: their requests cost less than the wait, also on a WLAN.
const FEW_MEMBERS: usize = 4;
/// Members up to which each asks at once where it lacks its own packets: what others lack leaves their requests apart.
const LARGE_GROUP: usize = 16;
/// The longest time over which requests are spread.
const MOST_SPREAD: Duration = Duration::from_millis(500);
const NEVER_SPREAD: Duration = Duration::ZERO;
/// Bytes that a report has, about: a CNTL with the headers of IP and UDP, or an ECNTL of two spans.
const STATUS_SIZE: usize = 100;
/// The share of the data's rate that all members' reports have together (RFC 3550 §6.2).
const STATUS_SHARE: f64 = 0.05;
/// Bytes that a member takes ahead of what is missing; it says how far that is when it reports. A sender has so much memory for packets that
/// its slowest member lacks, of which each takes its data and a [`held::ENTRY`], about as much as its headers on the wire.
const WINDOW: usize = 4 << 20;
/// Most members of a group whose sender repairs what they lack (`xtp://` to a multicast address); further receivers get no repairs.
pub const MOST_MEMBERS: usize = 1000;
// Where as many members as possible share the reports' rate, so many bytes of packets leave before each has reported, half as many again at most:
// a smaller window would stop the sender until then.
const _: () = assert!(1.5 * (STATUS_SIZE * MOST_MEMBERS) as f64 / STATUS_SHARE < WINDOW as f64);
