use super::*;
use crate::srp::decide::{Never, OptimumQuality};

/// A client with messages of one byte every 100 ms, and what it delivered: id, content, repaired.
struct Bench {
    client: Client,
    got: Vec<(u32, Option<u8>, bool)>,
    now: Instant,
}

impl Bench {
    fn new(decide: Box<dyn Decide>, first: u32) -> Self {
        let config = ClientConfig { buffer: 8, ..ClientConfig::new(0.1, Duration::from_millis(250)) };
        let client = Client::expecting(first, config, decide, Instant::ZERO);
        Bench { client, got: Vec::new(), now: Instant::ZERO }
    }

    fn at(&mut self, ms: u64) -> &mut Self {
        self.now = Instant::from_millis(ms);
        self
    }

    fn hear(&mut self, packet: Packet<'_>) {
        let got = &mut self.got;
        self.client.handle(self.now, self.now, &packet, &mut |delivery| got.push(plain(&delivery)));
    }

    fn data(&mut self, id: u32) {
        self.hear(Packet::Data { time: 0, id, data: &[id as u8] });
    }

    fn timeout(&mut self) {
        let got = &mut self.got;
        self.client.handle_timeout(self.now, &mut |delivery| got.push(plain(&delivery)));
    }

    fn sent(&mut self) -> Option<Vec<u8>> {
        let mut buf = [0; 32];
        let len = self.client.poll_transmit(self.now, &mut buf)?;
        Some(buf[..len].to_vec())
    }

    /// Answers the first probe after 50 ms and starts the stream with 1, 2, 3 at 100, 200, 300 ms.
    fn started(decide: Box<dyn Decide>) -> Self {
        let mut bench = Bench::new(decide, 1);
        let probe = bench.at(0).sent().expect("a probe at the start");
        bench.at(50).hear(Packet::parse(&probe).unwrap());
        for id in 1..=3 {
            bench.at(u64::from(id) * 100).data(id);
        }
        assert_eq!(bench.got, [(1, Some(1), false), (2, Some(2), false), (3, Some(3), false)]);
        bench.got.clear();
        bench
    }
}

fn plain(delivery: &Delivery<'_>) -> (u32, Option<u8>, bool) {
    match *delivery {
        Delivery::Message { id, bytes, repaired, .. } => (id, Some(bytes[0]), repaired),
        Delivery::Lost { id } => (id, None, false),
    }
}

fn asks() -> Box<dyn Decide> {
    Box::new(OptimumQuality::default())
}

#[test]
fn an_overdue_message_is_asked_for_and_again_without_answer() {
    let mut bench = Bench::started(asks());
    // Due at 300 + 100 ms; the deviation, an eighth of 100 ms, has shrunk by 0.85: 10.625 ms, times four.
    let due = bench.client.poll_timeout().unwrap();
    assert_eq!(due, Instant::from_micros(442_500));
    bench.now = due;
    bench.timeout();
    assert_eq!(
        Packet::parse(&bench.sent().unwrap()),
        Ok(Packet::Nack { time: 442, status: STATUS_RESEND, id: 4 })
    );
    // 50 + 4 · 25 ms for the answer.
    assert_eq!(bench.client.poll_timeout(), Some(due + Duration::from_millis(150)));
    bench.now = due + Duration::from_millis(150);
    bench.timeout();
    let second = bench.sent().unwrap();
    assert_eq!(Packet::parse(&second), Ok(Packet::Nack { time: 592, status: STATUS_RESEND, id: 4 }));
    bench.at(650).hear(Packet::Answer { time: 592, id: 4, data: &[44] });
    assert_eq!(bench.got, [(4, Some(44), true)]);
    // 0.85 · 50 + 0.15 · 58.
    assert_eq!(bench.client.measured_round_trip().unwrap().mean(), Duration::from_micros(51_200));
    // LNRT is still 300 ms, with one message since: 5 was due at 500 ms.
    assert_eq!(bench.client.due, Some(Instant::from_millis(500)));
    assert_eq!(bench.client.poll_timeout(), Some(Instant::from_millis(652)));
    assert_eq!((bench.client.counts().nacks, bench.client.counts().timeouts), (2, 2));
}

