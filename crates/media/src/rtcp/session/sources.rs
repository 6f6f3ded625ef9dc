//! Sources of a session: our own, and those that it receives.

use std::time::Duration;

use antiphon_core::{Instant, NtpTime};

use crate::rtcp::{Reception, ReportBlock, SenderClock, SenderInfo};

/// A source of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub ssrc: u32,
    /// Rate of its time stamps, in Hz.
    pub rate: u32,
    pub sent: Option<Sent>,
    pub packets: u32,
    pub octets: u32,
}

/// The last packet we sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub at: Instant,
    pub timestamp: u32,
}

/// A source we receive.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub ssrc: u32,
    pub reception: Reception,
    pub clock: Option<(SenderClock, Instant)>,
    /// LSR, and when that report came: the last one that was not repaired.
    pub last_sr: Option<(u32, Instant)>,
    pub since_report: bool,
    /// Time and octet count of its last sender report.
    pub octets: Option<(NtpTime, u32)>,
    /// Rate of its payload by its last two reports.
    pub bytes_per_second: Option<f64>,
    /// The name that it gave itself.
    pub cname: Option<Cname>,
}

/// The canonical name of another party (RFC 3550 §6.5.1), its beginning if it is long. Anything but visible ASCII is replaced: a
/// name comes from the network, and may be written to a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cname {
    len: u8,
    bytes: [u8; MOST_OF_A_NAME],
}

impl Cname {
    /// From what came.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; MOST_OF_A_NAME];
        let len = name.len().min(MOST_OF_A_NAME);
        for (to, from) in bytes.iter_mut().zip(&name[..len]) {
            *to = if from.is_ascii_graphic() { *from } else { b'?' };
        }
        Cname { len: len as u8, bytes }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("it is graphic ASCII")
    }
}

impl std::fmt::Debug for Cname {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Own {
    pub fn new(ssrc: u32, rate: u32) -> Self {
        Own { ssrc, rate: rate.max(1), sent: None, packets: 0, octets: 0 }
    }
}

impl Heard {
    pub fn new(ssrc: u32, reception: Reception) -> Self {
        Heard {
            ssrc,
            reception,
            clock: None,
            last_sr: None,
            since_report: false,
            octets: None,
            bytes_per_second: None,
            cname: None,
        }
    }

    /// A sender report: the octets since the one before tell its rate.
    pub fn weigh(&mut self, info: &SenderInfo) {
        let before = self.octets.replace((info.ntp, info.octets));
        let Some((ntp, octets)) = before else { return };
        let seconds = info.ntp.signed_nanos_since(ntp) as f64 / 1e9;
        let bytes = info.octets.wrapping_sub(octets);
        if bytes > 0 && (SHORTEST_MEASURE..LONGEST_MEASURE).contains(&seconds) {
            self.bytes_per_second = Some(f64::from(bytes) / seconds);
        }
    }

    pub fn block(&mut self, now: Instant) -> ReportBlock {
        self.since_report = false;
        let (last_sr, since) = self.last_sr.map_or((0, Duration::ZERO), |(sr, at)| (sr, now.since(at)));
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

/// Bytes that are kept of another party's name: `user@host` and generated names (RFC 7022) are shorter.
const MOST_OF_A_NAME: usize = 64;
/// Seconds between two sender reports whose octets tell a rate: reports in quick succession, or after a step of the
/// sender's wall clock, do not.
const SHORTEST_MEASURE: f64 = 0.1;
const LONGEST_MEASURE: f64 = 60.0;
