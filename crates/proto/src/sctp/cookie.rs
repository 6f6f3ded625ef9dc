//! State cookies (RFC 9260 §5.1.3): a listener keeps no state for a caller until the caller has shown, by returning the
//! cookie, that it receives what is sent to its address. The state is in the cookie, with the time and the path for
//! which it was sealed, under a keyed hash over all of it and the ports.

use std::time::Duration;

use antiphon_core::{Instant, PathId, Secret, Seq32};

use super::wire::{Header, word32};
use crate::cookie::{COOKIE_LIFE, MARK, Seal};

/// State of an association: the essential fields of INIT and INIT ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tcb {
    pub local_tag: u32,
    pub peer_tag: u32,
    pub local_tsn: Seq32,
    pub peer_tsn: Seq32,
    /// The peer's receiver window in bytes.
    pub peer_window: u32,
    /// Streams in each direction, limited to what both sides support.
    pub out_streams: u16,
    pub in_streams: u16,
    /// Extensions that both sides support, as far as this side knew when it wrote its INIT ACK.
    pub forward_tsn: bool,
    pub interleaving: bool,
    /// Tags, ours and theirs, of the association that existed when the INIT arrived; 0 for none (RFC 9260 §5.2).
    pub ties: [u32; 2],
}

/// An opened cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened {
    pub tcb: Tcb,
    /// The path that the cookie was sent to.
    pub path: PathId,
}

/// Why a cookie is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// Not sealed by this side, or modified in transit.
    Forged,
    /// Valid, but too old by this much.
    Stale { by: Duration, peer_tag: u32 },
}

/// The seal of cookies. Endpoints of one server share the secret, so they open each other's.
pub(super) fn cookie_seal(secret: &Secret) -> Seal {
    Seal::new(secret, "sctp cookie")
}

impl Tcb {
    /// Seals a cookie at `now` for `path`; `answer` is the header of the packet that will carry it.
    pub fn seal(&self, seal: &Seal, now: Instant, path: PathId, answer: Header) -> [u8; SEALED] {
        let mut sealed = [0; SEALED];
        let words = [
            self.local_tag,
            self.peer_tag,
            self.local_tsn.0,
            self.peer_tsn.0,
            self.peer_window,
            u32::from(self.out_streams) << 16 | u32::from(self.in_streams),
            u32::from(self.forward_tsn) << 1 | u32::from(self.interleaving),
            self.ties[0],
            self.ties[1],
            millis(now),
            path.0,
        ];
        for (bytes, word) in sealed.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        let ports = ports([answer.source, answer.destination]);
        let mark = seal.mark(&[&sealed[..SIGNED], &ports]);
        sealed[SIGNED..].copy_from_slice(&mark);
        sealed
    }
}

impl Opened {
    /// Opens a cookie that was returned at `now` in a packet with `header`.
    pub fn open(seal: &Seal, now: Instant, header: Header, sealed: &[u8]) -> Result<Self, Refused> {
        let sealed: &[u8; SEALED] = sealed.try_into().map_err(|_| Refused::Forged)?;
        let ports = ports([header.destination, header.source]);
        if !seal.is_mark(&sealed[SIGNED..], &[&sealed[..SIGNED], &ports]) {
            return Err(Refused::Forged);
        }
        let word = |n: usize| word32(sealed, 4 * n);
        let tcb = Tcb {
            local_tag: word(0),
            peer_tag: word(1),
            local_tsn: Seq32(word(2)),
            peer_tsn: Seq32(word(3)),
            peer_window: word(4),
            out_streams: (word(5) >> 16) as u16,
            in_streams: word(5) as u16,
            forward_tsn: word(6) & 2 != 0,
            interleaving: word(6) & 1 != 0,
            ties: [word(7), word(8)],
        };
        let age = Duration::from_millis(u64::from(millis(now).wrapping_sub(word(9))));
        if age > COOKIE_LIFE {
            return Err(Refused::Stale { by: age - COOKIE_LIFE, peer_tag: tcb.peer_tag });
        }
        Ok(Opened { tcb, path: PathId(word(10)) })
    }
}

fn ports([ours, theirs]: [u16; 2]) -> [u8; 4] {
    (u32::from(ours) << 16 | u32::from(theirs)).to_be_bytes()
}

/// Milliseconds of the run, wrapping after 49 days; a cookie lives a minute.
fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Bytes of a cookie.
pub(super) const SEALED: usize = SIGNED + MARK;
/// Bytes that the hash covers: eleven words, and one that is zero.
const SIGNED: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Header = Header { source: 5004, destination: 50_000, tag: 9 };
    const HEADER: Header = Header { source: 50_000, destination: 5004, tag: 7 };
    const SEALED_AT: Instant = Instant::from_millis(u32::MAX as u64 - 10);
    const TCB: Tcb = Tcb {
        local_tag: 7,
        peer_tag: 9,
        local_tsn: Seq32(0xffff_ffff),
        peer_tsn: Seq32(1),
        peer_window: 100_000,
        out_streams: 256,
        in_streams: 65_535,
        forward_tsn: true,
        interleaving: false,
        ties: [3, 4],
    };

    fn keys(seed: u64) -> Seal {
        cookie_seal(&Secret::for_laboratory(seed))
    }

    fn sealed_cookie() -> [u8; SEALED] {
        TCB.seal(&keys(1), SEALED_AT, PathId(4), ANSWER)
    }

    #[test]
    fn a_cookie_opens_within_its_life_and_tells_all() {
        // The clock in the cookie wraps meanwhile.
        let later = SEALED_AT + COOKIE_LIFE;
        let opened = Opened::open(&keys(1), later, HEADER, &sealed_cookie());
        assert_eq!(opened, Ok(Opened { tcb: TCB, path: PathId(4) }));
        let other = Tcb { forward_tsn: false, interleaving: true, ..TCB };
        let sealed = other.seal(&keys(1), SEALED_AT, PathId(4), ANSWER);
        assert_eq!(Opened::open(&keys(1), SEALED_AT, HEADER, &sealed).map(|opened| opened.tcb), Ok(other));
        let by = Duration::from_millis(1);
        let stale = Opened::open(&keys(1), later + by, HEADER, &sealed_cookie());
        assert_eq!(stale, Err(Refused::Stale { by, peer_tag: 9 }));
    }

    #[test]
    fn no_byte_no_port_and_no_key_may_differ() {
        let refused = |seed: u64, header: Header, sealed: &[u8], what: &str| {
            let opened = Opened::open(&keys(seed), SEALED_AT, header, sealed);
            assert_eq!(opened, Err(Refused::Forged), "{what}");
        };
        for at in 0..SEALED {
            let mut changed = sealed_cookie();
            changed[at] ^= 1;
            refused(1, HEADER, &changed, &format!("byte {at}"));
        }
        for header in [Header { source: 50_001, ..HEADER }, Header { destination: 5005, ..HEADER }] {
            refused(1, header, &sealed_cookie(), "port");
        }
        refused(2, HEADER, &sealed_cookie(), "key");
        refused(1, HEADER, &sealed_cookie()[1..], "length");
    }
}
