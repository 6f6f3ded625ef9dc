//! Receives a stream into a sink.

mod calling;
mod delay;
mod gap;
mod missing;
mod opening;
mod plan;
mod run;
mod shown;
mod sinks;
mod snapshot;
mod step;
mod watched;

use std::sync::mpsc;

use antiphon_net::{OsClock, Stop};

use crate::auto::{self, is_auto};
use crate::complete::Listening;
use crate::data::DataReceived;
use crate::device::DeviceStatus;
use crate::groups::ReceiveGroup;
use crate::live::LiveFigures;
use crate::passport::PassportFile;
use crate::pictures::{ForeignPictures, FurtherPictures, PicturesReceived, VideoOver};
use crate::programmes::Programmes;
use crate::run::spawn;
use crate::show::{looks, watch};
use crate::{Error, ReceiveOptions};
use calling::no_sender;
pub use delay::{AdaptedDelay, TradeOff};
pub use gap::{Gap, GapCause};
pub use missing::{MissingSound, Recording};
pub(crate) use opening::{Opener, SharedOpener};
pub(crate) use plan::{
    ReceivePlan, asked_latency, device_latency, listening, playout_delay, unasked_latency,
};
use run::{Ended, run};
pub(crate) use run::{film, session_config};
pub(crate) use shown::{Listed, Opened, Shown, Told};
pub(crate) use sinks::{finish, open_sink, opening, was_closed};
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
