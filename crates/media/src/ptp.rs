//! A PTP clock by the name that session descriptions give it (RFC 7273 §4.3).

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A PTP clock of IEEE 1588-2008 that time stamps count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PtpClock {
    /// The clock of this grandmaster, in this domain.
    Grandmaster {
        /// Its identity, an EUI-64.
        identity: [u8; 8],
        /// From 0 to 127.
        domain: u8,
    },
    /// Any that is traceable to TAI, such as one with a GPS receiver: all of these show the same time.
    Traceable,
}

/// A text that names no PTP clock.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "'{0}' is no PTP clock: write the identity of its grandmaster and its domain, such as 39-A7-94-FF-FE-07-CB-D0:0 \
     (ptp4l's log and 'pmc -u \"GET PARENT_DATA_SET\"' show it as 39a794.fffe.07cbd0), or 'traceable'"
)]
pub struct PtpClockError(pub String);

impl PtpClock {
    /// The text of `a=ts-refclk:`.
    pub fn reference(&self) -> String {
        format!("ptp={VERSION}{self}")
    }
}

impl Display for PtpClock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PtpClock::Traceable => f.write_str(TRACEABLE),
            PtpClock::Grandmaster { identity, domain } => {
                for (place, byte) in identity.iter().enumerate() {
                    let dash = if place > 0 { "-" } else { "" };
                    write!(f, "{dash}{byte:02X}")?;
                }
                write!(f, ":{domain}")
            }
        }
    }
}

impl FromStr for PtpClock {
    type Err = PtpClockError;

    /// As session descriptions and PTP programs write it: `39-A7-94-FF-FE-07-CB-D0:0`, `39a794.fffe.07cbd0`, `traceable`, with or
    /// without `ptp=IEEE1588-2008:` in front. Without a domain it is 0.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PtpClockError(text.into());
        let name = text.strip_prefix("ptp=").unwrap_or(text);
        let name = name.strip_prefix(VERSION).unwrap_or(name);
        if name == TRACEABLE {
            return Ok(PtpClock::Traceable);
        }
        let (identity, domain) = name.split_once(':').unwrap_or((name, "0"));
        let is_number = !domain.is_empty() && domain.bytes().all(|byte| byte.is_ascii_digit());
        let domain = domain.parse().ok().filter(|domain| is_number && *domain <= LAST_DOMAIN);
        let identity = eight_bytes(identity).zip(domain);
        identity.map(|(identity, domain)| PtpClock::Grandmaster { identity, domain }).ok_or_else(wrong)
    }
}

/// Sixteen digits, in the groups of either form.
fn eight_bytes(text: &str) -> Option<[u8; 8]> {
    let groups: Vec<&str> = text.split(['-', '.']).collect();
    let is_usual = match (text.contains('-'), text.contains('.')) {
        (true, false) => groups.len() == 8 && groups.iter().all(|group| group.len() == 2),
        (false, true) => groups.iter().map(|group| group.len()).eq([6, 4, 6]),
        _ => false,
    };
    let digits = groups.concat();
    if !is_usual || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some(u64::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

/// The version of PTP that is named (RFC 7273 §4.3).
const VERSION: &str = "IEEE1588-2008:";
const TRACEABLE: &str = "traceable";
/// Higher domains are reserved (IEEE 1588-2008, table 2).
const LAST_DOMAIN: u8 = 127;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_names_the_same_clock() {
        let identity = [0x39, 0xA7, 0x94, 0xFF, 0xFE, 0x07, 0xCB, 0xD0];
        let of = |domain| Ok(PtpClock::Grandmaster { identity, domain });
        for (text, domain) in [
            ("39-A7-94-FF-FE-07-CB-D0:5", 5),
            ("39-a7-94-ff-fe-07-cb-d0", 0),
            ("39a794.fffe.07cbd0", 0),
            ("39a794.fffe.07cbd0:127", 127),
            ("ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0", 0),
        ] {
            assert_eq!(text.parse(), of(domain), "{text}");
        }
        assert_eq!(of(0).unwrap().reference(), "ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0");
        assert_eq!("traceable".parse(), Ok(PtpClock::Traceable));
        assert_eq!(PtpClock::Traceable.reference(), "ptp=IEEE1588-2008:traceable");
    }

    #[test]
    fn what_names_none_is_refused() {
        for text in [
            "",
            "eth0",
            "39-A7-94-FF-FE-07-CB",
            "39-A7-94-FF-FE-07-CB-D0:128",
            "39-A7-94-FF-FE-07-CB-D0:+1",
            "39-A7-94-FF-FE-07-CB-D0:",
            "39-A7-94-FF-FE-07-CB-G0:0",
            "39A794FFFE07CBD0",
            "39-A7-94.FFFE-07-CB-D0",
            "ptp=IEEE1588-2019:39-A7-94-FF-FE-07-CB-D0:0",
            "Ⅷ-A7-94-FF-FE-07-CB-D0",
        ] {
            let refused = text.parse::<PtpClock>().unwrap_err().to_string();
            assert!(refused.contains("39-A7-94-FF-FE-07-CB-D0:0"), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_a_name_is_read_again(text in ".{0,40}", identity: [u8; 8], domain in 0..=LAST_DOMAIN) {
            let _only_that_it_ends = text.parse::<PtpClock>();
            let clock = PtpClock::Grandmaster { identity, domain };
            prop_assert_eq!(clock.reference().parse(), Ok(clock));
            prop_assert_eq!(clock.to_string().parse(), Ok(clock));
        }
    }
}
