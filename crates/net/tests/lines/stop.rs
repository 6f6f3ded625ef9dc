//! The request to stop, in every way of waiting, and the waker that ends a wait.
//!
//! Judged by what a line did, not by when a busy machine let its thread run again: how long it was told to wait,
//! whether it did so, and in which wait it was when it was asked to stop.

use std::os::fd::BorrowedFd;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Input, Instant, Lent, OneWire, Single, Transmit, Wire, WireId, WireView};
use antiphon_net::{
    DriveOptions, IDLE, Line, LineCommon, LineError, Lines, OsClock, Readiness, SocketOptions, Stop, TcpLine,
    TcpListening, UdpLine, Wait, WaitStyle, Waker, drive,
};

use crate::party::drive_one;
use crate::world::{LIMIT, local};

/// A line with a record of how it waited.
struct Watched {
    line: Box<dyn Line + Send>,
    stop: Stop,
    tell: mpsc::Sender<()>,
    /// How long it was told to wait, each time, and how much longer it took.
    waits: Vec<(Duration, Duration)>,
    /// Rounds that began after the request.
    after: usize,
}

impl Line for Watched {
    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        let allowed = match wait {
            Wait::No => Duration::ZERO,
            Wait::For(time) => time,
            Wait::Idle => IDLE,
        };
        self.after += usize::from(self.stop.is_asked());
        let start = clock.now();
        let result = self.line.receive(clock, participant, wait);
        self.waits.push((allowed, clock.now().since(start).saturating_sub(allowed)));
        if self.waits.len() == ROUNDS {
            self.tell.send(()).expect("the test waits");
        }
        result
    }

    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError> {
        self.line.transmit(now, participant)
    }

    fn report(&mut self, now: Instant, participant: &mut WireView<'_>, last: bool) {
        self.line.report(now, participant, last);
    }

    fn wire(&self) -> Wire {
        self.line.wire()
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness)) {
        self.line.watch(each);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.line.poll_timeout()
    }

    fn is_flushed(&self) -> bool {
        self.line.is_flushed()
    }

    fn is_over(&self) -> bool {
        self.line.is_over()
    }

    fn facts(&self) -> Vec<String> {
        self.line.facts()
    }

    fn common(&self) -> &LineCommon {
        self.line.common()
    }

    fn common_mut(&mut self) -> &mut LineCommon {
        self.line.common_mut()
    }
}

/// Only waits for a timer, repeatedly, until it is stopped.
#[derive(Default)]
struct Idler {
    timer: Option<Duration>,
    timeout: Option<Instant>,
    stopped: bool,
    /// When its rounds were, the first few.
    rounds: Vec<Instant>,
    /// Reported after these.
    tell: Option<mpsc::Sender<()>>,
}

impl OneWire for Idler {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn advance(&mut self, now: Instant) {
        self.timeout = self.timer.map(|timer| now + timer);
        if self.rounds.len() < ROUNDS {
            self.rounds.push(now);
        } else if let Some(tell) = self.tell.take() {
            tell.send(()).expect("the test waits");
        }
    }

    fn poll_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn stop(&mut self, _now: Instant) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        self.stopped
    }
}

/// Lines of each kind of waiting: for datagrams, for bytes.
fn lines(far: &TcpListening) -> [Box<dyn Line + Send>; 2] {
    let options = SocketOptions::default();
    [
        Box::new(UdpLine::listen(local("127.0.0.1:0"), &options).expect("a free port")),
        Box::new(TcpLine::call(far.local_address(), &options).expect("it listens")),
    ]
}

fn far() -> TcpListening {
    TcpListening::bind(local("127.0.0.1:0"), &SocketOptions::default()).expect("a free port")
}

