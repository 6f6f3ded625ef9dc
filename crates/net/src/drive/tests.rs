use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use antiphon_core::{Input, Instant, Lent, OneWire, PathId, Single, Transmit, Wire, WireId, WireView};

use super::*;
use crate::line::{Line, LineCommon};
use crate::poll::Readiness;

type Log = Rc<RefCell<Vec<&'static str>>>;

/// Does not wait on anything; records every call, and how it was told to wait.
struct FakeLine {
    log: Log,
    waits: Vec<Wait>,
    fails_at: Option<usize>,
    unflushed: u32,
    flush_asked: std::cell::Cell<u32>,
    timeout: Option<Instant>,
    last_reports: u32,
    common: LineCommon,
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
            last_reports: 0,
            common: LineCommon::new(([127, 0, 0, 1], 1).into(), Vec::new()),
        }
    }
}

impl Line for &mut FakeLine {
    fn receive(
        &mut self,
        clock: &OsClock,
        _participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        self.log.borrow_mut().push("receive");
        self.waits.push(wait);
        if self.fails_at == Some(self.waits.len()) {
            let source = std::io::Error::other("unplugged");
            return Err(LineError::System { what: "receiving".into(), source });
        }
        // Time passes as if the thread had slept for the whole wait.
        let time = match wait {
            Wait::No => Duration::ZERO,
            Wait::For(time) => time,
            Wait::Idle => IDLE,
        };
        let start = clock.now();
        while clock.now().since(start) < time {
            std::hint::spin_loop();
        }
        Ok(clock.now())
    }

    fn transmit(&mut self, _now: Instant, _participant: &mut WireView<'_>) -> Result<(), LineError> {
        self.log.borrow_mut().push("transmit");
        Ok(())
    }

    fn report(&mut self, _now: Instant, _participant: &mut WireView<'_>, last: bool) {
        self.last_reports += u32::from(last);
    }

    fn wire(&self) -> Wire {
        Wire::Datagram
    }

