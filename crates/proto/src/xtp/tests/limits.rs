//! What bounds a sender, and paths that become narrow.

use super::*;

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
fn data_beyond_the_window_is_counted_and_dropped() {
    let mut pair = Pair::open("");
    let (key, seq) = pair.ends[0].peer();
    for ahead in [crate::xtp::WINDOW as u64, 1 << 40, u64::MAX / 2, u64::MAX] {
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
fn an_allocation_that_shrinks_takes_no_room_back() {
    let mut pair = Pair::open("");
    let mut told = None;
    pair.stream(5, None, &mut |at, packet| {
        if let (1, Some((header, Segment::Status(status, _)))) = (at, wire::parse(packet)) {
            told = Some((header, status));
        }
        true
    });
    let (header, status) = told.expect("each packet is acknowledged");
    let mut buf = [0; 100];
    let mut writer = Writer::new(&mut buf, &header, format::CNTL);
    writer.status(&Status { alloc: status.rseq, ..status });
    let len = writer.finish();
    let input = Input::Datagram { path: PathId(0), bytes: &mut buf[..len], received_at: pair.now };
    pair.ends[0].handle_input(pair.now, input);
    // Nothing tells of the room again.
    pair.stream(10, None, &mut |at, packet| at == 0 || !is_status(packet));
    pair.run(20, &mut |_, _| true);
    assert_eq!(pair.numbers(1).len(), 15);
}

#[test]
fn a_reservation_is_what_the_program_has_room_for() {
    let mut pair = Pair::open("flow=reserved");
    pair.ends[1].reserve(300);
    let (mut allowed, mut all_marked) = (0, true);
    pair.stream(5, None, &mut |at, packet| {
        if let (1, Some((header, Segment::Status(status, _)))) = (at, wire::parse(packet)) {
            allowed = status.alloc.wrapping_sub(status.rseq).max(allowed);
            all_marked &= header.has(option::RES);
        }
        true
    });
    // The message that has just come waits to be fetched.
    let room = 300 * PACKET as u64;
    assert!(all_marked && (room - 1024..=room).contains(&allowed), "{allowed} of {room}");
}

#[test]
fn packets_with_wrong_checksums_are_counted_and_change_nothing() {
    let mut pair = Pair::open("");
    let mut left: [Vec<Vec<u8>>; 2] = Default::default();
    pair.stream(10, None, &mut |at, packet| {
        left[at].push(packet.to_vec());
        true
    });
    for (to, packets) in [(1, &left[0]), (0, &left[1])] {
        let before = pair.ends[to].stats().counters;
        let mut damaged = 0;
        for packet in packets {
            for at in [8, 9, 16, 20, 31, packet.len() - 1] {
                let mut bytes = packet.clone();
                bytes[at] ^= 0x40;
                let input = Input::Datagram { path: PathId(0), bytes: &mut bytes, received_at: pair.now };
                pair.ends[to].handle_input(pair.now, input);
                damaged += 1;
            }
        }
        let after = pair.ends[to].stats().counters;
        assert_eq!(after.malformed - before.malformed, damaged);
        assert!(damaged >= 60, "{damaged}");
    }
    pair.stream(10, None, &mut |_, _| true);
    assert_eq!((pair.numbers(1).len(), pair.ends[0].stats().counters.retransmitted), (20, 0));
    assert!(!pair.events.iter().flatten().any(|event| matches!(event, Event::Closed(_))));
}
