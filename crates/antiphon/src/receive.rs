//! Receives a stream into a sink.

mod calling;
mod delay;
mod gap;
mod missing;
mod opening;
mod plan;
mod snapshot;
mod step;
mod watched;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc;

use antiphon_core::{MediaTime, WireId};
use antiphon_media::{Coding, Sink, SinkError, StreamFormat, Wants};
use antiphon_net::{OsClock, Stop};
use antiphon_proto::Substrate;
use antiphon_session::{
    Notice, OpenSink, Parties, PlayoutDelay, ReceiveError, ReceiveTrack, Session, SessionConfig, Written,
    converted_sink,
};
use antiphon_sound::{DeviceMeter, Notes, SinkSpec};
use antiphon_trace::passport::Hole;

use crate::auto::{self, is_auto};
use crate::complete::{Completing, Listening};
use crate::data::{DataCounters, DataReceived};
use crate::device::{DeviceStatus, tell as tell_device};
use crate::discovery::{PeerRole, advertise};
use crate::groups::{ReceiveGroup, channels_label};
use crate::live::{LiveFigures, PeakMeter, Recent};
use crate::passport::{Hearing, PassportFile, Recorder};
use crate::pictures::{
    Film, FilmCounters, FilmPlan, ForeignPictures, FurtherPictures, PicturesReceived, VideoOver,
};
use crate::programmes::{Choosing, Programmes};
use crate::run::{self, RunPlan, Runner, WallClock, create_capture, finish_capture, spawn};
use crate::send::SILENCE;
use crate::show::{Looks, looks, watch};
use crate::transport::StreamUri;
use crate::{Error, Latency, ReceiveOptions, SinkClock};
use calling::no_sender;
pub use delay::{AdaptedDelay, TradeOff};
pub use gap::{Gap, GapCause};
pub use missing::{MissingSound, Recording};
use opening::may_open;
pub(crate) use opening::{Opener, SharedOpener};
pub(crate) use plan::{
    ReceivePlan, asked_latency, device_latency, listening, playout_delay, unasked_latency,
};
pub(crate) use snapshot::{Snapshot, describe_notice};
pub use step::StepStatus;
pub(crate) use step::playback;
use watched::{Ending, Watched};

/// State of a stream being received; reported about ten times a second.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ReceiveStatus {
    /// Sound played so far.
    pub played_s: f64,
    /// RTP packets received of the stream.
    pub packets_received: u64,
    /// Packets that never came although later ones were played.
    pub lost: u64,
    /// Packets after their deadline.
    pub late: u64,
    /// Packets that came twice.
    pub duplicate: u64,
    /// Packets overtaken by later ones.
    pub reordered: u64,
    /// Holes filled by concealment.
    pub concealed: u64,
    /// Packets that came in time as the transport sent them again.
    #[serde(skip)]
    pub repaired: u64,
    /// Packets and datagrams of other senders, which are ignored.
    pub unknown_sources: u64,
    /// Messages that are neither RTP nor RTCP.
    pub malformed: u64,
    /// RFC 3550 interarrival jitter, in milliseconds; of several channel groups the worst.
    pub jitter_rfc3550_ms: Option<f64>,
    /// How much faster the sender's sampling clock runs than ours.
    pub drift_ppm: Option<f64>,
    /// Playout delay in force, in milliseconds; none for a recording.
    pub latency_ms: Option<f64>,
    /// From a sample's capture to its playout, by the sender's clock; `None` before that is known, for a recording, and where
    /// the sender does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepStatus>,
    /// What a playout delay that adapts has done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapted: Option<AdaptedDelay>,
    /// What playout delays would do on this path, as far as enough packets have come to tell.
    pub trade_off: Vec<TradeOff>,
    /// The gaps of the last two seconds, at most 16, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Of the last second; at the end, of the whole stream.
    #[serde(flatten)]
    pub live: LiveFigures,
    /// Of the sender that is called: which programmes it has, and which is heard; `None` before that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programmes: Option<Programmes>,
    /// Of each channel group; empty if there is but one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ReceiveGroup>,
    /// The sound server that plays it; `None` if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceStatus>,
    /// The pictures of a recording with pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures: Option<PicturesReceived>,
    /// The sender's further tracks of pictures; empty where none are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_pictures: Vec<FurtherPictures>,
    /// Each of the data beside the sound; empty where none are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataReceived>,
}

