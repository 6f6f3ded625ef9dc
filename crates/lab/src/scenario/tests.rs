use super::*;
use crate::setup::{Content, MediumKind, NodeId, SoundSpec, TrafficKind};
use crate::tcp::{AckRule, Profile};
use antiphon_core::BitRate;
use antiphon_link::wlan::{AccessMode, Category, PowerSave, Rate, RateControl, Scan};
use antiphon_media::ChannelGroups;
use antiphon_session::Repetition;
use proptest::prelude::*;
use std::time::Duration;

mod changing;
mod copies;
mod further;
mod include;
mod paced;
mod pictures;
mod video;

const EXAMPLE: &str = include_str!("../../scenarios/example-two-streams-on-dsl.toml");

/// Every key that a scenario can have, at least once.
const ALL: &str = r#"
title = "All there is"
source = "nowhere"
seed = 7
repetitions = 2
duration = { value = "10s", why = "short" }
drain = "1s"

[node]
server = { send-packet = "20us", send-byte = "0.5ns", receive-packet = "30us", receive-byte = "1ns" }
ap = {}
client = {}
laptop = {}
host = {}
far = {}
[node.near]

[cable.wire]
between = ["server", "ap"]
rate = "1Gbit/s"
queue = "64kB"

[cell.wlan]
access-point = "ap"
stations = ["client", "laptop"]
rate = "54Mbit/s"
slot = { value = "20us", why = "802.11b-compatible cell" }
preamble = "short"
multicast-rate = "2Mbit/s"
retry-limit = "$retry"
queue = "50packets"
access = "edca"
frame-error = "1%"
fade = { mean = "50ms", share = "2%" }
voice.txop = "0ms"
voice.cw-min = 7
[cell.wlan.station.client]
power-save = { listen = "204.8ms", hold = "10ms" }
[cell.wlan.station.laptop]
rate = "11Mbit/s"
access = "dcf"
cw-min = 31
frame-error = "0%"
rate-control = "arf"
lowest-rate = "2Mbit/s"
frame-error-spread = "1.5"
scan = { length = "204.8ms", every = "5min" }

[switch.floor]
nodes = ["server", "host"]
rate = "100Mbit/s"
latency = "5us"

[link.line]
between = ["host", "far"]
link = "dsl"
loss = "1%/3"
[link.line.up]
rate = "1Mbit/s"

[ring.fibre]
stations = ["far", "near"]
ttrt = "8ms"
hop = "2us"
queue = "200packets"
frames-per-token = 1
station.near = { synchronous = "1ms", frames-per-token = 4 }

[traffic.noise]
kind = "constant"
from = "laptop"
to = "client"
rate = "$load"
payload = "${size}B"
category = "background"

[traffic.random]
kind = "poisson"
from = "host"
to = "server"
rate = "1Mbit/s"
payload = "200B"
start = "1s"

[traffic.bursty]
kind = "bursts"
from = "near"
to = "far"
packets = 10
period = "100ms"
payload = "4000B"
ring-class = "synchronous"

[traffic.blaster]
kind = "blaster"
from = "laptop"
to = "client"
payload = "1000B"

[traffic.file]
kind = "tcp"
from = "server"
to = "far"
tcp = { profile = "linux-2.4", ack-every = 1, delayed-ack = "100ms", mss = 536, no-delay = false, rto-min = "10ms", send-buffer = "32KiB" }

[traffic.echo]
kind = "ping"
from = "server"
to = "client"
interval = "1s"
count = 5

[stream.audio]
transport = "rtp"
from = "server"
to = ["client", "laptop"]
frame = "1300B"
interval = "7.4ms"
count = 100
category = "voice"
latency = "70ms"
patience = "200ms"

[stream.song]
transport = "tcp"
from = "server"
to = "far"
sound = { rate = "48kHz", channels = 2, block = 256 }
reflected = true
tcp = "windows-xp"

[sweep]
retry = { values = [0, 7], why = "table 5" }
[[sweep.point]]
load = "0Mbit/s"
size = 1470
[[sweep.point]]
load = "2Mbit/s"
size = 1471
"#;

