//! The rules of the RFCs one by one, over a wire with the losses and delays of each test.

use std::time::Duration;

use antiphon_core::Instant;
use proptest::prelude::*;

use super::*;

/// Each way.
const DELAY: Duration = Duration::from_millis(20);

/// Delay of the n-th segment with data that the near end sends; `None`: lost.
type Fate = Box<dyn FnMut(u64, &Segment) -> Option<Duration>>;

struct Bench {
    near: Tcp,
    far: Tcp,
    now: Instant,
    wire: Vec<(Instant, bool, Segment)>,
    /// When, whether from the near end, and what.
    log: Vec<(Instant, bool, Segment)>,
    data: u64,
    fate: Fate,
}

impl Bench {
    fn new(profile: Profile) -> Self {
        Bench::between(profile, profile)
    }

    /// Connected at 60 ms, both SYNs acknowledged.
    fn between(near: Profile, far: Profile) -> Self {
        let mut bench = Bench {
            near: Tcp::connect(near),
            far: Tcp::accept(far),
            now: Instant::ZERO,
            wire: Vec::new(),
            log: Vec::new(),
            data: 0,
            fate: Box::new(|_, _| Some(DELAY)),
        };
        bench.run_for(100);
        assert!(bench.near.is_established() && bench.far.is_established());
        bench.log.clear();
        bench
    }

    fn lose(&mut self, which: impl Fn(u64) -> bool + 'static) {
        self.fate = Box::new(move |n, _| (!which(n)).then_some(DELAY));
    }

    fn transmit(&mut self) {
        while let Some(segment) = self.near.poll_transmit(self.now) {
            self.log.push((self.now, true, segment.clone()));
            let counts = !segment.payload.is_empty();
            self.data += u64::from(counts);
            let delay = if counts { (self.fate)(self.data, &segment) } else { Some(DELAY) };
            if let Some(delay) = delay {
                self.wire.push((self.now + delay, true, segment));
            }
        }
        while let Some(segment) = self.far.poll_transmit(self.now) {
            self.log.push((self.now, false, segment.clone()));
            self.wire.push((self.now + DELAY, false, segment));
        }
    }

    fn run_for(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        self.transmit();
        loop {
            let arrivals = self.wire.iter().map(|entry| entry.0);
            let due = arrivals.chain(self.near.poll_timeout()).chain(self.far.poll_timeout()).min();
            let Some(at) = due.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            while let Some(index) = self.wire.iter().position(|entry| entry.0 <= self.now) {
                let (_, to_far, segment) = self.wire.remove(index);
                let end = if to_far { &mut self.far } else { &mut self.near };
                end.handle_segment(self.now, segment);
                self.transmit();
            }
            for end in [&mut self.near, &mut self.far] {
                end.handle_timeout(self.now);
            }
            self.transmit();
        }
        self.now = until;
    }

    fn write(&mut self, len: usize) {
        assert_eq!(self.near.write(self.now, &vec![1; len]), len);
        self.transmit();
    }

    /// Times, ms after `since`, at which the near end sent data.
    fn sent_ms(&self, since: Instant) -> Vec<u64> {
        let data = self.log.iter().filter(|entry| entry.1 && !entry.2.payload.is_empty());
        data.map(|entry| entry.0.since(since).as_millis() as u64).collect()
    }

    /// Times, ms after `since`, of the far end's acknowledgements.
    fn acks_ms(&self, since: Instant) -> Vec<u64> {
        self.log
            .iter()
            .filter(|entry| !entry.1)
            .map(|entry| entry.0.since(since).as_millis() as u64)
            .collect()
    }
}

/// Every segment acknowledged at once, so that times are those of the sender.
fn prompt() -> Profile {
    let mut profile = Profile::linux();
    profile.delayed_ack.timeout = Duration::ZERO;
    profile
}

