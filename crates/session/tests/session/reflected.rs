//! A comparison hears what a receiver would hear.

use std::cell::RefCell;
use std::rc::Rc;

use antiphon_core::{Instant, Participant};
use antiphon_link::Direction;
use antiphon_testkit::{Kept, Noise, Sent, stereo};

use crate::associations::hub;
use crate::common::{Comparison, comparing};
use crate::world::{NEAR, WIRE, World, datagram, heard, ms, receive_session};

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
