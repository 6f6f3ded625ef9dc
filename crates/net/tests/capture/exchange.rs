//! Real RTP and RTCP to a reflector and back over loopback, and the capture of it read again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Endpoint, Event, Frame, Instant};
use antiphon_media::packet::{PacketConfig, Packetiser};
use antiphon_media::rtcp::{RtcpConfig, RtcpSession};
use antiphon_media::{SampleFormat, StreamFormat};
use antiphon_net::{DriveOptions, Line, OsClock, SocketOptions, Stop, Tap, TcpLine, UdpLine, drive};
use antiphon_proto::{OpenArgs, Role, open};
use antiphon_session::{Hub, HubConfig, OnEndpoint, Reflector, ReflectorConfig, Station};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

/// What went to and fro.
pub struct Exchange {
    pub frames: Vec<Vec<u8>>,
    /// The reflector's port.
    pub port: u16,
}

/// Synchronisation source of [`frames`].
pub const SSRC: u32 = 0x0a11_ce5e;

/// `packets` RTP packets of 48 kHz stereo in blocks of 256, and the sender reports that fall due among them. Time is
/// the stream's own.
pub fn frames(packets: usize) -> Vec<Vec<u8>> {
    let format = StreamFormat::new(48_000, 2).expect("an ordinary format");
    let mut packetiser =
        Packetiser::new(PacketConfig::new(format, SampleFormat::L16, 256), 3).expect("a packet holds it");
    packetiser.set_ssrc(SSRC);
    let epoch = OsClock::new().epoch();
    let config = RtcpConfig::new(SSRC, "antiphon@example.invalid", 48_000, epoch);
    let mut rtcp = RtcpSession::new(config, 4, Instant::ZERO);
    let (mut frames, mut buf) = (Vec::new(), [0; 1500]);
    for n in 0..packets as u64 {
        let now = Instant::from_nanos(n * 256 * 1_000_000_000 / 48_000);
        let block: Vec<f32> = (0..512u64).map(|i| ((n * 512 + i) as f32 * 0.01).sin()).collect();
        packetiser.packetise(&block, epoch.ntp(now), &mut buf, |info, bytes| {
            rtcp.on_sent(now, SSRC, info.timestamp, info.frames * 4);
            frames.push(bytes.to_vec());
        });
        if let Some(len) = rtcp.poll_report(now, &mut buf) {
            frames.push(buf[..len].to_vec());
        }
    }
    frames
}

/// Sends `frames` over `scheme` to a reflector on `listen` and waits for each to return. The near line holds the first
/// tap, the reflector's the second; both lines are gone at the end.
pub fn run(scheme: &str, listen: &str, frames: Vec<Vec<u8>>, taps: [Tap; 2], clock: OsClock) -> Exchange {
    let listen: SocketAddr = listen.parse().expect("an address");
    let options = SocketOptions { congestion: Some("reno".into()), ..SocketOptions::default() };
    let [near_tap, far_tap] = taps;
    let mut far: Box<dyn Line + Send> = match scheme {
        "rtp" => Box::new(UdpLine::listen(listen, &options).expect("loopback")),
        _ => Box::new(TcpLine::listen(listen, &options).expect("loopback")),
    };
    far.set_tap(far_tap);
    let port = far.local_address().port();
    let loopback: IpAddr =
        if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let stop = Stop::new();
    let stop_far = stop.clone();
    let scheme_far = scheme.to_string();
    let reflecting = std::thread::spawn(move || {
        let mut station = reflector(&scheme_far, clock.now());
        drive(&mut *far, &mut *station, &clock, &stop_far, DriveOptions::default()).expect("loopback");
    });
    let peer = SocketAddr::new(loopback, port);
    let mut near: Box<dyn Line> = match scheme {
        "rtp" => Box::new(UdpLine::call(peer, &options).expect("loopback")),
        _ => Box::new(TcpLine::call(peer, &options).expect("loopback")),
    };
    near.set_tap(near_tap);
    let mut pinger = Pinger::new(endpoint(scheme, Role::Caller, clock.now()), frames);
    drive(&mut *near, &mut pinger, &clock, &Stop::new(), DriveOptions::default()).expect("loopback");
    drop(near);
    stop.ask();
    reflecting.join().expect("the reflector does not panic");
    Exchange { frames: pinger.frames, port }
}

