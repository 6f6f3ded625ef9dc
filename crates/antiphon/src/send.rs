//! Sends a source to a peer.

mod described;
mod outcome;
mod plan;
mod status;

use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{BrokenReason, Instant, MediaTime};
use antiphon_net::{OsClock, Stop, Waker};
use antiphon_session::{SendTrack, Session, SessionConfig};

use crate::auto::{self, is_auto};
use crate::change::{Arriving, Asker, Changes};
use crate::complete::{self, Offer};
use crate::live::{PeakMeter, Recent};
use crate::passport::{PassportFile, Recorder, Sending};
use crate::receive::MissingSound;
use crate::run::{RunPlan, Runner, WallClock, create_capture, finish_capture, session_config, spawn};
use crate::show::{Looks, looks, watch};
use crate::spool::{self, Kept, SpoolKeeper};
use crate::{Error, ErrorKind, SendOptions};
use described::write_sdp;
use outcome::Outcome;
pub use outcome::{ConfirmedBy, Shortfall};
use plan::SendPlan;
pub(crate) use plan::stream_format;
pub use status::{SendMember, SendStatus};
use status::{Snapshot, members};

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
            if plan.groups.count() > 1 {
                return Err(Error::usage("--complete is for a stream of one channel group: omit --groups"));
            }
            if plan.source.is_live() || plan.source.length().is_none() {
                return Err(Error::usage(
                    "--complete reads the source again, which a live one or a pipe does not allow: send a file",
                ));
            }
        }
        let (changes, arriving) = Changes::read(options, &plan.uri, &plan.stack)?;
        let passport = options.passport.as_deref();
        let passport =
            passport.map(|path| PassportFile::create(path, &options.command, options.seed)).transpose()?;
        Ok(Prepared { options: options.clone(), plan, passport, changes, arriving })
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
        let (rate, total, groups) = (plan.format.rate(), plan.source.length(), plan.groups);
        let total_s = total.map(|frames| MediaTime::new(frames, rate).duration().as_secs_f64());
        notice(plan.describe(&options));
        let (out, mut looked) = looks();
        let (tell, told) = mpsc::channel();
        let (source_notes, wait_for_peer, playout_delay) =
            (plan.notes.clone(), options.wait_for_peer, plan.playout_delay);
        let thread_stop = stop.clone();
        let completing = options.complete.clone().map(|over| (over.target(&plan.uri), options.clone()));
        let thread =
            spawn("send", move || run(plan, &options, passport, &thread_stop, out, &tell, arriving))?;
        let (mut last, mut gave_up) = (SendStatus::default(), false);
        let mut recent = Recent::default();
        let result = watch(thread, &mut looked, |snapshot: Option<Snapshot>| {
            while let Ok(sentence) = told.try_recv() {
                notice(sentence);
            }
            let Some(snapshot) = snapshot else { return };
            last =
                SendStatus { live: recent.on_look(snapshot.look), ..snapshot.status(rate, total_s, groups) };
            follow(&last, &mut changes, notice);
            changes.poll(Duration::from_secs_f64(last.sent_s), notice);
            let since_start = clock.now().since(Instant::ZERO);
            if snapshot.unanswered.is_some()
                && since_start > ANSWER_PATIENCE
                && !wait_for_peer
                && !stop.is_asked()
            {
                gave_up = true;
                stop.ask();
            }
            status(&last);
        });
        let Ended { mut notes, files, last, members, kept, has } =
            result.map_err(|_| Error::failed("the media thread panicked"))??;
        recent.on_look(last.look);
        let stopped = stop.is_asked();
        let outcome = Outcome { last: &last, rate, total, playout_delay, stopped, dropped: &kept.dropped };
        let (mut confirmed_by, mut shortfall) = (outcome.confirmed_by(), outcome.shortfall());
        let unanswered = last.unanswered.filter(|_| gave_up || !wait_for_peer && !stopped);
        let last = SendStatus { live: recent.whole(), ..last.status(rate, total_s, groups) };
        status(&last);
        notes.extend(source_notes.list());
        told.try_iter().chain(files).for_each(&mut *notice);
        let failures = changes.finish(notice);
        if let Some(why) = unanswered {
            return Err(no_answer(why));
        }
        if let Some(((uri, options), has)) = completing.zip(has).filter(|_| !stopped) {
            let again = || SendPlan::new(&options, clock).map(|plan| plan.source);
            (confirmed_by, shortfall) = outcome::completed(
                complete::offer(&uri, &options.socket, has, &again, stop, notice),
                confirmed_by,
            );
        }
        Ok(SendSummary {
            status: last,
            interrupted: stopped,
            notes,
            members_reported: members,
            failures,
            dropped_sound: kept.dropped,
            confirmed_by,
            shortfall,
        })
    }
}

pub(crate) fn no_answer(why: BrokenReason) -> Error {
    let why = match why {
        BrokenReason::Refused => "no program is listening there",
        BrokenReason::Unreachable => "no route to host",
        BrokenReason::EndOfStream => "it ended the connection",
    };
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
    kept: Kept,
    /// What a recording may miss of it.
    has: Option<Offer>,
}

