//! The server from outside, and every line of its text against the rules of OpenMetrics.

use std::collections::BTreeMap;

use super::*;
use crate::{DelayBasis, DelayStatus, DeviceStatus, ReceiveStatus, ReflectStatus, ReflectedTransport};
use crate::{LiveFigures, PicturesReceived, SendStatus, SkewFigures, TalkStatus};

/// Families by name with their samples: `name{labels}` and the value. Panics where a line breaks a rule of the format.
fn parsed(text: &str) -> BTreeMap<String, (String, Vec<(String, f64)>)> {
    let text = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    let mut families: BTreeMap<String, (String, Vec<(String, f64)>)> = BTreeMap::new();
    let mut current: Option<(String, String)> = None;
    for line in text.lines() {
        assert!(!line.is_empty() && !line.starts_with("# EOF"));
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            let [what, name, rest] = words[..] else { panic!("{line}") };
            match what {
                "TYPE" => {
                    assert!(["counter", "gauge", "info"].contains(&rest), "{line}");
                    assert!(!families.contains_key(name), "{name} comes twice");
                    families.insert(name.into(), (rest.into(), Vec::new()));
                    current = Some((name.into(), rest.into()));
                }
                "UNIT" => {
                    assert_eq!(current.as_ref().unwrap().0, name, "{line}");
                    assert!(name.ends_with(&format!("_{rest}")), "a name ends with its unit: {line}");
                }
                "HELP" => assert_eq!(current.as_ref().unwrap().0, name, "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (family, kind) = current.as_ref().expect("a type comes before its samples");
        let (name, value) = line.rsplit_once(' ').expect("a value");
        let suffix = match kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let bare = name.split('{').next().unwrap();
        assert_eq!(bare, format!("{family}{suffix}"), "{line}");
        assert!(bare.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()), "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(kind != "counter" || value >= 0.0, "{line}");
        families.get_mut(family).unwrap().1.push((name.into(), value));
    }
    families
}

/// The value of a sample, `name{labels}`.
fn value(text: &str, sample: &str) -> Option<f64> {
    let of = |(_, samples): (String, Vec<(String, f64)>)| samples;
    parsed(text).into_values().flat_map(of).find(|(name, _)| name == sample).map(|(_, value)| value)
}

fn device() -> DeviceStatus {
    DeviceStatus { server: "JACK", connected: true, xruns: 3, queue_ms: 5.0, ..DeviceStatus::default() }
}

fn received() -> ReceiveStatus {
    let skew =
        SkewFigures { median_ms: 1.0, p95_ms: 5.0, p99_9_ms: 40.0, worst_ms: 90.0, beyond_percent: 0.5 };
    ReceiveStatus {
        played_s: 12.5,
        packets_received: 1000,
        lost: 7,
        jitter_rfc3550_ms: Some(0.25),
        drift_ppm: Some(-55.0),
        live: LiveFigures {
            peer: Some("192.0.2.7:7710".into()),
            peak_dbfs: Some(-20.0),
            kbit_per_s: Some(8.0),
            ..LiveFigures::default()
        },
        device: Some(device()),
        pictures: Some(PicturesReceived { frozen_s: 2.5, skew: Some(skew), ..PicturesReceived::default() }),
        ..ReceiveStatus::default()
    }
}

fn call() -> MetricsState {
    let delay = DelayStatus {
        from_peer_ms: 40.0,
        to_peer_ms: 50.0,
        half_width_ms: 1.0,
        sum_half_width_ms: 1.0,
        network_round_trip_ms: 20.0,
        basis: DelayBasis::Symmetry,
    };
    let sent = SendStatus {
        sent_s: 12.0,
        rtt_ms: Some(20.0),
        remote_loss_percent: Some(1.0),
        remote_jitter_ms: Some(1.0),
        remote_latency_ms: Some(80.0),
        joined_members: Some(2),
        receivers: Some(3),
        worst_loss_percent: Some(3.0),
        backup: Some(true),
        device: Some(DeviceStatus { latency_ms: Some(4.0), ..device() }),
        live: received().live,
        ..SendStatus::default()
    };
    let received = ReceiveStatus { latency_ms: Some(60.0), ..received() };
    MetricsState::Talk(Box::new(TalkStatus {
        muted: false,
        sent,
        received,
        delay: Some(delay),
        parties: Some(Vec::new()),
    }))
}

fn reflected() -> MetricsState {
    let transport = |transport| ReflectedTransport {
        transport,
        address: "127.0.0.1:7710".into(),
        peers: 2,
        messages_returned: 10,
    };
    let transports = vec![transport("rtp"), transport("tcp")];
    MetricsState::Reflect(ReflectStatus { elapsed_s: 1.0, transports, alive: true, notes: Vec::new() })
}

#[test]
fn every_line_keeps_the_rules_and_units_are_base_units() {
    let text = figures::exposition(&MetricsState::Receive(received()), 0.05);
    for (sample, expected) in [
        ("antiphon_packets_lost_total", 7.0),
        ("antiphon_played_sound_seconds_total", 12.5),
        ("antiphon_jitter_seconds", 0.000_25),
        ("antiphon_clock_drift_ratio", -55e-6),
        ("antiphon_played_peak_ratio", 0.1),
        ("antiphon_received_bytes_per_second", 1000.0),
        ("antiphon_sender_present", 1.0),
        ("antiphon_state_age_seconds", 0.05),
        ("antiphon_device_xruns_total{end=\"sink\"}", 3.0),
    ] {
        let found = value(&text, sample).unwrap_or_else(|| panic!("{sample}\n{text}"));
        assert!((found - expected).abs() < 1e-9, "{sample}: {found}");
    }
    // What is not known yet is left out.
    assert_eq!(value(&text, "antiphon_playout_delay_seconds"), None);
    let text = figures::exposition(&call(), 0.0);
    assert_eq!(value(&text, "antiphon_mouth_to_ear_seconds{way=\"to_peer\"}"), Some(0.05));
    assert_eq!(value(&text, "antiphon_round_trip_seconds"), Some(0.02));
    assert_eq!(value(&text, "antiphon_device_xruns_total{end=\"source\"}"), Some(3.0));
    let text = figures::exposition(&reflected(), 0.0);
    assert_eq!(value(&text, "antiphon_messages_returned_total{transport=\"tcp\"}"), Some(10.0));
}

#[test]
fn the_page_lists_every_metric_and_no_other() {
    let page = include_str!("../../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `antiphon"));
    let listed: Vec<String> = rows.map(|row| format!("antiphon{}", row.split('`').next().unwrap())).collect();
    let metrics = figures::all();
    for metric in &metrics {
        let row = format!("| `{}` | {} |", metric.name, metric.kind.name());
        assert!(page.contains(&row), "{row}");
        assert!(metric.unit.is_empty() || metric.name.ends_with(&format!("_{}", metric.unit)), "{metric:?}");
        assert!(!metric.name.ends_with("_total") && !metric.help.is_empty(), "{metric:?}");
    }
    assert_eq!(listed.len(), metrics.len(), "{listed:?}");
    // Every one of them is told by some state that knows everything.
    let told = [figures::exposition(&call(), 0.0), figures::exposition(&reflected(), 0.0)].concat();
    for metric in metrics {
        assert!(told.contains(&format!("# TYPE {} ", metric.name)), "{metric:?}");
    }
}

#[test]
fn labels_and_help_are_escaped() {
    let mut text = text::Exposition::default();
    let metric = text::Metric { name: "a", kind: text::MetricKind::Gauge, unit: "", help: "one\n\\ two" };
    text.family(&metric, &[(&[("l", "x\"\\\n")], 1.0), (&[("l", "y")], f64::INFINITY)]);
    let text = text.finish();
    assert_eq!(
        text,
        "# TYPE a gauge\n# HELP a one\\n\\\\ two\na{l=\"x\\\"\\\\\\n\"} 1\na{l=\"y\"} +Inf\n# EOF\n"
    );
}

fn server() -> MetricsServer {
    MetricsServer::start(([127, 0, 0, 1], 0).into()).expect("loopback")
}

/// The server's answer to these bytes.
fn answer(server: &MetricsServer, bytes: &[u8]) -> String {
    let mut client = TcpStream::connect(server.address()).unwrap();
    // It may have hung up before it was told everything.
    let _it_may_not_listen = client.write_all(bytes);
    let mut text = String::new();
    let _it_may_reset = client.read_to_string(&mut text);
    text
}

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_scrape_gets_the_last_state() {
    let server = server();
    assert!(answer(&server, GET).starts_with("HTTP/1.1 503 "));
    server.tell(reflected());
    server.tell(MetricsState::Receive(received()));
    let text = answer(&server, GET);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert_eq!(value(body, "antiphon_packets_lost_total"), Some(7.0));
    let head = answer(&server, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn hostile_clients_are_refused_and_cost_the_next_one_nothing() {
    let server = server();
    server.tell(reflected());
    // One says nothing, one hangs up, one never ends its request, one sends no HTTP, and one does not read its answer.
    let silent = TcpStream::connect(server.address()).unwrap();
    drop(TcpStream::connect(server.address()).unwrap());
    let endless = [b"GET /metrics HTTP/1.1\r\nx: ".to_vec(), vec![b'a'; 100_000]].concat();
    let refusal = answer(&server, &endless);
    // Nothing is heard of it where the connection is reset, as it had more to say.
    assert!(refusal.is_empty() || refusal.starts_with("HTTP/1.1 431 "), "{refusal}");
    assert!(answer(&server, b"\x16\x03\x01\x00\n\n").starts_with("HTTP/1.1 400 "));
    assert!(answer(&server, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    let mut deaf = TcpStream::connect(server.address()).unwrap();
    deaf.write_all(GET).unwrap();
    assert!(answer(&server, GET).starts_with("HTTP/1.1 200 "));
    drop((silent, deaf));
}

#[test]
fn a_port_in_use_is_refused_with_a_remedy() {
    let first = server();
    let error = MetricsServer::start(first.address()).err().expect("refused");
    assert!(error.message.contains("--metrics"), "{error}");
    let address = first.address();
    // Dropping it frees the port at once.
    drop(first);
    MetricsServer::start(address).expect("free again");
}
