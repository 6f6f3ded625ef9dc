//! A peer that has come later, or has lost what it needs, is sent the pictures since the last key frame again: so it need not wait for the next.
//!
//! It gets them under numbers of its own and faster than they are shown, in the order of sending, until it has come up to those that are due. When a
//! key frame comes, it goes on from there.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::rtcp::PictureLoss;

use super::Session;
use super::sending_again::{Name, SendingAgain, SentAgain};
use crate::manager::{Budget, TrackId};

/// What a peer gets of a track of pictures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PictureFlow {
    /// What is added to the numbers of the track's packets.
    ahead: u16,
    behind: Option<Behind>,
    /// Of a group: it is sent the packets before this one again, beside those that are due.
    pub(super) repeats: Option<(Behind, usize)>,
    /// Packets sent again that have no outcome yet.
    pub(super) open: usize,
    /// The picture that was last decided on is left out for this peer, as its path has no room.
    is_left_out: bool,
    /// One that others need was: until the next key frame.
    is_broken: bool,
}

/// It is sent what came since the last key frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// The packet that is next.
    pub(super) next: usize,
    pub(super) since: Instant,
    /// Bytes that there were at the beginning, and those sent so far.
    pub(super) bytes: usize,
    pub(super) sent: usize,
}

/// Whose questions for a key frame were answered at a peer, and when: the last ones first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answered([Option<(u32, Instant)>; MOST_ANSWERS]);

impl Answered {
    /// Whether `ssrc` may be answered. One that goes on asking loses too much for an answer to help, and may mean no good under ever new names.
    fn may_answer(&self, now: Instant, ssrc: u32) -> bool {
        let is_over = |at: Instant, time| now.since(at) >= time;
        let [last, .., first] = self.0;
        let is_new = self.0.iter().any(|answer| answer.is_none_or(|(of, _)| of != ssrc));
        is_new
            && last.is_none_or(|(_, at)| is_over(at, BETWEEN_ANSWERS))
            && first.is_none_or(|(_, at)| is_over(at, BETWEEN_THREE))
    }

    fn note(&mut self, now: Instant, ssrc: u32) {
        self.0.rotate_right(1);
        self.0[0] = Some((ssrc, now));
    }
}

impl PictureFlow {
    /// Whether this peer, one of several, gets a packet. `takes`: whether its path has room for the picture; it is asked at the beginning of each, and what is left
    /// out is left out whole, with what can't be decoded without it. The numbers of the packets go on as if it had never been.
    pub fn gets(
        &mut self,
        (begins, begins_key, is_needed): (bool, bool, bool),
        takes: impl FnOnce() -> bool,
    ) -> bool {
        if self.behind.is_some() {
            // It is sent all since the last key frame at a pace of its own.
            (self.is_left_out, self.is_broken) = (false, false);
            return true;
        }
        if begins {
            self.is_left_out = (self.is_broken && !begins_key) || !takes();
            self.is_broken = self.is_left_out && (self.is_broken || is_needed);
        }
        if self.is_left_out {
            self.ahead = self.ahead.wrapping_sub(1);
        }
        !self.is_left_out
    }

    /// Gives the next packet of the track, of which `begins_key` says that it begins a key frame, its number for this peer. `None`: it gets the
    /// packet in its turn.
    pub fn number(&mut self, now: Instant, number: u16, begins_key: bool) -> Option<u16> {
        if begins_key {
            self.repeats = None;
        }
        let Some(behind) = &mut self.behind else { return Some(number.wrapping_add(self.ahead)) };
        if begins_key {
            // What is before it is of no use any more.
            *behind = Behind { next: 0, since: now, sent: 0, ..*behind };
        }
        self.ahead = self.ahead.wrapping_sub(1);
        None
    }

    /// Whether more is to be sent again.
    pub fn is_behind(&self) -> bool {
        self.behind.is_some() || self.repeats.is_some()
    }

    /// A packet that was sent again has its outcome.
    pub fn on_outcome(&mut self) {
        self.open = self.open.saturating_sub(1);
    }
}

