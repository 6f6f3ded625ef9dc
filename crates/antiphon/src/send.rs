//! Sends a source to a peer.

mod status;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{BrokenReason, Instant, MediaTime};
use antiphon_media::packet::PacketConfig;
use antiphon_media::{
    ChannelGroups, ChannelMap, SampleFormat, SdpOptions, Source, StreamDescription, StreamFormat, sdp_of,
};
use antiphon_net::{OsClock, Stop, Target, Waker};
use antiphon_proto::Substrate;
use antiphon_session::{
    PlayoutDelay, Repetition, SendTrack, SendTrackConfig, Session, SessionConfig, StreamFraming, converted,
    limited,
};
use antiphon_sound::{Notes, open_source};

use crate::auto::{self, is_auto};
use crate::change::{Arriving, Changes};
use crate::groups::read_groups;
use crate::live::{PeakMeter, Recent};
use crate::passport::{PassportFile, Recorder, Sending};
use crate::run::{RunPlan, Runner, create_capture, finish_capture, spawn};
use crate::show::{Looks, looks, watch};
use crate::transport::{StackPlan, StreamUri};
use crate::{DEFAULT_LATENCY, Error, ErrorKind, SendOptions};
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
    let clock = OsClock::new();
    let plan = SendPlan::new(options, clock)?;
    let (mut changes, arriving, unopened) = Changes::read(options, &plan.uri, &plan.stack)?;
    let passport = options.passport.as_deref();
    let passport =
        passport.map(|path| PassportFile::create(path, &options.command, options.seed)).transpose()?;
    let (rate, total, groups) = (plan.format.rate(), plan.source.length(), plan.groups);
    let total_s = total.map(|frames| MediaTime::new(frames, rate).duration().as_secs_f64());
    notice(plan.describe(options));
    let (out, mut looked) = looks();
    let (tell, told) = mpsc::channel();
    let (source_notes, wait_for_peer) = (plan.notes.clone(), options.wait_for_peer);
    let (thread_stop, options) = (stop.clone(), options.clone());
    let thread = spawn("send", move || run(plan, &options, passport, &thread_stop, out, &tell, arriving))?;
    let (mut last, mut unanswered, mut gave_up) = (SendStatus::default(), None, false);
    let mut recent = Recent::default();
    let result = watch(thread, &mut looked, |snapshot: Option<Snapshot>| {
        while let Ok(sentence) = told.try_recv() {
            notice(sentence);
        }
        let Some(snapshot) = snapshot else { return };
        last = SendStatus { live: recent.on_look(snapshot.look), ..snapshot.status(rate, total_s, groups) };
        follow(&last, &mut changes, notice);
        changes.poll(Duration::from_secs_f64(last.sent_s), &unopened, notice);
        unanswered = snapshot.unanswered;
        let since_start = clock.now().since(Instant::ZERO);
        if unanswered.is_some() && since_start > ANSWER_PATIENCE && !wait_for_peer && !stop.is_asked() {
            gave_up = true;
            stop.ask();
        }
        status(&last);
    });
    // The last snapshot knows no peer any more.
    let remote_latency_ms = last.remote_latency_ms;
    let Ended { mut notes, files, last, members } =
        result.map_err(|_| Error::failed("the media thread panicked"))??;
    recent.on_look(last.look);
    let last = SendStatus { live: recent.whole(), remote_latency_ms, ..last.status(rate, total_s, groups) };
    status(&last);
    notes.extend(source_notes.list());
    told.try_iter().chain(files).for_each(&mut *notice);
    let failures = changes.finish(&unopened, notice);
    if gave_up {
        let why = if unanswered == Some(BrokenReason::Refused) {
            "no program is listening there"
        } else {
            "no route to host"
        };
        return Err(Error::unreachable(format!(
            "the receiver cannot be reached: {why}; start 'antiphon receive' there first, or use --wait-for-peer"
        )));
    }
    Ok(SendSummary { status: last, interrupted: stop.is_asked(), notes, members_reported: members, failures })
}

/// Everything that can be decided before the media thread starts.
struct SendPlan {
    uri: StreamUri,
    stack: StackPlan,
    source: Box<dyn Source>,
    notes: Notes,
    format: StreamFormat,
    groups: ChannelGroups,
    sample: SampleFormat,
    /// For a receiver that has not reported its own.
    playout_delay: PlayoutDelay,
    protect: Repetition,
    clock: OsClock,
}

