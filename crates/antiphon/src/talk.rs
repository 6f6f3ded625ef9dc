//! Sends and receives at once: a call between two ends, over one association, or of all that talk in a multicast group.

mod apart;
mod group;
mod microphone;
mod monitor;
mod party;
mod party_films;
mod party_sinks;
mod plan;
mod run;
mod status;

use std::sync::mpsc;

use antiphon_core::{Instant, MediaTime};
use antiphon_net::{OsClock, Stop};
use antiphon_session::{Joined, ServedCounters};

use crate::live::Recent;
use crate::receive::{self, Listed, Recording, Told, describe_notice};
use crate::run::spawn;
use crate::send::{self, ANSWER_PATIENCE, Shortfall, no_answer};
use crate::show::{looks, watch};
use crate::standstill::{self, Standstill};
use crate::{Error, ErrorKind, ReceiveOptions, SendOptions, SendStatus};
pub use microphone::MuteSwitch;
pub use party::PartyStatus;
use party::Present;
use party_films::PartyFilms;
pub use party_films::PartyRecording;
use plan::TalkPlan;
use run::Ended;
use status::Snapshot;
pub use status::{DelayBasis, DelayStatus, TalkStatus};

/// How `talk` runs.
#[derive(Clone, Debug, Default)]
pub struct TalkOptions {
    /// What this end sends, and where the peer is or is waited for; or a multicast group, whose parties all hear one another. A source of no name is the default device.
    pub send: SendOptions,
    /// How this end plays what the peer sends; of these settings `source`, `also`, `forever`, `complete` and `give_up` are not
    /// used. A sink of no name is the default device.
    pub receive: ReceiveOptions,
    /// Mutes the source, from the beginning or later.
    pub mute: MuteSwitch,
    /// Plays the own sound beside the peer's, as late as the peer hears it.
    pub monitor: bool,
    /// Where the peer's sound comes, if not over the same association: a URI as `receive` takes.
    pub back: Option<String>,
}

/// A call that has ended.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TalkSummary {
    /// The final state.
    #[serde(flatten)]
    pub status: TalkStatus,
    /// Whether it was stopped here.
    pub interrupted: bool,
    /// Messages for the user.
    pub notes: Vec<String>,
    /// The file that was written, and what it misses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// Of a call over a group whose parties are recorded each by itself: their files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recordings: Vec<PartyRecording>,
    /// Why the call ended, if neither end left it.
    pub shortfall: Option<Shortfall>,
}

/// Talks with a peer until either end leaves. `notice` gets sentences for the user as things happen.
pub fn talk(
    options: &TalkOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&TalkStatus),
) -> Result<TalkSummary, Error> {
    if let Some(back) = &options.back {
        return apart::talk_apart(options, back, stop, notice, status);
    }
    let clock = OsClock::new();
    let plan = TalkPlan::new(options, clock)?;
    let (description, waits, calls) = (plan.describe(), options.send.wait_for_peer, plan.calls());
    let (source_notes, in_group) = (plan.send.notes.clone(), plan.in_group);
    let (out, mut looked) = looks();
    let (tell, told) = mpsc::channel();
    let (tell_sink, told_sinks) = mpsc::channel();
    let (tell_films, told_films) = mpsc::channel();
    let (ready, opened) = mpsc::channel();
    let films = plan.has_films().then(|| PartyFilms::new(told_films, plan.receive.latency));
    let mut shown = shown(&plan, told_sinks, films);
    let thread_stop = stop.clone();
    let thread =
        spawn("talk", move || run::run(plan, &thread_stop, out, &tell, (tell_sink, tell_films), &ready))?;
    // Printed only when it is true, since the reader may then start the other end.
    if calls || opened.recv().is_ok() {
        notice(description);
    }
    let mut gave_up = None;
    let mut standstill = Standstill::new(&clock);
    let result = watch(thread, &mut looked, |snapshot: Option<Snapshot>| {
        told.try_iter().for_each(&mut *notice);
        standstill.look(&clock).map(standstill::sentence).into_iter().for_each(&mut *notice);
        let Some(snapshot) = snapshot else { return };
        let now = shown.look(&snapshot, notice);
        let patience_is_over = clock.now().since(Instant::ZERO) > ANSWER_PATIENCE;
        if snapshot.sent.absent.is_some() && patience_is_over && !waits && !stop.is_asked() {
            gave_up = snapshot.sent.absent;
            stop.ask();
        }
        status(&now);
    });
    let Ended { mut notes, notices, parties, files, last, mut written, closed } =
        result.map_err(|_| Error::failed("the media thread panicked"))??;
    let interrupted = closed || stop.is_asked() && gave_up.is_none();
    parties.into_iter().for_each(|event| notice(shown.present.describe(event)));
    let end = shown.end(&last, notice);
    status(&end);
    notes.extend(source_notes.list());
    told.try_iter().chain(notices.into_iter().map(describe_notice)).chain(files).for_each(&mut *notice);
    options.receive.socket.allow.note().into_iter().for_each(&mut *notice);
    let mut listed = Listed { notes: &mut notes, notice, stop };
    let recording = listed.recording(shown.heard.sinks, written.as_mut(), None);
    let (recordings, of_recordings) = shown.present.into_recordings();
    notes.extend(of_recordings);
    let of_one = end.received.pictures.filter(|_| !in_group);
    let missing = of_one.and_then(|pictures| match &recording {
        Some(recording) => pictures.shortfall(&recording.file),
        None => pictures.unseen(),
    });
    notes.extend(missing);
    if let Some(why) = gave_up.or(last.sent.unanswered.filter(|_| !waits && !interrupted)) {
        return Err(if in_group { group::unreachable(why) } else { no_answer(why) });
    }
    let shortfall = shortfall(&last.sent, interrupted);
    Ok(TalkSummary { status: end, interrupted, notes, recording, recordings, shortfall })
}

