//! What a congestion manager is told, and that a session obeys it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Event, Instant, WireId};
use antiphon_session::{AssociationId, Budget, CongestionManager, Joining, TrackId};

use crate::wired::{FRAMES, Wired};
use crate::world::{heard, ms};

/// What a manager has seen.
#[derive(Default)]
struct Heard {
    connected: usize,
    /// Messages and bytes by association.
    sent: BTreeMap<AssociationId, (u64, usize)>,
    asked: u64,
}

/// Grants so many bytes in each interval.
struct Metered {
    heard: Rc<RefCell<Heard>>,
    each: Duration,
    most: usize,
    /// When the present interval began, and what was sent in it.
    began: Instant,
    used: usize,
}

impl CongestionManager for Metered {
    fn on_event(&mut self, _now: Instant, _on: AssociationId, event: &Event) {
        self.heard.borrow_mut().connected += usize::from(*event == Event::Connected);
    }

    fn on_sent(&mut self, _now: Instant, on: AssociationId, track: TrackId, packet: &[u8]) {
        assert_eq!(track, TrackId::SOUND);
        let mut heard = self.heard.borrow_mut();
        let (messages, sum) = heard.sent.entry(on).or_default();
        (*messages, *sum) = (*messages + 1, *sum + packet.len());
        self.used += packet.len();
    }

    fn budget(&mut self, now: Instant, _track: TrackId) -> Budget {
        self.heard.borrow_mut().asked += 1;
        if now.since(self.began) >= self.each {
            (self.began, self.used) = (now, 0);
        }
        Budget::Bytes(self.most.saturating_sub(self.used), self.began + self.each)
    }
}

/// A stream over `names`, whose manager grants `most` bytes every 20 ms.
fn metered(names: &[(&str, &str)], most: usize) -> (Wired, Rc<RefCell<Heard>>) {
    let mut world = Wired::new(names, ms(80), 1);
    let heard = Rc::new(RefCell::new(Heard::default()));
    let manager = Metered { heard: Rc::clone(&heard), each: ms(20), most, began: Instant::ZERO, used: 0 };
    world.near.set_congestion_manager(Box::new(manager));
    (world, heard)
}

const RTP: (&str, &str) = ("rtp", "delay=10ms");

#[test]
fn what_is_granted_in_time_leaves_the_stream_as_it_is() {
    // 48 kHz stereo of 16 bits are 3840 bytes in 20 ms, with headers less than 4500.
    let (mut world, heard) = metered(&[RTP], 4_500);
    world.end();
    assert!(world.is_flawless());
    let heard = heard.borrow();
    assert_eq!((heard.connected, heard.sent.len()), (1, 1));
    let (messages, bytes) = heard.sent[heard.sent.keys().next().expect("one")];
    assert_eq!(messages, FRAMES.div_ceil(256));
    assert!(bytes > FRAMES as usize * 4 && bytes <= world.sent[&WireId(0)], "{bytes}");
}

#[test]
fn what_is_not_granted_waits_and_is_late() {
    // Half of what the stream has.
    let (mut world, heard) = metered(&[RTP], 2_000);
    world.run_for(Duration::from_secs(10));
    let sent = world.sent[&WireId(0)] as f64;
    // A message more than it may in each interval, and reports.
    assert!((0.9..1.6).contains(&(sent / (2_000.0 * 500.0))), "{sent} bytes in 500 intervals");
    // It is asked when it said, not again and again.
    assert!(heard.borrow().asked < 4_000, "{} questions", heard.borrow().asked);
    let playout = crate::world::heard(&world.far).playout().expect("it began");
    assert!(playout.lost + playout.late > 500, "{playout:?}");
}

#[test]
fn each_association_is_told_apart() {
    let (mut world, told) = metered(&[RTP, RTP], 100_000);
    world.go_further(1, "rtp", Joining::Beside);
    world.end();
    let told = told.borrow();
    assert_eq!((told.connected, told.sent.len()), (2, 2));
    assert!(told.sent.values().all(|(messages, _)| *messages > 2_000), "{:?}", told.sent);
    assert_eq!(heard(&world.far).playout().expect("it began").lost, 0);
}
