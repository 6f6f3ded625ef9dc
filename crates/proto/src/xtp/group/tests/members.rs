//! Members that come, leave, die, or are told to leave.

use super::*;

/// A hundred report once a second, and two reports that are lost in a row leave three seconds of silence: those are asked.
#[test]
fn no_member_that_answers_is_put_out() {
    for query in ["", "&reliability=full"] {
        let mut group = Group::new(&format!("members=100{query}"), 100, 0.1);
        group.one_way = Duration::from_millis(100);
        group.run(4_000);
        group.stream(3_000, Some(Duration::from_millis(300)));
        let left = group.events.iter().filter(|event| matches!(event, Event::MemberLeft { .. })).count();
        assert_eq!((group.joined(), left), (100, 0), "'{query}'");
    }
}

#[test]
fn a_member_that_dies_stalls_nobody() {
    let mut group = Group::new("reliability=full&order=ordered&members=8", 8, 0.02);
    group.run(500);
    group.stream(200, None);
    group.members[3].alive = false;
    let before = group.now;
    group.stream(200, None);
    let others = |group: &Group| {
        (0..8).filter(|at| *at != 3).map(|at| group.members[at].messages.len()).min().expect("seven")
    };
    // 400 were sent, the last 50 within the quarter of a second that repairs take.
    assert!(others(&group) >= 350, "{}", others(&group));
    group.stream(500, None);
    assert!(group.events.contains(&left(4, CloseReason::TimedOut)));
    assert!(group.now.since(before) < Duration::from_millis(4_000));
    group.run(1_500);
    assert_eq!(others(&group), 900);
    assert!(group.outcomes().iter().all(|outcome| *outcome == Outcome::Acked));
}

#[test]
fn a_member_that_comes_late_has_all_from_then_and_one_that_leaves_has_left() {
    let mut group = Group::new("", 3, 0.0);
    group.members[2].alive = false;
    group.run(500);
    group.stream(100, Some(Duration::from_millis(80)));
    group.members[2].alive = true;
    group.stream(100, Some(Duration::from_millis(80)));
    let late = &group.members[2].messages;
    assert!(late[0] >= 97 && late[0] <= 101, "{}", late[0]);
    // The last two are on their way.
    assert_eq!(late.len() as u64, 198 - late[0]);
    group.members[1].end.close(group.now, CloseMode::Graceful);
    group.stream(20, Some(Duration::from_millis(80)));
    assert_eq!(group.members[1].events.last(), Some(&Event::Closed(CloseReason::Local)));
    assert!(group.events.contains(&left(2, CloseReason::Peer)));
}

#[test]
fn a_member_whose_path_carries_a_tenth_is_told_and_leaves() {
    let mut group = Group::new("reliability=full&members=4", 4, 0.01);
    group.run(500);
    group.stream(20, None);
    group.members[0].loss = 0.9;
    group.stream(1_600, None);
    group.run(2_000);
    assert!(group.events.contains(&left(1, CloseReason::Refused)));
    assert!(group.traffic.told >= 1);
    // It goes on listening.
    assert!(!group.members[0].events.iter().any(|event| matches!(event, Event::Closed(_))));
    assert!((1..4).all(|member| group.missing(member) == 0));
}

#[test]
fn a_member_that_is_told_to_leave_does_not_come_back_at_once() {
    let mut group = Group::new("reliability=full&members=2", 2, 0.0);
    group.run(500);
    group.sender.expel_for_tests(PathId(1));
    group.stream(1_000, None);
    let back = group.events.iter().filter(|event| **event == Event::PathProved(PathId(1))).count();
    assert_eq!((back, group.missing(0)), (1, 2), "the last two are on their way");
}

/// Everything that was sent, and room for nothing more.
fn full(group: &Group) -> Status {
    Status { rseq: group.sender.next_for_tests(), alloc: 0, echo: 0 }
}

#[test]
fn a_member_that_takes_nothing_is_told_and_the_others_go_on() {
    let mut group = Group::new("reliability=full&members=3", 3, 0.0);
    group.run(500);
    group.members[0].alive = false;
    for n in 0..300 {
        // It has everything, and says that it takes no more.
        let mut bytes = reported(&group, full(&group), 1_000 + n);
        let input = Input::Datagram { path: PathId(1), bytes: &mut bytes, received_at: group.now };
        if !group.events.contains(&left(1, CloseReason::Refused)) {
            group.sender.handle_input(group.now, input);
        }
        group.send(LEN, None);
        group.run(10);
        if group.events.contains(&left(1, CloseReason::Refused)) {
            break;
        }
    }
    group.run(1_000);
    assert!(group.events.contains(&left(1, CloseReason::Refused)));
    assert!((1..3).all(|member| group.missing(member) == 0));
}

#[test]
fn without_repairs_no_member_holds_up_the_stream() {
    let mut group = Group::new("acks=never&members=1", 1, 0.0);
    group.run(500);
    let mut bytes = reported(&group, full(&group), 1_000);
    let input = Input::Datagram { path: PathId(1), bytes: &mut bytes, received_at: group.now };
    group.sender.handle_input(group.now, input);
    group.members[0].alive = false;
    group.stream(20, None);
    assert_eq!(group.outcomes(), vec![Outcome::Released; 20]);
}

#[test]
fn after_a_long_outage_a_member_goes_on() {
    for query in ["acks=never", ""] {
        let mut group = Group::new(query, 2, 0.0);
        group.run(500);
        group.stream(20, Some(Duration::from_millis(80)));
        group.members[0].loss = 1.0;
        // 6.5 MB, more than the window.
        for _ in 0..130 {
            (0..50).for_each(|_| group.send(LEN, Some(Duration::from_millis(80))));
            group.run(100);
        }
        group.members[0].loss = 0.0;
        let before = group.members[0].messages.len();
        group.stream(400, Some(Duration::from_millis(80)));
        let after = group.members[0].messages.len() - before;
        assert!(after >= 280, "'{query}': {after} of 400");
    }
}

#[test]
fn what_a_member_says_before_it_leaves_is_heard() {
    let mut group = Group::new("", 1, 0.0);
    group.run(500);
    let (now, member) = (group.now, &mut group.members[0].end);
    member.send(now, Message::new(Tag(0), b"goodbye", None)).expect("room");
    member.close(now, CloseMode::Graceful);
    group.run(50);
    assert_eq!(group.came, [(PathId(1), b"goodbye".to_vec())]);
    assert!(group.events.contains(&left(1, CloseReason::Peer)));
}

#[test]
fn a_member_whose_sender_is_gone_falls_silent() {
    let mut group = Group::new("", 2, 0.0);
    group.run(500);
    group.stream(20, Some(Duration::from_millis(80)));
    group.members.iter_mut().for_each(|member| member.loss = 1.0);
    group.run(5_000);
    let before = group.traffic.reports;
    group.run(10_000);
    assert_eq!(group.traffic.reports, before);
}
