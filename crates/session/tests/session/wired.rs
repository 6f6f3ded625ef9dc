//! A sender and a receiver with several wires between them.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId, WireId, pump, sooner};
use antiphon_link::{Direction, Duplex};
use antiphon_media::rtcp::App;
use antiphon_session::{Change, Joining, PlayoutDelay, ReceiveTrack, Session, SessionConfig};
use antiphon_testkit::{Kept, Noise, Sent, expected, stereo};

use crate::common::{receive_config, session_config};
use crate::world::{SILENCE, datagram, heard, send_session_within, stack, track_config};

pub const TOKEN: [u8; 16] = [7; 16];
/// Twelve seconds, so that a stream has time to move four times.
pub const FRAMES: u64 = 12 * 48_000;

/// A sender and a receiver, with a link for each wire. Wire *n* of the receiver listens for the *n*-th transport.
pub struct Wired {
    pub near: Session,
    pub far: Session,
    /// To whom the first wire leads instead of the receiver.
    other_receiver: Option<Session>,
    pub links: BTreeMap<WireId, Duplex<Vec<u8>>>,
    pub now: Instant,
    pub kept: Kept,
    /// Bytes that the sender has sent, by wire.
    pub sent: BTreeMap<WireId, usize>,
    /// Bytes that the receiver has sent, by wire.
    pub answered: BTreeMap<WireId, usize>,
    /// Packets about associations that the sender has sent, by wire.
    pub told: BTreeMap<WireId, usize>,
    pub changes: Vec<Change>,
    /// When each of them came.
    pub happened: Vec<Instant>,
    /// The wires that the sender has closed.
    pub closed: Vec<WireId>,
}

impl Wired {
    /// A stream of stereo over the first of `names`, each over its link.
    pub fn new(names: &[(&str, &str)], delay: Duration, seed: u64) -> Self {
        let source = Noise::new(stereo(), FRAMES);
        let near = send_session_within(names[0].0, source, track_config(stereo(), seed), delay);
        let kept = Kept::default();
        let tells = Some(PlayoutDelay::Of(delay));
        let config = SessionConfig { tells, ..session_config("far", 99) };
        let mut far = Session::new(config, Instant::ZERO);
        far.set_receive_track(ReceiveTrack::new(receive_config(Some(delay), false), kept.opener(), None));
        let mut links = BTreeMap::new();
        for (n, (name, link)) in (0..).zip(names) {
            far.listen(Instant::ZERO, WireId(n), stack(name), SILENCE);
            links.insert(
                WireId(n),
                Duplex::new(&link.parse().expect("a link"), seed + u64::from(n)).expect("possible"),
            );
        }
        Wired {
            near,
            far,
            other_receiver: None,
            links,
            now: Instant::ZERO,
            kept,
            sent: BTreeMap::new(),
            answered: BTreeMap::new(),
            told: BTreeMap::new(),
            changes: Vec::new(),
            happened: Vec::new(),
            closed: Vec::new(),
        }
    }

    pub fn go_further(&mut self, wire: u32, name: &str, joining: Joining) {
        self.near.call_further(self.now, WireId(wire), &[PathId(0)], &stack(name), joining, TOKEN);
    }

    fn drain(&mut self) {
        let sent = Sent::of(&mut self.near, self.now);
        self.closed.extend(sent.closed);
        for (wire, _, bytes) in sent.datagrams {
            *self.sent.entry(wire).or_default() += bytes.len();
            *self.told.entry(wire).or_default() += usize::from(App::parse(&bytes).is_some());
            if let Some(link) = self.links.get_mut(&wire) {
                link.offer(self.now, Direction::Up, bytes);
            }
        }
        let mut sent = Sent::of(&mut self.far, self.now);
        if let Some(other) = &mut self.other_receiver {
            pump(other, self.now, &mut sent);
        }
        for (wire, _, bytes) in sent.datagrams {
            *self.answered.entry(wire).or_default() += bytes.len();
            if let Some(link) = self.links.get_mut(&wire) {
                link.offer(self.now, Direction::Down, bytes);
            }
        }
        while let Some(change) = self.near.poll_change() {
            self.changes.push(change);
            self.happened.push(self.now);
        }
    }

    /// From now on the first wire leads to another machine, which knows nothing of the association, and says so.
    pub fn divert(&mut self, name: &str) {
        let mut other = Session::new(session_config("other", 7), self.now);
        other.listen(self.now, WireId(0), stack(name), SILENCE);
        self.other_receiver = Some(other);
    }

    /// A datagram of somebody else arrives at the receiver.
    pub fn forge(&mut self, wire: u32, path: u32, mut bytes: Vec<u8>) {
        self.far.handle_input(self.now, WireId(wire), datagram(&mut bytes, PathId(path), self.now));
    }

    pub fn run_until(&mut self, until: Instant) {
        loop {
            self.drain();
            let links = self.links.values().filter_map(Duplex::poll_timeout).min();
            let due = sooner(links, sooner(self.near.poll_timeout(), self.far.poll_timeout()));
            let Some(due) = due.filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            for (wire, link) in &mut self.links {
                while let Some((direction, mut bytes)) = link.poll(self.now) {
                    let to = match (direction, &mut self.other_receiver) {
                        (Direction::Down, _) => &mut self.near,
                        (Direction::Up, Some(other)) if *wire == WireId(0) => other,
                        (Direction::Up, _) => &mut self.far,
                    };
                    to.handle_input(self.now, *wire, datagram(&mut bytes, PathId(0), self.now));
                }
            }
        }
        self.now = self.now.max(until);
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        self.run_until(until);
    }

    pub fn end(&mut self) {
        self.run_until(Instant::from_millis(40_000));
        assert!(self.near.is_finished() && self.far.is_finished());
    }

    /// The same, and the stream was flawless.
    pub fn end_flawless(&mut self) {
        self.end();
        assert!(self.is_flawless(), "{:?}", heard(&self.far).playout());
    }

    /// Not one sample was lost, repeated or made up.
    pub fn is_flawless(&self) -> bool {
        let playout = heard(&self.far).playout().expect("it played");
        playout.concealed_frames == 0 && self.kept.samples() == expected(stereo(), 0, FRAMES)
    }
}
