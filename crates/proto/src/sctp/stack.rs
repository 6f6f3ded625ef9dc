//! `sctp://` as a stack.

use std::net::IpAddr;
use std::rc::Rc;

use antiphon_core::{Dissector, Endpoint, Instant, OverIp, Role, Stack, Validator, first_ports};

use super::endpoint::Sctp;
use super::settings::{self, MAX_PACKET, MIN_PACKET, Settings};
use super::validator::{SctpValidator, Terms};
use crate::dissect::EachDatagram;
use crate::seeds::Seeds;
use crate::{OpenError, StackArgs};

/// Endpoints of one URI.
#[derive(Debug)]
pub(super) struct SctpStack {
    settings: Settings,
    /// Largest packet in bytes.
    packet: usize,
    seeds: Seeds,
}

/// A stack with these settings.
pub(super) fn stack(args: &StackArgs<'_>) -> Result<Rc<dyn Stack>, OpenError> {
    // Packets are built in words of 4 bytes.
    let packet = args.max_datagram.clamp(MIN_PACKET, MAX_PACKET) & !3;
    Ok(Rc::new(SctpStack {
        settings: settings::read(args.query, args.streams)?,
        packet,
        seeds: Seeds::new(args.secret),
    }))
}

impl Stack for SctpStack {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        Box::new(Sctp::new(self.settings, self.packet, role, &self.seeds, now))
    }

    fn validator(&self, now: Instant) -> Box<dyn Validator> {
        let terms = Terms::new(&self.settings, self.settings.sctp_port, self.packet);
        Box::new(SctpValidator::validating(terms, self.seeds.shared(), now))
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        Box::new(EachDatagram::new(super::dissector::dissect))
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        Some(&SctpOverIp)
    }
}

/// SCTP directly over IP: its CRC covers no addresses (RFC 9260 §6.8).
#[derive(Clone, Copy, Debug)]
pub(super) struct SctpOverIp;

impl OverIp for SctpOverIp {
    fn protocol(&self) -> u8 {
        PROTOCOL
    }

    fn port_key(&self) -> &'static str {
        "sctp-port"
    }

    fn ports(&self, packet: &[u8]) -> Option<(u16, u16)> {
        first_ports(packet)
    }

    fn seal(&self, _packet: &mut [u8], _from: IpAddr, _to: IpAddr) {}

    fn is_sound(&self, _packet: &[u8], _from: IpAddr, _to: IpAddr) -> bool {
        true
    }
}

/// SCTP's IP protocol number (IANA).
const PROTOCOL: u8 = 132;
