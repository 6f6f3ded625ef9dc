//! An SRP peer that sends what it likes, when it likes, to either mode: no panic, time-outs that move on, and never
//! more bytes in answer than were sent anyway.
#![no_main]

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Frame, Input, Instant, PathId};
use antiphon_proto::srp::wire::{Packet, extended::Extended};
use antiphon_proto::{OpenArgs, Role, open};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Vec<(u8, Vec<u8>)>)| {
    let (as_published, datagrams) = input;
    let mut query = Query::default();
    query.set("mode", if as_published { "as-published" } else { "improved" });
    let mut now = Instant::from_millis(1);
    let latency = Duration::from_millis(80);
    let args = OpenArgs { role: Role::Listener, query: &query, seed: 1, now, max_datagram: 1452, latency };
    let mut endpoint = open("srp", &args).expect("defaults open");
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
        let (path, ecn) = (PathId::default(), Ecn::NotCapable);
        endpoint.handle_input(now, Input::Datagram { path, bytes: &bytes, ecn, received_at: now });
        if wait % 8 == 1 {
            let _accepted_or_refused = endpoint.send(now, Frame::new(&[7; 100], Some(now + latency)));
        }
        if let Some(due) = endpoint.poll_timeout().filter(|due| *due <= now) {
            endpoint.handle_timeout(now);
            while endpoint.poll_transmit(now, &mut buf).is_some() {}
            assert!(endpoint.poll_timeout().is_none_or(|next| next > due), "a time-out that stays");
        }
        while endpoint.poll_transmit(now, &mut buf).is_some() {}
        while endpoint.poll_frame(&mut buf).is_some() {}
        while endpoint.poll_event().is_some() {}
    }
    let counters = endpoint.path_stats().counters;
    let fresh = counters.frames_accepted * 116;
    let repairs = counters.retransmitted * 116;
    let limit = if as_published { 16 * fresh } else { fresh + 16_000 };
    assert!(repairs <= limit, "{repairs} bytes repaired of {fresh}");
});
