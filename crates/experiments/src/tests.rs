use super::*;
use antiphon_lab::figures::StreamFigures;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

const TEXT: &str = "title='Test'\nrepetitions=5\nduration='1s'\nnode.a={}\nnode.b={}\n\
    link.l={between=['a','b'],delay='$delay'}\ntraffic.p={kind='ping',from='a',to='b',interval='1s',count=1}\n\
    sweep.delay=['1ms','2ms','3ms']";

fn job() -> Job {
    Job::new("test", "test.toml", TEXT).unwrap()
}

fn options(results: &Path, threads: usize) -> RunOptions {
    RunOptions {
        results: results.into(),
        threads: Some(threads),
        command: "antiphon lab run test.toml".into(),
        fresh: false,
        real: None,
    }
}

/// Figures that depend only on the run.
fn figures(setup: &Setup, seed: u64) -> Result<RunFigures, String> {
    let delay_mean_ms = Some(seed as f64 / 3.0);
    let figures = StreamFigures { delay_mean_ms, ..StreamFigures::default() };
    Ok(RunFigures { streams: vec![(setup.traffic[0].name.clone(), figures)], media: Vec::new(), events: 10 })
}

fn file(results: &Path, name: &str) -> String {
    std::fs::read_to_string(results.join("test").join(name)).unwrap()
}

#[test]
fn results_are_the_same_on_one_and_on_many_threads() {
    let (one, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut seen, stop) = (Vec::new(), Stop::new());
    run_in(&job(), &options(one.path(), 1), &stop, &mut |p| seen.push(p.done), &figures).unwrap();
    let outcome = run_in(&job(), &options(many.path(), 7), &stop, &mut |_| {}, &figures).unwrap();
    assert_eq!(
        (outcome.finished.len(), outcome.interrupted, outcome.results().is_complete()),
        (15, false, true)
    );
    assert_eq!((seen[0], *seen.last().unwrap()), (0, 15));
    for name in ["results.csv", "summary.csv", "media.csv", "scenario.toml"] {
        assert_eq!(file(one.path(), name), file(many.path(), name), "{name}");
    }
    assert_eq!(file(one.path(), "results.csv").lines().count(), 16);
    let runs = file(one.path(), "runs.jsonl");
    assert!(runs.contains("antiphon lab run test.toml --run 14") && runs.lines().count() == 16, "{runs}");
}

#[test]
fn a_stopped_experiment_continues_with_equal_results() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run_in(&job(), &options(whole.path(), 2), &Stop::new(), &mut |_| {}, &figures).unwrap();
    let begun = AtomicU32::new(0);
    for part in 0..3 {
        let stop = Stop::new();
        let world = |setup: &Setup, seed: u64| {
            if begun.fetch_add(1, Ordering::Relaxed) % 6 == 5 && part < 2 {
                stop.ask();
                return Err("stopped".into());
            }
            figures(setup, seed)
        };
        let outcome = run_in(&job(), &options(parts.path(), 1), &stop, &mut |_| {}, &world).unwrap();
        assert_eq!((outcome.interrupted, outcome.before), (part < 2, 5 * part), "{part}");
        // The tables of the existing runs are written each time.
        assert_eq!(file(parts.path(), "results.csv").lines().count() as u32, 1 + 5 * (part + 1));
    }
    assert_eq!(file(parts.path(), "results.csv"), file(whole.path(), "results.csv"));
    // The last time there is nothing to do.
    let idle = |_: &Setup, _: u64| -> Result<RunFigures, String> { panic!("all runs are there") };
    let outcome = run_in(&job(), &options(parts.path(), 2), &Stop::new(), &mut |_| {}, &idle).unwrap();
    assert_eq!((outcome.before, outcome.finished.len()), (15, 15));
    assert_eq!(kept(&job(), parts.path(), Setting::Model).unwrap().0, outcome.results());
}

#[test]
fn more_repetitions_and_other_points_take_over_what_is_there() {
    let results = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    run_in(&job(), &options(results.path(), 2), &stop, &mut |_| {}, &figures).unwrap();
    let changes = Changes {
        repetitions: Some(7),
        seed: None,
        set: vec![("delay".into(), vec!["2ms".into(), "9ms".into()])],
    };
    let job = job().with(&changes).unwrap();
    let outcome = run_in(&job, &options(results.path(), 2), &stop, &mut |_| {}, &figures).unwrap();
    assert_eq!((outcome.before, outcome.planned), (5, 14));
    let numbers: Vec<u32> = outcome.finished.iter().map(|kept| kept.run.index).collect();
    assert_eq!(numbers, (0..14).collect::<Vec<_>>());
}