impl Behind {
    /// Whether so many more bytes may leave.
    pub(super) fn may_send(&self, now: Instant, bytes: usize) -> bool {
        let passed = now.since(self.since);
        let part = passed.as_secs_f64() / WITHIN.as_secs_f64();
        passed >= WITHIN || self.sent + bytes <= AT_ONCE + (self.bytes as f64 * part) as usize
    }
}

impl Session {
    /// The peer at `at` has nothing that pictures could be decoded with: it is sent what came since the last key frame, if its path has room for
    /// that in a short time.
    pub(super) fn begin_catching_up(&mut self, now: Instant, at: usize) -> bool {
        let is_apart = self.sends_video_apart();
        let is_unmanaged = self.is_video_unmanaged();
        // What several take says nothing of one.
        let is_single = self.peers.iter().flatten().count() == 1;
        let mut left = self.rate_beside_sound().filter(|_| !is_unmanaged);
        let is_group = self.group;
        // Programs that read SDP know nothing of packets that are sent again beside the others.
        if is_group && self.sends_video_session() {
            return false;
        }
        let Some(peer) = self.peers[at].as_mut() else { return false };
        if Self::video_destination(is_apart, peer).is_none() {
            return false;
        }
        let mut begins = false;
        for (track, video) in self.video.tracks_mut().enumerate() {
            // Beside those that are due meanwhile, of this track and of those before it.
            let due = video.rate_since_key_frame(now);
            left = left.map(|left| left - due);
            let Some(bytes) = video.since_key_frame() else { continue };
            let taken = video.rate_taken().filter(|_| is_unmanaged && is_single);
            let left = left.or(taken.map(|taken| taken - due));
            if left.is_some_and(|left| bytes as f64 > left * LONGEST.as_secs_f64()) {
                continue;
            }
            let flow = peer.pictures_of(track);
            // What its path had no room for would find none now.
            let is_free = flow.behind.is_none() && flow.repeats.is_none();
            if is_free && !flow.is_broken {
                let behind = Behind { next: 0, since: now, bytes, sent: 0 };
                match is_group {
                    true => flow.repeats = Some((behind, video.recent_packets())),
                    false => flow.behind = Some(behind),
                }
                video.on_catching_up();
                begins = true;
            }
        }
        if begins {
            self.video.catches_up = Some(now);
        }
        begins
    }

    /// A message of the peer at `at`: returns whether it asks for a key frame, and for nothing else.
    pub(super) fn on_picture_loss(&mut self, now: Instant, at: usize, bytes: &[u8]) -> bool {
        let Some(asked) = PictureLoss::parse(bytes) else { return false };
        self.answer_picture_loss(now, at, asked);
        true
    }

    /// The peer at `at` asks for a key frame.
    pub(super) fn answer_picture_loss(
        &mut self,
        now: Instant,
        at: usize,
        PictureLoss { ssrc, pictures }: PictureLoss,
    ) {
        let is_ours = self.video.ssrcs().any(|own| own == pictures);
        if self.group {
            return if is_ours {
                self.on_asked_by_group(now, at)
            } else {
                self.on_asked_by_another(now, pictures)
            };
        }
        let may = self.peers[at].as_ref().is_some_and(|peer| peer.answered_losses.may_answer(now, ssrc));
        if is_ours && may && self.begin_catching_up(now, at) {
            self.peers[at].iter_mut().for_each(|peer| peer.answered_losses.note(now, ssrc));
        }
    }

    /// Sends what peers lack of each track, as far as it is time and the path has room.
    pub(super) fn catch_up(&mut self, now: Instant) {
        let is_unmanaged = self.is_video_unmanaged();
        for at in 0..self.video.tracks_mut().count() {
            let id = TrackId(1 + at as u16);
            let budget = if is_unmanaged { Budget::All } else { self.manager.budget(now, id) };
            let mut room = match budget {
                Budget::All => usize::MAX,
                Budget::Bytes(most, _) => most,
            };
            for peer in 0..self.peers.len() {
                match self.group {
                    true => self.repeat_to_group(now, at, peer, &mut room),
                    false => self.catch_up_with(now, at, peer, &mut room),
                }
            }
        }
        let mut flows = self.peers.iter().flatten().flat_map(|peer| &peer.pictures);
        let goes_on = flows.any(PictureFlow::is_behind) || self.repeat_again(now);
        self.video.catches_up = goes_on.then_some(now + ASK_AGAIN);
    }

