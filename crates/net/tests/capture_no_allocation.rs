//! A tap neither allocates nor frees on the media thread: counted per thread by the allocator itself.

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
    let (_dir, capture, mut tap) = capture();
    let address = |port: u16| ([127, 0, 0, 1], port).into();
    let ends = Ends { local: address(1), peer: address(2) };
    let bytes = [0; 1_400];
    let allocated = Counting::calls(|| {
        // As fast as the loop runs, and more than the ring holds between two looks of the writer.
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
    assert!(capture.finish().expect("room on the disk").dropped > 0, "no overflow was provoked");
}

/// Sends so many datagrams to a closed port.
struct Talker(u32);

impl OneWire for Talker {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}
    fn advance(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, _now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.0 = self.0.checked_sub(1)?;
        buf[..100].fill(self.0 as u8);
        Some(Transmit { path: PathId::default(), len: 100 })
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn stop(&mut self, _now: Instant) {}
    fn is_finished(&self) -> bool {
        self.0 == 0
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
        for (lines, count) in ends.iter_mut().zip([count, 0]) {
            round(lines, &mut Single::new(Talker(count)), &clock, Wait::No).expect("loopback");
        }
    };
    // The first datagram makes the far line remember an address.
    talk(1);
    assert_eq!(Counting::calls(|| talk(100)), 0);
    drop(ends);
    let summary = capture.finish().expect("room on the disk");
    assert_eq!((summary.packets, summary.dropped), (2 * 101, 0));
}
