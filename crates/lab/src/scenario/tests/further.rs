use super::*;
use crate::setup::FurtherSpec;
use crate::world::World;
use antiphon_session::Joining;

const EXAMPLE: &str = include_str!("../../../scenarios/example-change-of-transport.toml");

#[test]
fn the_example_gives_reasons_and_is_a_world() {
    let scenario = read(EXAMPLE);
    assert!(scenario.notes().iter().all(|note| note.why.is_some()));
    let plan = scenario.plan();
    assert_eq!(plan.len(), 15);
    for run in &plan {
        let setup = scenario.setup(&run.point).expect("it was read");
        let moving = setup.streams.iter().find(|stream| stream.name == "moving").expect("its name");
        let begins: Vec<_> =
            moving.further.iter().map(|one| (one.transport.as_str(), one.at.as_secs())).collect();
        assert_eq!(begins, [("sctp", 15), ("tcp", 30), ("srp", 45)]);
        assert_eq!(moving.further[2].between, [NodeId(1), NodeId(3)]);
        World::new(&setup, 1).expect("a world");
    }
}

/// Sound from a to b, with further tables.
fn with(more: &str) -> String {
    format!(
        "title = \"x\"\nduration = \"2s\"\n[node.a]\n[node.b]\n[link.line]\nbetween = [\"a\", \"b\"]\nlink = \"ideal\"\n\
         [stream.audio]\ntransport = \"rtp\"\nfrom = \"a\"\nto = \"b\"\n{more}"
    )
}

#[test]
fn further_transports_have_the_streams_nodes_unless_they_name_others() {
    let scenario = read(&with(
        "switch.x = { transport = \"sctp?order=ordered\", at = \"1s\" }\nalso.y.transport = \"tcp\"",
    ));
    let between = [NodeId(0), NodeId(1)];
    let expected = [
        FurtherSpec {
            transport: "tcp".into(),
            query: Default::default(),
            between,
            at: Duration::ZERO,
            joining: Joining::Beside,
        },
        FurtherSpec {
            transport: "sctp".into(),
            query: "order=ordered".parse().unwrap(),
            between,
            at: Duration::from_secs(1),
            joining: Joining::Instead,
        },
    ];
    let setup = scenario.setup(&scenario.plan()[0].point).expect("it was read");
    assert_eq!(setup.streams[0].further, expected);
}

#[test]
fn what_cannot_be_added_to_a_stream_is_refused() {
    for (more, said) in [
        ("switch.x = { transport = \"sctp\" }", "'at'"),
        ("switch.x = { transport = \"sctp\", at = \"3s\" }", "2s"),
        ("switch.x = { transport = \"stcp\", at = \"1s\" }", "stcp"),
        ("also.x = { transport = \"rtp\", from = \"b\" }", "itself"),
        ("also.x = { transport = \"rtp\", to = \"nobody\" }", "nobody"),
        ("also.x = { transport = \"rtp\", way = \"c\" }", "'way'"),
        ("frame = \"200B\"\ninterval = \"10ms\"\nalso.x.transport = \"rtp\"", "only sound"),
    ] {
        let error = Scenario::parse("test.toml", &with(more)).expect_err(more).to_string();
        assert!(error.contains(said), "{more}: {error}");
    }
}
