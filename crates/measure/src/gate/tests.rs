use super::*;
use crate::figures::tests::figures;
use proptest::prelude::*;

fn gate(text: &str) -> Gate {
    text.parse().unwrap()
}

fn error(text: &str) -> String {
    text.parse::<Gate>().unwrap_err().to_string()
}

#[test]
fn failures_carry_the_measured_figure() {
    // 3000 packets, 30 lost, round trips of 20 ms and more.
    let figures = figures();
    assert_eq!(gate("loss<=1%, lost<31,received>=2970,p50>20ms").check(&figures), []);
    let failures = gate("loss<1%,p50<20ms,lost<5,late<=1%").check(&figures);
    let said: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(said[0], "loss<1%: measured 1%");
    assert!(said[1].starts_with("p50<20ms: measured 21."), "{}", said[1]);
    assert_eq!(said[2], "lost<5: measured 30");
    assert_eq!(said.len(), 3);
}

#[test]
fn what_was_not_measured_holds_nothing() {
    for text in ["one_way_p99<1s", "one_way_p99>0ms"] {
        let failures = gate(text).check(&figures());
        assert!(failures[0].to_string().ends_with("not measured"));
    }
}

#[test]
fn operators_at_the_bound() {
    let figures = figures();
    for (text, holds) in [("lost<30", false), ("lost<=30", true), ("lost>30", false), ("lost>=30", true)] {
        assert_eq!(gate(text).check(&figures).is_empty(), holds, "{text}");
        assert_eq!(gate(text).conditions()[0].to_string(), text);
    }
}

#[test]
fn refusals_name_the_remedy() {
    assert!(error("").contains("loss<0.1%"));
    assert!(error("p99=25ms").contains("p99<25ms"));
    assert!(error("p99<25").contains("write 25ms"));
    assert!(error("p99<25%").contains("not a unit of time"));
    assert!(error("loss<5ms").contains("not a unit of share"));
    let bare = error("late<5");
    assert!(bare.contains("5%") && bare.contains("late_packets"), "{bare}");
    assert!(error("lost<5%").contains("whole number"));
    assert!(error("jiter<5ms").contains("did you mean 'jitter'"));
    assert!(error(&"p99<1ms,".repeat(65)).contains("too long"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "([a-z0-9_]{0,8}[<>=]{0,2}[0-9.]{0,5}(ms|%|s)?,?){0,5}|.{0,60}") {
        let _ = text.parse::<Gate>();
    }

    #[test]
    fn what_is_shown_reads_the_same(which in 0..Gate::names().count(), bound in 0u32..100, sign in "[<>]=?") {
        let figure = FIGURES.iter().filter(|figure| figure.gate.is_some()).nth(which).unwrap();
        let text = format!("{}{sign}{bound}{}", figure.gate.unwrap(), suffix(figure.unit));
        prop_assert_eq!(gate(&text).conditions()[0].to_string(), text);
    }
}
