use super::*;

const NOW: Instant = Instant::from_millis(5);

fn sender(first: u32) -> Sender {
    Sender::starting_at(
        first,
        SenderConfig {
            max_datagram: 116,
            keep: Duration::from_secs(1),
            latency: Duration::from_millis(80),
            seed: 1,
        },
    )
}

fn send(sender: &mut Sender, now: Instant, bytes: &[u8], priority: u8) -> Vec<Vec<u8>> {
    let message = Message {
        bytes,
        priority,
        deadline: Some(now + Duration::from_millis(200)),
        stream: 0,
        tag: Tag::NONE,
    };
    let parts = 0..sender.parts(bytes.len());
    parts
        .map(|index| {
            let mut buf = vec![0; 200];
            let len = sender.send_part(now, &message, index, &mut buf).unwrap();
            buf.truncate(len);
            buf
        })
        .collect()
}

fn ask(sender: &mut Sender, now: Instant, time: u32, first: u32, more: &[u8]) -> Vec<Vec<u8>> {
    sender.on_nack(now, &Nack { epoch: sender.cutter.epoch, time, first, more });
    let next = |sender: &mut Sender| {
        let mut buf = vec![0; 200];
        let len = sender.poll_transmit(now, &mut buf)?;
        buf.truncate(len);
        Some(buf)
    };
    std::iter::from_fn(|| next(sender)).collect()
}

