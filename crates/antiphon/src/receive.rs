//! From a peer to a sink.

mod snapshot;

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_core::uri::Uri;
use antiphon_media::conceal::Concealment;
use antiphon_media::{Sink, SinkError, StreamDescription, StreamFormat};
use antiphon_net::{DriveOptions, OsClock, Stop, Target, become_media_thread, drive};
use antiphon_proto::{Beneath, Role, Transport, find};
use antiphon_session::{
    OpenSink, ReceiveConfig, ReceiveStation, ReceiverConfig, SoundReceiver, converted_sink,
};
use antiphon_sound::{Notes, SinkKind, SinkSpec};
use antiphon_trace::passport::Hole;

use crate::groups::{ReceiveGroup, channels_label};
use crate::near_end::header_bytes;
use crate::passport::{Hearing, PassportFile, Recorder};
use crate::send::{CNAME, Ended, finish_capture, start_capture};
use crate::show::{SNAPSHOTS, Shown, watch};
use crate::transport::{EndpointPlan, StreamKeys, open_line};
use crate::{DEFAULT_LATENCY, Error, ReceiveOptions, SinkClock};
use snapshot::{Snapshot, describe_notice};

/// How a stream being received is doing; told about ten times a second.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ReceiveStatus {
    /// Sound played so far.
    pub played_s: f64,
    /// RTP packets received of the stream.
    pub frames_received: u64,
    /// Packets that never came though later ones were played.
    pub lost: u64,
    /// Packets after their deadline.
    pub late: u64,
    /// Packets that came twice.
    pub duplicate: u64,
    /// Packets overtaken by later ones.
    pub reordered: u64,
    /// Holes filled with made-up sound.
    pub concealed: u64,
    /// Packets and datagrams of other senders, not mixed in.
    pub strangers: u64,
    /// Frames that are no RTP or RTCP.
    pub malformed: u64,
    /// RFC 3550 interarrival jitter, in milliseconds; of several channel groups the worst.
    pub jitter_rfc3550_ms: Option<f64>,
    /// How much faster the sender's sampling clock runs than ours.
    pub drift_ppm: Option<f64>,
    /// Playout target in force, in milliseconds; none for a recording.
    pub latency_ms: Option<f64>,
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
    /// Whether it was stopped before the sender took leave.
    pub interrupted: bool,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Receives a stream into a sink until the sender takes leave, or until stopped. `notice` gets sentences for the user
/// as things happen.
pub fn receive(
    options: &ReceiveOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&ReceiveStatus),
) -> Result<ReceiveSummary, Error> {
    let clock = OsClock::new();
    let mut plan = ReceivePlan::new(options)?;
    let passport = options.passport.as_deref();
    plan.passport =
        passport.map(|path| PassportFile::create(path, &options.command, options.seed)).transpose()?;
    let (description, latency) = (plan.describe(), plan.latency);
    let (out, mut snapshots) = rtrb::RingBuffer::new(SNAPSHOTS);
    let (tell, told) = mpsc::channel();
    let (ready, opened) = mpsc::channel();
    let thread_stop = stop.clone();
    let thread = std::thread::Builder::new()
        .name("receive".into())
        .spawn(move || run(plan, clock, &thread_stop, out, tell, ready))
        .map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
    // Said when it is true: whoever reads it may start the sender. A thread that failed says nothing.
    if opened.recv().is_ok() {
        notice(description);
    }
    let (mut last, mut timed_out, limit) = (ReceiveStatus::default(), false, options.length);
    let length_stop = stop.clone();
    let result = watch(thread, &mut snapshots, |snapshot: Snapshot| {
        last = snapshot.status(latency);
        if let Some(sentence) = snapshot.notice.map(describe_notice) {
            notice(sentence);
        }
        if limit.is_some_and(|limit| clock.now().since(Instant::ZERO) >= limit) && !length_stop.is_asked() {
            timed_out = true;
            length_stop.ask();
        }
        status(&last);
    });
    let Ended { mut notes, files } = result.map_err(|_| Error::failed("the media thread panicked"))??;
    files.into_iter().for_each(notice);
    for sink in told.try_iter() {
        notes.extend(sink.list());
    }
    Ok(ReceiveSummary { status: last, interrupted: stop.is_asked() && !timed_out, notes })
}

