//! The door of a listener: answers INIT without keeping anything, and lets in who brings a good cookie back.

use std::net::IpAddr;

use antiphon_core::{Doorkeeper, Instant, Meeting, PathId, Rng, Seq32};

use super::cookie::{CookieJar, Opened, Recipe, Refused, SEALED};
use super::settings::{MAX_STREAMS, Settings, WINDOW};
use super::wire::init::{FIXED, Greeting, Offer, parameter};
use super::wire::writer::{Writer, push_tlv};
use super::wire::{self, Chunk, Chunks, HEADER, Header, REFLECTED, TLV, cause, chunk};
use crate::Role;

/// What this side writes into its INITs, and the random numbers in them.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// The SCTP port of this side.
    pub local_port: u16,
    pub out_streams: u16,
    /// Whether interleaving was asked for.
    pub interleaving: bool,
    /// Bytes of a packet at most.
    pub packet: usize,
    /// The addresses of this side as parameters.
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
        // A packet so small has no room for a list, and a greeting is worth more.
        if GREETING + addresses.len() > packet {
            addresses.clear();
        }
        let (out_streams, interleaving) = (settings.streams, settings.interleaving);
        Terms { local_port, out_streams, interleaving, packet, addresses }
    }

    /// The fixed part of an INIT or INIT ACK.
    pub fn greeting(&self, tag: u32, tsn: Seq32) -> Greeting {
        let (out_streams, in_streams) = (self.out_streams, MAX_STREAMS);
        Greeting { tag, window: WINDOW as u32, out_streams, in_streams, tsn }
    }

    /// Bytes of an INIT ACK with nothing to report.
    pub fn greeting_len(&self) -> usize {
        GREETING + self.addresses.len()
    }

    /// Appends the parameters that say what this side supports and where else it is. The last is a whole number of
    /// words: padding of a chunk's last parameter would not count into the chunk's length (RFC 9260 §3.2).
    pub fn put_offer(&self, interleaving: bool, out: &mut Vec<u8>) {
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(&self.addresses);
        let extensions = [chunk::FORWARD_TSN, chunk::I_DATA, chunk::I_FORWARD_TSN];
        let listed = if interleaving { 3 } else { 1 };
        push_tlv(out, parameter::EXTENSIONS, &[&extensions[..listed]]);
        push_tlv(out, parameter::FORWARD_TSN, &[]);
    }

    /// What an association with a peer that said this in its INIT is made of.
    fn recipe(&self, peer: &Greeting, offer: &Offer<'_>, own: (u32, Seq32), ties: [u32; 2]) -> Recipe {
        Recipe {
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

/// An INIT as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub path: PathId,
    /// Bytes of its packet.
    pub asked: usize,
    pub header: Header,
    pub init: Chunk<'a>,
}

/// What stands of an association when an INIT comes for it (RFC 9260 §5.2.1, §5.2.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// Own tag and first TSN, where the INIT ACK must repeat those of the INIT on its way.
    pub own: Option<(u32, Seq32)>,
    pub ties: [u32; 2],
}

/// A listener's door.
pub(super) struct Door {
    pub terms: Terms,
    jar: CookieJar,
    rng: Rng,
    /// Answers that may still be larger than their questions, and when that was counted.
    unpaid: f64,
    counted_at: Instant,
    value: Vec<u8>,
    answer: Vec<u8>,
}

impl Door {
    /// A door whose cookies every endpoint opened with `seed` can open.
    pub fn new(terms: Terms, seed: u64, role: Role, now: Instant) -> Self {
        // Both sides of a run may have the same seed.
        let label = if role == Role::Caller { "sctp caller" } else { "sctp listener" };
        Door::with(terms, CookieJar::new(seed), Rng::fork(seed, label), now)
    }

    fn with(terms: Terms, jar: CookieJar, rng: Rng, now: Instant) -> Self {
        Door {
            terms,
            jar,
            rng,
            unpaid: UNPAID_AT_ONCE,
            counted_at: now,
            value: Vec::new(),
            answer: Vec::new(),
        }
    }

