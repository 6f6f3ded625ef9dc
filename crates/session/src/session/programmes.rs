//! A sender with several programmes ([`super::choosing`] is the receiver that chooses among them).
//!
//! Each programme is a send track of its own, under its own SSRC and at its own pace; all begin with the first receiver. A peer is sent
//! one of them, the first unless it wishes another. The wish and the list travel in [`ProgrammeQuestion`] and [`ProgrammeAnswer`]; a
//! receiver asks until it is answered, so either may be lost. Senders without programmes, and other software, answer nothing.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::rtcp::{
    MAX_PROGRAMME_NAME, MOST_PROGRAMMES, Programme, ProgrammeAnswer, ProgrammeQuestion,
};

use super::Session;
use crate::associations::AssociationId;
use crate::peer::{Outcomes, Peer};
use crate::send_track::SendTrack;

/// A sender's programmes.
#[derive(Default)]
pub(super) struct Programmes {
    /// What they are called, the first one's first; empty at a sender that has one stream without a name.
    names: Vec<String>,
    /// The tracks of all but the first, which is the session's send track.
    pub others: Vec<SendTrack>,
}

/// Why a sender cannot have these programmes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProgrammesError {
    /// More than receivers keep a list of.
    #[error("{count} programmes: a sender has {MOST_PROGRAMMES} at most")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// One of them has no name that can be told.
    #[error("the name of programme {number}: use 1 to {MAX_PROGRAMME_NAME} bytes in one line")]
    Name {
        /// Its number, from 1.
        number: usize,
    },
    /// Two have one name.
    #[error("programme {number} has the name of another one: give each its own")]
    Twice {
        /// Its number, from 1.
        number: usize,
    },
}

/// What a receiver has asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// The first entry of the list that it wants.
    from: u16,
    /// Number of its wish.
    id: u16,
    /// It wishes for a programme that there is not.
    refused: bool,
}

/// A sender's programme, and how many receivers get it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedProgramme<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its source has ended.
    pub ended: bool,
    /// Receivers that are sent it now.
    pub receivers: usize,
}

impl Programmes {
    /// The one that is meant by `wish`: by its name, as it is or in other letters' case, or else by its number from 1.
    fn find(&self, wish: &str) -> Option<usize> {
        let alike = |name: &String| name.to_lowercase() == wish.to_lowercase();
        let number =
            || wish.parse::<usize>().ok()?.checked_sub(1).filter(|number| *number < self.names.len());
        let exact = self.names.iter().position(|name| name == wish);
        exact.or_else(|| self.names.iter().position(alike)).or_else(number)
    }

    fn check(names: &[&str]) -> Result<(), ProgrammesError> {
        if names.len() > MOST_PROGRAMMES {
            return Err(ProgrammesError::TooMany { count: names.len() });
        }
        for (at, name) in names.iter().enumerate() {
            let fits = (1..=MAX_PROGRAMME_NAME).contains(&name.len()) && !name.contains(char::is_control);
            if !fits {
                return Err(ProgrammesError::Name { number: at + 1 });
            }
            if names[..at].iter().any(|other| other.to_lowercase() == name.to_lowercase()) {
                return Err(ProgrammesError::Twice { number: at + 1 });
            }
        }
        Ok(())
    }
}

/// Whether these names can be those of one sender's programmes.
pub fn check_programmes(names: &[&str]) -> Result<(), ProgrammesError> {
    Programmes::check(names)
}

/// The track that is sent to `peer`.
pub(super) fn track_of<'a>(
    send: &'a Option<SendTrack>,
    programmes: &'a Programmes,
    peer: &Peer,
) -> Option<&'a SendTrack> {
    match peer.served.programme {
        0 => send.as_ref(),
        number => programmes.others.get(number - 1),
    }
}

impl Session {
    /// Serves several programmes: the send track, under the first name, and these. All have one format. Call it after
    /// [`Self::set_send_track`], and before there is a peer.
    pub fn set_programmes(
        &mut self,
        first: &str,
        others: Vec<(String, SendTrack)>,
    ) -> Result<(), ProgrammesError> {
        let names: Vec<&str> =
            [first].into_iter().chain(others.iter().map(|(name, _)| name.as_str())).collect();
        Programmes::check(&names)?;
        let names = names.into_iter().map(String::from).collect();
        self.programmes = Programmes { names, others: others.into_iter().map(|(_, track)| track).collect() };
        Ok(())
    }

