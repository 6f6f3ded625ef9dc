//! Table 1 of paper `transport-alternatives`, tested on our endpoints: the features of each transport.
//!
//! Each feature is tested on a wire on which it makes a difference, and what is found must be what the transport's description
//! says (`proto::Transport::offers`, which `antiphon help transports` prints). Where ours departs from the printed table, the
//! reason is listed below, and the test also fails when that is no longer so.

#[path = "../common/pair.rs"]
mod pair;
mod wire;

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_lab::papers::find;
use antiphon_proto::{Capability, TRANSPORTS, Transport};

use wire::{MAX_DATAGRAM, NARROW, Trial, Weather};

/// The table's names.
const PROTOCOLS: [(&str, &str); 4] = [("UDP", "rtp"), ("TCP", "tcp"), ("SCTP", "sctp"), ("DCCP", "dccp")];

/// The printed name of a feature, and its trial.
type Row = (&'static str, Capability, fn(&str) -> bool);

const ROWS: [Row; 13] = [
    ("Message oriented", Capability::MessageOriented, keeps_messages_apart),
    ("Connection oriented", Capability::ConnectionOriented, asks_before_it_sends),
    ("Full duplex", Capability::FullDuplex, carries_both_ways_at_once),
    ("Reliable data transfer", Capability::Reliable, repairs_losses),
    ("Ordered data delivery", Capability::Ordered, restores_the_order),
    ("Unordered data delivery", Capability::Unordered, passes_over_a_hole),
    ("Flow control", Capability::FlowControl, waits_for_a_slow_reader),
    ("Congestion control", Capability::CongestionControl, adapts_to_a_narrow_wire),
    ("Multicasting", Capability::Multicasting, reaches_two_with_one_datagram),
    ("Broadcasting", Capability::Broadcasting, reaches_a_network_without_answers),
    ("Path MTU discover", Capability::PathMtuDiscovery, finds_a_size_that_passes),
    ("Fragmentation", Capability::Fragmentation, cuts_long_frames),
    ("Checksum", Capability::Checksum, sees_damage),
];

/// Departures of ours from the printed table, with reasons.
const OTHERWISE: [(&str, &str, &str); 3] = [
    ("Message oriented", "TCP", "RFC 4571 puts the length before each frame"),
    (
        "Flow control",
        "TCP",
        "the driver reads whatever has come: late sound is of no use, so an inbox that is not emptied drops",
    ),
    ("Path MTU discover", "DCCP", "with Syncs padded to the size that is tried (RFC 4340 §14, RFC 8899)"),
];

/// Features of the layer below our endpoints, which can't be tested on them.
const BELOW: [(Capability, &str, &str); 6] = [
    (Capability::Checksum, "rtp", "the kernel drops damaged datagrams before we see them"),
    (Capability::Checksum, "srp", "likewise"),
    (Capability::Checksum, "arq", "likewise"),
    (Capability::Checksum, "dccp", "UDP's stands for its own (RFC 6773 §3.5); over IP it has one"),
    (Capability::Checksum, "tcp", "the kernel's TCP has it; a damaged segment never becomes bytes"),
    (Capability::PathMtuDiscovery, "tcp", "the kernel's TCP does it; ours only sees bytes"),
];

/// Where a trial finds more than the description promises, with reasons: of a transport, or of one of its settings.
const BEYOND: [(Capability, &str, &str); 6] = [
    (
        Capability::Reliable,
        "arq?",
        "it gives a message up after 16 transmissions, so an outage of half a minute costs some",
    ),
    (
        Capability::Multicasting,
        "arq",
        "an acknowledgement of one member counts for all, so no other's losses are repaired",
    ),
    (Capability::Broadcasting, "arq?", "likewise"),
    (
        Capability::Multicasting,
        "srp",
        "a sender repairs for one receiver and follows its reports, not a group's",
    ),
    (Capability::Broadcasting, "srp?", "likewise"),
    (Capability::Broadcasting, "srp?mode=as-published", "likewise"),
];

/// Settings that change what a transport offers, beside its variants, which are the shortest of them.
const MORE: [(&str, &str); 3] =
    [("sctp", "reliability=full"), ("sctp", "reliability=full&order=ordered"), ("dccp", "ccid=2")];

/// The settings under which a transport is tested: the defaults, its variants, and [`MORE`].
fn queries(transport: &Transport) -> impl Iterator<Item = &'static str> {
    let scheme = transport.scheme;
    let more = MORE.iter().filter(move |(of, _)| *of == scheme).map(|(_, query)| *query);
    std::iter::once("").chain(transport.variants.iter().copied()).chain(more)
}

