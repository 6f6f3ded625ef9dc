//! Stacks and sessions of the tests.

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Epoch, Instant, PathId, Role, Stack, WireId};
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::PacketConfig;
use antiphon_media::{ChannelGroups, Coding, SampleFormat, Sink, Source, StreamFormat};
use antiphon_proto::{StackArgs, find};
use antiphon_session::{
    Latency, LongGaps, MOST_PARTIES, OpenSink, Parties, PartiesConfig, PartySinks, PlayoutDelay,
    ReceiveTrack, ReceiveTrackConfig, Reflected, Repetition, SendTrack, SendTrackConfig, Session,
    SessionConfig, StreamFraming,
};

/// The datagram size of the tests: an Ethernet path over IPv6.
pub const MAX_DATAGRAM: usize = 1452;
/// Silence after which another sender may take over.
pub const SILENCE: Duration = Duration::from_secs(2);
/// The wire of every session here.
pub const WIRE: WireId = WireId(0);

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// `name`: a scheme, optionally followed by a question mark and a query.
pub fn stack(name: &str) -> Rc<dyn Stack> {
    stack_of(name, 1)
}

/// The same, from another seed.
pub fn stack_of(name: &str, seed: u64) -> Rc<dyn Stack> {
    bare_stack(name, seed, false)
}

/// The same with `framing` around its messages, as the facade opens it: over TCP, Medusa's has no lengths.
pub fn framed_stack(name: &str, framing: StreamFraming) -> Rc<dyn Stack> {
    framing.around(bare_stack(name, 1, framing == StreamFraming::Medusa))
}

fn bare_stack(name: &str, seed: u64, undelimited: bool) -> Rc<dyn Stack> {
    let (scheme, query) = name.split_once('?').unwrap_or((name, ""));
    let query: Query = query.parse().expect("a query");
    let args = StackArgs { undelimited, ..StackArgs::new(&query, seed, MAX_DATAGRAM, ms(80)) };
    (find(scheme).expect("a transport").stack)(&args).expect("good settings")
}

/// A track in L16 with blocks of 256.
pub fn track_config(format: StreamFormat, seed: u64) -> SendTrackConfig {
    let mut packet = PacketConfig::new(format, SampleFormat::L16, 256);
    packet.max_packet = MAX_DATAGRAM;
    SendTrackConfig {
        packet,
        groups: ChannelGroups::whole(format.channels()),
        protect: Repetition::default(),
        epoch: Epoch::default(),
        seed,
        woken: false,
        keeps: antiphon_session::KEPT_BYTES,
    }
}

/// The same in Opus, with blocks of so many sample frames.
pub fn opus_config(format: StreamFormat, block: u32, seed: u64) -> SendTrackConfig {
    let mut packet = PacketConfig::new(format, Coding::Opus, block);
    packet.max_packet = MAX_DATAGRAM;
    SendTrackConfig { packet, ..track_config(format, seed) }
}

/// A session that wants all its packets to arrive.
pub fn session_config(cname: &str, seed: u64) -> SessionConfig {
    SessionConfig {
        cname: cname.into(),
        epoch: Epoch::default(),
        seed,
        playout_delay: PlayoutDelay::Unbounded,
        tells: None,
        reflected: None,
        ends_with_stream: true,
        framing: StreamFraming::Rtp,
        two_way: false,
    }
}

/// A session that calls and sends.
pub fn sending(
    stack: &dyn Stack,
    source: Box<dyn Source>,
    track: SendTrackConfig,
    delay: PlayoutDelay,
) -> Session {
    let config = SessionConfig { playout_delay: delay, ..session_config("near", track.seed) };
    let mut session = Session::new(config, Instant::ZERO);
    session.set_send_track(SendTrack::new(source, track).expect("a track"));
    session.call(Instant::ZERO, WIRE, &[PathId(0)], stack);
    session
}

/// A session that listens and receives; without `latency` it records everything.
pub fn receiving(
    name: &str,
    framing: StreamFraming,
    latency: Option<Duration>,
    open_sink: OpenSink,
    ends_with_stream: bool,
    now: Instant,
) -> Session {
    let stack = framed_stack(name, framing);
    let profile = stack.open(now, Role::Listener).profile();
    let track = ReceiveTrackConfig {
        reliable: profile.reliable && framing == StreamFraming::Rtp,
        ..receive_config(latency, profile.ordered)
    };
    let tells = Some(latency.map_or(PlayoutDelay::Unbounded, PlayoutDelay::Of));
    let config = SessionConfig { tells, ends_with_stream, framing, ..session_config("far", 99) };
    let mut session = Session::new(config, now);
    session.set_receive_track(ReceiveTrack::new(track, open_sink, None));
    session.listen(now, WIRE, stack, SILENCE);
    session
}

pub fn receive_config(latency: Option<Duration>, ordered: bool) -> ReceiveTrackConfig {
    ReceiveTrackConfig {
        latency: latency.map(Latency::Of),
        conceal: Concealment::default(),
        completed_later: false,
        description: None,
        any_payload_type: false,
        silence: SILENCE,
        ordered,
        reliable: false,
        long_gaps: LongGaps::Silence,
    }
}

