//! Connections that come in on a listening socket.

use std::time::Duration;

use antiphon_core::{BrokenReason, Input, Instant, Participant};

use super::Lines;
use super::slots::{Held, Key, Kind};
use crate::system::fd::AsFd;

impl Lines<'_> {
    /// Checks every listening socket for callers. While there is only one line besides them, that line waits by itself,
    /// which halves the cost of each packet, and the listening sockets are checked in between.
    pub(super) fn look_for_callers(&mut self, now: Instant, participant: &mut dyn Participant) {
        self.next_look = now + LOOK_FOR_CALLERS;
        for slot in 0..self.slots.count() {
            let Some(key) = self.slots.key_of(slot) else { continue };
            if self.slots.get(key).is_some_and(Held::is_listening) {
                self.accept_callers(key, now, participant);
            }
        }
    }

    /// Offers waiting callers to the participant, a few in a round.
    pub(super) fn accept_callers(&mut self, key: Key, now: Instant, participant: &mut dyn Participant) {
        self.resume(key);
        for _ in 0..MOST_ACCEPTS {
            let Some(Held { wire, kind: Kind::Listening(listening), .. }) = self.slots.get_mut(key) else {
                return;
            };
            let (stream, peer) = match listening.socket.next_caller() {
                Ok(Some(caller)) => caller,
                Ok(None) => return,
                Err(_) => return self.pause(key, now),
            };
            let Some(own) = participant.accept(now, *wire) else {
                // The connection is closed here.
                listening.stats.unknown_sources += 1;
                continue;
            };
            match listening.socket.line(stream, peer) {
                Ok(line) => {
                    let listener = *wire;
                    listening.on_come();
                    self.open(own, Box::new(line), Some(listener));
                }
                // The caller has gone already.
                Err(_) => participant.handle_input(now, own, Input::Broken(BrokenReason::Refused)),
            }
        }
    }

    /// Stops asking for callers for a while: accepting fails, for example because this process has no descriptor left,
    /// and `epoll` would report the caller continuously. The caller stays in the kernel's queue.
    fn pause(&mut self, key: Key, now: Instant) {
        let (Some(poller), Some(held)) = (&self.poller, self.slots.get_mut(key)) else { return };
        if let Kind::Listening(listening) = &held.kind {
            poller.forget(listening.socket.as_fd());
        }
        held.watched = None;
        held.timeout = Some(now + ACCEPT_PAUSE);
        self.soonest_changed = true;
    }

    fn resume(&mut self, key: Key) {
        if let Some(held) = self.slots.get_mut(key) {
            self.soonest_changed |= held.timeout.take().is_some();
        }
    }
}

/// The most callers accepted in one round.
const MOST_ACCEPTS: usize = 16;
/// How often callers are looked for beside a connection that has packets: soon enough for the first packet of the next
/// caller to be played. Beside an idle connection they wait for [`crate::IDLE`] at most.
const LOOK_FOR_CALLERS: Duration = Duration::from_millis(10);
/// How long callers wait after a failed accept: short for a person, and ten attempts a second cost little.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