#[test]
fn a_lone_segment_is_repeated_at_doubling_time_outs_until_given_up() {
    let mut bench = Bench::new(Profile { retries: 3, tail_loss_probe: false, ..prompt() });
    bench.lose(|_| true);
    let start = bench.now;
    bench.write(100);
    bench.run_for(10_000);
    // One round trip of 40 ms measured in the handshake: RTO = 40 + max(200, 4·20) = 240 ms, then 480, 960.
    assert_eq!(bench.sent_ms(start), [0, 240, 720, 1680]);
    assert_eq!(bench.near.state(), State::Closed(Closed::TimedOut));
    assert_eq!(bench.near.poll_timeout(), None);
    assert_eq!(bench.near.write(bench.now, b"more"), 0);
}

#[test]
fn the_user_time_out_ends_it_earlier() {
    let user_timeout = Some(Duration::from_millis(500));
    let mut bench = Bench::new(Profile { user_timeout, tail_loss_probe: false, ..prompt() });
    bench.lose(|_| true);
    bench.write(100);
    bench.run_for(719);
    assert!(bench.near.is_established());
    bench.run_for(2);
    assert_eq!(bench.near.state(), State::Closed(Closed::TimedOut));
}

#[test]
fn an_unanswered_call_is_repeated_and_given_up() {
    let mut tcp = Tcp::connect(Profile { syn_retries: 2, ..Profile::linux() });
    let mut sent = Vec::new();
    let mut now = Instant::ZERO;
    loop {
        sent.extend(tcp.poll_transmit(now).map(|syn| (now.as_nanos() / 1_000_000, syn.flags.syn)));
        let Some(at) = tcp.poll_timeout() else { break };
        now = at;
        tcp.handle_timeout(now);
    }
    assert_eq!(sent, [(0, true), (1000, true), (3000, true)]);
    assert_eq!((tcp.state(), now), (State::Closed(Closed::TimedOut), Instant::from_millis(7000)));
}

#[test]
fn karn_takes_no_round_trip_from_what_was_sent_twice() {
    let profile = Profile { timestamps: false, tail_loss_probe: false, undo: false, ..prompt() };
    let mut bench = Bench::new(profile);
    bench.lose(|n| n == 1);
    let before = bench.near.stats().srtt;
    bench.write(100);
    bench.run_for(1000);
    assert_eq!(bench.near.stats().timeouts, 1);
    assert_eq!(bench.near.stats().srtt, before);
    bench.write(100);
    bench.run_for(1000);
    assert_eq!(bench.near.stats().srtt, Some(Duration::from_millis(40)));
}

#[test]
fn two_duplicate_acknowledgements_are_patience_and_three_a_loss() {
    let profile = Profile { sack: false, loss_detection: LossDetection::DupAcks, ..prompt() };
    for (followers, repeated) in [(2, 0), (3, 1)] {
        let mut bench = Bench::new(profile);
        // The peer's scaled window is known only from its first acknowledgement, which must not count as a duplicate.
        bench.write(1448);
        bench.run_for(100);
        bench.data = 0;
        // The first segment comes late, after its followers.
        bench.fate = Box::new(|n, _| Some(if n == 1 { DELAY * 2 } else { DELAY }));
        bench.write(1448 * (1 + followers));
        bench.run_for(1000);
        let stats = bench.near.stats();
        assert_eq!((stats.retransmitted_segments, stats.timeouts), (repeated, 0), "{followers} duplicates");
        assert_eq!(bench.far.readable(), 1448 * (2 + followers));
    }
}

#[test]
fn recovery_repeats_the_holes_and_nothing_else() {
    for detection in [LossDetection::Rack, LossDetection::DupAcks, LossDetection::Fack] {
        let mut bench = Bench::new(Profile { loss_detection: detection, initial_window: 20, ..prompt() });
        bench.lose(|n| [3, 5, 9].contains(&n));
        bench.write(1448 * 20);
        bench.run_for(1000);
        let stats = bench.near.stats();
        assert_eq!(
            (stats.retransmitted_segments, stats.timeouts, stats.fast_recoveries),
            (3, 0, 1),
            "{detection:?}"
        );
        let mut repeated: Vec<u64> =
            bench.log.iter().filter(|entry| entry.1).map(|entry| entry.2.seq).collect();
        repeated.drain(..20);
        repeated.retain(|seq| *seq != 1 + 1448 * 20);
        assert_eq!(repeated, [3, 5, 9].map(|n: u64| 1 + 1448 * (n - 1)), "{detection:?}");
        assert_eq!(bench.far.readable(), 1448 * 20);
    }
}

