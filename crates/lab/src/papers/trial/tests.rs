use proptest::prelude::*;

use super::super::{all, find};
use super::*;
use crate::figures::StreamFigures;
use crate::results::{Record, Results};

const HEAD: &str = "# Verdicts\nclaim,experiments,digest,seeds,holds,holds-by-fit,undecided,does-not-hold,\
                    not-reproducible,by-definition\n";
const ROW: &str = "ta-17,direct_wireless,0123456789abcdef,1-32,24,0,8,0,0,0\n";

fn paper() -> &'static Paper {
    find("transport-alternatives").unwrap()
}

fn parse(text: &str) -> Result<Trials, TrialError> {
    Trials::parse("seeds.csv", text, &paper().claims, paper().experiments)
}

fn trial(verdicts: &[(Verdict, u32)]) -> Trial {
    let (experiments, verdicts) = (vec!["direct_wireless".to_string()], verdicts.iter().copied().collect());
    let digest = paper().trial_digest(["direct_wireless"]);
    Trial { first: 1, experiments, digest, verdicts }
}

#[test]
fn a_trial_is_written_as_it_is_read() {
    let trials = parse(&format!("{HEAD}{ROW}")).unwrap();
    let trial = trials.of("ta-17").unwrap();
    assert_eq!((trial.first, trial.seeds(), trial.experiments.len()), (1, 32, 1));
    assert_eq!(trial.words(), "holds with 24 of 32 seeds, undecided with 8");
    assert_eq!(parse(&trials.to_csv()).unwrap(), trials);
    assert!(trials.to_csv().ends_with(ROW), "{}", trials.to_csv());
    assert_eq!(parse(HEAD).unwrap(), Trials::default());
}

#[test]
fn seeds_that_follow_are_added_to_a_trial_of_the_same_runs_alone() {
    let (holds, open) = (Verdict::Holds, Verdict::Undecided);
    let first = trial(&[(holds, 8)]);
    let next = Trial { first: 9, ..trial(&[(holds, 20), (open, 4)]) };
    assert_eq!(first.followed_by(&next), Some(trial(&[(holds, 28), (open, 4)])));
    for other in [
        Trial { first: 10, ..next.clone() },
        Trial { first: 8, ..next.clone() },
        Trial { digest: "0123456789abcdef".into(), ..next.clone() },
        Trial { experiments: vec!["switch".into()], ..next.clone() },
    ] {
        assert_eq!(first.followed_by(&other), None);
    }
    let last = Trial { first: u64::MAX, ..first };
    assert_eq!(last.followed_by(&next), None);
}

#[test]
fn what_can_not_be_a_trial_is_refused_with_its_line() {
    let wrong = |from: &str, to: &str| {
        assert!(ROW.contains(from), "{from}");
        parse(&format!("{HEAD}{}", ROW.replace(from, to))).unwrap_err().to_string()
    };
    for (from, to, says) in [
        ("ta-17", "tv-01", "no claim 'tv-01'"),
        ("direct_wireless", "direct_wireless no_such", "no experiment 'no_such'"),
        ("0123456789abcdef", "0123", "no digest"),
        ("1-32", "1 to 32", "like 1-32"),
        ("1-32", "32-1", "can't give 32 verdicts"),
        ("1-32", "1-31", "seeds 1 to 31 can't give 32 verdicts"),
        ("1-32", "0-18446744073709551615", "can't give 32 verdicts"),
        (",24,", ",-24,", "'-24' is no number"),
        (",24,", ",4294967295,", "can't give 4294967295 verdicts"),
        ("1-32,24,0,8", "1-7,7,0,0", "7 seeds are too few"),
        (",0,0\n", ",0\n", "line 3 has 9 fields"),
    ] {
        let error = wrong(from, to);
        assert!(error.contains(says) && error.contains("seeds.csv"), "{error}");
    }
    let twice = parse(&format!("{HEAD}{ROW}{ROW}")).unwrap_err().to_string();
    assert!(twice.contains("line 4: ta-17 is there twice"), "{twice}");
    let other = parse(&HEAD.replace("undecided", "unsure")).unwrap_err().to_string();
    assert!(other.contains("line 2 must be 'claim,experiments,digest,seeds,holds,"), "{other}");
    assert!(parse("").is_err() && parse(&"x".repeat(2 << 20)).is_err());
}

proptest! {
    #[test]
    fn what_is_wrong_names_the_file(text in "\\PC*", row in "[-0-9a-f,_ \"]{0,90}") {
        for text in [text, format!("{HEAD}ta-17,{row}\n")] {
            if let Err(error) = parse(&text) {
                prop_assert!(error.to_string().contains("seeds.csv"), "{error}");
            }
        }
    }
}

