//! Who takes part in a session, and how often each may report (RFC 3550 §6.2, §6.3).

use std::time::Duration;

use antiphon_core::Instant;

use super::RtcpSession;
use crate::rtcp::GroupSize;

/// Another party.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub ssrc: u32,
    pub last_heard: Instant,
    /// Whether it sends media.
    pub sends: bool,
}

/// The numbers that an interval follows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Parties {
    members: usize,
    senders: usize,
    /// Whether we are one of the senders.
    sending: bool,
}

impl Parties {
    /// Those who share a part of the bandwidth with us, and how large a part (RFC 3550 §6.3.1): a quarter belongs to
    /// the senders, unless they are more than a quarter of all.
    fn share(self) -> (usize, f64) {
        match (4 * self.senders <= self.members, self.sending) {
            (true, true) => (self.senders, 0.25),
            (true, false) => (self.members - self.senders, 0.75),
            (false, _) => (self.members, 1.0),
        }
    }
}

impl RtcpSession {
    /// The time from one report to the next, for the parties known now; halved before the first one.
    pub(super) fn interval(&mut self, now: Instant) -> Duration {
        let minimum = self.minimum().as_secs_f64() * if self.reported { 1.0 } else { 0.5 };
        let seconds = self.seconds_for(self.parties(now)).max(minimum);
        // The factor e - 3/2 compensates for what reconsideration adds.
        let factor = match self.config.randomised {
            true => (0.5 + self.rng.unit()) / (std::f64::consts::E - 1.5),
            false => 1.0,
        };
        Duration::from_secs_f64((seconds * factor).min(LONGEST))
    }

    /// The time between two reports of a receiver, on average: five of them without a word, and it has left (§6.3.5).
    pub fn receiver_interval(&self, now: Instant) -> Duration {
        let seconds = self.seconds_for(Parties { sending: false, ..self.parties(now) });
        Duration::from_secs_f64(seconds.clamp(GROUP_MINIMUM.as_secs_f64(), LONGEST))
    }

    fn seconds_for(&self, parties: Parties) -> f64 {
        let (sharing, share) = parties.share();
        let measured = self.measured_bandwidth().filter(|_| self.is_group());
        let bits = measured.unwrap_or(self.config.bandwidth.0 as f64);
        let bytes_per_second = (bits / 8.0 * RTCP_SHARE * share).max(1.0);
        sharing as f64 * self.average_size / bytes_per_second
    }

    /// Bits per second of the media that we receive, by its senders' reports; where several send, ours are among them.
    fn measured_bandwidth(&self) -> Option<f64> {
        let sum: f64 = self.heard.iter().filter_map(|heard| heard.bytes_per_second).sum();
        let own = if self.config.any_source { self.config.bandwidth.0 as f64 } else { 0.0 };
        (sum > 0.0).then_some(sum * 8.0 + own)
    }

    /// A pair reports at its own minimum, which is far below its share of the bandwidth (§6.2 permits a reduced one). So does, in
    /// a group, who sends: 360 divided by the kilobits per second of the session, in seconds.
    fn minimum(&self) -> Duration {
        let sends = self.own.iter().any(|own| own.sent.is_some());
        if self.config.any_source && sends {
            let bits = self.measured_bandwidth().unwrap_or(self.config.bandwidth.0 as f64).max(1.0);
            let reduced = Duration::from_secs_f64((REDUCED / bits).min(GROUP_MINIMUM.as_secs_f64()));
            self.config.minimum_interval.max(reduced)
        } else if self.is_group() {
            self.config.minimum_interval.max(GROUP_MINIMUM)
        } else {
            self.config.minimum_interval
        }
    }

    /// Whether there is more than one receiver. A receiver that began again has two SSRCs for a while, so fewer than
    /// three are a group only where it is known to be one.
    pub(super) fn is_group(&self) -> bool {
        self.config.group || self.receivers() >= SURELY_A_GROUP || self.told.receivers >= SURELY_A_GROUP
    }

    /// How many others there are in the group, as far as they are heard, or as its sender told.
    pub fn others(&self) -> u32 {
        self.told.receivers.max(self.members.len() as u32)
    }

