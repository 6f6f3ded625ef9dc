//! Two endpoints and wires of fixed size, driven in steps of a millisecond: a world that allocates nothing itself.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Endpoint, Event, Input, Instant, Outcome, Rng, Wire, handle_due};

use crate::world::datagram;

/// Datagrams that a driver hands in before it lets the participant act (`net`).
const AT_ONCE: usize = 128;
/// The longest datagram in bytes: what Ethernet takes.
const LONGEST: usize = 1500;
/// What a wire holds at most, in datagrams or pieces of a stream.
const PLACES: usize = 4096;

type Flight = VecDeque<(Instant, usize, [u8; LONGEST])>;

/// Two ends, and wires that lose, driven as participants drive them.
pub struct Steps {
    /// The caller and the listener.
    pub ends: [Box<dyn Endpoint>; 2],
    /// Whether something has come to each of them.
    pub heard: [bool; 2],
    /// Virtual time.
    pub now: Instant,
    /// Longer datagrams vanish.
    pub limit: usize,
    /// Messages that came to either.
    pub delivered: u64,
    /// Messages reported as sent or acknowledged to either.
    pub told: u64,
    flights: [Flight; 2],
    one_way: Duration,
    loss: f64,
    rng: Rng,
    is_stream: bool,
    buf: Vec<u8>,
}

impl Steps {
    /// Over wires with this delay and share of losses, each way. A byte stream is connected.
    pub fn new(mut ends: [Box<dyn Endpoint>; 2], one_way: Duration, loss: f64, seed: u64) -> Self {
        let most = ends.iter().map(|end| end.profile().max_receive).max().unwrap_or(0);
        let is_stream = ends[0].profile().wire == Wire::ByteStream;
        if is_stream {
            ends.iter_mut().for_each(|end| end.handle_input(Instant::ZERO, Input::Connected));
        }
        Steps {
            ends,
            heard: [false; 2],
            now: Instant::from_millis(1),
            limit: LONGEST,
            delivered: 0,
            told: 0,
            flights: [Flight::with_capacity(PLACES), Flight::with_capacity(PLACES)],
            one_way,
            loss,
            rng: Rng::fork(seed, "loss"),
            is_stream,
            buf: vec![0; most.max(65_536)],
        }
    }

    /// Bytes that the wires and the buffer take.
    pub fn own_bytes(&self) -> usize {
        let places: usize = self.flights.iter().map(VecDeque::capacity).sum();
        places * size_of::<(Instant, usize, [u8; LONGEST])>() + self.buf.capacity()
    }

    /// A millisecond, in which only some of the ends run; each that does may send by `send`.
    pub fn step(&mut self, runs: [bool; 2], mut send: impl FnMut(usize, Instant, &mut dyn Endpoint)) {
        self.now += Duration::from_millis(1);
        for at in (0..2).filter(|at| runs[*at]) {
            self.hand_in(at);
            self.fetch(at);
            send(at, self.now, &mut *self.ends[at]);
            self.transmit(at);
        }
    }

    fn hand_in(&mut self, at: usize) {
        for _ in 0..AT_ONCE {
            let next = self.flights[at].pop_front_if(|(due, ..)| *due <= self.now);
            let Some((_, len, mut bytes)) = next else { break };
            let input = match self.is_stream {
                true => Input::Stream { bytes: &mut bytes[..len], received_at: self.now },
                false => datagram(&mut bytes[..len], Default::default(), self.now),
            };
            self.ends[at].handle_input(self.now, input);
            self.heard[at] = true;
        }
        handle_due(&mut *self.ends[at], self.now);
    }

    fn fetch(&mut self, at: usize) {
        while self.ends[at].poll_message(&mut self.buf).is_some() {
            self.delivered += 1;
        }
        while let Some(event) = self.ends[at].poll_event() {
            let told = matches!(event, Event::Outcome { outcome: Outcome::Acked | Outcome::Released, .. });
            self.told += u64::from(told);
        }
    }

    fn transmit(&mut self, at: usize) {
        while let Some(transmit) = self.ends[at].poll_transmit(self.now, &mut self.buf[..LONGEST]) {
            if self.rng.chance(1.0 - self.loss) && transmit.len <= self.limit {
                let mut bytes = [0; LONGEST];
                bytes[..transmit.len].copy_from_slice(&self.buf[..transmit.len]);
                self.flights[1 - at].push_back((self.now + self.one_way, transmit.len, bytes));
            }
        }
    }
}
