use super::*;
use crate::{SampleFormat, StreamFormat, codec};
use antiphon_core::Rng;
use proptest::prelude::*;
use std::time::Duration;

const RATE: u32 = 48_000;

fn format(channels: u32) -> StreamFormat {
    StreamFormat::new(RATE, channels).unwrap()
}

pub(super) fn at(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// Sound with known positions: every sample of the first 349 ms is different from its neighbours.
pub(super) fn sound(from: u64, frames: usize, channels: usize) -> Vec<f32> {
    (from * channels as u64..(from + frames as u64) * channels as u64)
        .map(|n| (n.wrapping_mul(7919) % 65_536) as f32 / 32_768.0 - 1.0)
        .collect()
}

/// A packet of [`sound`], with its bytes.
pub(super) struct Sent {
    sequence: u64,
    pub start: u64,
    pub frames: usize,
    pub bytes: Vec<u8>,
    channels: usize,
}

/// Where time stamps begin: at any value but 0.
const ORIGIN: u64 = (1 << 32) + 777;

impl Sent {
    pub fn new(sequence: u64, start: u64, frames: usize, channels: usize) -> Self {
        let mut bytes = vec![0; frames * channels * 2];
        codec::encode(SampleFormat::L16, &sound(start, frames, channels), &mut bytes);
        Sent { sequence, start, frames, bytes, channels }
    }

    pub fn packet(&self) -> MediaPacket<'_> {
        MediaPacket {
            sequence: self.sequence + 65_536,
            timestamp: ORIGIN + self.start,
            frames: self.frames,
            lead: 0,
            coding: SampleFormat::L16.into(),
            channels: self.channels,
            recovered: false,
            payload: &self.bytes,
        }
    }
}

fn playout(clocking: Clocking, target_ms: u64, channels: u32) -> Playout {
    let config = PlayoutConfig::new(format(channels), Duration::from_millis(target_ms), clocking);
    Playout::new(config).unwrap()
}

pub(super) fn balanced(c: &PlayoutCounters) -> bool {
    c.inserted == c.played + c.late + c.duplicate + c.early + c.discarded + c.buffered
}

/// Plays packets, each with its arrival in microseconds, pulling whenever the buffer asks to be; returns all output.
fn play(playout: &mut Playout, arrivals: &[(u64, &Sent)], block: usize) -> Vec<f32> {
    play_groups(playout, arrivals.iter().map(|(time, sent)| (*time, 0, *sent)), block)
}

/// The same of packets of several groups, each with the index of its group.
pub(super) fn play_groups<'a>(
    playout: &mut Playout,
    arrivals: impl Iterator<Item = (u64, usize, &'a Sent)>,
    block: usize,
) -> Vec<f32> {
    let (mut out, mut last) = (Vec::new(), 0);
    for (time, group, sent) in arrivals {
        while let Some(due) = playout.poll_timeout().filter(|due| *due < at(time)) {
            drain(playout, due, block, &mut out);
        }
        while playout.insert_in(group, at(time), &sent.packet()) == Inserted::Full {
            drain(playout, at(time), block, &mut out);
        }
        if playout.poll_timeout().is_none() {
            drain(playout, at(time), block, &mut out);
        }
        last = time;
    }
    playout.finish();
    drain(playout, at(last), block, &mut out);
    assert!(playout.is_drained() && playout.poll_timeout().is_none());
    out
}

/// Pulls all that is due.
fn drain(playout: &mut Playout, now: Instant, block: usize, out: &mut Vec<f32>) {
    let channels = playout.config().format.channels();
    let mut buf = vec![0.0; block * channels];
    loop {
        let pulled = playout.pull(now, &mut buf);
        assert_eq!(pulled.frames, pulled.played + pulled.concealed + pulled.silent);
        out.extend(&buf[..pulled.frames * channels]);
        if pulled.frames == 0 {
            return;
        }
    }
}

/// Packets of random sizes from 16 to 600 sample frames, each sent with its last sample frame.
fn stream(seed: u64, count: u64, channels: usize) -> Vec<Sent> {
    let (mut rng, mut start) = (Rng::new(seed), 0);
    (0..count)
        .map(|n| {
            let frames = 16 + rng.below(585) as usize;
            let sent = Sent::new(n, start, frames, channels);
            start += frames as u64;
            sent
        })
        .collect()
}

