//! The seal on state cookies (RFC 9260 §5.1.3): a listener keeps nothing of a caller until the caller has shown, by
//! returning the cookie, that it receives what is sent to its address.
//!
//! The library's cookies are plain, since in a browser DTLS lies beneath. Ours carry behind the library's bytes when
//! and for which path they were baked, and a keyed hash over all of it and the ports.

use std::hash::Hasher;
use std::time::Duration;

use antiphon_core::{Instant, PathId, Rng};
use siphasher::sip::SipHasher24;

use super::wire::{Header, SEALED};

/// Bakes and opens cookies; clones share the key.
#[derive(Clone, Debug)]
pub(super) struct CookieJar {
    key: [u8; 16],
}

/// An opened cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened<'a> {
    /// What the library baked.
    pub inner: &'a [u8],
    /// The path that the cookie was sent to.
    pub path: PathId,
}

/// Why a cookie is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// Not ours, or changed on its way.
    Forged,
    /// It was ours, and is too old by so much.
    Stale { by: Duration, peer_tag: u32 },
}

impl CookieJar {
    /// A jar whose key comes from `seed`: endpoints of one server are opened with one seed, and open each other's.
    pub fn new(seed: u64) -> Self {
        let mut key = [0; 16];
        Rng::fork(seed, "sctp cookie").fill(&mut key);
        CookieJar { key }
    }

    /// Seals a cookie of the library's, baked at `now` for `path`, and sent with `header`.
    ///
    /// `None` when it is not of the size that the library is known to bake.
    pub fn seal(&self, now: Instant, path: PathId, ports: [u16; 2], inner: &[u8]) -> Option<[u8; SEALED]> {
        let mut sealed = [0; SEALED];
        sealed[..INNER].copy_from_slice(<&[u8; INNER]>::try_from(inner).ok()?);
        sealed[INNER..INNER + 4].copy_from_slice(&millis(now).to_be_bytes());
        sealed[INNER + 4..INNER + 8].copy_from_slice(&path.0.to_be_bytes());
        let hash = self.hash(&sealed[..SIGNED], ports);
        sealed[SIGNED..].copy_from_slice(&hash.to_be_bytes());
        Some(sealed)
    }

    /// Opens a cookie that came back at `now` in a packet with `header`.
    pub fn open<'a>(&self, now: Instant, header: Header, sealed: &'a [u8]) -> Result<Opened<'a>, Refused> {
        let sealed: &[u8; SEALED] = sealed.try_into().map_err(|_| Refused::Forged)?;
        let word =
            |at: usize| u32::from_be_bytes([sealed[at], sealed[at + 1], sealed[at + 2], sealed[at + 3]]);
        let ports = [header.destination, header.source];
        if sealed[SIGNED..] != self.hash(&sealed[..SIGNED], ports).to_be_bytes() {
            return Err(Refused::Forged);
        }
        let age = Duration::from_millis(u64::from(millis(now).wrapping_sub(word(INNER))));
        if age > COOKIE_LIFE {
            return Err(Refused::Stale { by: age - COOKIE_LIFE, peer_tag: word(PEER_TAG) });
        }
        Ok(Opened { inner: &sealed[..INNER], path: PathId(word(INNER + 4)) })
    }

    fn hash(&self, signed: &[u8], ports: [u16; 2]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(signed);
        hasher.write(&ports[0].to_be_bytes());
        hasher.write(&ports[1].to_be_bytes());
        hasher.finish()
    }
}

/// Milliseconds of the run, wrapping after 49 days: a cookie lives a minute.
fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Bytes of a cookie of the library's (dcsctp 0.1.16).
const INNER: usize = 48;
/// Where in it the tag stands that the peer chose.
const PEER_TAG: usize = 8;
/// Bytes that the hash covers: the library's, the time of baking, the path.
const SIGNED: usize = INNER + 8;
/// Valid.Cookie.Life (RFC 9260 §16).
pub(super) const COOKIE_LIFE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { source: 50_000, destination: 5004, tag: 7 };
    const BAKED: Instant = Instant::from_millis(u32::MAX as u64 - 10);

    fn sealed() -> [u8; SEALED] {
        let mut inner = [3; INNER];
        inner[PEER_TAG..PEER_TAG + 4].copy_from_slice(&9u32.to_be_bytes());
        CookieJar::new(1).seal(BAKED, PathId(4), [5004, 50_000], &inner).unwrap()
    }

    #[test]
    fn a_cookie_opens_within_its_life_and_tells_its_path() {
        // The clock in the cookie wraps on the way.
        let later = BAKED + COOKIE_LIFE;
        let sealed = sealed();
        let opened = CookieJar::new(1).open(later, HEADER, &sealed).unwrap();
        assert_eq!((opened.inner.len(), opened.path), (INNER, PathId(4)));
        let by = Duration::from_millis(1);
        let stale = CookieJar::new(1).open(later + by, HEADER, &sealed);
        assert_eq!(stale, Err(Refused::Stale { by, peer_tag: 9 }));
    }

    #[test]
    fn no_byte_no_port_and_no_key_may_differ() {
        let jar = CookieJar::new(1);
        for at in 0..SEALED {
            let mut changed = sealed();
            changed[at] ^= 1;
            assert_eq!(jar.open(BAKED, HEADER, &changed), Err(Refused::Forged), "byte {at}");
        }
        for header in [Header { source: 50_001, ..HEADER }, Header { destination: 5005, ..HEADER }] {
            assert_eq!(jar.open(BAKED, header, &sealed()), Err(Refused::Forged));
        }
        assert_eq!(CookieJar::new(2).open(BAKED, HEADER, &sealed()), Err(Refused::Forged));
        assert_eq!(jar.open(BAKED, HEADER, &sealed()[1..]), Err(Refused::Forged));
    }
}
