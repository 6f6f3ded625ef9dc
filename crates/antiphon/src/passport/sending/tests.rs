use antiphon_core::Instant;
use antiphon_trace::PassportError;

use super::*;
use crate::passport::live::written;

fn sent(number: u64) -> PacketEvent {
    PacketEvent::Sent { number, at: Instant::from_nanos(100 * number), len: 50 }
}

fn became(number: u64, at: u64, outcome: Outcome) -> PacketEvent {
    PacketEvent::Outcome { number, at: Instant::from_nanos(at), outcome }
}

const INTERVAL: Duration = Duration::from_millis(5);

#[test]
fn acknowledgements_are_round_trips_and_what_was_given_up_was_not_on_the_path() {
    let passing = [
        sent(0),
        sent(1),
        sent(3),
        sent(4),
        sent(5),
        became(1, 320, Outcome::Acked),
        became(0, 330, Outcome::Acked),
        became(3, 340, Outcome::Expired { maybe_received: false }),
        became(4, 350, Outcome::RetriesExhausted),
    ];
    let passport = written(Sending::new("srp", true, true, 44, INTERVAL), &passing);
    let rows: Vec<_> = passport.sections[0]
        .packets
        .iter()
        .map(|row| (row.number, row.sent, row.arrived, row.bytes))
        .collect();
    let row = |number, sent, arrived| (number, Some(sent), arrived, Some(94));
    assert_eq!(rows, [row(0, 0, Some(330)), row(1, 100, Some(320)), row(4, 400, None), row(5, 500, None)]);
    let section = &passport.sections[0].section;
    assert_eq!((section.direction, section.delays), (Direction::Both, Delays::RoundTrip));
    assert_eq!((section.packet_bytes, section.interval_ns), (94, Some(5_000_000)));
}

#[test]
fn without_acknowledgements_only_times_of_sending_are_known_and_replay_says_so() {
    let passing = [sent(0), sent(1), became(0, 5, Outcome::Released)];
    let passport = written(Sending::new("rtp", false, false, 28, INTERVAL), &passing);
    assert_eq!(passport.sections[0].section.delays, Delays::Unknown);
    assert!(passport.sections[0].packets.iter().all(|row| row.sent.is_some() && row.arrived.is_none()));
    assert!(matches!(passport.paths(None), Err(PassportError::NoArrivals)));
}

#[test]
fn an_acknowledgement_too_late_for_its_row_is_counted() {
    let mut passing: Vec<PacketEvent> = (0..=Window::LEN as u64).map(sent).collect();
    passing.extend([became(0, 1_000, Outcome::Acked), became(1, 1_000, Outcome::Acked)]);
    let passport = written(Sending::new("srp", true, true, 44, INTERVAL), &passing);
    assert_eq!(passport.unrecorded, 1);
    let arrived = passport.sections[0].packets.iter().filter(|row| row.arrived.is_some());
    assert_eq!(arrived.map(|row| row.number).collect::<Vec<_>>(), [1]);
}
