//! The figures of a comparison as table rows: one list for the terminal, the page and the picture.

use antiphon_measure::{Fate, TransportFigures};
use antiphon_report::{Better, Cell, Row};

/// Every figure that is shown to people, in order, with one value per transport. Rows with `key` set are the few that
/// stand for the whole.
pub fn figure_rows(figures: &[TransportFigures]) -> Vec<Row> {
    let mut rows = counts(figures);
    rows.extend(delays(figures));
    rows.extend(costs(figures));
    rows
}

/// A field of a line in a table for programs, quoted where it must be (RFC 4180).
pub(crate) fn csv_field(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.into(),
    }
}

fn counts(figures: &[TransportFigures]) -> Vec<Row> {
    let sent: Vec<Option<u64>> = figures.iter().map(|f| Some(f.frames_sent)).collect();
    let share = |label: &str, definition: &str, value: fn(&TransportFigures) -> Option<f64>| Row {
        definition: definition.into(),
        samples: sent.clone(),
        ..row(label, "%", 3, Better::Lower, figures, value)
    };
    let mut rows = vec![
        Row {
            group: "What became of the frames".into(),
            definition: "RTP packets handed to the transport".into(),
            ..row("frames sent", "", 0, Better::Neither, figures, |f| Some(f.frames_sent as f64))
        },
        Row {
            definition: "distinct frames that came back, in time or not".into(),
            ..row("frames received", "", 0, Better::Higher, figures, |f| Some(f.frames_received as f64))
        },
        Row {
            key: true,
            ..share("lost", "never came: the network's doing, both ways together", |f| f.lost_percent)
        },
        Row {
            key: true,
            ..share("late", "came after its moment to be played: the receiver's verdict", |f| f.late_percent)
        },
    ];
    if figures.iter().any(|f| f.expired + f.refused > 0) {
        rows.push(share("expired", "given up by the sender: too old to be of use", |f| f.expired_percent));
        rows.push(share("refused", "not taken by the transport: its queue was full", |f| f.refused_percent));
    }
    rows.push(share("concealed", "sound that had to be made up, in frames", |f| f.concealed_percent));
    rows.push(share("duplicate", "came more than once", |f| f.duplicate_percent));
    rows.push(share("reordered", "came after a later one (RFC 4737)", |f| f.reordered_percent));
    rows.push(Row {
        definition: "frames lost in a row, at most".into(),
        ..row("longest loss", "frames", 0, Better::Lower, figures, |f| Some(f.longest_loss_burst as f64))
    });
    rows
}

fn delays(figures: &[TransportFigures]) -> Vec<Row> {
    let came: Vec<Option<u64>> = figures.iter().map(|f| Some(f.rtt_ms.count)).collect();
    let time = |label: &str, definition: &str, value: fn(&TransportFigures) -> Option<f64>| Row {
        definition: definition.into(),
        samples: came.clone(),
        ..row(label, "ms", 2, Better::Lower, figures, value)
    };
    let mut rows = vec![
        Row {
            group: "Round trip".into(),
            key: true,
            ..time("p50", "half of the frames were back sooner (nearest rank)", |f| f.rtt_ms.p50_ms)
        },
        time("mean", "arithmetic mean", |f| f.rtt_ms.mean_ms),
        time("p90", "nine in ten were back sooner", |f| f.rtt_ms.p90_ms),
        Row { key: true, ..time("p99", "99 in 100 were back sooner", |f| f.rtt_ms.p99_ms) },
        time("p99.9", "999 in 1000 were back sooner", |f| f.rtt_ms.p999_ms),
        time("max", "the slowest frame", |f| f.rtt_ms.max_ms),
    ];
    if figures.iter().any(|f| f.one_way_ms.is_some()) {
        rows.push(Row {
            group: "One way, there".into(),
            ..time("p50", "both ends read the same clock here", |f| f.one_way_ms.as_ref()?.p50_ms)
        });
        rows.push(time("p99", "99 in 100 were there sooner", |f| f.one_way_ms.as_ref()?.p99_ms));
    }
    rows.extend([
        Row {
            group: "Evenness".into(),
            ..time(
                "jitter (MAD)",
                "mean absolute deviation of the round trips (paper 000, equation 2)",
                |f| f.jitter_mad_ms,
            )
        },
        time("jitter (RFC 3550)", "interarrival jitter at the end of the run (RFC 3550 §6.4.1)", |f| {
            f.jitter_rfc3550_ms
        }),
        time("rolling deviation", "largest standard deviation of 100 gaps in a row", |f| {
            f.rolling_deviation_max_ms
        }),
        time("longest gap", "longest time without a frame coming back", |f| f.gap_max_ms),
    ]);
    rows
}

fn costs(figures: &[TransportFigures]) -> Vec<Row> {
    let checks = figures.iter().map(|f| Cell::Text(if f.lip_sync.pass { "met" } else { "missed" }.into()));
    vec![
        Row {
            group: "Cost".into(),
            definition: "on the wire in the direction of sending, headers of IP included".into(),
            ..row("wire rate", "kbit/s", 0, Better::Lower, figures, |f| f.wire_kbit_per_s)
        },
        Row {
            definition: "bytes on the wire beyond the sound, in percent of the sound".into(),
            ..row("overhead", "%", 1, Better::Lower, figures, |f| f.overhead_percent)
        },
        Row {
            definition: "processor time of the media thread per second of stream".into(),
            ..row("CPU", "ms/s", 2, Better::Lower, figures, |f| f.cpu_ms_per_s)
        },
        Row {
            label: "TV sound check".into(),
            definition:
                "80 ms and 1.8 %: the buffer calculation of the TV-headset study, by sequence numbers".into(),
            values: checks.collect(),
            ..Row::default()
        },
    ]
}

fn row(
    label: &str,
    unit: &str,
    decimals: usize,
    better: Better,
    figures: &[TransportFigures],
    value: fn(&TransportFigures) -> Option<f64>,
) -> Row {
    let values: Vec<Option<f64>> = figures.iter().map(value).collect();
    Row::numbers(label, unit, decimals, better, &values)
}

/// The report's word for a fate.
pub(crate) fn report_fate(fate: Fate) -> antiphon_report::Fate {
    match fate {
        Fate::Played => antiphon_report::Fate::Received,
        Fate::Recovered => antiphon_report::Fate::Recovered,
        Fate::Late => antiphon_report::Fate::Late,
        Fate::Expired | Fate::Refused => antiphon_report::Fate::Expired,
        Fate::Lost | Fate::Pending => antiphon_report::Fate::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_stay_one_field() {
        assert_eq!(csv_field("arq?mode=as-published&give-up=40ms"), "arq?mode=as-published&give-up=40ms");
        let several = "sctp?peers=192.0.2.7:9,192.0.2.8:9";
        assert_eq!(csv_field(several), format!("\"{several}\""));
        assert_eq!(csv_field("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
