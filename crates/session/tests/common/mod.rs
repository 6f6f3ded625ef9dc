//! Endpoints and stations as the tests have them.

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Endpoint, Epoch, Instant};
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::PacketConfig;
use antiphon_media::{ChannelGroups, SampleFormat, Source, StreamFormat};
use antiphon_proto::{OpenArgs, Role, open};
use antiphon_session::{
    CallConfig, MakeEndpoint, OpenSink, ReceiveConfig, ReceiveStation, ReceiverConfig, SendStation,
    SenderConfig, SoundReceiver, StreamFraming,
};

/// The datagram size of the tests: an Ethernet path over IPv6.
pub const MAX_DATAGRAM: usize = 1452;
/// Silence after which another sender may take over.
pub const SILENCE: Duration = Duration::from_secs(2);

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// `name`: a scheme, and behind a question mark a query.
pub fn endpoint(name: &str, role: Role, now: Instant) -> Box<dyn Endpoint> {
    let (scheme, query) = name.split_once('?').unwrap_or((name, ""));
    let query: Query = query.parse().expect("a query");
    let args = OpenArgs { role, query: &query, seed: 1, now, max_datagram: MAX_DATAGRAM, latency: ms(80) };
    open(scheme, &args).expect("the transport opens")
}

/// A sender in L16 with blocks of 256.
pub fn sender_config(format: StreamFormat, patience: Option<Duration>, seed: u64) -> SenderConfig {
    let mut packet = PacketConfig::new(format, SampleFormat::L16, 256);
    packet.max_packet = MAX_DATAGRAM;
    SenderConfig {
        packet,
        groups: ChannelGroups::whole(format.channels()),
        patience,
        epoch: Epoch::default(),
        seed,
    }
}

pub fn send_station_in(
    endpoint: Box<dyn Endpoint>,
    source: Box<dyn Source>,
    config: SenderConfig,
) -> SendStation {
    SendStation::new(endpoint, source, config, "near", Instant::ZERO).unwrap()
}

pub fn receive_station_in(
    scheme: &'static str,
    framing: StreamFraming,
    latency: Option<Duration>,
    open_sink: OpenSink,
    ends_with_stream: bool,
    now: Instant,
) -> ReceiveStation {
    let config = ReceiverConfig {
        latency,
        conceal: Concealment::default(),
        description: None,
        any_payload_type: false,
        silence: SILENCE,
        ordered: endpoint(scheme, Role::Listener, now).profile().ordered,
        cname: "far".into(),
        epoch: Epoch::default(),
        seed: 99,
    };
    let receiver = SoundReceiver::new(config, open_sink, now);
    let make: MakeEndpoint = Box::new(move |now| framing.around(endpoint(scheme, Role::Listener, now)));
    let (name, _) = scheme.split_once('?').unwrap_or((scheme, ""));
    let admits = antiphon_proto::find(name).unwrap().admits;
    let config = ReceiveConfig { endpoint: make, admits, silence: SILENCE, ends_with_stream, framing };
    ReceiveStation::new(config, receiver, now)
}

pub fn call_config(format: StreamFormat, latency: Duration) -> CallConfig {
    CallConfig {
        sender: sender_config(format, None, 5),
        latency,
        conceal: Concealment::default(),
        board: None,
        log_frames: 10_000,
        live: Default::default(),
        answer_patience: Duration::from_secs(5),
        drain: Duration::from_secs(3),
    }
}
