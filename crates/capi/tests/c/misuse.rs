//! A program that does everything wrong gets errors.

use std::time::Duration;

use crate::installed::{Installed, Kind};
use crate::program::Program;

const TIME: Duration = Duration::from_secs(120);

#[test]
fn wrong_calls_get_errors() {
    let installed = Installed::get();
    let program = installed.compile("tests/c/bad_input.c", Kind::Shared);
    Program::start(&mut installed.run(&program), TIME).succeeds();
}

#[test]
#[ignore = "the compiler's sanitisers slow programs down and need their libraries"]
fn the_sanitisers_find_nothing_behind_wrong_calls() {
    let installed = Installed::get();
    let program = installed.compile("tests/c/bad_input.c", Kind::Sanitised);
    Program::start(&mut installed.run(&program), TIME).succeeds();
}

#[test]
#[ignore = "needs valgrind (scripts/install-peers)"]
fn valgrind_finds_nothing_behind_wrong_calls() {
    let installed = Installed::get();
    let program = installed.compile("tests/c/bad_input.c", Kind::Shared);
    Program::start(&mut installed.run_watched(&program), TIME).succeeds();
}
