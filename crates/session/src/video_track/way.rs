//! The way of pictures to their peer, and what of a picture is of use on it.

use std::time::Duration;

use antiphon_core::Instant;

/// What the way of pictures to their peer is like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// For how long after it was due a packet is of use; `None`: for ever.
    pub patience: Option<Duration>,
    /// A new unit waits while the transport has had one for longer.
    pub longest: Option<Duration>,
    /// What pictures may take of the path, in bytes a second, if that is known.
    pub rate: Option<f64>,
    /// It is a stream of bytes of their own: what stands in it can't be overtaken.
    pub is_stream: bool,
    /// There is none for now: nothing is sent, and what gets too late is left out.
    pub is_missing: bool,
    /// When there was one, if pictures had to wait for it: those of shortly before are as if they were due then.
    pub since: Option<Instant>,
    /// Since when pictures leave as fast as the paths of a group carry, if they had to wait until that was known: the same holds for them.
    pub known: Option<Instant>,
}

/// A unit whose turn it is, and which does not wait.
pub(super) struct Judged {
    /// Whether it is sent, if it can be decoded.
    pub is_of_use: bool,
    /// How long its packets are of use.
    pub until: Option<Instant>,
}

impl Way {
    /// Until when the rest of a first picture, of so many bytes, is sent though it comes too late to be shown: those that follow need it. On a path that takes
    /// long for it nothing would be in time, and the sound would wait.
    pub(super) fn finishes_late(&self, now: Instant, due: Instant, bytes: f64) -> Option<Instant> {
        let takes = self.rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64((bytes / rate.max(1.0)).min(LONGEST.as_secs_f64()))
        });
        let until = self.known_at(due).map_or(due, |known| known.max(due)) + MOST_WAIT;
        (now + takes <= until).then_some(until)
    }

    /// When the paths of a group became known, for a unit that was due at `due`, shortly before that.
    fn known_at(&self, due: Instant) -> Option<Instant> {
        self.known.filter(|known| *known <= due + MOST_WAIT)
    }

    /// Until when a unit that was due at `due` is of use that has waited for too long, as nothing was known of the paths of a group; `None`: it is of none, or has not.
    pub(super) fn excused_until(&self, now: Instant, due: Instant) -> Option<Instant> {
        let known = self.known_at(due).filter(|known| *known >= due)?;
        let until = known + self.patience?;
        (now <= until).then_some(until)
    }

    /// Judges a unit of so many bytes that was due at `due`, and whose follower comes an `interval` later. `is_held`: the transport has not done
    /// with those before. `None`: it waits.
    pub(super) fn judge(
        &self,
        now: Instant,
        (due, interval): (Instant, Duration),
        bytes: f64,
        is_held: bool,
    ) -> Option<Judged> {
        let waited = match self.is_missing {
            // It may come yet.
            true => due + MOST_WAIT,
            false => {
                let since = self.since.filter(|since| *since <= due + MOST_WAIT);
                since.max(self.known_at(due)).unwrap_or(due)
            }
        };
        let deadline = self.patience.map(|patience| due.max(waited) + patience);
        let is_late = deadline.is_some_and(|deadline| deadline < now);
        let is_held = is_held || self.is_missing;
        if is_held && !is_late {
            return None;
        }
        // On a path that takes longer for a picture than that, the newest one is sent, and comes late.
        let takes = self.rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64((bytes / rate.max(1.0)).min(LONGEST.as_secs_f64()))
        });
        let is_slow = !self.is_missing && deadline.is_some_and(|deadline| now + takes > deadline);
        let is_newest = now.since(due) <= interval;
        if is_held && self.is_stream && is_slow && is_newest {
            // It would only stand behind the last one, and be late or broken there.
            return None;
        }
        let is_of_use = !is_late && !is_slow || is_slow && is_newest;
        // What a stream has begun it finishes: the part that it has carried would be carried for nothing, and nothing overtakes the rest.
        let until = match (self.is_stream, is_slow) {
            (true, _) => None,
            (false, true) => Some(now + 2 * takes),
            (false, false) => deadline,
        };
        Some(Judged { is_of_use, until })
    }
}

/// Pictures wait so long for a way that is only being opened: some round trips across continents.
const MOST_WAIT: Duration = Duration::from_millis(500);
/// A picture that takes longer is not sent at all.
const LONGEST: Duration = Duration::from_secs(5);
