//! Traffic over an emulated link, the same for every kind of emulator.

use std::time::Duration;

use antiphon::link::Counters;
use antiphon::net::emulator::{RouterReport, Slowest, StreamReport, UdpReport};
use serde_json::{Value, json};

use crate::grid::{Align, Cell, Grid, Tone};

/// Counters of all flows.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    flows: Vec<Flow>,
    /// Packets that never reached a link or were refused after it: JSON key, text, count.
    beside: Vec<(&'static str, &'static str, u64)>,
}

#[derive(Clone, Debug)]
struct Flow {
    name: String,
    up: Counters,
    down: Counters,
    ended: bool,
    slowest: Option<Slowest>,
}

impl Flow {
    fn new(name: impl ToString, up: Counters, down: Counters, ended: bool) -> Self {
        Flow { name: name.to_string(), up, down, ended, slowest: None }
    }
}

impl From<UdpReport> for Traffic {
    fn from(report: UdpReport) -> Self {
        let unsent = report.flows.iter().map(|flow| flow.unsent).sum();
        let flows = report.flows.iter().map(|flow| Flow {
            slowest: flow.slowest,
            ..Flow::new(flow.client, flow.up, flow.down, flow.ended)
        });
        Traffic {
            flows: flows.collect(),
            beside: vec![
                ("refused", "datagrams of clients beyond --max-flows, refused", report.refused),
                ("over_budget", "datagrams dropped because the memory limit was reached", report.over_budget),
                ("unsent", "datagrams that crossed the link but were refused by the kernel", unsent),
            ],
        }
    }
}

impl From<StreamReport> for Traffic {
    fn from(report: StreamReport) -> Self {
        let flows = report.connections.iter().map(|one| Flow::new(one.client, one.up, one.down, one.ended));
        Traffic {
            flows: flows.collect(),
            beside: vec![("refused", "connections beyond --max-flows, refused", report.refused)],
        }
    }
}

impl From<RouterReport> for Traffic {
    fn from(report: RouterReport) -> Self {
        let lanes = &report.lanes;
        let flows = lanes.iter().map(|lane| Flow::new("all traffic", lane.up, lane.down, false));
        Traffic {
            flows: flows.collect(),
            beside: vec![
                (
                    "ignored",
                    "neighbour discovery messages, not sent over the link",
                    lanes.iter().map(|l| l.ignored).sum(),
                ),
                (
                    "rejected",
                    "packets that crossed the link but were refused by the kernel",
                    lanes.iter().map(|l| l.rejected).sum(),
                ),
                (
                    "over_budget",
                    "packets dropped because the memory limit was reached",
                    lanes.iter().map(|l| l.over_budget).sum(),
                ),
            ],
        }
    }
}

impl Traffic {
    /// Also knows the slowest datagrams of an `earlier` report, of the same flows.
    pub fn keep_slowest(&mut self, earlier: &Traffic) {
        for (flow, before) in self.flows.iter_mut().zip(&earlier.flows).filter(|(a, b)| a.name == b.name) {
            flow.slowest = before.slowest.map(|slowest| slowest.or(flow.slowest)).or(flow.slowest);
        }
    }

    /// Everything on one line, for progress.
    pub fn line(&self) -> String {
        let sum = |read: fn(&Flow) -> u64| self.flows.iter().map(read).sum::<u64>();
        let way = |offered: u64, dropped: u64| format!("{offered} offered, {dropped} dropped");
        let flows = self.flows.iter().filter(|flow| !flow.ended).count();
        format!(
            "{flows} flow{}; up {}; down {}",
            if flows == 1 { "" } else { "s" },
            way(sum(|f| f.up.offered), sum(|f| f.up.dropped())),
            way(sum(|f| f.down.offered), sum(|f| f.down.dropped())),
        )
    }

    /// The balance of every flow and direction: offered + copies = delivered + lost + overflowed + on the way.
    pub fn table(&self) -> Grid {
        let mut grid = Grid::new([vec![Align::Left], vec![Align::Right; 6]].concat());
        let head = ["flow", "offered", "copies", "delivered", "lost", "overflow", "on way"];
        grid.row(head.map(|text| Cell::new(text, Tone::Head)));
        for flow in &self.flows {
            grid.title(Cell::from(flow.name.as_str()));
            for (way, counters) in [("up", flow.up), ("down", flow.down)] {
                let numbers = [
                    counters.offered,
                    counters.duplicated,
                    counters.delivered,
                    counters.lost,
                    counters.overflowed,
                    counters.queued + counters.in_flight,
                ];
                let numbers = numbers.map(|number| Cell::from(number.to_string()));
                grid.row([Cell::from(format!("  {way}"))].into_iter().chain(numbers));
                if !counters.balances() {
                    grid.title(Cell::new("  does not balance", Tone::Bad));
                }
            }
        }
        grid
    }

