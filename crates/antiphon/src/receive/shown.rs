//! What the thread that talks to the user makes of a stream being received.

use std::path::PathBuf;
use std::sync::mpsc;

use antiphon_core::MediaTime;
use antiphon_media::Coding;
use antiphon_net::Stop;
use antiphon_session::Written;
use antiphon_sound::{DeviceMeter, Notes};

use super::{ReceiveStatus, Recording, Snapshot};
use crate::Latency;
use crate::complete::{Completing, Listening};
use crate::data::DataCounters;
use crate::device::{DeviceStatus, tell as tell_device};
use crate::live::Recent;
use crate::pictures::{FilmCounters, FurtherPictures, PicturesReceived};

/// What the media thread tells once.
pub(crate) enum Told {
    /// A sink was opened.
    Sink(Opened),
    /// Where the pictures of a recording are counted.
    Pictures(FilmCounters),
    /// The same of further tracks, each with the file that was asked for.
    FurtherPictures(Vec<(String, FilmCounters)>),
    /// Where the data are counted.
    Data(DataCounters),
}

/// The sink as it was opened.
pub(crate) struct Opened {
    pub notes: Notes,
    pub path: Option<PathBuf>,
    pub rate: u32,
    pub device: Option<DeviceMeter>,
}

/// Makes of snapshots what the user sees.
pub(crate) struct Shown {
    pub told: mpsc::Receiver<Told>,
    /// Where the pictures of a recording are counted.
    pub pictures: Option<FilmCounters>,
    /// The same of further tracks, each with the file that was asked for.
    pub further: Vec<(String, FilmCounters)>,
    /// Where the data are counted.
    pub data: Option<DataCounters>,
    /// It was told that pictures come too late for their sound.
    pub out_of_sync: bool,
    /// It was told that the clock to play by is not the sender's.
    pub clocks_apart: bool,
    /// The sinks opened so far: a stream of another format has another one.
    pub sinks: Vec<Opened>,
    pub recent: Recent,
    pub latency: Option<Latency>,
    /// The scheme of the pictures' own transport.
    pub over: Option<&'static str>,
}

impl Shown {
    /// Of a receiver with this playout delay, before anything was looked at.
    pub fn new(told: mpsc::Receiver<Told>, latency: Option<Latency>) -> Self {
        Shown {
            told,
            pictures: None,
            further: Vec::new(),
            data: None,
            out_of_sync: false,
            clocks_apart: false,
            sinks: Vec::new(),
            recent: Recent::default(),
            latency,
            over: None,
        }
    }

    /// The state now; what the sink's device did since the last is told.
    pub fn look(&mut self, now: &Snapshot, notice: &mut dyn FnMut(String)) -> ReceiveStatus {
        for told in self.told.try_iter() {
            match told {
                Told::Sink(opened) => self.sinks.push(opened),
                Told::Pictures(counters) => self.pictures = Some(counters),
                Told::FurtherPictures(counters) => self.further = counters,
                Told::Data(counters) => self.data = Some(counters),
            }
        }
        let device = self.sinks.last().and_then(|sink| sink.device.as_ref());
        tell_device(device, notice);
        let live = self.recent.on_look(now.look);
        let pictures = self.pictures.as_ref().map(FilmCounters::get);
        let news = pictures.and_then(|pictures| pictures.sync_news(&mut self.out_of_sync, self.latency));
        news.into_iter().for_each(&mut *notice);
        let pictures = pictures.map(|pictures| PicturesReceived { over: self.over, ..pictures });
        let data = self.data.as_ref().map_or_else(Vec::new, DataCounters::get);
        let over = self.over;
        let further = |(asked, counters): &(String, FilmCounters)| FurtherPictures {
            file: counters.path().map_or_else(|| asked.clone(), |path| path.display().to_string()),
            pictures: PicturesReceived { over, ..counters.get() },
        };
        let further_pictures = self.further.iter().map(further).collect();
        let device = DeviceStatus::of(device);
        let status = now.status(self.latency);
        let apart = status.step.and_then(|step| step.clocks_apart_ms);
        if let (Some(apart), false) = (apart, std::mem::replace(&mut self.clocks_apart, apart.is_some())) {
            notice(format!(
                "the clock of this machine is {:.1} s from the one that the sender's packets count: the sound is played by its \
                 packets and not in step; have ptp4l and phc2sys steer the clock to the sender's PTP domain",
                apart / 1e3
            ));
        }
        ReceiveStatus { live, device, pictures, further_pictures, data, ..status }
    }

    /// The state of the whole stream.
    pub fn end(&mut self, last: &Snapshot, notice: &mut dyn FnMut(String)) -> ReceiveStatus {
        let status = self.look(last, notice);
        let data = self.data.take().map_or_else(Vec::new, DataCounters::finish);
        ReceiveStatus { live: self.recent.whole(), data, ..status }
    }
}

/// Lists what recordings miss, once it has been asked for.
pub(crate) struct Listed<'a> {
    pub notes: &'a mut Vec<String>,
    pub notice: &'a mut dyn FnMut(String),
    pub stop: &'a Stop,
}

impl Listed<'_> {
    /// The last recording of these sinks, of which `written` tells.
    pub fn recording(
        &mut self,
        sinks: Vec<Opened>,
        mut written: Option<&mut Written>,
        mut completing: Option<Listening>,
    ) -> Option<Recording> {
        let mut recording = None;
        for sink in sinks {
            self.notes.extend(sink.notes.list());
            let Some((path, written)) = sink.path.zip(written.as_mut()) else { continue };
            if let Some(listening) = completing.take() {
                let completed = match written.coding {
                    Coding::Opus => Err("the stream was Opus, which no recording is completed of: have samples sent, such as l16".into()),
                    Coding::Pcm(_) => Completing { listening, path: &path, written }.run(self.stop, self.notice),
                };
                self.tell_completed(completed, written.format.rate());
            }
            let mut list = Recording::new(path, written.format.rate(), written.frames, &written.gaps);
            self.notes.extend(list.list(sink.rate));
            recording = Some(list);
        }
        recording
    }

    fn tell_completed(&mut self, completed: Result<u64, String>, rate: u32) {
        match completed {
            Ok(0) => {}
            Ok(frames) => {
                let seconds = MediaTime::new(frames, rate).duration().as_secs_f64();
                (self.notice)(format!("completed: {seconds:.3} s of sound came after the stream"));
            }
            Err(why) => (self.notice)(why),
        }
    }
}
