//! Real RTP and RTCP to a reflector and back over loopback, and the capture of it read back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc;

use antiphon_core::{Endpoint, Event, Instant, Message, OnEndpoint, Role, Tag, WireId};
use antiphon_media::packet::{PacketConfig, Packetiser};
use antiphon_media::rtcp::{RtcpConfig, RtcpSession};
use antiphon_media::{SampleFormat, StreamFormat};
use antiphon_net::{
    DriveOptions, Line, LineObserver, Lines, OsClock, SocketOptions, Stop, Tap, TcpLine, TcpListening,
    UdpLine, drive,
};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::party::{WIRE, drive_one, reflector, stack};

/// Messages of both directions.
pub struct Exchange {
    pub messages: Vec<Vec<u8>>,
    /// The reflector's port.
    pub port: u16,
}

/// Synchronisation source of [`messages`].
pub const SSRC: u32 = 0x0a11_ce5e;

/// `packets` RTP packets of 48 kHz stereo in blocks of 256, and the sender reports that are due among them, in the
/// stream's own time.
pub fn messages(packets: usize) -> Vec<Vec<u8>> {
    let format = StreamFormat::new(48_000, 2).expect("an ordinary format");
    let mut packetiser =
        Packetiser::new(PacketConfig::new(format, SampleFormat::L16, 256), 3).expect("a packet holds it");
    packetiser.set_ssrc(SSRC, SSRC);
    let epoch = OsClock::new().epoch();
    let config = RtcpConfig::new(SSRC, "antiphon@example.invalid", 48_000, epoch);
    let mut rtcp = RtcpSession::new(config, 4, Instant::ZERO);
    let (mut messages, mut buf) = (Vec::new(), [0; 1500]);
    for n in 0..packets as u64 {
        let now = Instant::from_nanos(n * 256 * 1_000_000_000 / 48_000);
        let block: Vec<f32> = (0..512u64).map(|i| ((n * 512 + i) as f32 * 0.01).sin()).collect();
        packetiser.packetise(&block, epoch.ntp(now), &mut buf, |info, bytes| {
            rtcp.on_sent(now, SSRC, info.timestamp, info.frames * 4);
            messages.push(bytes.to_vec());
        });
        if let Some(len) = rtcp.poll_report(now, &mut buf) {
            messages.push(buf[..len].to_vec());
        }
    }
    messages
}

/// Sends `messages` over `scheme` to a reflector on `listen` and waits for each to return. The near line has the first
/// tap, the reflector's the second; both lines are dropped at the end.
pub fn run(scheme: &str, listen: &str, messages: Vec<Vec<u8>>, taps: [Tap; 2], clock: OsClock) -> Exchange {
    let listen: SocketAddr = listen.parse().expect("an address");
    let options = SocketOptions { congestion: Some("reno".into()), ..SocketOptions::default() };
    let [near_tap, far_tap] = taps;
    let loopback: IpAddr =
        if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let (stop, (tell, told)) = (Stop::new(), mpsc::channel());
    let (stop_far, scheme_far, options_far) = (stop.clone(), scheme.to_string(), options.clone());
    let reflecting = std::thread::spawn(move || {
        let mut lines = Lines::new();
        lines.set_observer(Box::new(Tapped(Some(far_tap))));
        listen_on(&mut lines, &scheme_far, listen, &options_far);
        tell.send(lines.local_address(WIRE).expect("it is there").port()).expect("the test waits");
        let mut reflector = reflector(stack(&scheme_far, 1, 1452), 4, clock.now());
        drive(&mut lines, &mut reflector, &clock, &stop_far, DriveOptions::default()).expect("loopback");
    });
    let port = told.recv().expect("the reflector listens");
    let peer = SocketAddr::new(loopback, port);
    let mut near: Box<dyn Line> = match scheme {
        "rtp" => Box::new(UdpLine::call(peer, &options).expect("loopback")),
        _ => Box::new(TcpLine::call(peer, &options).expect("loopback")),
    };
    near.set_tap(near_tap);
    let mut pinger = Pinger::new(stack(scheme, 1, 1452).open(clock.now(), Role::Caller), messages);
    drive_one(&mut *near, &mut pinger, &clock, &Stop::new(), DriveOptions::default()).expect("loopback");
    drop(near);
    stop.ask();
    reflecting.join().expect("the reflector does not panic");
    Exchange { messages: pinger.messages, port }
}

fn listen_on(lines: &mut Lines<'_>, scheme: &str, at: SocketAddr, options: &SocketOptions) {
    if scheme == "rtp" {
        lines.add(WIRE, Box::new(UdpLine::listen(at, options).expect("loopback"))).expect("it is the first");
    } else {
        lines.listen(WIRE, TcpListening::bind(at, options).expect("loopback")).expect("it is the first");
    }
}

/// Gives its tap to the first line.
struct Tapped(Option<Tap>);

impl LineObserver for Tapped {
    fn on_open(&mut self, _wire: WireId, line: &mut dyn Line) {
        self.0.take().into_iter().for_each(|tap| line.set_tap(tap));
    }

    fn on_close(&mut self, _wire: WireId, _line: &mut dyn Line) {}
}

/// Sends the next message when the last has returned; over a stream three at a time, so that they share segments.
struct Pinger {
    endpoint: Box<dyn Endpoint>,
    messages: Vec<Vec<u8>>,
    burst: usize,
    sent: usize,
    returned: usize,
    connected: bool,
    buf: Vec<u8>,
}

impl Pinger {
    fn new(endpoint: Box<dyn Endpoint>, messages: Vec<Vec<u8>>) -> Self {
        let profile = endpoint.profile();
        let burst = if profile.ordered { 3 } else { 1 };
        let buf = vec![0; profile.max_receive];
        Pinger { endpoint, messages, burst, sent: 0, returned: 0, connected: false, buf }
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
        while let Some(received) = self.endpoint.poll_message(&mut self.buf) {
            assert_eq!(self.buf[..received.len], self.messages[self.returned][..], "comes back as it went");
            self.returned += 1;
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.connected |= event == Event::Connected;
        }
        if self.connected && self.returned == self.sent {
            for _ in 0..self.burst.min(self.messages.len() - self.sent) {
                let message = Message::new(Tag::NONE, &self.messages[self.sent], None);
                self.endpoint.send(now, message).expect("an idle queue accepts");
                self.sent += 1;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.returned == self.messages.len()
    }
}

/// A packet of a capture file.
#[derive(Debug)]
pub struct Packet {
    pub nanos: u64,
    pub outgoing: bool,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// TCP fields.
    pub flags: Option<u8>,
    /// Traffic class, and TTL or hop limit.
    pub marks: (u8, u8),
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
    let marks = if ip[0] >> 4 == 4 { (ip[1], ip[8]) } else { (ip[0] << 4 | ip[1] >> 4, ip[7]) };
    Packet {
        marks,
        nanos,
        outgoing,
        from: SocketAddr::new(from, port(0)),
        to: SocketAddr::new(to, port(2)),
        flags: tcp.then(|| transport[13]),
        payload: transport[if tcp { usize::from(transport[12] >> 4) * 4 } else { 8 }..].to_vec(),
    }
}
