//! The members of a group, told apart by their reports (RFC 3550 §6).

use std::time::Duration;

use antiphon_core::{CloseReason, Event, Instant};
use antiphon_media::rtcp::{Hearing, PlayoutDelay, RemoteReport};

/// A receiver of what is sent, as its reports show it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// Its SSRC.
    pub ssrc: u32,
    /// Its last report, on the first channel group.
    pub report: Option<RemoteReport>,
    /// The playout delay that it reported.
    pub playout_delay: Option<PlayoutDelay>,
    /// How it fares, as it told last.
    pub hearing: Option<Hearing>,
    /// When it was last heard.
    pub heard: Instant,
    /// Whether it has said goodbye.
    pub left: bool,
}

/// Who gets repairs of a multicast group: receivers that have joined it at its sender. A sender of plain multicast knows none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Joined {
    /// Those there are.
    pub members: u64,
    /// Joins so far.
    pub joined: u64,
    /// Members that have said that they leave, or were started again.
    pub left: u64,
    /// Members that were silent for too long.
    pub silent: u64,
    /// Members that were told to leave, as they lacked too much or took nothing more.
    pub removed: u64,
}

impl Joined {
    /// Counts an event of the association with the group.
    pub(crate) fn on_event(&mut self, event: &Event) {
        match event {
            Event::PathProved(_) => {
                self.members += 1;
                self.joined += 1;
            }
            Event::MemberLeft { why, .. } => {
                self.members = self.members.saturating_sub(1);
                let count = match why {
                    CloseReason::TimedOut => &mut self.silent,
                    CloseReason::Refused => &mut self.removed,
                    _ => &mut self.left,
                };
                *count += 1;
            }
            _ => {}
        }
    }
}

/// All members of a peer: one for a single receiver, many for a multicast group.
#[derive(Debug)]
pub(crate) struct Members {
    /// In the order in which they were first heard.
    list: Vec<Member>,
    /// The time from one report of a member to the next.
    interval: Duration,
}

impl Default for Members {
    fn default() -> Self {
        Members { list: Vec::new(), interval: SHORTEST_INTERVAL }
    }
}

impl Members {
    /// The members report once in `interval`, the longer the more they are.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval.max(SHORTEST_INTERVAL);
    }

    pub fn list(&self) -> &[Member] {
        &self.list
    }

    pub fn on_report(&mut self, report: RemoteReport) {
        if let Some(member) = self.member(report.at, report.from) {
            // A retransmitted report gives no valid round trip: the previous one is kept.
            let before = member.report.and_then(|before| before.round_trip);
            member.report = Some(RemoteReport { round_trip: report.round_trip.or(before), ..report });
        }
    }

    pub fn on_playout(&mut self, now: Instant, from: u32, delay: PlayoutDelay) {
        if let Some(member) = self.member(now, from) {
            member.playout_delay = Some(delay);
        }
    }

    pub fn on_hearing(&mut self, now: Instant, from: u32, hearing: Hearing) {
        if let Some(member) = self.member(now, from) {
            member.hearing = Some(hearing);
        }
    }

    pub fn on_bye(&mut self, ssrc: u32) {
        for member in self.list.iter_mut().filter(|member| member.ssrc == ssrc) {
            member.left = true;
        }
    }

    /// Whether there were some, and all have said goodbye.
    pub fn have_left(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(|member| member.left)
    }

    /// The longest playout delay of those heard lately: what any of them can still play is of use.
    pub fn playout_delay(&self, now: Instant) -> Option<PlayoutDelay> {
        let lately = self
            .list
            .iter()
            .filter(|member| !member.left && now.since(member.heard) <= self.interval * LATELY);
        lately.filter_map(|member| member.playout_delay).max()
    }

    /// The member of that SSRC; `None` if there are too many.
    fn member(&mut self, now: Instant, ssrc: u32) -> Option<&mut Member> {
        let at = self.list.iter().position(|member| member.ssrc == ssrc).or_else(|| self.place(now, ssrc))?;
        (self.list[at].heard, self.list[at].left) = (now, false);
        Some(&mut self.list[at])
    }

    /// A place for a new member: that of one that has left or been silent for long, if there are too many.
    fn place(&mut self, now: Instant, ssrc: u32) -> Option<usize> {
        let fresh =
            Member { ssrc, report: None, playout_delay: None, hearing: None, heard: now, left: false };
        if self.list.len() < MOST_MEMBERS {
            self.list.push(fresh);
            return Some(self.list.len() - 1);
        }
        let at = self
            .list
            .iter()
            .position(|member| member.left || now.since(member.heard) > self.interval * SILENT)?;
        self.list[at] = fresh;
        Some(at)
    }
}