/// Everything that can be settled before the media thread starts.
struct ReceivePlan {
    transport: &'static Transport,
    endpoint: EndpointPlan,
    target: Target,
    keys: StreamKeys,
    sink: SinkSpec,
    clock: SinkClock,
    latency: Option<Duration>,
    conceal: Concealment,
    description: Option<StreamDescription>,
    any_payload_type: bool,
    forever: bool,
    ends_with_stream: bool,
    wait: antiphon_net::WaitStyle,
    capture: Option<PathBuf>,
    passport: Option<PassportFile>,
    seed: u64,
}

impl ReceivePlan {
    fn new(options: &ReceiveOptions) -> Result<Self, Error> {
        let uri: Uri = options.source.parse()?;
        let transport = find(&uri.scheme)?;
        let keys = StreamKeys::read(transport, &uri.query, &options.socket)?;
        let mut target = Target::resolve(&uri, keys.default_port(transport))?;
        if transport.beneath == Beneath::Udp {
            // Datagrams are not fetched: an address names where to listen, a group what to join.
            target = Target::Listen(target.address());
        }
        let sink: SinkSpec = options.sink.parse()?;
        sink.check()?;
        let is_file = matches!(sink.kind, SinkKind::File { .. });
        let asked = keys.latency.or(options.latency);
        Ok(ReceivePlan {
            transport,
            target,
            endpoint: EndpointPlan {
                transport,
                role: if matches!(target, Target::Call(_)) { Role::Caller } else { Role::Listener },
                query: keys.for_endpoint(uri.query, target),
                seed: options.seed,
                latency: asked.unwrap_or(DEFAULT_LATENCY),
                framing: keys.framing.unwrap_or(options.framing),
            },
            conceal: keys.conceal.unwrap_or(options.conceal),
            keys,
            clock: options.clock,
            latency: if is_file && options.clock == SinkClock::Sender {
                asked
            } else {
                Some(asked.unwrap_or(DEFAULT_LATENCY))
            },
            sink,
            description: options.description.clone(),
            any_payload_type: options.any_payload_type,
            forever: options.forever,
            ends_with_stream: !options.forever,
            wait: options.wait,
            capture: options.capture.clone(),
            passport: None,
            seed: options.seed,
        })
    }

    fn describe(&self) -> String {
        let verb = match self.target {
            Target::Listen(address) if address.ip().is_multicast() => "joining",
            Target::Listen(_) => "listening on",
            Target::Call(_) => "calling",
        };
        let latency = self.latency.map_or("recording: waits for what is late".into(), |latency| {
            format!("playout target {}", antiphon_core::units::format_duration(latency))
        });
        let last = if self.forever { "" } else { "; ends when the sender takes leave" };
        format!("{verb} {}://{}; {latency}{last}", self.transport.scheme, self.target.address())
    }
}