/// Makes of snapshots what the user sees.
struct Shown<P> {
    mute: MuteSwitch,
    sent: send::Shown<P>,
    heard: receive::Shown,
    /// The delay as it was known last: at the end the peer tells nothing any more.
    known: Option<DelayStatus>,
    /// Of a call over a group: who is there.
    present: Present,
    /// Looks that saw a path which does not take alike both ways.
    doubted: u32,
}

fn shown(
    plan: &TalkPlan,
    sinks: mpsc::Receiver<Told>,
    films: Option<PartyFilms>,
) -> Shown<impl Fn(&send::Snapshot) -> SendStatus + use<>> {
    let (rate, total, groups) = (plan.send.format.rate(), plan.send.source.length(), plan.send.groups);
    let total_s = total.map(|frames| MediaTime::new(frames, rate).duration().as_secs_f64());
    let sent = send::Shown {
        device: plan.send.device.clone(),
        other_devices: Vec::new(),
        backup: None,
        was_backed_up: false,
        recent: Recent::default(),
        joined: Joined::default(),
        served: ServedCounters::default(),
        uncounted: antiphon_session::Uncounted::default(),
        most: 1,
        plain: move |last: &send::Snapshot| last.status(rate, total_s, groups),
    };
    let heard = receive::Shown::new(sinks, plan.receive.latency);
    Shown {
        mute: plan.options.mute.clone(),
        sent,
        heard,
        known: None,
        present: Present::with(films),
        doubted: 0,
    }
}

impl<P: Fn(&send::Snapshot) -> SendStatus> Shown<P> {
    /// The state now; what happened since the last is told.
    fn look(&mut self, now: &Snapshot, notice: &mut dyn FnMut(String)) -> TalkStatus {
        let delay = now.delay.map(DelayStatus::from);
        self.known = delay.or(self.known);
        if let Some(doubt) = delay.and_then(DelayStatus::doubt) {
            self.doubted += 1;
            if self.doubted == SURE {
                notice(doubt);
            }
        }
        if let Some(event) = now.received.notice {
            notice(describe_notice(event));
        }
        let parties = now.parties.as_ref().map(|parties| self.present.look(parties, notice));
        let (sent, mut received) =
            (self.sent.look(&now.sent, notice), self.heard.look(&now.received, notice));
        received.pictures = received.pictures.or(self.present.pictures());
        TalkStatus { muted: self.mute.is_muted(), sent, received, delay, parties }
    }

    /// The state of the whole call.
    fn end(&mut self, last: &Snapshot, notice: &mut dyn FnMut(String)) -> TalkStatus {
        let (sent, mut received) =
            (self.sent.end(&last.sent, notice), self.heard.end(&last.received, notice));
        let delay = last.delay.map(DelayStatus::from).or(self.known);
        let parties = last.parties.as_ref().map(|parties| self.present.look(parties, notice));
        received.pictures = received.pictures.or(self.present.pictures());
        TalkStatus { muted: self.mute.is_muted(), sent, received, delay, parties }
    }
}

/// Looks that see the same doubt before it is told: three seconds, in which the schedule of a new stream settles.
const SURE: u32 = 30;

/// Why a call ended that neither end left.
fn shortfall(last: &send::Snapshot, interrupted: bool) -> Option<Shortfall> {
    use antiphon_core::CloseReason;
    use antiphon_session::PeerEnd;
    let Some(PeerEnd::Closed(reason)) = last.end.filter(|_| !interrupted) else { return None };
    // A transport that ends the connection in order says goodbye as well.
    let message = format!("{} without a goodbye", send::why("the peer", reason));
    let kind = if reason == CloseReason::Peer { ErrorKind::Failed } else { ErrorKind::Unreachable };
    Some(Shortfall { message, kind })
}
