use super::*;
use crate::{AdaptedDelay, TradeOff};

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn received(lost: u64, late: u64) -> ReceiveStatus {
    ReceiveStatus {
        lost,
        late,
        latency_ms: Some(40.0),
        jitter_rfc3550_ms: Some(3.21),
        ..ReceiveStatus::default()
    }
}

fn newest(log: &StreamLog) -> (&str, &str, &str) {
    let event = log.events().next().expect("an event");
    (&event.what, &event.cause, &event.remedy)
}

#[test]
fn losses_in_close_succession_are_one_event() {
    let mut log = StreamLog::new("rtp://:7710");
    log.on_received(at(0), &received(0, 0));
    assert_eq!(log.events().len(), 0);
    log.on_received(at(100), &received(1, 0));
    log.on_received(at(200), &received(4, 0));
    let remedy = "use a transport that repairs (srp, sctp), or --protect repeat:2 where it is sent";
    assert_eq!(newest(&log), ("4 packets lost", "the network dropped them", remedy));
    assert_eq!((log.events().len(), log.events().next().map(|event| event.at)), (1, Some(at(100))));
    // Three seconds later it is another one.
    log.on_received(at(3200), &received(5, 0));
    assert_eq!((log.events().len(), newest(&log).0), (2, "1 packet lost"));
}

#[test]
fn the_transport_decides_what_a_loss_comes_from() {
    let mut log = StreamLog::new("srp://:7713");
    log.on_received(at(100), &received(2, 0));
    assert_eq!(
        newest(&log),
        (
            "2 packets lost",
            "the network dropped them, and no repair came in time",
            "give repairs more time: --latency above 40ms"
        )
    );
    let mut log = StreamLog::new("tcp://:7710");
    log.on_received(at(100), &received(2, 0));
    assert!(newest(&log).1.starts_with("the sender gave them up"), "{:?}", newest(&log));
}

#[test]
fn in_a_group_no_transport_for_two_is_named() {
    for uri in ["rtp://@239.1.2.3:5004", "239.1.2.3"] {
        let mut log = StreamLog::new(uri);
        log.on_received(at(100), &received(2, 0));
        assert_eq!(
            newest(&log).2,
            "use --protect repeat:2 where it is sent; one sender's stream is repaired for a group over xtp://"
        );
    }
}

#[test]
fn lateness_names_the_delay_that_would_do() {
    let mut log = StreamLog::new("rtp://:7710");
    let trade_off = [(31.2, 1.0), (52.4, 0.1), (80.0, 0.01)];
    let trade_off =
        trade_off.map(|(latency_ms, late_percent)| TradeOff { latency_ms, late_percent }).to_vec();
    log.on_received(at(0), &ReceiveStatus { trade_off: trade_off.clone(), ..received(0, 7) });
    let expected = (
        "7 packets late",
        "they came after the playout delay of 40 ms; jitter is 3.2 ms",
        "use --latency 53ms (1 in 1000 late), or auto",
    );
    assert_eq!(newest(&log), expected);
    let adapted = Some(AdaptedDelay {
        target_ms: 61.0,
        mean_ms: 50.0,
        rises: 1,
        falls: 0,
        stretched_ms: 0.0,
        shortened_ms: 0.0,
        waits: 0,
        rough: 0,
        held_ms: 0.0,
    });
    log.on_received(at(100), &ReceiveStatus { adapted, ..received(0, 7) });
    assert_eq!(newest(&log).0, "the playout delay rises to 61 ms");
    assert_eq!(log.events().next().map(|event| event.weight), Some(Weight::Note));
}

#[test]
fn a_report_with_loss_is_told_once() {
    let mut log = StreamLog::new("udp://192.0.2.7");
    let sent = |loss| SendStatus { remote_loss_percent: Some(loss), ..SendStatus::default() };
    log.on_sent(at(0), &sent(0.0));
    log.on_sent(at(100), &sent(2.5));
    log.on_sent(at(9000), &sent(2.5));
    assert_eq!((log.events().len(), newest(&log).0), (1, "the receiver lost 2.5 %"));
    assert_eq!(newest(&log).1, "the network dropped them, by its last report");
    log.on_sent(at(9100), &SendStatus { worst_loss_percent: Some(10.0), members: 3, ..sent(2.5) });
    assert_eq!(newest(&log).0, "a receiver of the group lost 10.0 %");
}

#[test]
fn devices_and_the_source_have_causes_of_their_own() {
    let mut log = StreamLog::new("rtp://192.0.2.7");
    let device = Some(DeviceStatus { xruns: 2, lost_servers: 1, ..DeviceStatus::default() });
    log.on_sent(at(0), &SendStatus { device, starved: 120, refused: 1, ..SendStatus::default() });
    let all: Vec<&str> = log.events().map(|event| event.what.as_str()).collect();
    assert_eq!(
        all,
        [
            "the sound server is gone",
            "2 xruns of the sound server",
            "the source gave nothing for 120 ms",
            "1 packet refused by the transport"
        ]
    );
}

#[test]
fn the_minute_counts_by_seconds_and_forgets() {
    let mut log = StreamLog::new("rtp://:7710");
    log.on_received(at(500), &received(1, 0));
    log.on_received(at(900), &received(3, 1));
    log.on_received(at(3100), &received(4, 1));
    let lost: Vec<u64> = log.minute().seconds().map(|second| second.lost).collect();
    assert_eq!(lost, [3, 0, 0, 1]);
    for second in 4..200 {
        log.on_received(at(second * 1000), &received(4 + second, 1));
    }
    assert_eq!(log.minute().seconds().len(), Minute::SECONDS);
    // A gap of hours, as when a laptop slept.
    log.on_received(at(99_999_000), &received(300, 1));
    assert_eq!(log.minute().seconds().filter(|second| **second != Second::default()).count(), 1);
}

#[test]
fn events_are_bounded_and_counters_that_fall_do_no_harm() {
    let mut log = StreamLog::new("");
    for n in 0..10_000 {
        log.on_notice(at(n), "a notice");
    }
    assert_eq!(log.events().len(), MOST_EVENTS);
    log.on_received(at(0), &received(u64::MAX, u64::MAX));
    log.on_received(at(1), &received(0, 0));
    log.on_received(at(2), &received(u64::MAX, 0));
    assert!(log.events().len() <= MOST_EVENTS);
}
