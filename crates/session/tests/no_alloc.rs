//! Stations of one stream over every transport, under an allocator that aborts when asked for memory: they have seen to it
//! that nothing is needed when a machine stands still.

mod common;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Ecn, Input, Instant, PathId, Rng};
use antiphon_media::{ChannelGroups, NullSink, Pull, SampleFormat, Sink, Source, StreamFormat};
use antiphon_proto::{Beneath, Role, TRANSPORTS, Transport};
use antiphon_session::{
    CallConfig, CallStation, Reflector, ReflectorConfig, SenderConfig, Station, StreamFraming,
};
use assert_no_alloc::{AllocDisabler, assert_no_alloc};

use common::{call_config, endpoint, ms, receive_station_in, send_station_in, sender_config};

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const ONE_WAY: Duration = Duration::from_millis(5);
const LATENCY: Duration = Duration::from_millis(80);
/// How long a machine stands still, in milliseconds: all but the last that senders catch up with.
const STALL: u64 = 249;
/// Datagrams that a driver hands in before it lets the station act (`net`).
const AT_ONCE: usize = 128;

struct Quiet(StreamFormat);

impl Source for Quiet {
    fn format(&self) -> StreamFormat {
        self.0
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        block.fill(0.25);
        Pull::Frames(block.len() / self.0.channels())
    }
}

fn format(channels: u32) -> StreamFormat {
    StreamFormat::new(48_000, channels).expect("a usual format")
}

/// What `compare` runs.
fn comparison(transport: &'static Transport) -> [Box<dyn Station>; 2] {
    let sender = sender_config(format(2), Some(LATENCY), 1);
    let config = CallConfig { sender, ..call_config(format(2), LATENCY) };
    let near = endpoint(transport.scheme, Role::Caller, Instant::ZERO);
    let near = CallStation::new(near, Box::new(Quiet(format(2))), Box::new(NullSink::new(format(2))), config);
    let interval = Some(Duration::from_nanos(5_333_333));
    let config = ReflectorConfig { interval, ..ReflectorConfig::default() };
    let far = endpoint(transport.scheme, Role::Listener, Instant::ZERO);
    [Box::new(near.expect("a call")), Box::new(Reflector::new(far, config))]
}

/// What `send` and `receive` run.
fn stream(transport: &'static Transport) -> [Box<dyn Station>; 2] {
    stream_of(transport.scheme, sender_config(format(2), Some(LATENCY), 1))
}

/// The same with eight channel groups, over SCTP each on a stream of its own: of more packets than a stream of one may have
/// waiting.
fn divided(transport: &'static Transport) -> [Box<dyn Station>; 2] {
    let scheme = if transport.scheme == "sctp" { "sctp?streams=9" } else { transport.scheme };
    let groups = ChannelGroups::parse(8, "1").expect("eight of one");
    stream_of(scheme, SenderConfig { groups, ..sender_config(format(8), Some(LATENCY), 1) })
}

fn stream_of(scheme: &'static str, config: SenderConfig) -> [Box<dyn Station>; 2] {
    let source = Box::new(Quiet(config.packet.format));
    let near = send_station_in(endpoint(scheme, Role::Caller, Instant::ZERO), source, config);
    let open_sink = Box::new(|format, _| Ok(Box::new(NullSink::new(format)) as Box<dyn Sink>));
    let far = receive_station_in(scheme, StreamFraming::Rtp, Some(LATENCY), open_sink, false, Instant::ZERO);
    [Box::new(near), Box::new(far)]
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
            self.now += ms(1);
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
    let kinds =
        [("compare", comparison as fn(_) -> _), ("send and receive", stream), ("eight groups", divided)];
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
