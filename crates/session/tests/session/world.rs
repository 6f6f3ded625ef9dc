//! Two sessions and a wire between them.

use std::time::Duration;

use antiphon_core::{Endpoint, Instant, Participant, PathId, Role};
use antiphon_media::StreamFormat;
use antiphon_proto::{Substrate, TRANSPORTS, Transport};
use antiphon_session::{
    OpenSink, PlayoutDelay, Policy, ReceiveTrack, Reflector, ReflectorConfig, SendTrackConfig, Session,
    StreamFraming,
};
use antiphon_testkit::{Kept, Noise};

pub use crate::common::{
    MAX_DATAGRAM, SILENCE, WIRE, framed_stack, ms, receiving, sending, stack, stack_of, track_config,
};
pub use antiphon_testkit::{NEAR, World, datagram};

/// A sender of noise of so many sample frames that wants all of it to arrive.
pub fn send_session(name: &str, format: StreamFormat, frames: u64, seed: u64) -> Session {
    send_session_with(name, Noise::new(format, frames), track_config(format, seed))
}

/// The same of any noise.
pub fn send_session_with(name: &str, source: Box<Noise>, config: SendTrackConfig) -> Session {
    sending(&*stack(name), source, config, PlayoutDelay::Unbounded)
}

/// The same; assumes that a peer that reports nothing plays each packet after `delay`.
pub fn send_session_within(
    name: &str,
    source: Box<Noise>,
    config: SendTrackConfig,
    delay: Duration,
) -> Session {
    sending(&*stack(name), source, config, PlayoutDelay::Of(delay))
}

/// A receiver of one stream, into memory.
pub fn receive_session(name: &str, latency: Option<Duration>, kept: &Kept) -> Session {
    receive_session_with(name, latency, kept.opener(), true, Instant::ZERO)
}

pub fn receive_session_with(
    name: &str,
    latency: Option<Duration>,
    open_sink: OpenSink,
    ends_with_stream: bool,
    now: Instant,
) -> Session {
    receiving(name, StreamFraming::Rtp, latency, open_sink, ends_with_stream, now)
}

/// A sender and, over a datagram link, a receiver of that transport into memory.
pub fn linked(
    name: &str,
    near: Session,
    latency: Option<Duration>,
    link: &str,
    seed: u64,
) -> (World<Session, Session>, Kept) {
    let kept = Kept::default();
    (World::linked(near, receive_session(name, latency, &kept), link, seed), kept)
}

/// The same over a byte pipe.
pub fn piped(
    near: Session,
    latency: Option<Duration>,
    delay: Duration,
    room: usize,
) -> (World<Session, Session>, Kept) {
    let kept = Kept::default();
    (World::piped(near, receive_session("tcp", latency, &kept), delay, room), kept)
}

/// Two participants over a link, or over a pipe of so many bytes with this delay, as the transport needs it.
pub fn world_of<A: Participant, B: Participant>(
    transport: &Transport,
    near: A,
    far: B,
    (link, seed): (&str, u64),
    (delay, room): (Duration, usize),
) -> World<A, B> {
    match transport.substrate {
        Substrate::Udp => World::linked(near, far, link, seed),
        Substrate::Tcp => World::piped(near, far, delay, room),
    }
}

/// The transports over datagrams.
pub fn datagram_transports() -> impl Iterator<Item = &'static Transport> {
    TRANSPORTS.iter().copied().filter(|transport| transport.substrate == Substrate::Udp)
}

/// A reflector on the wire of these tests.
pub fn reflector(name: &str, policy: Policy) -> Reflector {
    Reflector::new(Instant::ZERO, WIRE, stack(name), policy, ReflectorConfig::default())
}

/// Serves so many peers, each until it has been silent for ten seconds.
pub fn many(most: usize) -> Policy {
    Policy::Many { most, idle: ms(10_000) }
}

/// Serves one peer at a time.
pub const SINGLE: Policy = Policy::Single { silence: SILENCE, streams: true };

/// An endless receiver of RTP with a playout delay.
pub fn listening(kept: &Kept) -> Session {
    receive_session_with("rtp", Some(ms(40)), kept.opener(), false, Instant::ZERO)
}

/// From one block of 256 sample frames at 48 kHz to the next.
pub const BLOCK_TIME: Duration = Duration::from_nanos(5_333_333);

/// Hands over the packets of a block every [`BLOCK_TIME`], and lets the session play.
pub fn feed(session: &mut Session, now: &mut Instant, path: PathId, per_block: usize, packets: &[Vec<u8>]) {
    for block in packets.chunks(per_block) {
        *now += BLOCK_TIME;
        for packet in block {
            session.handle_input(*now, WIRE, datagram(&mut packet.to_vec(), path, *now));
        }
        session.advance(*now);
    }
}

/// Whether a datagram of bare RTP is RTCP.
pub fn is_rtcp(bytes: &[u8]) -> bool {
    (200..=204).contains(&bytes[1])
}

/// A receiver report of the party of that SSRC with BYE, as in RFC 3550 §6.6.
pub fn goodbye(ssrc: &[u8]) -> Vec<u8> {
    [&[0x80, 201, 0, 1], ssrc, &[0x81, 203, 0, 1], ssrc].concat()
}

/// The track that a session receives.
pub fn heard(session: &Session) -> &ReceiveTrack {
    session.receive_track().expect("it receives")
}

/// An endpoint that the test drives itself.
pub fn endpoint(name: &str, role: Role, now: Instant) -> Box<dyn Endpoint> {
    stack(name).open(now, role)
}
