//! What each check says of values that it was given, and a round of real checks.

use std::time::Duration;

use antiphon_measure::Distribution;
use antiphon_net::{Scheduling, SocketBuffers, SocketOptions, WallClockState};
use antiphon_sound::Device;

use super::clocks::{RunClock, judge_run_clock, judge_wall_clock};
use super::loopback::{Difference, Tried, difference, judge};
use super::scheduling::{judge_priority, judge_waking};
use super::system::*;
use super::*;

/// A check has this verdict, says this, and names a remedy if there is something to change.
#[track_caller]
fn says(check: &Check, verdict: Verdict, found: &str, change: &str) {
    assert_eq!(check.verdict, verdict, "{check:?}");
    assert!(check.found.contains(found), "{check:?}");
    assert_eq!(check.change.is_some(), matches!(verdict, Verdict::Warning | Verdict::Fault), "{check:?}");
    let named = |has: &String| has.contains(change);
    assert!(check.change.as_ref().map_or(change.is_empty(), named), "{check:?}");
}

#[test]
fn priority_is_judged_by_what_was_granted_and_what_is_allowed() {
    let refused = || Scheduling::Ordinary("Operation not permitted; allow it".into());
    says(&judge_priority(&Scheduling::Fifo(60), Some(80)), Verdict::Ok, "SCHED_FIFO 60", "");
    says(&judge_priority(&Scheduling::Nice(-19), Some(0)), Verdict::Warning, "the limit is 0", "limits.d");
    says(&judge_priority(&refused(), Some(59)), Verdict::Warning, "priority 60 is refused", "LimitRTPRIO");
    says(&judge_priority(&refused(), Some(80)), Verdict::Warning, "though the limit", "SYS_NICE");
    says(&judge_priority(&refused(), None), Verdict::Warning, "though the limit", "SYS_NICE");
}

fn late(p99_ms: f64) -> Distribution {
    let mut histogram = antiphon_measure::Histogram::new();
    (0..100).for_each(|_| histogram.record(Duration::from_secs_f64(p99_ms / 1e3)));
    Distribution::from(&histogram)
}

#[test]
fn waking_is_judged_by_its_99th_percentile() {
    says(&judge_waking(&late(0.2)), Verdict::Ok, "p99 0.200 ms", "");
    says(&judge_waking(&late(5.0)), Verdict::Warning, "more playout delay", "governor");
    says(&judge_waking(&late(200.0)), Verdict::Fault, "sound breaks", "governor");
    let never = antiphon_measure::Histogram::new();
    says(&judge_waking(&Distribution::from(&never)), Verdict::NotChecked, "never", "");
    assert!((judge_waking(&late(5.0)).figures["late_p99_ms"] - 5.0).abs() < 0.01);
}

#[test]
fn buffers_and_limits_name_the_setting_that_is_too_low() {
    let asked = SocketOptions::default();
    let granted = |receive, send| Ok(SocketBuffers { receive, send });
    says(&judge_buffers(&asked, granted(1 << 20, 1 << 18)), Verdict::Ok, "1048576 bytes", "");
    let small = judge_buffers(&asked, granted(212_992, 1 << 18));
    says(&small, Verdict::Warning, "212992 of 1048576", "net.core.rmem_max=1048576");
    assert!(!small.change.unwrap().contains("wmem"));
    let short = judge_buffers(&asked, granted((1 << 20) - 1, 1 << 18));
    says(&short, Verdict::Warning, "1048575 of 1048576", "rmem_max");
    says(
        &judge_buffers(&asked, granted(1 << 20, 1000)),
        Verdict::Warning,
        "send",
        "net.core.wmem_max=262144",
    );
    says(&judge_buffers(&asked, Err("refused".into())), Verdict::Fault, "refused", "sandbox");
    says(&judge_open_files(Some(1024), 59), Verdict::Ok, "1024", "");
    says(&judge_open_files(Some(58), 59), Verdict::Warning, "takes 59", "nofile 4096");
    says(&judge_open_files(None, 59), Verdict::Ok, "no limit", "");
    says(&judge_locked_memory(Some(8 << 20), true), Verdict::Warning, "8388608 bytes", "memlock");
    says(&judge_locked_memory(Some(8 << 20), false), Verdict::Ok, "no server runs", "");
    says(&judge_locked_memory(Some(64 << 20), true), Verdict::Ok, "67108864", "");
    says(&judge_locked_memory(None, true), Verdict::Ok, "no limit", "");
}

#[test]
fn governors_other_than_performance_are_named() {
    let of = |names: &[&str]| judge_governors(&names.iter().map(|name| name.to_string()).collect());
    says(&of(&["performance"]), Verdict::Ok, "performance", "");
    says(&of(&["performance", "powersave"]), Verdict::Warning, "powersave", "cpupower");
    says(&of(&[]), Verdict::NotChecked, "virtual machine", "");
}

#[test]
fn clocks_are_judged_by_cost_resolution_and_steps() {
    let nanos = Duration::from_nanos;
    let clock = |reading, resolution| RunClock { source: Some("hpet"), resolution, reading: nanos(reading) };
    says(&judge_run_clock(&clock(30, Some(nanos(1)))), Verdict::Ok, "hpet) is read in 30 ns", "");
    says(&judge_run_clock(&clock(1500, Some(nanos(1)))), Verdict::Warning, "1500 ns", "clocksource=tsc");
    let ticks = Some(Duration::from_millis(4));
    says(&judge_run_clock(&clock(30, ticks)), Verdict::Warning, "steps of 4.0 ms", "HIGH_RES_TIMERS");
    says(&judge_run_clock(&clock(30, None)), Verdict::Ok, "30 ns", "");
    let state = |synchronised| Ok(WallClockState { synchronised, max_error: Duration::from_millis(3) });
    says(&judge_wall_clock(state(true), 0.1), Verdict::Ok, "to 3.0 ms", "");
    says(&judge_wall_clock(state(false), 0.1), Verdict::Warning, "one-way delays", "set-ntp");
    says(&judge_wall_clock(state(true), -250.0), Verdict::Warning, "set by -250.0 ms", "makestep");
    says(&judge_wall_clock(Err("refused".into()), 0.0), Verdict::NotChecked, "refused", "");
}

