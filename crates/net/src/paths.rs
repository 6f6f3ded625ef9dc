//! Addresses that a listening line has heard from, as the numbers that participants know.
//!
//! A number means one address for ever: what a validator sent to one must not be good at the address that takes its place
//! in the table.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use antiphon_core::PathId;

/// The addresses that a listening line has heard from.
#[derive(Default)]
pub(crate) struct AddressTable {
    paths: BTreeMap<SocketAddr, PathId>,
    /// By slot, with the number that this address has.
    addresses: Vec<(PathId, SocketAddr)>,
    /// Where to look next for an entry that may be forgotten.
    hand: usize,
}

impl AddressTable {
    /// The number of `address`, given on first sight; when the table is full, one that is not known
    /// (`knows`) is forgotten, and if all are, `None`.
    pub fn path_of(&mut self, address: SocketAddr, knows: impl Fn(PathId) -> bool) -> Option<PathId> {
        if let Some(path) = self.paths.get(&address) {
            return Some(*path);
        }
        if self.addresses.len() < MOST_ADDRESSES {
            let path = PathId(self.addresses.len() as u32);
            self.addresses.push((path, address));
            self.paths.insert(address, path);
            return Some(path);
        }
        // A few steps per unknown source: a flood of addresses can't make this search long.
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

    /// Whose path that is, if it is not forgotten.
    pub fn address_of(&self, path: PathId) -> Option<SocketAddr> {
        let (known, address) = *self.addresses.get(slot(path))?;
        (known == path).then_some(address)
    }
}

/// Where what is known of a path can be kept, below [`MOST_ADDRESSES`].
pub(crate) fn slot(path: PathId) -> usize {
    path.0 as usize % MOST_ADDRESSES
}

/// Addresses remembered at most.
const MOST_ADDRESSES: usize = 4096;

#[cfg(test)]
mod tests;
