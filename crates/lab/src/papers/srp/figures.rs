//! The report's measure of a stream, in both readings of its formula.

use antiphon_measure::{DesiredQuality, FigureDef, QualityRatios, StreamFigures};

use super::super::derived::Derived;
use super::PING;
use crate::results::Record;

/// Messages that were missing, as a share of the 10 % that the report desires.
pub const LOSS: &str = "loss_ratio";
/// Latency as a share of 250 ms, by the intervals between arrivals: the formula as printed.
pub const LATENCY_BY_INTERVALS: &str = "latency_by_intervals";
/// The same by the ages of received messages.
pub const LATENCY_BY_AGES: &str = "latency_by_ages";
/// From the origin of both ratios, latency by intervals.
pub const DISTANCE_BY_INTERVALS: &str = "distance_by_intervals";
/// The same, latency by ages.
pub const DISTANCE_BY_AGES: &str = "distance_by_ages";

/// The same of the messages that were due in the first seconds after each change of the network.
pub const DISTANCE_AFTER_CHANGES: &str = "distance_after_changes";
/// Different messages a second, from the first to the last that arrived.
pub const MESSAGES: &str = "messages_per_s";

pub(in crate::papers) const DERIVED: &[Derived] = &[
    Derived {
        def: FigureDef::ratio(LOSS, "loss", "Messages that were missing, as a share of 10 %."),
        reading: "",
        of: |stream, _| Some(stream.missing_percent? / DesiredQuality::SRP_REPORT.loss_percent),
    },
    Derived {
        def: FigureDef::ratio(
            LATENCY_BY_INTERVALS,
            "latency by intervals",
            "Half the ping's mean round trip and the mean absolute deviation of the intervals between arrivals, as a share of \
             250 ms.",
        ),
        reading: "latency of the intervals between arrivals",
        of: |stream, run| Some(quality(stream, run, stream.gap_mad_ms)?.latency),
    },
    Derived {
        def: FigureDef::ratio(
            LATENCY_BY_AGES,
            "latency by ages",
            "Half the ping's mean round trip and the mean absolute deviation of the messages' ages at their arrival, as a share \
             of 250 ms.",
        ),
        reading: "latency of the ages of messages",
        of: |stream, run| Some(quality(stream, run, stream.jitter_mad_ms)?.latency),
    },
    Derived {
        def: FigureDef::ratio(
            DISTANCE_BY_INTERVALS,
            "distance by intervals",
            "Of the point of loss ratio and latency ratio from the origin, in each run; latency by intervals.",
        ),
        reading: "",
        of: |stream, run| Some(quality(stream, run, stream.gap_mad_ms)?.distance()),
    },
    Derived {
        def: FigureDef::ratio(
            DISTANCE_BY_AGES,
            "distance by ages",
            "Of the point of loss ratio and latency ratio from the origin, in each run; latency by ages.",
        ),
        reading: "",
        of: |stream, run| Some(quality(stream, run, stream.jitter_mad_ms)?.distance()),
    },
    Derived {
        def: FigureDef::ratio(
            DISTANCE_AFTER_CHANGES,
            "after changes",
            "The distance by ages of the messages that were due in the first two seconds after each change of the network; half the ping's mean round \
             trip is that of the whole run.",
        ),
        reading: "",
        of: |stream, run| {
            let watched = StreamFigures { missing_percent: stream.watched_missing_percent, ..*stream };
            Some(quality(&watched, run, stream.watched_jitter_mad_ms)?.distance())
        },
    },
    Derived {
        def: FigureDef::ratio(
            MESSAGES,
            "messages/s",
            "Different messages that arrived, a second, from the first arrival to the last; 6.25 are sent.",
        ),
        reading: "",
        of: |stream, _| stream.gap_mean_ms.filter(|gap| *gap > 0.0).map(|gap| 1e3 / gap),
    },
];

fn quality(stream: &StreamFigures, run: &[Record], deviation_ms: Option<f64>) -> Option<QualityRatios> {
    let round_trip_ms = run.iter().find(|record| record.stream == PING)?.figures.rtt_mean_ms?;
    Some(DesiredQuality::SRP_REPORT.ratios(stream.missing_percent?, round_trip_ms, deviation_ms?))
}
