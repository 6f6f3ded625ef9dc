//! Who may begin an association: proof of address without state, for a listening wire and for a listener's endpoint.
//!
//! FIRST is answered with TCNTL, which is no longer and costs the listener no memory: the key that it offers and its first
//! sequence number are a keyed hash of the caller's key, path and first number, and of the time. The caller returns both in
//! a TCNTL of its own, with its key and its first number. This proves the caller's address: the reply reached it there. XTP
//! 4.0 accepts FIRST and the data in it without a proof; here data follows the proof.

use std::time::Duration;

use antiphon_core::{ConnectionId, Instant, PathId, Secret, StreamPlace, Validator, Verdict};

use super::wire::{self, DIAG, FIRST, Header, Key, Segment, Status, Writer, diag, format, option, service};
use crate::cookie::{COOKIE_LIFE, Seal};

/// What a caller's proof says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Introduction {
    /// Chosen by the caller.
    pub caller: Key,
    /// Chosen by the listener.
    pub listener: Key,
    /// The caller's first sequence number.
    pub caller_seq: u64,
    /// The listener's.
    pub listener_seq: u64,
}

impl Introduction {
    /// Reads a proof, without checking it.
    pub fn read(header: &Header, segment: &Segment<'_>) -> Option<Self> {
        let Segment::Traffic { status, key, .. } = segment else { return None };
        header.returned.then_some(Introduction {
            caller: *key,
            listener: header.key,
            caller_seq: header.seq,
            listener_seq: status.rseq,
        })
    }
}

/// Answers calls, and packets that belong to no association.
#[derive(Clone, Debug)]
pub(super) struct XtpValidator {
    seal: Seal,
    port: u16,
    /// What begins an association without proof: a datagram service's.
    datagrams: bool,
}

impl XtpValidator {
    /// Of a listener at this XTP port. All with the same secret accept each other's answers.
    pub fn new(secret: &Secret, port: u16, datagrams: bool) -> Self {
        XtpValidator { seal: Seal::new(secret, "xtp"), port, datagrams }
    }

    /// Key and first number for a caller, in the time slot.
    fn offer_in(&self, path: PathId, caller: Key, caller_seq: u64, slot: u32) -> (Key, u64) {
        let parts: [&[u8]; 4] =
            [&path.0.to_be_bytes(), &caller.0.to_be_bytes(), &caller_seq.to_be_bytes(), &[slot as u8]];
        let mark = self.seal.mark(&parts);
        let (number, rest) = mark.split_at(8);
        let rest = u32::from_be_bytes(*rest.first_chunk().expect("eight bytes"));
        let rest = rest >> SLOT_BITS << SLOT_BITS | slot;
        let number = u64::from_be_bytes(*number.first_chunk().expect("eight bytes"));
        (Key::new(rest, caller.owner(), self.port), number)
    }

    /// Whether the packet is a caller's proof, and what it says.
    pub fn open(&self, now: Instant, path: PathId, packet: &[u8]) -> Option<Introduction> {
        let (header, segment) = wire::parse(packet)?;
        let introduction = Introduction::read(&header, &segment)?;
        self.is_offer(now, path, &introduction).then_some(introduction)
    }

    /// Key and first number for a caller that calls now.
    pub fn offer(&self, now: Instant, path: PathId, caller: Key, caller_seq: u64) -> (Key, u64) {
        self.offer_in(path, caller, caller_seq, slot_of(now))
    }

    /// Whether a caller returns what was offered to it not long ago.
    pub fn is_offer(&self, now: Instant, path: PathId, said: &Introduction) -> bool {
        let slot = said.listener.rest() & (SLOTS - 1);
        let lately = slot_of(now).wrapping_sub(slot) & (SLOTS - 1) <= MOST_SLOTS;
        lately
            && self.offer_in(path, said.caller, said.caller_seq, slot) == (said.listener, said.listener_seq)
    }

