//! Sound and pictures in one Matroska stream, each picture where the sound has its place for it: a recording, or for a listener.

mod chain;
mod deposit;
mod incoming;
mod live;
mod nowhere;
mod rejoining;
mod sync;
mod together;

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use antiphon_measure::millis;
use antiphon_media::{Sink, StreamFormat};
use antiphon_session::VideoSink;
use antiphon_sound::{
    Created, FilmTarget, OpenError, OpenedSink, SinkSpec, Title, play_film, play_into, record,
};
use antiphon_video::VideoDescription;

use super::PicturesReceived;
use super::queue::{Out, queue};
use crate::Latency;
use deposit::FilmDeposit;
use live::LiveDeposit;
use nowhere::Nowhere;
use sync::SyncMeter;
use together::Together;

/// Sound and pictures that were asked for together.
pub(crate) struct FilmPlan {
    sink: SinkSpec,
    /// Of a player's window.
    title: Option<Title>,
    /// How long pictures that are not whole are waited for by a listener.
    grace: Duration,
    /// What is known of pictures of another program.
    described: Option<VideoDescription>,
    /// Files for the sender's further tracks.
    further: Vec<SinkSpec>,
}

impl FilmPlan {
    /// `None` if the sink is for sound alone. `latency`: the sound's playout delay.
    pub fn of(sink: &SinkSpec, latency: Option<Latency>) -> Option<Self> {
        let grace = latency.map_or(MOST_GRACE, |latency| latency.longest().min(MOST_GRACE));
        sink.film().map(|_| FilmPlan {
            sink: sink.clone(),
            title: None,
            grace,
            described: None,
            further: Vec::new(),
        })
    }

    /// With a title of a player's window, which may be told later.
    pub fn titled(self, title: Title) -> Self {
        FilmPlan { title: Some(title), ..self }
    }

    /// Of pictures of another program, as SDP tells them.
    pub fn of_another_program(self, described: Option<VideoDescription>) -> Self {
        FilmPlan { described, ..self }
    }

    /// With files for the sender's further tracks of pictures, each with the sound as well.
    pub fn with_further(self, further: Vec<SinkSpec>) -> Self {
        FilmPlan { further, ..self }
    }

    /// The ends of the media thread, one for each track, and what opens the files once the sound's format is known.
    pub fn start(mut self) -> (Vec<Box<dyn VideoSink>>, Film) {
        let mut described = self.described.take();
        let mut ends: Vec<Box<dyn VideoSink>> = Vec::new();
        let mut tracks = Vec::new();
        for _ in 0..1 + self.further.len() {
            let shared = Arc::new(Shared { described: described.take(), ..Shared::default() });
            let (to, from) = queue(shared.clone());
            ends.push(Box::new(to));
            tracks.push(Track { from: Some(from), shared });
        }
        (ends, Film { plan: self, tracks })
    }
}

/// Opens the recording or the listener, and counts what comes.
pub(crate) struct Film {
    plan: FilmPlan,
    /// The sender's first, and the further ones.
    tracks: Vec<Track>,
}

struct Track {
    from: Option<Out>,
    shared: Arc<Shared>,
}

impl Film {
    /// The counters of the first track, on any thread.
    pub fn counters(&self) -> FilmCounters {
        FilmCounters(self.tracks[0].shared.clone())
    }

    /// Those of the further ones.
    pub fn further_counters(&self) -> Vec<FilmCounters> {
        self.tracks[1..].iter().map(|track| FilmCounters(track.shared.clone())).collect()
    }