#[test]
fn new_reno_fills_a_hole_per_round_trip_without_sack() {
    let profile =
        Profile { sack: false, loss_detection: LossDetection::DupAcks, initial_window: 20, ..prompt() };
    let mut bench = Bench::new(profile);
    bench.lose(|n| [3, 5, 9].contains(&n));
    let start = bench.now;
    bench.write(1448 * 20);
    bench.run_for(1000);
    assert_eq!((bench.near.stats().retransmitted_segments, bench.near.stats().timeouts), (3, 0));
    assert_eq!(bench.sent_ms(start)[20..], [40, 80, 120]);
}

#[test]
fn rack_waits_a_quarter_of_the_round_trip_for_what_is_reordered() {
    // The least round trip is 40 ms, so a segment may come up to 10 ms behind its only follower.
    for (extra, repeated) in [(9, 0), (12, 1)] {
        let mut bench = Bench::new(prompt());
        let late = DELAY + Duration::from_millis(extra);
        bench.fate = Box::new(move |n, _| Some(if n == 1 { late } else { DELAY }));
        bench.write(1448 * 2);
        bench.run_for(1000);
        let stats = bench.near.stats();
        assert_eq!(stats.retransmitted_segments, repeated, "{extra} ms");
        // An unnecessary retransmission is detected by the echoed timestamp, and the window restored.
        assert_eq!((stats.undone, stats.ssthresh.is_infinite()), (repeated, true), "{extra} ms");
    }
}

#[test]
fn a_lost_tail_is_probed_before_the_time_out() {
    let lost_tail = |tail_loss_probe| {
        let mut bench = Bench::new(Profile { tail_loss_probe, ..prompt() });
        bench.lose(|n| n == 4);
        let start = bench.now;
        bench.write(1448 * 4);
        bench.run_for(1000);
        assert_eq!(bench.far.readable(), 1448 * 4);
        let last = *bench.sent_ms(start).last().expect("it was repeated");
        (last, bench.near.stats().timeouts, bench.near.stats().tail_probes)
    };
    // The acknowledgement of the third at 40 ms leaves one out: two round trips and 200 ms would be 320 ms, so the
    // time-out, 40 ms + 240 ms, comes first, as a probe (RFC 8985 §7.2: min of both).
    assert_eq!(lost_tail(true), (280, 0, 1));
    assert_eq!(lost_tail(false), (280, 1, 0));
    // Two lost of four: two round trips and a margin of 2 ms after the acknowledgement at 40 ms.
    let mut bench = Bench::new(prompt());
    bench.lose(|n| n == 3 || n == 4);
    let start = bench.now;
    bench.write(1448 * 4);
    bench.run_for(1000);
    // The probe repeats the last one; its acknowledgement shows the hole before it a round trip later.
    assert_eq!(bench.sent_ms(start)[4..6], [122, 162]);
    assert_eq!((bench.near.stats().timeouts, bench.near.stats().tail_probes), (0, 1));
}

#[test]
fn acknowledgements_wait_for_40_ms_or_a_second_full_segment() {
    let mut profile = Profile::linux();
    profile.delayed_ack.quick_acks = 0;
    let acks_after = |profile: Profile, len: usize| {
        let mut bench = Bench::new(profile);
        let start = bench.now;
        bench.write(len);
        bench.run_for(300);
        bench.acks_ms(start)
    };
    assert_eq!(acks_after(profile, 100), [60], "20 ms of path, 40 ms of patience");
    assert_eq!(acks_after(profile, 1448 * 2), [20]);
    assert_eq!(acks_after(profile, 1448), [60], "one full segment waits for its second");
    assert_eq!(acks_after(Profile::linux(), 100), [20], "a new connection is quick");
    assert_eq!(acks_after(Profile::windows_xp(), 100), [220]);
}

