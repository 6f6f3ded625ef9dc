//! What a check found, and what to change.

use std::collections::BTreeMap;

/// One check of this machine.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Check {
    /// What was checked: `scheduling`, or `loopback rtp`.
    pub name: String,
    /// What it means for live sound.
    pub verdict: Verdict,
    /// What was measured, by names with units: `rtt_p50_ms`.
    pub figures: BTreeMap<&'static str, f64>,
    /// What was found, in a sentence.
    pub found: String,
    /// What to change on this machine; `None` where nothing needs to be.
    pub change: Option<String>,
}

/// What a check means for live sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing needs to be changed.
    Ok,
    /// Sound passes, but a change makes it better.
    Warning,
    /// Sound does not pass as it should.
    Fault,
    /// It could not be told; the finding says why.
    NotChecked,
}

impl Check {
    /// One with nothing to change.
    pub(crate) fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Check {
            name: name.into(),
            verdict: Verdict::Ok,
            figures: BTreeMap::new(),
            found: found.into(),
            change: None,
        }
    }

    /// Something that could be better.
    pub(crate) fn warning(
        name: impl Into<String>,
        found: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        Check { verdict: Verdict::Warning, change: Some(change.into()), ..Check::ok(name, found) }
    }

    /// Something that keeps sound from passing.
    pub(crate) fn fault(
        name: impl Into<String>,
        found: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        Check { verdict: Verdict::Fault, ..Check::warning(name, found, change) }
    }

    /// What could not be told, and why.
    pub(crate) fn not_checked(name: impl Into<String>, why: impl Into<String>) -> Self {
        Check { verdict: Verdict::NotChecked, ..Check::ok(name, why) }
    }

    /// With what was measured.
    pub(crate) fn with(mut self, figures: &[(&'static str, f64)]) -> Self {
        self.figures.extend(figures.iter().copied());
        self
    }
}
