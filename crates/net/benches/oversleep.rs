//! How late the media thread handles time-outs: a participant that is due at regular times, on a UDP line that receives
//! nothing, and on one that receives a datagram every 0.7 ms.
//!
//! Prints one JSON object a line: `{"bench":"oversleep","period_ms":1,"traffic":false,"p50_us":…,"p99_us":…,"worst_us":…}`.

#[path = "../tests/common/party.rs"]
mod party;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon_core::{Input, Instant, OneWire, Transmit};
use antiphon_net::{DriveOptions, Line, OsClock, SocketOptions, Stop, UdpLine, Waker, become_media_thread};

use crate::party::drive_one;

/// How long each row is measured.
const RUN: Duration = Duration::from_secs(3);
/// The schedule does not stay synchronous with the kernel's ticks for long.
const PERIODS: [f64; 5] = [1.0, 5.3, 12.7, 21.3, 64.1];

fn main() {
    for traffic in [false, true] {
        for period in PERIODS {
            measure(period, traffic);
        }
    }
}

fn measure(period_ms: f64, traffic: bool) {
    let clock = OsClock::new();
    let mut line = UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("loopback");
    let to = line.local_address();
    let over = AtomicBool::new(false);
    let mut late = std::thread::scope(|scope| {
        if traffic {
            let over = &over;
            scope.spawn(move || send_to(to, over));
        }
        let measured = scope.spawn(|| {
            become_media_thread();
            let period = Duration::from_secs_f64(period_ms / 1e3);
            let start = clock.now();
            let mut ticker = Ticker { due: start + period, period, end: start + RUN, late: Vec::new() };
            drive_one(&mut line, &mut ticker, &clock, &Stop::new(), DriveOptions::default())
                .expect("loopback");
            ticker.late
        });
        let late = measured.join().expect("no panic");
        over.store(true, Ordering::Relaxed);
        late
    });
    late.sort_unstable();
    let quantile =
        |q: f64| late[((q * late.len() as f64).ceil() as usize).clamp(1, late.len()) - 1] as f64 / 1e3;
    println!(
        "{{\"bench\":\"oversleep\",\"period_ms\":{period_ms},\"traffic\":{traffic},\"p50_us\":{:.1},\"p99_us\":{:.1},\
         \"worst_us\":{:.1},\"samples\":{}}}",
        quantile(0.5),
        quantile(0.99),
        quantile(1.0),
        late.len()
    );
}

/// A datagram every 0.7 ms.
fn send_to(to: std::net::SocketAddr, over: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let waker = Waker::new().expect("an event descriptor");
    become_media_thread();
    while !over.load(Ordering::Relaxed) {
        socket.send_to(&[0x80; 200], to).expect("loopback");
        waker.wait(Duration::from_micros(700));
    }
}

/// Due regularly, by a schedule.
struct Ticker {
    due: Instant,
    period: Duration,
    end: Instant,
    /// Nanoseconds.
    late: Vec<u64>,
}

impl OneWire for Ticker {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn advance(&mut self, now: Instant) {
        while now >= self.due {
            self.late.push(now.since(self.due).as_nanos() as u64);
            self.due += self.period;
        }
    }

    fn poll_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.due)
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        self.due > self.end
    }
}
