use super::super::flight::MAX_TRIES;
use antiphon_core::{Endpoint, Event, Input, Message, PathId, Tag};

use super::*;

const MAX_DATAGRAM: usize = 1452;

fn settings() -> Settings {
    Settings {
        rto_floor: Duration::from_millis(10),
        ack_delay: Duration::from_millis(5),
        window: false,
        full: false,
    }
}

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// A sender with its first messages on the wire.
struct Sender {
    arq: Association<Improved>,
    first: u64,
    /// Messages sent, which are their tags.
    sent: u64,
}

impl Sender {
    fn new(first: u64) -> Self {
        Self::with(settings(), first)
    }

    fn with(settings: Settings, first: u64) -> Self {
        let mut arq = Improved::starting_at(settings, Role::Caller, MAX_DATAGRAM, EPOCH, first);
        assert_eq!(arq.poll_event(), Some(Event::Connected));
        Sender { arq, first, sent: 0 }
    }

    fn send(&mut self, at: u64, deadline: Option<u64>) {
        self.arq.send(ms(at), Message::new(Tag(self.sent), &[1; 300], deadline.map(ms))).unwrap();
        self.sent += 1;
        assert_eq!(self.transmit(at).len(), 1);
    }

    /// Packets sent: number relative to the first, and whether it is a retransmission.
    fn transmit(&mut self, at: u64) -> Vec<(u64, bool)> {
        if self.arq.poll_timeout().is_some_and(|due| due <= ms(at)) {
            self.arq.handle_timeout(ms(at));
        }
        let (mut buf, mut sent) = ([0; MAX_DATAGRAM], Vec::new());
        while let Some(transmit) = self.arq.poll_transmit(ms(at), &mut buf) {
            let data = wire::parse(&buf[..transmit.len]).unwrap().data.unwrap();
            sent.push((u64::from(data.number.wrapping_sub(self.first as u32)), data.repeated));
        }
        sent
    }

    /// The peer has everything before `floor` and the numbers in `map`; the last to arrive was `latest`.
    fn ack(&mut self, at: u64, floor: u64, latest: u64, map: &[u8]) {
        let ack = wire::Ack {
            epoch: EPOCH,
            floor: self.first.wrapping_add(floor) as u32,
            latest: latest.wrapping_sub(floor) as i16,
            latest_repeated: false,
            age: 0,
            map,
        };
        self.hear(at, &Packet { ack: Some(ack), data: None });
    }

    fn hear(&mut self, at: u64, packet: &Packet<'_>) {
        let mut buf = [0; MAX_DATAGRAM];
        let len = wire::emit(packet, &mut buf);
        let path = PathId::default();
        self.arq.handle_input(ms(at), Input::Datagram { path, bytes: &mut buf[..len], received_at: ms(at) });
    }

    fn cwnd(&self) -> usize {
        self.arq.stats().cwnd.expect("it has a window").0 as usize
    }

    fn outcomes(&mut self) -> Vec<(u64, Outcome)> {
        std::iter::from_fn(|| self.arq.poll_event())
            .filter_map(|event| match event {
                Event::Outcome { tag, outcome } => Some((tag.0, outcome)),
                _ => None,
            })
            .collect()
    }
}

const EPOCH: u32 = 99;
const FIRST: u64 = 1 << 32;

#[test]
fn a_later_arrival_reveals_a_loss_once_reordering_had_its_time() {
    let mut sender = Sender::new(FIRST);
    sender.send(0, None);
    sender.ack(20, 1, 0, &[]);
    sender.send(20, None);
    sender.send(22, None);
    // 2 has arrived, 1 has not: 20 ms of round trip and 5 of reordering after 1 was sent it is lost.
    sender.ack(42, 1, 2, &[1]);
    assert_eq!(sender.arq.poll_timeout(), Some(ms(45)));
    assert_eq!(sender.transmit(44), []);
    assert_eq!(sender.transmit(45), [(1, true)]);
    sender.ack(66, 3, 1, &[]);
    assert_eq!(sender.outcomes(), [(0, Outcome::Acked), (2, Outcome::Acked), (1, Outcome::Acked)]);
    assert_eq!(sender.arq.poll_timeout(), None, "nothing is on its way, nothing is due");
}

#[test]
fn the_time_out_repeats_the_last_message_until_its_deadline() {
    let mut sender = Sender::new(FIRST);
    sender.send(0, Some(200));
    sender.ack(20, 1, 0, &[]);
    sender.send(20, Some(93));
    sender.outcomes();
    // SRTT 20, RTTVAR 10, twice the peer's 5, an eighth of the interval of 20: 72.5 ms.
    let due = Instant::from_micros(92_500);
    assert_eq!(sender.arq.poll_timeout(), Some(due));
    assert_eq!(sender.transmit(93), [(1, true)], "a deadline is in time itself");
    assert_eq!(sender.outcomes(), []);
    // The next time-out would be after it.
    assert_eq!(sender.transmit(166), []);
    assert_eq!(sender.transmit(167), []);
    assert_eq!(sender.outcomes(), [(1, Outcome::Expired { maybe_received: true })]);
}

