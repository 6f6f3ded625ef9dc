//! What we add to the report: its measure in both readings, and our decisions beside its algorithms.

use antiphon_measure::{DesiredQuality, QualityRatios};

use super::super::derived::{Derived, RunView};
use super::super::own::{Contest, ContestColumn, Contestant, Own, OwnClaim, Plane};
use super::{AUDIO, DEADLINE, ELL, NEAREST, OQ, PING, TCP, TRANSPORT, UDP};
use super::{HIGH_HIGH, HIGH_HIGH_TABLE, LOW_HIGH, LOW_HIGH_TABLE, LOW_LOW, LOW_LOW_TABLE};
use crate::figures::{FigureDef, StreamFigures};

pub(in crate::papers) const OWN: Own = Own {
    key: "srp",
    derived: DERIVED,
    names: &[
        (LOW_LOW, "3 %, 50 ms"),
        (LOW_HIGH, "3 %, 400 ms"),
        (HIGH_HIGH, "15 %, 275 ms"),
        (ELL, "ELL"),
        (OQ, "OQ"),
        (UDP, "UDP"),
        (TCP, "TCP"),
        (NEAREST, "nearest"),
        (DEADLINE, "deadline"),
    ],
    contest: Some(Contest {
        title: "Decisions side by side",
        intro: "The report's two algorithms, UDP and TCP beside two decisions of ours: `nearest` asks where the mean quality \
                then comes nearer the origin, `deadline` (the default of `srp://`) asks for what can still be played. Ratios \
                to 10 % and 250 ms; a distance below 1 is inside the desired quality. Latency is half a round trip, of a \
                slow ping beside the stream, and the mean distance of the arrivals from their mean: as the formula is \
                printed, of the intervals between them, and in a second reading, of the ages of what arrived. Means of \
                the runs with their 95 % confidence intervals; each run has its own distance.",
        contestants: CONTESTANTS.as_flattened(),
        columns: &[
            ContestColumn::Printed("distance"),
            ContestColumn::Ours(DISTANCE_BY_INTERVALS),
            ContestColumn::Ours(DISTANCE_BY_AGES),
            ContestColumn::Ours(LOSS),
            ContestColumn::Ours(LATENCY_BY_INTERVALS),
            ContestColumn::Ours(LATENCY_BY_AGES),
        ],
        plane: &[
            Plane {
                name: "printed",
                x: ContestColumn::Printed("latency_ratio"),
                y: ContestColumn::Printed("loss_ratio"),
            },
            Plane {
                name: "by intervals",
                x: ContestColumn::Ours(LATENCY_BY_INTERVALS),
                y: ContestColumn::Ours(LOSS),
            },
            Plane { name: "by ages", x: ContestColumn::Ours(LATENCY_BY_AGES), y: ContestColumn::Ours(LOSS) },
        ],
    }),
    claims: &[
        OwnClaim {
            id: "ours-srp-1",
            claim: "The decision `nearest` lies within the desired quality in all three conditions, in both readings of \
                    latency",
            check: "distance of nearest < 1, by intervals and by ages",
        },
        OwnClaim {
            id: "ours-srp-2",
            claim: "`nearest` is nearer the origin than the best of ELL, OQ and UDP in all three conditions",
            check: "distance of nearest below those of ELL, OQ and UDP, by intervals",
        },
        OwnClaim {
            id: "ours-srp-3",
            claim: "So it is where latency is read of the ages of messages",
            check: "distance of nearest below those of ELL, OQ and UDP, by ages",
        },
    ],
};

const CONTESTANTS: &[[Contestant; 6]] = &[
    contestants(LOW_LOW, LOW_LOW_TABLE),
    contestants(LOW_HIGH, LOW_HIGH_TABLE),
    contestants(HIGH_HIGH, HIGH_HIGH_TABLE),
];

