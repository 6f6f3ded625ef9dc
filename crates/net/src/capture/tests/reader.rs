//! Reads a capture file back and checks every header by the rules of its protocol.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};

/// A packet that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    pub interface: u32,
    pub nanos: u64,
    pub outgoing: bool,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Of the IP header.
    pub protocol: u8,
    /// Sequence and acknowledgement numbers and flags of TCP.
    pub tcp: Option<(u32, u32, u8)>,
    pub payload: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Read {
    pub names: Vec<String>,
    pub packets: Vec<Seen>,
    /// Received and dropped, by interface.
    pub totals: Vec<(u64, u64)>,
}

/// What a connection carried: bytes sent and bytes received.
pub type Streams = (Vec<u8>, Vec<u8>);

/// Reads a whole file, which must not end in the middle of a block.
pub fn read(bytes: &[u8]) -> Read {
    let mut read = Read::default();
    let mut reader = PcapNgReader::new(bytes).expect("a section header");
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::InterfaceDescription(block) => {
                assert_eq!(block.linktype, DataLink::RAW);
                assert!(block.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                read.names.extend(block.options.iter().filter_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(block) => {
                assert_eq!(block.original_len as usize, block.data.len());
                let outgoing = block.options.contains(&EnhancedPacketOption::Flags(2));
                assert!(outgoing || block.options.contains(&EnhancedPacketOption::Flags(1)));
                let nanos = block.timestamp.as_nanos() as u64;
                read.packets.push(dissect(block.interface_id, nanos, outgoing, &block.data));
            }
            Block::InterfaceStatistics(block) => {
                assert_eq!(block.interface_id as usize, read.totals.len());
                let [
                    InterfaceStatisticsOption::IsbIfRecv(received),
                    InterfaceStatisticsOption::IsbIfDrop(dropped),
                ] = block.options[..]
                else {
                    panic!("{block:?}")
                };
                read.totals.push((received, dropped));
            }
            other => panic!("{other:?}"),
        }
    }
    read
}

/// The one's complement sum, computed simply, independently of the code under test.
fn sum_is_good(parts: &[&[u8]]) -> bool {
    let mut bytes: Vec<u8> = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) * 256 + u32::from(word[1]);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

/// Bytes that the checksum of a DCCP packet covers (RFC 4340 §9.2); `None` if there are not so many.
fn dccp_coverage(packet: &[u8]) -> Option<usize> {
    let header = usize::from(packet[4]) * 4;
    match packet[5] & 0x0f {
        0 => Some(packet.len()),
        n => Some(header + usize::from(n - 1) * 4).filter(|covered| *covered <= packet.len()),
    }
}

fn dissect(interface: u32, nanos: u64, outgoing: bool, ip: &[u8]) -> Seen {
    let word = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (from, to, addresses, protocol, transport): (IpAddr, IpAddr, &[u8], u8, &[u8]) = match ip[0] >> 4 {
        4 => {
            assert_eq!((ip[0], usize::from(word(ip, 2))), (0x45, ip.len()));
            assert!(sum_is_good(&[&ip[..20]]), "IPv4 checksum");
            let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]).into();
            (address(12), address(16), &ip[12..20], ip[9], &ip[20..])
        }
        6 => {
            assert_eq!(usize::from(word(ip, 4)), ip.len() - 40);
            let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap()).into();
            (address(8), address(24), &ip[8..40], ip[6], &ip[40..])
        }
        version => panic!("IP version {version}"),
    };
    let length = (transport.len() as u32).to_be_bytes();
    // SCTP's CRC covers no addresses, and is unchanged from the packet inside UDP.
    let covered = if protocol == 33 { dccp_coverage(transport) } else { Some(transport.len()) };
    let good = |covered| sum_is_good(&[addresses, &length, &[0, protocol], &transport[..covered]]);
    assert!(protocol == 132 || covered.is_none_or(good), "transport checksum");
    let long = |at: usize| u32::from_be_bytes(transport[at..at + 4].try_into().unwrap());
    let (header, tcp) = match protocol {
        17 => {
            assert_eq!(usize::from(word(transport, 4)), transport.len());
            assert_ne!(word(transport, 6), 0, "a checksum is given");
            (8, None)
        }
        6 => (usize::from(transport[12] >> 4) * 4, Some((long(4), long(8), transport[13]))),
        33 | 132 => (0, None),
        protocol => panic!("protocol {protocol}"),
    };
    Seen {
        interface,
        nanos,
        outgoing,
        from: SocketAddr::new(from, word(transport, 0)),
        to: SocketAddr::new(to, word(transport, 2)),
        protocol,
        tcp,
        payload: transport[header..].to_vec(),
    }
}

/// Follows TCP conversations packet by packet and gives both streams of each, in the order of their beginning.
///
/// Panics if a number does not follow from the packets before.
pub fn conversations(packets: &[Seen]) -> Vec<Streams> {
    #[derive(Default)]
    struct Side {
        next: Option<u32>,
        fin: bool,
        bytes: Vec<u8>,
    }
    let mut done = Vec::new();
    let mut sides: BTreeMap<bool, Side> = BTreeMap::new();
    for packet in packets.iter().filter(|p| p.tcp.is_some()) {
        let (seq, ack, flags) = packet.tcp.unwrap();
        let opens = flags & 0x02 != 0;
        if opens && flags & 0x10 == 0 {
            if let (Some(sent), Some(received)) = (sides.remove(&true), sides.remove(&false)) {
                done.push((sent.bytes, received.bytes));
            }
            sides = [(true, Side::default()), (false, Side::default())].into();
        }
        if flags & 0x10 != 0 {
            assert_eq!(Some(ack), sides[&!packet.outgoing].next, "acknowledges what is there: {packet:?}");
        }
        let side = sides.get_mut(&packet.outgoing).expect("a conversation begins with a SYN");
        assert_eq!(seq, side.next.unwrap_or(seq), "continues: {packet:?}");
        assert!(packet.payload.len() <= 1448 && (packet.payload.is_empty() || !side.fin));
        let counts = packet.payload.len() as u32 + u32::from(flags & 0x03 != 0);
        side.next = Some(seq.wrapping_add(counts));
        side.fin |= flags & 0x01 != 0;
        side.bytes.extend_from_slice(&packet.payload);
    }
    if let (Some(sent), Some(received)) = (sides.remove(&true), sides.remove(&false)) {
        done.push((sent.bytes, received.bytes));
    }
    done
}
