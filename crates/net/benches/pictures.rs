//! Sixteen channels of sound beside four tracks of pictures of 8 Mbit/s, from one process to itself over loopback: how much later the sound comes
//! than without pictures, what both ends cost, and what the media threads allocate.
//!
//! Prints one JSON object a line, in turns without and with pictures: the sound's delay from its capture to its arrival, packets of both that
//! came, processor time of each end as a share of a core, and allocations of both threads in the middle of the stream. Then it checks that 99 % of
//! the sound comes at most 2 ms later than without. `taskset -c 0 cargo bench --bench pictures` has all of it on one core.

#[path = "../tests/common/party.rs"]
mod party;

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::{Epoch, Instant, PathId};
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{EncodingName, PacketConfig, VIDEO_HEADER};
use antiphon_media::{ChannelGroups, NullSink, SampleFormat, Sink, StreamFormat};
use antiphon_net::{
    DriveOptions, Line, Lines, OsClock, SocketOptions, Stop, UdpLine, become_media_thread, drive,
    thread_cpu_time,
};
use antiphon_session::{
    Arrived, Latency, LongGaps, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Repetition, Seen, SendTrack,
    SendTrackConfig, Session, SessionConfig, StreamFraming, VideoArrived, VideoPayload, VideoSink,
    VideoSource, VideoTrack, VideoTrackConfig, VideoWay,
};
use antiphon_testkit::{Counting, Noise};

use crate::party::{WIRE, stack};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut delays: [Vec<f64>; 2] = Default::default();
    for _ in 0..TURNS {
        for tracks in [0, TRACKS] {
            let ran = run(tracks);
            ran.print(tracks);
            delays[usize::from(tracks > 0)].push(ran.at(0.99));
        }
    }
    // The least of each: other programs of the machine only add to it.
    let [without, with] = delays.map(|all| all.into_iter().fold(f64::INFINITY, f64::min));
    println!("{{\"bench\":\"pictures\",\"p99_ms_more_than_without\":{:.3}}}", with - without);
    assert!(with - without <= 2.0, "pictures make the sound wait");
}

/// What came of a run.
struct Ran {
    /// Of each packet of sound, in milliseconds.
    delays: Vec<f64>,
    sound: (u64, u64),
    pictures: (u64, u64),
    /// Of the sender and of the receiver.
    cores: [f64; 2],
    allocations: [u64; 2],
}

impl Ran {
    fn at(&self, share: f64) -> f64 {
        self.delays[((self.delays.len() - 1) as f64 * share) as usize]
    }

    fn print(&self, tracks: usize) {
        println!(
            "{{\"bench\":\"pictures\",\"tracks\":{tracks},\"delay_p50_ms\":{:.3},\"delay_p99_ms\":{:.3},\"sound_sent\":{},\
             \"sound_came\":{},\"pictures_sent\":{},\"pictures_came\":{},\"sender_core_share\":{:.4},\
             \"receiver_core_share\":{:.4},\"allocations\":{}}}",
            self.at(0.5),
            self.at(0.99),
            self.sound.0,
            self.sound.1,
            self.pictures.0,
            self.pictures.1,
            self.cores[0],
            self.cores[1],
            self.allocations.iter().sum::<u64>(),
        );
    }
}

/// Counts what its thread spends in the middle of the stream, from the sound that it is shown.
#[derive(Default)]
struct Spent {
    seen: u64,
    began: (Duration, u64),
    cpu: Duration,
    allocations: u64,
}

impl Spent {
    fn note(&mut self) {
        self.seen += 1;
        let now = || (thread_cpu_time(), Counting::so_far());
        if self.seen == WARM_UP {
            self.began = now();
        } else if self.seen == WARM_UP + COUNTED {
            let (cpu, allocations) = now();
            (self.cpu, self.allocations) = (cpu - self.began.0, allocations - self.began.1);
        }
    }

    fn core(&self) -> f64 {
        self.cpu.as_secs_f64() / (BLOCK as f64 / RATE as f64 * COUNTED as f64)
    }
}

