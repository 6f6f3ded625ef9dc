//! A TCP peer that writes what it likes, in pieces of any size.
#![no_main]

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{BrokenReason, Input, Instant, Role};
use antiphon_proto::StackArgs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pieces: Vec<&[u8]>| {
    let (query, now, playout_delay) = (Query::default(), Instant::ZERO, Duration::from_millis(80));
    let args = StackArgs::new(&query, 1, 1452, playout_delay);
    let mut endpoint = antiphon_proto::stack("tcp", &args).expect("defaults open").open(now, Role::Listener);
    let mut frame = vec![0; endpoint.profile().max_receive];
    endpoint.handle_input(now, Input::Connected);
    // The same cut the plain way.
    let (mut stream, mut got): (Vec<u8>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    for piece in &pieces {
        if piece.is_empty() {
            endpoint.handle_input(now, Input::Broken(BrokenReason::EndOfStream));
            endpoint.handle_input(now, Input::Connected);
            stream.clear();
            continue;
        }
        endpoint.handle_input(now, Input::Stream { bytes: &mut piece.to_vec(), received_at: now });
        stream.extend_from_slice(piece);
        while let Some(received) = endpoint.poll_message(&mut frame) {
            got.push(frame[..received.len].to_vec());
        }
        let mut expected = Vec::new();
        while let [high, low, rest @ ..] = &stream[..] {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            let Some(body) = rest.get(..len) else { break };
            expected.extend((len > 0).then(|| body.to_vec()));
            stream.drain(..2 + len);
        }
        assert_eq!(std::mem::take(&mut got), expected);
    }
});
