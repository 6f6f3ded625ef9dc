//! Programmes of a sender: what is sent as one, and how a receiver chooses.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::{Stop, Waker};
use antiphon_session::{ProgrammeList, Session};

use crate::{Error, ReceiveOptions, receive};

/// A programme that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgrammeSource {
    /// What receivers see and choose.
    pub name: String,
    /// URI of its source.
    pub source: String,
}

impl FromStr for ProgrammeSource {
    type Err = String;

    /// `NAME=URI`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, source) = text
            .split_once('=')
            .filter(|(name, source)| !name.trim().is_empty() && !source.is_empty())
            .ok_or("write a name and a source, such as News=file:news.flac")?;
        Ok(ProgrammeSource { name: name.trim().into(), source: source.into() })
    }
}

/// Chooses the programme that a receiver hears, on any thread.
#[derive(Clone, Default)]
pub struct ProgrammeChoice(Arc<Chosen>);

#[derive(Default)]
struct Chosen {
    wish: Mutex<Option<String>>,
    /// How often it was set.
    version: AtomicU64,
    /// Of the media thread.
    waker: OnceLock<Waker>,
}

impl ProgrammeChoice {
    /// One that wishes for this programme from the beginning: its name, or its number from 1.
    pub fn new(wish: Option<String>) -> Self {
        let choice = ProgrammeChoice::default();
        wish.iter().for_each(|wish| choice.choose(wish));
        choice
    }

    /// Wishes for this programme from now on: its name, or its number from 1.
    pub fn choose(&self, wish: &str) {
        *self.0.wish.lock().unwrap_or_else(PoisonError::into_inner) = Some(wish.into());
        self.0.version.fetch_add(1, Ordering::Release);
        self.0.waker.get().into_iter().for_each(Waker::wake);
    }

    /// What is wished for, if anything.
    pub fn wish(&self) -> Option<String> {
        self.0.wish.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whose waits a wish ends.
    pub(crate) fn wakes(&self) -> Result<Waker, Error> {
        let waker = Waker::new().map_err(|error| Error::failed(format!("cannot make a waker: {error}")))?;
        Ok(self.0.waker.get_or_init(|| waker).clone())
    }
}

impl fmt::Debug for ProgrammeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.wish())
    }
}

/// The media thread's side of a choice: hands wishes to the session, and what the sender tells to `tell`.
pub(crate) struct Choosing<F> {
    choice: ProgrammeChoice,
    seen: u64,
    told_none: bool,
    tell: F,
}

impl<F: FnMut(Programmes)> Choosing<F> {
    /// For a session that calls its sender and has no peer yet.
    pub fn new(choice: ProgrammeChoice, now: Instant, session: &mut Session, tell: F) -> Self {
        session.ask_for_programmes(now);
        let mut choosing = Choosing { choice, seen: 0, told_none: false, tell };
        choosing.poll(now, session);
        choosing
    }

    /// After each round; it allocates only when there is news.
    pub fn poll(&mut self, now: Instant, session: &mut Session) {
        let version = self.choice.0.version.load(Ordering::Acquire);
        if version != self.seen {
            (self.seen, self.told_none) = (version, false);
            self.choice.wish().iter().for_each(|wish| session.choose_programme(now, wish));
        }
        if let Some(list) = session.programme_list() {
            (self.tell)(Programmes::of(list));
        } else if session.tells_no_programmes() && !std::mem::replace(&mut self.told_none, true) {
            (self.tell)(Programmes::default());
        }
    }
}

/// The programmes of the sender that is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Programmes {
    /// All of them, in the sender's order; empty: it has one stream without a name.
    pub programmes: Vec<ListedProgramme>,
    /// The number of the one that is heard, from 1; `None` if there are none.
    pub current: Option<usize>,
    /// The last wish, if the sender has no such programme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A programme in its sender's list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ListedProgramme {
    /// Its name, in one line.
    pub name: String,
    /// Channels.
    pub channels: u8,
    /// Sampling rate, in Hz.
    pub rate_hz: u32,
    /// Whether its source had ended when the list was told.
    pub ended: bool,
}

impl Programmes {
    fn of(list: &ProgrammeList) -> Self {
        let listed = list.programmes.iter().map(|one| ListedProgramme {
            name: one.name.clone(),
            channels: one.channels,
            rate_hz: one.rate,
            ended: one.ended,
        });
        Programmes {
            programmes: listed.collect(),
            current: Some(list.current + 1),
            refused: list.refused.clone(),
        }
    }

