//! Sessions of one stream over every transport, under an allocator that aborts on every allocation: they have reserved
//! all memory that is needed when a machine stalls.

mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::{Epoch, Input, Instant, Participant, PathId, Rng, Role, WireId, Wires, pump};
use antiphon_media::packet::EncodingName;
use antiphon_media::voice::{Piece, VoiceKind, VoiceMaterial};
use antiphon_media::{ChannelGroups, NullSink, Sink, StreamFormat};
use antiphon_proto::{Substrate, TRANSPORTS, Transport};
use antiphon_session::{
    GroupPaths, Latency, OpenSink, PartySinks, PlayoutDelay, Policy, ReceiveError, Reflector,
    ReflectorConfig, Repetition, SendTrack, SendTrackConfig, Session, SessionConfig, StreamFraming,
    VideoArrived, VideoPayload, VideoSink, VideoSource, VideoTrack, VideoTrackConfig, VideoWay, VoicePort,
    VoiceReceiving, VoiceRole, VoiceSending, VoiceSink, Written,
};
use antiphon_testkit::Noise;
use assert_no_alloc::{AllocDisabler, assert_no_alloc};

use common::{
    Comparison, End, MAX_DATAGRAM, PartyEnd, SILENCE, WIRE, comparing, conferring, conferring_apart, ms,
    opus_config, receiving, sending, session_config, stack, talking, track_config,
};

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const ONE_WAY: Duration = Duration::from_millis(5);
const LATENCY: Duration = Duration::from_millis(80);
/// How long a machine stalls, in milliseconds: just under the longest pause that senders catch up with.
const STALL: u64 = 249;
/// Datagrams that a driver delivers before it lets the participant act (`net`).
const AT_ONCE: usize = 128;

/// Sound without an end.
fn endless(format: StreamFormat) -> Box<Noise> {
    Noise::like(format, u64::MAX, |_, _| 0.25)
}

fn format(channels: u32) -> StreamFormat {
    StreamFormat::new(48_000, channels).expect("a usual format")
}

fn nowhere() -> OpenSink {
    Box::new(|format, _| Ok(Box::new(NullSink::new(format)) as Box<dyn Sink>))
}

/// What `compare` runs.
fn comparison(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    let setting = Comparison { delay: PlayoutDelay::Of(LATENCY), ..Comparison::new(format(2), LATENCY) };
    let near = comparing(transport.scheme, endless(format(2)), nowhere(), setting);
    let interval = Some(Duration::from_nanos(5_333_333));
    let config = ReflectorConfig { interval, ..ReflectorConfig::default() };
    let policy = Policy::Single { silence: SILENCE, streams: true };
    let far = Reflector::new(Instant::ZERO, WIRE, stack(transport.scheme), policy, config);
    [Box::new(near), Box::new(far)]
}

/// What `send` and `receive` run.
fn stream(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    stream_of(transport.scheme, track_config(format(2), 1))
}

/// The same in Opus, in packets of 5 ms.
fn opus(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    stream_of(transport.scheme, opus_config(format(2), 240, 1))
}

/// The same with eight channel groups, over SCTP each on a stream of its own: more packets than may wait on a single
/// stream.
fn divided(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    let scheme = if transport.scheme == "sctp" { "sctp?streams=9" } else { transport.scheme };
    let groups = ChannelGroups::parse(8, "1").expect("eight of one");
    stream_of(scheme, SendTrackConfig { groups, ..track_config(format(8), 1) })
}

/// What `send --protect` runs.
fn repeated(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    let protect = Repetition { times: 3, spacing: ms(10) };
    stream_of(transport.scheme, SendTrackConfig { protect, ..track_config(format(2), 1) })
}

/// Takes what it gets.
struct Anywhere;