#[test]
fn a_reader_acknowledges_small_frames_as_on_linux() {
    let mut profile = Profile::linux();
    profile.delayed_ack.quick_acks = 0;
    for on_read in [true, false] {
        profile.delayed_ack.on_read = on_read;
        let mut bench = Bench::new(profile);
        let start = bench.now;
        bench.write(100);
        bench.run_for(25);
        assert_eq!(bench.far.read(bench.now, &mut [0; 200]), 100);
        bench.run_for(100);
        assert_eq!(bench.acks_ms(start), [if on_read { 25 } else { 60 }]);
    }
}

#[test]
fn nagle_holds_the_second_small_segment_until_the_first_is_acknowledged() {
    for (no_delay, times) in [(true, vec![0, 5, 10]), (false, vec![0, 40])] {
        let mut bench = Bench::new(Profile { no_delay, ..prompt() });
        let start = bench.now;
        for _ in 0..3 {
            bench.write(100);
            bench.run_for(5);
        }
        bench.run_for(200);
        assert_eq!(bench.sent_ms(start), times);
        assert_eq!(bench.far.readable(), 300);
    }
}

#[test]
fn a_closed_window_is_probed_and_opens_again() {
    let mut bench = Bench::between(prompt(), Profile { receive_buffer: 4344, ..prompt() });
    bench.near.write(bench.now, &[1; 20_000]);
    bench.run_for(5000);
    assert_eq!(bench.far.readable(), 4344, "no more than the buffer");
    let probes = bench.near.stats().window_probes;
    // 240 ms after the window closed at 40 ms, then doubled: 280, 760, 1720, 3640 ms.
    assert_eq!(probes, 4);
    assert!(bench.near.is_established());
    let mut got = 0;
    for _ in 0..100 {
        got += bench.far.read(bench.now, &mut [0; 65_536]);
        bench.run_for(50);
    }
    assert_eq!(got, 20_000);
    assert_eq!(bench.far.stats().duplicate_bytes, 0);
}

#[test]
fn both_ends_close_in_order() {
    let mut bench = Bench::new(Profile::linux());
    bench.lose(|n| n == 2);
    bench.write(1448 * 3);
    bench.near.close(bench.now);
    bench.run_for(1000);
    assert!(bench.near.is_finished() && !bench.far.peer_finished());
    assert_eq!(bench.far.read(bench.now, &mut [0; 9000]), 1448 * 3);
    assert!(bench.far.peer_finished());
    bench.far.close(bench.now);
    bench.run_for(1000);
    assert!(bench.far.is_finished() && bench.near.peer_finished());
    assert_eq!((bench.near.poll_timeout(), bench.far.poll_timeout()), (None, None));
    bench.far.abort(bench.now);
    bench.run_for(100);
    assert_eq!(bench.near.state(), State::Closed(Closed::Reset));
}

#[test]
fn idleness_shrinks_the_window_if_so_set() {
    for (idle_restart, least, most) in [(true, 10.0, 10.0), (false, 30.0, 1000.0)] {
        let mut bench = Bench::new(Profile { idle_restart, ..prompt() });
        bench.write(1448 * 60);
        bench.run_for(5000);
        bench.write(100);
        let cwnd = bench.near.stats().cwnd;
        assert!((least..=most).contains(&cwnd), "{idle_restart}: {cwnd}");
    }
}

