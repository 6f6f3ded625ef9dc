//! Cost of the emulator itself: round trips over an ideal link, by each permitted way, beside plain loopback.
//! `cargo run --release --example emulator_cost`

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use antiphon_net::OsClock;
use antiphon_net::emulator::{LaneConfig, Router, RouterConfig, UdpProxy, UdpProxyConfig};
use antiphon_net::netns::{Means, become_namespace_root, probe};

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const ROUND_TRIPS: usize = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let privilege = become_namespace_root();
    let link = "delay=2ms".parse()?;
    let (near, far) = (UdpSocket::bind(LOOPBACK)?, UdpSocket::bind(LOOPBACK)?);
    let target = far.local_addr()?;
    show("loopback", 0, round_trips(near, far, target)?);

    let (near, far) = (UdpSocket::bind(LOOPBACK)?, UdpSocket::bind(LOOPBACK)?);
    let config =
        UdpProxyConfig { real_time: true, ..UdpProxyConfig::new(LOOPBACK, far.local_addr()?, link, 1) };
    let proxy = UdpProxy::start(config, OsClock::new())?;
    show("UDP proxy", 4_000, round_trips(near, far, proxy.local_addr())?);

    privilege?;
    let open = match probe() {
        Means::Tun => vec![Means::Tun, Means::VethPacket],
        means => vec![means],
    };
    for means in open {
        let name = format!("router by {means:?}");
        let config =
            RouterConfig { lanes: vec![LaneConfig::private(link, 1)], means: Some(means), real_time: true };
        let router = Router::start(config, OsClock::new())?;
        let lane = &router.lanes()[0];
        let near = lane.near.namespace.run(|| UdpSocket::bind((lane.near.v4, 0)))??;
        let far = lane.far.namespace.run(|| UdpSocket::bind((lane.far.v4, 0)))??;
        let target = far.local_addr()?;
        show(&name, 4_000, round_trips(near, far, target)?);
    }
    Ok(())
}

fn round_trips(near: UdpSocket, far: UdpSocket, target: SocketAddr) -> std::io::Result<Vec<u64>> {
    near.set_read_timeout(Some(Duration::from_secs(2)))?;
    far.set_read_timeout(Some(Duration::from_secs(2)))?;
    let reflector = std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = far.recv_from(&mut buffer) {
            if far.send_to(&buffer[..len], from).is_err() {
                return;
            }
        }
    });
    let clock = OsClock::new();
    let mut micros = Vec::with_capacity(ROUND_TRIPS);
    let mut buffer = [0; 2048];
    for _ in 0..ROUND_TRIPS {
        let begin = clock.now();
        near.send_to(&[0; 940], target)?;
        near.recv(&mut buffer)?;
        micros.push(clock.now().since(begin).as_micros() as u64);
    }
    drop(near);
    reflector.join().expect("no panic");
    micros.sort_unstable();
    Ok(micros)
}

fn show(name: &str, delay: u64, micros: Vec<u64>) {
    let at = |per_mille: usize| micros[micros.len() * per_mille / 1000].saturating_sub(delay);
    println!("{name}: beyond the link's delay p50 {} us, p99 {} us, p99.9 {} us", at(500), at(990), at(999));
}
