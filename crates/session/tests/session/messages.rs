//! An application's own messages, in a session with a port.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use antiphon_core::{
    BrokenReason, Event, Input, Instant, Message, Outcome, Participant, PathId, PathStats, Received,
    SendError, Tag,
};
use antiphon_session::{LinkState, MessagePort, Session};
use antiphon_testkit::{World, sent_on};

use crate::common::session_config;
use crate::world::{MAX_DATAGRAM, WIRE, datagram, datagram_transports, ms, stack};

/// Queues without another thread.
#[derive(Default)]
pub struct Queues {
    pub out: VecDeque<Vec<u8>>,
    pub came: Vec<Vec<u8>>,
    pub room: usize,
    pub refused: Vec<SendError>,
    pub accepted: Vec<Tag>,
    pub outcomes: Vec<(Tag, Outcome)>,
    pub broken: usize,
    pub closed: bool,
    pub unknown_sources: u64,
    pub state: LinkState,
    next: u64,
}

type Shared = Rc<RefCell<Queues>>;

/// The session's end of [`Queues`], and the message that was asked for last.
struct Port(Shared, Vec<u8>);

impl MessagePort for Port {
    fn next(&mut self) -> Option<Message<'_>> {
        let queues = self.0.borrow();
        self.1.clone_from(queues.out.front()?);
        Some(Message::new(Tag(queues.next), &self.1, None))
    }

    fn taken(&mut self, result: Result<(), SendError>) {
        let mut queues = self.0.borrow_mut();
        let tag = Tag(queues.next);
        queues.next += 1;
        queues.out.pop_front();
        match result {
            Ok(()) => queues.accepted.push(tag),
            Err(error) => queues.refused.push(error),
        }
    }

    fn has_room(&mut self) -> bool {
        self.0.borrow().came.len() < self.0.borrow().room
    }

    fn deliver(&mut self, bytes: &[u8], _received: Received) {
        self.0.borrow_mut().came.push(bytes.to_vec());
    }

    fn on_event(&mut self, event: &Event) {
        let mut queues = self.0.borrow_mut();
        assert!(!queues.closed, "{event:?} after the end");
        match event {
            Event::Outcome { tag, outcome } => queues.outcomes.push((*tag, *outcome)),
            Event::Broken(_) => queues.broken += 1,
            Event::Closed(_) => queues.closed = true,
            _ => {}
        }
    }

    fn on_round(&mut self, _stats: &PathStats, state: LinkState, unknown_sources: u64) {
        let mut queues = self.0.borrow_mut();
        (queues.state, queues.unknown_sources) = (state, unknown_sources);
    }

    fn room(&self) -> usize {
        64
    }
}

fn with_port() -> (Session, Shared) {
    let queues = Rc::new(RefCell::new(Queues { room: 10_000, ..Queues::default() }));
    let mut session = Session::new(session_config("data", 3), Instant::ZERO);
    session.set_port(Box::new(Port(queues.clone(), Vec::new())));
    (session, queues)
}

/// A session with a port that calls.
pub fn calling(name: &str, paths: &[PathId]) -> (Session, Shared) {
    let (mut session, queues) = with_port();
    session.call(Instant::ZERO, WIRE, paths, &*stack(name));
    (session, queues)
}

/// A session with a port that waits for a caller.
pub fn waiting(name: &str) -> (Session, Shared) {
    let (mut session, queues) = with_port();
    session.listen(Instant::ZERO, WIRE, stack(name), ms(10_000));
    (session, queues)
}

/// Carries what `from` sends to `to`, as coming from `path`.
fn carry(now: Instant, from: &mut Session, to: &mut Session, path: PathId) {
    for (_, mut bytes) in sent_on(from, now, WIRE) {
        to.handle_input(now, WIRE, datagram(&mut bytes, path, now));
    }
}

/// The caller's path as the listener sees it; and the listener's, as the caller does.
const CALLER: PathId = PathId(5);

fn run(from_ms: u64, to_ms: u64, caller: &mut Session, listener: &mut Session) {
    for ms in from_ms..to_ms {
        let now = Instant::from_millis(ms);
        caller.advance(now);
        carry(now, caller, listener, CALLER);
        listener.advance(now);
        carry(now, listener, caller, PathId::default());
    }
}

/// Includes calls that a validator answers.
#[test]
fn nothing_of_a_call_is_an_unknown_sources() {
    for transport in datagram_transports() {
        let (near, queues) = calling(transport.scheme, &[PathId(0)]);
        queues.borrow_mut().out.extend((0..20).map(|_| b"a message of somebody's".to_vec()));
        let (far, heard) = waiting(transport.scheme);
        let mut world = World::linked(near, far, "delay=5ms", 3);
        world.run_until(Instant::ZERO + ms(1_000));
        let heard = heard.borrow();
        assert_eq!((heard.came.len(), heard.unknown_sources), (20, 0), "{}", transport.scheme);
    }
}

