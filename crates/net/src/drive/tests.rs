use std::cell::RefCell;
use std::rc::Rc;

use antiphon_core::{Input, Instant, Transmit};

use super::*;
use crate::line::Fittings;

type Log = Rc<RefCell<Vec<&'static str>>>;

/// Waits on nothing, notes every call, and how it was told to wait.
struct FakeLine {
    log: Log,
    waits: Vec<Wait>,
    fails_at: Option<usize>,
    unflushed: u32,
    flush_asked: std::cell::Cell<u32>,
    timeout: Option<Instant>,
    fittings: Fittings,
}

impl FakeLine {
    fn new(log: &Log) -> Self {
        FakeLine {
            log: log.clone(),
            waits: Vec::new(),
            fails_at: None,
            unflushed: 0,
            flush_asked: std::cell::Cell::new(0),
            timeout: None,
            fittings: Fittings::new(([127, 0, 0, 1], 1).into(), Vec::new()),
        }
    }
}

impl Line for FakeLine {
    fn receive(&mut self, clock: &OsClock, _station: &mut dyn Station, wait: Wait) -> Result<(), LineError> {
        self.log.borrow_mut().push("receive");
        self.waits.push(wait);
        if self.fails_at == Some(self.waits.len()) {
            let source = std::io::Error::other("unplugged");
            return Err(LineError::System { what: "receiving".into(), source });
        }
        // Time passes as if the wait was slept through.
        let time = match wait {
            Wait::No => Duration::ZERO,
            Wait::For(time) => time,
            Wait::Idle => IDLE,
        };
        let start = clock.now();
        while clock.now().since(start) < time {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn transmit(&mut self, _now: Instant, _station: &mut dyn Station) -> Result<(), LineError> {
        self.log.borrow_mut().push("transmit");
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn is_flushed(&self) -> bool {
        self.flush_asked.set(self.flush_asked.get() + 1);
        self.flush_asked.get() > self.unflushed
    }

    fn fittings(&self) -> &Fittings {
        &self.fittings
    }

    fn fittings_mut(&mut self) -> &mut Fittings {
        &mut self.fittings
    }
}

struct FakeStation {
    log: Log,
    timeout: Option<Instant>,
    /// Rounds until it is finished.
    left: u32,
    stops: Vec<Instant>,
    /// How much of the processor an advance takes.
    slow: Duration,
    clock: OsClock,
}

impl FakeStation {
    fn new(log: &Log, clock: OsClock, left: u32) -> Self {
        FakeStation { log: log.clone(), timeout: None, left, stops: Vec::new(), slow: Duration::ZERO, clock }
    }
}

impl Station for FakeStation {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn advance(&mut self, _now: Instant) {
        self.log.borrow_mut().push("advance");
        self.left = self.left.saturating_sub(1);
        let start = thread_cpu_time();
        while thread_cpu_time() - start < self.slow {
            std::hint::spin_loop();
        }
    }

    fn poll_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn stop(&mut self, now: Instant) {
        self.log.borrow_mut().push("stop");
        self.stops.push(now);
    }

    fn is_finished(&self) -> bool {
        self.left == 0
    }
}

fn run(line: &mut FakeLine, station: &mut FakeStation, stop: &Stop, wait: WaitStyle) -> DriveReport {
    let clock = station.clock;
    drive(line, station, &clock, stop, DriveOptions { wait }).expect("nothing fails")
}

#[test]
fn a_round_receives_advances_and_transmits_in_this_order_and_the_first_does_not_wait() {
    let log = Log::default();
    let (mut line, mut station) = (FakeLine::new(&log), FakeStation::new(&log, OsClock::new(), 3));
    let report = run(&mut line, &mut station, &Stop::new(), WaitStyle::BusyPoll);
    assert_eq!(*log.borrow(), ["receive", "advance", "transmit"].repeat(3));
    assert_eq!(report.rounds, 3);
    assert_eq!(line.waits, [Wait::No; 3]);
}

#[test]
fn the_wait_follows_the_sooner_time_out_of_station_and_line() {
    let log = Log::default();
    let clock = OsClock::new();
    let hour = Some(clock.now() + Duration::from_secs(3600));
    for (of_station, of_line) in [(0, 3), (3, 0)] {
        let near = |ms| if ms == 0 { hour } else { Some(clock.now() + Duration::from_millis(ms)) };
        let (mut line, mut station) = (FakeLine::new(&log), FakeStation::new(&log, clock, 2));
        (station.timeout, line.timeout) = (near(of_station), near(of_line));
        run(&mut line, &mut station, &Stop::new(), WaitStyle::Block);
        assert!(
            matches!(line.waits[1], Wait::For(time) if time <= Duration::from_millis(3)),
            "{:?}",
            line.waits
        );
    }
    for (timeout, expected) in [(None, Wait::Idle), (hour, Wait::Idle), (Some(Instant::ZERO), Wait::No)] {
        let (mut line, mut station) = (FakeLine::new(&log), FakeStation::new(&log, clock, 2));
        station.timeout = timeout;
        run(&mut line, &mut station, &Stop::new(), WaitStyle::Block);
        assert_eq!(line.waits, [Wait::No, expected]);
    }
}

#[test]
fn the_longest_oversleep_is_recorded() {
    let log = Log::default();
    let clock = OsClock::new();
    let (mut line, mut station) = (FakeLine::new(&log), FakeStation::new(&log, clock, 3));
    // Due already when each wait begins, since every advance takes 5 ms.
    station.timeout = Some(clock.now());
    station.slow = Duration::from_millis(5);
    let report = run(&mut line, &mut station, &Stop::new(), WaitStyle::Block);
    let worst = report.worst_oversleep;
    // Two advances lie between the due time and the last look at it; the first alone would be 5 ms.
    assert!(worst >= Duration::from_millis(10) && worst <= report.elapsed, "{report:?}");
    assert!(report.cpu >= Duration::from_millis(15) && report.cpu <= report.elapsed * 2, "{report:?}");
}

#[test]
fn a_station_that_does_not_end_is_left_after_its_patience_and_asked_once() {
    let log = Log::default();
    let (mut line, mut station) = (FakeLine::new(&log), FakeStation::new(&log, OsClock::new(), u32::MAX));
    let stop = Stop::new();
    stop.ask();
    let report = run(&mut line, &mut station, &stop, WaitStyle::Block);
    assert_eq!(station.stops.len(), 1);
    // Left at the first look after the patience. A patience begun anew would take twice as long.
    assert!(report.elapsed > STOP_PATIENCE && report.elapsed < STOP_PATIENCE * 3 / 2, "{report:?}");
    let order = log.borrow();
    assert_eq!(order[..4], ["receive", "stop", "advance", "transmit"]);
}

#[test]
fn the_end_waits_for_the_line_to_be_flushed_and_looks_often() {
    let log = Log::default();
    let (mut line, mut station) = (FakeLine::new(&log), FakeStation::new(&log, OsClock::new(), 1));
    line.unflushed = 4;
    let report = run(&mut line, &mut station, &Stop::new(), WaitStyle::Block);
    assert_eq!(report.rounds, 5);
    assert!(line.waits[1..].iter().all(|wait| matches!(wait, Wait::For(time) if *time <= FLUSH_LOOK)));
    line.flush_asked.set(0);
    line.unflushed = u32::MAX;
    let report = run(&mut line, &mut station, &Stop::new(), WaitStyle::Block);
    assert!(report.elapsed < STOP_PATIENCE * 3 / 2, "a peer that never confirms is left: {report:?}");
}

#[test]
fn an_error_of_the_line_ends_the_run() {
    let log = Log::default();
    let clock = OsClock::new();
    let (mut line, mut station) = (FakeLine::new(&log), FakeStation::new(&log, clock, u32::MAX));
    line.fails_at = Some(2);
    let result = drive(&mut line, &mut station, &clock, &Stop::new(), DriveOptions::default());
    assert_eq!(result.map(drop).expect_err("it failed").to_string(), "receiving: unplugged");
    assert_eq!(*log.borrow(), ["receive", "advance", "transmit", "receive"]);
}