    fn watch(&self, _each: &mut dyn FnMut(BorrowedFd<'_>, Readiness)) {}

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn is_flushed(&self) -> bool {
        self.flush_asked.set(self.flush_asked.get() + 1);
        self.flush_asked.get() > self.unflushed
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

struct FakeParticipant {
    log: Log,
    timeout: Option<Instant>,
    /// Rounds until it is finished.
    left: u32,
    stops: Vec<Instant>,
    /// Processor time of an advance; the second takes three times as much.
    slow: Duration,
    /// It is due again this long after each advance began.
    again: Option<Duration>,
    advances: u32,
    clock: OsClock,
}

impl FakeParticipant {
    fn new(log: &Log, clock: OsClock, left: u32) -> Self {
        FakeParticipant {
            log: log.clone(),
            timeout: None,
            left,
            stops: Vec::new(),
            slow: Duration::ZERO,
            again: None,
            advances: 0,
            clock,
        }
    }
}

impl OneWire for FakeParticipant {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn advance(&mut self, now: Instant) {
        self.log.borrow_mut().push("advance");
        self.left = self.left.saturating_sub(1);
        self.advances += 1;
        let slow = if self.advances == 2 { 3 * self.slow } else { self.slow };
        self.timeout = self.again.map_or(self.timeout, |again| Some(now + again));
        let start = thread_cpu_time();
        while thread_cpu_time() - start < slow {
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

fn drive_one(
    line: &mut FakeLine,
    participant: &mut FakeParticipant,
    clock: &OsClock,
    stop: &Stop,
    options: DriveOptions,
) -> Result<DriveReport, LineError> {
    let mut lines = Lines::new();
    lines.add(WireId(0), Box::new(line)).expect("it is the first");
    drive(&mut lines, &mut Single::new(Lent(participant)), clock, stop, options)
}

fn run(line: &mut FakeLine, participant: &mut FakeParticipant, stop: &Stop, wait: WaitStyle) -> DriveReport {
    let clock = participant.clock;
    drive_one(line, participant, &clock, stop, DriveOptions { wait }).expect("nothing fails")
}

#[test]
fn a_round_receives_advances_then_transmits() {
    let log = Log::default();
    let (mut line, mut participant) = (FakeLine::new(&log), FakeParticipant::new(&log, OsClock::new(), 3));
    let report = run(&mut line, &mut participant, &Stop::new(), WaitStyle::BusyPoll);
    assert_eq!(*log.borrow(), ["receive", "advance", "transmit"].repeat(3));
    assert_eq!(report.rounds, 3);
    assert_eq!(line.waits, [Wait::No; 3]);
}

#[test]
fn the_wait_follows_the_sooner_time_out_of_station_and_line() {
    let log = Log::default();
    let clock = OsClock::new();
    let hour = Some(clock.now() + Duration::from_secs(3600));
    for (of_participant, of_line) in [(0, 3), (3, 0)] {
        let near = |ms| if ms == 0 { hour } else { Some(clock.now() + Duration::from_millis(ms)) };
        // Where the machine stands still before the wait, it is over already: then once more.
        let waited = (0..5).find_map(|_| {
            let (mut line, mut participant) = (FakeLine::new(&log), FakeParticipant::new(&log, clock, 2));
            (participant.timeout, line.timeout) = (near(of_participant), near(of_line));
            run(&mut line, &mut participant, &Stop::new(), WaitStyle::Block);
            line.waits.get(1).copied().filter(|wait| *wait != Wait::No)
        });
        assert!(
            matches!(waited, Some(Wait::For(time)) if time <= Duration::from_millis(3)),
            "{waited:?} where {of_participant} and {of_line} ms are left"
        );
    }
    for (timeout, expected) in [(None, Wait::Idle), (hour, Wait::Idle), (Some(Instant::ZERO), Wait::No)] {
        let (mut line, mut participant) = (FakeLine::new(&log), FakeParticipant::new(&log, clock, 2));
        line.timeout = timeout;
        run(&mut line, &mut participant, &Stop::new(), WaitStyle::Block);
        assert_eq!(line.waits, [Wait::No, expected]);
        // A participant that is due at once is advanced several times in a round, so its rounds are counted by its line's.
        let (mut line, mut participant) = (FakeLine::new(&log), FakeParticipant::new(&log, clock, u32::MAX));
        participant.timeout = timeout;
        participant.again = timeout.filter(|due| *due == Instant::ZERO).map(|_| Duration::ZERO);
        line.fails_at = Some(3);
        drive_one(&mut line, &mut participant, &clock, &Stop::new(), DriveOptions::default())
            .expect_err("it fails in the third round");
        assert_eq!(line.waits, [Wait::No, expected, expected]);
    }
}

#[test]
fn the_longest_oversleep_is_recorded() {
    let log = Log::default();
    let clock = OsClock::new();
    let (mut line, mut participant) = (FakeLine::new(&log), FakeParticipant::new(&log, clock, 3));
    // Due a millisecond after each round began, and checked after the advance, which takes 5 ms and then 15 ms.
    participant.again = Some(Duration::from_millis(1));
    participant.slow = Duration::from_millis(5);
    let report = run(&mut line, &mut participant, &Stop::new(), WaitStyle::Block);
    let worst = report.worst_oversleep;
    // The second advance is the longest; the others alone would be 4 ms.
    assert!(worst >= Duration::from_millis(14) && worst <= report.elapsed, "{report:?}");
    assert!(report.cpu >= Duration::from_millis(25) && report.cpu <= report.elapsed * 2, "{report:?}");
}

#[test]
fn a_participant_that_does_not_end_is_asked_once_and_left() {
    let log = Log::default();
    let (mut line, mut participant) =
        (FakeLine::new(&log), FakeParticipant::new(&log, OsClock::new(), u32::MAX));
    let stop = Stop::new();
    stop.ask();
    let report = run(&mut line, &mut participant, &stop, WaitStyle::Block);
    assert_eq!(participant.stops.len(), 1);
    // Given up at the first check after the patience. A patience that started again would take twice as long.
    assert!(report.elapsed > STOP_PATIENCE && report.elapsed < STOP_PATIENCE * 3 / 2, "{report:?}");
    let order = log.borrow();
    assert_eq!(order[..4], ["receive", "stop", "advance", "transmit"]);
}

#[test]
fn the_end_waits_for_the_line_to_be_flushed_and_looks_often() {
    let log = Log::default();
    let (mut line, mut participant) = (FakeLine::new(&log), FakeParticipant::new(&log, OsClock::new(), 1));
    line.unflushed = 4;
    let report = run(&mut line, &mut participant, &Stop::new(), WaitStyle::Block);
    assert_eq!(report.rounds, 5);
    assert!(line.waits[1..].iter().all(|wait| matches!(wait, Wait::For(time) if *time <= FLUSH_LOOK)));
    assert_eq!(line.last_reports, 1, "the kernel's last figures are asked for once");
    line.flush_asked.set(0);
    line.unflushed = u32::MAX;
    let report = run(&mut line, &mut participant, &Stop::new(), WaitStyle::Block);
    assert!(report.elapsed < STOP_PATIENCE * 3 / 2, "a peer that never confirms is left: {report:?}");
}

#[test]
fn an_error_of_the_line_ends_the_run() {
    let log = Log::default();
    let clock = OsClock::new();
    let (mut line, mut participant) = (FakeLine::new(&log), FakeParticipant::new(&log, clock, u32::MAX));
    line.fails_at = Some(2);
    let result = drive_one(&mut line, &mut participant, &clock, &Stop::new(), DriveOptions::default());
    assert_eq!(result.map(drop).expect_err("it failed").to_string(), "receiving: unplugged");
    assert_eq!(*log.borrow(), ["receive", "advance", "transmit", "receive"]);
}

#[test]
fn a_participant_that_is_never_quiet_is_given_up_and_named() {
    let log = Log::default();
    let clock = OsClock::new();
    let (mut line, mut participant) = (FakeLine::new(&log), FakeParticipant::new(&log, clock, u32::MAX));
    participant.again = Some(Duration::ZERO);
    let result = drive_one(&mut line, &mut participant, &clock, &Stop::new(), DriveOptions::default());
    let told = result.expect_err("it never ends by itself").to_string();
    // The test's thread has the test's name.
    assert!(told.contains("never_quiet") && told.contains("without end"), "{told}");
    assert_eq!(participant.advances, MOST_BUSY * antiphon_core::MOST_ROUNDS as u32);
}
