//! Streams one source over every transport at once, each over its own copy of a link, and measures each.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::{Instant, NtpTime};
use antiphon_measure::{Advice, Candidate, TransportFigures, advise};
use antiphon_media::{NullSink, Sink};
use antiphon_net::{Capture, OsClock, Stop, Target};
use antiphon_session::CallProgress;

use crate::commands::commands;
use crate::embedded::{Embedded, Place};
use crate::hosts_part;
use crate::measured::Measured;
use crate::near_end::{self, NearPlan, NearResult};
use crate::passport::PassportFile;
use crate::pictures::PicturesPlan;
use crate::run::{create_capture, finish_capture, spawn};
use crate::show::{Looked, looks, newest};
use crate::stream_plan::StreamPlan;
use crate::together::{CommonStart, Starter};
use crate::transport::{TransportChoice, chosen, port_above};
use crate::{CompareOptions, DEFAULT_PORT, Error, render};

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// One record per transport, in the order of the registry.
    pub figures: Vec<TransportFigures>,
    /// The recommended transport, one record per purpose.
    pub advice: Vec<Advice>,
    /// The link, and how it was made.
    pub link: LinkSummary,
    /// What crossed the embedded link, by its own counters; empty with a peer.
    pub crossed: Vec<LinkCounts>,
    /// Transports that could not be measured, passport and capture if they could not be written, and why.
    pub failures: Vec<(String, String)>,
    /// What the reader must know of the run as a whole (scheduling obtained, options refused).
    pub notes: Vec<String>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Where the report is.
    pub report: Option<PathBuf>,
    /// Where the path passport is.
    pub passport: Option<PathBuf>,
}

/// The link of a comparison.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LinkSummary {
    /// As it was asked for: a preset, a description, or the peer's name.
    pub name: String,
    /// How the link was made between the sockets, in a sentence.
    pub method: String,
    /// What this way of making it cannot model.
    pub limits: Vec<String>,
}

/// What the embedded link itself counted for one transport.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct LinkCounts {
    /// The transport's name, as it was asked for.
    pub transport: String,
    /// From the near end to the reflector.
    pub up: WayCounts,
    /// Back.
    pub down: WayCounts,
}

/// What one direction of a link counted. offered + duplicated = delivered + lost + overflowed + under_way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct WayCounts {
    /// Packets handed in.
    pub offered: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets that came out.
    pub delivered: u64,
    /// Packets dropped by the loss model.
    pub lost: u64,
    /// Packets dropped because a queue was full.
    pub overflowed: u64,
    /// Packets still queued or in propagation when the link was ended.
    pub under_way: u64,
    /// Bytes handed in, IP headers included.
    pub offered_bytes: u64,
}

impl From<antiphon_link::Counters> for WayCounts {
    fn from(c: antiphon_link::Counters) -> Self {
        WayCounts {
            offered: c.offered,
            duplicated: c.duplicated,
            delivered: c.delivered,
            lost: c.lost,
            overflowed: c.overflowed,
            under_way: c.queued + c.in_flight,
            offered_bytes: c.offered_bytes,
        }
    }
}

/// Progress of a comparison.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Since the streams began; zero while connections are made.
    pub elapsed: Duration,
    /// How long they will last, where known.
    pub total: Option<Duration>,
    /// Each transport so far.
    pub transports: Vec<TransportProgress>,
}

/// Progress of one transport.
#[derive(Clone, Debug)]
pub struct TransportProgress {
    /// Its name, as it was asked for.
    pub transport: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets that came back.
    pub received: u64,
    /// Packets that came back after their playout time.
    pub late: u64,
    /// The last round trip.
    pub rtt: Option<Duration>,
}