fn read(text: &str) -> Scenario {
    Scenario::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn everything_that_can_be_said_arrives_in_the_setup() {
    let scenario = read(ALL);
    let plan = scenario.plan();
    let setup = scenario.setup(&plan[7].point).unwrap();
    assert_eq!((setup.duration, setup.drain), (Duration::from_secs(10), Duration::from_secs(1)));
    let names: Vec<&str> = setup.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["server", "ap", "client", "laptop", "host", "far", "near"]);
    let cost = setup.nodes[0].cost;
    assert_eq!(cost.send_packet, Duration::from_micros(20));
    assert!((cost.send_byte_s - 0.5e-9).abs() < 1e-15 && (cost.receive_byte_s - 1e-9).abs() < 1e-15);
    let [cable, cell, switch, link, ring] = &setup.media[..] else { panic!("{:?}", setup.media) };
    let MediumKind::Link { between, spec } = &link.kind else { panic!() };
    assert_eq!(*between, [NodeId(4), NodeId(5)]);
    assert_eq!((spec.up.rate, spec.down.loss == spec.up.loss), (Some(BitRate(1_000_000)), true));
    assert!((spec.down.loss.mean().0 - 0.01).abs() < 1e-9 && spec.down.rate != spec.up.rate);
    assert!(matches!(cable.kind, MediumKind::Cable { rate: BitRate(1_000_000_000), .. }));
    assert!(matches!(&switch.kind, MediumKind::Switch { nodes, .. } if *nodes == [NodeId(0), NodeId(4)]));
    let MediumKind::Cell { nodes, spec } = &cell.kind else { panic!() };
    assert_eq!(*nodes, [NodeId(1), NodeId(2), NodeId(3)]);
    let [ap, client, laptop] = spec.stations[..] else { panic!() };
    // The second to last point: retry 7, load 2.
    assert_eq!((ap.retry_limit, client.retry_limit, client.queue), (7, 7, 50));
    assert_eq!((ap.frame_error.0, client.frame_error.0, laptop.frame_error.0), (0.0, 0.01, 0.0));
    assert!(ap.fade.is_none() && client.fade.is_some());
    assert!(
        matches!(client.access, AccessMode::Edca([voice, ..]) if voice.txop.is_zero() && voice.cw_min == 7)
    );
    assert!(matches!(laptop.access, AccessMode::Dcf(access) if access.cw_min == 31));
    assert_eq!((laptop.rate_control, laptop.lowest_rate), (RateControl::Arf, Rate::Dsss2));
    assert_eq!((client.rate_control, client.scan), (RateControl::Fixed, None));
    assert_eq!((laptop.frame_error_spread, client.frame_error_spread), (1.5, 1.0));
    let save =
        PowerSave { listen: Duration::from_micros(204_800), hold: Duration::from_millis(10), again: None };
    assert_eq!((client.power_save, laptop.power_save), (Some(save), None));
    let scan = Scan { length: Duration::from_micros(204_800), every: Duration::from_mins(5) };
    assert_eq!(laptop.scan, Some(scan));
    assert_eq!((laptop.rate, spec.phy.multicast_rate), (Rate::Dsss11, Rate::Dsss2));
    let MediumKind::Ring { spec, .. } = &ring.kind else { panic!() };
    assert_eq!(spec.stations.iter().map(|s| s.frames_per_token).collect::<Vec<_>>(), [Some(1), Some(4)]);
    traffic_and_streams(&setup);
    // At a load of zero there is no traffic.
    assert_eq!(scenario.setup(&plan[0].point).unwrap().traffic.len(), setup.traffic.len() - 1);
}

fn traffic_and_streams(setup: &Setup) {
    let kinds: Vec<&TrafficKind> = setup.traffic.iter().map(|traffic| &traffic.kind).collect();
    assert!(matches!(kinds[0], TrafficKind::Constant { rate: BitRate(2_000_000), payload: 1471 }));
    assert_eq!(setup.traffic[0].treatment.category, Category::Background);
    assert!(matches!(kinds[1], TrafficKind::Poisson { payload: 200, .. }));
    assert_eq!(setup.traffic[1].start, Duration::from_secs(1));
    assert!(matches!(kinds[2], TrafficKind::Bursts { packets: 10, payload: 4000, .. }));
    let TrafficKind::GreedyTcp { profile } = kinds[4] else { panic!() };
    let expected = Profile::linux_2_4();
    assert_eq!((profile.mss, profile.no_delay, profile.send_buffer), (536, false, 32 * 1024));
    assert_eq!((profile.rto.min, profile.rto.initial), (Duration::from_millis(10), expected.rto.initial));
    assert_eq!(
        (profile.delayed_ack.rule, profile.receive_buffer),
        (AckRule::Segments(1), expected.receive_buffer)
    );
    assert!(matches!(kinds[5], TrafficKind::Ping { payload: 56, count: 5, .. }));
    let [audio, song] = &setup.streams[..] else { panic!() };
    assert_eq!((audio.to.len(), audio.patience), (2, Some(Duration::from_millis(200))));
    let interval = Duration::from_micros(7400);
    assert_eq!(audio.content, Content::Packets { frame: 1300, interval, count: Some(100) });
    assert_eq!(song.content, Content::Sound(SoundSpec::default()));
    assert!(song.reflected && song.tcp == Profile::windows_xp());
}