    /// Creates the file, or what starts the listener, for sound of this format.
    pub fn open(&mut self, format: StreamFormat) -> Result<OpenedSink, OpenError> {
        let taken = |track: &mut Track| track.from.take().map(|from| (from, track.shared.clone()));
        let mut tracks = self.tracks.iter_mut().filter_map(taken).collect::<Vec<_>>().into_iter();
        let Some((from, shared)) = tracks.next() else {
            return Err(OpenError::NotInThisVersion {
                what: "a change of the sound's format beside pictures".into(),
                instead: "start again".into(),
            });
        };
        let grace = self.plan.grace;
        match self.plan.sink.film() {
            Some(FilmTarget::File(path, existing)) => {
                let further = self.plan.further.iter().filter_map(|sink| match sink.film()? {
                    FilmTarget::File(path, existing) => Some((path, existing)),
                    FilmTarget::Live => None,
                });
                let deposit = move |file: Created, (from, shared): (Out, Arc<Shared>)| {
                    let _it_is_opened_once = shared.path.set(file.path);
                    FilmDeposit::new(BufWriter::new(file.file), format, from, shared)
                };
                record((path, existing), further, format, move |file, others| {
                    let first = deposit(file, (from, shared));
                    let others = others.into_iter().zip(tracks).map(|(file, track)| deposit(file, track));
                    Box::new(Together::new(first, others.collect()))
                })
            }
            Some(FilmTarget::Live) | None => {
                play_film(&self.plan.sink, format, self.plan.title.clone(), move |outlet| {
                    Box::new(LiveDeposit::new(outlet, format, from, shared, grace))
                })
            }
        }
    }
}

/// A film that nobody is shown: what a player would have shown is measured.
pub(crate) struct MeasuredFilm {
    /// Where its pictures go.
    pub pictures: Box<dyn VideoSink>,
    /// Where its sound goes.
    pub sound: Box<dyn Sink>,
    pub counters: FilmCounters,
}

impl MeasuredFilm {
    /// Beside sound of this format with this playout delay.
    pub fn start(format: StreamFormat, latency: Duration) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::default());
        let (to, from) = queue(shared.clone());
        let grace = latency.min(MOST_GRACE);
        let deposit = LiveDeposit::new(Nowhere, format, from, shared.clone(), grace);
        let sound = play_into(Box::new(deposit), format, "pictures")?.sink;
        Ok(MeasuredFilm { pictures: Box::new(to), sound, counters: FilmCounters(shared) })
    }
}

/// What the writing thread counts, and what it tells the media thread.
#[derive(Default)]
pub(super) struct Shared {
    /// Of pictures of another program.
    described: Option<VideoDescription>,
    pub dropped: AtomicU64,
    /// Nothing can be decoded until the next key frame.
    pub wants_key: AtomicBool,
    /// What a group is sent again since the last key frame would be used.
    pub wants_repeats: AtomicBool,
    /// Pictures came of another codec than the first ones, for which there is no place.
    other_codec: AtomicBool,
    /// Pictures came whose codec is not known.
    unknown_codec: AtomicBool,
    whole: AtomicU64,
    broken: AtomicU64,
    missing: AtomicU64,
    written: AtomicU64,
    sync: Mutex<SyncMeter>,
    /// The file that was created.
    path: OnceLock<PathBuf>,
}

impl Shared {
    /// What is measured on the writing thread, and looked at by the one that displays it.
    fn sync(&self) -> MutexGuard<'_, SyncMeter> {
        self.sync.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters of received pictures.
#[derive(Clone)]
pub(crate) struct FilmCounters(Arc<Shared>);

impl FilmCounters {
    /// Why pictures that come are none that can be written, if it is known, as the end of a sentence.
    pub fn trouble(&self) -> Option<&'static str> {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is(&self.0.other_codec) {
            return Some("they are of another codec than the first ones, which one file cannot hold");
        }
        is(&self.0.unknown_codec).then_some("their codec is not known")
    }

    /// The file that they go to, once it is there.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.get().map(PathBuf::as_path)
    }

    /// What they are now.
    pub fn get(&self) -> PicturesReceived {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sync = self.0.sync();
        PicturesReceived {
            whole: of(&self.0.whole),
            broken: of(&self.0.broken),
            packets_missing: of(&self.0.missing),
            written: of(&self.0.written),
            dropped: of(&self.0.dropped),
            too_late: sync.too_late(),
            frozen_s: sync.frozen().as_secs_f64(),
            out_of_sync_ms: sync.out_of_sync().map(millis),
            skew: sync.skew(),
            over: None,
        }
    }
}

/// A picture's packets are sent over 20 ms, and a player has some sound ahead of it: so late it can still be shown with its sound.
const MOST_GRACE: Duration = Duration::from_millis(40);

#[cfg(test)]
mod clapper;
#[cfg(test)]
mod tests;
