//! The request to stop, in every way of waiting, and the bell that ends a wait.
//!
//! Judged by what a line did, not by when a busy machine let its thread run again: for how long it was let wait, whether it
//! kept to that at all, and in which wait it was when it was asked.

use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Input, Instant, Transmit};
use antiphon_net::{
    DriveOptions, Fittings, IDLE, Line, LineError, OsClock, SocketOptions, Stop, TcpLine, UdpLine, Wait,
    WaitStyle, Waker, drive,
};
use antiphon_session::Station;

use crate::world::{LIMIT, local};

/// A line with a note of how it waited.
struct Watched {
    line: Box<dyn Line + Send>,
    stop: Stop,
    tell: mpsc::Sender<()>,
    /// How long it was let wait, each time, and how much longer it took.
    waits: Vec<(Duration, Duration)>,
    /// Rounds that began after the request.
    after: usize,
}

impl Line for Watched {
    fn receive(&mut self, clock: &OsClock, station: &mut dyn Station, wait: Wait) -> Result<(), LineError> {
        let allowed = match wait {
            Wait::No => Duration::ZERO,
            Wait::For(time) => time,
            Wait::Idle => IDLE,
        };
        self.after += usize::from(self.stop.is_asked());
        let start = clock.now();
        let result = self.line.receive(clock, station, wait);
        self.waits.push((allowed, clock.now().since(start).saturating_sub(allowed)));
        if self.waits.len() == ROUNDS {
            self.tell.send(()).expect("the test waits");
        }
        result
    }

    fn transmit(&mut self, now: Instant, station: &mut dyn Station) -> Result<(), LineError> {
        self.line.transmit(now, station)
    }

    fn fittings(&self) -> &Fittings {
        self.line.fittings()
    }

    fn fittings_mut(&mut self) -> &mut Fittings {
        self.line.fittings_mut()
    }
}

/// Has nothing to do until it is stopped but to wait for a timer, again and again.
struct Idler {
    timer: Option<Duration>,
    timeout: Option<Instant>,
    stopped: bool,
}

impl Station for Idler {
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

/// Lines of each kind that wait: for datagrams, for callers, for bytes.
fn lines(far: &TcpLine) -> [Box<dyn Line + Send>; 3] {
    let options = SocketOptions::default();
    [
        Box::new(UdpLine::listen(local("127.0.0.1:0"), &options).expect("a free port")),
        Box::new(TcpLine::listen(local("127.0.0.1:0"), &options).expect("a free port")),
        Box::new(TcpLine::call(far.local_address(), &options).expect("it listens")),
    ]
}

fn far() -> TcpLine {
    TcpLine::listen(local("127.0.0.1:0"), &SocketOptions::default()).expect("a free port")
}

#[test]
fn a_request_to_stop_is_noticed_within_a_tenth_of_a_second_however_the_line_waits() {
    let (clock, far) = (OsClock::new(), far());
    // Asleep in the receiving call; on a timer just short of what counts as idle; on later ones; never asleep.
    let timers = [None, Some(2 * IDLE - Duration::from_millis(1)), Some(3 * IDLE), Some(HOUR)];
    let ways = timers.map(|timer| (WaitStyle::Block, timer)).into_iter().chain([(WaitStyle::BusyPoll, None)]);
    for (wait, timer) in ways {
        for line in lines(&far) {
            let ((tell, told), stop) = (mpsc::channel(), Stop::new());
            let mut watched = Watched { line, stop: stop.clone(), tell, waits: Vec::new(), after: 0 };
            let asked = stop.clone();
            let thread = std::thread::spawn(move || {
                let mut idler = Idler { timer, timeout: None, stopped: false };
                drive(&mut watched, &mut idler, &clock, &asked, DriveOptions { wait }).expect("it lives");
                watched
            });
            told.recv_timeout(LIMIT).expect("it goes round, and does not sleep for ever");
            stop.ask();
            let watched = thread.join().expect("no panic");
            let way = format!("{wait:?}, timer {timer:?}: {:?}", &watched.waits[..ROUNDS]);
            // It looks after each wait. One more may have begun between its look and the request.
            assert!(watched.after <= 1, "{way}");
            let longest = watched.waits.iter().map(|(allowed, _)| *allowed).max();
            assert!(longest <= Some(Duration::from_millis(100)), "{way}");
            // The least of several, since a busy machine wakes a thread late now and then, and a line that does not keep
            // to what it was told does so always: by an IDLE at least, and nothing here waits for more than two.
            let least = watched.waits.iter().skip(1).map(|(_, over)| *over).min();
            assert!(least < Some(IDLE / 2), "{way}");
        }
    }
}

#[test]
fn a_bell_ends_the_wait_of_every_line() {
    let (clock, far) = (OsClock::new(), far());
    for mut line in lines(&far) {
        let bell = Waker::new().expect("an event descriptor");
        line.set_waker(bell.clone());
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut idler = Idler { timer: None, timeout: None, stopped: false };
            // Rung before the wait, and in it; a ring that was heard does not count again.
            for _ in 0..2 {
                line.receive(&clock, &mut idler, Wait::For(HOUR)).expect("it lives");
                tell.send(()).expect("the test waits");
            }
        });
        bell.wake();
        told.recv_timeout(LIMIT).expect("rung before, or while, it waited");
        let again = told.recv_timeout(IDLE);
        assert_eq!(again, Err(mpsc::RecvTimeoutError::Timeout), "nobody rang again");
        bell.wake();
        told.recv_timeout(LIMIT).expect("rung while it waited");
    }
}

/// Rounds that a line is seen in before it is asked to stop: the first does not wait.
const ROUNDS: usize = 5;
/// Longer than any test may take.
const HOUR: Duration = Duration::from_secs(3600);
