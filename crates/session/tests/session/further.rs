//! Several associations with one peer: a stream that moves to another transport, and one that is sent over two.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon_core::{Input, Instant, Participant, PathId, WireId, Wires, pump, sooner};
use antiphon_link::{Direction, Duplex};
use antiphon_media::packet::{PacketKind, classify};
use antiphon_media::rtcp::{App, AppKind};
use antiphon_session::{
    Change, ChangeFailure, Joining, OpenSink, PlayoutDelay, ReceiveTrack, Session, SessionConfig,
};
use antiphon_testkit::{Kept, Noise, expected, stereo};

use crate::common::{receive_config, session_config};
use crate::world::{MAX_DATAGRAM, SILENCE, heard, ms, sending, stack, track_config};

const TOKEN: [u8; 16] = [7; 16];
/// Half a minute, so that a stream has time to move three times.
const FRAMES: u64 = 12 * 48_000;

/// A sender and a receiver, with a link for each wire. Wire *n* of the receiver listens for the *n*-th transport.
struct Wired {
    near: Session,
    far: Session,
    links: BTreeMap<WireId, Duplex<Vec<u8>>>,
    now: Instant,
    kept: Kept,
    /// Bytes that the sender has sent, by wire.
    sent: BTreeMap<WireId, usize>,
    changes: Vec<Change>,
}

/// What a participant sends at one instant.
#[derive(Default)]
struct Sent(Vec<(WireId, Vec<u8>)>);

impl Wires for Sent {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        let mut buf = [0; 2048];
        while let Some(transmit) = participant.poll_transmit(now, wire, &mut buf) {
            self.0.push((wire, buf[..transmit.len].to_vec()));
        }
    }

    fn close(&mut self, _now: Instant, _wire: WireId) {}
}

impl Wired {
    /// A stream of stereo over the first of `names`, each over its link.
    fn new(names: &[(&str, &str)], delay: Duration, seed: u64) -> Self {
        let near = sending(
            &*stack(names[0].0),
            Noise::new(stereo(), FRAMES),
            track_config(stereo(), seed),
            PlayoutDelay::Of(delay),
        );
        let kept = Kept::default();
        let sink = kept.clone();
        let open_sink: OpenSink = Box::new(move |format, _| Ok(sink.sink(format)));
        let tells = Some(PlayoutDelay::Of(delay));
        let config = SessionConfig { tells, ..session_config("far", 99) };
        let mut far = Session::new(config, Instant::ZERO);
        far.set_receive_track(ReceiveTrack::new(receive_config(Some(delay), false), open_sink, None));
        let mut links = BTreeMap::new();
        for (n, (name, link)) in (0..).zip(names) {
            far.listen(Instant::ZERO, WireId(n), stack(name), SILENCE);
            links.insert(
                WireId(n),
                Duplex::new(&link.parse().expect("a link"), seed + u64::from(n)).expect("possible"),
            );
        }
        let (sent, changes) = (BTreeMap::new(), Vec::new());
        Wired { near, far, links, now: Instant::ZERO, kept, sent, changes }
    }

    fn go_further(&mut self, wire: u32, name: &str, joining: Joining) {
        self.near.call_further(self.now, WireId(wire), &[PathId(0)], &*stack(name), joining, TOKEN);
    }

    fn drain(&mut self) {
        let mut sent = Sent::default();
        pump(&mut self.near, self.now, &mut sent);
        for (wire, bytes) in sent.0 {
            *self.sent.entry(wire).or_default() += bytes.len();
            if let Some(link) = self.links.get_mut(&wire) {
                link.offer(self.now, Direction::Up, bytes);
            }
        }
        let mut sent = Sent::default();
        pump(&mut self.far, self.now, &mut sent);
        for (wire, bytes) in sent.0 {
            if let Some(link) = self.links.get_mut(&wire) {
                link.offer(self.now, Direction::Down, bytes);
            }
        }
        self.changes.extend(std::iter::from_fn(|| self.near.poll_change()));
    }

