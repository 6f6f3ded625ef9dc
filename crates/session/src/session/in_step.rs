//! Receivers of one sender play the same sample frame at the same time.
//!
//! The sender tells when its sound was captured, by its own clock, and how long after that it is to be played
//! ([`ClockWord`]). A receiver measures that clock by questions and answers ([`RemoteClock`]) and puts its playout buffer on
//! it. The receivers need not know of each other: what each is off the sender's clock is all that they differ by.
//! The same questions tell the sender how each receiver fares.
//!
//! Where the time stamps count a clock that the receiver's host follows as well ([`SharedClock`]), no questions are needed.

use std::time::Duration;

use antiphon_core::{Instant, Received, sooner};
use antiphon_media::RemoteClock;
use antiphon_media::rtcp::{ClockAnswer, ClockQuestion, ClockWord, Hearing, MOST_ANSWERS, PlayoutDelay};

use super::Session;
use super::end::State;
use super::programmes::track_of;
use super::shared_clock::{Shared, SharedClock, frame_at};
use crate::receive_track::ReceiveTrack;
use crate::send_track::SendTrack;

/// What a sender tells of its clock.
pub(super) struct Telling {
    /// From capture to playout, if all receivers are to play at one time.
    delay: Option<Duration>,
    /// When all are told next.
    next: Instant,
    /// Peers that have asked and were not answered.
    asked: Vec<usize>,
}

/// What a receiver knows of its sender's clock.
pub(super) struct Following {
    /// Whether it plays when the sender wishes.
    obeys: bool,
    /// From the sink until sound is heard.
    playback: Duration,
    clock: RemoteClock,
    word: Option<ClockWord>,
    /// A clock that both share goes before what the sender tells.
    shared: Option<Shared>,
    /// When it asks next, and how often it has asked.
    next: Instant,
    asked: u32,
    /// Questions without an answer.
    open: [Option<Instant>; OPEN],
    /// Whether the playout buffer is on the sender's clock.
    in_step: bool,
}

/// How a receiver stands to its sender's clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InStep {
    /// Whether it plays when the sender wishes.
    pub kept: bool,
    /// From a sample's capture to its playout, as far as this program knows.
    pub delay: Duration,
    /// By how much it may be off the sender's clock, were the path to take longer one way by all of its round trip. `None` by a
    /// clock that both share: nobody here measures what that is off.
    pub bound: Option<Duration>,
    /// The same on a path that takes alike both ways: the error of measuring.
    pub error: Option<Duration>,
    /// A shared clock that is not followed, as it is so far from what packets show: it is not the sender's.
    pub apart: Option<Duration>,
}

impl Default for Following {
    fn default() -> Self {
        Following {
            obeys: false,
            playback: Duration::ZERO,
            clock: RemoteClock::new(),
            word: None,
            shared: None,
            next: Instant::ZERO,
            asked: 0,
            open: [None; OPEN],
            in_step: false,
        }
    }
}

impl Following {
    /// Forgets the clock of a sender that is followed no more.
    fn forget(&mut self) {
        let Following { obeys, playback, shared, .. } = *self;
        *self = Following { obeys, playback, shared, ..Following::default() };
    }

    /// The sample frame that the sender wants heard at `now`, and its fraction of a nanosecond count: its time stamp, and how
    /// long before `now` it was due.
    fn due_at(&self, now: Instant, delay: Duration, rate: u32) -> Option<(u32, Duration)> {
        if let Some(shared) = &self.shared {
            return shared.due_at(now, delay, rate);
        }
        let word = self.word?;
        let captured = self.clock.theirs(now)?.signed_nanos_since(word.captured) - delay.as_nanos() as i64;
        Some(frame_at(captured.into(), word.timestamp, rate))
    }

    /// From capture to playout, if anybody wishes it.
    fn wish(&self) -> Option<Duration> {
        match &self.shared {
            Some(shared) => Some(shared.delay()),
            None => self.word?.delay.filter(|_| self.obeys),
        }
    }
}

impl Session {
    /// Has all receivers play `delay` after a sample frame was captured, those that can. Call it before there is a peer.
    pub fn set_in_step(&mut self, now: Instant, delay: Duration) {
        self.tell_clock_from(now, Some(delay));
    }

    /// Plays when the sender wishes, if it wishes that.
    pub fn follow_step(&mut self) {
        self.following.obeys = true;
    }

    /// Plays by a clock that the sender's time stamps count, whatever the sender wishes: as [`Self::set_shared_time`] tells it.
    pub fn follow_shared_clock(&mut self, clock: SharedClock) {
        self.following.shared = Some(Shared::new(clock));
    }

    /// Reads the shared clock with `read`, which says when it did and what time since its epoch the clock showed then. Call it about
    /// once a second. A session that does not follow that clock, and whose time stamps do not count it, does not read it.
    pub fn set_shared_time(&mut self, read: impl FnOnce() -> (Instant, Duration)) {
        let counts = self.send.as_ref().is_some_and(SendTrack::counts_clock);
        if self.following.shared.is_none() && !counts {
            return;
        }
        let (at, time) = read();
        self.following.shared.iter_mut().for_each(|shared| shared.set(at, time));
        self.send.iter_mut().for_each(|track| track.read_clock((at, time)));
    }

