//! Whether so many receivers fit on one Wi-Fi cell, in sentences: from what the laboratory found ([`antiphon_measure::cell_capacities`]).

use antiphon_measure::{CellCapacity, Fit, HEADSET_BIT_RATE, LipSync, cell_capacities};

/// What the laboratory found of one kind of cell for a number of receivers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CellAdvice {
    /// So many receivers.
    pub receivers: u32,
    /// How the access point and the receivers contend for the air: `dcf`, or `edca` (802.11e).
    pub access: &'static str,
    /// Other traffic in the cell, in Mbit/s.
    pub beside_mbit_s: u32,
    /// Transports over which so many have the sound that they need; `group` is a multicast, `group-twice` one with each packet sent twice.
    pub fits: Vec<&'static str>,
    /// Transports over which chance decides, or that were not tried with so many.
    pub unknown: Vec<&'static str>,
    /// Transports over which some of them miss too much.
    pub fails: Vec<&'static str>,
}

/// What the laboratory found for so many receivers, for each kind of cell that it tried.
pub fn cell_advice(receivers: u32) -> Vec<CellAdvice> {
    let mut cells: Vec<CellAdvice> = Vec::new();
    for one in cell_capacities() {
        let CellCapacity { access, beside_mbit_s, .. } = one;
        let alike = |cell: &CellAdvice| (cell.access, cell.beside_mbit_s) == (access, beside_mbit_s);
        let at = cells.iter().position(alike).unwrap_or_else(|| {
            let (fits, unknown, fails) = (Vec::new(), Vec::new(), Vec::new());
            cells.push(CellAdvice { receivers, access, beside_mbit_s, fits, unknown, fails });
            cells.len() - 1
        });
        let list = match one.fit(receivers) {
            Fit::Yes => &mut cells[at].fits,
            Fit::Unknown => &mut cells[at].unknown,
            Fit::No => &mut cells[at].fails,
        };
        list.push(one.transport);
    }
    cells
}

impl CellAdvice {
    /// A sentence on streams to each receiver in this cell.
    pub fn sentence(&self) -> String {
        let cell = match (self.beside_mbit_s, self.access) {
            (0, _) => "In an idle cell".to_string(),
            (rate, "edca") => {
                format!("Beside {rate} Mbit/s, with 802.11e (WMM) at the access point and the receivers,")
            }
            (rate, _) => format!("Beside {rate} Mbit/s of other traffic"),
        };
        let of = |list: &[&str]| {
            let names: Vec<&str> = list.iter().filter(|name| !name.starts_with(GROUP)).copied().collect();
            names.join(", ")
        };
        let (fits, unknown, fails) = (of(&self.fits), of(&self.unknown), of(&self.fails));
        match (&*fits, &*unknown, &*fails) {
            (_, "", "") => format!("{cell} they fit over every transport that was tried."),
            ("", "", _) => format!("{cell} they fit over none."),
            ("", _, "") => format!("{cell} so many were not tried, or chance decides."),
            ("", _, _) => format!("{cell} chance decides over {unknown}, and they fit over none."),
            (_, "", _) => format!("{cell} they fit over {fits}."),
            (_, _, _) => format!("{cell} they fit over {fits}; over {unknown} chance decides."),
        }
    }

    /// Whether one stream to a group, each packet of it sent twice, reaches all.
    fn reaches_by_group(&self) -> bool {
        self.fits.contains(&GROUP_TWICE)
    }

    fn fits_somehow(&self) -> bool {
        self.fits.iter().any(|name| !name.starts_with(GROUP))
    }
}

/// Whether so many receivers fit on one cell, and what to do: sentences for the user.
pub fn cell_sentences(receivers: u32) -> Vec<String> {
    let cells = cell_advice(receivers);
    let (rate, skew) = (f64::from(HEADSET_BIT_RATE) / 1e6, LipSync::SKEW.as_millis());
    let mut told = vec![format!(
        "{receivers} receivers on one 802.11g cell, with a stream of {rate:.1} Mbit/s to each, fit if none misses more than {:.1} % after {skew} ms \
         (figures of the laboratory: docs/studies.md).",
        LipSync::LOSS_PERCENT,
    )];
    told.extend(cells.iter().map(CellAdvice::sentence));
    let find = |access: &str, idle: bool| {
        cells.iter().find(|cell| cell.access == access && (cell.beside_mbit_s == 0) == idle)
    };
    let (idle, beside, edca) = (find("dcf", true), find("dcf", false), find("edca", false));
    if !beside.is_some_and(CellAdvice::fits_somehow)
        && edca.is_some_and(|cell| cell.fits_somehow() || !cell.unknown.is_empty())
    {
        told.push("Where others use the cell, switch on 802.11e (WMM) at the access point: the sound is marked for it (--dscp).".into());
    }
    if idle.is_some_and(|cell| !cell.fails.is_empty()) {
        told.push(match idle.is_some_and(CellAdvice::reaches_by_group) {
            true => "In a cell of its own one multicast reaches them, with each packet sent twice: antiphon send SOURCE rtp://239.1.2.3:7710 --protect \
                     repeat:2,spacing=20ms"
                .into(),
            false => "So many were not tried by multicast: divide them among several cells, on channels that do not overlap.".into(),
        });
    }
    told
}

const GROUP: &str = "group";
const GROUP_TWICE: &str = "group-twice";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_fit_and_many_are_told_what_to_do() {
        let two = cell_sentences(2).join("\n");
        assert!(
            two.contains("In an idle cell they fit over every transport") && two.contains("1.4 Mbit/s"),
            "{two}"
        );
        assert!(
            two.contains("Beside 10 Mbit/s of other traffic they fit over every")
                && !two.contains("switch on"),
            "{two}"
        );
        let eight = cell_sentences(8).join("\n");
        assert!(eight.contains("Beside 10 Mbit/s of other traffic they fit over none."), "{eight}");
        assert!(
            eight.contains("(WMM) at the access point and the receivers, they fit over every"),
            "{eight}"
        );
        assert!(eight.contains("switch on 802.11e"), "{eight}");
        let ten = cell_sentences(10).join("\n");
        assert!(
            ten.contains("In an idle cell they fit over rtp, srp, sctp; over tcp, dccp, arq chance decides."),
            "{ten}"
        );
        let twelve = cell_sentences(12).join("\n");
        assert!(
            twelve.contains("In an idle cell they fit over rtp, srp; over dccp chance decides."),
            "{twelve}"
        );
        let twenty = cell_sentences(20).join("\n");
        assert!(
            twenty.contains("In an idle cell they fit over none.") && twenty.contains("--protect repeat:2"),
            "{twenty}"
        );
        assert!(cell_sentences(33).join("\n").contains("several cells"));
    }

    #[test]
    fn every_transport_of_a_cell_is_in_one_list() {
        for receivers in [1, 2, 3, 8, 11, 16, 40] {
            for cell in cell_advice(receivers) {
                assert_eq!(cell.fits.len() + cell.unknown.len() + cell.fails.len(), 8, "{cell:?}");
            }
        }
        assert_eq!(cell_advice(2).len(), 3);
    }
}
