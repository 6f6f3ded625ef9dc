//! `xtp://` as a stack.

use std::net::IpAddr;
use std::rc::Rc;

use antiphon_core::{Dissector, Endpoint, Instant, OverIp, Role, Stack, Validator};

use super::datagram::Datagrams;
use super::endpoint::Xtp;
use super::group::{GroupMember, GroupSender, GroupValidator};
use super::settings::{self, Service, Settings};
use super::validator::XtpValidator;
use super::wire::{self, HEADER, TAG};
use super::{MAX_PACKET, MIN_PACKET};
use crate::seeds::{Seeds, dynamic_port};
use crate::{OpenError, StackArgs};

/// Endpoints of one URI.
#[derive(Debug)]
struct XtpStack {
    settings: Settings,
    /// Largest packet in bytes.
    packet: usize,
    /// Callers send to a group, and listeners receive what is sent to one.
    group: bool,
    /// The port of all of its members of groups.
    member_port: u16,
    seeds: Seeds,
}

/// A stack with these settings.
pub(super) fn stack(args: &StackArgs<'_>) -> Result<Rc<dyn Stack>, OpenError> {
    let packet = args.max_datagram.clamp(MIN_PACKET, MAX_PACKET);
    let settings = settings::read(args.query, packet - HEADER - TAG, args.group)?;
    let group = args.group && settings.service == Service::Stream;
    let member_port = dynamic_port(&mut args.secret.rng("xtp members"));
    Ok(Rc::new(XtpStack { settings, packet, group, member_port, seeds: Seeds::new(args.secret) }))
}

impl Stack for XtpStack {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        let XtpStack { settings, packet, ref seeds, .. } = *self;
        match settings.service {
            Service::Stream if self.group && role == Role::Caller => {
                Box::new(GroupSender::open(settings, packet, seeds, now))
            }
            Service::Stream if self.group => {
                Box::new(GroupMember::open(settings, packet, self.member_port, seeds, now))
            }
            Service::Stream => Box::new(Xtp::new(settings, packet, role, seeds, now)),
            Service::Datagram => Box::new(Datagrams::open(settings, packet, role, seeds)),
        }
    }

    fn validator(&self, _now: Instant) -> Box<dyn Validator> {
        if self.group {
            return Box::new(GroupValidator { port: self.settings.port });
        }
        let datagrams = self.settings.service == Service::Datagram;
        Box::new(XtpValidator::new(&self.seeds.shared(), self.settings.port, datagrams))
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        Box::new(super::dissector::DISSECTOR)
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        Some(&XtpOverIp)
    }
}

/// XTP directly over IP. Its checksum covers no addresses, and its ports are in our keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct XtpOverIp;

impl OverIp for XtpOverIp {
    fn protocol(&self) -> u8 {
        PROTOCOL
    }

    fn port_key(&self) -> &'static str {
        "xtp-port"
    }

    fn ports(&self, packet: &[u8]) -> Option<(u16, u16)> {
        wire::ports(packet)
    }

    fn seal(&self, _packet: &mut [u8], _from: IpAddr, _to: IpAddr) {}

    fn is_sound(&self, _packet: &[u8], _from: IpAddr, _to: IpAddr) -> bool {
        true
    }
}

/// XTP's IP protocol number (IANA).
const PROTOCOL: u8 = 36;
