use proptest::prelude::*;

use super::*;

/// What a sink heard.
#[derive(Default, Debug, PartialEq)]
struct Heard {
    sound: Vec<u8>,
    missing: u64,
    underflow: u64,
    pause: u64,
}

impl Heard {
    fn note(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Sound(bytes) => self.sound.extend(bytes),
            Piece::Missing(bytes) => self.missing += bytes,
            Piece::Underflow(bytes) => self.underflow += bytes,
            Piece::Pause(bytes, _) => self.pause += bytes,
        }
    }
}

struct Bench {
    fifo: VoiceFifo,
    pool: VoicePool,
    heard: Heard,
}

impl Bench {
    fn new(len: usize) -> Self {
        let mut pool = VoicePool::new(1 << 20);
        pool.reserve(len);
        Bench { fifo: VoiceFifo::new(len), pool, heard: Heard::default() }
    }

    fn push(&mut self, timestamp: u32, sound: &[u8]) {
        self.fifo.push(&mut self.pool, timestamp, sound, &mut |piece| self.heard.note(piece));
    }

    fn pause(&mut self, timestamp: u32) {
        let level = NoiseLevel::from_byte(60);
        self.fifo.begin_pause(&mut self.pool, timestamp, level, &mut |piece| self.heard.note(piece));
    }

    fn take(&mut self, bytes: u64) {
        self.fifo.take(&mut self.pool, bytes, &mut |piece| self.heard.note(piece));
    }
}

#[test]
fn an_empty_fifo_underflows_and_loses_nothing() {
    let mut bench = Bench::new(8);
    bench.push(u32::MAX - 1, &[1, 2, 3, 4]);
    bench.take(7);
    // Whether that is an underflow or the end is not known yet.
    assert_eq!(bench.heard.underflow, 0);
    bench.push(2, &[5, 6, 7, 8]);
    bench.take(4);
    assert_eq!((&bench.heard.sound[..], bench.heard.underflow), (&[1, 2, 3, 4, 5, 6, 7, 8][..], 3));
}

#[test]
fn a_full_fifo_drops_what_finds_no_room() {
    let mut bench = Bench::new(6);
    bench.push(10, &[1, 2, 3, 4]);
    bench.push(14, &[5, 6, 7, 8]);
    assert_eq!(bench.fifo.counters().overflow, 2);
    bench.take(3);
    bench.push(18, &[9, 10, 11]);
    bench.take(6);
    // What follows is taken earlier: 7 and 8 leave no hole.
    assert_eq!(bench.heard.sound, [1, 2, 3, 4, 5, 6, 9, 10, 11]);
    assert_eq!((bench.heard.missing, bench.fifo.counters().underflow), (0, 0));
}

#[test]
fn what_is_missing_keeps_its_place_and_may_still_come() {
    let mut bench = Bench::new(20);
    bench.push(0, &[1, 2]);
    bench.push(8, &[9, 10]);
    bench.push(4, &[5, 6]);
    bench.push(4, &[5, 6]);
    assert_eq!(bench.fifo.counters().late, 2);
    bench.take(3);
    // The first byte of the first hole was passed.
    bench.push(2, &[3, 4]);
    assert_eq!(bench.fifo.counters().late, 3);
    bench.take(7);
    assert_eq!((&bench.heard.sound[..], bench.heard.missing), (&[1, 2, 4, 5, 6, 9, 10][..], 3));
    assert_eq!(bench.fifo.level(), 0);
}

#[test]
fn a_lost_datum_costs_its_own_time_and_no_more() {
    let mut bench = Bench::new(8);
    bench.push(0, &[1, 2, 3, 4]);
    bench.take(2);
    // 5 to 8 are lost; the sink has found the FIFO empty for 2 bytes when the next datum comes.
    bench.take(4);
    bench.push(8, &[9, 10, 11, 12]);
    bench.take(4);
    assert_eq!((&bench.heard.sound[..], bench.heard.missing), (&[1, 2, 3, 4, 9, 10][..], 4));
    assert_eq!(bench.fifo.counters().underflow, 0);
}

