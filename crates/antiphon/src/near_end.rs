//! The calling side of one transport in a comparison: a session whose media comes back, on one media thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Instant, Profile};
use antiphon_measure::{PacketLog, PictureLog, PicturesFigures};
use antiphon_media::packet::PacketConfig;
use antiphon_media::{ChannelGroups, SampleFormat, Sink, Source, StreamFormat};
use antiphon_net::{OsClock, Stop, Taps, Target};
use antiphon_session::{
    CallLog, CallProgress, LongGaps, Observer, OpenSink, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig,
    Reflected, SendTrack, SendTrackConfig, Session, SessionConfig,
};

use crate::embedded::Place;
use crate::pictures::{BesidePlan, BesideRun, BothSinks, PacketLength};
use crate::run::{self, RunPlan, Runner, WirePlan};
use crate::send::SILENCE;
use crate::show::Looks;
use crate::together::Starter;
use crate::{CompareOptions, Error, ErrorKind, Latency};

/// All settings of a near end; made on the main thread, used on its own.
pub(crate) struct NearPlan {
    pub place: Place,
    pub source: Box<dyn Source>,
    pub sink: Box<dyn Sink>,
    pub pictures: Option<BesidePlan>,
    pub format: StreamFormat,
    pub sample: SampleFormat,
    pub log_packets: usize,
    pub out: Looks<CallProgress>,
    pub taps: Option<Taps>,
    pub options: CompareOptions,
    pub clock: OsClock,
    pub starter: Starter,
}

/// The sink, until the first packet comes back.
type Unopened = Rc<RefCell<Option<Box<dyn Sink>>>>;

/// What a near end measured.
pub(crate) struct NearResult {
    pub log: PacketLog,
    /// The pictures beside the sound.
    pub pictures: Option<(PictureLog, PicturesFigures)>,
    pub wire_bytes: u64,
    pub media_bytes: u64,
    pub cpu: Duration,
    pub duration: Duration,
    pub latency: Duration,
    /// Its endpoint's profile.
    pub profile: Profile,
    /// Around each packet: the transport's, and those below it.
    pub header_bytes: u32,
    /// About this transport, from the transport itself.
    pub facts: Vec<String>,
    /// Of the run: scheduling obtained, options refused.
    pub notes: Vec<String>,
}

/// A near end on its thread: opens everything in its namespace and reports that it is ready (by sending, or by ending with
/// an error), waits for the signal to begin, streams, and collects the measurement.
pub(crate) fn run(
    plan: NearPlan,
    ready: &mpsc::Sender<()>,
    begin: &mpsc::Receiver<()>,
    stop: &Stop,
) -> Result<NearResult, Error> {
    let NearPlan {
        place,
        source,
        sink,
        pictures,
        format,
        sample,
        log_packets,
        mut out,
        taps,
        options,
        clock,
        mut starter,
    } = plan;
    let mut runner = call(&run_plan(&place, &options, taps, clock))?;
    let mut packet = PacketConfig::new(format, sample, options.block_frames);
    packet.max_packet = runner.max_packet();
    let send = SendTrack::new(source, send_config(packet, &options, clock))?;
    let log = CallLog::new(send.packetiser(), log_packets, place.arrivals.clone());
    // The main thread waits for this, or for the end of this thread.
    let _main_thread_is_gone = ready.send(());
    let _main_thread_is_gone = begin.recv();
    let session = Session::new(session_config(&options, clock), clock.now());
    let receive = receive_config(&options, runner.profile().ordered);
    let beside = pictures
        .map(|pictures| (pictures, PacketLength::beside(runner.max_packet(), &runner.profile()), &place));
    let mut streams = Streams::new(session, (send, log), (receive, sink), beside)?;
    runner.join(&mut streams.session, SILENCE);
    let log = Rc::clone(&streams.log);
    let report = runner.drive(&mut streams.session, stop, &mut |now, session: &mut Session, _| {
        if session.has_connected() {
            starter.set_ready();
            starter.start().into_iter().for_each(|start| session.start_at(start));
        }
        out.look(now, || log.borrow().progress());
    })?;
    drop(log);
    streams.check(&runner, &place, stop)?;
    Ok(streams.collect(runner, report.cpu, options.latency))
}

/// What a near end streams, and what is noted of it.
struct Streams {
    session: Session,
    log: Rc<RefCell<CallLog>>,
    sink: Unopened,
    pictures: Option<BesideRun>,
}

