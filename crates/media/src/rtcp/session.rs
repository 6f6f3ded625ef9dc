//! One participant of an RTP session: when to report, and what others' reports mean. `compound` writes the reports.

mod compound;
mod leaving;
mod membership;
mod sources;
mod types;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::wire::UDP_IPV4_HEADERS;
use antiphon_core::{Epoch, Instant, Rng};

pub use compound::MAX_REPORT;
pub use sources::Cname;
pub use types::{RemoteReport, RtcpConfig, RtcpCounters, RtcpEvent, SenderClock};

use super::picture_loss::questions;
use super::{GroupSize, PlayoutDelay, Reception, RtcpError, RtcpItem, visit_compound};
use membership::Member;
use sources::{Heard, Own, Sent};

/// A participant's state. Allocates at construction and at the first use of each source, its own or another's.
#[derive(Clone, Debug)]
pub struct RtcpSession {
    config: RtcpConfig,
    rng: Rng,
    members: Vec<Member>,
    next: Option<Instant>,
    last: Instant,
    reported: bool,
    average_size: f64,
    /// Our own sources, at least one.
    own: Vec<Own>,
    /// Wall-clock times of our last sender reports, as their answers name them, and when they were made.
    said_at: VecDeque<(u32, Instant)>,
    /// Index of the first other source that did not fit into the last report; the next report begins with it.
    next_own: usize,
    /// The sources we receive.
    heard: Vec<Heard>,
    next_heard: usize,
    /// Rate of their media clocks in Hz.
    heard_rate: u32,
    /// The playout delay that we report to them.
    playout: Option<PlayoutDelay>,
    /// What the sender told of its group.
    told: GroupSize,
    /// The receivers of our group when we last told their number.
    said: u32,
    /// The next report is not reconsidered.
    hurries: bool,
    /// While we wait to say goodbye to a large group: the goodbyes heard meanwhile.
    leaving: Option<usize>,
    counters: RtcpCounters,
}

impl RtcpSession {
    /// The first report is due after half an interval (RFC 3550 §6.2). `seed` decides how intervals vary.
    pub fn new(config: RtcpConfig, seed: u64, now: Instant) -> Self {
        let mut session = RtcpSession {
            rng: Rng::fork(seed, "rtcp"),
            members: Vec::with_capacity(FEW_MEMBERS),
            next: None,
            last: now,
            reported: false,
            // A report with one block and a short name, with UDP and IP around it.
            average_size: 112.0,
            own: vec![Own::new(config.ssrc, config.clock_rate)],
            said_at: VecDeque::with_capacity(REMEMBERED_REPORTS),
            next_own: 0,
            heard: Vec::with_capacity(1),
            next_heard: 0,
            heard_rate: config.clock_rate,
            playout: None,
            told: GroupSize::default(),
            said: 0,
            hurries: false,
            leaving: None,
            counters: RtcpCounters::default(),
            config,
        };
        session.next = Some(now + session.interval(now));
        session
    }

    /// Adds an SSRC of ours: another channel group. Reports are sent together (RFC 8108 §5.3.1), as many as one compound
    /// packet of [`MAX_REPORT`] bytes holds.
    pub fn add_source(&mut self, ssrc: u32) {
        self.add_source_at(ssrc, self.config.clock_rate);
    }

    /// The same of another medium, whose time stamps count at `rate` Hz.
    pub fn add_source_at(&mut self, ssrc: u32, rate: u32) {
        self.own.push(Own::new(ssrc, rate));
    }

    /// Another SSRC takes the place of one of ours (§8.2); its counts begin again.
    pub fn set_ssrc(&mut self, old: u32, new: u32) {
        for own in self.own.iter_mut().filter(|own| own.ssrc == old) {
            *own = Own::new(new, own.rate);
        }
        if self.config.ssrc == old {
            self.config.ssrc = new;
        }
    }

    /// Wall-clock time of our clock from now on: the wall clock was set, or the machine was suspended meanwhile.
    pub fn set_epoch(&mut self, epoch: Epoch) {
        self.config.epoch = epoch;
    }

    /// Counts an RTP packet that we sent under `ssrc`.
    pub fn on_sent(&mut self, now: Instant, ssrc: u32, timestamp: u32, payload: usize) {
        if let Some(own) = self.own.iter_mut().find(|own| own.ssrc == ssrc) {
            own.sent = Some(Sent { at: now, timestamp });
            own.packets = own.packets.wrapping_add(1);
            own.octets = own.octets.wrapping_add(payload as u32);
        }
    }

    /// Counts an RTP packet of a source that we receive. Each source is counted separately.
    pub fn on_received(&mut self, now: Instant, ssrc: u32, sequence: u16, timestamp: u32) {
        self.on_received_at(now, ssrc, (sequence, timestamp), self.heard_rate);
    }

    /// The same of another medium, whose time stamps count at `rate` Hz.
    pub fn on_received_at(&mut self, now: Instant, ssrc: u32, (sequence, timestamp): (u16, u32), rate: u32) {
        let known = self.heard.iter().position(|heard| heard.ssrc == ssrc);
        let Some(at) = known.or_else(|| self.place_for(ssrc, rate)) else {
            self.counters.overlooked += 1;
            return;
        };
        self.heard[at].reception.on_packet(now, sequence, timestamp);
        self.heard[at].since_report = true;
        self.note_member(now, ssrc, true);
    }