pub(super) fn micros(frames: u64) -> u64 {
    frames * 1_000_000 / u64::from(RATE)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any jitter below the playout delay, even one that reorders, leaves every sample as it was.
    #[test]
    fn jitter_below_the_playout_delay_is_not_heard(seed in any::<u64>(), playout_delay in 5u64..120, channels in 1usize..3, block in 16usize..2000) {
        let packets = stream(seed, 150, channels);
        let mut rng = Rng::new(seed ^ 1);
        // Half a millisecond is for rounding: packets are played from their beginning, at 1 µs resolution.
        let jitter = playout_delay * 1000 - 500;
        let mut arrivals: Vec<(u64, &Sent)> = packets
            .iter()
            .map(|p| (10_000 + micros(p.start) + u64::from(rng.below(jitter as u32)), p))
            .collect();
        arrivals.sort_by_key(|(time, _)| *time);
        let mut playout = playout(Clocking::Sender, playout_delay, channels as u32);
        let out = play(&mut playout, &arrivals, block);
        let total = packets.last().map_or(0, |p| p.start as usize + p.frames);
        prop_assert_eq!(out, sound(0, total, channels));
        let c = playout.counters();
        prop_assert_eq!((c.played, c.late, c.lost, c.concealed_frames), (150, 0, 0, 0));
        prop_assert!(balanced(&c));
    }

    /// A recording accepts packets at any time, if not too many of them are out of order.
    #[test]
    fn a_recording_is_whole_whatever_the_delay(seed in any::<u64>(), patience in 0usize..20, block in 16usize..2000) {
        let packets = stream(seed, 150, 1);
        let mut rng = Rng::new(seed ^ 3);
        let (mut order, mut time) = (Vec::new(), 0);
        let mut keyed: Vec<(u64, &Sent)> =
            packets.iter().map(|p| (p.sequence + u64::from(rng.below(patience as u32 + 1)), p)).collect();
        keyed.sort_by_key(|(key, _)| *key);
        for (_, packet) in keyed {
            time += u64::from(rng.below(3_000_000));
            order.push((time, packet));
        }
        let mut playout = playout(Clocking::Unhurried { patience }, 0, 1);
        let out = play(&mut playout, &order, block);
        let total = packets.last().map_or(0, |p| p.start as usize + p.frames);
        prop_assert_eq!(out, sound(0, total, 1));
        prop_assert_eq!((playout.counters().late, playout.counters().concealed_frames), (0, 0));
    }

    /// Under every impairment, each packet ends in one count, time keeps its length, and memory its size.
    #[test]
    fn every_packet_ends_in_one_count(
        seed in any::<u64>(), playout_delay in 1u64..60, loss in 0.0f64..0.5, doubled in 0.0f64..0.3, jitter in 1u32..200_000, mode in 0usize..3,
    ) {
        let packets = stream(seed, 200, 1);
        let (mut rng, mut arrivals) = (Rng::new(seed ^ 2), Vec::new());
        for packet in &packets {
            let copies = if rng.chance(loss) { 0 } else { 1 + u64::from(rng.chance(doubled)) };
            for _ in 0..copies {
                arrivals.push((micros(packet.start) + u64::from(rng.below(jitter)), packet));
            }
        }
        arrivals.sort_by_key(|(time, _)| *time);
        let distinct = packets.iter().filter(|p| arrivals.iter().any(|(_, a)| a.sequence == p.sequence)).count() as u64;
        let clocking = [Clocking::Sender, Clocking::Unhurried { patience: 4 }, Clocking::Sink][mode];
        let mut playout = playout(clocking, playout_delay, 1);
        if clocking == Clocking::Sink {
            let mut block = vec![0.0; 480];
            let mut rest = arrivals.iter().peekable();
            for pull in 0..300u64 {
                while let Some((time, sent)) = rest.next_if(|(time, _)| *time < pull * 10_000) {
                    playout.insert(at(*time), &sent.packet());
                }
                prop_assert_eq!(playout.pull(at(pull * 10_000), &mut block).frames, 480);
            }
        } else {
            let out = play(&mut playout, &arrivals, 333);
            let c = playout.counters();
            prop_assert_eq!(out.len() as u64, c.played_frames + c.concealed_frames + c.paused_frames);
        }
        let c = playout.counters();
        prop_assert!(balanced(&c), "{:?}", c);
        prop_assert_eq!(c.inserted, arrivals.len() as u64);
        prop_assert_eq!(c.duplicate, arrivals.len() as u64 - distinct);
        prop_assert!(c.lost <= 200 - distinct, "{:?}", c);
    }

    #[test]
    fn hostile_numbers_do_no_harm(packets in prop::collection::vec((any::<u16>(), prop_oneof![Just(0u32), any::<u32>()], 0u32..20_000, 1usize..5000), 1..60), mode in 0usize..3) {
        let clocking = [Clocking::Sender, Clocking::Sink, Clocking::Unhurried { patience: 2 }][mode];
        let (mut playout, mut now, mut out) = (playout(clocking, 20, 1), 0, vec![0.0; 256]);
        for (sequence, timestamp, step, frames) in packets {
            now += u64::from(step);
            let sent = Sent::new(u64::from(sequence), u64::from(timestamp), frames, 1);
            playout.insert(at(now), &sent.packet());
            playout.pull(at(now), &mut out);
            prop_assert!(balanced(&playout.counters()), "{:?}", playout.counters());
        }
    }
}

