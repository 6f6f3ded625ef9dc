//! A sender and its members, with a path of 10 ms to each that loses packets independently.

mod hostile;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId, Rng, Secret, Tag,
    handle_due,
};

use super::{GroupMember, GroupSender, MOST_MEMBERS};
use crate::seeds::Seeds;
use crate::xtp::settings;
use crate::xtp::wire::{self, Header, Segment, Status, diag, option};

const STEP: Duration = Duration::from_millis(1);
const PACKET: usize = 1400;
const LEN: usize = 1000;

struct Member {
    end: GroupMember,
    /// Share of packets from the sender, and to it, that are lost.
    loss: f64,
    messages: Vec<u64>,
    /// When each of them came.
    came: Vec<Instant>,
    events: Vec<Event>,
    alive: bool,
}

struct Group {
    sender: GroupSender,
    members: Vec<Member>,
    now: Instant,
    one_way: Duration,
    /// Share of the packets to the group that nobody gets.
    common_loss: f64,
    /// When, to whom (0: the sender), from whom.
    flight: VecDeque<(Instant, usize, PathId, Vec<u8>)>,
    rng: Rng,
    events: Vec<Event>,
    came: Vec<(PathId, Vec<u8>)>,
    next: u64,
    traffic: Traffic,
    /// Joins that members have sent.
    joins: Vec<Vec<u8>>,
    /// Bytes that came to the sender, and left it, by path.
    seen: Vec<(PathId, usize, bool)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    data: usize,
    repairs: usize,
    coded: usize,
    reports: usize,
    /// Packets with data that were sent before.
    first_of: u64,
    /// Members that were told to leave, and joins that were refused.
    told: usize,
    refused: usize,
}

impl Group {
    fn new(query: &str, members: usize, loss: f64) -> Self {
        let read = || settings::read(&query.parse().expect("a query"), PACKET - 40, true).expect("settings");
        let now = Instant::from_millis(1000);
        let seeds = Seeds::new(Secret::for_laboratory(1));
        let members = (0..members as u64).map(|n| {
            let end = GroupMember::open(
                read(),
                PACKET,
                50_000 + n as u16,
                &Seeds::new(Secret::for_laboratory(100 + n)),
                now,
            );
            Member { end, loss, messages: Vec::new(), came: Vec::new(), events: Vec::new(), alive: true }
        });
        Group {
            sender: GroupSender::open(read(), PACKET, &seeds, now),
            members: members.collect(),
            now,
            one_way: Duration::from_millis(10),
            common_loss: 0.0,
            flight: VecDeque::new(),
            rng: Rng::new(77),
            events: Vec::new(),
            came: Vec::new(),
            next: 0,
            traffic: Traffic::default(),
            joins: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn count(&mut self, packet: &[u8], path: PathId) {
        let Some((header, segment)) = wire::parse(packet) else { panic!("our own packet is sound") };
        match segment {
            Segment::Data { .. } if path == PathId(0) && header.seq >= self.traffic.first_of => {
                self.traffic.first_of = header.seq + 1;
                self.traffic.data += packet.len();
            }
            Segment::Data { .. } => self.traffic.repairs += packet.len(),
            Segment::Diag { code: diag::CONTEXT_ABANDONED, .. } => self.traffic.told += 1,
            Segment::Diag { code: diag::JOIN_REFUSED, .. } => self.traffic.refused += 1,
            Segment::Repair(_) => {
                self.traffic.repairs += packet.len();
                self.traffic.coded += 1;
            }
            _ => {}
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.now += STEP;
            let now = self.now;
            while let Some((_, to, path, mut bytes)) = self.flight.pop_front_if(|(at, ..)| *at <= now) {
                let input = Input::Datagram { path, bytes: &mut bytes, received_at: now };
                match to.checked_sub(1) {
                    None => self.sender.handle_input(now, input),
                    Some(at) if self.members[at].alive => self.members[at].end.handle_input(now, input),
                    Some(_) => {}
                }
            }
            let mut buf = [0; PACKET];
            handle_due(&mut self.sender, now);
            while let Some(sent) = self.sender.poll_transmit(now, &mut buf) {
                self.count(&buf[..sent.len], sent.path);
                self.seen.push((sent.path, sent.len, true));
                if sent.path == PathId(0) && self.common_loss > 0.0 && self.rng.chance(self.common_loss) {
                    continue;
                }
                for (at, member) in self.members.iter().enumerate() {
                    let reaches = sent.path == PathId(0) || sent.path == PathId(at as u32 + 1);
                    if reaches && !self.rng.chance(member.loss) {
                        self.flight.push_back((
                            now + self.one_way,
                            at + 1,
                            PathId(0),
                            buf[..sent.len].to_vec(),
                        ));
                    }
                }
            }
            let mut room = vec![0; crate::xtp::MAX_MESSAGE];
            while let Some(received) = self.sender.poll_message(&mut room) {
                self.came.push((received.path, room[..received.len].to_vec()));
            }
            self.events.extend(std::iter::from_fn(|| self.sender.poll_event()));
            for (at, member) in self.members.iter_mut().enumerate().filter(|(_, member)| member.alive) {
                handle_due(&mut member.end, now);
                while let Some(sent) = member.end.poll_transmit(now, &mut buf) {
                    self.traffic.reports += sent.len;
                    if matches!(wire::parse(&buf[..sent.len]), Some((_, Segment::Join { .. }))) {
                        self.joins.push(buf[..sent.len].to_vec());
                    }
                    if !self.rng.chance(member.loss) {
                        let path = PathId(at as u32 + 1);
                        self.seen.push((path, sent.len, false));
                        self.flight.push_back((now + self.one_way, 0, path, buf[..sent.len].to_vec()));
                    }
                }
                while let Some(received) = member.end.poll_message(&mut room) {
                    let number = u64::from_be_bytes(*room.first_chunk().expect("eight bytes"));
                    assert!(room[8..received.len].iter().all(|byte| *byte == number as u8), "{number}");
                    member.messages.push(number);
                    member.came.push(now);
                }
                member.events.extend(std::iter::from_fn(|| member.end.poll_event()));
            }
        }
    }

    fn send(&mut self, len: usize, budget: Option<Duration>) {
        let mut bytes = vec![self.next as u8; len];
        bytes[..8].copy_from_slice(&self.next.to_be_bytes());
        let deadline = budget.map(|budget| self.now + budget);
        self.sender.send(self.now, Message::new(Tag(self.next), &bytes, deadline)).expect("room");
        self.next += 1;
    }

    /// A message each 5 ms.
    fn stream(&mut self, count: u64, budget: Option<Duration>) {
        for _ in 0..count {
            self.send(LEN, budget);
            self.run(5);
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let outcome =
            |event: &Event| if let Event::Outcome { outcome, .. } = event { Some(*outcome) } else { None };
        self.events.iter().filter_map(outcome).collect()
    }

    fn joined(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::PathProved(_))).count()
    }

    fn missing(&self, member: usize) -> usize {
        let mut got = self.members[member].messages.clone();
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), self.members[member].messages.len(), "nothing comes twice");
        self.next as usize - got.len()
    }
}

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