    /// How long sound takes from the sink until it is heard.
    pub fn set_playback_delay(&mut self, delay: Duration) {
        self.following.playback = delay;
    }

    /// How a receiver stands to its sender's clock; `None` before that is known, and if the sender does not tell.
    pub fn in_step(&self, now: Instant) -> Option<InStep> {
        let Following { clock, shared, playback, in_step, .. } = &self.following;
        let track = self.receive.as_ref()?;
        let (stamp, past) = self.following.due_at(now, Duration::ZERO, track.format()?.rate())?;
        let delay = track.sink_time_of(stamp)?.signed_nanos_since(now) + past.as_nanos() as i64;
        let (bound, error) = match shared {
            Some(_) => (None, None),
            None => clock.error().map(|(bound, error)| (Some(bound), Some(error)))?,
        };
        let delay = Duration::from_nanos(delay.max(0) as u64) + *playback;
        let apart = shared.as_ref().and_then(Shared::apart);
        Some(InStep { kept: *in_step, delay, bound, error, apart })
    }

    pub(super) fn tell_clock_from(&mut self, now: Instant, delay: Option<Duration>) {
        let telling =
            self.telling.get_or_insert_with(|| Telling { delay: None, next: now, asked: Vec::new() });
        telling.delay = delay.or(telling.delay);
    }

    /// Takes a packet about clocks; returns whether it was one.
    pub(super) fn on_clock(&mut self, now: Instant, at: usize, received: Received, bytes: &[u8]) -> bool {
        if let Some(question) = ClockQuestion::parse(bytes) {
            self.on_clock_question(now, at, received, question);
            return true;
        }
        let Some((word, answers)) = ClockWord::parse(bytes) else { return false };
        // It may come before the first sound.
        if self.receive.is_none() || self.followed().is_some_and(|followed| followed != word.ssrc) {
            return true;
        }
        let following = &mut self.following;
        if following.word.is_some_and(|before| before.ssrc != word.ssrc) {
            following.forget();
        }
        if following.word.is_none_or(|before| before.told <= word.told || following.clock.exchanges() == 0) {
            following.word = Some(word);
        }
        for answer in answers.filter(|answer| answer.ssrc == self.ssrc && !received.repaired) {
            let open = following.open.iter_mut().find(|open| **open == Some(answer.asked));
            if open.and_then(Option::take).is_some() {
                let before = following.clock.exchanges();
                following.clock.on_exchange(answer.asked, answer.came, word.told, received.received_at);
                if following.clock.exchanges() < before {
                    // Another clock: what the other one's was told is of no use.
                    following.word = Some(word);
                }
            }
        }
        true
    }

    fn on_clock_question(&mut self, now: Instant, at: usize, received: Received, question: ClockQuestion) {
        let (Some(telling), Some(peer)) = (&mut self.telling, &mut self.peers[at]) else { return };
        if !peer.connected || question.ssrc == self.ssrc {
            return;
        }
        peer.members.on_hearing(now, question.ssrc, question.heard);
        if peer.answers.capacity() == 0 {
            // With its first question; of a group many may come at once.
            peer.answers.reserve(if self.group { MOST_ANSWERS } else { FEW_ANSWERS });
            telling.asked.reserve(self.peers.len());
        }
        let Some(peer) = &mut self.peers[at] else { return };
        if received.repaired || peer.answers.len() >= peer.answers.capacity().min(MOST_ANSWERS) {
            return;
        }
        if peer.answers.is_empty() {
            telling.asked.push(at);
        }
        let ClockQuestion { ssrc, asked, .. } = question;
        peer.answers.push(ClockAnswer { ssrc, asked, came: received.received_at });
    }

    /// Answers, and tells all receivers when it is time.
    pub(super) fn tell_clock(&mut self, now: Instant) {
        let Some(telling) = self.telling.as_mut().filter(|_| self.state == State::Open) else { return };
        if telling.next <= now {
            telling.next = now + TELL_EVERY;
            telling.asked.clear();
            for at in 0..self.peers.len() {
                self.tell_clock_to(now, at);
            }
        }
        while let Some(at) = self.telling.as_mut().and_then(|telling| telling.asked.pop()) {
            self.tell_clock_to(now, at);
        }
    }

    /// Tells the peer at `at`, and answers what it has asked.
    pub(super) fn tell_clock_to(&mut self, now: Instant, at: usize) {
        let Some(delay) = self.telling.as_ref().map(|telling| telling.delay) else { return };
        let Some(peer) = self.peers[at].as_mut().filter(|peer| peer.connected) else { return };
        let track = track_of(&self.send, &self.programmes, peer);
        let ssrc = track.map_or(self.ssrc, |track| track.packetiser().ssrc());
        let captured = track.and_then(SendTrack::captured);
        let Some((timestamp, captured)) = captured else {
            // The first sound is about to come.
            self.telling.iter_mut().for_each(|telling| telling.next = now + FIRST_PAUSE);
            return;
        };
        let Some(id) = peer.association else { return };
        let word = ClockWord { ssrc, told: now, timestamp, captured, delay };
        let mut bytes = [0; ClockWord::MOST];
        let len = word.write(&peer.answers, &mut bytes);
        peer.answers.clear();
        self.associations.send_control(now, id, None, &bytes[..len]);
    }

