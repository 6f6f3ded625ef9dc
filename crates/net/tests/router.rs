//! The router between private namespaces, over each of its means. Needs root, or reports why it did not run; without
//! root see `unprivileged.rs`.

mod common;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_link::{Direction, Duplex};
use antiphon_net::OsClock;
use antiphon_net::Scheduling;
use antiphon_net::emulator::{LaneConfig, LaneReport, Router, RouterConfig, Sides};
use antiphon_net::netns::{Means, Namespace, probe};
use antiphon_testkit::skip_without_namespace;
use common::{router, send_numbered, tcp_completes, udp, udp_agrees};

/// The means that are permitted here; none, with a note why.
fn means() -> Vec<Means> {
    match probe() {
        Means::Tun => vec![Means::Tun, Means::VethPacket],
        Means::VethPacket => vec![Means::VethPacket],
        Means::Forbidden(reason) => {
            skip_without_namespace(&reason);
            vec![]
        }
    }
}

#[test]
fn datagrams_and_counters_agree_and_tcp_completes() {
    for means in means() {
        let router = router(means, &[("delay=1ms,jitter=1ms/exponential,loss=5%", 7)]);
        udp_agrees(&router, 0);
        tcp_completes(&router, 0);
    }
}

/// Joining a group makes the kernel send membership reports, which are not forwarded; packets to the group cross.
#[test]
fn multicast_crosses_and_the_kernels_own_reports_do_not() {
    for means in means() {
        let router = router(means, &[("ideal", 1)]);
        let lane = &router.lanes()[0];
        let near = udp(&lane.near, false);
        let group = Ipv4Addr::new(239, 61, 2, 3);
        let listener = lane.far.namespace.run(|| UdpSocket::bind((group, 0)));
        let listener = listener.expect("a namespace").expect("a group");
        listener.join_multicast_v4(&group, &lane.far.v4).expect("a device");
        listener.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let port = listener.local_addr().expect("bound").port();
        let report = |done: fn(&LaneReport) -> bool| {
            let clock = OsClock::new();
            loop {
                let lane = router.report().expect("it runs").lanes[0];
                if done(&lane) {
                    return lane;
                }
                assert!(clock.now().as_nanos() < 10_000_000_000, "{lane:?}");
            }
        };
        let joined = report(|lane| lane.ignored > 0);
        assert_eq!((joined.up.offered, joined.down.offered), (0, 0));
        near.send_to(b"to all", (group, port)).expect("the default route");
        assert_eq!(listener.recv(&mut [0; 16]).expect("it crosses"), 6);
        assert_eq!(report(|lane| lane.up.offered > 0).up.delivered, 1);
    }
}

/// Whether a link of that seed passes what comes up at each of these times, in microseconds.
fn modelled(text: &str, seed: u64, micros: impl Iterator<Item = u64>) -> Vec<bool> {
    let mut link: Duplex<Vec<u8>> =
        Duplex::new(&text.parse().expect("a link"), seed).expect("a possible link");
    let passes = |at| {
        link.offer(Instant::from_micros(at), Direction::Up, vec![0; 100]);
        link.poll(Instant::from_micros(at)).is_some()
    };
    micros.map(passes).collect()
}

#[test]
fn a_lane_does_what_the_link_of_its_seed_does_in_the_model() {
    // A fade, or the time between two, lasts longer than any test: the seed alone decides whether anything passes.
    let text = "loss=1000s/1000s/100%/0%";
    let delayed = format!("delay=2ms,{text}");
    let seeds: [u64; 6] = [1, 3, 6, 9, 10, 12];
    let expected = seeds.map(|seed| {
        let passes = modelled(text, seed, [0, 60_000_000].into_iter());
        assert_eq!(passes[0], passes[1], "seed {seed}: the weather changes during the test");
        if passes[0] { 20 } else { 0 }
    });
    assert!(expected.contains(&0) && expected.contains(&20), "both occur: {expected:?}");
    for means in means() {
        let lanes: Vec<(&str, u64)> =
            seeds.into_iter().flat_map(|seed| [(text, seed), (&delayed, seed)]).collect();
        let router = router(means, &lanes);
        let passed = |lane: usize, v6: bool| {
            let side = &router.lanes()[lane];
            let (near, far) = (udp(&side.near, v6), udp(&side.far, v6));
            send_numbered(&router, lane, |report| report.up, &near, &far, 20).len()
        };
        let is_odd = |n: usize| n % 2 == 1;
        assert_eq!([0, 1, 2, 3, 4, 5].map(|n| passed(2 * n, is_odd(n))), expected);
        let other = [0, 1, 2, 3, 4, 5].map(|n| passed(2 * n + 1, !is_odd(n)));
        assert_eq!(other, expected, "the same seeds with a delay, in the other family");
    }
}

