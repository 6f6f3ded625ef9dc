//! Seeds for the random numbers of a stack's endpoints.

use std::cell::Cell;

use antiphon_core::Rng;

/// Seeds of a stack's endpoints. Each has its own, since two associations of one side must not draw the same tags and
/// first numbers; common values, above all the keys of cookies, are derived from the stack's seed.
#[derive(Debug)]
pub(crate) struct Seeds {
    shared: u64,
    opened: Cell<u64>,
}

impl Seeds {
    /// `seed`: the stack's seed.
    pub fn new(seed: u64) -> Self {
        Seeds { shared: seed, opened: Cell::new(0) }
    }

    /// The seed common to all endpoints and validators of the stack.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// The seed of the next endpoint. The first one's is the stack's, so that it alone determines a stack of one
    /// endpoint.
    pub fn next(&self) -> u64 {
        let number = self.opened.get();
        self.opened.set(number + 1);
        match number {
            0 => self.shared,
            _ => Rng::fork(self.shared, &format!("endpoint {number}")).next_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_draws_its_own_and_the_same_stack_the_same() {
        let draw = |seed: u64| {
            let seeds = Seeds::new(seed);
            [seeds.next(), seeds.next(), seeds.next(), seeds.shared()]
        };
        let drawn = draw(7);
        assert_eq!((drawn, drawn[0], drawn[3]), (draw(7), 7, 7));
        assert!(drawn[1] != 7 && drawn[2] != 7 && drawn[1] != drawn[2]);
        assert_ne!(drawn[1], draw(8)[1]);
    }
}
