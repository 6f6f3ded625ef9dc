//! Path failures, the same for every transport: an outage, a tunnel, reordered packets, a failing path among several.

#[path = "../common/mod.rs"]
mod common;
mod recovery;
mod stream;

use std::time::Duration;

use antiphon_core::{Instant, Profile, Role, Wire};
use antiphon_proto::TRANSPORTS;
use antiphon_testkit::ms;

use crate::common::{PLAYOUT_DELAY, endpoint};
use crate::stream::{BEGINS, Stream};

macro_rules! scenarios {
    ($case:ident = $uri:literal: $($scenario:ident)*) => {
        mod $case {
            $(#[test]
            fn $scenario() {
                crate::$scenario($uri);
            })*
        }
    };
}

/// Each transport has the scenarios for its kind of wire.
macro_rules! transports {
    (
        streams { $($stream_case:ident = $stream:literal)* }
        datagrams_on_one_path { $($case:ident = $uri:literal)* }
        datagrams_on_several_paths { $($several_case:ident = $several:literal)* }
    ) => {
        const STREAMS: &[&str] = &[$($stream),*];
        const ON_ONE_PATH: &[&str] = &[$($uri),*];
        const ON_SEVERAL_PATHS: &[&str] = &[$($several),*];
        $(scenarios!($stream_case = $stream: outlives_an_outage);)*
        $(scenarios!($case = $uri:
            outlives_an_outage
            sends_small_messages_through_a_tunnel
            bears_reordering
        );)*
        $(scenarios!($several_case = $several:
            outlives_an_outage
            sends_small_messages_through_a_tunnel
            bears_reordering
            goes_on_by_another_path
        );)*
    };
}

transports! {
    streams {
        tcp = "tcp"
    }
    datagrams_on_one_path {
        rtp = "rtp"
        dccp_ccid_2 = "dccp?ccid=2"
        dccp_ccid_3 = "dccp?ccid=3"
        srp = "srp"
        srp_as_published = "srp?mode=as-published"
        arq = "arq"
        xtp = "xtp"
        xtp_on_gap = "xtp?acks=gap"
        xtp_never = "xtp?acks=never"
        xtp_full = "xtp?reliability=full&order=ordered"
        arq_as_published = "arq?mode=as-published"
    }
    datagrams_on_several_paths {
        sctp = "sctp"
        sctp_ordered = "sctp?order=ordered&reliability=full"
    }
}

#[test]
fn every_transport_is_tested_as_what_it_is() {
    let mut known: Vec<&str> = TRANSPORTS.iter().map(|one| one.scheme).collect();
    let kinds = [
        (STREAMS, Wire::ByteStream, false),
        (ON_ONE_PATH, Wire::Datagram, false),
        (ON_SEVERAL_PATHS, Wire::Datagram, true),
    ];
    let mut tested = Vec::new();
    for (uris, wire, several) in kinds {
        for uri in uris {
            let transport = antiphon_proto::find(scheme(uri)).expect("known");
            let takes_peers = transport.keys.iter().any(|key| key.name == "peers");
            assert_eq!((profile(uri).wire, takes_peers), (wire, several), "{uri}");
            tested.push(scheme(uri));
        }
    }
    known.sort_unstable();
    tested.sort_unstable();
    tested.dedup();
    assert_eq!(tested, known, "add the transport above");
}

fn scheme(uri: &str) -> &str {
    uri.split('?').next().unwrap_or(uri)
}

fn profile(uri: &str) -> Profile {
    endpoint(uri, Role::Caller, 1).profile()
}

/// As published, an SRP client treats everything after a gap longer than its buffer as too early: a defect that is
/// kept.
fn is_left_behind(uri: &str) -> bool {
    uri == "srp?mode=as-published"
}

