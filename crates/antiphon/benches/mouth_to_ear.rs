//! Mouth to ear on an ideal link: a click track from source to sink through sender, sockets on loopback and playout.
//!
//! A click's mouth time is the instant at which its sample frame was taken on the sender's schedule, as a sound card
//! would have; its ear time, the instant at which its block reached the sink, plus its place in the block. The delay of
//! audio devices is not included. Prints one JSON object a line:
//! `{"bench":"mouth_to_ear","transport":"rtp","block":64,"target_ms":1,"p50_ms":…,"p99_ms":…,"max_ms":…,"clicks":…,…}`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use antiphon::core::uri::Query;
use antiphon::core::{Instant, MediaTime};
use antiphon::media::conceal::Concealment;
use antiphon::media::packet::PacketConfig;
use antiphon::media::playout::PlayoutCounters;
use antiphon::media::{
    ChannelGroups, Pull, Ready, SampleFormat, Sink, SinkError, Source, StreamFormat, Wake, Wants,
};
use antiphon::net::{OsClock, SocketOptions, Stop, Target};
use antiphon::proto::find;
use antiphon::run::{RunPlan, Runner, StackPlan, WirePlan};
use antiphon::session::{
    Latency, OpenSink, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Repetition, SendTrack,
    SendTrackConfig, Session, SessionConfig, StreamFraming,
};

const RATE: u32 = 48_000;
/// Far enough apart to be distinguished, and prime, so that clicks fall on every place in a block.
const APART: u64 = 499;
const CLICKS: u64 = 600;
/// The first clicks are not counted: page faults, caches, start of the playout schedule.
const WARM_UP: u64 = 50;

fn main() {
    // `cargo test --benches` only checks that it runs.
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
    let heard = heard.lock().expect("no thread panicked");
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

/// Sends the click track; returns when its first sample frame was taken.
fn send(scheme: &str, block: u32, clock: OsClock, to: SocketAddr, frames: u64) -> Instant {
    let mut runner = open(scheme, Target::Call(to), clock);
    let format = StreamFormat::new(RATE, 2).expect("within bounds");
    let mut packet = PacketConfig::new(format, SampleFormat::L16, block);
    packet.max_packet = 1400;
    let config = SendTrackConfig {
        packet,
        groups: ChannelGroups::whole(format.channels()),
        protect: Repetition::default(),
        epoch: clock.epoch(),
        seed: 1,
        woken: false,
        keeps: 0,
    };
    let source = Box::new(Clicks { format, at: 0, end: frames });
    let track = SendTrack::new(source, config).expect("a plain stream");
    let mut session = Session::new(session_config("mouth", clock, None), clock.now());
    session.set_send_track(track);
    runner.join(&mut session, SILENCE);
    let mut start = None;
    let mut each = |_, session: &mut Session, _: &mut _| {
        let end_of_block = session.send_track().and_then(SendTrack::poll_timeout);
        let first = |end: Instant| end - MediaTime::new(block.into(), RATE).duration();
        start = start.or(end_of_block.map(first));
    };
    runner.drive(&mut session, &Stop::new(), &mut each).expect("loopback lasts");
    let counters = session.sent().track;
    assert_eq!((counters.stalls, counters.starved), (0, 0), "the schedule stood");
    start.expect("it was connected")
}

fn receive(
    scheme: &'static str,
    target: Duration,
    clock: OsClock,
    ear: Ear,
    ready: &mpsc::Sender<SocketAddr>,
) -> PlayoutCounters {
    let mut runner = open(scheme, Target::Listen(([127, 0, 0, 1], 0).into()), clock);
    let config = ReceiveTrackConfig {
        latency: Some(Latency::Of(target)),
        conceal: Concealment::Silence,
        completed_later: false,
        description: None,
        any_payload_type: false,
        silence: SILENCE,
        ordered: runner.profile().ordered,
        reliable: false,
        long_gaps: antiphon_session::LongGaps::default(),
    };
    let mut ear = Some(ear);
    let open_sink: OpenSink = Box::new(move |_, _| Ok(Box::new(ear.take().expect("one stream"))));
    let mut session = Session::new(session_config("ear", clock, Some(target)), clock.now());
    session.set_receive_track(ReceiveTrack::new(config, open_sink, None));
    runner.join(&mut session, SILENCE);
    ready.send(runner.local_address()).expect("the sender waits");
    runner.drive(&mut session, &Stop::new(), &mut |_, _, _| {}).expect("loopback lasts");
    session.receive_track().and_then(ReceiveTrack::playout).expect("there was a stream")
}

fn open(scheme: &str, target: Target, clock: OsClock) -> Runner {
    let stack = StackPlan {
        transport: find(scheme).expect("a transport"),
        query: Query::default(),
        seed: 1,
        playout_delay: Duration::from_millis(80),
        framing: StreamFraming::default(),
        groups: 1,
        multicast: false,
    };
    RunPlan::new(WirePlan::new(stack, target, SocketOptions::default()), clock).open().expect("loopback")
}

fn session_config(cname: &str, clock: OsClock, tells: Option<Duration>) -> SessionConfig {
    SessionConfig {
        cname: cname.into(),
        epoch: clock.epoch(),
        seed: 2,
        playout_delay: PlayoutDelay::Unbounded,
        tells: tells.map(PlayoutDelay::Of),
        reflected: None,
        ends_with_stream: true,
        framing: StreamFraming::default(),
        two_way: false,
    }
}

const SILENCE: Duration = Duration::from_secs(2);

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

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        false
    }

    fn ready(&self) -> Ready {
        Ready::ALWAYS
    }

    fn keep_newest(&mut self, _frames: usize) -> u64 {
        0
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

const FULL_SCALE: f32 = 32_767.0 / 32_768.0;

/// Records when each click is heard.
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
            self.heard.lock().expect("no thread panicked").push((number, ear));
        }
        Ok(())
    }

    fn clocked(&self) -> bool {
        false
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        None
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        let _no_click_is_in_it = frames;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
