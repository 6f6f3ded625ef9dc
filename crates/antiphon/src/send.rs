//! From a source to a peer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::uri::Uri;
use antiphon_core::{BrokenReason, MediaTime};
use antiphon_media::packet::PacketConfig;
use antiphon_media::rtcp::{RemoteReport, ReportBlock};
use antiphon_media::{
    ChannelGroups, ChannelMap, SampleFormat, SdpOptions, Source, StreamDescription, StreamFormat, sdp_of,
};
use antiphon_net::capture::FRAME_PORT;
use antiphon_net::{
    Capture, CaptureSummary, DriveOptions, Line, OsClock, Stop, Target, become_media_thread, drive,
};
use antiphon_proto::{Beneath, Role, find};
use antiphon_session::{
    SendStation, SenderConfig, SenderCounters, SoundSender, StreamFraming, converted, limited,
};
use antiphon_sound::{Notes, open_source};

use crate::groups::{MOST_GROUPS, SendGroup, channels_label, read_groups};
use crate::near_end::header_bytes;
use crate::passport::{PassportFile, Recorder, Sending};
use crate::show::{SNAPSHOTS, Shown, watch};
use crate::transport::{EndpointPlan, StreamKeys, max_packet, open_line};
use crate::{Error, SendOptions};

/// How a stream being sent is doing; told about ten times a second.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct SendStatus {
    /// Sound sent so far.
    pub sent_s: f64,
    /// Sound in all, where known.
    pub total_s: Option<f64>,
    /// Frames handed to the transport.
    pub frames_sent: u64,
    /// Frames that expired in the send queue.
    pub expired: u64,
    /// Frames that the transport refused.
    pub refused: u64,
    /// Milliseconds for which the source had nothing in time.
    pub starved: u64,
    /// Round trip as the receiver's reports tell, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Loss as the receiver's reports tell, in percent of the last interval; of several channel groups the mean.
    pub remote_loss_percent: Option<f64>,
    /// Jitter as the receiver's reports tell (RFC 3550), in milliseconds; of several channel groups the worst.
    pub remote_jitter_ms: Option<f64>,
    /// What the receiver's reports tell of each channel group; empty if there is but one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<SendGroup>,
}

/// A stream that was sent.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SendSummary {
    /// The final state.
    #[serde(flatten)]
    pub status: SendStatus,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// What the user should know (scheduling obtained, a truncated file …).
    pub notes: Vec<String>,
}

/// Sends a source to a peer until its end, or until stopped. `notice` gets sentences for the user as things happen.
pub fn send(
    options: &SendOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&SendStatus),
) -> Result<SendSummary, Error> {
    let clock = OsClock::new();
    let plan = SendPlan::new(options, clock)?;
    let passport = options.passport.as_deref();
    let passport =
        passport.map(|path| PassportFile::create(path, &options.command, options.seed)).transpose()?;
    let (rate, total, groups) = (plan.format.rate(), plan.source.length(), plan.groups);
    let total_s = total.map(|frames| MediaTime::new(frames, rate).duration().as_secs_f64());
    notice(plan.describe(options));
    let (out, mut snapshots) = rtrb::RingBuffer::new(SNAPSHOTS);
    let (tell, told) = mpsc::channel();
    let (source_notes, wait_for_peer) = (plan.notes.clone(), options.wait_for_peer);
    let (thread_stop, options) = (stop.clone(), options.clone());
    let thread = std::thread::Builder::new()
        .name("send".into())
        .spawn(move || run(plan, &options, passport, &thread_stop, out, &tell))
        .map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
    let (mut last, mut unanswered, mut gave_up) = (SendStatus::default(), None, false);
    let result = watch(thread, &mut snapshots, |snapshot: Snapshot| {
        while let Ok(sentence) = told.try_recv() {
            notice(sentence);
        }
        last = snapshot.status(rate, total_s, groups);
        unanswered = snapshot.unanswered;
        let since_start = clock.now().since(antiphon_core::Instant::ZERO);
        if unanswered.is_some() && since_start > ANSWER_PATIENCE && !wait_for_peer && !stop.is_asked() {
            gave_up = true;
            stop.ask();
        }
        status(&last);
    });
    let Ended { mut notes, files } = result.map_err(|_| Error::failed("the media thread panicked"))??;
    notes.extend(source_notes.list());
    files.into_iter().for_each(notice);
    if gave_up {
        let why =
            if unanswered == Some(BrokenReason::Refused) { "nobody listens there" } else { "no route to it" };
        return Err(Error::unreachable(format!(
            "the peer cannot be reached: {why}; start 'antiphon receive' there first, or send with --wait-for-peer"
        )));
    }
    Ok(SendSummary { status: last, interrupted: stop.is_asked(), notes })
}

