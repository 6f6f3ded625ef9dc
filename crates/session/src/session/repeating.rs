//! A group is sent the pictures since the last key frame again, when a member asks: one that has come later, or has lost what the others refer to.
//!
//! They go to all beside the pictures that are due, as a stream with an SSRC of its own (RFC 4588). A member that lacks nothing ignores that stream, and loses nothing by it.
//! Anybody can send questions, under any name, so the cost is bounded however many ask: the bytes since a key frame are sent at most [`MOST`] times in [`SPAN`], each
//! time spread over [`WITHIN`]. A question must name the SSRC of the pictures, so its sender has heard the group.

use std::time::Duration;

use antiphon_core::Instant;

use super::Session;
use super::catching_up::{LONGEST_ALL, MOST_OPEN, PATIENCE, WITHIN};
use super::sending_again::{Name, SendingAgain, SentAgain};

/// Questions of a group for a key frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// When one came that was not answered yet.
    open: Option<Instant>,
    /// When the last ones were answered, the newest first.
    answered: [Option<Instant>; MOST],
}

impl Asked {
    fn may_answer(&self, now: Instant) -> bool {
        let [last, .., first] = self.answered;
        let is_over = |at: Option<Instant>, time| at.is_none_or(|at| now.since(at) >= time);
        is_over(last, WITHIN) && is_over(first, SPAN)
    }

    fn note(&mut self, now: Instant) {
        self.open = None;
        self.answered.rotate_right(1);
        self.answered[0] = Some(now);
    }

    /// A question that came so soon after the last answer was begun crossed it on its way.
    fn is_answered(&self, now: Instant) -> bool {
        self.answered[0].is_some_and(|at| now.since(at) < CROSSES)
    }
}

impl Session {
    /// A member asks for a key frame of pictures that are sent.
    pub(super) fn on_asked_by_group(&mut self, now: Instant, at: usize) {
        if self.video.asked.is_answered(now) {
            return;
        }
        self.video.asked.open.get_or_insert(now);
        if !self.peers[at].iter().flat_map(|peer| &peer.pictures).any(|flow| flow.is_behind()) {
            // Perhaps it may not be answered before some time has passed.
            self.video.catches_up.get_or_insert(now);
            self.repeat_again(now);
        }
    }

    /// Answers a question that is open, as soon as it may be. Returns whether there is one, or it was answered.
    pub(super) fn repeat_again(&mut self, now: Instant) -> bool {
        let Some(since) = self.video.asked.open else { return false };
        let has_come = self.video.tracks().all(|track| track.key_frame_at() >= since);
        if has_come || now.since(since) >= FORGOTTEN {
            self.video.asked.open = None;
            return false;
        }
        if !self.video.asked.may_answer(now) {
            return true;
        }
        let Some(at) = self.peers.iter().position(Option::is_some) else { return false };
        if self.begin_catching_up(now, at) {
            self.video.asked.note(now);
        } else {
            // There is no room for it on the path.
            self.video.asked.open = None;
            return false;
        }
        true
    }

    /// Sends what the group is sent again of the track at `at`, as far as it is time and the path has room. `room`: bytes that may leave.
    pub(super) fn repeat_to_group(&mut self, now: Instant, at: usize, peer: usize, room: &mut usize) {
        let is_apart = self.sends_video_apart();
        let useful = self.video_patience().map(|patience| patience.max(PATIENCE));
        let stream = self.streams_before_video() + at;
        let (Some(peer), Some(track)) = (&mut self.peers[peer], self.video.tracks_mut().nth(at)) else {
            return;
        };
        let to = Self::video_destination(is_apart, peer);
        let path = Self::path_to(&self.associations, peer);
        let flow = peer.pictures_of(at);
        while let Some((mut behind, until)) = flow.repeats {
            let to = to.filter(|_| now.since(behind.since) < LONGEST_ALL && behind.next < until);
            let next = track.recent_packet(behind.next).map(|(packet, _)| packet.len());
            let (Some(to), Some(len)) = (to, next) else {
                flow.repeats = None;
                break;
            };
            if flow.open >= MOST_OPEN || *room == 0 || !behind.may_send(now, len) {
                break;
            }
            let mut sending = SendingAgain {
                track: at,
                to,
                stream,
                path,
                useful,
                bounded: false,
                associations: &mut self.associations,
                manager: &mut *self.manager,
                observers: &mut self.observers,
            };
            let (len, is_open) = match sending.send(now, track, &mut behind, Name::OfRepeats) {
                SentAgain::Done { len, is_open } => (len, is_open),
                SentAgain::Waits => break,
                SentAgain::Missing => {
                    flow.repeats = None;
                    break;
                }
            };
            flow.open += usize::from(is_open);
            *room = room.saturating_sub(len);
            flow.repeats = Some((behind, until));
        }
    }
}

/// Answers in [`SPAN`]. Of a film with a key frame every 2 s an answer is 1 s of it in the mean, so that is half of its rate, if there are always some who ask.
const MOST: usize = 5;
const SPAN: Duration = Duration::from_secs(10);
/// Longer than most round trips, and less than members wait until they ask again.
const CROSSES: Duration = Duration::from_millis(150);
/// A question that could not be answered for so long: a key frame has come, or its member has asked again.
const FORGOTTEN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_without_end_have_five_answers_in_ten_seconds() {
        let (mut asked, mut answers) = (Asked::default(), Vec::new());
        for now in (0..60_000).step_by(10).map(Instant::from_millis) {
            if asked.may_answer(now) {
                asked.note(now);
                answers.push(now);
            }
        }
        assert_eq!(answers.len(), 30);
        let shortest = answers.windows(2).map(|pair| pair[1].since(pair[0])).min();
        assert_eq!(shortest, Some(WITHIN));
    }
}
