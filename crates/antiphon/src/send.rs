//! Sends a source to a peer.

mod burst;
mod described;
mod members;
mod outcome;
mod outgoing;
mod plan;
mod programmes;
mod receivers;
mod status;
mod uncounted;
mod watch;

use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{BrokenReason, Instant, MediaTime};
use antiphon_media::{Coding, Source};
use antiphon_net::{OsClock, Stop, Waker};
use antiphon_session::{Joined, ServedCounters, Session, Uncounted};
use antiphon_sound::DeviceMeter;

use crate::auto::{self, is_auto};
use crate::backup::BackupMeter;
use crate::change::{Arriving, Asker, Changes};
use crate::complete::{self, Offer};
use crate::device::{DeviceStatus, tell as tell_device};
use crate::live::{PeakMeter, Recent};
use crate::passport::{PassportFile, Recorder};
use crate::pictures::{PicturesSent, VideoOver};
use crate::receive::MissingSound;
use crate::run::{RunPlan, Runner, WallClock, create_capture, finish_capture, spawn};
use crate::show::{Looks, looks, watch};
use crate::spool::{Kept, SpoolKeeper};
use crate::standstill::{self, Standstill};
use crate::{Error, ErrorKind, SendOptions};
pub use members::SendMember;
use members::{joins_and_leaves, members};
use outcome::Outcome;
pub(crate) use outcome::why;
pub use outcome::{ConfirmedBy, Shortfall};
use outgoing::Outgoing;
pub(crate) use plan::{SendPlan, stream_format};
pub use receivers::SendReceiver;
use receivers::{Places, comings_and_goings};
pub(crate) use status::Snapshot;
pub use status::{SendProgramme, SendStatus};
use uncounted::newly_uncounted;
use watch::TvWatch;

/// A stream that was sent.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SendSummary {
    /// The final state.
    #[serde(flatten)]
    pub status: SendStatus,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Messages for the user (scheduling obtained, a truncated file …).
    pub notes: Vec<String>,
    /// The members of a multicast group, by their last reports; empty for a single receiver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members_reported: Vec<SendMember>,
    /// The receivers that have called: those that were there at the end, and the last 256 of those that were gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receivers_served: Vec<SendReceiver>,
    /// Changes of the transport that were asked for and did not happen, and why.
    pub failures: Vec<String>,
    /// What of a live source was dropped, since there was no room to keep it while the recording could not be reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped_sound: Vec<MissingSound>,
    /// What says that the receiver has it.
    pub confirmed_by: ConfirmedBy,
    /// Why it did not arrive whole, if something speaks against it.
    pub shortfall: Option<Shortfall>,
}

/// Sends a source to a peer until its end, or until stopped. `notice` gets sentences for the user as things happen.
pub fn send(
    options: &SendOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&SendStatus),
) -> Result<SendSummary, Error> {
    if is_auto(&options.target) && (options.video_over.is_some() || options.data_over.is_some()) {
        return Err(Error::usage(
            "auto:// chooses one transport for sound and pictures: name the sound's, such as rtp://HOST:PORT, or omit --video-over and --data-over",
        ));
    }
    if is_auto(&options.target) {
        return auto::send(options, stop, notice, status);
    }
    stream(options, stop, notice, status, &mut |_, _, _| {})
}

/// What may plan changes of a running stream: it sees each state.
pub(crate) type Follower<'a> = dyn FnMut(&SendStatus, &mut Changes, &mut dyn FnMut(String)) + 'a;

/// Sends over a transport that is known.
pub(crate) fn stream(
    options: &SendOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&SendStatus),
    follow: &mut Follower<'_>,
) -> Result<SendSummary, Error> {
    Prepared::new(options)?.run(stop, notice, status, follow)
}

/// A stream over a transport that is known, its options found to be valid.
pub(crate) struct Prepared {
    options: SendOptions,
    plan: SendPlan,
    passport: Option<PassportFile>,
    changes: Changes,
    arriving: Arriving,
}

