//! What makes advice sure: the bounds, the packets that are counted, ties, and what a draw says.

use super::*;

/// A run of a minute whose packets take what `delay` says, one way in milliseconds; `None`: lost on the way there.
fn run_of(name: &str, packets: u64, delay: impl Fn(u64) -> Option<f64>) -> Run {
    let mut log = log_of(packets as usize);
    for seq in 1..=packets {
        let sent = Instant::from_millis(5 * seq);
        log.on_sent(seq, sent);
        let Some(ms) = delay(seq) else { continue };
        let one_way = Duration::from_secs_f64(ms / 1e3);
        log.on_received(PacketArrival { one_way: Some(one_way), ..arrival(seq, sent + 2 * one_way) });
    }
    Run { multicast: true, ..run(log, name) }
}

/// The same, of which `per_mille` take `odd` instead of 5 ms, a few in every block.
fn odd_ones(name: &str, per_mille: u64, odd: Option<f64>) -> Run {
    run_of(name, 12_000, |seq| if (seq * 7) % 1_000 < per_mille { odd } else { Some(5.0) })
}

fn blocks_of(run: &Run) -> Blocks {
    Blocks::of(&[&run.log]).pop().unwrap()
}

fn meets(purpose: Purpose, run: &Run) -> Option<f64> {
    purpose.meets(&candidate(run), &blocks_of(run))
}

#[test]
fn the_probability_to_meet_a_bound_is_that_of_its_delay_and_share() {
    let good = odd_ones("rtp", 5, Some(27.0));
    for purpose in [Purpose::PlayTogether, Purpose::TvSound, Purpose::SendToMany] {
        assert!(meets(purpose, &good).is_some_and(|share| share > 0.99), "{purpose:?}");
    }
    // 1.5 % come after 27 ms: with a packet of 5 ms that is more than 30 from mouth to ear.
    let late = odd_ones("rtp", 15, Some(27.0));
    assert!(meets(Purpose::PlayTogether, &late).is_some_and(|share| share < 0.01));
    assert!(meets(Purpose::TvSound, &late).is_some_and(|share| share > 0.99));
    // 2.5 % come after 100 ms, or never.
    for odd in [Some(100.0), None] {
        let run = odd_ones("rtp", 25, odd);
        assert!(meets(Purpose::TvSound, &run).is_some_and(|share| share < 0.01), "{odd:?}");
        let many = meets(Purpose::SendToMany, &run).unwrap();
        assert!(if odd.is_some() { many > 0.99 } else { many < 0.01 }, "{odd:?}: {many}");
        assert_eq!(meets(Purpose::SendToMany, &Run { multicast: false, ..run }), None);
    }
    assert_eq!([Purpose::Record, Purpose::Talk].map(|purpose| meets(purpose, &good)), [None, None]);
}

#[test]
fn what_is_counted_is_what_would_make_it_worse_or_keeps_it_from_the_bound() {
    // 1 % after 26 ms, 2 % after 146 ms, 3 % never.
    let run = run_of("rtp", 12_000, |seq| match seq % 100 {
        0 => Some(26.0),
        1 | 2 => Some(146.0),
        3..6 => None,
        _ => Some(5.0),
    });
    let mut total = blocks_of(&run).total();
    let counted = |purpose: Purpose, total: &Sums, met: bool, delay: Option<f64>, reliable: bool| {
        let candidate = Candidate { reliable, ..candidate(&run) };
        let weight = Weight { cost: 0.0, met, promised: false, delay_ms: delay };
        purpose.events(&candidate, &weight)(total)
    };
    for (purpose, met, delay, expected) in [
        (Purpose::PlayTogether, true, Some(24.0), 6),
        (Purpose::PlayTogether, true, Some(30.0), 5),
        // Within 25 ms, as a packet takes 5.
        (Purpose::PlayTogether, false, Some(160.0), 6),
        (Purpose::TvSound, false, Some(70.0), 5),
        (Purpose::Talk, true, Some(160.0), 3),
        // Within 145 ms.
        (Purpose::Talk, false, Some(400.0), 5),
        (Purpose::Record, true, None, 3),
        (Purpose::SendToMany, true, None, 3),
    ] {
        let counted = counted(purpose, &total, met, delay, false);
        assert_eq!(counted, expected * 120, "{purpose:?} {met} {delay:?}");
    }
    total.expired = 100;
    assert_eq!(counted(Purpose::Record, &total, true, None, true), 260, "a recording lets none expire");
    assert_eq!(counted(Purpose::Record, &total, true, None, false), 360);
}

fn weight(cost: f64, met: bool, promised: bool) -> Weight {
    Weight { cost, met, promised, delay_ms: None }
}

#[test]
fn a_draw_agrees_unless_another_is_better_by_more_than_the_margin() {
    let taken = Taken { at: 0, ties: vec![0, 1], margin: 1.0 };
    let stands =
        |other: Weight| taken.stands(&[weight(5.0, true, true), weight(6.0, true, true), other], true);
    assert!(stands(weight(5.0, true, true)) && stands(weight(4.5, true, true)), "within the margin");
    assert!(!stands(weight(3.9, true, true)));
    assert!(stands(weight(3.9, false, true)), "it does not meet the bound");
    assert!(stands(weight(3.9, true, false)), "it promises less");
    let unmet = [weight(5.0, false, true), weight(6.0, true, true), weight(9.0, true, true)];
    assert!(!taken.stands(&unmet, true), "the one that is taken must meet the bound");
    // Where none met it, a draw agrees in which none does.
    assert!(!taken.stands(&unmet, false));
    assert!(taken.stands(&unmet.map(|one| Weight { met: false, ..one }), false));
}

