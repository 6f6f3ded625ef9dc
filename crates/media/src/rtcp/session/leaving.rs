//! The end of a session's reports (RFC 3550 §6.3.7).

use antiphon_core::Instant;

use super::RtcpSession;
use super::membership::MANY;

impl RtcpSession {
    /// Writes a last report with BYE, and sends nothing afterwards.
    ///
    /// A group of more than 50 would be flooded if many left at once: then nothing is written yet, and
    /// [`Self::poll_report`] gives the goodbye when it is due; one who has never sent anything leaves without a word.
    pub fn close(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.next?;
        if self.leaving.is_some() || !self.is_group() || self.party_count(now) <= MANY {
            return self.write_last(now, buf);
        }
        if !self.reported && self.own.iter().all(|own| own.sent.is_none()) {
            self.next = None;
            return None;
        }
        self.members.clear();
        (self.leaving, self.last, self.reported) = (Some(0), now, false);
        self.next = Some(now + self.interval(now));
        None
    }

    /// Writes a goodbye for one of our sources, while the session goes on; `None` if nothing was sent under it.
    pub fn goodbye_of(&self, now: Instant, ssrc: u32, buf: &mut [u8]) -> Option<usize> {
        let own = self.own.iter().find(|own| own.ssrc == ssrc)?;
        (self.reported || own.sent.is_some()).then(|| self.write_goodbye(now, *own, buf)).flatten()
    }

    /// Whether a goodbye waits to be sent.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some() && self.next.is_some()
    }

    pub(super) fn write_last(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.next.take()?;
        self.write_compound(now, buf, true)
    }
}
