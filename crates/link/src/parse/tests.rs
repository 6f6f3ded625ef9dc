use proptest::prelude::*;

use super::*;

fn spec(text: &str) -> DuplexSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    match text.parse::<DuplexSpec>() {
        Ok(_) => panic!("'{text}' was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_key_is_read() {
    let read = spec(
        "rate=20Mbit/s,queue=100kB,delay=10ms,jitter=5ms/normal,stall=40ms/4s,loss=5%/3,reorder=1%/5ms,\
         duplicate=0.5%,corrupt=0.25%",
    );
    assert_eq!(read.up, read.down);
    let expected = LinkSpec {
        rate: Some(BitRate(20_000_000)),
        burst: None,
        queue: QueueLimit::Bytes(ByteCount(100_000)),
        delay: Duration::from_millis(10),
        jitter: Some(Jitter { mean: Duration::from_millis(5), shape: Shape::Normal }),
        stall: Some(Stall { length: Duration::from_millis(40), every: Duration::from_secs(4) }),
        loss: LossModel::bursts(Ratio(0.05), 3.0).expect("possible"),
        loss_before_queue: false,
        reorder: Some(ReorderSpec { share: Ratio(0.01), hold: Duration::from_millis(5) }),
        duplicate: Ratio(0.005),
        corrupt: Ratio(0.0025),
    };
    assert_eq!(read.up, expected);
    // Every key of the table is read, and its example is valid.
    for (key, example, _) in KEYS {
        assert!(spec(&format!("{key}={example}")).up.value(key).is_some(), "{key}={example}");
    }
}

#[test]
fn keys_change_presets_in_one_direction_or_both() {
    let plain = spec("wifi-home");
    let changed = spec("wifi-home,loss=5%,delay=30ms,up.rate=2Mbit/s");
    assert_eq!(changed.down.loss, LossModel::Independent(Ratio(0.05)));
    assert_eq!(changed.up.rate, Some(BitRate(2_000_000)));
    assert_eq!(LinkSpec { loss: plain.down.loss, delay: plain.down.delay, ..changed.down }, plain.down);
    assert_eq!(spec("wifi-home,loss=none,jitter=none").up.loss, LossModel::None);
    assert_eq!(spec("loss=0%,jitter=0ms,reorder=0%/5ms,duplicate=0%"), DuplexSpec::default());
    assert!(matches!("dsl".parse::<LinkSpec>(), Err(SpecError::TwoDirections { .. })));
    assert_eq!("wifi-home".parse::<LinkSpec>(), Ok(plain.up));
}

#[test]
fn refusals_name_the_remedy() {
    for (text, remedy) in [
        ("wifi-hom", "did you mean 'wifi-home'?"),
        ("starlink-mars", "presets: ideal, ethernet"),
        ("loss=5%,wifi-home", "must come first"),
        ("los=5%", "did you mean 'loss'?"),
        ("up.dleay=5ms", "did you mean 'delay'?"),
        ("sideways.delay=5ms", "keys: rate, queue"),
        ("delay=5", "write 5ms"),
        ("loss=5", "write 5%"),
        ("rate=20", "write 20Mbit/s or 20kbit/s"),
        ("queue=50", "write 50kB or 50B"),
        ("loss=101%", "0% to 100%"),
        ("rate=0bit/s", "rate=none"),
        ("queue=0packets", "1 to 32768"),
        ("queue=1.5packets", "50packets"),
        ("queue=0packets,rate=1Mbit/s", "only with rate=20Mbit/s/15kB"),
        ("rate=1Mbit/s/15", "write 15kB or 15B"),
        ("rate=1Mbit/s/100B", "1514B to 1GB"),
        ("queue=red", "red/5/15/10%"),
        ("queue=red/5/15/10", "write 10%"),
        ("queue=red/15/5/10%", "the second above it"),
        ("queue=red/5/15/10%/gently", "red/5/15/10%/gentle"),
        ("queue=drd/10", "drd/10/50"),
        ("queue=drd/0/50", "at least 1 packet"),
        ("queue=drd/-1/50", "drd/10/50"),
        ("queue=drd/10/50000", "at most 16384"),
        ("delay=2min", "at most 60s"),
        ("delay=-1ms", "0s"),
        ("jitter=5ms/parteo", "did you mean 'pareto'?"),
        ("loss=5%/x", "5%/15ms"),
        ("loss=5%/before", "5%/15ms"),
        ("loss=1%/2%/3%/before-queue", "/before-queue behind it"),
        ("loss=90%/2", "at least 9.00 packets"),
        ("loss=5%/0.5", "at least 1.00 packets"),
        ("loss=100%/2", "loss=100%"),
        ("loss=5%/NaN", "at least 1.00"),
        ("loss=1%/2%/3%", "p/r/bad/good"),
        ("loss=0%/0%/1%/1%", "never changes"),
        ("stall=40ms", "40ms/4s"),
        ("stall=4s/40ms", "shorter than the period"),
        ("reorder=1%", "1%/5ms"),
        ("delay=1ms,delay=2ms", "given twice"),
        ("", "presets"),
        ("=", "keys"),
        (&"x".repeat(5000), "too long"),
    ] {
        let said = refusal(text);
        assert!(said.contains(remedy), "'{text}' said: {said}");
        assert!(said.len() < 300, "{said}");
    }
}

#[test]
fn presets_and_changed_presets_round_trip() {
    for preset in &PRESETS {
        assert_eq!(preset.spec().to_string(), preset.name);
        let changed = spec(&format!("{},up.delay=33ms", preset.name));
        assert_eq!(spec(&changed.to_string()), changed, "{changed}");
    }
    assert_eq!(spec("loss=5%/3,delay=1.5ms").to_string(), "delay=1.5ms,loss=5%/3");
    for text in [
        "rate=6.48Mbit/s/15kB,queue=810kB",
        "rate=1Mbit/s/15kB,queue=0packets",
        "rate=10Mbit/s,queue=red/5/15/10%",
        "rate=10Mbit/s,queue=red/5/15/10%/gentle",
        "rate=124kbit/s,queue=drd/10/50",
        "rate=124kbit/s,loss=5%/before-queue",
        "loss=5%/3/before-queue",
        "loss=5%/15ms/before-queue",
    ] {
        assert_eq!(spec(text).to_string(), text);
    }
    assert_eq!(spec("rate=1Mbit/s/15kB,up.rate=none").up.burst, None);
    assert!(!spec("nistnet,loss=5%").up.loss_before_queue);
    assert_eq!(spec("loss=0%/before-queue,up.loss=none/before-queue"), DuplexSpec::default());
    assert_eq!(spec("up.loss=1.754%/33%/90%/0.1%").to_string(), "up.loss=1.754%/33%/90%/0.1%");
}

/// A share in percent with up to six decimals.
fn share() -> impl Strategy<Value = Ratio> {
    (0u32..=100_000_000).prop_map(|millionths| Ratio(f64::from(millionths) / 1e6 / 100.0))
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_micros)
}

