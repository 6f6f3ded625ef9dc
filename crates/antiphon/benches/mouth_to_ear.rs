//! Mouth to ear on an ideal link: a click track from source to sink through sender, sockets on loopback and playout.
//!
//! A click's mouth time is the instant at which its sample frame was taken on the sender's schedule, as a sound card
//! would have; its ear time, the instant at which its block reached the sink, plus its place in the block. What devices
//! themselves add is not in it. Prints one JSON object a line:
//! `{"bench":"mouth_to_ear","transport":"rtp","block":64,"target_ms":1,"p50_ms":…,"p99_ms":…,"max_ms":…,"clicks":…,…}`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use antiphon::core::uri::Query;
use antiphon::core::{Endpoint, Input, Instant, MediaTime, Transmit};
use antiphon::media::conceal::Concealment;
use antiphon::media::packet::PacketConfig;
use antiphon::media::playout::PlayoutCounters;
use antiphon::media::{Pull, SampleFormat, Sink, SinkError, Source, StreamFormat};
use antiphon::net::{
    DriveOptions, Line, OsClock, SocketOptions, Stop, Target, TcpLine, UdpLine, become_media_thread, drive,
};
use antiphon::proto::{Beneath, OpenArgs, Role, find};
use antiphon::session::{
    OpenSink, ReceiveConfig, ReceiveStation, ReceiverConfig, SendStation, SenderConfig, SoundReceiver,
    Station, StreamFraming,
};

const RATE: u32 = 48_000;
/// Apart enough to be told, and prime, so that clicks fall on every place in a block.
const APART: u64 = 499;
const CLICKS: u64 = 600;
/// The first clicks are not judged: page faults, caches, the schedule of the playout.
const WARM_UP: u64 = 50;

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let clicks = if std::env::args().any(|arg| arg == "--bench") { CLICKS } else { 60 };
    for (transport, block, target_us) in [
        ("rtp", 64, 100),
        ("rtp", 64, 250),
        ("rtp", 64, 500),
        ("rtp", 64, 1_000),
        ("rtp", 64, 2_000),
        ("rtp", 16, 1_000),
        ("rtp", 256, 1_000),
        ("tcp", 64, 1_000),
        ("tcp", 64, 2_000),
    ] {
        run(transport, block, Duration::from_micros(target_us), clicks);
    }
}

fn run(scheme: &'static str, block: u32, target: Duration, clicks: u64) {
    let clock = OsClock::new();
    let frames = (clicks + 1) * APART;
    let heard = Arc::new(Mutex::new(Vec::with_capacity(clicks as usize * 2)));
    let (tell, told) = mpsc::channel();
    let ear = Ear { clock, heard: heard.clone() };
    let receiver = std::thread::spawn(move || receive(scheme, target, clock, ear, &tell));
    let address = told.recv().expect("the receiver listens");
    let start = send(scheme, block, clock, address, frames);
    let playout = receiver.join().expect("the receiver ends with the stream");
    let heard = heard.lock().expect("nobody panicked");
    let mut delays = Vec::new();
    let mut not_heard = 0;
    for click in WARM_UP.min(clicks / 2)..clicks {
        let mouth = start + MediaTime::new((click + 1) * APART, RATE).duration();
        match heard.iter().find(|(number, _)| *number == click) {
            Some((_, ear)) => delays.push(ear.signed_nanos_since(mouth) as f64 / 1e6),
            None => not_heard += 1,
        }
    }
    delays.sort_by(f64::total_cmp);
    // Nearest rank.
    let at = |p: f64| delays.get(((delays.len() as f64 * p).ceil() as usize).saturating_sub(1));
    let at = |p: f64| at(p).copied().unwrap_or(f64::NAN);
    println!(
        "{{\"bench\":\"mouth_to_ear\",\"transport\":\"{scheme}\",\"block\":{block},\"target_ms\":{},\"p50_ms\":{:.3},\
         \"p99_ms\":{:.3},\"max_ms\":{:.3},\"clicks\":{},\"not_heard\":{not_heard},\"late\":{},\"concealed\":{}}}",
        target.as_secs_f64() * 1e3,
        at(0.5),
        at(0.99),
        at(1.0),
        delays.len() + not_heard,
        playout.late,
        playout.concealments,
    );
}

