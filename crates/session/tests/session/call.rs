//! The caller's log against the link's own counters.

use std::cell::RefCell;
use std::rc::Rc;

use antiphon_core::{Instant, MediaTime, Participant, Rng};
use antiphon_link::{Direction, Duplex};
use antiphon_measure::Fate;
use antiphon_session::{ArrivalTable, PlayoutDelay, Reflected, Reflector, ReflectorConfig, Session};
use antiphon_testkit::{Kept, Noise, Trouble, expected, stereo};

use crate::common::{Comparison, comparing};
use crate::log::Log;
use crate::world::{WIRE, World, heard, is_rtcp, many, ms, stack};

const END: Instant = Instant::from_millis(60_000);

/// A comparison over bare RTP, with what the link did to packets of sound: reports are counted apart.
struct Call {
    world: World<Session, Reflector>,
    kept: Kept,
    log: Log,
    link: [Rc<RefCell<Way>>; 2],
}

/// RTP packets of one direction.
#[derive(Clone, Copy, Default, Debug)]
struct Way {
    offered: u64,
    offered_bytes: u64,
    delivered: u64,
}

impl Way {
    fn lost(self) -> u64 {
        self.offered - self.delivered
    }
}

/// Drops no sound before the datagram `lost_from`, and counts it.
fn counting(way: &Rc<RefCell<Way>>, lost_from: u64) -> Trouble {
    let way = way.clone();
    let taken = move |_, bytes: &[u8]| {
        let mut way = way.borrow_mut();
        way.offered += u64::from(!is_rtcp(bytes));
        way.offered_bytes += if is_rtcp(bytes) { 0 } else { bytes.len() as u64 };
        way.offered > lost_from
    };
    Trouble { taken: Some(Box::new(taken)), ..Trouble::default() }
}

fn call(frames: u64, setting: Comparison, link: &str, seed: u64) -> Call {
    call_with(frames, setting, None, 10_000, link, seed)
}

/// With so many rows of the log, and the arrival table of the far end.
fn call_with(
    frames: u64,
    setting: Comparison,
    table: Option<ArrivalTable>,
    rows: usize,
    link: &str,
    seed: u64,
) -> Call {
    let kept = Kept::default();
    let source = Noise::new(setting.track.packet.format, frames);
    let mut near = comparing("rtp", source, kept.opener(), setting);
    let log = Log::of(&mut near, rows, table.clone());
    let config = ReflectorConfig { arrivals: table, ..ReflectorConfig::default() };
    let far = Reflector::new(Instant::ZERO, WIRE, stack("rtp"), many(4), config);
    let mut world = World::linked(near, far, link, seed);
    let ways: [Rc<RefCell<Way>>; 2] = Default::default();
    (world.up, world.down) = (counting(&ways[0], u64::MAX), counting(&ways[1], u64::MAX));
    let arrived = ways.clone();
    world.arrivals = Some(Box::new(move |direction, bytes| {
        let way = &arrived[usize::from(direction == Direction::Down)];
        way.borrow_mut().delivered += u64::from(!is_rtcp(bytes));
    }));
    Call { world, kept, log, link: ways }
}

impl Call {
    fn run(&mut self) {
        self.world.run_while(END, |world| !world.near.is_finished());
        assert!(self.world.near.is_finished(), "the call ends by itself");
        self.log.finish(&self.world.near);
        let log = self.log.get();
        log.counts().balance(log.packets_sent()).unwrap();
        let Duplex { up, down } = self.world.link();
        assert!(up.counters().balances() && down.counters().balances());
        assert_eq!(self.world.near.foreign(), 0);
    }

    /// Up and down.
    fn ways(&self) -> [Way; 2] {
        [*self.link[0].borrow(), *self.link[1].borrow()]
    }
}

#[test]
fn counted_losses_are_the_links_to_the_frame() {
    for (seed, loss) in [(1, "loss=5%"), (2, "loss=5%"), (3, "loss=10%/4"), (4, "up.loss=5%")] {
        let mut run = call(480_000, Comparison::new(stereo(), ms(80)), &format!("delay=10ms,{loss}"), seed);
        run.run();
        let [up, down] = run.ways();
        let (counts, log) = (run.log.get().counts(), run.log.get());
        assert!(up.lost() > 20, "the weather happened: {up:?}");
        assert_eq!(log.packets_sent(), 1875);
        assert_eq!((up.offered, down.offered), (1875, up.delivered));
        assert_eq!(counts.of(Fate::Lost), up.lost() + down.lost(), "seed {seed}");
        assert_eq!(counts.of(Fate::Played), down.delivered);
        assert_eq!(counts.total(), counts.of(Fate::Lost) + counts.of(Fate::Played));
        assert_eq!(log.loss_runs().lost(), counts.of(Fate::Lost));
        let tallies = log.tallies();
        assert_eq!((tallies.duplicate, tallies.reordered, tallies.unknown), (0, 0, 0));
        // Every hole is filled, and nothing else. Holes before the first arrival are not noticed.
        let missing_first = log.rows().take_while(|row| row.received.is_none()).count() as u64;
        assert_eq!(tallies.concealed, counts.of(Fate::Lost) - missing_first);
        assert_eq!(run.kept.len() as u64, 2 * (480_000 - missing_first * 256));
    }
}