impl Streams {
    /// Gives a session the sound, and the pictures beside it: those, the longest packet, and where they go to.
    fn new(
        mut session: Session,
        (send, log): (SendTrack, CallLog),
        (receive, sink): (ReceiveTrackConfig, Box<dyn Sink>),
        beside: Option<(BesidePlan, PacketLength, &Place)>,
    ) -> Result<Self, Error> {
        let ssrc = send.packetiser().ssrc();
        session.set_send_track(send);
        let log = Rc::new(RefCell::new(log));
        let seen_by = Rc::clone(&log);
        session.observe(Box::new(move |now: Instant, seen: &_| seen_by.borrow_mut().on(now, seen)));
        let (mut sink, mut pictures) = (sink, None);
        if let Some((plan, packets, place)) = beside {
            place.arrivals.iter().for_each(|table| table.follow(ssrc));
            let arrivals = place.picture_arrivals.clone();
            let (run, shown) = plan.join(&mut session, packets, sink.format(), arrivals)?;
            (sink, pictures) = (Box::new(BothSinks(sink, shown)), Some(run));
        }
        let sink: Unopened = Rc::new(RefCell::new(Some(sink)));
        session.set_receive_track(ReceiveTrack::new(receive, open_once(&sink), None));
        Ok(Streams { session, log, sink, pictures })
    }

    /// An error if the far end did not answer.
    fn check(&self, runner: &Runner, place: &Place, stop: &Stop) -> Result<(), Error> {
        if !self.session.has_connected() && !stop.is_asked() {
            return Err(Error::unreachable("no connection"));
        }
        // A wire that calls is there until the runner is finished.
        let refused = runner.wire_stats().is_some_and(|wire| wire.refused > 0);
        // The far end is on another machine.
        let calls_a_peer = place.arrivals.is_none();
        // Nothing of a short stream may have come back before the patience with its beginning has ended.
        let nothing_back = calls_a_peer && !stop.is_asked() && self.log.borrow().progress().received == 0;
        if self.session.is_unanswered() || nothing_back {
            // The far end of an embedded link has the same settings.
            let label = &*place.choice.label;
            let settings = Some(label).filter(|label| calls_a_peer && label.contains('?'));
            return Err(unanswered(refused, settings));
        }
        Ok(())
    }

    /// What was measured, once the session has ended.
    fn collect(self, runner: Runner, cpu: Duration, latency: Duration) -> NearResult {
        let Streams { mut session, log, sink, pictures } = self;
        let path = session.stats().counters;
        let (profile, header_bytes) = (runner.profile(), runner.header_bytes());
        let below = runner.headers_below();
        let after = runner.finish();
        let mut notes = vec![format!("media threads: {}", after.scheduling)];
        notes.extend(after.notes);
        let mut facts = after.facts;
        let sent = session.sent().track;
        if sent.stalls > 0 {
            facts.push(format!("the sending thread was late {} times", sent.stalls));
        }
        let duration = session.sending_time();
        let concealed = finish_hearing(&mut session, &sink, &mut notes);
        let shown = pictures.map(|pictures| pictures.finish(&session, &mut facts));
        drop(session);
        let mut log = Rc::into_inner(log).expect("the session had the other").into_inner();
        log.finish(concealed);
        let log = log.into_log();
        NearResult {
            pictures: shown.map(|shown| shown.measure(&log)),
            log,
            wire_bytes: path.bytes_sent + path.datagrams_sent * below,
            media_bytes: sent.media_bytes,
            cpu,
            duration,
            latency,
            profile,
            header_bytes,
            facts,
            notes,
        }
    }
}

/// The call to the reflector, in the place's namespace.
fn run_plan(place: &Place, options: &CompareOptions, taps: Option<Taps>, clock: OsClock) -> RunPlan {
    let choice = &place.choice;
    let stack = choice.stack(place.target.port(), options.seed, options.latency);
    let wire = WirePlan {
        over_ip: choice.over_ip,
        ..WirePlan::new(stack, Target::Call(place.target), choice.socket(&options.socket))
    };
    RunPlan {
        namespace: place.namespace.clone(),
        taps: taps.map(|taps| (taps, choice.label.clone())),
        wait: options.wait,
        ..RunPlan::new(wire, clock)
    }
}

fn send_config(packet: PacketConfig, options: &CompareOptions, clock: OsClock) -> SendTrackConfig {
    SendTrackConfig {
        // The log has one row of numbers: transports are compared, not divisions of channels.
        groups: ChannelGroups::whole(packet.format.channels()),
        packet,
        protect: options.protect,
        epoch: clock.epoch(),
        seed: options.seed,
        woken: false,
        keeps: 0,
    }
}

fn receive_config(options: &CompareOptions, ordered: bool) -> ReceiveTrackConfig {
    ReceiveTrackConfig {
        latency: Some(Latency::Of(options.latency)),
        conceal: options.conceal,
        completed_later: false,
        description: None,
        any_payload_type: false,
        silence: SILENCE,
        ordered,
        reliable: false,
        long_gaps: LongGaps::default(),
    }
}

