//! How many receivers fit on one 802.11g cell, as the laboratory found it: for those who plan with `compare --receivers`.
//!
//! The figures are data (`data/headsets.csv`, which names the experiments), since what measures on real networks does not contain the
//! laboratory. A test of the laboratory compares them with its own runs.

/// What the cell was like, and what was sent over it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellCapacity {
    /// How the access point and the receivers contend for the air: `dcf`, or `edca` with sound in the queue for voice (802.11e).
    pub access: &'static str,
    /// Other traffic, in Mbit/s.
    pub beside_mbit_s: u32,
    /// Scheme of the transport of a stream to each receiver; `group` is one multicast stream for all, and `group-twice` the same with each packet sent
    /// twice.
    pub transport: &'static str,
    /// So many receivers fit.
    pub fits: u32,
    /// So many do not; `None`: more than `fits` were not tried.
    pub fails: Option<u32>,
}

/// Whether so many receivers fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Each has the sound that it needs.
    Yes,
    /// Chance decides, or so many were not tried.
    Unknown,
    /// Some of them miss too much.
    No,
}

impl CellCapacity {
    /// Whether `receivers` fit.
    pub fn fit(&self, receivers: u32) -> Fit {
        match self.fails {
            _ if receivers <= self.fits => Fit::Yes,
            Some(fails) if receivers >= fails => Fit::No,
            _ => Fit::Unknown,
        }
    }

    /// Whether all receivers hear one stream.
    pub fn is_group(&self) -> bool {
        self.transport.starts_with("group")
    }
}

/// All cells that were tried.
pub fn cell_capacities() -> impl Iterator<Item = CellCapacity> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| read(line).expect("a test reads every line of the table"))
}

fn read(line: &'static str) -> Option<CellCapacity> {
    let mut fields = line.split(',');
    let (access, beside_mbit_s) = (fields.next()?, fields.next()?.parse().ok()?);
    let (transport, fits) = (fields.next()?, fields.next()?.parse().ok()?);
    let fails = match fields.next()? {
        "" => None,
        fails => Some(fails.parse().ok()?),
    };
    fields.next().is_none().then_some(CellCapacity { access, beside_mbit_s, transport, fits, fails })
}

const TABLE: &str = include_str!("../data/headsets.csv");

/// Sound of one stream of the experiments: stereo of 16 bits at 44.1 kHz.
pub const HEADSET_BIT_RATE: u32 = 1_411_200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_can_be_read_and_makes_sense() {
        let all: Vec<CellCapacity> = cell_capacities().collect();
        assert_eq!(all.len(), TABLE.lines().filter(|line| !line.starts_with('#')).count() - 1);
        for one in &all {
            assert!(one.fails.is_none_or(|fails| fails > one.fits), "{one:?}");
            let alike = |other: &&CellCapacity| {
                (other.access, other.beside_mbit_s, other.transport)
                    == (one.access, one.beside_mbit_s, one.transport)
            };
            assert_eq!(all.iter().filter(alike).count(), 1, "{one:?}");
        }
    }

    #[test]
    fn what_lies_between_is_not_known() {
        let rtp = cell_capacities().next().expect("a line");
        assert_eq!((rtp.access, rtp.beside_mbit_s, rtp.transport), ("dcf", 0, "rtp"));
        assert_eq!(
            [1, 14, 15, 16, 100].map(|n| rtp.fit(n)),
            [Fit::Yes, Fit::Yes, Fit::Unknown, Fit::No, Fit::No]
        );
        let untried = CellCapacity { fails: None, ..rtp };
        assert_eq!(untried.fit(15), Fit::Unknown);
    }
}