#[test]
fn messages_go_both_ways_and_closing_loses_none() {
    for transport in datagram_transports() {
        let name = transport.scheme;
        let ((mut caller, near), (mut listener, far)) = (calling(name, &[PathId(0)]), waiting(name));
        far.borrow_mut().out.push_back(b"waits for a caller".to_vec());
        near.borrow_mut().out.extend((0..20u8).map(|n| vec![n; 100]));
        listener.advance(Instant::ZERO);
        assert_eq!(far.borrow().state, LinkState::Waiting, "{name}");
        run(0, 1000, &mut caller, &mut listener);
        assert_eq!((near.borrow().state, far.borrow().state), (LinkState::Connected, LinkState::Connected));
        assert_eq!(far.borrow().came, (0..20u8).map(|n| vec![n; 100]).collect::<Vec<_>>(), "{name}");
        assert_eq!(near.borrow().came, [b"waits for a caller"], "{name}");
        near.borrow_mut().out.push_back(b"last words".to_vec());
        caller.stop(Instant::from_millis(1000));
        run(1000, 4000, &mut caller, &mut listener);
        assert!(caller.is_finished() && near.borrow().closed, "{name}");
        assert_eq!(far.borrow().came.last().map(Vec::as_slice), Some(&b"last words"[..]), "{name}");
        let near = near.borrow();
        assert_eq!((near.outcomes.len(), near.refused.len()), (21, 0), "{name}");
        let mut tags: Vec<Tag> = near.outcomes.iter().map(|(tag, _)| *tag).collect();
        tags.sort();
        assert_eq!(tags, near.accepted, "{name}: exactly one outcome of each message");
    }
}

/// Where a transport has no handshake, a question is asked: at once, and with pauses from 250 ms to 5 s; neither it nor its
/// answer is the application's.
#[test]
fn a_caller_waits_for_the_first_sign_of_life() {
    for transport in datagram_transports() {
        let name = transport.scheme;
        let ((mut caller, near), (mut listener, far)) = (calling(name, &[PathId(0)]), waiting(name));
        let (mut buf, mut asked) = ([0; 2048], 0);
        for ms in 0..20_000 {
            let now = Instant::from_millis(ms);
            caller.advance(now);
            while caller.poll_transmit(now, WIRE, &mut buf).is_some() {
                asked += 1;
            }
        }
        assert_eq!(near.borrow().state, LinkState::Waiting, "{name}: nobody is there");
        let bare = matches!(name, "rtp");
        // After 0, 0.25, 0.75, 1.75, 3.75, 7.75, 12.75 and 17.75 s.
        assert!(asked == 8 || !bare && asked > 0, "{name}: {asked} datagrams");
        run(20_000, 40_000, &mut caller, &mut listener);
        assert_eq!(
            (near.borrow().state, far.borrow().state),
            (LinkState::Connected, LinkState::Connected),
            "{name}"
        );
        assert!(
            near.borrow().came.is_empty() && far.borrow().came.is_empty(),
            "{name}: no message of the application's"
        );
        assert!(near.borrow().outcomes.is_empty() && far.borrow().outcomes.is_empty(), "{name}");
        // Nothing more is asked.
        if bare {
            (40_000..60_000).for_each(|ms| caller.advance(Instant::from_millis(ms)));
            assert!(caller.poll_transmit(Instant::from_millis(60_000), WIRE, &mut buf).is_none(), "{name}");
        }
    }
}

/// An answer is as long as its question, and nothing is replied to it.
#[test]
fn questions_do_not_multiply() {
    let ((mut caller, _), (mut listener, _)) = (calling("rtp", &[PathId(0)]), waiting("rtp"));
    let mut buf = [0; 2048];
    caller.advance(Instant::ZERO);
    let question = caller.poll_transmit(Instant::ZERO, WIRE, &mut buf).expect("asked at once").len;
    let mut answers = 0;
    for ms in 0..100 {
        let now = Instant::from_millis(ms);
        let mut copy = buf;
        listener.handle_input(now, WIRE, datagram(&mut copy[..question], CALLER, now));
        listener.advance(now);
        let mut answer = [0; 2048];
        while let Some(sent) = listener.poll_transmit(now, WIRE, &mut answer) {
            assert_eq!(sent.len, question);
            answers += 1;
            caller.handle_input(now, WIRE, datagram(&mut answer[..sent.len], PathId(0), now));
            caller.advance(now);
            assert!(caller.poll_transmit(now, WIRE, &mut [0; 2048]).is_none());
        }
    }
    assert_eq!(answers, 100);
}