#[test]
fn trial_overload() {
    for (loss, len, n, full) in [(0.2, 100, 10, true), (0.2, 1000, 1, true), (0.1, 1000, 1, true)] {
        let mut group =
            Group::new(if full { "reliability=full&order=ordered&members=8" } else { "members=8" }, 8, loss);
        group.run(2_000);
        let mut refused = 0;
        for step in 0..4_000 {
            for _ in 0..n {
                let mut bytes = vec![group.next as u8; len];
                bytes[..8].copy_from_slice(&group.next.to_be_bytes());
                match group.sender.send(group.now, Message::new(Tag(group.next), &bytes, None)) {
                    Ok(()) => group.next += 1,
                    Err(_) => refused += 1,
                }
            }
            group.run(5);
            if step % 1000 == 999 {
                println!(
                    "{loss} {len} {step}: {} sent, {refused} refused, {:?} {:?}",
                    group.next,
                    group.members.iter().map(|m| m.messages.len()).collect::<Vec<_>>(),
                    group.traffic
                );
            }
        }
        group.run(10_000);
        println!(
            "after 10 s {:?} {:?}",
            group.members.iter().map(|m| m.messages.len()).collect::<Vec<_>>(),
            group.events.iter().filter(|e| matches!(e, Event::MemberLeft { .. })).collect::<Vec<_>>()
        );
    }
}

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

#[test]
fn an_address_that_has_proved_nothing_gets_no_more_than_it_sent() {
    let mut group = Group::new("", 3, 0.3);
    group.run(4_000);
    group.stream(300, Some(Duration::from_millis(80)));
    for at in 1..=3 {
        let path = PathId(at);
        let (mut came, mut left) = (0, 0);
        let proved = group.events.contains(&Event::PathProved(path));
        assert!(proved, "even so it becomes a member");
        for (_, len, is_ours) in group.seen.iter().filter(|(seen, ..)| *seen == path) {
            match is_ours {
                true => left += len,
                false => came += len,
            }
            assert!(left <= came, "path {at}: {left} bytes for {came}");
        }
    }
}