#[test]
fn cubic_holds_the_mean_window_of_its_rfc() {
    // RFC 9438 §5.1: AVG_W = 1.054 · RTT^0.75 / p^0.75 segments for a loss each 1/p segments; 56 at 200 ms and 0.001,
    // where Reno would hold 38.7.
    let mut bench = Bench::new(Profile { send_buffer: 4 << 20, receive_buffer: 4 << 20, ..prompt() });
    let delay = Duration::from_millis(100);
    bench.fate = Box::new(move |n, _| (n % 1000 != 0).then_some(delay + delay - DELAY));
    let (mut sum, mut count, mut buf) = (0.0, 0.0, vec![0; 1 << 20]);
    for step in 0..4000 {
        while bench.near.write(bench.now, &buf[..1 << 18]) > 0 {}
        bench.run_for(100);
        bench.log.clear();
        while bench.far.read(bench.now, &mut buf) > 0 {}
        if step >= 500 {
            sum += bench.near.stats().cwnd;
            count += 1.0;
        }
    }
    let (mean, expected) = (sum / count, 1.054 * 0.2f64.powf(0.75) / 0.001f64.powf(0.75));
    println!("CUBIC: mean window {mean:.1}, RFC 9438 {expected:.1}");
    assert!((mean / expected - 1.0).abs() < 0.15, "{mean} against {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a peer sends, nothing panics and nothing grows without bound.
    #[test]
    fn hostile_segments_do_no_harm(claims in proptest::collection::vec(
        (0u64..9000, 0u64..9000, 0u8..32, any::<u32>(), 0u64..9000, 0u64..9000, 0usize..2000, 0u64..300), 1..60)) {
        let mut bench = Bench::new(Profile { receive_buffer: 8000, ..Profile::linux() });
        bench.write(4000);
        let mut now = bench.now;
        for (seq, ack, bits, window, start, end, len, ms) in claims {
            let far = if bits & 16 != 0 { u64::MAX - 20_000 } else { 0 };
            let flags = Flags { syn: bits & 1 != 0, ack: bits & 2 != 0, fin: bits & 4 != 0, psh: bits & 8 != 0, rst: false };
            let mut sack = SackBlocks::default();
            sack.push((start + far, end), 4);
            sack.push((start / 2, end / 2 + far), 4);
            let timestamps = Some(Timestamps { value: window, echo: window / 3 });
            let syn = flags.syn.then_some(SynOptions { mss: window, sack: true, timestamps: true, window_scale: Some(255) });
            let payload = vec![0; len];
            let hostile = Segment { seq: seq.saturating_add(far), ack, flags, window, sack, timestamps, syn, damaged: false, payload };
            bench.near.handle_segment(now, hostile.clone());
            let mut listener = Tcp::accept(Profile::linux());
            listener.handle_segment(now, hostile.clone());
            listener.handle_segment(now, hostile);
            now += Duration::from_millis(ms);
            bench.near.handle_timeout(now);
            for _ in 0..100 {
                bench.near.poll_transmit(now);
                listener.poll_transmit(now);
            }
            prop_assert!(bench.near.readable() <= 8000);
            bench.near.read(now, &mut [0; 500]);
        }
    }
}

/// Linux 3.2, wireless without scatter and gather: a segment is allocated for 1448 bytes and headers, 4096 of `kmalloc`, and
/// its `sk_buff` of 256. The buffer begins with ten segments of 2340 (`tcp_fixup_sndbuf`: 23 400 bytes), which five of
/// those do not fill and six do.
#[test]
fn a_send_buffer_counts_segments_and_grows_for_a_writer_that_waits() {
    let linux = Profile { send_buffer: 16 * 1024, segment_memory: 4352, ..prompt() };
    let fill = |bench: &mut Bench| {
        let mut written = 0;
        while bench.near.writable() >= 1026 {
            bench.write(1026);
            written += 1;
        }
        written
    };
    // Each block is a segment in flight, and no acknowledgement comes.
    let lost: fn(u64, &Segment) -> Option<Duration> = |_, _| None;
    let mut bench = Bench::new(linux);
    assert_eq!((fill(&mut bench), bench.near.writable()), (6, 0));
    // Without a writer that waits, acknowledgements free room and no more.
    bench.run_for(60);
    bench.fate = Box::new(lost);
    assert_eq!(fill(&mut bench), 6);
    // With one, the first acknowledgement makes it twice the window of ten or eleven segments (`tcp_new_space`).
    let mut bench = Bench::new(linux);
    fill(&mut bench);
    bench.near.note_waiting();
    bench.run_for(39);
    assert_eq!(bench.near.writable(), 0, "nothing is acknowledged yet");
    bench.run_for(2);
    bench.fate = Box::new(lost);
    let grown = fill(&mut bench);
    assert!([10, 11].map(|window: u64| (2 * window * 2340).div_ceil(4352)).contains(&grown), "{grown}");
    // Counting payload alone, 16 KiB hold fifteen blocks and most of a sixteenth.
    bench = Bench::new(Profile { segment_memory: 0, ..linux });
    bench.fate = Box::new(lost);
    assert_eq!((fill(&mut bench), bench.near.writable()), (15, 16 * 1024 - 15 * 1026));
}

/// A blocked writer goes on when at least half as much is free as is taken (`sk_stream_write_space`).
#[test]
fn a_writer_that_waits_goes_on_when_a_third_is_free() {
    let mut linux = prompt();
    (linux.send_buffer, linux.segment_memory, linux.initial_window) = (12 * 4352, 4352, 1);
    let mut bench = Bench::new(linux);
    while bench.near.writable() > 0 {
        let len = bench.near.writable().min(1448);
        bench.write(len);
    }
    // Twelve segments are there, one of them in flight: the window is full, so that the buffer does not grow.
    bench.near.note_waiting();
    let mut room = Vec::new();
    for _ in 0..3 {
        bench.run_for(40);
        room.push(bench.near.writable() / 1448);
    }
    // Slow start: 1, 2, 4 are acknowledged. Of eleven and nine two thirds of twelve are exceeded, of five not.
    assert_eq!(room, [0, 0, 7]);
}

/// Linux 2.2 (`net/ipv4/tcp_input.c`, `tcp_timer.c` and `tcp_snd_test`): after the SYN's round trip of 40 ms the time-out is
/// 40 + 4 · 20 ms, times 1.25 + 1/2 with a window of two, 210 ms. Then the window is one, and nothing new is sent before all
/// is repeated and acknowledged.
#[test]
fn linux_2_2_repairs_all_before_it_sends_anything_new() {
    let prompt = |profile: Profile| Profile {
        delayed_ack: DelayedAck { timeout: Duration::ZERO, ..profile.delayed_ack },
        ..profile
    };
    let sent = |profile| {
        let mut bench = Bench::new(prompt(profile));
        bench.lose(|n| n <= 2);
        let since = bench.now;
        bench.write(10 * 1448);
        bench.run_for(295);
        let at = bench.sent_ms(since);
        [0, 210, 250, 290].map(|ms| at.iter().filter(|sent| **sent == ms).count())
    };
    // Slow start doubles a window of one, and then of two (`tcp_cong_avoid`).
    let old = sent(Profile::linux_2_2());
    assert_eq!(old[..3], [2, 1, 1], "{old:?}");
    assert!(old[3] >= 2, "{old:?}");
    let newer = sent(Profile { repairs_first: false, ..Profile::linux_2_2() });
    assert_eq!(newer[..3], [2, 1, 2], "the second repetition, and a new segment: {newer:?}");
}

/// Back-off goes on while anything sent before the time-out is unacknowledged (`tcp_ack_saw_tstamp`).
#[test]
fn linux_2_2_keeps_its_back_off_until_all_is_acknowledged() {
    let gap = |repairs_first| {
        let mut bench = Bench::new(Profile { repairs_first, ..Profile::linux_2_2() });
        // Both are lost, and the second one's first repetition.
        bench.lose(|n| n <= 2 || n == 4);
        let since = bench.now;
        bench.write(2 * 1448);
        bench.run_for(3000);
        let sent = bench.sent_ms(since);
        sent[4] - sent[3]
    };
    let (kept, reset) = (gap(true), gap(false));
    assert!((2 * reset - 2..=2 * reset + 2).contains(&kept), "{kept} and {reset} ms");
}

/// Half a segment or more does not wait in Linux 2.2; less does, while anything is unacknowledged.
#[test]
fn nagle_of_linux_2_2_holds_back_less_than_half_a_segment() {
    let sent = |nagle, second| {
        let mut bench = Bench::new(Profile { nagle, ..Profile::linux_2_2() });
        let since = bench.now;
        bench.write(1282);
        bench.run_for(5);
        bench.write(second);
        bench.run_for(10);
        bench.sent_ms(since).len()
    };
    assert_eq!([724, 723].map(|second| sent(Nagle::HalfSegment, second)), [2, 1]);
    assert_eq!([1282, 724].map(|second| sent(Nagle::Minshall, second)), [1, 1]);
}
