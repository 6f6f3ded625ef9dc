//! The recommendations in plain words: a sentence for each, without the field's terms, for readers who want to act on them.

use antiphon_measure::{Advice, PicturesFigures, Purpose};
use antiphon_report::Command;

use crate::measured::Measured;

/// A recommendation as the report's card has it.
pub(super) fn card(advice: &Advice, measured: &[Measured]) -> antiphon_report::Card {
    let named = measured.iter().find(|one| one.choice.label == advice.transport);
    antiphon_report::Card {
        heading: names(advice.purpose).0.into(),
        answer: if advice.met { advice.transport.clone() } else { String::new() },
        gloss: named.map_or(String::new(), |one| one.choice.transport.plain.into()),
        sentence: named.map_or(String::new(), |one| sentence(advice, one)),
        others: others(&advice.ties),
        caution: named.and_then(|one| one.figures.pictures.as_ref()).map_or(String::new(), beside_pictures),
        because: advice.because.clone(),
        confidence: advice.confidence,
        sureness: advice.sureness(),
        commands: advice
            .commands
            .iter()
            .zip(["On the receiving computer", "On the sending computer"])
            .map(|(line, side)| {
                let whose = if line.contains("RECEIVER") {
                    ", with the other one's address for RECEIVER"
                } else {
                    ""
                };
                Command { place: format!("{side}{whose}:"), line: line.clone() }
            })
            .collect(),
        ..antiphon_report::Card::default()
    }
}

/// The purpose as a heading, and in as few words as a mark in a chart has room for.
pub(super) fn names(purpose: Purpose) -> (&'static str, &'static str) {
    match purpose {
        Purpose::PlayTogether => ("Play together", "play together"),
        Purpose::TvSound => ("TV sound on headphones", "TV sound"),
        Purpose::Record => ("Record without loss", "record"),
        Purpose::Talk => ("Talk", "talk"),
        Purpose::SendToMany => ("Send to many", "many"),
    }
}

fn others(ties: &[String]) -> String {
    match ties {
        [] => String::new(),
        [one] => format!("{one} would do as well."),
        [first @ .., last] => format!("{} and {last} would do as well.", first.join(", ")),
    }
}

fn sentence(advice: &Advice, one: &Measured) -> String {
    let heard = Heard::of(advice, one);
    if advice.met { met(advice, &heard) } else { unmet(advice, &heard) }
}

/// What a listener to a transport has of the sound, with the delay that the advice sets.
struct Heard<'a> {
    name: &'a str,
    /// From mouth to ear, in milliseconds.
    delay_ms: Option<f64>,
    /// Lost, or later than the delay.
    missing_percent: f64,
    /// Never came, as a share and as a count.
    lost_percent: f64,
    lost: u64,
}

impl<'a> Heard<'a> {
    fn of(advice: &'a Advice, one: &Measured) -> Self {
        let delays = one.mouth_to_ear_ms();
        let least = delays.iter().flatten().copied().fold(f32::INFINITY, f32::min);
        let set = advice.playout_delay_ms.filter(|_| least.is_finite()).map(|ms| ms + f64::from(least));
        let delay_ms = match advice.purpose {
            Purpose::TvSound => advice.purpose.counts_missing_at_ms().map(|way| way + one.figures.packet_ms),
            // Where nothing suffices, what the delay would have to be.
            Purpose::PlayTogether if set.is_none() => antiphon_report::target_for(&delays, 0.01),
            _ => set,
        };
        let missing = |delay: f64| {
            delays.iter().filter(|d| d.is_none_or(|d| f64::from(d) > delay + INEXACT_MS)).count()
        };
        let lost = missing(f64::INFINITY);
        let percent = |count: usize| 100.0 * count as f64 / delays.len().max(1) as f64;
        Heard {
            name: &advice.transport,
            delay_ms,
            missing_percent: percent(delay_ms.map_or(lost, missing)),
            lost_percent: percent(lost),
            lost: lost as u64,
        }
    }
}

/// By how much a 32-bit number of milliseconds may be off: what is missing is counted as the advice counted it.
const INEXACT_MS: f64 = 0.01;

fn met(advice: &Advice, heard: &Heard<'_>) -> String {
    let delay = heard.delay_ms.map_or("a moment".into(), millis);
    let limit = advice.purpose.longest_mouth_to_ear_ms().map_or(String::new(), millis);
    match advice.purpose {
        Purpose::PlayTogether => {
            format!("Players hear each other after {delay}; up to {limit} they can keep time together.")
        }
        Purpose::TvSound => format!(
            "Sound stays within {limit} of the picture, and {} of it is missing.",
            share(heard.missing_percent)
        ),
        Purpose::Record if advice.promised => "Nothing is missing: lost packets are sent again.".into(),
        Purpose::Record => "Nothing was missing in this run, but lost packets are not sent again.".into(),
        Purpose::Talk => format!(
            "You hear each other after {delay} (up to {limit} feels natural), and {} of the sound is missing.",
            share(heard.missing_percent)
        ),
        Purpose::SendToMany => format!(
            "One packet reaches all receivers, and {} of the sound is lost.",
            share(heard.lost_percent)
        ),
    }
}

