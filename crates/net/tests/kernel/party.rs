//! Our side: an endpoint on the line that its URI asks for, with a minimal participant.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::uri::Uri;
use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Instant, Message, OnEndpoint, OneWire, Outcome, Role, Stack,
    StreamId, Tag,
};
use antiphon_net::{Line, OsClock, RawLine, SocketOptions, Target, UdpLine, Wait};
use antiphon_proto::{StackArgs, find};

use crate::guest::Guest;
use crate::transports::round_one;

/// A participant that sends given messages and stores received ones, or returns them.
pub struct Party {
    pub endpoint: Box<dyn Endpoint>,
    pub outbox: VecDeque<(Vec<u8>, StreamId, Option<Instant>)>,
    pub messages: Vec<Vec<u8>>,
    pub outcomes: Vec<Outcome>,
    pub connected: u32,
    pub broken: u32,
    pub closed: Option<CloseReason>,
    /// Whether messages are returned, and how long they may wait to be sent.
    returns: bool,
    buf: Vec<u8>,
}

impl Party {
    fn new(endpoint: Box<dyn Endpoint>, returns: bool) -> Self {
        let buf = vec![0; endpoint.profile().max_receive];
        Party {
            endpoint,
            outbox: VecDeque::new(),
            messages: Vec::new(),
            outcomes: Vec::new(),
            connected: 0,
            broken: 0,
            closed: None,
            returns,
            buf,
        }
    }

    pub fn count(&self, is_it: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| is_it(outcome)).count()
    }
}

impl OnEndpoint for Party {
    fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn endpoint_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    fn work(&mut self, now: Instant) {
        while let Some(received) = self.endpoint.poll_message(&mut self.buf) {
            let message = self.buf[..received.len].to_vec();
            if self.returns {
                self.outbox.push_back((message.clone(), received.stream, None));
            }
            self.messages.push(message);
        }
        while let Some((bytes, stream, deadline)) = self.outbox.front() {
            let message = Message { stream: *stream, ..Message::new(Tag::NONE, bytes, *deadline) };
            if self.endpoint.send(now, message).is_err() {
                break;
            }
            self.outbox.pop_front();
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => self.connected += 1,
                Event::Broken(_) => self.broken += 1,
                Event::Outcome { outcome, .. } => self.outcomes.push(outcome),
                Event::Closed(reason) => self.closed = Some(reason),
                _ => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        self.closed.is_some()
    }
}

/// A party on its line, run by hand.
pub struct Node {
    pub party: Party,
    pub line: Box<dyn Line>,
    pub clock: OsClock,
    what: String,
}

impl Node {
    /// The party that `uri` asks for, as `antiphon send` and `receive` would read it. In the namespace of the calling
    /// thread.
    pub fn open(uri: &str, returns: bool) -> Self {
        let clock = OsClock::new();
        let (line, stack, role) = open_line(uri);
        Node { party: Party::new(stack.open(clock.now(), role), returns), line, clock, what: uri.into() }
    }

    /// Sends a message with that lifetime.
    pub fn send_by(&mut self, message: Vec<u8>, lifetime: Option<Duration>) {
        let deadline = lifetime.map(|lifetime| self.clock.now() + lifetime);
        self.party.outbox.push_back((message, StreamId(0), deadline));
    }

    pub fn close(&mut self) {
        self.party.endpoint.close(self.clock.now(), CloseMode::Graceful);
    }

    pub fn turn(&mut self) {
        let due = self.party.poll_timeout().map_or(TICK, |at| at.since(self.clock.now()).min(TICK));
        let wait = if due.is_zero() { Wait::No } else { Wait::For(due) };
        round_one(&mut *self.line, &mut self.party, &self.clock, wait).expect("the line lives");
    }

    /// Runs until `done`, or fails naming what was waited for.
    pub fn until(&mut self, what: &str, time: Duration, mut done: impl FnMut(&Party) -> bool) {
        assert!(self.runs_until(time, &mut done), "{}: waiting for {what}: {}", self.what, self.state());
    }

    /// Runs until `done`; returns whether that was in time.
    pub fn runs_until(&mut self, time: Duration, mut done: impl FnMut(&Party) -> bool) -> bool {
        let end = self.clock.now() + time;
        while !done(&self.party) {
            if self.clock.now() >= end {
                return false;
            }
            self.turn();
        }
        true
    }

    /// Sends messages on schedule, one an interval.
    pub fn pace(&mut self, messages: &[Vec<u8>], interval: Duration, lifetime: Option<Duration>) {
        for message in messages {
            self.send_by(message.clone(), lifetime);
            self.runs_until(interval, |_| false);
        }
    }

