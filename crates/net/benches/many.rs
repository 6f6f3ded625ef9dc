//! Cost of a reflector of many associations: its thread's share of a processor core while messages come, losses, and the memory of each
//! association. Real sockets on loopback, one for each client, all driven by one thread.
//!
//! Prints one JSON object a line. Without arguments: 1000 clients of 50 messages/s over SRP and over RTP, then 200 of 100
//! over every datagram transport. With arguments, one run: `-- SCHEME CLIENTS FRAMES_PER_SECOND SECONDS`.

#[path = "../tests/common/party.rs"]
mod party;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use antiphon_core::{
    Counters, Endpoint, Input, Instant, Message, Participant, PathId, Role, Tag, handle_due,
};
use antiphon_net::{
    DriveOptions, DriveReport, Line, LineStats, Lines, OsClock, SocketOptions, Stop, UdpLine,
    become_media_thread, drive, thread_cpu_time,
};
use antiphon_proto::{Substrate, TRANSPORTS, Transport};
use antiphon_session::Reflector;
use antiphon_testkit::Counting;

use crate::party::{WIRE, reflector, stack};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A message: 20 ms of telephone speech (64 kbit/s, ITU-T G.711) in a packet that RTP accepts as its own.
const MESSAGE: [u8; 172] = {
    let mut message = [0x55; 172];
    (message[0], message[1]) = (0x80, 96);
    message
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let [scheme, clients, rate, seconds] = &args[..] {
        let number = |text: &str| text.parse().expect("SCHEME CLIENTS FRAMES_PER_SECOND SECONDS");
        let transport = antiphon_proto::find(scheme).expect("a transport");
        return run(transport, number(clients) as usize, number(rate), number(seconds));
    }
    for scheme in ["srp", "rtp"] {
        run(antiphon_proto::find(scheme).expect("a transport"), 1000, 50, 10);
    }
    for transport in TRANSPORTS.iter().filter(|transport| transport.substrate == Substrate::Udp) {
        run(transport, 200, 100, 5);
    }
}

fn run(transport: &'static Transport, clients: usize, rate: u64, seconds: u64) {
    let memory = memory(transport, clients, rate);
    let clock = OsClock::new();
    let stop = Stop::new();
    let (tell, told) = std::sync::mpsc::channel();
    let (server_stop, max_peers) = (stop.clone(), clients);
    let server = std::thread::spawn(move || {
        let line = UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("loopback");
        tell.send(line.local_address()).expect("the benchmark waits");
        become_media_thread();
        let mut reflector = reflector(stack(transport.scheme, 1, 1452), max_peers, clock.now());
        let mut lines = Lines::new();
        lines.add(WIRE, Box::new(line)).expect("it is the first");
        let report = drive(&mut lines, &mut reflector, &clock, &server_stop, DriveOptions::default());
        let stats = lines.stats(WIRE).expect("it is there");
        (report.expect("loopback"), stats, reflector.admission().admitted)
    });
    let far = told.recv().expect("the server opens");
    let mut crowd = Crowd::new(transport, clients, rate, far, clock);
    let cpu = thread_cpu_time();
    crowd.run(Duration::from_secs(seconds));
    let client_cpu = thread_cpu_time() - cpu;
    stop.ask();
    let (report, line, admitted) = server.join().expect("the server ends");
    print(transport, &crowd, &report, &line, &memory, client_cpu, Duration::from_secs(seconds));
    assert_eq!(admitted, clients as u64, "associations");
}

