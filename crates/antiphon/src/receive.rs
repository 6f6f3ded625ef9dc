//! Receives a stream into a sink.

mod missing;
mod plan;
mod snapshot;

use std::path::PathBuf;
use std::sync::mpsc;

use antiphon_core::{Instant, MediaTime, WireId};
use antiphon_media::{Sink, SinkError, StreamFormat};
use antiphon_net::{OsClock, Stop};
use antiphon_proto::Substrate;
use antiphon_session::{
    Notice, OpenSink, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Session, SessionConfig, StreamFraming,
    Written, converted_sink,
};
use antiphon_sound::{Notes, SinkSpec};
use antiphon_trace::passport::Hole;

use crate::auto::{self, is_auto};
use crate::complete::{Completing, Listening};
use crate::groups::{ReceiveGroup, channels_label};
use crate::live::{LiveFigures, PeakMeter, Recent};
use crate::passport::{Hearing, PassportFile, Recorder};
use crate::run::{self, RunPlan, Runner, WallClock, create_capture, finish_capture, spawn};
use crate::send::SILENCE;
use crate::show::{Looks, looks, watch};
use crate::transport::StreamUri;
use crate::{Error, ReceiveOptions, SinkClock};
pub use missing::{MissingSound, Recording};
use plan::ReceivePlan;
pub(crate) use plan::listening;
use snapshot::{Snapshot, describe_notice};

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
    /// Of the last second; at the end, of the whole stream.
    #[serde(flatten)]
    pub live: LiveFigures,
    /// Of each channel group; empty if there is but one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ReceiveGroup>,
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
    if is_auto(&options.source) {
        let (options, reflecting, told) = auto::receive(options)?;
        notice(told);
        let received = receive(&options, stop, notice, status);
        return match (received, reflecting.finish()) {
            (Ok(mut summary), failed) => {
                summary.notes.extend(failed.map(|error| error.message));
                Ok(summary)
            }
            (Err(error), None) => Err(error),
            (Err(error), Some(other)) => Err(Error { message: format!("{error}; {other}"), ..error }),
        };
    }
    let clock = OsClock::new();
    let mut plan = ReceivePlan::new(options)?;
    let passport = options.passport.as_deref();
    plan.passport =
        passport.map(|path| PassportFile::create(path, &options.command, options.seed)).transpose()?;
    let (description, latency) = (plan.describe(), plan.latency);
    let records = plan.records();
    let (out, mut looked) = looks();
    let (tell, told) = mpsc::channel();
    let (ready, opened) = mpsc::channel();
    let over = options.complete.as_ref();
    let mut completing = over.map(|over| Listening::open(over, &plan.uri, &options.socket)).transpose()?;
    // The user's request ends what comes after the stream as well, any other only the stream.
    let stream_stop = Stop::new();
    let thread_stop = stream_stop.clone();
    let thread = spawn("receive", move || run(plan, clock, &thread_stop, out, tell, ready))?;
    // Printed only when it is true, since the reader may then start the sender. A thread that failed prints nothing.
    if opened.recv().is_ok() {
        notice(description);
    }
    let (mut last, limit) = (ReceiveStatus::default(), options.length);
    let (mut heard, mut gave_up, give_up) = (clock.now(), false, options.give_up);
    let mut recent = Recent::default();
    let result = watch(thread, &mut looked, |snapshot: Option<Snapshot>| {
        if stop.is_asked() {
            stream_stop.ask();
        }
        let Some(snapshot) = snapshot else { return };
        let before = last.packets_received;
        last = ReceiveStatus { live: recent.on_look(snapshot.look), ..snapshot.status(latency) };
        if last.packets_received != before {
            heard = clock.now();
        }
        // Its sender calls after the stream: its goodbye was lost.
        let silent = clock.now().since(heard) >= SILENCE;
        if completing.as_mut().is_some_and(Listening::is_offered) && silent {
            stream_stop.ask();
        }
        if give_up.is_some_and(|patience| clock.now().since(heard) >= patience) && !stream_stop.is_asked() {
            gave_up = true;
            stream_stop.ask();
        }
        if let Some(sentence) = snapshot.notice.map(describe_notice) {
            notice(sentence);
        }
        if limit.is_some_and(|limit| clock.now().since(Instant::ZERO) >= limit) {
            stream_stop.ask();
        }
        status(&last);
    });
    let Ended { mut notes, notices, files, last, mut written } =
        result.map_err(|_| Error::failed("the media thread panicked"))??;
    recent.on_look(last.look);
    let last = ReceiveStatus { live: recent.whole(), ..last.status(latency) };
    status(&last);
    let notices = notices.into_iter().map(describe_notice);
    notices.chain(files).chain(options.socket.allow.note()).for_each(&mut *notice);
    let (mut recording, mut completed) = (None, None);
    for sink in told.try_iter() {
        notes.extend(sink.notes.list());
        let Some((path, written)) = sink.path.zip(written.as_mut()) else { continue };
        if let Some(listening) = completing.take().filter(|_| !stop.is_asked()) {
            completed = Some(Completing { listening, path: &path, written }.run(stop, notice));
        }
        let mut list = Recording::new(path, written.format.rate(), written.frames, &written.gaps);
        notes.extend(list.list(sink.rate));
        recording = Some(list);
    }
    match completed {
        Some(Ok(frames)) if frames > 0 => {
            let rate = written.as_ref().map_or(1, |written| written.format.rate());
            let seconds = MediaTime::new(frames, rate).duration().as_secs_f64();
            notice(format!("completed: {seconds:.3} s of sound came after the stream"));
        }
        Some(Err(why)) => notice(why),
        _ => {}
    }
    let shortfall = recording.as_ref().filter(|_| records).and_then(Recording::shortfall);
    let removed = recording.as_ref().filter(|recording| !recording.file.exists());
    let shortfall = shortfall.or_else(|| {
        removed.map(|one| {
            format!("'{}' was removed while it was recorded: its sound is gone", one.file.display())
        })
    });
    if let Some(patience) = give_up.filter(|_| gave_up) {
        let patience = antiphon_core::units::format_duration(patience);
        return Err(Error::unreachable(format!("no packets for {patience}: given up")));
    }
    let interrupted = stop.is_asked();
    Ok(ReceiveSummary { status: last, interrupted, notes, recording, shortfall })
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
}

