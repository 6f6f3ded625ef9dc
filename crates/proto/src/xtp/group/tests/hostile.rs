//! Members and addresses that lie: each is counted and dropped, and the others lose nothing.

use super::*;
use crate::xtp::MAX_MESSAGE;

/// Gives the sender a packet from a path.
fn hear(group: &mut Group, path: PathId, mut bytes: Vec<u8>) {
    let input = Input::Datagram { path, bytes: &mut bytes, received_at: group.now };
    group.sender.handle_input(group.now, input);
}

/// A report of the member on path 1 that it has all before `rseq` and lacks all behind, of what has been sent.
fn lacking(group: &Group, rseq: u64, sync: u32) -> Vec<u8> {
    let echo = group.sender.number_for_tests() as u32;
    reported(group, Status { rseq, alloc: rseq + (1 << 20), echo }, sync)
}

/// Bytes of repairs for so many of data: a quarter, ten packets before any data, and a second as if the stream went on; the last one may go
/// beyond.
fn granted(data: usize) -> usize {
    data / 4 + 15_000 + 200 * PACKET / 4 + PACKET
}

#[test]
fn joins_from_thousands_of_forged_addresses_leave_nothing() {
    let mut group = Group::new("reliability=full&members=2", 2, 0.0);
    group.run(500);
    // Member 1 has asked, and then returned what it was offered.
    let [asks, proves] = [group.joins[0].clone(), group.joins.last().expect("joins").clone()];
    group.seen.clear();
    let malformed = group.sender.stats().counters.malformed;
    for n in 0..5_000 {
        let path = PathId(1_000 + n);
        hear(&mut group, path, asks.clone());
        hear(&mut group, path, proves.clone());
        if n % 100 == 0 {
            group.stream(1, None);
        }
    }
    group.run(50);
    assert_eq!(group.joined(), 2);
    assert_eq!(
        group.sender.stats().counters.malformed - malformed,
        5_000,
        "what another was offered proves nothing"
    );
    // Each asked once, and is answered once, in no more bytes than came.
    let mut answered: Vec<(PathId, usize)> = Vec::new();
    answered.extend(
        group.seen.iter().filter(|(path, _, ours)| path.0 >= 1_000 && *ours).map(|one| (one.0, one.1)),
    );
    answered.sort_unstable();
    answered.dedup_by_key(|(path, _)| *path);
    assert!(answered.iter().all(|(_, len)| *len <= asks.len()));
    let answers = group.seen.iter().filter(|(path, _, ours)| path.0 >= 1_000 && *ours).count();
    assert_eq!((answers, answered.len()), (5_000, 5_000));
    assert_eq!([group.missing(0), group.missing(1)], [0; 2]);
}

#[test]
fn a_thousand_are_members_and_the_next_ones_are_refused() {
    let mut group = Group::new("members=0", MOST_MEMBERS + 2, 0.0);
    group.run(60);
    for _ in 0..20 {
        group.stream(1, Some(Duration::from_millis(80)));
        group.run(20);
    }
    assert_eq!(group.joined(), MOST_MEMBERS);
    assert_eq!(group.traffic.refused, 2, "with DIAG");
    // They go on listening, and do not ask at once again.
    assert!((0..MOST_MEMBERS + 2).all(|member| group.missing(member) == 0));
}

/// Repairs are for all: one that asks for everything gets what all together may have, and is no member any more soon.
#[test]
fn a_member_that_lacks_everything_takes_no_more_than_repairs_may() {
    let mut group = Group::new("reliability=full&members=3", 3, 0.02);
    group.run(1_000);
    group.members[0].alive = false;
    let from = group.sender.next_for_tests();
    for n in 0..800 {
        if !group.events.contains(&left(1, CloseReason::Refused)) {
            let lie = lacking(&group, from, 10_000 + n);
            hear(&mut group, PathId(1), lie);
        }
        group.stream(1, None);
    }
    group.run(1_000);
    assert!(group.events.contains(&left(1, CloseReason::Refused)));
    let Traffic { data, repairs, .. } = group.traffic;
    assert!(repairs <= granted(data), "{repairs} bytes of repairs for {data}");
    assert_eq!([group.missing(1), group.missing(2)], [0; 2]);
}

/// One that says it lacks four of ten packets, each at first, is never found out; it costs the quarter that repairs may take, and the others have theirs.
#[test]
fn a_member_that_asks_for_much_at_all_times_keeps_no_repairs_from_others() {
    let mut group = Group::new("reliability=full&members=3", 3, 0.02);
    group.run(1_000);
    group.members[0].alive = false;
    group.traffic = Traffic { first_of: group.traffic.first_of, ..Traffic::default() };
    let mut from = group.sender.next_for_tests();
    for n in 0..100 {
        group.stream(20, None);
        let end = group.sender.next_for_tests();
        let lie = lacking(&group, from + (end - from) * 6 / 10, 10_000 + n);
        hear(&mut group, PathId(1), lie);
        from = end;
    }
    // It has all in the end, and the last repairs come.
    let end = group.sender.next_for_tests();
    let truth = lacking(&group, end, 20_000);
    hear(&mut group, PathId(1), truth);
    group.run(1_000);
    let Traffic { data, repairs, .. } = group.traffic;
    assert!(repairs <= granted(data), "{repairs} bytes of repairs for {data}");
    assert!(repairs > data / 8, "it was heard: {repairs} bytes for {data}");
    assert_eq!([group.missing(1), group.missing(2)], [0; 2]);
}