#[test]
fn late_is_counted_apart_from_lost() {
    let link = "delay=10ms,up.jitter=15ms,loss=1%";
    let mut run = call(240_000, Comparison::new(stereo(), ms(20)), link, 4);
    run.run();
    let [up, down] = run.ways();
    let counts = run.log.get().counts();
    assert_eq!(counts.of(Fate::Lost), up.lost() + down.lost());
    assert!(counts.of(Fate::Late) > 10, "{counts:?}");
    assert_eq!(counts.of(Fate::Late), heard(&run.world.near).playout().unwrap().late);
    // A frame is late if its trip took longer than the shortest one plus the playout delay. The schedule begins with
    // the first frame's trip, up to 30 ms longer, and reduces that by 1 ms a second.
    let least = run.log.get().rows().filter_map(|row| row.rtt()).min().unwrap();
    for row in run.log.get().rows().filter(|row| row.fate == Fate::Played) {
        assert!(row.rtt().unwrap() <= least + ms(20 + 30), "{row:?}");
    }
    for row in run.log.get().rows().filter(|row| row.fate == Fate::Late) {
        assert!(row.rtt().unwrap() > least + ms(20), "{row:?}");
    }
    assert_eq!(run.kept.len(), 2 * 240_000);
}

#[test]
fn duplicates_and_reordering_are_counted_right() {
    let link = "delay=10ms,duplicate=2%,up.reorder=2%/12ms";
    let mut run = call(480_000, Comparison::new(stereo(), ms(80)), link, 9);
    run.run();
    let [up, down] = run.ways();
    let (counts, tallies) = (run.log.get().counts(), run.log.get().tallies());
    let duplicated = [up, down].map(|way| way.delivered - way.offered);
    let held_back = run.world.link().up.counters().held_back;
    assert!(duplicated.iter().all(|copies| *copies > 10) && held_back > 10);
    assert_eq!(counts.of(Fate::Played), 1875);
    assert_eq!(tallies.duplicate, duplicated[0] + duplicated[1]);
    assert_eq!(heard(&run.world.near).counters().duplicates, tallies.duplicate);
    // Each is overtaken by the two frames that follow within 12 ms. A copy is delayed like its packet, so that delayed
    // copies of delayed frames count as duplicates, not as reordered.
    let held_copies = held_back - tallies.reordered;
    assert!(held_copies <= 2, "{held_back} {tallies:?}");
    assert_eq!(tallies.reordered, heard(&run.world.near).playout().unwrap().reordered);
    assert_eq!((tallies.concealed, run.kept.samples()), (0, expected(stereo(), 0, 480_000)));
}

#[test]
fn one_way_figures_are_the_links_delay() {
    let mut setting = Comparison::new(stereo(), ms(40));
    // More frames than a sequence number has values, so that the table's entries are reused.
    setting.track.packet.block_frames = 16;
    let link = "up.delay=7ms,down.delay=11ms,loss=1%";
    let mut run = call_with(16 * 66_000, setting, Some(ArrivalTable::new()), 70_000, link, 5);
    run.run();
    let log = run.log.get();
    let came: Vec<_> = log.rows().filter(|row| row.received.is_some()).collect();
    assert!(came.len() > 64_000 && came.len() < 66_000);
    assert!(came.iter().all(|row| row.one_way == Some(ms(7)) && row.rtt() == Some(ms(18))));
}

#[test]
fn arrivals_there_are_known_of_packets_that_never_came_back() {
    let (setting, table) = (Comparison::new(stereo(), ms(80)), Some(ArrivalTable::new()));
    // More frames than are asked for at the end, so that some are asked for on the way.
    let link = "up.loss=3%,down.loss=5%,up.delay=7ms,down.delay=20ms";
    let mut run = call_with(5_000 * 256, setting, table, 10_000, link, 12);
    run.run();
    let [up, down] = run.ways();
    let log = run.log.get();
    let reached = || log.rows().filter(|row| row.one_way.is_some());
    assert_eq!(reached().count() as u64, up.delivered);
    assert_eq!(reached().filter(|row| row.received.is_none()).count() as u64, down.lost());
    assert!(down.lost() > 100, "the weather happened: {down:?}");
    assert!(reached().all(|row| row.one_way == Some(ms(7))));
    assert_eq!(log.one_way().count(), down.delivered, "figures are of what came back");
    // A datagram on this link is a frame.
    assert_eq!(log.rows().map(|row| u64::from(row.bytes)).sum::<u64>(), up.offered_bytes);
}

