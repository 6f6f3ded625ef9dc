use super::*;
use crate::SampleFormat;
use crate::packet::MediaPacket;
use antiphon_core::Rng;

/// The packet of that number in a mono stream of packets of `frames`.
fn mono(sequence: u64, frames: usize, payload: &[u8]) -> MediaPacket<'_> {
    MediaPacket {
        sequence,
        timestamp: sequence * frames as u64,
        frames,
        lead: 0,
        coding: SampleFormat::L16.into(),
        channels: 1,
        recovered: false,
        payload,
    }
}

/// A mono sender `sender_ppm` fast with exponential queueing of 1 ms mean and `delay` by time, a device `sink_ppm` fast
/// that pulls 40 sample frames of 8 kHz; playout delay 30 ms. Returns (time, lag in ms, speed) twice a second, and the
/// playout.
fn run(
    sender_ppm: f64,
    sink_ppm: f64,
    seconds: f64,
    delay: impl Fn(f64) -> f64,
) -> (Vec<(f64, f64, f64)>, ClockedPlayout) {
    let mut seen = Vec::new();
    let clocked = run_each(sender_ppm, sink_ppm, seconds, delay, |time, given, _| {
        seen.push((time, given.lag_nanos as f64 / 1e6, given.speed.0));
    });
    (seen, clocked)
}

/// The same; calls `each` twice a second, with the time and what the playout gave.
fn run_each(
    sender_ppm: f64,
    sink_ppm: f64,
    seconds: f64,
    delay: impl Fn(f64) -> f64,
    mut each: impl FnMut(f64, ClockedPull, &ClockedPlayout),
) -> ClockedPlayout {
    let format = StreamFormat::new(8_000, 1).unwrap();
    let config = PlayoutConfig::new(format, Duration::from_millis(30), Clocking::Sink);
    let mut clocked = ClockedPlayout::new(config, 8_000, 40).unwrap();
    let mut rng = Rng::new(11);
    let (packet_s, pull_s) = (0.005 / (1.0 + sender_ppm / 1e6), 0.005 / (1.0 + sink_ppm / 1e6));
    let (mut n, mut arrival, mut pulls) = (0u64, 0.0f64, 0u64);
    let (payload, mut out) = ([0x10u8; 80], [0.0f32; 40]);
    let at = |t: f64| Instant::from_nanos((t * 1e9) as u64);
    let mut due = delay(0.0);
    loop {
        let pull = pulls as f64 * pull_s;
        if pull > seconds {
            return clocked;
        }
        while due <= pull {
            // Queueing delays but does not reorder.
            arrival = due.max(arrival);
            let packet = mono(n, 40, &payload);
            clocked.playout_mut().insert(at(arrival), &packet);
            n += 1;
            let sent = n as f64 * packet_s;
            due = sent + delay(sent) + 0.001 * rng.exponential().min(20.0);
        }
        let given = clocked.pull(at(pull), &mut out);
        if pulls.is_multiple_of(100) {
            each(pull, given, &clocked);
        }
        pulls += 1;
    }
}

/// Half a millisecond of lag is a sixtieth of the buffer. Without correction, 200 ppm make 30 ms. Without the integral
/// part, 100 ppm of the device leave 0.75 ms permanently, as do 600 ppm of both without the estimate.
#[test]
fn clocks_that_differ_are_followed() {
    for (sender, sink) in
        [(100.0f64, 0.0f64), (-100.0, 100.0), (0.0, -100.0), (500.0, 0.0), (-500.0, 0.0), (500.0, -100.0)]
    {
        let (seen, clocked) = run(sender, sink, 180.0, |_| 0.02);
        let bound = if (sender - sink).abs() < 300.0 { 2.0 } else { 9.0 };
        for (t, lag, speed) in &seen {
            assert!(lag.abs() < bound, "{sender} {sink}: lag of {lag} ms at {t} s");
            let settled = lag.abs() < 0.5 && (speed - (sender - sink)).abs() < 15.0;
            assert!(*t < 150.0 || settled, "{sender} {sink}: {lag} ms, {speed} ppm at {t} s");
        }
        let counters = clocked.playout().counters();
        assert_eq!((counters.lost, counters.late, counters.resyncs), (0, 0, 0), "{counters:?}");
        assert_eq!((counters.concealed_frames, counters.skipped_frames), (0, 0));
    }
}

