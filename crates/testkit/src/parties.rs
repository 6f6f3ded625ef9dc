//! Several parties of one side, each on a wire of its own.

use std::ops::{Index, IndexMut};

use antiphon_core::{Endpoint, Input, Instant, Participant, PathId, Single, Transmit, WireId, sooner};

use crate::party::Party;

/// Parties side by side: the n-th sends and receives on the wire n.
pub struct Parties<E: Endpoint + ?Sized = dyn Endpoint> {
    parties: Vec<Single<Party<E>>>,
    /// Those before it have been named as ready since the last advance.
    named: usize,
}

impl<E: Endpoint + ?Sized> Parties<E> {
    /// All of these.
    pub fn new(parties: impl IntoIterator<Item = Party<E>>) -> Self {
        Parties { parties: parties.into_iter().map(Single::new).collect(), named: 0 }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &Party<E>> {
        self.parties.iter().map(Single::get)
    }
}

impl<E: Endpoint + ?Sized> Index<usize> for Parties<E> {
    type Output = Party<E>;

    fn index(&self, n: usize) -> &Party<E> {
        self.parties[n].get()
    }
}

impl<E: Endpoint + ?Sized> IndexMut<usize> for Parties<E> {
    fn index_mut(&mut self, n: usize) -> &mut Party<E> {
        self.parties[n].get_mut()
    }
}

impl<E: Endpoint + ?Sized> Participant for Parties<E> {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        self.parties[wire.0 as usize].handle_input(now, wire, input);
    }

    fn accept(&mut self, _now: Instant, _listener: WireId) -> Option<WireId> {
        None
    }

    fn advance(&mut self, now: Instant) {
        self.named = 0;
        self.parties.iter_mut().for_each(|party| party.advance(now));
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        let left = &mut self.parties[self.named..];
        let ready = left.iter_mut().position(|party| party.poll_ready().is_some());
        self.named += ready.map_or(left.len(), |at| at + 1);
        ready.map(|_| WireId(self.named as u32 - 1))
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        self.parties[wire.0 as usize].poll_transmit(now, wire, buf)
    }

    fn poll_close(&mut self) -> Option<WireId> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.parties.iter().fold(None, |first, party| sooner(first, party.poll_timeout()))
    }

    fn knows(&self, _wire: WireId, _path: PathId) -> bool {
        true
    }

    fn takes(&self, _wire: WireId) -> bool {
        true
    }

    fn stop(&mut self, now: Instant) {
        self.parties.iter_mut().for_each(|party| party.stop(now));
    }

    fn is_finished(&self) -> bool {
        self.parties.iter().all(Participant::is_finished)
    }
}