/// Sends the click track; answers when its first sample frame was taken.
fn send(scheme: &str, block: u32, clock: OsClock, to: SocketAddr, frames: u64) -> Instant {
    let options = SocketOptions::default();
    let mut line: Box<dyn Line> = match find(scheme).expect("a transport").beneath {
        Beneath::Udp => Box::new(UdpLine::open(Target::Call(to), &options).expect("loopback")),
        Beneath::Tcp => Box::new(TcpLine::open(Target::Call(to), &options).expect("loopback")),
    };
    let format = StreamFormat::new(RATE, 2).expect("within bounds");
    let mut packet = PacketConfig::new(format, SampleFormat::L16, block);
    packet.max_packet = 1400;
    let config = SenderConfig {
        packet,
        groups: antiphon::media::ChannelGroups::whole(packet.format.channels()),
        patience: None,
        epoch: clock.epoch(),
        seed: 1,
    };
    let endpoint = endpoint(scheme, Role::Caller, clock.now());
    let source = Box::new(Clicks { format, at: 0, end: frames });
    let station = SendStation::new(endpoint, source, config, "mouth", clock.now()).expect("a plain stream");
    let start = Arc::new(AtomicU64::new(0));
    let mut mouth = Mouth { station, block, start: start.clone() };
    become_media_thread();
    drive(&mut *line, &mut mouth, &clock, &Stop::new(), DriveOptions::default()).expect("loopback lasts");
    let counters = mouth.station.counters();
    assert_eq!((counters.stalls, counters.starved), (0, 0), "the schedule stood");
    Instant::from_nanos(start.load(Ordering::Relaxed))
}

fn receive(
    scheme: &'static str,
    target: Duration,
    clock: OsClock,
    ear: Ear,
    ready: &mpsc::Sender<SocketAddr>,
) -> PlayoutCounters {
    let (options, here) = (SocketOptions::default(), SocketAddr::from(([127, 0, 0, 1], 0)));
    let transport = find(scheme).expect("a transport");
    let mut line: Box<dyn Line> = match transport.beneath {
        Beneath::Udp => Box::new(UdpLine::listen(here, &options).expect("loopback")),
        Beneath::Tcp => Box::new(TcpLine::listen(here, &options).expect("loopback")),
    };
    let config = ReceiverConfig {
        latency: Some(target),
        conceal: Concealment::Silence,
        description: None,
        any_payload_type: false,
        silence: Duration::from_secs(2),
        ordered: transport.strengths.ordered,
        cname: "ear".into(),
        epoch: clock.epoch(),
        seed: 2,
    };
    let mut ear = Some(ear);
    let open_sink: OpenSink = Box::new(move |_, _| Ok(Box::new(ear.take().expect("one stream"))));
    let receiver = SoundReceiver::new(config, open_sink, clock.now());
    let config = ReceiveConfig {
        endpoint: Box::new(move |now| endpoint(scheme, Role::Listener, now)),
        admits: transport.admits,
        silence: Duration::from_secs(2),
        ends_with_stream: true,
        framing: StreamFraming::default(),
    };
    let mut station = ReceiveStation::new(config, receiver, clock.now());
    ready.send(line.local_address()).expect("the sender waits");
    become_media_thread();
    drive(&mut *line, &mut station, &clock, &Stop::new(), DriveOptions::default()).expect("loopback lasts");
    station.receiver().playout().expect("there was a stream")
}

fn endpoint(scheme: &str, role: Role, now: Instant) -> Box<dyn Endpoint> {
    let query = Query::default();
    let latency = Duration::from_millis(80);
    let args = OpenArgs { role, query: &query, seed: 1, now, max_datagram: 1452, latency };
    antiphon::proto::open(scheme, &args).expect("the transport opens with its defaults")
}

/// One full-scale sample frame in so many, numbered in the second channel.
struct Clicks {
    format: StreamFormat,
    at: u64,
    end: u64,
}

impl Source for Clicks {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let frames = ((block.len() / 2) as u64).min(self.end - self.at) as usize;
        for (n, frame) in (self.at..).zip(block.chunks_exact_mut(2)).take(frames) {
            let is_click = n > 0 && n.is_multiple_of(APART);
            frame[0] = if is_click { FULL_SCALE } else { 0.0 };
            frame[1] = if is_click { (n / APART - 1) as f32 / 32_768.0 } else { 0.0 };
        }
        self.at += frames as u64;
        if frames == 0 { Pull::End } else { Pull::Frames(frames) }
    }
}

const FULL_SCALE: f32 = 32_767.0 / 32_768.0;

/// Notes when each click is heard.
struct Ear {
    clock: OsClock,
    heard: Arc<Mutex<Vec<(u64, Instant)>>>,
}

impl Sink for Ear {
    fn format(&self) -> StreamFormat {
        StreamFormat::new(RATE, 2).expect("within bounds")
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        let now = self.clock.now();
        for (n, frame) in block.chunks_exact(2).enumerate().filter(|(_, frame)| frame[0] >= FULL_SCALE) {
            let number = (frame[1] * 32_768.0).round() as u64;
            let ear = now + MediaTime::new(n as u64, RATE).duration();
            self.heard.lock().expect("nobody panicked").push((number, ear));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A sending station whose schedule is known.
struct Mouth {
    station: SendStation,
    block: u32,
    start: Arc<AtomicU64>,
}

impl Station for Mouth {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.station.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.station.advance(now);
        if self.start.load(Ordering::Relaxed) == 0
            && let Some(end_of_block) = self.station.sender().poll_timeout()
        {
            let start = end_of_block - MediaTime::new(self.block.into(), RATE).duration();
            self.start.store(start.as_nanos(), Ordering::Relaxed);
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.station.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.station.poll_timeout()
    }

    fn stop(&mut self, now: Instant) {
        self.station.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.station.is_finished()
    }
}
