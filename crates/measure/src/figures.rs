//! The figures of one transport's run, as `compare --json` prints them and every table shows them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::blocks::Blocks;
use crate::buffer_check::{BufferResult, LipSync};
use crate::bursts::BurstTotals;
use crate::fate::Fate;
use crate::histogram::{Distribution, millis};
use crate::jitter::pdv;
use crate::packet_log::PacketLog;
use crate::pictures::PicturesFigures;
use crate::playout::{PlayoutCurve, PlayoutPoint, RequiredDelay};
use crate::rate::{cpu_ms_per_s, kbit_per_s, overhead_percent, percent};

/// Inputs of a run's figures besides its [`PacketLog`].
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Scheme of the transport: `rtp`, `tcp`.
    pub transport: String,
    /// Name of the link, or the peer's.
    pub link: String,
    /// Bytes on the wire in the direction of sending, headers down to IP included.
    pub wire_bytes: u64,
    /// Bytes of sound in the packets sent.
    pub media_bytes: u64,
    /// The pictures beside it, if there were any.
    pub pictures: Option<PicturesFigures>,
    /// Processor time of the stream; `None` if it can't be separated from that of others.
    pub cpu: Option<Duration>,
    /// How long the stream lasted.
    pub duration: Duration,
    /// What a reader must know about the run, such as what a fallback link can't model.
    pub notes: Vec<String>,
}

/// The figures of one transport over one link. Names contain units; `None` is null: not measured.
///
/// Percentages are of `packets_sent`. `packets_sent` = played + recovered + late + lost + expired + refused + pending.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TransportFigures {
    /// Always `transport`.
    pub record: String,
    /// Version of these names: [`TransportFigures::SCHEMA`].
    pub schema: u32,
    /// Scheme of the transport.
    pub transport: String,
    /// Name of the link.
    pub link: String,
    /// What a reader must know about the run; omitted if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Length of the stream.
    pub duration_s: f64,
    /// How long the sound in a packet lasts.
    pub packet_ms: f64,
    /// Packets handed over, refused ones included.
    pub packets_sent: u64,
    /// Packets that arrived, each once, late ones included.
    pub packets_received: u64,
    /// Arrived in time, on their own.
    pub played: u64,
    /// Arrived in time by repair.
    pub recovered: u64,
    /// Never arrived.
    pub lost: u64,
    /// Arrived too late.
    pub late: u64,
    /// Given up by the sender.
    pub expired: u64,
    /// Not taken by the transport.
    pub refused: u64,
    /// In flight when the figures were computed.
    pub pending: u64,
    /// Arrivals beyond the first.
    pub duplicate: u64,
    /// First arrivals after a higher number (RFC 4737).
    pub reordered: u64,
    /// Gaps filled by the receiver.
    pub concealed: u64,
    /// Arrivals under numbers never sent.
    pub unknown: u64,
    /// Lost.
    pub lost_percent: Option<f64>,
    /// 95 % interval of `lost_percent`, from blocks of the run; `None` if the run is too short: fewer than ten of its
    /// blocks contain a loss.
    pub lost_percent_interval: Option<(f64, f64)>,
    /// Late.
    pub late_percent: Option<f64>,
    /// Expired.
    pub expired_percent: Option<f64>,
    /// Refused.
    pub refused_percent: Option<f64>,
    /// Duplicate.
    pub duplicate_percent: Option<f64>,
    /// Reordered.
    pub reordered_percent: Option<f64>,
    /// Concealed.
    pub concealed_percent: Option<f64>,
    /// Longest run of lost packets.
    pub longest_loss_burst: u64,
    /// Mean run of lost packets.
    pub mean_loss_burst: Option<f64>,
    /// How often runs of 1, 2, 3 … lost packets occurred; the last stands for 64 and more. Trailing zeros are omitted.
    pub loss_burst_lengths: Vec<u64>,
    /// RFC 3611's bursts (Gmin 16).
    pub bursts: BurstTotals,
    /// Round trips.
    pub rtt_ms: Distribution,
    /// One-way delays; omitted if the clocks are not known to agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_ms: Option<Distribution>,
    /// Mean absolute deviation of the round trips (Schiavoni, Queiroz and Wanderley 2013, equation 2).
    pub jitter_mad_ms: Option<f64>,
    /// RFC 3550 interarrival jitter at the end of the run.
    pub jitter_rfc3550_ms: Option<f64>,
    /// Its highest value.
    pub jitter_rfc3550_max_ms: Option<f64>,
    /// Standard deviation of the last 100 gaps.
    pub rolling_deviation_ms: Option<f64>,
    /// Its highest value over any 100 successive gaps.
    pub rolling_deviation_max_ms: Option<f64>,
    /// PDV of the round trips (RFC 5481): 99.9th percentile less the minimum.
    pub pdv_ms: Option<f64>,
    /// |IPDV| of the round trips (RFC 5481) at the 99th percentile.
    pub ipdv_p99_ms: Option<f64>,
    /// Mean gap between arrivals.
    pub gap_mean_ms: Option<f64>,
    /// Longest gap.
    pub gap_max_ms: Option<f64>,
    /// Gaps over 80 ms.
    pub gaps_over_80ms: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// Bytes of sound.
    pub media_bytes: u64,
    /// Wire beyond media, in percent of the media: the sound, and the packets of the pictures beside it.
    pub overhead_percent: Option<f64>,
    /// Mean rate on the wire.
    pub wire_kbit_per_s: Option<f64>,
    /// Mean rate of the sound.
    pub media_kbit_per_s: Option<f64>,
    /// Processor time per second of stream.
    pub cpu_ms_per_s: Option<f64>,
    /// Buffer calculation by bytes.
    pub buffer_bytes: BufferResult,
    /// Buffer calculation by sequence.
    pub buffer_sequence: BufferResult,
    /// The 80 ms / 1.8 % check.
    pub lip_sync: LipSync,
    /// What a playout delay would cost.
    pub playout: PlayoutFigures,
    /// Whether every packet has a row in `packets.csv`.
    pub log_complete: bool,
    /// The pictures beside the sound; omitted without any. All other figures but those of the wire and the processor are the sound's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<PicturesFigures>,
}

