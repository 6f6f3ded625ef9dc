//! Cost of each receiver for a session that serves many: one source to N unicast receivers on one thread, over bare RTP
//! on loopback, with a socket for each receiver.
//!
//! Prints one JSON object a line: for N receivers, processor time of the media thread for each receiver's packet and
//! its share of a core, and the memory that the session allocates for each. `next` gives the same for the additional
//! receivers of this line over the line before, without the fixed cost of a round. Then it checks that the last
//! receivers cost at most 20 % more than those before them. Other numbers of receivers as arguments: `cargo bench
//! --bench serve -- 50 500`.

#[path = "../tests/common/party.rs"]
mod party;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Epoch, Input, Instant, Participant, PathId, Secret};
use antiphon_media::packet::PacketConfig;
use antiphon_media::rtcp::{App, AppKind, Token};
use antiphon_media::{ChannelGroups, Pull, Ready, SampleFormat, Source, StreamFormat, Wake};
use antiphon_net::{
    DriveOptions, Line, Lines, OsClock, SocketOptions, Stop, UdpLine, become_media_thread, drive,
    thread_cpu_time,
};
use antiphon_session::{
    PlayoutDelay, Repetition, Seen, SendTrack, SendTrackConfig, Serve, Session, SessionConfig, StreamFraming,
};
use antiphon_testkit::Counting;

use crate::party::{WIRE, stack};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let numbers = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let mut chosen: Vec<usize> = numbers.collect();
    if chosen.is_empty() {
        chosen = vec![10, 100, 1000];
    }
    let mut rows: Vec<Row> = Vec::new();
    for receivers in chosen {
        let row = Row::measure(receivers);
        row.print(rows.last());
        rows.push(row);
    }
    if let [.., first, second, third] = &rows[..] {
        let (before, last) = (second.beyond(first), third.beyond(second));
        assert!(last.cpu_ns <= before.cpu_ns * FLAT, "processor time grows");
        assert!(last.bytes <= before.bytes * FLAT, "memory grows");
    }
}

/// Cost of so many receivers.
struct Row {
    receivers: f64,
    /// Processor time for one message to all of them, in nanoseconds.
    cpu_ns: f64,
    /// Memory for all of them.
    bytes: f64,
    /// Share of the packets sent to them that arrived.
    came: f64,
}

/// Cost of one receiver.
struct Each {
    cpu_ns: f64,
    bytes: f64,
}

impl Row {
    fn measure(receivers: usize) -> Self {
        let (cpu, came) = run(receivers);
        let cpu_ns = cpu.as_nanos() as f64 / COUNTED as f64;
        Row { receivers: receivers as f64, cpu_ns, bytes: memory(receivers) as f64, came }
    }

    fn each(&self) -> Each {
        Each { cpu_ns: self.cpu_ns / self.receivers, bytes: self.bytes / self.receivers }
    }

    /// Of the receivers in addition to those of `other`.
    fn beyond(&self, other: &Row) -> Each {
        let more = self.receivers - other.receivers;
        Each { cpu_ns: (self.cpu_ns - other.cpu_ns) / more, bytes: (self.bytes - other.bytes) / more }
    }

    fn print(&self, before: Option<&Row>) {
        let (each, next) = (self.each(), before.map_or_else(|| self.each(), |before| self.beyond(before)));
        println!(
            "{{\"bench\":\"serve\",\"receivers\":{},\"us_per_packet\":{:.3},\"core_share\":{:.4},\
             \"bytes_per_receiver\":{:.0},\"next_us_per_packet\":{:.3},\"next_bytes_per_receiver\":{:.0},\
             \"packets_came\":{:.4}}}",
            self.receivers,
            each.cpu_ns / 1e3,
            self.cpu_ns / INTERVAL.as_nanos() as f64,
            each.bytes,
            next.cpu_ns / 1e3,
            next.bytes,
            self.came,
        );
    }
}

/// Serves so many receivers on real sockets. Returns the media thread's processor time for [`COUNTED`] messages to all,
/// and the share of the packets that arrived.
fn run(receivers: usize) -> (Duration, f64) {
    let (clock, stop, (tell, told)) = (OsClock::new(), Stop::new(), mpsc::channel());
    let cpu = Arc::new(AtomicU64::new(0));
    let (asked, counted) = (stop.clone(), Arc::clone(&cpu));
    let server = std::thread::spawn(move || {
        let line = UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("loopback");
        tell.send(line.local_address()).expect("the benchmark waits");
        become_media_thread();
        let mut session = session(receivers, clock.now(), clock.epoch());
        session.observe(Box::new(counts_cpu(counted)));
        let mut lines = Lines::new();
        lines.add(WIRE, Box::new(line)).expect("it is the first");
        drive(&mut lines, &mut session, &clock, &asked, DriveOptions::default()).expect("loopback");
        session.sent()
    });
    let mut crowd = Crowd::new(receivers, told.recv().expect("the server opens"));
    let end = clock.now() + INTERVAL * (WARM_UP + COUNTED) as u32 + Duration::from_secs(1);
    let mut turn = 0;
    while clock.now() < end {
        // Repeatedly, as a running receiver does with its reports.
        crowd.serve(turn % 50 == 0);
        turn += 1;
        std::thread::park_timeout(INTERVAL);
    }
    stop.ask();
    let sent = server.join().expect("the server ends");
    crowd.serve(false);
    assert_eq!(sent.peers.refused, 0, "every packet found room");
    assert!(sent.peers.accepted > (receivers * COUNTED as usize) as u64, "all were served: {sent:?}");
    let came = crowd.came as f64 / sent.peers.accepted as f64;
    (Duration::from_nanos(cpu.load(Ordering::Relaxed)), came)
}