#[test]
fn of_a_long_message_only_the_lost_part_is_repaired() {
    let mut sender = sender(u32::MAX);
    let bytes: Vec<u8> = (0..250).map(|i| i as u8).collect();
    let packets = send(&mut sender, NOW, &bytes, 1);
    let parts: Vec<_> = packets
        .iter()
        .map(|packet| match Extended::parse(packet) {
            Ok(Extended::Data(part)) => (part.id, part.index, part.count, part.data.len(), part.priority),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(parts, [(u32::MAX, 0, 3, 100, 1), (0, 1, 3, 100, 1), (1, 2, 3, 50, 1)]);
    let answers = ask(&mut sender, NOW, 99, 0, &[]);
    assert_eq!(answers.len(), 1);
    let Ok(Extended::Answer(part)) = Extended::parse(&answers[0]) else { panic!("no answer") };
    assert_eq!((part.id, part.time, part.data), (0, 99, &bytes[100..200]));
}

#[test]
fn several_ids_of_one_request_are_answered_in_order() {
    let mut sender = sender(1);
    (0..40).for_each(|n| drop(send(&mut sender, NOW, &[n; 10], 0)));
    // 3, 3 + 1, and 3 + 1 + 32.
    let answers = ask(&mut sender, NOW, 1, 3, &[0, 0, 0, 1, 0, 0, 0, 1]);
    let content: Vec<u8> = answers.iter().map(|packet| packet[16]).collect();
    assert_eq!(content, [2, 3, 35]);
}

#[test]
fn urgent_packets_get_more_chances_and_a_copied_request_none() {
    for (priority, expected) in [(0, 8), (1, 4), (2, 2), (3, 1), (200, 1)] {
        let mut sender = sender(1);
        send(&mut sender, NOW, &[1; 50], priority);
        let answered: usize = (0..20).map(|time| ask(&mut sender, NOW, time / 2, 1, &[]).len()).sum();
        assert_eq!(answered, expected, "priority {priority}");
    }
}

#[test]
fn a_repeated_request_is_answered_and_a_copied_one_is_not() {
    let mut sender = sender(1);
    send(&mut sender, NOW, &[1; 50], 0);
    let answered = [7, 7, 8, 8].map(|time| ask(&mut sender, NOW, time, 1, &[]).len());
    assert_eq!(answered, [1, 0, 1, 0]);
    // Two requests before the answer is sent: one answer.
    let epoch = sender.cutter.epoch;
    for time in [9, 10] {
        sender.on_nack(NOW, &Nack { epoch, time, first: 1, more: &[] });
    }
    assert!(sender.poll_transmit(NOW, &mut [0; 200]).is_some());
    assert_eq!(sender.poll_transmit(NOW, &mut [0; 200]), None);
}

#[test]
fn only_what_was_sent_and_is_in_time_is_repaired() {
    let mut sender = sender(1);
    send(&mut sender, NOW, &[1; 50], 0);
    let late = NOW + Duration::from_millis(201);
    assert!(ask(&mut sender, late, 1, 1, &[]).is_empty());
    for id in [0, 2, 1 << 31, u32::MAX] {
        assert!(ask(&mut sender, NOW, 1, id, &[]).is_empty());
    }
    sender.on_nack(NOW, &Nack { epoch: sender.cutter.epoch ^ 1, time: 1, first: 1, more: &[] });
    assert_eq!(sender.poll_transmit(NOW, &mut [0; 200]), None);
    let counts = sender.counts();
    assert_eq!((counts.too_late, counts.unknown, counts.retransmitted), (1, 5, 0));
}

#[test]
fn a_flood_of_requests_never_costs_more_than_was_sent_anyway() {
    let mut sender = sender(1);
    let (mut sent, mut repaired) = (0, 0);
    for n in 0..2000u32 {
        let now = NOW + Duration::from_millis(n.into());
        sent += send(&mut sender, now, &[7; 100], 0).iter().map(Vec::len).sum::<usize>();
        for time in 0..20 {
            let answers = ask(&mut sender, now, n * 20 + time, n.saturating_sub(60), &[0xff; 32]);
            repaired += answers.iter().map(Vec::len).sum::<usize>();
            assert!(sender.due.is_empty() && sender.kept.len() <= MAX_KEPT);
        }
    }
    // Byte for byte, plus the initial allowance; the limits per packet alone would allow eight times as much.
    assert!(repaired <= sent + START_ALLOWANCE as usize, "{repaired} for {sent}");
    assert!(repaired > sent / 2, "what is asked for is sent: {repaired}");
}

#[test]
fn congestion_makes_repairs_yield_and_they_come_back() {
    let mut sender = sender(1);
    let epoch = sender.cutter.epoch;
    let report =
        |n: u32, queueing_us| Report { highest: n, settled: n, received: 90 * n, lost: 10 * n, queueing_us };
    assert!(!sender.on_probe(NOW, epoch, 0, report(0, 0), Wanted::default()));
    assert!(
        !sender.on_probe(NOW, epoch, 0, report(1, 49_000), Wanted::default()),
        "losses without a queue are the link's"
    );
    assert!(sender.on_probe(NOW, epoch, 0, report(2, 51_000), Wanted::default()) && sender.is_congested());
    let worse: Vec<bool> =
        (3..10).map(|n| sender.on_probe(NOW, epoch, 0, report(n, 200_000), Wanted::default())).collect();
    assert!(!worse.contains(&true), "the phase is told once");
    assert_eq!(sender.share, LEAST_SHARE);
    assert!(sender.on_probe(NOW, epoch, 0, report(10, 10_000), Wanted::default()) && !sender.is_congested());
    let better: Vec<bool> =
        (11..20).map(|n| sender.on_probe(NOW, epoch, 0, report(n, 0), Wanted::default())).collect();
    assert!(!better.contains(&true));
    assert_eq!(sender.share, 1.0);
}

#[test]
fn streams_are_chosen_only_with_the_epoch_or_before_data() {
    let mut sender = sender(1);
    let epoch = sender.cutter.epoch;
    let wants = |sender: &mut Sender, epoch: u32, streams: u16, blind: bool| {
        let wanted = Wanted { streams: Streams(streams), blind };
        sender.on_probe(NOW, epoch, 0, Report::default(), wanted);
        sender.wanted().0
    };
    assert_eq!(wants(&mut sender, epoch ^ 1, 0, false), u16::MAX, "a blind forger");
    assert_eq!(wants(&mut sender, 0, 6, true), 6);
    assert_eq!(wants(&mut sender, 0, 5, true), 5, "it may change its mind");
    assert_eq!(wants(&mut sender, epoch, 3, false), 3);
    assert_eq!(wants(&mut sender, 0, 0, true), 3, "who knows the epoch is not blind any more");
    let message = Message { bytes: b"x", priority: 0, deadline: None, stream: 2, tag: Tag::NONE };
    assert_eq!(sender.admit(NOW, &message), Admission::Drop);
    assert_eq!(sender.admit(NOW, &Message { stream: 1, ..message }), Admission::Send);
    assert_eq!(sender.counts().unwanted, 1);
}

#[test]
fn what_is_kept_is_bounded_in_time_packets_and_bytes() {
    let mut sender = sender(1);
    for n in 0..5000u64 {
        send(&mut sender, Instant::from_millis(10 * n), &[1; 100], 0);
    }
    // A second of packets, one every 10 ms.
    assert!((100..=102).contains(&sender.kept.len()), "{}", sender.kept.len());
    (0..5000).for_each(|_| drop(send(&mut sender, Instant::from_millis(60_000), &[1; 100], 0)));
    assert_eq!(sender.kept.len(), MAX_KEPT);
    assert!(sender.counts().dropped > 0);
}