/// From capture to the device, at clocks `ppm` apart for so long: constant within half a millisecond once settled, and nothing missing.
fn the_delay_stays(sender_ppm: f64, sink_ppm: f64, seconds: f64) {
    let (mut least, mut most) = (f64::MAX, f64::MIN);
    let clocked = run_each(
        sender_ppm,
        sink_ppm,
        seconds,
        |_| 0.02,
        |time, _, clocked| {
            let Some((position, _)) = clocked.playout().span().filter(|_| time > 150.0) else { return };
            let captured = position as f64 / 8_000.0 / (1.0 + sender_ppm / 1e6);
            (least, most) = (least.min(time - captured), most.max(time - captured));
        },
    );
    assert!(most - least < 0.001, "{sender_ppm} {sink_ppm}: {least} to {most} s");
    let counters = clocked.playout().counters();
    assert_eq!((counters.lost, counters.late, counters.resyncs), (0, 0, 0), "{counters:?}");
    assert_eq!((counters.concealed_frames, counters.skipped_frames), (0, 0));
}

#[test]
fn clocks_500_ppm_apart_keep_their_delay_for_an_hour() {
    the_delay_stays(500.0, 0.0, 3600.0);
    the_delay_stays(-250.0, 250.0, 3600.0);
}

#[test]
#[ignore = "a day of virtual time takes a minute"]
fn clocks_500_ppm_apart_keep_their_delay_for_a_day() {
    the_delay_stays(-500.0, 0.0, 86_400.0);
}

/// A click is played at its deadline: the delay of the resampler (4 ms at this rate) is part of the playout delay.
/// Ten seconds in which nothing ran are left out at once, and show no difference of the clocks.
#[test]
fn what_stood_still_changes_no_speed() {
    let config =
        PlayoutConfig::new(StreamFormat::new(8_000, 1).unwrap(), Duration::from_millis(30), Clocking::Sink);
    let mut clocked = ClockedPlayout::new(config, 8_000, 40).unwrap();
    let (payload, mut out, mut most) = ([0x10u8; 80], [0.0f32; 40], 0.0f64);
    for n in (0..6_000u64).filter(|n| !(2_000..4_000).contains(n)) {
        let now = Instant::from_millis(5 * n);
        clocked.playout_mut().insert(now, &mono(n, 40, &payload));
        let given = clocked.pull(now, &mut out);
        most = if n > 1_000 { most.max(given.speed.0.abs()) } else { 0.0 };
    }
    assert!(most < 30.0, "{most} ppm");
    assert!(clocked.playout().counters().skipped_frames > 75_000, "{:?}", clocked.playout().counters());
}

#[test]
fn sound_goes_out_when_it_should() {
    let format = StreamFormat::new(8_000, 1).unwrap();
    let config = PlayoutConfig::new(format, Duration::from_millis(30), Clocking::Sink);
    let mut clocked = ClockedPlayout::new(config, 8_000, 40).unwrap();
    let (mut heard, mut out) = (Vec::new(), [0.0f32; 40]);
    for n in 0..100u64 {
        let now = Instant::from_millis(5 * n);
        let mut payload = [0u8; 80];
        if n == 50 {
            payload[0] = 0x40;
        }
        let packet = mono(n, 40, &payload);
        clocked.playout_mut().insert(now, &packet);
        clocked.pull(now, &mut out);
        heard.extend(out);
    }
    let loudest = heard.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap().0;
    let expected = (50 * 5 + 30) * 8;
    assert!(loudest.abs_diff(expected) <= 1, "{loudest} instead of {expected}");
}

/// A path longer by 10 ms uses a third of the buffer; the sound slows down by the controller's limit, and no more,
/// until the buffer is full again, then stays there.
#[test]
fn a_change_of_route_ends_in_rest() {
    let (seen, clocked) = run(0.0, 0.0, 300.0, |t| if t < 60.0 { 0.02 } else { 0.03 });
    assert!(seen.iter().all(|(_, _, speed)| speed.abs() <= MAX_TOTAL_PPM));
    assert!(
        seen.iter().filter(|(t, ..)| *t > 240.0).all(|(_, lag, speed)| lag.abs() < 1.0 && speed.abs() < 60.0),
        "{:?}",
        &seen[480..]
    );
    assert_eq!(clocked.playout().counters().concealed_frames, 0);
}

/// A path that is 100 ms longer in the first second leaves no delay behind: the schedule's descent is left out of the
/// sound, except for a few milliseconds, which the resampler corrects.
#[test]
fn what_holds_up_the_first_packets_is_left_out_at_once() {
    let (seen, clocked) = run(0.0, 0.0, 60.0, |t| if t < 1.0 { 0.12 } else { 0.02 });
    for (t, lag, speed) in seen.iter().filter(|(t, ..)| *t > 2.0) {
        // Three periods of the control loop.
        let most = if *t < 47.0 { 5.0 } else { 0.5 };
        assert!(lag.abs() < most && speed.abs() < 300.0, "{lag} ms, {speed} ppm at {t} s");
    }
    let counters = clocked.playout().counters();
    assert!((740..=840).contains(&counters.skipped_frames), "{counters:?}");
    assert_eq!((counters.lost, counters.late, counters.concealed_frames), (0, 0, 0));
}