/// Records the processor time from one message to another, both in the middle of the stream.
fn counts_cpu(cpu: Arc<AtomicU64>) -> impl FnMut(Instant, &Seen) {
    let (mut last, mut began) = (0, Duration::ZERO);
    move |_, seen| {
        let Seen::Sent(sent) = seen else { return };
        if std::mem::replace(&mut last, sent.number) == sent.number {
            return;
        }
        if sent.number == WARM_UP {
            began = thread_cpu_time();
        } else if sent.number == WARM_UP + COUNTED {
            cpu.store((thread_cpu_time() - began).as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// Bytes that a session allocates for so many receivers, in two seconds of a stream without sockets.
fn memory(receivers: usize) -> i64 {
    let mut now = Instant::from_millis(1);
    let mut session = session(receivers, now, Epoch::default());
    let mut bytes = 0;
    let mut buf = [0; 2048];
    let mut tokens = vec![Token::default(); receivers];
    for turn in 0..200 {
        let (held, ()) = Counting::held(|| {
            for path in (0..receivers).filter(|_| turn % 25 == 0) {
                let mut ask = ask(path as u32, tokens[path]);
                let (path, bytes) = (PathId(path as u32), &mut ask[..]);
                session.handle_input(now, WIRE, Input::Datagram { path, bytes, received_at: now });
            }
            session.advance(now);
            while session.poll_ready().is_some() {}
            while let Some(sent) = session.poll_transmit(now, WIRE, &mut buf) {
                if let Some(token) = challenge(&buf[..sent.len]) {
                    tokens[sent.path.0 as usize] = token;
                }
            }
            session.advance(now);
        });
        bytes += held;
        now += INTERVAL;
    }
    assert_eq!(session.peers().count(), receivers);
    bytes
}

fn session(receivers: usize, now: Instant, epoch: Epoch) -> Session {
    let config = SessionConfig {
        cname: "bench".into(),
        epoch,
        seed: 1,
        playout_delay: PlayoutDelay::Of(Duration::from_millis(80)),
        tells: None,
        reflected: None,
        ends_with_stream: true,
        framing: StreamFraming::Rtp,
        two_way: false,
    };
    let mut session = Session::new(config, now);
    let packet = PacketConfig::new(format(), SampleFormat::L16, 480);
    let track = SendTrackConfig {
        packet,
        groups: ChannelGroups::whole(1),
        protect: Repetition::default(),
        epoch,
        seed: 1,
        woken: false,
        keeps: 0,
    };
    session.set_send_track(SendTrack::new(Box::new(Tone), track).expect("a packet holds it"));
    let serve = Serve { most: receivers, idle: Duration::from_secs(10), secret: Secret::for_laboratory(1) };
    session.serve(now, WIRE, stack("rtp", 1, 1452), serve);
    session
}

/// Sockets of receivers, which request the stream and read it.
struct Crowd {
    sockets: Vec<(UdpSocket, Token)>,
    came: u64,
}

impl Crowd {
    fn new(receivers: usize, far: SocketAddr) -> Self {
        let socket = |_| {
            let socket =
                UdpSocket::bind("127.0.0.1:0").expect("loopback; a file descriptor for each receiver");
            socket.connect(far).expect("loopback");
            socket.set_nonblocking(true).expect("a socket");
            (socket, Token::default())
        };
        Crowd { sockets: (0..receivers).map(socket).collect(), came: 0 }
    }

    fn serve(&mut self, asks: bool) {
        let mut buf = [0; 2048];
        for (number, (socket, token)) in self.sockets.iter_mut().enumerate() {
            if asks {
                socket.send(&ask(number as u32, *token)).expect("loopback");
            }
            loop {
                match socket.recv(&mut buf) {
                    Ok(len) => {
                        self.came += u64::from(len > SOUND);
                        *token = challenge(&buf[..len]).unwrap_or(*token);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("loopback: {error}"),
                }
            }
        }
    }
}

/// A constant, at no cost.
struct Tone;

impl Source for Tone {
    fn format(&self) -> StreamFormat {
        format()
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        block.fill(0.25);
        Pull::Frames(block.len())
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

/// 48 kHz, one channel.
fn format() -> StreamFormat {
    StreamFormat::new(48_000, 1).expect("an ordinary format")
}

/// A receiver's question for the stream.
fn ask(number: u32, token: Token) -> [u8; App::LEN] {
    App { ssrc: number + 7, kind: AppKind::Ask, token }.to_bytes()
}

/// The token in the sender's answer to a question, if this is one.
fn challenge(bytes: &[u8]) -> Option<Token> {
    App::parse(bytes).filter(|app| app.kind == AppKind::Challenge).map(|app| app.token)
}

/// Shorter than packets of sound, and longer than reports.
const SOUND: usize = 900;
/// Between messages: 480 sample frames.
const INTERVAL: Duration = Duration::from_millis(10);
/// Messages until all receivers have connected.
const WARM_UP: u64 = 150;
/// Messages that are counted.
const COUNTED: u64 = 400;
/// How much more the last receivers may cost than those before them.
const FLAT: f64 = 1.2;
