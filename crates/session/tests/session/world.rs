//! Two sessions and a wire between them.

use std::time::Duration;

use antiphon_core::{Endpoint, Instant, Role};
use antiphon_media::StreamFormat;
use antiphon_session::{OpenSink, PlayoutDelay, ReceiveTrack, SendTrackConfig, Session, StreamFraming};
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
    let kept = kept.clone();
    let open_sink: OpenSink = Box::new(move |format, _| Ok(kept.sink(format)));
    receive_session_with(name, latency, open_sink, true, Instant::ZERO)
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

/// The track that a session receives.
pub fn heard(session: &Session) -> &ReceiveTrack {
    session.receive_track().expect("it receives")
}

/// An endpoint that the test drives itself.
pub fn endpoint(name: &str, role: Role, now: Instant) -> Box<dyn Endpoint> {
    stack(name).open(now, role)
}