/// The path loses everything for seconds: messages sent before and afterwards arrive.
fn outlives_an_outage(uri: &str) {
    for seconds in [1, 8] {
        let mut stream = Stream::new(uri, "delay=20ms", 400, 4000);
        let (from, until) = (Instant::from_millis(5_003), Instant::from_millis(5_003 + 1000 * seconds));
        stream.world.outage(from..until);
        stream.run();
        stream.assert_lived();
        let missing = stream.missing();
        assert!(missing.iter().all(|number| stream.due(*number) + PLAYOUT_DELAY >= from), "{missing:?}");
        // A second to detect that the path works again, and one to restart.
        let late = missing.iter().find(|number| stream.due(**number) >= until + ms(2_100));
        assert!(late.is_none() || is_left_behind(uri), "{uri}, {seconds} s: {late:?}");
        if !profile(uri).reliable {
            assert!(missing.len() as u64 > 150 * seconds, "the outage happened: {missing:?}");
        }
    }
}

/// From some time on the path drops longer datagrams without a report: messages that fit still arrive, and so do all of
/// a transport that cuts messages, or that announces a size limit.
fn sends_small_messages_through_a_tunnel(uri: &str) {
    let begins = Instant::from_millis(3_000);
    let mut stream = Stream::new(uri, "delay=20ms", 1_000, 2_000);
    stream.enlarge(300..700, 1_400);
    stream.world.up.tunnel = Some((begins..Instant::from_millis(60_000), 1_280));
    stream.run();
    stream.assert_lived();
    assert!(stream.world.up.lost > 0, "the tunnel dropped something");
    let missing = stream.missing();
    // Detecting the smaller size takes until the large messages end and congestion control, which has seen nothing but
    // losses, has started again: 1.1 seconds at most.
    let small = missing.iter().filter(|number| !(300..700 + 220).contains(*number));
    assert!(small.count() == 0 || is_left_behind(uri), "{uri}: {missing:?}");
}

/// Delayed packets arrive behind later ones: everything is delivered, and in order where that is promised.
fn bears_reordering(uri: &str) {
    let mut stream = Stream::new(uri, "delay=10ms,reorder=10%/12ms", 400, 2_000);
    stream.run();
    stream.assert_lived();
    assert!(stream.world.link().up.counters().held_back > 100, "packets overtook one another");
    assert_eq!(stream.missing(), [], "{uri}");
    let numbers = stream.numbers();
    if profile(uri).ordered {
        assert!(numbers.is_sorted(), "{uri}: out of order");
    }
    // Only modes as published deliver duplicates of their own retransmissions.
    if !uri.contains("as-published") {
        assert_eq!(numbers.len(), 2_000, "{uri}: some came twice");
    }
}

/// For a transport that supports several paths: the first one fails and recovers.
fn goes_on_by_another_path(uri: &str) {
    let separator = if uri.contains('?') { '&' } else { '?' };
    let caller = format!("{uri}{separator}peers=192.0.2.1:9906");
    let mut stream = Stream::over(&caller, uri, &["delay=10ms", "delay=12ms"], 400, 2_000);
    let dead = Instant::from_millis(4_000)..Instant::from_millis(6_000);
    stream.world.up.outages.push((dead.clone(), vec![0]));
    stream.world.down.outages.push((dead.clone(), vec![0]));
    stream.run();
    stream.assert_lived();
    assert_eq!(stream.missing(), [], "{uri}");
    let oldest = stream.oldest();
    assert!(oldest <= PLAYOUT_DELAY + ms(12), "{uri}: {oldest:?}");
    let by_second = |from: Instant, until: Instant| {
        let came = stream.world.far.get().messages.iter();
        let came = came.filter(|came| (from..until).contains(&came.at));
        let (all, second) = came
            .fold((0, 0), |(all, second), came| (all + 1, second + usize::from(came.received.path.0 == 1)));
        assert!(all > 0);
        second as f64 / all as f64
    };
    assert_eq!(by_second(BEGINS, dead.start), 0.0, "{uri}: the first path while it works");
    assert_eq!(by_second(dead.start + ms(300), dead.end), 1.0, "{uri}: the second while it does not");
    assert_eq!(by_second(dead.end + ms(2_000), dead.end + ms(3_000)), 0.0, "{uri}: the first again");
    assert_eq!(stream.world.far.get().connected, 1, "one association");
}

/// No wait may be longer than the whole stream.
const PATIENCE: Duration = Duration::from_secs(60);