    /// Facts that are not in the table.
    pub fn notes(&self) -> Vec<String> {
        let told = self.beside.iter().filter(|(.., count)| *count > 0);
        let mut notes: Vec<String> = told.map(|(_, words, count)| format!("{count} {words}")).collect();
        if self.flows.is_empty() {
            notes.push("No traffic.".into());
        }
        notes
    }

    /// Adds what came from clients that may not send.
    pub fn add_denied(&mut self, denied: u64) {
        self.beside.push((
            "denied",
            "packets and connections from addresses outside --allow, dropped",
            denied,
        ));
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let flow = |(number, flow): (usize, &Flow)| {
            let mut record = json!({
                "flow": number,
                "client": flow.name,
                "ended": flow.ended,
                "up": counters(&flow.up),
                "down": counters(&flow.down),
            });
            if let Some(Slowest { came, in_link, held_up }) = flow.slowest {
                let millis = |time: Duration| time.as_secs_f64() * 1e3;
                record["slowest"] = json!({
                    "at_s": came.as_nanos() as f64 / 1e9,
                    "in_link_ms": millis(in_link),
                    "held_up_ms": millis(held_up),
                });
            }
            record
        };
        let mut record = json!({ "flows": self.flows.iter().enumerate().map(flow).collect::<Vec<_>>() });
        for (key, _, count) in &self.beside {
            record[*key] = (*count).into();
        }
        record
    }
}

fn counters(counters: &Counters) -> Value {
    json!({
        "offered": counters.offered,
        "duplicated": counters.duplicated,
        "delivered": counters.delivered,
        "lost": counters.lost,
        "overflowed": counters.overflowed,
        "queued": counters.queued,
        "in_flight": counters.in_flight,
        "corrupted": counters.corrupted,
        "held_back": counters.held_back,
        "offered_bytes": counters.offered_bytes,
        "delivered_bytes": counters.delivered_bytes,
        "balances": counters.balances(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Palette;

    fn traffic() -> Traffic {
        let up = Counters {
            offered: 1_234_567,
            delivered: 1_234_000,
            lost: 500,
            overflowed: 60,
            in_flight: 7,
            ..Counters::default()
        };
        let name = "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535".into();
        Traffic {
            flows: vec![Flow { name, up, down: Counters::default(), ended: false, slowest: None }],
            beside: vec![("refused", "refused", 3)],
        }
    }

    #[test]
    fn the_balance_fits_sixty_columns() {
        let text = traffic().table().render(60, Palette { coloured: false });
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("1234567") && !text.contains("balance"), "{text}");
        assert!(traffic().line().len() <= 78, "{}", traffic().line());
        assert_eq!(traffic().notes(), ["3 refused"]);
    }

    #[test]
    fn the_slowest_of_several_reports_is_kept() {
        let of = |in_link: u64, held_up: u64| {
            let mut traffic = traffic();
            let millis = Duration::from_millis;
            let came = antiphon::core::Instant::from_millis(7);
            traffic.flows[0].slowest =
                Some(Slowest { came, in_link: millis(in_link), held_up: millis(held_up) });
            traffic
        };
        let mut last = of(9, 0);
        last.keep_slowest(&of(8, 30));
        let told = &last.json()["flows"][0]["slowest"];
        assert_eq!(*told, json!({ "at_s": 0.007, "in_link_ms": 8.0, "held_up_ms": 30.0 }));
        last.keep_slowest(&traffic());
        assert_eq!(last.json()["flows"][0]["slowest"]["held_up_ms"], 30.0);
        assert!(traffic().json()["flows"][0].get("slowest").is_none());
    }

    #[test]
    fn what_does_not_balance_is_said() {
        let mut broken = traffic();
        broken.flows[0].up.lost += 1;
        assert!(broken.table().render(80, Palette { coloured: false }).contains("does not balance"));
        assert_eq!(broken.json()["flows"][0]["up"]["balances"], false);
    }
}