/// The playout trade-off of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlayoutFigures {
    /// What was taken as the delay from sender to receiver.
    pub basis: DelayBasis,
    /// Share missing by playout delay.
    pub curve: Vec<PlayoutPoint>,
    /// Smallest playout delay for 0.1, 1 and 1.8 % missing.
    pub targets: Vec<RequiredDelay>,
}

/// Where a delay from sender to receiver comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayBasis {
    /// Measured one way.
    OneWay,
    /// Half of each round trip: correct if both ways are alike. Loss is of both ways, so it errs on the safe side.
    #[default]
    HalfRoundTrip,
}

impl TransportFigures {
    /// Version of the field names; increased when one changes its meaning or is removed.
    pub const SCHEMA: u32 = 1;

    /// Computes the figures of a run. Call [`PacketLog::finish`] first, unless the run continues.
    pub fn new(log: &PacketLog, facts: &RunFacts) -> TransportFigures {
        let counts = log.counts();
        let of = |fate| counts.of(fate);
        let sent = log.packets_sent();
        let share = |n| percent(n, sent);
        let tallies = log.tallies();
        let runs = log.loss_runs();
        let blocks = Blocks::of(&[log]).remove(0);
        let live = &log.live;
        let some_came = (!log.rtt().is_empty()).then_some(());
        let absent = of(Fate::Lost) + of(Fate::Late) + of(Fate::Expired) + of(Fate::Refused);
        let lengths = runs.run_lengths();
        let used = lengths.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
        let beside = facts.pictures.map_or(0, |pictures| pictures.media_bytes);
        TransportFigures {
            record: "transport".into(),
            schema: Self::SCHEMA,
            transport: facts.transport.clone(),
            link: facts.link.clone(),
            notes: facts.notes.clone(),
            duration_s: facts.duration.as_secs_f64(),
            packet_ms: millis(log.config().packet),
            packets_sent: sent,
            packets_received: counts.arrived(),
            played: of(Fate::Played),
            recovered: of(Fate::Recovered),
            lost: of(Fate::Lost),
            late: of(Fate::Late),
            expired: of(Fate::Expired),
            refused: of(Fate::Refused),
            pending: of(Fate::Pending),
            duplicate: tallies.duplicate,
            reordered: tallies.reordered,
            concealed: tallies.concealed,
            unknown: tallies.unknown,
            lost_percent: share(of(Fate::Lost)),
            lost_percent_interval: blocks
                .share(|sums| sums.lost)
                .interval()
                .map(|(low, high)| (low * 100.0, high * 100.0)),
            late_percent: share(of(Fate::Late)),
            expired_percent: share(of(Fate::Expired)),
            refused_percent: share(of(Fate::Refused)),
            duplicate_percent: share(tallies.duplicate),
            reordered_percent: share(tallies.reordered),
            concealed_percent: share(tallies.concealed),
            longest_loss_burst: runs.longest(),
            mean_loss_burst: runs.mean_burst(),
            loss_burst_lengths: lengths[..used].to_vec(),
            bursts: runs.bursts(),
            rtt_ms: log.rtt().into(),
            one_way_ms: (!log.one_way().is_empty()).then(|| log.one_way().into()),
            jitter_mad_ms: log.jitter_mad_ms(),
            jitter_rfc3550_ms: some_came.map(|()| live.jitter.ms()),
            jitter_rfc3550_max_ms: some_came.map(|()| live.jitter.max_ms()),
            rolling_deviation_ms: live.rolling.ms(),
            rolling_deviation_max_ms: live.rolling.max_ms(),
            pdv_ms: pdv(log.rtt(), 0.999).map(millis),
            ipdv_p99_ms: live.rtt.ipdv().quantile(0.99).map(millis),
            gap_mean_ms: live.gaps.mean_ms(),
            gap_max_ms: live.gaps.max_ms(),
            gaps_over_80ms: live.gaps.over_limit(),
            wire_bytes: facts.wire_bytes,
            media_bytes: facts.media_bytes,
            overhead_percent: overhead_percent(facts.wire_bytes, facts.media_bytes + beside),
            wire_kbit_per_s: kbit_per_s(facts.wire_bytes, facts.duration),
            media_kbit_per_s: kbit_per_s(facts.media_bytes, facts.duration),
            cpu_ms_per_s: facts.cpu.and_then(|cpu| cpu_ms_per_s(cpu, facts.duration)),
            buffer_bytes: live.by_bytes.result(),
            buffer_sequence: live.by_sequence.result(),
            lip_sync: LipSync::judge(share(absent), &live.by_sequence),
            playout: PlayoutFigures::new(log, &blocks),
            log_complete: log.is_complete(),
            pictures: facts.pictures,
        }
    }

