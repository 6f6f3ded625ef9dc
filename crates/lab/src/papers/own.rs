//! What we add to a paper: figures made of several streams, short names, contestants of our own beside the paper's, and
//! what we claim of them.

use super::claim::Claim;
use super::compare::{Place, Statistic, Value};
use super::csv::Table;
use super::derived::Derived;
use super::{OWN, Paper};
use crate::results::Results;

/// What we add to one paper.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The paper's key.
    pub key: &'static str,
    /// Figures that its tables and claims read.
    pub derived: &'static [Derived],
    /// What experiments and settings are called where there is little room.
    pub names: &'static [(&'static str, &'static str)],
    /// What is compared beyond the printed tables, if anything is.
    pub contest: Option<Contest>,
    /// What we say of it.
    pub claims: &'static [OwnClaim],
}

/// Contestants, the paper's and ours, by figures that place them.
#[derive(Clone, Copy, Debug)]
pub struct Contest {
    /// A heading.
    pub title: &'static str,
    /// How to read it.
    pub intro: &'static str,
    /// By experiment, in the order of the rows.
    pub contestants: &'static [Contestant],
    /// The columns.
    pub columns: &'static [ContestColumn],
    /// The columns that place a contestant in a plot: across and up, as printed and ours in each reading.
    pub plane: &'static [Plane],
}

/// One of a contest.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    /// Of which experiment.
    pub experiment: &'static str,
    /// What it is called.
    pub name: &'static str,
    /// Its stream.
    pub stream: &'static str,
    /// Its settings of the sweep.
    pub point: &'static [(&'static str, &'static str)],
    /// The printed table and the fields of its row; `None`: ours alone.
    pub printed: Option<(&'static str, &'static [(&'static str, &'static str)])>,
}

/// A column of a contest: printed, or ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContestColumn {
    /// Of the printed table.
    Printed(&'static str),
    /// The mean of a figure over the runs.
    Ours(&'static str),
}

/// Where a contestant stands in a plot.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// Whose: "printed", "ours".
    pub name: &'static str,
    /// Across.
    pub x: ContestColumn,
    /// Up.
    pub y: ContestColumn,
}

/// A claim of ours, judged like the paper's.
#[derive(Clone, Copy, Debug)]
pub struct OwnClaim {
    /// Such as `ours-srp-1`.
    pub id: &'static str,
    /// What we say.
    pub claim: &'static str,
    /// How it is tested.
    pub check: &'static str,
}

impl Contestant {
    /// Where its figures are.
    pub fn place(&self) -> Place {
        let point = self.point.iter().map(|(key, value)| (*key, value.to_string()));
        Place { stream: self.stream.into(), point: point.collect() }
    }

    /// The value of a column; `results` are its experiment's.
    pub fn value(&self, column: ContestColumn, paper: &Paper, results: Option<&Results>) -> Option<Value> {
        match column {
            ContestColumn::Printed(name) => {
                let (file, fields) = self.printed?;
                let table: &Table = paper.table(file)?;
                let value = table.number(table.row(fields)?, name)?;
                Some(Value { value, half_width: None, runs: 0 })
            }
            ContestColumn::Ours(figure) => self.place().value(results?, figure, Statistic::Mean),
        }
    }
}

impl Own {
    /// The setting that a table calls `short`: the other way round from [`Paper::short`].
    pub(super) fn setting(&self, short: &str) -> Option<&'static str> {
        self.names.iter().find(|(_, known)| *known == short).map(|(long, _)| *long)
    }
}

impl Paper {
    /// What we add to it.
    pub fn own(&self) -> Option<&'static Own> {
        OWN.iter().find(|own| own.key == self.key)
    }

    /// An experiment or a setting in few words, as it is where there are none.
    pub fn short<'a>(&self, text: &'a str) -> &'a str {
        let names = self.own().map_or(&[][..], |own| own.names);
        names.iter().find(|(long, _)| *long == text).map_or(text, |(_, short)| short)
    }

    /// Settings behind commas, each in few words where there are some.
    pub fn short_settings(&self, text: &str) -> String {
        text.split(',').map(|setting| self.short(setting)).collect::<Vec<_>>().join(" · ")
    }
}

impl OwnClaim {
    /// As one of the paper's list.
    pub(super) fn claim(&self) -> Claim {
        Claim {
            id: self.id.into(),
            claim: self.claim.into(),
            place: "not in the paper: ours".into(),
            check: self.check.into(),
            required: true,
            own: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::derived::definition;
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_contestant_is_run_and_every_column_is_known() {
        for own in OWN {
            let paper = super::super::find(own.key).unwrap();
            for contestant in own.contest.iter().flat_map(|contest| contest.contestants) {
                let experiment = paper.experiment(contestant.experiment).unwrap();
                let scenario = Scenario::parse(experiment.key, experiment.scenario.unwrap()).unwrap();
                let wanted = contestant.place().point;
                let planned = scenario.plan().iter().any(|run| {
                    wanted.iter().all(|(key, value)| run.point.contains(&(key.to_string(), value.clone())))
                });
                assert!(planned, "{} of {}", contestant.name, experiment.key);
                if let Some((file, fields)) = contestant.printed {
                    assert!(paper.table(file).unwrap().row(fields).is_some(), "{file}: {fields:?}");
                }
            }
            if let Some(contest) = &own.contest {
                let planes = contest.plane.iter().flat_map(|plane| [plane.x, plane.y]);
                for column in contest.columns.iter().copied().chain(planes) {
                    match column {
                        ContestColumn::Ours(figure) => assert!(definition(figure).is_some(), "{figure}"),
                        ContestColumn::Printed(name) => {
                            let printed = contest.contestants.iter().find_map(|one| one.printed).unwrap();
                            assert!(paper.table(printed.0).unwrap().column(name).is_some(), "{name}");
                        }
                    }
                }
            }
            for (long, short) in own.names {
                assert_eq!((paper.short(long), own.setting(short)), (*short, Some(*long)));
            }
            assert_eq!(paper.short("anything else"), "anything else");
            let (long, short) = own.names[0];
            assert_eq!(paper.short_settings(&format!("{long},x=1")), format!("{short} · x=1"));
        }
    }
}
