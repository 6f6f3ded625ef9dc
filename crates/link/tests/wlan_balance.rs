//! Counters of the 802.11 cell balance under all operations, no packet is invented, and every run repeats exactly.

use std::time::Duration;

use antiphon_core::{Instant, Ratio};
use antiphon_link::wlan::{
    Access, AccessMode, Category, Cell, CellSpec, Destination, DozeAgain, Fade, Phy, PowerSave, Rate,
    RateControl, Scan, StationId, StationSpec,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Command {
    Offer { from: u16, to: Option<u16>, category: usize, len: usize },
    Poll,
    Advance(u64),
    Drain,
}

const STATIONS: u16 = 4;

fn command() -> impl Strategy<Value = Command> {
    let to = prop_oneof![4 => (0..STATIONS).prop_map(Some), 1 => Just(None)];
    let offer = (0..STATIONS, to, 0usize..4, 0usize..2000);
    prop_oneof![
        6 => offer.prop_map(|(from, to, category, len)| Command::Offer { from, to, category, len }),
        2 => Just(Command::Poll),
        3 => (0u64..3_000).prop_map(Command::Advance),
        1 => Just(Command::Drain),
    ]
}

/// A cell with every impairment.
fn spec(access_point: bool, retry_limit: u8, edca: [bool; 4]) -> CellSpec {
    let station = |edca: bool| StationSpec {
        rate: if edca { Rate::Ofdm54 } else { Rate::Dsss11 },
        access: if edca { AccessMode::Edca(Access::EDCA) } else { AccessMode::Dcf(Access::DCF) },
        retry_limit,
        queue: 3,
        frame_error: Ratio(0.2),
        frame_error_spread: 2.0,
        rate_control: if edca { RateControl::Minstrel } else { RateControl::Arf },
        lowest_rate: Rate::Dsss1,
        fade: Some(Fade { mean: Duration::from_millis(2), share: Ratio(0.2) }),
        scan: None,
        power_save: None,
    };
    let access_point = access_point.then_some(StationId(1));
    let mut stations = edca.map(station).to_vec();
    if access_point.is_some() {
        let scan = Scan { length: Duration::from_millis(5), every: Duration::from_millis(20) };
        (stations[0].scan, stations[3].scan) = (Some(scan), Some(scan));
        let listen = Duration::from_millis(5);
        let again = DozeAgain { idle: Duration::from_millis(2), beacon_loss: Ratio(0.3) };
        stations[2].power_save = Some(PowerSave {
            listen,
            hold: Duration::from_millis(1),
            again: Some(again).filter(|_| edca[2]),
        });
    }
    CellSpec { phy: Phy::ERP_ONLY, stations, access_point }
}

/// Packets delivered, by station, and packets refused.
#[derive(Default)]
struct Seen {
    delivered: [u64; STATIONS as usize],
    offered: u64,
}

fn check(cell: &Cell<Vec<u8>>, seen: &Seen) -> Result<(), TestCaseError> {
    prop_assert!(cell.balances(), "{:?}", cell.totals());
    for n in 0..STATIONS {
        let counters = cell.counters(StationId(n));
        prop_assert_eq!(counters.delivered, seen.delivered[usize::from(n)]);
        // A frame on the air is neither acknowledged nor failed yet.
        let concluded = counters.acknowledged + counters.multicast + counters.failures;
        prop_assert!((concluded..=concluded + 1).contains(&counters.attempts), "{:?}", counters);
        prop_assert!(counters.collisions <= counters.failures + counters.multicast);
        // Known when its frame ends, and a failure after the wait for it.
        prop_assert!(counters.unacknowledged <= counters.failures + 1);
        prop_assert!(counters.exhausted_after_arrival <= counters.exhausted.min(counters.unacknowledged));
    }
    let total = cell.totals();
    prop_assert_eq!(total.offered, seen.offered);
    prop_assert!(
        cell.poll_timeout().is_some() || total.queued + total.waiting == 0,
        "what waits asks to be polled"
    );
    Ok(())
}

proptest! {
    #[test]
    fn counters_balance_under_any_commands(
        commands in prop::collection::vec(command(), 1..150),
        seed: u64,
        access_point: bool,
        retry_limit in 0u8..=7,
        edca: [bool; 4],
    ) {
        let mut cell = Cell::new(&spec(access_point, retry_limit, edca), seed).expect("a possible cell");
        let (mut now, mut seen) = (Instant::ZERO, Seen::default());
        for command in commands {
            match command {
                Command::Offer { from, to, category, len } => {
                    let to = to.map_or(Destination::Multicast, |to| Destination::Station(StationId(to)));
                    seen.offered += 1;
                    let refused = cell.offer(now, StationId(from), to, Category::ALL[category], vec![0; len]);
                    prop_assert!(refused.is_some() || to != Destination::Station(StationId(from)));
                }
                Command::Advance(micros) => now += Duration::from_micros(micros),
                Command::Poll => {
                    if let Some((StationId(n), _)) = cell.poll(now) {
                        seen.delivered[usize::from(n)] += 1;
                    }
                }
                Command::Drain => {
                    while let Some((StationId(n), _)) = cell.poll(now) {
                        seen.delivered[usize::from(n)] += 1;
                    }
                    prop_assert!(cell.poll_timeout().is_none_or(|due| due > now));
                }
            }
            check(&cell, &seen)?;
        }
        while let Some(due) = cell.poll_timeout() {
            while let Some((StationId(n), _)) = cell.poll(due) {
                seen.delivered[usize::from(n)] += 1;
            }
        }
        check(&cell, &seen)?;
        let total = cell.totals();
        prop_assert_eq!(total.queued + total.waiting, 0, "an empty cell is quiet");
        prop_assert_eq!(total.received + total.relayed, total.acknowledged + total.exhausted_after_arrival);
        prop_assert_eq!(total.attempts, total.acknowledged + total.multicast + total.failures);
    }
}

/// Everything that is delivered in a busy second, polled at each event or every 7 ms.
fn trace(seed: u64, every_event: bool) -> String {
    let mut cell = Cell::new(&spec(true, 3, [true, false, true, false]), seed).expect("a possible cell");
    let mut seen = String::new();
    let mut take = |cell: &mut Cell<Vec<u8>>, until: Instant| {
        while let Some((at, station, packet)) = cell.poll_at(until) {
            seen += &format!("{at:?} {station:?} {}\n", packet.len());
        }
    };
    for n in 0..2000u64 {
        let now = Instant::from_nanos(n * 250_077);
        while let Some(at) = cell.poll_timeout().filter(|at| every_event && *at < now) {
            take(&mut cell, at);
        }
        let to =
            if n % 9 == 0 { Destination::Multicast } else { Destination::Station(StationId((n % 4) as u16)) };
        let category = Category::ALL[n as usize / 4 % 4];
        cell.offer(now, StationId((n * 7 % 4) as u16 ^ 1), to, category, vec![0; n as usize % 1500]);
        if n % 28 == 0 {
            take(&mut cell, now);
        }
    }
    take(&mut cell, Instant::from_millis(60_000));
    assert!(
        cell.totals().duplicates > 10 && cell.totals().exhausted_after_arrival > 10,
        "{:?}",
        cell.totals()
    );
    assert!(cell.totals().collisions > 30 && cell.totals().virtual_collisions > 10, "{:?}", cell.totals());
    seen
}

#[test]
fn runs_repeat_and_do_not_depend_on_when_they_are_polled() {
    assert_eq!(trace(1, false), trace(1, false));
    assert_eq!(trace(1, false), trace(1, true));
    assert_ne!(trace(1, false), trace(2, false));
}

#[test]
fn stations_do_not_change_each_others_draws() {
    // A fifth station that sends nothing changes nothing, whatever its channel draws.
    let run = |more: usize| {
        let mut spec = CellSpec::infrastructure(vec![StationSpec::default(); 3]);
        spec.stations[1].frame_error = Ratio(0.3);
        spec.stations.extend(vec![StationSpec { frame_error: Ratio(0.5), ..StationSpec::default() }; more]);
        let mut cell: Cell<Vec<u8>> = Cell::new(&spec, 3).expect("a possible cell");
        let mut out = Vec::new();
        for n in 0..500 {
            let now = Instant::from_millis(n * 2);
            let to = Destination::Station(StationId(1));
            cell.offer(now, StationId(2), to, Category::BestEffort, vec![0; 500]);
            out.extend(std::iter::from_fn(|| cell.poll_at(now)).map(|(at, ..)| at));
        }
        out
    };
    assert_eq!(run(0), run(2));
    assert!(run(0).len() > 300);
}

#[test]
fn unfetched_packets_are_bounded_and_counted() {
    let mut cell: Cell<Vec<u8>> =
        Cell::new(&CellSpec::ad_hoc(vec![StationSpec::default(); 2]), 1).expect("a cell");
    for n in 0..40_000 {
        let to = Destination::Station(StationId(1));
        cell.offer(Instant::from_millis(n), StationId(0), to, Category::BestEffort, Vec::new());
    }
    let counters = cell.counters(StationId(1));
    assert!(cell.balances() && counters.waiting == 32_768, "{counters:?}");
    // The last packet is still in flight.
    assert_eq!(counters.unclaimed, 40_000 - 1 - 32_768);
}