#[test]
fn played_sound_has_the_length_that_was_sent() {
    // Half a second, not a whole number of blocks; then the very last, and the last five packets are lost.
    for lost_from in [u64::MAX, 93, 89] {
        for link in ["ideal", "delay=20ms", "delay=20ms,jitter=5ms"] {
            let mut run = call(24_001, Comparison::new(stereo(), ms(30)), link, 3);
            run.world.up = counting(&run.link[0], lost_from);
            run.run();
            assert_eq!(run.kept.len(), 2 * 24_001, "over {link}, lost from {lost_from}");
            let good = (lost_from.min(94) * 256).min(24_001);
            assert!(run.kept.samples()[..2 * good as usize] == expected(stereo(), 0, good));
            let made_up = heard(&run.world.near).playout().unwrap().concealed_frames;
            assert_eq!(made_up, 24_001 - good);
            assert_eq!(run.log.get().tallies().concealed, 94 - good.div_ceil(256));
        }
    }
}

/// A driver that is woken late must not conceal anything after the end, nor lose any sound.
#[test]
fn a_late_driver_changes_no_sample() {
    for seed in 0..4 {
        let mut run = call(24_001, Comparison::new(stereo(), ms(60)), "delay=5ms", seed);
        run.world.sleepy = Some((Rng::fork(seed, "sleep"), ms(20)));
        run.run();
        assert!(
            run.kept.samples() == expected(stereo(), 0, 24_001),
            "seed {seed}: {} samples",
            run.kept.len()
        );
        assert_eq!(run.log.get().tallies().concealed, 0);
    }
}

#[test]
fn frames_that_expired_here_are_not_lost_there() {
    let setting = Comparison { delay: PlayoutDelay::Of(ms(3)), ..Comparison::new(stereo(), ms(80)) };
    let mut run = call(24_000, setting, "delay=5ms", 1);
    let world = &mut run.world;
    // The socket takes nothing for a while: every wake-up comes after the frames' patience.
    world.near.advance(world.now);
    let begun = world.now;
    world.run_until(begun + ms(100));
    let before = world.up.offered;
    for _ in 0..3 {
        // Blocks are made here and first offered to the wire 10 ms later.
        world.now += ms(11);
        world.near.advance(world.now);
        world.now += ms(10);
    }
    run.run();
    let counts = run.log.get().counts();
    assert!(before > 10 && counts.of(Fate::Expired) >= 6, "{counts:?}");
    assert_eq!(counts.of(Fate::Expired), run.world.near.sent().peers.expired);
    assert_eq!((counts.of(Fate::Lost), counts.of(Fate::Refused)), (0, 0));
    assert_eq!(run.kept.len(), 2 * 24_000);
}

#[test]
fn an_interrupted_comparison_waits_for_what_is_on_its_way() {
    let mut run = call(480_000, Comparison::new(stereo(), ms(40)), "delay=30ms", 1);
    let at = run.world.now + ms(1000);
    run.world.run_until(at);
    run.world.near.stop(run.world.now);
    run.run();
    let counts = run.log.get().counts();
    assert_eq!((counts.of(Fate::Played), counts.of(Fate::Lost)), (counts.total(), 0));
    assert_eq!(run.kept.len() as u64, counts.total() * 512);
}

#[test]
fn media_that_waits_for_its_start_begins_at_that_instant() {
    let mut setting = Comparison::new(stereo(), ms(40));
    setting.reflected.told_start = true;
    let mut run = call(4_800, setting, "delay=10ms", 1);
    // Longer than a connection may take: only one that is missing ends a session.
    let at = run.world.now + ms(5_000);
    run.world.run_until(at);
    assert!(run.world.near.has_connected() && run.world.near.sent().peers.accepted == 0);
    let start = at + ms(250);
    run.world.near.start_at(start);
    run.run();
    let log = run.log.get();
    let first = log.rows().next().expect("packets").sent;
    assert_eq!(first, start + MediaTime::new(256, stereo().rate()).duration());
    assert_eq!((log.counts().of(Fate::Played), run.kept.len()), (19, 2 * 4_800));
}

#[test]
fn without_a_reflector_everything_is_lost() {
    let mut run = call(24_000, Comparison::new(stereo(), ms(40)), "loss=100%", 1);
    run.run();
    let counts = run.log.get().counts();
    assert_eq!((counts.of(Fate::Lost), counts.total(), run.kept.len()), (94, 94, 0));
    // A longer call is given up before its end.
    let mut setting = Comparison::new(stereo(), ms(40));
    setting.reflected = Reflected { answer: ms(400), ..setting.reflected };
    let mut run = call(48_000, setting, "loss=100%", 1);
    run.run();
    let counts = run.log.get().counts();
    assert!(run.world.near.is_unanswered() && run.world.near.sending_time() < ms(410));
    assert_eq!((counts.of(Fate::Lost), counts.total()), (75, 75));
}
