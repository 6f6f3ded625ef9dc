//! The media thread of a call.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{MediaTime, WireId};
use antiphon_net::{Capture, Stop, Target, Waker};
use antiphon_session::{Notice, PartyNotice, ReceiveTrack, SendTrack, Session, SessionConfig, Written};
use antiphon_sound::{DeviceFigures, DeviceMeter};

use super::group;
use super::monitor::{MonitorDelay, monitored};
use super::party_sinks::{FilmHow, FilmNews, Finisher};
use super::plan::TalkPlan;
use super::status::Snapshot;
use crate::Error;
use crate::discovery::{PeerRole, advertise};
use crate::live::PeakMeter;
use crate::pictures::{PacketLength, VideoFile};
use crate::receive::{
    Opened, Opener, Told, film, finish, open_sink, opening, playback, session_config, was_closed,
};
use crate::run::{RunPlan, Runner, WallClock, create_capture, finish_capture};
use crate::send::{SILENCE, open_wire, wake_for};
use crate::show::Looks;
use crate::trouble::ReadTrouble;

/// What the media thread returns.
pub(super) struct Ended {
    /// Sentences for the user.
    pub notes: Vec<String>,
    /// Notices not reported yet.
    pub notices: Vec<Notice>,
    /// The same of the parties of a group.
    pub parties: Vec<PartyNotice>,
    /// Results of the other files that were asked for.
    pub files: Vec<String>,
    pub last: Snapshot,
    /// What was written, and what it misses.
    pub written: Option<Written>,
    /// The user has closed the player.
    pub closed: bool,
}

/// Opens the socket, and talks.
pub(super) fn run(
    mut plan: TalkPlan,
    stop: &Stop,
    mut out: Looks<Snapshot>,
    tell: &mpsc::Sender<String>,
    (tell_sink, tell_films): (mpsc::Sender<Told>, mpsc::Sender<FilmNews>),
    ready: &mpsc::Sender<()>,
) -> Result<Ended, Error> {
    let (clock, options, has_films) = (plan.send.clock, &plan.options, plan.has_films());
    let capture = create_capture(options.send.capture.as_deref(), clock)?;
    let waker = wake_for([&mut plan.send.source].into_iter())?;
    let is_live = waker.is_some();
    let mut runner = open_runner(&plan, waker, capture.as_ref(), (stop, tell))?;
    let (own, peers) = (PeakMeter::default(), PeakMeter::default());
    let track = plan.send.track(&options.send, runner.max_packet(), is_live);
    let config = SessionConfig {
        playout_delay: plan.send.playout_delay,
        ends_with_stream: true,
        two_way: !plan.in_group,
        ..session_config(&plan.receive, clock)
    };
    let devices = Devices { source: plan.send.device.clone(), sink: Rc::default() };
    let sink_device = devices.sink.clone();
    let mut session = Session::new(config, clock.now());
    // In a group each party has its own.
    let film = if plan.in_group { None } else { film(&plan.receive, &mut session, &tell_sink) };
    // A group's sink is opened before the call begins.
    let opener = if plan.in_group { None } else { Opener::start(&plan.receive.sink)? };
    let sink = (plan.receive.sink.clone(), film);
    let opened = open_sink(sink, opener.clone(), options.receive.clock, move |opened: Opened| {
        sink_device.borrow_mut().clone_from(&opened.device);
        let _main_thread_is_gone = tell_sink.send(Told::Sink(opened));
    });
    let source = own.source(options.mute.source(plan.send.source));
    let monitor = MonitorDelay::default();
    // The meter of the peer's sound is before what is added to it.
    let (source, opened) =
        if options.monitor { monitored(source, opened, &monitor) } else { (source, opened) };
    let send = SendTrack::new(source, track)?;
    let own_ssrc = send.packetiser().ssrc();
    session.set_send_track(send);
    let track = plan.receive.track(runner.profile());
    let mut films = None;
    if has_films {
        let (sink, latency) = (plan.receive.sink, plan.receive.latency);
        let how = FilmHow { sink, latency, clock: options.receive.clock, meter: peers.clone() };
        films = Some(group::hear_apart(&mut session, track, how, tell_films)?);
    } else if plan.in_group {
        group::hear(&mut session, track, peers.sink(opened), &plan.receive.sink, clock.now())?;
    } else {
        let track = ReceiveTrack::new(track, peers.sink(opened), Some(own_ssrc));
        session.set_receive_track(opening(track, opener.as_ref(), &plan.receive.sink));
    }
    let how = (options.send.length, options.send.seed);
    let packets = PacketLength::beside(runner.max_packet(), &runner.profile());
    let troubles = VideoFile::send_with(vec![plan.send.video], &mut session, packets, how, None)?;
    runner.join(&mut session, SILENCE);
    if !matches!(plan.uri.target, Target::Call(_)) {
        runner.listen_for_rtcp(WireId(1), &mut session)?;
    }
    let announce = options.receive.announce.as_deref();
    let _advertiser = announce.map(|name| advertise(name, PeerRole::Talk, &plan.uri, &runner)).transpose()?;
    let _main_thread_is_gone = ready.send(());
    let mut wall = WallClock::new(clock);
    runner.drive(&mut session, stop, &mut |now, session, lines| {
        wall.keep(now, session);
        lines.let_input_wait(session.input_may_wait());
        let taken = devices.tell(session);
        films.iter().for_each(|(_, titles)| titles.tell(lines));
        out.look(now, || {
            let snapshot = Snapshot::of(session, now, [&own, &peers]).with_peer(session, lines);
            snapshot.delay.iter().for_each(|known| monitor.set(known.to_peer.saturating_sub(taken)));
            snapshot
        });
    })?;
    let last = Snapshot::of(&mut session, clock.now(), [&own, &peers]);
    ended(session, runner, (capture, films.map(|(finisher, _)| finisher)), (last, troubles))
}