#[test]
fn those_tie_that_the_draws_do_not_tell_apart_often() {
    let weights = [weight(5.0, true, false), weight(2.0, true, false), weight(4.0, false, false)];
    let draws = |alike: usize| -> Vec<Vec<Weight>> {
        let near = [weight(2.9, true, false), weight(2.0, true, false), weight(2.0, true, false)];
        (0..100).map(|n| if n < alike { near } else { weights }.to_vec()).collect()
    };
    let of = |alike| {
        let taken = Taken::of(&weights, &draws(alike), 1, 1.0);
        (taken.at, taken.ties)
    };
    // The last does not meet the bound, whatever the draws say.
    assert_eq!(of(5), (1, vec![1]), "in 5 of 100 only");
    assert_eq!(of(6), (0, vec![0, 1]), "the simplest of those that tie");
}

#[test]
fn of_equals_the_quicker_is_the_best() {
    let [slow, quick] = [16.0, 10.0].map(|rtt_ms| measured("rtp", Path { rtt_ms, ..MINUTE }));
    let candidates = [&slow, &quick].map(candidate);
    let equal = weight(1.0, true, true);
    assert_eq!(best_of(&candidates, &[equal, equal]), Some(1));
    assert_eq!(best_of(&candidates, &[equal, weight(1.0, true, false)]), Some(0), "the one that promises it");
    assert_eq!(
        best_of(&candidates, &[equal, weight(0.5, false, true)]),
        Some(0),
        "the one that meets the bound"
    );
}

#[test]
fn ten_blocks_that_hold_a_loss_are_enough_to_tell() {
    for (holding, tells) in [(9, false), (10, true)] {
        let lost = |seq: u64| seq % 200 == 100 && seq / 200 < holding;
        let run = run_of("rtp", 12_000, |seq| (!lost(seq)).then_some(5.0));
        let advice = advise_for(Purpose::TvSound, &[candidate(&run)]).unwrap();
        assert_eq!(advice.confidence.is_some(), tells, "{advice:?}");
        // One loss in 200 packets of a sixth of the blocks is far from the bound, but nothing is certain.
        assert!(advice.confidence.is_none_or(|sure| sure == 0.999), "{advice:?}");
    }
}

/// A few seconds in each of which a packet is lost, and in the first `bad` of them every `nth`: draws of so few and unlike
/// blocks alone would be too sure.
fn skewed(name: &str, bad: u64, nth: u64) -> Run {
    run_of(name, 12 * 200, |seq| {
        let (second, place) = ((seq - 1) / 200, (seq - 1) % 200);
        let lost = place == 100 || second < bad && place % nth == 0;
        (!lost).then_some(5.0)
    })
}

#[test]
fn advice_is_no_surer_than_its_blocks_allow() {
    let mut told = 0;
    for (bad, nth) in (1..5).flat_map(|bad| [3, 4, 6, 8, 12, 20, 30, 40].map(|nth| (bad, nth))) {
        let runs = [skewed("rtp", bad, nth), skewed("srp", bad, nth - 1)];
        let candidates = runs.each_ref().map(candidate);
        let blocks = Blocks::of(&candidates.map(|one| one.log));
        for purpose in [Purpose::PlayTogether, Purpose::TvSound, Purpose::SendToMany] {
            let advice = advise_for(purpose, &candidates).unwrap();
            let meets = [0, 1].map(|at| purpose.meets(&candidates[at], &blocks[at]).unwrap());
            let at = usize::from(advice.transport == "srp");
            let most = if advice.met { meets[at] } else { 1.0 - meets[0].max(meets[1]) };
            told += usize::from(advice.confidence.is_some());
            let within = advice.confidence.is_none_or(|sure| sure <= most + 0.0005);
            assert!(within, "{bad} with one in {nth}: {meets:?} {advice:?}");
        }
    }
    assert!(told > 50, "{told}");
}

#[test]
fn talking_is_rated_with_its_delay() {
    let met = |missing, delay| Purpose::Talk.is_met_by(missing, Some(delay));
    // With concealment R falls below 70 at some 8 % within 100 ms; a longer delay leaves less for losses.
    let most = |delay: f64| (0..200).map(|n| f64::from(n) / 10.0).take_while(|one| met(*one, delay)).count();
    let r = |missing, delay| {
        crate::emodel::rating(crate::emodel::CodecImpairment::G711_CONCEALED, delay, missing, 1.0)
    };
    for delay in [0.0, 100.0, 150.0] {
        let first = most(delay) as f64 / 10.0;
        assert!(r(first, delay) < 70.0 && r(first - 0.1, delay) >= 70.0, "{first} % at {delay} ms");
    }
    assert!(most(150.0) < most(0.0), "{} {}", most(150.0), most(0.0));
}

#[test]
fn the_bounds_of_each_purpose_are_told() {
    let all = Purpose::ALL;
    let longest = all.map(Purpose::longest_mouth_to_ear_ms);
    assert_eq!(longest, [Some(30.0), Some(80.0), None, Some(150.0), None]);
    assert_eq!(all.map(Purpose::counts_missing_at_ms), [None, Some(70.0), None, None, None]);
    let most = all.map(|purpose| purpose.most_missing_percent().map(|share| (share * 1e6).round() / 1e6));
    assert_eq!(most, [Some(1.0), Some(1.8), Some(0.0), None, Some(1.8)]);
}
