//! Validates callers: answers INIT without keeping state, and accepts a caller that returns a valid cookie (RFC 9260 §5.1).

use std::net::IpAddr;

use antiphon_core::{
    ConnectionId, Draws, Instant, PathId, Rng, Role, Secret, Seq32, StreamPlace, Validator, Verdict,
};

use super::cookie::{Opened, Refused, SEALED, Tcb, cookie_seal};
use super::settings::{MAX_STREAMS, Settings, WINDOW};
use super::wire::init::{FIXED, InitFields, Offer, parameter};
use super::wire::writer::{Writer, push_tlv};
use super::wire::{self, Chunk, Chunks, HEADER, Header, REFLECTED, TLV, cause, chunk};
use crate::cookie::Seal;

/// Contents of this side's INITs, and the source of their random numbers.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// The SCTP port of this side.
    pub local_port: u16,
    pub out_streams: u16,
    /// Whether the settings request interleaving.
    pub interleaving: bool,
    /// Largest packet in bytes.
    pub packet: usize,
    /// This side's addresses as parameters.
    addresses: Vec<u8>,
}

impl Terms {
    pub fn new(settings: &Settings, local_port: u16, packet: usize) -> Self {
        let mut addresses = Vec::new();
        for address in settings.addresses.into_iter().flatten() {
            match address {
                IpAddr::V4(v4) => push_tlv(&mut addresses, parameter::IPV4, &[&v4.octets()]),
                IpAddr::V6(v6) => push_tlv(&mut addresses, parameter::IPV6, &[&v6.octets()]),
            }
        }
        // In small packets there is no room for the list, and INIT must fit.
        if INIT_ACK_LEN + addresses.len() > packet {
            addresses.clear();
        }
        let (out_streams, interleaving) = (settings.streams, settings.interleaving);
        Terms { local_port, out_streams, interleaving, packet, addresses }
    }

    /// The fixed part of an INIT or INIT ACK.
    pub fn init_fields(&self, tag: u32, tsn: Seq32) -> InitFields {
        let (out_streams, in_streams) = (self.out_streams, MAX_STREAMS);
        InitFields { tag, window: WINDOW as u32, out_streams, in_streams, tsn }
    }

    /// Bytes of an INIT ACK without reported parameters.
    pub fn init_ack_len(&self) -> usize {
        INIT_ACK_LEN + self.addresses.len()
    }

    /// Appends the parameters with this side's extensions and addresses. The last one's length is a multiple of 4: a
    /// chunk's length would not count its padding (RFC 9260 §3.2).
    pub fn put_offer(&self, interleaving: bool, out: &mut Vec<u8>) {
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(&self.addresses);
        let extensions = [chunk::FORWARD_TSN, chunk::I_DATA, chunk::I_FORWARD_TSN];
        let listed = if interleaving { 3 } else { 1 };
        push_tlv(out, parameter::EXTENSIONS, &[&extensions[..listed]]);
        push_tlv(out, parameter::FORWARD_TSN, &[]);
    }

    /// State for an association with the sender of this INIT.
    pub fn tcb(&self, peer: &InitFields, offer: &Offer<'_>, own: (u32, Seq32), ties: [u32; 2]) -> Tcb {
        Tcb {
            local_tag: own.0,
            peer_tag: peer.tag,
            local_tsn: own.1,
            peer_tsn: peer.tsn,
            peer_window: peer.window,
            out_streams: self.out_streams.min(peer.in_streams),
            in_streams: peer.out_streams.min(MAX_STREAMS),
            forward_tsn: offer.forward_tsn,
            interleaving: self.interleaving && offer.interleaving,
            ties,
        }
    }
}

/// A received INIT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub path: PathId,
    /// Bytes of its packet.
    pub asked: usize,
    pub header: Header,
    pub init: Chunk<'a>,
}

/// State of an existing association when an INIT arrives (RFC 9260 §5.2.1, §5.2.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// Own tag and first TSN, where the INIT ACK must repeat those of our own INIT.
    pub own: Option<(u32, Seq32)>,
    pub ties: [u32; 2],
}

/// Answers INITs and packets without an association, and opens cookies: the validator of a listening wire, and part of
/// each endpoint.
pub(super) struct SctpValidator {
    pub terms: Terms,
    /// Seals cookies, and opens those of all that have the same secret.
    pub keys: Seal,
    draws: Draws,
    /// How many more answers may be longer than their INITs, and when that was computed.
    unpaid: f64,
    counted_at: Instant,
    value: Vec<u8>,
    answer: Vec<u8>,
}

