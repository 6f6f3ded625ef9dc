//! Two ends and a path of 10 ms between them.

mod hostile;
mod repairs;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId, Role, Secret,
    SendError, Tag, Validator, Verdict,
};

use super::endpoint::Xtp;
use super::settings;
use super::validator::XtpValidator;
use super::wire::{self, Header, Segment, Status, Writer, format, option};
use crate::seeds::Seeds;

const ONE_WAY: Duration = Duration::from_millis(10);
const STEP: Duration = Duration::from_millis(1);
const PACKET: usize = 1400;

fn end(query: &str, role: Role, seed: u64) -> Xtp {
    let settings = settings::read(&query.parse().expect("a query"), PACKET - 40, false).expect("settings");
    Xtp::new(settings, PACKET, role, &Seeds::new(Secret::for_laboratory(seed)), Instant::ZERO)
}

/// What crosses the path: whether it may, by direction (0: from the caller) and packet.
type Filter<'a> = dyn FnMut(usize, &[u8]) -> bool + 'a;

struct Pair {
    ends: [Xtp; 2],
    now: Instant,
    flight: VecDeque<(Instant, usize, PathId, Vec<u8>)>,
    /// Path on which the caller's packets arrive.
    path: PathId,
    messages: [Vec<Vec<u8>>; 2],
    events: [Vec<Event>; 2],
    /// Whether the listener's program fetches what came.
    fetches: bool,
}

impl Pair {
    fn new(queries: [&str; 2]) -> Self {
        let ends = [end(queries[0], Role::Caller, 1), end(queries[1], Role::Listener, 2)];
        Pair {
            ends,
            now: Instant::from_millis(1000),
            flight: VecDeque::new(),
            path: PathId(0),
            messages: Default::default(),
            events: Default::default(),
            fetches: true,
        }
    }

    /// Two ends that know each other.
    fn open(query: &str) -> Self {
        let mut pair = Pair::new([query; 2]);
        pair.run(60, &mut |_, _| true);
        assert!(pair.events.iter().all(|events| events.contains(&Event::Connected)), "{:?}", pair.events);
        pair
    }

    fn run(&mut self, steps: u32, filter: &mut Filter<'_>) {
        for _ in 0..steps {
            self.now += STEP;
            while let Some((_, to, path, mut bytes)) = self.flight.pop_front_if(|(at, ..)| *at <= self.now) {
                let input = Input::Datagram { path, bytes: &mut bytes, received_at: self.now };
                self.ends[to].handle_input(self.now, input);
            }
            for at in 0..2 {
                let end = &mut self.ends[at];
                antiphon_core::handle_due(end, self.now);
                let mut buf = [0; PACKET];
                while let Some(sent) = end.poll_transmit(self.now, &mut buf) {
                    if filter(at, &buf[..sent.len]) {
                        let path = if at == 0 { self.path } else { PathId(0) };
                        // The far end of another path than the listener's current one is not there.
                        if at == 0 || sent.path == self.path {
                            self.flight.push_back((
                                self.now + ONE_WAY,
                                1 - at,
                                path,
                                buf[..sent.len].to_vec(),
                            ));
                        }
                    }
                }
                let mut buf = vec![0; super::MAX_MESSAGE];
                while (at == 0 || self.fetches)
                    && let Some(came) = end.poll_message(&mut buf)
                {
                    self.messages[at].push(buf[..came.len].to_vec());
                }
                while let Some(event) = end.poll_event() {
                    self.events[at].push(event);
                }
            }
        }
    }

    /// The caller sends a message with a number, in its first byte, every 5 ms.
    fn stream(&mut self, count: u8, budget: Option<Duration>, filter: &mut Filter<'_>) {
        for n in 0..count {
            let deadline = budget.map(|budget| self.now + budget);
            let bytes = [n; 400];
            let message = Message::new(Tag(u64::from(n)), &bytes, deadline);
            self.ends[0].send(self.now, message).expect("room");
            self.run(5, filter);
        }
        self.run(300, filter);
    }

    fn numbers(&self, at: usize) -> Vec<u8> {
        self.messages[at].iter().map(|message| message[0]).collect()
    }

    fn outcomes(&self, at: usize) -> Vec<Outcome> {
        let outcome =
            |event: &Event| if let Event::Outcome { outcome, .. } = event { Some(*outcome) } else { None };
        self.events[at].iter().filter_map(outcome).collect()
    }
}

