//! The papers' data as it stands in `crates/lab/papers`, part of the program.

/// The files of one paper.
pub(super) struct Files {
    /// The folder, which is the paper's name in commands.
    pub key: &'static str,
    /// Title, authors, experiments and their stated parameters.
    pub paper: &'static str,
    /// Its conclusions.
    pub claims: &'static str,
    /// Name and text of each table, in the order of the paper.
    pub tables: &'static [(&'static str, &'static str)],
}

macro_rules! files {
    ($key:literal: $($table:literal)*) => {
        Files {
            key: $key,
            paper: include_str!(concat!("../../papers/", $key, "/paper.toml")),
            claims: include_str!(concat!("../../papers/", $key, "/claims.csv")),
            tables: &[$(($table, include_str!(concat!("../../papers/", $key, "/", $table))),)*],
        }
    };
}

/// All papers, in the order of `papers/README.md`.
pub(super) static FILES: &[Files] = &[
    files!("transport-alternatives":
        "table01-features.csv"
        "table02-localhost.csv"
        "table03-crossover.csv"
        "table04-switch.csv"
        "table05-direct-wireless.csv"
        "table06-access-point.csv"
    ),
    files!("digitized-voice":
        "table01-basic.csv"
        "table02-arrival-periods.csv"
        "table03-voice-channels.csv"
        "table04-sppt-load.csv"
        "table05-channels-sppt.csv"
        "table06-threshold-sppt.csv"
        "table07-mppt-load.csv"
        "table08-latency-mppt.csv"
        "table09-threshold-mppt.csv"
        "table10-latency-loss.csv"
        "table12-latency-multicast.csv"
        "table13-threshold-multicast.csv"
    ),
    files!("two-stream":
        "table01-emulab-dialup.csv"
        "text03-nistnet.csv"
    ),
    files!("srp":
        "table00-test-parameters.csv"
        "table1e-low-loss-low-latency.csv"
        "table2e-low-loss-high-latency.csv"
        "table3e-high-loss-high-latency.csv"
    ),
    files!("tv-audio-wlan":
        "table2-1-loss-perception.csv"
        "table2-2-network-delay.csv"
        "table2-3-recovery-techniques.csv"
        "table6-1-udp-mean-delay.csv"
        "table6-2-udp-max-delay.csv"
        "table6-3-udp-loss.csv"
        "table6-4-udp-above-threshold.csv"
        "table6-5-tcp-mean-delay.csv"
        "table6-6-tcp-max-delay.csv"
        "table6-7-tcp-above-threshold.csv"
        "table6-8-tcp-buffer.csv"
        "table7-1-simple-mean-delay.csv"
        "table7-2-simple-max-delay.csv"
        "table7-3-simple-above-threshold.csv"
        "table7-4-simple-buffer.csv"
        "table7-5-simple-duplicates.csv"
        "table7-6-simple-loss.csv"
        "text05-mac-retransmission.csv"
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folders_is_here() {
        let papers = concat!(env!("CARGO_MANIFEST_DIR"), "/papers");
        let names = |folder: &str| -> Vec<String> {
            let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        let mut folders: Vec<&str> = FILES.iter().map(|files| files.key).chain(["README.md"]).collect();
        folders.sort_unstable();
        assert_eq!(names(papers), folders);
        for files in FILES {
            let mut here: Vec<&str> = files.tables.iter().map(|(name, _)| *name).collect();
            here.extend(["claims.csv", "paper.toml"]);
            here.sort_unstable();
            assert_eq!(names(&format!("{papers}/{}", files.key)), here, "{}", files.key);
        }
    }
}
