//! A receiver whose processor has time for a part of what comes: what waits in front of it counts as what waits on the path.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Input, Instant, Participant, PathId, Transmit, WireId, sooner};
use antiphon_media::StreamFormat;
use antiphon_session::{Session, SharedPath};
use antiphon_testkit::{Kept, Noise, World};

use crate::common::{ms, track_config};
use crate::video::{Pictures, Shared, with_pictures};
use crate::world::{receive_session, send_session_within};

/// What Linux lets wait in a socket (net.core.rmem_default).
const SOCKET: usize = 212_992;
const SECONDS: u64 = 30;

/// A session that takes some time for each datagram; the rest waits in its socket, and is dropped where that is full.
struct Busy {
    session: Session,
    waiting: VecDeque<(PathId, Vec<u8>, Instant)>,
    bytes: usize,
    dropped: u64,
    free_at: Instant,
    /// From this instant on.
    since: Instant,
    each: Duration,
}

impl Busy {
    fn next(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.free_at)
    }

    fn work(&mut self, now: Instant) {
        while self.next().is_some_and(|at| at <= now) {
            let Some((path, mut bytes, received_at)) = self.waiting.pop_front() else { return };
            self.bytes -= bytes.len();
            let each = if now >= self.since { self.each } else { Duration::ZERO };
            self.free_at = self.free_at.max(received_at) + each;
            self.session.handle_input(
                now,
                WireId(0),
                Input::Datagram { path, bytes: &mut bytes, received_at },
            );
        }
    }
}

impl Participant for Busy {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        let Input::Datagram { path, bytes, received_at } = input else {
            return self.session.handle_input(now, wire, input);
        };
        match self.bytes + bytes.len() <= SOCKET {
            true => {
                self.bytes += bytes.len();
                self.waiting.push_back((path, bytes.to_vec(), received_at));
            }
            false => self.dropped += 1,
        }
        self.work(now);
    }

    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        self.session.accept(now, listener)
    }

    fn advance(&mut self, now: Instant) {
        self.work(now);
        self.session.advance(now);
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        self.session.poll_ready()
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        self.session.poll_transmit(now, wire, buf)
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.session.poll_close()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.session.poll_timeout(), self.next())
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.session.knows(wire, path)
    }

    fn takes(&self, wire: WireId) -> bool {
        self.session.takes(wire)
    }

    fn stop(&mut self, now: Instant) {
        self.session.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.session.is_finished()
    }
}

/// It has time for 200 packets a second, and 50 of sound and 250 of pictures would come: from the beginning, and from the middle on.
#[test]
fn a_receiver_that_cannot_keep_up_is_sent_fewer_pictures_and_all_of_the_sound() {
    for (since, managed) in [(0, true), (10, true), (0, false)] {
        let mono = StreamFormat::new(16_000, 1).unwrap();
        let noise = Noise::new(mono, SECONDS * 16_000);
        let sender = send_session_within("rtp", noise, track_config(mono, 5), ms(200));
        let mut sender = with_pictures(sender, Pictures::new(ms(40), 10, SECONDS * 25));
        if managed {
            sender.set_congestion_manager(Box::new(SharedPath::new(2)));
        }
        let (kept, seen) = (Kept::default(), Shared::default());
        let mut session = receive_session("rtp", Some(ms(200)), &kept);
        session.set_video_sink(Box::new(seen.clone()));
        let far = Busy {
            session,
            waiting: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            free_at: Instant::ZERO,
            since: Instant::ZERO + Duration::from_secs(since),
            each: ms(5),
        };
        let mut world = World::linked(sender, far, "delay=10ms,rate=20Mbit/s", 3);
        world.run_until(Instant::from_millis(1_000 * (SECONDS + 2)));
        let playout = world.far.session.receive_track().unwrap().playout().unwrap();
        let (sent, path) = (world.near.video_sent().next().unwrap(), world.near.path_figures());
        let about =
            format!("{since}, {managed}: {playout:?}, {sent:?}, {path:?}, dropped {}", world.far.dropped);
        println!("{about}");
        if !managed {
            assert!(playout.late + playout.lost > 500, "{about}");
            continue;
        }
        assert_eq!((playout.late, playout.lost, world.far.dropped), (0, 0, 0), "{about}");
        // Of the 150 packets a second that are left.
        let packets = world.far.session.video_received().unwrap().packets;
        assert!(packets >= 100 * SECONDS, "{about}: {packets}");
    }
}
