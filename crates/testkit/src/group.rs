//! The members of a multicast group, each of which hears what all of them send, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId, Pumped, Rng, WireId, Wires, pump};

use crate::world::datagram;

/// A datagram as it leaves: of which member, and its bytes. Returns whether it goes on its way to a member.
pub type ToMember = Box<dyn FnMut(usize, usize, &[u8]) -> bool>;

/// A group and its members. What one sends comes to all of them, also to itself, as on a socket that has joined the group.
pub struct GroupWorld<P> {
    /// Virtual time, by a clock that is right.
    pub now: Instant,
    /// Each of them.
    pub members: Vec<GroupMember<P>>,
    /// From one member to each other; its own come back at once.
    pub delay: Duration,
    /// Up to so much is added, drawn for each datagram: they overtake each other.
    pub jitter: Duration,
    /// Drivers are woken late, by up to so much.
    pub late: Duration,
    /// Share of datagrams that is lost, for each receiver by itself.
    pub loss: f64,
    /// Decides further what comes to whom.
    pub passes: Option<ToMember>,
    rng: Rng,
    /// By time of arrival, then in the order of leaving: from whom, to whom.
    flights: BTreeMap<(Instant, u64), (PathId, usize, Vec<u8>)>,
    sent: u64,
}

/// A member of a group.
pub struct GroupMember<P> {
    /// The participant.
    pub participant: P,
    /// How much faster its clock runs than the world's, in ppm.
    pub ppm: i64,
    /// Nothing comes to it or leaves it: its cable was pulled.
    pub cut_off: bool,
    /// Datagrams that it sent, and those of others that came to it.
    pub counts: [u64; 2],
    /// What comes to it from others comes through a link of so many bytes a second, before which so many bytes may wait; what finds no room is lost.
    pub narrow: Option<(f64, usize)>,
    /// When that link is free.
    free: Instant,
}

const WIRE: WireId = WireId(0);

impl<P: Participant> GroupWorld<P> {
    /// Without members.
    pub fn new(delay: Duration, seed: u64) -> Self {
        GroupWorld {
            now: Instant::from_millis(1),
            members: Vec::new(),
            delay,
            jitter: Duration::ZERO,
            late: Duration::ZERO,
            loss: 0.0,
            passes: None,
            rng: Rng::fork(seed, "group"),
            flights: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Adds a member; returns its number.
    pub fn join(&mut self, participant: P, ppm: i64) -> usize {
        self.members.push(GroupMember {
            participant,
            ppm,
            cut_off: false,
            counts: [0; 2],
            narrow: None,
            free: Instant::ZERO,
        });
        self.members.len() - 1
    }

    /// The path on which others hear a member.
    pub fn path_of(member: usize) -> PathId {
        PathId(member as u32 + 1)
    }

    /// What a member's clock says.
    pub fn local(&self, member: usize) -> Instant {
        self.members[member].local(self.now)
    }

    /// A member.
    pub fn member(&mut self, member: usize) -> &mut P {
        &mut self.members[member].participant
    }

    /// A datagram comes to all members from elsewhere.
    pub fn inject(&mut self, path: PathId, bytes: &[u8]) {
        for at in 0..self.members.len() {
            let (now, mut bytes) = (self.local(at), bytes.to_vec());
            self.member(at).handle_input(now, WIRE, datagram(&mut bytes, path, now));
        }
    }

    /// Runs until then.
    pub fn run_until(&mut self, until: Instant) {
        let mut idle = 0;
        // Those that something has come for, or that were changed from outside.
        let mut touched = vec![true; self.members.len()];
        loop {
            for (at, touched) in touched.iter_mut().enumerate() {
                if std::mem::take(touched) || self.members[at].is_due(self.now) {
                    self.settle(at);
                }
            }
            let next = self.next_event().filter(|next| *next <= until);
            let Some(next) = next else { break };
            idle = if next > self.now { 0 } else { idle + 1 };
            assert!(idle < 1_000, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            if !self.late.is_zero() {
                self.now += self.late.mul_f64(self.rng.unit());
            }
            while let Some(entry) = self.flights.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (path, to, mut bytes) = entry.remove();
                let now = self.local(to);
                touched[to] = true;
                self.members[to].counts[1] += u64::from(path != Self::path_of(to));
                self.member(to).handle_input(now, WIRE, datagram(&mut bytes, path, now));
            }
        }
        self.now = self.now.max(until);
    }

    fn next_event(&self) -> Option<Instant> {
        let due = self.members.iter().filter(|one| !one.participant.is_finished());
        let due = due.filter_map(|one| Some(one.global(one.participant.poll_timeout()?)));
        due.chain(self.flights.first_key_value().map(|((at, _), _)| *at)).min()
    }

    fn settle(&mut self, at: usize) {
        let (now, mut sent) = (self.local(at), Sending::default());
        let pumped = pump(&mut self.members[at].participant, now, &mut sent);
        assert!(matches!(pumped, Pumped::Quiet(_)), "a member is never quiet at {now:?}");
        for bytes in sent.0 {
            self.members[at].counts[0] += 1;
            for to in 0..self.members.len() {
                let cut_off = to != at && (self.members[at].cut_off || self.members[to].cut_off);
                let lost = to != at && self.rng.chance(self.loss);
                if cut_off || lost || !self.passes.as_mut().is_none_or(|passes| passes(at, to, &bytes)) {
                    continue;
                }
                let delay = self.delay + self.jitter.mul_f64(self.rng.unit());
                let delay = if to == at {
                    Some(Duration::ZERO)
                } else {
                    self.members[to].passes(self.now + delay, bytes.len()).map(|waits| delay + waits)
                };
                let Some(delay) = delay else { continue };
                let arrives = self.now + delay;
                self.sent += 1;
                self.flights.insert((arrives, self.sent), (Self::path_of(at), to, bytes.clone()));
            }
        }
    }
}

impl<P> GroupMember<P> {
    /// How long a datagram of `len` bytes that comes at `at` takes through the link before this member; `None` if it is lost there.
    fn passes(&mut self, at: Instant, len: usize) -> Option<Duration> {
        let Some((rate, room)) = self.narrow else { return Some(Duration::ZERO) };
        let waits = self.free.since(at);
        if waits.as_secs_f64() * rate + len as f64 > room as f64 {
            return None;
        }
        self.free = self.free.max(at) + Duration::from_secs_f64(len as f64 / rate);
        Some(self.free.since(at))
    }

    fn local(&self, now: Instant) -> Instant {
        now.offset_nanos((i128::from(now.as_nanos()) * i128::from(self.ppm) / 1_000_000) as i64)
    }

    fn is_due(&self, now: Instant) -> bool
    where
        P: Participant,
    {
        self.participant.poll_timeout().is_some_and(|due| due <= self.local(now))
    }

    /// The first instant of the world's clock at which this one says `local` at least.
    fn global(&self, local: Instant) -> Instant {
        let nanos = i128::from(local.as_nanos()) * 1_000_000 / i128::from(1_000_000 + self.ppm);
        let mut global = Instant::from_nanos(nanos.max(0) as u64);
        while self.local(global) < local {
            global += Duration::from_nanos(1);
        }
        global
    }
}

/// What a member sends at an instant.
#[derive(Default)]
struct Sending(Vec<Vec<u8>>);

impl Wires for Sending {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        let mut buf = vec![0; 1_500];
        while let Some(transmit) = participant.poll_transmit(now, wire, &mut buf) {
            self.0.push(buf[..transmit.len].to_vec());
        }
    }

    fn close(&mut self, _now: Instant, _wire: WireId) {}
}
