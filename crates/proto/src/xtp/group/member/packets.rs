//! Packets to the sender: joins, reports and messages.

use std::time::Duration;

use antiphon_core::{CloseReason, Instant, Outcome};

use super::super::{WINDOW, gaps};
use super::{ASKS_PER_REPORT, FIRST_AGAIN, GroupMember, LEAST_AGAIN, Membership};
use crate::xtp::wire::{Header, JOIN, Status, Writer, format, option, service};

impl GroupMember {
    /// Options of its packets.
    pub(super) fn options(&self) -> u32 {
        option::MULTI | if self.settings.nocheck { option::NOCHECK } else { 0 }
    }

    /// The header of a packet to the sender.
    pub(super) fn header(&mut self, options: u32) -> Option<Header> {
        let Membership::Member { key, number } = self.membership else { return None };
        self.sync = self.sync.wrapping_add(1);
        let options = self.options() | options;
        Some(Header { key, returned: true, options, sort: 0, sync: self.sync, seq: number })
    }

    pub(super) fn next_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let (sender, _) = self.sender?;
        match &mut self.membership {
            Membership::Asking { at, due, times, asked, credit }
                if *credit >= JOIN && (*due || now >= *at) =>
            {
                *credit -= JOIN;
                (*due, *asked) = (false, now);
                let again = (FIRST_AGAIN * (1 << *times.min(&mut 5))).min(LONGEST_JOIN);
                *at = now + again.mul_f64(0.5 + self.rng.unit());
                *times += 1;
                let join =
                    Header { key: sender, returned: true, options: 0, sort: 0, sync: self.echo, seq: 0 };
                return Some(self.write_join(&join, self.echo, buf));
            }
            Membership::Proving { at, due, times, key, number, sync } if *due => {
                *due = false;
                // Soon, as the sender waits for a member that it knows; it counts as silent after half a second.
                *at = now + (self.rtt.mul_f64(1.5).max(LEAST_AGAIN) * (1 << *times)).min(FIRST_AGAIN);
                *times += 1;
                let (key, number, echo) = (*key, *number, *sync);
                let proof = Header { key, returned: true, options: 0, sort: 0, sync: self.sync, seq: number };
                return Some(self.write_join(&proof, echo, buf));
            }
            Membership::Member { .. } => {}
            _ => return None,
        }
        if std::mem::take(&mut self.report) {
            return self.write_report(now, 0, buf);
        }
        let Some(message) = self.queue.pop(now) else {
            // What it said before it leaves has been sent.
            let len = std::mem::take(&mut self.leave).then(|| self.write_report(now, option::END, buf))?;
            self.end(CloseReason::Local);
            return len;
        };
        let header = self.header(option::EOM | option::NOERR)?;
        let mut writer = Writer::new(buf, &header, format::DATA);
        writer.bytes(&message.bytes);
        let len = writer.finish();
        self.queue.finish(message, Outcome::Released);
        Some(len)
    }

    /// Asks to become a member, or proves the address.
    pub(super) fn write_join(&self, header: &Header, echo: u32, buf: &mut [u8]) -> usize {
        let header = Header { options: self.options(), ..*header };
        let mut writer = Writer::new(buf, &header, format::JCNTL);
        let next = if self.started { self.incoming.next() } else { self.sent_to };
        writer.keyed_status(&Status { rseq: next, alloc: next + WINDOW as u64, echo }, self.own);
        writer.address([0; 4], (self.own.owner(), self.own.other()));
        writer.traffic(service::RELIABLE_MULTICAST, None);
        writer.finish()
    }

    /// What has come, and what is missing where something is.
    pub(super) fn write_report(&mut self, now: Instant, options: u32, buf: &mut [u8]) -> Option<usize> {
        let options = options | if self.passed_over > 0 { option::NOERR } else { 0 };
        self.passed_over = self.passed_over.saturating_sub(1);
        let header = self.header(options)?;
        let next = if self.started { self.incoming.next() } else { self.sent_to };
        let room = WINDOW.saturating_sub(self.incoming.held() + self.inbox.fill());
        let status = Status { rseq: next, alloc: next + room as u64, echo: self.echo };
        let lacks = next < self.sent_to;
        let mut writer = Writer::new(buf, &header, if lacks { format::REPORT } else { format::CNTL });
        writer.status(&status);
        if lacks {
            let (ranges, seen) = (self.incoming.spans(), self.decoder.seen());
            writer.rest(|rest| gaps::write(rest, next, ranges, seen));
        }
        self.report_at = Some(now + self.interval.mul_f64(0.5 + self.rng.unit()));
        let len = writer.finish();
        let pause = Duration::from_secs_f64(len as f64 / (f64::from(ASKS_PER_REPORT) * self.rate));
        self.ask_pause = pause.max(self.interval / ASKS_PER_REPORT);
        Some(len)
    }
}

/// A join without an answer is repeated at least so often.
const LONGEST_JOIN: Duration = Duration::from_secs(1);