#[test]
fn a_lost_message_goes_out_once_more_just_before_its_deadline() {
    let mut sender = Sender::new(FIRST);
    sender.send(0, None);
    sender.ack(20, 1, 0, &[]);
    sender.send(20, Some(60));
    sender.send(22, None);
    sender.ack(42, 1, 2, &[1]);
    assert_eq!(sender.transmit(45), [(1, true)]);
    // An answer can come at 65 ms at the earliest.
    assert_eq!(sender.arq.poll_timeout(), Some(ms(58)));
    assert_eq!(sender.transmit(58), [(1, true)]);
    assert_eq!(sender.transmit(60), [], "one copy is enough");
    assert_eq!(sender.transmit(150), []);
    assert_eq!(sender.transmit(200), []);
    assert_eq!(sender.outcomes()[2..], [(1, Outcome::Expired { maybe_received: true })]);
}

#[test]
fn reordering_gets_no_time_that_the_deadline_has_not() {
    let mut sender = Sender::new(FIRST);
    sender.send(0, None);
    sender.ack(20, 1, 0, &[]);
    sender.send(20, Some(45));
    sender.send(22, None);
    // 1 would be lost at 45 ms: it was sent at 20, and a round trip and a quarter are 25.
    sender.ack(42, 1, 2, &[1]);
    assert_eq!(sender.transmit(43), [(1, true)]);
}

#[test]
fn a_wire_that_stood_still_sends_no_repetition_too_late() {
    let mut sender = Sender::new(FIRST);
    sender.send(0, None);
    sender.ack(20, 1, 0, &[]);
    sender.send(20, Some(100));
    sender.send(25, Some(200));
    sender.ack(44, 1, 2, &[1]);
    sender.arq.handle_timeout(ms(46));
    // Marked at 46 ms, but the wire takes nothing before 101 ms.
    assert_eq!(sender.transmit(101), []);
    sender.transmit(150);
    assert_eq!(sender.outcomes()[2..], [(1, Outcome::Expired { maybe_received: true })]);
}

#[test]
fn repeats_without_deadline_back_off_and_end() {
    let mut sender = Sender::new(FIRST);
    sender.send(0, None);
    let (mut tries, mut last, mut spacing) = (1, Instant::ZERO, Vec::new());
    while let Some(due) = sender.arq.poll_timeout() {
        assert!(due > last);
        sender.arq.handle_timeout(due);
        if sender.arq.poll_transmit(due, &mut [0; MAX_DATAGRAM]).is_some() {
            tries += 1;
            spacing.push(due.since(last).as_millis());
            last = due;
        }
    }
    assert_eq!(tries, MAX_TRIES);
    assert_eq!(spacing[..5], [100, 200, 400, 800, 1000]);
    assert_eq!(sender.outcomes(), [(0, Outcome::RetriesExhausted)]);
}

#[test]
fn numbers_wrap_unnoticed() {
    // The lower 32 bits wrap after the third.
    let mut sender = Sender::new(FIRST + u64::from(u32::MAX) - 2);
    for n in 0..6 {
        sender.send(n, None);
    }
    sender.ack(20, 2, 5, &[0b110]);
    let mut settled: Vec<u64> = sender.outcomes().iter().map(|(id, _)| *id).collect();
    settled.sort_unstable();
    assert_eq!(settled, [0, 1, 4, 5]);
    sender.ack(40, 6, 3, &[]);
    assert_eq!(sender.outcomes().len(), 2);
    assert_eq!(sender.arq.stats().counters.malformed, 0);
}

#[test]
fn numbers_never_sent_settle_no_message() {
    let mut sender = Sender::new(FIRST);
    for n in 0..3 {
        sender.send(n, None);
    }
    let forged: [(u64, u64, &[u8]); 6] =
        [(4, 0, &[]), (1 << 30, 0, &[]), (3, 3, &[]), (0, 1, &[0b100]), (2, 0, &[1]), (0, 0, &[0; 128])];
    for (i, (floor, latest, map)) in forged.into_iter().enumerate() {
        sender.ack(5, floor, latest, map);
        let malformed = sender.arq.stats().counters.malformed;
        assert_eq!(malformed, if i < 5 { i as u64 + 1 } else { 5 }, "{floor} {latest} {map:?}");
    }
    // The last is valid: it says that 0 was the last to arrive.
    assert_eq!(sender.outcomes(), [(0, Outcome::Acked)]);
    // Far in the past: outdated.
    sender.ack(6, 0u64.wrapping_sub(1 << 20), 0u64.wrapping_sub(1 << 20), &[255]);
    assert_eq!((sender.outcomes(), sender.arq.stats().counters.malformed), (vec![], 5));
}

