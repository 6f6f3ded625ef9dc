//! Every message that a transport accepts has exactly one outcome, whatever becomes of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, Outcome, Participant, PathId, Secret};
use antiphon_proto::{Substrate, TRANSPORTS};
use antiphon_session::{
    PlayoutDelay, ReceiveTrack, Repetition, Seen, SendTrack, SendTrackConfig, Serve, Session, SessionConfig,
};
use antiphon_testkit::{Kept, Noise, sent_on, stereo};

use crate::common::{receive_config, sending, session_config};
use crate::world::{WIRE, datagram, ms, receive_session, stack, stack_of, track_config, world_of};

const END: Instant = Instant::from_millis(120_000);

/// By number: how often it was accepted, and its outcomes.
type ByNumber = BTreeMap<u64, (u32, Vec<Outcome>)>;

#[derive(Clone, Default)]
struct Told(Rc<RefCell<ByNumber>>);

impl Told {
    fn observe(&self, session: &mut Session) {
        let told = self.clone();
        session.observe(Box::new(move |_, seen: &Seen| {
            let mut told = told.0.borrow_mut();
            match seen {
                Seen::Sent(sent) => told.entry(sent.number).or_default().0 += u32::from(sent.result.is_ok()),
                Seen::Outcome { number, outcome } => told.entry(*number).or_default().1.push(*outcome),
                _ => {}
            }
        }));
    }

    /// Each message that was accepted by so many has as many outcomes; answers how many were accepted.
    fn assert_balanced(&self, name: &str) -> usize {
        let told = self.0.borrow();
        for (number, (accepted, outcomes)) in told.iter() {
            assert_eq!(*accepted as usize, outcomes.len(), "{name}: message {number}: {outcomes:?}");
        }
        told.values().filter(|(accepted, _)| *accepted > 0).count()
    }
}

#[test]
fn each_accepted_message_has_one_outcome_over_every_transport() {
    for transport in TRANSPORTS {
        for (protect, stops) in [("none", false), ("none", true), ("repeat:3,spacing=20ms", true)] {
            let (name, told) = (transport.scheme, Told::default());
            let protect: Repetition = protect.parse().unwrap();
            let config = SendTrackConfig { protect, ..track_config(stereo(), 5) };
            let source = Noise::new(stereo(), 240_000);
            let mut near = sending(&*stack(name), source, config, PlayoutDelay::Of(ms(60)));
            told.observe(&mut near);
            let far = receive_session(name, Some(ms(60)), &Kept::default());
            let mut world = world_of(transport, near, far, ("delay=30ms,loss=5%", 3), (ms(30), 30_000));
            if stops {
                // In the middle of it, when the peer has gone without closing.
                world.run_until(Instant::from_millis(3_000));
                match transport.substrate {
                    Substrate::Udp => world.up.outages.push((world.now..END, vec![0])),
                    Substrate::Tcp => world.break_pipe(),
                }
                world.near.stop(world.now);
            }
            world.run_while(END, |world| !world.near.is_finished());
            assert!(world.near.is_finished(), "{name}");
            let accepted = told.assert_balanced(name);
            assert!(accepted > if stops { 50 } else { 250 }, "{name}: {accepted} accepted");
        }
    }
}

#[test]
fn each_of_several_peers_tells_what_became_of_a_message() {
    for name in ["srp", "sctp", "dccp", "arq", "xtp"] {
        let told = Told::default();
        let config = SessionConfig { playout_delay: PlayoutDelay::Of(ms(80)), ..session_config("near", 5) };
        let mut server = Session::new(config, Instant::ZERO);
        server
            .set_send_track(SendTrack::new(Noise::new(stereo(), 96_000), track_config(stereo(), 5)).unwrap());
        told.observe(&mut server);
        let serve_many = Serve { most: 16, idle: Duration::from_secs(10), secret: Secret::for_laboratory(5) };
        server.serve(Instant::ZERO, WIRE, stack(name), serve_many);
        let (server, heard) = serve(server, name, 4);
        assert!(server.is_finished(), "{name}");
        assert!(heard.iter().all(|packets| *packets > 300), "{name}: {heard:?}");
        let accepted = told.assert_balanced(name);
        assert_eq!(accepted as u64, server.sent().track.messages, "{name}");
        assert!(server.sent().peers.accepted > 4 * 350 && server.stats().counters.messages_accepted > 0);
        let four = told.0.borrow().values().filter(|(accepted, _)| *accepted == 4).count();
        assert!(four > 350, "{name}: {four} went to all four");
    }
}

/// Receivers that call `server`, and run with it to its end: it, and the packets of each.
fn serve(mut server: Session, name: &str, receivers: u32) -> (Session, Vec<u64>) {
    let mut callers: Vec<Session> = (0..receivers)
        .map(|n| {
            let stack = stack_of(name, 50 + u64::from(n));
            let tells = Some(PlayoutDelay::Of(ms(80)));
            let config = SessionConfig { tells, ..session_config("far", 60 + u64::from(n)) };
            let mut session = Session::new(config, Instant::ZERO);
            let track = receive_config(Some(ms(80)), false);
            session.set_receive_track(ReceiveTrack::new(track, Kept::default().opener(), None));
            session.call(Instant::ZERO, WIRE, &[PathId(0)], &*stack);
            session
        })
        .collect();
    let mut now = Instant::from_millis(1);
    while now < Instant::from_millis(30_000) && !server.is_finished() {
        for (at, caller) in callers.iter_mut().enumerate() {
            caller.advance(now);
            for (_, mut bytes) in sent_on(caller, now, WIRE) {
                server.handle_input(now, WIRE, datagram(&mut bytes, PathId(at as u32 + 1), now));
            }
        }
        server.advance(now);
        for (path, mut bytes) in sent_on(&mut server, now, WIRE) {
            callers[path.0 as usize - 1].handle_input(now, WIRE, datagram(&mut bytes, PathId(0), now));
        }
        now += ms(1);
    }
    let packets = |caller: &Session| caller.receive_track().map_or(0, |track| track.counters().packets);
    (server, callers.iter().map(packets).collect())
}