#[test]
fn network_and_devices_say_what_is_missing() {
    says(&judge_ipv6(Ok(())), Verdict::Ok, "::1", "");
    says(&judge_ipv6(Err("no address".into())), Verdict::Warning, "no address", "disable_ipv6");
    says(&judge_multicast(Ok(())), Verdict::Ok, "group", "");
    says(&judge_multicast(Err("timed out".into())), Verdict::Warning, "timed out", "239.0.0.0/8");
    let server = |name: &str, available| Device {
        name: name.into(),
        about: format!("{name}: start it"),
        source: Some(format!("{name}:")),
        sink: None,
        available,
        clocked: true,
        rate: None,
        channels: None,
        default: false,
    };
    let file = Device { clocked: false, available: true, ..server("file", true) };
    let none = judge_devices(&[file.clone(), server("jack", false), server("pulse", false)]);
    says(&none, Verdict::Warning, "only files", "jack: start it; pulse: start it");
    let one = judge_devices(&[file, server("jack", false), server("pulse", true)]);
    says(&one, Verdict::Ok, "can be used: pulse", "");
}

#[test]
fn a_difference_of_one_sample_is_found_wherever_it_is() {
    let sent: Vec<f32> = (1..=20).map(|n| n as f32).collect();
    let of = |heard: &[f32]| difference(&sent, heard, 2);
    let wrong = |wrong| Difference { sent: 10, wrong };
    assert_eq!(of(&sent), wrong(0));
    let followed = |more: [f32; 2]| [&sent[..], &more].concat();
    assert_eq!(of(&followed([0.0, 0.0])), wrong(0));
    assert_eq!(of(&followed([0.0, 0.5])), wrong(1));
    assert_eq!(of(&sent[..16]), wrong(2));
    let mut changed = sent.clone();
    changed[7] += 1.0;
    assert_eq!(of(&changed), wrong(1));
    // A shift by one sample frame is wrong everywhere.
    assert_eq!(of(&[&[0.0, 0.0], &sent[..18]].concat()), wrong(10));
    assert_eq!(of(&[]), wrong(10));
}

/// One real stream, whose figures are then changed.
fn tried() -> Tried {
    let choice = &chosen(&["rtp".into()]).unwrap()[0];
    over_loopback(choice, 64, OsClock::new(), &Stop::new()).expect("loopback")
}

#[test]
fn a_transport_is_judged_by_exactness_first_and_then_by_time() {
    let of = |change: &dyn Fn(&mut Tried)| {
        let mut tried = tried();
        // What a busy machine did to this stream is not what is judged here.
        (tried.figures.lost, tried.figures.late, tried.figures.expired) = (0, 0, 0);
        tried.differs.wrong = 0;
        tried.figures.rtt_ms = late(0.1);
        change(&mut tried);
        judge("rtp", Ok(tried))
    };
    says(&of(&|_| {}), Verdict::Ok, "24000 sample frames came back exactly", "");
    says(&of(&|tried| tried.figures.rtt_ms = late(3.0)), Verdict::Warning, "but slowly", "'waking'");
    says(&of(&|tried| tried.differs.wrong = 1), Verdict::Fault, "1 of 24000", "report it");
    let lost = |tried: &mut Tried| {
        tried.figures.lost = 2;
        tried.differs.wrong = 128;
    };
    says(&of(&lost), Verdict::Fault, "2 lost", "processors busy");
    says(&judge("tcp", Err("refused".into())), Verdict::Fault, "refused", "firewall");
    let nothing =
        |tried: &mut Tried| tried.figures.rtt_ms = Distribution::from(&antiphon_measure::Histogram::new());
    says(&of(&nothing), Verdict::Fault, "nothing came back", "firewall");
}

#[test]
fn a_round_checks_every_transport_and_tells_as_it_goes() {
    let mut told = Vec::new();
    let diagnosis = doctor(&DoctorOptions::default(), &Stop::new(), &mut |progress| {
        if let DoctorProgress::Found(check) = progress {
            told.push(check.clone());
        }
    })
    .unwrap();
    for check in &told {
        println!("{check:?}");
    }
    assert_eq!(diagnosis.checks, told);
    let names: Vec<&str> = told.iter().map(|check| check.name.as_str()).collect();
    for transport in antiphon_proto::TRANSPORTS {
        assert!(names.contains(&&*format!("loopback {}", transport.scheme)), "{names:?}");
    }
    for name in ["scheduling", "waking", "socket buffers", "clock", "wall clock", "ipv6", "devices"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // Packets that are late on a busy machine are a fault; changed samples never are the machine's.
    assert!(told.iter().all(|check| !check.found.contains("no packet is missing")), "{told:?}");
}

#[test]
fn nothing_is_checked_once_it_was_stopped() {
    let stop = Stop::new();
    stop.ask();
    let diagnosis = doctor(&DoctorOptions::default(), &stop, &mut |_| {}).unwrap();
    assert!(diagnosis.interrupted && diagnosis.checks.is_empty());
    let wrong = DoctorOptions { transports: vec!["ftp".into()] };
    assert!(doctor(&wrong, &Stop::new(), &mut |_| {}).is_err());
}