impl SendPlan {
    fn new(options: &SendOptions, clock: OsClock) -> Result<Self, Error> {
        let uri = StreamUri::read(&options.target, &options.socket)?;
        let (transport, keys) = (uri.transport, &uri.keys);
        if transport.substrate == Substrate::Udp && matches!(uri.target, Target::Listen(_)) {
            return Err(Error::usage(format!(
                "'{}' has no receiver: write {}://HOST:{}",
                options.target,
                transport.scheme,
                keys.default_port(transport)
            )));
        }
        let framing = keys.framing.unwrap_or(options.framing);
        if framing != StreamFraming::Rtp && options.sdp.is_some() {
            return Err(Error::usage(format!(
                "an SDP file describes plain RTP, and other players do not know the framing '{}': omit --sdp or the framing",
                framing.name()
            )));
        }
        let opened = open_source(&options.source)?;
        let has = opened.source.format();
        let rate = keys.rate.or(options.rate).unwrap_or(has.rate());
        let channels = keys.channels.or(options.channels).unwrap_or(has.channels() as u32);
        let map =
            options.channel_map.as_deref().map(|text| ChannelMap::parse(has.channels(), text)).transpose();
        let map = map.map_err(|error| Error::usage(error.to_string()))?;
        let channels = map.as_ref().map_or(channels, |map| map.outputs() as u32);
        let format = StreamFormat::new(rate, channels)?;
        let mut source = converted(opened.source, format, map)?;
        if let Some(length) = options.length {
            source = limited(source, (length.as_secs_f64() * f64::from(rate)).round() as u64);
        }
        let sample = keys.sample.or(options.sample).unwrap_or(source.sample_format());
        let groups = read_groups(keys.groups.as_deref().or(options.groups.as_deref()), format, options)?;
        let playout_delay = keys.latency.map(PlayoutDelay::Of).or(options.latency).unwrap_or({
            // Live sound is of no use when it is old; of a file, all sound is wanted.
            if source.is_live() { PlayoutDelay::Of(DEFAULT_LATENCY) } else { PlayoutDelay::Unbounded }
        });
        let patience = match playout_delay {
            PlayoutDelay::Of(delay) => delay,
            PlayoutDelay::Unbounded => DEFAULT_LATENCY,
        };
        let stack = uri.stack(options.seed, patience, framing);
        let stack = StackPlan { groups: groups.count(), ..stack };
        let protect = keys.protect.unwrap_or(options.protect);
        let notes = opened.notes;
        Ok(SendPlan { uri, stack, source, notes, format, groups, sample, playout_delay, protect, clock })
    }

    fn describe(&self, options: &SendOptions) -> String {
        let verb = if matches!(self.uri.target, Target::Call(_)) { "to" } else { "to each caller" };
        let delay = match self.playout_delay {
            PlayoutDelay::Unbounded => "packets never expire".to_string(),
            PlayoutDelay::Of(delay) => {
                format!("packets older than {} expire", antiphon_core::units::format_duration(delay))
            }
        };
        let groups = match self.groups.count() {
            1 => String::new(),
            _ => format!(", in groups of {}", self.groups),
        };
        let protect = match self.protect.times {
            0 | 1 => String::new(),
            times => format!("; each packet is sent {times} times"),
        };
        format!(
            "sending {} ({}{groups}, {}) {verb} {}://{}; {delay} unless the receiver reports another playout delay{protect}",
            options.source,
            self.format,
            self.sample.name(),
            self.uri.transport.scheme,
            self.uri.address(),
        )
    }

    fn track(&self, options: &SendOptions, max_packet: usize, woken: bool) -> SendTrackConfig {
        SendTrackConfig {
            packet: self.packet(options, max_packet),
            groups: self.groups,
            protect: self.protect,
            epoch: self.clock.epoch(),
            seed: options.seed,
            woken,
        }
    }

    fn packet(&self, options: &SendOptions, max_packet: usize) -> PacketConfig {
        let mut packet = PacketConfig::new(self.format, self.sample, options.block_frames);
        packet.max_packet = max_packet;
        packet.ptime = self.uri.keys.ptime.or(options.ptime);
        packet.payload_type = options.payload_type.unwrap_or(packet.payload_type);
        packet
    }
}