impl VoiceSink for Anywhere {
    fn piece(&mut self, _channel: u32, _tick: u64, _piece: Piece<'_>) {}

    fn on_taken(&mut self, _tick: u64) {}
}

/// What `send --voice` and `receive --voice` run: eight channels each way, with pauses.
fn voice(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    let material = VoiceMaterial::of_kind(VoiceKind::Speech, 1);
    let sends = |first: usize| {
        let sources = (first..first + 8).map(|number| material.channel(number)).collect();
        Some(VoiceSending { silence: Some(-45.0), ..VoiceSending::new(sources, 160) })
    };
    let now = Instant::ZERO;
    let mut near = VoicePort::new(now, 1, VoiceRole::Sender, sends(0), VoiceReceiving::default(), Anywhere);
    near.call(now, WIRE, &[PathId(0)], &*stack(transport.scheme));
    let mut far = VoicePort::new(now, 2, VoiceRole::Receiver, sends(8), VoiceReceiving::default(), Anywhere);
    far.listen(now, WIRE, stack(transport.scheme), SILENCE);
    [Box::new(near), Box::new(far)]
}

/// The same in Opus, three channels each way.
fn opus_voice(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    let material = VoiceMaterial::of_kind(VoiceKind::Speech, 1);
    let sources = || (0..3).map(|number| material.channel(number)).collect();
    let sends = || Some(VoiceSending { opus: Some(16_000), ..VoiceSending::new(sources(), 160) });
    let now = Instant::ZERO;
    let mut near = VoicePort::new(now, 1, VoiceRole::Sender, sends(), VoiceReceiving::default(), Anywhere);
    near.call(now, WIRE, &[PathId(0)], &*stack(transport.scheme));
    let mut far = VoicePort::new(now, 2, VoiceRole::Receiver, sends(), VoiceReceiving::default(), Anywhere);
    far.listen(now, WIRE, stack(transport.scheme), SILENCE);
    [Box::new(near), Box::new(far)]
}

fn stream_of(scheme: &str, config: SendTrackConfig) -> [Box<dyn Participant>; 2] {
    let source = endless(config.packet.format);
    let near = sending(&*stack(scheme), source, config, PlayoutDelay::Of(LATENCY));
    let far = receiving(scheme, StreamFraming::Rtp, Some(LATENCY), nowhere(), false, Instant::ZERO);
    [Box::new(near), Box::new(far)]
}

/// Pictures of four packets, 25 a second, without an end.
struct Pictures {
    next: (u64, u32),
    bytes: [u8; 1000],
}

impl VideoSource for Pictures {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        let (unit, part) = self.next;
        let due = ms(40) * u32::try_from(unit).expect("a short stream");
        let is_key = unit.is_multiple_of(50);
        Some(VideoPayload {
            unit,
            part: (part, 4),
            due,
            shown: due,
            is_key,
            is_needed: is_key,
            layer: 0,
            bytes: &self.bytes,
        })
    }

    fn take(&mut self) {
        let (unit, part) = self.next;
        self.next = if part == 3 { (unit + 1, 0) } else { (unit, part + 1) };
    }

    fn is_ended(&mut self) -> bool {
        false
    }

    fn on_way(&mut self, _way: VideoWay) {}
}

/// Counts packets of pictures.
struct Counted(u64);

impl VideoSink for Counted {
    fn on_packet(&mut self, _packet: &VideoArrived<'_>) {
        self.0 += 1;
    }
}

/// The same with pictures beside its sound.
fn with_pictures(mut session: Session) -> Session {
    let sound = session.send_track().expect("it sends").packetiser().ssrc();
    let config = VideoTrackConfig {
        encoding: EncodingName::new("H264").expect("a word"),
        payload_type: 127,
        sound,
        epoch: Epoch::default(),
        seed: 3 + u64::from(sound),
        max_packet: MAX_DATAGRAM,
    };
    session.add_video_track(VideoTrack::new(Box::new(Pictures { next: (0, 0), bytes: [7; 1000] }), config));
    session
}

