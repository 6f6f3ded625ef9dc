//! Any list of commands, on every transport: one outcome per message, nothing after `Closed`.
#![no_main]

use std::collections::BTreeSet;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{
    BrokenReason, CloseMode, Endpoint, Event, Input, Instant, Message, PathId, Role, SendError, Tag, Wire,
};
use antiphon_proto::{StackArgs, TRANSPORTS};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Command {
    Send { to_listener: bool, len: u16, deadline_ms: Option<u8>, priority: u8 },
    Flood { count: u8 },
    Transmit { by_caller: bool, room: u16, arrives: bool },
    Noise { to_caller: bool, bytes: Vec<u8> },
    Advance { ms: u16 },
    TimeOut,
    Break { by: u8 },
    Connect,
    Drain,
    Close { caller: bool, abort: bool },
}

struct Side {
    endpoint: Box<dyn Endpoint>,
    open: BTreeSet<u64>,
    accepted: u64,
    closed: bool,
    buf: Vec<u8>,
}

const MAX_DATAGRAM: usize = 1452;
/// Modes beside the default ones; whether they are of a group.
const MODES: &[(&str, &str, bool)] = &[
    ("sctp", "order=ordered&reliability=full&streams=2&interleaving=on", false),
    ("sctp", "retransmissions=0&style=many", false),
    ("sctp", "paths=both&peers=192.0.2.1:1", false),
    ("arq", "mode=as-published", false),
    ("arq", "mode=as-published&tick=1ms&pace=5ms", false),
    ("arq", "congestion=aimd", false),
    ("arq", "reliability=full", false),
    ("xtp", "reliability=full&order=ordered", false),
    ("xtp", "acks=gap&sort=on&out-rate=1Mbit/s", false),
    ("xtp", "acks=never", false),
    ("xtp", "service=datagram", false),
    ("xtp", "", true),
    ("xtp", "reliability=full&order=ordered&parity=30%25&members=0", true),
];

impl Side {
    fn send(&mut self, now: Instant, frame: Message<'_>) {
        let max = self.endpoint.profile().max_message;
        match self.endpoint.send(now, Message { tag: Tag(self.accepted), ..frame }) {
            Ok(()) => {
                assert!(!self.closed && (1..=max).contains(&frame.bytes.len()));
                self.open.insert(self.accepted);
                self.accepted += 1;
            }
            Err(SendError::TooLarge { len, max: told }) => assert!(len > max && told == max),
            Err(SendError::Empty) => assert!(frame.bytes.is_empty()),
            Err(SendError::Blocked { .. } | SendError::Closed) => {}
        }
    }

    fn drain(&mut self) {
        while let Some(received) = self.endpoint.poll_message(&mut self.buf) {
            assert!(!self.closed && received.len <= self.buf.len());
        }
        while let Some(event) = self.endpoint.poll_event() {
            assert!(!self.closed, "{event:?} after Closed");
            match event {
                Event::Outcome { tag, .. } => {
                    assert!(self.open.remove(&tag.0), "a second outcome for {tag:?}")
                }
                Event::Closed(_) => {
                    self.closed = true;
                    assert!(self.open.is_empty(), "Closed before the outcomes of {:?}", self.open);
                }
                _ => {}
            }
        }
        if self.closed {
            assert_eq!(self.endpoint.poll_timeout(), None);
            assert!(self.endpoint.poll_message(&mut self.buf).is_none());
        }
    }

    fn hear(&mut self, now: Instant, bytes: &[u8]) {
        let bytes = &mut bytes.to_vec();
        let input = match self.endpoint.profile().wire {
            Wire::ByteStream => Input::Stream { bytes, received_at: now },
            Wire::Datagram => Input::Datagram { path: PathId(0), bytes, received_at: now },
        };
        self.endpoint.handle_input(now, input);
    }
}