/// 20 packets of 480 sample frames every 10 ms; playout delay 30 ms.
fn steady() -> Vec<Sent> {
    (0..20).map(|n| Sent::new(n, n * 480, 480, 1)).collect()
}

#[test]
fn defects_are_counted_apart() {
    let packets = steady();
    let mut arrivals: Vec<(u64, &Sent)> = packets.iter().map(|p| (p.sequence * 10_000, p)).collect();
    arrivals.remove(15);
    arrivals[5].0 = 50_000 + 35_000;
    arrivals[8].0 = 80_000 + 25_000;
    arrivals.push((101_000, &packets[10]));
    arrivals.sort_by_key(|a| a.0);
    let mut playout = playout(Clocking::Sender, 30, 1);
    let out = play(&mut playout, &arrivals, 480);
    let c = playout.counters();
    assert_eq!((c.inserted, c.played, c.late, c.lost), (20, 18, 1, 1));
    assert_eq!((c.duplicate, c.reordered, c.early, c.discarded), (1, 2, 0, 0));
    assert_eq!((c.concealments, c.concealed_frames, c.played_frames), (2, 960, 18 * 480));
    // Packet 5 came 5 ms too late, behind packet 6; 15 never did.
    let begun: Vec<_> =
        playout.gaps_begun().iter().map(|gap| (gap.number, gap.sequence, gap.cause)).collect();
    let number = |n: usize| Some(packets[n].packet().sequence);
    assert_eq!(begun, [(1, number(5), Cause::Missing), (2, number(15), Cause::Missing)]);
    let times: Vec<_> = playout.gaps_begun().iter().map(|gap| (gap.at, gap.delay)).collect();
    assert_eq!(times, [80_000, 180_000].map(|due| (at(due), Duration::from_millis(30))));
    // Complete packets stay in their places.
    assert_eq!(out.len(), 20 * 480);
    assert_eq!(out[..5 * 480], sound(0, 5 * 480, 1));
    assert_eq!(out[16 * 480 + 480..], sound(17 * 480, 3 * 480, 1));
}

#[test]
fn a_lost_packet_that_comes_after_all_is_late_not_lost() {
    let packets = steady();
    let mut playout = playout(Clocking::Sender, 30, 1);
    let mut buf = [0.0; 480];
    for p in packets.iter().filter(|p| p.sequence != 3) {
        playout.insert(at(p.sequence * 10_000), &p.packet());
        while playout.pull(at(p.sequence * 10_000), &mut buf).frames > 0 {}
    }
    assert_eq!((playout.counters().lost, playout.counters().late), (1, 0));
    let recovered = MediaPacket { recovered: true, ..packets[3].packet() };
    assert_eq!(playout.insert(at(200_000), &recovered), Inserted::Late { salvaged: 0 });
    let c = playout.counters();
    assert_eq!((c.lost, c.late, c.recovered_late, c.recovered), (0, 1, 1, 0));
}