/// A stream that was received.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReceiveSummary {
    /// The final state.
    #[serde(flatten)]
    pub status: ReceiveStatus,
    /// Whether it was stopped before the sender ended the stream.
    pub interrupted: bool,
    /// Messages for the user.
    pub notes: Vec<String>,
    /// The file that was written, and what it misses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// A sentence if nothing was to be missing, and something is.
    pub shortfall: Option<String>,
}

/// Receives a stream into a sink until the sender ends it, or until stopped. `notice` gets sentences for the user as
/// things happen.
pub fn receive(
    options: &ReceiveOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&ReceiveStatus),
) -> Result<ReceiveSummary, Error> {
    if is_auto(&options.source) && (options.video_over.is_some() || options.data_over.is_some()) {
        return Err(Error::usage(
            "auto:// has one transport for sound and pictures: name the sound's, such as rtp://:PORT, or omit --video-over and --data-over",
        ));
    }
    if is_auto(&options.source) {
        return receive_any(options, stop, notice, status);
    }
    let clock = OsClock::new();
    let mut plan = ReceivePlan::new(options)?;
    let passport = options.passport.as_deref();
    plan.passport =
        passport.map(|path| PassportFile::create(path, &options.command, options.seed)).transpose()?;
    let (description, latency) = (plan.describe(), plan.latency);
    let video_over = plan.overs.of_pictures().cloned();
    let foreign = plan.pictures.clone();
    let left_out = ForeignPictures::left_out(options, foreign.is_some());
    let calls = plan.calls().then_some(options.forever);
    let records = plan.records();
    let (out, mut looked) = looks();
    let (tell, told) = mpsc::channel();
    let (list, listed) = mpsc::channel();
    let (ready, opened) = mpsc::channel();
    let over = options.complete.as_ref();
    let completing = over.map(|over| Listening::open(over, &plan.uri, &options.socket)).transpose()?;
    // The user's request ends what comes after the stream as well, any other only the stream.
    let stream_stop = Stop::new();
    let thread_stop = stream_stop.clone();
    let thread = spawn("receive", move || run(plan, clock, &thread_stop, out, (tell, list), ready))?;
    // Printed only when it is true, since the reader may then start the sender. A thread that failed prints nothing.
    if opened.recv().is_ok() {
        notice(description);
        left_out.into_iter().for_each(&mut *notice);
    }
    let mut shown = Shown::new(told, latency);
    shown.over = video_over.as_ref().map(VideoOver::scheme);
    let mut watched = Watched::new(options, clock, (stop, &stream_stop), calls, completing, listed);
    let result = watch(thread, &mut looked, |snapshot: Option<Snapshot>| {
        watched.look(snapshot, &mut shown, (&mut *notice, &mut *status));
    });
    let ended = result.map_err(|_| Error::failed("the media thread panicked"))??;
    let Watched { programmes, completing, gave_up, unanswered, unwanted, .. } = watched;
    let end = ended.last.end.filter(|_| calls.is_some());
    let closed = ended.closed;
    let last = ReceiveStatus { programmes, ..shown.end(&ended.last, notice) };
    status(&last);
    let (notes, recording, shortfall) = Ending {
        options,
        video_end: ended.last.video_end.filter(|_| !stream_stop.is_asked()),
        foreign,
        video_over,
        records,
        last: &last,
        stop,
    }
    .tell(ended, shown, completing, notice);
    if let Some(patience) = options.give_up.filter(|_| gave_up) {
        let patience = antiphon_core::units::format_duration(patience);
        return Err(Error::unreachable(format!("no packets for {patience}: given up")));
    }
    let interrupted = stop.is_asked() || closed;
    if let Some(why) = unanswered.filter(|_| !interrupted) {
        return Err(no_sender(why, &options.source));
    }
    if let Some(refusal) = unwanted.filter(|_| !interrupted) {
        return Err(Error::unreachable(refusal));
    }
    let shortfall = shortfall.or_else(|| calling::ended(end).filter(|_| !interrupted));
    Ok(ReceiveSummary { status: last, interrupted, notes, recording, shortfall })
}

