//! Init Cookies (RFC 4340 §8.1.4): a listener keeps no state for a caller until the caller has shown, by returning the
//! cookie, that it receives what is sent to its address.
//!
//! ```text
//! | sealed, ns: 8 | path: 4 | ISR: 6 | ISS: 6 | flags: 1 | Changes of the Request: 0..=128 | mark: 16 |
//! ```
//!
//! The mark covers everything before it, both DCCP ports and the service code. The result of feature negotiation is not
//! in the cookie but is computed again: the Request's Changes are applied to the same preferences.

use std::time::Duration;

use antiphon_core::{Instant, PathId, Secret};

use super::seq::Seq48;
use super::wire::options::{CHANGE_L, CONFIRM_R};
use super::wire::{Header, Packet, big_endian};
use crate::cookie::{COOKIE_LIFE, MARK, Seal};

/// Seals and opens cookies; those of one secret and service open each other's.
#[derive(Clone, Debug)]
pub(super) struct CookieKeys {
    seal: Seal,
    service: u32,
}

/// State of a connection, besides the server's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tcb {
    /// Number of the Request.
    pub isr: Seq48,
    /// Number of the Response to it.
    pub iss: Seq48,
    /// Whether the Response had room for everything, including this end's own Changes.
    pub told_all: bool,
    pub asked: Asked,
}

/// The options of feature negotiation in a Request, as they stand there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    bytes: [u8; MOST_ASKED],
    len: u8,
}

/// An opened cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened {
    pub tcb: Tcb,
    /// The path that the cookie was sent to.
    pub path: PathId,
    /// Age.
    pub age: Duration,
}

impl CookieKeys {
    pub fn new(secret: &Secret, service: u32) -> Self {
        CookieKeys { seal: Seal::new(secret, "dccp cookie"), service }
    }

    /// Seals a cookie at `now` for `path` into `out`; `ports`: ours and the caller's.
    pub fn seal(&self, now: Instant, path: PathId, ports: (u16, u16), tcb: &Tcb, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&now.as_nanos().to_be_bytes());
        out.extend_from_slice(&path.0.to_be_bytes());
        out.extend_from_slice(&tcb.isr.value().to_be_bytes()[2..]);
        out.extend_from_slice(&tcb.iss.value().to_be_bytes()[2..]);
        out.push(u8::from(tcb.told_all));
        out.extend_from_slice(tcb.asked.bytes());
        let mark = self.seal.mark(&[out, &self.context(ports)]);
        out.extend_from_slice(&mark);
    }

    /// Opens a cookie that came back at `now` in a packet with `header`. `None`: it is not ours, was changed in
    /// transit, belongs to other ports, or is too old.
    pub fn open(&self, now: Instant, header: &Header, sealed: &[u8]) -> Option<Opened> {
        let (signed, mark) = sealed.split_at_checked(sealed.len().checked_sub(MARK)?)?;
        let ports = (header.destination, header.source);
        if !self.seal.is_mark(mark, &[signed, &self.context(ports)]) {
            return None;
        }
        let (fixed, asked) = signed.split_first_chunk::<FIXED>()?;
        let number = |from: usize, to: usize| big_endian(&fixed[from..to]);
        let age = now.since(Instant::from_nanos(number(0, 8)));
        let tcb = Tcb {
            isr: Seq48::new(number(12, 18)),
            iss: Seq48::new(number(18, 24)),
            told_all: fixed[24] == 1,
            asked: Asked::default().with(asked)?,
        };
        (age <= COOKIE_LIFE).then_some(Opened { tcb, path: PathId(number(8, 12) as u32), age })
    }

    /// First number of an answer to a caller on `path` whose number is 0: others cannot predict it, and answers to the
    /// same caller's next Requests have the numbers that follow (RFC 4340 §7.2: as in RFC 6528).
    pub fn base(&self, path: PathId, ports: (u16, u16)) -> Seq48 {
        let mark = self.seal.mark(&[b"first number", &path.0.to_be_bytes(), &self.context(ports)]);
        Seq48::new(big_endian(&mark[..6]))
    }

    fn context(&self, (ours, theirs): (u16, u16)) -> [u8; 8] {
        (u64::from(ours) << 48 | u64::from(theirs) << 32 | u64::from(self.service)).to_be_bytes()
    }
}

impl Tcb {
    /// The distance from the Request's number of a packet that may complete the handshake: it follows the Request
    /// within the caller's window (RFC 4340 §7.5.1), and acknowledges an answer to one of at most so many Requests.
    pub fn completed_by(&self, header: &Header, window: u64) -> Option<u64> {
        let ahead = u64::try_from(header.seq.distance(self.isr)).ok().filter(|ahead| *ahead > 0)?;
        let answer = u64::try_from(header.kind.ack()?.distance(self.iss)).ok()?;
        (ahead <= (3 * window).div_ceil(4) && answer < ahead).then_some(ahead)
    }
}

impl Default for Asked {
    fn default() -> Self {
        Asked { bytes: [0; MOST_ASKED], len: 0 }
    }
}