fn run(tracks: usize) -> Ran {
    let (clock, stop) = (OsClock::new(), Stop::new());
    let (tell, told) = mpsc::channel();
    // When the last sample of each packet was due, and when each came.
    let [dues, came] = [(); 2].map(|()| Arc::new(Mutex::new(Vec::with_capacity(PACKETS as usize))));
    let spent: [Arc<Mutex<Spent>>; 2] = Default::default();
    let receiver = receive(clock, stop.clone(), tell, came.clone(), spent[1].clone());
    let far = told.recv().expect("the receiver opens");
    let (noted, due) = (spent[0].clone(), dues.clone());
    let sender = std::thread::spawn(move || {
        let line = UdpLine::call(far, &SocketOptions::default()).expect("loopback");
        become_media_thread();
        let mut session = sender(tracks, clock.now(), clock.epoch());
        session.observe(Box::new(move |_: Instant, seen: &Seen| {
            if let Seen::Sent(sent) = seen {
                due.lock().expect("no panic").push(sent.due);
                noted.lock().expect("no panic").note();
            }
        }));
        let mut lines = Lines::new();
        lines.add(WIRE, Box::new(line)).expect("it is the first");
        drive(&mut lines, &mut session, &clock, &Stop::new(), DriveOptions::default()).expect("loopback");
        let pictures = session.video_sent().map(|sent| sent.packets).sum();
        (session.sent().peers.accepted, pictures)
    });
    let sent: (u64, u64) = sender.join().expect("the sender ends");
    stop.ask();
    let pictures = receiver.join().expect("the receiver ends");
    let [dues, came] = [dues, came].map(|times| std::mem::take(&mut *times.lock().expect("no panic")));
    assert_eq!(dues.len(), came.len(), "all of the sound came");
    let delay = |(due, came): (&Instant, &Instant)| came.since(*due).as_secs_f64() * 1e3;
    let mut delays: Vec<f64> = dues.iter().zip(&came).map(delay).collect();
    delays.sort_by(f64::total_cmp);
    let spent = spent.each_ref().map(|spent| spent.lock().expect("no panic"));
    Ran {
        sound: (sent.0, delays.len() as u64),
        delays,
        pictures: (sent.1, pictures),
        cores: spent.each_ref().map(|spent| spent.core()),
        allocations: spent.each_ref().map(|spent| spent.allocations),
    }
}

fn config(cname: &str, epoch: Epoch) -> SessionConfig {
    SessionConfig {
        cname: cname.into(),
        epoch,
        seed: 1,
        playout_delay: PlayoutDelay::Of(LATENCY),
        tells: None,
        reflected: None,
        ends_with_stream: true,
        framing: StreamFraming::Rtp,
        two_way: false,
    }
}

fn sender(tracks: usize, now: Instant, epoch: Epoch) -> Session {
    let mut session = Session::new(config("sender", epoch), now);
    let packet = PacketConfig::new(format(), SampleFormat::L16, BLOCK);
    let track = SendTrackConfig {
        packet,
        groups: ChannelGroups::whole(CHANNELS),
        protect: Repetition::default(),
        epoch,
        seed: 1,
        woken: false,
        keeps: 0,
    };
    let sound = Noise::new(format(), PACKETS * u64::from(BLOCK));
    session.set_send_track(SendTrack::new(sound, track).expect("a packet holds it"));
    let sound = session.send_track().map_or(0, |track| track.packetiser().ssrc());
    for seed in 0..tracks as u64 {
        let config = VideoTrackConfig {
            encoding: EncodingName::new("H264").expect("a word"),
            payload_type: 100,
            sound,
            epoch,
            seed,
            max_packet: MAX_DATAGRAM,
        };
        session.add_video_track(VideoTrack::new(Box::new(Pictures::default()), config));
    }
    session.call(now, WIRE, &[PathId(0)], &*stack("rtp", 1, MAX_DATAGRAM));
    session
}