impl Prepared {
    pub fn new(options: &SendOptions) -> Result<Self, Error> {
        let plan = SendPlan::new(options, OsClock::new())?;
        if let Some(over) = &options.complete {
            over.check(&plan.uri, false)?;
            if options.backup.is_some() {
                return Err(Error::usage(
                    "--complete reads the source again, which gives other sound than what --backup has sent: omit one of them",
                ));
            }
            if plan.groups.count() > 1 {
                return Err(Error::usage("--complete is for a stream of one channel group: omit --groups"));
            }
            if plan.coding == Coding::Opus {
                return Err(Error::usage(
                    "--complete brings a recording the very samples that it misses, and Opus changes all of them: omit it, or send l16",
                ));
            }
            if plan.source.is_live() || plan.source.length().is_none() {
                return Err(Error::usage(
                    "--complete reads the source again, which a live one or a pipe does not allow: send a file",
                ));
            }
        }
        let (mut changes, arriving) = Changes::read(options, &plan.uri, &plan.stack)?;
        // Other programs are not asked whether they take pictures.
        let asked = plan.overs.iter().filter(|_| plan.described.is_none());
        changes.expect_beside(asked);
        let passport = options.passport.as_deref();
        let passport =
            passport.map(|path| PassportFile::create(path, &options.command, options.seed)).transpose()?;
        Ok(Prepared { options: options.clone(), plan, passport, changes, arriving })
    }

    /// Puts something between the source and the stream.
    pub fn with_source(self, change: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>) -> Self {
        let plan = SendPlan { source: change(self.plan.source), ..self.plan };
        Prepared { plan, ..self }
    }

    /// Asks for changes while it runs.
    pub fn asker(&self) -> Asker {
        self.changes.asker()
    }

    /// Sends it until its end, or until stopped.
    pub fn run(
        self,
        stop: &Stop,
        notice: &mut dyn FnMut(String),
        status: &mut dyn FnMut(&SendStatus),
        follow: &mut Follower<'_>,
    ) -> Result<SendSummary, Error> {
        let Prepared { options, plan, passport, mut changes, arriving } = self;
        let clock = plan.clock;
        let (rate, total) = (plan.format.rate(), plan.source.length());
        let (description, serves) = (plan.describe(&options), plan.serves());
        let (ready, opened) = mpsc::channel();
        let allow = options.socket.allow.clone();
        let (out, mut looked) = looks();
        let (tell, told) = mpsc::channel();
        let (source_notes, wait_for_peer, playout_delay) =
            (plan.all_notes(), options.wait_for_peer, plan.playout_delay);
        let mut shown = shown(&plan, &options);
        let thread_stop = stop.clone();
        let completing = options.complete.clone().map(|over| (over.target(&plan.uri), options.clone()));
        let thread = spawn("send", move || {
            run(plan, &options, passport, &thread_stop, out, (&tell, &ready), arriving)
        })?;
        // Receivers may call once it is printed.
        if !serves || opened.recv().is_ok() {
            notice(description);
        }
        let (mut last, mut gave_up) = (SendStatus::default(), None);
        let mut standstill = Standstill::new(&clock);
        let result = watch(thread, &mut looked, |snapshot: Option<Snapshot>| {
            while let Ok(sentence) = told.try_recv() {
                notice(sentence);
            }
            standstill.look(&clock).map(standstill::sentence).into_iter().for_each(&mut *notice);
            let Some(snapshot) = snapshot else { return };
            last = shown.look(&snapshot, notice);
            follow(&last, &mut changes, notice);
            changes.poll(Duration::from_secs_f64(last.sent_s), notice);
            let since_start = clock.now().since(Instant::ZERO);
            if since_start > ANSWER_PATIENCE
                && !wait_for_peer
                && !stop.is_asked()
                && snapshot.absent.is_some()
            {
                gave_up = snapshot.absent;
                stop.ask();
            }
            status(&last);
        });
        let mut ended = result.map_err(|_| Error::failed("the media thread panicked"))??;
        let stopped = stop.is_asked();
        let (snapshot, dropped) = (&ended.last, &ended.kept.dropped);
        let outcome = Outcome { last: snapshot, rate, total, playout_delay, stopped, dropped };
        let (mut confirmed_by, mut shortfall) = (outcome.confirmed_by(), outcome.shortfall());
        // A peer that comes while the stream ends finds no stream: it ended without an answer all the same.
        let unanswered = gave_up.or(snapshot.unanswered.filter(|_| !wait_for_peer && !stopped));
        let last = shown.end(snapshot, notice);
        status(&last);
        source_notes.iter().for_each(|source| ended.notes.extend(source.list()));
        let files = std::mem::take(&mut ended.files);
        told.try_iter().chain(files).chain(allow.note()).for_each(&mut *notice);
        let failures = changes.finish(notice);
        if let Some(why) = unanswered {
            return Err(no_answer(why));
        }
        if let Some(((uri, options), has)) = completing.zip(ended.has.take()).filter(|_| !stopped) {
            let again = || SendPlan::new(&options, clock).map(|plan| plan.source);
            (confirmed_by, shortfall) = outcome::completed(
                complete::offer(&uri, &options.socket, has, &again, stop, notice),
                confirmed_by,
            );
        }
        Ok(ended.summary(last, stopped, failures, (confirmed_by, shortfall)))
    }
}

