//! Flags win over the environment, the environment over the file. Checked with the link that `link` reports.

use std::path::Path;

use crate::common::{Ran, antiphon, finish};
use serde_json::Value;

/// What `link` reports at its start, with a file and the environment.
fn link(file: &str, environment: &[(&str, &str)], arguments: &[&str]) -> (Ran, Option<Value>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("antiphon.toml");
    std::fs::write(&path, file).unwrap();
    let mut command = antiphon();
    command.args(["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--seconds", "50ms"]);
    command.args(["--config", path.to_str().unwrap()]).args(arguments).envs(environment.iter().copied());
    let ran = finish(&mut command);
    let first = ran.out.lines().next().and_then(|line| serde_json::from_str(line).ok());
    (ran, first)
}

fn loss(file: &str, environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let (ran, record) = link(file, environment, arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let record = record.unwrap_or_else(|| panic!("no record: {}", ran.out));
    record["link"]["up"].as_str().unwrap().into()
}

#[test]
fn flag_over_environment_over_section_over_file() {
    let file = "json = true\nloss = '1%'\n[link]\nloss = '2%'\n";
    assert_eq!(loss("json = true\nloss = '1%'", &[], &[]), "loss=1%");
    assert_eq!(loss(file, &[], &[]), "loss=2%");
    assert_eq!(loss(file, &[("ANTIPHON_LOSS", "3%")], &[]), "loss=3%");
    assert_eq!(loss(file, &[("ANTIPHON_LOSS", "3%")], &["--loss", "4%"]), "loss=4%");
    assert_eq!(loss("", &[("ANTIPHON_JSON", "yes")], &[]), "ideal");
}

#[test]
fn sections_of_other_commands_do_not_matter() {
    assert_eq!(
        loss("json = true\n[compare]\nlink = 'dsl'\nseconds = '3s'\ntransports = ['rtp', 'tcp']", &[], &[]),
        "ideal"
    );
}

#[test]
fn a_refused_value_is_found_in_the_file() {
    let (ran, _) = link("\nidle = 60", &[], &[]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("60ms") && ran.err.contains("antiphon.toml, line 2"), "{}", ran.err);
    let (ran, _) = link("seed = 1\n\nlos = '1%'", &[], &[]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("line 3") && ran.err.contains("'loss'"), "{}", ran.err);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link.toml");
    std::fs::write(&path, "[compare]\nlink = 'wifi-hom'").unwrap();
    let ran = finish(antiphon().args(["compare", "--config", path.to_str().unwrap()]));
    assert!(ran.err.contains("'wifi-home'") && ran.err.contains("link.toml, line 2"), "{}", ran.err);
    let (ran, _) = link("", &[("ANTIPHON_IDLE", "60")], &[]);
    assert_eq!(ran.code, Some(2));
}

#[test]
fn a_missing_file_is_named() {
    let ran = finish(antiphon().args(["devices", "--config", "/nowhere/antiphon.toml"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("/nowhere/antiphon.toml"), "{}", ran.err);
    assert!(!Path::new("/nowhere").exists());
}
