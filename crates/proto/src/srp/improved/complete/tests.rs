use super::*;

const LEN: usize = 300;

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

struct Bench {
    sender: CompleteSender,
    first: u32,
    sent: u32,
}

impl Bench {
    fn new(called: bool) -> Self {
        let sender = CompleteSender::new(1472, called, 7);
        let first = sender.cutter.next;
        Bench { sender, first, sent: 0 }
    }

    fn send(&mut self, at: u64, count: u32) -> u32 {
        let message = Message { bytes: &[1; LEN], priority: 0, deadline: None, stream: 0, tag: Tag(0) };
        let admitted = (0..count).take_while(|_| {
            let room = self.sender.admits(LEN);
            let message = Message { tag: Tag(self.sent.into()), ..message };
            if room {
                self.sender.send_part(ms(at), &message, 0, &mut [0; 1472]).expect("room");
                self.sent += 1;
            }
            room
        });
        admitted.count() as u32
    }

    /// Numbers of packets that leave by `at`.
    fn leaving(&mut self, at: u64) -> Vec<u32> {
        self.sender.handle_timeout(ms(at));
        let (mut buf, mut ids) = ([0; 1472], Vec::new());
        while let Some(len) = self.sender.poll_transmit(ms(at), &mut buf) {
            if let Ok(Extended::Data(part) | Extended::Answer(part)) = Extended::parse(&buf[..len]) {
                ids.push(part.id.wrapping_sub(self.first));
            }
        }
        ids
    }

    /// The receiver has everything before `settled`, and `highest`.
    fn report(&mut self, at: u64, settled: u32, highest: u32) {
        let [settled, highest] = [settled, highest].map(|n| self.first.wrapping_add(n));
        let report = Report { highest, settled, ..Report::default() };
        self.sender.on_probe(ms(at), self.sender.cutter.epoch, 0, &report);
    }

    fn ask(&mut self, at: u64, first: u32, more: &[u8]) {
        let nack = Nack {
            epoch: self.sender.cutter.epoch,
            time: at as u32,
            first: self.first.wrapping_add(first),
            more,
        };
        self.sender.on_nack(ms(at), &nack);
    }

    fn confirmed(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.sender.take_confirmed()).map(|tag| tag.0).collect()
    }
}

#[test]
fn what_is_asked_for_is_sent_again_until_it_is_confirmed() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.send(0, 4), 4);
    bench.report(30, 1, 3);
    assert_eq!(bench.confirmed(), [0]);
    for round in 1..30 {
        bench.ask(100 * round, 1, &[0, 0, 0, 1]);
        assert_eq!(bench.leaving(100 * round), [1, 2]);
        bench.ask(100 * round, 1, &[]);
        assert_eq!(bench.leaving(100 * round + 1), [], "it is on its way");
    }
    bench.report(3_000, 4, 3);
    assert_eq!((bench.confirmed(), bench.sender.is_empty()), (vec![1, 2, 3], true));
    assert_eq!((bench.sender.limit.on_way(), bench.sender.poll_timeout()), (0, None));
}

#[test]
fn a_path_that_is_gone_sees_one_probe_a_second() {
    let mut bench = Bench::new(true);
    bench.send(0, 1);
    bench.report(30, 1, 0);
    bench.send(40, 9);
    let probes: Vec<(u64, Vec<u32>)> =
        (41..20_000).map(|at| (at, bench.leaving(at))).filter(|(_, ids)| !ids.is_empty()).collect();
    assert!(probes.iter().all(|(_, ids)| *ids == [9]), "the newest shows all that is missing: {probes:?}");
    assert_eq!(probes.iter().filter(|(at, _)| *at >= 10_000).count(), 10, "{probes:?}");
    assert_eq!(bench.send(20_000, 1), 0, "nothing new while nothing is answered");
    // It arrives; the receiver asks for the rest, which is sent as the window grows.
    bench.report(20_030, 1, 9);
    bench.ask(20_030, 1, &[0, 0, 0, 0x7f]);
    let mut came = bench.leaving(20_030);
    for at in (20_050..20_200).step_by(20) {
        let settled = 1 + came.len() as u32;
        bench.report(at, settled, 9);
        came.extend(bench.leaving(at));
    }
    assert_eq!(came, (1..=8).collect::<Vec<_>>());
    bench.report(20_300, 10, 9);
    assert_eq!(bench.confirmed(), (0..10).collect::<Vec<_>>());
}

#[test]
fn an_address_that_proved_nothing_gets_nothing_twice() {
    let mut bench = Bench::new(false);
    bench.send(0, 5);
    assert!((1..5_000).all(|at| bench.leaving(at).is_empty()));
    let wrong = Nack { epoch: bench.sender.cutter.epoch ^ 1, time: 1, first: bench.first, more: &[0xff; 4] };
    bench.sender.on_nack(ms(5_000), &wrong);
    assert_eq!(bench.leaving(5_001), []);
    bench.ask(5_002, 0, &[]);
    assert_eq!(bench.leaving(5_003), [0], "it knows the epoch");
}

#[test]
fn reports_of_what_was_never_sent_change_nothing() {
    let mut bench = Bench::new(true);
    bench.send(0, 3);
    for (settled, highest) in [(4, 2), (1 << 31, 2), (u32::MAX, 2), (500, 500)] {
        bench.report(10, settled, highest);
        assert_eq!((bench.confirmed(), bench.sender.kept.len()), (vec![], 3), "{settled}");
    }
    bench.ask(20, 3, &[0xff; 32]);
    assert_eq!(bench.leaving(21), []);
}

#[test]
fn what_is_kept_is_bounded() {
    let mut bench = Bench::new(true);
    let mut all = 0;
    for at in 0..4_000 {
        all += bench.send(10 * at, 100);
        // The first one is missing for ever.
        bench.report(10 * at + 5, 0, all - 1);
        bench.ask(10 * at + 5, 0, &[]);
        bench.leaving(10 * at + 6);
    }
    assert_eq!((all as usize, bench.sender.kept.len()), (MAX_KEPT, MAX_KEPT));
    assert_eq!(std::iter::from_fn(|| bench.sender.abandon()).count(), MAX_KEPT);
}
