//! A sink for each party of a call over a group: a player of its own, or a file, with its sound and its pictures.
//!
//! ```text
//! media thread: PartySinks ─ sinks of parties that are gone ─► Finisher, a thread for each
//!                    └────── news ─► PartyFilms, where the call is displayed ◄─── news ─┘
//! ```

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::{Instant, PathId, WireId};
use antiphon_media::{Sink, SinkError};
use antiphon_net::Lines;
use antiphon_session::{OpenSink, PartySinks, ReceiveError, VideoArrived, VideoSink, Written};
use antiphon_sound::{SinkSpec, Title};

use crate::live::PeakMeter;
use crate::pictures::{FilmCounters, FilmPlan};
use crate::receive::{Opened, open_sink};
use crate::run::spawn;
use crate::{Error, Latency, SinkClock};

/// What happened to the sinks of parties, each called by its number, which counts those that came.
pub(super) enum FilmNews {
    /// A party has one.
    Began { ssrc: u32, number: u32, at: Instant, counters: FilmCounters },
    /// It was opened.
    Opened { number: u32, opened: Opened },
    /// The party is not heard any more.
    Lost { ssrc: u32, why: Lost },
    /// The party is gone, and its sink finished.
    Ended { number: u32, written: Option<Written>, failed: Option<String> },
}

/// Why a party that is there is not heard.
pub(super) enum Lost {
    /// Its sink could not be opened.
    Unopened(String),
    /// Its player or file has failed.
    Failed,
    /// Its player was closed.
    Closed,
}

/// Opens the sinks, on the media thread.
pub(super) struct FilmSinks {
    how: FilmHow,
    next: u32,
    /// Those that are open: of which party, and the number.
    open: Vec<(u32, u32)>,
    rate: Rate,
    titles: Titles,
    tell: Sender<FilmNews>,
    finish: Sender<Finish>,
}

/// How each party is played or recorded.
pub(super) struct FilmHow {
    pub sink: SinkSpec,
    pub latency: Option<Latency>,
    pub clock: SinkClock,
    /// Of all of them.
    pub meter: PeakMeter,
}

/// Titles of windows whose parties' addresses are to be looked up.
#[derive(Clone, Default)]
pub(super) struct Titles(Rc<RefCell<Vec<(PathId, u32, Title)>>>);

/// Parties that may begin: one that comes and goes all the time fills neither the disk nor the screen.
struct Rate {
    left: f64,
    at: Instant,
}

/// A sink that is to be finished.
struct Finish {
    number: u32,
    sink: Box<dyn Sink>,
    written: Option<Written>,
}

/// Finishes sinks, which may take seconds, each on a thread of its own.
pub(super) struct Finisher {
    thread: JoinHandle<Vec<String>>,
}

impl FilmSinks {
    /// Sinks whose news go to `tell`; what finishes them, and what is to be told where parties are.
    pub fn start(how: FilmHow, tell: Sender<FilmNews>) -> Result<(Self, Finisher, Titles), Error> {
        let (finish, finishing) = mpsc::channel();
        let told = tell.clone();
        let thread = spawn("talk-finish", move || finish_all(&finishing, &told))?;
        let titles = Titles::default();
        let rate = Rate { left: BURST, at: Instant::ZERO };
        let sinks = FilmSinks { how, next: 1, open: Vec::new(), rate, titles: titles.clone(), tell, finish };
        Ok((sinks, Finisher { thread }, titles))
    }

    fn tell(&self, news: FilmNews) {
        let _main_thread_is_gone = self.tell.send(news);
    }
}

impl PartySinks for FilmSinks {
    fn open(&mut self, now: Instant, ssrc: u32, path: PathId) -> (OpenSink, Box<dyn VideoSink>) {
        if !self.rate.may_begin(now) {
            let refuse: OpenSink = Box::new(|_, _| Err("too many parties have come lately".into()));
            return (refuse, Box::new(Nowhere));
        }
        let (number, title) = (self.next, Title::default());
        self.next += 1;
        self.open.push((ssrc, number));
        self.titles.0.borrow_mut().push((path, ssrc, title.clone()));
        let sink = self.how.sink.of_stream(number);
        let plan = FilmPlan::of(&sink, self.how.latency).expect("the sink is for pictures as well");
        let (mut pictures, film) = plan.titled(title).start();
        let pictures = pictures.remove(0);
        self.tell(FilmNews::Began { ssrc, number, at: now, counters: film.counters() });
        let tell = self.tell.clone();
        let open = open_sink((sink, Some(film)), None, self.how.clock, move |opened| {
            let _main_thread_is_gone = tell.send(FilmNews::Opened { number, opened });
        });
        (self.how.meter.sink(open), pictures)
    }