fn data_of(packet: &[u8]) -> Option<(Header, u8)> {
    match wire::parse(packet)? {
        (header, Segment::Data { bytes, .. }) => Some((header, bytes[0])),
        _ => None,
    }
}

fn is_status(packet: &[u8]) -> bool {
    matches!(wire::parse(packet), Some((_, Segment::Status(..))))
}

/// Loses these numbers when they leave first.
fn losing(mut lost: Vec<u8>) -> impl FnMut(usize, &[u8]) -> bool {
    move |at, packet| {
        let number = data_of(packet).filter(|_| at == 0).map(|(_, number)| number);
        let found = number.and_then(|number| lost.iter().position(|lost| *lost == number));
        found.map(|found| lost.remove(found)).is_none()
    }
}

#[test]
fn each_policy_asks_as_often_as_it_says() {
    // 200 messages in a second.
    for (query, least, most) in [
        ("acks=all", 200, 203),
        ("acks=4&reliability=none", 50, 203),
        ("acks=20ms", 45, 60),
        ("acks=gap", 5, 12),
        ("acks=never", 0, 0),
    ] {
        let mut pair = Pair::open(query);
        let mut statuses = 0;
        pair.stream(200, Some(Duration::from_millis(80)), &mut |at, packet| {
            statuses += u32::from(at == 1 && is_status(packet));
            true
        });
        assert_eq!(pair.numbers(1), (0..200).collect::<Vec<_>>(), "{query}");
        assert!((least..=most).contains(&statuses), "{query}: {statuses} statuses");
        let expected = if query.contains("never") || query.contains("none") {
            Outcome::Released
        } else {
            Outcome::Acked
        };
        assert_eq!(pair.outcomes(0), [expected; 200], "{query}");
    }
}

#[test]
fn only_what_is_lost_is_sent_again_and_once() {
    for query in ["", "acks=gap", "acks=10ms", "acks=8", "reliability=full&order=ordered"] {
        let mut pair = Pair::open(query);
        let mut left = [0u32; 256];
        let mut lose = losing(vec![20, 50, 51, 95]);
        pair.stream(100, Some(Duration::from_millis(80)), &mut |at, packet| {
            if let Some((_, number)) = data_of(packet).filter(|_| at == 0) {
                left[usize::from(number)] += 1;
            }
            lose(at, packet)
        });
        let mut came = pair.numbers(1);
        assert!(came.is_sorted() || !query.contains("ordered"), "{query}: {came:?}");
        came.sort_unstable();
        assert_eq!(came, (0..100).collect::<Vec<_>>(), "{query}");
        assert_eq!(pair.outcomes(0), [Outcome::Acked; 100]);
        let again: Vec<usize> = (0..100).filter(|number| left[*number] == 2).collect();
        assert_eq!((again, left.iter().sum::<u32>()), (vec![20, 50, 51, 95], 104), "{query}");
    }
}

#[test]
fn holes_stay_holes_where_nothing_is_repeated() {
    for query in ["reliability=none", "acks=never", "reliability=none&order=ordered"] {
        let mut pair = Pair::open(query);
        let mut late = 0;
        let mut lose = losing(vec![20, 50, 51]);
        pair.stream(100, None, &mut |at, packet| {
            late += u32::from(data_of(packet).is_some());
            lose(at, packet)
        });
        let expected: Vec<u8> = (0..100).filter(|n| ![20, 50, 51].contains(n)).collect();
        assert_eq!((pair.numbers(1), late), (expected, 100), "{query}");
    }
}

#[test]
fn order_waits_for_a_repair_until_it_is_given_up() {
    let mut pair = Pair::open("order=ordered");
    // The first, and all that is sent again of it.
    pair.stream(30, Some(Duration::from_millis(60)), &mut |at, packet| {
        at == 1 || data_of(packet).is_none_or(|(_, number)| number != 10)
    });
    let expected: Vec<u8> = (0..30).filter(|n| *n != 10).collect();
    assert_eq!(pair.numbers(1), expected);
    let outcomes = pair.outcomes(0);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Acked).count(), 29);
    assert!(outcomes.contains(&Outcome::Expired { maybe_received: true }));
}