#[test]
fn others_are_kept_out_until_the_peer_has_fallen_silent() {
    let ((mut first, of_first), (mut second, of_second)) =
        (calling("rtp", &[PathId(0)]), calling("rtp", &[PathId(0)]));
    let (mut listener, far) = waiting("rtp");
    let mut say = |ms: u64, from: &mut Session, queues: &Shared, path: u32| {
        let now = Instant::from_millis(ms);
        queues.borrow_mut().out.push_back(vec![path as u8; 8]);
        from.advance(now);
        carry(now, from, &mut listener, PathId(path));
        listener.advance(now);
        (far.borrow().came.len(), far.borrow().unknown_sources)
    };
    assert_eq!(say(0, &mut first, &of_first, 1), (1, 0));
    // With a question each, whether anybody is there.
    assert_eq!(say(9_000, &mut second, &of_second, 2), (1, 2));
    assert_eq!(say(9_500, &mut first, &of_first, 1), (2, 2));
    assert_eq!(say(19_499, &mut second, &of_second, 2), (2, 4));
    assert_eq!(say(19_500, &mut second, &of_second, 2), (3, 4));
    // One that was heard once gives way to one that was heard twice.
    assert_eq!(say(19_550, &mut second, &of_second, 2), (4, 4));
    assert_eq!(say(19_600, &mut first, &of_first, 1), (4, 6));
}

#[test]
fn a_full_port_holds_back_and_too_large_messages_are_refused() {
    let ((mut caller, near), (mut listener, far)) = (calling("rtp", &[PathId(0)]), waiting("rtp"));
    far.borrow_mut().room = 3;
    near.borrow_mut().out.extend((0..5u8).map(|n| vec![n; 10]));
    near.borrow_mut().out.push_back(vec![0; MAX_DATAGRAM + 1]);
    run(0, 10, &mut caller, &mut listener);
    assert_eq!(far.borrow().came.len(), 3);
    let too_large = SendError::TooLarge { len: MAX_DATAGRAM + 1, max: MAX_DATAGRAM };
    assert_eq!(near.borrow().refused, [too_large]);
    far.borrow_mut().room = 10;
    run(10, 12, &mut caller, &mut listener);
    assert_eq!(far.borrow().came.len(), 5);
}

#[test]
fn a_refused_datagram_speaks_against_the_peer_for_a_while() {
    let ((mut caller, near), (mut listener, _)) = (calling("rtp", &[PathId(0)]), waiting("rtp"));
    run(0, 2, &mut caller, &mut listener);
    let state_at = |caller: &mut Session, ms: u64| {
        caller.advance(Instant::from_millis(ms));
        near.borrow().state
    };
    assert_eq!(state_at(&mut caller, 5), LinkState::Connected);
    caller.handle_input(Instant::from_millis(10), WIRE, Input::Broken(BrokenReason::Refused));
    let states = [10, 2_009, 2_010].map(|ms| state_at(&mut caller, ms));
    assert_eq!(states, [LinkState::Broken, LinkState::Broken, LinkState::Connected]);
    // Or until it is heard.
    caller.handle_input(Instant::from_millis(3_000), WIRE, Input::Broken(BrokenReason::Refused));
    assert_eq!(state_at(&mut caller, 3_000), LinkState::Broken);
    let later = Instant::from_millis(3_001);
    caller.handle_input(later, WIRE, datagram(&mut [1; 8], PathId(0), later));
    assert_eq!(state_at(&mut caller, 3_001), LinkState::Connected);
}

/// The caller's first path fails while the listener has much to send.
#[test]
fn a_listener_goes_on_over_the_second_path_of_its_peer() {
    let paths = [PathId(0), PathId(1)];
    let (near, came) = calling("sctp?peers=192.0.2.1:9906", &paths);
    let (far, said) = waiting("sctp");
    let mut world = World::over_links(near, far, &["delay=5ms", "delay=15ms"], 3);
    let dead = Instant::from_millis(2_000)..Instant::from_millis(60_000);
    for trouble in [&mut world.up, &mut world.down] {
        trouble.outages.push((dead.clone(), vec![0]));
    }
    world.near.advance(world.now);
    came.borrow_mut().out.push_back(b"who is there".to_vec());
    for n in 0..800u64 {
        said.borrow_mut().out.push_back(n.to_be_bytes().to_vec());
        let next = Instant::from_millis(10 + 20 * n);
        world.far.advance(world.now);
        world.run_until(next);
    }
    world.run_until(Instant::from_millis(30_000));
    let (came, said) = (came.borrow(), said.borrow());
    assert_eq!(said.came, [b"who is there"]);
    let mut numbers: Vec<u64> =
        came.came.iter().map(|bytes| u64::from_be_bytes(bytes[..].try_into().unwrap())).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..800).collect::<Vec<_>>(), "not one is lost");
    assert_eq!((came.state, said.state), (LinkState::Connected, LinkState::Connected));
    assert!(said.refused.is_empty() && said.unknown_sources == 0);
}