    pub(super) fn next_clock_word(&self) -> Option<Instant> {
        let telling =
            self.telling.as_ref().filter(|_| self.state == State::Open && self.sending.is_some())?;
        let asked = (!telling.asked.is_empty()).then_some(Instant::ZERO);
        let connected = self.peers.iter().flatten().any(|peer| peer.connected);
        sooner(asked, connected.then_some(telling.next))
    }

    /// Asks for the time, if it is time.
    pub(super) fn ask_clock(&mut self, now: Instant) {
        if self.next_clock_question().is_none_or(|next| next > now) {
            return;
        }
        let heard = self.hearing(now);
        let Some(peer) = self.peers.iter().flatten().find(|peer| peer.connected) else { return };
        let Some(id) = peer.association else { return };
        let interval = peer.rtcp.receiver_interval(now) / 5;
        let following = &mut self.following;
        following.next = now
            + match following.asked {
                0..FIRST => FIRST_PAUSE,
                FIRST..SOON => SOON_PAUSE,
                // Many members ask the less often, as they report.
                _ => interval.max(LATER_PAUSE),
            };
        let place = following.asked as usize % OPEN;
        following.open[place] = Some(now);
        following.asked = following.asked.saturating_add(1);
        let bytes = ClockQuestion { ssrc: self.ssrc, asked: now, heard }.to_bytes();
        if self.associations.may_tell(now, id, bytes.len(), Duration::MAX) {
            self.associations.send_control(now, id, None, &bytes);
        }
    }

    pub(super) fn next_clock_question(&self) -> Option<Instant> {
        let word = self.following.word.filter(|_| self.state == State::Open)?;
        let follows = self.followed().is_none_or(|followed| followed == word.ssrc) && self.two_way.is_none();
        let connected = self.peers.iter().flatten().any(|peer| peer.connected);
        (follows && connected).then_some(self.following.next)
    }

    fn followed(&self) -> Option<u32> {
        self.receive.as_ref().and_then(ReceiveTrack::followed)
    }

    /// How this receiver fares.
    fn hearing(&self, now: Instant) -> Hearing {
        let Some(track) = &self.receive else { return Hearing::default() };
        // Before the stream begins nothing was lost or late.
        let playout = track.playout().unwrap_or_default();
        let step = self.in_step(now).filter(|_| self.config.tells != Some(PlayoutDelay::Unbounded));
        Hearing {
            received: track.counters().packets as u32,
            lost: playout.lost as u32,
            late: playout.late as u32,
            delay: step.map(|step| step.delay),
            error: step.and_then(|step| step.error).unwrap_or(Duration::ZERO),
        }
    }

    /// Puts the playout buffer where the sender wants it.
    pub(super) fn keep_in_step(&mut self, now: Instant) {
        let following = &mut self.following;
        let Some(track) = &mut self.receive else { return };
        if following.shared.is_none() {
            let Some(word) = following.word else { return };
            if track.followed().is_some_and(|followed| followed != word.ssrc) {
                following.forget();
                return;
            }
        }
        let Some(rate) = track.format().map(|format| format.rate()) else { return };
        let kept = following.wish().and_then(|wish| {
            let delay = wish.saturating_sub(following.playback);
            let (stamp, past) = following.due_at(now, delay, rate)?;
            if let Some(shared) = &mut following.shared
                && !following.in_step
                && !shared.fits(now, track.sink_time_of(stamp)?)
            {
                return None;
            }
            let captured = now.as_nanos() as i64 - (delay + past).as_nanos() as i64;
            Some((track.keep_in_step(stamp, captured, delay), wish))
        });
        let in_step = kept.is_some_and(|(kept, _)| kept);
        if std::mem::replace(&mut following.in_step, in_step) == in_step {
            return;
        }
        if !in_step {
            track.leave_step();
        }
        let told = kept.filter(|(kept, _)| *kept).map(|(_, wish)| PlayoutDelay::Of(wish));
        let told = told.or(self.config.tells);
        self.peers.iter_mut().flatten().for_each(|peer| peer.rtcp.tell_playout(told));
    }
}

/// Questions that may be without an answer.
const OPEN: usize = 8;
/// Questions of a single receiver that wait to be answered.
const FEW_ANSWERS: usize = 4;
/// How often all receivers are told when sound was captured: a clock that is off by 100 ppm is off by 50 µs then.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// Questions before the first sound is played, and the pause after each.
const FIRST: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(15);
/// Questions of the first seconds, which find the difference in speed, and the pause after each.
const SOON: u32 = 25;
const SOON_PAUSE: Duration = Duration::from_millis(100);
const LATER_PAUSE: Duration = Duration::from_secs(1);
