//! A session with all that is sent: the sound, the pictures and the data beside it, and what records and tells of them.

use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::MediaTime;
use antiphon_media::PtpClock;
use antiphon_net::OsClock;
use antiphon_session::{GroupPaths, SendTrack, Session, SessionConfig, SharedPaths};

use super::described::{Published, publish};
use super::plan::SendPlan;
use crate::data::DataInput;
use crate::live::PeakMeter;
use crate::passport::{PassportFile, Recorder, Sending};
use crate::pictures::{PacketLength, VideoCall, VideoFile, VideoOver};
use crate::run::{Runner, session_config};
use crate::spool::{self, SpoolKeeper};
use crate::trouble::ReadTrouble;
use crate::{Error, SendOptions};

/// A session with all that is sent, before it has peers.
pub(super) struct Outgoing {
    pub session: Session,
    /// The wires of pictures and data, on their way.
    pub calls: Vec<VideoCall>,
    pub troubles: Troubles,
    pub recorder: Option<Recorder>,
    pub keeper: Option<SpoolKeeper>,
    /// Tells of the stream as long as it stands.
    pub announcer: Option<Published>,
}

/// Why files beside the sound could not be read to their end.
pub(super) struct Troubles(Vec<ReadTrouble>);

impl Troubles {
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(ReadTrouble::note)
    }
}

impl Outgoing {
    /// Opens what goes beside the sound, and tells of the stream.
    pub fn set_up(
        mut plan: SendPlan,
        (options, passport): (&SendOptions, Option<PassportFile>),
        meter: &PeakMeter,
        runner: &Runner,
        tell: &mpsc::Sender<String>,
    ) -> Result<Self, Error> {
        let (clock, plan_serves) = (plan.clock, plan.serves());
        let (is_live, has_length) = (plan.source.is_live(), plan.source.length().is_some());
        let track = plan.track(options, runner.max_packet(), is_live);
        let programmes = plan.take_programmes(options, runner.max_packet())?;
        let config = session_config(options.seed ^ crate::transport::unguessable(), clock);
        let mut track = SendTrack::new(meter.source(plan.source), track)?;
        if let Some(ptp) = options.ptp {
            track.count_clock(clock.tai()).map_err(|error| Error::usage(format!("--ptp: {error}")))?;
            let _main_thread_is_gone = tell.send(counts(ptp));
        }
        // A pipe shows only by its pace whether it is live.
        let may_be_live = is_live || !has_length;
        let keeper = if may_be_live { keep_in_spool(options, runner, &mut track, tell)? } else { None };
        let described = (&track, &config.cname[..], plan.described.as_ref());
        let announcer = publish(options, described, &plan.uri, clock, runner, tell)?;
        let config =
            SessionConfig { playout_delay: plan.playout_delay, framing: plan.stack.framing, ..config };
        let mut session = Session::new(config, clock.now());
        let interval =
            MediaTime::new(track.packetiser().packet_frames() as u64, plan.format.rate()).duration();
        let record = |file| record(file, plan.uri.transport.scheme, interval, runner, &mut session);
        let recorder = passport.map(record).transpose()?;
        session.set_send_track(track);
        let call = |over: &VideoOver| {
            let wire = over.wire(options.seed, plan.stack.playout_delay);
            VideoCall::begin(wire, over, tell.clone())
        };
        let calls = plan.overs.iter().map(call).collect::<Result<Vec<_>, _>>()?;
        let for_pictures = calls.iter().find(|call| call.carries_pictures());
        let most = for_pictures.map_or(runner.max_packet(), |call| call.max_packet);
        let packets = PacketLength::beside(most, &runner.profile());
        let how = (options.length, options.seed);
        if plan.described.is_some() {
            session.set_video_session(clock.now());
        }
        let films = [plan.video].into_iter().chain(plan.further_video).collect();
        let pictures = VideoFile::send_with(films, &mut session, packets, how, plan.described.as_ref())?;
        for over in plan.overs.iter().filter(|_| plan.described.is_none()) {
            session.send_apart(clock.now(), over.apart());
        }
        if let Some(over) = plan.overs.of_data() {
            session.set_data_over(over.apart());
        }
        let data = DataInput::send_with(plan.data, &mut session, options)?;
        // Other programs tell nothing of their paths.
        if plan.described.is_none() && (!pictures.is_empty() || !data.is_empty()) {
            share_paths(&mut session, plan_serves, plan.uri.address().ip().is_multicast());
        }
        let troubles = Troubles(pictures.into_iter().chain(data).collect());
        if let Some((first, others)) = programmes {
            session.set_programmes(&first, others).map_err(|error| Error::usage(error.to_string()))?;
        }
        if let Some(delay) = plan.in_step {
            session.set_in_step(clock.now(), delay);
        }
        Ok(Outgoing { session, calls, troubles, recorder, keeper, announcer })
    }
}

/// That time stamps count `ptp`, in a sentence.
fn counts(ptp: PtpClock) -> String {
    let told = if OsClock::tai_is_told() {
        ""
    } else {
        "; the kernel was not told how far TAI is ahead of UTC, and 37 s are taken"
    };
    format!(
        "time stamps count the PTP clock {ptp} by this machine's clock: have ptp4l and phc2sys steer it{told}"
    )
}

/// Gives a sender of pictures or data to several receivers its congestion manager; that to one receiver has its own.
fn share_paths(session: &mut Session, serves: bool, to_group: bool) {
    let sound = session.send_track().map_or(0, |track| track.ssrcs().count());
    let streams = sound + session.video_ssrcs().count() + session.data_sent().count();
    if serves {
        session.set_congestion_manager(Box::new(SharedPaths::new(streams)));
    } else if to_group {
        session.set_congestion_manager(Box::new(GroupPaths::new(streams)));
    }
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
