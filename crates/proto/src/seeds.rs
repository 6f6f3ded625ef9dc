//! Seeds for the random numbers of a stack's endpoints.

use std::cell::Cell;

use antiphon_core::{Rng, Secret};

/// Seeds of a stack's endpoints. Each has its own, since two associations of one side must not draw the same tags and
/// first numbers; common values, above all the keys of cookies, are derived from the stack's secret.
#[derive(Debug)]
pub(crate) struct Seeds {
    shared: Secret,
    opened: Cell<u64>,
}

impl Seeds {
    /// `secret`: the stack's secret.
    pub fn new(secret: Secret) -> Self {
        Seeds { shared: secret, opened: Cell::new(0) }
    }

    /// The secret common to all endpoints and validators of the stack.
    pub fn shared(&self) -> Secret {
        self.shared
    }

    /// The seed of the next endpoint.
    pub fn next(&self) -> u64 {
        let number = self.opened.get();
        self.opened.set(number + 1);
        self.shared.endpoint_seed(number)
    }
}

/// A caller's port: one of the dynamic ports (RFC 6335 §6), which nobody registers.
pub(crate) fn dynamic_port(rng: &mut Rng) -> u16 {
    FIRST_DYNAMIC_PORT + rng.below(u32::from(u16::MAX - FIRST_DYNAMIC_PORT) + 1) as u16
}

const FIRST_DYNAMIC_PORT: u16 = 49_152;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_draws_its_own_and_the_same_stack_the_same() {
        let draw = |seed: u64| {
            let seeds = Seeds::new(Secret::for_laboratory(seed));
            [seeds.next(), seeds.next(), seeds.next()]
        };
        let drawn = draw(7);
        assert_eq!((drawn, drawn[0]), (draw(7), 7));
        assert!(drawn[1] != 7 && drawn[2] != 7 && drawn[1] != drawn[2]);
        assert_ne!(drawn[1], draw(8)[1]);
    }
}
