//! What becomes of messages: they have arrived, are given up, and are reported.

use antiphon_core::{Instant, Outcome};

use super::{LARGE, Outgoing, Part, State};
use crate::queue::SendQueue;
use crate::rtt::RttEstimator;
use crate::xtp::settings::Reliability;

impl Outgoing {
    /// Handles a status: all before `rseq` and what is in `spans` has arrived; `echo` is the number of a packet that has.
    /// Whether anything was settled.
    pub fn on_status(
        &mut self,
        received_at: Instant,
        rseq: u64,
        spans: impl Iterator<Item = (u64, u64)>,
        (echo, echoed_at): (u64, Option<Instant>),
        rtt: &RttEstimator,
        queue: &mut SendQueue,
    ) -> bool {
        let mut settled = false;
        let mut at = 0;
        for (left, right) in std::iter::once((0, rseq)).chain(spans) {
            while let Some(part) = self.parts.get(at) {
                if part.to() > right {
                    break;
                }
                if part.from >= left && part.state != State::Settled {
                    settled = true;
                    self.on_arrived(at, received_at, rtt);
                }
                at += 1;
            }
        }
        if let Some(sent_at) = echoed_at {
            self.rack.on_arrival(echo, false, received_at.since(sent_at), rtt.smoothed());
        }
        if settled {
            self.finish(queue);
        }
        self.known.set(self.known.get().filter(|known| known.by_deadlines));
        self.find_losses(received_at, rtt);
        settled
    }

    fn on_arrived(&mut self, at: usize, received_at: Instant, rtt: &RttEstimator) {
        let on_way = self.limit.on_way();
        let part = &mut self.parts[at];
        let (repeated, elapsed) = (part.times > 1, received_at.since(part.sent_at));
        if part.state == State::Flight {
            self.limit.on_end(part.len);
        }
        part.state = State::Settled;
        let Part { sending, len, message, .. } = *part;
        if len > LARGE && sending > self.large_lost.1 {
            self.large_lost = (0, sending);
            self.large_arrived = true;
        }
        self.in_flight -= len as u64;
        self.rack.on_arrival(sending, repeated, elapsed, rtt.smoothed());
        if !repeated {
            self.rack.note_order(sending);
        }
        self.limit.on_ack(received_at, len, on_way);
        let sent = &mut self.messages[(message - self.first_message) as usize];
        sent.open -= 1;
        self.unreported += usize::from(sent.open == 0);
    }

    /// Gives up what is past its deadline: at once if it is lost, else when an answer is overdue. Whether one must be asked
    /// for.
    pub fn expire(&mut self, now: Instant, rtt: &RttEstimator, queue: &mut SendQueue) -> bool {
        if self.reliability != Reliability::Deadline || self.first_deadline.is_none_or(|first| now <= first) {
            return false;
        }
        self.known.set(None);
        let mut must_ask = false;
        let patience = rtt.base_rto();
        let mut found = false;
        for at in 0..self.parts.len() {
            let part = self.parts[at];
            let index = (part.message - self.first_message) as usize;
            let over = match part.state {
                State::Settled => false,
                State::Lost => true,
                State::Flight => part.asked_at.is_some_and(|asked| asked + patience <= now),
            };
            if part.state == State::Flight && part.asked_at.is_none() && self.messages[index].is_past(now) {
                self.parts[at].asked_at = Some(now);
                must_ask = true;
            }
            if over && self.messages[index].is_past(now) {
                self.messages[index].given_up = true;
                found = true;
                for part in self.parts.iter_mut().filter(|other| other.message == part.message) {
                    if part.state == State::Flight {
                        self.limit.on_end(part.len);
                    }
                    if part.state != State::Settled {
                        self.given_up_to = self.given_up_to.max(part.to());
                        self.in_flight -= part.len as u64;
                        self.messages[index].open -= 1;
                        part.state = State::Settled;
                    }
                }
            }
        }
        // What is not cut yet of an expired message is never sent.
        if let Some(sent) = self.messages.back_mut()
            && sent.cut < sent.bytes.len()
            && sent.is_past(now)
        {
            found |= !sent.given_up;
            sent.given_up = true;
        }
        if found {
            self.unreported = usize::MAX;
            self.finish(queue);
        }
        let open = self.messages.iter().filter(|sent| !sent.bytes.is_empty());
        self.first_deadline = open.filter_map(|sent| sent.deadline).min();
        must_ask
    }

    /// Reports the outcomes of settled messages, and forgets their parts.
    pub fn finish(&mut self, queue: &mut SendQueue) {
        while let Some(part) = self.parts.pop_front_if(|part| part.state == State::Settled) {
            self.repeated -= usize::from(part.times > 1);
        }
        for sent in &mut self.messages {
            if self.unreported == 0 {
                break;
            }
            let whole = sent.cut == sent.bytes.len() || sent.given_up;
            if sent.open == 0 && whole && !sent.bytes.is_empty() {
                let outcome = match sent.given_up {
                    true => Outcome::Expired { maybe_received: sent.cut > 0 },
                    false => Outcome::Acked,
                };
                queue.recycle(std::mem::take(&mut sent.bytes));
                queue.settle(sent.tag, outcome);
                self.unreported = self.unreported.saturating_sub(1);
            }
        }
        self.unreported = 0;
        // Parts in the middle keep their message's place.
        let first = self.parts.front().map_or(u64::MAX, |part| part.message);
        while self.first_message < first && self.messages.pop_front_if(|sent| sent.bytes.is_empty()).is_some()
        {
            self.first_message += 1;
        }
    }

    /// Ends every message.
    pub fn abort(&mut self, queue: &mut SendQueue) {
        for part in self.parts.drain(..).filter(|part| part.state == State::Flight) {
            self.limit.on_end(part.len);
        }
        for sent in self.messages.drain(..).filter(|sent| !sent.bytes.is_empty()) {
            queue.recycle(sent.bytes);
            queue.settle(sent.tag, Outcome::Aborted);
        }
        (self.in_flight, self.repeated) = (0, 0);
        self.known.set(None);
    }

    /// Whether the peer, which waits for `rseq`, waits for something that was given up.
    pub fn must_tell_of_gap(&self, rseq: u64) -> bool {
        rseq < self.given_up_to.min(self.settled_to())
    }
}