#[test]
fn each_transport_offers_what_its_description_says() {
    let mut wrong = Vec::new();
    for (name, feature, trial) in ROWS {
        for transport in TRANSPORTS {
            let scheme = transport.scheme;
            for query in queries(transport) {
                let name_and_query = format!("{scheme}?{query}");
                let is_in = |list: &[(Capability, &str, &str)]| {
                    list.iter().any(|(f, s, _)| *f == feature && (*s == scheme || *s == name_and_query))
                };
                let described = transport.offers(feature, query);
                let on_endpoints = trial(&name_and_query);
                // What the layer below does, the description claims; our endpoint alone does not do it. The modelled TCP
                // stands for the kernel's, and has it.
                if is_in(&BELOW) && on_endpoints != (scheme == "tcp") {
                    wrong.push(format!("{name}, {scheme}?{query}: found on the endpoint {on_endpoints}, and it is of the layer below"));
                }
                let found = is_in(&BELOW) || on_endpoints;
                if (found != described) != is_in(&BEYOND) {
                    wrong.push(format!("{name}, {scheme}?{query}: described {described}, found {found}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn descriptions_depart_from_table_1_only_for_a_reason() {
    let paper = find("transport-alternatives").expect("the paper");
    let table = paper.table("table01-features.csv").expect("Table 1");
    let mut wrong = Vec::new();
    for (name, feature, _) in ROWS {
        for (protocol, scheme) in PROTOCOLS {
            let row = table.row(&[("feature", name), ("protocol", protocol)]).expect(name);
            let printed = table.number(row, "present") == Some(1.0);
            let transport = antiphon_proto::find(scheme).expect("one of ours");
            let ours = transport.offers(feature, "") || transport.offers_with(feature).is_some();
            let departs = OTHERWISE.iter().any(|(f, p, _)| (*f, *p) == (name, protocol));
            if (ours != printed) != departs {
                wrong.push(format!("{name}, {protocol}: printed {printed}, ours {ours}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(table.rows.len(), ROWS.len() * PROTOCOLS.len());
    assert_eq!(ROWS.map(|(_, feature, _)| feature), Capability::ALL);
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn connected(uri: &str, weather: Weather) -> Trial {
    let mut trial = Trial::new(uri, 1, weather);
    trial.run(ms(3000));
    trial
}

/// So many frames of 1000 bytes, one each 10 ms, then `drain`.
fn stream(trial: &mut Trial, frames: u32, drain: Duration) -> u32 {
    let mut refused = 0;
    for number in 0..frames {
        let now = trial.now;
        refused += u32::from(trial.near.send(now, &frame(number)).is_err());
        trial.run(ms(10));
    }
    trial.run(drain);
    refused
}

fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![number as u8; 1000];
    frame[..4].copy_from_slice(&number.to_be_bytes());
    // Version 2 of RTP, as validators that check the first byte expect.
    frame.splice(0..0, [0x80, 96]);
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[2], frame[3], frame[4], frame[5]])
}

/// Frames of different sizes, handed over together, arrive unchanged.
fn keeps_messages_apart(uri: &str) -> bool {
    let mut trial = connected(uri, Weather::default());
    let sent: Vec<Vec<u8>> = (1..20).map(|n| vec![0x80; 12 + n * 37]).collect();
    let now = trial.now;
    sent.iter().for_each(|frame| trial.near.send(now, frame).expect("room"));
    trial.run(ms(1000));
    trial.far[0].frames == sent
}

/// No byte of a frame is sent before the other end has answered.
fn asks_before_it_sends(uri: &str) -> bool {
    let mut trial = Trial::new(uri, 1, Weather { one_way: true, ..Weather::default() });
    let before = trial.near.send(Instant::ZERO, &frame(0));
    trial.run(ms(2000));
    before.is_err() || trial.far[0].frames.is_empty()
}

fn carries_both_ways_at_once(uri: &str) -> bool {
    let mut trial = connected(uri, Weather::default());
    // A listener knows a caller by its first frame where there is no handshake.
    stream(&mut trial, 1, ms(100));
    for number in 0..50 {
        let now = trial.now;
        trial.far[0].send(now, &frame(number)).expect("room");
        trial.near.send(now, &frame(number + 1)).expect("room");
        trial.run(ms(10));
    }
    trial.run(ms(1000));
    trial.near.frames.len() == 50 && trial.far[0].frames.len() == 51
}

/// One datagram in ten is lost, and no frame; all of them for 8 s, and no frame.
fn repairs_losses(uri: &str) -> bool {
    repairs_scattered_losses(uri) && survives_an_outage(uri)
}

/// Nothing crosses for 8 s while frames are handed over, and everything arrives afterwards.
fn survives_an_outage(uri: &str) -> bool {
    let mut trial = connected(uri, Weather::default());
    let before = stream(&mut trial, 100, Duration::ZERO);
    trial.set_dark(true);
    let during = stream(&mut trial, 800, Duration::ZERO);
    trial.set_dark(false);
    let after = stream(&mut trial, 100, ms(60_000));
    // A frame that was refused is not lost, as its sender knows; but the outage alone must not make a sender deaf.
    let taken = 1000 - (before + during + after) as usize;
    before + after == 0 && trial.far[0].frames.len() == taken
}

/// The reason beside `arq` in [`BEYOND`].
#[test]
fn arq_loses_messages_in_a_long_outage_and_sctp_does_not() {
    let lost = |uri: &str| {
        let mut trial = connected(uri, Weather::default());
        trial.set_dark(true);
        let refused = stream(&mut trial, 10, ms(30_000));
        trial.set_dark(false);
        trial.run(ms(60_000));
        10 - refused as usize - trial.far[0].frames.len()
    };
    assert_eq!((lost("arq"), lost("sctp"), lost("tcp")), (10, 0, 0));
}

fn repairs_scattered_losses(uri: &str) -> bool {
    let mut trial = connected(uri, Weather { loss: 0.1, ..Weather::default() });
    stream(&mut trial, 300, ms(20_000));
    trial.far[0].frames.len() == 300
}

fn restores_the_order(uri: &str) -> bool {
    let mut trial = connected(uri, Weather { reorders: true, ..Weather::default() });
    stream(&mut trial, 300, ms(5000));
    let numbers: Vec<u32> = trial.far[0].frames.iter().map(|frame| number(frame)).collect();
    // Enough of them to overtake each other.
    numbers.len() > 250 && numbers.is_sorted()
}

/// A frame is lost, and the next arrives before the lost one can be retransmitted.
fn passes_over_a_hole(uri: &str) -> bool {
    // On a byte stream the laboratory's link loses one segment in ten.
    let mut trial = connected(uri, Weather { lose_first_of: Some(1000), ..Weather::default() });
    let mut gaps_passed = 0;
    for number in 0..100 {
        let now = trial.now;
        trial.near.send(now, &frame(number)).expect("room");
        trial.run(ms(10));
        let came: Vec<u32> = trial.far[0].frames.iter().map(|frame| self::number(frame)).collect();
        gaps_passed += usize::from(came.iter().enumerate().any(|(place, number)| *number as usize > place));
    }
    gaps_passed > 0
}

/// The application sleeps for 7 s while 4 MB are sent; nothing that was accepted may be missing then.
fn waits_for_a_slow_reader(uri: &str) -> bool {
    let asleep = Instant::from_millis(10_000);
    let mut trial = connected(uri, Weather { asleep_until: Some(asleep), ..Weather::default() });
    let mut accepted = 0;
    for number in 0..4000 {
        let now = trial.now;
        accepted += usize::from(trial.near.send(now, &frame(number)).is_ok());
        if number % 6 == 0 {
            trial.run(ms(10));
        }
    }
    trial.run(ms(10_000));
    trial.far[0].frames.len() == accepted
}

/// Four times what the wire carries is offered for 8 s; the sender sends little more than the wire carries.
fn adapts_to_a_narrow_wire(uri: &str) -> bool {
    let mut trial = connected(uri, Weather { narrow: true, ..Weather::default() });
    let before = trial.bytes_sent;
    stream(&mut trial, 800, Duration::ZERO);
    let carried = NARROW / 8 * 8;
    trial.bytes_sent - before < carried * 3 / 2
}

fn reaches_two_with_one_datagram(uri: &str) -> bool {
    let mut trial = Trial::new(uri, 2, Weather::default());
    trial.run(ms(1000));
    stream(&mut trial, 20, ms(1000));
    trial.far.iter().all(|side| side.frames.len() == 20)
}

/// A datagram to all: every receiver of the network gets the stream, though nothing can come back. The address that makes it a
/// broadcast is the socket's: `crates/net/tests/lines/group.rs` does it on a real network.
fn reaches_a_network_without_answers(uri: &str) -> bool {
    let mut trial = Trial::new(uri, 3, Weather { one_way: true, ..Weather::default() });
    trial.run(ms(1000));
    stream(&mut trial, 400, ms(1000));
    trial.far.iter().all(|side| side.frames.len() == 400)
}

/// Datagrams above 1200 bytes are dropped; the largest frames are delivered nevertheless.
fn finds_a_size_that_passes(uri: &str) -> bool {
    let mut trial = connected(uri, Weather { longest: Some(1200), ..Weather::default() });
    let len = trial.near.endpoint.profile().max_message.min(MAX_DATAGRAM);
    let now = trial.now;
    let sent = trial.near.send(now, &vec![0x80; len]);
    trial.run(ms(30_000));
    sent.is_ok() && trial.far[0].frames.len() == 1
}

fn cuts_long_frames(uri: &str) -> bool {
    let mut trial = connected(uri, Weather::default());
    let long = vec![0x80; 20_000];
    let now = trial.now;
    let sent = trial.near.send(now, &long);
    trial.run(ms(2000));
    sent.is_ok() && trial.far[0].frames == [long]
}

/// One datagram in ten has an inverted bit; no frame has.
fn sees_damage(uri: &str) -> bool {
    let mut trial = connected(uri, Weather { corruption: 0.1, ..Weather::default() });
    stream(&mut trial, 300, ms(5000));
    let whole = |got: &Vec<u8>| *got == frame(number(got));
    trial.far[0].frames.len() > 150 && trial.far[0].frames.iter().all(whole)
}
