//! Single frames in the 802.11 cell: when they are sent, which are lost, and how EDCA treats them.

use std::time::Duration;

use antiphon_core::{Instant, Ratio};
use antiphon_link::wlan::{
    Access, AccessMode, Category, Cell, CellSpec, Destination, Fade, PowerSave, Rate, RateControl, Scan,
    StationId, StationSpec,
};

const ACCESS_POINT: StationId = StationId(0);
const ONE: StationId = StationId(1);
const TWO: StationId = StationId(2);

fn cell(change: impl Fn(&mut CellSpec), seed: u64) -> Cell<Vec<u8>> {
    let mut spec = CellSpec::infrastructure(vec![StationSpec::default(); 3]);
    change(&mut spec);
    Cell::new(&spec, seed).expect("a cell")
}

/// 1300 bytes of UDP payload.
fn packet() -> Vec<u8> {
    vec![0; 1328]
}

/// Offers a packet from one station to another; returns it if it is refused.
fn offer(cell: &mut Cell<Vec<u8>>, now: Instant, from: StationId, to: StationId) -> Option<Vec<u8>> {
    cell.offer(now, from, Destination::Station(to), Category::BestEffort, packet())
}

fn drain(cell: &mut Cell<Vec<u8>>) -> Vec<(Instant, StationId)> {
    let mut out = Vec::new();
    while let Some(at) = cell.poll_timeout() {
        while let Some((when, station, _)) = cell.poll_at(at) {
            assert_eq!(when, at, "what is polled on time arrives on time");
            out.push((when, station));
        }
    }
    assert!(cell.balances());
    out
}

#[test]
fn an_idle_cell_is_used_at_once() {
    // A stream of 1300 bytes every 7.4 ms never waits: post-backoff (at most 15 slots) is long over. A back-off for
    // every frame would add 150 µs on average.
    let mut cell = cell(|_| (), 5);
    for n in 1..2000 {
        let now = Instant::from_nanos(n * 7_369_614);
        offer(&mut cell, now, ACCESS_POINT, ONE);
        assert_eq!(drain(&mut cell), [(now + Duration::from_micros(230), ONE)]);
    }
}

/// A stream of 1300 bytes every 7.4 ms to a client that is away for two beacon intervals now and then.
#[test]
fn a_client_that_scans_gets_everything_later() {
    let scan = Scan { length: Duration::from_micros(204_800), every: Duration::from_secs(10) };
    let mut cell = cell(|spec| spec.stations[1].scan = Some(scan), 3);
    let (mut late, mut last, mut gaps) = (0, Instant::ZERO, Vec::new());
    for n in 1..=27_000u64 {
        let now = Instant::from_micros(n * 7_400);
        for to in [ONE, TWO] {
            assert!(offer(&mut cell, now, ACCESS_POINT, to).is_none());
        }
        let until = now + Duration::from_micros(7_399);
        while let Some((at, station, _)) = cell.poll_at(until) {
            match station {
                ONE => {
                    let gap = at.since(std::mem::replace(&mut last, at));
                    gaps.extend((gap > Duration::from_millis(80)).then_some(gap));
                }
                _ => late += u32::from(at.since(now) > Duration::from_millis(15)),
            }
        }
    }
    drain(&mut cell);
    let counters = cell.counters(ACCESS_POINT);
    assert_eq!((counters.acknowledged, counters.overflowed), (54_000, 0), "nothing is lost");
    // 199.8 s over 10.2 s: 19.6, with a deviation of 4.4.
    assert!((8..=33).contains(&gaps.len()), "{gaps:?}");
    // The last packet before it left 204.8 ms and up to 7.4 ms ago.
    let length = Duration::from_millis(204)..Duration::from_millis(214);
    assert!(gaps.iter().all(|gap| length.contains(gap)), "{gaps:?}");
    assert_eq!(late, 0, "the other client waits for what was kept, and no longer");
}

