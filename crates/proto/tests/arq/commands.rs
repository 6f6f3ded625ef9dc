//! Any list of commands, in every mode: one outcome per message, nothing after `Closed`, counters that add up.

use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::{BrokenReason, CloseMode, Endpoint, Event, Input, Instant, Message, Role, Tag};
use proptest::prelude::*;

use crate::world::{datagram, endpoint};

#[derive(Clone, Debug)]
enum Command {
    Send { side: bool, len: usize, deadline_ms: Option<u8> },
    Transmit { side: bool, arrives: bool, flip: Option<(usize, u8)> },
    Again { side: bool, back: usize },
    Noise { side: bool, bytes: Vec<u8> },
    Advance(u8),
    TimeOut,
    Broken,
    Drain,
    Close { side: bool, abort: bool },
}

fn command() -> impl Strategy<Value = Command> {
    let shaped = (any::<bool>(), prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(text, mut bytes)| {
        let head: &[u8] = if text { b"ack:" } else { &[0xD1, 3] };
        bytes.splice(0..0, head.iter().copied());
        bytes
    });
    let flip = prop::option::weighted(0.1, (0usize..40, any::<u8>()));
    prop_oneof![
        6 => (any::<bool>(), 1usize..1400, prop::option::of(any::<u8>()))
            .prop_map(|(side, len, deadline_ms)| Command::Send { side, len, deadline_ms }),
        12 => (any::<bool>(), prop::bool::weighted(0.7), flip)
            .prop_map(|(side, arrives, flip)| Command::Transmit { side, arrives, flip }),
        2 => (any::<bool>(), 0usize..20).prop_map(|(side, back)| Command::Again { side, back }),
        1 => (any::<bool>(), shaped).prop_map(|(side, bytes)| Command::Noise { side, bytes }),
        6 => any::<u8>().prop_map(Command::Advance),
        6 => Just(Command::TimeOut),
        1 => Just(Command::Broken),
        4 => Just(Command::Drain),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(side, abort)| Command::Close { side, abort }),
    ]
}

struct Side {
    endpoint: Box<dyn Endpoint>,
    /// The next message's tag.
    next: u64,
    /// Tags without an outcome.
    open: BTreeSet<u64>,
    closed: bool,
    /// Datagrams that it has sent.
    sent: Vec<Vec<u8>>,
}

impl Side {
    fn new(query: &str, role: Role, seed: u64) -> Self {
        let endpoint = endpoint(query, role, seed);
        Side { endpoint, next: 0, open: BTreeSet::new(), closed: false, sent: Vec::new() }
    }

    fn drain(&mut self) {
        let mut buf = vec![0; self.endpoint.profile().max_receive];
        while self.endpoint.poll_message(&mut buf).is_some() {
            assert!(!self.closed, "a message after Closed");
        }
        while let Some(event) = self.endpoint.poll_event() {
            assert!(!self.closed, "{event:?} after Closed");
            match event {
                Event::Outcome { tag, .. } => {
                    assert!(self.open.remove(&tag.0), "a second outcome for {tag:?}")
                }
                Event::Closed(_) => self.closed = true,
                _ => {}
            }
        }
        assert!(!self.closed || self.open.is_empty(), "closed without outcomes of {:?}", self.open);
    }
}

fn obey(sides: &mut [Side; 2], now: &mut Instant, command: &Command) {
    let mut buf = vec![0; 1452];
    match command {
        Command::Send { side, len, deadline_ms } => {
            let side = &mut sides[usize::from(*side)];
            let deadline = deadline_ms.map(|ms| *now + Duration::from_millis(ms.into()));
            if side.endpoint.send(*now, Message::new(Tag(side.next), &buf[..*len], deadline)).is_ok() {
                side.open.insert(side.next);
                side.next += 1;
            }
        }
        Command::Transmit { side, arrives, flip } => {
            let from = usize::from(*side);
            let Some(transmit) = sides[from].endpoint.poll_transmit(*now, &mut buf) else { return };
            buf.truncate(transmit.len);
            sides[from].sent.push(buf.clone());
            if let Some((at, bits)) = flip
                && let Some(byte) = buf.get_mut(*at)
            {
                *byte ^= bits;
            }
            if *arrives {
                sides[1 - from].endpoint.handle_input(*now, datagram(&mut buf, *now));
            }
        }
        Command::Again { side, back } => {
            let from = usize::from(*side);
            if let Some(bytes) = sides[from].sent.iter().rev().nth(*back) {
                sides[1 - from].endpoint.handle_input(*now, datagram(&mut bytes.to_vec(), *now));
            }
        }
        Command::Noise { side, bytes } => {
            sides[usize::from(*side)].endpoint.handle_input(*now, datagram(&mut bytes.to_vec(), *now));
        }
        Command::Advance(ms) => *now += Duration::from_millis(u64::from(*ms) / 4),
        Command::TimeOut => sides.iter_mut().for_each(|side| side.endpoint.handle_timeout(*now)),
        Command::Broken => {
            sides[0].endpoint.handle_input(*now, Input::Broken(BrokenReason::Unreachable));
        }
        Command::Drain => sides.iter_mut().for_each(Side::drain),
        Command::Close { side, abort } => {
            let mode = if *abort { CloseMode::Abort } else { CloseMode::Graceful };
            sides[usize::from(*side)].endpoint.close(*now, mode);
        }
    }
}

proptest! {
    #[test]
    fn any_commands_keep_the_contract(
        mode in prop::sample::select(vec!["", "congestion=aimd", "mode=as-published", "mode=as-published&tick=1ms&pace=5ms"]),
        commands in prop::collection::vec(command(), 0..300),
    ) {
        let mut sides = [Side::new(mode, Role::Caller, 1), Side::new(mode, Role::Listener, 2)];
        let mut now = Instant::from_millis(1);
        for command in &commands {
            obey(&mut sides, &mut now, command);
        }
        for side in &mut sides {
            side.drain();
            let counters = side.endpoint.stats().counters;
            prop_assert!(counters.retransmitted <= counters.datagrams_sent);
            prop_assert!(counters.malformed + counters.duplicates <= 2 * counters.datagrams_received);
            side.endpoint.close(now, CloseMode::Abort);
            side.drain();
            prop_assert!(side.closed && side.endpoint.poll_timeout().is_none());
        }
    }
}
