//! What a reflector hub of many associations costs: its thread's share of a processor core, what gets lost, and the
//! memory of each association. Real sockets on loopback, one for each client, all driven by one thread.
//!
//! Prints one JSON object a line. Without arguments: 1000 clients of 50 frames/s over SRP and over RTP, then 200 of 100
//! over every datagram transport. With arguments, one run: `-- SCHEME CLIENTS FRAMES_PER_SECOND SECONDS`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Counters, Ecn, Endpoint, Frame, Input, Instant, PathId};
use antiphon_net::{
    DriveOptions, DriveReport, Line, LineStats, OsClock, SocketOptions, Stop, UdpLine, become_media_thread,
    drive, thread_cpu_time,
};
use antiphon_proto::{Beneath, OpenArgs, Role, TRANSPORTS, Transport};
use antiphon_session::{Hub, HubConfig, Reflector, ReflectorConfig, Station};

/// A frame: 20 ms of telephone speech (64 kbit/s, ITU-T G.711) in a packet that RTP takes for its own.
const FRAME: [u8; 172] = {
    let mut frame = [0x55; 172];
    (frame[0], frame[1]) = (0x80, 96);
    frame
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
    for transport in TRANSPORTS.iter().filter(|transport| transport.beneath == Beneath::Udp) {
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
        let mut line =
            UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("loopback");
        tell.send(line.local_address()).expect("the benchmark waits");
        become_media_thread();
        let mut hub = hub(transport, max_peers, clock.now());
        let report =
            drive(&mut line, &mut hub, &clock, &server_stop, DriveOptions::default()).expect("loopback");
        (report, line.stats(), hub.counters().admitted)
    });
    let far = told.recv().expect("the server opens");
    let mut crowd = Crowd::new(transport, clients, rate, far, clock);
    let cpu = thread_cpu_time();
    crowd.run(Duration::from_secs(seconds));
    let client_cpu = thread_cpu_time() - cpu;
    stop.ask();
    let (report, line, admitted) = server.join().expect("the server ends");
    print(transport, &crowd, &report, &line, &memory, client_cpu);
    assert_eq!(admitted, clients as u64, "associations");
}

fn print(
    transport: &Transport,
    crowd: &Crowd,
    server: &DriveReport,
    line: &LineStats,
    memory: &Memory,
    client_cpu: Duration,
) {
    let sum = |of: fn(&Counters) -> u64| -> u64 {
        crowd.clients.iter().map(|client| of(&client.endpoint.path_stats().counters)).sum()
    };
    let (retransmitted, expired) =
        (sum(|counters| counters.retransmitted), sum(|counters| counters.frames_expired));
    println!(
        "{{\"bench\":\"many\",\"transport\":\"{}\",\"clients\":{},\"frames_per_s\":{},\"server_core_share\":{:.3},\
         \"server_us_per_frame\":{:.2},\"frames_sent\":{},\"frames_not_returned\":{},\"frames_expired\":{expired},\"datagrams_to_server\":{},\
         \"datagrams_lost_to_server\":{},\"send_failed\":{},\"retransmitted\":{retransmitted},\"rounds\":{},\
         \"worst_oversleep_us\":{},\"client_core_share\":{:.3},\"client_worst_late_ms\":{:.1},\
         \"allocated_per_client\":{},\"allocated_when_new\":{},\"resident_per_client\":{}}}",
        transport.scheme,
        crowd.clients.len(),
        crowd.rate,
        server.cpu.as_secs_f64() / server.elapsed.as_secs_f64(),
        server.cpu.as_secs_f64() * 1e6 / crowd.accepted as f64,
        crowd.accepted,
        crowd.accepted.saturating_sub(crowd.returned),
        crowd.datagrams,
        crowd.datagrams.saturating_sub(line.received),
        line.send_failed,
        server.rounds,
        server.worst_oversleep.as_micros(),
        client_cpu.as_secs_f64() / server.elapsed.as_secs_f64(),
        crowd.worst_late.as_secs_f64() * 1e3,
        memory.allocated,
        memory.allocated_when_new,
        memory.resident,
    );
}

fn endpoint(transport: &Transport, role: Role, seed: u64, now: Instant) -> Box<dyn Endpoint> {
    let (query, latency) = (Query::default(), Duration::from_millis(80));
    let args = OpenArgs { role, query: &query, seed, now, max_datagram: 1452, latency };
    (transport.open)(&args).expect("defaults open")
}

