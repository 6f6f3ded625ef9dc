//! One DCCP connection as an [`Endpoint`]: its state, and the interface to the driver.

use std::time::Duration;

use antiphon_core::{
    Capabilities, CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId,
    PathStats, Profile, Received, Rng, Role, Secret, SendError, Transmit, Wire,
};

use super::alive::Alive;
use super::ccid::{self, Receiver, Sender};
use super::features::{self, Features, Location};
use super::logs::{ReceiveLog, SentLog};
use super::moves::Whereabouts;
use super::rtt::Rtt;
use super::seq::Seq48;
use super::sequence::Sequence;
use super::settings::Settings;
use super::timers::Timers;
use super::validator::DccpValidator;
use super::wire::checksum::Checksum;
use super::wire::{DATA_HEADER, Header};
use crate::inbox::Inbox;
use crate::mtu::Mtu;
use crate::queue::{Room, SendQueue};
use crate::seeds::dynamic_port;
use crate::tally::{Datagram, Tally};

/// One connection, client or server.
///
/// A client calls as soon as it is opened; a server waits for one Request. Outcomes are `Released` or `Expired`:
/// acknowledgements are used for congestion control, and do not tell the fate of single messages under CCID 3.
pub struct DccpEndpoint {
    pub(super) settings: Settings,
    pub(super) role: Role,
    pub(super) checksum: Checksum,
    pub(super) max_datagram: usize,
    pub(super) state: State,
    pub(super) queue: SendQueue,
    pub(super) inbox: Inbox,
    pub(super) tally: Tally,
    /// DCCP ports, ours and theirs.
    pub(super) ports: (u16, u16),
    pub(super) sequence: Sequence,
    pub(super) features: Features,
    pub(super) rtt: Rtt,
    /// State that only an open connection needs; unknown sources that never answer do not cause it.
    pub(super) flow: Option<Flow>,
    pub(super) due: Due,
    pub(super) timers: Timers,
    pub(super) alive: Alive,
    /// Handles a server's callers before there is a connection.
    pub(super) validator: DccpValidator,
    /// The validator's reply to the latest of them.
    pub(super) reply: Vec<u8>,
    /// The cookie that let the client in; at the client the options with the server's cookie, to be returned until the
    /// server has been heard.
    pub(super) cookie: Vec<u8>,
    /// Packets without data since the last one with.
    pub(super) ndp: u64,
    /// A time stamp to be echoed, and when it was received.
    pub(super) echo: Option<(u32, Instant)>,
    pub(super) congestion_changed: bool,
    pub(super) whereabouts: Whereabouts,
    /// The path of the packet just written, if that is not where the caller is.
    pub(super) aside: Option<PathId>,
    /// The latest instant passed to this endpoint.
    pub(super) clock: Instant,
}

/// Both half-connections.
#[derive(Debug)]
pub(super) struct Flow {
    pub sent: SentLog,
    pub received: ReceiveLog,
    pub sender: Box<dyn Sender>,
    pub receiver: Box<dyn Receiver>,
    /// How large packets may be.
    pub mtu: Mtu,
    /// Data packets since the last packet that acknowledged.
    pub since_ack: u32,
    /// A packet whose data was dropped for lack of room or was damaged, and its Drop Code.
    pub dropped: Option<(Seq48, u8)>,
}

/// State of the connection (RFC 4340 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Includes RFC 4340's RESPOND: the validator keeps no state for a caller that it answered.
    Listen,
    Request,
    PartOpen,
    Open,
    /// The server has asked for a Close.
    CloseReq,
    /// This end has sent a Close.
    Closing,
    /// Only a Reset remains to be sent, if one is due.
    Finishing(CloseReason),
    Closed,
}

/// What must be sent besides data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    /// Request, CloseReq or Close, as the state says.
    pub step: bool,
    pub ack: bool,
    pub sync: Option<Seq48>,
    pub sync_ack: Option<Seq48>,
    /// The connection's last packet.
    pub reset: Option<(super::wire::ResetCode, [u8; 3])>,
    /// An answer outside the connection.
    pub answer: Option<Header>,
}

