//! What is shown of the players or files of a call over a group, and what was recorded.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use antiphon_core::Instant;

use super::party_sinks::{FilmNews, Lost};
use crate::Latency;
use crate::pictures::{FilmCounters, PicturesReceived};
use crate::receive::{Opened, Recording};

/// A party's recording: its sound and its pictures.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PartyRecording {
    /// The party's SSRC, in hexadecimal.
    pub ssrc: String,
    /// The name that it gave itself (CNAME); `None` if it gave none.
    pub name: Option<String>,
    /// Where its packets came from.
    pub address: Option<String>,
    /// When it joined, in seconds after the call's beginning.
    pub joined_s: f64,
    /// The file, and what it misses of the sound.
    #[serde(flatten)]
    pub sound: Recording,
    /// Its pictures.
    pub pictures: PicturesReceived,
}

/// All of them.
pub(super) struct PartyFilms {
    told: Receiver<FilmNews>,
    latency: Option<Latency>,
    all: Vec<PartyFilm>,
    /// Of players whose parties are gone.
    past: PicturesReceived,
    /// Messages for the user at the end.
    notes: Vec<String>,
}

/// Of one party.
struct PartyFilm {
    ssrc: u32,
    number: u32,
    joined: Instant,
    name: Option<String>,
    address: Option<String>,
    figures: Figures,
    opened: Option<Opened>,
    recording: Option<Recording>,
    /// It was told that its pictures come too late for their sound.
    out_of_sync: bool,
    watch: Watch,
}

/// Whether pictures that come become whole.
#[derive(Debug, Default)]
struct Watch {
    looks: u32,
    /// Packets and whole pictures at the last judgement.
    packets: u64,
    whole: u64,
    /// That none does was told.
    is_told: bool,
}

impl Watch {
    /// So many packets have come so far, and so many pictures were whole. Returns whether there is something to tell.
    fn look(&mut self, packets: u64, whole: u64) -> bool {
        self.looks += 1;
        if self.looks < LOOKS {
            return false;
        }
        let (came, grew) = (packets.saturating_sub(self.packets), whole > self.whole);
        let is_bad = came >= MANY && !grew;
        let is_news = is_bad && !self.is_told;
        *self = Watch { looks: 0, packets, whole, is_told: is_bad || self.is_told && !grew };
        is_news
    }
}

enum Figures {
    Live(FilmCounters),
    Final(PicturesReceived),
}

impl Figures {
    fn get(&self) -> PicturesReceived {
        match self {
            Figures::Live(counters) => counters.get(),
            Figures::Final(figures) => *figures,
        }
    }
}

impl PartyFilms {
    pub fn new(told: Receiver<FilmNews>, latency: Option<Latency>) -> Self {
        let (all, past, notes) = (Vec::new(), PicturesReceived::default(), Vec::new());
        PartyFilms { told, latency, all, past, notes }
    }

    /// Takes the news. `present`: the SSRCs of the parties that are there; `who`: what a party is called.
    pub fn look(&mut self, present: &[u32], who: &dyn Fn(u32) -> String, notice: &mut dyn FnMut(String)) {
        let is_past = |film: &PartyFilm| {
            matches!(film.figures, Figures::Final(_))
                && film.recording.is_none()
                && !present.contains(&film.ssrc)
        };
        for film in self.all.extract_if(.., |film| is_past(film)) {
            self.past = self.past.with(film.figures.get());
        }
        while let Ok(news) = self.told.try_recv() {
            self.take(news, who, notice);
        }
        for film in &mut self.all {
            let (pictures, was_out) = (film.figures.get(), &mut film.out_of_sync);
            if let (Figures::Live(_), Some(news)) = (&film.figures, pictures.sync_news(was_out, self.latency))
            {
                notice(format!("{}: {news}", who(film.ssrc)));
            }
        }
    }

