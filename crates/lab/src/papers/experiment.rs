//! One experiment of a paper, and what it needs to run here.

use antiphon_proto::TRANSPORTS;

use super::compare::TableMap;

/// An experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name in commands and in `paper.toml`.
    pub key: &'static str,
    /// The question that it answers, in a few words.
    pub title: &'static str,
    /// Section of the paper that describes it; `None`: an experiment of our own about the paper.
    pub section: Option<&'static str>,
    /// Schemes of the transports under test.
    pub transports: &'static [&'static str],
    /// The text of its scenario, once there is one.
    pub scenario: Option<&'static str>,
    /// How its figures make the printed tables.
    pub tables: &'static [TableMap],
    /// Of an experiment of our own: the figures that its report shows, the most important first.
    pub shows: &'static [&'static str],
}

/// Experiments of a paper, whose scenarios are `scenarios/PAPER/KEY.toml`, with the files beside them that they include and the
/// recorded paths beside them that they name; then those that have no scenario yet.
macro_rules! experiments {
    ($paper:literal; $($key:literal $title:literal, $section:expr, $transports:expr, $tables:expr
        $(, shows $($shows:literal)*)? $(, includes $file:literal)? $(, replays $passport:literal)?;)*
        $(unwritten $without:literal $its_title:literal, $its_section:expr, $its_transports:expr;)*) => {
        &[$($crate::papers::Experiment {
            key: $key,
            title: $title,
            section: $section,
            transports: $transports,
            scenario: Some(concat!(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $paper, "/", $key, ".toml")),
                $("\n# included: ", $file, "\n",
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $paper, "/", $file)),)?
                $("\n# appended passport: ", $passport, "\n",
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $paper, "/", $passport)),)?
            )),
            tables: $tables,
            shows: &[$($($shows),*)?],
        },)* $($crate::papers::Experiment {
            key: $without,
            title: $its_title,
            section: $its_section,
            transports: $its_transports,
            scenario: None,
            tables: &[],
            shows: &[],
        },)*]
    };
}
pub(super) use experiments;

impl Experiment {
    /// Whether the paper does not describe it.
    pub fn is_own(&self) -> bool {
        self.section.is_none()
    }

    /// What is missing: transports by their schemes, or a scenario; nothing if it can run.
    pub fn needs(&self) -> Vec<&'static str> {
        let known = |scheme: &str| TRANSPORTS.iter().any(|transport| transport.scheme == scheme);
        let mut needs: Vec<_> = self.transports.iter().copied().filter(|scheme| !known(scheme)).collect();
        // Without its transport a scenario could not even be tested.
        if needs.is_empty() && self.scenario.is_none() {
            needs.push("a scenario");
        }
        needs
    }

    /// The same in words for a table: "srp", "dccp and sctp"; `None` if it can run.
    pub fn lacks(&self) -> Option<String> {
        let needs = self.needs();
        let (last, rest) = needs.split_last()?;
        Some(if rest.is_empty() { last.to_string() } else { format!("{} and {last}", rest.join(", ")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(transports: &'static [&'static str], scenario: Option<&'static str>) -> Experiment {
        Experiment { key: "e", title: "", section: Some("1"), transports, scenario, tables: &[], shows: &[] }
    }

    #[test]
    fn needs_come_from_the_registry() {
        assert_eq!(experiment(&["rtp", "tcp"], Some("")).lacks(), None);
        assert_eq!(experiment(&["rtp"], None).lacks().as_deref(), Some("a scenario"));
        let pigeons = experiment(&["rtp", "pigeon"], None);
        assert_eq!(pigeons.needs(), ["pigeon"]);
        assert_eq!(
            experiment(&["owl", "tcp", "pigeon", "crow"], Some("")).lacks().as_deref(),
            Some("owl, pigeon and crow")
        );
    }
}
