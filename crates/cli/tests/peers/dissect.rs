//! A capture as tshark dissects it.

use std::path::Path;

use antiphon::net::capture::decode_as_hint;

use crate::child::{Child, program};

/// The packets of a capture, dissected.
pub struct Dissected {
    pub packets: Vec<Packet>,
}

/// One IP packet. A TCP segment may hold several packets, and a datagram several RTCP packets.
#[derive(Debug)]
pub struct Packet {
    pub source_port: u16,
    pub target_port: u16,
    pub rtp: Vec<u16>,
    pub ssrc: Vec<String>,
    pub rtcp: Vec<u8>,
    /// RTCP compounds, counted by the verdict on their length.
    pub compounds: usize,
    /// Identifiers of header extension elements.
    pub extensions: Vec<u8>,
    /// Lengths of RFC 4571 packets.
    pub framed: Vec<usize>,
    /// Bytes in a TCP segment.
    pub tcp_len: usize,
    /// Verdicts of tshark on checksums, 1 being good.
    pub checksums: Vec<u8>,
}

const FIELDS: [&str; 13] = [
    "tcp.srcport",
    "udp.srcport",
    "tcp.dstport",
    "udp.dstport",
    "rtp.seq",
    "rtp.ssrc",
    "rtcp.pt",
    "rtcp.length_check",
    "rtp.ext.rfc5285.id",
    "rtp.rfc4571.len",
    "tcp.len",
    "ip.checksum.status",
    "udp.checksum.status",
];

/// Sender report, receiver report, source description, BYE (RFC 3550 §12.1).
pub const SR: u8 = 200;
pub const RR: u8 = 201;
pub const SDES: u8 = 202;
pub const BYE: u8 = 203;
/// Extended report (RFC 3611 §2).
pub const APP: u8 = 204;
pub const XR: u8 = 207;

/// Dissects `file`, in which RTP goes to and from `port`; nothing in it may be malformed. Checksums are checked as
/// tshark does by default: hardly ever, as loopback omits them.
pub fn dissect(file: &Path, port: u16) -> Dissected {
    dissect_as(file, port, &[])
}

/// The same with checksums: for the captures that we write.
pub fn dissect_with_checksums(file: &Path, port: u16) -> Dissected {
    let checks = ["ip", "udp", "tcp"].map(|layer| format!("-o{layer}.check_checksum:TRUE"));
    dissect_as(file, port, &checks)
}

fn dissect_as(file: &Path, port: u16, checks: &[String]) -> Dissected {
    let wrong = tshark(
        file,
        port,
        checks,
        "-Y",
        &["_ws.malformed||_ws.expert.severity==error||rtcp.length_check==0"],
    );
    assert_eq!(wrong, "", "malformed in {}", file.display());
    let mut fields = vec!["fields", "-E", "occurrence=a", "-E", "separator=;"];
    fields.extend(FIELDS.iter().chain(&["tcp.checksum.status"]).flat_map(|field| ["-e", field]));
    let packets = tshark(file, port, checks, "-T", &fields).lines().map(packet).collect();
    Dissected { packets }
}

fn tshark(file: &Path, port: u16, checks: &[String], option: &str, values: &[&str]) -> String {
    let mut command = program(&format!("tshark {}", decode_as_hint(port)));
    command.args(checks).arg("-r").arg(file).arg(option).args(values);
    Child::start(&mut command, super::analysed::DEADLINE).succeed().out
}

fn packet(line: &str) -> Packet {
    let columns: Vec<&str> = line.split(';').collect();
    assert_eq!(columns.len(), FIELDS.len() + 1, "{line}");
    fn numbers<T: std::str::FromStr>(column: &str) -> Vec<T> {
        let parse = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word} is no number"));
        column.split(',').filter(|word| !word.is_empty()).map(parse).collect()
    }
    let [
        tcp_from,
        udp_from,
        tcp_to,
        udp_to,
        seq,
        ssrc,
        rtcp,
        length,
        extension,
        framed,
        tcp_len,
        ip,
        udp,
        tcp,
    ] = columns[..]
    else {
        panic!("{line}")
    };
    let port = |tcp, udp| [numbers(tcp), numbers(udp)].concat().first().copied().unwrap_or_default();
    Packet {
        source_port: port(tcp_from, udp_from),
        target_port: port(tcp_to, udp_to),
        rtp: numbers(seq),
        ssrc: ssrc.split(',').filter(|word| !word.is_empty()).map(String::from).collect(),
        rtcp: numbers(rtcp),
        compounds: numbers::<u8>(length).len(),
        extensions: numbers(extension),
        framed: numbers(framed),
        tcp_len: numbers(tcp_len).first().copied().unwrap_or_default(),
        checksums: [ip, udp, tcp].into_iter().flat_map(numbers).collect(),
    }
}

impl Dissected {
    /// The packets to `port`.
    pub fn towards(&self, port: u16) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.target_port == port)
    }

    /// The packets from `port`.
    pub fn from(&self, port: u16) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.source_port == port)
    }

    /// The sequence numbers of the sound sent to `port`, unwrapped, as they came.
    pub fn numbers(&self, port: u16) -> Vec<u64> {
        let mut last: Option<u64> = None;
        let unwrap = |seq: u16| {
            // Far enough from zero that packets overtaken at the beginning have a number, too.
            let from = last.unwrap_or(1 << 16 | u64::from(seq));
            let step = i64::from(seq.wrapping_sub(from as u16) as i16);
            last = Some(from.strict_add_signed(step));
            last.expect("just set")
        };
        self.towards(port).flat_map(|packet| packet.rtp.iter().copied()).map(unwrap).collect()
    }

    /// How many datagrams to `port` carry RTCP.
    pub fn reports(&self, port: u16) -> u64 {
        self.towards(port).filter(|packet| !packet.rtcp.is_empty()).count() as u64
    }
}