/// The same stream to a client that dozes between two beacons until it has seen the stream, 50 times after 10 s of nothing.
#[test]
fn a_client_that_saves_power_dozes_at_a_streams_start_only() {
    let save =
        PowerSave { listen: Duration::from_micros(204_800), hold: Duration::from_millis(10), again: None };
    let mut cell = cell(|spec| spec.stations[1].power_save = Some(save), 3);
    let mut pauses = Vec::new();
    for stream in 1..=50u64 {
        let start = Instant::from_millis(stream * 20_000);
        let mut last = start;
        for n in 0..1_350u64 {
            let now = start + Duration::from_micros(n * 7_400);
            assert!(offer(&mut cell, now, ACCESS_POINT, ONE).is_none());
            // Its own frames wake it up.
            offer(&mut cell, now, ONE, ACCESS_POINT);
            while let Some((at, station, _)) = cell.poll_at(now + Duration::from_micros(7_399)) {
                if station == ACCESS_POINT {
                    assert!(at.since(now) < Duration::from_millis(12), "sent while it dozes");
                    continue;
                }
                let gap = at.since(std::mem::replace(&mut last, at));
                if gap > Duration::from_millis(12) {
                    assert!(last.since(start) < Duration::from_millis(225), "in the middle of a stream");
                    pauses.push(gap.as_secs_f64());
                }
            }
        }
        assert!(last.since(start) > Duration::from_secs(9));
    }
    drain(&mut cell);
    assert_eq!(cell.counters(ACCESS_POINT).acknowledged, 50 * 1_350, "nothing is lost");
    assert!(pauses.iter().all(|pause| *pause < 0.2122), "{pauses:?}");
    // Uniform up to 204.8 ms: 0.94 of 50 are above 12 ms, and half of these above 108 ms, ± 7 at two deviations.
    assert!((42..=50).contains(&pauses.len()), "{pauses:?}");
    let long = pauses.iter().filter(|pause| **pause > 0.108).count();
    assert!((16..=32).contains(&long), "{pauses:?}");
}

#[test]
fn a_client_that_is_away_sends_when_it_is_back() {
    let scan = Scan { length: Duration::from_millis(200), every: Duration::from_millis(300) };
    let mut cell = cell(|spec| spec.stations[1].scan = Some(scan), 3);
    let mut last = Instant::ZERO;
    let mut gaps = Vec::new();
    for n in 1..=2_000 {
        let now = Instant::from_millis(10 * n);
        offer(&mut cell, now, ONE, ACCESS_POINT);
        while let Some((at, ..)) = cell.poll_at(now + Duration::from_millis(9)) {
            let gap = at.since(std::mem::replace(&mut last, at));
            gaps.extend((gap > Duration::from_millis(80)).then_some(gap));
        }
    }
    drain(&mut cell);
    assert_eq!(cell.counters(ONE).acknowledged + cell.counters(ONE).overflowed, 2_000);
    // 20 s over 0.5 s: 40, with a deviation of 5; one away at both ends of a short gap counts as two.
    assert!((25..=55).contains(&gaps.len()), "{}", gaps.len());
    assert!(gaps.iter().all(|gap| *gap >= Duration::from_millis(199)), "{gaps:?}");
}

/// What a cell gets through when its only sender fails half of its frames, whatever the rate: with a fixed rate half of a
/// clean channel's; with rate fall-back it sends nearly all at the lowest rate, which helps nobody.
#[test]
fn fall_back_slows_down_where_that_does_not_help() {
    let airtime = |control: RateControl| {
        let mut cell = cell(
            |spec| {
                spec.stations[0].rate_control = control;
                spec.stations[1].frame_error = Ratio(0.5);
            },
            9,
        );
        for n in 0..400 {
            let now = Instant::from_millis(50 * n);
            offer(&mut cell, now, ACCESS_POINT, ONE);
            while cell.poll(now + Duration::from_millis(49)).is_some() {}
        }
        let counters = cell.counters(ACCESS_POINT);
        counters.airtime.as_secs_f64() / counters.attempts as f64
    };
    let micros = |rate: Rate| {
        let phy = antiphon_link::wlan::Phy::COMPATIBLE;
        (phy.airtime(rate, 1328 + 36) + antiphon_link::wlan::SIFS + phy.acknowledgement(rate)).as_secs_f64()
    };
    assert!((airtime(RateControl::Fixed) - micros(Rate::Ofdm54)).abs() < 1e-9);
    // ARF needs ten successes in a row to rise: one in 2046 attempts.
    let arf = airtime(RateControl::Arf);
    assert!((0.97..1.0).contains(&(arf / micros(Rate::Ofdm6))), "{arf}");
    // Minstrel sees that no rate is surer than the fastest, and tries the others with a tenth of its frames.
    let minstrel = airtime(RateControl::Minstrel);
    assert!(minstrel < 2.5 * micros(Rate::Ofdm54), "{minstrel}");
}