    pub fn state(&self) -> String {
        let Party { messages, outcomes, outbox, connected, broken, closed, endpoint, .. } = &self.party;
        format!(
            "connected {connected}, {} messages in, {} outcomes, {} not taken yet, broken {broken}, closed {closed:?}; \
             {:?}; {:?}",
            messages.len(),
            outcomes.len(),
            outbox.len(),
            self.line.stats(),
            endpoint.stats(),
        )
    }
}

/// Opens the line that `uri` asks for, calling or listening, and the stack of its endpoints, which have that role.
pub fn open_line(uri: &str) -> (Box<dyn Line>, Rc<dyn Stack>, Role) {
    let parsed: Uri = uri.parse().expect("a URI");
    let (transport, mut options) = (find(&parsed.scheme).expect("known"), SocketOptions::default());
    let target = Target::resolve(&parsed, 0).expect("an address");
    let mut query = parsed.query;
    options.other_peers = (transport.other_peers)(&query).expect("addresses");
    let (line, max_datagram): (Box<dyn Line>, usize) = match query.value("over") {
        Some("ip") => {
            let over = transport.over_ip.expect("has a number");
            query.set(over.port_key(), &target.address().port().to_string());
            let line = RawLine::open(target, Box::new(over), &options).expect("root");
            let max = line.max_datagram();
            (Box::new(line), max)
        }
        _ => {
            let line = UdpLine::open(target, &options).expect("a free port");
            let max = line.max_datagram();
            (Box::new(line), max)
        }
    };
    let role = if matches!(target, Target::Call(_)) { Role::Caller } else { Role::Listener };
    // As in the program, values are not repeated: a peer must not take a call for an earlier one.
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let seed = u64::from(std::process::id()) << 32 | OPENED.fetch_add(1, Ordering::Relaxed);
    let args = StackArgs::new(&query, seed, max_datagram, Duration::from_millis(80));
    let stack = (transport.stack)(&args).unwrap_or_else(|error| panic!("{error}"));
    (line, stack, role)
}

/// A server of ours in the machine's namespace, on a thread of its own.
pub struct Server {
    thread: std::thread::JoinHandle<Served>,
}

/// Results of a server of ours.
pub struct Served {
    pub messages: Vec<Vec<u8>>,
    pub closed: Option<CloseReason>,
    pub damaged: u64,
    pub malformed: u64,
    /// As text.
    pub state: String,
}

impl Server {
    /// Listens as `uri` says and returns every message until the association has ended.
    pub fn start(guest: &Guest, uri: &str) -> Self {
        Self::start_closing(guest, uri, usize::MAX)
    }

    /// The same, and closes after so many messages.
    pub fn start_closing(guest: &Guest, uri: &str, after: usize) -> Self {
        Self::start_with(guest, uri, after, true)
    }

    /// Listens and stores every message.
    pub fn start_silent(guest: &Guest, uri: &str) -> Self {
        Self::start_with(guest, uri, usize::MAX, false)
    }

    fn start_with(guest: &Guest, uri: &str, after: usize, returns: bool) -> Self {
        let (namespace, uri) = (guest.namespace.clone(), uri.to_string());
        let (ready, open) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            namespace.enter().expect("root");
            let mut node = Node::open(&uri, returns);
            ready.send(()).expect("the test waits");
            if node.runs_until(LIMIT, |party| party.closed.is_some() || party.messages.len() >= after) {
                node.close();
                node.runs_until(LIMIT, |party| party.closed.is_some());
            }
            Served {
                closed: node.party.closed,
                damaged: node.line.stats().damaged,
                malformed: node.party.endpoint.stats().counters.malformed,
                state: node.state(),
                messages: node.party.messages,
            }
        });
        open.recv_timeout(LIMIT).expect("the server opens");
        Server { thread }
    }

    /// Waits for the association's end, and returns the results.
    pub fn end(self) -> Served {
        self.thread.join().expect("no panic")
    }
}

/// Runs a caller of ours in the machine's namespace.
pub fn call<T: Send>(guest: &Guest, uri: &str, work: impl FnOnce(&mut Node) -> T + Send) -> T {
    let run = || work(&mut Node::open(uri, false));
    guest.namespace.run(run).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// Messages that contain their number and are filled so that truncation or mixing is noticed.
pub fn messages(count: usize, len: usize) -> Vec<Vec<u8>> {
    let message = |number: usize| {
        let mut bytes: Vec<u8> = (0..len).map(|i| (number * 31 + i * 7 + i / 251) as u8).collect();
        bytes[..4].copy_from_slice(&(number as u32).to_be_bytes());
        bytes
    };
    (0..count).map(message).collect()
}

/// How many of `sent` came back unchanged, once each; anything else is a failure.
pub fn intact(sent: &[Vec<u8>], came: &[Vec<u8>]) -> usize {
    let mut numbers: Vec<usize> = came
        .iter()
        .map(|message| {
            let number = u32::from_be_bytes(message[..4].try_into().expect("four bytes")) as usize;
            assert!(sent.get(number) == Some(message), "message {number} is not as it was sent");
            number
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), came.len(), "a message came twice");
    came.len()
}

/// The longest that a thread here sleeps.
const TICK: Duration = Duration::from_millis(5);
/// No association here lasts longer.
pub const LIMIT: Duration = Duration::from_secs(60);