/// What `send --video` and `receive NAME.mkv` run.
fn film(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    let config = SessionConfig { playout_delay: PlayoutDelay::Of(LATENCY), ..session_config("near", 1) };
    let mut near = Session::new(config, Instant::ZERO);
    let track = SendTrack::new(endless(format(2)), track_config(format(2), 1)).expect("a track");
    near.set_send_track(track);
    let mut near = with_pictures(near);
    near.call(Instant::ZERO, WIRE, &[PathId(0)], &*stack(transport.scheme));
    let mut far =
        receiving(transport.scheme, StreamFraming::Rtp, Some(LATENCY), nowhere(), false, Instant::ZERO);
    far.set_video_sink(Box::new(Counted(0)));
    [Box::new(near), Box::new(far)]
}

/// What `talk` runs.
fn call(transport: &'static Transport) -> [Box<dyn Participant>; 2] {
    let end = |role, seed| {
        let (source, sink, epoch) = (endless(format(2)), nowhere(), Epoch::default());
        let end = End { name: transport.scheme, role, source, sink, delay: LATENCY, seed, epoch };
        Box::new(talking(end)) as Box<dyn Participant>
    };
    [end(Role::Caller, 1), end(Role::Listener, 2)]
}

type Flight = VecDeque<(Instant, usize, [u8; 1500])>;

/// Two participants, and wires of fixed size that drop datagrams.
struct World {
    participants: [Box<dyn Participant>; 2],
    /// Each participant's wire.
    wires: [WireId; 2],
    flights: [Flight; 2],
    is_stream: bool,
    rng: Rng,
    now: Instant,
    buf: [u8; 1500],
    /// Datagrams delivered.
    came: [u64; 2],
}

/// What one of the two sends on.
struct Side<'a> {
    to: &'a mut Flight,
    rng: &'a mut Rng,
    is_stream: bool,
    buf: &'a mut [u8; 1500],
}

impl Wires for Side<'_> {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        while let Some(transmit) = participant.poll_transmit(now, wire, self.buf) {
            if self.is_stream || self.rng.chance(0.98) {
                self.to.push_back((now + ONE_WAY, transmit.len, *self.buf));
            }
        }
    }

    fn close(&mut self, _now: Instant, _wire: WireId) {}
}

impl World {
    fn new(transport: &Transport, mut participants: [Box<dyn Participant>; 2]) -> Self {
        let is_stream = transport.substrate == Substrate::Tcp;
        let mut wires = [WIRE; 2];
        if is_stream {
            wires[1] = participants[1].accept(Instant::ZERO, WIRE).expect("it listens");
            for (participant, wire) in participants.iter_mut().zip(wires) {
                participant.handle_input(Instant::ZERO, wire, Input::Connected);
            }
        }
        World {
            participants,
            wires,
            flights: [VecDeque::with_capacity(4096), VecDeque::with_capacity(4096)],
            is_stream,
            rng: Rng::fork(1, "loss"),
            now: Instant::from_millis(1),
            buf: [0; 1500],
            came: [0; 2],
        }
    }

    /// Runs for so many milliseconds, with only some of the participants.
    fn run(&mut self, millis: u64, runs: [bool; 2]) {
        for _ in 0..millis {
            self.now += ms(1);
            (0..2).filter(|at| runs[*at]).for_each(|at| self.round(at));
        }
    }

    fn round(&mut self, at: usize) {
        let (now, participant) = (self.now, &mut *self.participants[at]);
        for _ in 0..AT_ONCE {
            let Some((_, len, mut bytes)) = self.flights[at].pop_front_if(|(due, ..)| *due <= now) else {
                break;
            };
            let (path, bytes) = (PathId::default(), &mut bytes[..len]);
            let input = match self.is_stream {
                true => Input::Stream { bytes, received_at: now },
                false => Input::Datagram { path, bytes, received_at: now },
            };
            participant.handle_input(now, self.wires[at], input);
            self.came[at] += 1;
        }
        let (to, rng, buf) = (&mut self.flights[1 - at], &mut self.rng, &mut self.buf);
        pump(participant, now, &mut Side { to, rng, is_stream: self.is_stream, buf });
    }
}

/// Wants a key frame after so many packets, until what came since the last one is sent again.
struct Rejoins {
    after: u64,
    repeats: Arc<AtomicU64>,
}