fn print(
    transport: &Transport,
    crowd: &Crowd,
    server: &DriveReport,
    line: &LineStats,
    memory: &Memory,
    client_cpu: Duration,
    // While messages were sent: the wait for the last of them is left out of the shares.
    streamed: Duration,
) {
    let sum = |of: fn(&Counters) -> u64| -> u64 {
        crowd.clients.iter().map(|client| of(&client.endpoint.stats().counters)).sum()
    };
    let (retransmitted, expired) =
        (sum(|counters| counters.retransmitted), sum(|counters| counters.messages_expired));
    println!(
        "{{\"bench\":\"many\",\"transport\":\"{}\",\"clients\":{},\"frames_per_s\":{},\"server_core_share\":{:.3},\
         \"server_us_per_message\":{:.2},\"packets_sent\":{},\"messages_not_returned\":{},\"messages_expired\":{expired},\"datagrams_to_server\":{},\
         \"datagrams_lost_to_server\":{},\"send_failed\":{},\"retransmitted\":{retransmitted},\"rounds\":{},\
         \"worst_oversleep_us\":{},\"client_core_share\":{:.3},\"client_worst_late_ms\":{:.1},\
         \"allocated_per_client\":{},\"allocated_when_new\":{},\"resident_per_client\":{}}}",
        transport.scheme,
        crowd.clients.len(),
        crowd.rate,
        server.cpu.as_secs_f64() / streamed.as_secs_f64(),
        server.cpu.as_secs_f64() * 1e6 / crowd.accepted as f64,
        crowd.accepted,
        crowd.accepted.saturating_sub(crowd.returned),
        crowd.datagrams,
        crowd.datagrams.saturating_sub(line.received),
        line.send_failed,
        server.rounds,
        server.worst_oversleep.as_micros(),
        client_cpu.as_secs_f64() / streamed.as_secs_f64(),
        crowd.worst_late.as_secs_f64() * 1e3,
        memory.allocated,
        memory.allocated_when_new,
        memory.resident,
    );
}

fn endpoint(transport: &Transport, seed: u64, now: Instant) -> Box<dyn Endpoint> {
    stack(transport.scheme, seed, 1452).open(now, Role::Caller)
}

struct Client {
    socket: UdpSocket,
    endpoint: Box<dyn Endpoint>,
}

/// All clients, in groups that take turns: one group a millisecond.
struct Crowd {
    clients: Vec<Client>,
    rate: u64,
    clock: OsClock,
    buf: Vec<u8>,
    accepted: u64,
    returned: u64,
    datagrams: u64,
    worst_late: Duration,
}

impl Crowd {
    fn new(transport: &Transport, clients: usize, rate: u64, far: SocketAddr, clock: OsClock) -> Self {
        let client = |at| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback; a file descriptor for each client");
            socket.connect(far).expect("loopback");
            socket.set_nonblocking(true).expect("a socket");
            Client { socket, endpoint: endpoint(transport, at, clock.now()) }
        };
        let clients = (0..clients as u64).map(client).collect();
        let (buf, worst_late) = (vec![0; 1 << 16], Duration::ZERO);
        Crowd { clients, rate, clock, buf, accepted: 0, returned: 0, datagrams: 0, worst_late }
    }

    /// Each client sends in its group's millisecond and reads answers a quarter of its interval later; the last second
    /// and a half is for messages still in flight.
    fn run(&mut self, time: Duration) {
        let groups = (1000 / self.rate).max(1) as usize;
        let start = self.clock.now();
        let mut due = start;
        for turn in 0.. {
            due += Duration::from_millis(1);
            let wait = due.since(self.clock.now());
            if !wait.is_zero() {
                std::thread::park_timeout(wait);
            }
            let now = self.clock.now();
            self.worst_late = self.worst_late.max(now.since(due));
            let ran = now.since(start);
            if ran > time + Duration::from_millis(1500) {
                return;
            }
            for at in (turn % groups..self.clients.len()).step_by(groups) {
                self.serve(at, ran < time);
            }
            for at in ((turn + groups - groups / 4) % groups..self.clients.len()).step_by(groups) {
                self.serve(at, false);
            }
        }
    }

    fn serve(&mut self, at: usize, send: bool) {
        let now = self.clock.now();
        let Client { socket, endpoint } = &mut self.clients[at];
        loop {
            match socket.recv(&mut self.buf) {
                Ok(n) => {
                    endpoint.handle_input(now, datagram(PathId::default(), &mut self.buf[..n], now));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("loopback: {error}"),
            }
        }
        handle_due(&mut **endpoint, now);
        while endpoint.poll_message(&mut self.buf).is_some() {
            self.returned += 1;
        }
        while endpoint.poll_event().is_some() {}
        if send {
            let message = Message::new(Tag::NONE, &MESSAGE, Some(now + Duration::from_millis(200)));
            self.accepted += u64::from(endpoint.send(now, message).is_ok());
        }
        while let Some(transmit) = endpoint.poll_transmit(now, &mut self.buf) {
            self.datagrams += u64::from(socket.send(&self.buf[..transmit.len]).is_ok());
        }
    }
}

