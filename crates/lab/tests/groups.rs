//! What a multicast, redundancy and repairs bring beside a stream to each receiver, by the scenarios that `docs/multicast.md` quotes.

use antiphon_lab::figures::StreamFigures;
use antiphon_lab::scenario::{Scenario, with_include};
use antiphon_lab::world::run as run_world;

const HOUSE: &str = include_str!("../scenarios/group-house.toml");
const GROUPS: &str = include_str!("../scenarios/groups.toml");
const SERIAL: &str = include_str!("../scenarios/serial-unicast.toml");

/// What a way to the members costs and brings.
#[derive(Debug)]
struct Way {
    transport: String,
    /// Put on the sender's line, for all receivers.
    bytes: f64,
    /// In the mean of the receivers.
    missing_percent: f64,
}

/// The ways of a scenario with so many members, each of which loses a tenth of what is sent to it.
fn ways(text: &str, members: usize) -> Vec<Way> {
    let text = with_include(text, "group-house.toml", HOUSE);
    let scenario = Scenario::parse("x.toml", &text)
        .and_then(|scenario| scenario.with_values("members", &[members.to_string()]))
        .and_then(|scenario| scenario.with_values("latency", &["80ms".to_string()]))
        .and_then(|scenario| scenario.with_repetitions(1))
        .expect("the scenario has these");
    let runs = scenario.plan().into_iter().filter(|run| run.point.contains(&("own".into(), "10%".into())));
    let way = |run: antiphon_lab::scenario::Run| {
        let all = run_world(&scenario.setup_of(&run).expect("a setup"), run.seed).expect("a world").streams;
        assert_eq!(all.len(), members);
        let sum = |figure: fn(&StreamFigures) -> Option<f64>| {
            all.iter().map(|(_, of)| figure(of).expect("measured")).sum::<f64>()
        };
        // A group's bytes stand at each of its members.
        let is_group = all.iter().any(|(name, _)| name.contains('@'));
        let bytes = sum(|of| of.wire_bytes) / if is_group { members as f64 } else { 1.0 };
        let transport = run.point.iter().find(|(key, _)| key == "transport").expect("it is varied").1.clone();
        Way { transport, bytes, missing_percent: sum(|of| of.missing_percent) / members as f64 }
    };
    runs.map(way).collect()
}

#[test]
fn a_group_costs_one_stream_and_repairs_bring_what_is_lost() {
    let groups = ways(GROUPS, 4);
    let serial = ways(SERIAL, 4);
    let [plain, parity, repaired] = &groups[..] else { panic!("{groups:?}") };
    let [each, each_repaired] = &serial[..] else { panic!("{serial:?}") };
    assert_eq!([&*plain.transport, &*each_repaired.transport], ["rtp", "xtp"]);
    let times = |way: &Way| way.bytes / plain.bytes;
    // The same packets, and RTCP.
    assert!((3.95..4.05).contains(&times(each)), "{}", times(each));
    for unrepaired in [plain, each] {
        assert!((8.5..11.5).contains(&unrepaired.missing_percent), "{unrepaired:?}");
    }
    // A fifth of redundancy, and XTP's headers, which take 40 bytes and more.
    assert!((1.23..1.28).contains(&times(parity)), "{}", times(parity));
    assert!(parity.missing_percent < plain.missing_percent / 3.0, "{parity:?}");
    // Repairs of a group have a quarter of the sound's rate; those of a stream to each have what they need.
    assert!(repaired.missing_percent < plain.missing_percent / 4.0, "{repaired:?}");
    assert!(each_repaired.missing_percent < plain.missing_percent / 20.0, "{each_repaired:?}");
    // Coded repairs serve several members at once.
    assert!(times(repaired) < 1.4 && times(each_repaired) > 4.3, "{groups:?}, {serial:?}");
}
