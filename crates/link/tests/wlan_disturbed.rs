//! probe
#[path = "common/disturbed.rs"]
mod disturbed;
use disturbed::{Setting, run};
#[test]
fn probe() {
    for (name, senders, cw_min) in [("1/15", 1, 15), ("2/15", 2, 15), ("2/7", 2, 7), ("1/7", 1, 7)] {
        let mut line = String::new();
        for mbit in [10.0, 12.0, 14.0, 16.0, 18.0, 20.0] {
            let o = run(&Setting {
                senders,
                cw_min,
                disturbance_mbit_s: mbit,
                seconds: 220,
                ..Setting::default()
            });
            line += &format!(
                " {:.2}/{:.0}ms/c{:.1}%",
                o.loss_percent(),
                o.mean_delay * 1e3,
                100.0 * o.totals.collisions as f64 / o.totals.attempts as f64
            );
        }
        println!("{name}: {line}");
    }
    for slot in [20, 9] {
        for r in [0, 7] {
            for senders in [1, 2] {
                let o = run(&Setting {
                    ad_hoc: true,
                    retry_limit: r,
                    slot: std::time::Duration::from_micros(slot),
                    senders,
                    disturbance_mbit_s: 10.0,
                    seconds: 220,
                    ..Setting::default()
                });
                println!("adhoc slot {slot} r {r} senders {senders}: {:.3} %", o.loss_percent());
            }
        }
    }
}
