//! A listening wire, which keeps nothing of those that have not proved their address.

use super::*;

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
