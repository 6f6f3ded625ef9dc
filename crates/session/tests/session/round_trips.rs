//! The round trip that a sender shows is the path's, whatever its transport repairs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::Instant;

use crate::world::{World, ms, receive_session, send_session};
use antiphon_testkit::{Kept, Taken, stereo};

/// Drops every second report when it is sent for the first time. Reports are those that contain their sender's name.
fn every_second_report(name: &'static [u8]) -> Taken {
    let (mut seen, mut reports) = (BTreeSet::new(), 0);
    Box::new(move |_, datagram| {
        let Some(at) = datagram.windows(name.len()).position(|window| window == name) else { return false };
        // What stands before the report differs from one transmission to the next, and what is behind the name is the same in
        // all reports. The counters and times just before it are the report's own.
        let is_new = seen.insert(datagram[at.saturating_sub(24)..at].to_vec());
        reports += u32::from(is_new);
        is_new && reports % 2 == 0
    })
}

/// Round trips shown while half of one side's reports, or the other's, are lost and repaired.
fn shown(scheme: &'static str, from_sender: bool) -> Vec<Duration> {
    let far = receive_session(scheme, Some(ms(80)), &Kept::default());
    let mut world = World::linked(send_session(scheme, stereo(), 48_000 * 30, 5), far, "delay=10ms", 3);
    match from_sender {
        true => world.up.taken = Some(every_second_report(b"near")),
        false => world.down.taken = Some(every_second_report(b"far")),
    }
    let shown = RefCell::new(Vec::new());
    world.run_while(Instant::from_millis(29_000), |world| {
        shown.borrow_mut().extend(world.near.last_report().and_then(|report| report.round_trip));
        true
    });
    let way = if from_sender { &world.up } else { &world.down };
    assert!(way.lost >= 2, "{scheme}, reports of the sender {from_sender}: {} were lost", way.lost);
    shown.into_inner()
}

#[test]
fn a_repaired_report_measures_no_round_trip() {
    for scheme in ["sctp", "srp", "arq", "xtp"] {
        for from_sender in [true, false] {
            let shown = shown(scheme, from_sender);
            let (least, most) = (shown.iter().min(), shown.iter().max());
            println!("{scheme}, sender's {from_sender}: {least:?} to {most:?}");
            // Reports count in 1/65536 s.
            let is_path = |shown: &Duration| shown.abs_diff(ms(20)) < Duration::from_micros(100);
            assert!(
                shown.iter().all(is_path),
                "{scheme}, reports of the sender {from_sender}: up to {most:?}"
            );
            assert!(shown.len() > 1000, "it is shown all the time: {}", shown.len());
        }
    }
}