/// Fades are those of the model at the time of the clock that the router was started with.
#[test]
fn fades_come_at_the_time_of_the_routers_clock() {
    // Every 0.1 ms for 20 s. With this seed no state is so short that it begins and ends while one packet crosses.
    let (text, seed, step, end) = ("loss=200ms/200ms/100%/0%", 11, 100, 20_000_000);
    let passes = modelled(text, seed, (0..end).step_by(step));
    let shortest = passes.chunk_by(|one, next| one == next).map(<[bool]>::len).min();
    assert!(shortest > Some(80), "{shortest:?}");
    for means in means() {
        let clock = OsClock::new();
        let lanes = vec![LaneConfig::private(text.parse().expect("a possible link"), seed)];
        let config = RouterConfig { lanes, means: Some(means), real_time: false };
        let router = Router::start(config, clock).expect("probed");
        let lane = &router.lanes()[0];
        let (near, far) = (udp(&lane.near, false), udp(&lane.far, false));
        let counted = || router.report().expect("it runs").lanes[0].up;
        let micros = || clock.now().as_nanos() as usize / 1000;
        let (mut changes, mut last, mut number) = (0, None, 0);
        while changes < 8 {
            let (lost, before) = (counted().lost, micros());
            near.send_to(&[0; 100], far.local_addr().expect("bound")).expect("a route");
            number += 1;
            while counted().offered < number || counted().queued > 0 {
                assert!(micros() + 2 * step < end as usize, "{changes} changes, {:?}", counted());
                std::thread::yield_now();
            }
            let (passed, after) = (counted().lost == lost, micros());
            // The packet came to the link between these times; where a state ends between them, it may be in either.
            let during = &passes[before / step..=after / step + 1];
            if during.iter().all(|modelled| *modelled == during[0]) {
                assert_eq!(passed, during[0], "packet {number}, from {before} to {after} us");
                changes += u32::from(last.is_some_and(|last| last != passed));
                last = Some(passed);
            }
        }
    }
}

#[test]
fn a_round_trip_takes_what_the_link_says() {
    for means in means() {
        let router = router(means, &[("up.delay=12ms,down.delay=8ms", 1)]);
        let lane = &router.lanes()[0];
        let (near, far) = (udp(&lane.near, false), udp(&lane.far, false));
        near.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        far.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let clock = OsClock::new();
        let mut times = Vec::new();
        let mut buffer = [0u8; 100];
        // Late only because of a busy machine: the best eight of 15, or of more where it stands still in between, are under 50 ms.
        let late = |time: &Duration| *time >= Duration::from_millis(50);
        while times.len() < 15 || (times.len() < 150 && times.get(7).is_none_or(late)) {
            let begin = clock.now();
            near.send_to(&[1; 100], far.local_addr().expect("bound")).expect("a route");
            let (len, from) = far.recv_from(&mut buffer).expect("no loss here");
            far.send_to(&buffer[..len], from).expect("a route");
            near.recv(&mut buffer).expect("no loss here");
            times.push(clock.now().since(begin));
            times.sort();
        }
        // Never early: a direction without its delay would be.
        assert!(times[0] >= Duration::from_millis(20), "{times:?}");
        assert!(!late(&times[7]), "{times:?}");
    }
}

#[test]
fn existing_namespaces_get_a_device_while_the_router_runs() {
    for means in means() {
        let [near, far] = [0, 1].map(|_| Namespace::private().expect("probed"));
        let lane = LaneConfig {
            sides: Sides::Existing { near: near.clone(), far: far.clone() },
            ..LaneConfig::private("loss=5%".parse().expect("a possible link"), 2)
        };
        // The second lane finds a default route and leaves it.
        let config = RouterConfig { lanes: vec![lane.clone(), lane], means: Some(means), real_time: true };
        let router = Router::start(config, OsClock::new()).expect("probed");
        udp_agrees(&router, 0);
        udp_agrees(&router, 1);
        let granted = router.report().expect("it runs").scheduling;
        let claimed = matches!(granted, Scheduling::Fifo(_));
        assert_eq!(claimed, is_real_time("link-router"), "{granted:?}");
        let devices =
            || near.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default());
        assert!(devices().expect("a namespace").contains("antiphon0"));
        router.stop();
        // Virtual pairs are removed with their namespace, some time later.
        let clock = OsClock::new();
        while devices().expect("a namespace").contains("antiphon0") {
            assert!(clock.now().as_nanos() < 10_000_000_000, "the device stayed");
            std::thread::yield_now();
        }
    }
}