#[test]
fn pauses_are_neither_missing_nor_underflows() {
    let mut bench = Bench::new(8);
    bench.push(0, &[1, 2, 3, 4]);
    bench.pause(4);
    assert_eq!(bench.fifo.pausing(), None);
    bench.take(10);
    assert!(bench.fifo.pausing().is_some());
    bench.pause(10);
    bench.take(5);
    // The pause lasted 13 bytes at the sender, and 11 here.
    bench.push(17, &[18, 19]);
    bench.take(2);
    let FifoCounters { missing, underflow, pause, taken, .. } = bench.fifo.counters();
    assert_eq!((missing, underflow, pause, taken), (0, 0, 11, 6));
    // A pause that sound has overtaken changes nothing; one behind lost sound shows the loss.
    bench.pause(10);
    bench.take(1);
    bench.pause(22);
    assert_eq!((bench.fifo.counters().missing, bench.fifo.level()), (1, 2));
}

#[test]
fn the_end_is_no_underflow_and_a_new_stream_begins_anew() {
    let mut bench = Bench::new(8);
    bench.take(5);
    bench.push(0, &[1, 2]);
    bench.take(50);
    assert_eq!(bench.fifo.counters().underflow, 0);
    bench.push(0x8000_0000, &[3, 4]);
    bench.take(2);
    assert_eq!((&bench.heard.sound[..], bench.heard.missing), (&[1, 2, 3, 4][..], 0));
}

#[test]
fn more_holes_than_are_remembered_become_silence() {
    let mut bench = Bench::new(100);
    (0..20).for_each(|n| bench.push(2 * n, &[n as u8]));
    bench.take(40);
    assert_eq!(
        bench.heard.missing + bench.heard.sound.iter().filter(|byte| **byte == QUIET).count() as u64,
        19
    );
    let FifoCounters { missing, taken, .. } = bench.fifo.counters();
    assert_eq!((missing, taken), (19, 20));
}

#[test]
fn a_pause_shorter_than_what_is_buffered_keeps_its_length() {
    let mut bench = Bench::new(16);
    bench.push(0, &[1, 2, 3, 4, 5, 6]);
    bench.take(2);
    bench.pause(6);
    // It is told again.
    bench.pause(9);
    bench.push(11, &[12, 13]);
    // Nothing was sent that could fill it.
    bench.push(7, &[8, 9]);
    bench.take(11);
    assert_eq!((&bench.heard.sound[..], bench.heard.pause), (&[1, 2, 3, 4, 5, 6, 12, 13][..], 5));
    let FifoCounters { pause, late, missing, taken, .. } = bench.fifo.counters();
    assert_eq!((pause, late, missing, taken), (5, 2, 0, 8));
    // One for which there is no room beside the sound behind it is shortened.
    bench.push(13, &[14; 10]);
    bench.pause(23);
    bench.push(100, &[101, 102]);
    assert_eq!((bench.fifo.level(), bench.fifo.counters().overflow), (16, 0));
}

#[test]
fn holes_of_a_stream_before_this_one_are_passed_and_not_filled() {
    let mut bench = Bench::new(20);
    bench.push(0, &[1, 2]);
    bench.push(6, &[7, 8]);
    // More than a minute away.
    bench.push(0x4000_0000, &[20, 21]);
    // Where it stands now nobody knows.
    bench.push(2, &[3, 4]);
    bench.take(20);
    assert_eq!((&bench.heard.sound[..], bench.heard.missing), (&[1, 2, 7, 8, 20, 21, 3, 4][..], 4));
    let FifoCounters { taken, missing, .. } = bench.fifo.counters();
    assert_eq!((taken, missing), (8, 4));
}

#[test]
fn a_restarted_stream_leaves_no_gap() {
    let mut bench = Bench::new(20);
    bench.push(0, &[1, 2]);
    bench.take(5);
    bench.fifo.restart();
    bench.push(1000, &[3, 4]);
    bench.take(2);
    let FifoCounters { taken, missing, underflow, .. } = bench.fifo.counters();
    assert_eq!((taken, missing, underflow), (4, 0, 0));
}

