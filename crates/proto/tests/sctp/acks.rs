//! SACKs that arrive late, and losses that only time reveals: what is sent again, and when.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Counters, Instant, Role};
use antiphon_link::Direction;
use antiphon_testkit::{Crossing, Party, Shape, Talk, World, numbers_in};

use crate::world::endpoint;

const INTERVAL: Duration = Duration::from_millis(5);
const BEGINS: Instant = Instant::from_millis(500);

/// A caller that sends a message every 5 ms; some transmissions of one message get lost.
struct Loss<'a> {
    query: &'a str,
    links: &'a [&'a str],
    messages: u64,
    /// Its number, and how many transmissions of it get lost.
    lost: (u64, u32),
}

/// What came of it: the arrivals, the counters of the caller, the most bytes that its window came to, and its least.
struct Found {
    arrivals: Vec<Crossing>,
    caller: Counters,
}

impl Loss<'_> {
    fn run(&self) -> Found {
        let caller = match self.links.len() {
            1 => self.query.to_string(),
            _ => format!("{}&peers=192.0.2.1:9906", self.query),
        };
        let talk = Talk::paced(BEGINS, INTERVAL, self.messages, |_, _| Shape::new(960, None));
        let near = Party::new(endpoint(caller.trim_matches('&'), Role::Caller, 1)).talking(talk);
        let far = Party::new(endpoint(self.query, Role::Listener, 2));
        let mut world = World::side_by_side([near], [far], self.links, 1);
        let (number, most) = self.lost;
        let left = Rc::new(Cell::new(most));
        let losses = left.clone();
        world.leaves = Some(Box::new(move |leaving| {
            let holds = leaving.direction == Direction::Up
                && numbers_in(leaving.bytes).any(|other| u64::from(other) == number);
            let loses = holds && losses.get() > 0;
            losses.set(losses.get() - u32::from(loses));
            !loses
        }));
        world.run_until(BEGINS + INTERVAL * self.messages as u32 + Duration::from_secs(2));
        assert_eq!(left.get(), 0, "the losses happened");
        let (near, far) = (&world.near[0], &world.far[0]);
        assert_eq!(far.messages.len() as u64, self.messages, "all arrive, and none twice");
        Found { arrivals: far.crossings(near), caller: near.counters() }
    }
}

#[test]
fn reordered_sacks_cause_no_retransmission() {
    // Every other SACK is overtaken by two later ones, while the first of three acknowledged gaps is open.
    let links = ["delay=20ms,down.reorder=50%/12ms"];
    let found = Loss { query: "", links: &links, messages: 400, lost: (100, 1) }.run();
    assert_eq!(found.caller.retransmitted, 1, "what was lost, once");
}

#[test]
fn copies_of_sacks_on_a_slower_path_cause_no_retransmission() {
    let links = ["delay=10ms", "delay=22ms"];
    let found = Loss { query: "paths=both", links: &links, messages: 400, lost: (100, 2) }.run();
    assert_eq!(found.caller.retransmitted, 1, "what was lost on both paths, once");
}
