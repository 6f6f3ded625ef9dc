use std::cell::RefCell;

use super::*;
use crate::endpoint::handle_due;
use crate::event::{CloseReason, Outcome};
use crate::input::{BrokenReason, Wire};
use crate::message::{StreamId, Tag};
use crate::stats::Counters;

/// An endpoint that records its calls, arguments included, and returns a distinct result for each.
#[derive(Default)]
struct Recorder {
    calls: RefCell<Vec<String>>,
}

impl Recorder {
    fn record(&self, call: String) {
        self.calls.borrow_mut().push(call);
    }
}

fn stats(duplicates: u64) -> PathStats {
    PathStats { counters: Counters { duplicates, ..Counters::default() }, ..PathStats::default() }
}

impl Endpoint for Recorder {
    fn profile(&self) -> Profile {
        self.record("profile".into());
        Profile {
            wire: Wire::Datagram,
            max_message: 1,
            max_receive: 2,
            message_overhead: 3,
            bare: false,
            acknowledged: true,
            ordered: false,
            retransmits: true,
            priorities: true,
            reliable: false,
            streams: 4,
            calls_with_first_message: true,
            paces_itself: true,
            capabilities: crate::Capabilities::default(),
        }
    }

    fn reserve(&mut self, messages: usize) {
        self.record(format!("reserve {messages}"));
    }

    fn send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        self.record(format!("send {now:?} {message:?}"));
        Err(SendError::Blocked { queued: 5 })
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        self.record(format!("close {now:?} {mode:?}"));
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.record(format!("handle_input {now:?} {input:?}"));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.record(format!("handle_timeout {now:?}"));
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.record(format!("poll_transmit {now:?}"));
        buf.fill(6);
        Some(Transmit { path: PathId(7), len: buf.len() })
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.record("poll_message".into());
        buf.fill(8);
        let (path, stream, received_at) = (PathId(9), StreamId(10), Instant::from_millis(11));
        Some(Received { len: buf.len(), path, stream, received_at, repaired: true })
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.record("poll_event".into());
        Some(Event::Outcome { tag: Tag(12), outcome: Outcome::Acked })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.record("poll_timeout".into());
        Some(Instant::from_millis(13))
    }

    fn stats(&self) -> PathStats {
        self.record("stats".into());
        stats(14)
    }

    fn path_stats(&self, path: PathId) -> Option<PathStats> {
        self.record(format!("path_stats {path:?}"));
        Some(stats(15))
    }
}

/// A layer that changes nothing.
#[derive(Default)]
struct Nothing {
    inner: Recorder,
}

impl Layer for Nothing {
    fn inner(&self) -> &dyn Endpoint {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Endpoint {
        &mut self.inner
    }
}

/// Calls every method of an endpoint; returns the results.
fn exercise(endpoint: &mut dyn Endpoint) -> Vec<String> {
    let now = Instant::from_millis(20);
    let mut buf = [0; 3];
    let mut answers = vec![format!("{:?}", endpoint.profile())];
    endpoint.reserve(21);
    answers.push(format!("{:?}", endpoint.send(now, Message::new(Tag(24), &[22], Some(now)))));
    endpoint.close(now, CloseMode::Abort);
    endpoint.handle_input(now, Input::Broken(BrokenReason::Refused));
    endpoint.handle_timeout(now);
    answers.push(format!("{:?} {buf:?}", endpoint.poll_transmit(now, &mut buf)));
    answers.push(format!("{:?} {buf:?}", endpoint.poll_message(&mut buf)));
    answers.push(format!("{:?}", endpoint.poll_event()));
    answers.push(format!("{:?}", endpoint.poll_timeout()));
    answers.push(format!("{:?}", endpoint.stats()));
    answers.push(format!("{:?}", endpoint.path_stats(PathId(23))));
    answers
}

#[test]
fn a_layer_that_changes_nothing_forwards_every_method() {
    let (mut bare, mut layered) = (Recorder::default(), Nothing::default());
    assert_eq!(exercise(&mut bare), exercise(&mut layered));
    let calls = bare.calls.into_inner();
    assert_eq!(calls, layered.inner.calls.into_inner());
    let names: Vec<&str> = calls.iter().map(|call| call.split(' ').next().unwrap_or(call)).collect();
    let methods = [
        "profile",
        "reserve",
        "send",
        "close",
        "handle_input",
        "handle_timeout",
        "poll_transmit",
        "poll_message",
        "poll_event",
        "poll_timeout",
        "stats",
        "path_stats",
    ];
    assert_eq!(names, methods, "every method of Endpoint, each once");
}

/// A layer that overrides every hook, and reaches the inner endpoint only through those that must forward something.
#[derive(Default)]
struct Everything {
    inner: Recorder,
}

impl Layer for Everything {
    fn inner(&self) -> &dyn Endpoint {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Endpoint {
        &mut self.inner
    }

    fn on_profile(&self, inner: Profile) -> Profile {
        Profile { max_message: inner.max_message + 1, ..inner }
    }

    fn on_reserve(&mut self, _messages: usize) {}

    fn on_send(&mut self, _now: Instant, _message: Message<'_>) -> Result<(), SendError> {
        Err(SendError::Empty)
    }

    fn on_close(&mut self, _now: Instant, _mode: CloseMode) {}

    fn on_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn on_timeout(&mut self, _now: Instant) {}

    fn on_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn on_message(&mut self, _buf: &mut [u8]) -> Option<Received> {
        None
    }

    fn on_event(&mut self) -> Option<Event> {
        Some(Event::Closed(CloseReason::Local))
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_stats(&self, inner: PathStats) -> PathStats {
        stats(inner.counters.duplicates + 1)
    }

    fn on_path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}

#[test]
fn every_hook_stands_before_its_method() {
    let mut layered = Everything::default();
    let answers = exercise(&mut layered);
    let calls = layered.inner.calls.into_inner();
    assert_eq!(calls, ["profile", "stats"].map(String::from));
    assert!(answers[0].contains("max_message: 2,"), "{answers:?}");
    assert!(answers[6].contains("duplicates: 15,"), "{answers:?}");
}

#[test]
fn handle_due_waits_for_the_time_out() {
    let mut endpoint = Recorder::default();
    handle_due(&mut endpoint, Instant::from_millis(12));
    handle_due(&mut endpoint, Instant::from_millis(13));
    let calls = endpoint.calls.into_inner();
    assert_eq!(calls.iter().filter(|call| call.starts_with("handle_timeout")).count(), 1, "{calls:?}");
}
