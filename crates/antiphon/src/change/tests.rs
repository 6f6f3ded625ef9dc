//! Which change is planned where, and what the stream uses when a transport ends.

use antiphon_session::{ChangeFailure, StreamFraming};

use super::*;

#[test]
fn a_switch_is_a_uri_and_a_time() {
    let switch = |text: &str| text.parse::<Switch>();
    let expected = Switch { uri: "sctp://[::1]:9899?order=ordered".into(), at: Duration::from_millis(1500) };
    assert_eq!(switch("sctp://[::1]:9899?order=ordered@1.5s"), Ok(expected));
    for wrong in ["sctp://studio", "sctp://studio@", "sctp://studio@10", "@"] {
        let said = switch(wrong).unwrap_err();
        assert!(said.contains("@10s"), "'{wrong}' said: {said}");
    }
}

const FIRST: &str = "rtp://127.0.0.1:9";
const OTHERS: [&str; 3] = ["srp://127.0.0.1:9", "arq://127.0.0.1:9", "rtp://127.0.0.1:10"];

fn changes(options: SendOptions) -> Changes {
    let options = SendOptions { target: FIRST.into(), ..options };
    let uri = StreamUri::read(FIRST, &options.socket).unwrap();
    let stack = uri.stack(1, Duration::from_millis(80), StreamFraming::Rtp);
    Changes::read(&options, &uri, &stack).unwrap().0
}

fn planned(changes: &Changes) -> Vec<&str> {
    changes.planned.iter().map(|one| &*one.uri).collect()
}

#[test]
fn what_is_asked_for_now_comes_before_what_is_planned_for_later() {
    let later = Switch { uri: OTHERS[0].into(), at: Duration::from_secs(60) };
    let mut changes = changes(SendOptions { switch: vec![later], ..SendOptions::default() });
    let asker = changes.asker();
    asker.switch_to(OTHERS[1]).unwrap();
    asker.also(OTHERS[2]).unwrap();
    // Something else is about to take the first one's place.
    changes.moving = Some(WireId(77));
    changes.poll(Duration::from_secs(2), &mut |_| {});
    assert_eq!(planned(&changes), [OTHERS[2], OTHERS[1], OTHERS[0]]);
    assert_eq!(changes.begun, 1, "one beside the first waits for nothing");
    changes.moving = None;
    changes.poll(Duration::from_secs(2), &mut |_| {});
    assert_eq!((changes.begun, changes.moving), (2, Some(WireId(2))));
}

#[test]
fn one_beside_takes_the_place_of_a_first_one_that_ends() {
    let also = OTHERS[..2].iter().map(|uri| uri.to_string()).collect();
    let mut changes = changes(SendOptions { also, ..SendOptions::default() });
    let asker = changes.asker();
    changes.poll(Duration::ZERO, &mut |_| {});
    for wire in [2, 1] {
        changes.tell(WireId(wire), Change::Joined(WireId(wire)), &mut |_| {});
    }
    assert!(asker.also(OTHERS[2]).is_err(), "two at most");
    changes.tell(WIRE, Change::Failed(WIRE, ChangeFailure::Ended), &mut |_| {});
    let so_far = asker.so_far();
    assert_eq!((&*so_far.carrying, so_far.happened, so_far.failures.len()), (OTHERS[0], 2, 1));
    asker.also(OTHERS[2]).expect("one is beside the other now");
    assert!(asker.also(OTHERS[2]).is_err(), "two again");
}

#[test]
fn so_many_changes_may_wait_and_no_more() {
    let mut changes = changes(SendOptions::default());
    let asker = changes.asker();
    // None begins while another one is under way.
    changes.moving = Some(WireId(77));
    for _ in 0..2 {
        (0..MOST_WAITING).for_each(|_| asker.switch_to(OTHERS[0]).unwrap());
        assert_eq!(asker.switch_to(OTHERS[0]).unwrap_err().kind, crate::ErrorKind::Usage);
        changes.poll(Duration::ZERO, &mut |_| {});
    }
    assert_eq!((changes.planned.len(), changes.begun), (MOST_WAITING, 0));
    assert!(asker.switch_to(OTHERS[0]).is_err(), "the queue is full, too");
    assert_eq!(changes.finish(&mut |_| {}).len(), 2 * MOST_WAITING, "each is told");
}

#[test]
fn what_nobody_took_before_the_end_has_failed() {
    let changes = changes(SendOptions::default());
    let asker = changes.asker();
    asker.switch_to(OTHERS[0]).unwrap();
    let failures = changes.finish(&mut |_| {});
    assert_eq!(failures, [format!("{}: the stream ended before this change", OTHERS[0])]);
    assert_eq!(asker.so_far().failures, failures);
    assert_eq!(asker.switch_to(OTHERS[0]).unwrap_err().kind, crate::ErrorKind::Failed);
}
