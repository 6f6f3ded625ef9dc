//! A tap neither allocates nor frees on the media thread: the allocator counts per thread.

use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Input, Instant, OneWire, PathId, Single, Transmit, WireId};
use antiphon_net::capture::{Direction, Ending, Ends};
use antiphon_net::{Capture, Line, Lines, OsClock, SocketOptions, Tap, UdpLine, Wait, round};
use antiphon_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn capture() -> (tempfile::TempDir, Capture, Tap) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let capture = Capture::create(dir.path().join("taken.pcapng"), OsClock::new()).expect("a file");
    let tap = capture.tap("one");
    (dir, capture, tap)
}

#[test]
fn the_counter_counts() {
    assert_eq!(Counting::calls(|| drop(std::hint::black_box(Box::new(7)))), 2);
    assert_eq!(Counting::calls(|| ()), 0);
}

#[test]
fn a_tap_does_not_allocate_even_when_it_overflows() {
    // Into a pipe that nobody reads meanwhile, so that the writer can't keep up, however fast it is.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let (is_over, over) = mpsc::channel();
    let read = pipe.clone();
    let reader = std::thread::spawn(move || {
        let mut pipe = std::fs::File::open(read).expect("a pipe");
        over.recv().expect("the test goes on");
        std::io::copy(&mut pipe, &mut std::io::sink()).expect("to its end")
    });
    let capture = Capture::create(pipe, OsClock::new()).expect("a file");
    let mut tap = capture.tap("one");
    let address = |port: u16| ([127, 0, 0, 1], port).into();
    let ends = Ends { local: address(1), peer: address(2) };
    let bytes = [0; 1_400];
    let allocated = Counting::calls(|| {
        // More than the ring and the pipe hold.
        for n in 0..20_000 {
            let at = Instant::from_nanos(n);
            tap.datagram(Direction::Sent, at, ends, &bytes);
            if n % 100 == 0 {
                tap.opened(Direction::Received, at, ends);
            }
            tap.stream(Direction::Received, at, &bytes);
            if n % 100 == 99 {
                tap.closed(Ending::Finished(Direction::Sent), at);
            }
        }
    });
    assert_eq!(allocated, 0);
    drop(tap);
    is_over.send(()).expect("it waits");
    assert!(capture.finish().expect("the pipe is read").dropped > 0, "no overflow was provoked");
    assert!(reader.join().expect("no panic") > 0);
}

/// Sends so many datagrams, or waits for so many.
struct Talker {
    to_send: u32,
    to_come: u32,
}

impl OneWire for Talker {
    fn handle_input(&mut self, _now: Instant, input: Input<'_>) {
        if let Input::Datagram { .. } = input {
            self.to_come = self.to_come.checked_sub(1).expect("no more than were sent");
        }
    }
    fn advance(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, _now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.to_send = self.to_send.checked_sub(1)?;
        buf[..100].fill(self.to_send as u8);
        Some(Transmit { path: PathId::default(), len: 100 })
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn stop(&mut self, _now: Instant) {}
    fn is_finished(&self) -> bool {
        self.to_send == 0 && self.to_come == 0
    }
}

#[test]
fn a_tapped_line_does_not_allocate() {
    let (_dir, capture, tap) = capture();
    let clock = OsClock::new();
    let options = SocketOptions::default();
    let local = ([127, 0, 0, 1], 0).into();
    let mut far = UdpLine::listen(local, &options).expect("loopback");
    let mut near = UdpLine::call(far.local_address(), &options).expect("loopback");
    let far_tap = capture.tap("two");
    near.set_tap(tap);
    far.set_tap(far_tap);
    let mut ends = [near, far].map(|line| {
        let mut lines = Lines::new();
        lines.add(WireId(0), Box::new(line)).expect("it is the first");
        lines
    });
    let mut talk = |count| {
        let [near, far] = &mut ends;
        let mut talker = Single::new(Talker { to_send: count, to_come: 0 });
        round(near, &mut talker, &clock, Wait::No).expect("loopback");
        // A busy kernel delivers later, and in several batches.
        let mut hearer = Single::new(Talker { to_send: 0, to_come: count });
        let patience = clock.now() + Duration::from_secs(10);
        while !hearer.get().is_finished() {
            assert!(clock.now() < patience, "datagrams are missing");
            round(far, &mut hearer, &clock, Wait::Idle).expect("loopback");
        }
    };
    // The first datagram makes the far line store an address.
    talk(1);
    assert_eq!(Counting::calls(|| talk(100)), 0);
    drop(ends);
    let summary = capture.finish().expect("room on the disk");
    assert_eq!((summary.packets, summary.dropped), (2 * 101, 0));
}