    fn take(&mut self, news: FilmNews, who: &dyn Fn(u32) -> String, notice: &mut dyn FnMut(String)) {
        match news {
            FilmNews::Began { ssrc, number, at, counters } => {
                let figures = Figures::Live(counters);
                let (name, address, opened, recording) = (None, None, None, None);
                self.all.push(PartyFilm {
                    ssrc,
                    number,
                    joined: at,
                    name,
                    address,
                    figures,
                    opened,
                    recording,
                    out_of_sync: false,
                    watch: Watch::default(),
                });
            }
            FilmNews::Opened { number, opened } => {
                let Some(film) = self.all.iter_mut().find(|film| film.number == number) else { return };
                if let Some(path) = &opened.path {
                    notice(format!("{} is recorded in '{}'", who(film.ssrc), path.display()));
                }
                film.opened = Some(opened);
            }
            FilmNews::Lost { ssrc, why } => notice(match why {
                Lost::Unopened(why) => format!("{} is not heard: {why}", who(ssrc)),
                Lost::Failed => {
                    format!("{} is not heard any more: its player or its file has failed", who(ssrc))
                }
                Lost::Closed => format!("the player of {} was closed: it is not heard any more", who(ssrc)),
            }),
            FilmNews::Ended { number, written, failed } => {
                let Some(film) = self.all.iter_mut().find(|film| film.number == number) else { return };
                film.figures = Figures::Final(film.figures.get());
                failed.iter().for_each(|why| notice(format!("{}: {why}", who(film.ssrc))));
                let Some(Opened { notes, path, rate, .. }) = film.opened.take() else { return };
                self.notes.extend(notes.list());
                let Some((path, written)) = path.zip(written) else {
                    self.notes
                        .extend(film.figures.get().unseen().map(|why| format!("{}: {why}", who(film.ssrc))));
                    return;
                };
                self.notes.extend(film.figures.get().shortfall(&path));
                let mut recording =
                    Recording::new(path, written.format.rate(), written.frames, &written.gaps);
                self.notes.extend(recording.list(rate));
                film.recording = Some(recording);
            }
        }
    }

    /// The pictures of a party that is there, and the file in which it is recorded.
    pub fn of(&self, ssrc: u32) -> Option<(PicturesReceived, Option<PathBuf>)> {
        let film = self.all.iter().rfind(|film| film.ssrc == ssrc)?;
        let opened = film.opened.as_ref().and_then(|opened| opened.path.as_ref());
        let file = opened.or(film.recording.as_ref().map(|recording| &recording.file));
        Some((film.figures.get(), file.cloned()))
    }

    /// So many packets of pictures have come of a party. Returns what there is to tell of it, behind its name.
    pub fn judge(&mut self, ssrc: u32, packets: u64) -> Option<String> {
        let film = self.all.iter_mut().rfind(|film| film.ssrc == ssrc)?;
        let Figures::Live(counters) = &film.figures else { return None };
        let is_news = film.watch.look(packets, counters.get().whole);
        is_news.then(|| {
            let why = counters.trouble().map_or_else(String::new, |why| format!(": {why}"));
            format!("sends pictures of which none has come whole for 5 s{why}; its sound goes on")
        })
    }

    /// What a party is called in its reports, and where it is.
    pub fn name(&mut self, ssrc: u32, name: Option<&str>, address: Option<&str>) {
        let Some(film) = self.all.iter_mut().rfind(|film| film.ssrc == ssrc) else { return };
        for (known, told) in [(&mut film.name, name), (&mut film.address, address)] {
            if let Some(told) = told.filter(|told| known.as_deref() != Some(told)) {
                *known = Some(told.into());
            }
        }
    }

    /// The pictures of all, those of parties that are gone included.
    pub fn total(&self) -> PicturesReceived {
        self.all.iter().fold(self.past, |sum, film| sum.with(film.figures.get()))
    }

    /// At the end: what was recorded of whom, and messages for the user.
    pub fn into_recordings(self) -> (Vec<PartyRecording>, Vec<String>) {
        let recording = |film: PartyFilm| {
            Some(PartyRecording {
                ssrc: format!("{:08x}", film.ssrc),
                name: film.name,
                address: film.address,
                joined_s: film.joined.since(Instant::ZERO).as_secs_f64(),
                sound: film.recording?,
                pictures: film.figures.get(),
            })
        };
        (self.all.into_iter().filter_map(recording).collect(), self.notes)
    }
}

/// Looks until it is judged whether pictures become whole: five seconds.
const LOOKS: u32 = 50;
/// Fewer packets may be those of a picture that is still coming.
const MANY: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_which_none_is_whole_are_told_once_until_some_are() {
        let mut watch = Watch::default();
        // For five seconds each: packets that come, pictures that are whole, and whether it is told.
        let steps =
            [(500, 0, true), (500, 0, false), (500, 1, false), (500, 0, true), (2, 0, false), (0, 0, false)];
        let (mut packets, mut whole) = (0, 0);
        for (n, (came, grew, tells)) in steps.into_iter().enumerate() {
            (packets, whole) = (packets + came, whole + grew);
            let told = (0..LOOKS).filter(|_| watch.look(packets, whole)).count();
            assert_eq!(told, usize::from(tells), "step {n}");
        }
    }
}
