//! Where the unguessable numbers of endpoints come from: tags, first numbers, keys of cookies.
//!
//! On real sockets they come from 32 random bytes of the operating system, in the laboratory from a seed. The two have
//! constructors of their own, so that a seed that is printed in a report cannot become the secret of a real stream.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::Rng;

/// A secret of a stack. What is derived for one label says nothing about the secret or about other labels.
#[derive(Clone, Copy)]
pub struct Secret(Kind);

#[derive(Clone, Copy)]
enum Kind {
    System([u8; 32]),
    Laboratory(u64),
}

impl Secret {
    /// A secret of random bytes from the operating system, for streams on real sockets.
    pub fn from_system(bytes: [u8; 32]) -> Self {
        Secret(Kind::System(bytes))
    }

    /// A secret for virtual worlds and tests: equal seeds derive equal numbers, which anyone can compute.
    pub fn for_laboratory(seed: u64) -> Self {
        Secret(Kind::Laboratory(seed))
    }

    /// The key for the use called `label`: SipHash-2-4 of 128 bits (Aumasson, Bernstein, *SipHash*, 2012) as a
    /// pseudo-random function under the first half of the secret, over the second half and the label.
    pub fn key(&self, label: &str) -> [u8; 16] {
        match &self.0 {
            Kind::System(bytes) => {
                let (key, rest) = bytes.split_first_chunk::<16>().expect("a secret has 32 bytes");
                let mut hasher = SipHasher24::new_with_key(key);
                hasher.write(rest);
                hasher.write(label.as_bytes());
                hasher.finish128().as_bytes()
            }
            Kind::Laboratory(seed) => {
                let mut key = [0; 16];
                Rng::fork(*seed, label).fill(&mut key);
                key
            }
        }
    }

    /// The seed for the numbers of a stack's endpoint number `opened`, from 0. In the laboratory the first one's is the
    /// stack's own seed.
    pub fn endpoint_seed(&self, opened: u64) -> u64 {
        match (&self.0, opened) {
            (Kind::Laboratory(seed), 0) => *seed,
            (Kind::Laboratory(seed), _) => Rng::fork(*seed, &format!("endpoint {opened}")).next_u64(),
            (Kind::System(_), _) => self.number(&format!("endpoint {opened}")),
        }
    }

    /// A generator for the use called `label`.
    pub fn rng(&self, label: &str) -> Rng {
        match &self.0 {
            Kind::Laboratory(seed) => Rng::fork(*seed, label),
            Kind::System(_) => Rng::new(self.number(label)),
        }
    }

    /// Numbers for many peers, from which none of them learns another's.
    pub fn draws(&self, label: &str) -> Draws {
        match &self.0 {
            Kind::Laboratory(seed) => Draws(Drawn::Seeded(Rng::fork(*seed, label))),
            Kind::System(_) => Draws(Drawn::Keyed { key: self.key(label), drawn: 0 }),
        }
    }

    fn number(&self, label: &str) -> u64 {
        let key = self.key(label);
        u64::from_le_bytes(*key.first_chunk().expect("a key has 16 bytes"))
    }
}

/// Numbers drawn one after the other. From a system's secret each is the hash of its place under a key of its own, so that
/// those which somebody was given say nothing about the others; in the laboratory the seed determines them.
#[derive(Clone)]
pub struct Draws(Drawn);

#[derive(Clone)]
enum Drawn {
    Keyed { key: [u8; 16], drawn: u64 },
    Seeded(Rng),
}

impl Draws {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        match &mut self.0 {
            Drawn::Seeded(rng) => rng.next_u64(),
            Drawn::Keyed { key, drawn } => {
                *drawn += 1;
                let mut hasher = SipHasher24::new_with_key(key);
                hasher.write(&drawn.to_le_bytes());
                let hash = hasher.finish128().as_bytes();
                u64::from_le_bytes(*hash.first_chunk().expect("a hash has 16 bytes"))
            }
        }
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        match &mut self.0 {
            Drawn::Seeded(rng) => rng.next_u32(),
            Drawn::Keyed { .. } => self.next_u64() as u32,
        }
    }
}

impl From<Rng> for Draws {
    fn from(rng: Rng) -> Self {
        Draws(Drawn::Seeded(rng))
    }
}

/// Does not show what will be drawn.
impl fmt::Debug for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Draws(..)")
    }
}

/// Shows the kind alone: secrets do not belong in logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::System(_) => f.write_str("Secret::from_system(..)"),
            Kind::Laboratory(seed) => write!(f, "Secret::for_laboratory({seed})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_system_secret_changes_every_derived_key() {
        let key = Secret::from_system([7; 32]).key("cookie");
        for at in 0..32 {
            let mut bytes = [7; 32];
            bytes[at] ^= 1;
            assert_ne!(Secret::from_system(bytes).key("cookie"), key, "byte {at}");
        }
        assert_ne!(Secret::from_system([7; 32]).key("cookies"), key);
    }

    #[test]
    fn endpoints_of_a_system_secret_have_seeds_of_their_own() {
        let secret = Secret::from_system([7; 32]);
        let seeds: std::collections::BTreeSet<u64> = (0..100).map(|n| secret.endpoint_seed(n)).collect();
        assert_eq!(seeds.len(), 100);
    }

    #[test]
    fn laboratory_secrets_derive_what_the_seed_alone_determines() {
        let secret = Secret::for_laboratory(7);
        assert_eq!(secret.endpoint_seed(0), 7);
        assert_eq!(secret.endpoint_seed(1), Rng::fork(7, "endpoint 1").next_u64());
        assert_eq!(secret.rng("a").next_u64(), Rng::fork(7, "a").next_u64());
    }

    #[test]
    fn draws_follow_the_seed_in_the_laboratory_and_the_key_on_a_system() {
        let mut laboratory = Secret::for_laboratory(7).draws("a");
        let mut rng = Rng::fork(7, "a");
        assert_eq!((laboratory.next_u32(), laboratory.next_u64()), (rng.next_u32(), rng.next_u64()));
        let secret = Secret::from_system([7; 32]);
        let some = |label| {
            let mut draws = secret.draws(label);
            (0..1000).map(|_| draws.next_u64()).collect::<std::collections::BTreeSet<u64>>()
        };
        assert_eq!((some("a").len(), some("a") == some("a")), (1000, true));
        assert!(some("a").is_disjoint(&some("b")));
    }

    #[test]
    fn debug_output_does_not_show_the_bytes() {
        assert_eq!(format!("{:?}", Secret::from_system([171; 32])), "Secret::from_system(..)");
    }
}