#[test]
fn channels_are_divided_as_they_add_up() {
    let sound = |wanted: &str| ALL.replace("channels = 2, block = 256 }", wanted);
    let content = |text: &str| {
        let scenario = read(text);
        scenario
            .setup(&scenario.plan()[0].point)
            .unwrap()
            .streams
            .iter()
            .find(|s| s.name == "song")
            .unwrap()
            .content
            .clone()
    };
    let pairs = content(&sound("channels = 6, block = 256, groups = \"2\" }"));
    let groups = ChannelGroups::parse(6, "2,2,2").unwrap();
    assert_eq!(pairs, Content::Sound(SoundSpec { groups, ..SoundSpec::default() }));
    let refused = |text: &str| {
        let scenario = Scenario::parse("test.toml", text);
        let setup = scenario.and_then(|scenario| scenario.setup(&scenario.plan()[0].point));
        setup.map(|_| ()).unwrap_err().to_string()
    };
    let uneven = refused(&sound("channels = 6, block = 256, groups = \"2,2\" }"));
    assert!(uneven.contains("the stream has 6"), "{uneven}");
    let datagrams = sound("channels = 6, block = 256, groups = \"2,4\" }")
        .replace("reflected = true\ntcp = \"windows-xp\"\n", "")
        .replace("[stream.song]\ntransport = \"tcp\"", "[stream.song]\ntransport = \"rtp\"");
    let wide = refused(&datagrams);
    assert!(wide.contains("256 sample frames of 4 channels") && wide.contains("smaller groups"), "{wide}");
}

#[test]
fn runs_are_points_in_order_with_seeds_of_their_own() {
    let scenario = read(ALL);
    let plan = scenario.plan();
    let value = |run: &Run, name: &str| run.point.iter().find(|(n, _)| n == name).unwrap().1.clone();
    let seen: Vec<(String, String, u32)> =
        plan.iter().map(|run| (value(run, "retry"), value(run, "load"), run.repetition)).collect();
    assert_eq!(
        seen[..3],
        [("0", 0, 0), ("0", 0, 1), ("0", 2, 0)].map(|(r, l, n)| (r.into(), format!("{l}Mbit/s"), n))
    );
    assert_eq!(plan.iter().map(|run| run.index).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    let mut seeds: Vec<u64> = plan.iter().map(|run| run.seed).collect();
    assert!(seeds.iter().all(|seed| *seed < 1 << 48));
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 8);
    // More repetitions and fewer points do not change the seeds of the others.
    let more = scenario.clone().with_repetitions(3).unwrap().with_values("retry", &["7".into()]).unwrap();
    let of = |plan: &[Run], repetition: u32| {
        let found = plan.iter().find(|run| {
            value(run, "retry") == "7" && value(run, "load") == "2Mbit/s" && run.repetition == repetition
        });
        found.unwrap().seed
    };
    assert_eq!(of(&more.plan(), 1), of(&plan, 1));
    assert_eq!(more.plan().len(), 6);
    let other = Scenario { seed: 8, ..scenario };
    assert_ne!(of(&other.plan(), 1), of(&plan, 1));
}