    /// Packets that are missing whatever the playout delay: lost, expired, refused.
    pub fn never_came(&self) -> u64 {
        self.lost + self.expired + self.refused
    }
}

/// Playout delays of the curve's points, in milliseconds.
const CURVE_MS: [u64; 22] =
    [1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 100, 120, 150, 200, 250, 300, 400, 500, 1000];

/// Shares for which the smallest playout delay is given: studio, players, headsets (1.8 %, Voelcker 1985).
const TARGET_SHARES: [f64; 3] = [0.001, 0.01, 0.018];

impl PlayoutFigures {
    fn new(log: &PacketLog, blocks: &Blocks) -> Self {
        // Packets in flight are neither received nor missing yet.
        let settled = log.packets_sent() - log.counts().of(Fate::Pending);
        let (basis, delays, divisor) = if log.has_one_clock() {
            (DelayBasis::OneWay, log.reached(), 1)
        } else {
            (DelayBasis::HalfRoundTrip, log.rtt(), 2)
        };
        let curve = PlayoutCurve::from_histogram(delays, settled, divisor);
        let required = |share| {
            let target_ms = curve.delay_for(share).map(millis);
            let (low, high) = blocks.delay_interval(share);
            RequiredDelay {
                missing_percent: share * 100.0,
                target_ms,
                // The interval has steps of 0.25 ms and more.
                low_ms: low.map(|low| target_ms.map_or(low, |at| low.min(at))),
                high_ms: high.map(|high| target_ms.map_or(high, |at| high.max(at))),
            }
        };
        PlayoutFigures {
            basis,
            curve: curve.points(CURVE_MS.map(Duration::from_millis)),
            targets: TARGET_SHARES.map(required).to_vec(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