/// A packet of `len` bytes in the name of the member on path 1, with the numbers of its last packet.
fn forged(group: &Group, change: impl Fn(&mut Header)) -> Vec<u8> {
    let member = group.sender.member_for_tests(PathId(1));
    let mut header = Header {
        key: member.0,
        returned: true,
        options: option::MULTI | option::END,
        sort: 0,
        sync: 900,
        seq: member.1,
    };
    change(&mut header);
    let mut buf = vec![0; 200];
    let mut writer = wire::Writer::new(&mut buf, &header, wire::format::CNTL);
    writer.status(&Status { rseq: 0, alloc: 0, echo: 0 });
    let len = writer.finish();
    buf.truncate(len);
    buf
}

#[test]
fn only_a_member_itself_leaves_and_what_is_forged_is_counted() {
    let mut group = Group::new("", 2, 0.0);
    group.run(500);
    let right = forged(&group, |_| {});
    let wrong = [
        (PathId(1), forged(&group, |header| header.seq ^= 1)),
        (PathId(1), forged(&group, |header| header.key.0 ^= 1 << 40)),
        (PathId(2), right.clone()),
        (PathId(9), right.clone()),
        (PathId(1), forged(&group, |header| header.options &= !option::MULTI)),
    ];
    let count = wrong.len() as u64;
    let before = group.sender.stats().counters.malformed;
    for (path, mut bytes) in wrong {
        let input = Input::Datagram { path, bytes: &mut bytes, received_at: group.now };
        group.sender.handle_input(group.now, input);
    }
    group.run(10);
    assert_eq!(group.sender.stats().counters.malformed - before, count);
    assert!(!group.events.iter().any(|event| matches!(event, Event::MemberLeft { .. })));
    let mut bytes = right;
    group.sender.handle_input(
        group.now,
        Input::Datagram { path: PathId(1), bytes: &mut bytes, received_at: group.now },
    );
    group.run(1);
    assert!(group.events.contains(&left(1, CloseReason::Peer)), "its own packet counts");
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

#[test]
fn a_member_that_is_told_to_leave_does_not_come_back_at_once() {
    let mut group = Group::new("reliability=full&members=2", 2, 0.0);
    group.run(500);
    group.sender.expel_for_tests(PathId(1));
    group.stream(1_000, None);
    let back = group.events.iter().filter(|event| **event == Event::PathProved(PathId(1))).count();
    assert_eq!((back, group.missing(0)), (1, 2), "the last two are on their way");
}

fn left(member: u32, why: CloseReason) -> Event {
    Event::MemberLeft { member: PathId(member), why }
}

/// A report of the member on path 1, its packet number `sync`.
fn reported(group: &Group, status: Status, sync: u32) -> Vec<u8> {
    let (key, number) = group.sender.member_for_tests(PathId(1));
    let header = Header { key, returned: true, options: option::MULTI, sort: 0, sync, seq: number };
    let mut buf = vec![0; 200];
    let mut writer = wire::Writer::new(&mut buf, &header, wire::format::CNTL);
    writer.status(&status);
    let len = writer.finish();
    buf.truncate(len);
    buf
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
fn a_short_join_is_not_answered() {
    let mut group = Group::new("", 1, 0.0);
    group.run(20);
    group.run(300);
    // The member's first join, without the traffic specifier that makes it as long as the answer.
    let mut join = group.joins[0].clone();
    join.truncate(wire::JOIN - wire::NO_TRAFFIC);
    let len = (join.len() - wire::HEADER) as u32;
    join[12..16].copy_from_slice(&len.to_be_bytes());
    join[16..18].fill(0);
    let sum = crate::internet_checksum::fold(u64::from(crate::internet_checksum::words(&join)));
    join[16..18].copy_from_slice(&(!sum).to_be_bytes());
    let sent =
        |group: &Group| group.seen.iter().filter(|(path, _, ours)| *path == PathId(7) && *ours).count();
    let input = Input::Datagram { path: PathId(7), bytes: &mut join, received_at: group.now };
    group.sender.handle_input(group.now, input);
    group.run(5);
    assert_eq!(sent(&group), 0);
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