fn endpoint(scheme: &str, role: Role, now: Instant) -> Box<dyn Endpoint> {
    let (query, latency) = (Query::default(), Duration::from_millis(80));
    let args = OpenArgs { role, query: &query, seed: 1, now, max_datagram: 1452, latency };
    open(scheme, &args).expect("an ordinary endpoint")
}

fn reflector(scheme: &str, now: Instant) -> Box<dyn Station> {
    let make = |now| Reflector::new(endpoint("rtp", Role::Listener, now), ReflectorConfig::default());
    if scheme == "rtp" {
        let config = HubConfig { max_peers: 4, idle: Duration::from_secs(10), admits: |_| true };
        Box::new(Hub::new(config, Box::new(move |now, _| make(now))))
    } else {
        let endpoint = endpoint(scheme, Role::Listener, now);
        Box::new(Reflector::new(endpoint, ReflectorConfig { ends_with_peer: true, ..Default::default() }))
    }
}

/// Sends the next frame when the last has returned; over a stream three at a time, so that they share segments.
struct Pinger {
    endpoint: Box<dyn Endpoint>,
    frames: Vec<Vec<u8>>,
    burst: usize,
    sent: usize,
    returned: usize,
    connected: bool,
    buf: Vec<u8>,
}

impl Pinger {
    fn new(endpoint: Box<dyn Endpoint>, frames: Vec<Vec<u8>>) -> Self {
        let profile = endpoint.profile();
        let burst = if profile.ordered { 3 } else { 1 };
        let buf = vec![0; profile.max_receive];
        Pinger { endpoint, frames, burst, sent: 0, returned: 0, connected: false, buf }
    }
}

impl OnEndpoint for Pinger {
    fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn endpoint_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    fn work(&mut self, now: Instant) {
        while let Some(received) = self.endpoint.poll_frame(&mut self.buf) {
            assert_eq!(self.buf[..received.len], self.frames[self.returned][..], "comes back as it went");
            self.returned += 1;
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.connected |= event == Event::Connected;
        }
        if self.connected && self.returned == self.sent {
            for _ in 0..self.burst.min(self.frames.len() - self.sent) {
                let frame = Frame::new(&self.frames[self.sent], None);
                self.endpoint.send(now, frame).expect("an idle queue accepts");
                self.sent += 1;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.returned == self.frames.len()
    }
}

/// A packet of a capture file.
#[derive(Debug)]
pub struct Packet {
    pub nanos: u64,
    pub outgoing: bool,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Of TCP.
    pub flags: Option<u8>,
    pub payload: Vec<u8>,
}

/// Reads a capture file.
pub fn read(path: &Path) -> Vec<Packet> {
    let bytes = std::fs::read(path).expect("the capture is there");
    let mut reader = PcapNgReader::new(&bytes[..]).expect("a pcapng file");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(block) = block.expect("whole blocks") {
            let outgoing = block.options.contains(&EnhancedPacketOption::Flags(2));
            packets.push(dissect(block.timestamp.as_nanos() as u64, outgoing, &block.data));
        }
    }
    packets
}

fn dissect(nanos: u64, outgoing: bool, ip: &[u8]) -> Packet {
    let v6 = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).expect("an address"));
    let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).expect("an address"));
    let (from, to, protocol, transport) =
        if ip[0] >> 4 == 4 { (v4(12), v4(16), ip[9], &ip[20..]) } else { (v6(8), v6(24), ip[6], &ip[40..]) };
    let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    let tcp = protocol == 6;
    Packet {
        nanos,
        outgoing,
        from: SocketAddr::new(from, port(0)),
        to: SocketAddr::new(to, port(2)),
        flags: tcp.then(|| transport[13]),
        payload: transport[if tcp { usize::from(transport[12] >> 4) * 4 } else { 8 }..].to_vec(),
    }
}