prop_compose! {
    fn link()(
        rate in prop::option::of(1_000u64..10_000_000_000),
        burst in prop::option::of(1514u64..1_000_000_000),
        queue in prop_oneof![
            (1u32..=32_768).prop_map(QueueLimit::Packets),
            (1u32..8_000, 1u32..8_000, share(), any::<bool>()).prop_map(|(min, more, share, gentle)|
                QueueLimit::Red(RedSpec { min, max: min + more, share, gentle })),
            (1u32..8_000, 1u32..8_000).prop_map(|(min, more)| QueueLimit::Drd(DrdSpec { min, max: min + more })),
            (64u64..1_000_000_000).prop_map(|b| QueueLimit::Bytes(ByteCount(b))),
        ],
        delay in (0u64..60_000_000_000).prop_map(Duration::from_nanos),
        jitter in prop::option::of((millis(1..60_000_000), 0usize..4)),
        stall in prop::option::of((millis(1..1_000_000), millis(1_000_000..3_600_000_000))),
        loss in prop_oneof![
            Just(LossModel::None),
            share().prop_map(|s| loss(&format!("{}%", s.percent())).unwrap_or_default()),
            (share(), 1u32..50).prop_map(|(s, burst)| LossModel::bursts(s, f64::from(burst) / 4.0).unwrap_or_default())
                .prop_filter("bursts of nothing are no loss", |m| *m == LossModel::None || m.mean().0 > 0.0),
            (share(), millis(1..60_000_000)).prop_map(|(s, bad)| LossModel::fades(s, bad).unwrap_or_default()),
            (millis(30..60_000_000), millis(30..60_000_000), share(), share()).prop_map(|(good, bad, loss_bad, loss_good)|
                LossModel::Fading { good, bad, loss_bad, loss_good }),
            (share(), share(), share(), share()).prop_map(|(p, r, loss_bad, loss_good)|
                LossModel::GilbertElliott { p, r: Ratio(r.0.max(0.001)), loss_bad, loss_good }),
        ],
        before_queue in any::<bool>(),
        reorder in prop::option::of((share().prop_filter("some", |s| s.0 > 0.0), millis(0..60_000_000))),
        duplicate in share(),
        corrupt in share(),
    ) -> LinkSpec {
        LinkSpec {
            rate: rate.map(BitRate),
            burst: rate.and(burst).map(ByteCount),
            queue,
            delay,
            jitter: jitter.map(|(mean, k)| Jitter { mean, shape: Shape::ALL[k] }),
            stall: stall.map(|(length, every)| Stall { length, every }),
            loss,
            loss_before_queue: before_queue && loss != LossModel::None,
            reorder: reorder.map(|(share, hold)| ReorderSpec { share, hold }),
            duplicate,
            corrupt,
        }
    }
}