fn open_runner(
    plan: &TalkPlan,
    waker: Option<Waker>,
    capture: Option<&Capture>,
    (stop, tell): (&Stop, &mpsc::Sender<String>),
) -> Result<Runner, Error> {
    let send = &plan.options.send;
    let wire = RunPlan {
        taps: capture.map(|capture| (capture.taps(), plan.uri.transport.scheme.into())),
        wait: send.wait,
        waker,
        ..RunPlan::new(plan.send.on_wire(plan.uri.wire(plan.stack.clone()), send), plan.send.clock)
    };
    open_wire(wire, send.wait_for_peer, stop, tell)
}

/// Closes everything.
fn ended(
    mut session: Session,
    runner: Runner,
    (capture, finisher): (Option<Capture>, Option<Finisher>),
    (last, troubles): (Snapshot, Vec<ReadTrouble>),
) -> Result<Ended, Error> {
    let after = runner.finish();
    let mut notes = vec![format!("media thread: {}", after.scheduling)];
    notes.extend(after.notes.into_iter().chain(after.facts));
    notes.extend(troubles.iter().filter_map(ReadTrouble::note));
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let closed = was_closed(&session);
    let written = session.receive_track_mut().and_then(ReceiveTrack::take_written);
    let notices = finish(&mut session, &mut notes)?;
    let parties = group::finish(&mut session, finisher, &mut notes)?;
    Ok(Ended {
        notes,
        notices,
        parties,
        files: captured.into_iter().chain(closed.clone()).collect(),
        last,
        written,
        closed: closed.is_some(),
    })
}

/// The sound devices at this end.
struct Devices {
    source: Option<DeviceMeter>,
    /// Known once the sink is open.
    sink: Rc<RefCell<Option<DeviceMeter>>>,
}

impl Devices {
    /// Tells the session how long these devices take; returns the sum.
    fn tell(&self, session: &mut Session) -> Duration {
        let Some((capture, playback, error)) = self.delays() else { return Duration::ZERO };
        session.set_device_delays(capture, playback, error);
        capture + playback
    }

    /// How long sound is on its way from the air to this program and back, and by how much both may be wrong.
    fn delays(&self) -> Option<(Duration, Duration, Duration)> {
        let source = self.source.as_ref().map(DeviceMeter::figures);
        let sink = self.sink.borrow().as_ref().map(DeviceMeter::figures);
        if source.is_none() && sink.is_none() {
            return None;
        }
        let time = |figures: &DeviceFigures, frames: u32| {
            MediaTime::new(frames.into(), figures.rate.max(1)).duration()
        };
        let server =
            |figures: &DeviceFigures| Duration::from_micros(figures.latency_micros.unwrap_or(0).into());
        // What a period captured is handed over at once: its last sample has just come.
        let capture = source.map_or(Duration::ZERO, |device| server(&device));
        let playback = sink.map_or(Duration::ZERO, |device| playback(&device));
        let period = |device: Option<DeviceFigures>| {
            device.map_or(Duration::ZERO, |device| time(&device, device.period))
        };
        // Where in a period the server is, it says once a cycle.
        Some((capture, playback, (period(source) + period(sink)) / 4))
    }
}