    /// Other parties that send no media.
    pub(super) fn receivers(&self) -> u32 {
        self.members.iter().filter(|member| !member.sends).count() as u32
    }

    fn parties(&self, now: Instant) -> Parties {
        if let Some(goodbyes) = self.leaving {
            return Parties { members: goodbyes + 1, senders: 0, sending: false };
        }
        let sending = self.own.iter().any(|own| self.is_sending(now, *own));
        let own = if sending { self.own.len() } else { 0 };
        let senders = self.members.iter().filter(|member| member.sends).count() + own;
        let known = self.members.len() + self.own.len();
        let told = self.told.receivers as usize + senders;
        Parties { members: known.max(told), senders, sending }
    }

    /// How many take part, as far as is known.
    pub(super) fn party_count(&self, now: Instant) -> usize {
        self.parties(now).members
    }

    pub(super) fn note_member(&mut self, now: Instant, ssrc: u32, sends: bool) {
        if self.leaving.is_some() {
            return;
        }
        if let Some(member) = self.members.iter_mut().find(|member| member.ssrc == ssrc) {
            member.last_heard = now;
            member.sends = sends;
        } else if self.members.len() < MAX_MEMBERS {
            self.members.push(Member { ssrc, last_heard: now, sends });
        } else {
            self.counters.overlooked += 1;
        }
        self.hurry(now);
    }

    /// A group has doubled since its members were told its size: the next report is due at once, since until then they
    /// report as if they were few. That happens once for each doubling.
    fn hurry(&mut self, now: Instant) {
        let sends = self.own.iter().any(|own| own.sent.is_some()) && !self.config.any_source;
        if sends && self.is_group() && self.receivers() >= 2 * self.said && self.next.is_some() {
            self.hurries = true;
            self.next = Some(now);
        }
    }

    /// A party said goodbye.
    pub(super) fn forget_member(&mut self, now: Instant, ssrc: u32) {
        if let Some(goodbyes) = &mut self.leaving {
            *goodbyes = (*goodbyes + 1).min(MAX_MEMBERS);
            return;
        }
        let before = self.party_count(now);
        self.members.retain(|member| member.ssrc != ssrc);
        self.reconsider_back(now, before);
    }

    /// Parties that were not heard for five intervals have left.
    pub(super) fn forget_silent(&mut self, now: Instant) {
        let patience = self.receiver_interval(now) * 5;
        let before = self.party_count(now);
        self.members.retain(|member| now.since(member.last_heard) <= patience);
        self.reconsider_back(now, before);
    }

    /// The sender of what we receive tells the size of the group.
    pub(super) fn on_group_size(&mut self, now: Instant, told: GroupSize) {
        let before = self.party_count(now);
        self.told = told;
        self.reconsider_back(now, before);
    }

    /// Reverse reconsideration (§6.3.4): a group that shrinks reports sooner, in proportion.
    fn reconsider_back(&mut self, now: Instant, before: usize) {
        let after = self.party_count(now);
        if after >= before || !self.is_group() {
            return;
        }
        let ratio = after as f64 / before as f64;
        if let Some(next) = self.next {
            self.next = Some(now + next.since(now).mul_f64(ratio));
        }
        self.last = now - now.since(self.last).mul_f64(ratio);
    }
}

/// RTCP's part of the session's bandwidth (RFC 3550 §6.2).
const RTCP_SHARE: f64 = 0.05;
/// The minimum between two reports in a group (§6.2).
const GROUP_MINIMUM: Duration = Duration::from_secs(5);
/// The reduced minimum of who sends, in seconds times bits per second (§6.2).
const REDUCED: f64 = 360_000.0;
/// Receivers that are a group, whatever the addresses are.
const SURELY_A_GROUP: u32 = 3;
/// An interval is at most an hour, in seconds.
const LONGEST: f64 = 3600.0;
/// Parties beyond this many are counted, not remembered: unknown sources cost no memory.
pub(super) const MAX_MEMBERS: usize = 1024;
/// A group larger than this leaves with a back-off (§6.3.7).
pub(super) const MANY: usize = 50;