impl VideoSink for Rejoins {
    fn on_packet(&mut self, _packet: &VideoArrived<'_>) {
        self.after = self.after.saturating_sub(1);
    }

    fn wants_repeats(&self) -> bool {
        self.after == 0 && self.repeats.load(Ordering::Relaxed) == 0
    }

    fn on_repeat(&mut self, _packet: &VideoArrived<'_>) {
        self.repeats.fetch_add(1, Ordering::Relaxed);
    }
}

/// A sender to a multicast group with a congestion manager, and a member that asks for a key frame in the middle of the film.
fn rejoined(repeats: Arc<AtomicU64>) -> [Box<dyn Participant>; 2] {
    let config = SessionConfig { playout_delay: PlayoutDelay::Of(LATENCY), ..session_config("near", 1) };
    let mut near = Session::new(config, Instant::ZERO);
    let track = SendTrack::new(endless(format(2)), track_config(format(2), 1)).expect("a track");
    near.set_send_track(track);
    let mut near = with_pictures(near);
    near.set_congestion_manager(Box::new(GroupPaths::new(2)));
    near.set_group();
    near.call(Instant::ZERO, WIRE, &[PathId(0)], &*stack("rtp"));
    let mut far = receiving("rtp", StreamFraming::Rtp, Some(LATENCY), nowhere(), false, Instant::ZERO);
    far.set_group();
    far.set_video_sink(Box::new(Rejoins { after: 150, repeats }));
    [Box::new(near), Box::new(far)]
}

#[test]
fn what_a_group_is_sent_again_allocates_nothing() {
    let repeats = Arc::new(AtomicU64::new(0));
    let rtp = TRANSPORTS.iter().find(|transport| transport.scheme == "rtp").expect("there is one");
    let mut world = World::new(rtp, rejoined(repeats.clone()));
    world.run(1_000, [true; 2]);
    assert_eq!(repeats.load(Ordering::Relaxed), 0, "nobody has asked yet");
    assert_no_alloc(|| world.run(4_000, [true; 2]));
    assert!(repeats.load(Ordering::Relaxed) > 20, "{repeats:?}");
}

#[test]
fn a_stall_of_either_machine_allocates_nothing() {
    let kinds = [
        ("compare", comparison as fn(_) -> _),
        ("send and receive", stream),
        ("eight groups", divided),
        ("repeated", repeated),
        ("film", film),
        ("voice", voice),
        ("opus voice", opus_voice),
        ("opus", opus),
        ("talk", call),
    ];
    for (transport, (kind, participants)) in TRANSPORTS.iter().flat_map(|t| kinds.map(|kind| (*t, kind))) {
        // Printed first, since an allocation aborts the process.
        println!("{} {kind}", transport.scheme);
        let mut world = World::new(transport, participants(transport));
        // Half a second for the stream to start.
        world.run(500, [true; 2]);
        world.came = [0; 2];
        assert_no_alloc(|| {
            for runs in [[false, true], [true, false], [false, false], [true, false], [false, true]] {
                for _ in 0..2 {
                    world.run(STALL, runs);
                    world.run(400, [true; 2]);
                }
            }
        });
        // 1200 frames in 6.5 s, of which the stalls let at most half expire. Voice is thousands of data, of which TCP puts
        // those of a millisecond into one piece of its stream.
        let least = if kind.contains("voice") { 200 } else { 600 };
        assert!(world.came[1] > least, "{} {kind}: {:?} came", transport.scheme, world.came);
    }
}

/// Three parties of a call over a group, and a wire of fixed size that drops datagrams; what one sends comes to itself as well.
struct Group {
    parties: [Session; 3],
    flights: [Flight; 3],
    rng: Rng,
    now: Instant,
    buf: [u8; 1500],
    came: u64,
}

/// What a party sends on.
struct ToAll<'a> {
    flights: &'a mut [Flight; 3],
    rng: &'a mut Rng,
    buf: &'a mut [u8; 1500],
}