/// As `reflect` has it.
fn hub(transport: &'static Transport, max_peers: usize, now: Instant) -> Hub<Reflector> {
    let config = HubConfig { max_peers, idle: Duration::from_secs(10), admits: transport.admits };
    let reflector = ReflectorConfig::default();
    // One seed for all, so that each knows the cookies that the doorkeeper bakes.
    let make = move |now, _| Reflector::new(endpoint(transport, Role::Listener, 1, now), reflector.clone());
    let keeper = endpoint(transport, Role::Listener, 1, now).doorkeeper(now);
    Hub::new(config, Box::new(make)).with_doorkeeper(keeper)
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
            Client { socket, endpoint: endpoint(transport, Role::Caller, at, clock.now()) }
        };
        let clients = (0..clients as u64).map(client).collect();
        let (buf, worst_late) = (vec![0; 1 << 16], Duration::ZERO);
        Crowd { clients, rate, clock, buf, accepted: 0, returned: 0, datagrams: 0, worst_late }
    }

    /// Each client sends in its group's millisecond and looks for answers a quarter of its interval later; the last
    /// second and a half is for what is still under way.
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
                    endpoint.handle_input(now, datagram(PathId::default(), &self.buf[..n], now));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("loopback: {error}"),
            }
        }
        endpoint.handle_due(now);
        while endpoint.poll_frame(&mut self.buf).is_some() {
            self.returned += 1;
        }
        while endpoint.poll_event().is_some() {}
        if send {
            let frame = Frame::new(&FRAME, Some(now + Duration::from_millis(200)));
            self.accepted += u64::from(endpoint.send(now, frame).is_ok());
        }
        while let Some(transmit) = endpoint.poll_transmit(now, &mut self.buf) {
            self.datagrams += u64::from(socket.send(&self.buf[..transmit.len]).is_ok());
        }
    }
}

/// Memory of an association, in bytes.
struct Memory {
    /// Asked of the allocator by an association that never had more than its first datagram.
    allocated_when_new: i64,
    /// The same after two seconds of traffic, with the buffer from which it repairs.
    allocated: i64,
    /// What the process grew by while the hub worked.
    resident: i64,
}

/// Without sockets: clients hand their datagrams to the hub. Only what the hub does counts.
fn memory(transport: &'static Transport, peers: usize, rate: u64) -> Memory {
    let mut now = Instant::from_millis(1);
    let client = |at| endpoint(transport, Role::Caller, 1 + at, now);
    let mut clients: Vec<Box<dyn Endpoint>> = (0..peers as u64).map(client).collect();
    let mut buf = vec![0; 1 << 16];
    let mut hub = hub(transport, peers, now);
    let (allocated, mut grown) = (ALLOCATED.load(Ordering::Relaxed), 0);
    let mut allocated_when_new = None;
    for _ in 0..2 * rate {
        let mut questions = Vec::new();
        for (path, client) in clients.iter_mut().enumerate() {
            let _still_connecting = client.send(now, Frame::new(&FRAME, None));
            while let Some(transmit) = client.poll_transmit(now, &mut buf) {
                questions.push((PathId(path as u32), buf[..transmit.len].to_vec()));
            }
        }
        let before = resident();
        let answers = answer(&mut hub, now, &questions);
        grown += resident() - before;
        allocated_when_new.get_or_insert_with(|| ALLOCATED.load(Ordering::Relaxed) - allocated);
        for (path, bytes) in answers {
            let client = &mut clients[path.0 as usize];
            client.handle_input(now, datagram(PathId::default(), &bytes, now));
            while client.poll_frame(&mut buf).is_some() {}
            while client.poll_event().is_some() {}
        }
        now += Duration::from_nanos(1_000_000_000 / rate);
        for client in clients.iter_mut().filter(|client| client.poll_timeout().is_some_and(|at| at <= now)) {
            client.handle_timeout(now);
        }
    }
    let met = hub.counters().admitted;
    assert_eq!(met, peers as u64, "associations");
    let each = |all: i64| all / peers as i64;
    Memory {
        allocated_when_new: each(allocated_when_new.unwrap_or_default()),
        allocated: each(ALLOCATED.load(Ordering::Relaxed) - allocated),
        resident: each(grown),
    }
}

type Datagrams = Vec<(PathId, Vec<u8>)>;

/// Hands datagrams to the hub; answers those that come back, which do not count.
fn answer(hub: &mut Hub<Reflector>, now: Instant, questions: &Datagrams) -> Datagrams {
    let (mut answers, mut room) = (Vec::new(), [0; 2048]);
    for (path, bytes) in questions {
        // One by one: the door answers so many strangers at once, and no more.
        counted(|| hub.handle_input(now, datagram(*path, bytes, now)));
        counted(|| hub.advance(now));
        while let Some(transmit) = counted(|| hub.poll_transmit(now, &mut room)) {
            answers.push((transmit.path, room[..transmit.len].to_vec()));
        }
    }
    answers
}

fn datagram(path: PathId, bytes: &[u8], now: Instant) -> Input<'_> {
    Input::Datagram { path, bytes, ecn: Ecn::NotCapable, received_at: now }
}

/// Resident memory of the process in bytes.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells");
    line.trim().trim_end_matches(" kB").parse::<i64>().expect("a number") * 1024
}

/// Counts what `work` allocates and frees. For one thread.
fn counted<T>(work: impl FnOnce() -> T) -> T {
    COUNTING.store(true, Ordering::Relaxed);
    let result = work();
    COUNTING.store(false, Ordering::Relaxed);
    result
}

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATED: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The system's allocator with a count of bytes.
struct Counting;

fn count(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        ALLOCATED.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[allow(unsafe_code, reason = "an allocator can't be counted in safe code")]
// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
