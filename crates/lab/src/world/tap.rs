//! Captures of media: what each node sends and receives, as an analyser would have seen it there.
//!
//! Addresses, ports and initial sequence numbers are invented: node *n* is 10.0.x.y, counted from 10.0.0.1; streams use
//! port 5004, groups 239.0.x.y, traffic port 9 (discard). Payloads and TCP headers are the real ones.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use antiphon_core::Instant;
use antiphon_trace::headers::{self, flag};
use antiphon_trace::pcapng::{Stream, Way};
use antiphon_trace::{CaptureWriter, Interface};

use super::network::{Flow, FlowKind};
use super::packet::{Body, GROUP, PING_HEADERS, Parcel, UDP_HEADERS};
use crate::tcp::Segment;

/// A capture of one medium.
pub struct Tap {
    medium: usize,
    /// An interface for each captured node of the medium.
    interfaces: Vec<(usize, Interface)>,
    writer: CaptureWriter<Stream<Box<dyn io::Write>>>,
    options: Vec<u8>,
    filling: Vec<u8>,
    /// The first error.
    error: Option<io::Error>,
}

impl Tap {
    /// A capture of `medium`, called `name`, at nodes of given names.
    pub fn new<'n>(
        medium: usize,
        name: &str,
        nodes: impl Iterator<Item = (usize, &'n str)>,
        out: Box<dyn io::Write>,
    ) -> io::Result<Self> {
        let comment =
            format!("virtual medium '{name}': addresses and ports are made up, times are those of the run");
        let mut writer = CaptureWriter::begin(Stream(out), &comment, 0)?;
        let mut interfaces = Vec::new();
        for (node, node_name) in nodes {
            let interface =
                writer.interface(node_name, &format!("{node_name} on {name}, {}", address(node)))?;
            interfaces.push((node, interface));
        }
        Ok(Tap { medium, interfaces, writer, options: Vec::new(), filling: Vec::new(), error: None })
    }

    /// A packet of `flow` crosses between `node` and `medium`.
    pub fn on_packet(
        &mut self,
        at: Instant,
        medium: usize,
        node: usize,
        way: Way,
        flow: &Flow,
        parcel: &Parcel,
    ) {
        let interface = self.interfaces.iter().find(|(listened, _)| *listened == node);
        if let (Some((_, interface)), true, None) = (interface, medium == self.medium, &self.error) {
            let interface = *interface;
            self.error = self.write(at, interface, way, flow, parcel).err();
        }
    }

    fn write(
        &mut self,
        at: Instant,
        interface: Interface,
        way: Way,
        flow: &Flow,
        parcel: &Parcel,
    ) -> io::Result<()> {
        let (from, to) = ends(flow, parcel);
        match (&parcel.body, flow.kind) {
            (Body::Filler(sent), FlowKind::Ping) => {
                let data = (parcel.len as usize).saturating_sub(PING_HEADERS);
                // A number that is unique within a minute: its millisecond.
                let number = (sent.as_nanos() / 1_000_000) as u16;
                let echo = headers::Echo { reply: parcel.way != 0, id: parcel.flow as u16, number };
                self.writer.echo(interface, at, way, *from.ip(), *to.ip(), echo, data)
            }
            (Body::Filler(_), _) => {
                self.filling.resize((parcel.len as usize).saturating_sub(UDP_HEADERS), 0);
                self.writer.udp(interface, at, way, from.into(), to.into(), &self.filling)
            }
            (Body::Datagram(datagram), _) => {
                self.writer.udp(interface, at, way, from.into(), to.into(), datagram.payload())
            }
            (Body::Segment(segment), kind) => {
                let scale = if let FlowKind::Tcp { scale } = kind { scale } else { 0 };
                options(&mut self.options, segment);
                let header = header(segment, scale, &self.options);
                self.writer.tcp(interface, at, way, from.into(), to.into(), header, &segment.payload)
            }
        }
    }

    /// Writes what is left; returns the first error.
    pub fn finish(self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.finish().map(drop),
        }
    }
}

/// 10.0.0.1 and on, without .0 and .255.
fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, (node / 254 % 256) as u8, (node % 254 + 1) as u8)
}