impl Wires for ToAll<'_> {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        while let Some(transmit) = participant.poll_transmit(now, wire, self.buf) {
            for flight in &mut *self.flights {
                if self.rng.chance(0.98) {
                    flight.push_back((now + ONE_WAY, transmit.len, *self.buf));
                }
            }
        }
    }

    fn close(&mut self, _now: Instant, _wire: WireId) {}
}

/// Each party has a sink of its own.
struct Nowhere;

impl PartySinks for Nowhere {
    fn open(&mut self, _now: Instant, _ssrc: u32, _path: PathId) -> (OpenSink, Box<dyn VideoSink>) {
        (nowhere(), Box::new(Counted(0)))
    }

    fn on_error(&mut self, _ssrc: u32, error: &ReceiveError) {
        panic!("{error}");
    }

    fn close(&mut self, _ssrc: u32, _sink: Option<Box<dyn Sink>>, _written: Option<Written>) {}
}

impl Group {
    /// The same with pictures, and a sink for each party.
    fn with_pictures() -> Self {
        let mut group = Group::new();
        group.parties = [1, 2, 3].map(|seed| {
            let how = (Latency::Of(LATENCY), seed);
            let party = conferring_apart(endless(format(2)), how, Box::new(Nowhere), Instant::ZERO);
            with_pictures(party)
        });
        group
    }

    fn new() -> Self {
        let formats = [format(2), StreamFormat::new(44_100, 1).expect("a usual format"), format(1)];
        let mut seed = 0;
        let parties = formats.map(|own| {
            seed += 1;
            let sink = Box::new(NullSink::new(format(2)));
            let latency = Latency::Of(LATENCY);
            conferring(
                PartyEnd { source: endless(own), sink, latency, block: 64 << seed, seed, most: 4 },
                Instant::ZERO,
            )
        });
        Group {
            parties,
            flights: [8_192; 3].map(VecDeque::with_capacity),
            rng: Rng::fork(1, "loss"),
            now: Instant::from_millis(1),
            buf: [0; 1500],
            came: 0,
        }
    }

    /// Runs for so many milliseconds, with only some of the parties.
    fn run(&mut self, millis: u64, runs: [bool; 3]) {
        for _ in 0..millis {
            self.now += ms(1);
            (0..3).filter(|at| runs[*at]).for_each(|at| self.round(at));
        }
    }

    fn round(&mut self, at: usize) {
        let (now, party) = (self.now, &mut self.parties[at]);
        for _ in 0..AT_ONCE {
            let Some((_, len, mut bytes)) = self.flights[at].pop_front_if(|(due, ..)| *due <= now) else {
                break;
            };
            let (path, bytes) = (PathId::default(), &mut bytes[..len]);
            party.handle_input(now, WIRE, Input::Datagram { path, bytes, received_at: now });
            self.came += 1;
        }
        let (flights, rng, buf) = (&mut self.flights, &mut self.rng, &mut self.buf);
        pump(party, now, &mut ToAll { flights, rng, buf });
    }
}

#[test]
fn a_call_over_a_group_allocates_nothing_once_all_are_there() {
    allocates_nothing_once_all_are_there(Group::new());
}

#[test]
fn pictures_of_all_of_a_group_allocate_nothing_once_all_are_there() {
    allocates_nothing_once_all_are_there(Group::with_pictures());
}

fn allocates_nothing_once_all_are_there(mut group: Group) {
    group.run(5_000, [true; 3]);
    let heard = |group: &Group| {
        group.parties.each_ref().map(|party| party.parties().expect("a call over a group").len())
    };
    assert_eq!(heard(&group), [2; 3]);
    group.came = 0;
    assert_no_alloc(|| {
        for stalled in 0..3 {
            group.run(STALL, [0, 1, 2].map(|at| at != stalled));
            group.run(2_000, [true; 3]);
        }
        group.run(STALL, [false; 3]);
        group.run(1_000, [true; 3]);
    });
    assert_eq!(heard(&group), [2; 3]);
    assert!(group.came > 8_000, "{} came", group.came);
    for party in &group.parties {
        let parties = party.parties().expect("a call over a group");
        assert!(parties.playout().lost > 0, "losses were concealed: {:?}", parties.playout());
    }
}
