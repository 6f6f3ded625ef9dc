//! The request to stop, in every way of waiting, and the waker that ends a wait.
//!
//! Judged by what a line did, not by when a busy machine let its thread run again: how long it was told to wait,
//! whether it did so, and in which wait it was when it was asked to stop.

use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Input, Instant, Lent, OneWire, Single, Transmit, WireId, WireView};
use antiphon_net::{
    DriveOptions, IDLE, Line, LineError, Lines, OsClock, SocketOptions, Stop, TcpLine, TcpListening, UdpLine,
    Wait, WaitStyle, Waker, drive_each, round,
};

use crate::party::{Layered, LineLayer, drive_one};
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
    told: bool,
}

/// Whether these waits are enough to judge by the shortest, which is to last less than `most`: all of a busy machine's may be
/// long for a while.
fn are_enough(waits: impl ExactSizeIterator<Item = Duration>, most: Duration) -> bool {
    let count = waits.len();
    count >= MOST_ROUNDS || (count >= ROUNDS && waits.min() < Some(most))
}

impl LineLayer for Watched {
    fn inner(&self) -> &(dyn Line + '_) {
        &*self.line
    }

    fn inner_mut(&mut self) -> &mut (dyn Line + '_) {
        &mut *self.line
    }

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
        // The first does not wait.
        if !self.told && are_enough(self.waits.iter().skip(1).map(|(_, over)| *over), IDLE / 2) {
            self.told = true;
            self.tell.send(()).expect("the test waits");
        }
        result
    }
}

/// Only waits for a timer, repeatedly, until it is stopped.
#[derive(Default)]
struct Idler {
    timer: Option<Duration>,
    timeout: Option<Instant>,
    stopped: bool,
}

impl OneWire for Idler {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn advance(&mut self, now: Instant) {
        self.timeout = self.timer.map(|timer| now + timer);
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

/// The ways of waiting: asleep in the receiving call; on a timer just short of what counts as idle; on later ones; never
/// asleep.
fn ways() -> impl Iterator<Item = (WaitStyle, Option<Duration>)> {
    let timers = [None, Some(2 * IDLE - Duration::from_millis(1)), Some(3 * IDLE), Some(HOUR)];
    timers.map(|timer| (WaitStyle::Block, timer)).into_iter().chain([(WaitStyle::BusyPoll, None)])
}

/// A socket that waits for callers, with no line beside it.
fn only_callers() -> Lines<'static> {
    let mut lines = Lines::new();
    lines.listen(WireId(0), far()).expect("it is the first");
    lines
}

/// The wait for callers is no line's, so its length is seen from outside: from the end of a round to when the next one had
/// waited.
#[test]
fn a_stop_is_noticed_while_only_callers_are_waited_for() {
    let clock = OsClock::new();
    for (wait, timer) in ways() {
        let (stop, (tell, told)) = (Stop::new(), mpsc::channel());
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut waits, mut after, mut round_end, mut is_told) = (Vec::new(), 0, None, false);
            let mut each = |now: Instant, idler: &mut Single<Idler>, _: &mut Lines<'_>| {
                waits.extend(round_end.map(|end| now.since(end)));
                if !is_told && are_enough(waits.iter().copied(), IDLE + IDLE / 2) {
                    is_told = true;
                    tell.send(()).expect("the test waits");
                }
                // Another round begins, although the request is there.
                after += usize::from(!idler.get_mut().stopped && asked.is_asked());
                round_end = Some(clock.now());
            };
            let mut idler = Single::new(Idler { timer, ..Idler::default() });
            let options = DriveOptions { wait };
            drive_each(&mut only_callers(), &mut idler, &clock, &asked, options, &mut each)
                .expect("it lives");
            (idler.into_inner().stopped, waits, after)
        });
        told.recv_timeout(LIMIT).expect("it goes round, and does not sleep for ever");
        stop.ask();
        let (stopped, waits, after) = thread.join().expect("no panic");
        let way = format!("{wait:?}, timer {timer:?}: {:?}", &waits[..ROUNDS]);
        assert!(stopped && after <= 1, "{after} rounds after the request; {way}");
        // All are let wait equally long, since the timer is set anew in each round. So the least is the longest that is
        // allowed, and what a busy machine adds now and then is not in it.
        let least = waits.iter().min().copied();
        assert!(least < Some(IDLE + IDLE / 2), "{way}");
    }
}

/// A wait for callers lasts for [`IDLE`], however long it may, so that it ended sooner is what tells of the waker.
#[test]
fn a_waker_ends_the_wait_for_callers() {
    let (clock, waker) = (OsClock::new(), Waker::new().expect("an event descriptor"));
    let mut lines = only_callers();
    lines.set_waker(waker.clone());
    let mut idler = Single::new(Idler::default());
    let mut wait = || {
        let start = clock.now();
        round(&mut lines, &mut idler, &clock, Wait::For(LIMIT)).expect("it lives");
        clock.now().since(start)
    };
    // The socket is new in the first round, which does not wait.
    wait();
    let (mut before, mut during, mut unused) = (Vec::new(), Vec::new(), Vec::new());
    let is_short = |waits: &[Duration]| waits.iter().min() < Some(&(IDLE / 2));
    // A busy machine's thread may come late for some time.
    while before.len() < ROUNDS || (before.len() < MOST_ROUNDS && !(is_short(&before) && is_short(&during))) {
        waker.wake();
        before.push(wait());
        unused.push(wait());
        let (other, pause) = (waker.clone(), Waker::new().expect("an event descriptor"));
        let thread = std::thread::spawn(move || {
            pause.wait(IDLE / 10);
            other.wake();
        });
        during.push(wait());
        thread.join().expect("no panic");
        // Where this thread came too late for its own wait, the use is still there.
        waker.wait(Duration::ZERO);
    }
    // The least of several, since a busy machine wakes a thread late now and then.
    for (waits, most) in [(&before, IDLE / 2), (&during, IDLE / 2), (&unused, IDLE + IDLE / 2)] {
        assert!(waits.iter().min() < Some(&most), "{waits:?}");
    }
    // The greatest of several, since the timer of a wait that was ended may end the next one early.
    assert!(unused.iter().max() > Some(&(IDLE / 2)), "a use that ended a wait ended another: {unused:?}");
}

#[test]
fn a_stop_is_noticed_within_a_tenth_of_a_second() {
    let (clock, far) = (OsClock::new(), far());
    for (wait, timer) in ways() {
        for line in lines(&far) {
            let ((tell, told), stop) = (mpsc::channel(), Stop::new());
            let watched =
                Watched { line, stop: stop.clone(), tell, waits: Vec::new(), after: 0, told: false };
            let asked = stop.clone();
            let thread = std::thread::spawn(move || {
                let mut idler = Idler { timer, ..Idler::default() };
                let mut line = Layered(watched);
                drive_one(&mut line, &mut idler, &clock, &asked, DriveOptions { wait }).expect("it lives");
                line.0
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

/// Rounds before a line is asked to stop, and those that are watched at most.
const ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 50;
/// Longer than any test may take.
const HOUR: Duration = Duration::from_secs(3600);
