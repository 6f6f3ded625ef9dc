//! One round: waits, and serves what is readable, writable, new or due.

use antiphon_core::{
    BrokenReason, Input, Instant, OneWire, Participant, Single, Transmit, WireId, WireView, sooner,
};

use super::slots::{Held, Key, Kind, Watched};
use super::{Lines, MOST_FAILURES};
use crate::clock::OsClock;
use crate::line::{IDLE, LineError, Wait};
use crate::poll::{NO_FD, Readiness, wait_for_any};
use crate::system::Poller;
use crate::system::fd::{AsFd, BorrowedFd};

impl Lines<'_> {
    /// Waits as told, then hands what has arrived to the participant; returns the time when it last read the clock. An
    /// error if the only wire cannot continue, or if the system has no memory for waiting.
    pub(crate) fn receive(
        &mut self,
        participant: &mut dyn Participant,
        clock: &OsClock,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        self.take_handed_over(clock, participant);
        let wait = self.wait_for_due(wait);
        match self.alone {
            Some((wire, key)) => self.receive_alone(wire, key, participant, clock, wait),
            None => self.receive_many(participant, clock, wait),
        }
    }

    /// Waits for what is due without looking at the sockets, if that is soon enough; returns how they are to be waited for then.
    fn wait_for_due(&self, wait: Wait) -> Wait {
        let Wait::For(time) = wait else { return wait };
        let waker = match &self.wakers[..] {
            [] => NO_FD,
            [waker] => waker.fd(),
            // Several are waited for with the sockets.
            _ => return wait,
        };
        let serves_new = self.alone.is_none() && !self.fresh.is_empty();
        if time > self.input_waits || serves_new {
            return wait;
        }
        let [woken] = wait_for_any([waker], time);
        if woken {
            self.wakers.iter().for_each(|waker| {
                waker.clear();
            });
        }
        Wait::No
    }

    fn receive_alone(
        &mut self,
        wire: WireId,
        key: Key,
        participant: &mut dyn Participant,
        clock: &OsClock,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        let Some(Held { kind: Kind::Open { line, listener }, .. }) = self.slots.get_mut(key) else {
            unreachable!("what is alone is an open line");
        };
        let view = &mut WireView::new(participant, wire);
        let now = match line.receive(clock, view, wait) {
            Ok(now) => now,
            Err(error) => {
                let now = clock.now();
                return self.fail(key, error, now, participant).map(|()| now);
            }
        };
        line.report(now, view, false);
        if listener.is_some() && line.is_over() {
            self.drop_held(key);
        }
        if self.slots.listens() && now >= self.next_look {
            self.look_for_callers(now, participant);
        }
        Ok(now)
    }

    fn receive_many(
        &mut self,
        participant: &mut dyn Participant,
        clock: &OsClock,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        let count = self.wait(clock, wait)?;
        let mut now = clock.now();
        for at in 0..count {
            let event = self.events[at];
            match self.poller.as_mut().and_then(|poller| poller.read(event)).map(Watched::of) {
                Some(Watched::Held(key)) => now = self.serve(key, now, participant, clock)?,
                Some(Watched::Waker(at)) => {
                    self.wakers[at].clear();
                }
                None => {}
            }
        }
        // Connections accepted just now are among them.
        let mut next = 0;
        while let Some(key) = self.fresh.get(next).copied() {
            next += 1;
            now = self.serve(key, now, participant, clock)?;
        }
        self.fresh.clear();
        if self.poll_timeout().is_some_and(|due| due <= now) {
            now = self.serve_due(now, participant, clock)?;
        }
        self.report(now, participant, false);
        Ok(now)
    }

    fn wait(&mut self, clock: &OsClock, wait: Wait) -> Result<usize, LineError> {
        if self.poller.is_none() {
            self.poller = Some(Poller::new().map_err(LineError::system("cannot wait for sockets"))?);
            self.watch_wakers(0);
        }
        let until = match wait {
            _ if !self.fresh.is_empty() => None,
            Wait::No => None,
            Wait::For(time) => Some(clock.now() + time.min(IDLE)),
            Wait::Idle => Some(clock.now() + IDLE),
        };
        let poller = self.poller.as_mut().expect("made above");
        Ok(poller.wait(clock, until, &mut self.events))
    }

    /// Serves one slot, within its bounds; returns the time when it last read the clock.
    fn serve(
        &mut self,
        key: Key,
        now: Instant,
        participant: &mut dyn Participant,
        clock: &OsClock,
    ) -> Result<Instant, LineError> {
        let Some(Held { wire, kind, .. }) = self.slots.get_mut(key) else { return Ok(now) };
        let wire = *wire;
        let result = match kind {
            Kind::Open { line, .. } => {
                let before = line.stats().received;
                let result = line.receive(clock, &mut WireView::new(participant, wire), Wait::No);
                self.received = self.received.wrapping_add(line.stats().received.wrapping_sub(before));
                result
            }
            Kind::Closing { line, .. } => {
                let mut ignores = Single::new(Ignores);
                line.receive(clock, &mut WireView::new(&mut ignores, Single::<Ignores>::WIRE), Wait::No)
            }
            Kind::Listening(_) => {
                self.accept_callers(key, now, participant);
                Ok(now)
            }
        };
        let looked = result.as_ref().map_or(now, |looked| *looked);
        self.after(key, result.map(drop), looked, participant)?;
        Ok(looked)
    }

    /// Serves all slots whose time-outs have come.
    fn serve_due(
        &mut self,
        mut now: Instant,
        participant: &mut dyn Participant,
        clock: &OsClock,
    ) -> Result<Instant, LineError> {
        let start = now;
        for slot in 0..self.slots.count() {
            let Some(key) = self.slots.key_of(slot) else { continue };
            if self.slots.get(key).and_then(|held| held.timeout).is_some_and(|due| due <= start) {
                now = self.serve(key, now, participant, clock)?;
            }
        }
        Ok(now)
    }

    /// Handles slots that were served or have sent: drops those that are over, and updates what the others wait for. An
    /// error if the only one failed.
    pub(super) fn after(
        &mut self,
        key: Key,
        result: Result<(), LineError>,
        now: Instant,
        participant: &mut dyn Participant,
    ) -> Result<(), LineError> {
        let result = result.and_then(|()| self.watch(key));
        let Some(held) = self.slots.get_mut(key) else { return Ok(()) };
        let over = match (&mut held.kind, result) {
            (Kind::Closing { .. }, Err(_)) => true,
            (Kind::Closing { line, until, pause, .. }, Ok(())) => {
                *pause = (*pause * 2).min(super::wires::LONGEST_PAUSE);
                held.timeout = Some((now + *pause).min(*until));
                line.is_flushed() || now >= *until
            }
            (_, Err(error)) => return self.fail(key, error, now, participant),
            (Kind::Open { line, listener }, Ok(())) => {
                self.soonest_changed |= held.timeout != line.poll_timeout();
                held.timeout = line.poll_timeout();
                listener.is_some() && line.is_over()
            }
            (Kind::Listening(_), Ok(())) => false,
        };
        self.soonest_changed |= matches!(held.kind, Kind::Closing { .. });
        if over {
            self.drop_held(key);
        }
        Ok(())
    }

    /// Updates `epoll` where the descriptors of a wire, or what they wait for, have changed.
    fn watch(&mut self, key: Key) -> Result<(), LineError> {
        let (Some(poller), Some(held)) = (&self.poller, self.slots.get_mut(key)) else { return Ok(()) };
        let changes = held.line().map_or(0, |line| line.common().watch_changes);
        // A listening socket with a time-out is paused.
        let pauses = matches!(held.kind, Kind::Listening(_)) && held.timeout.is_some();
        if held.watched == Some(changes) || pauses {
            return Ok(());
        }
        // What the line no longer reports is closed.
        poller.forget_closed(Watched::Held(key).data());
        let mut result = Ok(());
        let mut watch = |fd: BorrowedFd<'_>, want| {
            if result.is_ok() {
                result = poller.watch(fd, Watched::Held(key).data(), want);
            }
        };
        match &held.kind {
            Kind::Open { line, .. } | Kind::Closing { line, .. } => line.watch(&mut watch),
            Kind::Listening(listening) => watch(listening.socket.as_fd(), Readiness::READABLE),
        }
        held.watched = Some(changes);
        result.map_err(LineError::system("cannot wait for a socket"))
    }

    /// A wire failed: an error if it is the only one; otherwise the participant is told, and the others continue.
    pub(super) fn fail(
        &mut self,
        key: Key,
        error: LineError,
        now: Instant,
        participant: &mut dyn Participant,
    ) -> Result<(), LineError> {
        let wires = self.slots.wires().count();
        let Some(wire) = self.slots.get(key).map(|held| held.wire) else { return Ok(()) };
        if wires == 1 {
            return Err(error);
        }
        participant.handle_input(now, wire, Input::Broken(BrokenReason::Unreachable));
        self.drop_held(key);
        self.keep_failure(wire, error);
        Ok(())
    }

    pub(super) fn keep_failure(&mut self, wire: WireId, error: LineError) {
        if self.failures.len() < MOST_FAILURES {
            self.failures.push((wire, error));
        }
    }

    /// Gives the participant the kernel's figures of the connections that have sent, or of all, for the `last` time.
    pub(crate) fn report(&mut self, now: Instant, participant: &mut dyn Participant, last: bool) {
        if last {
            self.flushed.clear();
            self.flushed.extend((0..self.slots.count()).filter_map(|slot| self.slots.key_of(slot)));
        }
        while let Some(key) = self.flushed.pop() {
            let Some(held) = self.slots.get_mut(key) else { continue };
            held.flushed = false;
            if let Kind::Open { line, .. } = &mut held.kind {
                line.report(now, &mut WireView::new(participant, held.wire), last);
            }
        }
    }

    /// When a wire itself has something to do.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        if let Some((_, key)) = self.alone {
            return self.slots.get(key)?.line()?.poll_timeout();
        }
        if std::mem::take(&mut self.soonest_changed) {
            self.soonest = self.slots.held().fold(None, |soonest, held| sooner(soonest, held.timeout));
        }
        self.soonest
    }

    /// Whether everything that was transmitted has left this machine.
    pub(crate) fn is_flushed(&self) -> bool {
        self.slots.held().filter_map(Held::line).all(|line| line.is_flushed())
    }

    /// Whether everything that was transmitted on `wire` has left this machine, or there is no such wire any more.
    pub fn has_flushed(&self, wire: WireId) -> bool {
        let held = self.slots.find(wire).and_then(|key| self.slots.get(key));
        held.and_then(Held::line).is_none_or(|line| line.is_flushed())
    }

    /// Datagrams and reads so far: a change means that input came.
    pub(crate) fn received(&self) -> u64 {
        let alone = self.alone.and_then(|(_, key)| self.slots.get(key)?.line());
        alone.map_or(self.received, |line| line.stats().received)
    }

    /// The error of the only line, found while it sent.
    pub(crate) fn take_error(&mut self) -> Option<LineError> {
        self.error.take()
    }
}

/// Replaces the participant of a line that is closing: accepts everything and sends nothing.
struct Ignores;

impl OneWire for Ignores {
    fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

    fn advance(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        true
    }
}
