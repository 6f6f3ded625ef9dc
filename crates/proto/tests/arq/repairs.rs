//! Which losses are repaired, and at what cost.

use std::time::Duration;

use antiphon_core::Outcome;

use crate::world::{Plan, Run, run};

/// The report's stream: 1300-byte packets (less the header here), one every 7.37 ms.
fn plan<'a>(query: &'a str, link: &'a str) -> Plan<'a> {
    Plan {
        query,
        link,
        messages: 20_000,
        interval: Duration::from_micros(7_370),
        budget: Duration::from_millis(80),
        len: 1200,
        seed: 7,
    }
}

fn expired(run: &Run) -> usize {
    run.outcomes.values().filter(|o| **o == Outcome::Expired { maybe_received: true }).count()
}

/// With p on data and q on acknowledgements, and a round trip under the time-out, each sending is answered with
/// (1 - p)(1 - q): lost is what is lost four times, and E[sendings] = (1 - s⁴)/(1 - s), s = 1 - (1 - p)(1 - q).
#[test]
fn as_published_loses_and_doubles_what_the_closed_form_says() {
    let run = run(&plan("mode=as-published", "delay=5ms,loss=30%"));
    let (p, n) = (0.3f64, 20_000.0f64);
    let s: f64 = 1.0 - (1.0 - p) * (1.0 - p);
    let sendings = (1.0 - s.powi(4)) / (1.0 - s);
    // 4 standard errors (0.25 percentage points); three sendings instead of four would lose 2.7 % instead of 0.81 %.
    let lost = p.powi(4);
    let error = 4.0 * (lost * (1.0 - lost) / n).sqrt();
    assert!((run.residual() - lost).abs() < error, "lost {} for {lost}", run.residual());
    // Sendings per packet vary by 1.0: 4 standard errors are 0.03. A repetition too few would take off 0.13.
    let sent = run.sent_at.len() as f64 / n;
    assert!((sent - sendings).abs() < 0.03, "{sent} sendings for {sendings}");
    let doubled = (1.0 - p) * sendings - (1.0 - lost);
    // As many as sendings vary, less the losses; without acknowledgements of duplicates it would be 0.45 more.
    assert!((run.doubled() - doubled).abs() < 0.03, "{} doubled for {doubled}", run.doubled());
    assert!(run.lost_on_link > 9_000, "the losses happened: {}", run.lost_on_link);
}

#[test]
fn as_published_repeats_at_20_40_and_60_ms_and_then_forgets() {
    let run = run(&Plan { messages: 1, ..plan("mode=as-published", "delay=5ms,loss=100%") });
    let at: Vec<u64> = run.sent_at.iter().map(|t| t.as_nanos() / 1_000_000 - 1).collect();
    assert_eq!(at, [0, 20, 40, 60]);
    assert_eq!(run.outcomes.into_values().collect::<Vec<_>>(), [Outcome::RetriesExhausted]);
}

/// The report's finding at 12 Mbit/s: acknowledgements that take 40 ms mean every packet is sent three times (two
/// repetitions go out before the first answer can come).
#[test]
fn as_published_repeats_needlessly_on_long_round_trips() {
    let run = run(&Plan { messages: 1_000, ..plan("mode=as-published", "delay=21ms") });
    assert_eq!((run.sent_at.len(), run.residual()), (3_000, 0.0));
    assert_eq!(run.doubled(), 2.0);
}

#[test]
fn improved_repairs_within_the_deadline_and_wastes_little() {
    let (p, link) = (0.1f64, "delay=10ms,loss=10%");
    let run_improved = run(&plan("", link));
    let published = run(&plan("mode=as-published", "delay=9ms,loss=10%"));
    // A sending and its discovery by the next packet's acknowledgement or by the time-out take under 40 ms: three sendings
    // fit into the budget of 80 ms. 4 standard errors on p³ of 20 000 messages; one repair fewer would lose 1 %.
    let bound = p.powi(3) + 4.0 * (p.powi(3) / 20_000.0).sqrt();
    assert!(run_improved.residual() < bound, "{}", run_improved.residual());
    // Sent at the deadline at the latest, and 10 ms on the way.
    assert!(run_improved.worst_age() <= Duration::from_millis(90), "{:?}", run_improved.worst_age());
    assert_eq!(run_improved.doubled(), 0.0, "every message is handed on once");
    let (ours, theirs) = (run_improved.wasted(), published.wasted());
    assert!(theirs > 0.1 && ours < theirs / 4.0, "wasted {ours} and {theirs}");
    assert!(run_improved.repaired > 1_500 && run_improved.lost_on_link > 1_500);
    let (ours, theirs) = (run_improved.receiver, published.receiver);
    assert!(ours.datagrams_sent < theirs.datagrams_sent, "fewer acknowledgements: {ours:?} {theirs:?}");
}