impl SctpValidator {
    /// For an endpoint. It opens cookies of all that have the `shared` secret, and draws from its own.
    pub fn new(terms: Terms, (shared, seed): (Secret, u64), role: Role, now: Instant) -> Self {
        // The two sides may have the same seed.
        let label = if role == Role::Caller { "sctp caller" } else { "sctp listener" };
        SctpValidator::with(terms, cookie_seal(&shared), Rng::fork(seed, label).into(), now)
    }

    /// For a listening wire, before there are endpoints.
    pub fn validating(terms: Terms, shared: Secret, now: Instant) -> Self {
        SctpValidator::with(terms, cookie_seal(&shared), shared.draws("sctp validator"), now)
    }

    fn with(terms: Terms, keys: Seal, draws: Draws, now: Instant) -> Self {
        SctpValidator {
            terms,
            keys,
            draws,
            unpaid: UNPAID_AT_ONCE,
            counted_at: now,
            value: Vec::new(),
            answer: Vec::new(),
        }
    }

    /// Mixes the peer's values into the random numbers: endpoints that share a seed must not draw the same ones.
    pub fn stir(&mut self, tcb: &Tcb) {
        let mixed = u64::from(tcb.local_tag) << 32 | u64::from(tcb.peer_tag);
        self.draws = Rng::fork(mixed ^ self.draws.next_u64(), "sctp association").into();
    }

    /// Draws a tag and a first TSN.
    pub fn draw(&mut self) -> (u32, Seq32) {
        // 0 means "none" on the wire.
        (self.draws.next_u32().max(1), Seq32(self.draws.next_u32()))
    }

    /// Draws a number that cannot be predicted.
    pub fn nonce(&mut self) -> u64 {
        self.draws.next_u64()
    }

    /// Handles a packet that belongs to no association; [`Verdict::Reply`] leaves the answer in [`Self::answer`].
    pub fn validate_packet(&mut self, now: Instant, path: PathId, packet: &[u8]) -> Verdict {
        let Some((header, chunks)) = wire::parse(packet) else { return Verdict::Ignore };
        let mut walk = chunks.clone();
        let Some(first) = walk.next() else { return Verdict::Ignore };
        if header.destination != self.terms.local_port {
            return Verdict::Ignore;
        }
        match first.kind {
            chunk::INIT if walk.rest().is_empty() && header.tag == 0 => {
                let call = Call { path, asked: packet.len(), header, init: first };
                self.on_init(now, call, Standing::default())
            }
            chunk::COOKIE_ECHO => match Opened::open(&self.keys, now, header, first.value) {
                Ok(opened) if opened.path == path && header.tag == opened.tcb.local_tag => Verdict::Accept,
                Ok(_) | Err(Refused::Forged) => Verdict::Ignore,
                Err(Refused::Stale { by, peer_tag }) => {
                    // The cause has 32 bits, 71 minutes: any larger age is reported as the maximum.
                    let by = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
                    self.value.clear();
                    push_tlv(&mut self.value, cause::STALE_COOKIE, &[&by.to_be_bytes()]);
                    self.write(header.back(peer_tag), chunk::ERROR, 0)
                }
            },
            _ => self.answer_out_of_the_blue(header, chunks),
        }
    }

    /// The answer to the last packet.
    pub fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Answers an INIT with an INIT ACK, or with an ABORT if it is invalid.
    pub fn on_init(&mut self, now: Instant, call: Call<'_>, standing: Standing) -> Verdict {
        let Call { path, asked, header, init } = call;
        let parsed = InitFields::parse(init.value).filter(|(peer, _)| peer.tag != 0);
        let Some((peer, parameters)) = parsed else { return Verdict::Ignore };
        if !self.may_answer(now, asked) {
            return Verdict::Ignore;
        }
        let bare = self.terms.init_ack_len();
        let most = if asked >= bare { asked } else { MOST_UNPAID };
        // An INIT may arrive in IP fragments; the answer is one packet.
        let (mut reports, mut left) = (Vec::new(), most.min(self.terms.packet) - bare);
        let offer = Offer::read(parameters, |whole| {
            let len = TLV + whole.len().next_multiple_of(4);
            if len <= left {
                left -= len;
                push_tlv(&mut reports, parameter::UNRECOGNISED, &[whole]);
            }
        });
        self.value.clear();
        let answer = header.back(peer.tag);
        match offer.unresolvable {
            _ if !peer.is_valid() => push_tlv(&mut self.value, cause::INVALID_PARAMETER, &[]),
            Some(name) => {
                push_tlv(&mut self.value, cause::UNRESOLVABLE_ADDRESS, &[&name[..name.len().min(TLV)]]);
            }
            None => {}
        }
        if !self.value.is_empty() {
            return self.write(answer, chunk::ABORT, 0);
        }
        let own = standing.own.unwrap_or_else(|| self.draw());
        let tcb = self.terms.tcb(&peer, &offer, own, standing.ties);
        let cookie = tcb.seal(&self.keys, now, path, answer);
        self.value.extend_from_slice(&self.terms.init_fields(own.0, own.1).emit());
        push_tlv(&mut self.value, parameter::STATE_COOKIE, &[&cookie]);
        self.value.extend_from_slice(&reports);
        // Offers interleaving only to a peer that supports it.
        self.terms.put_offer(tcb.interleaving, &mut self.value);
        self.write(answer, chunk::INIT_ACK, 0)
    }

