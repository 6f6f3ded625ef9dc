//! Packets of DCCP: what parses is written back the same; two ends that hear damaged and forged packets keep their promises,
//! and the validator sends no address more than came from it.
#![no_main]

mod ends;

use std::time::Duration;

use antiphon_core::{Instant, Message, PathId, Tag};
use antiphon_proto::dccp::Checksum;
use antiphon_proto::dccp::wire::{OptionWriter, Packet, emit};
use arbitrary::Arbitrary;
use ends::{End, carry, knock, stack};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// All that one end has to say arrives; one byte of each packet may be another.
    Carry {
        by_client: bool,
        damage: Option<(u8, u8)>,
    },
    /// The last packet of one end, with options and data of the forger's.
    Forge {
        to_client: bool,
        tail: Vec<u8>,
        kind: u8,
        ahead: i8,
    },
    Noise {
        to_client: bool,
        bytes: Vec<u8>,
    },
    /// The client's last packet, damaged, or anything, to the validator from one of a few addresses; there may be no room.
    Knock {
        path: u8,
        forged: Option<Vec<u8>>,
        damage: Option<(u8, u8)>,
        cut: bool,
        full: bool,
    },
    Send {
        by_client: bool,
        len: u8,
    },
    Advance {
        ms: u16,
    },
}

/// A packet that can be read can be written again, to the same bytes but for reserved bits and the checksum.
fn round_trip(bytes: &[u8]) {
    let Some(packet) = Packet::parse(bytes, Checksum::Udp) else { return };
    let mut options = OptionWriter::default();
    for option in packet.options() {
        let _read = (option.read(), option.is_barred_from_data());
        if option.number >= 32 && !options.put(option.number, &[option.value]) {
            return;
        }
    }
    let mut buf = vec![0; 70_000];
    let len = emit(&packet.header, &options, packet.data, Checksum::Udp, &mut buf).expect("room");
    let again = Packet::parse(&buf[..len], Checksum::Udp).expect("written to be read");
    assert_eq!((again.header, again.data), (packet.header, packet.data));
}

fuzz_target!(|input: (bool, Vec<Step>)| {
    let query = if input.0 { "ccid=2" } else { "ccid=3" };
    let stacks = [0, 1].map(|seed| stack("dccp", query, seed));
    let mut ends = End::pair(&stacks);
    let mut now = Instant::from_millis(1);
    let mut validator = stacks[1].validator(now);
    // Bytes that came from each address and were not answered with as many.
    let mut accounts = [0; 4];
    for step in input.1 {
        match step {
            Step::Carry { by_client, damage } => {
                carry(&mut ends, usize::from(!by_client), now, Some(0), |packet| {
                    if let Some((at, byte)) = damage {
                        packet[usize::from(at) % packet.len()] = byte;
                    }
                });
            }
            Step::Forge { to_client, tail, kind, ahead } => {
                let mut packet = ends[usize::from(to_client)].last.clone();
                if packet.len() >= 28 {
                    packet.truncate(28);
                    packet[8] = kind << 1 | 1;
                    packet[15] = packet[15].wrapping_add_signed(ahead);
                    packet.extend_from_slice(&tail[..tail.len().min(900) / 4 * 4]);
                    packet[4] = (packet.len() / 4) as u8;
                    round_trip(&packet);
                    ends[usize::from(!to_client)].hear(now, 0, &packet);
                }
            }
            Step::Noise { to_client, bytes } => {
                round_trip(&bytes);
                ends[usize::from(!to_client)].hear(now, 0, &bytes);
            }
            Step::Knock { path, forged, damage, cut, full } => {
                let mut bytes = forged.unwrap_or_else(|| ends[0].last.clone());
                if let (Some((at, byte)), false) = (damage, bytes.is_empty()) {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] = byte;
                }
                if cut && bytes.len() >= 40 {
                    // As another stack would write it: without padding.
                    bytes.truncate(40);
                    bytes[4] = 10;
                }
                let path = usize::from(path % 4);
                let datagram = (PathId(path as u32), &bytes[..]);
                knock(now, &mut *validator, &*stacks[1], datagram, &mut accounts[path], &mut ends[0], full);
            }
            Step::Send { by_client, len } => {
                let frame = Message::new(
                    Tag::NONE,
                    &[1; 300][..usize::from(len) + 1],
                    Some(now + Duration::from_millis(50)),
                );
                ends[usize::from(!by_client)].send(now, frame);
            }
            Step::Advance { ms } => now += Duration::from_millis(ms.into()),
        }
        ends.iter_mut().for_each(|end| {
            end.fetch();
            end.drain(now);
        });
    }
});