    /// So many packets of a source did not come, more than its sequence numbers alone show.
    pub fn skip_packets(&mut self, ssrc: u32, packets: u64) {
        if let Some(heard) = self.heard.iter_mut().find(|heard| heard.ssrc == ssrc) {
            heard.reception.skip_packets(packets);
        }
    }

    /// The entry for a new source: an unused one, or that of a source that fell silent.
    fn place_for(&mut self, ssrc: u32, rate: u32) -> Option<usize> {
        let reception = Reception::new(rate.max(1));
        let fresh = Heard::new(ssrc, reception);
        if self.heard.len() < MAX_SOURCES {
            self.heard.push(fresh);
            return Some(self.heard.len() - 1);
        }
        let at = self.heard.iter().position(|heard| !heard.since_report)?;
        self.heard[at] = fresh;
        Some(at)
    }

    /// A stream that we receive begins, of another sender or of the same one restarted: counting restarts. `rate`: of
    /// its media clock, in Hz.
    pub fn begin_receiving(&mut self, rate: u32) {
        self.heard.clear();
        self.heard_rate = rate.max(1);
    }

    /// The same of one of several senders; the others' counts go on.
    pub fn begin_source(&mut self, ssrc: u32, rate: u32) {
        self.forget_source(ssrc);
        self.heard_rate = rate.max(1);
        if let Some(at) = self.place_for(ssrc, self.heard_rate) {
            // A place that another source had, too.
            self.heard[at].since_report = true;
        }
    }

    /// A sender is not received any more.
    pub fn forget_source(&mut self, ssrc: u32) {
        self.heard.retain(|heard| heard.ssrc != ssrc);
    }

    /// The name that a sender that we receive gave itself, once it has.
    pub fn cname_of(&self, ssrc: u32) -> Option<Cname> {
        self.heard.iter().find(|heard| heard.ssrc == ssrc)?.cname
    }

    /// Reports to senders how long we buffer their packets (RFC 7005); `None`: no report.
    pub fn tell_playout(&mut self, delay: Option<PlayoutDelay>) {
        self.playout = delay;
    }

    /// Reads a compound packet; what it means goes to `each`. An invalid one is counted and returns its error.
    ///
    /// `repaired`: it was lost, and the transport sent it again. Then it measures no round trip, neither here nor, as
    /// LSR, at its sender (RFC 3550 §6.4.1): the time until the repair would count as the path's.
    pub fn handle(
        &mut self,
        now: Instant,
        bytes: &[u8],
        repaired: bool,
        mut each: impl FnMut(RtcpEvent),
    ) -> Result<(), RtcpError> {
        let (mut foreign, mut collided, mut reports) = (true, false, 0);
        let result = visit_compound(bytes, |item| match item {
            RtcpItem::Sender { ssrc, .. } | RtcpItem::Receiver { ssrc, .. } if self.is_own(ssrc) => {
                foreign = false;
            }
            RtcpItem::Sender { ssrc, info, blocks } => {
                reports += 1;
                self.note_member(now, ssrc, true);
                let clock = SenderClock { ssrc, ntp: info.ntp, rtp_timestamp: info.rtp_timestamp };
                self.note_clock(now, clock, repaired);
                if let Some(heard) = self.heard.iter_mut().find(|heard| heard.ssrc == ssrc) {
                    heard.weigh(&info);
                }
                each(RtcpEvent::Clock(clock));
                self.read_blocks(now, ssrc, blocks, repaired, &mut each);
            }
            RtcpItem::Receiver { ssrc, blocks } => {
                reports += 1;
                self.note_member(now, ssrc, false);
                self.read_blocks(now, ssrc, blocks, repaired, &mut each);
            }
            RtcpItem::Cname { ssrc, name } if self.is_own(ssrc) => {
                foreign = false;
                if name != self.config.cname.as_bytes() {
                    collided = true;
                    each(RtcpEvent::Collision);
                }
            }
            RtcpItem::Cname { ssrc, name } => {
                if let Some(heard) = self.heard.iter_mut().find(|heard| heard.ssrc == ssrc) {
                    heard.cname = Some(Cname::new(name));
                }
            }
            RtcpItem::Bye { ssrc } if !self.is_own(ssrc) => {
                self.forget_member(now, ssrc);
                each(RtcpEvent::Bye { ssrc });
            }
            RtcpItem::Bye { ssrc } => {
                foreign = false;
                // With another CNAME it is another participant.
                if !collided {
                    each(RtcpEvent::OwnBye { ssrc });
                }
            }
            RtcpItem::Buffered { ssrc, told } if !self.is_own(ssrc) && self.is_own(told.source) => {
                each(RtcpEvent::Playout { from: ssrc, delay: told.delay });
            }
            RtcpItem::Group { ssrc, size }
                if !self.config.any_source && self.heard.iter().any(|heard| heard.ssrc == ssrc) =>
            {
                self.on_group_size(now, size);
            }
            RtcpItem::Other { bytes, .. } => {
                questions(bytes)
                    .filter(|asked| self.is_own(asked.pictures))
                    .for_each(|asked| each(RtcpEvent::PictureLoss(asked)));
            }
            RtcpItem::Buffered { .. } | RtcpItem::Group { .. } => {}
        });
        match result {
            Ok(()) if foreign => {
                self.counters.received += 1;
                self.weigh(bytes.len(), reports);
            }
            Ok(()) => self.counters.looped += 1,
            Err(_) => self.counters.malformed += 1,
        }
        result
    }