/// Where callers are waited for, each round is as long as the wait before it.
#[test]
fn waiting_for_callers_ends_on_a_request_to_stop() {
    let clock = OsClock::new();
    for wait in [WaitStyle::Block, WaitStyle::BusyPoll] {
        for timer in [None, Some(HOUR)] {
            let (stop, (tell, told)) = (Stop::new(), mpsc::channel());
            let asked = stop.clone();
            let thread = std::thread::spawn(move || {
                let mut lines = Lines::new();
                lines.listen(WireId(0), far()).expect("it is the first");
                let mut idler = Single::new(Idler { timer, ..Idler::default() });
                idler.get_mut().tell = Some(tell);
                drive(&mut lines, &mut idler, &clock, &asked, DriveOptions { wait }).expect("it lives");
                idler.into_inner()
            });
            told.recv_timeout(LIMIT).expect("it goes round, and does not sleep for ever");
            stop.ask();
            let idler = thread.join().expect("no panic");
            assert!(idler.stopped);
            // The least of several, since a busy machine sometimes wakes a thread late.
            let least = idler.rounds.windows(2).map(|pair| pair[1].since(pair[0])).min();
            assert!(least <= Some(2 * IDLE), "{wait:?}, timer {timer:?}: {least:?}");
        }
    }
}

#[test]
fn a_stop_is_noticed_within_a_tenth_of_a_second() {
    let (clock, far) = (OsClock::new(), far());
    // Asleep in the receiving call; on a timer just below the idle time; on later ones; never asleep.
    let timers = [None, Some(2 * IDLE - Duration::from_millis(1)), Some(3 * IDLE), Some(HOUR)];
    let ways = timers.map(|timer| (WaitStyle::Block, timer)).into_iter().chain([(WaitStyle::BusyPoll, None)]);
    for (wait, timer) in ways {
        for line in lines(&far) {
            let ((tell, told), stop) = (mpsc::channel(), Stop::new());
            let mut watched = Watched { line, stop: stop.clone(), tell, waits: Vec::new(), after: 0 };
            let asked = stop.clone();
            let thread = std::thread::spawn(move || {
                let mut idler = Idler { timer, ..Idler::default() };
                drive_one(&mut watched, &mut idler, &clock, &asked, DriveOptions { wait }).expect("it lives");
                watched
            });
            told.recv_timeout(LIMIT).expect("it goes round, and does not sleep for ever");
            stop.ask();
            let watched = thread.join().expect("no panic");
            let way = format!("{wait:?}, timer {timer:?}: {:?}", &watched.waits[..ROUNDS]);
            // It checks after each wait. One more may have begun between its check and the request.
            assert!(watched.after <= 1, "{way}");
            let longest = watched.waits.iter().map(|(allowed, _)| *allowed).max();
            assert!(longest <= Some(Duration::from_millis(100)), "{way}");
            // The least of several, since a busy machine sometimes wakes a thread late, whereas a line that ignores its
            // limit does so always: by an IDLE at least, and nothing here waits for more than two.
            let least = watched.waits.iter().skip(1).map(|(_, over)| *over).min();
            assert!(least < Some(IDLE / 2), "{way}");
        }
    }
}

#[test]
fn a_waker_ends_the_wait_of_every_line() {
    let (clock, far) = (OsClock::new(), far());
    for mut line in lines(&far) {
        let waker = Waker::new().expect("an event descriptor");
        line.set_waker(waker.clone());
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut idler = Idler::default();
            // Used before the wait, and during it; a use that has ended a wait does not count again.
            for _ in 0..2 {
                line.receive(
                    &clock,
                    &mut WireView::new(&mut Single::new(Lent(&mut idler)), WireId(0)),
                    Wait::For(HOUR),
                )
                .expect("it lives");
                tell.send(()).expect("the test waits");
            }
        });
        waker.wake();
        told.recv_timeout(LIMIT).expect("rung before, or while, it waited");
        let again = told.recv_timeout(IDLE);
        assert_eq!(again, Err(mpsc::RecvTimeoutError::Timeout), "it was not used again");
        waker.wake();
        told.recv_timeout(LIMIT).expect("rung while it waited");
    }
}

/// Rounds before a line is asked to stop: the first does not wait.
const ROUNDS: usize = 5;
/// Longer than any test may take.
const HOUR: Duration = Duration::from_secs(3600);
