//! SCTP: two ends and a validator that hear damaged and forged packets with right checksums, by several paths, keep their
//! promises: one outcome per message, nothing after `Closed`, no answer to an unknown source that is worth a forged address.
#![no_main]

mod ends;

use std::time::Duration;

use antiphon_core::{CloseMode, Instant, Message, PathId, Tag, Validator, Verdict};
use arbitrary::Arbitrary;
use ends::{End, carry, stack};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// All that one end has to say arrives, by this path; one byte of each packet may be another.
    Carry {
        by_caller: bool,
        path: u8,
        damage: Option<(u16, u8)>,
        lost: bool,
    },
    /// A packet as the end would send it, with chunks of the forger's: type, flags, value.
    Forge {
        to_caller: bool,
        path: u8,
        chunks: Vec<(u8, u8, Vec<u8>)>,
        first: Option<u32>,
    },
    Noise {
        to_caller: bool,
        bytes: Vec<u8>,
    },
    Knock {
        path: u8,
        bytes: Vec<u8>,
        sealed: bool,
    },
    Send {
        by_caller: bool,
        len: u16,
        stream: u8,
        deadline_ms: Option<u8>,
    },
    Fetch {
        by_caller: bool,
    },
    Advance {
        ms: u16,
    },
    Close {
        by_caller: bool,
        abort: bool,
    },
}

const QUERIES: &[&str] = &[
    "",
    "order=ordered&reliability=full&streams=3",
    "interleaving=on&streams=3&order=ordered",
    "interleaving=on&streams=3",
    "retransmissions=1&paths=both&addresses=192.0.2.1,2001:db8::1&peers=192.0.2.1:1",
    "reliability=full&rto-initial=3s&rto-min=1s&rto-max=60s&path-max-retrans=5&peers=192.0.2.1:1,192.0.2.2:1",
];

/// Makes the checksum right.
fn seal(packet: &mut [u8]) {
    if packet.len() < 12 {
        return;
    }
    packet[8..12].fill(0);
    let crc = !packet.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    });
    packet[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// The header of a packet that was sent, with other chunks; `first`: their first word, counted from that of the last.
fn forge(like: &[u8], chunks: &[(u8, u8, Vec<u8>)], first: Option<u32>) -> Option<Vec<u8>> {
    let mut packet = like.get(..12)?.to_vec();
    let word = like.get(16..20).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    for (kind, flags, value) in chunks.iter().take(8) {
        let mut value = value[..value.len().min(300)].to_vec();
        if let Some((first, place)) = first.zip(value.first_chunk_mut::<4>()) {
            *place = word.wrapping_add(first % 64).to_be_bytes();
        }
        packet.extend_from_slice(&[*kind, *flags]);
        packet.extend_from_slice(&(4 + value.len() as u16).to_be_bytes());
        packet.extend_from_slice(&value);
        packet.resize(packet.len().next_multiple_of(4), 0);
    }
    seal(&mut packet);
    Some(packet)
}

fuzz_target!(|input: (u8, Vec<Step>)| {
    let query = QUERIES[usize::from(input.0) % QUERIES.len()];
    let far = query.split("&peers").next().unwrap_or("");
    let stacks = [stack("sctp", query, 0), stack("sctp", far, 1)];
    let mut ends = End::pair(&stacks);
    let mut now = Instant::from_millis(1);
    let mut validator: Box<dyn Validator> = stacks[1].validator(now);
    for step in input.1 {
        match step {
            Step::Carry { by_caller, path, damage, lost } => {
                let path = (!lost).then_some(path % 3);
                carry(&mut ends, usize::from(!by_caller), now, path, |packet| {
                    if let Some((at, byte)) = damage {
                        packet[usize::from(at) % packet.len()] = byte;
                        seal(packet);
                    }
                });
            }
            Step::Forge { to_caller, path, chunks, first } => {
                let (from, to) = (usize::from(to_caller), usize::from(!to_caller));
                if let Some(packet) = forge(&ends[from].last, &chunks, first) {
                    ends[to].hear(now, path % 6, &packet);
                }
            }
            Step::Noise { to_caller, mut bytes } => {
                seal(&mut bytes);
                ends[usize::from(!to_caller)].hear(now, 0, &bytes);
            }
            Step::Knock { path, mut bytes, sealed } => {
                if sealed {
                    seal(&mut bytes);
                }
                let meeting = validator.validate(now, PathId(u32::from(path)), &bytes, &mut [0; 2048]);
                if let Verdict::Reply { len } = meeting {
                    assert!(len <= bytes.len().max(512));
                }
            }
            Step::Send { by_caller, len, stream, deadline_ms } => {
                let bytes = vec![1; usize::from(len) + 1];
                let deadline = deadline_ms.map(|ms| now + Duration::from_millis(ms.into()));
                let stream = antiphon_core::StreamId(stream.into());
                let frame = Message { stream, ..Message::new(Tag::NONE, &bytes, deadline) };
                ends[usize::from(!by_caller)].send(now, frame);
            }
            Step::Fetch { by_caller } => ends[usize::from(!by_caller)].fetch(),
            Step::Advance { ms } => now += Duration::from_millis(ms.into()),
            Step::Close { by_caller, abort } => {
                let mode = if abort { CloseMode::Abort } else { CloseMode::Graceful };
                ends[usize::from(!by_caller)].endpoint.close(now, mode);
            }
        }
        ends.iter_mut().for_each(|end| end.drain(now));
    }
});