/// The most members that are kept apart, so that forged reports take no more memory than that.
const MOST_MEMBERS: usize = 1024;
/// The shortest interval between reports (RFC 3550 §6.2).
const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);
/// Intervals. A receiver that started again under another SSRC,
/// with a shorter playout delay, is asked alone after that.
const LATELY: u32 = 3;
/// Intervals after which a member has left (RFC 3550 §6.3.5).
const SILENT: u32 = 5;

#[cfg(test)]
mod tests {
    use antiphon_media::rtcp::ReportBlock;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_longest_playout_delay_of_those_heard_lately_counts() {
        let mut members = Members::default();
        let of = |ms| PlayoutDelay::Of(Duration::from_millis(ms));
        assert_eq!(members.playout_delay(at(0)), None);
        members.on_playout(at(1), 7, of(80));
        members.on_playout(at(2), 8, of(20));
        assert_eq!(members.playout_delay(at(3)), Some(of(80)));
        members.on_playout(at(17), 8, of(20));
        assert_eq!(members.playout_delay(at(18)), Some(of(20)), "the other was not heard for long");
        members.on_playout(at(18), 9, PlayoutDelay::Unbounded);
        assert_eq!(members.playout_delay(at(18)), Some(PlayoutDelay::Unbounded));
        members.on_bye(9);
        assert_eq!(members.playout_delay(at(18)), Some(of(20)));
    }

    #[test]
    fn a_flood_of_forged_members_is_bounded_and_takes_no_place_of_a_live_one() {
        let mut members = Members::default();
        let delay = PlayoutDelay::Of(Duration::from_millis(80));
        (0..1_000).for_each(|ssrc| members.on_playout(at(1), ssrc, delay));
        (0..100_000).for_each(|forged| members.on_playout(at(2), 1_000_000 + forged, delay));
        assert_eq!(members.list().len(), MOST_MEMBERS);
        assert!((0..1_000).all(|ssrc| members.list().iter().any(|member| member.ssrc == ssrc)));
        // Those that are silent make room.
        members.on_playout(at(40), 5_000_000, delay);
        assert_eq!(members.list().len(), MOST_MEMBERS);
        assert!(members.list().iter().any(|member| member.ssrc == 5_000_000));
    }

    fn report(ssrc: u32, seconds: u64, lost: i32, round_trip: Option<u64>) -> RemoteReport {
        let block = ReportBlock {
            ssrc: 1,
            fraction_lost: 0,
            cumulative_lost: lost,
            highest_sequence: 0,
            jitter: 0,
            last_sr: 0,
            delay_since_last_sr: 0,
        };
        RemoteReport { from: ssrc, at: at(seconds), block, round_trip: round_trip.map(Duration::from_millis) }
    }

    #[test]
    fn the_last_report_counts_with_the_last_round_trip_that_was_measured() {
        let mut members = Members::default();
        members.on_report(report(7, 1, 3, Some(20)));
        members.on_report(report(8, 2, 9, Some(50)));
        members.on_report(report(7, 6, 4, None));
        let [first, second] = members.list() else { panic!("two members") };
        assert_eq!(first.report, Some(report(7, 6, 4, Some(20))), "a repeated report has no round trip");
        assert_eq!((first.heard, second.report), (at(6), Some(report(8, 2, 9, Some(50)))));
    }

    #[test]
    fn a_member_that_said_goodbye_and_is_heard_again_is_back() {
        let mut members = Members::default();
        let delay = PlayoutDelay::Of(Duration::from_millis(80));
        members.on_playout(at(1), 7, delay);
        members.on_bye(7);
        assert_eq!((members.list()[0].left, members.playout_delay(at(1))), (true, None));
        members.on_report(report(7, 2, 0, None));
        assert_eq!((members.list()[0].left, members.playout_delay(at(2))), (false, Some(delay)));
        assert_eq!(members.playout_delay(at(17)), Some(delay), "three intervals later");
        assert_eq!(members.playout_delay(at(18)), None);
    }

    #[test]
    fn one_that_left_or_was_silent_for_five_intervals_makes_room() {
        let full = || {
            let mut members = Members::default();
            (0..MOST_MEMBERS as u32).for_each(|ssrc| members.on_report(report(ssrc, 1, 5, Some(20))));
            members
        };
        let mut members = full();
        members.on_report(report(9_999, 26, 0, None));
        assert!(members.list().iter().all(|member| member.ssrc != 9_999), "all are there still");
        members.on_report(report(9_999, 27, 0, None));
        assert_eq!(members.list()[0].report, Some(report(9_999, 27, 0, None)), "nothing of the one before");
        let mut members = full();
        members.on_bye(77);
        members.on_report(report(9_999, 2, 0, None));
        assert_eq!((members.list()[77].ssrc, members.list()[77].left), (9_999, false));
    }
}
