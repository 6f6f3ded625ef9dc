//! The door of a listener: answers INIT without keeping anything, and lets in who brings a good cookie back.

use antiphon_core::{Doorkeeper, Instant, Meeting, PathId, Rng};
use dcsctp::api::{DcSctpSocket, Options, SocketEvent};

use super::cookie::{CookieJar, Opened, Refused};
use super::wire::{self, First, GREETING, chunk};
use crate::Role;

/// Makes the library's sockets and stands at the edge of each: whatever is drawn, sealed or opened passes here.
pub(super) struct Gate {
    options: Options,
    jar: CookieJar,
    rng: Rng,
}

impl Gate {
    /// A gate for sockets with these options, all drawn from `seed`; both sides of a run may have the same one.
    pub fn new(options: Options, seed: u64, role: Role) -> Self {
        let label = if role == Role::Caller { "sctp caller" } else { "sctp listener" };
        Gate { options, jar: CookieJar::new(seed), rng: Rng::fork(seed, label) }
    }

    /// Another one that opens the same cookies, with draws of its own.
    fn sibling(&mut self) -> Self {
        let rng = Rng::new(self.rng.next_u64());
        Gate { options: self.options.clone(), jar: self.jar.clone(), rng }
    }

    /// Has draws depend on what the peer brought: endpoints that share a seed must not draw the same tags.
    pub fn stir(&mut self, with: &[u8]) {
        let mixed = with.chunks(8).fold(self.rng.next_u64(), |mixed, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mixed.rotate_left(5) ^ u64::from_le_bytes(word)
        });
        self.rng = Rng::fork(mixed, "sctp association");
    }

    /// The SCTP port of this side.
    pub fn local_port(&self) -> u16 {
        self.options.local_port
    }

    /// A socket of the library's towards a port of the peer's.
    pub fn socket(&self, remote_port: u16) -> Box<dyn DcSctpSocket> {
        dcsctp::new_socket("", &Options { remote_port, ..self.options.clone() })
    }

    /// Runs `call`, in which the library may draw tags and numbers: it takes them from a generator of the thread's,
    /// which is lent a seed of ours, so that runs repeat and threads may hold many endpoints.
    pub fn draw<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let of_the_thread = fastrand::get_seed();
        fastrand::seed(self.rng.next_u64());
        let result = call();
        fastrand::seed(of_the_thread);
        result
    }

    /// Seals the cookie of an INIT ACK and pads an INIT; other packets stay as they are.
    ///
    /// `false` when the packet may not go out.
    pub fn finish(&self, now: Instant, path: PathId, packet: &mut Vec<u8>) -> bool {
        match wire::first_kind(packet) {
            Some(chunk::INIT) => {
                wire::pad_init(packet, GREETING);
                true
            }
            Some(chunk::INIT_ACK) => {
                let Some(header) = wire::header(packet) else { return false };
                let ports = [header.source, header.destination];
                wire::replace_cookie_of_init_ack(packet, |inner| self.jar.seal(now, path, ports, inner))
            }
            _ => true,
        }
    }

    /// Opens the cookie of a COOKIE ECHO.
    pub fn open<'a>(&self, now: Instant, echo: &First<'a>) -> Result<Opened<'a>, Refused> {
        self.jar.open(now, echo.header, echo.value)
    }
}

/// A listener's door.
pub(super) struct Door {
    pub gate: Gate,
    /// Answers that may still be larger than their questions, and when that was counted.
    unpaid: f64,
    counted_at: Instant,
    scratch: Vec<u8>,
}

impl Door {
    pub fn new(gate: Gate, now: Instant) -> Self {
        Door { gate, unpaid: UNPAID_AT_ONCE, counted_at: now, scratch: Vec::with_capacity(GREETING) }
    }

    /// Another door to the same house.
    pub fn sibling(&mut self, now: Instant) -> Self {
        Door::new(self.gate.sibling(), now)
    }

    /// Meets a packet that belongs to no association; [`Meeting::Answered`] leaves the answer in [`Self::answer`].
    pub fn meet_packet(&mut self, now: Instant, path: PathId, packet: &[u8]) -> Meeting {
        let Some(first) = wire::first_chunk(packet) else { return Meeting::Ignored };
        if first.header.destination != self.gate.local_port() {
            return Meeting::Ignored;
        }
        match first.kind {
            chunk::INIT if first.rest.is_empty() && first.header.tag == 0 => {
                self.greet(now, path, packet, &first)
            }
            chunk::COOKIE_ECHO => match self.gate.open(now, &first) {
                Ok(opened) if opened.path == path => Meeting::Admitted,
                Ok(_) | Err(Refused::Forged) => Meeting::Ignored,
                Err(Refused::Stale { by, peer_tag }) => {
                    let by = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
                    wire::stale_cookie_error(&first, peer_tag, by, &mut self.scratch);
                    Meeting::Answered { len: self.scratch.len() }
                }
            },
            _ if wire::answer_out_of_the_blue(&first, &mut self.scratch) => {
                Meeting::Answered { len: self.scratch.len() }
            }
            _ => Meeting::Ignored,
        }
    }

    /// The answer to the packet met last.
    pub fn answer(&self) -> &[u8] {
        &self.scratch
    }

    /// Answers an INIT with an INIT ACK, by a socket of the library's that is forgotten at once.
    fn greet(&mut self, now: Instant, path: PathId, packet: &[u8], first: &First<'_>) -> Meeting {
        if !may_answer(&mut self.unpaid, &mut self.counted_at, now, packet.len()) {
            return Meeting::Ignored;
        }
        let mut socket = self.gate.socket(first.header.source);
        self.gate.draw(|| socket.handle_input(packet));
        while let Some(event) = socket.poll_event() {
            if let SocketEvent::SendPacket(mut answer) = event
                && self.gate.finish(now, path, &mut answer)
            {
                self.scratch = answer;
                return Meeting::Answered { len: self.scratch.len() };
            }
        }
        Meeting::Ignored
    }
}

/// Whether a question of `len` bytes is answered. Ours are as long as their answers; those of other stacks are shorter,
/// so these answers are counted out: a forged sender's address is not made to drown anybody.
fn may_answer(unpaid: &mut f64, counted_at: &mut Instant, now: Instant, len: usize) -> bool {
    if len >= GREETING {
        return true;
    }
    let earned = now.since(*counted_at).as_secs_f64() * UNPAID_PER_SECOND;
    *unpaid = (*unpaid + earned).min(UNPAID_AT_ONCE);
    *counted_at = now;
    let may = *unpaid >= 1.0;
    *unpaid -= f64::from(u8::from(may));
    may
}

impl Doorkeeper for Door {
    fn meet(&mut self, now: Instant, path: PathId, datagram: &[u8], answer: &mut [u8]) -> Meeting {
        let meeting = self.meet_packet(now, path, datagram);
        if let Meeting::Answered { len } = meeting {
            answer[..len].copy_from_slice(&self.scratch);
        }
        meeting
    }
}

/// INITs shorter than their answers that are answered at once, and per second: more calls by other stacks than people
/// make, and with answers of 116 bytes less than 12 kB/s for whoever is attacked.
const UNPAID_AT_ONCE: f64 = 100.0;
const UNPAID_PER_SECOND: f64 = 100.0;
