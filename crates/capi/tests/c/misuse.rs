//! A program that does everything wrong gets errors.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use antiphon_testkit::free_ports;

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
    let free = format!("rtp://@127.0.0.1:{}", free_ports(1));
    for (source, argument) in [("tests/c/bad_input.c", None), ("tests/c/bad_changes.c", Some(free))] {
        let program = installed.compile(source, kind);
        Program::start(run(installed, &program).args(argument), TIME).succeeds();
    }
}

/// First the tools: one that finds nothing in a faulty program proves nothing about another.
fn finds_faults(run: impl Fn(&Path) -> Command, faulty: &Path, arguments: &[&str]) {
    let output = run(faulty).args(arguments).output().expect("it starts");
    assert!(!output.status.success(), "nothing was found: {}", String::from_utf8_lossy(&output.stderr));
}
