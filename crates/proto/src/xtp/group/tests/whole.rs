//! What comes whole, in order or in time, through losses.

use super::*;

#[test]
fn eight_members_get_everything_through_ten_percent_loss_each() {
    let mut group = Group::new("reliability=full&order=ordered&members=8", 8, 0.1);
    group.run(2_000);
    assert_eq!(group.joined(), 8);
    group.stream(2_000, None);
    group.run(3_000);
    for (at, member) in group.members.iter().enumerate() {
        assert!(member.messages.iter().copied().eq(0..2_000), "member {at}: {}", member.messages.len());
    }
    assert_eq!(group.outcomes(), vec![Outcome::Acked; 2_000]);
    let Traffic { data, repairs, coded, reports, .. } = group.traffic;
    // Each packet is lost by one of eight with 57 %: without codes repairs would take more than that.
    assert!(4 * repairs <= data + 4 * 15_000, "{repairs} bytes of repairs for {data}");
    assert!(coded > 100, "{coded} coded repairs");
    assert!(reports < data / 4, "{reports} bytes of reports for {data}");
    group.sender.close(group.now, CloseMode::Graceful);
    group.run(200);
    assert_eq!(group.events.last(), Some(&Event::Closed(CloseReason::Local)));
    let closed = |member: &Member| member.events.last() == Some(&Event::Closed(CloseReason::Peer));
    // The end is said three times: one of 1000 misses it.
    assert!(group.members.iter().filter(|member| closed(member)).count() >= 7);
}

/// 1.4 MB/s over a round trip of 200 ms: 700 packets and more follow a gap before its repair can come.
#[test]
fn a_fast_stream_over_a_long_path_comes_whole() {
    let mut group = Group::new("reliability=full&order=ordered&members=8", 8, 0.02);
    group.one_way = Duration::from_millis(100);
    group.run(2_000);
    let mut behind = 0;
    for _ in 0..2_000 {
        for _ in 0..7 {
            group.send(LEN, None);
        }
        group.run(5);
        let slowest = group.members.iter().map(|member| member.messages.len()).min().expect("eight");
        behind = behind.max(group.next as usize - slowest);
    }
    group.run(3_000);
    for (at, member) in group.members.iter().enumerate() {
        assert!(member.messages.iter().copied().eq(0..14_000), "member {at}: {}", member.messages.len());
    }
    // A second and a half.
    assert!(behind < 2_100, "{behind}");
    let Traffic { data, repairs, .. } = group.traffic;
    assert!(4 * repairs <= data + 4 * 100_000, "{repairs} bytes of repairs for {data}");
}

/// 1.2 MB/s from one moment to the next: until then members report every ten seconds, and by the rate of this stream in less than two.
#[test]
fn a_stream_that_becomes_fast_does_not_wait_for_a_thousand_reports() {
    let mut group = Group::new("reliability=full&members=1000", MOST_MEMBERS, 0.0);
    group.one_way = Duration::from_millis(100);
    group.run(3_000);
    assert_eq!(group.joined(), MOST_MEMBERS);
    // More than the window and the queue hold.
    for _ in 0..4_200 {
        group.seen.clear();
        group.send(1_200, None);
        group.run(1);
        assert!(group.seen.iter().any(|(_, len, ours)| *ours && *len > 1_000), "at {:?}", group.now);
    }
    assert!(!group.events.iter().any(|event| matches!(event, Event::MemberLeft { .. })));
}

/// A tenth of 2000 packets a second: there are more gaps than a report tells.
#[test]
fn many_short_packets_come_whole_through_losses_over_a_long_path() {
    let mut group = Group::new("reliability=full&order=ordered", 1, 0.1);
    group.one_way = Duration::from_millis(100);
    group.run(2_000);
    for _ in 0..1_000 {
        (0..10).for_each(|_| group.send(100, None));
        group.run(5);
    }
    group.run(5_000);
    assert!(group.members[0].messages.iter().copied().eq(0..10_000), "{}", group.members[0].messages.len());
}