#[test]
fn a_torn_journal_loses_its_last_line_only() {
    let results = tempfile::tempdir().unwrap();
    run_in(&job(), &options(results.path(), 2), &Stop::new(), &mut |_| {}, &figures).unwrap();
    let whole = file(results.path(), "results.csv");
    let path = results.path().join("test/runs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    for cut in [3, 200, text.len() - 10] {
        std::fs::write(&path, &text[..text.len() - cut]).unwrap();
        let outcome =
            run_in(&job(), &options(results.path(), 2), &Stop::new(), &mut |_| {}, &figures).unwrap();
        let lines = text[..text.len() - cut].matches('\n').count().saturating_sub(1) as u32;
        assert_eq!(outcome.before, lines, "{cut}");
        assert_eq!(file(results.path(), "results.csv"), whole, "{cut}");
    }
}

#[test]
fn results_of_another_scenario_or_build_are_not_mixed_in() {
    let results = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    run_in(&job(), &options(results.path(), 2), &stop, &mut |_| {}, &figures).unwrap();
    let other = Job::new("test", "test.toml", &TEXT.replace("'3ms'", "'4ms'")).unwrap();
    let refused = run_in(&other, &options(results.path(), 2), &stop, &mut |_| {}, &figures).unwrap_err();
    assert!(refused.message.contains("--fresh") && refused.message.contains("\"Test\""), "{refused}");
    assert!(kept(&other, results.path(), Setting::Model).is_err());
    let fresh = RunOptions { fresh: true, ..options(results.path(), 2) };
    let outcome = run_in(&other, &fresh, &stop, &mut |_| {}, &figures).unwrap();
    assert_eq!((outcome.before, outcome.notes.len()), (0, 1));
    assert_eq!(file(results.path(), "runs.jsonl.old").lines().count(), 16);
    let path = results.path().join("test/runs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen(&build::id(), "0123456789abcdef", 1)).unwrap();
    let refused = run_in(&other, &options(results.path(), 2), &stop, &mut |_| {}, &figures).unwrap_err();
    assert!(refused.message.contains("another build"), "{refused}");
    std::fs::write(&path, "something else\n").unwrap();
    let refused = run_in(&other, &options(results.path(), 2), &stop, &mut |_| {}, &figures).unwrap_err();
    assert!(refused.message.contains("not a journal"), "{refused}");
}

#[test]
fn two_at_once_are_one_too_many() {
    let results = tempfile::tempdir().unwrap();
    let options = options(results.path(), 1);
    let (store, _) = Store::open(&job(), &header(&job(), &options), &options).unwrap();
    let refused = run_in(&job(), &options, &Stop::new(), &mut |_| {}, &figures).unwrap_err();
    assert!(refused.message.contains(&format!("process {}", std::process::id())), "{refused}");
    drop(store);
    // The lock file still exists, but is empty.
    assert!(results.path().join("test/lock").exists());
    run_in(&job(), &options, &Stop::new(), &mut |_| {}, &figures).unwrap();
}

#[test]
fn a_failed_run_is_reported_with_its_replay_command() {
    let results = tempfile::tempdir().unwrap();
    for threads in [1, 3] {
        let world = |setup: &Setup, seed: u64| match seed == job().scenario.plan()[7].seed {
            true if threads == 1 => panic!("index out of bounds"),
            true => Err("no such thing".into()),
            false => figures(setup, seed),
        };
        let error =
            run_in(&job(), &options(results.path(), threads), &Stop::new(), &mut |_| {}, &world).unwrap_err();
        let told = if threads == 1 { "a run failed: index out of bounds" } else { "run 7: no such thing" };
        assert!(error.message.contains(told), "{error}");
        assert!(error.message.contains("test.toml --run 7"), "{error}");
        // The runs that had ended are kept, and in the table.
        assert!(file(results.path(), "results.csv").lines().count() >= 8);
    }
}

#[test]
fn a_replayed_run_has_the_figures_it_had() {
    let results = tempfile::tempdir().unwrap();
    let job = job();
    let outcome = run(&job, &options(results.path(), 2), &Stop::new(), &mut |_| {}).unwrap();
    let again = replay(&job, 11, &[], None, &Stop::new()).unwrap();
    assert_eq!(again, outcome.finished[11]);
    assert!(again.events > 0 && again.streams[0].1.rtt_mean_ms.is_some_and(|rtt| rtt > 5.9), "{again:?}");
    assert!(replay(&job, 15, &[], None, &Stop::new()).unwrap_err().message.contains("0 to 14"));
}