/// A repetition's media are the same at every point, and others' in the next repetition: what is sent changes, what fades doesn't.
#[test]
fn the_same_fades_for_all_points_of_a_repetition() {
    let scenario = read(
        "title = \"fades\"\nrepetitions = 4\nduration = \"60s\"\n[node.a]\n[node.b]\n[link.air]\nbetween = [\"a\", \"b\"]\n\
         loss = \"5s/5s/100%/0%\"\n[traffic.load]\nkind = \"constant\"\nfrom = \"a\"\nto = \"b\"\nrate = \"$load\"\n\
         payload = \"500B\"\n[stream.audio]\ntransport = \"$transport\"\nfrom = \"a\"\nto = \"b\"\nframe = \"100B\"\n\
         interval = \"10ms\"\n[sweep]\ntransport = [\"rtp\", \"dccp\"]\nload = [\"10kbit/s\", \"1Mbit/s\"]\n",
    );
    let mut outages: Vec<Vec<u64>> = vec![Vec::new(); 4];
    for run in scenario.plan() {
        let mut world = crate::world::World::new(&scenario.setup_of(&run).unwrap(), run.seed).unwrap();
        world.run_to_end();
        let gap = world.figures().streams[0].1.gap_max_ms.expect("a longest gap");
        outages[run.repetition as usize].push(gap.round() as u64);
    }
    // Of RTP, whose packets come as they were sent, with either load.
    assert!(outages.iter().all(|gaps| gaps[0].abs_diff(gaps[1]) <= 10), "{outages:?}");
    assert!(outages.iter().any(|gaps| gaps[0].abs_diff(outages[0][0]) > 1000), "{outages:?}");
}

#[test]
fn the_example_gives_a_reason_for_every_number() {
    let scenario = read(EXAMPLE);
    let notes = scenario.notes();
    let bare: Vec<&Note> = notes.iter().filter(|note| note.why.is_none()).collect();
    assert!(bare.is_empty(), "{bare:?}");
    assert!(notes.iter().any(|note| note.place == "link.line.up.rate" && note.value == "2Mbit/s"));
    assert!(notes.iter().any(|note| note.place == "sweep.queue" && note.value == "20packets, 200packets"));
    assert_eq!(scenario.plan().len(), 20);
}

#[test]
fn numbers_without_a_reason_are_found() {
    let scenario = read(ALL);
    let notes = scenario.notes();
    let note =
        |place: &str| notes.iter().find(|note| note.place == place).unwrap_or_else(|| panic!("{place}"));
    assert_eq!(note("cell.wlan.slot").why.as_deref(), Some("802.11b-compatible cell"));
    assert_eq!(note("cell.wlan.voice.cw-min").why, None);
    assert_eq!(note("stream.audio.interval").value, "7.4ms");
    assert!(note("link.line.link, preset dsl").why.is_some());
    // Numbers of the sweep are reported there.
    assert!(notes.iter().all(|note| note.place != "cell.wlan.retry-limit"));
    assert_eq!(
        (note("sweep.retry").value.as_str(), note("sweep.retry").why.as_deref()),
        ("0, 7", Some("table 5"))
    );
}

/// The smallest scenario, into which errors are put.
const SMALL: &str = r#"title = "Small"
duration = "1s"
[node.a]
[node.b]
[link.line]
between = ["a", "b"]
link = "rate=1Mbit/s"
[stream.audio]
transport = "rtp"
from = "a"
to = "b"
frame = "200B"
interval = "10ms"
"#;

