//! Every order in which the device's thread and the media thread may run, and every value that a load may see.

use loom::sync::Arc;
use loom::thread;

use super::super::sync::AtomicU32;
use super::*;

const RATE: u32 = 48_000;

#[test]
fn model_count_and_time_of_a_cycle_belong_together() {
    loom::model(|| {
        let beat = Arc::new(Beat::default());
        beat.set(0, 0, 48);
        let device = beat.clone();
        let thread = thread::spawn(move || {
            device.set(48, 1_000, 48);
            device.set(96, 2_000, 48);
        });
        let taken = [beat.taken(2_500, RATE), beat.taken(2_500, RATE)];
        for Taken { whole, passed, .. } in taken {
            // A cycle that began at 2 ms is half over, those before it are over.
            let passes = if whole == 96 { 24 } else { 48 };
            assert!(whole.is_multiple_of(48) && passed == passes, "{whole} {passed}");
        }
        assert!(taken[0].whole <= taken[1].whole, "it never goes back");
        thread.join().expect("it does not panic");
    });
}

#[test]
fn model_another_period_makes_no_more_of_a_cycle_than_the_longer_one() {
    loom::model(|| {
        let beat = Arc::new(Beat::default());
        beat.set(0, 0, 16);
        let device = beat.clone();
        let thread = thread::spawn(move || device.set(16, 1_000, 64));
        let Taken { whole, passed, .. } = beat.taken(9_000, RATE);
        assert!(passed == 64 || whole == 0 && passed == 16, "{whole} {passed}");
        thread.join().expect("it does not panic");
    });
}

/// Stands for the ring, whose own atomics the checker does not see: its ends publish what they did with `Release` and see the other's
/// with `Acquire`, as `rtrb` says of its.
struct Ring {
    sound: [AtomicU32; ROOM as usize],
    pushed: AtomicU32,
    taken: AtomicU32,
}

/// Sample frames that it holds.
const ROOM: u32 = 2;
/// Sample frames that pass through it.
const FRAMES: u32 = 3;

impl Ring {
    fn slots(&self, pushed: u32) -> u32 {
        ROOM - pushed.wrapping_sub(self.taken.load(Ordering::Acquire))
    }
}

/// The media thread pushes what the beat says is wanted. There is room for it, nothing is overwritten, and each sample frame is taken once,
/// in its order.
#[test]
fn model_what_the_beat_says_is_taken_has_left_the_ring() {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(3);
    bounded.check(|| {
        let ring = Arc::new(Ring {
            sound: [AtomicU32::new(0), AtomicU32::new(0)],
            pushed: AtomicU32::new(0),
            taken: AtomicU32::new(0),
        });
        let beat = Arc::new(Beat::default());
        beat.set(0, 0, 1);
        let (device_ring, device_beat) = (ring.clone(), beat.clone());
        let device = thread::spawn(move || {
            let mut taken = 0;
            for cycle in 1..=2u64 {
                if device_ring.pushed.load(Ordering::Acquire) > taken {
                    let sound = device_ring.sound[(taken % ROOM) as usize].load(Ordering::Relaxed);
                    assert_eq!(sound, taken + 1, "what was pushed");
                    taken += 1;
                    device_ring.taken.store(taken, Ordering::Release);
                }
                device_beat.set(taken, 1_000 * cycle, 1);
            }
        });
        for pushed in 0..FRAMES {
            let whole = beat.taken(0, RATE).whole;
            let waiting = pushed - whole;
            assert!(ring.slots(pushed) >= ROOM - waiting, "it says of {whole} that they are taken");
            if waiting == ROOM {
                break;
            }
            ring.sound[(pushed % ROOM) as usize].store(pushed + 1, Ordering::Relaxed);
            ring.pushed.store(pushed + 1, Ordering::Release);
        }
        device.join().expect("it does not panic");
    });
}
