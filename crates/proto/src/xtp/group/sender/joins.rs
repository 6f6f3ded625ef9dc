//! Joins: who asks to become a member, the proof of its address, and refusals.

use std::time::Duration;

use antiphon_core::{CloseReason, Event, Instant, PathId};

use super::super::roster::{Joined, Joiner};
use super::super::round_trips::{LONGEST, SHORTEST};
use super::{GroupSender, MOST_ANSWERS, Welcome};
use crate::xtp::validator::Introduction;
use crate::xtp::wire::{DIAG, Header, JOIN, Key, Status, Writer, diag, format, option, service};

impl GroupSender {
    /// Someone asks to become a member, or proves its address.
    pub(super) fn handle_join(
        &mut self,
        now: Instant,
        received_at: Instant,
        path: PathId,
        (header, status, own): (&Header, Status, Key),
    ) {
        if self.closing.is_some() {
            return;
        }
        let introduction =
            Introduction { caller: own, listener: header.key, caller_seq: 0, listener_seq: header.seq };
        if !header.returned || !self.validator.is_offer(now, path, &introduction) {
            // A request carries the key of the packets to the group. The answer has the length of the request.
            let asks = header.returned && header.key == self.key && own.other() == self.key.owner();
            return if asks { self.offer(now, path, status.rseq, own) } else { self.tally.on_malformed() };
        }
        let sent = u32_micros(now.since(Instant::ZERO)).wrapping_sub(status.echo);
        let rtt = Duration::from_micros(u64::from(sent) << TICK_SHIFT).saturating_sub(now.since(received_at));
        let next = status.rseq.clamp(self.held.repaired_from(now), self.held.next());
        let rtt = rtt.clamp(SHORTEST, LONGEST);
        let joiner = Joiner { path, key: header.key, number: header.seq, own, rtt, next };
        let joined = self.roster.join(now, joiner, &self.held);
        if joined == Joined::TooMany {
            return self.refuse(path, own, (diag::JOIN_REFUSED, diag::NO_RESOURCE));
        }
        if joined == Joined::KeyTaken {
            // It asks anew with another key of its own.
            return;
        }
        if self.welcomes.len() < MOST_ANSWERS {
            self.welcomes.push_back(Welcome { path, own, key: header.key, polls: false });
        }
        if let Joined::Now { replaces } = joined {
            if replaces {
                self.queue.report(Event::MemberLeft { member: path, why: CloseReason::Restarted });
            }
            self.queue.report(Event::PathProved(path));
            self.begin_if_ready(now);
        }
    }

    /// Offers a key and a number, which prove an address when they come back.
    pub(super) fn offer(&mut self, now: Instant, path: PathId, wanted: u64, own: Key) {
        let (offered, number) = self.validator.offer(now, path, own, 0);
        let rseq = wanted.clamp(self.held.repaired_from(now), self.held.next());
        let sync = u32_micros(now.since(Instant::ZERO));
        let header = Header { key: own, returned: true, options: option::MULTI, sort: 0, sync, seq: number };
        let status = Status { rseq, alloc: self.held.next(), echo: 0 };
        self.answer(path, |buf| {
            let mut writer = Writer::new(buf, &header, format::JCNTL);
            writer.keyed_status(&status, offered);
            writer.address([0; 4], (own.other(), own.owner()));
            writer.traffic(service::RELIABLE_MULTICAST, None);
            writer.finish()
        });
    }

    /// Tells a receiver that believes it is a member that it is not. The answer is no longer than the packet received.
    pub(super) fn deny(&mut self, path: PathId, header: &Header, len: usize) {
        if header.returned && header.key != self.key && !header.has(option::END) && len >= DIAG {
            self.write_diag(path, header.key, false, (diag::INVALID_CONTEXT, diag::UNSPECIFIED));
        }
    }

    pub(super) fn refuse(&mut self, path: PathId, own: Key, why: (u32, u32)) {
        self.write_diag(path, own, true, why);
    }

    pub(super) fn write_diag(&mut self, path: PathId, key: Key, returned: bool, (code, value): (u32, u32)) {
        let header = Header { key, returned, options: option::MULTI, sort: 0, sync: 0, seq: 0 };
        self.answer(path, |buf| {
            let mut writer = Writer::new(buf, &header, format::DIAG);
            writer.u32(code);
            writer.u32(value);
            writer.finish()
        });
    }

    pub(super) fn answer(&mut self, path: PathId, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut buf = [0; JOIN];
        let len = write(&mut buf);
        if self.answers.len() < MOST_ANSWERS {
            self.answers.push_back((path, buf[..len].to_vec()));
        }
    }
}

/// Time in units of 16 µs, which wraps after 19 hours.
fn u32_micros(time: Duration) -> u32 {
    (time.as_micros() >> TICK_SHIFT) as u32
}

/// Times in joins are in units of 2⁴ µs.
const TICK_SHIFT: u32 = 4;
