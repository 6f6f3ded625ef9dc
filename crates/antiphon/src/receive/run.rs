//! The media thread of a receiver.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;

use antiphon_core::WireId;
use antiphon_net::{OsClock, Stop};
use antiphon_proto::Substrate;
use antiphon_session::{Notice, PlayoutDelay, ReceiveTrack, Session, SessionConfig, Written};
use antiphon_sound::DeviceMeter;
use antiphon_trace::passport::Hole;

use super::{Opened, Opener, ReceivePlan, Snapshot, Told, finish, open_sink, opening, playback, was_closed};
use crate::Error;
use crate::discovery::{PeerRole, advertise};
use crate::groups::channels_label;
use crate::live::PeakMeter;
use crate::passport::{Hearing, PassportFile, Recorder};
use crate::pictures::{Film, FilmPlan};
use crate::programmes::{Choosing, Programmes};
use crate::run::{self, RunPlan, Runner, WallClock, create_capture, finish_capture};
use crate::send::SILENCE;
use crate::show::Looks;
use crate::transport::StreamUri;

/// What the media thread returns.
pub(super) struct Ended {
    /// Sentences for the user.
    pub notes: Vec<String>,
    /// Notices not reported yet.
    pub notices: Vec<Notice>,
    /// Results of the other files that were asked for: passport, capture.
    pub files: Vec<String>,
    pub last: Snapshot,
    /// What was written, and what it misses.
    pub written: Option<Written>,
    /// The user closed the player.
    pub closed: bool,
}

/// The media thread.
pub(super) fn run(
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