/// Streams a source over several transports at once and measures each. `progress` is called about ten times a second.
pub fn compare(
    options: &CompareOptions,
    stop: &Stop,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Comparison, Error> {
    let transports = chosen(&options.transports)?;
    let stream = StreamPlan::new(options)?;
    allow_descriptors(&transports, &stream)?;
    if let Some(out) = &options.out {
        make_directory(out)?;
    }
    let passport = options.passport.as_deref();
    let passport =
        passport.map(|path| PassportFile::create(path, &options.command, options.seed)).transpose()?;
    let clock = OsClock::new();
    let (places, embedded, link) = places(options, &stream, &transports, clock)?;
    let capture = create_capture(options.capture.as_deref(), clock)?;
    let opened = open(options, &stream, places, clock, capture.as_ref(), stop)?;
    let (mut results, failures) = watch(opened, &stream, clock, progress);
    if options.peer.is_some() && options.hosts_part {
        hosts_part::tell(&mut results, options.block_frames, clock, stop);
    }
    // A real path to a peer has no such counters.
    let counted = embedded.map(Embedded::finish).unwrap_or_default();
    let ran = Ran { began: clock.epoch().ntp(Instant::ZERO), interrupted: stop.is_asked() };
    let mut comparison = finish(options, &stream, link, results, failures, counted, &ran)?;
    // The lines are closed; their threads have ended.
    match finish_capture(capture) {
        Some(Ok(captured)) => comparison.0.notes.push(captured),
        Some(Err(why)) => comparison.0.failures.push(("capture".into(), why)),
        None => {}
    }
    if let Some(file) = passport {
        file.fill(&mut comparison.0, &comparison.1);
    }
    Ok(comparison.0)
}

/// Refuses before anything is opened what would fail half-way.
fn allow_descriptors(transports: &[TransportChoice], stream: &StreamPlan) -> Result<(), Error> {
    let transports = transports.len();
    let pictures = stream.pictures.as_ref().map_or(0, PicturesPlan::descriptors);
    let wanted = descriptors(transports) + pictures * transports as u64;
    antiphon_net::allow_open_files(wanted).map_err(|limit| {
        Error::failed(format!(
            "comparing {transports} transports takes up to {wanted} open files and sockets, and the limit is {limit}: raise \
             it (ulimit -n {wanted}), or compare fewer with --transports"
        ))
    })
}

/// Open files and sockets that a comparison of so many transports takes at most.
pub(crate) fn descriptors(transports: usize) -> u64 {
    DESCRIPTORS + DESCRIPTORS_EACH * transports as u64
}

/// Open files of a comparison, whatever is compared, and of each transport: measured, the embedded link of namespaces
/// included (16 with one transport, 24 with two, 30 with three, 52 with six).
const DESCRIPTORS: u64 = 10;
const DESCRIPTORS_EACH: u64 = 7;

fn make_directory(out: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(out).and_then(|()| {
        // Checked now rather than after the run: can a file be created here?
        let probe = out.join(".antiphon-write-test");
        std::fs::write(&probe, b"")?;
        std::fs::remove_file(&probe)
    })
    .map_err(|error| {
        Error::failed(format!(
            "cannot write the report into '{}': {error}; choose another directory with --out DIR, or --out none",
            out.display()
        ))
    })
}

/// The two ends of each transport: on both sides of the embedded link, or here and at a peer elsewhere.
fn places(
    options: &CompareOptions,
    stream: &StreamPlan,
    transports: &[TransportChoice],
    clock: OsClock,
) -> Result<(Vec<Place>, Option<Embedded>, LinkSummary), Error> {
    let Some(peer) = &options.peer else {
        let (embedded, places) = Embedded::start(options, transports, stream.shortest_interval(), clock)?;
        let link = embedded.summary(&options.link.0);
        return Ok((places, Some(embedded), link));
    };
    let address = resolve_peer(peer)?;
    let place = |choice: &TransportChoice| {
        let target = SocketAddr::new(address.ip(), port_above(address.port(), choice.transport)?);
        Ok(Place::elsewhere(choice.clone(), target))
    };
    let places = transports.iter().map(place).collect::<Result<_, Error>>()?;
    let link = LinkSummary {
        name: peer.clone(),
        method: format!("real network to {address}, returned by 'antiphon reflect'"),
        limits: vec!["two clocks: only round trips can be measured, not one-way delays".into()],
    };
    Ok((places, None, link))
}

fn resolve_peer(peer: &str) -> Result<SocketAddr, Error> {
    // A bare IPv6 address has colons of its own.
    let authority = match peer.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => format!("[{v6}]"),
        _ => peer.into(),
    };
    let uri: antiphon_core::uri::Uri = format!("rtp://{authority}").parse()?;
    if uri.host.is_empty() {
        return Err(Error::usage(format!(
            "'{peer}' has no host: write HOST:PORT, such as studio.example:{DEFAULT_PORT}"
        )));
    }
    Ok(Target::resolve(&uri, DEFAULT_PORT)?.address())
}

/// The near ends, all opened.
struct Opened {
    ends: Vec<(Running, mpsc::Sender<()>)>,
    common: CommonStart,
}

/// A near end on its thread.
struct Running {
    choice: TransportChoice,
    looked: Looked<CallProgress>,
    progress: CallProgress,
    thread: JoinHandle<Result<NearResult, Error>>,
}

/// When a comparison ran, and whether it was stopped before its end.
pub(crate) struct Ran {
    pub began: NtpTime,
    pub interrupted: bool,
}

/// A near end that has a measurement.
type Ended = (TransportChoice, NearResult);

