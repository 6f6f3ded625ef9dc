//! A program that does everything wrong gets errors.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::installed::{Installed, Kind};
use crate::program::Program;

const TIME: Duration = Duration::from_secs(120);

#[test]
fn wrong_calls_get_errors() {
    makes_every_mistake(Kind::Shared, Installed::run);
}

#[test]
#[ignore = "the compiler's sanitisers slow programs down and need their libraries"]
fn the_sanitisers_find_nothing_behind_wrong_calls() {
    let installed = Installed::get();
    finds_faults(
        |program| Command::new(program),
        &installed.compile("tests/c/faulty.c", Kind::Sanitised),
        &["an argument"],
    );
    makes_every_mistake(Kind::Sanitised, Installed::run);
}

#[test]
#[ignore = "needs valgrind (scripts/install-peers)"]
fn valgrind_finds_nothing_behind_wrong_calls() {
    let installed = Installed::get();
    let faulty = installed.compile("tests/c/faulty.c", Kind::Shared);
    for arguments in [&["an argument"][..], &[]] {
        finds_faults(|program| installed.run_watched(program), &faulty, arguments);
    }
    makes_every_mistake(Kind::Shared, Installed::run_watched);
}

/// The programs check each answer themselves.
fn makes_every_mistake(kind: Kind, run: impl Fn(&Installed, &Path) -> Command) {
    let installed = Installed::get();
    for source in ["tests/c/bad_input.c", "tests/c/bad_changes.c"] {
        let program = installed.compile(source, kind);
        Program::start(&mut run(installed, &program), TIME).succeeds();
    }
}

/// First the tools: one that finds nothing in a faulty program proves nothing about another.
fn finds_faults(run: impl Fn(&Path) -> Command, faulty: &Path, arguments: &[&str]) {
    let output = run(faulty).args(arguments).output().expect("it starts");
    assert!(!output.status.success(), "nothing was found: {}", String::from_utf8_lossy(&output.stderr));
}