#[test]
fn a_burst_of_packets_is_acknowledged_by_few() {
    let stream = Plan { interval: Duration::from_micros(500), ..plan("", "delay=10ms") };
    let run = run(&stream);
    assert_eq!((run.residual(), run.stats.counters.retransmitted), (0.0, 0));
    assert!(run.receiver.datagrams_sent <= 20_000 / 8 + 2, "{}", run.receiver.datagrams_sent);
    let srtt = run.stats.srtt.unwrap();
    // The peer's delay is taken off, to its unit of 10 us.
    assert!(srtt.abs_diff(Duration::from_millis(20)) < Duration::from_micros(20), "{srtt:?}");
}

#[test]
fn nothing_is_sent_again_that_would_come_too_late() {
    let run = run(&Plan { messages: 2_000, ..plan("", "delay=50ms,loss=10%") });
    assert_eq!(run.stats.counters.retransmitted, 0, "the discovery takes 100 ms");
    assert!(run.worst_age() == Duration::from_millis(50) && run.residual() > 0.05);
    // Messages that did arrive are reported so, although the answer came after the deadline.
    let arrived = run.outcomes.iter().filter(|(number, _)| run.arrivals.contains_key(number));
    let told = arrived.filter(|(_, outcome)| **outcome == Outcome::Acked).count();
    assert!(told as f64 > 0.97 * run.arrivals.len() as f64, "{told} of {}", run.arrivals.len());
    assert!(expired(&run) > 100);
}

/// A link of 1 Mbit/s under a stream of 1.9 Mbit/s: what does not fit is dropped before the link, not in it.
#[test]
fn the_window_answers_congestion() {
    let overload = |query| {
        run(&Plan {
            messages: 2_000,
            interval: Duration::from_millis(5),
            budget: Duration::from_millis(300),
            ..plan(query, "delay=10ms,rate=1Mbit/s,queue=8kB")
        })
    };
    let (open, window) = (overload(""), overload("congestion=aimd"));
    // The path holds 1 Mbit/s for 20 ms and the queue: 10.5 kB. Half of that is 5.2 kB; twice less is another answer.
    let least = window.least_cwnd.unwrap();
    assert!((4_000..7_500).contains(&least), "{least}");
    assert_eq!(open.least_cwnd, None);
    let displaced = |run: &Run| run.stats.counters.datagrams_sent - run.arrivals.len() as u64;
    assert!(displaced(&open) > 8 * displaced(&window), "{} {}", displaced(&open), displaced(&window));
    let (all, some) = (open.arrivals.len(), window.arrivals.len());
    // The link carries 1037 packets in these 10 s either way; a window that stalls would lose a tenth of them.
    assert!(some + some / 20 > all, "{some} of {all}");
}

/// The published loop forgets its overshoot: with an answer after 0.3 ms its turns are at 0.3, 1.3 … 7.3, 8.3 ms, and
/// the first at or after 7.4 ms sends.
#[test]
fn the_papers_loop_runs_slow() {
    let messages = 100;
    let slow = plan("mode=as-published&tick=1ms&pace=7.4ms", "delay=150us");
    let run = run(&Plan { messages, interval: Duration::ZERO, budget: Duration::from_secs(2), ..slow });
    let spacing: Vec<Duration> = run.sent_at.windows(2).map(|w| w[1].since(w[0])).collect();
    assert_eq!(spacing, vec![Duration::from_micros(8_300); messages as usize - 1]);
}

#[test]
fn acknowledgements_read_one_a_turn_come_too_late() {
    // 20 messages at once, answered after 2 ms; a turn of 4 ms reads the sixth answer only after more than 20 ms.
    let burst = plan("mode=as-published&tick=1ms&turn=4ms", "delay=1ms");
    let run = run(&Plan { messages: 20, interval: Duration::ZERO, ..burst });
    assert_eq!(run.residual(), 0.0);
    let spacing: Vec<Duration> = run.sent_at.windows(2).map(|w| w[1].since(w[0])).collect();
    assert!(spacing[..4].iter().all(|s| *s == Duration::from_millis(4)), "one a turn: {spacing:?}");
}