/// Everything that can be settled before the media thread starts.
struct SendPlan {
    endpoint: EndpointPlan,
    target: Target,
    keys: StreamKeys,
    source: Box<dyn Source>,
    notes: Notes,
    format: StreamFormat,
    groups: ChannelGroups,
    sample: SampleFormat,
    clock: OsClock,
}

impl SendPlan {
    fn new(options: &SendOptions, clock: OsClock) -> Result<Self, Error> {
        let uri: Uri = options.target.parse()?;
        let transport = find(&uri.scheme)?;
        let keys = StreamKeys::read(transport, &uri.query, &options.socket)?;
        let target = Target::resolve(&uri, keys.default_port(transport))?;
        if transport.beneath == Beneath::Udp && matches!(target, Target::Listen(_)) {
            return Err(Error::usage(format!(
                "'{}' says nobody to send to: write {}://HOST:{}",
                options.target,
                uri.scheme,
                keys.default_port(transport)
            )));
        }
        let framing = keys.framing.unwrap_or(options.framing);
        if framing != StreamFraming::Rtp && options.sdp.is_some() {
            return Err(Error::usage(format!(
                "an SDP tells other players of plain RTP, which they would not find within the framing '{}': leave out \
                 --sdp or the framing",
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
        let endpoint = EndpointPlan {
            transport,
            role: if matches!(target, Target::Call(_)) { Role::Caller } else { Role::Listener },
            query: keys.for_endpoint(uri.query, target),
            seed: options.seed,
            latency: keys.latency.or(options.latency).unwrap_or(crate::DEFAULT_LATENCY),
            framing,
        };
        Ok(SendPlan { endpoint, target, keys, source, notes: opened.notes, format, groups, sample, clock })
    }

    fn describe(&self, options: &SendOptions) -> String {
        let verb = if matches!(self.target, Target::Call(_)) { "to" } else { "to whoever calls" };
        let patience = self.keys.latency.or(options.latency);
        let patience = patience.map_or("frames never expire".to_string(), |latency| {
            format!("frames older than {} expire", antiphon_core::units::format_duration(latency))
        });
        let groups = match self.groups.count() {
            1 => String::new(),
            _ => format!(", in groups of {}", self.groups),
        };
        format!(
            "sending {} ({}{groups}, {}) {verb} {}://{}; {patience}",
            options.source,
            self.format,
            self.sample.name(),
            self.endpoint.transport.scheme,
            self.target.address(),
        )
    }

    fn packet(&self, options: &SendOptions, max_packet: usize) -> PacketConfig {
        let mut packet = PacketConfig::new(self.format, self.sample, options.block_frames);
        packet.max_packet = max_packet;
        packet.ptime = self.keys.ptime.or(options.ptime);
        packet.payload_type = options.payload_type.unwrap_or(packet.payload_type);
        packet
    }
}

/// What the media thread leaves behind: sentences for the user.
pub(crate) struct Ended {
    pub notes: Vec<String>,
    /// What became of the files that were asked for besides: passport, capture.
    pub files: Vec<String>,
}

/// The media thread: opens the line, writes the SDP, streams.
fn run(
    plan: SendPlan,
    options: &SendOptions,
    passport: Option<PassportFile>,
    stop: &Stop,
    out: rtrb::Producer<Snapshot>,
    tell: &mpsc::Sender<String>,
) -> Result<Ended, Error> {
    let mut opened = open_line(plan.endpoint.transport, plan.keys.over_ip, plan.target, &plan.keys.socket)?;
    let capture = start_capture(options.capture.as_deref(), plan.clock, &mut *opened.line, &plan.endpoint)?;
    let now = plan.clock.now();
    let endpoint = plan.endpoint.clone().with_streams(plan.groups.count(), now, opened.max_datagram)?;
    let endpoint = endpoint.open(now, opened.max_datagram)?;
    let config = SenderConfig {
        packet: plan.packet(options, max_packet(opened.max_datagram, &*endpoint)),
        groups: plan.groups,
        patience: plan.keys.latency.or(options.latency),
        epoch: plan.clock.epoch(),
        seed: options.seed,
    };
    let (transport, acknowledged) = (plan.endpoint.transport, endpoint.profile().acknowledged);
    let header_bytes = header_bytes(transport, plan.keys.over_ip.is_some(), &*endpoint);
    let mut station = SendStation::new(endpoint, plan.source, config, CNAME, plan.clock.now())?;
    if let Some(path) = &options.sdp {
        let to = plan.target.address();
        write_sdp(path, station.sender(), to, &plan.keys, plan.clock, &*opened.line)?;
        let _main_thread_is_gone = tell.send(format!("wrote {}", path.display()));
    }
    let mut recorder = None;
    if let Some(file) = passport {
        let frames = station.sender().packetiser().packet_frames() as u64;
        let interval = MediaTime::new(frames, plan.format.rate()).duration();
        let repairs = transport.strengths.reliable;
        let scribe = Sending::new(transport.scheme, repairs, acknowledged, header_bytes, interval);
        let (started, witness) = Recorder::start(file, scribe)?;
        station.set_witness(witness);
        recorder = Some(started);
    }
    let mut shown = Shown::new(station, out, Snapshot::of);
    let scheduling = become_media_thread();
    drive(&mut *opened.line, &mut shown, &plan.clock, stop, DriveOptions { wait: options.wait })?;
    let mut notes = vec![format!("media thread: {scheduling}")];
    notes.extend(opened.line.notes().iter().cloned());
    notes.extend(opened.line.facts());
    // The line shows the end of its connection when it goes.
    drop(opened.line);
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let files = recorder.map(Recorder::finish).into_iter().chain(captured).collect();
    Ok(Ended { notes, files })
}

/// Lets a capture file see what crosses `line`, if one was asked for.
pub(crate) fn start_capture(
    path: Option<&Path>,
    clock: OsClock,
    line: &mut dyn Line,
    plan: &EndpointPlan,
) -> Result<Option<Capture>, Error> {
    let capture = create_capture(path, clock)?;
    if let Some(capture) = &capture {
        line.set_tap(capture.tap_inside(plan.transport.scheme, plan.unwrap()));
    }
    Ok(capture)
}

/// Begins a capture file, if one was asked for.
pub(crate) fn create_capture(path: Option<&Path>, clock: OsClock) -> Result<Option<Capture>, Error> {
    let create = |path| Capture::create(path, clock).map_err(|error| Error::failed(error.to_string()));
    path.map(create).transpose()
}

/// Closes a capture file, if one was asked for, and tells what is in it, or why not all is. A capture that failed does
/// not undo the stream.
pub(crate) fn finish_capture(capture: Option<Capture>) -> Option<Result<String, String>> {
    let incomplete = |error| format!("the capture is incomplete: {error}");
    Some(capture?.finish().map(|summary| captured(&summary)).map_err(incomplete))
}

fn captured(summary: &CaptureSummary) -> String {
    let CaptureSummary { packets, inside, dropped, incomplete, .. } = *summary;
    let mut text = format!("captured {} packets, {dropped} dropped", packets - inside);
    if inside > 0 {
        text += &format!(", and {inside} of what is inside them (RTP: -d udp.port=={FRAME_PORT},rtp)");
    }
    if incomplete > 0 {
        text += &format!(", without {incomplete} fragments of frames that did not become whole");
    }
    text
}

fn write_sdp(
    path: &Path,
    sender: &SoundSender,
    to: SocketAddr,
    keys: &StreamKeys,
    clock: OsClock,
    line: &dyn Line,
) -> Result<(), Error> {
    let describe = |packet| {
        let (address, port, rtcp_mux) = (Some(to.ip()), Some(to.port()), true);
        Ok(StreamDescription { address, port, rtcp_mux, ..StreamDescription::of(packet)? })
    };
    let described: Vec<_> = sender.packets().map(describe).collect::<Result<_, Error>>()?;
    let ssrcs: Vec<u32> = sender.ssrcs().collect();
    let origin = line.local_address().ip();
    let options = SdpOptions {
        name: "Antiphon".into(),
        session_id: clock.epoch().ntp(clock.now()).to_bits() >> 32,
        origin: if origin.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { origin },
        ttl: keys.socket.multicast.ttl.unwrap_or(1),
        reference_clock: None,
        media_clock_offset: None,
    };
    std::fs::write(path, sdp_of(&described, &ssrcs, CNAME, &options))
        .map_err(|error| Error::failed(format!("cannot write '{}': {error}", path.display())))
}

/// A look at the sending station.
#[derive(Clone, Copy)]
struct Snapshot {
    position: u64,
    counters: SenderCounters,
    report: Option<RemoteReport>,
    /// The last report on each channel group.
    blocks: [Option<ReportBlock>; MOST_GROUPS],
    unanswered: Option<BrokenReason>,
}

impl Snapshot {
    fn of(station: &mut SendStation) -> Self {
        let mut blocks = [None; MOST_GROUPS];
        for (block, report) in blocks.iter_mut().zip(station.reports()) {
            *block = report.map(|report| report.block);
        }
        Snapshot {
            position: station.sender().packetiser().position().frames,
            counters: station.counters(),
            report: station.last_report(),
            blocks,
            unanswered: station.unanswered(),
        }
    }

    fn status(&self, rate: u32, total_s: Option<f64>, groups: ChannelGroups) -> SendStatus {
        let millis = |d: Duration| d.as_secs_f64() * 1e3;
        let percent = |block: ReportBlock| f64::from(block.fraction_lost) / 2.56;
        let told = || self.blocks.iter().flatten();
        let jitter = told().map(|block| block.jitter).max();
        let group = |(channels, block): (std::ops::Range<usize>, &Option<ReportBlock>)| SendGroup {
            channels: channels_label(&channels),
            remote_loss_percent: block.map(percent),
            remote_lost: block.map(|block| block.cumulative_lost),
        };
        let divided = Some(groups).filter(|groups| groups.count() > 1);
        SendStatus {
            sent_s: MediaTime::new(self.position, rate).duration().as_secs_f64(),
            total_s,
            frames_sent: self.counters.accepted,
            expired: self.counters.expired,
            refused: self.counters.refused,
            starved: self.counters.starved,
            rtt_ms: self.report.and_then(|report| report.round_trip).map(millis),
            remote_loss_percent: (told().count() > 0)
                .then(|| told().map(|block| percent(*block)).sum::<f64>() / told().count() as f64),
            remote_jitter_ms: jitter.map(|jitter| f64::from(jitter) * 1e3 / f64::from(rate)),
            groups: divided.map_or_else(Vec::new, |g| g.ranges().zip(&self.blocks).map(group).collect()),
        }
    }
}

/// How long a peer may let us send into a void that says so: the user is told within two seconds.
const ANSWER_PATIENCE: Duration = Duration::from_millis(1_500);
/// Our name in reports (RFC 7022 §4.2 asks for one that tells nothing of the host).
pub(crate) const CNAME: &str = "antiphon";