#[test]
fn at_least_95_percent_of_the_seeds_must_say_the_same() {
    let confirms = |same, other| {
        let trial = trial(&[(Verdict::Holds, same), (Verdict::Undecided, other)]);
        trial.confirms(Verdict::Holds)
    };
    assert!(confirms(32, 0) && confirms(31, 1) && confirms(8, 0) && confirms(19, 1));
    assert!(!confirms(30, 2) && !confirms(7, 1) && !confirms(15, 1) && !confirms(0, 32));
    assert!(!trial(&[(Verdict::Holds, 32)]).confirms(Verdict::HoldsByFit), "another verdict is not the same");
}

/// Runs in which DCCP is faster than UDP on the direct link, as ta-17 says; the link was set from UDP's row.
fn runs() -> Results {
    let mut results = Results::default();
    for (run, (dccp, repetition, channels)) in [0, 1]
        .into_iter()
        .flat_map(|dccp| [0, 1].into_iter().flat_map(move |n| ["1", "2"].map(|channels| (dccp, n, channels))))
        .enumerate()
    {
        let dccp_scheme = "dccp?ccid=2&request-timeout=1s&queue=5&rto-initial=3s&rto-min=200ms&rto-max=64s";
        let (transport, rtt) = if dccp == 1 { (dccp_scheme, 3.0) } else { ("rtp", 17.0) };
        let point = vec![("channels".into(), channels.into()), ("transport".into(), transport.into())];
        let figures = StreamFigures {
            rtt_mean_ms: Some(rtt + f64::from(repetition) / 10.0),
            ..StreamFigures::default()
        };
        let (run, stream, seed) = (run as u32, "audio".into(), 1);
        results.records.push(Record { run, point, repetition, seed, stream, figures });
    }
    results
}

/// ta-17 after a trial.
fn judged(trial: Option<Trial>) -> Judgement {
    let mut paper = paper().clone();
    paper.trials = Trials::default();
    if let Some(trial) = trial {
        paper.trials.set("ta-17", trial);
    }
    let paper: &'static Paper = Box::leak(Box::new(paper));
    let results = runs();
    let judged = paper.judge(&[("direct_wireless", &results)]);
    judged.into_iter().find(|judgement| judgement.id == "ta-17").unwrap()
}

#[test]
fn a_verdict_that_other_seeds_do_not_repeat_is_undecided() {
    let alone = judged(None);
    assert_eq!((alone.verdict, alone.agreeing, alone.seeds.as_str()), (Verdict::HoldsByFit, Some(1.0), ""));
    let few = judged(Some(trial(&[(Verdict::HoldsByFit, 24), (Verdict::Undecided, 8)])));
    assert_eq!(few.verdict, Verdict::Undecided);
    assert_eq!(few.because, "holds by fit with 24 of 32 seeds, undecided with 8");
    assert_eq!(few.seeds, few.because);
    let opposite = judged(Some(trial(&[(Verdict::DoesNotHold, 32)])));
    assert_eq!((opposite.verdict, opposite.confirmed), (Verdict::Undecided, Some(true)));
    let all = judged(Some(trial(&[(Verdict::HoldsByFit, 32)])));
    assert_eq!((all.verdict, all.because.as_str()), (Verdict::HoldsByFit, ""));
    assert_eq!(all.seeds, "holds by fit with 32 of 32 seeds");
}

#[test]
fn a_trial_of_another_state_of_the_scenario_decides_nothing() {
    let mut old = trial(&[(Verdict::Undecided, 32)]);
    old.digest = "0123456789abcdef".into();
    let judged = judged(Some(old));
    assert_eq!((judged.verdict, judged.because.as_str()), (Verdict::HoldsByFit, ""));
    assert!(judged.seeds.contains("another state of its scenarios"), "{}", judged.seeds);
}

#[test]
fn what_tests_nothing_or_was_not_run_stays_so() {
    for verdict in [Verdict::ByDefinition, Verdict::NotRun] {
        let before = Judgement { verdict, ..judged(None) };
        let after = before.tried(&trial(&[(Verdict::Holds, 8), (Verdict::DoesNotHold, 8)]), true);
        assert_eq!((after.verdict, after.because.as_str()), (verdict, ""));
    }
}

#[test]
fn shipped_trials_are_of_todays_scenarios() {
    for paper in all() {
        for (claim, trial) in paper.trials.all() {
            let today = paper.trial_digest(trial.experiments.iter().map(String::as_str));
            let experiments: Vec<String> =
                trial.experiments.iter().map(|experiment| format!("{}/{experiment}", paper.key)).collect();
            let last = trial.first + u64::from(trial.seeds()) - 1;
            assert_eq!(
                today,
                trial.digest,
                "{claim}: its scenarios have changed; delete its line of papers/{}/seeds.csv, or try it again: cargo run \
                 --release -p antiphon-lab --example seeds -- {} {last} --write crates/lab/papers {}",
                paper.key,
                trial.first,
                experiments.join(" ")
            );
        }
    }
}