#[test]
fn what_is_given_up_behind_a_repair_is_told_once_that_has_come() {
    let mut pair = Pair::open("");
    for (n, budget) in [(0, None), (1, Some(Duration::from_millis(30)))] {
        let bytes = [n; 400];
        let deadline = budget.map(|budget| pair.now + budget);
        pair.ends[0].send(pair.now, Message::new(Tag(0), &bytes, deadline)).expect("room");
    }
    // The second expires while the first is still on its way.
    pair.run(300, &mut |_, _| false);
    // Requests are half a second apart by now.
    pair.run(900, &mut |_, _| true);
    assert_eq!((pair.numbers(1), pair.ends[1].received()), (vec![0], 800));
}

#[test]
fn a_dead_path_gets_requests_and_no_data_where_nothing_is_given_up() {
    let mut pair = Pair::open("reliability=full");
    for n in 0..200 {
        let bytes = [n; 400];
        pair.ends[0].send(pair.now, Message::new(Tag(0), &bytes, None)).expect("room");
    }
    let (mut data, mut requests) = (0, 0);
    pair.run(10_000, &mut |at, packet| {
        data += u32::from(at == 0 && data_of(packet).is_some());
        requests += u32::from(at == 0 && is_status(packet));
        false
    });
    // A window of ten packets of 1400 bytes; a request every half a second.
    assert!(data <= 36 && (20..=26).contains(&requests), "{data} data, {requests} requests");
    pair.run(3_000, &mut |_, _| true);
    assert_eq!(pair.numbers(1).len(), 200);
}

#[test]
fn a_request_is_repeated_no_sooner_than_wtimer_says() {
    let first_request = |query: &str| {
        let mut pair = Pair::open(query);
        pair.ends[0].send(pair.now, Message::new(Tag(0), &[1; 400], None)).expect("room");
        for step in 1..3_000 {
            let mut asked = false;
            pair.run(1, &mut |at, packet| {
                asked |= at == 0 && is_status(packet);
                false
            });
            if asked {
                return step;
            }
        }
        panic!("nothing was asked");
    };
    // Two round trips of 20 ms, and a margin.
    assert!((40..60).contains(&first_request("reliability=full")));
    assert!((700..=702).contains(&first_request("reliability=full&wtimer=700ms")));
}

