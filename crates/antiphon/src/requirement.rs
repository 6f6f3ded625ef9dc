//! Requirements of a script on a comparison, and whether they were met.

use std::fmt;
use std::str::FromStr;

use antiphon_measure::{Gate, TransportFigures};
use antiphon_proto::find;

use crate::Error;

/// A requirement on one transport or on all.
#[derive(Clone, PartialEq, Debug)]
pub struct Requirement {
    /// Scheme of the transport it is for; `None`: every one.
    pub transport: Option<&'static str>,
    gate: Gate,
}

/// The result of one requirement for one transport.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// Scheme of the transport.
    pub transport: String,
    /// The condition that was not met, with the measured value; `None` if all were met.
    pub missed: Option<String>,
}

impl FromStr for Requirement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (transport, gate) = match text.split_once(':') {
            Some((name, gate)) => (Some(find(name.trim())?.scheme), gate),
            None => (None, text),
        };
        Ok(Requirement { transport, gate: gate.parse()? })
    }
}

impl Requirement {
    /// Checks a comparison. A named transport that was not measured fails the requirement.
    pub fn judge(&self, figures: &[TransportFigures]) -> Vec<Judgement> {
        let scheme = |label: &str| label.split('?').next().map(ToString::to_string);
        let concerned = |f: &&TransportFigures| {
            self.transport.is_none_or(|name| scheme(&f.transport).as_deref() == Some(name))
        };
        let mut judgements = Vec::new();
        for figures in figures.iter().filter(concerned) {
            let failures = self.gate.check(figures);
            let judged = |missed| Judgement { transport: figures.transport.clone(), missed };
            if failures.is_empty() {
                judgements.push(judged(None));
            }
            judgements.extend(failures.iter().map(|failure| judged(Some(failure.to_string()))));
        }
        if judgements.is_empty() {
            let transport = self.transport.unwrap_or("all").to_string();
            judgements.push(Judgement { transport, missed: Some(format!("{self}: not measured")) });
        }
        judgements
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions: Vec<String> = self.gate.conditions().iter().map(ToString::to_string).collect();
        let scope = self.transport.map_or_else(String::new, |name| format!("{name}:"));
        write!(f, "{scope}{}", conditions.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_name_their_transport_or_none() {
        let one: Requirement = "rtp:loss<1%,p99<25ms".parse().unwrap();
        assert_eq!(one.to_string(), "rtp:loss<1%,p99<25ms");
        assert_eq!(one.judge(&[])[0].transport, "rtp");
        assert!(one.judge(&[])[0].missed.is_some());
        let error = "rpt:loss<1%".parse::<Requirement>().unwrap_err().to_string();
        assert!(error.contains("'rtp'"), "{error}");
        assert!("loss<1".parse::<Requirement>().is_err());
    }
}
