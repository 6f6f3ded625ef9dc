//! The figures of a comparison as table rows, for the terminal, the page and the picture.

use antiphon_measure::{self as measure, Fate, FigureDef, TransportFigures, Unit, figure};
use antiphon_report::{Better, Cell, Row};

/// Every figure that is displayed, in order, with one value per transport. Rows with `key` set are the few that
/// summarise.
pub fn figure_rows(figures: &[TransportFigures]) -> Vec<Row> {
    let gave_up = figures.iter().any(|f| f.expired + f.refused > 0);
    let one_clock = figures.iter().any(|f| f.one_way_ms.is_some());
    let has_pictures = figures.iter().any(|f| f.pictures.is_some());
    let mut rows = Vec::new();
    for (group, names) in GROUPS {
        let first = rows.len();
        for name in names {
            let shown = match *name {
                "expired_percent" | "refused_percent" => gave_up,
                "delay_p50_ms" | "delay_p99_ms" => one_clock,
                "pictures_delay_p50_ms" | "pictures_delay_p99_ms" => has_pictures && one_clock,
                name if is_of_pictures(name) => has_pictures,
                _ => true,
            };
            rows.extend(figure(name).filter(|_| shown).map(|def| row(def, figures)));
        }
        // A group of which nothing is shown has no first row.
        if let Some(row) = rows.get_mut(first) {
            row.group = group.into();
        }
    }
    let checks = figures.iter().map(|f| Cell::Text(if f.lip_sync.pass { "met" } else { "missed" }.into()));
    rows.push(Row {
        label: "TV sound check".into(),
        definition: "80 ms and 1.8 %: the buffer calculation of Højgaard-Hansen and Lundgreen 2009, by sequence numbers"
            .into(),
        values: checks.collect(),
        ..Row::default()
    });
    rows
}

/// The rows by their names in the list of figures.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Packets",
        &[
            "sent",
            "received",
            "lost_percent",
            "late_percent",
            "expired_percent",
            "refused_percent",
            "concealed_percent",
            "duplicate_percent",
            "reordered_percent",
            "longest_loss_burst",
        ],
    ),
    (
        "Delay",
        &[
            "rtt_p50_ms",
            "rtt_mean_ms",
            "rtt_p90_ms",
            "rtt_p99_ms",
            "rtt_p999_ms",
            "rtt_max_ms",
            "delay_p50_ms",
            "delay_p99_ms",
        ],
    ),
    ("Jitter", &["jitter_mad_ms", "jitter_rfc3550_ms", "rolling_deviation_max_ms", "gap_max_ms"]),
    ("Cost", &["wire_kbit_per_s", "overhead_percent", "cpu_ms_per_s"]),
    (
        "Pictures",
        &[
            "frames_sent",
            "pictures_left_out",
            "frames_whole",
            "pictures_whole_percent",
            "pictures_too_late",
            "pictures_frozen_percent",
            "pictures_skew_p999_ms",
            "pictures_lost_percent",
            "pictures_rtt_p50_ms",
            "pictures_rtt_p99_ms",
            "pictures_delay_p50_ms",
            "pictures_delay_p99_ms",
            "pictures_kbit_per_s",
        ],
    ),
    (
        "Sound beside pictures",
        &[
            "sound_beside_missing_percent",
            "sound_alone_missing_percent",
            "sound_beside_rtt_p99_ms",
            "sound_alone_rtt_p99_ms",
        ],
    ),
];

/// Whether a figure is there with pictures alone.
fn is_of_pictures(name: &str) -> bool {
    ["pictures_", "frames_", "sound_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Figures that summarise.
const KEYS: [&str; 6] = [
    "lost_percent",
    "late_percent",
    "rtt_p50_ms",
    "rtt_p99_ms",
    "pictures_whole_percent",
    "pictures_frozen_percent",
];

fn row(def: &FigureDef, figures: &[TransportFigures]) -> Row {
    let samples: Option<fn(&TransportFigures) -> u64> = match def.unit {
        _ if is_of_pictures(def.name) => None,
        Unit::Percent if def.name != "overhead_percent" => Some(|f| f.packets_sent),
        Unit::Millis => Some(|f| f.rtt_ms.count),
        _ => None,
    };
    Row {
        key: KEYS.contains(&def.name),
        samples: samples.map_or(Vec::new(), |of| figures.iter().map(|f| Some(of(f))).collect()),
        ..figure_row(def, &figures.iter().map(def.read).collect::<Vec<_>>())
    }
}

/// A figure as a row of values.
pub fn figure_row(def: &FigureDef, values: &[Option<f64>]) -> Row {
    let better = match def.better {
        measure::Better::Lower => Better::Lower,
        measure::Better::Higher => Better::Higher,
        measure::Better::Neither => Better::Neither,
    };
    Row {
        definition: def.definition.into(),
        ..Row::numbers(def.title, def.unit.symbol(), def.unit.decimals(), better, values)
    }
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
