//! Ends that answer each packet with data at once by one without: the acknowledgements of a protocol that sends more of them than ours.
//!
//! They cost what packets without data cost on processors and media, and tell nothing: a layer around each end's endpoint sends them,
//! and another drops them.

use std::collections::VecDeque;
use std::rc::Rc;

use antiphon_core::{Around, Dissected, Dissector, Endpoint, Input, Instant, Layer, PathId, Stack, Transmit};

/// `stack` whose ends answer each packet with data.
pub fn around(stack: Rc<dyn Stack>) -> Rc<dyn Stack> {
    let inner = Rc::clone(&stack);
    let wrap = move |endpoint| -> Box<dyn Endpoint> {
        Box::new(Answering { inner: endpoint, dissector: stack.dissector(), owed: VecDeque::new() })
    };
    Rc::new(Around { inner, wrap })
}

struct Answering {
    inner: Box<dyn Endpoint>,
    dissector: Box<dyn Dissector>,
    /// Paths by which answers leave.
    owed: VecDeque<PathId>,
}

impl Answering {
    fn has_data(&mut self, datagram: &[u8]) -> bool {
        let mut found = false;
        self.dissector.dissect(datagram, &mut |part| {
            found |= match part {
                Dissected::Fragment(fragment) => !fragment.bytes.is_empty(),
                Dissected::Part(bytes) => !bytes.is_empty(),
                Dissected::Packet(_) => false,
            };
        });
        found
    }
}

impl Layer for Answering {
    fn inner(&self) -> &dyn Endpoint {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.inner
    }

    fn on_input(&mut self, now: Instant, input: Input<'_>) {
        if let Input::Datagram { bytes, path, .. } = &input {
            if **bytes == ANSWER {
                return;
            }
            if self.has_data(bytes) {
                self.owed.push_back(*path);
            }
        }
        self.inner.handle_input(now, input);
    }

    fn on_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let Some(path) = self.owed.pop_front() else { return self.inner.poll_transmit(now, buf) };
        buf[..ANSWER.len()].copy_from_slice(&ANSWER);
        Some(Transmit { len: ANSWER.len(), path })
    }
}

/// No transport's packet, and no message.
const ANSWER: [u8; 1] = [0];
