//! Stations of one stream over every transport, under an allocator that aborts when asked for memory: they have seen to it
//! that nothing is needed when a machine stands still.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Endpoint, Epoch, Input, Instant, PathId, Rng};
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::PacketConfig;
use antiphon_media::{Pull, SampleFormat, Sink, SinkError, Source, StreamFormat};
use antiphon_proto::{Beneath, OpenArgs, Role, TRANSPORTS, Transport, open};
use antiphon_session::{
    CallConfig, CallStation, ReceiveConfig, ReceiveStation, ReceiverConfig, Reflector, ReflectorConfig,
    SendStation, SenderConfig, SoundReceiver, Station,
};
use assert_no_alloc::{AllocDisabler, assert_no_alloc};

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const MAX_DATAGRAM: usize = 1452;
const ONE_WAY: Duration = Duration::from_millis(5);
const LATENCY: Duration = Duration::from_millis(80);
/// How long a machine stands still, in milliseconds: all but the last that senders catch up with.
const STALL: u64 = 249;
/// Datagrams that a driver hands in before it lets the station act (`net`).
const AT_ONCE: usize = 128;

struct Quiet;

impl Source for Quiet {
    fn format(&self) -> StreamFormat {
        stereo()
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        block.fill(0.25);
        Pull::Frames(block.len() / 2)
    }
}

impl Sink for Quiet {
    fn format(&self) -> StreamFormat {
        stereo()
    }

    fn push(&mut self, _block: &[f32]) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn stereo() -> StreamFormat {
    StreamFormat::new(48_000, 2).expect("a usual format")
}

fn endpoint(transport: &Transport, role: Role, now: Instant) -> Box<dyn Endpoint> {
    let (query, seed) = (Query::default(), 1);
    let args = OpenArgs { role, query: &query, seed, now, max_datagram: MAX_DATAGRAM, latency: LATENCY };
    open(transport.scheme, &args).expect("opens")
}

fn sender() -> SenderConfig {
    let packet = PacketConfig { max_packet: 1400, ..PacketConfig::new(stereo(), SampleFormat::L16, 256) };
    SenderConfig {
        packet,
        groups: antiphon_media::ChannelGroups::whole(packet.format.channels()),
        patience: Some(LATENCY),
        epoch: Epoch::default(),
        seed: 1,
    }
}

/// What `compare` runs.
fn comparison(transport: &'static Transport) -> [Box<dyn Station>; 2] {
    let config = CallConfig {
        sender: sender(),
        latency: LATENCY,
        conceal: Concealment::default(),
        board: None,
        log_frames: 10_000,
        live: Default::default(),
        answer_patience: Duration::from_secs(5),
        drain: Duration::from_secs(3),
    };
    let near = endpoint(transport, Role::Caller, Instant::ZERO);
    let near = CallStation::new(near, Box::new(Quiet), Box::new(Quiet), config).expect("a call");
    let interval = Some(Duration::from_nanos(5_333_333));
    let config = ReflectorConfig { interval, ..ReflectorConfig::default() };
    [Box::new(near), Box::new(Reflector::new(endpoint(transport, Role::Listener, Instant::ZERO), config))]
}

/// What `send` and `receive` run.
fn stream(transport: &'static Transport) -> [Box<dyn Station>; 2] {
    let near = endpoint(transport, Role::Caller, Instant::ZERO);
    let near = SendStation::new(near, Box::new(Quiet), sender(), "near", Instant::ZERO).expect("a stream");
    let config = ReceiverConfig {
        latency: Some(LATENCY),
        conceal: Concealment::default(),
        description: None,
        any_payload_type: false,
        silence: Duration::from_secs(2),
        ordered: false,
        cname: "far".into(),
        epoch: Epoch::default(),
        seed: 9,
    };
    let receiver = SoundReceiver::new(config, Box::new(|_, _| Ok(Box::new(Quiet))), Instant::ZERO);
    let config = ReceiveConfig {
        endpoint: Box::new(|now| endpoint(transport, Role::Listener, now)),
        admits: transport.admits,
        framing: antiphon_session::StreamFraming::default(),
        silence: Duration::from_secs(2),
        ends_with_stream: false,
    };
    [Box::new(near), Box::new(ReceiveStation::new(config, receiver, Instant::ZERO))]
}

/// Two stations, and wires of fixed size that lose datagrams.
struct World {
    stations: [Box<dyn Station>; 2],
    wires: [VecDeque<(Instant, usize, [u8; 1500])>; 2],
    is_stream: bool,
    rng: Rng,
    now: Instant,
    buf: [u8; 1500],
    /// Datagrams handed in.
    came: [u64; 2],
}

impl World {
    fn new(transport: &Transport, mut stations: [Box<dyn Station>; 2]) -> Self {
        let is_stream = transport.beneath == Beneath::Tcp;
        if is_stream {
            stations.iter_mut().for_each(|station| station.handle_input(Instant::ZERO, Input::Connected));
        }
        World {
            stations,
            wires: [VecDeque::with_capacity(2048), VecDeque::with_capacity(2048)],
            is_stream,
            rng: Rng::fork(1, "loss"),
            now: Instant::from_millis(1),
            buf: [0; 1500],
            came: [0; 2],
        }
    }

    /// So many milliseconds, in which only some of the stations run.
    fn run(&mut self, millis: u64, runs: [bool; 2]) {
        for _ in 0..millis {
            self.now += Duration::from_millis(1);
            (0..2).filter(|at| runs[*at]).for_each(|at| self.round(at));
        }
    }

    fn round(&mut self, at: usize) {
        let (now, station) = (self.now, &mut self.stations[at]);
        for _ in 0..AT_ONCE {
            let Some((_, len, bytes)) = self.wires[at].pop_front_if(|(due, ..)| *due <= now) else { break };
            let (path, ecn, bytes) = (PathId::default(), Ecn::NotCapable, &bytes[..len]);
            station.handle_input(
                now,
                match self.is_stream {
                    true => Input::Stream { bytes, received_at: now },
                    false => Input::Datagram { path, bytes, ecn, received_at: now },
                },
            );
            self.came[at] += 1;
        }
        station.advance(now);
        while let Some(transmit) = station.poll_transmit(now, &mut self.buf) {
            if self.is_stream || self.rng.chance(0.98) {
                self.wires[1 - at].push_back((now + ONE_WAY, transmit.len, self.buf));
            }
        }
    }
}

#[test]
fn a_stall_of_either_machine_allocates_nothing() {
    let kinds = [("compare", comparison as fn(_) -> _), ("send and receive", stream)];
    for (transport, (kind, stations)) in TRANSPORTS.iter().flat_map(|t| kinds.map(|kind| (*t, kind))) {
        // Which case is told before an allocation aborts the process.
        println!("{} {kind}", transport.scheme);
        let mut world = World::new(transport, stations(transport));
        // Half a second, in which the stream starts.
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
        // 1200 frames in 6.5 s, of which the stalls let at most half expire.
        assert!(world.came[1] > 600, "{} {kind}: {:?} came", transport.scheme, world.came);
    }
}