/// What shows the user the stream that is planned.
fn shown(plan: &SendPlan, options: &SendOptions) -> Shown<impl Fn(&Snapshot) -> SendStatus + use<>> {
    let (rate, total, groups) = (plan.format.rate(), plan.source.length(), plan.groups);
    let total_s = total.map(|frames| MediaTime::new(frames, rate).duration().as_secs_f64());
    let of_data = plan.overs.of_data().map(VideoOver::scheme);
    let over = plan.overs.of_pictures().map(VideoOver::scheme);
    let names: Vec<String> = options.programmes.iter().map(|one| one.name.clone()).collect();
    let data_names = options.data.clone();
    Shown {
        device: plan.device.clone(),
        other_devices: plan.other_devices(),
        backup: plan.backup.clone(),
        was_backed_up: false,
        recent: Recent::default(),
        joined: Joined::default(),
        served: ServedCounters::default(),
        uncounted: Uncounted::default(),
        most: options.most_receivers,
        plain: move |last: &Snapshot| {
            let status = last.status(rate, total_s, groups);
            let pictures = status.pictures.map(|pictures| PicturesSent { over, ..pictures });
            let further = status.further_pictures.into_iter();
            let further_pictures = further.map(|one| PicturesSent { over, ..one }).collect();
            let data = last.data.named(&data_names, of_data);
            SendStatus { further_pictures, programmes: last.programmes(&names), pictures, data, ..status }
        },
    }
}

impl Ended {
    /// What became of the stream, of which `last` is the last state.
    fn summary(
        self,
        last: SendStatus,
        interrupted: bool,
        failures: Vec<String>,
        (confirmed_by, shortfall): (ConfirmedBy, Option<Shortfall>),
    ) -> SendSummary {
        let unsent = last.data.iter().find_map(|data| data.shortfall(interrupted));
        SendSummary {
            status: last,
            interrupted,
            notes: self.notes,
            members_reported: self.members,
            receivers_served: self.receivers,
            failures,
            dropped_sound: self.kept.dropped,
            confirmed_by,
            shortfall: shortfall.or(unsent.map(Shortfall::failed)),
        }
    }
}

/// Makes of snapshots what the user sees.
pub(crate) struct Shown<P> {
    pub device: Option<DeviceMeter>,
    /// Of programmes beside the first.
    pub other_devices: Vec<DeviceMeter>,
    pub backup: Option<BackupMeter>,
    pub was_backed_up: bool,
    pub recent: Recent,
    pub joined: Joined,
    pub served: ServedCounters,
    pub uncounted: Uncounted,
    /// Receivers that are served at once.
    pub most: usize,
    /// The figures, but for those of the device and the live ones.
    pub plain: P,
}

