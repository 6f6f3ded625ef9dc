//! A peer that acknowledges every so many packets as it was told, and has no timer for it, such as Linux 6.1 with CCID 2.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_link::Direction;
use antiphon_proto::dccp::Checksum;
use antiphon_proto::dccp::wire::options::FeatureVerb;
use antiphon_proto::dccp::wire::{DccpOption, Kind, Packet};

use crate::world::{World, paced};

/// Has the far end acknowledge strictly: an Ack goes out only when so many data packets have come since the last one. The
/// ratio is what the near end told it last.
fn acknowledge_strictly(world: &mut World) -> Rc<RefCell<Vec<u64>>> {
    let (waiting, ratio) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(DEFAULT_RATIO)));
    let told = Rc::new(RefCell::new(Vec::new()));
    let (seen, asked, log) = (waiting.clone(), ratio.clone(), told.clone());
    world.arrivals = Some(Box::new(move |direction, bytes| {
        let packet = Packet::parse(bytes, Checksum::Udp).expect("a packet");
        if direction == Direction::Down {
            return;
        }
        seen.set(seen.get() + u64::from(packet.header.kind.carries_data()));
        for option in packet.options() {
            if let DccpOption::Feature { verb: FeatureVerb::ChangeL, feature: ACK_RATIO, value } =
                option.read()
            {
                asked.set(value.iter().fold(0, |n, byte| (n << 8) | u64::from(*byte)));
                log.borrow_mut().push(asked.get());
            }
        }
    }));
    world.down.taken = Some(Box::new(move |_, bytes| {
        let packet = Packet::parse(bytes, Checksum::Udp).expect("a packet");
        let early = matches!(packet.header.kind, Kind::Ack { .. }) && waiting.get() < ratio.get();
        if !early {
            waiting.set(0);
        }
        early
    }));
    told
}

#[test]
fn a_window_of_one_packet_asks_for_every_acknowledgement() {
    // Sound in packets of 32 ms over a path of 40 ms that loses one in seven, each way.
    let every = Duration::from_millis(32);
    let (starts, loses) = (Instant::from_millis(500), "delay=20ms,loss=15%");
    let mut world = World::new(loses, "ccid=2", paced(starts, 512, every, Duration::from_millis(500)), 5);
    world.run_until(starts);
    let told = acknowledge_strictly(&mut world);
    let seconds = 120;
    world.run_until(starts + Duration::from_secs(seconds));
    let least = (10..seconds / 10 * 10).step_by(10).map(|from| {
        let from = starts + Duration::from_secs(from);
        world.arrived(0, from, from + Duration::from_secs(10))
    });
    let least = least.min().expect("some");
    println!("at least {least} of 312 messages in ten seconds, ratios told: {:?}", told.borrow().len());
    // A locked window lets one packet pass in a time-out of 0.3 s or more, and a second one answers both.
    assert!(least > 100, "{least} of 312 messages in ten seconds");
    assert!(told.borrow().contains(&1), "told at a small window");
    // The path is whole again.
    world.relink(&["delay=20ms"], 5);
    let whole = world.now + Duration::from_secs(5);
    world.run_until(whole + Duration::from_secs(10));
    let arrived = world.arrived(0, whole, whole + Duration::from_secs(10));
    assert!(arrived >= 300, "{arrived} of 312 messages in ten seconds");
    assert_eq!(told.borrow().last(), Some(&2), "told again at a larger one");
}

/// The feature's number, and its value where nothing is said (RFC 4340 §11.3).
const ACK_RATIO: u8 = 5;
const DEFAULT_RATIO: u64 = 2;
