//! The calling side of one transport: line, endpoint and station on one media thread.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::Endpoint;
use antiphon_measure::FrameLog;
use antiphon_media::packet::PacketConfig;
use antiphon_media::{ChannelGroups, SampleFormat, Sink, Source, StreamFormat};
use antiphon_net::{DriveOptions, Line, OsClock, Stop, Tap, Target, become_media_thread, drive};
use antiphon_proto::{Beneath, Role, Transport};
use antiphon_session::{CallConfig, CallStation, LiveCall, SenderConfig, StreamFraming};

use crate::embedded::Place;
use crate::transport::{EndpointPlan, max_packet, open_line};
use crate::{CompareOptions, Error};

/// All that a near end needs; made on the main thread, used on its own.
pub(crate) struct NearPlan {
    pub place: Place,
    pub source: Box<dyn Source>,
    pub sink: Box<dyn Sink>,
    pub format: StreamFormat,
    pub sample: SampleFormat,
    pub log_frames: usize,
    pub live: Arc<LiveCall>,
    pub tap: Option<Tap>,
    pub options: CompareOptions,
    pub clock: OsClock,
}

/// An opened near end, ready to begin.
pub(crate) struct NearEnd {
    line: Box<dyn Line>,
    station: CallStation,
    clock: OsClock,
    /// Around each frame.
    header_bytes: u32,
    /// Of them, those beneath the transport's own.
    headers_beneath: u64,
    /// Settings that a far end elsewhere may have to be told.
    settings: Option<String>,
    wait: antiphon_net::WaitStyle,
    latency: Duration,
}

/// What a near end measured.
pub(crate) struct NearResult {
    pub log: FrameLog,
    pub wire_bytes: u64,
    pub media_bytes: u64,
    pub cpu: Duration,
    pub duration: Duration,
    pub latency: Duration,
    /// Around each frame: the transport's, and those beneath it.
    pub header_bytes: u32,
    /// Of this transport: what it says of itself.
    pub facts: Vec<String>,
    /// Of the run: scheduling obtained, options refused.
    pub notes: Vec<String>,
}

impl NearEnd {
    /// Opens everything in its namespace and tells that it is ready (by sending, or by ending in error).
    pub fn open(plan: NearPlan, ready: &mpsc::Sender<()>) -> Result<Self, Error> {
        let NearPlan { place, source, sink, format, sample, log_frames, live, tap, options, clock } = plan;
        if let Some(namespace) = &place.namespace {
            namespace.enter().map_err(|error| Error::failed(error.to_string()))?;
        }
        let transport = place.entrant.transport;
        let socket = place.entrant.socket(&options.socket);
        let over_ip = place.entrant.over_ip;
        let mut opened = open_line(transport, over_ip, Target::Call(place.target), &socket)?;
        if let Some(tap) = tap {
            opened.line.set_tap(tap);
        }
        let endpoint = EndpointPlan {
            transport,
            role: Role::Caller,
            query: place.entrant.query_at(place.target.port()),
            seed: options.seed,
            latency: options.latency,
            framing: StreamFraming::Rtp,
        }
        .open(clock.now(), opened.max_datagram)?;
        let header_bytes = header_bytes(transport, over_ip.is_some(), &*endpoint);
        let max_packet = max_packet(opened.max_datagram, &*endpoint);
        let packet = PacketConfig { max_packet, ..PacketConfig::new(format, sample, options.block_frames) };
        let config = CallConfig {
            sender: SenderConfig {
                packet,
                groups: ChannelGroups::whole(format.channels()),
                patience: options.expire.then_some(options.latency),
                epoch: clock.epoch(),
                seed: options.seed,
            },
            latency: options.latency,
            conceal: options.conceal,
            board: place.board.clone(),
            log_frames,
            live,
            answer_patience: ANSWER_PATIENCE,
            drain: DRAIN,
        };
        let station = CallStation::new(endpoint, source, sink, config)?;
        // The main thread waits for this, or for the end of this thread.
        let _main_thread_is_gone = ready.send(());
        Ok(NearEnd {
            line: opened.line,
            station,
            clock,
            header_bytes,
            headers_beneath: headers_beneath(transport.beneath, over_ip.is_some()),
            settings: place
                .board
                .is_none()
                .then_some(place.entrant.label)
                .filter(|label| label.contains('?')),
            wait: options.wait,
            latency: options.latency,
        })
    }