/// Opens the sink with the first packet that comes back.
fn open_once(sink: &Unopened) -> OpenSink {
    let slot = Rc::clone(sink);
    Box::new(move |_, _| slot.borrow_mut().take().ok_or_else(|| "it was opened already".into()))
}

/// Finishes the recording of what was heard; returns the number of concealed sample frames.
fn finish_hearing(session: &mut Session, unopened: &Unopened, notes: &mut Vec<String>) -> u64 {
    let Some(track) = session.receive_track_mut() else { return 0 };
    let concealed = track.playout().map_or(0, |playout| playout.concealed_frames);
    let overrun = track.counters().overrun_frames;
    let sink = track.take_sink().or_else(|| unopened.borrow_mut().take());
    if let Some(Err(error)) = sink.map(|mut sink| sink.finish()) {
        notes.push(format!("the recording could not be saved: {error}"));
    } else if overrun > 0 {
        notes.push(format!("{overrun} sample frames are missing from the recording: the disk is too slow"));
    }
    concealed
}

fn unanswered(refused: bool, settings: Option<&str>) -> Error {
    let how = if refused { "no program is listening there" } else { "no packets come back" };
    let remedy = settings.map_or_else(String::new, |label| {
        format!("; if its defaults differ, run there: antiphon reflect --transports '{label}'")
    });
    Error::unreachable(format!(
        "{how}: check the address and the firewall, and that 'antiphon reflect' is running there{remedy}"
    ))
}

fn session_config(options: &CompareOptions, clock: OsClock) -> SessionConfig {
    let expires = PlayoutDelay::Of(options.latency);
    SessionConfig {
        playout_delay: if options.expire { expires } else { PlayoutDelay::Unbounded },
        reflected: Some(Reflected {
            connect: CONNECT,
            answer: ANSWER_PATIENCE,
            drain: DRAIN,
            told_start: true,
        }),
        ..run::session_config(options.seed, clock)
    }
}

/// Opens the wire. A TCP connection whose SYNs were lost is called again: at 5 % loss each way, the two SYNs of a call
/// are lost or unanswered once in a hundred runs.
fn call(plan: &RunPlan) -> Result<Runner, Error> {
    let mut calls = 1;
    loop {
        match plan.clone().open() {
            Err(error) if error.kind == ErrorKind::Unreachable && calls < CALLS => calls += 1,
            other => return other,
        }
    }
}

/// How often a peer that does not answer a TCP connection is called: for [`antiphon_net::CONNECT_PATIENCE`] each time.
const CALLS: u32 = 3;
/// How long a connection may take: a lost Request or SYN is sent again after one second, and after two more.
const CONNECT: Duration = Duration::from_millis(3_500);
/// How long packets in flight are waited for: a second is more than any path here queues, TCP's longest time-outs
/// aside.
const DRAIN: Duration = Duration::from_secs(3);
/// A peer from which no packets come back is reported within two seconds; this is three times the slowest path's round
/// trip (satellite).
const ANSWER_PATIENCE: Duration = Duration::from_millis(1_800);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{SocketAddr, TcpStream};

    use antiphon_net::SocketOptions;
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::transport::TransportChoice;

    /// Ports of this machine from which a connection to `port` of 127.0.0.1 is being opened (proc(5)).
    fn calling(port: u16) -> Vec<String> {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let (remote, syn_sent) = (format!("0100007F:{port:04X}"), "02");
        let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row[2..4] == [remote.as_str(), syn_sent]).map(|row| row[1].to_string()).collect()
    }

    #[test]
    fn a_connection_whose_syns_are_lost_is_called_again() {
        // The kernel drops further calls to a listener whose queue of one is full.
        let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        full.listen(0).unwrap();
        let to = full.local_addr().unwrap().as_socket().unwrap();
        let _fills_it = TcpStream::connect(to).unwrap();
        let stack = TransportChoice::read("tcp").unwrap().stack(0, 1, crate::DEFAULT_LATENCY);
        let wire = WirePlan::new(stack, Target::Call(to), SocketOptions::default());
        let calls = std::thread::spawn(move || call(&RunPlan::new(wire, OsClock::new())).is_ok());
        // Until a second call is made.
        let mut seen = BTreeSet::new();
        while seen.len() < 2 {
            assert!(!calls.is_finished(), "given up after {seen:?}");
            seen.extend(calling(to.port()));
            std::thread::yield_now();
        }
        let _room_again = full.accept().unwrap();
        assert!(calls.join().unwrap());
    }
}
