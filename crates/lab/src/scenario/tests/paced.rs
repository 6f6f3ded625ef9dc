//! Streams that no clock sends, and what packets count.

use std::time::Duration;

use antiphon_core::Ratio;

use super::*;
use crate::setup::{Headers, Pacing, Unheard};

const TEXT: &str = r#"
title = "t"
duration = "60s"
[node.a]
send-control = "0ms"
receive-control = "0.7ms"
processors = 2
[node.b]
queue = "40packets"
priorities = true
[link.line]
between = ["a", "b"]
delay = "1ms"
[traffic.load]
kind = "bursts"
from = "a"
to = "b"
packets = 3
period = "10ms"
jitter = "5%"
held-up = "2ms"
payload = "100B"
[stream.voice]
transport = "xtp?reliability=full&wtimer=1s"
from = "a"
to = "b"
frame = "8B"
window = 4
total = "1KiB"
headers = "xtp-3.6"
timer = "162.6us"
timer-rounds = "down"
priority = 3
answers = true
unheard = { share = "5%", delivered = true }
"#;

fn changed(from: &str, to: &str) -> Result<Scenario, String> {
    Scenario::parse("t.toml", &TEXT.replace(from, to)).map_err(|error| error.to_string())
}

#[test]
fn paces_headers_and_costs_are_read() {
    let setup = read(TEXT).setup(&[]).unwrap();
    let cost = setup.nodes[0].cost;
    assert_eq!(
        (cost.send_control, cost.receive_control),
        (Some(Duration::ZERO), Some(Duration::from_micros(700)))
    );
    assert!(cost.apart && !setup.nodes[1].cost.apart && !setup.nodes[1].cost.tells_control());
    let waiting = |node: usize| (setup.nodes[node].queue, setup.nodes[node].priorities);
    assert_eq!((waiting(0), waiting(1)), ((1000, false), (40, true)));
    let voice = &setup.streams[0];
    assert_eq!(voice.content, Content::SelfPaced { frame: 8, count: 128, pacing: Pacing::Window(4) });
    assert_eq!((voice.headers, voice.timer), (Headers::Xtp36, Some(Duration::from_nanos(162_600))));
    assert_eq!((voice.timer_rounds_down, voice.priority, voice.answers), (true, 3, true));
    assert_eq!(voice.unheard, Unheard { share: Ratio(0.05), delivered: true });
    let TrafficKind::Bursts { jitter, .. } = setup.traffic[0].kind else { panic!("it is bursts") };
    assert_eq!((jitter, setup.traffic[0].held_up), (Ratio(0.05), Duration::from_millis(2)));
    let silent = changed("packets = 3", "packets = 0").unwrap().setup(&[]).unwrap();
    assert!(silent.traffic.is_empty());
    let ping =
        changed("window = 4\ntotal = \"1KiB\"", "ping-pong = true\ncount = 9\nreflected = true").unwrap();
    let content = ping.setup(&[]).unwrap().streams[0].content.clone();
    assert_eq!(content, Content::SelfPaced { frame: 8, count: 9, pacing: Pacing::PingPong });
}

#[test]
fn a_rate_gives_the_interval() {
    let voice =
        changed("frame = \"8B\"\nwindow = 4\ntotal = \"1KiB\"", "frame = \"64B\"\nrate = \"64kbit/s\"")
            .unwrap();
    let Content::Packets { interval, .. } = voice.setup(&[]).unwrap().streams[0].content else {
        panic!("packets")
    };
    assert_eq!(interval, Duration::from_millis(8));
    let error = changed("frame = \"8B\"\nwindow = 4\ntotal = \"1KiB\"", "frame = \"64B\"\nrate = \"0bit/s\"");
    assert!(error.unwrap_err().contains("another rate"));
}

#[test]
fn what_contradicts_itself_is_refused_with_the_remedy() {
    let refused = |from: &str, to: &str, remedy: &str| {
        let error = changed(from, to).unwrap_err();
        assert!(error.contains(remedy), "{to}: {error}");
    };
    refused("window = 4", "window = 4\nping-pong = true", "remove 'window'");
    refused("window = 4", "window = 4\ninterval = \"1ms\"", "remove 'interval'");
    refused("total = \"1KiB\"", "", "count");
    refused("total = \"1KiB\"", "total = \"1GB\"", "change 'total'");
    refused("xtp-3.6", "xtp-3.5", "xtp-3.6");
    refused("processors = 2", "processors = 3", "2");
    refused("share = \"5%\"", "share = \"5\"", "%");
    refused("wtimer=1s", "wtimer=1h", "10s");
}