    /// The same of the track at `at` and the peer at `peer`. `room`: bytes that may leave.
    fn catch_up_with(&mut self, now: Instant, at: usize, peer: usize, room: &mut usize) {
        let (is_apart, bounded) = (self.sends_video_apart(), self.two_way.is_some());
        let useful = self.video_patience().map(|patience| patience.max(PATIENCE));
        let stream = self.streams_before_video() + at;
        let (Some(peer), Some(track)) = (&mut self.peers[peer], self.video.tracks_mut().nth(at)) else {
            return;
        };
        let to = Self::video_destination(is_apart, peer);
        let path = Self::path_to(&self.associations, peer);
        let flow = peer.pictures_of(at);
        while let Some(mut behind) = flow.behind {
            let number = track.number().wrapping_add(flow.ahead);
            let to = to.filter(|_| now.since(behind.since) < LONGEST_ALL);
            let is_last = track.recent_packet(behind.next).is_none();
            // What is due must not stand behind them in the transport.
            if to.is_some() && flow.open >= if is_last { MOST_OPEN / 4 } else { MOST_OPEN } {
                break;
            }
            let len = track.recent_packet(behind.next).map(|(packet, _)| packet.len());
            let (Some(to), Some(len)) = (to, len) else {
                // Where packets are missing, so is a number.
                let is_cut = to.is_none() || track.since_key_frame().is_none();
                flow.ahead = flow.ahead.wrapping_add(u16::from(is_cut));
                flow.behind = None;
                break;
            };
            if *room == 0 || !behind.may_send(now, len) {
                break;
            }
            let mut sending = SendingAgain {
                track: at,
                to,
                stream,
                path,
                useful,
                bounded,
                associations: &mut self.associations,
                manager: &mut *self.manager,
                observers: &mut self.observers,
            };
            let sent = sending.send(now, track, &mut behind, Name::OfTrack(number));
            let SentAgain::Done { len, is_open } = sent else { break };
            flow.open += usize::from(is_open);
            *room = room.saturating_sub(len);
            (flow.ahead, flow.behind) = (flow.ahead.wrapping_add(1), Some(behind));
        }
    }

    /// Whether a peer has not been sent all yet.
    pub(super) fn is_catching_up(&self) -> bool {
        self.video.catches_up.is_some()
    }
}

/// What came since the last key frame is sent within this time: the first picture is shown well within a second of a join, and a file that has a key
/// frame every 2 s takes five times its rate.
pub(super) const WITHIN: Duration = Duration::from_millis(400);
/// Bytes that leave at once: what RFC 6928 lets any TCP begin with.
const AT_ONCE: usize = 14_600;
/// Packets that a transport may have at once.
pub(super) const MOST_OPEN: usize = 32;
/// A path that would take longer is left to the next key frame.
const LONGEST: Duration = Duration::from_millis(700);
/// It is of use for this time at least.
pub(super) const PATIENCE: Duration = Duration::from_millis(1_000);
/// A peer that has not taken it all by then gets what is due instead.
pub(super) const LONGEST_ALL: Duration = Duration::from_secs(3);
/// How soon more is sent.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// Questions of one receiver that are answered: when it begins, and again if that was lost.
const MOST_ANSWERS: usize = 2;
/// From one answer to the next: the first is over by then.
const BETWEEN_ANSWERS: Duration = Duration::from_secs(1);
/// From one answer to the next but one. Of a film with a key frame every 2 s, that is a fifth more at most.
const BETWEEN_THREE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// So many answers get questions a tenth of a second apart, for a minute.
    fn answers(ssrc: fn(u64) -> u32) -> usize {
        let mut answered = Answered::default();
        let mut ask = |n: u64| {
            let (now, ssrc) = (Instant::from_millis(1_000 + 100 * n), ssrc(n));
            let may = answered.may_answer(now, ssrc);
            if may {
                answered.note(now, ssrc);
            }
            may
        };
        (0..600).filter(|n| ask(*n)).count()
    }

    #[test]
    fn one_receiver_is_answered_twice_and_many_names_twice_in_ten_seconds() {
        assert_eq!(answers(|_| 7), 2);
        assert_eq!(answers(|n| n as u32), 12);
    }
}
