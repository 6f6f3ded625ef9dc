//! What a group costs: repairs, requests and reports.

use super::*;

#[test]
fn members_send_their_reports_to_the_sender() {
    let mut group = Group::new("", 2, 0.0);
    group.run(500);
    for (at, member) in group.members.iter_mut().enumerate() {
        let bytes = vec![at as u8; 30];
        member.end.send(group.now, Message::new(Tag(0), &bytes, None)).expect("room");
    }
    group.run(50);
    assert_eq!(group.came, [(PathId(1), vec![0; 30]), (PathId(2), vec![1; 30])]);
}

#[test]
fn without_repairs_it_sends_once_and_waits_for_nobody() {
    let mut group = Group::new("acks=never", 3, 0.1);
    group.stream(500, None);
    group.run(500);
    assert_eq!((group.traffic.repairs, group.outcomes()), (0, vec![Outcome::Released; 500]));
    assert!((0..3).all(|member| (20..90).contains(&group.missing(member))));
}

#[test]
fn redundancy_alone_mends_most_without_asking() {
    let mut group = Group::new("acks=never&parity=20%25", 3, 0.02);
    group.stream(1_000, Some(Duration::from_millis(200)));
    group.run(500);
    let Traffic { data, repairs, coded, .. } = group.traffic;
    // One for five packets, over the latest 64: mended as soon as as many combinations have come as packets are missing.
    let missing: usize = (0..3).map(|member| group.missing(member)).sum();
    assert!(missing <= 3, "{missing} of 3000 are missing; 60 were lost");
    assert!(coded == 200 && 4 * repairs < data, "{coded} coded, {repairs} bytes for {data}");
    assert_eq!(group.outcomes(), vec![Outcome::Released; 1_000]);
}

#[test]
fn damped_requests_of_hundreds_stay_few() {
    let mut group = Group::new("members=300", 300, 0.02);
    group.run(3_000);
    assert_eq!(group.joined(), 300);
    group.traffic = Traffic { first_of: group.traffic.first_of, ..Traffic::default() };
    group.stream(1_000, Some(Duration::from_millis(300)));
    group.run(1_000);
    let missing: usize = (0..300).map(|member| group.missing(member)).sum();
    let Traffic { data, repairs, reports, .. } = group.traffic;
    // 6000 are lost. Without damping each would be asked for: 100 bytes of request for 20 bytes a member.
    assert!(missing < 600, "{missing} of 300000 are missing");
    assert!(4 * repairs <= data + 4 * 15_000, "{repairs} bytes of repairs for {data}");
    assert!(reports < data / 4, "{reports} bytes of reports for {data}");
}

/// Where all lack the same, few ask and they ask early; where each lacks its own, all ask soon. Before it was told apart, all of these asked within
/// a round trip, and had no request left for the next loss.
#[test]
fn losses_that_all_have_alike_are_told_from_those_of_each() {
    let budget = Some(Duration::from_millis(80));
    let run = |own: f64, common: f64| {
        let mut group = Group::new("members=0", 200, own);
        group.run(300);
        group.stream(40, budget);
        group.run(700);
        assert_eq!(group.joined(), 200);
        (group.common_loss, group.traffic) = (common, Traffic::default());
        let before = group.next;
        group.stream(2_000, budget);
        group.run(500);
        let missing = (0..200).map(|member| group.missing(member)).sum::<usize>() as f64 / 200.0;
        (group.sender.alike_for_tests(), missing / (group.next - before) as f64, group.traffic.reports)
    };
    let (degree, missing, reports) = run(0.0, 0.02);
    // Until it is known, a few are asked for too late (before: 1 %).
    assert!(degree > 0.8 && missing < 0.002, "{degree} {missing}");
    // 40 losses: a report has 100 bytes, and a twentieth of the data's bytes are reports in any case.
    assert!(reports < 2_000 * LEN / 20 + 40 * 20 * 100, "{reports}");
    let (degree, missing, _) = run(0.02, 0.0);
    println!("{degree} {missing}");
    assert!(degree < 0.1 && missing < 0.001, "{degree} {missing}");
}

/// On a channel that members share, requests at the same moment collide with each other and with the stream. When they hear the packet behind
/// a loss that all have alike they hear it at once.
#[test]
fn members_that_lack_the_same_do_not_all_ask_at_once() {
    for (members, at_once) in [(4, 4), (5, 3), (8, 4), (16, 6)] {
        let mut group = Group::new(&format!("members={members}"), members, 0.0);
        group.run(500);
        group.stream(200, Some(Duration::from_millis(300)));
        assert_eq!(group.joined(), members);
        group.common_loss = 0.05;
        // It is learnt that losses are alike.
        group.stream(400, Some(Duration::from_millis(300)));
        let before = group.next;
        let (mut most, mut asked) = (0, 0);
        for _ in 0..1_000 {
            group.send(LEN, Some(Duration::from_millis(300)));
            for _ in 0..5 {
                group.seen.clear();
                group.run(1);
                let reports = group.seen.iter().filter(|(.., ours)| !ours).count();
                (most, asked) = (most.max(reports), asked + reports);
            }
        }
        group.run(500);
        let case = format!("{members} members: {most} at once, {asked} in all");
        assert!(most <= at_once, "{case}");
        let missing: usize = (0..members).map(|member| group.missing(member)).sum();
        assert!(missing * 1_000 <= (group.next - before) as usize * members, "{case}, {missing} missing");
    }
}

#[test]
fn repairs_and_requests_keep_their_share_and_mend_most() {
    // Members, loss, deadline in ms; most that may be missing, in percent. Without repairs it is the loss.
    let cases = [
        (2, 0.1, 80, 1.0),
        (10, 0.02, 80, 0.2),
        (10, 0.1, 80, 1.5),
        (10, 0.1, 300, 0.2),
        (100, 0.02, 80, 0.1),
        (100, 0.02, 300, 0.05),
        (100, 0.1, 80, 1.5),
        (100, 0.1, 300, 0.2),
    ];
    for (members, loss, budget, most) in cases {
        let mut group = Group::new(&format!("members={members}"), members, loss);
        group.run(3_000);
        assert_eq!(group.joined(), members);
        group.traffic = Traffic { first_of: group.traffic.first_of, ..Traffic::default() };
        group.stream(1_000, Some(Duration::from_millis(budget)));
        group.run(1_000);
        let missing: usize = (0..members).map(|member| group.missing(member)).sum();
        let missing = missing as f64 / (10 * members) as f64;
        let Traffic { data, repairs, reports, .. } = group.traffic;
        let case = format!("{members} members, {loss}, {budget} ms: {missing:.2} % missing");
        assert!(missing <= most, "{case}");
        // Ten packets before any data, and a second as if the stream went on; the last one may go beyond.
        let granted = data / 4 + 15_000 + 200 * PACKET / 4 + PACKET;
        assert!(repairs <= granted, "{case}, {repairs} bytes of repairs for {data}");
        assert!(4 * reports <= data, "{case}, {reports} bytes of reports for {data}");
    }
}
