//! Reads the options of an arriving packet (RFC 4340 §8.5 step 8).

use std::time::Duration;

use antiphon_core::Role;

use super::features::{self, Features};
use super::receive::NO_ROOM;
use super::wire::{DccpOption, Kind, Packet, ResetCode};

/// What the options of a packet said, beyond feature negotiation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen<'a> {
    pub(super) vectors: [&'a [u8]; 4],
    pub(super) vector_count: usize,
    /// How long the peer kept the acknowledged packet; zero if it does not tell.
    pub elapsed: Duration,
    /// 1/p, and bytes per second: CCID 3's.
    pub loss_event_rate: Option<u32>,
    /// See above.
    pub receive_rate: Option<u32>,
    pub ndp: Option<u64>,
    /// The peer's time stamp.
    pub stamp: Option<u32>,
    /// Init Cookies, in order; a server may need more than one option (RFC 4340 §8.1.4).
    pub cookies: [&'a [u8]; 2],
    pub cookie_count: usize,
    pub data_checksum: Option<u32>,
    /// Packets whose data the peer dropped for lack of room.
    pub overrun: u32,
    /// The peer cannot take more at present (RFC 4340 §11.6).
    pub slow: bool,
}

/// Why the connection must be reset: code and Reset data.
pub(super) type Fault = (ResetCode, [u8; 3]);

impl<'a> Seen<'a> {
    /// Reads all options, and handles feature negotiation; `role`: this end's. `Err`: the connection must be reset.
    pub fn read(packet: &Packet<'a>, features: &mut Features, role: Role) -> Result<Self, Fault> {
        let mut seen = Seen::default();
        let header = &packet.header;
        let is_data = header.kind == Kind::Data;
        let (mut options, mut negotiated) = (packet.options(), false);
        for option in options.by_ref() {
            if is_data && option.is_barred_from_data() {
                continue;
            }
            let fault = |code| {
                let at = |i: usize| option.value.get(i).copied().unwrap_or(0);
                (code, [option.number, at(0), at(1)])
            };
            match option.read() {
                DccpOption::Feature { verb, feature, value } => {
                    negotiated = true;
                    let arrival = features::Arrival {
                        seq: header.seq,
                        ack: header.kind.ack(),
                        mandatory: option.mandatory,
                        is_server: role == Role::Listener,
                    };
                    features.on_option(verb, feature, value, arrival).map_err(fault)?;
                }
                DccpOption::Unknown | DccpOption::Malformed if option.mandatory => {
                    return Err(fault(ResetCode::MANDATORY_ERROR));
                }
                known => seen.take(known),
            }
        }
        if options.ends_mandatory() {
            return Err((ResetCode::MANDATORY_ERROR, [1, 0, 0]));
        }
        if negotiated {
            features.on_packet_read(header.seq);
        }
        Ok(seen)
    }

    /// Ack Vectors, in order.
    pub fn vectors(&self) -> &[&'a [u8]] {
        &self.vectors[..self.vector_count]
    }

    fn take(&mut self, option: DccpOption<'a>) {
        let ten_micros = |n: u32| Duration::from_micros(10) * n;
        match option {
            DccpOption::AckVector(runs) if self.vector_count < self.vectors.len() => {
                self.vectors[self.vector_count] = runs;
                self.vector_count += 1;
            }
            DccpOption::ElapsedTime(elapsed) | DccpOption::TimestampEcho { elapsed, .. } => {
                self.elapsed = ten_micros(elapsed);
            }
            DccpOption::LossEventRate(inverse) => self.loss_event_rate = Some(inverse),
            DccpOption::ReceiveRate(rate) => self.receive_rate = Some(rate),
            DccpOption::SlowReceiver => self.slow = true,
            DccpOption::NdpCount(count) => self.ndp = Some(count),
            DccpOption::InitCookie(cookie) if self.cookie_count < self.cookies.len() => {
                self.cookies[self.cookie_count] = cookie;
                self.cookie_count += 1;
            }
            DccpOption::Timestamp(stamp) => self.stamp = Some(stamp),
            DccpOption::DataChecksum(crc) => self.data_checksum = Some(crc),
            DccpOption::DataDropped(runs) => self.overrun += overrun(runs),
            _ => {}
        }
    }
}

/// Packets that the peer dropped for lack of room (RFC 4340 §11.7: drop blocks have the top bit, then three of code,
/// four of run).
fn overrun(runs: &[u8]) -> u32 {
    let no_room = runs.iter().filter(|byte| **byte >> 4 == 0x08 | NO_ROOM);
    no_room.map(|byte| u32::from(byte & 0x0f) + 1).sum()
}