/// Eight members each lose a tenth of 2000 short packets a second. A combination that named its packets by 64 lengths was twice as long as one of them, so
/// that a quarter of the rate did not carry the repairs.
#[test]
fn short_packets_come_whole_to_eight_through_ten_percent_loss_each() {
    for one_way in [10, 100] {
        let mut group = Group::new("reliability=full&order=ordered&members=8", 8, 0.1);
        group.one_way = Duration::from_millis(one_way);
        group.run(2_000);
        assert_eq!(group.joined(), 8);
        group.traffic = Traffic { first_of: group.traffic.first_of, ..Traffic::default() };
        for _ in 0..1_000 {
            (0..10).for_each(|_| group.send(100, None));
            group.run(5);
        }
        // Repairs come within a second.
        let slowest = group.members.iter().map(|member| member.messages.len()).min().expect("eight");
        assert!(slowest >= 8_000, "{slowest}, {one_way} ms each way");
        let Traffic { data, repairs, reports, .. } = group.traffic;
        let case =
            format!("{repairs} bytes of repairs and {reports} of reports for {data}, {one_way} ms each way");
        assert!(4 * repairs <= data + 4 * 15_000 && 4 * reports <= data, "{case}");
        group.run(4_000);
        for (at, member) in group.members.iter().enumerate() {
            assert!(member.messages.iter().copied().eq(0..10_000), "member {at}: {}", member.messages.len());
        }
    }
}

/// Eight that lose a fifth each need more than a quarter.
#[test]
fn what_a_quarter_cannot_repair_is_told_and_takes_no_more() {
    let mut group = Group::new("reliability=full&order=ordered&members=8", 8, 0.2);
    group.run(2_000);
    for _ in 0..4_000 {
        // Refused while it is held up.
        let mut bytes = vec![group.next as u8; LEN];
        bytes[..8].copy_from_slice(&group.next.to_be_bytes());
        let sent = group.sender.send(group.now, Message::new(Tag(group.next), &bytes, None));
        group.next += u64::from(sent.is_ok());
        group.run(5);
    }
    let Traffic { data, repairs, .. } = group.traffic;
    // Ten packets before any data, and what may be saved up; as if it had not been held up.
    let most = 4_000 * PACKET_OF_LEN / 4 + 15_000 + 64 * 1_500;
    assert!(data / 5 < repairs && repairs <= most, "{repairs} of {most}");
    let told =
        group.events.iter().any(|event| matches!(event, Event::MemberLeft { why: CloseReason::Refused, .. }));
    assert!(told && group.traffic.told > 0, "{:?}", group.events.last());
    // What a member has is in order.
    assert!(group.members.iter().all(|member| member.messages.is_sorted()));
}

/// Bytes of a packet with a message of [`LEN`] bytes.
const PACKET_OF_LEN: usize = LEN + 40;

#[test]
fn long_messages_are_cut_and_joined() {
    let mut group = Group::new("reliability=full&members=3", 3, 0.1);
    group.run(2_000);
    for _ in 0..100 {
        group.send(10_000, None);
        group.run(50);
    }
    group.run(3_000);
    let missing: Vec<usize> = (0..3).map(|member| group.missing(member)).collect();
    assert_eq!(missing, [0; 3]);
}

#[test]
fn a_round_trip_that_changes_is_followed() {
    let mut group = Group::new("", 2, 0.02);
    group.run(500);
    for (one_way, least, most) in [(10, 18, 26), (40, 78, 86), (10, 18, 26)] {
        group.one_way = Duration::from_millis(one_way);
        group.stream(1_000, Some(Duration::from_millis(200)));
        for path in [PathId(1), PathId(2)] {
            let rtt =
                group.sender.path_stats(path).and_then(|stats| stats.srtt).expect("a member").as_millis();
            assert!((least..=most).contains(&rtt), "{rtt} ms by {path:?}, {one_way} ms each way");
        }
    }
}

#[test]
fn what_can_still_be_played_is_repaired_and_nothing_later() {
    let mut group = Group::new("", 8, 0.02);
    group.run(500);
    assert_eq!(group.joined(), 8);
    group.stream(2_000, Some(Duration::from_millis(80)));
    group.run(2_000);
    let missing: usize = (0..8).map(|member| group.missing(member)).sum();
    // 320 are lost; a repair is lost as often, and a second one comes in time, too.
    assert!(missing <= 32, "{missing} of 16000 are missing");
    let outcomes = group.outcomes();
    assert_eq!(outcomes.len(), 2_000);
    let acked = outcomes.iter().filter(|outcome| **outcome == Outcome::Acked).count();
    let expired = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Expired { .. })).count();
    // Some came after the last report on them that was not lost.
    assert!(
        expired <= missing + 5 && acked >= 1_960,
        "{expired} expired, {acked} acknowledged, {missing} missing"
    );
    // What is said to have come has come to all.
    for (number, outcome) in outcomes.iter().enumerate() {
        let lacks = |member: &Member| !member.messages.contains(&(number as u64));
        assert!(*outcome != Outcome::Acked || !group.members.iter().any(lacks), "{number}");
    }
}
