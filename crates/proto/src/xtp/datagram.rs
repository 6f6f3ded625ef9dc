//! The datagram service: each message is a FIRST of its own, and nothing is acknowledged or kept.

use antiphon_core::{Capabilities, Instant, Outcome, Profile, Rng, Role};

use super::settings::Settings;
use super::wire::{self, ADDRESS, HEADER, Header, Key, NO_TRAFFIC, Segment, Writer, format, option, service};
use crate::association::{Association, Common, Protocol};
use crate::queue::Room;
use crate::seeds::{Seeds, dynamic_port};
use crate::tally::Datagram;

/// One end.
pub(super) struct Datagrams {
    common: Common,
    settings: Settings,
    packet: usize,
    /// Of our packets; a listener takes the ports of its caller.
    key: Option<Key>,
    sync: u32,
}

impl Datagrams {
    /// `packet`: bytes of the largest packet.
    pub fn open(settings: Settings, packet: usize, role: Role, seeds: &Seeds) -> Association<Self> {
        let mut draws = Rng::fork(seeds.next(), "xtp datagrams");
        let port = dynamic_port(&mut draws);
        let key = (role == Role::Caller).then(|| Key::new(draws.next_u32(), settings.port, port));
        Association(Datagrams { common: Common::new(Room::LEAN, packet), settings, packet, key, sync: 0 })
    }
}

/// Whether a packet begins such an association with a listener at `port`.
pub(super) fn begins(packet: &[u8], port: u16) -> bool {
    message(packet).is_some_and(|(header, _)| header.ports().1 == port)
}

/// The message in a packet.
pub(super) fn message(packet: &[u8]) -> Option<(Header, &[u8])> {
    let (header, segment) = wire::parse(packet)?;
    Some((header, message_in(&header, &segment)?))
}

/// The message in a packet that has been parsed.
pub(super) fn message_in<'a>(header: &Header, segment: &Segment<'a>) -> Option<&'a [u8]> {
    let Segment::First { service: service::UNACKNOWLEDGED_DATAGRAM, bytes, .. } = segment else {
        return None;
    };
    let whole = header.has(option::EOM | option::END) && !header.returned && !bytes.is_empty();
    whole.then_some(*bytes)
}

impl Protocol for Datagrams {
    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn profile(&self) -> Profile {
        let most = self.packet - OVERHEAD;
        let capabilities = Capabilities { checksum: true, ..Capabilities::OF_UDP };
        Profile { capabilities, ..Profile::of_datagrams(most, super::MAX_MESSAGE, OVERHEAD) }
    }

    fn on_max_datagram(&mut self, most: usize) {
        self.packet = self.packet.min(most.max(super::MIN_PACKET));
    }

    fn on_datagram(&mut self, _now: Instant, datagram: &Datagram<'_>) {
        let Some((header, bytes)) = message(datagram.bytes) else { return self.common.tally.on_malformed() };
        let (source, destination) = header.ports();
        self.key.get_or_insert_with(|| Key::new(header.key.rest(), source, destination));
        self.common.inbox.push(bytes, &[], datagram.path, datagram.received_at);
    }

    fn on_closing(&mut self) {
        if self.key.is_none() {
            // No caller is known, so there is no address to send to.
            self.common.queue.finish_all(Outcome::Aborted);
        }
    }

    fn write(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        // A listener learns its caller's ports from the first message.
        let key = self.key?;
        let message = self.common.queue.pop(now)?;
        self.sync = self.sync.wrapping_add(1);
        let mut options = option::EOM | option::END | option::NOERR | option::NOFLOW;
        options |= if self.settings.nocheck { option::NOCHECK } else { 0 };
        options |= if self.settings.sort { option::SORT } else { 0 };
        let sort = u16::from(message.priority);
        let header = Header { key, returned: false, options, sort, sync: self.sync, seq: 0 };
        let mut writer = Writer::new(buf, &header, format::FIRST);
        writer.address([0; 4], (key.owner(), key.other()));
        writer.traffic(service::UNACKNOWLEDGED_DATAGRAM, None);
        writer.bytes(&message.bytes);
        let len = writer.finish();
        self.common.queue.finish(message, Outcome::Released);
        Some(len)
    }
}

/// What FIRST adds to a message.
const OVERHEAD: usize = HEADER + ADDRESS + NO_TRAFFIC;