impl Asked {
    /// The Changes in `request`; `Err`: the option that exceeds the limit.
    pub fn of(request: &Packet<'_>) -> Result<Self, u8> {
        let asks = |number| (CHANGE_L..=CONFIRM_R).contains(&number);
        let mut options = request.options().filter(|option| asks(option.number));
        options.try_fold(Asked::default(), |asked, option| {
            let head = [option.number, 2 + option.value.len() as u8];
            asked.with(&head).and_then(|asked| asked.with(option.value)).ok_or(option.number)
        })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn with(mut self, more: &[u8]) -> Option<Self> {
        let from = usize::from(self.len);
        self.bytes.get_mut(from..from + more.len())?.copy_from_slice(more);
        self.len += more.len() as u8;
        Some(self)
    }
}

/// Bytes of a cookie before the Changes.
const FIXED: usize = 8 + 4 + 6 + 6 + 1;
/// Bytes of a cookie without the Changes.
pub(super) const COOKIE_ALONE: usize = FIXED + MARK;
/// The most bytes of options in a Request: our own need 24 at most, Linux's some 30; an option holds 253.
const MOST_ASKED: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dccp::wire::Kind;

    const HEADER: Header = Header::new((50_000, 5004), Kind::Data, Seq48::new(8));
    const PORTS: (u16, u16) = (5004, 50_000);
    const SEALED_AT: Instant = Instant::from_millis(5);

    fn keys(seed: u64, service: u32) -> CookieKeys {
        CookieKeys::new(&Secret::for_laboratory(seed), service)
    }

    fn tcb() -> Tcb {
        let asked = Asked::default().with(&[32, 5, 1, 3, 2]).unwrap();
        Tcb { isr: Seq48::new((1 << 48) - 1), iss: Seq48::new(77 << 40), told_all: true, asked }
    }

    fn sealed_cookie() -> Vec<u8> {
        let mut cookie = vec![9; 3];
        keys(1, 2).seal(SEALED_AT, PathId(4), PORTS, &tcb(), &mut cookie);
        cookie
    }

    #[test]
    fn a_cookie_opens_within_its_life_and_tells_all() {
        let keys = keys(1, 2);
        let later = SEALED_AT + COOKIE_LIFE;
        let opened = Opened { tcb: tcb(), path: PathId(4), age: COOKIE_LIFE };
        assert_eq!(keys.open(later, &HEADER, &sealed_cookie()), Some(opened));
        assert_eq!(keys.open(later + Duration::from_nanos(1), &HEADER, &sealed_cookie()), None);
        assert_eq!(sealed_cookie().len(), COOKIE_ALONE + 5);
    }

    #[test]
    fn no_byte_no_port_no_service_and_no_key_may_differ() {
        let opened = |header: &Header, sealed: &[u8]| keys(1, 2).open(SEALED_AT, header, sealed);
        for at in 0..sealed_cookie().len() {
            let mut changed = sealed_cookie();
            changed[at] ^= 1;
            assert_eq!(opened(&HEADER, &changed), None, "byte {at}");
            assert_eq!(opened(&HEADER, &sealed_cookie()[..at]), None, "{at} bytes");
        }
        for header in [Header { source: 50_001, ..HEADER }, Header { destination: 5005, ..HEADER }] {
            assert_eq!(opened(&header, &sealed_cookie()), None);
        }
        for other in [keys(2, 2), keys(1, 3)] {
            assert_eq!(other.open(SEALED_AT, &HEADER, &sealed_cookie()), None);
        }
    }

    #[test]
    fn the_first_number_differs_for_each_path_and_key() {
        let first = keys(1, 2).base(PathId(4), PORTS);
        assert_eq!(first, keys(1, 2).base(PathId(4), PORTS));
        for (seed, path, ports) in
            [(2, 4, PORTS), (1, 5, PORTS), (1, 4, (5004, 50_001)), (1, 4, (5005, 50_000))]
        {
            let other = keys(seed, 2).base(PathId(path), ports);
            // Near is a window: by chance less than once in 10^11.
            assert!(first.distance(other).abs() > 1024, "{seed} {path} {ports:?}");
        }
    }

    #[test]
    fn a_handshake_needs_a_later_number_and_an_acknowledgement() {
        let tcb = tcb();
        let by = |ahead: i64, answer: i64| {
            let kind = Kind::Ack { ack: tcb.iss.plus(answer) };
            tcb.completed_by(&Header { kind, seq: tcb.isr.plus(ahead), ..HEADER }, 100)
        };
        // The Request repeated twice, and the answer to any of the three.
        assert_eq!([by(1, 0), by(3, 0), by(3, 2), by(75, 0)], [Some(1), Some(3), Some(3), Some(75)]);
        assert_eq!([by(0, 0), by(-1, 0), by(1, 1), by(1, -1), by(76, 0)], [None; 5]);
        assert_eq!(tcb.completed_by(&HEADER, 100), None, "names none");
    }

    #[test]
    fn more_wishes_than_there_is_room_for_are_too_much() {
        let ask = |count: u8| {
            let mut raw: Vec<u8> = (0..count).flat_map(|_| [34, 8, 1, 3, 3, 3, 3, 2]).collect();
            raw.extend([41, 6, 0, 0, 0, 1, 0, 0]);
            Asked::of(&Packet { header: HEADER, raw_options: &raw, data: &[] })
                .map(|asked| asked.bytes().len())
        };
        assert_eq!([ask(0), ask(1), ask(16), ask(17)], [Ok(0), Ok(8), Ok(128), Err(34)]);
    }
}
