//! An SRP peer that sends what it likes, when it likes, to either mode: no panic, time-outs that move on, and never
//! more bytes in answer than were sent anyway.
#![no_main]

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Input, Instant, Message, PathId, Role, Tag};
use antiphon_proto::StackArgs;
use antiphon_proto::srp::wire::{Packet, extended::Extended};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Vec<(u8, Vec<u8>)>)| {
    let (as_published, datagrams) = input;
    let mut query = Query::default();
    query.set("mode", if as_published { "as-published" } else { "improved" });
    let mut now = Instant::from_millis(1);
    let playout_delay = Duration::from_millis(80);
    let args = StackArgs::new(&query, 1, 1452, playout_delay);
    let mut endpoint = antiphon_proto::stack("srp", &args).expect("defaults open").open(now, Role::Listener);
    let mut buf = vec![0; endpoint.profile().max_receive.max(1452)];
    for (wait, mut bytes) in datagrams {
        now += Duration::from_millis(u64::from(wait));
        // Half of the datagrams are steered past the first word, which noise rarely gets right.
        if wait % 2 == 0 && bytes.len() >= 4 {
            bytes[0] = if as_published { 0 } else { 0x80 | bytes[0] & 1 };
            (bytes[1], bytes[2], bytes[3]) = (0, bytes[2] & 1, 1 + bytes[3] % 5);
            if bytes.len() > 16 && matches!(bytes[3], 1 | 4) {
                let size = bytes.len() as u32 - 16;
                bytes[12..16].copy_from_slice(&size.to_be_bytes());
            }
        }
        let _parsed = (Packet::parse(&bytes), Extended::parse(&bytes));
        let path = PathId::default();
        endpoint.handle_input(now, Input::Datagram { path, bytes: &mut bytes.clone(), received_at: now });
        if wait % 8 == 1 {
            let _accepted_or_refused = endpoint.send(now, Message::new(Tag::NONE, &[7; 100], Some(now + playout_delay)));
        }
        if let Some(due) = endpoint.poll_timeout().filter(|due| *due <= now) {
            endpoint.handle_timeout(now);
            while endpoint.poll_transmit(now, &mut buf).is_some() {}
            assert!(endpoint.poll_timeout().is_none_or(|next| next > due), "a time-out that stays");
        }
        while endpoint.poll_transmit(now, &mut buf).is_some() {}
        while endpoint.poll_message(&mut buf).is_some() {}
        while endpoint.poll_event().is_some() {}
    }
    let counters = endpoint.stats().counters;
    let fresh = counters.messages_accepted * 116;
    let repairs = counters.retransmitted * 116;
    let limit = if as_published { 16 * fresh } else { fresh + 16_000 };
    assert!(repairs <= limit, "{repairs} bytes repaired of {fresh}");
});