/// Returns, when it was stopped, the packets of pictures that came.
fn receive(
    clock: OsClock,
    stop: Stop,
    tell: Sender<std::net::SocketAddr>,
    came: Arc<Mutex<Vec<Instant>>>,
    spent: Arc<Mutex<Spent>>,
) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let line = UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("loopback");
        tell.send(line.local_address()).expect("the benchmark waits");
        become_media_thread();
        let mut session = Session::new(config("receiver", clock.epoch()), clock.now());
        let track = ReceiveTrackConfig {
            latency: Some(Latency::Of(LATENCY)),
            conceal: Concealment::default(),
            completed_later: false,
            description: None,
            any_payload_type: false,
            silence: SILENCE,
            ordered: false,
            reliable: false,
            long_gaps: LongGaps::Silence,
        };
        let open = |format, _| Ok(Box::new(NullSink::new(format)) as Box<dyn Sink>);
        session.set_receive_track(ReceiveTrack::new(track, Box::new(open), None));
        session.set_video_sink(Box::new(Nowhere));
        session.observe(Box::new(move |_: Instant, seen: &Seen| {
            if let Seen::Arrived(Arrived { at, .. }) = *seen {
                came.lock().expect("no panic").push(at);
                spent.lock().expect("no panic").note();
            }
        }));
        session.listen(clock.now(), WIRE, stack("rtp", 2, MAX_DATAGRAM), SILENCE);
        let mut lines = Lines::new();
        lines.add(WIRE, Box::new(line)).expect("it is the first");
        drive(&mut lines, &mut session, &clock, &stop, DriveOptions::default()).expect("loopback");
        session.video_received().map_or(0, |pictures| pictures.packets + pictures.others)
    })
}

/// A picture of 40 000 bytes each 40 ms: 8 Mbit/s.
struct Pictures {
    next: (u64, u32),
    bytes: Vec<u8>,
}

impl Default for Pictures {
    fn default() -> Self {
        Pictures { next: (0, 0), bytes: vec![7; MAX_DATAGRAM - VIDEO_HEADER] }
    }
}

impl Pictures {
    fn parts(&self) -> u32 {
        40_000_u32.div_ceil(self.bytes.len() as u32)
    }
}

impl VideoSource for Pictures {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        let (unit, part) = self.next;
        let parts = self.parts();
        let due = Duration::from_millis(40) * u32::try_from(unit).ok()?;
        if due >= LENGTH {
            return None;
        }
        Some(VideoPayload {
            unit,
            part: (part, parts),
            due,
            shown: due,
            is_key: unit.is_multiple_of(50),
            is_needed: true,
            layer: 0,
            bytes: &self.bytes,
        })
    }

    fn take(&mut self) {
        let (unit, part) = self.next;
        self.next = if part + 1 == self.parts() { (unit + 1, 0) } else { (unit, part + 1) };
    }

    fn is_ended(&mut self) -> bool {
        VideoSource::next(self).is_none()
    }

    fn on_way(&mut self, _way: VideoWay) {}
}

struct Nowhere;

impl VideoSink for Nowhere {
    fn on_packet(&mut self, _packet: &VideoArrived<'_>) {}
}

fn format() -> StreamFormat {
    StreamFormat::new(RATE, CHANNELS as u32).expect("an ordinary format")
}

const TURNS: usize = 3;
const TRACKS: usize = 4;
const CHANNELS: usize = 16;
const RATE: u32 = 48_000;
/// Sample frames of a packet: 1280 bytes of sound, 1200 packets a second.
const BLOCK: u32 = 40;
const MAX_DATAGRAM: usize = 1452;
const LATENCY: Duration = Duration::from_millis(80);
const SILENCE: Duration = Duration::from_secs(5);
/// Packets of sound before those that count, those, and what follows.
const WARM_UP: u64 = 1_200;
const COUNTED: u64 = 6_000;
const REST: u64 = 600;
const PACKETS: u64 = WARM_UP + COUNTED + REST;
const LENGTH: Duration = Duration::from_millis(PACKETS * BLOCK as u64 * 1_000 / RATE as u64);