/// Four with a row of the printed table, two of ours alone.
const fn contestants(experiment: &'static str, file: &'static str) -> [Contestant; 6] {
    [
        printed(experiment, "ELL", &[(TRANSPORT, ELL)], file, &[("protocol", "ELL")]),
        printed(experiment, "OQ", &[(TRANSPORT, OQ)], file, &[("protocol", "OQ")]),
        printed(experiment, "UDP", &[(TRANSPORT, UDP)], file, &[("protocol", "UDP")]),
        printed(experiment, "TCP", &[(TRANSPORT, TCP)], file, &[("protocol", "TCP")]),
        ours(experiment, "nearest", &[(TRANSPORT, NEAREST)]),
        ours(experiment, "deadline", &[(TRANSPORT, DEADLINE)]),
    ]
}

type Settings = &'static [(&'static str, &'static str)];

const fn printed(
    experiment: &'static str,
    name: &'static str,
    point: Settings,
    file: &'static str,
    row: Settings,
) -> Contestant {
    Contestant { printed: Some((file, row)), ..ours(experiment, name, point) }
}

const fn ours(experiment: &'static str, name: &'static str, point: Settings) -> Contestant {
    Contestant { experiment, name, stream: AUDIO, point, printed: None }
}

pub(super) const LOSS: &str = "loss_ratio";
pub(super) const LATENCY_BY_INTERVALS: &str = "latency_by_intervals";
pub(super) const LATENCY_BY_AGES: &str = "latency_by_ages";
pub(super) const DISTANCE_BY_INTERVALS: &str = "distance_by_intervals";
pub(super) const DISTANCE_BY_AGES: &str = "distance_by_ages";

const DERIVED: &[Derived] = &[
    Derived {
        def: FigureDef {
            name: LOSS,
            title: "loss",
            unit: "",
            definition: "Messages that never came, as a share of 10 %.",
        },
        reading: "",
        of: |stream, _| Some(stream.lost_percent? / DesiredQuality::SRP_REPORT.loss_percent),
    },
    Derived {
        def: FigureDef {
            name: LATENCY_BY_INTERVALS,
            title: "latency by intervals",
            unit: "",
            definition: "Half the ping's mean round trip and the mean absolute deviation of the intervals between arrivals, \
                         as a share of 250 ms. The formula as printed.",
        },
        reading: "latency of the intervals, as the formula is printed",
        of: |stream, run| Some(quality(stream, run, stream.gap_mad_ms)?.latency),
    },
    Derived {
        def: FigureDef {
            name: LATENCY_BY_AGES,
            title: "latency by ages",
            unit: "",
            definition: "Half the ping's mean round trip and the mean absolute deviation of the messages' ages at their \
                         arrival, as a share of 250 ms.",
        },
        reading: "latency of the ages, a second reading",
        of: |stream, run| Some(quality(stream, run, stream.jitter_mad_ms)?.latency),
    },
    Derived {
        def: FigureDef {
            name: DISTANCE_BY_INTERVALS,
            title: "distance by intervals",
            unit: "",
            definition: "Of the point of loss ratio and latency ratio from the origin, in each run; latency by intervals.",
        },
        reading: "",
        of: |stream, run| Some(quality(stream, run, stream.gap_mad_ms)?.distance()),
    },
    Derived {
        def: FigureDef {
            name: DISTANCE_BY_AGES,
            title: "distance by ages",
            unit: "",
            definition: "Of the point of loss ratio and latency ratio from the origin, in each run; latency by ages.",
        },
        reading: "",
        of: |stream, run| Some(quality(stream, run, stream.jitter_mad_ms)?.distance()),
    },
];

fn quality(stream: &StreamFigures, run: &RunView<'_>, deviation_ms: Option<f64>) -> Option<QualityRatios> {
    let round_trip_ms = run.stream(PING)?.rtt_mean_ms?;
    Some(DesiredQuality::SRP_REPORT.ratios(stream.lost_percent?, round_trip_ms, deviation_ms?))
}
