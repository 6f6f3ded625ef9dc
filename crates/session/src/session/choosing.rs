//! A receiver that asks its sender which programmes there are, and chooses among them ([`super::programmes`] is the sender's side).

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::rtcp::{
    MAX_PROGRAMME_NAME, MOST_PROGRAMMES, Programme, ProgrammeAnswer, ProgrammeQuestion,
};

use super::Session;
use super::end::State;
use super::programmes::ANSWER_PAUSE;
use crate::associations::AssociationId;
use crate::receive_track::ReceiveTrack;

/// What a receiver knows of its sender's programmes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgrammeList {
    /// As the sender lists them.
    pub programmes: Vec<Programme>,
    /// Which of them is sent to this receiver.
    pub current: usize,
    /// The name that was wished for, and is none of the sender's.
    pub refused: Option<String>,
}

/// A receiver's questions for programmes.
#[derive(Debug)]
pub(super) struct Choosing {
    wish: Option<String>,
    /// Number of the wish: answers to earlier ones are passed over.
    id: u16,
    /// The wish was answered.
    settled: bool,
    /// As far as it was told.
    list: ProgrammeList,
    /// How many there are, once that was told.
    count: Option<usize>,
    /// SSRC of the programme that is sent.
    sent: Option<u32>,
    next: Instant,
    pause: Duration,
    /// Questions since anything was answered.
    unanswered: u32,
    /// The list, or what was chosen, has changed since it was last taken.
    changed: bool,
}

impl Session {
    /// A receiver that calls asks its sender which programmes there are. Call it before there is a peer.
    pub fn ask_for_programmes(&mut self, now: Instant) {
        self.choosing.get_or_insert_with(|| Choosing {
            wish: None,
            id: 0,
            settled: true,
            list: ProgrammeList::default(),
            count: None,
            sent: None,
            next: now,
            pause: FIRST_PAUSE,
            unanswered: 0,
            changed: false,
        });
    }

    /// Wishes to hear the programme of this name, or of this number from 1. What the sender says to that is in
    /// [`Self::programme_list`]; it is asked until it has answered.
    pub fn choose_programme(&mut self, now: Instant, name: &str) {
        self.ask_for_programmes(now);
        let Some(choosing) = &mut self.choosing else { return };
        let most = (0..=name.len().min(MAX_PROGRAMME_NAME)).rev().find(|end| name.is_char_boundary(*end));
        choosing.wish = Some(name[..most.unwrap_or(0)].into());
        choosing.settled = false;
        choosing.list.refused = None;
        choosing.begin_again(now);
    }

    /// What the sender has told of its programmes, if that is all it has, and it has changed since this was last called.
    pub fn programme_list(&mut self) -> Option<&ProgrammeList> {
        let choosing = self.choosing.as_mut().filter(|choosing| choosing.lists())?;
        std::mem::take(&mut choosing.changed).then_some(&choosing.list)
    }

    /// Whether a sender that is connected leaves questions for programmes without an answer.
    pub fn tells_no_programmes(&self) -> bool {
        self.choosing.as_ref().is_some_and(|one| one.count.is_none() && one.unanswered >= PATIENCE)
    }

    /// Asks, if it is time.
    pub(super) fn ask_about_programmes(&mut self, now: Instant) {
        let followed = self.receive.as_ref().and_then(ReceiveTrack::followed);
        if let Some(choosing) = &mut self.choosing {
            choosing.see(now, followed);
        }
        if self.next_programme_question().is_none_or(|next| next > now) {
            return;
        }
        let id = self.peers.iter().flatten().find(|peer| peer.connected).and_then(|peer| peer.association);
        let (Some(choosing), Some(id)) = (&mut self.choosing, id) else { return };
        choosing.next = now + choosing.pause;
        choosing.pause = (choosing.pause * 3 / 2).min(LONGEST_PAUSE);
        choosing.unanswered = choosing.unanswered.saturating_add(1);
        let (wish, number) = (choosing.wish.clone(), choosing.id);
        let from = choosing.list.programmes.len() as u16;
        let mut bytes = [0; ProgrammeQuestion::MOST];
        let len = ProgrammeQuestion { ssrc: self.ssrc, from, id: number, wish }.write(&mut bytes);
        self.associations.send_control(now, id, None, &bytes[..len]);
    }

    pub(super) fn next_programme_question(&self) -> Option<Instant> {
        let choosing = self.choosing.as_ref().filter(|one| self.state == State::Open && one.has_to_ask())?;
        self.peers.iter().flatten().any(|peer| peer.connected).then_some(choosing.next)
    }

    /// The sender tells what it sends, and which programmes it has.
    pub(super) fn on_programme_answer(&mut self, now: Instant, id: AssociationId, answer: ProgrammeAnswer) {
        let ours = self.peers.iter().flatten().any(|peer| peer.association == Some(id));
        let (Some(choosing), Some(track)) = (&mut self.choosing, &mut self.receive) else { return };
        if !ours || !choosing.take(now, answer) {
            return;
        }
        if let Some(ssrc) = choosing.sent {
            track.go_over_to(now, ssrc);
        }
    }
}

impl Choosing {
    /// Takes an answer; returns whether it makes sense.
    fn take(&mut self, now: Instant, answer: ProgrammeAnswer) -> bool {
        let ProgrammeAnswer { ssrc, current, count, first, id, refused, entries } = answer;
        let (current, count, first) = (usize::from(current), usize::from(count), usize::from(first));
        if current >= count || count > MOST_PROGRAMMES || id != self.id {
            return false;
        }
        if self.count != Some(count) {
            // Another sender's.
            (self.count, self.changed) = (Some(count), true);
            self.list.programmes.clear();
        }
        let before = self.list.programmes.len();
        if first == before {
            self.list.programmes.extend(entries.into_iter().take(count - first));
        }
        let more = self.list.programmes.len() > before;
        self.changed |= more;
        self.changed |= self.sent != Some(ssrc) || self.list.current != current || refused;
        (self.sent, self.list.current) = (Some(ssrc), current);
        if !self.settled {
            self.settled = true;
            self.changed = true;
            self.list.refused = self.wish.clone().filter(|_| refused);
        }
        self.unanswered = 0;
        if more {
            // The rest of the list.
            (self.next, self.pause) = (now + ANSWER_PAUSE, FIRST_PAUSE);
        }
        true
    }

    /// A sender that was started again sends under another SSRC what it begins with, and may have other programmes.
    fn see(&mut self, now: Instant, followed: Option<u32>) {
        let other = followed.zip(self.sent).is_some_and(|(followed, sent)| followed != sent);
        if other && self.settled {
            (self.sent, self.settled) = (None, self.wish.is_none());
            self.begin_again(now);
        }
    }

    /// Asks for all of the list anew: what is told of each programme may have changed.
    fn begin_again(&mut self, now: Instant) {
        self.list.programmes.clear();
        self.id = self.id.wrapping_add(1);
        (self.count, self.unanswered) = (None, 0);
        (self.next, self.pause) = (now, FIRST_PAUSE);
    }

    fn lists(&self) -> bool {
        self.count == Some(self.list.programmes.len())
    }

    /// A sender that has no programmes is not asked for ever.
    fn has_to_ask(&self) -> bool {
        let unanswered = self.count.is_none() && self.unanswered >= PATIENCE;
        (!self.settled || !self.lists()) && !unanswered
    }
}

/// The pause after the first question; grows by half with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between questions.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A sender that answers none of so many questions has no programmes: they take 4 s.
const PATIENCE: u32 = 10;