fn open(
    options: &CompareOptions,
    stream: &StreamPlan,
    places: Vec<Place>,
    clock: OsClock,
    capture: Option<&Capture>,
    stop: &Stop,
) -> Result<Opened, Error> {
    let mut running = Vec::new();
    let mut ready = Vec::new();
    let (common, starters) = Starter::for_each(places.len(), clock);
    for (place, starter) in places.into_iter().zip(starters) {
        let (go, begin) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let (out, looked) = looks();
        let choice = place.choice.clone();
        let plan = NearPlan {
            place,
            source: stream.open()?,
            sink: sink(options, stream, &choice)?,
            pictures: stream.pictures.as_ref().map(PicturesPlan::open).transpose()?,
            format: stream.format,
            sample: stream.sample,
            log_packets: stream.log_packets(),
            out,
            taps: capture.map(Capture::taps),
            options: options.clone(),
            clock,
            starter,
        };
        let stop = stop.clone();
        let name = format!("near-{}", choice.transport.scheme);
        let thread = spawn(name, move || near_end::run(plan, &tell, &begin, &stop))?;
        running.push((Running { choice, looked, progress: CallProgress::default(), thread }, go));
        ready.push(told);
    }
    // An end is known to be open when it reports so, and to have failed when its thread has ended.
    for told in ready {
        let _gone_threads_are_asked_later = told.recv();
    }
    Ok(Opened { ends: running, common })
}

fn sink(
    options: &CompareOptions,
    stream: &StreamPlan,
    choice: &TransportChoice,
) -> Result<Box<dyn Sink>, Error> {
    let Some(out) = &options.out else { return Ok(Box::new(NullSink::new(stream.format))) };
    render::recording(out, &choice.label, stream.format, stream.sample)
}

/// Lets all ends begin together, reports their progress, and waits for them.
fn watch(
    opened: Opened,
    stream: &StreamPlan,
    clock: OsClock,
    progress: &mut dyn FnMut(&Progress),
) -> (Vec<Ended>, Vec<(String, String)>) {
    let Opened { ends: mut running, common } = opened;
    for (_, go) in &running {
        let _gone_threads_are_asked_below = go.send(());
    }
    while running.iter().any(|(end, _)| !end.thread.is_finished()) {
        // Only the display of progress waits for this thread.
        std::thread::park_timeout(PROGRESS_EVERY);
        let elapsed = common.start().map_or(Duration::ZERO, |start| clock.now().since(start));
        progress(&snapshot(&mut running, stream, elapsed));
    }
    let (mut results, mut failures) = (Vec::new(), Vec::new());
    for (Running { choice, thread, .. }, _) in running {
        match thread.join() {
            Ok(Ok(result)) => results.push((choice, result)),
            Ok(Err(error)) => failures.push((choice.label, error.to_string())),
            Err(_) => failures.push((choice.label, "its thread failed (panic)".into())),
        }
    }
    (results, failures)
}

fn snapshot(running: &mut [(Running, mpsc::Sender<()>)], stream: &StreamPlan, elapsed: Duration) -> Progress {
    let one = |(end, _): &mut (Running, mpsc::Sender<()>)| {
        end.progress = newest(&mut end.looked).unwrap_or(end.progress);
        let CallProgress { sent, received, late, round_trip } = end.progress;
        TransportProgress { transport: end.choice.label.clone(), sent, received, late, rtt: round_trip }
    };
    Progress { elapsed, total: Some(stream.duration()), transports: running.iter_mut().map(one).collect() }
}

fn finish(
    options: &CompareOptions,
    stream: &StreamPlan,
    link: LinkSummary,
    results: Vec<Ended>,
    failures: Vec<(String, String)>,
    counted: Vec<LinkCounts>,
    ran: &Ran,
) -> Result<(Comparison, Vec<Measured>), Error> {
    if results.is_empty() {
        let why = failures
            .first()
            .map_or("no transport could be measured".into(), |(scheme, why)| format!("{scheme}: {why}"));
        return Err(if options.peer.is_some() { Error::unreachable(why) } else { Error::failed(why) });
    }
    let mut notes = Vec::new();
    let mut measured = Vec::new();
    for (choice, result) in results {
        let crossed = counted.iter().find(|c| c.transport == choice.label);
        for note in result.notes.iter().filter(|note| !notes.contains(*note)).cloned().collect::<Vec<_>>() {
            notes.push(note);
        }
        measured.push(Measured::new(choice, result, &link.name, crossed));
    }
    // In the order of the list of transports, which begins with the simplest.
    let candidates: Vec<Candidate<'_>> = measured
        .iter()
        .map(|m| Candidate {
            figures: &m.figures,
            log: &m.log,
            reliable: m.profile.reliable,
            multicast: m.choice.transport.multicast,
            current: options.current.as_ref().is_some_and(|current| *current == m.choice.label),
        })
        .collect();
    let mut comparison = Comparison {
        advice: advised(options, stream, &candidates),
        figures: measured.iter().map(|m| m.figures.clone()).collect(),
        link,
        crossed: counted,
        failures,
        notes,
        interrupted: ran.interrupted,
        report: None,
        passport: None,
    };
    if let Some(out) = &options.out {
        render::write(out, options, stream, &comparison, &measured, ran)?;
        comparison.report = Some(out.clone());
    }
    Ok((comparison, measured))
}

fn advised(options: &CompareOptions, stream: &StreamPlan, candidates: &[Candidate<'_>]) -> Vec<Advice> {
    let mut advice = advise(candidates);
    for advice in &mut advice {
        advice.commands = commands(advice, &options.source, &options.video, stream.format);
    }
    advice
}

/// How often progress is displayed.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