impl DccpEndpoint {
    /// Opens a connection.
    ///
    /// `checksum`: what carries the packets; `max_datagram`: the largest that the path carries whole, in bytes of what
    /// stands above UDP or IP.
    pub fn new(
        settings: Settings,
        role: Role,
        checksum: Checksum,
        max_datagram: usize,
        secret: Secret,
        now: Instant,
    ) -> Self {
        Self::opened(
            DccpValidator::new(settings, checksum, &secret),
            role,
            max_datagram,
            secret.endpoint_seed(0),
            now,
        )
    }

    /// Opens one whose cookies are those of `validator`, and whose numbers are drawn from `seed`.
    pub(super) fn opened(
        validator: DccpValidator,
        role: Role,
        max_datagram: usize,
        seed: u64,
        now: Instant,
    ) -> Self {
        let (settings, checksum) = (validator.settings, validator.checksum);
        let mut rng = Rng::fork(seed, "dccp");
        let iss = Seq48::random(&mut rng);
        let (state, ports) = match role {
            Role::Listener => (State::Listen, (settings.port, 0)),
            Role::Caller => (State::Request, (dynamic_port(&mut rng), settings.port)),
        };
        let mut features = Features::wanted(&settings, role);
        features.start(iss, None);
        let mut endpoint = DccpEndpoint {
            settings,
            role,
            checksum,
            max_datagram,
            state,
            queue: SendQueue::empty().shorter(settings.queue.unwrap_or(usize::MAX)),
            inbox: Inbox::empty(),
            tally: Tally::default(),
            ports,
            sequence: Sequence::new(iss),
            features,
            rtt: Rtt::default(),
            flow: None,
            due: Due { step: role == Role::Caller, ..Due::default() },
            timers: Timers::default(),
            alive: Alive::default(),
            validator,
            reply: Vec::new(),
            cookie: Vec::new(),
            ndp: 0,
            echo: None,
            congestion_changed: false,
            whereabouts: Whereabouts::default(),
            aside: None,
            clock: now,
        };
        if role == Role::Caller {
            endpoint.timers.start_calling(now, endpoint.settings.request_timeout);
        }
        endpoint
    }

    /// The handshake is complete: congestion control begins. `before`: the number before the first that may be data.
    pub(super) fn begin_flow(&mut self, now: Instant, before: Seq48) {
        self.features.freeze(features::CCID);
        let first = self.sequence.gss.next();
        let (ours, theirs) = (
            self.features.value(Location::Local, features::CCID),
            self.features.value(Location::Remote, features::CCID),
        );
        // The requirements of each congestion control on the other end (RFC 4341 §4, RFC 4342 §4 and §8.4). Linux
        // settles them with the first two packets, and ignores later Changes.
        let acknowledges = if ours == 3 { features::SEND_LOSS_EVENT_RATE } else { features::SEND_ACK_VECTOR };
        for needed in [Some(acknowledges), (theirs == 3).then_some(features::SEND_NDP_COUNT)] {
            let needed = needed.filter(|feature| self.features.value(Location::Remote, *feature) == 0);
            needed.into_iter().for_each(|feature| self.features.ask(Location::Remote, feature));
        }
        self.queue.make_room(Room::FULL, self.max_datagram);
        self.inbox.make_room(Room::FULL, self.max_datagram);
        self.flow = Some(Flow {
            sent: SentLog::new(first),
            received: ReceiveLog::new(before),
            sender: ccid::sender(ours, now, first, &self.rtt, self.settings.rto),
            receiver: ccid::receiver(theirs, before, &self.rtt),
            mtu: Mtu::sparing(self.max_datagram, now),
            since_ack: 0,
            dropped: None,
        });
    }

    /// The peer has ended or broken the connection; messages that wait for the application may be fetched until the
    /// driver's next call.
    pub(super) fn end(&mut self, now: Instant, reason: CloseReason) {
        self.queue.finish_all(Outcome::Aborted);
        let patience = if self.due.reset.is_some() { RESET_PATIENCE } else { Duration::ZERO };
        self.timers.finish_at = Some(now + patience);
        self.state = State::Finishing(reason);
    }

