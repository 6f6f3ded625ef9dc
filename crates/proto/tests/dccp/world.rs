//! Connections of `dccp://` over one modelled link, in virtual time.

use std::ops::Range;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Endpoint, Event, Frame, Input, Instant, Outcome, PathId};
use antiphon_link::{Direction, Duplex, DuplexSpec, LinkSpec};
use antiphon_proto::dccp::Checksum;
use antiphon_proto::dccp::wire::{DccpOption, Packet};
use antiphon_proto::{OpenArgs, Role, open};

/// What the sender of a connection has to send.
#[derive(Clone, Copy)]
pub enum Load {
    /// Always something, in frames of so many bytes.
    Greedy(usize),
    /// A frame of so many bytes in every interval, useless when older than the budget.
    Paced { len: usize, every: Duration, budget: Duration },
    /// The same, but no larger than the endpoint takes at that moment.
    Fitting { len: usize, every: Duration, budget: Duration },
}

/// Longer datagrams than so many bytes are dropped for a time.
pub type Tunnel = (Range<Instant>, usize);

/// One connection, data going up.
pub struct Pair {
    pub near: Box<dyn Endpoint>,
    pub far: Box<dyn Endpoint>,
    load: Load,
    starts: Instant,
    /// When each frame was handed over; its index is its number.
    sent_at: Vec<Instant>,
    waiting: usize,
    /// When frames arrived, and how old they were.
    pub arrivals: Vec<(Instant, Duration)>,
    /// When there was word of congestion.
    pub congestions: Vec<Instant>,
    /// Frames that were given up before they were sent, and not for their deadline.
    pub aborted: usize,
}

/// Everything.
pub struct World {
    pub now: Instant,
    pub link: Duplex<Vec<u8>>,
    pub pairs: Vec<Pair>,
    /// Nothing gets through between these.
    pub outage: Option<(Instant, Instant)>,
    pub tunnel: Option<Tunnel>,
    /// The Syncs among them get no answer.
    pub mute: bool,
    /// Every datagram that set out: when, from where, its bytes and its type.
    pub log: Vec<(Instant, Direction, usize, u8)>,
    /// Those among them that say how many without data came before, by their place in the log.
    pub counted: Vec<usize>,
    buf: Vec<u8>,
}

pub fn endpoint(query: &str, role: Role, seed: u64) -> Box<dyn Endpoint> {
    let query: Query = query.parse().expect("a query");
    let latency = Duration::from_millis(80);
    let args = OpenArgs { role, query: &query, seed, now: Instant::ZERO, max_datagram: 1452, latency };
    open("dccp", &args).expect("opens")
}

pub fn datagram(bytes: &[u8], now: Instant) -> Input<'_> {
    Input::Datagram { path: PathId::default(), bytes, ecn: Ecn::NotCapable, received_at: now }
}

impl Pair {
    pub fn new(query: &str, load: Load, starts: Instant, seed: u64) -> Self {
        Pair {
            near: endpoint(query, Role::Caller, seed),
            far: endpoint(query, Role::Listener, seed + 1000),
            load,
            starts,
            sent_at: Vec::new(),
            waiting: 0,
            arrivals: Vec::new(),
            congestions: Vec::new(),
            aborted: 0,
        }
    }

    /// Frames that arrived in a time.
    pub fn arrived(&self, from: Instant, until: Instant) -> usize {
        self.arrivals.iter().filter(|(at, _)| from <= *at && *at < until).count()
    }

    fn offer(&mut self, now: Instant) -> bool {
        let before = self.sent_at.len();
        match self.load {
            _ if now < self.starts => {}
            Load::Greedy(len) => {
                while self.waiting < 4 {
                    self.push(now, len, None);
                }
            }
            Load::Paced { len, every, budget } | Load::Fitting { len, every, budget } => {
                let fits = matches!(self.load, Load::Fitting { .. });
                let len = if fits { len.min(self.near.profile().max_frame) } else { len };
                while self.starts + every * self.sent_at.len() as u32 <= now {
                    let due = self.starts + every * self.sent_at.len() as u32;
                    self.push(now, len, Some(due + budget));
                }
            }
        }
        self.sent_at.len() > before
    }

    fn push(&mut self, now: Instant, len: usize, deadline: Option<Instant>) {
        let mut frame = vec![0x80; len];
        frame[..4].copy_from_slice(&(self.sent_at.len() as u32).to_be_bytes());
        self.near.send(now, Frame::new(&frame, deadline)).expect("a queue that is drained takes it");
        self.sent_at.push(now);
        self.waiting += 1;
    }

