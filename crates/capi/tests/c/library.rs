//! The installed files: names, symbols, links, and the pkg-config file.

use std::process::Command;

use crate::installed::{Installed, Kind, crate_directory};

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_shared_library_exports_exactly_the_headers_names() {
    let installed = Installed::get();
    let library = installed.path().join("lib/libantiphon.so");
    let shown = output(Command::new("nm").args(["-D", "--defined-only", "-P"]).arg(library));
    let mut shown: Vec<&str> = shown.lines().filter_map(|line| line.split(' ').next()).collect();
    shown.sort_unstable();
    let mut named = Vec::new();
    for header in ["srp.h", "antiphon.h"] {
        let text = std::fs::read_to_string(crate_directory().join("include").join(header)).unwrap();
        // A function's name is before its first bracket, at the beginning of a line.
        let starts = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let names =
            starts.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next().map(String::from));
        named.extend(names);
    }
    named.sort_unstable();
    assert_eq!(shown, named);
    assert_eq!(shown.iter().filter(|name| name.starts_with("srp_")).count(), 6);
}

#[test]
fn programs_ask_for_the_soname_that_is_installed() {
    let installed = Installed::get();
    let program = installed.compile("examples/messages.c", Kind::Shared);
    let asked = output(Command::new("readelf").env("LC_ALL", "C").arg("-d").arg(program));
    assert!(asked.contains("(NEEDED)") && asked.contains("[libantiphon.so.0.1]"), "{asked}");
    let real = std::fs::canonicalize(installed.path().join("lib/libantiphon.so.0.1")).unwrap();
    let file = format!("libantiphon.so.{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(real.file_name().unwrap().to_string_lossy(), file);
}

#[test]
fn programs_of_1990_may_include_srp_h() {
    let mut command = Command::new("cc");
    command.args(["-std=c90", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    output(command.arg(crate_directory().join("include/srp.h")));
}

#[test]
#[ignore = "needs pkg-config (scripts/install-peers)"]
fn pkg_config_agrees() {
    let installed = Installed::get();
    let ask = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", installed.path().join("lib/pkgconfig"));
        output(command.args(arguments).arg("antiphon")).trim().to_string()
    };
    assert_eq!(ask(&["--cflags"]), installed.pkg_config("Cflags"));
    assert_eq!(ask(&["--libs"]), installed.pkg_config("Libs"));
    assert_eq!(ask(&["--modversion"]), env!("CARGO_PKG_VERSION"));
    let both = format!("{} {}", installed.pkg_config("Libs"), installed.pkg_config("Libs.private"));
    assert_eq!(ask(&["--static", "--libs"]), both);
}

#[test]
#[ignore = "needs a C++ compiler (scripts/install-peers)"]
fn everything_is_cplusplus_too() {
    let installed = Installed::get();
    for source in ["examples/srp_stream.c", "examples/messages.c"] {
        installed.compile(source, Kind::CPlusPlus);
    }
    for source in ["tests/c/bad_input.c", "tests/c/bad_changes.c", "tests/c/change_transport.c"] {
        installed.compile(source, Kind::CPlusPlus);
    }
}
