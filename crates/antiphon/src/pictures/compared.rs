//! The pictures of a comparison: sent beside the sound over each transport, back from the reflector, and shown to nobody.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_measure::{PacketLog, PictureFacts, PictureLog, PicturesFigures, SentPicturePacket};
use antiphon_media::{Sink, SinkError, StreamFormat, Wants};
use antiphon_session::{ArrivalTable, PictureSent, Seen, Session};

use super::film::{FilmCounters, MeasuredFilm};
use super::{FrameRate, PacketLength, VideoFile};
use crate::trouble::ReadTrouble;
use crate::{CompareOptions, Error};

/// Which pictures are sent beside the sound of a comparison.
pub(crate) struct PicturesPlan {
    files: Vec<PathBuf>,
    rate: Option<FrameRate>,
    /// So much of them is sent.
    length: Duration,
    latency: Duration,
    seed: u64,
}

/// The pictures of one transport, opened.
pub(crate) struct BesidePlan {
    versions: Vec<VideoFile>,
    length: Duration,
    latency: Duration,
    seed: u64,
}

/// The pictures of a session that runs.
pub(crate) struct BesideRun {
    log: Rc<RefCell<PictureLog>>,
    shown: FilmCounters,
    troubles: Vec<ReadTrouble>,
}

/// The same, ended.
pub(crate) struct BesideEnded {
    log: Rc<RefCell<PictureLog>>,
    known: PictureFacts,
}

impl PicturesPlan {
    /// Of a sound of this length; `None` if there are no pictures. Files that are none are refused now.
    pub fn new(options: &CompareOptions, sound: Duration) -> Result<Option<Self>, Error> {
        if options.video.is_empty() {
            return Ok(None);
        }
        let plan = PicturesPlan {
            files: options.video.clone(),
            rate: options.video_rate,
            length: sound.mul_f64(BESIDE),
            latency: options.latency,
            seed: options.seed,
        };
        plan.open()?;
        Ok(Some(plan))
    }

    /// Opens the files for one transport, each read by a thread of its own.
    pub fn open(&self) -> Result<BesidePlan, Error> {
        let PicturesPlan { length, latency, seed, .. } = *self;
        Ok(BesidePlan { versions: VideoFile::open_all(&self.files, self.rate)?, length, latency, seed })
    }

    /// Open files that they take for each transport.
    pub fn descriptors(&self) -> u64 {
        self.files.len() as u64
    }
}

impl BesidePlan {
    /// Sends them beside the sound of `session`, in packets of at most this length, and receives them. Returns the sink that the sound is to
    /// be played to as well. `arrivals`: what the far end notes of them, if it shares our clock.
    pub fn join(
        self,
        session: &mut Session,
        packets: PacketLength,
        format: StreamFormat,
        arrivals: Option<ArrivalTable>,
    ) -> Result<(BesideRun, Box<dyn Sink>), Error> {
        let log = PictureLog::new((self.length.as_secs_f64() * MOST_RATE) as usize + 1);
        let how = (Some(self.length), self.seed);
        let troubles = VideoFile::send_with(vec![self.versions], session, packets, how, None)?;
        let film = MeasuredFilm::start(format, self.latency)?;
        session.set_video_sink(film.pictures);
        if let (Some(table), Some(ssrc)) = (&arrivals, session.video_ssrcs().next()) {
            table.follow(ssrc);
        }
        let log = Rc::new(RefCell::new(log));
        let seen_by = Rc::clone(&log);
        session.observe(Box::new(move |now: Instant, seen: &Seen| {
            note(&mut seen_by.borrow_mut(), arrivals.as_ref(), now, seen);
        }));
        Ok((BesideRun { log, shown: film.counters, troubles }, film.sound))
    }
}

fn note(log: &mut PictureLog, arrivals: Option<&ArrivalTable>, now: Instant, seen: &Seen) {
    match *seen {
        Seen::PictureSent(PictureSent { sequence, picture, part, due, len, result, .. }) => {
            arrivals.iter().for_each(|table| table.clear(sequence));
            log.on_sent(now, &SentPicturePacket { sequence, picture, part, due, bytes: len, result });
        }
        Seen::PictureArrived { sequence, at } => {
            let there = arrivals.and_then(|table| table.arrival(sequence));
            let one_way = there.zip(log.sent_at(sequence)).filter(|(there, sent)| there >= sent);
            log.on_received(sequence, at, one_way.map(|(there, sent)| there.since(sent)));
        }
        _ => {}
    }
}

impl BesideRun {
    /// Takes what the session and its sink, which has ended, know of them.
    pub fn finish(self, session: &Session, facts: &mut Vec<String>) -> BesideEnded {
        facts.extend(self.troubles.iter().filter_map(ReadTrouble::note));
        let sent = session.video_sent().next().expect("the session has had the track since it was joined");
        let shown = self.shown.get();
        let known = PictureFacts {
            sent: sent.units,
            left_out: sent.left_out,
            expired: sent.expired,
            caught_up: sent.caught_up,
            too_late: shown.too_late,
            frozen: Duration::from_secs_f64(shown.frozen_s),
            skew: shown.skew,
        };
        BesideEnded { log: self.log, known }
    }
}

impl BesideEnded {
    /// What came of them beside this sound, once the session is gone.
    pub fn measure(self, sound: &PacketLog) -> (PictureLog, PicturesFigures) {
        let mut log = Rc::into_inner(self.log).expect("the session had the other").into_inner();
        log.finish();
        let figures = log.figures(&self.known, sound);
        (log, figures)
    }
}

/// Plays to two sinks: what a listener hears, and the measurement of the pictures beside it. The first one says how much it takes.
pub(crate) struct BothSinks(pub Box<dyn Sink>, pub Box<dyn Sink>);

impl Sink for BothSinks {
    fn format(&self) -> StreamFormat {
        self.0.format()
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.0.push(block)?;
        self.1.push(block)
    }

    fn clocked(&self) -> bool {
        self.0.clocked()
    }

    fn wants(&self) -> Option<Wants> {
        self.0.wants()
    }

    fn period(&self) -> Option<usize> {
        self.0.period()
    }

    fn room(&self) -> usize {
        self.0.room()
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        self.0.silence(frames)?;
        self.1.silence(frames)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let shown = self.1.finish();
        self.0.finish().and(shown)
    }
}

/// Pictures are sent beside so much of the sound; the rest goes alone, and tells what they cost it.
const BESIDE: f64 = 0.75;
/// Pictures in a second for which a log has room.
const MOST_RATE: f64 = 120.0;
