//! Packets to the sender, requests and probes, and the round trip measured with them.

use std::time::Duration;

use antiphon_core::{Instant, sooner};

use super::clock_us;
use super::missing::{Awaiting, Missing};
use super::pace::QUEUED;
use crate::limit::LEAST_PACKETS_FULL;
use crate::rtt::backed_off;
use crate::srp::estimate::{LONGEST_ROUND_TRIP, Smoothed};
use crate::srp::recent::Recent;
use crate::srp::wire::extended::{Extended, MAX_NACK_WORDS, Nack, Report, Wanted};

/// Requests and probes in flight. Only times that this side sent recently are used for measurements: a forged answer
/// changes no estimate.
#[derive(Default)]
pub(super) struct Requests {
    /// Nothing is given up: reports are frequent, since the sender keeps everything until then.
    full: bool,
    round_trip: Option<Smoothed>,
    least_round_trip: Option<Duration>,
    probe: Probe,
    /// When to repeat the wanted streams to the sender, as long as it has not confirmed them, and how often that was
    /// done.
    untold: Option<(Instant, u32)>,
    /// When the last requests were sent.
    times: Recent<Instant>,
    /// NACK packets sent.
    pub nacks: u64,
    /// Ids requested in them.
    pub asked: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    due: bool,
    sent: Option<Instant>,
    last: Option<Instant>,
    /// Packets received since the last one.
    packets: u32,
    /// When these are reported, where nothing is given up.
    report_at: Option<Instant>,
}

impl Requests {
    /// Where nothing is given up.
    pub fn full() -> Self {
        Requests { full: true, ..Requests::default() }
    }

    /// Requests as many packets in state [`Awaiting::Request`] as fit one packet, in the order of their ids. `latency`:
    /// how long after its due time a packet can still be played. `hurries`: `Receiver::hurries`.
    pub fn write_nack(
        &mut self,
        now: Instant,
        epoch: u32,
        (latency, hurries): (Duration, bool),
        missing: &mut [Missing],
        buf: &mut [u8],
    ) -> Option<usize> {
        let first = missing.iter().find(|missing| missing.state == Awaiting::Request)?.id;
        let mut words = [[0u8; 4]; MAX_NACK_WORDS];
        let mut used = 0;
        for missing in missing.iter_mut().filter(|missing| missing.state == Awaiting::Request) {
            if let Some(bit) = missing.id.saturating_sub(first).checked_sub(1) {
                let (word, bit) = ((bit / 32) as usize, bit % 32);
                let Some(bits) = words.get_mut(word) else { break };
                *bits = (u32::from_be_bytes(*bits) | 1 << bit).to_be_bytes();
                used = used.max(word + 1);
            }
            missing.asked = missing.asked.saturating_add(1);
            let until = if self.full {
                now + backed_off(self.answer_time().max(MIN_WAIT), missing.asked - 1, LONGEST_WAIT)
            } else {
                self.look_again(now, missing, missing.due + latency, hurries)
            };
            missing.state = Awaiting::Answer { sent: now, until };
            self.asked += 1;
        }
        self.nacks += 1;
        self.times.push(now);
        let more = &words.as_flattened()[..4 * used];
        Extended::Nack(Nack { epoch, time: clock_us(now), first: first as u32, more }).emit(buf)
    }

    /// Writes a probe with its report, if one is due.
    pub fn write_probe(
        &mut self,
        now: Instant,
        epoch: u32,
        report: Report,
        wanted: Wanted,
        buf: &mut [u8],
    ) -> Option<usize> {
        if !self.probe.due {
            return None;
        }
        self.probe = Probe { due: false, sent: Some(now), last: Some(now), packets: 0, report_at: None };
        let wait = self.answer_time().max(BLIND_WAIT);
        if let Some((again_at, told)) = &mut self.untold {
            *again_at = now + wait * (1 << *told);
            *told = (*told + 1).min(RAREST);
        }
        Extended::Probe { epoch, time: clock_us(now), report, wanted }.emit(buf)
    }

    /// How long until an answer is overdue.
    fn answer_time(&self) -> Duration {
        self.round_trip.map_or(BLIND_WAIT, |rtt| rtt.mean() + rtt.deviation() * 4)
    }

    /// When the answer to a request sent at `sent` is overdue.
    pub fn overdue_at(&self, sent: Instant) -> Instant {
        sent + self.answer_time().max(MIN_WAIT)
    }

    /// When the answer to a request sent at `sent` comes, if the round trip is known.
    pub fn expected_at(&self, sent: Instant) -> Option<Instant> {
        self.round_trip.map(|rtt| sent + rtt.mean().max(MIN_WAIT))
    }

