//! Hands wires opened elsewhere to the media thread, which must not wait for a name server or for a peer.

use antiphon_core::{BrokenReason, Input, Participant, Wire, WireId};

use super::Lines;
use crate::clock::OsClock;
use crate::line::{Line, LineError};
use crate::tcp_listening::TcpListening;
use crate::wake::Waker;

/// Hands opened wires to a running [`crate::drive`] from another thread.
pub struct Handover {
    queue: rtrb::Producer<(WireId, Opened)>,
    waker: Waker,
}

/// Result of opening a wire.
pub enum Opened {
    /// A line. The participant is told that a datagram line is connected; a stream's connection says so itself.
    Line(Box<dyn Line + Send>),
    /// A listening socket.
    Listening(Box<TcpListening>),
    /// Nothing: the participant is told that the wire broke.
    Failed(BrokenReason),
}

impl Handover {
    /// Hands over a wire, under a number that the participant has chosen. Returned if there is no room, because the
    /// media thread has not taken earlier ones yet.
    pub fn give(&mut self, wire: WireId, opened: Opened) -> Result<(), Opened> {
        let pushed = self.queue.push((wire, opened));
        self.waker.wake();
        pushed.map_err(|rtrb::PushError::Full((_, opened))| opened)
    }
}

impl<'a> Lines<'a> {
    /// Makes the queue by which wires are handed to the media thread once it runs, with room for `room` at once.
    /// Replaces an earlier one. An error if the process has no descriptor left.
    pub fn handover(&mut self, room: usize) -> Result<Handover, LineError> {
        let waker = match self.wakers.first() {
            Some(waker) => waker.clone(),
            None => Waker::new().map_err(LineError::system("cannot make a waker"))?,
        };
        self.set_waker(waker.clone());
        let (queue, consumer) = rtrb::RingBuffer::new(room);
        self.handover = Some(consumer);
        Ok(Handover { queue, waker })
    }

    /// Takes the wires that were handed over.
    pub(super) fn take_handed_over(&mut self, clock: &OsClock, participant: &mut dyn Participant) {
        while let Some((wire, opened)) = self.handover.as_mut().and_then(|queue| queue.pop().ok()) {
            let result = match opened {
                Opened::Line(line) => self.take_line(wire, line, clock, participant),
                Opened::Listening(listening) => self.listen(wire, *listening),
                Opened::Failed(reason) => {
                    participant.handle_input(clock.now(), wire, Input::Broken(reason));
                    Ok(())
                }
            };
            if let Err(error) = result {
                self.keep_failure(wire, error);
            }
        }
    }

    fn take_line(
        &mut self,
        wire: WireId,
        line: Box<dyn Line + Send>,
        clock: &OsClock,
        participant: &mut dyn Participant,
    ) -> Result<(), LineError> {
        let connects = line.wire() == Wire::ByteStream;
        self.add(wire, line)?;
        if !connects {
            participant.handle_input(clock.now(), wire, Input::Connected);
        }
        Ok(())
    }
}
