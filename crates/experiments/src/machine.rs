//! Describes the machine on which figures were measured.

use antiphon::about;
use antiphon_net::OsClock;

/// The machine and the time: "Linux 6.1.0, x86_64, 2 processors (AMD EPYC 7763), 2026-03-01 09:30 UTC".
pub(super) fn describe() -> String {
    let clock = OsClock::new();
    format!("{}, {}", about::machine(), about::date(clock.epoch().ntp(clock.now())))
}