    /// The one that is heard.
    pub fn heard(&self) -> Option<&ListedProgramme> {
        self.programmes.get(self.current?.checked_sub(1)?)
    }

    /// The one after it; after the last the first.
    pub fn next(&self) -> Option<&ListedProgramme> {
        let number = self.current? % self.programmes.len().max(1);
        self.programmes.get(number)
    }

    /// All names, in one line.
    pub fn names(&self) -> String {
        self.programmes.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// What is new since `before`, in a sentence; `wished`: whether a programme was asked for.
    pub(crate) fn news(&self, before: Option<&Programmes>, wished: bool) -> Option<String> {
        if self.programmes.is_empty() {
            let told = "the sender has one stream and no programmes to choose from; it is played";
            return wished.then(|| told.into());
        }
        if self.refused.is_some() {
            return self.refusal();
        }
        let heard = self.heard()?;
        let same = before.and_then(Programmes::heard).is_some_and(|before| before.name == heard.name);
        let (number, count) = (self.current.unwrap_or(0), self.programmes.len());
        (!same).then(|| format!("programme {number} of {count}: {} (all: {})", heard.name, self.names()))
    }

    /// Why a wish was refused, if it was.
    pub(crate) fn refusal(&self) -> Option<String> {
        let refused = self.refused.as_ref()?;
        Some(format!("the sender has no programme '{refused}': it has {}", self.names()))
    }
}

/// Asks the sender that `options` call for its programmes; for the fraction of a second that it takes, this is one of its
/// receivers.
///
/// Errors: usage if `options` call nobody; unreachable if the sender does not answer, or has no programmes.
pub fn list_programmes(options: &ReceiveOptions, stop: &Stop) -> Result<Programmes, Error> {
    let options = ReceiveOptions {
        sink: "null:".into(),
        programme: ProgrammeChoice::default(),
        length: Some(LIST_PATIENCE),
        forever: false,
        ..options.clone()
    };
    if !crate::receive::calls(&options)? {
        return Err(Error::usage(format!(
            "'{}' waits for a sender: write the address of one that serves programmes, such as rtp://HOST:7710",
            options.source
        )));
    }
    let (asked, mut list) = (Stop::new(), None);
    receive(&options, &asked, &mut |_| {}, &mut |status| {
        list = list.take().or_else(|| status.programmes.clone());
        if list.is_some() || stop.is_asked() {
            asked.ask();
        }
    })?;
    match list {
        Some(list) if !list.programmes.is_empty() => Ok(list),
        Some(_) => Err(Error::unreachable(format!(
            "the sender '{}' has one stream and no programmes: 'antiphon send --programme NAME=SOURCE …' serves several",
            options.source
        ))),
        None => {
            Err(Error::unreachable(format!("the sender '{}' did not tell its programmes", options.source)))
        }
    }
}

/// How long a list is waited for: with lost packets of a handshake, and until a sender is known to have no programmes.
const LIST_PATIENCE: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programme_is_a_name_and_a_source() {
        let read: Result<ProgrammeSource, _> = "Late news=file:a.wav?gain=1".parse();
        let one = ProgrammeSource { name: "Late news".into(), source: "file:a.wav?gain=1".into() };
        assert_eq!(read, Ok(one));
        for wrong in ["", "News", "=a.wav", " =a.wav", "News="] {
            assert!(wrong.parse::<ProgrammeSource>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn news_are_told_once_and_a_refusal_has_the_list() {
        let listed =
            |name: &str| ListedProgramme { name: name.into(), channels: 2, rate_hz: 48_000, ended: false };
        let programmes = vec![listed("News"), listed("Film")];
        let first = Programmes { programmes, current: Some(1), refused: None };
        assert_eq!(first.news(None, false).as_deref(), Some("programme 1 of 2: News (all: News, Film)"));
        assert_eq!(first.news(Some(&first), true), None);
        assert_eq!(first.next().unwrap().name, "Film");
        let last = Programmes { current: Some(2), ..first.clone() };
        assert_eq!(last.next().unwrap().name, "News");
        let refused = Programmes { refused: Some("Sport".into()), ..first.clone() };
        let told = refused.news(Some(&first), true).unwrap();
        assert_eq!(told, "the sender has no programme 'Sport': it has News, Film");
        let none = Programmes::default();
        assert!(none.news(None, false).is_none() && none.news(None, true).is_some() && none.next().is_none());
    }
}
