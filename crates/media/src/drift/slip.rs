//! A device's clock that loses time at once: a sound server that has not finished a cycle in time begins all later cycles later. If the same clock paces the
//! sender, all packets come as much later from then on. This is neither a longer path, which the schedule would follow only after five seconds, nor drift.

use std::time::Duration;

use antiphon_core::Instant;

use super::{MediaClock, Minima};

/// Our device's clock has lost time, and it is observed whether the sender's has, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slip {
    /// The last time it did.
    at: Instant,
    /// By how much it is later since then, in nanoseconds.
    nanos: i64,
    /// The smallest transit time before it, and since then.
    before: i64,
    since: Option<i64>,
}

impl MediaClock {
    /// The clock that paces our device has lost so many nanoseconds at once; negative: it has gained them.
    pub fn on_slip(&mut self, now: Instant, nanos: i64) {
        if self.origin.is_none() || nanos == 0 {
            return;
        }
        let (before, more) = self.slip.map_or((self.minima.smallest(), 0), |slip| (slip.before, slip.nanos));
        self.slip = Some(Slip { at: now, nanos: more.saturating_add(nanos), before, since: None });
    }

    /// A packet came after a slip. The schedule moves with our device if the packets have.
    pub(super) fn follow_slip(&mut self, now: Instant, transit: i64) {
        let Some(slip) = &mut self.slip else { return };
        let since = slip.since.map_or(transit, |least| least.min(transit));
        slip.since = Some(since);
        if now.since(slip.at) < OBSERVED {
            return;
        }
        let Slip { nanos, before, .. } = *slip;
        self.slip = None;
        if nanos.unsigned_abs() < LEAST.as_nanos() as u64 {
            return;
        }
        let (moved, like) = (since.saturating_sub(before), LIKE.as_nanos() as i64);
        let moved_with_it = if nanos > 0 { moved >= nanos - like } else { moved <= nanos + like };
        if !moved_with_it {
            return;
        }
        if nanos > 0 {
            self.minima.shift(now, nanos, since);
        }
        let least = self.minima.smallest();
        self.base = self.base.saturating_add(nanos);
        self.base = if nanos > 0 { self.base } else { self.base.max(least) };
        self.estimator.on_step(nanos.saturating_neg());
    }
}

impl Minima {
    /// Earlier transit times are `nanos` longer now, and one of this window is `least`.
    fn shift(&mut self, now: Instant, nanos: i64, least: i64) {
        self.past.iter_mut().flatten().for_each(|past| *past = past.saturating_add(nanos));
        self.current = Some((now, least));
    }
}

/// For so long it is observed how packets come: a few of the longest, and less than the second for which [`Minima`] take the least.
const OBSERVED: Duration = Duration::from_millis(250);
/// What is less has come and gone: a server whose cycles were late for a while.
const LEAST: Duration = Duration::from_micros(150);
/// Packets that come later by so much less have moved with the device: schedules that follow the queue of an idle path move by less.
const LIKE: Duration = Duration::from_micros(300);
