//! SACKs that arrive late or not at all, and losses that only time reveals: what is sent again, and when.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{ByteCount, Instant, Role};
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
    /// When no SACK gets through.
    deaf: Range<Instant>,
}

const ONE_PATH: Loss<'_> = Loss {
    query: "",
    links: &["delay=20ms"],
    messages: 400,
    lost: (100, 1),
    deaf: Instant::ZERO..Instant::ZERO,
};
/// The time-outs of RFC 9260: whatever arrives sooner was found otherwise.
const SLOW: &str = "rto-initial=1s&rto-min=1s&rto-max=60s";

/// Results of a caller.
struct Found {
    arrivals: Vec<Crossing>,
    retransmitted: u64,
    /// At the end.
    cwnd: ByteCount,
}

impl Found {
    /// Age of a message at its arrival.
    fn age(&self, number: u64) -> Duration {
        let arrival = self.arrivals.iter().find(|crossing| crossing.number == number);
        arrival.expect("it arrives").age()
    }
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
        let (losses, deaf) = (left.clone(), self.deaf.clone());
        world.leaves = Some(Box::new(move |leaving| {
            let holds = leaving.direction == Direction::Up
                && numbers_in(leaving.bytes).any(|other| u64::from(other) == number);
            let loses = holds && losses.get() > 0;
            losses.set(losses.get() - u32::from(loses));
            !loses && (leaving.direction == Direction::Up || !deaf.contains(&leaving.at))
        }));
        world.run_until(BEGINS + INTERVAL * self.messages as u32 + Duration::from_secs(2));
        assert_eq!(left.get(), 0, "the losses happened");
        let (near, far) = (&world.near[0], &world.far[0]);
        assert_eq!(far.messages.len() as u64, self.messages, "all arrive, and none twice");
        let cwnd = near.endpoint.stats().cwnd.expect("it has a window");
        Found { arrivals: far.crossings(near), retransmitted: near.counters().retransmitted, cwnd }
    }
}

#[test]
fn reordered_sacks_cause_no_retransmission() {
    // Half of the SACKs are overtaken by two later ones, also while a gap is open.
    let found = Loss { links: &["delay=20ms,down.reorder=50%/12ms"], ..ONE_PATH }.run();
    assert_eq!(found.retransmitted, 1, "what was lost, once");
}

#[test]
fn copies_of_sacks_on_a_slower_path_cause_no_retransmission() {
    let links = ["delay=10ms", "delay=22ms"];
    let found = Loss { query: "paths=both", links: &links, lost: (100, 2), ..ONE_PATH }.run();
    assert_eq!(found.retransmitted, 1, "what was lost on both paths, once");
}

#[test]
fn a_lost_retransmission_is_found_by_time() {
    let found = Loss { query: SLOW, lost: (100, 3), ..ONE_PATH }.run();
    // Each time a round trip, its quarter, an interval of messages and a delayed acknowledgement; then half a round trip.
    let age = found.age(100);
    assert!(age <= 3 * Duration::from_millis(40 + 10 + 5 + 10) + Duration::from_millis(20), "{age:?}");
    assert_eq!(found.retransmitted, 3);
}

#[test]
fn a_lost_tail_is_found_by_a_probe() {
    for (number, messages) in [(399, 400), (398, 400)] {
        let found = Loss { query: SLOW, lost: (number, 1), messages, ..ONE_PATH }.run();
        // The acknowledgement of what was before, up to 10 ms delayed, sets the probe off two round trips later, which
        // contain such delays as well; 10 ms more for the last packet alone.
        let age = found.age(number);
        assert!(age <= Duration::from_millis((40 + 10) + 2 * (40 + 10) + 10 + 20), "{number}: {age:?}");
        assert_eq!(found.retransmitted, 1);
    }
}

/// Where the probe is lost as well, only the time-out is left, and its least value decides when.
#[test]
fn the_least_time_out_decides_when_a_lost_probe_is_repaired() {
    let age = |query| {
        let found = Loss { query, lost: (399, 2), ..ONE_PATH }.run();
        assert_eq!(found.retransmitted, 2, "the probe and what the time-out sends");
        found.age(399)
    };
    // The probe goes out after some 120 ms. By default the time-out is a round trip and 30 ms.
    assert!(age("") < Duration::from_millis(250), "{:?}", age(""));
    for (query, least) in [("rto-min=500ms", 500), (SLOW, 1000)] {
        let (age, least) = (age(query), Duration::from_millis(least));
        assert!((least..least + Duration::from_millis(250)).contains(&age), "{query}: {age:?}");
    }
}

#[test]
fn lost_sacks_do_not_close_the_window() {
    // A time-out of some 70 ms passes without an answer, but only acknowledgements were lost.
    let begins = Instant::from_millis(1_500);
    let found = Loss { deaf: begins..begins + Duration::from_millis(90), messages: 220, ..ONE_PATH }.run();
    // The lost message, and a probe.
    assert!(found.retransmitted <= 2, "{} retransmitted", found.retransmitted);
    assert!(found.cwnd.0 >= 8 * 960, "what 40 ms hold: {:?}", found.cwnd);
}
