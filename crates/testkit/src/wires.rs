//! What lies between two participants: links or a byte pipe, and the trouble that tests make on them.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId, Pumped, Rng, Transmit, WireId, Wires, pump};
use antiphon_link::{Direction, Duplex, DuplexSpec, Packet};

/// What lies between the two.
pub enum Wire {
    /// A link for each path of the near end, which all wires share.
    Links(Vec<Duplex<Datagram>>),
    /// A byte stream.
    Pipe(Pipe),
}

/// A datagram on a link.
pub struct Datagram {
    pub(crate) wire: WireId,
    pub(crate) bytes: Vec<u8>,
    /// Bytes that the headers below it take.
    headers: usize,
}

impl Packet for Datagram {
    fn wire_len(&self) -> usize {
        self.bytes.len() + self.headers
    }

    fn priority(&self) -> Option<u16> {
        None
    }

    fn duplicate(&self) -> Self {
        Datagram { bytes: self.bytes.clone(), ..*self }
    }

    fn flip_bit(&mut self, bit: u64) {
        self.bytes.flip_bit(bit);
    }
}

/// A reliable, ordered byte stream in both directions that holds `room` bytes each way and stalls at times.
pub struct Pipe {
    /// One way.
    pub delay: Duration,
    /// Bytes on their way at most.
    pub room: usize,
    /// Nothing arrives between these instants.
    pub stall: Option<(Instant, Instant)>,
    /// Whether it is there.
    pub connected: bool,
    /// Each write gets room for less than so many bytes, drawn for each: odd sizes find framing faults.
    pub pieces: Option<(Rng, u32)>,
    pub(crate) flight: [VecDeque<(Instant, Vec<u8>)>; 2],
}

impl Pipe {
    /// One with nothing on its way, not connected yet.
    pub(crate) fn new(delay: Duration, room: usize) -> Self {
        Pipe { delay, room, stall: None, connected: false, pieces: None, flight: Default::default() }
    }

    /// What the next write gets of `room` bytes.
    fn lend(&mut self, way: usize, most: usize) -> usize {
        let room = if self.connected { self.room.saturating_sub(self.held(way)).min(most) } else { 0 };
        self.pieces.as_mut().map_or(room, |(rng, most)| room.min(1 + rng.below(*most) as usize))
    }

    fn held(&self, way: usize) -> usize {
        self.flight[way].iter().map(|(_, bytes)| bytes.len()).sum()
    }

    fn push(&mut self, way: usize, now: Instant, bytes: Vec<u8>) {
        let mut at = now + self.delay;
        if let Some((from, until)) = self.stall
            && at >= from
        {
            at = at.max(until);
        }
        let last = self.flight[way].back().map_or(at, |(last, _)| *last);
        self.flight[way].push_back((at.max(last), bytes));
    }
}

/// Whether the n-th datagram of a direction, or the n-th write to a pipe, counted from 0, is taken away.
pub type Taken = Box<dyn FnMut(u64, &[u8]) -> bool>;

/// Is shown a datagram and which way it goes.
pub type Shown = Box<dyn FnMut(Direction, &[u8])>;

/// A datagram that leaves an end, before anything befalls it.
pub struct Leaving<'a> {
    /// When.
    pub at: Instant,
    /// Which way it goes.
    pub direction: Direction,
    /// The wire that it goes by.
    pub wire: WireId,
    /// Its bytes.
    pub bytes: &'a mut [u8],
}

/// Is shown what leaves and may change it; says whether it goes on its way.
pub type Leaves = Box<dyn FnMut(&mut Leaving<'_>) -> bool>;

/// Trouble beyond what a link model makes, in one direction.
#[derive(Default)]
pub struct Trouble {
    /// Takes datagrams away.
    pub taken: Option<Taken>,
    /// Nothing passes then, on these paths of the near end.
    pub outages: Vec<(Range<Instant>, Vec<u32>)>,
    /// No longer datagram passes then: a tunnel on the way.
    pub tunnel: Option<(Range<Instant>, usize)>,
    /// The sender's wire takes nothing before then: a full socket.
    pub full_until: Option<Instant>,
    /// Datagrams offered so far.
    pub offered: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that were taken away.
    pub lost: u64,
}

impl Trouble {
    /// Notes a datagram; whether it is taken away, be it because it `stays`.
    fn takes(&mut self, now: Instant, path: u32, bytes: &[u8], stays: bool) -> bool {
        let number = self.offered;
        self.offered += 1;
        self.bytes += bytes.len() as u64;
        let out = self.outages.iter().any(|(time, paths)| time.contains(&now) && paths.contains(&path));
        let long =
            self.tunnel.as_ref().is_some_and(|(time, most)| time.contains(&now) && bytes.len() > *most);
        let taken = out || long || self.taken.as_mut().is_some_and(|taken| taken(number, bytes)) || stays;
        self.lost += u64::from(taken);
        taken
    }
}

/// Links after their specifications.
pub(crate) fn duplexes(links: &[&str], seed: u64) -> Vec<Duplex<Datagram>> {
    let duplex = |(n, link): (usize, &&str)| {
        let spec: DuplexSpec = link.parse().expect("a link");
        Duplex::new(&spec, seed + n as u64).expect("a link")
    };
    links.iter().enumerate().map(duplex).collect()
}

/// What one side sends on.
pub(crate) struct Side<'a> {
    pub wire: &'a mut Wire,
    pub way: usize,
    pub trouble: &'a mut Trouble,
    pub buf: Vec<u8>,
    pub headers: usize,
    pub full: &'a mut Option<WireId>,
    pub leaves: &'a mut Option<Leaves>,
    /// Its number of the first link.
    pub first: u32,
}