/// Karn's rule: for a packet sent three times, an answer to a retransmission gives no round trip.
#[test]
fn ambiguous_answers_are_not_measured() {
    let mut sender = Sender::new(FIRST);
    sender.send(0, None);
    assert_eq!(sender.transmit(100), [(0, true)]);
    assert_eq!(sender.transmit(300), [(0, true)]);
    let ack = wire::Ack {
        epoch: EPOCH,
        floor: (FIRST + 1) as u32,
        latest: -1,
        latest_repeated: true,
        age: 0,
        map: &[],
    };
    sender.hear(320, &Packet { ack: Some(ack), data: None });
    assert_eq!(sender.outcomes(), [(0, Outcome::Acked)]);
    assert_eq!(sender.arq.stats().srtt, None);
    // An answer to the first transmission is recognised, however often it was sent; a false age is not accepted.
    sender.send(400, None);
    assert_eq!(sender.transmit(500), [(1, true)]);
    let ack = wire::Ack { floor: ack.floor + 1, latest_repeated: false, age: u16::MAX, ..ack };
    sender.hear(550, &Packet { ack: Some(ack), data: None });
    assert_eq!(sender.arq.stats().srtt, Some(Duration::from_millis(150)));
}

#[test]
fn acknowledgements_go_alone_when_they_fit_no_message() {
    for (len, datagrams) in [(300, 1), (MAX_DATAGRAM - DATA_HEADER, 2)] {
        let mut sender = Sender::new(FIRST);
        let data = Data { epoch: 5, number: 7, back: 0, repeated: false, payload: &[1; 300] };
        sender.hear(0, &Packet { ack: None, data: Some(data) });
        sender.arq.send(ms(1), Message::new(Tag::NONE, &vec![2; len], None)).unwrap();
        let (mut buf, mut sent, mut acks) = ([0; MAX_DATAGRAM], 0, 0);
        for at in [1, 5] {
            sender.arq.handle_timeout(ms(at));
            while let Some(transmit) = sender.arq.poll_transmit(ms(at), &mut buf) {
                sent += 1;
                let ack = wire::parse(&buf[..transmit.len]).unwrap().ack;
                acks += u32::from(ack.is_some_and(|ack| (ack.epoch, ack.floor) == (5, 8)));
            }
        }
        assert_eq!((sent, acks), (datagrams, 1), "{len}");
    }
}

/// RFC 7661 §1: a stream that does not fill its window learns nothing of the path.
#[test]
fn a_window_that_is_not_filled_does_not_grow() {
    let mut sender = Sender::with(Settings { window: true, ..settings() }, FIRST);
    assert_eq!(sender.cwnd(), 10 * MAX_DATAGRAM);
    // 24 messages of 300 bytes are 7200: just under half of 14 520. 25 are more.
    for n in 0..24 {
        sender.send(n, None);
    }
    sender.ack(40, 24, 23, &[]);
    assert_eq!((sender.outcomes().len(), sender.cwnd()), (24, 10 * MAX_DATAGRAM));
    for n in 0..25 {
        sender.send(40 + n, None);
    }
    sender.ack(80, 49, 48, &[]);
    assert_eq!(
        sender.cwnd(),
        10 * MAX_DATAGRAM + 300,
        "the first of them, in slow start: by what it carried"
    );
}

/// RFC 5681 §3.1, with one answer to all losses of a window.
#[test]
fn the_losses_of_a_window_halve_it_once() {
    let mut sender = Sender::with(Settings { window: true, ..settings() }, FIRST);
    for n in 0..40 {
        sender.send(n, None);
    }
    let halvings = |sender: &mut Sender| {
        std::iter::from_fn(|| sender.arq.poll_event())
            .filter(|event| matches!(event, Event::Congestion(_)))
            .count()
    };
    // 1, 3, 38 and 39 have not arrived. The others arrive, the first of them while the window is filled.
    sender.ack(60, 1, 37, &[0b1111_1101, 255, 255, 255, 0b1111]);
    let grown = sender.cwnd();
    assert!(grown > 10 * MAX_DATAGRAM);
    assert_eq!(sender.transmit(100), [(1, true), (3, true)]);
    let threshold = grown / 2;
    assert_eq!((halvings(&mut sender), sender.cwnd()), (1, threshold));
    // Losses that show later, of the same window, have been answered.
    for n in 101..116 {
        sender.send(n, None);
    }
    assert_eq!(sender.transmit(150), [(38, true), (39, true)]);
    assert_eq!((halvings(&mut sender), sender.cwnd()), (0, threshold));
    // At its threshold it grows by a packet for each window: each of these five messages is worth less than what it carries.
    sender.ack(151, 41, 40, &[]);
    let avoided = sender.cwnd() - threshold;
    assert!((1..=5 * 300 * MAX_DATAGRAM / threshold).contains(&avoided), "{avoided} of {threshold}");
    // 41 was sent after the loss was answered, and has an answer of its own.
    sender.ack(170, 41, 50, &[255, 1]);
    let before = sender.cwnd();
    assert!(sender.transmit(300).contains(&(41, true)));
    assert_eq!((halvings(&mut sender), sender.cwnd()), (1, before / 2));
}

