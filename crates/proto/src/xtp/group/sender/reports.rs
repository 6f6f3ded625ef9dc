//! Members' reports: what each lacks, and which members are no longer waited for.

use std::time::Duration;

use antiphon_core::{CloseReason, Event, Instant};

use super::super::WINDOW;
use super::super::alike::Lacking;
use super::super::gaps::Gaps;
use super::super::roster::{Member, Report};
use super::{GroupSender, LEAST_ANNOUNCEMENT, MOST_ANSWERS, Welcome};
use crate::xtp::wire::{Header, Status, diag, option};

impl GroupSender {
    pub(super) fn handle_status(
        &mut self,
        now: Instant,
        received_at: Instant,
        at: usize,
        (header, status, gaps): (&Header, Status, Gaps<'_>),
    ) {
        let passed_over = header.has(option::NOERR);
        let Some(echo) = self.number_of(status.echo) else { return self.tally.on_malformed() };
        let Status { rseq, alloc, .. } = status;
        let member = self.roster.get_mut(at);
        let is_newer = echo > member.echo;
        if let Some(round_trip) = self.departures.round_trip(echo, received_at).filter(|_| is_newer) {
            member.round_trips.add(round_trip);
        }
        if passed_over {
            member.on_passed_over(now, rseq.min(self.given_up_to), &mut self.held);
        }
        member.on_report(now, Report { rseq, alloc, echo, gaps }, &self.held);
        let Member { path: by, told, ref missing, .. } = *member;
        self.alike.on_report(now, Lacking { by, echo, told, missing }, &self.held);
        if member.is_overrun(now) && self.repairs_anything() {
            // Repairs cannot help a member that lacks more than half, and the bytes they take are missing for the others.
            return self.expel(at);
        }
        if !self.repairs_anything() {
            return self.settle(now);
        }
        let given_up = self.held.repaired_from(now);
        let member = self.roster.get_mut(at);
        let lacks_old = rseq < given_up;
        let held = &self.held;
        let wanted = member.missing.all().filter_map(|ordinal| held.wanted(now, ordinal, echo));
        let urgent = wanted.map(|packet| packet.deadline().unwrap_or(END_OF_TIME)).min();
        if let Some(deadline) = urgent {
            self.repairs.begin(now, Some(deadline).filter(|deadline| *deadline < END_OF_TIME));
        }
        // It waits for what is not repaired any more.
        let told = self.announced_at.is_some_and(|told| now.since(told) < LEAST_ANNOUNCEMENT);
        self.announce |= lacks_old && !told;
        self.settle(now);
    }

    /// A member is told that it gets no repairs any more, and is none.
    pub(super) fn expel(&mut self, at: usize) {
        let (path, own) = (self.roster.get_mut(at).path, self.roster.get_mut(at).own);
        self.refuse(path, own, (diag::CONTEXT_ABANDONED, diag::NO_RESOURCE));
        self.remove(at, CloseReason::Refused);
    }

    pub(super) fn remove(&mut self, at: usize, why: CloseReason) {
        let member = self.roster.remove(at).path;
        self.queue.report(Event::MemberLeft { member, why });
    }

    /// Looks after members that are silent or lag behind.
    pub(super) fn check_members(&mut self, now: Instant) {
        self.checked_at = now;
        let silence = STALL.max(4 * self.roster.longest_rtt());
        let mut at = 0;
        while at < self.roster.len() {
            let heard = self.roster.get_mut(at).heard;
            self.roster.get_mut(at).suspended = self.intervals.is_silent(now, heard, 2.0, silence);
            if self.intervals.is_silent(now, heard, 3.0, GONE) {
                self.remove(at, CloseReason::TimedOut);
            } else {
                at += 1;
            }
        }
        self.poll_members(now);
        if self.blocked_since.is_some_and(|since| now.since(since) >= LAG) {
            self.blocked_since = None;
            self.expel_slow_members();
        }
    }

    /// Asks members whose report is overdue whether they are there: with long intervals two reports that are lost in a row are
    /// silence enough to count as gone. Not all are asked at once.
    fn poll_members(&mut self, now: Instant) {
        let again = self.intervals.current() / POLLS;
        let count = self.roster.len();
        let mut left = MOST_POLLED;
        for at in (0..count).map(|at| (self.poll_from + at) % count) {
            let member = self.roster.get_mut(at);
            let overdue = self.intervals.is_silent(now, member.heard, OVERDUE, STALL / 2);
            if !overdue || now.since(member.polled) < again || self.welcomes.len() >= MOST_ANSWERS {
                continue;
            }
            member.polled = now;
            self.welcomes.push_back(Welcome {
                path: member.path,
                own: member.own,
                key: member.key,
                polls: true,
            });
            left -= 1;
            if left == 0 {
                self.poll_from = at + 1;
                break;
            }
        }
    }

    /// New data have waited for too long: members that have no room, where others have, or that lag far behind others hold them up.
    fn expel_slow_members(&mut self) {
        let farthest = self.roster.active().map(|member| member.next).max().unwrap_or(0);
        let end = self.held.next() + self.max_data() as u64;
        let some_take_more = self.roster.active().any(|member| end <= member.alloc);
        let ahead = self.held.cost_from(farthest);
        // The last one takes the place of one that is removed.
        for at in (0..self.roster.len()).rev() {
            let Member { next, alloc, .. } = *self.roster.get_mut(at);
            let lags = self.held.cost_from(next) >= ahead + WINDOW / 2;
            if lags || some_take_more && alloc < end {
                self.expel(at);
            }
        }
    }
}

/// Silence after which nothing waits for a member, and after which it has left, if it may report often enough.
const STALL: Duration = Duration::from_millis(500);
const GONE: Duration = Duration::from_secs(3);
/// A report is overdue after so many intervals, the longest that a member waits.
const OVERDUE: f64 = 1.5;
/// Members are asked so often in an interval, and so many at a time: 16 kB a second at most.
const POLLS: u32 = 10;
const MOST_POLLED: usize = 16;
/// New data wait so long for members that lag behind others.
const LAG: Duration = Duration::from_secs(1);
const END_OF_TIME: Instant = Instant::from_nanos(u64::MAX);
