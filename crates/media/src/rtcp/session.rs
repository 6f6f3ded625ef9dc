//! One party of an RTP session: when to report, what to report, and what the others' reports mean.

use std::time::Duration;

use antiphon_core::{BitRate, Epoch, Instant, NtpTime, Rng};

use super::{Reception, ReportBlock, RtcpError, RtcpItem, SenderInfo};
use super::{visit_compound, write_bye, write_cname, write_report};

/// How a party behaves.
#[derive(Clone, Debug)]
pub struct RtcpConfig {
    /// Our own source, the first of several; a receiver draws one of its own.
    pub ssrc: u32,
    /// Our lasting name, `user@host` (RFC 7022 has ways to make one up); cut to 255 bytes.
    pub cname: String,
    /// Rate of the media clock in Hz.
    pub clock_rate: u32,
    /// Bandwidth of the whole session; RTCP takes a twentieth (RFC 3550 §6.2).
    pub bandwidth: BitRate,
    /// The least time between reports; RFC 3550 §6.2 has 5 s, and allows 360 / kbit/s for those who ask.
    pub minimum_interval: Duration,
    /// Whether intervals vary by half each way (§6.3.1), so that many parties do not speak at once.
    pub randomised: bool,
    /// Where our clock stands on the wall.
    pub epoch: Epoch,
}

impl RtcpConfig {
    /// Reports at half a second's distance at least, for two parties that want to see what happens.
    pub fn new(ssrc: u32, cname: &str, clock_rate: u32, epoch: Epoch) -> Self {
        RtcpConfig {
            ssrc,
            cname: cname[..cname.floor_char_boundary(255)].into(),
            clock_rate: clock_rate.max(1),
            bandwidth: BitRate(2_000_000),
            minimum_interval: Duration::from_millis(500),
            randomised: true,
            epoch,
        }
    }
}

/// What another party says of our stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RemoteReport {
    /// Who says it.
    pub from: u32,
    /// When it came.
    pub at: Instant,
    /// The report.
    pub block: ReportBlock,
    /// Round trip by LSR and DLSR (RFC 3550 §6.4.1), once the peer has had a report of ours. Resolution 15 µs.
    pub round_trip: Option<Duration>,
}

/// One instant on the wall and on a sender's media clock, from its last sender report: what lip-sync needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenderClock {
    /// The sender.
    pub ssrc: u32,
    /// The sender's wall time.
    pub ntp: NtpTime,
    /// Its RTP time stamp at that time.
    pub rtp_timestamp: u32,
}

impl SenderClock {
    /// The sender's wall time of another time stamp, within 2³¹ of this one.
    pub fn ntp_of(&self, rtp_timestamp: u32, clock_rate: u32) -> NtpTime {
        let ticks = i64::from(rtp_timestamp.wrapping_sub(self.rtp_timestamp) as i32);
        let fraction = (i128::from(ticks) << 32) / i128::from(clock_rate.max(1));
        NtpTime::from_bits(self.ntp.to_bits().wrapping_add(fraction as i64 as u64))
    }
}

/// What came out of a compound packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RtcpEvent {
    /// Somebody reports on our stream.
    Report(RemoteReport),
    /// A sender tells its clocks.
    Clock(SenderClock),
    /// A source takes leave.
    Bye {
        /// Which.
        ssrc: u32,
    },
    /// Somebody else uses our SSRC (RFC 3550 §8.2): take another.
    Collision,
}

/// Totals since the session began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtcpCounters {
    /// Compound packets sent.
    pub sent: u64,
    /// Compound packets received and understood.
    pub received: u64,
    /// Packets that were none.
    pub malformed: u64,
    /// Our own packets, come back.
    pub looped: u64,
    /// Parties that the table had no room for.
    pub overlooked: u64,
}

/// A party's state. Allocates at construction, and for each source of its own or another's at the first word of it.
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
    /// Where the next report begins with those of our sources, beside the first, that did not fit into the last.
    next_own: usize,
    /// The sources we receive.
    heard: Vec<Heard>,
    next_heard: usize,
    counters: RtcpCounters,
}

/// A source of ours.
#[derive(Clone, Copy, Debug)]
struct Own {
    ssrc: u32,
    sent: Option<Sent>,
    packets: u32,
    octets: u32,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    ssrc: u32,
    last_heard: Instant,
}

/// The last packet we sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    timestamp: u32,
}

/// A source we receive.
#[derive(Clone, Debug)]
struct Heard {
    ssrc: u32,
    reception: Reception,
    clock: Option<(SenderClock, Instant)>,
    since_report: bool,
}