/// How a comparison is run.
pub struct Comparison {
    pub track: SendTrackConfig,
    /// Our playout delay.
    pub latency: Duration,
    /// How long sent packets are of use.
    pub delay: PlayoutDelay,
    pub reflected: Reflected,
}

impl Comparison {
    pub fn new(format: StreamFormat, latency: Duration) -> Self {
        let answer = Duration::from_secs(5);
        Comparison {
            track: track_config(format, 5),
            latency,
            delay: PlayoutDelay::Unbounded,
            reflected: Reflected {
                connect: ms(3500),
                answer,
                drain: Duration::from_secs(3),
                told_start: false,
            },
        }
    }
}

/// A session that sends to a reflector and receives what comes back.
pub fn comparing(name: &str, source: Box<dyn Source>, open_sink: OpenSink, setting: Comparison) -> Session {
    let stack = stack(name);
    let config = SessionConfig {
        reflected: Some(setting.reflected),
        playout_delay: setting.delay,
        ..session_config("near", setting.track.seed)
    };
    let mut session = Session::new(config, Instant::ZERO);
    session.set_send_track(SendTrack::new(source, setting.track).expect("a track"));
    let ordered = stack.open(Instant::ZERO, Role::Caller).profile().ordered;
    let track = receive_config(Some(setting.latency), ordered);
    session.set_receive_track(ReceiveTrack::new(track, open_sink, None));
    session.call(Instant::ZERO, WIRE, &[PathId(0)], &*stack);
    session
}

/// An end of a call.
pub struct End {
    pub name: &'static str,
    pub role: Role,
    pub source: Box<dyn Source>,
    pub sink: OpenSink,
    /// Playout delay.
    pub delay: Duration,
    pub seed: u64,
    /// Its wall clock.
    pub epoch: Epoch,
}

/// A session that talks.
pub fn talking(end: End) -> Session {
    let packet = track_config(end.source.format(), end.seed).packet;
    talking_in(end, packet)
}

/// The same in such packets.
pub fn talking_in(
    End { name, role, source, sink, delay, seed, epoch }: End,
    packet: PacketConfig,
) -> Session {
    let (stack, now) = (stack(name), Instant::ZERO);
    let config = SessionConfig {
        playout_delay: PlayoutDelay::Of(delay),
        tells: Some(PlayoutDelay::Of(delay)),
        two_way: true,
        epoch,
        ..session_config(&format!("end {seed}"), seed)
    };
    let mut session = Session::new(config, now);
    let track = SendTrackConfig { epoch, packet, ..track_config(source.format(), seed) };
    let send = SendTrack::new(source, track).expect("a track");
    let own = send.packetiser().ssrc();
    session.set_send_track(send);
    let receive = receive_config(Some(delay), stack.open(now, role).profile().ordered);
    session.set_receive_track(ReceiveTrack::new(receive, sink, Some(own)));
    match role {
        Role::Caller => {
            session.call(now, WIRE, &[PathId(0)], &*stack);
        }
        Role::Listener => session.listen(now, WIRE, stack, SILENCE),
    }
    session
}

/// A party of a call over a group.
pub struct PartyEnd {
    pub source: Box<dyn Source>,
    /// Of the mixed sound, in its own format.
    pub sink: Box<dyn Sink>,
    pub latency: Latency,
    /// Sample frames in its packets.
    pub block: u32,
    pub seed: u64,
    pub most: usize,
}

/// A session that talks with all parties of a group, from `now` on.
pub fn conferring(end: PartyEnd, now: Instant) -> Session {
    let PartyEnd { source, sink, latency, block, seed, most } = end;
    conferring_in((source, latency, block, seed, most), |config| Parties::new(config, sink, now), now)
}

/// The same of one whose parties have a sink each.
pub fn conferring_apart(
    source: Box<dyn Source>,
    (latency, seed): (Latency, u64),
    sinks: Box<dyn PartySinks>,
    now: Instant,
) -> Session {
    conferring_in((source, latency, 256, seed, MOST_PARTIES), |config| Parties::apart(config, sinks), now)
}

fn conferring_in(
    (source, latency, block, seed, most): (Box<dyn Source>, Latency, u32, u64, usize),
    parties: impl FnOnce(PartiesConfig) -> Parties,
    now: Instant,
) -> Session {
    let told = PlayoutDelay::Of(latency.longest());
    let config = SessionConfig {
        playout_delay: told,
        tells: Some(told),
        ..session_config(&format!("party{seed}"), seed)
    };
    let mut session = Session::new(config, now);
    let track = track_config(source.format(), seed);
    let packet = PacketConfig { block_frames: block, ..track.packet };
    session.set_send_track(SendTrack::new(source, SendTrackConfig { packet, ..track }).expect("a track"));
    let track = ReceiveTrackConfig { latency: Some(latency), ..receive_config(None, false) };
    session.set_parties(parties(PartiesConfig { track, packet: block as usize, most }));
    session.call(now, WIRE, &[PathId(0)], &*stack("rtp"));
    session
}