    /// A sender's programmes; none if it has one stream without a name.
    pub fn served_programmes(&self) -> impl Iterator<Item = ServedProgramme<'_>> {
        self.programmes.names.iter().zip(self.send_tracks()).enumerate().map(|(number, (name, track))| {
            let gets = |peer: &&Peer| peer.connected && peer.served.programme == number;
            ServedProgramme { name, ended: track.is_ended(), receivers: self.peers().filter(gets).count() }
        })
    }

    /// Whether receivers can choose.
    pub fn has_programmes(&self) -> bool {
        !self.programmes.names.is_empty()
    }

    pub(super) fn send_tracks(&self) -> impl Iterator<Item = &SendTrack> {
        self.send.iter().chain(&self.programmes.others)
    }

    /// A receiver asks which programmes there are, and may wish for another one than it gets.
    fn on_programme_question(&mut self, now: Instant, at: usize, question: &ProgrammeQuestion) {
        let serves = self.serving.is_some() && self.has_programmes();
        let pace = |told: Instant| now.since(told) >= ANSWER_PAUSE;
        let may_ask =
            |peer: &&mut Box<Peer>| serves && !peer.served.is_done() && peer.served.told.is_none_or(pace);
        let Some(peer) = self.peers[at].as_mut().filter(may_ask) else { return };
        let wish = question.wish.as_deref().map(|wish| self.programmes.find(wish));
        peer.served.question =
            Some(Question { from: question.from, id: question.id, refused: wish == Some(None) });
        if let Some(Some(number)) = wish
            && number != peer.served.programme
        {
            self.change_programme(now, at, number);
        }
        // One that was not admitted gets its answer with its first sound.
        self.answer_about_programmes(now, at);
    }

    /// Sends another programme to the peer at `at` from now on.
    fn change_programme(&mut self, now: Instant, at: usize, number: usize) {
        let Some(track) = self.send_tracks().nth(number) else { return };
        let rtcp = self.rtcp_of(now, Some(track));
        let outcomes =
            Outcomes::new(track.copies(), track.messages_of_a_stall().max(super::peers::MOST_OPEN));
        let groups = track.ssrcs().count();
        let Some(peer) = &mut self.peers[at] else { return };
        peer.served.programme = number;
        peer.rtcp = rtcp;
        peer.reports = vec![None; groups];
        peer.outcomes = outcomes;
        self.report_timers.set(at, peer.rtcp.poll_timeout());
        if peer.connected {
            self.begin_telling(now, at);
        }
    }

    /// The peer at `at` gets its programme from now on: it has missed what the first packets tell.
    pub(super) fn begin_telling(&mut self, now: Instant, at: usize) {
        let Some(peer) = &self.peers[at] else { return };
        let number = peer.served.programme;
        let track = self.send.iter_mut().chain(&mut self.programmes.others).nth(number);
        track.into_iter().for_each(SendTrack::tell_format);
        self.tell_clock_to(now, at);
    }

    /// Answers what the peer at `at` has asked, if it is admitted.
    pub(super) fn answer_about_programmes(&mut self, now: Instant, at: usize) {
        let Some(peer) = self.peers[at].as_mut().filter(|peer| peer.connected) else { return };
        let Some(Question { from, id: wish, refused }) = peer.served.question.take() else { return };
        peer.served.told = Some(now);
        let (Some(id), current) = (peer.association, peer.served.programme) else { return };
        let Some(track) = track_of(&self.send, &self.programmes, peer) else { return };
        let ssrc = track.packetiser().ssrc();
        let named = self.programmes.names.iter().zip(self.send_tracks()).skip(from.into());
        let answer = ProgrammeAnswer {
            ssrc,
            current: current as u16,
            count: self.programmes.names.len() as u16,
            first: from,
            id: wish,
            refused,
            entries: named.map(|(name, track)| listed(name, track)).collect(),
        };
        let mut bytes = [0; ProgrammeAnswer::MOST];
        let len = answer.write(&mut bytes);
        self.associations.send_control(now, id, None, &bytes[..len]);
    }

    /// Takes a packet about programmes; returns whether it was one.
    pub(super) fn on_programmes(&mut self, now: Instant, id: AssociationId, at: usize, bytes: &[u8]) -> bool {
        if let Some(question) = ProgrammeQuestion::parse(bytes) {
            self.on_programme_question(now, at, &question);
            return true;
        }
        let Some(answer) = ProgrammeAnswer::parse(bytes) else { return false };
        self.on_programme_answer(now, id, answer);
        true
    }
}

fn listed(name: &str, track: &SendTrack) -> Programme {
    let format = track.packetiser().config().format;
    let channels = u8::try_from(track.channels()).unwrap_or(u8::MAX);
    Programme { name: name.into(), channels, rate: format.rate(), ended: track.is_ended() }
}

/// The least time between answers to one receiver: questions that come faster are no receiver's.
pub(super) const ANSWER_PAUSE: Duration = Duration::from_millis(10);
