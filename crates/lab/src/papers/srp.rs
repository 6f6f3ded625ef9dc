//! French, Oprica, Piecuch: the Selective Retransmission Protocol beside UDP and TCP.

mod checks;
#[cfg(test)]
mod tests;

use super::compare::{ColumnMap, Place, Statistic, TableMap};
use super::csv::Table;
use super::{Departure, Experiment, Module};

pub(super) const MODULE: Module = Module {
    key: "srp",
    experiments: &[
        Experiment {
            key: LOW_LOW,
            title: "3 % loss, 50 ms round trip",
            section: "5.2.1",
            transports: &["srp", "rtp", "tcp"],
            scenario: Some(include_str!("../../scenarios/srp/low_loss_low_latency.toml")),
            tables: &[ratios("table1e-low-loss-low-latency.csv")],
        },
        Experiment {
            key: LOW_HIGH,
            title: "3 % loss, 400 ms round trip",
            section: "5.2.2",
            transports: &["srp", "rtp", "tcp"],
            scenario: Some(include_str!("../../scenarios/srp/low_loss_high_latency.toml")),
            tables: &[ratios("table2e-low-loss-high-latency.csv")],
        },
        Experiment {
            key: HIGH_HIGH,
            title: "15 % loss, 275 ms round trip",
            section: "5.2.3",
            transports: &["srp", "rtp", "tcp"],
            scenario: Some(include_str!("../../scenarios/srp/high_loss_high_latency.toml")),
            tables: &[ratios("table3e-high-loss-high-latency.csv")],
        },
    ],
    checks: checks::CHECKS,
    departures: DEPARTURES,
};

const LOW_LOW: &str = "low_loss_low_latency";
const LOW_HIGH: &str = "low_loss_high_latency";
const HIGH_HIGH: &str = "high_loss_high_latency";

/// The stream under test, and the echo requests beside it.
const AUDIO: &str = "audio";
const PING: &str = "ping";
/// Name of the sweep, and its values as the scenarios write them.
const TRANSPORT: &str = "transport";
const ELL: &str = "srp?mode=as-published&decide=ell&loss=10%25";
const OQ: &str = "srp?mode=as-published&decide=oq&loss=10%25";
const UDP: &str = "rtp";
const TCP: &str = "tcp";

/// What the report desires.
const DESIRED_LOSS_PERCENT: f64 = 10.0;
const DESIRED_LATENCY_MS: f64 = 250.0;

fn at(stream: &str, transport: &str) -> Place {
    Place { stream: stream.into(), point: vec![(TRANSPORT, transport.into())] }
}

fn by_protocol(table: &Table, row: usize) -> Option<Place> {
    let transport = match table.text(row, "protocol")? {
        "ELL" => ELL,
        "OQ" => OQ,
        "UDP" => UDP,
        "TCP" => TCP,
        _ => return None,
    };
    Some(at(AUDIO, transport))
}

/// Loss alone is a figure of one stream: latency needs the ping's as well, and stands behind the claims.
const fn ratios(file: &'static str) -> TableMap {
    TableMap { file, labels: &["protocol"], place: by_protocol, columns: LOSS, drawing: None }
}

const LOSS: &[ColumnMap] = &[ColumnMap {
    printed: "loss_ratio",
    confidence: None,
    figure: "lost_percent",
    statistic: Statistic::Mean,
    scale: 1.0 / DESIRED_LOSS_PERCENT,
}];

const DEPARTURES: &[Departure] = &[
    Departure {
        about: &["srp-01"],
        reason: "TCP's ages differ by some 25 ms here; the printed ratio of 1.17 asks for more than 250 ms. With a message \
                 each 160 ms the model repairs after the least time-out of 200 ms or after three further messages, and its \
                 longest age is 0.7 s.",
    },
    Departure {
        about: &["srp-13", "srp-22"],
        reason: "At 15 % loss TCP falls behind here too, by tens of seconds, but less far than the printed 128 s; at 3 % and \
                 400 ms it does not fall behind at all, where 86 s are printed. Today's Linux over the same path stays \
                 within seconds at 15 %, so the kernel decides, and the report does not name it.",
    },
    Departure {
        about: &["srp-02", "srp-04", "srp-05", "srp-06", "srp-08", "srp-09"],
        reason: "Both algorithms lose less here than in print: OQ next to nothing (printed 0, 6.9 and 2.7 %), ELL 0.9, 5.9 \
                 and 6.9 % (printed 6.2, 17.4 and 13.5 %), and OQ pays for it with latency. The delay varies as much as \
                 printed (by 3.8 ms for UDP in the first condition, here and there), so the difference is the decisions' \
                 own: their averages are stated as about the last 15 packets and no closer.",
    },
];