/// Whether a thread of that name has the scheduling policy `SCHED_FIFO` (proc_pid_stat(5), field 41).
fn is_real_time(name: &str) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc");
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let mut named = stats.filter(|stat| stat.contains(&format!("({name})")));
    named.any(|stat| {
        // Counted after the name, which may contain spaces: the state is the third field.
        let behind = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        behind.split(' ').nth(41 - 3) == Some("1")
    })
}

/// Devices created in quick succession are reported as up late by the kernel; packets must not be affected.
#[test]
fn a_lane_carries_from_its_first_packet() {
    for means in means() {
        for _ in 0..12 {
            let router = router(means.clone(), &[("ideal", 1)]);
            let lane = &router.lanes()[0];
            for v6 in [false, true] {
                let (near, far) = (udp(&lane.near, v6), udp(&lane.far, v6));
                for (from, to) in [(&near, &far), (&far, &near)] {
                    to.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
                    from.send_to(b"first", to.local_addr().expect("bound")).expect("a route");
                    let arrived = to.recv(&mut [0; 8]);
                    assert!(arrived.is_ok(), "{arrived:?} by {means:?}: {:?}", router.report());
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_had_is_said() {
    let forbidden =
        RouterConfig { means: Some(Means::Forbidden("for the test".into())), ..RouterConfig::default() };
    let error = Router::start(forbidden, OsClock::new()).err().expect("refused");
    assert!(error.to_string().contains("for the test"), "{error}");
    assert!(Namespace::find("no-such-namespace").is_err());
    let here = Namespace::current().expect("every thread is in one");
    let own = Namespace::find(&std::process::id().to_string()).expect("by process");
    assert!(here.is_same(&own));
    let looped = RouterConfig {
        lanes: vec![LaneConfig {
            sides: Sides::Existing { near: here, far: own },
            ..LaneConfig::private(Default::default(), 1)
        }],
        means: Some(Means::Tun),
        real_time: false,
    };
    assert!(Router::start(looped, OsClock::new()).is_err());
}

/// Two links in a row, as in a switch: each adds its delay, both count as one, and overhead makes packets longer.
#[test]
fn two_links_in_a_row_add_up() {
    for means in means() {
        let lane = LaneConfig {
            behind: Some("delay=3ms,loss=20%".parse().expect("a possible link")),
            overhead: 38,
            ..LaneConfig::private("delay=2ms".parse().expect("a possible link"), 5)
        };
        let config = RouterConfig { lanes: vec![lane], means: Some(means), real_time: true };
        let router = Router::start(config, OsClock::new()).expect("probed");
        let lane = &router.lanes()[0];
        let (near, far) = (udp(&lane.near, false), udp(&lane.far, false));
        let there = (lane.far.v4, far.local_addr().expect("bound").port());
        // Lost ones never arrive.
        far.set_read_timeout(Some(Duration::from_millis(12))).expect("a socket");
        let (clock, mut soonest, mut came) = (OsClock::new(), u64::MAX, 0);
        for number in 0..100u8 {
            let sent = clock.now();
            near.send_to(&[number; 72], there).expect("a route");
            let mut packet = [0; 100];
            while far.recv(&mut packet).is_ok() {
                came += 1;
                // One that came after its time is counted, but says nothing about its delay.
                if packet[0] == number {
                    soonest = soonest.min(clock.now().since(sent).as_nanos() as u64);
                    break;
                }
            }
        }
        // Never before both delays, and hardly ever a millisecond later.
        assert!((5_000_000..6_500_000).contains(&soonest), "{soonest} ns");
        // The router may not have read the last one yet.
        while router.report().expect("it runs").lanes[0].up.offered < 100 {
            assert!(clock.now().as_nanos() < 60_000_000_000, "{:?}", router.report());
            std::thread::yield_now();
        }
        let up = router.stop().lanes[0].up;
        assert!(up.balances(), "{up:?}");
        // Binomial: 4 standard deviations of 4 %.
        assert!(up.offered == 100 && (4..=36).contains(&up.lost) && came <= up.delivered, "{came}, {up:?}");
        // 72 bytes, UDP, IP and the overhead.
        assert_eq!(up.offered_bytes, 100 * (72 + 28 + 38));
    }
}