#[test]
fn what_follows_a_frame_closely_waits_for_the_post_backoff() {
    // Offered when the channel has just become idle: DIFS, 0 to 15 slots of 20 µs, 230 µs of air.
    let (mut sum, mut seen) = (0, [0u32; 16]);
    for seed in 0..4000 {
        let mut cell = cell(|_| (), seed);
        offer(&mut cell, Instant::ZERO, ACCESS_POINT, ONE);
        drain(&mut cell);
        let idle = Instant::from_micros(50 + 274);
        offer(&mut cell, idle, ACCESS_POINT, ONE);
        let slots = drain(&mut cell)[0].0.since(idle).as_nanos() as u64 - 280_000;
        assert_eq!(slots % 20_000, 0);
        seen[slots as usize / 20_000] += 1;
        sum += slots / 20_000;
    }
    // σ of the mean: 4.6/√4000 = 0.073 slots.
    assert!((sum as f64 / 4000.0 - 7.5).abs() < 0.25, "{sum}");
    // 250 each, σ = 15.
    assert!(seen.iter().all(|count| count.abs_diff(250) < 65), "{seen:?}");
}

#[test]
fn stations_reach_one_another_through_the_access_point() {
    let mut cell = cell(|_| (), 3);
    offer(&mut cell, Instant::ZERO, ONE, TWO);
    let [(at, TWO)] = drain(&mut cell)[..] else { panic!("one packet comes to station 2") };
    // The first hop ends at 324 µs; the access point found the channel busy with it, so it backs off.
    let slots = at.as_nanos() / 1000 - 324 - 280;
    assert!(slots % 20 == 0 && slots <= 300, "{slots}");
    for id in [ACCESS_POINT, ONE] {
        assert_eq!(cell.counters(id).airtime, Duration::from_micros(274), "the air is used twice");
    }
    assert_eq!((cell.counters(ACCESS_POINT).relayed, cell.counters(TWO).delivered), (1, 1));
    let mut straight = Cell::new(&CellSpec::ad_hoc(vec![StationSpec::default(); 3]), 3).expect("a cell");
    offer(&mut straight, Instant::ZERO, ONE, TWO);
    assert_eq!(drain(&mut straight), [(Instant::from_micros(280), TWO)]);
}

#[test]
fn what_retries_do_not_mend_is_lost() {
    // Independent errors of p: a share of p^(r+1) fails r+1 times.
    for (p, retry_limit) in [(0.05, 0), (0.3, 1), (0.5, 3), (0.7, 7)] {
        let mut cell = cell(
            |spec| {
                spec.stations[1].frame_error = Ratio(p);
                spec.stations[0].retry_limit = retry_limit;
            },
            9,
        );
        let n = 40_000u32;
        let mut arrived = 0;
        for k in 0..u64::from(n) {
            offer(&mut cell, Instant::from_millis(k * 100), ACCESS_POINT, ONE);
            arrived += drain(&mut cell).len();
        }
        let attempts_at_most = i32::from(retry_limit) + 1;
        let (lost, expected) = (1.0 - arrived as f64 / f64::from(n), p.powi(attempts_at_most));
        // 3.5 σ, at most 12 %; an attempt more or less changes the loss by a factor of p.
        let sigma = (expected * (1.0 - expected) / f64::from(n)).sqrt();
        assert!((lost - expected).abs() < 3.5 * sigma, "p {p}, limit {retry_limit}: {lost}, not {expected}");
        let counters = cell.counters(ACCESS_POINT);
        assert_eq!(counters.exhausted - counters.exhausted_after_arrival, u64::from(n) - arrived as u64);
        let failure = unacknowledged(p, 230.0);
        let attempts = (1.0 - failure.powi(attempts_at_most)) / (1.0 - failure);
        let mean = counters.attempts as f64 / f64::from(n);
        // Without lost acknowledgements 2 to 7 % fewer.
        assert!((mean / attempts - 1.0).abs() < 0.01, "{mean} attempts, not {attempts}");
    }
}