    fn on_error(&mut self, ssrc: u32, error: &ReceiveError) {
        let why = match error {
            ReceiveError::SinkClosed => Lost::Closed,
            ReceiveError::SinkFailed => Lost::Failed,
            other => Lost::Unopened(other.to_string()),
        };
        self.tell(FilmNews::Lost { ssrc, why });
    }

    fn close(&mut self, ssrc: u32, sink: Option<Box<dyn Sink>>, written: Option<Written>) {
        let Some(at) = self.open.iter().position(|(of, _)| *of == ssrc) else { return };
        let (_, number) = self.open.remove(at);
        match sink {
            Some(sink) => {
                let _finisher_is_gone = self.finish.send(Finish { number, sink, written });
            }
            None => self.tell(FilmNews::Ended { number, written: None, failed: None }),
        }
    }
}

impl Titles {
    /// Tells those whose parties' addresses are known by now. On the media thread, between its rounds.
    pub fn tell(&self, lines: &Lines<'_>) {
        for (path, ssrc, title) in self.0.borrow_mut().drain(..) {
            let address = lines.peer_address(WireId(0), path);
            let from = address.map_or_else(|| "a party".into(), |address| address.ip().to_string());
            title.set(format!("{from} (SSRC {ssrc:08x})"));
        }
    }
}

impl Rate {
    fn may_begin(&mut self, now: Instant) -> bool {
        let passed = now.since(self.at).as_secs_f64() / AGAIN.as_secs_f64();
        self.left = (self.left + passed).min(BURST);
        self.at = now;
        let may = self.left >= 1.0;
        self.left -= f64::from(u8::from(may));
        may
    }
}

impl Finisher {
    /// Waits for all of them, once the call is over; returns why some failed.
    pub fn finish(self) -> Vec<String> {
        self.thread.join().unwrap_or_else(|_| vec!["the thread that finishes sinks panicked".into()])
    }
}

/// Until no more are to come.
fn finish_all(finishing: &Receiver<Finish>, tell: &Sender<FilmNews>) -> Vec<String> {
    let (mut running, mut causes) = (Vec::new(), Vec::new());
    for finish in finishing {
        let tell = tell.clone();
        let (done, rest) = running.into_iter().partition(JoinHandle::is_finished);
        causes.extend(ends_of(done));
        running = rest;
        match spawn("talk-finish-one", move || finish_one(finish, &tell)) {
            Ok(thread) => running.push(thread),
            // The sink is dropped, which ends it as well.
            Err(error) => causes.push(error.message),
        }
    }
    causes.extend(ends_of(running));
    causes
}

fn ends_of(threads: Vec<JoinHandle<Option<String>>>) -> impl Iterator<Item = String> {
    threads.into_iter().filter_map(|thread| thread.join().ok().flatten())
}

fn finish_one(finish: Finish, tell: &Sender<FilmNews>) -> Option<String> {
    let Finish { number, mut sink, written } = finish;
    let failed = match sink.finish() {
        Ok(()) | Err(SinkError::Closed) => None,
        Err(error) => Some(error.to_string()),
    };
    let _main_thread_is_gone = tell.send(FilmNews::Ended { number, written, failed: failed.clone() });
    failed
}

/// Pictures of a party that has no sink.
struct Nowhere;

impl VideoSink for Nowhere {
    fn on_packet(&mut self, _packet: &VideoArrived<'_>) {}
}

/// Parties that may begin at once: twice as many as there can be.
const BURST: f64 = 32.0;
/// How soon a further one may.
const AGAIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_that_come_all_the_time_are_bounded() {
        let mut rate = Rate { left: BURST, at: Instant::ZERO };
        let mut begun =
            |from: u64, to: u64| (from..to).filter(|ms| rate.may_begin(Instant::from_millis(*ms))).count();
        assert_eq!(begun(0, 1_000), 32);
        assert_eq!(begun(1_000, 21_000), 10);
        assert_eq!(begun(1_000_000, 1_000_100), 32);
    }
}
