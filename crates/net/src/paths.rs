//! Addresses that a listening line has heard from, as the numbers that stations know.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use antiphon_core::PathId;
use antiphon_session::Station;

/// The addresses that a listening line has heard from.
#[derive(Default)]
pub(crate) struct AddressTable {
    paths: BTreeMap<SocketAddr, PathId>,
    addresses: Vec<SocketAddr>,
    /// Where to look next for an entry that may be forgotten.
    hand: usize,
}

impl AddressTable {
    /// The number of `address`, given on first sight; when the table is full, one that the station does not know
    /// is forgotten, and if it knows them all, `None`.
    pub fn path_of(&mut self, address: SocketAddr, station: &dyn Station) -> Option<PathId> {
        if let Some(path) = self.paths.get(&address) {
            return Some(*path);
        }
        if self.addresses.len() < MOST_ADDRESSES {
            let path = PathId(self.addresses.len() as u32);
            self.addresses.push(address);
            self.paths.insert(address, path);
            return Some(path);
        }
        // A few steps per stranger: a flood of addresses can't make this search long.
        for _ in 0..64 {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.addresses.len();
            let path = PathId(at as u32);
            if !station.knows(path) {
                self.paths.remove(&self.addresses[at]);
                self.addresses[at] = address;
                self.paths.insert(address, path);
                return Some(path);
            }
        }
        None
    }

    /// Whose path that is.
    pub fn address_of(&self, path: PathId) -> Option<SocketAddr> {
        self.addresses.get(path.0 as usize).copied()
    }
}

/// Addresses remembered at most.
const MOST_ADDRESSES: usize = 4096;

#[cfg(test)]
mod tests;