    /// RFC 9260 §8.4.
    fn answer_out_of_the_blue(&mut self, header: Header, chunks: Chunks<'_>) -> Verdict {
        let is_abort = |chunk: Chunk<'_>| chunk.kind == chunk::ABORT;
        let Some(first) = chunks.clone().next().filter(|_| !chunks.clone().any(is_abort)) else {
            return Verdict::Ignore;
        };
        let kind = match first.kind {
            chunk::SHUTDOWN_COMPLETE | chunk::ERROR | chunk::COOKIE_ACK => return Verdict::Ignore,
            chunk::INIT | chunk::INIT_ACK => return Verdict::Ignore,
            chunk::SHUTDOWN_ACK => chunk::SHUTDOWN_COMPLETE,
            _ => chunk::ABORT,
        };
        self.value.clear();
        self.write(header.back(header.tag), kind, REFLECTED)
    }

    /// Writes an answer of one chunk.
    fn write(&mut self, header: Header, kind: u8, flags: u8) -> Verdict {
        self.answer.resize(HEADER + TLV + self.value.len().next_multiple_of(4), 0);
        Verdict::Reply { len: Writer::only(&mut self.answer, header, kind, flags, &[&self.value]) }
    }

    /// Whether to answer an INIT of `len` bytes. Our INITs are as long as their answers. Those of other stacks are
    /// shorter, so answers to them are limited in number: forged INITs must not flood third parties through this side.
    fn may_answer(&mut self, now: Instant, len: usize) -> bool {
        if len >= self.terms.init_ack_len() {
            return true;
        }
        let earned = now.since(self.counted_at).as_secs_f64() * UNPAID_PER_SECOND;
        self.unpaid = (self.unpaid + earned).min(UNPAID_AT_ONCE);
        self.counted_at = now;
        let may = self.unpaid >= 1.0;
        self.unpaid -= f64::from(u8::from(may));
        may
    }
}

impl Validator for SctpValidator {
    fn validate(&mut self, now: Instant, path: PathId, datagram: &[u8], answer: &mut [u8]) -> Verdict {
        let meeting = self.validate_packet(now, path, datagram);
        if let Verdict::Reply { len } = meeting {
            answer[..len].copy_from_slice(&self.answer);
        }
        meeting
    }

    fn release(&mut self) {
        // A repeated cookie is valid as well: the association handles it (RFC 9260 §5.2.4).
    }

    /// The SCTP port: a Linux kernel has all its associations behind one UDP port.
    fn flow_label(&self, datagram: &[u8]) -> u16 {
        wire::header(datagram).map_or(0, |header| header.source)
    }

    /// The verification tag, known only to hosts that see the peer's packets. INIT and COOKIE ECHO have none.
    fn place_of(&self, _datagram: &[u8]) -> Option<StreamPlace> {
        None
    }

    fn id_of(&self, datagram: &[u8]) -> Option<ConnectionId> {
        let (header, mut chunks) = wire::parse(datagram)?;
        let begins = matches!(chunks.next()?.kind, chunk::INIT | chunk::COOKIE_ECHO);
        let ours = header.destination == self.terms.local_port && header.tag != 0 && !begins;
        ours.then_some(ConnectionId::from(header.tag))
    }
}

/// Bytes of our INIT ACK without addresses, to which our INIT is padded: headers and fixed part, the cookie, partial
/// reliability, and the list of up to four extensions.
pub(super) const INIT_ACK_LEN: usize = HEADER + TLV + FIXED + TLV + SEALED + TLV + TLV + 4;
/// Most bytes of an answer to a shorter INIT: with room for reports of unknown parameters.
const MOST_UNPAID: usize = 512;
/// INITs shorter than their answers that are answered at once, and per second: more than other stacks call in practice,
/// and at most 51 kB/s towards an attacked address.
const UNPAID_AT_ONCE: f64 = 100.0;
const UNPAID_PER_SECOND: f64 = 100.0;
