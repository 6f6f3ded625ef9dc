//! Datagrams of unknown sources to what a capture looks into them with: no panic, and what is shown was there.
#![no_main]

use std::net::IpAddr;

use antiphon_core::Dissected;
use antiphon_proto::TRANSPORTS;
use antiphon_trace::inside::{Cutter, Joiner};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|datagrams: Vec<Vec<u8>>| {
    for transport in TRANSPORTS {
        let (mut joiner, mut cutter, mut position) = (Joiner::default(), Cutter::default(), 0);
        let (mut pieces, mut whole) = (0, 0);
        let mut dissector = (transport.dissector)();
        for bytes in &datagrams {
            if let Some(header) = dissector.stream_header() {
                pieces += bytes.len();
                cutter.push(
                    position,
                    bytes,
                    header,
                    |head| dissector.message_len(head),
                    |frame| whole += frame.len(),
                );
                position += bytes.len() as u64;
                continue;
            }
            dissector.dissect(bytes, &mut |inside| match inside {
                Dissected::Packet(bare) => {
                    let mut copy = bare.bytes.to_vec();
                    bare.over_ip.seal(&mut copy, IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
                    assert!(bare.bytes.len() <= bytes.len() && copy.len() == bare.bytes.len());
                }
                Dissected::Fragment(piece) => {
                    pieces += piece.bytes.len();
                    whole += joiner.take((), &piece).map_or(0, <[u8]>::len);
                }
                Dissected::Part(part) => assert!(part.len() <= bytes.len()),
            });
        }
        assert!(whole <= pieces, "{}: more in frames than in their pieces", transport.scheme);
    }
});
