//! How associations begin, move and end.

use super::*;

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