impl<P: Fn(&Snapshot) -> SendStatus> Shown<P> {
    /// The state now; what the device and the members of a group did since the last is told.
    pub fn look(&mut self, now: &Snapshot, notice: &mut dyn FnMut(String)) -> SendStatus {
        let before = std::mem::replace(&mut self.joined, now.joined);
        joins_and_leaves(before, now.joined).for_each(&mut *notice);
        if let Some(served) = now.served {
            let before = std::mem::replace(&mut self.served, served);
            comings_and_goings(before, served, self.most).for_each(&mut *notice);
        }
        now.verdicts(notice);
        let before = std::mem::replace(&mut self.uncounted, now.uncounted());
        newly_uncounted(before, self.uncounted).for_each(&mut *notice);
        self.device.iter().chain(&self.other_devices).for_each(|one| tell_device(Some(one), notice));
        let backup = self.backup.as_ref().map(BackupMeter::plays);
        if let Some(plays) = backup.filter(|plays| *plays != self.was_backed_up) {
            self.was_backed_up = plays;
            notice(if plays { BACKUP_BEGINS } else { BACKUP_ENDS }.into());
        }
        let live = self.recent.on_look(now.look);
        SendStatus { live, backup, device: DeviceStatus::of(self.device.as_ref()), ..(self.plain)(now) }
    }

    /// The state of the whole stream.
    pub fn end(&mut self, last: &Snapshot, notice: &mut dyn FnMut(String)) -> SendStatus {
        let status = self.look(last, notice);
        SendStatus { live: self.recent.whole(), ..status }
    }
}

const BACKUP_BEGINS: &str = "the source is silent or gives nothing: the backup is sent";
const BACKUP_ENDS: &str = "the source has sound again: the backup is no longer sent";

/// Why a receiver cannot be reached.
pub(crate) fn unreachable_as(why: BrokenReason) -> &'static str {
    match why {
        BrokenReason::Refused => "no program is listening there",
        BrokenReason::Unreachable => "no route to host",
        BrokenReason::EndOfStream => "it ended the connection",
    }
}

pub(crate) fn no_answer(why: BrokenReason) -> Error {
    let why = unreachable_as(why);
    Error::unreachable(format!(
        "the receiver cannot be reached: {why}; start 'antiphon receive' there first, or use --wait-for-peer"
    ))
}

/// What the media thread returns.
struct Ended {
    /// Sentences for the user.
    notes: Vec<String>,
    /// Results of the other files that were asked for: passport, capture.
    files: Vec<String>,
    last: Snapshot,
    members: Vec<SendMember>,
    receivers: Vec<SendReceiver>,
    kept: Kept,
    /// What a recording may miss of it.
    has: Option<Offer>,
}

/// Has live sources wake the media thread when there is sound.
pub(crate) fn wake_for<'a>(
    sources: impl Iterator<Item = &'a mut Box<dyn Source>>,
) -> Result<Option<Waker>, Error> {
    let mut waker = None;
    for source in sources.filter(|source| source.is_live()) {
        let fresh = || Waker::new().map_err(|error| Error::failed(format!("cannot make a waker: {error}")));
        let wakes = waker.take().map_or_else(fresh, Ok)?;
        let one = wakes.clone();
        source.set_waker(Box::new(move || one.wake()));
        waker = Some(wakes);
    }
    Ok(waker)
}

