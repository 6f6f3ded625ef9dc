//! Tail loss probes (RFC 8985 §7): what was sent last has no later arrival to reveal its loss, so that a packet asks for an
//! acknowledgement before T3 closes the window.
//!
//! Only on an association with one path: with several, T3 is the sign to take another one, which no probe may put off.
//! Where T3 comes before the time of the probe, as it does on a round trip of more than 30 ms, the probe takes its place,
//! and T3 starts anew (§7.2).

use std::time::Duration;

use antiphon_core::{Instant, Seq32};

use super::association::Association;
use super::wire::chunks::Sack;
use crate::rack::probe_timeout;

/// The tail loss probe of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TailProbe {
    /// When a probe is due.
    pub at: Option<Instant>,
    /// A probe is to be sent.
    pub now: bool,
    /// A probe that was sent and is not acknowledged.
    open: Option<Probe>,
}

/// A probe: the last TSN when it was sent, and whether that was retransmitted and not new.
#[derive(Clone, Copy, Debug)]
struct Probe {
    tsn: Seq32,
    repeated: bool,
}

impl TailProbe {
    /// A probe left.
    pub fn on_send(&mut self, tsn: Seq32, repeated: bool) {
        (self.now, self.open) = (false, Some(Probe { tsn, repeated }));
    }

    /// A SACK up to `cumulative` settles the probe (§7.4.2); returns whether the probe has repaired a loss, which
    /// congestion control must learn of: a chunk that was retransmitted and did not arrive twice.
    pub fn on_sack(&mut self, sack: &Sack<'_>) -> bool {
        let Some(Probe { tsn, repeated }) = self.open else { return false };
        if sack.cumulative.is_before(tsn) {
            return false;
        }
        let came_twice = sack.duplicates().any(|duplicate| duplicate == tsn);
        if repeated && !came_twice && sack.cumulative == tsn {
            // The duplicate may be reported next.
            return false;
        }
        self.open = None;
        repeated && !came_twice
    }
}

impl Association {
    /// Schedules the probe, after new payload or the acknowledgement of old (§7.2).
    pub fn schedule_probe(&mut self, now: Instant, ack_delay: Duration) {
        let [path] = &mut self.paths[..] else { return };
        (path.tail.at, path.tail.now) = (None, false);
        // Losses that are known are repaired first; a time-out has begun anew.
        let repairs = self.out.lost > 0 || self.out.ahead > 0 || path.window.in_recovery() || path.errors > 0;
        if repairs || path.flight == 0 || path.tail.open.is_some() {
            return;
        }
        let after =
            probe_timeout(path.rtt.smoothed(), path.window.holds_in_one_packet(path.flight), ack_delay);
        path.tail.at = after.map(|after| path.t3.map_or(now + after, |t3| t3.min(now + after)));
    }

    /// Has a probe sent when it is due, and starts T3 anew for it (§7.3).
    pub fn run_probe(&mut self, now: Instant) {
        // A path may have been added since it was scheduled.
        let is_alone = self.paths.len() == 1;
        for path in self.paths.iter_mut().filter(|path| path.tail.at.is_some_and(|at| at <= now)) {
            path.tail.at = None;
            if is_alone && path.flight > 0 {
                path.tail.now = true;
                path.start_t3(now);
                self.out.suspect_overdue(now, path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use antiphon_core::PathId;

    use super::super::cookie::Tcb;
    use super::super::settings;
    use super::*;

    const NOW: Instant = Instant::from_millis(1000);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// What a SACK with this cumulative TSN, and perhaps a duplicate, says of a probe.
    fn settled(probe: &mut TailProbe, cumulative: u32, duplicate: Option<u32>) -> bool {
        let mut value = cumulative.to_be_bytes().to_vec();
        value.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(duplicate.is_some())]);
        value.extend(duplicate.into_iter().flat_map(u32::to_be_bytes));
        probe.on_sack(&Sack::parse(&value).expect("well formed"))
    }

    #[test]
    fn a_probe_that_repaired_a_loss_is_told_from_one_in_vain() {
        let sent = |repeated| {
            let mut probe = TailProbe { now: true, ..TailProbe::default() };
            probe.on_send(Seq32(7), repeated);
            assert!(!probe.now);
            probe
        };
        let mut probe = sent(true);
        assert!(!settled(&mut probe, 6, None) && probe.open.is_some(), "not yet");
        assert!(!settled(&mut probe, 7, None) && probe.open.is_some(), "the duplicate may be reported next");
        assert!(
            settled(&mut probe, 8, None) && probe.open.is_none(),
            "it came once: what was sent first was lost"
        );
        let mut probe = sent(true);
        assert!(!settled(&mut probe, 7, Some(7)) && probe.open.is_none(), "it came twice");
        let mut probe = sent(true);
        assert!(settled(&mut probe, 8, Some(5)), "another one came twice");
        let mut probe = sent(false);
        assert!(!settled(&mut probe, 6, None) && probe.open.is_some(), "not yet");
        assert!(!settled(&mut probe, 7, None) && probe.open.is_none(), "it was new");
    }

    #[test]
    fn a_probe_is_due_where_nothing_else_reveals_a_loss() {
        let settings = settings::read(&"".parse().unwrap(), None).unwrap();
        let due = |change: fn(&mut Association)| {
            let mut association =
                Association::answering(&settings, (9899, 9899), &Tcb::default(), PathId(0), 1452, NOW);
            association.paths[0].rtt.on_sample(ms(40));
            association.paths[0].flight = 100;
            change(&mut association);
            association.schedule_probe(NOW, ms(10));
            association.paths[0].tail.at.map(|at| at.since(NOW))
        };
        assert_eq!(due(|_| ()), Some(ms(90)), "one packet, whose acknowledgement may be delayed");
        assert_eq!(due(|one| one.paths[0].flight = 5_000), Some(ms(80)));
        assert_eq!(due(|one| one.paths[0].t3 = Some(NOW + ms(30))), Some(ms(30)), "in place of T3");
        assert_eq!(due(|one| one.paths[0].t3 = Some(NOW + ms(100))), Some(ms(90)));
        let nothing: [fn(&mut Association); 4] = [
            |one| one.paths[0].flight = 0,
            |one| one.paths[0].errors = 1,
            |one| one.paths[0].window.recover(Seq32(9), 9),
            |one| one.paths[0].tail.on_send(Seq32(7), false),
        ];
        assert!(nothing.into_iter().all(|change| due(change).is_none()));
    }

    #[test]
    fn a_due_probe_is_spent_though_nothing_is_sent() {
        let settings = settings::read(&"".parse().unwrap(), None).unwrap();
        for (paths, flight, probes) in [(1, 100, true), (1, 0, false), (2, 100, false)] {
            let mut association =
                Association::answering(&settings, (9899, 9899), &Tcb::default(), PathId(0), 1452, NOW);
            (1..paths).for_each(|id| {
                association.path_of(&settings, PathId(id), 1452, NOW);
            });
            association.paths[0].flight = flight;
            association.paths[0].tail.at = Some(NOW);
            association.run_probe(NOW);
            let path = &association.paths[0];
            assert_eq!((path.tail.at, path.tail.now, path.t3.is_some()), (None, probes, probes));
        }
    }
}
