//! Effect of separate streams on channel groups, by the scenario that `docs/channel-groups.md` quotes.

use antiphon_lab::figures::StreamFigures;
use antiphon_lab::scenario::Scenario;
use antiphon_lab::world::run as run_world;

const TEXT: &str = include_str!("../scenarios/channel-groups.toml");

/// The figures at one loss rate, on one stream and on separate streams.
fn figures(loss: &str) -> [StreamFigures; 2] {
    figures_of(loss, 0)
}

/// The same, from another seed.
fn figures_of(loss: &str, more: u64) -> [StreamFigures; 2] {
    let scenario = Scenario::parse("channel-groups.toml", TEXT)
        .and_then(|scenario| scenario.with_values("loss", &[loss.to_string()]))
        .and_then(|scenario| scenario.with_repetitions(1))
        .expect("the scenario has these");
    let figures = scenario.plan().into_iter().map(|run| {
        run_world(&scenario.setup(&run.point).expect("a setup"), run.seed + more)
            .expect("a world")
            .streams
            .remove(0)
            .1
    });
    let figures: Vec<StreamFigures> = figures.collect();
    figures.try_into().expect("two transports")
}

#[test]
fn a_group_on_a_stream_of_its_own_does_not_wait_for_another() {
    let [one, own] = figures("5%");
    let value = |figure: Option<f64>| figure.expect("frames arrived");
    // All losses are repaired; the same losses, repaired in the same way.
    assert_eq!((one.lost_percent, own.lost_percent), (Some(0.0), Some(0.0)));
    let repaired = value(one.retransmissions) / value(own.retransmissions);
    assert!((0.85..1.15).contains(&repaired), "{repaired}");
    // On one stream each repair delays both groups, so that more sound waits, beyond the 2 ms of the link, and more is
    // late; a lost packet itself is late in both. Over four seeds the shares made up are as 1 to 0.71.
    let waits = (value(own.delay_mean_ms) - 2.0) / (value(one.delay_mean_ms) - 2.0);
    let made_up = |seed| {
        let [one, own] = figures_of("5%", seed);
        value(own.concealed_percent) / value(one.concealed_percent)
    };
    let made_up = (0..4).map(made_up).sum::<f64>() / 4.0;
    assert!(waits < 0.75 && (0.4..0.8).contains(&made_up), "{waits} {made_up}");
    assert_eq!(one.reordered, Some(0.0));
    // Without losses nothing waits.
    for figures in figures("0%") {
        assert_eq!((figures.delay_p99_ms, figures.concealed_percent), (Some(2.0), Some(0.0)));
    }
}
