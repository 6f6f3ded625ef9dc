//! A stream of numbered messages from a caller to a listener.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use antiphon_core::{CloseMode, Instant, OneWire, PathId, Role, Single};
use antiphon_testkit::{Came, Party, Served, Shape, Talk, World, message, ms, number_of};

use crate::PATIENCE;
use crate::common::{PLAYOUT_DELAY, endpoint};

/// When the first message is due, after the handshake.
pub const BEGINS: Instant = Instant::from_millis(1_000);
/// Interval of messages.
pub const EVERY: Duration = Duration::from_millis(5);

pub struct Stream {
    pub world: World<Single<Party>, Served<Party>>,
    count: u64,
    shape: Shape,
    enlarged: (Range<u64>, usize),
}

impl Stream {
    /// `count` messages of `len` bytes over a link; a byte stream has a pipe of the same delay.
    pub fn new(uri: &str, link: &str, len: usize, count: u64) -> Self {
        Stream::over(uri, uri, &[link], len, count)
    }

    /// The same over several links.
    pub fn over(caller: &str, listener: &str, links: &[&str], len: usize, count: u64) -> Self {
        let near = Party::new(endpoint(caller, Role::Caller, 1));
        let far = Served::new(Party::new(endpoint(listener, Role::Listener, 2)));
        let shape = Shape::new(len, (!near.endpoint.profile().reliable).then_some(PLAYOUT_DELAY));
        let is_stream = near.is_byte_stream();
        let near = Single::new(near);
        let mut world = match is_stream {
            true => World::piped(near, far, ms(20), 64_000),
            false => World::over_links(near, far, links, 1),
        };
        // These endpoints have no table of associations, so they number paths from 0 themselves.
        world.near_path = PathId(0);
        Stream { world, count, shape, enlarged: (0..0, 0) }
    }

    /// Messages of these numbers have `len` bytes, or as many as the transport accepts.
    pub fn enlarge(&mut self, numbers: Range<u64>, len: usize) {
        self.enlarged = (numbers, len.min(self.world.near.get().endpoint.profile().max_message));
    }

    /// Sets how long messages are of use.
    pub fn set_budget(&mut self, budget: Duration) {
        self.shape.budget = Some(budget);
    }

    /// Runs until 3 s after the last message, and closes both ends.
    pub fn run(&mut self) {
        let (shape, (numbers, len)) = (self.shape, self.enlarged.clone());
        let shapes =
            move |n, _: &_| Shape { len: if numbers.contains(&n) { len } else { shape.len }, ..shape };
        self.world.near.get_mut().talk = Some(Talk::paced(BEGINS, EVERY, self.count, shapes));
        let end = self.due(self.count) + ms(3_000);
        self.world.run_until(end);
        assert!(!self.world.near.get().is_finished() && !self.world.far.get().is_finished(), "it died");
        for party in [self.world.near.get_mut(), self.world.far.get_mut()] {
            party.endpoint.close(end, CloseMode::Graceful);
        }
        self.world.run(end + PATIENCE);
    }

    /// Both ends closed in order, and every accepted message has its outcome.
    pub fn assert_lived(&self) {
        for party in [self.world.near.get(), self.world.far.get()] {
            assert!(party.is_finished(), "it has ended");
            party.assert_balanced();
        }
        for Came { bytes, .. } in &self.world.far.get().messages {
            assert!(*bytes == message(number_of(bytes), bytes.len()), "messages come whole");
        }
    }

    pub fn due(&self, number: u64) -> Instant {
        BEGINS + EVERY * number as u32
    }

    /// The numbers of received messages, in order of arrival.
    pub fn numbers(&self) -> Vec<u64> {
        self.world.far.get().numbers()
    }

    /// The numbers of messages that never arrived.
    pub fn missing(&self) -> Vec<u64> {
        let came: BTreeSet<u64> = self.numbers().into_iter().collect();
        (0..self.count).filter(|number| !came.contains(number)).collect()
    }

    /// The age of the oldest message at its arrival.
    pub fn oldest(&self) -> Duration {
        let came = self.world.far.get().messages.iter();
        came.map(|came| came.at.since(self.due(came.number()))).max().unwrap_or_default()
    }
}
