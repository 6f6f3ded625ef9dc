//! The sender's rules one by one, with reports made by hand.

use super::*;
use crate::dccp::logs::Sent;
use crate::dccp::seq::Seq48;

const RTT: Duration = Duration::from_millis(100);
const SIZE: usize = 1000;

struct Bench {
    sender: SenderThree,
    log: SentLog,
    rtt: Rtt,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::from_millis(1_000);
        let mut rtt = Rtt::default();
        rtt.on_sample(RTT);
        Bench { sender: SenderThree::new(now, rtt.srtt()), log: SentLog::new(Seq48::new(0)), rtt, now }
    }

    /// Sends as much as permitted in a round trip; returns the number of packets.
    fn round_trip(&mut self) -> u32 {
        let (end, mut sent) = (self.now + RTT, 0);
        while self.now < end {
            while self.sender.may_send(self.now, SIZE) {
                self.send();
                sent += 1;
            }
            self.now += Duration::from_millis(1);
        }
        sent
    }

    /// Sends so many packets, one a round trip, whatever the rate.
    fn sends(&mut self, packets: u32) {
        for _ in 0..packets {
            self.send();
            self.now += RTT;
        }
    }

    fn send(&mut self) {
        self.send_of(SIZE);
    }

    fn send_of(&mut self, len: usize) {
        let ccval = self.sender.ccval(self.now);
        self.log.push(self.log.next, Sent { at: self.now, data: true, ccval, ..Sent::default() });
        self.sender.on_sent(self.now, len, &self.rtt);
    }

    /// A report on a packet sent a round trip ago: 1/p, and what arrives.
    fn report(&mut self, inverse: u32, rate: f64) {
        let oldest = self.now - RTT;
        let mut ack = self.log.first;
        while self.log.entry_mut(ack.next()).is_some_and(|sent| sent.at <= oldest) {
            ack = ack.next();
        }
        let (loss_event_rate, receive_rate) = (Some(inverse), Some(rate as u32));
        let seen = Seen { loss_event_rate, receive_rate, ..Seen::default() };
        self.sender.on_feedback(self.now, ack, &seen, &mut self.log, &mut self.rtt);
    }

    /// So many round trips in which everything arrives.
    fn slow_start(&mut self, round_trips: u32) {
        for _ in 0..round_trips {
            self.round_trip();
            self.report(NO_LOSS, self.rate());
        }
    }

    fn rate(&self) -> f64 {
        self.sender.rate.expect("something was sent")
    }
}

const NO_LOSS: u32 = u32::MAX;

#[test]
fn the_rate_begins_at_four_packets_a_round_trip_and_doubles() {
    let mut bench = Bench::new();
    let first = bench.round_trip();
    assert!((4..=5).contains(&first), "{first}");
    assert_eq!(bench.rate(), 40_000.0);
    bench.report(NO_LOSS, 0.0);
    assert_eq!(bench.rate(), 40_000.0, "the first report says nothing of the rate");
    for doubled in [80_000.0, 160_000.0] {
        let arrives = bench.rate();
        bench.round_trip();
        bench.report(NO_LOSS, arrives);
        assert!((bench.rate() / doubled - 1.0).abs() < 1e-6, "{}", bench.rate());
    }
    // At most twice the reported receive rate.
    bench.round_trip();
    bench.report(NO_LOSS, 100_000.0);
    bench.round_trip();
    bench.report(NO_LOSS, 100_000.0);
    bench.round_trip();
    bench.report(NO_LOSS, 100_000.0);
    assert!((bench.rate() / 200_000.0 - 1.0).abs() < 0.01, "{}", bench.rate());
}

#[test]
fn losses_bring_it_to_the_equation() {
    let mut bench = Bench::new();
    bench.slow_start(6);
    bench.round_trip();
    let arrives = bench.rate();
    bench.report(100, arrives);
    // RFC 5348 §3.1 at p = 0.01, s = 1000, R = 0.1 s, computed independently.
    assert!((bench.rate() / 112_332.0 - 1.0).abs() < 0.02, "{}", bench.rate());
}

#[test]
fn silence_halves_the_rate_and_idle_runs_no_timer() {
    let mut bench = Bench::new();
    bench.slow_start(4);
    let mut before = bench.rate();
    for _ in 0..3 {
        bench.round_trip();
        let due = bench.sender.poll_timeout().expect("a nofeedback timer");
        assert!(due.since(bench.now) <= 4 * RTT + Duration::from_millis(50), "four round trips");
        bench.now = due;
        assert!(bench.sender.handle_timeout(due, &mut bench.log));
        assert!((bench.rate() / before - 0.5).abs() < 1e-9, "{} from {before}", bench.rate());
        before = bench.rate();
    }
    for _ in 0..40 {
        bench.round_trip();
        if let Some(due) = bench.sender.poll_timeout() {
            bench.now = bench.now.max(due);
            bench.sender.handle_timeout(bench.now, &mut bench.log);
        }
    }
    assert!((bench.rate() / SIZE as f64 - 2.0).abs() < 0.02, "two packets a second: {}", bench.rate());
    // Nothing is sent any more: the timer expires once.
    let mut runs = 0;
    while let Some(due) = bench.sender.poll_timeout() {
        bench.sender.handle_timeout(due, &mut bench.log);
        runs += 1;
        assert!(runs < 5, "an idle sender sleeps");
    }
}