#[test]
fn a_receiver_that_fetches_nothing_stops_the_sender_and_lets_it_go_on() {
    let mut pair = Pair::open("reliability=full");
    pair.fetches = false;
    let mut accepted = 0;
    for _ in 0..3000 {
        let message = Message::new(Tag(accepted), &[7; 1000], None);
        match pair.ends[0].send(pair.now, message) {
            Ok(()) => accepted += 1,
            Err(SendError::Blocked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        pair.run(1, &mut |_, _| true);
    }
    let acked = pair.outcomes(0).len() as u64;
    assert!(acked < 1100 && accepted < 2200, "{acked} of {accepted} acknowledged");
    pair.fetches = true;
    pair.run(2000, &mut |_, _| true);
    assert_eq!((pair.outcomes(0).len() as u64, pair.messages[1].len() as u64), (accepted, accepted));
}

#[test]
fn urgent_messages_leave_and_are_fetched_first() {
    let mut pair = Pair::open("sort=on&out-rate=800kbit/s&burst=1500B");
    for n in 0..20u8 {
        let bytes = [n; 1300];
        let message = Message { priority: n % 2, ..Message::new(Tag(0), &bytes, None) };
        pair.ends[0].send(pair.now, message).expect("room");
    }
    let mut sorts = Vec::new();
    pair.run(1000, &mut |_, packet| {
        sorts.extend(data_of(packet).map(|(header, _)| header.sort));
        true
    });
    assert_eq!(pair.numbers(1), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    assert_eq!(sorts, [[0; 10], [1; 10]].concat());
    // Credit counts for the message that leaves.
    let mut pair = Pair::open("sort=on&out-rate=8kbit/s&burst=1500B");
    pair.run(2000, &mut |_, _| true);
    for (priority, len) in [(1, 1300), (0, 100)] {
        let bytes = vec![priority; len];
        let message = Message { priority, ..Message::new(Tag(0), &bytes, None) };
        pair.ends[0].send(pair.now, message).expect("room");
    }
    pair.run(50, &mut |_, _| true);
    assert_eq!(pair.numbers(1), [0, 1]);
    // What waits for the program is ordered, too.
    let mut pair = Pair::open("sort=on");
    pair.fetches = false;
    for n in 0..6u8 {
        let bytes = [n; 100];
        let message = Message { priority: 5 - n, ..Message::new(Tag(0), &bytes, None) };
        pair.ends[0].send(pair.now, message).expect("room");
        pair.run(1, &mut |_, _| true);
    }
    pair.run(30, &mut |_, _| true);
    pair.fetches = true;
    pair.run(1, &mut |_, _| true);
    assert_eq!(pair.numbers(1), [5, 4, 3, 2, 1, 0]);
}

#[test]
fn the_receivers_rate_is_kept() {
    // 30 kB at 100 kB/s, asked for by the receiver alone.
    let mut pair = Pair::new(["", "in-rate=800kbit/s"]);
    pair.run(60, &mut |_, _| true);
    for n in 0..75 {
        pair.ends[0].send(pair.now, Message::new(Tag(0), &[n; 360], None)).expect("room");
    }
    pair.run(150, &mut |_, _| true);
    let early = pair.messages[1].len();
    assert!((25..=50).contains(&early), "{early} of 75 in 140 ms");
    pair.run(200, &mut |_, _| true);
    assert_eq!(pair.messages[1].len(), 75);
}

#[test]
fn numbers_wrap_unnoticed() {
    let mut pair = Pair::open("");
    let (next, first) = (pair.ends[0].sequence(), u64::MAX - 3000);
    assert_eq!(next, 0, "nothing was sent");
    for at in 0..2 {
        pair.ends[at].wrap_soon(at == 0, first, u32::MAX - 20);
    }
    let mut seen = Vec::new();
    let mut lose = losing(vec![3, 7, 8, 30]);
    pair.stream(60, Some(Duration::from_millis(80)), &mut |at, packet| {
        seen.extend(data_of(packet).filter(|_| at == 0).map(|(header, _)| (header.seq, header.sync)));
        lose(at, packet)
    });
    assert!(seen.iter().any(|(seq, _)| *seq > first) && seen.iter().any(|(seq, _)| *seq < 30_000));
    assert!(seen.iter().any(|(_, sync)| *sync > u32::MAX - 20) && seen.iter().any(|(_, sync)| *sync < 100));
    let mut came = pair.numbers(1);
    came.sort_unstable();
    assert_eq!((came, pair.outcomes(0)), ((0..60).collect::<Vec<_>>(), vec![Outcome::Acked; 60]));
}

#[test]
fn a_path_that_becomes_narrow_has_lost_parts_cut_anew() {
    let mut pair = Pair::open("reliability=full");
    let mut first = true;
    let message: Vec<u8> = (0..5000u32).map(|n| (n / 7) as u8).collect();
    pair.ends[0].send(pair.now, Message::new(Tag(0), &message, None)).expect("room");
    pair.run(1, &mut |at, packet| at == 1 || data_of(packet).is_none() || !std::mem::take(&mut first));
    pair.ends[0].handle_input(pair.now, Input::MaxDatagram(600));
    let mut longest = 0;
    pair.run(400, &mut |_, packet| {
        longest = longest.max(packet.len());
        true
    });
    assert_eq!((pair.messages[1].clone(), longest), (vec![message], 600));
}

#[test]
fn a_path_that_loses_large_packets_in_silence_is_found_out() {
    for query in ["", "reliability=full"] {
        let mut pair = Pair::open(query);
        for n in 0..100 {
            let bytes = [n; 1340];
            // What has a deadline may expire while it waits, also where nothing that has left is given up.
            let deadline = query.is_empty().then(|| pair.now + Duration::from_millis(80));
            pair.ends[0].send(pair.now, Message::new(Tag(0), &bytes, deadline)).expect("room");
            pair.run(5, &mut |_, packet| packet.len() <= 1250);
        }
        pair.run(6000, &mut |_, packet| packet.len() <= 1250);
        let came = pair.numbers(1).len();
        let least = if query.is_empty() { 60 } else { 100 };
        assert!(came >= least, "{query}: {came} of 100");
    }
}

#[test]
fn an_end_is_told_to_both_by_three_packets() {
    let mut pair = Pair::open("");
    let mut last = Vec::new();
    pair.ends[0].close(pair.now, CloseMode::Graceful);
    pair.run(100, &mut |at, packet| {
        let (header, _) = wire::header(packet).expect("sound");
        last.push((at, header.options & (option::WCLOSE | option::RCLOSE | option::END)));
        true
    });
    let both = option::WCLOSE | option::RCLOSE;
    assert_eq!(last, [(0, option::WCLOSE), (1, both), (0, both | option::END)]);
    assert_eq!(pair.events[0].last(), Some(&Event::Closed(CloseReason::Local)));
    assert_eq!(pair.events[1].last(), Some(&Event::Closed(CloseReason::Peer)));
}

#[test]
fn what_the_peer_still_has_to_say_comes_before_its_end() {
    let mut pair = Pair::open("reliability=full");
    for n in 0..20 {
        pair.ends[1].send(pair.now, Message::new(Tag(0), &[n; 1000], None)).expect("room");
    }
    pair.ends[0].close(pair.now, CloseMode::Graceful);
    let mut lose = losing(vec![]);
    pair.run(500, &mut |at, packet| lose(at, packet));
    assert_eq!(pair.numbers(0), (0..20).collect::<Vec<_>>());
    let refused = pair.ends[1].send(pair.now, Message::new(Tag(0), &[1], None));
    assert_eq!(refused, Err(SendError::Closed));
    assert!(pair.events.iter().all(|events| matches!(events.last(), Some(Event::Closed(_)))));
}

#[test]
fn abandoned_and_silent_peers_are_gone() {
    let mut pair = Pair::open("");
    pair.ends[1].close(pair.now, CloseMode::Abort);
    pair.run(30, &mut |_, _| true);
    assert_eq!(pair.events[0].last(), Some(&Event::Closed(CloseReason::Peer)));
    let mut pair = Pair::open("");
    pair.stream(3, Some(Duration::from_millis(80)), &mut |at, _| at == 0);
    pair.run(39_000, &mut |_, _| false);
    assert!(!matches!(pair.events[0].last(), Some(Event::Closed(_))));
    pair.run(2_000, &mut |_, _| false);
    assert_eq!(pair.events[0].last(), Some(&Event::Closed(CloseReason::TimedOut)));
}

#[test]
fn a_listener_that_was_started_again_is_recognised() {
    let mut pair = Pair::open("");
    pair.ends[1] = end("", Role::Listener, 3);
    pair.stream(3, Some(Duration::from_millis(80)), &mut |_, _| true);
    assert_eq!(pair.events[0].last(), Some(&Event::Closed(CloseReason::Restarted)));
}

#[test]
fn lost_packets_of_the_handshake_are_repeated() {
    for lost in 0..6 {
        let mut pair = Pair::new([""; 2]);
        pair.ends[0].send(pair.now, Message::new(Tag(0), &[1; 100], None)).expect("room");
        let mut n = 0;
        pair.run(900, &mut |_, _| {
            n += 1;
            n - 1 != lost
        });
        assert_eq!(pair.numbers(1), [1], "packet {lost} was lost");
        assert_eq!(pair.outcomes(0), [Outcome::Acked]);
    }
}

#[test]
fn a_caller_that_moves_is_followed_once_it_has_answered_from_there() {
    let mut pair = Pair::open("");
    pair.path = PathId(7);
    pair.stream(20, Some(Duration::from_millis(80)), &mut |_, _| true);
    assert_eq!(pair.numbers(1), (0..20).collect::<Vec<_>>());
    assert!(pair.events[1].contains(&Event::PathProved(PathId(7))));
    // A packet alone, as somebody on the path could replay it from another address, changes nothing.
    let mut pair = Pair::open("");
    let mut seen = Vec::new();
    pair.ends[0].send(pair.now, Message::new(Tag(0), &[1; 100], None)).expect("room");
    pair.run(1, &mut |at, packet| {
        seen.extend((at == 0).then(|| packet.to_vec()));
        false
    });
    let input = Input::Datagram { path: PathId(7), bytes: &mut seen[0], received_at: pair.now };
    pair.ends[1].handle_input(pair.now, input);
    pair.run(2, &mut |_, _| true);
    // Nor does an answer to an earlier request, sent again from there.
    let (key, seq) = pair.ends[0].peer();
    let mut answer = [0; 100];
    let header = Header { key, returned: true, options: 0, sort: 0, sync: 1, seq };
    let mut writer = Writer::new(&mut answer, &header, format::CNTL);
    writer.status(&Status { rseq: pair.ends[1].first(), alloc: 0, echo: 1 });
    let len = writer.finish();
    let input = Input::Datagram { path: PathId(7), bytes: &mut answer[..len], received_at: pair.now };
    pair.ends[1].handle_input(pair.now, input);
    pair.stream(20, Some(Duration::from_millis(80)), &mut |_, _| true);
    assert!(!pair.events[1].contains(&Event::PathProved(PathId(7))));
    assert!(pair.outcomes(0).iter().all(|outcome| *outcome == Outcome::Acked));
}

#[test]
fn edge_and_dreq_are_answered() {
    let mut pair = Pair::open("acks=never");
    let (key, seq) = pair.ends[0].peer();
    let forge = |pair: &mut Pair, options, sync| {
        let mut buf = [0; 100];
        let header = Header { key, returned: true, options, sort: 0, sync, seq };
        let mut writer = Writer::new(&mut buf, &header, format::CNTL);
        writer.status(&Status { rseq: pair.ends[1].first(), alloc: 0, echo: 0 });
        let len = writer.finish();
        let input = Input::Datagram { path: PathId(0), bytes: &mut buf[..len], received_at: pair.now };
        pair.ends[1].handle_input(pair.now, input);
        let mut told = 0;
        pair.run(1, &mut |at, packet| {
            told += u32::from(at == 1 && is_status(packet));
            true
        });
        told
    };
    assert_eq!(forge(&mut pair, 0, 100), 0);
    assert_eq!(forge(&mut pair, option::EDGE, 101), 1, "a change");
    assert_eq!(forge(&mut pair, option::EDGE, 102), 0, "none");
    assert_eq!(forge(&mut pair, 0, 103), 1, "a change back");
    assert_eq!(forge(&mut pair, option::DREQ, 104), 1, "all is fetched");
}

#[test]
fn lies_about_what_has_come_change_nothing() {
    let mut pair = Pair::open("");
    // Statuses of a liar beside the true ones: beyond what was sent, with an echo of nothing, that take room back.
    let mut lies = 0;
    for n in 0..40u8 {
        let bytes = [n; 400];
        let message = Message::new(Tag(0), &bytes, Some(pair.now + Duration::from_millis(80)));
        pair.ends[0].send(pair.now, message).expect("room");
        let first = pair.ends[0].first();
        let (own, _) = pair.ends[1].peer();
        let sent = pair.ends[0].sequence();
        for (rseq, alloc, echo, spans) in [
            (sent + 1, u64::MAX, 0, vec![]),
            (0, 0, u32::MAX, vec![]),
            (0, 0, 0, vec![(sent + 1, sent + 9)]),
            (0, 0, 0, vec![(1, u64::MAX / 4)]),
            (sent / 2, sent / 2, 0, vec![]),
        ] {
            let mut buf = [0; 200];
            let header = Header { key: own, returned: true, options: 0, sort: 0, sync: 0, seq: 0 };
            let kind = if spans.is_empty() { format::CNTL } else { format::ECNTL };
            let mut writer = Writer::new(&mut buf, &header, kind);
            let (rseq, alloc) = (first.wrapping_add(rseq), first.wrapping_add(alloc));
            // What is acknowledged in truth may be: the lie must not be that everything has come.
            if rseq.wrapping_sub(first) <= sent && kind == format::CNTL && echo == 0 {
                continue;
            }
            writer.status(&Status { rseq, alloc, echo });
            if kind == format::ECNTL {
                writer.u32(1);
                writer.u64(first.wrapping_add(spans[0].0));
                writer.u64(first.wrapping_add(spans[0].1));
            }
            let len = writer.finish();
            let input = Input::Datagram { path: PathId(0), bytes: &mut buf[..len], received_at: pair.now };
            pair.ends[0].handle_input(pair.now, input);
            lies += 1;
        }
        pair.run(5, &mut |_, _| true);
    }
    pair.run(200, &mut |_, _| true);
    assert_eq!(pair.numbers(1), (0..40).collect::<Vec<_>>());
    assert_eq!(pair.outcomes(0), [Outcome::Acked; 40]);
    let counters = pair.ends[0].stats().counters;
    assert!(counters.malformed >= lies && counters.retransmitted == 0, "{counters:?} of {lies} lies");
}

#[test]
fn reordering_before_any_round_trip_repeats_nothing() {
    let mut pair = Pair::open("acks=gap");
    // The listener has asked nothing yet, so it has measured nothing.
    for n in 0..2 {
        let bytes = [n; 100];
        pair.ends[1].send(pair.now, Message::new(Tag(0), &bytes, None)).expect("room");
    }
    pair.run(1, &mut |_, _| true);
    assert_eq!(pair.flight.len(), 2);
    pair.flight.swap(0, 1);
    let (early, late) = (pair.flight[0].0, pair.flight[1].0 + 2 * STEP);
    (pair.flight[0].0, pair.flight[1].0) = (early, late);
    pair.run(200, &mut |_, _| true);
    assert_eq!((pair.numbers(0), pair.ends[1].stats().counters.retransmitted), (vec![1, 0], 0));
}

#[test]
fn the_key_alone_ends_nothing() {
    let mut pair = Pair::open("");
    let (key, seq) = pair.ends[0].peer();
    let own = pair.ends[1].first();
    for (rseq, echo, seq) in [(own + 9999, 0, seq), (own, 99_999, seq)] {
        for options in [option::END, option::WCLOSE, option::WCLOSE | option::RCLOSE | option::END] {
            let mut buf = [0; 100];
            let header = Header { key, returned: true, options, sort: 0, sync: 1_000, seq };
            let mut writer = Writer::new(&mut buf, &header, format::CNTL);
            writer.status(&Status { rseq, alloc: 0, echo });
            let len = writer.finish();
            let input = Input::Datagram { path: PathId(0), bytes: &mut buf[..len], received_at: pair.now };
            pair.ends[1].handle_input(pair.now, input);
        }
    }
    assert_eq!(pair.ends[1].stats().counters.malformed, 6);
    pair.stream(20, Some(Duration::from_millis(80)), &mut |_, _| true);
    assert_eq!((pair.numbers(1).len(), pair.outcomes(0)), (20, vec![Outcome::Acked; 20]));
}

#[test]
fn data_beyond_the_window_is_counted_and_dropped() {
    let mut pair = Pair::open("");
    let (key, seq) = pair.ends[0].peer();
    for ahead in [super::WINDOW as u64, 1 << 40, u64::MAX / 2, u64::MAX] {
        let mut buf = [0; 100];
        let options = option::EOM | option::BTAG | option::SREQ;
        let seq = seq.wrapping_add(ahead);
        let header = Header { key, returned: true, options, sort: 0, sync: 1_000_000, seq };
        let mut writer = Writer::new(&mut buf, &header, format::DATA);
        writer.u64(1);
        writer.bytes(b"far away");
        let len = writer.finish();
        let input = Input::Datagram { path: PathId(0), bytes: &mut buf[..len], received_at: pair.now };
        pair.ends[1].handle_input(pair.now, input);
        assert!(pair.ends[1].poll_transmit(pair.now, &mut [0; PACKET]).is_none(), "no answer");
    }
    assert_eq!(pair.ends[1].stats().counters.malformed, 4);
    pair.stream(20, Some(Duration::from_millis(80)), &mut |_, _| true);
    assert_eq!((pair.numbers(1).len(), pair.outcomes(0)), (20, vec![Outcome::Acked; 20]));
}

#[test]
fn a_peer_that_goes_on_talking_cannot_hold_a_close() {
    let mut pair = Pair::open("");
    pair.ends[0].close(pair.now, CloseMode::Graceful);
    for n in 0..820u32 {
        let bytes = [n as u8; 50];
        let message = Message::new(Tag(0), &bytes, Some(pair.now + Duration::from_millis(80)));
        let _refused_once_the_caller_is_gone = pair.ends[1].send(pair.now, message);
        // The caller's end never reaches it.
        pair.run(50, &mut |at, packet| {
            at == 1 || wire::header(packet).is_some_and(|(header, _)| !header.has(option::WCLOSE))
        });
    }
    assert_eq!(pair.events[0].last(), Some(&Event::Closed(CloseReason::Local)));
}

fn validator() -> XtpValidator {
    XtpValidator::new(&Secret::for_laboratory(2), 5004, false)
}

#[test]
fn a_listening_wire_answers_no_longer_than_it_was_asked_and_keeps_nothing() {
    let mut pair = Pair::new([""; 2]);
    let mut packets = Vec::new();
    pair.stream(5, Some(Duration::from_millis(80)), &mut |at, packet| {
        packets.extend((at == 0).then(|| packet.to_vec()));
        true
    });
    let (mut first, mut buf) = (validator(), [0; 1500]);
    let mut accepted = 0;
    for packet in &packets {
        for cut in [0, 1, 20] {
            let packet = &packet[..packet.len() - cut];
            match first.validate(pair.now, PathId(0), packet, &mut buf) {
                Verdict::Reply { len } => assert!(len <= packet.len(), "{len} for {}", packet.len()),
                Verdict::AcceptWith { .. } => accepted += 1,
                Verdict::Accept => panic!("without a proof"),
                Verdict::Ignore => {}
            }
        }
    }
    assert_eq!(accepted, 1, "the proof alone");
    // A call without limits is shorter than an answer.
    let (header, _) = wire::header(&packets[0]).expect("a call");
    let mut call = [0; 100];
    let mut writer = Writer::new(&mut call, &header, format::FIRST);
    writer.address([0; 4], header.ports());
    writer.traffic(4, None);
    let len = writer.finish();
    assert_eq!(first.validate(pair.now, PathId(0), &call[..len], &mut buf), Verdict::Ignore);
}

#[test]
fn a_proof_is_valid_for_a_minute_at_its_address_alone() {
    let mut pair = Pair::new([""; 2]);
    let mut packets = Vec::new();
    pair.run(40, &mut |at, packet| {
        packets.extend((at == 0).then(|| packet.to_vec()));
        true
    });
    let (now, mut buf) = (Instant::from_millis(1_030), [0; 1500]);
    let [_, proof] = &packets[..] else { panic!("a call and a proof") };
    let accepts = |now, path, proof: &[u8], buf: &mut [u8]| {
        matches!(validator().validate(now, path, proof, buf), Verdict::AcceptWith { .. })
    };
    assert!(accepts(now, PathId(0), proof, &mut buf));
    assert!(!accepts(now, PathId(1), proof, &mut buf), "from another address");
    assert!(accepts(now + Duration::from_secs(55), PathId(0), proof, &mut buf));
    assert!(!accepts(now + Duration::from_secs(70), PathId(0), proof, &mut buf), "stale");
    let other = &mut XtpValidator::new(&Secret::for_laboratory(3), 5004, false);
    assert!(
        !matches!(other.validate(now, PathId(0), proof, &mut buf), Verdict::AcceptWith { .. }),
        "another's"
    );
    // The key alone is not enough: the numbers belong to the proof.
    let (header, Segment::Traffic { status, key, .. }) = wire::parse(proof).expect("sound") else {
        panic!("a proof")
    };
    for (seq, rseq) in [(0, 1), (1, 0)] {
        let mut forged = [0; 200];
        let header = Header { seq: header.seq.wrapping_add(seq), ..header };
        let mut writer = Writer::new(&mut forged, &header, format::TCNTL);
        writer.keyed_status(&Status { rseq: status.rseq.wrapping_add(rseq), ..status }, key);
        writer.traffic(4, None);
        let len = writer.finish();
        assert!(!accepts(now, PathId(0), &forged[..len], &mut buf), "{seq} {rseq}");
    }
    let label = |packet: &[u8]| validator().flow_label(packet);
    assert!(label(&packets[0]) != 0 && label(&packets[0]) == label(proof));
    assert!(validator().id_of(proof).is_some() && validator().id_of(&packets[0]).is_none());
}

#[test]
fn a_flood_of_calls_leaves_a_listener_as_it_was() {
    let mut listener = end("", Role::Listener, 2);
    let mut replies = 0;
    for seed in 0..10_000 {
        let mut caller = end("", Role::Caller, 100 + seed);
        let mut buf = [0; PACKET];
        let now = Instant::from_millis(seed);
        let call = caller.poll_transmit(now, &mut buf).expect("a call");
        let input =
            Input::Datagram { path: PathId(seed as u32), bytes: &mut buf[..call.len], received_at: now };
        listener.handle_input(now, input);
        if seed % 2 == 0 {
            replies += u32::from(listener.poll_transmit(now, &mut [0; PACKET]).is_some());
        }
    }
    assert!(replies == 5_000, "{replies} replies");
    assert!(listener.poll_event().is_none() && listener.poll_timeout().is_none());
}
