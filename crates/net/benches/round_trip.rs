//! What the whole stack of a transport costs over a bare socket: one 940-byte frame (a block of paper 000: 470 samples
//! of 16 bits) to and fro over loopback, alternating in one run with a raw blocking UDP ping-pong.
//!
//! Prints one JSON object a line: `{"bench":"round_trip","transport":"rtp","p50_ratio":…,"p999_ratio":…,…}`; ratios are
//! to the raw ping-pong of the same run, since these figures move with the machine's mood.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Endpoint, Frame, Input, Instant, Transmit};
use antiphon_net::{
    DriveOptions, Line, OsClock, SocketOptions, Stop, Target, TcpLine, UdpLine, become_media_thread, drive,
};
use antiphon_proto::{Beneath, OpenArgs, Role, TRANSPORTS, Transport, find};
use antiphon_session::{Hub, HubConfig, Reflector, ReflectorConfig, Station};

const FRAME: usize = 940;
/// Round trips in one turn of a contestant.
const TURN: usize = 250;
/// Turns of each contestant; the first is thrown away (caches, page faults, ARP).
const TURNS: usize = 41;
/// Modes with a bound of their own, beside every transport's defaults.
const MODES: &[(&str, &str)] = &[("sctp", "style=many")];

fn main() {
    let clock = OsClock::new();
    let mut contestants: Vec<Box<dyn Contestant>> = vec![Box::new(Raw::new())];
    for transport in TRANSPORTS {
        contestants.push(Box::new(Stack::new(transport, "", clock)));
    }
    for (scheme, query) in MODES {
        contestants.push(Box::new(Stack::new(find(scheme).expect("there is one"), query, clock)));
    }
    become_media_thread();
    let mut times: Vec<Vec<u64>> = vec![Vec::with_capacity(TURN * TURNS); contestants.len()];
    for turn in 0..TURNS {
        for (contestant, times) in contestants.iter_mut().zip(&mut times) {
            let keep = times.len();
            contestant.turn(&clock, times);
            if turn == 0 {
                times.truncate(keep);
            }
        }
    }
    for times in &mut times {
        times.sort_unstable();
    }
    let raw = (quantile(&times[0], 0.5), quantile(&times[0], 0.999));
    for (contestant, times) in contestants.iter().zip(&times) {
        let (p50, p999) = (quantile(times, 0.5), quantile(times, 0.999));
        println!(
            "{{\"bench\":\"round_trip\",\"transport\":\"{}\",\"p50_ratio\":{:.3},\"p999_ratio\":{:.3},\
             \"p50_us\":{:.1},\"p999_us\":{:.1},\"samples\":{}}}",
            contestant.name(),
            p50 / raw.0,
            p999 / raw.1,
            p50 / 1e3,
            p999 / 1e3,
            times.len()
        );
    }
}