#[test]
fn an_early_message_forces_the_decision_and_waits_its_turn() {
    let mut bench = Bench::started(asks());
    bench.at(390).data(5);
    assert_eq!(
        Packet::parse(&bench.sent().unwrap()),
        Ok(Packet::Nack { time: 390, status: STATUS_RESEND, id: 4 })
    );
    // While an answer is awaited, another early message causes no decision.
    bench.at(395).data(6);
    assert_eq!(bench.sent(), None);
    bench.at(440).hear(Packet::Answer { time: 390, id: 4, data: &[4] });
    assert_eq!(bench.got, [(4, Some(4), true), (5, Some(5), false), (6, Some(6), false)]);
    // Intervals are computed from arrival times (5 ms), not delivery times (0 ms): 0.85 · 100 + 0.15 · 5 = 85.75 ms,
    // and 6 arrived at 395 ms.
    assert_eq!(bench.client.due, Some(Instant::from_micros(480_750)));
}

/// Of the first three messages the third alone comes, and the stream is over before the first is repaired: no interval is known then.
#[test]
fn a_missing_message_is_asked_for_though_no_interval_is_known() {
    let mut bench = Bench::new(asks(), 1);
    bench.at(0).sent().expect("a probe at the start");
    bench.at(100).data(3);
    let nack = |time, id| Ok(Packet::Nack { time, status: STATUS_RESEND, id });
    assert_eq!(Packet::parse(&bench.sent().unwrap()), nack(100, 1));
    bench.at(150).hear(Packet::Answer { time: 100, id: 1, data: &[1] });
    bench.at(1_150).timeout();
    assert_eq!(Packet::parse(&bench.sent().unwrap()), nack(1_150, 2));
    bench.at(1_200).hear(Packet::Answer { time: 1_150, id: 2, data: &[2] });
    assert_eq!(bench.got, [(1, Some(1), true), (2, Some(2), true), (3, Some(3), false)]);
}

#[test]
fn what_is_given_up_is_reported_lost_and_dropped_when_it_comes() {
    let mut bench = Bench::started(Box::new(Never));
    bench.at(500).data(5);
    assert_eq!(bench.got, [(4, None, false), (5, Some(5), false)]);
    bench.at(505).data(4);
    assert_eq!((bench.got.len(), bench.client.counts().too_late), (2, 1));
    assert!((bench.client.quality().loss - 0.02 * 0.98).abs() < 1e-12);
}

#[test]
fn ids_go_on_from_the_greatest_to_zero() {
    let mut bench = Bench::new(asks(), u32::MAX - 1);
    for (n, id) in [u32::MAX - 1, u32::MAX, 1, 0, 2].into_iter().enumerate() {
        bench.at(100 * n as u64).data(id);
    }
    let ids: Vec<u32> = bench.got.iter().map(|got| got.0).collect();
    assert_eq!(ids, [u32::MAX - 1, u32::MAX, 0, 1, 2]);
}

#[test]
fn a_forged_time_changes_no_estimate() {
    let mut bench = Bench::started(asks());
    let before = bench.client.measured_round_trip();
    bench.at(310).hear(Packet::Probe { time: 5 });
    bench.hear(Packet::Answer { time: u32::MAX, id: 9, data: &[1] });
    assert_eq!(bench.client.measured_round_trip(), before);
}

#[test]
fn a_probe_goes_out_a_second_after_the_last_round_trip() {
    let mut bench = Bench::started(asks());
    // 4 and later ones arrive in time, so nothing is requested.
    (4..=10).for_each(|id| bench.at(u64::from(id) * 100).data(id));
    bench.at(1049).timeout();
    assert_eq!(bench.sent(), None);
    bench.at(1050).timeout();
    assert_eq!(Packet::parse(&bench.sent().unwrap()), Ok(Packet::Probe { time: 1050 }));
    assert_eq!(bench.sent(), None, "one is enough");
}

#[test]
fn a_stream_that_ended_costs_a_bounded_number_of_time_outs() {
    let mut bench = Bench::new(Box::new(Never), 1);
    // All at one instant: the interval is zero, and every following message is due at once.
    (1..=20).for_each(|id| bench.data(id));
    let mut timeouts = 0;
    while bench.now < Instant::from_millis(1000) {
        bench.now = bench.client.poll_timeout().unwrap().max(bench.now);
        bench.timeout();
        while bench.sent().is_some() {}
        timeouts += 1;
    }
    // One every 2 ms, and a probe.
    assert!(timeouts <= 505, "{timeouts}");
}
