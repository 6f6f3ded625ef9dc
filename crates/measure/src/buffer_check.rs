//! The buffer calculation of Højgaard-Hansen and Lundgreen 2009 for TV sound: would a buffer filled within the lip-sync budget
//! have run empty?
//!
//! The rule is the report's (Aalborg, chapters 6 and 7), as read in `protocols/simple-retransmission`, section 4:
//! adding packets before checking deadlines favours the stream, and after a restart the skew may exceed 80 ms
//! unnoticed. It is kept unchanged, so that figures can be compared.

use std::time::Duration;

use antiphon_core::Instant;
use serde::{Deserialize, Serialize};

use crate::histogram::{millis, nanos};

/// The constants of the calculation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferRule {
    /// How long the sound in one packet lasts.
    pub packet: Duration,
    /// Bytes of sound in one packet.
    pub packet_bytes: u32,
    /// Bytes that must be in the buffer before playing begins.
    pub prefill_bytes: u32,
    /// How long filling may take.
    pub fill_limit: Duration,
}

impl BufferRule {
    /// As published: 1300-byte packets of 7.4 ms, 9 of them within 70 ms (80 ms of lip-sync less 10 ms for packetising,
    /// network and processing).
    pub const PUBLISHED: BufferRule = BufferRule {
        packet: Duration::from_micros(7_400),
        packet_bytes: 1300,
        prefill_bytes: 11_700,
        fill_limit: Duration::from_millis(70),
    };

    /// The same budget for packets of another length: as many whole packets as 70 ms hold, at least one.
    pub fn for_packets(packet: Duration, packet_bytes: u32) -> BufferRule {
        let packet = packet.max(Duration::from_nanos(1));
        let packet_bytes = packet_bytes.max(1);
        let held = nanos(Self::PUBLISHED.fill_limit) / nanos(packet);
        BufferRule {
            packet,
            packet_bytes,
            prefill_bytes: packet_bytes.saturating_mul(u32::try_from(held.max(1)).unwrap_or(u32::MAX)),
            fill_limit: Self::PUBLISHED.fill_limit,
        }
    }

    /// How long the sound in a filled buffer lasts.
    pub fn prefill(&self) -> Duration {
        let nanos =
            u128::from(self.prefill_bytes) * self.packet.as_nanos() / u128::from(self.packet_bytes.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// What a packet adds to the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    /// Its own bytes.
    Bytes,
    /// By its number while playing: silence fills gaps, a late packet replaces silence already counted. While filling, its bytes,
    /// duplicates too: the report compares numbers only "when the stream is playing" (section 7.4).
    Sequence { last: Option<u64> },
}

/// One run of the calculation, fed in the order of use. No allocation, constant work per packet.
#[derive(Clone, Debug)]
pub struct BufferCheck {
    rule: BufferRule,
    variant: Variant,
    time: u64,
    held: i64,
    playing: bool,
    deadline: u64,
    result: BufferResult,
    last_arrival: Option<Instant>,
}

/// What the calculation found.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BufferResult {
    /// Packets fed.
    pub packets: u64,
    /// How often the buffer ran empty.
    pub empty: u64,
    /// How often it could not be filled in time.
    pub not_full: u64,
    /// Numbers so far ahead that they were taken as a restart of the stream.
    pub jumps: u64,
}

impl BufferResult {
    /// Times the buffer ran empty per 1000 packets received; `None` without packets.
    pub fn empty_per_1000(&self) -> Option<f64> {
        per_1000(self.empty, self.packets)
    }

    /// Times it could not be filled per 1000 packets received; `None` without packets.
    pub fn not_full_per_1000(&self) -> Option<f64> {
        per_1000(self.not_full, self.packets)
    }

    /// Whether nothing went wrong, with at least one packet.
    pub fn is_clean(&self) -> bool {
        self.packets > 0 && self.empty == 0 && self.not_full == 0
    }
}

impl BufferCheck {
    /// Gaps of more packets than this are a restart, not silence to be filled: a minute of the shortest packets. The
    /// report has no such case; without it one forged number would feed the buffer without end.
    pub const MAX_GAP: u64 = 22_500;

    /// The bytes variant: every packet adds its bytes, lost ones are missing.
    pub fn by_bytes(rule: BufferRule) -> Self {
        Self::with(rule, Variant::Bytes)
    }

    /// The sequence variant: silence fills gaps. `first` is the first number of the stream, if known; otherwise the
    /// first packet fed begins it.
    pub fn by_sequence(rule: BufferRule, first: Option<u64>) -> Self {
        let last = first.and_then(|n| n.checked_sub(1));
        Self::with(rule, Variant::Sequence { last })
    }

    fn with(rule: BufferRule, variant: Variant) -> Self {
        BufferCheck {
            rule: BufferRule { packet: rule.packet.max(Duration::from_nanos(1)), ..rule },
            variant,
            time: 0,
            held: 0,
            playing: false,
            deadline: 0,
            result: BufferResult::default(),
            last_arrival: None,
        }
    }