/// The share of attempts that are not acknowledged if a share `p` of frames of `micros` is lost: their acknowledgements
/// take 34 µs.
fn unacknowledged(p: f64, micros: f64) -> f64 {
    1.0 - (1.0 - p).powf(1.0 + 34.0 / micros)
}

#[test]
fn a_lost_acknowledgement_costs_air_and_no_packet() {
    // A share p of frames is lost, and q of the acknowledgements of the rest: 1/((1 - p)(1 - q)) attempts for a packet where
    // the limit is out of reach. Full frames take 230 µs, those of 28 bytes 38.
    for (p, bytes, micros, retry_limit) in [
        (0.3, 1328, 230.0, 7),
        (0.3, 28, 38.0, 7),
        (0.05, 28, 38.0, 7),
        (0.3, 28, 38.0, 1),
        (0.3, 28, 38.0, 0),
    ] {
        let mut cell = cell(
            |spec| {
                spec.stations[1].frame_error = Ratio(p);
                spec.stations[0].retry_limit = retry_limit;
            },
            9,
        );
        let n = 40_000u32;
        let mut arrived = 0;
        for k in 0..u64::from(n) {
            let to = Destination::Station(ONE);
            cell.offer(Instant::from_millis(k * 100), ACCESS_POINT, to, Category::BestEffort, vec![0; bytes]);
            arrived += drain(&mut cell).len();
        }
        let counters = cell.counters(ACCESS_POINT);
        let (failure, most) = (unacknowledged(p, micros), i32::from(retry_limit) + 1);
        let (total, packets) = (counters.attempts as f64, f64::from(n));
        let attempts = (1.0 - failure.powi(most)) / (1.0 - failure);
        // Geometric: σ is below 1.2 attempts, 0.6 % of 40 000 packets at three. The rarest fault, no acknowledgement lost at
        // 5 %, is 4.6 %.
        assert!((total / packets / attempts - 1.0).abs() < 0.01, "{} of {attempts}", total / packets);
        let air = (micros + 44.0) * 1e-6;
        assert!((counters.airtime.as_secs_f64() / total / air - 1.0).abs() < 1e-9, "a try costs the same");
        // Of the frames that came, q are not acknowledged: 4 σ of 20 000 at least.
        let (q, came) = (1.0 - (1.0 - p).powf(34.0 / micros), (1.0 - p) * total);
        let lost = counters.unacknowledged as f64 / came;
        assert!((lost - q).abs() < 4.0 * (q * (1.0 - q) / 20_000.0).sqrt(), "{lost}, not {q}");
        // Each packet comes once, whatever its sender believes: only p^(r+1) do not.
        let missing = p.powi(most);
        let sigma = (missing * (1.0 - missing) / packets).sqrt();
        let share = 1.0 - arrived as f64 / packets;
        assert!((share - missing).abs() < 4.0 * sigma, "{share} are missing, not {missing}");
        let believed = counters.exhausted as f64 / packets;
        let expected = failure.powi(most);
        let sigma = (expected * (1.0 - expected) / packets).sqrt();
        assert!((believed - expected).abs() < 4.0 * sigma, "{believed} believed lost, not {expected}");
        assert_eq!(counters.exhausted - counters.exhausted_after_arrival, u64::from(n) - arrived as u64);
        let again = cell.counters(ONE).duplicates;
        assert!(again <= counters.unacknowledged && (again > 0) == (retry_limit > 0), "{again} duplicates");
    }
}

