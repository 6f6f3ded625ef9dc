//! How a stream that is received ends.

use std::time::Duration;

use antiphon_core::Instant;

use super::{Notice, ReceiveTrack};
use crate::player::Stream;

impl ReceiveTrack {
    /// RTCP says that a source takes leave.
    pub fn on_bye(&mut self, now: Instant, ssrc: u32) {
        let left = match self.tracker.group_of(ssrc) {
            Some(group) => 1 << group,
            // The sender itself, of whose first group nothing has come.
            None => u64::from(self.tracker.ssrc() == Some(ssrc)),
        };
        if self.tracker.ssrc() != Some(ssrc) {
            self.tracker.on_bye(ssrc);
        }
        if left == 0 || self.said_bye {
            return;
        }
        let (since, before) = self.some_left.unwrap_or((now, 0));
        self.some_left = Some((since, before | left));
        if self.tracker.heard_groups() & !(before | left) == 0 {
            self.begin_leaving(now);
        }
    }

    /// All groups of the sender have taken leave, or those that have not have had their time.
    pub(super) fn begin_leaving(&mut self, now: Instant) {
        (self.said_bye, self.leaving, self.some_left) = (true, Some(now), None);
        self.notice(Notice::Bye);
    }

    /// The sender has left for good: what waits of it goes out, and whoever comes next is a new stream at once.
    pub(super) fn finish_leaving(&mut self) {
        if self.leaving.take().is_some() {
            self.forget_source();
            if let Some(stream) = &mut self.stream {
                stream.finish();
            }
        }
    }

    /// Nobody is followed any more: the next sender is a new stream at its first packet.
    pub(crate) fn forget_source(&mut self) {
        if let Some(ssrc) = self.tracker.ssrc() {
            self.tracker.on_bye(ssrc);
        }
    }

    /// The sound ends before RTP's time stamp `end`: nothing is made up beyond it, and what is missing up to it is.
    pub(crate) fn set_end(&mut self, end: u32) {
        self.end = Some(end);
        if let Some(stream) = &mut self.stream {
            stream.end = self.end;
        }
    }

    /// Whether our sender took leave and nobody has followed it.
    pub(crate) fn has_left(&self) -> bool {
        self.said_bye && self.leaving.is_none()
    }

    /// Until when stragglers of a sender that took leave are waited for, or the goodbyes of its other channel groups.
    pub(super) fn linger_end(&self) -> Option<Instant> {
        let linger = if self.config.ordered { Duration::ZERO } else { LINGER };
        let others = self.some_left.map(|(since, _)| since + self.config.silence);
        self.leaving.map(|left| left + linger).or(others)
    }

    /// Whether the sender took leave and everything it sent has been played.
    pub fn is_over(&self) -> bool {
        self.said_bye
            && self.leaving.is_none()
            && self.stream.as_ref().is_none_or(|stream| stream.playout.is_drained() || stream.is_at_end())
    }

    /// Whether all sound up to its known end has been played.
    pub(crate) fn is_at_end(&self) -> bool {
        self.end.is_some() && self.stream.as_ref().is_some_and(Stream::is_at_end)
    }
}

/// How long the stragglers of a sender that took leave are waited for where the network may reorder (RFC 3550 §6.3.4
/// wants it, too): longer than its three goodbyes take.
const LINGER: Duration = Duration::from_millis(100);
