//! One experiment of a paper: what it takes to run it here.

use antiphon_proto::TRANSPORTS;

use super::compare::TableMap;

/// An experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name in commands and in `paper.toml`.
    pub key: &'static str,
    /// What it asks, in a few words.
    pub title: &'static str,
    /// Where the paper tells of it.
    pub section: &'static str,
    /// Schemes of the transports under test.
    pub transports: &'static [&'static str],
    /// The text of its scenario, once there is one.
    pub scenario: Option<&'static str>,
    /// How its figures make the printed tables.
    pub tables: &'static [TableMap],
}

/// What an experiment lacks before it can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// A transport of this scheme.
    Transport(&'static str),
    /// A description of the paper's network and settings.
    Scenario,
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Need::Transport(scheme) => f.write_str(scheme),
            Need::Scenario => f.write_str("a scenario"),
        }
    }
}

impl Experiment {
    /// What is missing, transports first; nothing if it can run.
    pub fn needs(&self) -> Vec<Need> {
        let known = |scheme: &str| TRANSPORTS.iter().any(|transport| transport.scheme == scheme);
        let transports = self.transports.iter().copied().filter(|scheme| !known(scheme));
        let mut needs: Vec<Need> = transports.map(Need::Transport).collect();
        // Without its transport a scenario could not even be tried.
        if needs.is_empty() && self.scenario.is_none() {
            needs.push(Need::Scenario);
        }
        needs
    }

    /// What is missing, as words for a table: "srp", "dccp and sctp"; `None` if it can run.
    pub fn lacks(&self) -> Option<String> {
        let needs: Vec<String> = self.needs().iter().map(Need::to_string).collect();
        let (last, rest) = needs.split_last()?;
        Some(if rest.is_empty() { last.clone() } else { format!("{} and {last}", rest.join(", ")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(transports: &'static [&'static str], scenario: Option<&'static str>) -> Experiment {
        Experiment { key: "e", title: "", section: "1", transports, scenario, tables: &[] }
    }

    #[test]
    fn needs_come_from_the_registry() {
        assert_eq!(experiment(&["rtp", "tcp"], Some("")).lacks(), None);
        assert_eq!(experiment(&["rtp"], None).lacks().as_deref(), Some("a scenario"));
        let pigeons = experiment(&["rtp", "pigeon"], None);
        assert_eq!(pigeons.needs(), [Need::Transport("pigeon")]);
        assert_eq!(
            experiment(&["owl", "tcp", "pigeon", "crow"], Some("")).lacks().as_deref(),
            Some("owl, pigeon and crow")
        );
    }
}
