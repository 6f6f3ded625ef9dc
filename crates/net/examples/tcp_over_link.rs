//! One-way delays of small messages over a link, by UDP and by the kernel's TCP, both across the router.
//! `cargo run --release --example tcp_over_link -- wifi-home`

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::OsClock;
use antiphon_net::emulator::{Lane, LaneConfig, Router, RouterConfig};
use antiphon_net::netns::become_namespace_root;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use socket2::{Domain, Socket, Type};

const MESSAGE: usize = 160;
const GAP: Duration = Duration::from_millis(5);
const MESSAGES: usize = 4_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    become_namespace_root()?;
    let text = std::env::args().nth(1).unwrap_or_else(|| "wifi-home".into());
    let lane = LaneConfig::private(text.parse()?, 1);
    let config = RouterConfig { lanes: vec![lane.clone(), lane], means: None, real_time: true };
    let clock = OsClock::new();
    let router = Router::start(config, clock)?;
    let lanes = router.lanes().to_vec();
    let (udp, tcp) = std::thread::scope(|scope| {
        let udp = scope.spawn(|| over_udp(&lanes[0], clock).expect("UDP"));
        let tcp = scope.spawn(|| over_tcp(&lanes[1], clock).expect("TCP"));
        (udp.join().expect("no panic"), tcp.join().expect("no panic"))
    });
    println!("{text}: {MESSAGE} bytes each {GAP:?}");
    for (name, delays) in [("udp", udp), ("tcp cubic", tcp)] {
        show(name, delays);
    }
    for (name, lane) in ["udp", "tcp cubic"].iter().zip(router.stop().lanes) {
        println!("{name}: lost up {}, down {} of {}", lane.up.lost, lane.down.lost, lane.down.offered);
    }
    Ok(())
}

/// Hands a message that contains its time to `send`, one each [`GAP`].
fn pace(clock: OsClock, mut send: impl FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::empty())?;
    timer.set(Expiration::Interval(GAP.into()), TimerSetTimeFlags::empty())?;
    for _ in 0..MESSAGES {
        timer.wait()?;
        let mut message = [0u8; MESSAGE];
        message[..8].copy_from_slice(&clock.now().as_nanos().to_be_bytes());
        send(&message)?;
    }
    Ok(())
}

fn delay(clock: OsClock, message: &[u8]) -> Duration {
    let sent = u64::from_be_bytes(message[..8].try_into().expect("eight bytes"));
    clock.now().since(Instant::from_nanos(sent))
}

fn over_udp(lane: &Lane, clock: OsClock) -> Result<Vec<Duration>, Box<dyn std::error::Error + Send + Sync>> {
    let near = lane.near.namespace.run(|| UdpSocket::bind((lane.near.v4, 0)))??;
    let far = lane.far.namespace.run(|| UdpSocket::bind((lane.far.v4, 0)))??;
    far.set_read_timeout(Some(Duration::from_secs(1)))?;
    near.connect(far.local_addr()?)?;
    let receiver = std::thread::spawn(move || {
        let (mut message, mut delays) = ([0; MESSAGE], Vec::new());
        while far.recv(&mut message).is_ok() {
            delays.push(delay(clock, &message));
        }
        delays
    });
    pace(clock, |message| near.send(message).map(drop))?;
    Ok(receiver.join().expect("no panic"))
}

fn over_tcp(lane: &Lane, clock: OsClock) -> Result<Vec<Duration>, Box<dyn std::error::Error + Send + Sync>> {
    let open = || Socket::new(Domain::IPV4, Type::STREAM, None);
    let server = lane.far.namespace.run(open)??;
    let mut client = lane.near.namespace.run(open)??;
    server.bind(&SocketAddr::from((lane.far.v4, 0)).into())?;
    server.listen(1)?;
    let target = server.local_addr()?;
    client.set_tcp_congestion(b"cubic")?;
    client.set_tcp_nodelay(true)?;
    let receiver = std::thread::spawn(move || {
        let (mut connection, _) = server.accept().expect("a client");
        let (mut message, mut delays) = ([0; MESSAGE], Vec::new());
        while connection.read_exact(&mut message).is_ok() {
            delays.push(delay(clock, &message));
        }
        delays
    });
    client.connect(&target)?;
    pace(clock, |message| client.write_all(message))?;
    drop(client);
    Ok(receiver.join().expect("no panic"))
}

fn show(name: &str, mut delays: Vec<Duration>) {
    delays.sort();
    let mean = delays.iter().sum::<Duration>() / delays.len().max(1) as u32;
    let at = |share: f64| delays[((delays.len() as f64 * share) as usize).min(delays.len() - 1)];
    println!(
        "{name}: {} of {MESSAGES}, mean {mean:.1?}, p50 {:.1?}, p95 {:.1?}, p99 {:.1?}, max {:.1?}",
        delays.len(),
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0)
    );
}