/// Nearest rank, in nanoseconds.
fn quantile(sorted: &[u64], q: f64) -> f64 {
    sorted[((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1] as f64
}

trait Contestant {
    fn name(&self) -> &str;
    fn turn(&mut self, clock: &OsClock, times: &mut Vec<u64>);
}

/// The baseline: `send` and `recv` on a blocking socket, nothing else.
struct Raw {
    socket: UdpSocket,
}

impl Raw {
    fn new() -> Self {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let (socket, far) = (bind(), bind());
        socket.connect(far.local_addr().expect("bound")).expect("loopback");
        far.connect(socket.local_addr().expect("bound")).expect("loopback");
        std::thread::spawn(move || {
            become_media_thread();
            let mut buf = [0; 2048];
            while let Ok(n) = far.recv(&mut buf) {
                far.send(&buf[..n]).expect("loopback");
            }
        });
        Raw { socket }
    }
}

impl Contestant for Raw {
    fn name(&self) -> &str {
        "raw"
    }

    fn turn(&mut self, clock: &OsClock, times: &mut Vec<u64>) {
        let mut frame = [0x80; FRAME];
        for _ in 0..TURN {
            let start = clock.now();
            self.socket.send(&frame).expect("loopback");
            self.socket.recv(&mut frame).expect("loopback");
            times.push(clock.now().since(start).as_nanos() as u64);
        }
    }
}

/// A transport's whole stack on both sides: endpoint, station, line, loop.
struct Stack {
    name: String,
    line: Box<dyn Line>,
    pinger: Pinger,
}

impl Stack {
    fn new(transport: &'static Transport, query: &'static str, clock: OsClock) -> Self {
        let far = serve(transport, query, clock);
        let options = SocketOptions::default();
        let line: Box<dyn Line> = match transport.beneath {
            Beneath::Udp => Box::new(UdpLine::call(far, &options).expect("loopback")),
            Beneath::Tcp => Box::new(TcpLine::open(Target::Call(far), &options).expect("loopback")),
        };
        let endpoint = endpoint(transport, query, Role::Caller, clock.now());
        let name = [transport.scheme, query].join(if query.is_empty() { "" } else { "?" });
        Stack { name, line, pinger: Pinger::new(endpoint) }
    }
}

impl Contestant for Stack {
    fn name(&self) -> &str {
        &self.name
    }

    fn turn(&mut self, clock: &OsClock, times: &mut Vec<u64>) {
        self.pinger.left = TURN;
        drive(&mut *self.line, &mut self.pinger, clock, &Stop::new(), DriveOptions::default())
            .expect("loopback");
        times.append(&mut self.pinger.times);
    }
}

fn endpoint(transport: &Transport, query: &str, role: Role, now: Instant) -> Box<dyn Endpoint> {
    let (query, latency): (Query, _) = (query.parse().expect("a query"), Duration::from_millis(80));
    let args = OpenArgs { role, query: &query, seed: 1, now, max_datagram: 1452, latency };
    (transport.open)(&args).expect("defaults open")
}

/// Starts the reflecting side on a thread of its own and answers its address.
fn serve(transport: &'static Transport, query: &'static str, clock: OsClock) -> SocketAddr {
    let options = SocketOptions::default();
    let local: SocketAddr = ([127, 0, 0, 1], 0).into();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut line, mut station): (Box<dyn Line>, Box<dyn Station>) = match transport.beneath {
            Beneath::Udp => {
                let config =
                    HubConfig { max_peers: 4, idle: Duration::from_secs(10), admits: transport.admits };
                let make = move |now: Instant, _| {
                    Reflector::new(
                        endpoint(transport, query, Role::Listener, now),
                        ReflectorConfig::default(),
                    )
                };
                (
                    Box::new(UdpLine::listen(local, &options).expect("loopback")),
                    Box::new(Hub::new(config, Box::new(make))),
                )
            }
            Beneath::Tcp => {
                let reflector = Reflector::new(
                    endpoint(transport, query, Role::Listener, clock.now()),
                    ReflectorConfig::default(),
                );
                (Box::new(TcpLine::listen(local, &options).expect("loopback")), Box::new(reflector))
            }
        };
        tell.send(line.local_address()).expect("the benchmark waits");
        become_media_thread();
        let _ends_with_the_process =
            drive(&mut *line, &mut *station, &clock, &Stop::new(), DriveOptions::default());
    });
    told.recv().expect("the reflector opens")
}

/// Sends a frame, waits for its return, sends the next.
struct Pinger {
    endpoint: Box<dyn Endpoint>,
    frame: Vec<u8>,
    buf: Vec<u8>,
    sent: Option<Instant>,
    left: usize,
    times: Vec<u64>,
}

impl Pinger {
    fn new(endpoint: Box<dyn Endpoint>) -> Self {
        let buf = vec![0; endpoint.profile().max_receive];
        let times = Vec::with_capacity(TURN);
        Pinger { endpoint, frame: vec![0x80; FRAME], buf, sent: None, left: 0, times }
    }
}

impl Station for Pinger {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.endpoint.handle_due(now);
        while self.endpoint.poll_frame(&mut self.buf).is_some() {
            if let Some(sent) = self.sent.take() {
                self.times.push(now.since(sent).as_nanos() as u64);
                self.left -= 1;
            }
        }
        while self.endpoint.poll_event().is_some() {}
        // Some call with the first frame; what a beginning costs falls into the turn that is thrown away.
        if self.sent.is_none() && self.left > 0 {
            self.sent = Some(now);
            self.endpoint.send(now, Frame::new(&self.frame, None)).expect("an idle queue accepts");
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        self.left == 0
    }
}