/// Memory of an association, in bytes.
struct Memory {
    /// Allocated by an association that received only its first datagram.
    allocated_when_new: i64,
    /// The same after two seconds of traffic, with the buffer from which it repairs.
    allocated: i64,
    /// Growth of the process while the reflector ran.
    resident: i64,
}

/// Without sockets: clients hand their datagrams to the reflector. Only the reflector is measured.
fn memory(transport: &'static Transport, peers: usize, rate: u64) -> Memory {
    let mut now = Instant::from_millis(1);
    let client = |at| endpoint(transport, 1 + at, now);
    let mut clients: Vec<Box<dyn Endpoint>> = (0..peers as u64).map(client).collect();
    let mut buf = vec![0; 1 << 16];
    let mut reflector = reflector(stack(transport.scheme, 1, 1452), peers, now);
    let (mut allocated, mut grown) = (0, 0);
    let mut allocated_when_new = None;
    for _ in 0..2 * rate {
        let mut questions = Vec::new();
        for (path, client) in clients.iter_mut().enumerate() {
            let _still_connecting = client.send(now, Message::new(Tag::NONE, &MESSAGE, None));
            while let Some(transmit) = client.poll_transmit(now, &mut buf) {
                questions.push((PathId(path as u32), buf[..transmit.len].to_vec()));
            }
        }
        let before = resident();
        let answers = answer(&mut reflector, now, &mut questions, &mut allocated);
        grown += resident() - before;
        allocated_when_new.get_or_insert(allocated);
        for (path, mut bytes) in answers {
            let client = &mut clients[path.0 as usize];
            client.handle_input(now, datagram(PathId::default(), &mut bytes, now));
            while client.poll_message(&mut buf).is_some() {}
            while client.poll_event().is_some() {}
        }
        now += Duration::from_nanos(1_000_000_000 / rate);
        for client in clients.iter_mut().filter(|client| client.poll_timeout().is_some_and(|at| at <= now)) {
            client.handle_timeout(now);
        }
    }
    let met = reflector.admission().admitted;
    assert_eq!(met, peers as u64, "associations");
    let each = |all: i64| all / peers as i64;
    Memory {
        allocated_when_new: each(allocated_when_new.unwrap_or_default()),
        allocated: each(allocated),
        resident: each(grown),
    }
}

type Datagrams = Vec<(PathId, Vec<u8>)>;

/// Hands datagrams to the reflector and adds to `allocated` what it keeps of them; returns those that come back, which
/// are not counted.
fn answer(
    reflector: &mut Reflector,
    now: Instant,
    questions: &mut Datagrams,
    allocated: &mut i64,
) -> Datagrams {
    let (mut answers, mut room) = (Vec::new(), [0; 2048]);
    for (path, bytes) in questions {
        // One by one: an admission answers only so many unknown sources at once.
        let (kept, ()) = Counting::held(|| {
            reflector.handle_input(now, WIRE, datagram(*path, bytes, now));
            reflector.advance(now);
            while reflector.poll_ready().is_some() {}
        });
        *allocated += kept;
        loop {
            let (kept, transmit) = Counting::held(|| reflector.poll_transmit(now, WIRE, &mut room));
            *allocated += kept;
            let Some(transmit) = transmit else { break };
            answers.push((transmit.path, room[..transmit.len].to_vec()));
        }
    }
    answers
}

fn datagram(path: PathId, bytes: &mut [u8], now: Instant) -> Input<'_> {
    Input::Datagram { path, bytes, received_at: now }
}

/// Resident memory of the process in bytes.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells");
    line.trim().trim_end_matches(" kB").parse::<i64>().expect("a number") * 1024
}