/// The sink as it was opened.
struct Opened {
    notes: Notes,
    path: Option<PathBuf>,
    rate: u32,
}

/// The media thread.
fn run(
    plan: ReceivePlan,
    clock: OsClock,
    stop: &Stop,
    mut out: Looks<Snapshot>,
    tell: mpsc::Sender<Opened>,
    ready: mpsc::Sender<()>,
) -> Result<Ended, Error> {
    let capture = create_capture(plan.options.capture.as_deref(), clock)?;
    let mut runner = RunPlan {
        taps: capture.as_ref().map(|capture| (capture.taps(), plan.uri.transport.scheme.into())),
        wait: plan.options.wait,
        ..RunPlan::new(plan.uri.wire(plan.stack.clone()), clock)
    }
    .open()?;
    let mut session = Session::new(session_config(&plan, clock), clock.now());
    let track = ReceiveTrackConfig {
        latency: plan.latency,
        conceal: plan.conceal,
        completed_later: plan.options.complete.is_some(),
        description: plan.options.description,
        any_payload_type: plan.options.any_payload_type,
        silence: SILENCE,
        // What comes over another transport may be in any order.
        ordered: runner.profile().ordered && plan.also.is_empty(),
        reliable: runner.profile().reliable
            && plan.also.is_empty()
            && plan.stack.framing == StreamFraming::Rtp,
        long_gaps: plan.options.gaps,
    };
    let meter = PeakMeter::default();
    let open_sink = meter.sink(open_sink(plan.sink, plan.options.clock, tell));
    session.set_receive_track(ReceiveTrack::new(track, open_sink, None));
    let record = |file| record(file, &plan.uri, &runner, &mut session);
    let recorder = plan.passport.map(record).transpose()?;
    runner.join(&mut session, SILENCE);
    for (wire, uri) in (1..).zip(&plan.also) {
        let stack = uri.stack(plan.options.seed, plan.stack.playout_delay, plan.stack.framing);
        runner.listen_further(WireId(wire), uri.wire(stack), &mut session, SILENCE)?;
    }
    if plan.also.is_empty() {
        runner.listen_for_rtcp(WireId(1), &mut session)?;
    }
    let _main_thread_is_gone = ready.send(());
    let mut wall = WallClock::new(clock);
    runner.drive(&mut session, stop, &mut |now, session, lines| {
        wall.keep(now, session);
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
    let files = recorder.map(Recorder::finish).into_iter().chain(captured).collect();
    let written = session.receive_track_mut().and_then(ReceiveTrack::take_written);
    let notices = finish(&mut session, &mut notes)?;
    Ok(Ended { notes, notices, files, last, written })
}

fn session_config(plan: &ReceivePlan, clock: OsClock) -> SessionConfig {
    SessionConfig {
        tells: Some(plan.latency.map_or(PlayoutDelay::Unbounded, PlayoutDelay::Of)),
        ends_with_stream: !plan.options.forever,
        framing: plan.stack.framing,
        ..run::session_config(plan.options.seed ^ crate::transport::unguessable(), clock)
    }
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

/// Opens the sink when the format is known, in the rate and channels that the sink wants.
fn open_sink(sink: SinkSpec, clock: SinkClock, tell: mpsc::Sender<Opened>) -> OpenSink {
    Box::new(move |format, sample| {
        let rate = sink.rate.unwrap_or(format.rate());
        let channels = sink.channels.unwrap_or(format.channels() as u32);
        let wanted = StreamFormat::new(rate, channels).map_err(|error| error.to_string())?;
        let opened = sink.open(wanted, sample).map_err(|error| error.to_string())?;
        let told = Opened { notes: opened.notes, path: opened.path, rate };
        let _main_thread_is_gone = tell.send(told);
        let sink = converted_sink(opened.sink, format).map_err(|error| error.to_string())?;
        Ok(match clock {
            SinkClock::Sender => sink,
            SinkClock::System => Box::new(Paced(sink)),
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

    fn wants(&self) -> Option<usize> {
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
fn finish(session: &mut Session, notes: &mut Vec<String>) -> Result<Vec<Notice>, Error> {
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
        Some(error) => Err(Error::failed(error.to_string())),
        None => Ok(notices),
    }
}
