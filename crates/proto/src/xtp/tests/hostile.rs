//! Peers that withhold what they should say, and callers that are like others.

use super::*;

/// A status that names no packet of ours tells nothing about what is lost: nothing is sent again for it, and nothing ends.
#[test]
fn an_echo_that_never_comes_repeats_little_and_ends_nothing() {
    let mut pair = Pair::open("");
    let (own, _) = pair.ends[1].peer();
    let first = pair.ends[0].first();
    let (mut left, mut told) = (0, 0);
    for n in 0..200u8 {
        let bytes = [n; 400];
        let deadline = Some(pair.now + Duration::from_millis(80));
        pair.ends[0].send(pair.now, Message::new(Tag(n.into()), &bytes, deadline)).expect("room");
        // What the listener reports is lost; instead of it comes that nothing has arrived.
        pair.run(5, &mut |at, packet| {
            left += u32::from(at == 0 && data_of(packet).is_some());
            at == 0 || !is_status(packet)
        });
        let mut buf = [0; 100];
        let header = Header { key: own, returned: true, options: 0, sort: 0, sync: 0, seq: 0 };
        let mut writer = Writer::new(&mut buf, &header, format::CNTL);
        writer.status(&Status { rseq: first, alloc: first.wrapping_add(1 << 20), echo: 0 });
        let len = writer.finish();
        let input = Input::Datagram { path: PathId(0), bytes: &mut buf[..len], received_at: pair.now };
        pair.ends[0].handle_input(pair.now, input);
        told += 1;
    }
    pair.run(200, &mut |at, packet| at == 0 || !is_status(packet));
    assert_eq!((pair.numbers(1).len(), told), (200, 200), "they came all the same");
    // A message may leave again on the timer, within its 80 ms.
    assert!(left <= 400, "{left} packets for 200 messages");
    let outcomes = pair.outcomes(0);
    assert_eq!(outcomes, [Outcome::Expired { maybe_received: true }; 200]);
    assert!(!pair.events[0].iter().any(|event| matches!(event, Event::Closed(_))));
    pair.messages[1].clear();
    pair.events[0].clear();
    pair.stream(20, Some(Duration::from_millis(80)), &mut |_, _| true);
    assert_eq!((pair.numbers(1).len(), pair.outcomes(0)), (20, vec![Outcome::Acked; 20]));
}

/// Two callers whose keys are the same get different ones from the listener, by which it tells them apart.
#[test]
fn callers_with_the_same_key_are_told_apart_by_their_addresses() {
    let packets = [0, 1].map(|path| {
        let mut pair = Pair { path: PathId(path), ..Pair::new([""; 2]) };
        let mut packets = Vec::new();
        pair.run(40, &mut |at, packet| {
            packets.extend((at == 0).then(|| packet.to_vec()));
            true
        });
        packets
    });
    let [[first, proof], [other_first, other_proof]] =
        [[&packets[0][0], &packets[0][1]], [&packets[1][0], &packets[1][1]]];
    assert_eq!(first, other_first, "the same key, from two addresses");
    let (now, mut buf) = (Instant::from_millis(1_030), [0; 1500]);
    let mut accepts = |path, packet: &[u8]| {
        matches!(validator().validate(now, PathId(path), packet, &mut buf), Verdict::AcceptWith { .. })
    };
    assert!(accepts(0, proof) && accepts(1, other_proof));
    assert!(!accepts(1, proof) && !accepts(0, other_proof));
    assert_ne!(validator().id_of(proof), validator().id_of(other_proof));
}
