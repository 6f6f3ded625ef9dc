//! Addresses from which a listening line has received, or pairs of theirs and ours, with the path numbers that
//! participants know.
//!
//! A number always means one address: a validator's reply to one address must not be valid for the address that
//! replaces it in the table.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use antiphon_core::PathId;

/// The addresses from which a listening line has received.
pub(crate) struct AddressTable<A = SocketAddr> {
    paths: BTreeMap<A, PathId>,
    /// By slot, with the address's number.
    addresses: Vec<(PathId, A)>,
    /// Where the next search for an entry that may be forgotten begins.
    hand: usize,
}

impl<A> Default for AddressTable<A> {
    fn default() -> Self {
        AddressTable { paths: BTreeMap::new(), addresses: Vec::new(), hand: 0 }
    }
}

impl<A: Copy + Ord> AddressTable<A> {
    /// The number of `address`, assigned when first seen; when the table is full, an address that the participant does
    /// not know (`knows`) is forgotten, and if it knows all, `None`.
    pub fn path_of(&mut self, address: A, knows: impl Fn(PathId) -> bool) -> Option<PathId> {
        if let Some(path) = self.paths.get(&address) {
            return Some(*path);
        }
        if self.addresses.len() < MOST_ADDRESSES {
            let path = PathId(self.addresses.len() as u32);
            self.addresses.push((path, address));
            self.paths.insert(address, path);
            return Some(path);
        }
        // A few steps per unknown source: a flood of addresses cannot make this search long.
        for _ in 0..64 {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.addresses.len();
            let (known, before) = self.addresses[at];
            if !knows(known) {
                self.paths.remove(&before);
                // The next number of the same slot; the first comes again after four thousand million unknown sources.
                let path = PathId(known.0.wrapping_add(MOST_ADDRESSES as u32));
                self.addresses[at] = (path, address);
                self.paths.insert(address, path);
                return Some(path);
            }
        }
        None
    }

    /// The address of a path, if it is not forgotten.
    pub fn address_of(&self, path: PathId) -> Option<A> {
        let (known, address) = *self.addresses.get(slot(path))?;
        (known == path).then_some(address)
    }
}

/// Index at which data of a path can be stored, below [`MOST_ADDRESSES`].
pub(crate) fn slot(path: PathId) -> usize {
    path.0 as usize % MOST_ADDRESSES
}

/// The most addresses remembered.
const MOST_ADDRESSES: usize = 4096;

#[cfg(test)]
mod tests;