    /// Waits for the word, streams, and draws up what was measured.
    pub fn run(mut self, begin: &mpsc::Receiver<()>, stop: &Stop) -> Result<NearResult, Error> {
        let _main_thread_is_gone = begin.recv();
        let scheduling = become_media_thread();
        let report =
            drive(&mut *self.line, &mut self.station, &self.clock, stop, DriveOptions { wait: self.wait })?;
        let mut notes = vec![format!("media threads: {scheduling}")];
        notes.extend(self.line.notes().iter().cloned());
        if !self.station.is_connected() && !stop.is_asked() {
            return Err(Error::unreachable("no connection"));
        }
        let (sent, line) = (self.station.sent(), self.line.stats());
        let path = self.station.path_stats().counters;
        let (duration, heard) = (self.station.duration(), self.station.heard());
        if self.station.is_unanswered() {
            let how = if line.refused > 0 { "nobody listens there" } else { "nothing comes back" };
            let settings = self.settings.map(|label| {
                format!("; if its defaults differ, run there: antiphon reflect --transports '{label}'")
            });
            return Err(Error::unreachable(format!(
                "{how}: check the address and the firewall, and that 'antiphon reflect' is running there{}",
                settings.unwrap_or_default()
            )));
        }
        let mut facts = self.line.facts();
        if sent.stalls > 0 {
            facts.push(format!("the sending thread fell behind {} times", sent.stalls));
        }
        let (log, mut sink) = self.station.into_parts();
        if let Err(error) = sink.finish() {
            notes.push(format!("what was heard could not be kept: {error}"));
        } else if heard.overrun_frames > 0 {
            notes.push(format!(
                "{} sample frames heard were not kept: the disk is too slow",
                heard.overrun_frames
            ));
        }
        Ok(NearResult {
            log,
            wire_bytes: path.bytes_sent + path.datagrams_sent * self.headers_beneath,
            media_bytes: sent.media_bytes,
            cpu: report.cpu,
            duration,
            latency: self.latency,
            header_bytes: self.header_bytes,
            facts,
            notes,
        })
    }
}

/// Bytes of a packet's headers beneath the transport's: IPv4's, and UDP's or TCP's unless it runs `over_ip`.
fn headers_beneath(beneath: Beneath, over_ip: bool) -> u64 {
    match beneath {
        _ if over_ip => IP_HEADER,
        Beneath::Udp => UDP_HEADERS,
        Beneath::Tcp => TCP_HEADERS,
    }
}

/// Bytes around a frame that goes out in one packet: the transport's own and those beneath it.
pub(crate) fn header_bytes(transport: &Transport, over_ip: bool, endpoint: &dyn Endpoint) -> u32 {
    endpoint.profile().frame_overhead as u32 + headers_beneath(transport.beneath, over_ip) as u32
}

/// How long stragglers are waited for: a second is more than any path here queues, TCP's worst time-outs aside.
const DRAIN: Duration = Duration::from_secs(3);
/// A peer that nothing comes back from is told of within two seconds; three times the slowest path's round trip
/// (satellite).
const ANSWER_PATIENCE: Duration = Duration::from_millis(1_800);
/// IPv4 header (RFC 791), in bytes.
const IP_HEADER: u64 = 20;
/// UDP (RFC 768) and IPv4 (RFC 791) headers, in bytes.
const UDP_HEADERS: u64 = 8 + IP_HEADER;
/// TCP (RFC 9293) header with the time-stamp option (RFC 7323), and IPv4, in bytes.
const TCP_HEADERS: u64 = 20 + 12 + 20;