/// The media thread: opens the socket, writes the SDP, streams.
fn run(
    mut plan: SendPlan,
    options: &SendOptions,
    passport: Option<PassportFile>,
    stop: &Stop,
    mut out: Looks<Snapshot>,
    tell: &mpsc::Sender<String>,
    mut arriving: Arriving,
) -> Result<Ended, Error> {
    let clock = plan.clock;
    let capture = create_capture(options.capture.as_deref(), clock)?;
    let is_live = plan.source.is_live();
    let may_be_live = is_live || plan.source.length().is_none();
    let waker = is_live.then(Waker::new).transpose();
    let waker = waker.map_err(|error| Error::failed(format!("cannot make a waker: {error}")))?;
    if let Some(waker) = waker.clone() {
        plan.source.set_waker(Box::new(move || waker.wake()));
    }
    let wire = RunPlan {
        taps: capture.as_ref().map(|capture| (capture.taps(), plan.uri.transport.scheme.into())),
        wait: options.wait,
        waker: waker.clone(),
        ..RunPlan::new(plan.uri.wire(plan.stack.clone()), clock)
    };
    let mut runner = open_wire(wire, options.wait_for_peer, stop, tell)?;
    let track = plan.track(options, runner.max_packet(), waker.is_some());
    let meter = PeakMeter::default();
    let config = session_config(options.seed ^ crate::transport::unguessable(), clock);
    let mut track = SendTrack::new(meter.source(plan.source), track)?;
    // A pipe shows only by its pace whether it is live.
    let keeper = if may_be_live { keep_in_spool(options, &runner, &mut track, tell)? } else { None };
    if let Some(path) = &options.sdp {
        write_sdp(path, &track, &plan.uri, &config.cname, clock, &runner)?;
        let _main_thread_is_gone = tell.send(format!("wrote {}", path.display()));
    }
    let config = SessionConfig { playout_delay: plan.playout_delay, ..config };
    let mut session = Session::new(config, clock.now());
    let interval = MediaTime::new(track.packetiser().packet_frames() as u64, plan.format.rate()).duration();
    let record = |file| record(file, plan.uri.transport.scheme, interval, &runner, &mut session);
    let recorder = passport.map(record).transpose()?;
    session.set_send_track(track);
    runner.join_lastingly(&mut session, SILENCE, is_live || options.wait_for_peer);
    let stacks = runner.stacks();
    let mut wall = WallClock::new(clock);
    let driven = runner.drive(&mut session, stop, &mut |now, session, lines| {
        wall.keep(now, session);
        arriving.poll(now, session, lines, &stacks);
        out.look(now, || Snapshot::of(session, now, &meter).with_peer(session, lines));
    })?;
    let mut last = Snapshot::of(&mut session, clock.now(), &meter);
    last.silent_since_end |= driven.unflushed;
    let members = members(&session, plan.format.rate());
    let has = session.send_track().and_then(|track| {
        let (ssrc, first) = (track.ssrcs().next()?, track.packetiser().timestamp_at(0));
        Some(Offer { ssrc, first, format: plan.format, sample: plan.sample, frames: last.position })
    });
    let after = runner.finish();
    let mut notes = vec![format!("media thread: {}", after.scheduling)];
    notes.extend(after.notes.into_iter().chain(after.facts));
    let skipped = session.sent().track.skipped_frames;
    if skipped > 0 {
        notes.push(format!("{skipped} sample frames of the live source were discarded: too old to send"));
    }
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let files = recorder.map(Recorder::finish).into_iter().chain(captured).collect();
    // The spool ends with the session.
    drop(session);
    let kept = keeper.map(SpoolKeeper::finish).unwrap_or_default();
    notes.extend(kept.trouble.clone());
    Ok(Ended { notes, files, last, members, kept, has })
}

/// What a recording misses of a live source waits for it in a file, if the transport loses nothing.
fn keep_in_spool(
    options: &SendOptions,
    runner: &Runner,
    track: &mut SendTrack,
    tell: &mpsc::Sender<String>,
) -> Result<Option<SpoolKeeper>, Error> {
    if !runner.profile().reliable {
        return Ok(None);
    }
    let started = spool::start(&options.spool, track.longest_message(), spool::MOST_SPOOLED, tell.clone())?;
    let Some((spool, keeper)) = started else { return Ok(None) };
    track.set_spool(spool);
    Ok(Some(keeper))
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

/// Begins a passport of what `session` sends, a packet each `interval`.
fn record(
    file: PassportFile,
    scheme: &'static str,
    interval: Duration,
    runner: &Runner,
    session: &mut Session,
) -> Result<Recorder, Error> {
    let (profile, header_bytes) = (runner.profile(), runner.header_bytes());
    let scribe = Sending::new(scheme, profile.retransmits, profile.acknowledged, header_bytes, interval);
    let (recorder, observer) = Recorder::start(file, scribe)?;
    session.observe(observer);
    Ok(recorder)
}

/// How long an absent peer is sent to before the user is told: within two seconds in all.
const ANSWER_PATIENCE: Duration = Duration::from_millis(1_500);
/// Silence after which another caller or sender may take the place of the current one: one that was started again is heard
/// within a second.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
