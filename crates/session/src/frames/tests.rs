use std::collections::VecDeque;

use antiphon_core::uri::Query;
use antiphon_core::{Ecn, Outcome};
use antiphon_proto::{Beneath, OpenArgs, Role, TRANSPORTS, Transport};

use super::*;

/// Queues without another thread.
#[derive(Default)]
struct Queues {
    out: VecDeque<Vec<u8>>,
    came: Vec<Vec<u8>>,
    room: usize,
    refused: Vec<SendError>,
    outcomes: Vec<Outcome>,
    closed: bool,
    strangers: u64,
    state: LinkState,
}

impl FramePort for Queues {
    fn next(&mut self) -> Option<Frame<'_>> {
        self.out.front().map(|bytes| Frame::new(bytes, None))
    }

    fn taken(&mut self, result: Result<(), SendError>) {
        self.out.pop_front();
        self.refused.extend(result.err());
    }

    fn has_room(&mut self) -> bool {
        self.came.len() < self.room
    }

    fn deliver(&mut self, bytes: &[u8], _received: Received) {
        self.came.push(bytes.to_vec());
    }

    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Frame { outcome, .. } => self.outcomes.push(*outcome),
            Event::Closed(_) => self.closed = true,
            _ => {}
        }
    }

    fn on_round(&mut self, _stats: &PathStats, state: LinkState, strangers: u64) {
        self.state = state;
        self.strangers = strangers;
    }
}

fn station(transport: &'static Transport, role: Role) -> FrameStation<Queues> {
    let make = Box::new(move |now| {
        let (query, latency) = (Query::default(), Duration::from_millis(80));
        let args = OpenArgs { role, query: &query, seed: 7, now, max_datagram: 1472, latency };
        (transport.open)(&args).expect("no keys to refuse")
    });
    let peer = match role {
        Role::Caller => FramePeer::Called,
        Role::Listener => FramePeer::Awaited { admits: transport.admits, silence: Duration::from_secs(10) },
    };
    FrameStation::new(make, peer, Queues { room: 1000, ..Queues::default() }, Instant::ZERO)
}

/// Carries what `from` sends to `to`, as coming from `path`.
fn carry(now: Instant, from: &mut FrameStation<Queues>, to: &mut FrameStation<Queues>, path: PathId) {
    let mut buf = [0; 2048];
    while let Some(sent) = from.poll_transmit(now, &mut buf) {
        let (bytes, ecn) = (&buf[..sent.len], Ecn::NotCapable);
        to.handle_input(now, Input::Datagram { path, bytes, ecn, received_at: now });
    }
}

/// Where the caller is, as the listener sees it; and the listener, as the caller does.
const CALLER: PathId = PathId(5);

fn run(from_ms: u64, to_ms: u64, caller: &mut FrameStation<Queues>, listener: &mut FrameStation<Queues>) {
    for ms in from_ms..to_ms {
        let now = Instant::from_millis(ms);
        caller.advance(now);
        carry(now, caller, listener, CALLER);
        listener.advance(now);
        carry(now, listener, caller, PathId::default());
    }
}

#[test]
fn frames_go_both_ways_over_every_datagram_transport_and_closing_leaves_none_behind() {
    for transport in TRANSPORTS.iter().filter(|transport| transport.beneath == Beneath::Udp) {
        let name = transport.scheme;
        let (mut caller, mut listener) =
            (station(transport, Role::Caller), station(transport, Role::Listener));
        listener.port.out.push_back(b"waits for a caller".to_vec());
        caller.port.out.extend((0..20u8).map(|n| vec![n; 100]));
        listener.advance(Instant::ZERO);
        assert_eq!(listener.port.state, LinkState::Waiting, "{name}");
        run(0, 1000, &mut caller, &mut listener);
        assert_eq!((caller.port.state, listener.port.state), (LinkState::Connected, LinkState::Connected));
        assert_eq!(listener.port.came, (0..20u8).map(|n| vec![n; 100]).collect::<Vec<_>>(), "{name}");
        assert_eq!(caller.port.came, [b"waits for a caller"], "{name}");
        caller.port.out.push_back(b"last words".to_vec());
        caller.stop(Instant::from_millis(1000));
        run(1000, 4000, &mut caller, &mut listener);
        assert!(caller.is_finished() && caller.port.closed, "{name}");
        assert_eq!(listener.port.came.last().map(Vec::as_slice), Some(&b"last words"[..]), "{name}");
        assert_eq!((caller.port.outcomes.len(), caller.port.refused.len()), (21, 0), "{name}");
    }
}

#[test]
fn strangers_are_kept_out_until_the_peer_has_fallen_silent() {
    let udp = TRANSPORTS[0];
    let (mut first, mut second) = (station(udp, Role::Caller), station(udp, Role::Caller));
    let mut listener = station(udp, Role::Listener);
    let mut say = |ms: u64, from: &mut FrameStation<Queues>, path: u32| {
        let now = Instant::from_millis(ms);
        from.port.out.push_back(vec![path as u8; 8]);
        from.advance(now);
        carry(now, from, &mut listener, PathId(path));
        listener.advance(now);
        (listener.port.came.len(), listener.port.strangers)
    };
    assert_eq!(say(0, &mut first, 1), (1, 0));
    assert_eq!(say(9_000, &mut second, 2), (1, 1));
    assert_eq!(say(9_500, &mut first, 1), (2, 1));
    assert_eq!(say(19_499, &mut second, 2), (2, 2));
    assert_eq!(say(19_500, &mut second, 2), (3, 2));
    assert_eq!(say(19_600, &mut first, 1), (3, 3));
}

#[test]
fn a_full_port_holds_frames_back_and_what_is_too_large_is_told() {
    let udp = TRANSPORTS[0];
    let (mut caller, mut listener) = (station(udp, Role::Caller), station(udp, Role::Listener));
    listener.port.room = 3;
    caller.port.out.extend((0..5u8).map(|n| vec![n; 10]));
    caller.port.out.push_back(vec![0; 1473]);
    run(0, 10, &mut caller, &mut listener);
    assert_eq!(listener.port.came.len(), 3);
    assert_eq!(caller.port.refused, [SendError::TooLarge { len: 1473, max: 1472 }]);
    listener.port.room = 10;
    run(10, 12, &mut caller, &mut listener);
    assert_eq!(listener.port.came.len(), 5);
}

#[test]
fn a_refused_datagram_speaks_against_the_peer_for_a_while_or_until_it_is_heard() {
    let udp = TRANSPORTS[0];
    let (mut caller, mut listener) = (station(udp, Role::Caller), station(udp, Role::Listener));
    run(0, 2, &mut caller, &mut listener);
    let mut state_at = |ms: u64| {
        caller.advance(Instant::from_millis(ms));
        caller.port.state
    };
    assert_eq!(state_at(5), LinkState::Connected);
    caller.handle_input(Instant::from_millis(10), Input::Broken(antiphon_core::BrokenReason::Refused));
    let mut state_at = |ms: u64| {
        caller.advance(Instant::from_millis(ms));
        caller.port.state
    };
    assert_eq!((state_at(10), state_at(2_009), state_at(2_010)), {
        use LinkState::{Broken, Connected};
        (Broken, Broken, Connected)
    });
}
