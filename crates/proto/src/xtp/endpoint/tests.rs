//! What tests see of an endpoint, and change.

use super::{Key, Xtp};

impl Xtp {
    /// The position of the next byte to send.
    pub(in crate::xtp) fn sequence(&self) -> u64 {
        self.out.next()
    }

    /// The position up to which everything has come or was given up.
    pub(in crate::xtp) fn received(&self) -> u64 {
        self.incoming.next()
    }

    /// Ranges above the first gap that have come.
    pub(in crate::xtp) fn ranges(&self) -> usize {
        self.incoming.spans().count()
    }

    /// The number of our first byte.
    pub(in crate::xtp) fn first(&self) -> u64 {
        self.own_first
    }

    /// The key that our packets carry, and the number of our next byte.
    pub(in crate::xtp) fn peer(&self) -> (Key, u64) {
        (self.peer_key.expect("it is known"), self.own_first.wrapping_add(self.out.next()))
    }

    /// Has the caller's numbers continue from these, at both ends.
    pub(in crate::xtp) fn wrap_soon(&mut self, is_caller: bool, first: u64, sync: u32) {
        if is_caller {
            self.own_first = first;
            self.out.rack.skip_to(u64::from(sync));
        } else {
            self.peer_first = first;
            self.echo = Some(sync);
        }
    }
}
