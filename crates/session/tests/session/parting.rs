//! What an endpoint learns while it is asked for something to send takes effect at once.

use std::cell::Cell;
use std::collections::VecDeque;

use antiphon_core::{
    Capabilities, CloseMode, CloseReason, ConnectionId, Dissector, Endpoint, Event, Input, Instant, Message,
    OverIp, Participant, PathId, PathStats, Plain, Profile, Received, Role, SendError, Stack, StreamPlace,
    Transmit, Validator, Verdict, Wire,
};
use antiphon_session::{Policy, Reflector, ReflectorConfig};

use crate::world::{WIRE, datagram, ms};

/// Sends a byte after a while, or lets it expire, and ends with it.
struct Parting {
    due: Instant,
    expires: bool,
    sent: bool,
    events: VecDeque<Event>,
}

impl Endpoint for Parting {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_message: 10,
            max_receive: 10,
            message_overhead: 0,
            bare: true,
            acknowledged: false,
            ordered: false,
            retransmits: false,
            priorities: false,
            reliable: false,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: false,
            capabilities: Capabilities::default(),
        }
    }

    fn reserve(&mut self, _messages: usize) {}

    fn send(&mut self, _now: Instant, _message: Message<'_>) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    fn close(&mut self, _now: Instant, _mode: CloseMode) {}

    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        let sends = !self.sent && self.due <= now;
        self.sent |= sends;
        self.events.extend(sends.then_some(Event::Closed(CloseReason::Local)));
        (sends && !self.expires).then_some(Transmit { path: PathId::default(), len: 1 })
    }

    fn poll_message(&mut self, _buf: &mut [u8]) -> Option<Received> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.sent).then_some(self.due)
    }

    fn stats(&self) -> PathStats {
        PathStats::default()
    }

    fn path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}

/// Opens endpoints that end so many milliseconds from now, each after its own time.
struct Partings {
    after: Cell<Vec<u64>>,
    expires: bool,
}

impl Stack for Partings {
    fn open(&self, now: Instant, _role: Role) -> Box<dyn Endpoint> {
        let mut after = self.after.take();
        let due = now + ms(after.remove(0));
        self.after.set(after);
        Box::new(Parting { due, expires: self.expires, sent: false, events: VecDeque::new() })
    }

    fn validator(&self, _now: Instant) -> Box<dyn Validator> {
        Box::new(Anyone)
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        Box::new(Plain)
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        None
    }
}

struct Anyone;

impl Validator for Anyone {
    fn validate(&mut self, _now: Instant, _path: PathId, _datagram: &[u8], _out: &mut [u8]) -> Verdict {
        Verdict::Accept
    }

    fn release(&mut self) {}

    fn flow_label(&self, _datagram: &[u8]) -> u16 {
        0
    }

    fn place_of(&self, _datagram: &[u8]) -> Option<StreamPlace> {
        None
    }

    fn id_of(&self, _datagram: &[u8]) -> Option<ConnectionId> {
        None
    }
}

#[test]
fn events_raised_while_sending_are_handled_at_once() {
    for expires in [false, true] {
        let stack = Partings { after: Cell::new(vec![3, 1, 2, 9]), expires };
        let policy = Policy::Many { most: 3, idle: ms(10_000) };
        let (mut now, mut buf) = (Instant::from_millis(1), [0; 10]);
        let mut hub = Reflector::new(now, WIRE, std::rc::Rc::new(stack), policy, ReflectorConfig::default());
        for path in [3, 1, 2].map(PathId) {
            hub.handle_input(now, WIRE, datagram(&mut [1], path, now));
        }
        for path in [1, 2, 3].map(PathId) {
            hub.advance(now);
            assert_eq!(hub.poll_transmit(now, WIRE, &mut buf).map(|transmit| transmit.path), None);
            hub.advance(now);
            now += ms(1);
            assert_eq!(hub.poll_timeout(), Some(now));
            hub.advance(now);
            let sent = hub.poll_transmit(now, WIRE, &mut buf).map(|transmit| transmit.path);
            assert_eq!(sent, (!expires).then_some(path));
            assert!(hub.knows(WIRE, path) && hub.poll_transmit(now, WIRE, &mut buf).is_none());
            assert!(hub.poll_timeout().is_some_and(|due| due <= now), "there is something to hear");
            hub.advance(now);
            assert!(!hub.knows(WIRE, path), "{path:?} has gone");
        }
        assert_eq!((hub.associations().iter().count(), hub.poll_timeout()), (0, None));
        // Their slots are reused.
        hub.handle_input(now, WIRE, datagram(&mut [1], PathId(9), now));
        hub.advance(now);
        assert_eq!(hub.poll_timeout(), Some(now + ms(9)));
    }
}