/// Equal up to the last place of the probabilities, which are written in decimal percent.
fn same(a: &LinkSpec, b: &LinkSpec) -> bool {
    let near = |x: Ratio, y: Ratio| (x.0 - y.0).abs() < 1e-10;
    let losses = match (a.loss, b.loss) {
        (LossModel::Independent(x), LossModel::Independent(y)) => near(x, y),
        (
            LossModel::GilbertElliott { p, r, loss_bad, loss_good },
            LossModel::GilbertElliott { p: p2, r: r2, loss_bad: b2, loss_good: g2 },
        ) => near(p, p2) && near(r, r2) && near(loss_bad, b2) && near(loss_good, g2),
        (
            LossModel::Fading { good, bad, loss_bad, loss_good },
            LossModel::Fading { good: good2, bad: bad2, loss_bad: b2, loss_good: g2 },
        ) => good == good2 && bad == bad2 && near(loss_bad, b2) && near(loss_good, g2),
        (x, y) => x == y,
    };
    let reorders = match (a.reorder, b.reorder) {
        (Some(x), Some(y)) => near(x.share, y.share) && x.hold == y.hold,
        (x, y) => x == y,
    };
    let queues = match (a.queue, b.queue) {
        (QueueLimit::Red(x), QueueLimit::Red(y)) => {
            near(x.share, y.share) && RedSpec { share: y.share, ..x } == y
        }
        (x, y) => x == y,
    };
    let plain = |s: &LinkSpec| LinkSpec {
        queue: QueueLimit::default(),
        loss: LossModel::None,
        reorder: None,
        duplicate: Ratio(0.0),
        corrupt: Ratio(0.0),
        ..*s
    };
    plain(a) == plain(b)
        && queues
        && losses
        && reorders
        && near(a.duplicate, b.duplicate)
        && near(a.corrupt, b.corrupt)
}

proptest! {
    #[test]
    fn what_is_written_reads_back(up in link(), down in link()) {
        for spec in [DuplexSpec { up, down }, DuplexSpec { up, down: up }] {
            let text = spec.to_string();
            let back = text.parse::<DuplexSpec>();
            prop_assert!(back.is_ok(), "{}: {:?}", text, back);
            let back = back.expect("checked");
            prop_assert!(same(&back.up, &spec.up) && same(&back.down, &spec.down), "{}", text);
        }
    }

    #[test]
    fn no_text_panics(text in "[a-z.=,/%0-9 ]{0,60}|.{0,60}") {
        let _ = text.parse::<DuplexSpec>();
        let _ = text.parse::<LinkSpec>();
    }

    #[test]
    fn no_value_panics(key in 0usize..9, value in "[0-9.a-zA-Z/%]{0,24}") {
        let _ = format!("{}={value}", KEYS[key].0).parse::<DuplexSpec>();
    }
}