#[test]
fn what_a_member_cannot_have_seen_is_counted_and_changes_nothing() {
    let mut group = Group::new("reliability=full&members=2", 2, 0.0);
    group.run(500);
    group.stream(50, None);
    group.run(300);
    // From now on it says nothing but this.
    group.members[0].alive = false;
    let (end, number) = (group.sender.next_for_tests(), group.sender.number_for_tests() as u32);
    let before = group.sender.stats().counters.malformed;
    let lies = [
        // More than was sent; a packet that was not sent; both.
        Status { rseq: end + 1, alloc: end + 2, echo: number },
        Status { rseq: end, alloc: u64::MAX, echo: number + 1 },
        Status { rseq: u64::MAX, alloc: 0, echo: number ^ 1 << 31 },
    ];
    for (status, sync) in lies.into_iter().zip(10_000..) {
        let lie = reported(&group, status, sync);
        hear(&mut group, PathId(1), lie);
    }
    assert_eq!(group.sender.stats().counters.malformed - before, 3);
    group.stream(50, None);
    group.run(1_000);
    assert_eq!(group.outcomes(), vec![Outcome::Acked; 100]);
    assert_eq!((group.members[0].messages.len(), group.missing(1)), (50, 0));
}

#[test]
fn numbers_of_packets_to_a_group_wrap_unnoticed() {
    let mut group = Group::new("reliability=full&members=3", 3, 0.1);
    let before = u64::from(u32::MAX) - 200;
    group.sender.number_from_for_tests(before);
    group.run(1_500);
    assert!(group.sender.number_for_tests() < u64::from(u32::MAX));
    group.stream(600, None);
    group.run(2_000);
    assert!(group.sender.number_for_tests() > u64::from(u32::MAX) + 400);
    assert_eq!((0..3).map(|member| group.missing(member)).sum::<usize>(), 0);
    assert_eq!(group.outcomes(), vec![Outcome::Acked; 600]);
    assert_eq!(group.joined(), 3, "nobody left and came back");
}

/// How much later than it was sent a message of `len` bytes, one each 5 ms, came to the last of the others, around the death of a member: at most before
/// and at most after it, and how many times in a row of messages that grew. And how long after its last packet it was no member any more.
fn around_a_death(one_way: Duration, loss: f64, len: usize) -> (Duration, Duration, usize, Duration) {
    assert!(len <= MAX_MESSAGE);
    let mut group = Group::new("reliability=full&order=ordered&members=8", 8, loss);
    group.one_way = one_way;
    group.run(3_000);
    assert_eq!(group.joined(), 8);
    let mut sent = Vec::new();
    let (mut died, mut gone) = (None, None);
    for n in 0..1_400 {
        if n == 400 {
            group.members[3].alive = false;
            // What it said last is on its way.
            died = Some(group.now + one_way);
        }
        sent.push(group.now);
        group.send(len, None);
        group.run(5);
        let is_gone = group.events.contains(&left(4, CloseReason::TimedOut));
        gone = gone.or(is_gone.then_some(group.now));
    }
    group.run(3_000);
    let late = |n: usize| {
        let others = group.members.iter().filter(|member| member.alive);
        let came = others.map(|member| {
            let at = member.messages.iter().position(|number| *number == n as u64).expect("all come");
            member.came[at]
        });
        came.max().expect("seven").since(sent[n])
    };
    let delays: Vec<Duration> = (0..sent.len()).map(late).collect();
    let (before, after) = delays.split_at(380);
    let usual = *before.iter().max().expect("some");
    let above: Vec<bool> = after.iter().map(|delay| *delay > usual + Duration::from_millis(50)).collect();
    let times = usize::from(above[0]) + above.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let gone = gone.expect("it is out").since(died.expect("it died"));
    (usual, *after.iter().max().expect("some"), times, gone)
}

#[test]
fn a_member_that_dies_delays_the_others_once_and_is_out_after_three_seconds() {
    // 2 and 1.4 MB/s: what is held for a member that says nothing would fill the window of 4 MB before it counts as gone.
    for (one_way, loss, len) in [(10, 0.02, 10_000), (100, 0.0, 7_000)] {
        let one_way = Duration::from_millis(one_way);
        let (usual, longest, times, gone) = around_a_death(one_way, loss, len);
        println!(
            "{one_way:?} each way: {usual:?} before, {longest:?} after, {times} times; out after {gone:?}"
        );
        let most = Duration::from_millis(500).max(8 * one_way);
        assert!(longest <= usual + most, "{usual:?}, then {longest:?}");
        assert!(times <= 1, "{times} times");
        assert!((2_900..=3_300).contains(&gone.as_millis()), "{gone:?}");
    }
}
