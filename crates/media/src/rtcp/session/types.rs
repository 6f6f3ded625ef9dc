//! Configuration and events of an RTCP session.

use std::time::Duration;

use antiphon_core::{BitRate, Epoch, Instant, NtpTime};

use crate::rtcp::{PictureLoss, PlayoutDelay, ReportBlock};

/// Configuration of a participant.
#[derive(Clone, Debug)]
pub struct RtcpConfig {
    /// Our own source, the first of several; a receiver draws one of its own.
    pub ssrc: u32,
    /// Our permanent name, `user@host` (RFC 7022 has ways to generate one); cut to 255 bytes.
    pub cname: String,
    /// Rate of the media clock in Hz.
    pub clock_rate: u32,
    /// Bandwidth of the whole session; RTCP takes a twentieth (RFC 3550 §6.2).
    pub bandwidth: BitRate,
    /// Minimum time between reports; RFC 3550 §6.2 has 5 s, and optionally 360 / kbit/s.
    pub minimum_interval: Duration,
    /// Whether the other party is a multicast group: there may be many receivers, though they are not heard.
    pub group: bool,
    /// Whether the members of the group hear each other's reports (any-source multicast): several send, and nobody needs to be
    /// told how many they are.
    pub any_source: bool,
    /// Whether intervals vary by half each way (§6.3.1), so that many parties do not send at once.
    pub randomised: bool,
    /// Wall-clock time of our clock.
    pub epoch: Epoch,
}

impl RtcpConfig {
    /// Reports at intervals of at least half a second, for two parties that want quick reports.
    pub fn new(ssrc: u32, cname: &str, clock_rate: u32, epoch: Epoch) -> Self {
        RtcpConfig {
            ssrc,
            cname: cname[..cname.floor_char_boundary(255)].into(),
            clock_rate: clock_rate.max(1),
            bandwidth: BitRate(2_000_000),
            minimum_interval: Duration::from_millis(500),
            group: false,
            any_source: false,
            randomised: true,
            epoch,
        }
    }
}

/// Another party's report on our stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RemoteReport {
    /// The reporting party.
    pub from: u32,
    /// When it came.
    pub at: Instant,
    /// The report.
    pub block: ReportBlock,
    /// Round trip by LSR and DLSR (RFC 3550 §6.4.1), once the peer has had a report of ours; `None` also where this report
    /// was repaired. Resolution 15 µs.
    pub round_trip: Option<Duration>,
}

/// The same instant in a sender's wall time and on its media clock, from its last sender report: what lip-sync needs.
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

/// An event from a compound packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RtcpEvent {
    /// A receiver reports on our stream.
    Report(RemoteReport),
    /// A sender reports its clocks.
    Clock(SenderClock),
    /// A receiver of ours reports how long it buffers our packets.
    Playout {
        /// Which receiver.
        from: u32,
        /// From the arrival of an undelayed packet to its playout.
        delay: PlayoutDelay,
    },
    /// A receiver of ours asks for a key frame.
    PictureLoss(PictureLoss),
    /// A source sent BYE.
    Bye {
        /// Which.
        ssrc: u32,
    },
    /// Our own BYE has come back, from a reflector.
    OwnBye {
        /// Which of our sources sent it.
        ssrc: u32,
    },
    /// Another source uses our SSRC (RFC 3550 §8.2): choose another.
    Collision,
}

/// Totals since the session began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtcpCounters {
    /// Compound packets sent.
    pub sent: u64,
    /// Compound packets received and understood.
    pub received: u64,
    /// Datagrams that were not valid RTCP.
    pub malformed: u64,
    /// Our own packets that came back.
    pub looped: u64,
    /// Parties for which the table had no room.
    pub overlooked: u64,
}