    /// The answer to a packet that belongs to no association; returns its length, 0 for none. It is never longer than the
    /// packet.
    pub fn answer(&self, now: Instant, path: PathId, packet: &[u8], out: &mut [u8]) -> usize {
        let Some((header, segment)) = wire::parse(packet) else { return 0 };
        match segment {
            Segment::First { .. } if !header.returned && self.is_for_us(&header) => {
                if packet.len() < FIRST || header.has(option::MULTI) {
                    return 0;
                }
                let (key, seq) = self.offer(now, path, header.key, header.seq);
                let reply = Header { key: header.key, returned: true, options: 0, sort: 0, sync: 0, seq };
                let mut writer = Writer::new(out, &reply, format::TCNTL);
                // Nothing may be sent before the proof.
                let status = Status { rseq: header.seq, alloc: header.seq, echo: header.sync };
                writer.keyed_status(&status, key);
                writer.traffic(service::RELIABLE_STREAM, None);
                writer.finish()
            }
            Segment::First { .. }
            | Segment::Diag { .. }
            | Segment::Join { .. }
            | Segment::Repair(_)
            | Segment::Report(..) => 0,
            // Silence would leave a caller of an earlier listener waiting for its time-outs.
            _ if header.returned
                && self.is_for_us(&header)
                && !header.has(option::END)
                && packet.len() >= DIAG =>
            {
                refusal(header.key, out)
            }
            _ => 0,
        }
    }

    fn is_for_us(&self, header: &Header) -> bool {
        header.ports().1 == self.port
    }
}

/// Writes that no association has this key.
fn refusal(key: Key, out: &mut [u8]) -> usize {
    let header = Header { key, returned: false, options: 0, sort: 0, sync: 0, seq: 0 };
    let mut writer = Writer::new(out, &header, format::DIAG);
    writer.u32(diag::INVALID_CONTEXT);
    writer.u32(diag::UNSPECIFIED);
    writer.finish()
}

impl Validator for XtpValidator {
    fn validate(&mut self, now: Instant, path: PathId, datagram: &[u8], out: &mut [u8]) -> Verdict {
        if self.open(now, path, datagram).is_some() {
            // The endpoint numbers paths otherwise, so it takes the validator's word.
            out[..datagram.len()].copy_from_slice(datagram);
            return Verdict::AcceptWith { len: datagram.len() };
        }
        if self.datagrams && super::datagram::begins(datagram, self.port) {
            return Verdict::Accept;
        }
        match self.answer(now, path, datagram, out) {
            0 => Verdict::Ignore,
            len => Verdict::Reply { len },
        }
    }

    fn release(&mut self) {
        // The caller repeats its proof, which stays valid for a while.
    }

    /// The caller's port, which each packet tells.
    fn flow_label(&self, datagram: &[u8]) -> u16 {
        wire::header(datagram).map_or(0, |(header, _)| header.ports().0)
    }

    /// The listener's key, known only to hosts that see the association's packets.
    fn id_of(&self, datagram: &[u8]) -> Option<ConnectionId> {
        let (header, format) = wire::header(datagram)?;
        let ours = header.returned && format != format::DIAG && self.is_for_us(&header);
        if ours { id(header.key) } else { None }
    }

    fn place_of(&self, _datagram: &[u8]) -> Option<StreamPlace> {
        None
    }
}

/// A key as the driver knows it.
pub(super) fn id(key: Key) -> Option<ConnectionId> {
    ConnectionId::new(&key.0.to_be_bytes())
}

fn slot_of(now: Instant) -> u32 {
    (now.as_nanos() / SLOT.as_nanos() as u64) as u32 & (SLOTS - 1)
}

/// Bits of the time slot in a key.
const SLOT_BITS: u32 = 5;
const SLOTS: u32 = 1 << SLOT_BITS;
/// Length of a slot. The slots go round in 128 s, twice as long as an offer is valid.
const SLOT: Duration = Duration::from_secs(4);
/// Slots after which an offer is no longer valid.
const MOST_SLOTS: u32 = (COOKIE_LIFE.as_secs() / SLOT.as_secs()) as u32;