/// What the media thread returns.
struct Ended {
    /// Sentences for the user.
    notes: Vec<String>,
    /// Results of the other files that were asked for: passport, capture.
    files: Vec<String>,
    last: Snapshot,
    members: Vec<SendMember>,
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
    let waker = plan.source.is_live().then(Waker::new).transpose();
    let waker = waker.map_err(|error| Error::failed(format!("cannot make a waker: {error}")))?;
    if let Some(waker) = waker.clone() {
        plan.source.set_waker(Box::new(move || waker.wake()));
    }
    let wire = RunPlan {
        over_ip: plan.uri.keys.over_ip,
        taps: capture.as_ref().map(|capture| (capture.taps(), plan.uri.transport.scheme.into())),
        wait: options.wait,
        waker: waker.clone(),
        ..RunPlan::new(plan.stack.clone(), plan.uri.target, plan.uri.keys.socket.clone(), clock)
    };
    let mut runner = open_wire(wire, options.wait_for_peer, stop, tell)?;
    let track = plan.track(options, runner.max_packet(), waker.is_some());
    let meter = PeakMeter::default();
    let track = SendTrack::new(meter.source(plan.source), track)?;
    if let Some(path) = &options.sdp {
        write_sdp(path, &track, &plan.uri, clock, &runner)?;
        let _main_thread_is_gone = tell.send(format!("wrote {}", path.display()));
    }
    let mut session = Session::new(
        SessionConfig { playout_delay: plan.playout_delay, ..session_config(options, clock) },
        clock.now(),
    );
    let interval = MediaTime::new(track.packetiser().packet_frames() as u64, plan.format.rate()).duration();
    let record = |file| record(file, plan.uri.transport.scheme, interval, &runner, &mut session);
    let recorder = passport.map(record).transpose()?;
    session.set_send_track(track);
    runner.join(&mut session, SILENCE);
    let stacks = runner.stacks();
    runner.drive(&mut session, stop, &mut |now, session, lines| {
        arriving.poll(now, session, lines, &stacks);
        out.look(now, || Snapshot::of(session, now, &meter).with_peer(session, lines));
    })?;
    let last = Snapshot::of(&mut session, clock.now(), &meter);
    let members = members(&session, plan.format.rate());
    let after = runner.finish();
    let mut notes = vec![format!("media thread: {}", after.scheduling)];
    notes.extend(after.notes.into_iter().chain(after.facts));
    let skipped = session.sent().track.skipped_frames;
    if skipped > 0 {
        notes.push(format!("{skipped} sample frames of the live source were discarded: too old to send"));
    }
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let files = recorder.map(Recorder::finish).into_iter().chain(captured).collect();
    Ok(Ended { notes, files, last, members })
}

/// Opens the wire; `wait`: tries again for as long as nobody accepts the call.
fn open_wire(plan: RunPlan, wait: bool, stop: &Stop, tell: &mpsc::Sender<String>) -> Result<Runner, Error> {
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

/// Session settings according to `options`.
fn session_config(options: &SendOptions, clock: OsClock) -> SessionConfig {
    SessionConfig {
        cname: CNAME.into(),
        epoch: clock.epoch(),
        seed: options.seed,
        playout_delay: PlayoutDelay::Unbounded,
        tells: None,
        reflected: None,
        ends_with_stream: true,
        framing: StreamFraming::Rtp,
    }
}

fn write_sdp(
    path: &Path,
    track: &SendTrack,
    uri: &StreamUri,
    clock: OsClock,
    runner: &Runner,
) -> Result<(), Error> {
    let to = uri.address();
    let describe = |packet| {
        let (address, port, rtcp_mux) = (Some(to.ip()), Some(to.port()), true);
        Ok(StreamDescription { address, port, rtcp_mux, ..StreamDescription::of(packet)? })
    };
    let described: Vec<_> = track.packets().map(describe).collect::<Result<_, Error>>()?;
    let ssrcs: Vec<u32> = track.ssrcs().collect();
    let origin = runner.local_address().ip();
    let sdp = SdpOptions {
        name: "Antiphon".into(),
        session_id: clock.epoch().ntp(clock.now()).to_bits() >> 32,
        origin: if origin.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { origin },
        ttl: uri.keys.socket.multicast.ttl.unwrap_or(1),
        reference_clock: None,
        media_clock_offset: None,
    };
    std::fs::write(path, sdp_of(&described, &ssrcs, CNAME, &sdp))
        .map_err(|error| Error::failed(format!("cannot write '{}': {error}", path.display())))
}

/// How long an absent peer is sent to before the user is told: within two seconds in all.
const ANSWER_PATIENCE: Duration = Duration::from_millis(1_500);
/// Silence after which another caller may replace the current one, at a sender that waits for callers.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);
/// Our name in reports (RFC 7022 §4.2 asks for one that reveals nothing of the host).
pub(crate) const CNAME: &str = "antiphon";
