//! Acknowledgements for numbers never sent, floods, and what unknown sources can cost.

use std::time::Duration;

use antiphon_core::{Endpoint, Event, Instant, Message, Rng, Role, Tag};

use crate::common::hear;
use crate::world::endpoint;

/// Transmits all that is due and answers datagrams and bytes.
fn flush(endpoint: &mut dyn Endpoint, now: Instant) -> (u64, u64) {
    let (mut buf, mut sent) = ([0; 2048], (0, 0));
    if endpoint.poll_timeout().is_some_and(|at| at <= now) {
        endpoint.handle_timeout(now);
    }
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buf) {
        sent = (sent.0 + 1, sent.1 + transmit.len as u64);
    }
    sent
}

/// Carries what both have to send, once, at this instant.
fn exchange(sender: &mut Box<dyn Endpoint>, receiver: &mut Box<dyn Endpoint>, now: Instant) {
    let mut buf = [0; 2048];
    for endpoint in [&mut *sender, &mut *receiver] {
        if endpoint.poll_timeout().is_some_and(|at| at <= now) {
            endpoint.handle_timeout(now);
        }
    }
    while let Some(transmit) = sender.poll_transmit(now, &mut buf) {
        hear(&mut **receiver, now, &buf[..transmit.len]);
    }
    while let Some(transmit) = receiver.poll_transmit(now, &mut buf) {
        hear(&mut **sender, now, &buf[..transmit.len]);
    }
}

fn outcomes(endpoint: &mut dyn Endpoint) -> usize {
    std::iter::from_fn(|| endpoint.poll_event()).filter(|e| matches!(e, Event::Outcome { .. })).count()
}

#[test]
fn forged_acknowledgements_settle_nothing_and_send_nothing() {
    for query in ["mode=as-published", "mode=as-published&tick=1ms", ""] {
        let mut sender = endpoint(query, Role::Caller, 1);
        let now = Instant::from_millis(1);
        for n in 0..20u8 {
            sender.send(now, Message::new(Tag::NONE, &[n; 200], None)).unwrap();
        }
        flush(&mut *sender, now);
        let before = sender.stats().counters;
        let mut rng = Rng::fork(3, "forger");
        for n in 0..50_000u64 {
            let text = format!("ack:{}", if n % 2 == 0 { 1_000 + n } else { rng.next_u64() / 2 });
            hear(&mut *sender, now, text.as_bytes());
            // A blind forger's binary packets: right shape, any numbers.
            let mut forged = [0; 2 + 13 + 4];
            rng.fill(&mut forged[2..]);
            (forged[0], forged[1], forged[14]) = (0xD1, 2, 4);
            hear(&mut *sender, now, &forged);
        }
        // The report's loop sends one packet a turn.
        let sent = flush(&mut *sender, now).0;
        assert_eq!((sent, outcomes(&mut *sender)), (0, 0), "{query}");
        assert_eq!(sender.stats().counters.malformed - before.malformed, 100_000, "{query}");
    }
}

#[test]
fn a_flood_of_data_is_not_amplified() {
    for query in ["mode=as-published", ""] {
        let mut receiver = endpoint(query, Role::Listener, 1);
        let mut rng = Rng::fork(4, "flood");
        let (mut received, mut sent, mut now) = (0, (0, 0), Instant::from_millis(1));
        for n in 0..20_000u32 {
            let mut bytes = [0; 40];
            rng.fill(&mut bytes);
            // A data packet of either mode, of a few numberings, with any number.
            if query.is_empty() {
                (bytes[0], bytes[1]) = (0xD1, 1);
                bytes[2..6].copy_from_slice(&rng.below(3).to_be_bytes());
                bytes[10] = 0;
            } else {
                bytes[..13].copy_from_slice(format!("seq:{:08} ", 10_000_000 + n).as_bytes());
            }
            hear(&mut *receiver, now, &bytes);
            received += bytes.len() as u64;
            if n % 7 == 0 {
                now += Duration::from_millis(1);
                let more = flush(&mut *receiver, now);
                sent = (sent.0 + more.0, sent.1 + more.1);
            }
            while receiver.poll_message(&mut [0; 65_536]).is_some() {}
        }
        assert!(
            sent.0 > 0 && sent.0 <= 20_000 && sent.1 <= received,
            "{query}: {sent:?} for {received} bytes"
        );
    }
}

/// A sender that restarts (new seed, new numbering) after two seconds of silence is received, with all its messages:
/// what went out before the receiver believed it is repeated.
#[test]
fn a_restarted_sender_is_heard() {
    for query in ["mode=as-published", ""] {
        let mut receiver = endpoint(query, Role::Listener, 1);
        let (mut buf, mut got) = ([0; 65_536], 0);
        let mut now = Instant::from_millis(1);
        for seed in 10..15 {
            now += Duration::from_secs(2);
            let mut sender = endpoint(query, Role::Caller, seed);
            for n in 0..10 {
                sender.send(now, Message::new(Tag::NONE, &[n; 100], None)).unwrap();
            }
            // The first repetition is due after 100 ms.
            for _ in 0..20 {
                exchange(&mut sender, &mut receiver, now);
                now += Duration::from_millis(10);
            }
            while receiver.poll_message(&mut buf).is_some() {
                got += 1;
            }
            assert_eq!(outcomes(&mut *sender), 10, "{query}: acknowledged");
        }
        assert_eq!(got, 50, "{query}");
    }
}

/// A path that delivers nothing any more is sent the stream and a quarter of it again, not each message as often as its
/// deadline allows; and what was in time when the path came back is sent again then.
#[test]
fn a_dead_path_is_not_flooded_with_repetitions() {
    let mut sender = endpoint("", Role::Caller, 1);
    let mut receiver = endpoint("", Role::Listener, 2);
    let (mut media, mut sent, mut came, mut told) = (0, 0, 0, 0);
    let mut buf = [0; 2048];
    for ms in 0..12_000u64 {
        let now = Instant::from_millis(ms);
        if ms.is_multiple_of(5) {
            let deadline = Some(now + Duration::from_millis(80));
            sender.send(now, Message::new(Tag(ms), &[7; 1000], deadline)).unwrap();
            media += u64::from((2_000..10_000).contains(&ms));
        }
        match ms {
            2_000..10_000 => sent += flush(&mut *sender, now).0,
            _ => exchange(&mut sender, &mut receiver, now),
        }
        while receiver.poll_message(&mut buf).is_some() {
            came += 1;
        }
        told += outcomes(&mut *sender);
    }
    assert!(told > 2_380, "each message has its outcome, those in flight apart: {told}");
    // A quarter of a second passes before the silence is one; until then each message is sent six times in its 80 ms.
    assert!(sent < media * 5 / 4 + 5 * 50, "{sent} packets of {media} messages");
    // The last 80 ms of the outage are in time when it ends.
    assert!((815..=817).contains(&came), "{came}");
}