    /// When to decide again about a packet that is requested now: when the answer is overdue, or, if that is too late
    /// for another request, as late as an answer can still come in time.
    ///
    /// The second request may be sent before the first can be answered: where the playout delay leaves time for one
    /// round trip only, it makes up for a lost request or answer, and costs a copy where nothing was lost. Packets that
    /// may not have been sent yet are not requested twice, unless the stream `hurries`: then they are after the mean of round trips.
    fn look_again(&self, now: Instant, missing: &Missing, deadline: Instant, hurries: bool) -> Instant {
        let overdue = self.overdue_at(now);
        if missing.suspected {
            let soon = self.expected_at(now).filter(|_| hurries);
            return soon.map_or(overdue, |soon| overdue.min(soon));
        }
        let (last, answer) = match self.round_trip {
            Some(rtt) => (self.last_request(deadline), rtt.mean() + rtt.measured_deviation()),
            None => (now + deadline.since(now) / 2, BLIND_WAIT),
        };
        let least = if missing.asked == 1 { MIN_WAIT } else { answer.max(MIN_WAIT) };
        if last >= now + least { overdue.min(last) } else { overdue }
    }

    /// Latest request time for an answer by the deadline, if this machine wakes late.
    pub fn last_request(&self, deadline: Instant) -> Instant {
        let needed = self.round_trip.map_or(Duration::ZERO, |rtt| rtt.mean() + rtt.measured_deviation());
        deadline - (needed + MIN_WAIT)
    }

    /// Starts telling the sender which streams are wanted, until such a probe has come back.
    pub fn tell(&mut self) {
        self.untold = Some((Instant::ZERO, 0));
        self.probe.due = true;
        self.probe.sent = None;
    }

    /// When [`Self::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let untold = self.untold.map(|(again_at, _)| again_at);
        sooner(untold, self.probe.report_at).filter(|_| !self.probe.due)
    }

    /// Repeats what was not confirmed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.probe.due |= self.untold.is_some_and(|(again_at, _)| again_at <= now);
        self.probe.due |= self.probe.report_at.is_some_and(|report_at| report_at <= now);
    }

    /// Schedules probes while data arrives: one each second, which is the reports' interval as well; more often while
    /// packets queue, since the sender can react to it.
    pub fn on_data(&mut self, now: Instant, queueing: Duration) {
        self.probe.packets += 1;
        if self.full {
            self.probe.due |= self.probe.packets >= FULL_REPORT_PACKETS;
            self.probe.report_at.get_or_insert(now + REPORT_EVERY);
            return;
        }
        let enough = queueing > QUEUED && self.probe.packets >= REPORT_PACKETS;
        let after = if enough { PROBE_SOON } else { PROBE_AFTER };
        self.probe.due |= self.probe.last.is_none_or(|last| now.since(last) >= after);
    }

    /// A probe came back. If this side did not send it, another host may have requested other streams in its name: the
    /// wanted streams are soon sent again.
    pub fn on_echo(&mut self, now: Instant, received_at: Instant, time: u32) {
        if let Some(sent) = self.probe.sent.take_if(|sent| clock_us(*sent) == time) {
            self.untold = None;
            self.fold(received_at.since(sent));
        } else {
            self.probe.due |= self.probe.last.is_none_or(|last| now.since(last) >= PROBE_SOON);
        }
    }

    /// An answer with this time arrived; returns when its request was sent.
    pub fn on_answer(&mut self, received_at: Instant, time: u32) -> Option<Instant> {
        let sent = self.times.iter().find(|sent| clock_us(**sent) == time).copied()?;
        self.fold(received_at.since(sent));
        Some(sent)
    }

    fn fold(&mut self, sample: Duration) {
        if sample > LONGEST_ROUND_TRIP {
            return;
        }
        self.least_round_trip = Some(self.least_round_trip.map_or(sample, |least| least.min(sample)));
        match &mut self.round_trip {
            Some(smoothed) => smoothed.fold(sample),
            None => self.round_trip = Some(Smoothed::new(sample, 0.5)),
        }
    }

    /// The smoothed round trip; zero before it is measured.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.map_or(Duration::ZERO, |smoothed| smoothed.mean())
    }

    pub fn measured(&self) -> Option<Smoothed> {
        self.round_trip
    }

    pub fn least_round_trip(&self) -> Option<Duration> {
        self.least_round_trip
    }
}

/// The shortest wait: a busy machine takes 1 to 2 ms to schedule a process.
pub(super) const MIN_WAIT: Duration = Duration::from_millis(2);
/// The longest wait for an answer before a round trip is measured: longer than most paths take, shorter than TCP's
/// second (RFC 6298 §2.1), which exceeds any playout delay. With less time left, each request takes half of it.
pub(super) const BLIND_WAIT: Duration = Duration::from_millis(250);
/// Interval of probes and reports while data arrives (report, section 3.2).
const PROBE_AFTER: Duration = Duration::from_secs(1);
/// Interval while packets queue: a queue of 200 ms is seen before it has lasted twice as long.
const PROBE_SOON: Duration = Duration::from_millis(200);
/// Reports of slow streams are at most a tenth of the packets.
const REPORT_PACKETS: u32 = 10;
/// How long packets wait to be reported where nothing is given up: they come in blocks of 5 ms, and their sender's window
/// moves with reports.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(10);
/// So many are reported at once: as many as a sender's smallest window has.
const FULL_REPORT_PACKETS: u32 = LEAST_PACKETS_FULL;
/// The longest wait for an answer where nothing is given up: a path that is there again is used within a second.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Doublings of the wait for a confirmation: up to 2 s before a round trip is measured.
const RAREST: u32 = 3;