fn unmet(advice: &Advice, heard: &Heard<'_>) -> String {
    let (name, lost) = (heard.name, share(heard.lost_percent));
    let most = advice.purpose.most_missing_percent().map_or(String::new(), share);
    let limit = advice.purpose.longest_mouth_to_ear_ms().map_or(String::new(), millis);
    match (advice.purpose, heard.delay_ms) {
        (Purpose::PlayTogether, Some(delay)) => {
            format!(
                "Too slow: even with {name} players hear each other only after {}; {limit} is the limit.",
                millis(delay)
            )
        }
        (Purpose::PlayTogether, None) => {
            format!("Too much is lost: {lost} with {name}, the closest; {most} is the limit.")
        }
        (Purpose::TvSound, _) => format!(
            "Too much is lost or late: {} with {name}, the closest; {most} is the limit.",
            share(heard.missing_percent)
        ),
        (Purpose::Record, _) => {
            let packets = if heard.lost == 1 { "packet" } else { "packets" };
            format!(
                "Nothing that was measured is without loss; {name} comes closest, with {} {packets} lost.",
                heard.lost
            )
        }
        (Purpose::Talk, _) => {
            format!("Too much delay or too much missing for a conversation; {name} comes closest.")
        }
        (Purpose::SendToMany, _) if advice.promised => {
            format!("Too much is lost: {lost} with {name}, the closest; {most} is the limit.")
        }
        (Purpose::SendToMany, _) => {
            "Nothing that was measured reaches several receivers with one packet.".into()
        }
    }
}

/// What pictures beside the sound cost it; empty where too little was sent to tell.
fn beside_pictures(pictures: &PicturesFigures) -> String {
    let (Some(beside), Some(alone)) = (pictures.sound_beside, pictures.sound_alone) else {
        return String::new();
    };
    format!(
        "Beside the pictures {} of the sound was missing, and nearly all came back within {}; after them {} and {}.",
        share(beside.missing_percent),
        millis(beside.rtt_p99_ms),
        share(alone.missing_percent),
        millis(alone.rtt_p99_ms)
    )
}

/// A delay for readers: tenths only where they are most of it.
fn millis(ms: f64) -> String {
    if ms < 9.95 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// A share in percent for readers.
fn share(percent: f64) -> String {
    match percent {
        0.0 => "none".into(),
        small if small < 0.01 => "less than 0.01 %".into(),
        some if some < 9.95 => {
            format!("{} %", format!("{some:.2}").trim_end_matches('0').trim_end_matches('.'))
        }
        most => format!("{most:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(purpose: Purpose, met: bool, promised: bool) -> Advice {
        Advice {
            record: "advice".into(),
            schema: Advice::SCHEMA,
            purpose,
            transport: "rtp".into(),
            ties: Vec::new(),
            met,
            promised,
            because: String::new(),
            confidence: None,
            playout_delay_ms: None,
            commands: Vec::new(),
            pictures: None,
        }
    }

    #[test]
    fn sentences_are_whole_and_without_terms_of_art() {
        let heard =
            Heard { name: "rtp", delay_ms: Some(26.4), missing_percent: 0.4, lost_percent: 0.0, lost: 1 };
        let without = Heard { delay_ms: None, ..heard };
        for purpose in Purpose::ALL {
            for promised in [false, true] {
                let all = [
                    met(&advice(purpose, true, promised), &heard),
                    unmet(&advice(purpose, false, promised), &heard),
                    unmet(&advice(purpose, false, promised), &without),
                ];
                for sentence in all {
                    assert!(sentence.ends_with('.') && sentence.len() < 120, "{sentence}");
                    for term in ["MOS", "jitter", "p99", "  ", "playout"] {
                        assert!(!sentence.contains(term), "{sentence}");
                    }
                }
            }
        }
        assert_eq!(
            met(&advice(Purpose::PlayTogether, true, false), &heard),
            "Players hear each other after 26 ms; up to 30 ms they can keep time together."
        );
        assert_eq!(
            unmet(&advice(Purpose::Record, false, false), &heard),
            "Nothing that was measured is without loss; rtp comes closest, with 1 packet lost."
        );
    }

    #[test]
    fn shares_and_delays_for_readers() {
        let shares = [0.0, 0.004, 0.1, 1.8, 5.0, 9.96, 100.0].map(share);
        assert_eq!(shares, ["none", "less than 0.01 %", "0.1 %", "1.8 %", "5 %", "10 %", "100 %"]);
        assert_eq!([1.52, 9.96, 26.4].map(millis), ["1.5 ms", "10 ms", "26 ms"]);
    }

    #[test]
    fn ties_are_told_in_a_sentence() {
        let ties = |names: &[&str]| others(&names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        assert_eq!(ties(&[]), "");
        assert_eq!(ties(&["tcp"]), "tcp would do as well.");
        assert_eq!(ties(&["tcp", "srp", "arq"]), "tcp, srp and arq would do as well.");
    }
}
