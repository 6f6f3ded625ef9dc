//! `antiphon doctor`.

use serde_json::Value;

use crate::common::run;
use crate::json::verify;

#[test]
fn checks_are_told_with_a_verdict_and_the_exit_code_follows() {
    let ran = run(&["doctor", "-t", "rtp,tcp", "--json"]);
    verify("doctor", &ran.out, &["run", "check", "summary"]);
    let records: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let checks: Vec<&Value> = records.iter().filter(|record| record["record"] == "check").collect();
    let count = |verdict: &str| checks.iter().filter(|check| check["verdict"] == verdict).count();
    let summary = records.last().unwrap();
    for (field, verdict) in
        [("ok", "ok"), ("warnings", "warning"), ("faults", "fault"), ("not_checked", "not_checked")]
    {
        assert_eq!(summary[field], count(verdict), "{}", ran.out);
    }
    // A busy machine may be at fault; the exit code says what the records say.
    assert_eq!(ran.code, Some(i32::from(count("fault") > 0)), "{}", ran.out);
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"loopback rtp") && names.contains(&"loopback tcp"), "{names:?}");
    assert!(!names.contains(&"loopback sctp"), "{names:?}");
    for check in checks {
        let changes = matches!(check["verdict"].as_str(), Some("warning" | "fault"));
        assert_eq!(check["change"].is_string(), changes, "{check}");
        // Each check, and each figure that it measures, is on the page.
        let page = include_str!("../../../../docs/doctor.md");
        let name = check["name"].as_str().unwrap().replace("rtp", "TRANSPORT").replace("tcp", "TRANSPORT");
        assert!(page.contains(&format!("\n| `{name}` | ")), "{name}");
        for figure in check["figures"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{figure}`")), "{figure}");
        }
    }
}

#[test]
fn rows_fit_the_width_and_say_what_to_change() {
    let ran = run(&["doctor", "-t", "rtp"]);
    assert!(crate::common::width(&ran.out) <= 80, "{}", ran.out);
    assert!(ran.out.contains("loopback rtp"), "{}", ran.out);
    assert!(ran.err.contains(" warning") && ran.err.contains(" fault"), "{}", ran.err);
    let changes = ran.out.matches("change: ").count();
    let words = ran.out.lines().filter(|line| line.starts_with("warning ") || line.starts_with("FAULT "));
    assert_eq!(words.count(), changes, "{}", ran.out);
    let wrong = run(&["doctor", "-t", "ftp"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
}

#[test]
fn a_time_limit_ends_it() {
    let ran = run(&["doctor", "--time-limit", "1500ms"]);
    assert_eq!(ran.code, Some(124), "{}", ran.err);
    assert!(ran.err.contains("stopped before its end"), "{}", ran.err);
    assert!(!ran.out.contains("loopback xtp"), "{}", ran.out);
}