#[test]
fn half_late_packets_give_their_other_half() {
    let mut playout = playout(Clocking::Sink, 10, 1);
    let packets = steady();
    let mut block = vec![0.0; 240];
    playout.insert(at(0), &packets[0].packet());
    // Starts at 10 ms; at 25 ms the second packet has been half concealed.
    for us in [10_000, 15_000, 20_000] {
        playout.pull(at(us), &mut block);
    }
    assert_eq!(playout.insert(at(21_000), &packets[1].packet()), Inserted::Late { salvaged: 240 });
    let pulled = playout.pull(at(25_000), &mut block);
    assert_eq!((pulled.played, pulled.concealed, pulled.media), (240, 0, Some(ORIGIN + 720)));
    let c = playout.counters();
    assert_eq!((c.played, c.late, c.lost, c.played_frames), (1, 1, 0, 720));
}

#[test]
fn a_device_starts_to_the_sample_frame() {
    let mut playout = playout(Clocking::Sink, 10, 1);
    let packets = steady();
    let mut block = vec![9.0; 480];
    let pulled = playout.pull(at(0), &mut block);
    assert_eq!((pulled.silent, pulled.media), (480, None));
    playout.insert(at(1_000), &packets[0].packet());
    // Due at 11 ms; the block pulled at 9 ms holds 2 ms of silence and 8 ms of sound.
    let pulled = playout.pull(at(9_000), &mut block);
    assert_eq!((pulled.silent, pulled.played), (96, 384));
    assert!(block[..96].iter().all(|x| *x == 0.0) && block[96..] == sound(0, 384, 1));
}

#[test]
fn pauses_of_the_sender_are_silence_not_loss() {
    let packets = [Sent::new(0, 0, 480, 1), Sent::new(1, 4800, 480, 1)];
    let mut playout = playout(Clocking::Sender, 30, 1);
    let out = play(&mut playout, &[(0, &packets[0]), (20_000, &packets[1])], 480);
    let c = playout.counters();
    assert_eq!((c.paused_frames, c.concealed_frames, c.lost, c.played), (4320, 0, 0, 2));
    assert!(out[480..4800].iter().all(|x| *x == 0.0) && out[4800..] == sound(4800, 480, 1));
}

#[test]
fn jumps_and_longer_paths_end_in_a_new_start() {
    // The time stamp jumps by a minute; the numbers continue.
    let mut buffer = playout(Clocking::Sender, 30, 1);
    let leap: Vec<Sent> =
        (0..40).map(|n| Sent::new(n, n * 480 + if n < 20 { 0 } else { 2_880_000 }, 480, 1)).collect();
    let arrivals: Vec<(u64, &Sent)> = leap.iter().map(|p| (p.sequence * 10_000, p)).collect();
    let out = play(&mut buffer, &arrivals, 480);
    let c = buffer.counters();
    // The last of the old packets was still waiting to be played.
    assert_eq!((c.resyncs, c.early, c.played, c.lost), (1, 2, 37, 0), "{c:?}");
    assert!(balanced(&c) && c.discarded == 1, "{c:?}");
    assert_eq!(out[out.len() - 480..], sound(2_880_000 + 39 * 480, 480, 1));
    // The path becomes longer by ten times the playout delay.
    let mut buffer = playout(Clocking::Sender, 30, 1);
    let long: Vec<Sent> = (0..200).map(|n| Sent::new(n, n * 480, 480, 1)).collect();
    let arrivals: Vec<(u64, &Sent)> =
        long.iter().map(|p| (p.sequence * 10_000 + if p.sequence < 100 { 0 } else { 300_000 }, p)).collect();
    let out = play(&mut buffer, &arrivals, 480);
    let c = buffer.counters();
    assert_eq!((c.resyncs, c.lost), (1, 0), "{c:?}");
    assert!((20..=22).contains(&c.late) && balanced(&c), "late for 200 ms, then taken up: {c:?}");
    assert_eq!(out[out.len() - 480..], sound(199 * 480, 480, 1));
}

