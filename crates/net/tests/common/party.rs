//! Transports as the tests and benches open them, and participants of a single line.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Instant, Lent, OneWire, Pumped, Single, Stack, WireId};
use antiphon_net::{DriveOptions, DriveReport, Line, LineError, Lines, OsClock, Stop, Wait, drive, round};
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
    lines.add(WIRE, Box::new(line)).expect("it is the first");
    lines
}