/// The media thread.
fn run(
    plan: ReceivePlan,
    clock: OsClock,
    stop: &Stop,
    out: rtrb::Producer<Snapshot>,
    tell: mpsc::Sender<Notes>,
    ready: mpsc::Sender<()>,
) -> Result<Ended, Error> {
    let mut opened = open_line(plan.transport, plan.keys.over_ip, plan.target, &plan.keys.socket)?;
    let _main_thread_is_gone = ready.send(());
    let capture = start_capture(plan.capture.as_deref(), clock, &mut *opened.line, &plan.endpoint)?;
    let (endpoints, max_datagram) = (plan.endpoint, opened.max_datagram);
    let framing = endpoints.framing;
    // Opened once here, so that a wrong option is an error now and not on the first datagram.
    let endpoint = endpoints.open(clock.now(), max_datagram)?;
    let (ordered, header_bytes) =
        (endpoint.profile().ordered, header_bytes(plan.transport, plan.keys.over_ip.is_some(), &*endpoint));
    let receiver = ReceiverConfig {
        latency: plan.latency,
        conceal: plan.conceal,
        description: plan.description,
        any_payload_type: plan.any_payload_type,
        silence: SILENCE,
        ordered,
        cname: CNAME.into(),
        epoch: clock.epoch(),
        seed: plan.seed ^ 2,
    };
    let mut receiver = SoundReceiver::new(receiver, open_sink(plan.sink, plan.clock, tell), clock.now());
    let record = |file| record(file, plan.transport, header_bytes, &mut receiver);
    let recorder = plan.passport.map(record).transpose()?;
    let config = ReceiveConfig {
        endpoint: Box::new(move |now| endpoints.reopen(now, max_datagram)),
        admits: plan.transport.admits,
        silence: SILENCE,
        ends_with_stream: plan.ends_with_stream,
        framing,
    };
    let station = ReceiveStation::new(config, receiver, clock.now());
    let mut shown = Shown::new(station, out, Snapshot::of);
    let scheduling = become_media_thread();
    drive(&mut *opened.line, &mut shown, &clock, stop, DriveOptions { wait: plan.wait })?;
    let mut notes = vec![format!("media thread: {scheduling}")];
    notes.extend(opened.line.notes().iter().cloned());
    // The line shows the end of its connection when it goes.
    drop(opened.line);
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let divided = shown.station.receiver().division().filter(|groups| groups.count() > 1);
    if let (Some(first), true) = (divided.and_then(|groups| groups.range(0)), recorder.is_some()) {
        notes.push(format!(
            "the passport holds the packets of the first group, channels {}",
            channels_label(&first)
        ));
    }
    let files = recorder.map(Recorder::finish).into_iter().chain(captured).collect();
    finish(shown.station, &mut notes)?;
    Ok(Ended { notes, files })
}

/// Has a passport written of what `receiver` hears.
fn record(
    file: PassportFile,
    transport: &'static Transport,
    header_bytes: u32,
    receiver: &mut SoundReceiver,
) -> Result<Recorder, Error> {
    // The kernel's TCP loses nothing: what is missing there was given up before it was sent.
    let hole = if transport.beneath == Beneath::Tcp { Hole::NotSent } else { Hole::Lost };
    let scribe = Hearing::new(transport.scheme, transport.strengths.reliable, hole, header_bytes);
    let (recorder, witness) = Recorder::start(file, scribe)?;
    receiver.set_witness(witness);
    Ok(recorder)
}

/// Opens the sink when the format is known, in the rate and channels that it asks for.
fn open_sink(sink: SinkSpec, clock: SinkClock, tell: mpsc::Sender<Notes>) -> OpenSink {
    Box::new(move |format, sample| {
        let rate = sink.rate.unwrap_or(format.rate());
        let channels = sink.channels.unwrap_or(format.channels() as u32);
        let wanted = StreamFormat::new(rate, channels).map_err(|error| error.to_string())?;
        let opened = sink.open(wanted, sample).map_err(|error| error.to_string())?;
        let _main_thread_is_gone = tell.send(opened.notes);
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

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.finish()
    }
}

fn finish(mut station: ReceiveStation, notes: &mut Vec<String>) -> Result<(), Error> {
    let error = station.receiver().error().cloned();
    let counters = station.receiver().counters();
    if counters.overrun_frames > 0 {
        notes.push(format!("{} sample frames dropped: the sink is too slow", counters.overrun_frames));
    }
    let finished = station.receiver_mut().take_sink().map(|mut sink| sink.finish());
    if let Some(Err(cause)) = finished {
        return Err(Error::failed(cause.to_string()));
    }
    match error {
        Some(error) => Err(Error::failed(error.to_string())),
        None => Ok(()),
    }
}

/// Silence after which another sender may take over: longer than any outage that a stream survives with its listeners.
const SILENCE: Duration = Duration::from_secs(2);