#[test]
fn another_stream_starts_from_nothing() {
    let mut playout = playout(Clocking::Sender, 30, 1);
    let first = steady();
    for p in &first {
        playout.insert(at(p.sequence * 10_000), &p.packet());
    }
    playout.restart();
    let c = playout.counters();
    assert_eq!((c.discarded, c.buffered), (20, 0));
    let second = [Sent::new(50_000, 7, 480, 1)];
    assert_eq!(play(&mut playout, &[(500_000, &second[0])], 480), sound(7, 480, 1));
    assert_eq!((playout.counters().lost, playout.counters().played), (0, 1));
}

#[test]
fn a_sink_that_stood_still_goes_on_where_the_sound_is() {
    let packets: Vec<Sent> = (0..100).map(|n| Sent::new(n, n * 480, 480, 1)).collect();
    let mut playout = playout(Clocking::Sink, 30, 1);
    let mut block = vec![0.0; 480];
    for p in &packets[..30] {
        playout.insert(at(p.sequence * 10_000), &p.packet());
        if p.sequence < 10 {
            playout.pull(at(p.sequence * 10_000), &mut block);
        }
    }
    let pulled = playout.pull(at(300_000), &mut block);
    assert_eq!(pulled.media, Some(ORIGIN + 27 * 480));
    assert_eq!((block, playout.counters().skipped_frames), (sound(27 * 480, 480, 1), 20 * 480));
    assert!(balanced(&playout.counters()));
}

#[test]
fn absurd_targets_are_refused_and_many_channels_fit() {
    let make = |channels, seconds| {
        Playout::new(PlayoutConfig::new(format(channels), Duration::from_secs(seconds), Clocking::Sender))
            .err()
    };
    assert!(make(2, 1000).unwrap().to_string().contains("use at most"));
    assert_eq!(make(2, 5), None);
    let small = playout(Clocking::Sender, 80, 64);
    assert!(small.lanes[0].store.capacity() * 64 * 4 <= COMFORT_STORE);
}

#[test]
fn a_device_that_is_far_ahead_waits() {
    let packets: Vec<Sent> = (0..60).map(|n| Sent::new(n, n * 480, 480, 1)).collect();
    let mut playout = playout(Clocking::Sink, 30, 1);
    let mut block = vec![0.0; 480];
    for p in &packets {
        playout.insert(at(p.sequence * 10_000), &p.packet());
        if p.sequence == 20 {
            playout.set_playout_delay(Duration::from_millis(230));
        }
        playout.pull(at(p.sequence * 10_000), &mut block);
    }
    // 200 ms were concealed; the sound continues at its old position.
    let c = playout.counters();
    assert_eq!((c.concealed_frames, c.discarded, c.lost, c.late), (9600, 0, 0, 0), "{c:?}");
    assert_eq!(playout.pull(at(600_000), &mut block).media, Some(ORIGIN + 37 * 480));
    assert_eq!(block, sound(37 * 480, 480, 1));
}

/// Records the gaps it is given.
struct Scribe(std::sync::mpsc::Sender<(Option<usize>, Vec<f32>)>);

impl Conceal for Scribe {
    fn look_ahead(&self) -> usize {
        100
    }
    fn good(&mut self, _block: &mut [f32]) {}
    fn lost(&mut self, gap: crate::conceal::Gap<'_>, out: &mut [f32]) {
        out.fill(0.0);
        self.0.send((gap.remaining, gap.ahead.to_vec())).unwrap();
    }
}

#[test]
fn concealers_see_what_follows_the_gap() {
    let (told, heard) = std::sync::mpsc::channel();
    let config = PlayoutConfig::new(format(1), Duration::from_millis(30), Clocking::Sender);
    let mut playout = Playout::with_conceal(config, |_| Box::new(Scribe(told.clone()))).unwrap();
    let packets = steady();
    let arrivals: Vec<(u64, &Sent)> =
        packets.iter().filter(|p| p.sequence != 5).map(|p| (p.sequence * 10_000, p)).collect();
    let out = play(&mut playout, &arrivals, 480);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(Some(480), sound(6 * 480, 100, 1))]);
    assert_eq!(out[6 * 480..], sound(6 * 480, 14 * 480, 1));
}