impl Side<'_> {
    /// What the wire takes at most now; nothing if it is full.
    fn room(&mut self, now: Instant) -> usize {
        let most = if self.trouble.full_until.is_some_and(|until| now < until) { 0 } else { self.buf.len() };
        match self.wire {
            Wire::Links(_) => most,
            Wire::Pipe(pipe) => pipe.lend(self.way, most),
        }
    }

    /// Sends what was written.
    fn carry(&mut self, now: Instant, wire: WireId, transmit: Transmit) {
        let direction = if self.way == 0 { Direction::Up } else { Direction::Down };
        let path = match self.wire {
            Wire::Pipe(_) => 0,
            Wire::Links(links) => match transmit.path.0.wrapping_sub(self.first) {
                path if (path as usize) < links.len() => path,
                // An address that does not exist in this world.
                _ => return,
            },
        };
        let bytes = &mut self.buf[..transmit.len];
        let goes = |leaves: &mut Leaves| leaves(&mut Leaving { at: now, direction, wire, bytes });
        let stays = !self.leaves.as_mut().is_none_or(goes);
        let bytes = &self.buf[..transmit.len];
        if self.trouble.takes(now, path, bytes, stays) {
            return;
        }
        match &mut *self.wire {
            Wire::Pipe(pipe) => pipe.push(self.way, now, bytes.to_vec()),
            Wire::Links(links) => {
                let datagram = Datagram { wire, bytes: bytes.to_vec(), headers: self.headers };
                links[path as usize].offer(now, direction, datagram);
            }
        }
    }
}

impl Wires for Side<'_> {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        loop {
            let room = self.room(now);
            if room == 0 {
                *self.full = Some(wire);
                return;
            }
            let Some(transmit) = participant.poll_transmit(now, wire, &mut self.buf[..room]) else { return };
            assert!(0 < transmit.len && transmit.len <= room, "{} bytes of {room}", transmit.len);
            self.carry(now, wire, transmit);
        }
    }

    fn close(&mut self, _now: Instant, _wire: WireId) {}
}

/// What participants send at one instant.
#[derive(Default)]
pub struct Sent {
    /// On which wire, to which of its paths, and the bytes.
    pub datagrams: Vec<(WireId, PathId, Vec<u8>)>,
    /// Wires that were closed.
    pub closed: Vec<WireId>,
}

impl Wires for Sent {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        let mut buf = [0; 2048];
        while let Some(Transmit { path, len }) = participant.poll_transmit(now, wire, &mut buf) {
            self.datagrams.push((wire, path, buf[..len].to_vec()));
        }
    }

    fn close(&mut self, _now: Instant, wire: WireId) {
        self.closed.push(wire);
    }
}

impl Sent {
    /// What `participant` does at this instant, until it is quiet.
    pub fn of(participant: &mut dyn Participant, now: Instant) -> Self {
        let mut sent = Sent::default();
        assert!(matches!(pump(participant, now, &mut sent), Pumped::Quiet(_)));
        sent
    }

    /// The bytes of all datagrams.
    pub fn bytes(self) -> impl Iterator<Item = Vec<u8>> {
        self.datagrams.into_iter().map(|(.., bytes)| bytes)
    }
}

/// What `participant` has to send on a wire, without doing anything else.
pub fn sent_on(participant: &mut dyn Participant, now: Instant, wire: WireId) -> Vec<(PathId, Vec<u8>)> {
    let mut sent = Sent::default();
    sent.flush(now, wire, participant);
    sent.datagrams.into_iter().map(|(_, path, bytes)| (path, bytes)).collect()
}