/// Whatever the last round trip was: a queue that grew before the path went (RFC 5348 §4.5) must not stretch the pause.
/// Nor must reports, many of which are small, stretch the pause after a packet of sound.
#[test]
fn an_outage_leaves_no_pause_above_half_a_second() {
    for (late, sizes) in [(0, [SIZE; 4]), (50, [SIZE; 4]), (900, [SIZE; 4]), (0, [72, 72, 72, 1068])] {
        let mut bench = Bench::new();
        bench.slow_start(6);
        bench.now += Duration::from_millis(late);
        bench.report(NO_LOSS, bench.rate());
        let (from, mut last, mut longest, mut packets) = (bench.now, bench.now, Duration::ZERO, 0);
        while bench.now.since(from) < Duration::from_secs(40) {
            if bench.sender.poll_timeout().is_some_and(|due| due <= bench.now) {
                bench.sender.handle_timeout(bench.now, &mut bench.log);
            }
            let len = sizes[packets % 4];
            if bench.sender.may_send(bench.now, len) {
                longest = longest.max(bench.now.since(last));
                last = bench.now;
                packets += 1;
                bench.send_of(len);
            }
            bench.now += Duration::from_millis(1);
        }
        let paused = Duration::from_millis(490)..=Duration::from_millis(501);
        assert!(paused.contains(&longest), "{late} ms late, {sizes:?}: {longest:?}");
    }
}

#[test]
fn a_sender_short_of_data_keeps_its_rate() {
    let mut bench = Bench::new();
    bench.slow_start(5);
    let before = bench.rate();
    assert!(before > 300_000.0);
    // From here on one packet in a round trip; the reports say so.
    for _ in 0..10 {
        bench.now += RTT;
        assert!(bench.sender.may_send(bench.now, SIZE));
        bench.send();
        bench.report(NO_LOSS, 10_000.0);
    }
    // RFC 5348 §8.2.1: without its rule for data-limited times the rate would be at 40 000, that of the beginning.
    assert!(bench.rate() >= before, "{} from {before}", bench.rate());
}

/// Linux 6.1's reports as observed: a first loss of a slow flow gives an interval of one packet, which stays the mean
/// until the second loss.
#[test]
fn a_first_loss_is_not_taken_for_the_loss_of_everything() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.round_trip();
        bench.report(NO_LOSS, 1e6);
    }
    let equation = |p: f64| tfrc::throughput(SIZE as f64, RTT, p);
    bench.sends(3);
    bench.report(1, 1e6);
    // The lost packet and three after it (RFC 5348 §5.1) are in the interval.
    assert!((bench.rate() / equation(1.0 / 4.0) - 1.0).abs() < 0.02, "{}", bench.rate());
    for packets in 5..40 {
        bench.sends(1);
        bench.report(1, 1e6);
        let expected = equation(1.0 / f64::from(packets));
        assert!((bench.rate() / expected - 1.0).abs() < 0.02, "{packets} packets: {}", bench.rate());
    }
    // The second loss is reported, and from then on reports are accepted unchanged.
    for inverse in [22, 20, 1] {
        bench.sends(1);
        bench.report(inverse, 1e6);
        let expected = equation(1.0 / f64::from(inverse));
        assert!((bench.rate() / expected - 1.0).abs() < 0.02, "1/p = {inverse}: {}", bench.rate());
    }
}

/// Linux 6.1 measures the receive rate since its previous report, silence included: a packet a second was reported as
/// 200 bytes a second at a round trip of 15 ms, and with the next loss the sender fell to that.
#[test]
fn rate_over_silence_is_at_least_a_packet_a_round_trip() {
    let mut bench = Bench::new();
    bench.round_trip();
    bench.report(NO_LOSS, 0.0);
    for inverse in [NO_LOSS, 400] {
        bench.now += 10 * RTT;
        bench.sends(1);
        bench.report(inverse, 1_000.0);
    }
    // RFC 5348 §4.3: short of data, 0.85 of what arrives after a loss; a packet in 100 ms are 10 000 bytes a second.
    assert!((bench.rate() / 8_500.0 - 1.0).abs() < 0.02, "{}", bench.rate());
}

/// A path that carries a packet in five round trips, with correct reports. At two packets a round trip it loses nine in
/// ten, an event in each: the permitted rate is then that of the equation.
#[test]
fn reports_raise_the_rate_only_as_far_as_the_equation() {
    let equation = |p: f64| tfrc::throughput(SIZE as f64, RTT, p);
    for (inverse, data, expected) in [
        (2, true, equation(1.0 / 2.0)),
        (5, true, equation(1.0 / 5.0)),
        (400, true, 2.0 * SIZE as f64 / RTT.as_secs_f64()),
        (400, false, 2.0 * 2_000.0),
    ] {
        let mut bench = Bench::new();
        bench.slow_start(3);
        for round in 0..10 {
            bench.round_trip();
            let sent = Sent { at: bench.now, data, ..Sent::default() };
            bench.log.push(bench.log.next, sent);
            bench.now += RTT;
            // At least two events: reports are accepted unchanged.
            bench.report(inverse + u32::from(round == 0), 2_000.0);
        }
        let rate = bench.rate();
        assert!(
            (rate / expected - 1.0).abs() < 0.02,
            "1/p = {inverse}, data: {data}: {rate}, not {expected}"
        );
    }
}

#[test]
fn the_window_counter_counts_quarters_of_round_trips() {
    let mut bench = Bench::new();
    let mut at = |ms: u64| bench.sender.ccval(Instant::from_millis(1_000 + ms));
    assert_eq!([at(0), at(24), at(25), at(50), at(99)], [0, 0, 1, 2, 3]);
    assert_eq!(at(400), 8, "five at most at a time");
    assert_eq!(at(400 + 25 * 4), 12);
}