#[test]
fn what_waits_survives_a_drop_far_ahead() {
    let packets = steady();
    let mut playout = playout(Clocking::Sender, 30, 1);
    for p in &packets[..3] {
        playout.insert(at(0), &p.packet());
    }
    let far = Sent::new(4, 10_000_000, 480, 1);
    assert_eq!(playout.insert(at(0), &far.packet()), Inserted::Early);
    let c = playout.counters();
    assert_eq!((c.buffered, c.early, c.lost), (3, 1, 1), "only number 3 is missing");
}

#[test]
fn damage_now_and_then_is_no_new_start() {
    let packets = steady();
    let mut playout = playout(Clocking::Sender, 30, 1);
    for p in &packets {
        playout.insert(at(p.sequence * 10_000), &p.packet());
        let damaged = Sent::new(1000 + p.sequence, 10_000_000, 480, 1);
        assert_eq!(playout.insert(at(p.sequence * 10_000), &damaged.packet()), Inserted::Early);
        while playout.pull(at(p.sequence * 10_000), &mut [0.0; 480]).frames > 0 {}
    }
    let c = playout.counters();
    assert_eq!((c.early, c.resyncs, c.late), (20, 0, 0));
}

#[test]
fn late_packets_among_others_are_no_new_start() {
    let packets: Vec<Sent> = (0..60).map(|n| Sent::new(n, n * 480, 480, 1)).collect();
    let mut arrivals: Vec<(u64, &Sent)> =
        packets.iter().map(|p| (p.sequence * 10_000 + 55_000 * (p.sequence % 2), p)).collect();
    arrivals.sort_by_key(|a| a.0);
    let mut playout = playout(Clocking::Sender, 30, 1);
    play(&mut playout, &arrivals, 480);
    let c = playout.counters();
    assert_eq!((c.resyncs, c.lost), (0, 0), "{c:?}");
    // The last few arrive after the end was reported, and all is played at once.
    assert!((27..=30).contains(&c.late), "{c:?}");
}

#[test]
fn repaired_packets_do_not_move_the_schedule() {
    let packets = steady();
    let mut playout = playout(Clocking::Sender, 300, 1);
    for p in packets.iter().filter(|p| p.sequence != 19) {
        playout.insert(at(p.sequence * 10_000 + 80_000), &p.packet());
    }
    let before = playout.deadline(ORIGIN);
    // Packets made by error correction may come early, and do not show the path's delay.
    playout.insert(at(269_000), &MediaPacket { recovered: true, ..packets[19].packet() });
    assert_eq!((playout.deadline(ORIGIN), playout.counters().recovered), (before, 1));
}

#[test]
fn losses_of_a_former_stream_stay_counted() {
    let packets = steady();
    let mut playout = playout(Clocking::Sender, 30, 1);
    for p in packets.iter().filter(|p| p.sequence % 5 != 2) {
        playout.insert(at(p.sequence * 10_000), &p.packet());
    }
    playout.restart();
    playout.insert(at(300_000), &Sent::new(90_000, 0, 480, 1).packet());
    let c = playout.counters();
    assert_eq!((c.lost, c.discarded, c.buffered), (4, 16, 1));
}

/// A hundred packets that wait for a missing one may be more sound than the buffer holds.
#[test]
fn a_full_recording_stops_waiting_and_loses_nothing() {
    let mut playout = playout(Clocking::Unhurried { patience: 100 }, 0, 1);
    let mut got = Vec::new();
    // Four times the room, the 50th packet missing: it is given up exactly when the room is used up.
    const FRAMES: usize = 1024;
    let packets = 4 * playout.lanes[0].store.capacity() / FRAMES;
    for number in (0..packets as u64).filter(|number| *number != 50) {
        let sent = Sent::new(number, number * FRAMES as u64, FRAMES, 1);
        if playout.insert(at(0), &sent.packet()) == Inserted::Full {
            drain(&mut playout, at(0), 256, &mut got);
            assert_eq!(playout.insert(at(0), &sent.packet()), Inserted::Buffered, "packet {number}");
        }
    }
    playout.finish();
    drain(&mut playout, at(0), 256, &mut got);
    let counters = playout.counters();
    assert_eq!((counters.resyncs, counters.discarded, counters.lost), (0, 0, 1));
    assert_eq!(counters.concealed_frames, FRAMES as u64);
    let wanted = sound(0, packets * FRAMES, 1);
    assert_eq!(got.len(), wanted.len());
    // After a gap sound is faded in, well within one packet.
    assert!(got[..50 * FRAMES] == wanted[..50 * FRAMES] && got[52 * FRAMES..] == wanted[52 * FRAMES..]);
}

