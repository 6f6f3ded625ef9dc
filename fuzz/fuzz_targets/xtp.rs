//! Packets of XTP, between two ends and to a group: two ends that hear damaged and forged packets, checksums made right, keep their
//! promises, and neither a validator nor the sender to a group sends an unproved address more than came from it.
#![no_main]

mod ends;

use std::time::Duration;

use antiphon_core::{Input, Instant, Message, PathId, Tag};
use arbitrary::Arbitrary;
use ends::{End, carry, knock, stack_to};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// All that one end has to say arrives; one byte of each packet may be another, which the checksum may cover.
    Carry { by_caller: bool, damage: Option<(u8, u8, bool)> },
    /// The last packet of one end with another format, options, number or body.
    Forge { to_caller: bool, kind: u8, options: [u8; 3], ahead: i16, body: Option<Vec<u8>> },
    Noise { to_caller: bool, bytes: Vec<u8> },
    /// The caller's last packet, changed, to the listener's validator from one of a few addresses.
    Knock { path: u8, damage: Option<(u8, u8)>, full: bool },
    /// The listener's last packet, changed or cut, to the caller from another address, as of a receiver that wants to join its group.
    Join { path: u8, damage: Option<(u8, u8)>, cut: u8 },
    Send { by_caller: bool, len: u16, deadline: Option<u8> },
    Advance { ms: u16 },
}

const MODES: &[(&str, bool)] = &[
    ("", false),
    ("reliability=full&order=ordered", false),
    ("acks=gap&sort=on", false),
    ("acks=4&flow=reserved", false),
    ("acks=10ms&checksum=header", false),
    ("acks=never", false),
    ("service=datagram", false),
    ("", true),
    ("reliability=full&order=ordered", true),
    ("acks=never&parity=30%25", true),
];

/// Puts the checksum of the whole packet in its place.
fn seal(packet: &mut [u8]) {
    if packet.len() < 32 {
        return;
    }
    packet[16..18].fill(0);
    let words = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// One byte another, which the checksum covers.
fn damaged(packet: &[u8], damage: Option<(u8, u8)>) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if let (Some((at, byte)), false) = (damage, packet.is_empty()) {
        let at = usize::from(at) % packet.len();
        packet[at] = byte;
        seal(&mut packet);
    }
    packet
}

fuzz_target!(|input: (u8, Vec<Step>)| {
    let (query, group) = MODES[usize::from(input.0) % MODES.len()];
    let stacks = [0, 1].map(|seed| stack_to("xtp", query, seed, group));
    let mut ends = End::pair(&stacks);
    let mut now = Instant::from_millis(1);
    let mut validator = stacks[1].validator(now);
    // Bytes that came from each address and were not answered with as many.
    let (mut knocks, mut joins) = ([0usize; 4], [0i64; 8]);
    let mut proved = [false; 8];
    for step in input.1 {
        match step {
            Step::Carry { by_caller, damage } => {
                carry(&mut ends, usize::from(!by_caller), now, Some(0), |packet| {
                    if let Some((at, byte, sealed)) = damage {
                        packet[usize::from(at) % packet.len()] = byte;
                        if sealed {
                            seal(packet);
                        }
                    }
                });
            }
            Step::Forge { to_caller, kind, options, ahead, body } => {
                let mut packet = ends[usize::from(to_caller)].last.clone();
                if packet.len() >= 32 {
                    packet[8..11].iter_mut().zip(options).for_each(|(byte, mask)| *byte ^= mask);
                    packet[11] = 1 << 5 | kind & 0x1f;
                    let seq = u64::from_be_bytes(*packet[24..32].first_chunk().expect("eight bytes"));
                    packet[24..32].copy_from_slice(&seq.wrapping_add_signed(ahead.into()).to_be_bytes());
                    if let Some(body) = body {
                        packet.truncate(32);
                        packet.extend_from_slice(&body[..body.len().min(1400)]);
                    }
                    let len = (packet.len() - 32) as u32;
                    packet[12..16].copy_from_slice(&len.to_be_bytes());
                    seal(&mut packet);
                    ends[usize::from(!to_caller)].hear(now, 0, &packet);
                }
            }
            Step::Noise { to_caller, bytes } => ends[usize::from(!to_caller)].hear(now, 0, &bytes),
            Step::Knock { path, damage, full } => {
                let bytes = damaged(&ends[0].last, damage);
                let path = usize::from(path % 4);
                let datagram = (PathId(path as u32), &bytes[..]);
                knock(now, &mut *validator, &*stacks[1], datagram, &mut knocks[path], &mut ends[0], full);
            }
            Step::Join { path, damage, cut } => {
                let path = 1 + usize::from(path % 7);
                let mut bytes = damaged(&ends[1].last, damage);
                if cut > 0 && bytes.len() >= 32 + usize::from(cut) {
                    bytes.truncate(bytes.len() - usize::from(cut));
                    let len = (bytes.len() - 32) as u32;
                    bytes[12..16].copy_from_slice(&len.to_be_bytes());
                    seal(&mut bytes);
                }
                if group {
                    joins[path] += bytes.len() as i64;
                    let input = Input::Datagram { path: PathId(path as u32), bytes: &mut bytes, received_at: now };
                    ends[0].endpoint.handle_input(now, input);
                    let mut buf = [0; 1452];
                    while let Some(sent) = ends[0].endpoint.poll_transmit(now, &mut buf) {
                        let to = sent.path.0 as usize;
                        if to == 0 {
                            ends[1].hear(now, 0, &buf[..sent.len]);
                            continue;
                        }
                        joins[to] -= sent.len as i64;
                        proved[to] |= joins[to] < 0 && ends[0].endpoint.path_stats(sent.path).is_some();
                        assert!(joins[to] >= 0 || proved[to], "more than came from {to}");
                    }
                }
            }
            Step::Send { by_caller, len, deadline } => {
                let bytes = vec![1; usize::from(len % 4000) + 1];
                let deadline = deadline.map(|ms| now + Duration::from_millis(ms.into()));
                ends[usize::from(!by_caller)].send(now, Message::new(Tag::NONE, &bytes, deadline));
            }
            Step::Advance { ms } => now += Duration::from_millis(ms.into()),
        }
        ends.iter_mut().for_each(|end| {
            end.fetch();
            end.drain(now);
        });
    }
});