fn refused(text: &str, line: usize, parts: &[&str]) {
    let error = Scenario::parse("bad.toml", text).expect_err("it is wrong");
    let message = error.to_string();
    assert!(message.starts_with(&format!("bad.toml:{line}:")), "line {line}: {message}");
    for part in parts {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn each_error_has_its_line_and_what_would_be_right() {
    read(SMALL);
    let cases: &[(&str, &str, usize, &[&str])] = &[
        ("frame =", "frmae =", 12, &["'frmae'", "'frame'", "^^^^^"]),
        ("[link.line]", "[lnik.line]", 5, &["'lnik'", "'link'"]),
        ("link = \"rate=1Mbit/s\"", "link = \"rtae=1Mbit/s\"", 7, &["'rtae'", "'rate'"]),
        ("link = \"rate=1Mbit/s\"", "link = \"dls\"", 7, &["'dsl'"]),
        ("rate=1Mbit/s", "rate=0Mbit/s", 7, &["1kbit/s"]),
        ("link = \"rate=1Mbit/s\"", "rate = \"0Mbit/s\"", 7, &["1kbit/s"]),
        ("link = \"rate=1Mbit/s\"", "rate = 5", 7, &["no unit", "5Mbit/s or 5kbit/s"]),
        ("link = \"rate=1Mbit/s\"", "loss = \"101%\"", 7, &["0% to 100%"]),
        ("link = \"rate=1Mbit/s\"", "", 5, &["[link.line]", "link ="]),
        ("interval = \"10ms\"", "interval = 10", 13, &["no unit", "10ms"]),
        ("interval = \"10ms\"", "interval = \"10\"", 13, &["no unit", "10ms"]),
        ("interval = \"10ms\"", "interval = \"10kB\"", 13, &["unit of time"]),
        ("interval = \"10ms\"", "interval = \"0ms\"", 13, &["1us"]),
        ("interval = \"10ms\"", "", 8, &["no 'interval'", "interval = "]),
        ("duration = \"1s\"", "duration = \"25h\"", 2, &["86400s"]),
        ("duration = \"1s\"", "", 1, &["duration = \"60s\""]),
        ("duration = \"1s\"", "repetitions = 0\nduration = \"1s\"", 2, &["1 to 100000"]),
        ("duration = \"1s\"", "duration = \"1s\"\nseed = -1", 3, &["whole number"]),
        ("duration = \"1s\"", "duration = \"1s\"\nseed = 99999999999999999999", 3, &["too large"]),
        ("frame = \"200B\"", "frame = \"2000B\"", 12, &["1472B"]),
        ("frame = \"200B\"", "frame = \"11B\"", 12, &["12 bytes"]),
        ("\"rtp\"", "\"rpt\"", 9, &["'rpt'", "'rtp'"]),
        ("\"rtp\"", "\"carrier-pigeon\"", 9, &["unknown transport 'carrier-pigeon'", "known:"]),
        ("\"rtp\"", "\"rtp?stlye=1\"", 9, &["'stlye'"]),
        ("to = \"b\"", "to = \"c\"", 11, &["'c'", "nodes: a, b"]),
        ("to = \"b\"", "to = \"a\"", 8, &["itself"]),
        ("[stream.audio]", "[stream.line]", 8, &["[link.line]", "another"]),
        ("[node.b]", "[node.b]\n[node.b]", 5, &["duplicate", "defined twice"]),
        ("[node.b]", "[node.\"b c\"]", 4, &["'b c'", "not a name"]),
        (
            "[stream.audio]",
            "[link.again]\nbetween = [\"a\", \"b\"]\nlink = \"ideal\"\n[stream.audio]",
            8,
            &["loop", "[link.line]"],
        ),
        ("[node.b]", "[node.b]\n[node.c]", 5, &["no route from a to c"]),
        ("between = [\"a\", \"b\"]", "between = [\"a\", \"a\"]", 6, &["twice"]),
        ("between = [\"a\", \"b\"]", "between = \"a\"", 5, &["two nodes, not 1"]),
        ("frame = \"200B\"", "frame = \"$size\"", 12, &["[sweep] has no 'size'"]),
        ("interval = \"10ms\"", "interval = \"10ms\"\n[sweep]\nsize = [1]", 15, &["'size'", "\"$size\""]),
        (
            "interval = \"10ms\"",
            "interval = \"$i\"\n[sweep]\ni = [\"10ms\", \"10\"]",
            13,
            &["where $i is \"10\""],
        ),
        ("interval = \"10ms\"", "interval = \"$i\"\n[sweep]\ni = [\"1ms\", \"1ms\"]", 15, &["twice"]),
        ("interval = \"10ms\"", "interval = \"$i\"\n[sweep]\ni = []", 15, &["0 values"]),
        ("interval = \"10ms\"", "interval = \"$i\"\n[sweep]\ni = \"1ms\"", 15, &["values = […]"]),
        ("interval = \"10ms\"", "interval = \"$seed\"\n[sweep]\nseed = [\"1ms\"]", 15, &["column"]),
        ("interval = \"10ms\"", "interval = { value = \"10ms\", wyh = \"x\" }", 13, &["'wyh'", "'why'"]),
        ("interval = \"10ms\"", "interval = { value = \"10ms\", why = 3 }", 13, &["in quotes"]),
        ("frame = \"200B\"", "reflected = \"yes\"\nframe = \"200B\"", 12, &["true or false"]),
        ("frame = \"200B\"", "count = \"5\"\nframe = \"200B\"", 12, &["without quotes"]),
        ("to = \"b\"", "to = \"b\"\ntcp = \"linx\"", 12, &["'linux'"]),
        ("to = \"b\"", "to = \"b\"\ntcp = { mss = 5 }", 12, &["88 to 8960"]),
        ("to = \"b\"", "to = \"b\"\ncategory = \"vioce\"", 12, &["'voice'"]),
        ("title = \"Small\"", "", 1, &["title"]),
        ("title = \"Small\"", "title = Small", 1, &["quoted"]),
    ];
    for (right, wrong, line, parts) in cases {
        assert!(SMALL.contains(right), "{right}");
        refused(&SMALL.replacen(right, wrong, 1), *line, parts);
    }
}

#[test]
fn a_stream_is_sound_unless_it_says_otherwise() {
    let content = |lines: &str| {
        let text = SMALL.replace("frame = \"200B\"\ninterval = \"10ms\"\n", lines);
        let scenario = read(&text);
        scenario.setup(&scenario.plan()[0].point).unwrap().streams.remove(0).content
    };
    let packets = Content::Packets { frame: 200, interval: Duration::from_millis(10), count: None };
    let frames = "frame = \"200B\"\ninterval = \"10ms\"\n";
    assert_eq!(content(frames), packets);
    assert_eq!(content(&format!("content = \"packets\"\n{frames}")), packets);
    assert_eq!(content(""), Content::default());
    assert_eq!(content("content = \"sound\"\n"), Content::default());
    assert_eq!(
        content("sound = { block = 64 }\n"),
        Content::Sound(SoundSpec { block: 64, ..SoundSpec::default() })
    );
    let protect = Repetition { times: 2, spacing: Duration::from_millis(20) };
    let protected = Content::Sound(SoundSpec { protect, ..SoundSpec::default() });
    assert_eq!(content("protect = \"repeat:2,spacing=20ms\"\n"), protected);
    let spoilt = |right: &str, wrong: &str, line: usize, parts: &[&str]| {
        refused(&SMALL.replacen(right, wrong, 1), line, parts);
    };
    spoilt("frame =", "protect = \"repeat:2\"\nframe =", 12, &["protect works with sound only"]);
    spoilt("frame =", "content = \"sound\"\nframe =", 13, &["unknown key 'frame'"]);
    spoilt("frame = \"200B\"\ninterval", "content = \"packets\"\ninterval", 8, &["no 'frame'"]);
    spoilt("frame = \"200B\"\ninterval = \"10ms\"", "protect = \"repat:2\"", 12, &["'repat:2'", "repeat:2"]);
    spoilt("frame = \"200B\"\ninterval = \"10ms\"", "protect = \"repeat:9\"", 12, &["1 to 8 times"]);
    spoilt("frame = \"200B\"\ninterval = \"10ms\"", "content = \"medusa\"", 8, &["[stream.NAME.medusa]"]);
    spoilt("frame = \"200B\"\ninterval = \"10ms\"", "content = \"noise\"", 12, &["'noise'", "\"sound\""]);
}

#[test]
fn a_scenario_measures_something() {
    let (network, _) = SMALL.split_once("[stream.audio]").unwrap();
    let load = "[traffic.load]\nkind = \"blaster\"\nfrom = \"a\"\nto = \"b\"\npayload = \"9B\"\n";
    refused(&format!("{network}{load}"), 1, &["nothing is measured", "[stream.NAME]"]);
    let ping = "[traffic.p]\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"1s\"\ncount = 1\n";
    read(&format!("{network}{load}{ping}"));
}

#[test]
fn what_would_never_end_is_refused() {
    let swept = |sweep: &str| {
        let head = SMALL
            .replace("10ms", "$i")
            .replace("200B", "${f}B")
            .replace("duration", "repetitions = 1000\nduration");
        format!("{head}[sweep]\n{sweep}")
    };
    let values = |n: usize| (1..=n).map(|n| format!("\"{}\"", n + 100)).collect::<Vec<_>>().join(",");
    let many = swept(&format!("i = [\"1ms\", \"2ms\"]\nf = [{}]\n", values(200)));
    refused(&many, 15, &["400 points of 1000 repetitions", "at most 200000"]);
    refused(&SMALL.replace("\"1s\"", "\"24h\"").replace("\"10ms\"", "\"1us\""), 13, &["86400000000 packets"]);
    refused(&format!("title = \"{}\"", "x".repeat(1 << 20)), 1, &["1048576"]);
    refused(&format!("a = {}{}", "[".repeat(5000), "]".repeat(5000)), 1, &[]);
}

#[test]
fn cells_and_rings_are_refused_for_what_they_lack() {
    let spoilt = |right: &str, wrong: &str, parts: &[&str]| {
        assert!(ALL.contains(right), "{right}");
        let text = ALL.replacen(right, wrong, 1);
        let line = text[..text.find(wrong).unwrap()].matches('\n').count() + 1;
        refused(&text, line, parts);
    };
    spoilt("rate = \"54Mbit/s\"", "rate = \"55Mbit/s\"", &["802.11g has no 55Mbit/s", "54Mbit/s"]);
    spoilt("queue = \"50packets\"", "queue = \"50\"", &["100packets"]);
    spoilt("queue = \"50packets\"", "queue = \"0packets\"", &["1 to 32768"]);
    spoilt("slot = { value = \"20us\"", "slot = { value = \"2s\"", &["1us to 1ms"]);
    spoilt("voice.cw-min = 7", "voice.cw_min = 7", &["'cw_min'", "'cw-min'"]);
    spoilt("[cell.wlan.station.laptop]", "[cell.wlan.station.latpop]", &["'latpop'", "'laptop'"]);
    spoilt("rate-control = \"arf\"", "rate-control = \"arv\"", &["'arv'", "'arf'"]);
    spoilt("frame-error-spread = \"1.5\"", "frame-error-spread = \"0.5\"", &["1 to 10"]);
    let too_low = ALL.replace("lowest-rate = \"2Mbit/s\"", "lowest-rate = \"54Mbit/s\"");
    refused(&too_low, 23, &["54Mbit/s, is above its rate, 11Mbit/s", "2 laptop"]);
    let both = ALL.replace("scan = {", "power-save = { listen = \"1s\", hold = \"0ms\" }\nscan = {");
    refused(&both, 23, &["one that does not scan", "2 laptop"]);
    let saves = |more: &str| ALL.replace("hold = \"10ms\" }", &format!("hold = \"10ms\", {more} }}"));
    let line = ALL[..ALL.find("hold = \"10ms\"").unwrap()].matches('\n').count() + 1;
    refused(&saves("beacon-loss = \"30%\""), line, &["set idle as well"]);
    refused(&saves("idle = \"60ms\", beacon-loss = \"100%\""), line, &["less than 100%"]);
    refused(&saves("idle = \"0ms\""), line, &["1ms to 60s"]);
    let too_long = ALL.replace("length = \"204.8ms\"", "length = \"6min\"");
    refused(&too_long, 23, &["only a client of an access point", "360s every 300s"]);
    spoilt("length = \"204.8ms\"", "length = \"204.8\"", &["no unit"]);
    spoilt(
        "fade = { mean = \"50ms\", share = \"2%\" }",
        "fade = { mean = \"50ms\", share = \"100%\" }",
        &["less than 100%"],
    );
    spoilt("kind = \"constant\"", "kind = \"constnat\"", &["'constant'"]);
    spoilt("ttrt = \"8ms\"", "ttrt = \"1ms\"", &["4ms to 165ms"]);
    // The value is marked where it is used, with the variable that has it.
    let text = ALL.replace("values = [0, 7]", "values = [0, 31]");
    refused(&text, 30, &["0 to 30", "where $retry is \"31\""]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_panics(text in "[a-z\\[\\]={}\"$., \n0-9%/]{0,200}") {
        let _ = Scenario::parse("x", &text);
    }

    #[test]
    fn no_mutation_panics(at in 0usize..4000, cut in 0usize..30, put in "[\\PC\n]{0,12}") {
        let text = ALL;
        let boundary = |mut at: usize| { at = at.min(text.len()); while !text.is_char_boundary(at) { at -= 1 } at };
        let (start, end) = (boundary(at), boundary(at + cut));
        let mutated = format!("{}{put}{}", &text[..start], &text[end..]);
        match Scenario::parse("x", &mutated) {
            Ok(scenario) => { let _ = (scenario.plan(), scenario.notes()); }
            Err(error) => prop_assert!(error.line >= 1 && !error.message.is_empty()),
        }
    }
}
