//! The request to stop, in every way of waiting.

use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Input, Instant, Transmit};
use antiphon_net::{
    DriveOptions, IDLE, Line, OsClock, SocketOptions, Stop, TcpLine, UdpLine, WaitStyle, drive,
};
use antiphon_session::Station;

use crate::world::local;

/// Has nothing to do until it is stopped; says when it was first run and when it was stopped.
struct Idler {
    tell: Option<mpsc::Sender<()>>,
    timeout: Option<Instant>,
    stopped: Option<Instant>,
}

impl Station for Idler {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn advance(&mut self, _now: Instant) {
        if let Some(tell) = self.tell.take() {
            tell.send(()).expect("the test waits");
        }
    }

    fn poll_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn stop(&mut self, now: Instant) {
        self.stopped = Some(now);
    }

    fn is_finished(&self) -> bool {
        self.stopped.is_some()
    }
}

#[test]
fn a_request_to_stop_is_noticed_within_a_tenth_of_a_second_however_the_line_waits() {
    let clock = OsClock::new();
    let far = TcpLine::listen(local("127.0.0.1:0"), &SocketOptions::default()).expect("a free port");
    // Asleep in the receiving call; on a timer just short of what counts as idle; on one an hour off; never asleep.
    let timers = [None, Some(2 * IDLE - Duration::from_millis(1)), Some(Duration::from_secs(3600))];
    let ways = timers.map(|timer| (WaitStyle::Block, timer)).into_iter().chain([(WaitStyle::BusyPoll, None)]);
    for (wait, timer) in ways {
        let options = SocketOptions::default();
        let lines: [Box<dyn Line + Send>; 3] = [
            Box::new(UdpLine::listen(local("127.0.0.1:0"), &options).expect("a free port")),
            Box::new(TcpLine::listen(local("127.0.0.1:0"), &options).expect("a free port")),
            Box::new(TcpLine::call(far.local_address(), &options).expect("it listens")),
        ];
        for mut line in lines {
            let (tell, told) = mpsc::channel();
            let stop = Stop::new();
            let asked = stop.clone();
            let thread = std::thread::spawn(move || {
                let timeout = timer.map(|timer| clock.now() + timer);
                let mut idler = Idler { tell: Some(tell), timeout, stopped: None };
                drive(&mut *line, &mut idler, &clock, &asked, DriveOptions { wait }).expect("it lives");
                idler.stopped
            });
            told.recv().expect("it runs");
            let start = clock.now();
            stop.ask();
            let stopped = thread.join().expect("no panic").expect("stopped");
            let took = stopped.since(start);
            // A busy machine wakes a thread late, seen: by 10 ms. Who does not look while it waits takes an hour.
            assert!(took <= Duration::from_millis(250), "{wait:?}, timer {timer:?}: {took:?}");
        }
    }
}