#[test]
fn bytes_cross_segments_and_an_empty_fifo_holds_none() {
    let mut bench = Bench::new(1500);
    let bytes: Vec<u8> = (0..250).cycle().take(4000).collect();
    for from in (0..4000).step_by(1000) {
        bench.push(from as u32, &bytes[from..from + 1000]);
        // One byte stays in the end.
        bench.take(if from == 3000 { 999 } else { 1000 });
        assert_eq!(bench.pool.held() == 0, from < 3000);
    }
    assert_eq!(bench.heard.sound, bytes[..3999]);
    // 2 kB are left out; what fills the gap later stands in several segments.
    bench.push(5000, &bytes[..300]);
    bench.push(4100, &bytes[100..800]);
    bench.take(1301);
    assert_eq!(bench.heard.sound[3999..], [&bytes[3999..], &bytes[100..800], &bytes[..300]].concat());
    assert_eq!((bench.heard.missing, bench.pool.held()), (300, 0));
}

#[test]
fn what_finds_no_memory_in_the_pool_is_an_overflow() {
    let mut bench = Bench::new(2000);
    bench.pool = VoicePool::new(1024);
    bench.pool.reserve(2000);
    bench.push(0, &[1; 1200]);
    assert_eq!((bench.fifo.level(), bench.fifo.counters().overflow), (1024, 176));
    bench.take(600);
    // The first segment is free again, and 88 bytes of the second are taken: a gap of 200 fits, and so much of what follows.
    bench.push(1400, &[2; 600]);
    assert_eq!((bench.fifo.level(), bench.fifo.counters().overflow), (424 + 200 + 312, 176 + 288));
    bench.take(936);
    assert_eq!((bench.heard.missing, bench.heard.sound.len(), bench.pool.held()), (200, 1336, 0));
}

proptest! {
    /// Whatever is lost, overtaken or repeated: the sink hears bytes of the sender in their order, each at most once, and
    /// each byte that was sent is accounted for once.
    #[test]
    fn every_byte_is_accounted_for(
        len in 4usize..64,
        start: u32,
        steps in prop::collection::vec((0u8..6, 1usize..20), 1..120),
    ) {
        let mut bench = Bench::new(len);
        let byte = |place: usize| (place % 251) as u8;
        let (mut sent, mut held) = (0usize, Vec::new());
        let mut lost = 0u64;
        for (kind, size) in steps {
            let datum: Vec<u8> = (sent..sent + size).map(byte).collect();
            match kind {
                // The first datum must come, as the FIFO does not know of any before it.
                0..=2 => {
                    bench.push(start.wrapping_add(sent as u32), &datum);
                    sent += size;
                }
                3 if sent > 0 => {
                    held.push((sent, datum));
                    sent += size;
                    lost += size as u64;
                }
                4 => {
                    for (place, datum) in held.drain(..) {
                        let before = bench.fifo.counters().late;
                        bench.push(start.wrapping_add(place as u32), &datum);
                        let late = bench.fifo.counters().late - before;
                        lost -= datum.len() as u64 - late;
                    }
                }
                _ => bench.take(size as u64),
            }
            prop_assert!(bench.fifo.level() <= len);
        }
        bench.push(start.wrapping_add(sent as u32), &[byte(sent)]);
        bench.take(2 * len as u64);
        let FifoCounters { taken, missing, overflow, .. } = bench.fifo.counters();
        prop_assert!(missing <= lost + overflow, "{missing} of {lost}");
        prop_assert_eq!(taken + missing + overflow, sent as u64 + 1);
        let heard = bench.heard.sound.iter().filter(|byte| **byte != QUIET).count() as u64;
        prop_assert_eq!(taken, heard);
        // In their order: each byte heard is found behind the one before it.
        let mut place = 0;
        for heard in bench.heard.sound.iter().filter(|byte| **byte != QUIET) {
            while byte(place) != *heard {
                place += 1;
                prop_assert!(place <= sent, "{heard} was not sent behind the one before it");
            }
            place += 1;
        }
    }
}