/// The media thread: opens the socket, writes the SDP, streams.
fn run(
    mut plan: SendPlan,
    options: &SendOptions,
    passport: Option<PassportFile>,
    stop: &Stop,
    mut out: Looks<Snapshot>,
    (tell, ready): (&mpsc::Sender<String>, &mpsc::Sender<()>),
    mut arriving: Arriving,
) -> Result<Ended, Error> {
    let (clock, format, coding) = (plan.clock, plan.format, plan.coding);
    let capture = create_capture(options.capture.as_deref(), clock)?;
    let is_live = plan.source.is_live();
    let others = plan.programmes.iter_mut().flat_map(|(_, others)| others);
    let waker = wake_for([&mut plan.source].into_iter().chain(others.map(|other| &mut other.source)))?;
    let wire = RunPlan {
        taps: capture.as_ref().map(|capture| (capture.taps(), plan.uri.transport.scheme.into())),
        wait: options.wait,
        waker,
        ..RunPlan::new(plan.on_wire(plan.uri.wire(plan.stack.clone()), options), clock)
    };
    let mut runner = open_wire(wire, options.wait_for_peer, stop, tell)?;
    let serves = plan.serves().then_some(options.most_receivers);
    let (mut places, mut tv) = (Places::new(), plan.tv.then(TvWatch::new));
    let meter = PeakMeter::default();
    let Outgoing { mut session, mut calls, troubles, recorder, keeper, announcer: _announcer } =
        Outgoing::set_up(plan, (options, passport), &meter, &runner, tell)?;
    match serves {
        Some(most) => runner.serve(&mut session, most),
        None => runner.join_lastingly(&mut session, SILENCE, is_live || options.wait_for_peer),
    }
    let _main_thread_is_gone = ready.send(());
    let stacks = runner.stacks();
    let mut wall = WallClock::new(clock);
    let driven = runner.drive(&mut session, stop, &mut |now, session, lines| {
        wall.keep(now, session);
        calls.iter_mut().for_each(|call| call.poll(now, session, lines, &stacks));
        arriving.poll(now, session, lines, &stacks);
        places.note(now, session, lines);
        out.look(now, || {
            let snapshot = snapshot(session, now, &meter, serves, &places).with_peer(session, lines);
            snapshot.with_verdicts(tv.as_mut().map(|tv| tv.look(now, session)), &places)
        });
    })?;
    let mut last = snapshot(&mut session, clock.now(), &meter, serves, &places);
    let receivers = places.figures(&session, format.rate());
    // What is left of the pictures on a connection of theirs says nothing of the sound.
    last.silent_since_end |= driven.unflushed && (calls.is_empty() || !runner.has_flushed());
    let members = members(&session, format.rate());
    let has = session.send_track().and_then(|track| {
        let (ssrc, first) = (track.ssrcs().next()?, track.packetiser().timestamp_at(0));
        Some(Offer { ssrc, first, format, sample: coding.sample_format(), frames: last.position })
    });
    let after = runner.finish();
    let mut notes = vec![format!("media thread: {}", after.scheduling)];
    notes.extend(after.notes.into_iter().chain(after.facts));
    let skipped = session.sent().track.skipped_frames;
    if skipped > 0 {
        notes.push(format!("{skipped} sample frames of the live source were discarded: too old to send"));
    }
    let steps = session.sent().track.clock_steps;
    if steps > 0 {
        let often = if steps == 1 { "once".into() } else { format!("{steps} times") };
        notes.push(format!(
            "this machine's clock was set {often}: the time stamps, which count it, jumped with it"
        ));
    }
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let files = recorder.map(Recorder::finish).into_iter().chain(captured).collect();
    notes.extend(troubles.notes());
    // The spool ends with the session.
    drop(session);
    let kept = keeper.map(SpoolKeeper::finish).unwrap_or_default();
    notes.extend(kept.trouble.clone());
    Ok(Ended { notes, files, last, members, receivers, kept, has })
}

fn snapshot(
    session: &mut Session,
    now: Instant,
    meter: &PeakMeter,
    serves: Option<usize>,
    places: &Places,
) -> Snapshot {
    let snapshot = Snapshot::of(session, now, meter);
    if serves.is_some() { snapshot.with_receivers(session, places) } else { snapshot }
}

/// Opens the wire; `wait`: tries again for as long as nobody accepts the call.
pub(crate) fn open_wire(
    plan: RunPlan,
    wait: bool,
    stop: &Stop,
    tell: &mpsc::Sender<String>,
) -> Result<Runner, Error> {
    let mut told = false;
    loop {
        match plan.clone().open() {
            Err(error) if wait && error.kind == ErrorKind::Unreachable && !stop.is_asked() => {
                if !std::mem::replace(&mut told, true) {
                    let _main_thread_is_gone =
                        tell.send(format!("{error}; trying again until the peer answers"));
                }
                // The media begins with the connection, so nothing is waiting meanwhile.
                std::thread::park_timeout(CALL_AGAIN);
            }
            other => return other,
        }
    }
}

/// How often a peer that does not accept a connection is called.
const CALL_AGAIN: Duration = Duration::from_millis(500);

/// How long an absent peer is sent to before the user is told: within two seconds in all.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_millis(1_500);
/// Silence after which another caller or sender may take the place of the current one: one that was started again is heard
/// within a second.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
