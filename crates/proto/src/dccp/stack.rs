//! `dccp://` as a stack.

use std::net::IpAddr;
use std::rc::Rc;

use antiphon_core::{Dissector, Endpoint, Instant, OverIp, Role, Stack, Validator, first_ports};

use super::endpoint::DccpEndpoint;
use super::settings::Settings;
use super::validator::DccpValidator;
use super::wire::checksum::{self, Checksum};
use crate::dissect::EachDatagram;
use crate::seeds::Seeds;
use crate::{OpenError, StackArgs};

/// Endpoints of one URI.
#[derive(Debug)]
pub(super) struct DccpStack {
    settings: Settings,
    max_datagram: usize,
    seeds: Seeds,
}

/// A stack of these settings.
pub(super) fn stack(args: &StackArgs<'_>) -> Result<Rc<dyn Stack>, OpenError> {
    let settings = Settings::read(args.query)?;
    Ok(Rc::new(DccpStack { settings, max_datagram: args.max_datagram, seeds: Seeds::new(args.secret) }))
}

impl Stack for DccpStack {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        let (shared, seed) = (self.seeds.shared(), self.seeds.next());
        let validator = DccpValidator::new(self.settings, Checksum::Udp, &shared);
        Box::new(DccpEndpoint::opened(validator, role, self.max_datagram, seed, now))
    }

    fn validator(&self, _now: Instant) -> Box<dyn Validator> {
        Box::new(DccpValidator::outer(self.settings, Checksum::Udp, &self.seeds.shared()))
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        Box::new(EachDatagram::new(super::dissector::dissect))
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        Some(&DccpOverIp)
    }
}

/// DCCP as a protocol of its own, whose checksum covers the addresses (RFC 4340 §9.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct DccpOverIp;

impl OverIp for DccpOverIp {
    fn protocol(&self) -> u8 {
        checksum::PROTOCOL as u8
    }

    fn port_key(&self) -> &'static str {
        "dccp-port"
    }

    fn ports(&self, packet: &[u8]) -> Option<(u16, u16)> {
        first_ports(packet)
    }

    fn seal(&self, packet: &mut [u8], from: IpAddr, to: IpAddr) {
        checksum::seal(packet, from, to);
    }

    fn is_sound(&self, packet: &[u8], from: IpAddr, to: IpAddr) -> bool {
        checksum::is_sound(packet, from, to)
    }
}