/// Whether the sender is called, or waited for.
pub(crate) fn calls(options: &ReceiveOptions) -> Result<bool, Error> {
    Ok(!is_auto(&options.source) && ReceivePlan::new(options)?.calls())
}

/// Waits on every transport, for a sender that measures and chooses.
fn receive_any(
    options: &ReceiveOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&ReceiveStatus),
) -> Result<ReceiveSummary, Error> {
    let (options, reflecting, told) = auto::receive(options)?;
    notice(told);
    let received = receive(&options, stop, notice, status);
    match (received, reflecting.finish()) {
        (Ok(mut summary), failed) => {
            summary.notes.extend(failed.map(|error| error.message));
            Ok(summary)
        }
        (Err(error), None) => Err(error),
        (Err(error), Some(other)) => Err(Error { message: format!("{error}; {other}"), ..error }),
    }
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

/// What the media thread returns.
struct Ended {
    /// Sentences for the user.
    notes: Vec<String>,
    /// Notices not reported yet.
    notices: Vec<Notice>,
    /// Results of the other files that were asked for: passport, capture.
    files: Vec<String>,
    last: Snapshot,
    /// What was written, and what it misses.
    written: Option<Written>,
    /// The user closed the player.
    closed: bool,
}

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

/// The media thread.
fn run(
    mut plan: ReceivePlan,
    clock: OsClock,
    stop: &Stop,
    mut out: Looks<Snapshot>,
    (tell, list): (mpsc::Sender<Told>, mpsc::Sender<Programmes>),
    ready: mpsc::Sender<()>,
) -> Result<Ended, Error> {
    let capture = create_capture(plan.options.capture.as_deref(), clock)?;
    let calls = plan.calls();
    let mut runner = RunPlan {
        taps: capture.as_ref().map(|capture| (capture.taps(), plan.uri.transport.scheme.into())),
        wait: plan.options.wait,
        waker: calls.then(|| plan.options.programme.wakes()).transpose()?,
        ..RunPlan::new(plan.uri.wire(plan.stack.clone()), clock)
    }
    .open()?;
    let meter = PeakMeter::default();
    let device = Rc::default();
    let mut session = set_up(&mut plan, clock, &runner, (&meter, &device), tell)?;
    let record = |file| record(file, &plan.uri, &runner, &mut session);
    let recorder = plan.passport.take().map(record).transpose()?;
    let choice = plan.options.programme.clone();
    let told = move |programmes| {
        let _main_thread_is_gone = list.send(programmes);
    };
    let mut choosing = calls.then(|| Choosing::new(choice, clock.now(), &mut session, told));
    listen_on_all(&plan, &mut runner, &mut session)?;
    let _advertiser = plan
        .options
        .announce
        .as_deref()
        .map(|name| advertise(name, PeerRole::Receiver, &plan.uri, &runner))
        .transpose()?;
    let _main_thread_is_gone = ready.send(());
    let mut wall = WallClock::new(clock);
    runner.drive(&mut session, stop, &mut |now, session, lines| {
        wall.keep(now, session);
        lines.let_input_wait(session.input_may_wait());
        choosing.iter_mut().for_each(|choosing| choosing.poll(now, session));
        if let Some(device) = &*device.borrow() {
            session.set_playback_delay(playback(&device.figures()));
        }
        out.look(now, || Snapshot::of(session, now, &meter).with_peer(session, lines));
    })?;
    let last = Snapshot::of(&mut session, clock.now(), &meter);
    let after = runner.finish();
    let mut notes = vec![format!("media thread: {}", after.scheduling)];
    notes.extend(after.notes);
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let divided =
        session.receive_track().and_then(ReceiveTrack::division).filter(|groups| groups.count() > 1);
    if let (Some(first), true) = (divided.and_then(|groups| groups.range(0)), recorder.is_some()) {
        notes.push(format!(
            "the passport holds the packets of the first group, channels {}",
            channels_label(&first)
        ));
    }
    let closed = was_closed(&session);
    let files = recorder.map(Recorder::finish).into_iter().chain(captured).chain(closed.clone()).collect();
    let written = session.receive_track_mut().and_then(ReceiveTrack::take_written);
    let notices = finish(&mut session, &mut notes)?;
    Ok(Ended { notes, notices, files, last, written, closed: closed.is_some() })
}

/// A session that receives into all that the plan names. `device`: where the sink's device is told.
fn set_up(
    plan: &mut ReceivePlan,
    clock: OsClock,
    runner: &Runner,
    (meter, device): (&PeakMeter, &Rc<RefCell<Option<DeviceMeter>>>),
    tell: mpsc::Sender<Told>,
) -> Result<Session, Error> {
    let mut session = Session::new(session_config(plan, clock), clock.now());
    let track = plan.track(runner.profile());
    let opened_device = device.clone();
    let film = film(plan, &mut session, &tell);
    if let Some(files) = plan.data.take() {
        let _main_thread_is_gone = tell.send(Told::Data(files.receive_with(&mut session)?));
    }
    let opener = Opener::start(&plan.sink)?;
    let open_sink = meter.sink(open_sink(
        (plan.sink.clone(), film),
        opener.clone(),
        plan.options.clock,
        move |opened: Opened| {
            opened_device.borrow_mut().clone_from(&opened.device);
            let _main_thread_is_gone = tell.send(Told::Sink(opened));
        },
    ));
    if plan.follows_step {
        session.follow_step();
    }
    if let Some(shared) = plan.shared_clock {
        session.follow_shared_clock(shared);
        session.set_shared_time(|| clock.tai());
    }
    let track = ReceiveTrack::new(track, open_sink, None);
    session.set_receive_track(opening(track, opener.as_ref(), &plan.sink));
    Ok(session)
}

/// Waits on every wire of the plan, or calls.
fn listen_on_all(plan: &ReceivePlan, runner: &mut Runner, session: &mut Session) -> Result<(), Error> {
    runner.join_lastingly(session, SILENCE, plan.options.forever);
    for (wire, uri) in (1..).zip(&plan.also) {
        let stack = uri.stack(plan.options.seed, plan.stack.playout_delay, plan.stack.framing);
        runner.listen_further(WireId(wire), uri.wire(stack), session, SILENCE)?;
    }
    let next = WireId(1 + plan.also.len() as u32);
    for over in plan.overs.iter() {
        let wire = over.wire(plan.options.seed, plan.stack.playout_delay);
        runner.listen_apart((over.apart(), over.wire_id()), wire, session, SILENCE)?;
    }
    // The pictures' port may be the one behind the sound's, where else its RTCP would come.
    if let Some(pictures) = &plan.pictures {
        pictures.listen(runner, session, WireId(next.0 + 2))?;
    }
    if plan.also.is_empty() {
        runner.listen_for_rtcp(WireId(next.0 + 1), session)?;
    }
    Ok(())
}

pub(crate) fn session_config(plan: &ReceivePlan, clock: OsClock) -> SessionConfig {
    SessionConfig {
        // Until the longest delay a packet may be of use: the sound is stretched for it.
        tells: Some(
            plan.latency.map_or(PlayoutDelay::Unbounded, |latency| PlayoutDelay::Of(latency.longest())),
        ),
        ends_with_stream: !plan.options.forever,
        framing: plan.stack.framing,
        ..run::session_config(plan.options.seed ^ crate::transport::unguessable(), clock)
    }
}

/// Has `session` receive pictures as well, if the sink is for both.
pub(crate) fn film(plan: &ReceivePlan, session: &mut Session, tell: &mpsc::Sender<Told>) -> Option<Film> {
    let film = FilmPlan::of(&plan.sink, plan.latency)?;
    let described = plan.pictures.as_ref().map(|pictures| pictures.described.clone());
    let (pictures, film) = film.of_another_program(described).with_further(plan.further.clone()).start();
    pictures.into_iter().for_each(|track| session.add_video_sink(track));
    let further = plan.options.video_tracks.iter().cloned().zip(film.further_counters()).collect();
    let _main_thread_is_gone = tell.send(Told::Pictures(film.counters()));
    let _main_thread_is_gone = tell.send(Told::FurtherPictures(further));
    Some(film)
}

/// That the user has closed the player, in a sentence.
pub(crate) fn was_closed(session: &Session) -> Option<String> {
    let of_parties = session.parties().and_then(Parties::error);
    let error = session.receive_track().and_then(ReceiveTrack::error).or(of_parties);
    (error == Some(&ReceiveError::SinkClosed)).then(|| "the player was closed".into())
}

/// Starts a passport of what `session` receives.
fn record(
    file: PassportFile,
    uri: &StreamUri,
    runner: &Runner,
    session: &mut Session,
) -> Result<Recorder, Error> {
    // The kernel's TCP loses nothing: a missing packet was given up before it was sent.
    let hole = if uri.transport.substrate == Substrate::Tcp { Hole::NotSent } else { Hole::Lost };
    let repairs = runner.profile().retransmits;
    let scribe = Hearing::new(uri.transport.scheme, repairs, hole, runner.header_bytes());
    let (recorder, observer) = Recorder::start(file, scribe)?;
    session.observe(observer);
    Ok(recorder)
}

/// A track whose sink `opener` opens, if there is one.
pub(crate) fn opening(track: ReceiveTrack, opener: Option<&SharedOpener>, sink: &SinkSpec) -> ReceiveTrack {
    match opener {
        Some(opener) => track.open_when(may_open(opener, sink)),
        None => track,
    }
}

/// Rate and channels in which `sink` takes a stream of `format`.
fn sink_format(sink: &SinkSpec, format: StreamFormat) -> Result<StreamFormat, String> {
    let rate = sink.rate.unwrap_or(format.rate());
    let channels = sink.channels.unwrap_or(format.channels() as u32);
    StreamFormat::new(rate, channels).map_err(|error| error.to_string())
}

/// Opens the sink when the format is known, in the rate and channels that the sink wants; `opener` may have opened it.
pub(crate) fn open_sink(
    (sink, mut film): (SinkSpec, Option<Film>),
    opener: Option<SharedOpener>,
    clock: SinkClock,
    mut tell: impl FnMut(Opened) + 'static,
) -> OpenSink {
    Box::new(move |format, sample| {
        let wanted = sink_format(&sink, format)?;
        let rate = wanted.rate();
        let opened = opener.as_ref().and_then(|opener| opener.borrow_mut().take((wanted, sample)));
        let opened = match (&mut film, opened) {
            (Some(film), _) => film.open(wanted),
            (None, Some(opened)) => opened,
            (None, None) => sink.open(wanted, sample),
        };
        let opened = opened.map_err(|error| error.to_string())?;
        let told = Opened { notes: opened.notes, path: opened.path, rate, device: opened.device };
        tell(told);
        // The player converts to the rate of a device, with its drift.
        let rate = if opened.sink.clocked() { opened.sink.format().rate() } else { format.rate() };
        let given = StreamFormat::new(rate, format.channels() as u32).map_err(|error| error.to_string())?;
        let sink = converted_sink(opened.sink, given).map_err(|error| error.to_string())?;
        Ok(match clock {
            SinkClock::System if !sink.clocked() => Box::new(Paced(sink)),
            _ => sink,
        })
    })
}

/// A sink that takes sound at this machine's pace, whatever the sender's clock does.
struct Paced(Box<dyn Sink>);

impl Sink for Paced {
    fn format(&self) -> StreamFormat {
        self.0.format()
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.0.push(block)
    }

    fn clocked(&self) -> bool {
        true
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        self.0.period()
    }

    fn room(&self) -> usize {
        self.0.room()
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        self.0.silence(frames)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.finish()
    }
}

/// Finishes the sink; returns the notices not reported yet.
pub(crate) fn finish(session: &mut Session, notes: &mut Vec<String>) -> Result<Vec<Notice>, Error> {
    let Some(track) = session.receive_track_mut() else { return Ok(Vec::new()) };
    let (error, counters) = (track.error().cloned(), track.counters());
    if counters.overrun_frames > 0 {
        notes.push(format!("{} sample frames dropped because the sink is too slow", counters.overrun_frames));
    }
    let notices = std::iter::from_fn(|| track.poll_notice()).collect();
    if let Some(Err(cause)) = track.take_sink().map(|mut sink| sink.finish()) {
        return Err(Error::failed(cause.to_string()));
    }
    match error {
        Some(ReceiveError::SinkClosed) | None => Ok(notices),
        Some(error) => Err(Error::failed(error.to_string())),
    }
}