fuzz_target!(|input: (u8, Vec<Command>)| {
    let (choice, commands) = input;
    let choice = usize::from(choice) % (TRANSPORTS.len() + MODES.len());
    let (scheme, query, group) =
        TRANSPORTS.get(choice).map_or_else(|| MODES[choice - TRANSPORTS.len()], |t| (t.scheme, "", false));
    let (query, playout_delay): (Query, _) = (query.parse().expect("a query"), Duration::from_millis(80));
    let mut now = Instant::from_millis(1);
    let open = |role| {
        let args = StackArgs { group, ..StackArgs::new(&query, 1, MAX_DATAGRAM, playout_delay) };
        let endpoint = antiphon_proto::stack(scheme, &args).expect("defaults open").open(now, role);
        let buf = vec![0; endpoint.profile().max_receive];
        Side { endpoint, open: BTreeSet::new(), accepted: 0, closed: false, buf }
    };
    let (mut caller, mut listener) = (open(Role::Caller), open(Role::Listener));
    let bytes = vec![0x80; usize::from(u16::MAX)];
    for command in commands {
        match command {
            Command::Send { to_listener, len, deadline_ms, priority } => {
                let deadline = deadline_ms.map(|ms| now + Duration::from_millis(ms.into()));
                let frame = Message { priority, ..Message::new(Tag::NONE, &bytes[..len.into()], deadline) };
                if to_listener { caller.send(now, frame) } else { listener.send(now, frame) }
            }
            Command::Flood { count } => {
                (0..u32::from(count) * 8)
                    .for_each(|_| caller.send(now, Message::new(Tag::NONE, &bytes[..20], None)));
            }
            Command::Transmit { by_caller, room, arrives } => {
                let (from, to) =
                    if by_caller { (&mut caller, &mut listener) } else { (&mut listener, &mut caller) };
                let room = match from.endpoint.profile().wire {
                    Wire::Datagram => MAX_DATAGRAM,
                    Wire::ByteStream => 1 + usize::from(room) % 4000,
                };
                let mut buf = vec![0; room];
                if let Some(transmit) = from.endpoint.poll_transmit(now, &mut buf) {
                    assert!(!from.closed && (1..=room).contains(&transmit.len));
                    if arrives {
                        to.hear(now, &buf[..transmit.len]);
                    }
                }
            }
            Command::Noise { to_caller, bytes } => {
                if to_caller {
                    caller.hear(now, &bytes)
                } else {
                    listener.hear(now, &bytes)
                }
            }
            Command::Advance { ms } => now += Duration::from_millis(ms.into()),
            Command::TimeOut => {
                for side in [&mut caller, &mut listener] {
                    side.endpoint.handle_timeout(now);
                    assert!(
                        side.endpoint.poll_timeout().is_none_or(|at| at > now),
                        "a time-out handled is spent"
                    );
                }
            }
            Command::Break { by } => {
                let reasons = [BrokenReason::Refused, BrokenReason::EndOfStream, BrokenReason::Unreachable];
                let reason = reasons[usize::from(by) % 3];
                caller.endpoint.handle_input(now, Input::Broken(reason));
                listener.endpoint.handle_input(now, Input::Broken(reason));
            }
            Command::Connect => {
                caller.endpoint.handle_input(now, Input::Connected);
                listener.endpoint.handle_input(now, Input::Connected);
            }
            Command::Drain => {
                caller.drain();
                listener.drain();
            }
            Command::Close { caller: which, abort } => {
                let mode = if abort { CloseMode::Abort } else { CloseMode::Graceful };
                if which { caller.endpoint.close(now, mode) } else { listener.endpoint.close(now, mode) }
            }
        }
    }
    for side in [&mut caller, &mut listener] {
        side.endpoint.close(now, CloseMode::Abort);
        // Some have a last word to say, and wait for room to say it.
        let mut buf = vec![0; MAX_DATAGRAM];
        for _ in 0..100 {
            while side.endpoint.poll_transmit(now, &mut buf).is_some() {}
            side.endpoint.handle_timeout(now);
            side.drain();
            now += Duration::from_millis(600);
        }
        assert!(side.closed && side.open.is_empty(), "{:?} have no outcome", side.open);
    }
});
