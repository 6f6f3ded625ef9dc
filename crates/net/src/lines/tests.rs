use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use antiphon_core::{BrokenReason, Input, Participant, PathId, Transmit, Wire, WireView, Wires};

use super::*;
use crate::clock::OsClock;
use crate::line::{LineCommon, Wait};
use crate::options::SocketOptions;
use crate::poll::Readiness;

/// Events, in their order.
type Log = Rc<RefCell<Vec<(u32, &'static str)>>>;

/// A line whose descriptor is always readable, or never.
struct FakeLine {
    name: u32,
    log: Log,
    fd: OwnedFd,
    fails: bool,
    over: bool,
    timeout: Option<Instant>,
    common: LineCommon,
}

impl FakeLine {
    /// `busy`: it always has something to read.
    fn new(name: u32, log: &Log, busy: bool) -> Self {
        let waker = Waker::new().expect("an event descriptor");
        if busy {
            waker.wake();
        }
        let fd = waker.as_fd().try_clone_to_owned().expect("a descriptor");
        let common = LineCommon::new(([127, 0, 0, 1], 1).into(), Vec::new());
        FakeLine { name, log: log.clone(), fd, fails: false, over: false, timeout: None, common }
    }

    fn note(&self, what: &'static str) {
        self.log.borrow_mut().push((self.name, what));
    }
}

impl Line for FakeLine {
    fn receive(
        &mut self,
        clock: &OsClock,
        _participant: &mut WireView<'_>,
        _wait: Wait,
    ) -> Result<Instant, LineError> {
        self.note("receive");
        self.common.stats.received += 1;
        match self.fails {
            true => Err(LineError::system("receiving")(std::io::Error::other("unplugged"))),
            false => Ok(clock.now()),
        }
    }

    fn transmit(&mut self, _now: Instant, _participant: &mut WireView<'_>) -> Result<(), LineError> {
        self.note("transmit");
        Ok(())
    }

    fn report(&mut self, _now: Instant, _participant: &mut WireView<'_>, last: bool) {
        self.note(if last { "last report" } else { "report" });
    }

    fn wire(&self) -> Wire {
        Wire::Datagram
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness)) {
        self.note("watch");
        each(self.fd.as_fd(), Readiness::READABLE);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn peer_address(&self, _path: PathId) -> Option<std::net::SocketAddr> {
        None
    }

    fn common(&self) -> &LineCommon {
        &self.common
    }

    fn common_mut(&mut self) -> &mut LineCommon {
        &mut self.common
    }
}

/// The wire of a listening socket.
const LISTENING: WireId = WireId(9);

/// Records which wires broke.
#[derive(Default)]
struct Listener {
    broken: Vec<(WireId, BrokenReason)>,
}

impl Participant for Listener {
    fn handle_input(&mut self, _now: Instant, wire: WireId, input: Input<'_>) {
        if let Input::Broken(reason) = input {
            self.broken.push((wire, reason));
        }
    }

    fn accept(&mut self, _now: Instant, _listener: WireId) -> Option<WireId> {
        None
    }

    fn advance(&mut self, _now: Instant) {}

    fn poll_ready(&mut self) -> Option<WireId> {
        None
    }

    fn poll_transmit(&mut self, _now: Instant, _wire: WireId, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn poll_close(&mut self) -> Option<WireId> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn knows(&self, _wire: WireId, _path: PathId) -> bool {
        true
    }

    fn takes(&self, _wire: WireId) -> bool {
        true
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        false
    }
}

/// Two lines and a participant; the log of the first round, in which both are new, is discarded.
fn two(busy: [bool; 2]) -> (Lines<'static>, Listener, OsClock, Log) {
    let (log, clock) = (Log::default(), OsClock::new());
    let (mut lines, mut listener) = (Lines::new(), Listener::default());
    for (name, busy) in (0..).zip(busy) {
        lines.add(WireId(name), Box::new(FakeLine::new(name, &log, busy))).expect("a new wire");
    }
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    log.take();
    (lines, listener, clock, log)
}

#[test]
fn a_line_that_is_alone_is_not_watched() {
    let (log, clock) = (Log::default(), OsClock::new());
    let (mut lines, mut listener) = (Lines::new(), Listener::default());
    lines.add(WireId(3), Box::new(FakeLine::new(3, &log, false))).expect("a new wire");
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    lines.flush(clock.now(), WireId(3), &mut listener);
    assert_eq!(log.take(), [(3, "receive"), (3, "report"), (3, "transmit")]);
    // Beside another, both are checked at once and watched.
    lines.add(WireId(4), Box::new(FakeLine::new(4, &log, false))).expect("a new wire");
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    let mut noted = log.take();
    noted.sort_unstable();
    noted.dedup();
    assert_eq!(noted, [(3, "receive"), (3, "watch"), (4, "receive"), (4, "watch")]);
    // Alone again.
    lines.close(clock.now(), WireId(4));
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    assert_eq!(log.take(), [(3, "receive"), (3, "report")]);
}

#[test]
fn a_line_beside_callers_alone_is_not_watched() {
    let (log, clock) = (Log::default(), OsClock::new());
    let (mut lines, mut listener) = (Lines::new(), Listener::default());
    let callers = TcpListening::bind(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("a port");
    let address = callers.local_address();
    lines.listen(LISTENING, callers).expect("a new wire");
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    lines.open(WireId(3), Box::new(FakeLine::new(3, &log, false)), Some(LISTENING));
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    assert_eq!(log.take(), [(3, "receive"), (3, "report")]);
    // A caller is found nevertheless, and refused by this participant.
    let _caller = std::net::TcpStream::connect(address).expect("it listens");
    while lines.stats(LISTENING).expect("it listens").unknown_sources == 0 {
        assert!(clock.now() < Instant::from_millis(10_000), "callers were not looked for");
        lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    }
    assert!(log.take().iter().all(|(_, what)| *what != "watch"));
    lines.line_mut(WireId(3)).expect("it is there").common_mut().stats.sent = 7;
    lines.drop_held(lines.slots.find(WireId(3)).expect("it is there"));
    assert_eq!(lines.stats(LISTENING).map(|stats| stats.sent), Some(7), "what it counted is kept");
}

#[test]
fn each_ready_line_is_served_once_in_a_round() {
    let (mut lines, mut listener, clock, log) = two([true, true]);
    lines.receive(&mut listener, &clock, Wait::Idle).expect("nothing fails");
    let mut served = log.take();
    served.sort_unstable();
    assert_eq!(served, [(0, "receive"), (1, "receive")]);
}

#[test]
fn a_line_is_asked_for_figures_after_it_has_sent() {
    let (mut lines, mut listener, clock, log) = two([false, false]);
    lines.flush(clock.now(), WireId(1), &mut listener);
    lines.flush(clock.now(), WireId(1), &mut listener);
    assert_eq!(log.take(), [(1, "transmit"), (1, "transmit")], "not while it sends");
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    assert_eq!(log.take(), [(1, "report")], "once, where it receives");
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    assert_eq!(log.take(), []);
    lines.report(clock.now(), &mut listener, true);
    let mut last = log.take();
    last.sort_unstable();
    assert_eq!(last, [(0, "last report"), (1, "last report")]);
}

#[test]
fn a_line_that_fails_beside_others_is_reported_and_dropped() {
    let (log, clock) = (Log::default(), OsClock::new());
    let (mut lines, mut listener) = (Lines::new(), Listener::default());
    let fails = FakeLine { fails: true, ..FakeLine::new(0, &log, true) };
    lines.add(WireId(0), Box::new(fails)).expect("a new wire");
    lines.add(WireId(1), Box::new(FakeLine::new(1, &log, true))).expect("a new wire");
    lines.receive(&mut listener, &clock, Wait::No).expect("the other goes on");
    assert_eq!(listener.broken, [(WireId(0), BrokenReason::Unreachable)]);
    assert_eq!(lines.wires().collect::<Vec<_>>(), [WireId(1)]);
    let (wire, why) = &lines.failures()[0];
    assert_eq!((wire.0, why.to_string().as_str()), (0, "receiving: unplugged"));
    lines.receive(&mut listener, &clock, Wait::No).expect("the other goes on");
}

#[test]
fn an_accepted_line_goes_when_its_connection_ends() {
    let (mut lines, mut listener, clock, log) = two([false, false]);
    let ended = FakeLine { over: true, ..FakeLine::new(7, &log, false) };
    lines.open(WireId(7), Box::new(ended), Some(LISTENING));
    // A line that calls reconnects by itself.
    let calls = FakeLine { over: true, ..FakeLine::new(8, &log, false) };
    lines.open(WireId(8), Box::new(calls), None);
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    assert_eq!(lines.wires().map(|wire| wire.0).collect::<Vec<_>>(), [0, 1, 8]);
}

#[test]
fn the_last_line_that_fails_ends_the_run() {
    let (log, clock) = (Log::default(), OsClock::new());
    let mut lines = Lines::new();
    let fails = FakeLine { fails: true, ..FakeLine::new(0, &log, true) };
    lines.add(WireId(0), Box::new(fails)).expect("a new wire");
    let result = lines.receive(&mut Listener::default(), &clock, Wait::No);
    assert_eq!(result.map(drop).expect_err("it failed").to_string(), "receiving: unplugged");
}

#[test]
fn the_soonest_time_out_of_the_lines_is_served_when_it_comes() {
    let (mut lines, mut listener, clock, log) = two([false, false]);
    assert_eq!(lines.poll_timeout(), None);
    let past = clock.now();
    let due = FakeLine { timeout: Some(past), ..FakeLine::new(7, &log, false) };
    lines.add(WireId(7), Box::new(due)).expect("a new wire");
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    assert_eq!(lines.poll_timeout(), Some(past));
    log.take();
    lines.receive(&mut listener, &clock, Wait::No).expect("nothing fails");
    assert_eq!(log.take(), [(7, "receive")]);
    lines.close(clock.now(), WireId(7));
    assert_eq!(lines.poll_timeout(), None);
}

#[test]
fn a_wait_for_several_lines_keeps_to_its_time() {
    let (mut lines, mut listener, clock, _log) = two([false, false]);
    for ms in [3, 1, 20, 2] {
        let time = std::time::Duration::from_millis(ms);
        // The least of several: a busy machine sometimes wakes a thread late.
        let least = (0..4).map(|_| {
            let start = clock.now();
            // A timer of an earlier wait may end this one early.
            let mut end = start;
            while end.since(start) < time {
                let rest = Wait::For(time - end.since(start));
                end = lines.receive(&mut listener, &clock, rest).expect("nothing fails");
            }
            end.since(start)
        });
        let least = least.min().expect("there are four");
        assert!(least < time + crate::line::IDLE, "{least:?} of {time:?}");
    }
}

#[test]
fn events_of_a_slots_last_use_do_not_reach_the_next() {
    let log = Log::default();
    let mut slots = Slots::default();
    let line = |name| Kind::Open { line: Box::new(FakeLine::new(name, &log, false)), listener: None };
    let first = slots.insert(Held::new(WireId(1), line(1)));
    assert!(slots.remove(first).is_some() && slots.remove(first).is_none());
    let second = slots.insert(Held::new(WireId(2), line(2)));
    assert_eq!(second.slot, first.slot);
    assert!(slots.get(first).is_none() && slots.get(second).is_some());
    assert_eq!((slots.find(WireId(1)), slots.find(WireId(2))), (None, Some(second)));
    slots.detach(second, |held| held);
    assert!(slots.find(WireId(2)).is_none() && slots.get(second).is_some(), "held without a number");
    let third = slots.insert(Held::new(WireId(2), line(3)));
    slots.remove(second);
    assert_eq!(slots.find(WireId(2)), Some(third), "the number is the next one's by now");
}