/// Packets of 480 sample frames over a path of 20 ms, in order; those sent in the first `held_ms` are delayed by 100
/// ms, those after `better_s` are 10 ms faster. Returns, for each pull of 5 ms, its time and how far behind its
/// undelayed arrival the sound is played, in milliseconds.
fn latencies(clocking: Clocking, held_ms: u64, better_s: u64) -> (Vec<(f64, f64)>, PlayoutCounters) {
    let mut playout = playout(clocking, 80, 1);
    let (mut out, mut block) = (Vec::new(), [0.0; 240]);
    let (mut sequence, mut last) = (0u64, 0);
    for pull in 0..30_000u64 {
        let now = pull * 1_000;
        loop {
            let sent = sequence * 10_000;
            let held = if sent < held_ms * 1_000 { 100_000 } else { 0 };
            let path = if sent < better_s * 1_000_000 { 20_000 } else { 10_000 };
            let arrival = (sent + path + held).max(last);
            if arrival > now {
                break;
            }
            playout.insert(at(arrival), &Sent::new(sequence, sequence * 480, 480, 1).packet());
            (sequence, last) = (sequence + 1, arrival);
        }
        if clocking == Clocking::Sink && !pull.is_multiple_of(5) {
            continue;
        }
        loop {
            let pulled = playout.pull(at(now), &mut block);
            if let (Some(media), true) = (pulled.media, pulled.played > 0) {
                let path = if now < better_s * 1_000_000 { 20.0 } else { 10.0 };
                let undelayed = (media - ORIGIN) as f64 / 48.0 + path;
                out.push((now as f64 / 1e6, now as f64 / 1e3 - undelayed));
            }
            if pulled.frames == 0 || clocking == Clocking::Sink {
                break;
            }
        }
    }
    (out, playout.counters())
}

/// A playout delay of 80 ms, not the 180 ms of a delayed first packet, whenever the delay ends.
#[test]
fn what_holds_up_the_first_packets_is_not_kept() {
    for clocking in [Clocking::Sender, Clocking::Sink] {
        for held_ms in [1, 50, 300, 1_000, 2_000] {
            let (latencies, counters) = latencies(clocking, held_ms, 60);
            for (at, latency) in latencies.iter().filter(|(at, _)| *at >= 5.0) {
                assert!((latency - 80.0).abs() <= 1.0, "{clocking:?} {held_ms}: {latency} ms at {at} s");
            }
            assert_eq!((counters.lost, counters.late, counters.resyncs), (0, 0, 0), "{counters:?}");
            // A sink's clock continues, so the sound's lag when the delay ends is left out, 100 ms at most; a file gets
            // all of it.
            let ends = (held_ms - 1) / 10 * 10 + 120;
            let late_ms = if clocking == Clocking::Sink { (ends - 100).min(100) } else { 0 };
            assert!(counters.skipped_frames.abs_diff(late_ms * 48) <= 48, "{held_ms}: {counters:?}");
        }
    }
}

/// When the path becomes 10 ms faster, the schedule follows at 5 ms/s, once the smallest transit times of the last
/// seconds are those of the new path; for a device it follows no faster than a resampler can.
#[test]
fn a_faster_path_is_followed_and_nothing_is_left_out() {
    let (latencies, counters) = latencies(Clocking::Sender, 1, 10);
    let late = |from: f64| latencies.iter().filter(|(at, _)| *at >= from).map(|l| l.1).fold(0.0, f64::max);
    assert!(late(10.5) > 87.0 && late(12.2) < 81.0, "{} {}", late(10.5), late(12.2));
    assert_eq!((counters.skipped_frames, counters.lost, counters.concealed_frames), (0, 0, 0));
    let settled = latencies.iter().filter(|(at, _)| *at > 5.0).map(|(_, latency)| *latency);
    let falls =
        settled.clone().zip(settled.skip(1)).map(|(before, after)| before - after).fold(0.0, f64::max);
    assert!(falls < 1.1, "pulled every millisecond: {falls}");
}
