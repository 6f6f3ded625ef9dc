//! A process that is stopped for minutes (SIGSTOP, a machine that is suspended while its clock goes on): for it the clock makes one step.
//! What came meanwhile is in its socket, as far as there is room. The stream goes on with the delay that it had.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::{Input, Instant, Participant, PathId, WireId, Wires, pump};
use antiphon_media::Source;
use antiphon_session::{Latency, PlayoutDelay, Session};

use crate::common::{ms, sending, stack, track_config};
use crate::held_up::{AUTO, FIXED, Microphone, receiver};
use crate::world::{MAX_DATAGRAM, WIRE, heard};

/// One side: a session, and the datagrams on their way to it or in its socket.
struct Process {
    session: Session,
    inbox: VecDeque<(Instant, Vec<u8>)>,
}

/// Datagrams that a socket holds: a quarter of a MiB, as the kernel counts small ones.
const SOCKET: usize = 300;
const ONE_WAY: Duration = Duration::from_millis(8);
/// When something is stopped, and for how long.
const FROM: Instant = Instant::from_millis(14_000);
const STOPPED: Duration = Duration::from_secs(180);

struct ToOther<'a> {
    inbox: &'a mut VecDeque<(Instant, Vec<u8>)>,
    room: bool,
}

impl Wires for ToOther<'_> {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        let mut buf = [0; MAX_DATAGRAM];
        while let Some(transmit) = participant.poll_transmit(now, wire, &mut buf) {
            // A socket that is not read keeps the oldest.
            if self.room || self.inbox.len() < SOCKET {
                self.inbox.push_back((now + ONE_WAY, buf[..transmit.len].to_vec()));
            }
        }
    }

    fn close(&mut self, _now: Instant, _wire: WireId) {}
}

/// A round of the process's media thread.
fn round(process: &mut Process, now: Instant, mut other: ToOther<'_>) {
    while let Some((came, mut bytes)) = process.inbox.pop_front_if(|(came, _)| *came <= now) {
        // The kernel's stamp, unless it is older than a stamp is believed to be (`net::OsClock`).
        let received_at = if now.since(came) > ms(1_000) { now } else { came };
        let input = Input::Datagram { path: PathId(0), bytes: &mut bytes, received_at };
        process.session.handle_input(now, WIRE, input);
    }
    pump(&mut process.session, now, &mut other);
}

/// The sound that waits, in milliseconds, and the defects, by time.
struct Seen {
    at: Instant,
    waits: f64,
    heard: u64,
    concealed: u64,
}

/// Runs until 40 s after the stop; `stopped`: the sender, the receiver.
fn run(latency: Latency, clocked: bool, stopped: [bool; 2]) -> Vec<Seen> {
    let clock = Arc::new(AtomicU64::new(0));
    let source = Microphone { now: clock.clone(), held: None, at: 0 };
    let format = source.format();
    let near = sending(&*stack("rtp"), Box::new(source), track_config(format, 5), PlayoutDelay::Unbounded);
    let mut ends =
        [near, receiver(latency, clocked)].map(|session| Process { session, inbox: VecDeque::new() });
    let (mut now, mut seen, until) = (Instant::ZERO, Vec::new(), FROM + STOPPED);
    while now < until + Duration::from_secs(40) {
        let is_stopped = now >= FROM && now < until;
        // Nothing happens while both stand still.
        now = if is_stopped && stopped == [true; 2] { until } else { now + ms(1) };
        clock.store(now.as_nanos(), Ordering::Relaxed);
        for at in 0..2 {
            if now >= FROM && now < until && stopped[at] {
                continue;
            }
            let (one, two) = ends.split_at_mut(1);
            let (own, other) = if at == 0 { (&mut one[0], &mut two[0]) } else { (&mut two[0], &mut one[0]) };
            let room = !(now >= FROM && now < until && stopped[1 - at]);
            round(own, now, ToOther { inbox: &mut other.inbox, room });
        }
        let track = heard(&ends[1].session);
        if let Some(counters) = track.playout() {
            let (heard, concealed) = (counters.played_frames, counters.concealed_frames);
            seen.push(Seen { at: now, waits: track.playout_level() as f64 / 48.0, heard, concealed });
        }
    }
    seen
}

fn goes_on_with_its_delay(latency: Latency, clocked: bool, stopped: [bool; 2]) {
    let seen = run(latency, clocked, stopped);
    let case = format!("{latency:?}, clocked {clocked}, stopped {stopped:?}");
    let within = |from: Instant, to: Instant| seen.iter().filter(move |seen| (from..to).contains(&seen.at));
    let mean = |from, to| {
        let (sum, n) = within(from, to).fold((0.0, 0.0), |(sum, n), seen| (sum + seen.waits, n + 1.0));
        sum / n
    };
    let again = FROM + STOPPED;
    let before = mean(FROM - ms(2_000), FROM);
    let soon: Vec<&Seen> = within(again + ms(1_000), again + ms(2_000)).collect();
    let (first, last) = (soon.first().expect("it runs"), soon.last().expect("it runs"));
    // A second later it sounds as before, without a gap.
    assert!(last.heard - first.heard > 46_000, "{case}: {} of 48 000", last.heard - first.heard);
    let end = seen.last().expect("it runs");
    assert_eq!(end.concealed, first.concealed, "{case}: gaps afterwards");
    let after = mean(again + ms(30_000), again + ms(40_000));
    assert!((after - before).abs() < 5.0, "{case}: {before} ms before, {after} after");
}

#[test]
fn a_stream_goes_on_with_its_delay_when_its_receiver_was_stopped() {
    for (latency, clocked) in [(FIXED, true), (FIXED, false), (AUTO, true), (AUTO, false)] {
        goes_on_with_its_delay(latency, clocked, [false, true]);
    }
}

#[test]
fn a_stream_goes_on_with_its_delay_when_its_sender_was_stopped() {
    for (latency, clocked) in [(FIXED, true), (FIXED, false), (AUTO, true), (AUTO, false)] {
        goes_on_with_its_delay(latency, clocked, [true, false]);
    }
}

#[test]
fn a_stream_goes_on_with_its_delay_when_both_ends_were_stopped() {
    for (latency, clocked) in [(FIXED, true), (FIXED, false), (AUTO, true), (AUTO, false)] {
        goes_on_with_its_delay(latency, clocked, [true; 2]);
    }
}