fn ends(flow: &Flow, parcel: &Parcel) -> (SocketAddrV4, SocketAddrV4) {
    let port =
        if matches!(flow.kind, FlowKind::Stream | FlowKind::Tcp { .. }) { STREAM_PORT } else { DISCARD_PORT };
    let sender = SocketAddrV4::new(address(flow.ways[0][0].node), FIRST_PORT + (parcel.flow % 20_000) as u16);
    if parcel.way == GROUP {
        let [.., high, low] = parcel.flow.to_be_bytes();
        return (sender, SocketAddrV4::new(Ipv4Addr::new(239, 0, high, low), port));
    }
    // The direction back from the first receiver belongs to the direction forward.
    let back = usize::from(parcel.way.max(1));
    let receiver = SocketAddrV4::new(address(flow.ways[back][0].node), port);
    if parcel.way == 0 { (sender, receiver) } else { (receiver, sender) }
}

fn header<'o>(segment: &Segment, scale: u8, options: &'o [u8]) -> headers::Segment<'o> {
    let marks = [
        (segment.flags.fin, flag::FIN),
        (segment.flags.syn, flag::SYN),
        (segment.flags.rst, flag::RST),
        (segment.flags.psh, flag::PSH),
        (segment.flags.ack, flag::ACK),
    ];
    // The window of a SYN is never scaled (RFC 7323 §2.2).
    let scale = if segment.flags.syn { 0 } else { scale };
    headers::Segment {
        seq: segment.seq as u32,
        ack: if segment.flags.ack { segment.ack as u32 } else { 0 },
        flags: marks.iter().filter(|(set, _)| *set).fold(0, |flags, (_, mark)| flags | mark),
        window: u16::try_from(segment.window >> scale).unwrap_or(u16::MAX),
        options,
    }
}

/// The options as Linux lays them out; as many bytes as [`Segment::wire_size`] counts.
fn options(out: &mut Vec<u8>, segment: &Segment) {
    out.clear();
    let stamps = |out: &mut Vec<u8>| {
        let stamps = segment.timestamps.unwrap_or_default();
        out.extend_from_slice(&[TIMESTAMPS, 10]);
        out.extend_from_slice(&stamps.value.to_be_bytes());
        out.extend_from_slice(&stamps.echo.to_be_bytes());
    };
    if let Some(syn) = segment.syn {
        out.extend_from_slice(&[MSS, 4]);
        out.extend_from_slice(&u16::try_from(syn.mss).unwrap_or(u16::MAX).to_be_bytes());
        let permitted = if syn.sack { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
        match (syn.timestamps, syn.sack) {
            (true, _) => {
                out.extend_from_slice(&permitted);
                stamps(out);
            }
            (false, true) => out.extend_from_slice(&[NOP, NOP, SACK_PERMITTED, 2]),
            (false, false) => {}
        }
        if let Some(scale) = syn.window_scale {
            out.extend_from_slice(&[NOP, WINDOW_SCALE, 3, scale]);
        }
        return;
    }
    if segment.timestamps.is_some() {
        out.extend_from_slice(&[NOP, NOP]);
        stamps(out);
    }
    let blocks = segment.sack.as_slice();
    if !blocks.is_empty() {
        out.extend_from_slice(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            out.extend_from_slice(&(*start as u32).to_be_bytes());
            out.extend_from_slice(&(*end as u32).to_be_bytes());
        }
    }
}

/// RTP's registered port; the numbers of TCP options are IANA's.
const STREAM_PORT: u16 = 5004;
/// RFC 863.
const DISCARD_PORT: u16 = 9;
/// Senders' ports count from here, one for each flow.
const FIRST_PORT: u16 = 40_000;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{SynOptions, Timestamps};

    #[test]
    fn options_are_as_long_as_the_wire_counts() {
        let mut out = Vec::new();
        for bits in 0..32u32 {
            let syn = SynOptions {
                mss: 1460,
                sack: bits & 1 != 0,
                timestamps: bits & 2 != 0,
                window_scale: (bits & 4 != 0).then_some(7),
            };
            let mut segment = Segment { syn: (bits & 8 != 0).then_some(syn), ..Segment::default() };
            segment.timestamps = (bits & 2 != 0).then(Timestamps::default);
            if bits & 16 != 0 && segment.syn.is_none() {
                segment.sack.push((5, 9), 3);
            }
            options(&mut out, &segment);
            assert_eq!(out.len() + crate::tcp::HEADER_BYTES, segment.wire_size(), "{segment:?}");
        }
    }
}
