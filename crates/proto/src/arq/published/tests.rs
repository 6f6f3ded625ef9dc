use antiphon_core::{Endpoint, Event, Input, Message, PathId, Tag};

use super::*;

const SETTINGS: Settings = Settings { timeout: Duration::from_millis(20), repetitions: 3, paper_loop: None };

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn hear(endpoint: &mut Association<Published>, at: u64, bytes: &[u8]) {
    let path = PathId::default();
    let bytes = &mut bytes.to_vec();
    endpoint.handle_input(ms(at), Input::Datagram { path, bytes, received_at: ms(at) });
}

fn transmit(endpoint: &mut Association<Published>, at: u64) -> Vec<usize> {
    if endpoint.poll_timeout().is_some_and(|due| due <= ms(at)) {
        endpoint.handle_timeout(ms(at));
    }
    let mut buf = [0; 1452];
    std::iter::from_fn(|| endpoint.poll_transmit(ms(at), &mut buf).map(|t| t.len)).collect()
}

fn outcomes(endpoint: &mut Association<Published>) -> Vec<Outcome> {
    std::iter::from_fn(|| endpoint.poll_event())
        .filter_map(|event| match event {
            Event::Outcome { outcome, .. } => Some(outcome),
            _ => None,
        })
        .collect()
}

#[test]
fn every_data_packet_is_answered_and_delivered_at_once() {
    let mut receiver = Published::open(SETTINGS, Role::Caller, 1452, 1);
    for _ in 0..2 {
        hear(&mut receiver, 3, b"seq:468 PAYLOAD");
    }
    let mut buf = [0; 70_000];
    for _ in 0..2 {
        let sent = receiver.poll_transmit(ms(3), &mut buf).unwrap();
        assert_eq!(&buf[..sent.len], b"ack:468");
        assert_eq!(receiver.poll_message(&mut buf).map(|r| r.len), Some(7));
        assert_eq!(&buf[..7], b"PAYLOAD");
    }
    assert!(receiver.poll_transmit(ms(3), &mut buf).is_none() && receiver.poll_timeout().is_none());
}

#[test]
fn an_answer_to_the_last_repetition_still_counts() {
    let mut sender = Published::open(SETTINGS, Role::Caller, 1452, 1);
    sender.send(ms(0), Message::new(Tag::NONE, b"sound", None)).unwrap();
    for at in [0, 20, 40, 60] {
        // `seq:1 sound`
        assert_eq!(transmit(&mut sender, at), [11]);
    }
    assert!(transmit(&mut sender, 79).is_empty());
    hear(&mut sender, 79, b"ack:1");
    assert_eq!(outcomes(&mut sender), [Outcome::Acked]);
    assert_eq!((sender.poll_timeout(), sender.stats().counters.retransmitted), (None, 3));
    // A repeated number, and one never sent: the first is normal, the second an error.
    hear(&mut sender, 80, b"ack:1");
    assert_eq!(sender.stats().counters.malformed, 0);
    for forged in ["ack:2", "ack:9223372036854775807"] {
        hear(&mut sender, 80, forged.as_bytes());
    }
    assert_eq!(sender.stats().counters.malformed, 2);
}

/// The report's loop whose repetitions take 3 ms each: what is due meanwhile, and what is new, comes after that.
#[test]
fn a_repetition_keeps_the_loop_from_anything_else() {
    let ms_long = Duration::from_millis;
    let paper_loop =
        LoopSettings { tick: ms_long(1), pace: None, turn: Duration::ZERO, repetition: ms_long(3) };
    let settings = Settings { paper_loop: Some(paper_loop), ..SETTINGS };
    let mut sender = Published::open(settings, Role::Caller, 1452, 1);
    let mut sent = Vec::new();
    for at in 0..28 {
        if [0, 1, 21].contains(&at) {
            sender.send(ms(at), Message::new(Tag::NONE, b"sound", None)).unwrap();
        }
        sent.extend(transmit(&mut sender, at).into_iter().map(|_| at));
    }
    // The second was due at 21, and the third was given then. Each turn ends with a wait of 1 ms for an acknowledgement.
    assert_eq!(sent, [0, 1, 20, 24, 27]);
    assert_eq!(sender.stats().counters.retransmitted, 2);
}

#[test]
fn numbers_wrap_after_the_largest() {
    let mut sender = Published::open(SETTINGS, Role::Caller, 1452, u64::MAX - 1);
    for _ in 0..4 {
        sender.send(ms(0), Message::new(Tag::NONE, b"sound", None)).unwrap();
    }
    assert_eq!(transmit(&mut sender, 0), [30, 30, 11, 11]);
    for number in [u64::MAX - 1, u64::MAX, 0, 1] {
        hear(&mut sender, 1, format!("ack:{number}").as_bytes());
    }
    assert_eq!(outcomes(&mut sender), [Outcome::Acked; 4]);
}

#[test]
fn unsent_acknowledgements_are_bounded() {
    let mut receiver = Published::open(SETTINGS, Role::Caller, 1452, 1);
    for n in 1..10_000 {
        hear(&mut receiver, 3, format!("seq:{n} x").as_bytes());
    }
    assert_eq!(transmit(&mut receiver, 3).len(), MAX_FRAMES);
}