    /// Feeds a packet, `delay` after the one before (zero for the first), with number `seq` and `len` bytes of sound.
    pub fn on_packet(&mut self, delay: Duration, seq: u64, len: u32) {
        self.result.packets += 1;
        self.time = self.time.saturating_add(nanos(delay));
        let added = self.added(seq, len);
        self.held = self.held.saturating_add(added);
        if self.playing {
            self.take_due();
            if self.held < 0 {
                self.result.empty += 1;
                self.restart();
            }
        } else if self.time > nanos(self.rule.fill_limit) {
            self.result.not_full += 1;
            self.restart();
        } else if self.held >= i64::from(self.rule.prefill_bytes) {
            self.playing = true;
            self.held -= i64::from(self.rule.packet_bytes);
            self.deadline = self.time.saturating_add(nanos(self.rule.packet));
        }
    }

    /// The same by arrival times. A packet stamped before the latest one counts as arriving with it, as the report
    /// treats TCP segments behind a gap, when fed in the order of the sequence: the delay is the increase of the
    /// running maximum.
    pub fn on_arrival(&mut self, at: Instant, seq: u64, len: u32) {
        let last = self.last_arrival.unwrap_or(at);
        self.last_arrival = Some(last.max(at));
        self.on_packet(at.since(last), seq, len);
    }

    fn added(&mut self, seq: u64, len: u32) -> i64 {
        let packet = i64::from(self.rule.packet_bytes);
        let Variant::Sequence { last } = &mut self.variant else {
            return i64::from(len);
        };
        if !self.playing {
            *last = Some(last.map_or(seq, |last| last.max(seq)));
            return packet;
        }
        let before = last.unwrap_or(seq.wrapping_sub(1));
        if last.is_some() && seq <= before {
            return 0;
        }
        *last = Some(seq);
        let step = seq.wrapping_sub(before);
        if step > Self::MAX_GAP {
            self.result.jumps += 1;
            return packet;
        }
        packet * step as i64
    }

    /// Plays the packets whose deadline has come.
    fn take_due(&mut self) {
        if self.deadline <= self.time {
            let packet = nanos(self.rule.packet);
            let due = (self.time - self.deadline) / packet + 1;
            self.deadline = self.deadline.saturating_add(due.saturating_mul(packet));
            let taken =
                i64::try_from(due).unwrap_or(i64::MAX).saturating_mul(i64::from(self.rule.packet_bytes));
            self.held = self.held.saturating_sub(taken);
        }
    }

    /// The packet that caused it is not kept, its delay not counted; the last number is remembered.
    fn restart(&mut self) {
        self.time = 0;
        self.held = 0;
        self.playing = false;
    }

    /// Results so far.
    pub fn result(&self) -> BufferResult {
        self.result
    }

    /// The constants in use.
    pub fn rule(&self) -> BufferRule {
        self.rule
    }
}

/// The TV-sound report's two criteria, with the figures they are based on.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LipSync {
    /// Both are met.
    pub pass: bool,
    /// Lost, late, expired and refused, in percent of the packets sent; `None` if none were.
    pub missing_percent: Option<f64>,
    /// At most this many: [`LipSync::LOSS_PERCENT`].
    pub missing_limit_percent: f64,
    /// Skew with the buffer filled: [`LipSync::BEFORE_BUFFER`] and the prefill.
    pub skew_ms: f64,
    /// At most this: [`LipSync::SKEW`].
    pub skew_limit_ms: f64,
    /// Times the buffer ran empty per 1000 packets (sequence variant: gaps filled with silence).
    pub empty_per_1000: Option<f64>,
    /// Times it could not be filled in time per 1000 packets (sequence variant).
    pub not_full_per_1000: Option<f64>,
}

impl LipSync {
    /// Sound up to this much before or after its picture is unnoticed.
    pub const SKEW: Duration = Duration::from_millis(80);
    /// Loss noticed by half the listeners when silence fills the gaps (Voelcker 1985: 1.80 %, female talker).
    pub const LOSS_PERCENT: f64 = 1.8;
    /// Packetising, network and processing before the buffer, as the report takes them.
    pub const BEFORE_BUFFER: Duration = Duration::from_millis(10);

    /// Judges a stream of which `missing_percent` was missing at playout, by the calculation `check`.
    pub fn judge(missing_percent: Option<f64>, check: &BufferCheck) -> LipSync {
        let skew = Self::BEFORE_BUFFER + check.rule().prefill();
        let result = check.result();
        let enough = missing_percent.is_some_and(|m| m <= Self::LOSS_PERCENT);
        LipSync {
            pass: enough && skew <= Self::SKEW && result.is_clean(),
            missing_percent,
            missing_limit_percent: Self::LOSS_PERCENT,
            skew_ms: millis(skew),
            skew_limit_ms: millis(Self::SKEW),
            empty_per_1000: result.empty_per_1000(),
            not_full_per_1000: result.not_full_per_1000(),
        }
    }
}

fn per_1000(events: u64, packets: u64) -> Option<f64> {
    (packets > 0).then(|| events as f64 * 1000.0 / packets as f64)
}

#[cfg(test)]
mod tests;
