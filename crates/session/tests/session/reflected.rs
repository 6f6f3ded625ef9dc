//! A comparison hears what a receiver would hear.

use std::cell::RefCell;
use std::rc::Rc;

use antiphon_core::{Instant, Participant};
use antiphon_link::Direction;
use antiphon_media::rtcp::PlayoutDelay;
use antiphon_proto::TRANSPORTS;
use antiphon_session::{PictureSent, Seen, Session, SharedPath};
use antiphon_testkit::{Kept, Noise, Sent, stereo};

use crate::associations::hub;
use crate::common::{Comparison, comparing};
use crate::video::{Pictures, Shared, with_pictures};
use crate::world::{NEAR, WIRE, World, datagram, heard, ms, receive_session, world_of};

#[test]
fn comparing_and_receiving_give_the_same_sound() {
    for (link, seed) in [("delay=10ms", 1), ("delay=10ms,loss=5%,jitter=8ms", 2), ("delay=5ms,loss=10%/4", 3)]
    {
        let (compared, to) = (Kept::default(), Kept::default());
        let setting = Comparison::new(stereo(), ms(40));
        let near = comparing("rtp", Noise::new(stereo(), 240_017), compared.opener(), setting);
        let mut world = World::linked(near, hub("rtp", 2), link, seed);
        let came: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
        let noted = came.clone();
        world.arrivals = Some(Box::new(move |direction, bytes| {
            if direction == Direction::Down {
                noted.borrow_mut().push(bytes.to_vec());
            }
        }));
        let mut far = receive_session("rtp", Some(ms(40)), &to);
        while !world.near.is_finished() && world.now < Instant::from_millis(20_000) {
            let next = world.now + std::time::Duration::from_micros(250);
            world.run_until(next);
            for mut bytes in came.borrow_mut().drain(..) {
                far.handle_input(world.now, WIRE, datagram(&mut bytes, NEAR, world.now));
            }
            let _goes_nowhere = Sent::of(&mut far, world.now);
        }
        let (one, other) = (heard(&world.near), heard(&far));
        assert_eq!(one.counters(), other.counters(), "{link}");
        let (one, other) = (compared.samples(), to.samples());
        // A packet that came between two of these looks counts up to 0.25 ms later, which changes no sample; only the
        // comparison knows where the sound ends.
        let len = one.len().min(other.len());
        assert!(one.len() == 2 * 240_017 || link.contains("loss"), "{link}: {}", one.len());
        assert!(one.len() - len < 48_000 && len > 2 * 230_000, "{link}: {} and {}", one.len(), other.len());
        assert!(one[..len] == other[..len], "{link}");
    }
}

const END: Instant = Instant::from_millis(30_000);

/// Sound of 4 s that comes back, with these pictures; and how many packets of them were seen to leave and to come.
fn with_pictures_back(
    name: &str,
    pictures: Box<Pictures>,
    kept: &Kept,
) -> (Session, Shared, Rc<RefCell<(u64, u64)>>) {
    let delay = PlayoutDelay::Of(ms(200));
    let setting = Comparison { delay, ..Comparison::new(stereo(), ms(200)) };
    let near = comparing(name, Noise::new(stereo(), 4 * 48_000), kept.opener(), setting);
    let (mut near, seen) = (with_pictures(near, pictures), Shared::default());
    near.set_video_sink(Box::new(seen.clone()));
    let counted: Rc<RefCell<(u64, u64)>> = Rc::default();
    let counts = counted.clone();
    near.observe(Box::new(move |_: Instant, seen: &Seen| match seen {
        Seen::PictureSent(PictureSent { is_again: false, result: Ok(()), .. }) => counts.borrow_mut().0 += 1,
        Seen::PictureArrived { .. } => counts.borrow_mut().1 += 1,
        _ => {}
    }));
    (near, seen, counted)
}

#[test]
fn pictures_come_back_beside_the_sound_over_every_transport() {
    for transport in TRANSPORTS {
        let name = transport.scheme;
        let kept = Kept::default();
        let (near, seen, counted) = with_pictures_back(name, Pictures::new(ms(40), 4, 75), &kept);
        let mut world = world_of(transport, near, hub(name, 2), ("delay=10ms", 3), (ms(10), 100_000));
        world.run(END);
        assert_eq!((seen.whole(4).len(), *counted.borrow()), (75, (300, 300)), "{name}");
        assert_eq!(kept.samples().len(), 2 * 4 * 48_000, "{name}: the sound");
        for (n, place) in seen.whole(4).iter().enumerate().skip(2) {
            let place = place.unwrap_or_else(|| panic!("{name}: picture {n} has no place"));
            assert!((place - n as i64 * 40_000_000).abs() < 1_000_000, "{name}: {n} at {place}");
        }
    }
}

/// 5 Mbit/s of pictures and 1.6 of sound, where 4 Mbit/s go back: what comes back tells the manager what the path carries, and the sound is heard.
#[test]
fn pictures_that_come_back_leave_the_sound_its_part_of_the_path() {
    let late = |managed: bool| {
        let kept = Kept::default();
        let (mut near, _, counted) = with_pictures_back("rtp", Pictures::new(ms(40), 25, 75), &kept);
        if managed {
            near.set_congestion_manager(Box::new(SharedPath::new(2)));
        }
        let mut world = World::linked(near, hub("rtp", 2), "delay=10ms,rate=4Mbit/s,queue=200kB", 3);
        world.run(END);
        let playout = heard(&world.near).playout().unwrap();
        (playout.late + playout.lost, counted.borrow().1, world.near.path_figures().rate)
    };
    let (alone, came, rate) = late(false);
    assert!(
        alone > 100 && rate.is_none(),
        "without a manager {alone} of 750 packets are late: {came} {rate:?}"
    );
    let (managed, came, rate) = late(true);
    let rate = 8.0 * rate.expect("what came back was told") / 1e6;
    assert!((2.0..6.0).contains(&rate), "{rate} Mbit/s");
    assert!(managed <= 7 && came > 400, "{managed} of 750 are late, {came} packets of pictures came");
}
