//! Sending and closing, called by the pump.

use std::time::Duration;

use antiphon_core::{Instant, Participant, WireId, WireView, Wires};

use super::Lines;
use super::slots::{Held, Kind};

impl Wires for Lines<'_> {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        let alone = self.alone.filter(|(only, _)| *only == wire).map(|(_, key)| key);
        let Some(key) = alone.or_else(|| self.slots.find(wire)).filter(|_| self.error.is_none()) else {
            return;
        };
        let Some(Held { kind: Kind::Open { line, .. }, flushed, .. }) = self.slots.get_mut(key) else {
            return;
        };
        let result = line.transmit(now, &mut WireView::new(participant, wire));
        if alone.is_some() {
            self.error = result.err().and_then(|error| self.fail(key, error, now, participant).err());
            return;
        }
        if !std::mem::replace(flushed, true) {
            self.flushed.push(key);
        }
        self.error = self.after(key, result, now, participant).err();
    }

    fn close(&mut self, now: Instant, wire: WireId) {
        let Some(key) = self.slots.find(wire) else { return };
        let flushed = self.slots.get(key).and_then(Held::line).is_none_or(|line| line.is_flushed());
        if flushed {
            return self.drop_held(key);
        }
        self.slots.detach(key, |held| held.closing(now + CLOSE_PATIENCE, FIRST_PAUSE));
        self.fresh.push(key);
        self.regroup();
    }
}

/// How long a closed wire may take to send what was written.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// Time between checks whether the peer has everything, which ends no wait; doubles each time: half a round trip of a
/// good network at first.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// The longest pause between checks.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(64);