    fn next_frame(&self) -> Option<Instant> {
        match self.load {
            Load::Greedy(_) => Some(self.starts).filter(|_| self.sent_at.is_empty()),
            Load::Paced { every, .. } | Load::Fitting { every, .. } => {
                Some(self.starts + every * self.sent_at.len() as u32)
            }
        }
    }

    fn drain(&mut self, now: Instant, buf: &mut [u8]) {
        while let Some(received) = self.far.poll_frame(buf) {
            let number = u32::from_be_bytes([buf[0], buf[1], buf[2], buf[3]]);
            assert!(received.len > 4);
            self.arrivals.push((now, now.since(self.sent_at[number as usize])));
        }
        while let Some(event) = self.near.poll_event() {
            match event {
                Event::Frame { outcome, .. } => {
                    self.waiting -= 1;
                    self.aborted += usize::from(outcome == Outcome::Aborted);
                }
                Event::Congestion(_) => self.congestions.push(now),
                _ => {}
            }
        }
        while self.far.poll_event().is_some() {}
    }
}

impl World {
    pub fn new((up, down): (&str, &str), seed: u64, pairs: Vec<Pair>) -> Self {
        let spec = |text: &str| text.parse::<LinkSpec>().expect("a link");
        let link = Duplex::new(&DuplexSpec { up: spec(up), down: spec(down) }, seed).expect("a link");
        World {
            now: Instant::ZERO,
            link,
            pairs,
            outage: None,
            tunnel: None,
            mute: false,
            log: Vec::new(),
            counted: Vec::new(),
            buf: vec![0; 65_536],
        }
    }

    pub fn run_until(&mut self, until: Instant) {
        loop {
            self.settle();
            let timeouts = self
                .pairs
                .iter()
                .flat_map(|pair| [pair.near.poll_timeout(), pair.far.poll_timeout(), pair.next_frame()]);
            let next = timeouts.chain([self.link.poll_timeout()]).flatten().min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.deliver();
            for pair in &mut self.pairs {
                for end in [&mut pair.near, &mut pair.far] {
                    if end.poll_timeout().is_some_and(|at| at <= self.now) {
                        end.handle_timeout(self.now);
                    }
                }
            }
        }
        self.now = until;
    }

    fn deliver(&mut self) {
        while let Some((direction, bytes)) = self.link.poll(self.now) {
            let pair = &mut self.pairs[usize::from(bytes[0])];
            let end = if direction == Direction::Up { &mut pair.far } else { &mut pair.near };
            end.handle_input(self.now, datagram(&bytes[IP_UDP..], self.now));
        }
    }

    fn settle(&mut self) {
        let now = self.now;
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for (n, pair) in self.pairs.iter_mut().enumerate() {
                pair.drain(now, &mut self.buf);
                moved |= pair.offer(now);
                for direction in Direction::ALL {
                    let end = if direction == Direction::Up { &mut pair.near } else { &mut pair.far };
                    while let Some(transmit) = end.poll_transmit(now, &mut self.buf) {
                        moved = true;
                        let mut packet = vec![n as u8; IP_UDP];
                        packet.extend_from_slice(&self.buf[..transmit.len]);
                        // Where the type stands in the generic header (RFC 4340 §5.1).
                        let kind = self.buf[8] >> 1 & 0x0f;
                        if counts(&self.buf[..transmit.len]) {
                            self.counted.push(self.log.len());
                        }
                        self.log.push((now, direction, transmit.len, kind));
                        let passes = self.outage.is_none_or(|(from, until)| now < from || until <= now);
                        let too_long = |(when, most): &Tunnel| when.contains(&now) && transmit.len > *most;
                        let is_muted = self.mute && kind == SYNC_ACK;
                        if passes && !is_muted && !self.tunnel.as_ref().is_some_and(too_long) {
                            self.link.offer(now, direction, packet);
                        }
                    }
                }
            }
        }
    }
}

/// Whether a packet has an NDP Count.
fn counts(bytes: &[u8]) -> bool {
    let packet = Packet::parse(bytes, Checksum::Udp).expect("a packet");
    packet.options().any(|option| matches!(option.read(), DccpOption::NdpCount(_)))
}

/// Packet types (RFC 4340 §5.1).
pub const SYNC: u8 = 8;
pub const SYNC_ACK: u8 = 9;
/// IP and UDP headers, which count on the link (RFC 791, RFC 768).
pub const IP_UDP: usize = 28;