    fn run_until(&mut self, until: Instant) {
        loop {
            self.drain();
            let links = self.links.values().filter_map(Duplex::poll_timeout).min();
            let due = sooner(links, sooner(self.near.poll_timeout(), self.far.poll_timeout()));
            let Some(due) = due.filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            for (wire, link) in &mut self.links {
                while let Some((direction, mut bytes)) = link.poll(self.now) {
                    let (path, received_at) = (PathId(0), self.now);
                    let input = Input::Datagram { path, bytes: &mut bytes, received_at };
                    match direction {
                        Direction::Up => self.far.handle_input(self.now, *wire, input),
                        Direction::Down => self.near.handle_input(self.now, *wire, input),
                    }
                }
            }
        }
        self.now = self.now.max(until);
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        self.run_until(until);
    }

    fn end(&mut self) {
        self.run_until(Instant::from_millis(40_000));
        assert!(self.near.is_finished() && self.far.is_finished());
    }

    /// Not one sample was lost, repeated or made up.
    fn is_flawless(&self) -> bool {
        let playout = heard(&self.far).playout().expect("it played");
        playout.concealed_frames == 0 && self.kept.samples() == expected(stereo(), 0, FRAMES)
    }
}

#[test]
fn a_stream_moves_through_all_transports_without_a_gap() {
    let path = "delay=10ms,jitter=1ms";
    let names = [("rtp", path), ("sctp", path), ("arq", path), ("srp", path), ("dccp", path)];
    for seed in 1..4 {
        let mut world = Wired::new(&names, ms(80), seed);
        world.run_for(ms(1500));
        for (wire, (name, _)) in (1..).zip(&names[1..]) {
            world.go_further(wire, name, Joining::Instead);
            world.run_for(ms(2000));
            let wire = WireId(wire);
            assert_eq!(world.changes, [Change::Joined(wire), Change::Moved(wire)], "{name}");
            world.changes.clear();
        }
        world.end();
        assert!(world.is_flawless(), "{:?}", heard(&world.far).playout());
        // Of rtp's 1.5 s and the overlap, at 1.6 Mbit/s.
        assert!(world.sent[&WireId(0)] < 450_000, "{:?}", world.sent);
    }
}

#[test]
fn a_move_to_a_slower_path_and_back_to_a_quicker_one_leaves_no_gap() {
    let names = [("rtp", "delay=5ms"), ("srp", "delay=35ms,jitter=3ms"), ("sctp", "delay=5ms")];
    let mut world = Wired::new(&names, ms(80), 3);
    world.run_for(ms(2000));
    world.go_further(1, "srp", Joining::Instead);
    world.run_for(ms(4000));
    world.go_further(2, "sctp", Joining::Instead);
    world.end();
    let moved = [1, 2].map(|wire| [Change::Joined(WireId(wire)), Change::Moved(WireId(wire))]);
    assert_eq!(world.changes, moved.concat());
    assert!(world.is_flawless(), "{:?}", heard(&world.far).playout());
}

#[test]
fn a_target_that_cannot_be_used_leaves_the_stream_as_it_is() {
    let cases = [
        // Nothing arrives there: neither a handshake nor a token.
        ("sctp", "loss=100%", ChangeFailure::NoConnection),
        ("rtp", "loss=100%", ChangeFailure::NotTaken),
        // It dies in the middle of the change: what it sends arrives, but no answer returns.
        ("srp", "down.loss=100%", ChangeFailure::NotTaken),
    ];
    for (name, link, why) in cases {
        let mut world = Wired::new(&[("rtp", "delay=10ms"), (name, link)], ms(80), 1);
        world.run_for(ms(1000));
        world.go_further(1, name, Joining::Instead);
        world.run_for(ms(6000));
        assert_eq!(world.changes, [Change::Failed(WireId(1), why)], "{name} over {link}");
        let before = world.sent[&WireId(1)];
        world.end();
        assert!(world.is_flawless(), "{name} over {link}: {:?}", heard(&world.far).playout());
        assert!(world.sent[&WireId(1)] < before + 500, "nothing is repeated towards it");
    }
    // Its messages are smaller than the packets of the stream.
    let mut world = Wired::new(&[("rtp", "delay=10ms"), ("dccp", "delay=10ms")], ms(80), 1);
    world.run_for(ms(1000));
    let small: antiphon_core::uri::Query = "".parse().unwrap();
    let args = antiphon_proto::StackArgs::new(&small, 1, 600, ms(80));
    let stack = (antiphon_proto::find("dccp").unwrap().stack)(&args).unwrap();
    world.near.call_further(world.now, WireId(1), &[PathId(0)], &*stack, Joining::Instead, TOKEN);
    world.end();
    assert!(
        matches!(world.changes[..], [Change::Failed(_, ChangeFailure::TooSmall { most, .. })] if most < 600)
    );
    assert!(world.is_flawless() && MAX_DATAGRAM > 600);
}