#[test]
fn a_clean_channel_loses_no_acknowledgement() {
    let mut cell = cell(|_| (), 9);
    for k in 0..1000 {
        offer(&mut cell, Instant::from_millis(k * 10), ACCESS_POINT, ONE);
        drain(&mut cell);
    }
    let total = cell.totals();
    assert_eq!((total.unacknowledged, total.duplicates, total.attempts), (0, 0, 1000));
}

#[test]
fn multicast_is_sent_once_at_the_basic_rate() {
    let p = 0.05;
    let mut cell = cell(|spec| spec.stations.iter_mut().skip(1).for_each(|s| s.frame_error = Ratio(p)), 9);
    let n = 20_000u32;
    let mut heard = [0u32; 3];
    for k in 0..u64::from(n) {
        let now = Instant::from_millis(k * 20);
        cell.offer(now, ACCESS_POINT, Destination::Multicast, Category::BestEffort, packet());
        for (at, station) in drain(&mut cell) {
            // 1 Mbit/s, long preamble; the first waits for DIFS.
            let wait = if k == 0 { 50 } else { 0 };
            assert_eq!(at.since(now), Duration::from_micros(11_104 + wait));
            heard[usize::from(station.0)] += 1;
        }
    }
    let counters = cell.counters(ACCESS_POINT);
    assert_eq!((counters.attempts, counters.retries, counters.multicast), (n.into(), 0, n.into()));
    // 3.5 σ: 0.54 %. One retry would leave 0.25 %.
    for count in &heard[1..] {
        assert!((1.0 - f64::from(*count) / f64::from(n) - p).abs() < 0.0054, "{heard:?}");
    }
    // The two err independently: both miss 0.25 %, not 5 %.
    assert_eq!(heard[0], 0);
}

#[test]
fn outages_outlast_retries() {
    // The 8 attempts span 35 ms on average, an outage 100 ms: of the 5 % of time in outages most packets are lost; with
    // frame errors of 5 % none would be.
    let fade = Fade { mean: Duration::from_millis(100), share: Ratio(0.05) };
    let mut cell = cell(|spec| spec.stations[1].fade = Some(fade), 9);
    let n = 100_000u64;
    let lost: u64 = (0..n)
        .map(|k| {
            offer(&mut cell, Instant::from_millis(k * 50), ACCESS_POINT, ONE);
            1 - drain(&mut cell).len() as u64
        })
        .sum();
    let share = lost as f64 / n as f64;
    // The rest of an outage is exponential with the same mean; it has to outlast 7 back-offs, uniform over their
    // windows, and 7 frames with the wait for their acknowledgement and DIFS. 2500 outages: 2.8 % standard error; one
    // attempt more or less is 10 %, no retries 38 %.
    let survives = |micros: f64| (-micros / 100_000.0).exp();
    let back_off = |window: u32| {
        (0..window).map(|slots| survives(20.0 * f64::from(slots))).sum::<f64>() / f64::from(window)
    };
    let back_offs: f64 = [32, 64, 128, 256, 512, 1024, 1024].into_iter().map(back_off).product();
    let expected = 0.05 * back_offs * survives(7.0 * 324.0);
    assert!((share / expected - 1.0).abs() < 0.06, "{share}, not {expected}");
}

/// An EDCA station 1 whose queues `categories` are always full, for `seconds`.
fn edca(accesses: [Access; 4], categories: &[Category], seconds: u64) -> Cell<Vec<u8>> {
    let mut cell = cell(|spec| spec.stations[1].access = AccessMode::Edca(accesses), 4);
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + Duration::from_secs(seconds) {
        for category in categories {
            while cell.queue_len(ONE, *category) < 10 {
                let mut packet = packet();
                packet[0] = *category as u8;
                cell.offer(now, ONE, Destination::Station(ACCESS_POINT), *category, packet);
            }
        }
        now = cell.poll_timeout().expect("full queues");
        while cell.poll(now).is_some() {}
    }
    cell
}

