//! Connections that come in on a listening socket.

use std::os::fd::AsFd;
use std::time::Duration;

use antiphon_core::{BrokenReason, Input, Instant, Participant};

use super::Lines;
use super::slots::{Held, Key, Kind};

impl Lines<'_> {
    /// Asks every listening socket for callers. While there is one line beside them, that line waits by itself, which is half
    /// the work for each packet, and they are looked at in between.
    pub(super) fn look_for_callers(&mut self, now: Instant, participant: &mut dyn Participant) {
        self.next_look = now + LOOK_FOR_CALLERS;
        for slot in 0..self.slots.count() {
            let Some(key) = self.slots.key_of(slot) else { continue };
            if self.slots.get(key).is_some_and(Held::is_listening) {
                self.accept_callers(key, now, participant);
            }
        }
    }

    /// Offers the callers that wait to the participant, a few in a round.
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
                // It closes here.
                listening.stats.unknown_sources += 1;
                continue;
            };
            match listening.socket.line(stream, peer) {
                Ok(line) => {
                    let listener = *wire;
                    listening.on_come();
                    self.open(own, Box::new(line), Some(listener));
                }
                // It has gone already.
                Err(_) => participant.handle_input(now, own, Input::Broken(BrokenReason::Refused)),
            }
        }
    }

    /// Stops asking for callers for a while: there is one that can't be had, as where this process has no descriptor left, and
    /// `epoll` would tell of it without end. It stays in the kernel's queue.
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

/// Callers taken in one round at most.
const MOST_ACCEPTS: usize = 16;
/// How often they are looked for beside a connection that has packets: soon enough for the first packet of the next caller to
/// be played. Beside one that is idle they wait for [`crate::IDLE`] at most.
const LOOK_FOR_CALLERS: Duration = Duration::from_millis(10);
/// How long callers wait where the system can't give them: soon enough for a person, and ten times a second costs nothing.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