#[test]
fn two_paths_with_losses_of_their_own_miss_the_product_and_cost_twice() {
    let lossy = "delay=10ms,up.loss=10%";
    let mut world = Wired::new(&[("rtp", lossy), ("rtp", lossy)], ms(80), 5);
    world.go_further(1, "rtp", Joining::Beside);
    world.end();
    let playout = heard(&world.far).playout().unwrap();
    let packets = FRAMES.div_ceil(256) as f64;
    let missing = playout.lost as f64 / packets;
    // 1 % ± 3 standard deviations of 2250 packets.
    assert!((0.003..0.0165).contains(&missing), "{missing}");
    let [one, two] = [0, 1].map(|wire| world.sent[&WireId(wire)] as f64);
    assert!((one + two) / one < 2.05, "{one} {two}");
}

#[test]
fn a_stream_over_two_unlike_paths_survives_the_death_of_either() {
    for dying in [0, 1] {
        let mut world = Wired::new(&[("rtp", "delay=5ms"), ("srp", "delay=25ms,jitter=2ms")], ms(80), 4);
        world.run_for(ms(500));
        world.go_further(1, "srp", Joining::Beside);
        world.run_for(ms(3000));
        assert_eq!(world.changes, [Change::Joined(WireId(1))]);
        world.links.remove(&WireId(dying));
        world.end();
        assert!(world.is_flawless(), "wire {dying}: {:?}", heard(&world.far).playout());
    }
}

#[test]
fn a_forged_association_without_the_token_joins_nothing() {
    let mut world = Wired::new(&[("rtp", "delay=10ms"), ("rtp", "delay=10ms")], ms(80), 1);
    world.run_for(ms(1000));
    let ssrc = world.near.send_track().unwrap().packetiser().ssrc();
    for n in 0..500u64 {
        // It knows the stream's SSRC and its numbers, and guesses tokens.
        let mut token = [0; 16];
        token[..8].copy_from_slice(&n.to_be_bytes());
        let mut rtp = vec![0x80, 96, 0, n as u8, 0, 0, 0, 0];
        rtp.extend(ssrc.to_be_bytes());
        rtp.extend([0x7f; 1024]);
        assert_eq!(classify(&rtp), Some(PacketKind::Rtp));
        for mut bytes in [rtp, App { ssrc, kind: AppKind::Join, token }.to_bytes().to_vec()] {
            let (path, received_at) = (PathId(0), world.now);
            let input = Input::Datagram { path, bytes: &mut bytes, received_at };
            world.far.handle_input(world.now, WireId(1), input);
        }
        world.run_for(ms(5));
    }
    world.end();
    assert!(world.is_flawless(), "{:?}", heard(&world.far).playout());
    assert!(world.far.unknown_sources() >= 490, "{}", world.far.unknown_sources());
}

#[test]
fn without_the_first_the_other_goes_on() {
    // The first path ends for good in the middle of a move: the receiver's machine refuses it.
    let mut world = Wired::new(&[("sctp", "delay=10ms"), ("srp", "delay=10ms")], ms(80), 2);
    world.run_for(ms(1000));
    world.go_further(1, "srp", Joining::Beside);
    world.run_for(ms(1000));
    world.links.remove(&WireId(0));
    world.end();
    assert!(world.is_flawless(), "{:?}", heard(&world.far).playout());
    assert!(world.changes.len() <= 2, "{:?}", world.changes);
}