#[test]
fn each_category_alone_has_its_cycle() {
    // AIFS, half of CWmin, 274 µs a frame with its acknowledgement; in a burst SIFS between. In 1504 µs of TXOP there is
    // room for 5 frames (1410 µs), in 3008 for 10 (2830).
    let cycles = [
        (50.0 + 30.0 + 1410.0) / 5.0,
        (50.0 + 70.0 + 2830.0) / 10.0,
        70.0 + 150.0 + 274.0,
        150.0 + 150.0 + 274.0,
    ];
    for (category, cycle) in Category::ALL.into_iter().zip(cycles) {
        let cell = edca(Access::EDCA, &[category], 20);
        let mean = 20e6 / cell.counters(ACCESS_POINT).received as f64;
        // A slot is 1 % to 7 %, another frame in the burst more.
        assert!((mean / cycle - 1.0).abs() < 0.003, "{category:?}: {mean} µs, not {cycle}");
    }
}

#[test]
fn categories_collide_within_the_station_as_independent_ones() {
    // Windows that do not grow and one AIFS: each queue sends in 2/(W+1) of the slots whatever the other does. The
    // urgent one never fails, the other in the share of slots in which the urgent one sends.
    let access = |window| Access { cw_min: window, cw_max: window, ..Access::DCF };
    let accesses = [access(15), access(31), access(15), access(15)];
    let cell = edca(accesses, &[Category::Voice, Category::Video], 60);
    let counters = cell.counters(ONE);
    let (voice, video) = (2.0 / 17.0, 2.0 / 33.0);
    let accesses = counters.attempts as f64 + counters.virtual_collisions as f64;
    let share = counters.virtual_collisions as f64 / accesses;
    let expected = voice * video / (voice + video);
    assert!(counters.collisions == 0 && counters.virtual_collisions > 2_000, "{counters:?}");
    // 2 % standard error.
    assert!((share / expected - 1.0).abs() < 0.06, "{share}, not {expected}");
}

#[test]
fn urgent_categories_wait_less() {
    // One station of each category with a packet every 3 ms on average, with three saturated DCF stations.
    let mut spec = CellSpec::infrastructure(vec![StationSpec::default(); 8]);
    for station in &mut spec.stations[1..5] {
        station.access = AccessMode::Edca(Access::EDCA);
    }
    let mut cell: Cell<Vec<u8>> = Cell::new(&spec, 8).expect("a cell");
    let (mut waits, mut counts) = ([0.0; 4], [0u32; 4]);
    let mut offered = [Instant::ZERO; 4];
    let mut now = Instant::ZERO;
    while now < Instant::from_millis(60_000) {
        for saturated in 5..8u16 {
            while cell.queue_len(StationId(saturated), Category::BestEffort) < 3 {
                offer(&mut cell, now, StationId(saturated), ACCESS_POINT);
            }
        }
        for (k, category) in Category::ALL.into_iter().enumerate() {
            let from = StationId(k as u16 + 1);
            if now.since(offered[k]) > Duration::from_millis(50) && cell.queue_len(from, category) == 0 {
                offered[k] = now;
                let mut packet = packet();
                packet[0] = k as u8 + 1;
                cell.offer(now, from, Destination::Station(ACCESS_POINT), category, packet);
            }
        }
        now = cell.poll_timeout().expect("full queues");
        while let Some((at, _, packet)) = cell.poll_at(now) {
            if let Some(k) = usize::from(packet[0]).checked_sub(1) {
                waits[k] += at.since(offered[k]).as_secs_f64();
                counts[k] += 1;
            }
        }
    }
    let means: Vec<f64> = (0..4).map(|k| 1e3 * waits[k] / f64::from(counts[k])).collect();
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
    assert!(means.windows(2).all(|pair| pair[0] * 1.15 < pair[1]), "{means:?} ms");
}