fn full() -> Settings {
    Settings { window: true, full: true, ..settings() }
}

#[test]
fn a_path_that_is_gone_sees_one_probe_a_second_and_gets_everything_when_it_is_back() {
    let mut sender = Sender::with(full(), FIRST);
    sender.send(0, None);
    sender.ack(20, 1, 0, &[]);
    (1..=9).for_each(|n| sender.send(20 + n, Some(30)));
    let lost_at: Vec<u64> = (30..20_000).flat_map(|at| vec![at; sender.transmit(at).len()]).collect();
    assert!((20..25).contains(&lost_at.len()), "{lost_at:?}");
    assert!(lost_at.iter().filter(|at| **at > 10_000).count() == 10, "{lost_at:?}");
    assert_eq!(sender.outcomes(), [(0, Outcome::Acked)], "whatever the deadline");
    let probe = sender.transmit(21_000).first().map_or(1, |(number, _)| *number);
    // The probe has arrived: all others were lost.
    let map = 1_u16.checked_shl(probe as u32 - 2).unwrap_or(0).to_le_bytes();
    sender.ack(21_020, 1, probe, &map);
    let mut came = vec![probe];
    let mut at = 21_020;
    while came.len() < 9 {
        let repeats = sender.transmit(at);
        assert!(at < 21_300, "{came:?}, then {repeats:?}");
        at += 20;
        came.extend(repeats.iter().map(|(number, repeated)| {
            assert!(*repeated);
            *number
        }));
        came.sort_unstable();
        came.dedup();
        let floor = (1..).find(|number| !came.contains(number)).expect("a number");
        let map = came
            .iter()
            .filter(|number| **number > floor)
            .fold(0_u16, |map, number| map | 1 << (number - floor - 1));
        let latest = repeats.last().map_or(probe, |(number, _)| *number);
        sender.ack(at, floor, latest, &map.to_le_bytes()[..if map < 256 { 1 } else { 2 }]);
    }
    assert_eq!(sender.outcomes().len(), 9);
}

#[test]
fn a_receiver_without_room_acknowledges_nothing() {
    let mut receiver = Improved::starting_at(full(), Role::Listener, MAX_DATAGRAM, EPOCH, FIRST);
    let (mut buf, mut acked) = ([0; MAX_DATAGRAM], 0);
    let mut hear = |receiver: &mut Association<Improved>, number: u32| {
        let data = Data { epoch: 7, number, back: 0, repeated: false, payload: &[1; 1000] };
        let len = wire::emit(&Packet { ack: None, data: Some(data) }, &mut buf);
        let path = PathId::default();
        receiver.handle_input(ms(0), Input::Datagram { path, bytes: &mut buf[..len], received_at: ms(0) });
        while let Some(transmit) = receiver.poll_transmit(ms(0), &mut buf) {
            acked = wire::parse(&buf[..transmit.len]).unwrap().ack.unwrap().floor;
        }
        acked
    };
    let mut last = 0;
    (0..1100).for_each(|number| last = hear(&mut receiver, number));
    let kept = std::iter::from_fn(|| receiver.poll_message(&mut [0; 65_535])).count() as u32;
    assert!(kept == 1024 && last <= kept, "{kept} kept, all before {last} acknowledged");
    (kept..kept + 8).for_each(|number| last = hear(&mut receiver, number));
    assert_eq!(last, kept + 8, "with room");
}

#[test]
fn nothing_is_repeated_to_an_address_that_proved_nothing() {
    let mut listener = Improved::starting_at(full(), Role::Listener, MAX_DATAGRAM, EPOCH, FIRST);
    listener.poll_event();
    let mut listener = Sender { arq: listener, first: FIRST, sent: 0 };
    listener.send(0, None);
    assert!((1..5_000).all(|at| listener.transmit(at).is_empty()));
    listener.send(5_000, None);
    listener.ack(5_020, 0, 1, &[1]);
    assert_eq!(listener.transmit(5_100), [(0, true)], "it has heard us");
}
