//! Transports as the tests and benches open them, and participants of a single line.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Instant, Lent, OneWire, PathId, Pumped, Single, Stack, Wire, WireId, WireView};
use antiphon_net::{
    DriveOptions, DriveReport, Line, LineCommon, LineError, Lines, OsClock, Readiness, Stop, Tap, Wait,
    drive, round,
};
use antiphon_proto::StackArgs;
use antiphon_session::{Policy, Reflector, ReflectorConfig};

/// The first wire of participants.
pub const WIRE: WireId = WireId(0);

/// The stack of `scheme` or `scheme?key=value`, for a playout delay of 80 ms.
pub fn stack(uri: &str, seed: u64, max_datagram: usize) -> Rc<dyn Stack> {
    let (scheme, query) = uri.split_once('?').unwrap_or((uri, ""));
    let query: Query = query.parse().expect("a query");
    let args = StackArgs::new(&query, seed, max_datagram, Duration::from_millis(80));
    antiphon_proto::stack(scheme, &args).expect("the settings are there")
}

/// A reflector for so many peers, configured like `reflect`.
pub fn reflector(stack: Rc<dyn Stack>, most: usize, now: Instant) -> Reflector {
    let policy = Policy::Many { most, idle: Duration::from_secs(10) };
    Reflector::new(now, WIRE, stack, policy, ReflectorConfig::default())
}

/// Drives a participant of one line.
pub fn drive_one(
    line: &mut dyn Line,
    one: &mut dyn OneWire,
    clock: &OsClock,
    stop: &Stop,
    options: DriveOptions,
) -> Result<DriveReport, LineError> {
    drive(&mut only(line), &mut Single::new(Lent(one)), clock, stop, options)
}

/// One round of it.
pub fn round_one(
    line: &mut dyn Line,
    one: &mut dyn OneWire,
    clock: &OsClock,
    wait: Wait,
) -> Result<Pumped, LineError> {
    round(&mut only(line), &mut Single::new(Lent(one)), clock, wait)
}

fn only(line: &mut dyn Line) -> Lines<'_> {
    let mut lines = Lines::new();
    lines.add(WIRE, Box::new(Layered(line))).expect("it is the first");
    lines
}

/// Hooks of a line around another, where bytes pass.
pub trait LineLayer {
    /// The line below.
    fn inner(&self) -> &(dyn Line + '_);

    /// The same, mutable.
    fn inner_mut(&mut self) -> &mut (dyn Line + '_);

    /// See [`Line::receive`].
    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        self.inner_mut().receive(clock, participant, wait)
    }

    /// See [`Line::transmit`].
    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError> {
        self.inner_mut().transmit(now, participant)
    }
}

/// A line around another: what has no hook is forwarded.
pub struct Layered<L>(pub L);

impl<L: LineLayer> Line for Layered<L> {
    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        self.0.receive(clock, participant, wait)
    }

    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError> {
        self.0.transmit(now, participant)
    }

    fn report(&mut self, now: Instant, participant: &mut WireView<'_>, last: bool) {
        self.0.inner_mut().report(now, participant, last);
    }

    fn wire(&self) -> Wire {
        self.0.inner().wire()
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness)) {
        self.0.inner().watch(each);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.inner().poll_timeout()
    }

    fn is_flushed(&self) -> bool {
        self.0.inner().is_flushed()
    }

    fn is_over(&self) -> bool {
        self.0.inner().is_over()
    }

    fn facts(&self) -> Vec<String> {
        self.0.inner().facts()
    }

    fn peer_address(&self, path: PathId) -> Option<SocketAddr> {
        self.0.inner().peer_address(path)
    }

    fn common(&self) -> &LineCommon {
        self.0.inner().common()
    }

    fn common_mut(&mut self) -> &mut LineCommon {
        self.0.inner_mut().common_mut()
    }

    fn set_tap(&mut self, tap: Tap) {
        self.0.inner_mut().set_tap(tap);
    }
}

/// A borrowed line.
impl<'a> LineLayer for &mut (dyn Line + 'a) {
    fn inner(&self) -> &(dyn Line + '_) {
        &**self
    }

    fn inner_mut(&mut self) -> &mut (dyn Line + '_) {
        &mut **self
    }
}