/// Whether a device that pulls `pull` sample frames of 48 kHz at a time plays every packet of `packet` whole if they
/// arrive without jitter, wherever its pulls lie between them.
fn is_whole(packet: usize, pull: usize, playout_delay: Duration) -> bool {
    let format = StreamFormat::new(48_000, 1).unwrap();
    let (payload, mut out) = (vec![0x10u8; 2 * packet], vec![0.0f32; pull]);
    let at = |frames: u64| Instant::ZERO + MediaTime::new(frames, 48_000).duration();
    (0..8).map(|n| n * packet as u64 / 8).all(|phase| {
        let config = PlayoutConfig::new(format, playout_delay, Clocking::Sink);
        let mut clocked = ClockedPlayout::new(config, 48_000, pull).unwrap();
        let mut sent = 0;
        for now in (0..9_600).step_by(pull).map(|frames| at(frames + phase)) {
            while at(sent * packet as u64) <= now {
                let packet = mono(sent, packet, &payload);
                clocked.playout_mut().insert(at(packet.timestamp), &packet);
                sent += 1;
            }
            clocked.pull(now, &mut out);
        }
        clocked.playout().counters().concealed_frames == 0
    })
}

/// The least playout delay is what the resampler holds and one packet. With pulls of 256 whatever the packet it was 4 ms more for
/// packets of 64, and 2.67 ms more for 128.
#[test]
fn a_clocked_sink_adds_no_more_than_resampler_and_packet() {
    let resampler = Resampler::pulling(48_000, 48_000, 1, 256).unwrap().delay();
    for packet in [64, 128, 256] {
        let least = MediaTime::new((resampler + packet) as u64, 48_000).duration();
        for period in [None, Some(64), Some(100), Some(1024)] {
            assert!(is_whole(packet, pull_frames(packet, period), least), "{packet} {period:?}: {least:?}");
        }
        let more = MediaTime::new((256 - packet) as u64, 48_000).duration();
        assert!(is_whole(packet, 256, least + more) && (packet == 256 || !is_whole(packet, 256, least)));
    }
    assert_eq!((pull_frames(5, None), pull_frames(48, Some(8)), pull_frames(9_000, None)), (16, 16, 4096));
    // Of many channels a millisecond at once, and no more than a quarter of a period.
    let many = |packet, period| pull_frames_of_many(packet, period, 48_000);
    assert_eq!([None, Some(1024), Some(128), Some(64)].map(|period| many(7, period)), [48, 48, 32, 16]);
    assert_eq!((many(60, Some(256)), many(60, Some(32))), (60, 32));
}

/// The device needs blocks after the end of the sound, too; these are silence, and no defect.
#[test]
fn after_the_end_of_the_sound_nothing_is_concealed() {
    const PACKET: usize = 128;
    // Whether the end is known and the last packet lost; what is concealed.
    for (end, lost, concealed) in
        [(Some(20), false, 0..1), (Some(20), true, 128..129), (None, false, 2_000..4_000)]
    {
        let format = StreamFormat::new(48_000, 1).unwrap();
        let config = PlayoutConfig::new(format, Duration::from_millis(10), Clocking::Sink);
        let mut clocked = ClockedPlayout::new(config, 48_000, 100).unwrap();
        let at = |frames: u64| Instant::ZERO + MediaTime::new(frames, 48_000).duration();
        let payload = vec![0x10u8; 2 * PACKET];
        for n in 0..20 - u64::from(lost) {
            let packet = mono(n, PACKET, &payload);
            clocked.playout_mut().insert(at(packet.timestamp), &packet);
        }
        clocked.playout_mut().set_end(end.map(|packets| packets * PACKET as u64));
        let mut out = [0.0; 100];
        for pull in 0..60 {
            clocked.pull(at(100 * pull), &mut out);
        }
        let counters = clocked.playout().counters();
        assert_eq!(counters.played_frames, (20 - u64::from(lost)) * PACKET as u64);
        assert!(
            concealed.contains(&counters.concealed_frames),
            "{end:?}, {lost}: {}",
            counters.concealed_frames
        );
        // What is concealed in vain fades.
        assert!(out.iter().all(|sample| sample.abs() < 0.002));
    }
}
