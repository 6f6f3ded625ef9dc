//! An end that does not hear some of the packets with data that reach it, or hears them and does not tell its transport.
//!
//! A layer around each end's endpoint takes every so many-th of them out of what arrives, repairs included, so that the transport repairs
//! them as it repairs any loss, and never misses several in a row, from which it would conclude that they are too large for the path.
//! Where they are *delivered* all the same, the application gets the message at once and not again when it is repaired: losses as
//! Weaver and McNabb (1992, section 8) emulated them, by not acknowledging what had come.

use std::collections::VecDeque;
use std::rc::Rc;

use antiphon_core::{
    Around, Dissected, Dissector, Endpoint, Input, Instant, Layer, PathId, Received, Rng, Stack, StreamId,
};

use crate::setup::Unheard;

/// `stack` whose ends don't hear everything: regularly, from a random packet on.
pub fn around(stack: Rc<dyn Stack>, unheard: Unheard, seed: u64) -> Rc<dyn Stack> {
    let inner = Rc::clone(&stack);
    let wrap = move |endpoint| -> Box<dyn Endpoint> {
        Box::new(Unhearing {
            inner: endpoint,
            dissector: stack.dissector(),
            unheard,
            owed: Rng::fork(seed, "unheard").unit(),
            early: VecDeque::new(),
            given: VecDeque::new(),
        })
    };
    Rc::new(Around { inner, wrap })
}

struct Unhearing {
    inner: Box<dyn Endpoint>,
    dissector: Box<dyn Dissector>,
    unheard: Unheard,
    /// Packets that are to be missed: the next one is once this is a whole one.
    owed: f64,
    /// Messages that the transport does not know of, to be delivered.
    early: VecDeque<(Instant, Vec<u8>)>,
    /// Those that were, whose repairs are still to come.
    given: VecDeque<Vec<u8>>,
}

impl Unhearing {
    /// The message in a datagram that is to be missed; `None` if it is heard.
    fn missed(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let mut message = None;
        self.dissector.dissect(datagram, &mut |part| match part {
            Dissected::Fragment(fragment) if fragment.first && fragment.last => {
                message = Some(fragment.bytes.to_vec());
            }
            _ => {}
        });
        self.owed += if message.is_some() { self.unheard.share.0 } else { 0.0 };
        let missed = message.filter(|_| self.owed >= 1.0);
        self.owed -= if missed.is_some() { 1.0 } else { 0.0 };
        missed
    }

    fn note(&mut self, at: Instant, message: Vec<u8>) {
        if self.given.contains(&message) {
            return;
        }
        if self.given.len() == MOST_GIVEN {
            self.given.pop_front();
        }
        self.given.push_back(message.clone());
        self.early.push_back((at, message));
    }
}

impl Layer for Unhearing {
    fn inner(&self) -> &dyn Endpoint {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.inner
    }

    fn on_input(&mut self, now: Instant, input: Input<'_>) {
        if let Input::Datagram { bytes, received_at, .. } = &input
            && let Some(message) = self.missed(bytes)
        {
            if self.unheard.delivered {
                self.note(*received_at, message);
            }
            return;
        }
        self.inner.handle_input(now, input);
    }

    fn on_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        if let Some((received_at, message)) = self.early.pop_front() {
            let len = message.len();
            buf[..len].copy_from_slice(&message);
            let (path, stream) = (PathId::default(), StreamId(0));
            return Some(Received { len, path, stream, received_at, repaired: false });
        }
        loop {
            let received = self.inner.poll_message(buf)?;
            let known = self.given.iter().position(|given| *given == buf[..received.len]);
            match known {
                Some(place) => _ = self.given.remove(place),
                None => return Some(received),
            }
        }
    }
}

/// Messages whose repairs are remembered: far more than are under way.
const MOST_GIVEN: usize = 1024;
