//! Nodes of which there are several, and a stream for each.

use super::super::*;
use crate::setup::{MediumKind, NodeId};

const HALL: &str = r#"
title = "A hall with headsets"
duration = "10s"

[node.ap]
[node.headset]
copies = "$headsets"
receive-packet = { value = "10us", why = "measured" }

[cell.hall]
access-point = "ap"
stations = ["headset"]
queue = { value = "10packets", why = "measured" }

[cell.hall.station.headset]
queue = { value = "20packets", why = "measured, too" }

[stream.audio]
for-each = "headset"
transport = "rtp"
from = "ap"
to = "headset"
frame = { value = "652B", why = "CD" }
interval = "10ms"

[stream.all]
transport = "rtp"
from = "ap"
to = ["headset"]
frame = "652B"
interval = "10ms"

[sweep]
headsets = [2, 5]
"#;

#[test]
fn a_node_has_copies_and_each_has_its_stream() {
    let scenario = Scenario::parse("hall.toml", HALL).unwrap();
    let plan = scenario.plan();
    for (run, count) in plan.iter().zip([2, 5]) {
        let setup = scenario.setup(&run.point).unwrap();
        let names: Vec<String> = setup.nodes.iter().map(|node| node.name.clone()).collect();
        assert_eq!(names.len(), count + 1);
        assert_eq!(names[..3], ["ap", "headset-1", "headset-2"]);
        let MediumKind::Cell { nodes, spec } = &setup.media[0].kind else { panic!("a cell") };
        assert_eq!((nodes.len(), nodes[1]), (count + 1, NodeId(1)));
        assert!(spec.stations[1..].iter().all(|station| station.queue == 20), "{spec:?}");
        let streams: Vec<_> = setup.streams.iter().map(|one| (one.name.as_str(), one.to.clone())).collect();
        assert_eq!(streams[..2], [("audio-1", vec![NodeId(1)]), ("audio-2", vec![NodeId(2)])]);
        let group: Vec<NodeId> = (1..=count).map(NodeId).collect();
        assert_eq!(streams[count..], [("all", group)]);
    }
    // A number is listed once, however many copies read it.
    let notes = scenario.notes();
    for place in ["node.headset.receive-packet", "cell.hall.station.headset.queue", "stream.audio.frame"] {
        assert_eq!(notes.iter().filter(|note| note.place == place).count(), 1, "{place}");
    }
}

#[test]
fn records_are_counted_where_there_are_most_streams() {
    let many = HALL.replace("[2, 5]", "[1, 200]").replace("duration", "repetitions = 600\nduration");
    let error = Scenario::parse("hall.toml", &many).unwrap_err();
    assert!(error.message.contains("241200 results"), "{error}");
}

#[test]
fn mistakes_with_copies_name_the_remedy() {
    for (from, to, words) in [
        ("\"ap\"\nto = [", "\"headset\"\nto = [", "for-each = \"headset\""),
        ("for-each = \"headset\"", "for-each = \"phone\"", "unknown node 'phone'"),
        ("for-each = \"headset\"", "for-each = 3", "in quotes"),
        ("[2, 5]", "[2, 1001]", "1 to 1000"),
        ("[2, 5]", "[2, 0]", "1 to 1000"),
        ("[node.ap]", "[node.ap]\n[node.headset-2]", "[node.headset-2] has the name of a copy"),
        ("[stream.all]", "[stream.audio-1]", "[stream.audio-1] has the name of a copy"),
        ("station.headset]", "station.phone]", "'phone' is not a station"),
        ("stations = [\"headset\"]", "stations = [\"headset\", \"headset-1\"]", "listed twice"),
    ] {
        assert!(HALL.contains(from), "{from}");
        let error = Scenario::parse("hall.toml", &HALL.replace(from, to)).unwrap_err();
        assert!(error.message.contains(words), "{to}: {error}");
    }
}
