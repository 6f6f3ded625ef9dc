//! How a stream that is received ends.

use std::time::Duration;

use antiphon_core::Instant;

use super::{Notice, ReceiveTrack};
use crate::player::Stream;

impl ReceiveTrack {
    /// RTCP says that a source has ended its stream (BYE).
    pub fn on_bye(&mut self, now: Instant, ssrc: u32) {
        let left = match self.tracker.group_of(ssrc) {
            Some(group) => 1 << group,
            // The sender itself, although no packet of its first group has come.
            None => u64::from(self.tracker.ssrc() == Some(ssrc)),
        };
        if self.tracker.ssrc() != Some(ssrc) {
            self.tracker.on_bye(ssrc);
        }
        if left == 0 || self.said_bye {
            return;
        }
        let (since, before) = self.some_ended.unwrap_or((now, 0));
        self.some_ended = Some((since, before | left));
        if self.tracker.heard_groups() & !(before | left) == 0 {
            self.begin_linger(now);
        }
    }

    /// The same from an address that has proved nothing: whoever knows the SSRC may send it (RFC 3550 §8.2, §11 let RTCP come
    /// from anywhere). It counts once the media has stopped.
    pub fn on_doubtful_bye(&mut self, now: Instant, ssrc: u32) {
        let is_ours = self.tracker.group_of(ssrc).is_some() || self.tracker.ssrc() == Some(ssrc);
        if is_ours && !self.said_bye {
            self.doubted.get_or_insert((now, ssrc));
        }
    }

    /// New media of the stream has come. Longer after a goodbye than packets overtake each other it shows that the goodbye was
    /// not the sender's, or was taken back.
    pub(super) fn doubt_goodbyes(&mut self, now: Instant, ssrc: u32) {
        if self.doubted.is_some_and(|(since, _)| now.since(since) >= OVERTAKEN) {
            self.doubted = None;
        }
        let late = |left: &Instant| !self.config.ordered && now.since(*left) >= OVERTAKEN;
        if self.lingering.as_ref().is_some_and(late) {
            (self.lingering, self.said_bye) = (None, false);
            self.doubted = Some((now, ssrc));
        }
    }

    /// The stream ends: all groups have said goodbye, or the wait for the others' goodbyes is over.
    pub(super) fn begin_linger(&mut self, now: Instant) {
        (self.said_bye, self.lingering, self.some_ended) = (true, Some(now), None);
        self.notice(Notice::Bye);
    }

    /// The sender's stream is over: what is buffered is played, and the next sender is a new stream at its first
    /// packet.
    pub(super) fn finish_linger(&mut self) {
        if self.lingering.take().is_some() {
            self.forget_source();
            self.newest.clear();
            if let Some(stream) = &mut self.stream {
                stream.finish();
            }
        }
    }

    /// Follows no sender any more: the next one is a new stream at its first packet.
    pub(crate) fn forget_source(&mut self) {
        if let Some(ssrc) = self.tracker.ssrc() {
            self.tracker.on_bye(ssrc);
        }
    }

    /// The sender sends another programme from now on, under this SSRC: what still comes of the one before is not followed.
    pub(crate) fn go_over_to(&mut self, now: Instant, ssrc: u32) {
        let is_followed = self.tracker.ssrc() == Some(ssrc);
        if !is_followed {
            self.forget_source();
        }
        self.awaited = (!is_followed).then_some((ssrc, now + GO_OVER));
    }

    /// Whether a packet of this sender may be followed.
    pub(super) fn is_awaited(&mut self, now: Instant, sender: u32) -> bool {
        let Some((ssrc, until)) = self.awaited else { return true };
        self.goes_over |= ssrc == sender;
        let over = ssrc == sender || now >= until;
        if over {
            self.awaited = None;
        }
        over
    }

    /// The sound ends before RTP's time stamp `end`: gaps before it are concealed, and nothing after it.
    pub(crate) fn set_end(&mut self, end: u32) {
        self.end = Some(end);
        if let Some(stream) = &mut self.stream {
            stream.end = self.end;
        }
    }

    /// Whether the sender has ended its stream and no other is followed.
    pub(crate) fn has_ended(&self) -> bool {
        self.said_bye && self.lingering.is_none()
    }

    /// Whether the sender has ended its stream, and nothing of another came since.
    pub(crate) fn has_said_bye(&self) -> bool {
        self.said_bye
    }

    /// Until when packets still in flight, or the goodbyes of the sender's other channel groups, are waited for.
    pub(super) fn linger_end(&self) -> Option<Instant> {
        let linger = if self.config.ordered { Duration::ZERO } else { LINGER };
        let others = self.some_ended.map(|(since, _)| since + self.config.silence);
        self.lingering.map(|left| left + linger).or(others)
    }

    /// Whether the sender has ended its stream and everything it sent has been played.
    pub fn is_over(&self) -> bool {
        self.said_bye
            && self.lingering.is_none()
            && self.stream.as_ref().is_none_or(|stream| stream.playout.is_drained() || stream.is_at_end())
    }

    /// Whether all sound up to its known end has been played.
    pub(crate) fn is_at_end(&self) -> bool {
        self.end.is_some() && self.stream.as_ref().is_some_and(Stream::is_at_end)
    }
}

/// How long packets of another programme are waited for: longer than a round trip takes.
const GO_OVER: Duration = Duration::from_secs(1);
/// How long no media may come after a goodbye that may be forged: many packets of any stream.
pub(super) const DOUBT: Duration = Duration::from_millis(500);
/// How long after a goodbye packets may come that were sent before it: half of [`LINGER`].
const OVERTAKEN: Duration = Duration::from_millis(50);
/// How long packets in flight are waited for after a sender's goodbye where the network may reorder (see also RFC 3550
/// §6.3.4): longer than its three goodbyes take.
const LINGER: Duration = Duration::from_millis(100);