    /// Another door to the same house, with draws of its own.
    pub fn sibling(&mut self, now: Instant) -> Self {
        let rng = Rng::new(self.rng.next_u64());
        Door::with(self.terms.clone(), self.jar.clone(), rng, now)
    }

    /// Has draws depend on what the peer brought: endpoints that share a seed must not draw the same numbers.
    pub fn stir(&mut self, recipe: &Recipe) {
        let mixed = u64::from(recipe.local_tag) << 32 | u64::from(recipe.peer_tag);
        self.rng = Rng::fork(mixed ^ self.rng.next_u64(), "sctp association");
    }

    /// A tag and a first TSN.
    pub fn draw(&mut self) -> (u32, Seq32) {
        // 0 says "none" on the wire.
        (self.rng.next_u32().max(1), Seq32(self.rng.next_u32()))
    }

    /// A number that nobody guesses.
    pub fn nonce(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Opens the cookie of a COOKIE ECHO.
    pub fn open(&self, now: Instant, header: Header, cookie: &[u8]) -> Result<Opened, Refused> {
        self.jar.open(now, header, cookie)
    }

    /// Meets a packet that belongs to no association; [`Meeting::Answered`] leaves the answer in [`Self::answer`].
    pub fn meet_packet(&mut self, now: Instant, path: PathId, packet: &[u8]) -> Meeting {
        let Some((header, chunks)) = wire::parse(packet) else { return Meeting::Ignored };
        let mut walk = chunks.clone();
        let Some(first) = walk.next() else { return Meeting::Ignored };
        if header.destination != self.terms.local_port {
            return Meeting::Ignored;
        }
        match first.kind {
            chunk::INIT if walk.rest().is_empty() && header.tag == 0 => {
                let call = Call { path, asked: packet.len(), header, init: first };
                self.greet(now, call, Standing::default())
            }
            chunk::COOKIE_ECHO => match self.open(now, header, first.value) {
                Ok(opened) if opened.path == path && header.tag == opened.recipe.local_tag => {
                    Meeting::Admitted
                }
                Ok(_) | Err(Refused::Forged) => Meeting::Ignored,
                Err(Refused::Stale { by, peer_tag }) => {
                    // The cause has 32 bits, 71 minutes: more is as stale.
                    let by = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
                    self.value.clear();
                    push_tlv(&mut self.value, cause::STALE_COOKIE, &[&by.to_be_bytes()]);
                    self.write(header.back(peer_tag), chunk::ERROR, 0)
                }
            },
            _ => self.answer_out_of_the_blue(header, chunks),
        }
    }

    /// The answer to the packet met last.
    pub fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Answers an INIT with an INIT ACK, or with an ABORT where it can't be meant.
    pub fn greet(&mut self, now: Instant, call: Call<'_>, standing: Standing) -> Meeting {
        let Call { path, asked, header, init } = call;
        let parsed = Greeting::parse(init.value).filter(|(peer, _)| peer.tag != 0);
        let Some((peer, parameters)) = parsed else { return Meeting::Ignored };
        if !self.may_answer(now, asked) {
            return Meeting::Ignored;
        }
        let bare = self.terms.greeting_len();
        let most = if asked >= bare { asked } else { MOST_UNPAID };
        // A question may come in fragments of IP; the answer is one packet.
        let (mut reports, mut left) = (Vec::new(), most.min(self.terms.packet) - bare);
        let offer = Offer::read(parameters, |whole| {
            let len = TLV + whole.len().next_multiple_of(4);
            if len <= left {
                left -= len;
                push_tlv(&mut reports, parameter::UNRECOGNISED, &[whole]);
            }
        });
        self.value.clear();
        if let Some(name) = offer.unresolvable.filter(|_| peer.is_valid()) {
            push_tlv(&mut self.value, cause::UNRESOLVABLE_ADDRESS, &[&name[..name.len().min(TLV)]]);
            return self.write(header.back(peer.tag), chunk::ABORT, 0);
        }
        if !peer.is_valid() {
            push_tlv(&mut self.value, cause::INVALID_PARAMETER, &[]);
            return self.write(header.back(peer.tag), chunk::ABORT, 0);
        }
        let own = standing.own.unwrap_or_else(|| self.draw());
        let answer = header.back(peer.tag);
        let recipe = self.terms.recipe(&peer, &offer, own, standing.ties);
        let cookie = self.jar.bake(now, path, answer, &recipe);
        self.value.extend_from_slice(&self.terms.greeting(own.0, own.1).emit());
        push_tlv(&mut self.value, parameter::STATE_COOKIE, &[&cookie]);
        self.value.extend_from_slice(&reports);
        // A peer that is not able to must not be told that we are.
        self.terms.put_offer(recipe.interleaving, &mut self.value);
        self.write(answer, chunk::INIT_ACK, 0)
    }

    /// RFC 9260 §8.4.
    fn answer_out_of_the_blue(&mut self, header: Header, chunks: Chunks<'_>) -> Meeting {
        let is_abort = |chunk: Chunk<'_>| chunk.kind == chunk::ABORT;
        let Some(first) = chunks.clone().next().filter(|_| !chunks.clone().any(is_abort)) else {
            return Meeting::Ignored;
        };
        let kind = match first.kind {
            chunk::SHUTDOWN_COMPLETE | chunk::ERROR | chunk::COOKIE_ACK => return Meeting::Ignored,
            chunk::INIT | chunk::INIT_ACK => return Meeting::Ignored,
            chunk::SHUTDOWN_ACK => chunk::SHUTDOWN_COMPLETE,
            _ => chunk::ABORT,
        };
        self.value.clear();
        self.write(header.back(header.tag), kind, REFLECTED)
    }

    /// Writes an answer of one chunk.
    fn write(&mut self, header: Header, kind: u8, flags: u8) -> Meeting {
        self.answer.resize(HEADER + TLV + self.value.len().next_multiple_of(4), 0);
        let mut writer = Writer::new(&mut self.answer, header);
        writer.chunk(kind, flags, &[&self.value]);
        Meeting::Answered { len: writer.finish() }
    }

    /// Whether a question of `len` bytes is answered. Ours are as long as their answers; those of other stacks are
    /// shorter, so these answers are counted out: a forged sender's address is not made to drown anybody.
    fn may_answer(&mut self, now: Instant, len: usize) -> bool {
        if len >= self.terms.greeting_len() {
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

impl Doorkeeper for Door {
    fn meet(&mut self, now: Instant, path: PathId, datagram: &[u8], answer: &mut [u8]) -> Meeting {
        let meeting = self.meet_packet(now, path, datagram);
        if let Meeting::Answered { len } = meeting {
            answer[..len].copy_from_slice(&self.answer);
        }
        meeting
    }

    /// Its port: a Linux kernel has all its associations behind one UDP port.
    fn party_of(&self, datagram: &[u8]) -> u16 {
        wire::header(datagram).map_or(0, |header| header.source)
    }

    /// By its verification tag, which nobody guesses who has not seen the peer's packets. Beginnings name none.
    fn association_of(&self, datagram: &[u8]) -> Option<u64> {
        let (header, mut chunks) = wire::parse(datagram)?;
        let begins = matches!(chunks.next()?.kind, chunk::INIT | chunk::COOKIE_ECHO);
        let ours = header.destination == self.terms.local_port && header.tag != 0 && !begins;
        ours.then_some(u64::from(header.tag))
    }
}

/// Bytes of an INIT ACK of ours that lists no addresses, and so what our INIT is padded to: headers and fixed part, the
/// cookie, partial reliability, and the list of up to four extensions.
pub(super) const GREETING: usize = HEADER + TLV + FIXED + TLV + SEALED + TLV + TLV + 4;
/// Bytes of an answer to a shorter question at most: room for what is reported of unknown parameters.
const MOST_UNPAID: usize = 512;
/// INITs shorter than their answers that are answered at once, and per second: more calls by other stacks than people
/// make, and at most 51 kB/s for whoever is attacked.
const UNPAID_AT_ONCE: f64 = 100.0;
const UNPAID_PER_SECOND: f64 = 100.0;