    /// Sends the final Reset.
    pub(super) fn finish(&mut self) {
        if let State::Finishing(reason) = self.state {
            self.queue.finish_all(Outcome::Aborted);
            self.inbox.clear();
            (self.congestion_changed, self.flow, self.due) = (false, None, Due::default());
            self.reply = Vec::new();
            self.state = State::Closed;
            self.retire_ids();
            self.queue.report(Event::Closed(reason));
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::PartOpen | State::Open)
    }

    fn close_gracefully(&mut self, now: Instant) {
        match self.state {
            State::Listen => self.end(now, CloseReason::Local),
            State::Request | State::PartOpen | State::Open => {
                self.timers.flush_since.get_or_insert(now);
                self.close_when_flushed(now);
            }
            State::CloseReq | State::Closing | State::Finishing(_) | State::Closed => {}
        }
    }

    fn abort(&mut self, now: Instant) {
        match self.state {
            State::Finishing(_) | State::Closed => return,
            State::Listen | State::Request => {}
            _ => self.due.reset = Some((super::wire::ResetCode::ABORTED, [0; 3])),
        }
        self.end(now, CloseReason::Local);
        // Nothing waits for it: the Reset goes out if the driver asks before the time-out, which is now.
        self.timers.finish_at = Some(now);
    }
}

impl Endpoint for DccpEndpoint {
    fn profile(&self) -> Profile {
        Profile {
            wire: Wire::Datagram,
            max_message: self.message_size(),
            max_receive: MAX_PAYLOAD,
            message_overhead: DATA_HEADER,
            bare: false,
            acknowledged: false,
            ordered: false,
            retransmits: false,
            priorities: false,
            reliable: false,
            streams: 1,
            calls_with_first_message: false,
            paces_itself: false,
            capabilities: Capabilities {
                message_oriented: true,
                connection_oriented: true,
                full_duplex: true,
                unordered: true,
                congestion_control: true,
                path_mtu_discovery: true,
                // Inside UDP, UDP's stands for its own (RFC 6773 §3.5).
                checksum: true,
                ..Capabilities::default()
            },
        }
    }

    fn send(&mut self, now: Instant, message: Message<'_>) -> Result<(), SendError> {
        self.clock = self.clock.max(now);
        let takes = matches!(self.state, State::Listen | State::Request | State::PartOpen | State::Open);
        if !takes || self.timers.flush_since.is_some() {
            return Err(SendError::Closed);
        }
        self.queue.push(message, self.message_size())
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        self.clock = self.clock.max(now);
        match mode {
            CloseMode::Graceful => self.close_gracefully(now),
            CloseMode::Abort => self.abort(now),
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.clock = self.clock.max(now);
        if self.state == State::Closed {
            return;
        }
        let datagram = match input {
            // The packet that the validator received, with the cookie that its sender could not return.
            Input::Accepted { path, block } => {
                Some(self.tally.on_datagram(Datagram { path, bytes: block, received_at: now }))
            }
            other => self.tally.take(other, &mut self.queue),
        };
        if let Some(datagram) = datagram {
            self.handle_datagram(now, &datagram);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
        self.run_timers(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.clock = self.clock.max(now);
        let len = self.next_packet(now, buf)?;
        let path = self.aside.take().unwrap_or(self.whereabouts.path);
        Some(Transmit { path, ..self.tally.transmit(len) })
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.congestion_changed) {
            return Some(Event::Congestion(self.stats()));
        }
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_timeout()
    }

    fn reserve(&mut self, messages: usize) {
        self.queue.make_room(Room::of(messages), self.max_datagram);
        self.inbox.make_room(Room::of(messages), self.max_datagram);
    }

    fn stats(&self) -> PathStats {
        let stats = PathStats {
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min(),
            counters: self.tally.counters(&self.queue, &self.inbox),
            ..PathStats::default()
        };
        match &self.flow {
            Some(flow) => flow.sender.figures(self.packet_size(), stats),
            None => stats,
        }
    }

    fn path_stats(&self, _path: PathId) -> Option<PathStats> {
        None
    }
}

/// The largest DCCP packet over UDP and IPv4, less its header.
const MAX_PAYLOAD: usize = antiphon_core::wire::MAX_UDP_PAYLOAD - DATA_HEADER;
/// How long the last Reset may wait for a driver to fetch it.
const RESET_PATIENCE: Duration = Duration::from_secs(1);