    /// When [`Self::poll_report`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Writes the report that is due into `buf`, if one is. 1 500 bytes are always enough.
    pub fn poll_report(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if self.next? > now {
            return None;
        }
        self.forget_silent(now);
        if self.next? > now {
            return None;
        }
        // Timer reconsideration (§6.3.6): members that joined meanwhile delay us.
        let due = self.last + self.interval(now);
        let reconsiders = self.reported || self.leaving.is_some() || self.is_group();
        if due > now && reconsiders && !self.hurries {
            self.next = Some(due);
            return None;
        }
        if self.leaving.is_some() {
            return self.write_last(now, buf);
        }
        let len = self.write_compound(now, buf, false)?;
        (self.last, self.reported, self.hurries) = (now, true, false);
        self.next = Some(now + self.interval(now));
        Some(len)
    }

    /// Writes a last report with BYE for each of our sources separately, so that each can follow the stream it ends;
    /// sends nothing afterwards. Lends each to `each` with the index of the source in the order of
    /// [`Self::add_source`], the first being 0.
    pub fn close_each(&mut self, now: Instant, buf: &mut [u8], mut each: impl FnMut(usize, &[u8])) {
        if self.next.take().is_none() {
            return;
        }
        for (index, own) in self.own.iter().enumerate() {
            if let Some(len) = self.write_goodbye(now, *own, buf) {
                each(index, &buf[..len]);
            }
        }
        self.counters.sent += self.own.len() as u64;
    }

    /// Reception of the sources that we receive, for display, in the order in which they were first heard.
    pub fn receptions(&self) -> impl Iterator<Item = (u32, &Reception)> {
        self.heard.iter().map(|heard| (heard.ssrc, &heard.reception))
    }

    /// The last clocks from the first received source that reported any, and when they came.
    pub fn sender_clock(&self) -> Option<(SenderClock, Instant)> {
        self.heard.iter().find_map(|heard| heard.clock)
    }

    /// The SSRC of our first source.
    pub fn ssrc(&self) -> u32 {
        self.config.ssrc
    }

    fn is_own(&self, ssrc: u32) -> bool {
        self.own.iter().any(|own| own.ssrc == ssrc)
    }

    /// Totals.
    pub fn counters(&self) -> RtcpCounters {
        self.counters
    }

    fn read_blocks(
        &mut self,
        now: Instant,
        from: u32,
        blocks: super::ReportBlocks<'_>,
        repaired: bool,
        each: &mut impl FnMut(RtcpEvent),
    ) {
        for block in blocks.filter(|block| self.is_own(block.ssrc)) {
            // A report of ours that was never sent, or long ago, answers none.
            let said = self.said_at.iter().rev().find(|(stamp, _)| *stamp == block.last_sr && !repaired);
            let round_trip = said.and_then(|(_, at)| {
                let held = Duration::from_nanos((u64::from(block.delay_since_last_sr) * 1_000_000_000) >> 16);
                now.since(*at).checked_sub(held)
            });
            each(RtcpEvent::Report(RemoteReport { from, at: now, block, round_trip }));
        }
    }

    /// A sender report of ours has the wall-clock time of `now`.
    pub(super) fn note_said(&mut self, now: Instant) {
        if self.said_at.len() == REMEMBERED_REPORTS {
            self.said_at.pop_front();
        }
        self.said_at.push_back((self.config.epoch.ntp(now).middle_bits(), now));
    }

    fn note_clock(&mut self, now: Instant, clock: SenderClock, repaired: bool) {
        let Some(heard) = self.heard.iter_mut().find(|heard| heard.ssrc == clock.ssrc) else { return };
        heard.clock = Some((clock, now));
        if !repaired {
            heard.last_sr = Some((clock.ntp.middle_bits(), now));
        }
    }

    /// Average size of compound packets with UDP and IPv4 (§6.3.3); for one with several sources' reports, one report's
    /// share (RFC 8108 §5.3.1).
    fn weigh(&mut self, len: usize, reports: usize) {
        let share = (len + UDP_IPV4_HEADERS) as f64 / reports.max(1) as f64;
        self.average_size += (share - self.average_size) / 16.0;
    }
}

/// Sender reports of ours whose answers give a round trip: those of the last 4 s at least, at intervals of 0.25 s.
const REMEMBERED_REPORTS: usize = 16;
/// Sources of one sender that are counted: a channel group for each channel that a stream may have.
const MAX_SOURCES: usize = 64;
/// Members for which there is memory from the beginning.
const FEW_MEMBERS: usize = 8;

#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod tests;
