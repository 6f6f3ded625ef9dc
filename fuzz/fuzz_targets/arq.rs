//! ARQ, improved and as published: two ends that hear damaged and foreign packets keep their promises.
#![no_main]

mod ends;

use std::time::Duration;

use antiphon_core::{CloseMode, Instant, Message, Tag};
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
    Noise {
        to_caller: bool,
        path: u8,
        bytes: Vec<u8>,
    },
    Send {
        by_caller: bool,
        len: u8,
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

const QUERIES: &[&str] = &["", "mode=as-published"];

fuzz_target!(|input: (u8, Vec<Step>)| {
    let query = QUERIES[usize::from(input.0) % QUERIES.len()];
    // A listener without a mode takes its caller's.
    let stacks = [stack("arq", query, 0), stack("arq", "", 1)];
    let mut ends = End::pair(&stacks);
    let mut now = Instant::from_millis(1);
    for step in input.1 {
        match step {
            Step::Carry { by_caller, path, damage, lost } => {
                let path = (!lost).then_some(path % 3);
                carry(&mut ends, usize::from(!by_caller), now, path, |packet| {
                    if let Some((at, byte)) = damage {
                        packet[usize::from(at) % packet.len()] = byte;
                    }
                });
            }
            Step::Noise { to_caller, path, bytes } => {
                ends[usize::from(!to_caller)].hear(now, path % 3, &bytes);
            }
            Step::Send { by_caller, len, deadline_ms } => {
                let bytes = vec![0x80; usize::from(len) + 1];
                let deadline = deadline_ms.map(|ms| now + Duration::from_millis(ms.into()));
                ends[usize::from(!by_caller)].send(now, Message::new(Tag::NONE, &bytes, deadline));
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