impl RtcpSession {
    /// The first report is due after half an interval (RFC 3550 §6.2). `seed` decides how intervals vary.
    pub fn new(config: RtcpConfig, seed: u64, now: Instant) -> Self {
        let mut session = RtcpSession {
            rng: Rng::fork(seed, "rtcp"),
            members: Vec::with_capacity(MAX_MEMBERS),
            next: None,
            last: now,
            reported: false,
            // A report with one block and a short name, with UDP and IP around it.
            average_size: 112.0,
            own: vec![Own::new(config.ssrc)],
            next_own: 0,
            heard: Vec::with_capacity(1),
            next_heard: 0,
            counters: RtcpCounters::default(),
            config,
        };
        session.next = Some(now + session.interval());
        session
    }

    /// We send under this SSRC, too: another channel group, or another kind of media on the same clock. Reports go out
    /// together (RFC 8108 §5.3.1), as many as one compound packet of [`MAX_REPORT`] bytes holds.
    pub fn add_source(&mut self, ssrc: u32) {
        self.own.push(Own::new(ssrc));
    }

    /// We sent an RTP packet under `ssrc`.
    pub fn on_sent(&mut self, now: Instant, ssrc: u32, timestamp: u32, payload: usize) {
        if let Some(own) = self.own.iter_mut().find(|own| own.ssrc == ssrc) {
            own.sent = Some(Sent { at: now, timestamp });
            own.packets = own.packets.wrapping_add(1);
            own.octets = own.octets.wrapping_add(payload as u32);
        }
    }

    /// An RTP packet of a source we listen to came in. Each is counted by itself.
    pub fn on_received(&mut self, now: Instant, ssrc: u32, sequence: u16, timestamp: u32) {
        let known = self.heard.iter().position(|heard| heard.ssrc == ssrc);
        let Some(at) = known.or_else(|| self.place_for(ssrc)) else {
            self.counters.overlooked += 1;
            return;
        };
        self.heard[at].reception.on_packet(now, sequence, timestamp);
        self.heard[at].since_report = true;
        self.meet(now, ssrc);
    }

    /// A place for a new source: one more, or that of one that fell silent.
    fn place_for(&mut self, ssrc: u32) -> Option<usize> {
        let reception = Reception::new(self.config.clock_rate);
        let fresh = Heard { ssrc, reception, clock: None, since_report: false };
        if self.heard.len() < MAX_SOURCES {
            self.heard.push(fresh);
            return Some(self.heard.len() - 1);
        }
        let at = self.heard.iter().position(|heard| !heard.since_report)?;
        self.heard[at] = fresh;
        Some(at)
    }

    /// Another sender, or the one we listened to started anew: counting begins again.
    pub fn on_restart(&mut self) {
        self.heard.clear();
    }

