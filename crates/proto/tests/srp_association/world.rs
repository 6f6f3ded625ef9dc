//! Two endpoints on a wire that loses what it is told to.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Ecn, Endpoint, Event, Frame, Input, Instant, PathId};
use antiphon_proto::Role;
use antiphon_proto::srp::{Mode, Settings, SrpEndpoint};

const ONE_WAY: Duration = Duration::from_millis(10);
const LATENCY: Duration = Duration::from_millis(100);

/// A pair on a path of 10 ms each way that loses what it is told to.
pub struct Pair {
    pub now: Instant,
    pub sides: [SrpEndpoint; 2],
    pub wire: VecDeque<(Instant, usize, Vec<u8>)>,
    /// How many datagrams of the first side are lost next.
    pub lose: usize,
    /// Added to the times in the first side's messages, as if its clock had been set.
    pub warp: u32,
    pub sent: [usize; 2],
    pub got: [Vec<Vec<u8>>; 2],
    pub events: Vec<Event>,
}

pub fn open(mode: Mode, role: Role, seed: u64, now: Instant) -> SrpEndpoint {
    SrpEndpoint::new(&Settings::new(mode, LATENCY), role, 1472, seed, now)
}

impl Pair {
    pub fn new(mode: Mode) -> Self {
        let sides = [Role::Caller, Role::Listener].map(|role| open(mode, role, 1, Instant::ZERO));
        let got = [Vec::new(), Vec::new()];
        Pair {
            now: Instant::ZERO,
            sides,
            wire: VecDeque::new(),
            lose: 0,
            warp: 0,
            sent: [0, 0],
            got,
            events: Vec::new(),
        }
    }

    pub fn send(&mut self, from: usize, frame: &[u8]) {
        // Half a second, longer than anything here waits.
        let deadline = Some(self.now + Duration::from_millis(500));
        self.sides[from].send(self.now, Frame::new(frame, deadline)).expect("accepted");
    }

    pub fn inject(&mut self, to: usize, packet: &[u8]) {
        hear(&mut self.sides[to], self.now, packet);
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += Duration::from_millis(1);
            while self.wire.front().is_some_and(|(at, ..)| *at <= self.now) {
                let Some((_, to, bytes)) = self.wire.pop_front() else { break };
                hear(&mut self.sides[to], self.now, &bytes);
            }
            for at in 0..2 {
                self.turn(at);
            }
        }
    }

    fn turn(&mut self, at: usize) {
        let mut buf = vec![0; 65_535];
        let side = &mut self.sides[at];
        if side.poll_timeout().is_some_and(|due| due <= self.now) {
            side.handle_timeout(self.now);
        }
        while let Some(received) = side.poll_frame(&mut buf) {
            self.got[at].push(buf[..received.len].to_vec());
        }
        while let Some(event) = side.poll_event() {
            self.events.push(event);
        }
        while let Some(sent) = side.poll_transmit(self.now, &mut buf) {
            self.sent[at] += sent.len;
            if at == 0 && buf[3] & 0x0f == 1 {
                let time = u32::from_be_bytes([buf[4], buf[5], buf[6], buf[7]]).wrapping_add(self.warp);
                buf[4..8].copy_from_slice(&time.to_be_bytes());
            }
            if at == 0 && self.lose > 0 {
                self.lose -= 1;
            } else {
                self.wire.push_back((self.now + ONE_WAY, 1 - at, buf[..sent.len].to_vec()));
            }
        }
    }

    /// Both ways, a frame each 20 ms.
    pub fn stream(&mut self, count: u8, both_ways: bool) {
        for n in 0..count {
            self.send(0, &[n; 200]);
            if both_ways {
                self.send(1, &[n; 200]);
            }
            self.run(Duration::from_millis(20));
        }
    }
}

pub fn hear(side: &mut SrpEndpoint, now: Instant, bytes: &[u8]) {
    let (path, ecn) = (PathId::default(), Ecn::NotCapable);
    side.handle_input(now, Input::Datagram { path, bytes, ecn, received_at: now });
}
