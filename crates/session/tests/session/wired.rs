//! A sender and a receiver with several wires between them.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Instant, Participant, PathId, WireId, pump, sooner};
use antiphon_link::{Direction, Duplex};
use antiphon_media::rtcp::App;
use antiphon_session::{
    Apart, Change, DataSink, Joining, PlayoutDelay, ReceiveTrack, SendTrack, Session, SessionConfig,
    VideoFormat, VideoSink, VideoSource,
};
use antiphon_testkit::{Kept, Noise, Sent, expected, stereo};

use crate::common::{receive_config, sending, session_config};
use crate::video::with_track;
use crate::world::{SILENCE, datagram, heard, is_rtcp, send_session_within, stack, track_config};

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
    /// RTCP that the sender and the receiver have sent.
    pub rtcp: [Vec<(WireId, Vec<u8>)>; 2],
    /// RTCP of the sender is lost on this wire.
    pub without_rtcp: Option<WireId>,
}

fn told(delay: Option<Duration>) -> PlayoutDelay {
    delay.map_or(PlayoutDelay::Unbounded, PlayoutDelay::Of)
}

/// A receiver of stereo that listens on a wire for each of `names`.
fn receiver(now: Instant, names: &[(&str, &str)], delay: Option<Duration>, kept: &Kept) -> Session {
    let config = SessionConfig { tells: Some(told(delay)), ..session_config("far", 99) };
    let mut far = Session::new(config, now);
    far.set_receive_track(ReceiveTrack::new(receive_config(delay, false), kept.opener(), None));
    for (wire, (name, _)) in (0..).zip(names) {
        far.listen(now, WireId(wire), stack(name), SILENCE);
    }
    far
}

impl Wired {
    /// A stream of stereo over the first of `names`, each over its link.
    pub fn new(names: &[(&str, &str)], delay: Duration, seed: u64) -> Self {
        let source = Noise::new(stereo(), FRAMES);
        let near = send_session_within(names[0].0, source, track_config(stereo(), seed), delay);
        let kept = Kept::default();
        let far = receiver(Instant::ZERO, names, Some(delay), &kept);
        let mut links = BTreeMap::new();
        for (n, (_, link)) in (0..).zip(names) {
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
            rtcp: [const { Vec::new() }; 2],
            without_rtcp: None,
        }
    }

    /// Sound over plain RTP and pictures in an RTP session of their own, over these links. The receiver knows packets of pictures by
    /// `format`.
    pub fn with_video_session(
        links: [&str; 2],
        delay: Option<Duration>,
        pictures: Box<dyn VideoSource>,
        (sink, format): (Box<dyn VideoSink>, VideoFormat),
    ) -> Self {
        let wire = WireId(1);
        let mut world = Wired::new(&[("rtp", links[0])], delay.unwrap_or(Duration::from_millis(80)), 3);
        let source = Noise::new(stereo(), FRAMES);
        // Tracks of pictures are there before the peer, as in a sender.
        let config = track_config(stereo(), 3);
        let near = SessionConfig { playout_delay: told(delay), ..session_config("near", config.seed) };
        world.near = Session::new(near, Instant::ZERO);
        world.near.set_send_track(SendTrack::new(source, config).expect("a track"));
        world.near.set_video_session(Instant::ZERO);
        world.near = with_track(world.near, pictures);
        world.near.call(Instant::ZERO, WireId(0), &[PathId(0)], &*stack("rtp"));
        world.far = receiver(world.now, &[("rtp", links[0])], delay, &world.kept);
        world.far.set_video_sink(sink);
        world.far.listen_for_video_session(world.now, format, wire, None);
        world.links.insert(wire, Duplex::new(&links[1].parse().expect("a link"), 9).expect("possible"));
        world.near.call_apart(Instant::ZERO, Apart::Pictures, (wire, &[PathId(0)]), &stack("rtp"), TOKEN);
        world
    }

    /// The same without a listener on the last wire, which is for pictures: they are sent over it, and received into `sink`.
    pub fn with_pictures_apart(
        names: &[(&str, &str)],
        delay: Option<Duration>,
        pictures: Box<dyn VideoSource>,
        sink: Box<dyn VideoSink>,
    ) -> Self {
        let (video, sound) = names.split_last().expect("a wire for pictures");
        let mut world = Wired::new(sound, delay.unwrap_or(Duration::from_millis(80)), 3);
        let source = Noise::new(stereo(), FRAMES);
        world.near = sending(&*stack(sound[0].0), source, track_config(stereo(), 3), told(delay));
        world.start_receiver(names, delay, sink);
        let wire = WireId(sound.len() as u32);
        world.links.insert(wire, Duplex::new(&video.1.parse().expect("a link"), 9).expect("possible"));
        world.near.send_apart(Instant::ZERO, Apart::Pictures);
        world.near = with_track(world.near, pictures);
        world.near.call_apart(Instant::ZERO, Apart::Pictures, (wire, &[PathId(0)]), &stack(video.0), TOKEN);
        world
    }

    /// A receiver of sound and of pictures, on the last wire, in place of the one that was there.
    pub fn start_receiver(
        &mut self,
        names: &[(&str, &str)],
        delay: Option<Duration>,
        sink: Box<dyn VideoSink>,
    ) {
        let (video, sound) = names.split_last().expect("a wire for pictures");
        self.far = receiver(self.now, sound, delay, &self.kept);
        self.far.set_video_sink(sink);
        let wire = WireId(sound.len() as u32);
        self.far.listen_apart(self.now, Apart::Pictures, wire, stack(video.0), SILENCE);
    }

    /// Data go over an association of their own as well, on wire 2: `near` is what sends them.
    pub fn add_data_apart(
        &mut self,
        (name, link): (&str, &str),
        near: impl FnOnce(&mut Session),
        sink: Box<dyn DataSink>,
    ) {
        let (wire, at) = (WireId(2), self.now);
        self.links.insert(wire, Duplex::new(&link.parse().expect("a link"), 11).expect("possible"));
        self.near.send_apart(at, Apart::Data);
        self.near.set_data_over(Apart::Data);
        near(&mut self.near);
        self.near.call_apart(at, Apart::Data, (wire, &[PathId(0)]), &stack(name), TOKEN);
        self.listen_for_data(name, sink);
    }

    /// The receiver waits for data on wire 2.
    pub fn listen_for_data(&mut self, name: &str, sink: Box<dyn DataSink>) {
        self.far.set_data_sink(sink);
        self.far.listen_apart(self.now, Apart::Data, WireId(2), stack(name), SILENCE);
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
            if is_rtcp(&bytes) {
                self.rtcp[0].push((wire, bytes.clone()));
                if self.without_rtcp == Some(wire) {
                    continue;
                }
            }
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
            if is_rtcp(&bytes) {
                self.rtcp[1].push((wire, bytes.clone()));
            }
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

    /// A datagram arrives at the sender, on a wire that it has called.
    pub fn answer(&mut self, wire: u32, mut bytes: Vec<u8>) {
        self.near.handle_input(self.now, WireId(wire), datagram(&mut bytes, PathId(0), self.now));
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