    /// A compound packet came in; what it means goes to `each`. A broken one is counted and answered with its error.
    pub fn handle(
        &mut self,
        now: Instant,
        bytes: &[u8],
        mut each: impl FnMut(RtcpEvent),
    ) -> Result<(), RtcpError> {
        let (mut foreign, mut reports) = (true, 0);
        let result = visit_compound(bytes, |item| match item {
            RtcpItem::Sender { ssrc, .. } | RtcpItem::Receiver { ssrc, .. } if self.is_own(ssrc) => {
                foreign = false;
            }
            RtcpItem::Sender { ssrc, info, blocks } => {
                reports += 1;
                self.meet(now, ssrc);
                let clock = SenderClock { ssrc, ntp: info.ntp, rtp_timestamp: info.rtp_timestamp };
                if let Some(heard) = self.heard.iter_mut().find(|heard| heard.ssrc == ssrc) {
                    heard.clock = Some((clock, now));
                }
                each(RtcpEvent::Clock(clock));
                self.read_blocks(now, ssrc, blocks, &mut each);
            }
            RtcpItem::Receiver { ssrc, blocks } => {
                reports += 1;
                self.meet(now, ssrc);
                self.read_blocks(now, ssrc, blocks, &mut each);
            }
            RtcpItem::Cname { ssrc, name } if self.is_own(ssrc) => {
                foreign = false;
                if name != self.config.cname.as_bytes() {
                    each(RtcpEvent::Collision);
                }
            }
            RtcpItem::Bye { ssrc } if !self.is_own(ssrc) => {
                self.members.retain(|member| member.ssrc != ssrc);
                each(RtcpEvent::Bye { ssrc });
            }
            RtcpItem::Cname { .. } | RtcpItem::Bye { .. } | RtcpItem::Other { .. } => {}
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
        let patience = self.config.minimum_interval.max(Duration::from_secs(5)) * 5;
        self.members.retain(|member| now.since(member.last_heard) <= patience);
        // Timer reconsideration (§6.3.6): parties who came meanwhile push us back.
        let due = self.last + self.interval();
        if due > now && self.reported {
            self.next = Some(due);
            return None;
        }
        let len = self.write_compound(now, buf, false)?;
        (self.last, self.reported) = (now, true);
        self.next = Some(now + self.interval());
        Some(len)
    }

    /// Writes a last report with BYE, and falls silent.
    pub fn close(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.next.take()?;
        self.write_compound(now, buf, true)
    }

    /// Writes a last report with BYE for each of our sources by itself, so that each can go out behind what it ends, and falls
    /// silent. Lends them to `each` with the number of the source in the order of [`Self::add_source`], the first being 0.
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

    /// How the sources we listen to are received here, for whoever shows figures, in the order in which they were first
    /// heard.
    pub fn receptions(&self) -> impl Iterator<Item = (u32, &Reception)> {
        self.heard.iter().map(|heard| (heard.ssrc, &heard.reception))
    }

    /// How the first source we listen to is received.
    pub fn reception(&self) -> Option<&Reception> {
        self.heard.first().map(|heard| &heard.reception)
    }

    /// The last clocks told by the first source we listen to that told any, and when they came.
    pub fn sender_clock(&self) -> Option<(SenderClock, Instant)> {
        self.heard.iter().find_map(|heard| heard.clock)
    }

    /// Takes another SSRC for our first source after a collision.
    pub fn set_ssrc(&mut self, ssrc: u32) {
        self.config.ssrc = ssrc;
        self.own[0].ssrc = ssrc;
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
        each: &mut impl FnMut(RtcpEvent),
    ) {
        for block in blocks.filter(|block| self.is_own(block.ssrc)) {
            let round_trip = (block.last_sr != 0).then(|| {
                let arrived = self.config.epoch.ntp(now).middle_bits();
                let ticks = arrived.wrapping_sub(block.last_sr).wrapping_sub(block.delay_since_last_sr);
                // Clock steps and lies make it negative or absurd; a day is neither.
                (ticks < 1 << 31).then(|| Duration::from_nanos((u64::from(ticks) * 1_000_000_000) >> 16))
            });
            each(RtcpEvent::Report(RemoteReport { from, at: now, block, round_trip: round_trip.flatten() }));
        }
    }

    /// Reports of our sources, the first always, the others in turn as they fit; then their names; at the end goodbyes.
    fn write_compound(&mut self, now: Instant, buf: &mut [u8], bye: bool) -> Option<usize> {
        let (mut blocks, mut filled) = ([ReportBlock::default(); MAX_BLOCKS], 0);
        for step in 0..self.heard.len() {
            let at = (self.next_heard + step) % self.heard.len();
            if filled < MAX_BLOCKS && self.heard[at].since_report {
                blocks[filled] = self.heard[at].block(now);
                filled += 1;
                if filled == MAX_BLOCKS {
                    self.next_heard = at + 1;
                }
            }
        }
        let first = self.own[0];
        let mut len =
            write_report(first.ssrc, self.sender_info(now, first).as_ref(), &blocks[..filled], buf)?;
        let name = write_cname(first.ssrc, &self.config.cname, &mut buf[len..])?;
        let others = if bye { 0 } else { self.others_that_fit(len + name, name, buf.len()) };
        let turn = |step: usize| 1 + (self.next_own + step) % (self.own.len() - 1);
        for step in 0..others {
            let own = self.own[turn(step)];
            len += write_report(own.ssrc, self.sender_info(now, own).as_ref(), &[], &mut buf[len..])?;
        }
        len += write_cname(first.ssrc, &self.config.cname, &mut buf[len..])?;
        for step in 0..others {
            len += write_cname(self.own[turn(step)].ssrc, &self.config.cname, &mut buf[len..])?;
        }
        for own in self.own.iter().filter(|_| bye) {
            len += write_bye(own.ssrc, &mut buf[len..])?;
        }
        self.next_own += others;
        self.counters.sent += 1;
        self.weigh(len, 1 + others);
        Some(len)
    }

    fn write_goodbye(&self, now: Instant, own: Own, buf: &mut [u8]) -> Option<usize> {
        let mut len = write_report(own.ssrc, self.sender_info(now, own).as_ref(), &[], buf)?;
        len += write_cname(own.ssrc, &self.config.cname, &mut buf[len..])?;
        len += write_bye(own.ssrc, &mut buf[len..])?;
        Some(len)
    }

    /// How many of our other sources have room beside the first, each with its report and its name of `name` bytes.
    fn others_that_fit(&self, taken: usize, name: usize, buf: usize) -> usize {
        let room = buf.min(MAX_REPORT).saturating_sub(taken);
        (room / (SENDER_REPORT_BYTES + name)).min(self.own.len() - 1)
    }

    /// A sender report while we send; who fell silent for two intervals only receives (§6.4).
    fn sender_info(&self, now: Instant, own: Own) -> Option<SenderInfo> {
        let sent = own.sent?;
        let silence = now.since(sent.at);
        if silence > 2 * self.config.minimum_interval.max(Duration::from_secs(1)) {
            return None;
        }
        let ticks = silence.as_nanos() * u128::from(self.config.clock_rate) / 1_000_000_000;
        Some(SenderInfo {
            ntp: self.config.epoch.ntp(now),
            rtp_timestamp: sent.timestamp.wrapping_add(ticks as u32),
            packets: own.packets,
            octets: own.octets,
        })
    }

    /// The interval of §6.3.1 for the parties known now; the minimum is halved before the first report.
    fn interval(&mut self) -> Duration {
        let parties = (self.members.len() + self.own.len()) as f64;
        let bytes_per_second = (self.config.bandwidth.0 as f64 / 8.0 * 0.05).max(1.0);
        let minimum = self.config.minimum_interval.as_secs_f64() * if self.reported { 1.0 } else { 0.5 };
        let seconds = (parties * self.average_size / bytes_per_second).max(minimum);
        // e - 3/2 makes up for what reconsideration adds.
        let factor = match self.config.randomised {
            true => (0.5 + self.rng.unit()) / (std::f64::consts::E - 1.5),
            false => 1.0,
        };
        Duration::from_secs_f64((seconds * factor).min(3600.0))
    }

    fn meet(&mut self, now: Instant, ssrc: u32) {
        if let Some(member) = self.members.iter_mut().find(|member| member.ssrc == ssrc) {
            member.last_heard = now;
        } else if self.members.len() < MAX_MEMBERS {
            self.members.push(Member { ssrc, last_heard: now });
        } else {
            self.counters.overlooked += 1;
        }
    }

    /// Average size of compound packets with UDP and IPv4 (§6.3.3); of one with several sources' reports, a report's share
    /// (RFC 8108 §5.3.1).
    fn weigh(&mut self, len: usize, reports: usize) {
        let share = (len + 28) as f64 / reports.max(1) as f64;
        self.average_size += (share - self.average_size) / 16.0;
    }
}

impl Own {
    fn new(ssrc: u32) -> Self {
        Own { ssrc, sent: None, packets: 0, octets: 0 }
    }
}

impl Heard {
    fn block(&mut self, now: Instant) -> ReportBlock {
        self.since_report = false;
        let (last_sr, since) =
            self.clock.map_or((0, Duration::ZERO), |(clock, at)| (clock.ntp.middle_bits(), now.since(at)));
        ReportBlock {
            ssrc: self.ssrc,
            fraction_lost: self.reception.take_fraction_lost(),
            cumulative_lost: self.reception.cumulative_lost().clamp(-0x80_0000, 0x7f_ffff) as i32,
            highest_sequence: self.reception.highest_sequence(),
            jitter: self.reception.jitter(),
            last_sr,
            delay_since_last_sr: ((since.as_nanos() << 16) / 1_000_000_000).min(u128::from(u32::MAX)) as u32,
        }
    }
}

/// Sources of one sender that are counted: a channel group for each of the channels that a stream may have.
const MAX_SOURCES: usize = 64;
/// Blocks of a report (RFC 3550 §6.4.1: five bits); further sources have their turn in the next.
const MAX_BLOCKS: usize = 31;
/// Header, SSRC and what a sender says of itself (§6.4.1).
const SENDER_REPORT_BYTES: usize = 28;
/// A compound packet of several sources is no longer, in bytes, so that any path takes it: IPv6's least MTU (RFC 8200 §5)
/// leaves 1232 in UDP.
pub const MAX_REPORT: usize = 1200;
/// Parties beyond so many are counted, not remembered: strangers cost no memory.
const MAX_MEMBERS: usize = 64;

#[cfg(test)]
mod tests;
