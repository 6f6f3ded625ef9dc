//! `srp://` as an endpoint: a sending and a receiving half of one mode, for messages in both directions.

use std::time::Duration;

use antiphon_core::{
    BitRate, Capabilities, Counters, Instant, Outcome, PathId, PathStats, Profile, Received, Role, StreamId,
    sooner,
};

use super::Delivery;
use super::halves::{AnyPacket, ReceivingHalf, SendingHalf};
use super::improved::{Admission, CompleteSender, Message, Receiver, ReceiverConfig, Sender, SenderConfig};
use super::published::{Client, ClientConfig, MARK, Server};
use super::settings::{Decision, Mode, Settings};
use super::streams::{LAST_STREAM, Streams};
use super::wire::extended::Extended;
use super::wire::{HEADER, MAX_PACKET, Packet};
use crate::association::{Association, Common, Protocol};
use crate::inbox::Inbox;
use crate::queue::{Queued, Room};
use crate::tally::Datagram;

/// One association of SRP, in either mode.
///
/// It needs no handshake, neither to begin nor to end: after a graceful close the improved mode stays for as long as a
/// message can be played, to retransmit the last ones. An association without data costs nothing: it sends nothing and
/// requests no time-out.
///
/// With `reliability=full` a message has arrived when it is told as acknowledged, and a close waits for that.
///
/// In the improved mode a message may expire before its deadline: if the peer does not want its stream, or if the
/// peer's reports show that the path can't carry it in time. Streams above [`LAST_STREAM`] share that one.
pub type SrpEndpoint = Association<Srp>;

/// What an association consists of.
pub struct Srp {
    common: Common,
    mode: Mode,
    receiver: Box<dyn ReceivingHalf>,
    sender: Box<dyn SendingHalf>,
    /// The message being sent, and its next part.
    current: Option<(Queued, usize)>,
    max_message: usize,
    /// Whether lost messages are requested again.
    retransmits: bool,
    /// Until then, a message without a deadline waits for capacity of the path.
    waits_until: Option<Instant>,
    full: bool,
    /// How long to stay open for retransmissions of the last messages, if any were sent.
    linger: Duration,
    /// Whether times sent have [`MARK`].
    marked: bool,
    has_sent: bool,
    has_heard: bool,
}

impl SrpEndpoint {
    /// Opens an association.
    ///
    /// `max_datagram`: largest UDP payload in bytes that the path carries unfragmented.
    pub fn new(settings: &Settings, role: Role, max_datagram: usize, seed: u64, now: Instant) -> Self {
        let (loss, latency) = (settings.desired_loss, settings.desired_latency);
        let Settings { mode, streams, full, keep_loss, keep_latency, .. } = *settings;
        let decide = settings.decide.algorithm();
        let marked = role == Role::Listener;
        let receiver: Box<dyn ReceivingHalf> = match mode {
            Mode::AsPublished => {
                // A side that only sends has nothing to measure: the first message received starts the probes.
                let (probe_at_start, time_mark) = (false, marked);
                let config = ClientConfig::new(loss, latency);
                let config = ClientConfig { probe_at_start, time_mark, keep_loss, keep_latency, ..config };
                Box::new(Client::new(config, decide, now))
            }
            Mode::Improved => {
                let config = ReceiverConfig { streams, full, ..ReceiverConfig::new(loss, latency) };
                Box::new(Receiver::new(config, decide))
            }
        };
        let keep = latency.saturating_mul(4).max(Duration::from_secs(1));
        let sender: Box<dyn SendingHalf> = match mode {
            Mode::AsPublished => Box::new(Server::new(KEPT_MESSAGES)),
            Mode::Improved if full => Box::new(CompleteSender::new(max_datagram, role == Role::Caller, seed)),
            Mode::Improved => Box::new(Sender::new(SenderConfig { max_datagram, keep, latency, seed })),
        };
        let max_message = match mode {
            Mode::AsPublished => max_datagram.min(MAX_PACKET).saturating_sub(HEADER).max(1),
            Mode::Improved => sender.max_message(),
        };
        Association(Srp {
            common: Common::new(Room::LEAN, max_datagram.min(ETHERNET)),
            mode,
            receiver,
            sender,
            current: None,
            max_message,
            retransmits: settings.decide != Decision::Never,
            waits_until: None,
            full,
            linger: if mode == Mode::Improved && !full { latency.min(MAX_LINGER) } else { Duration::ZERO },
            marked,
            has_sent: false,
            has_heard: false,
        })
    }

    /// Requests these streams from the peer; has no effect as published.
    pub fn want(&mut self, streams: Streams) {
        self.0.receiver.want(streams);
    }
}

impl Srp {
    /// Whether a packet is for the receiving half.
    ///
    /// The peer's probes and our own returned ones look the same. The report has a client on one side and a server on
    /// the other; with both on both sides, the mark in the time distinguishes them. No packet is returned endlessly: a
    /// peer that only receives returns none, and the server's limit applies as well.
    fn is_for_receiver(&mut self, packet: &AnyPacket<'_>) -> bool {
        match packet {
            AnyPacket::AsPublished(Packet::Data { .. } | Packet::Answer { .. }) => {
                self.has_heard = true;
                true
            }
            AnyPacket::AsPublished(Packet::Probe { time }) => {
                let ours = (time & MARK != 0) == self.marked;
                !self.has_sent || (self.has_heard && ours)
            }
            AnyPacket::Improved(Extended::Data(_) | Extended::Answer(_) | Extended::Echo { .. }) => true,
            AnyPacket::AsPublished(Packet::Nack { .. })
            | AnyPacket::Improved(Extended::Nack(_) | Extended::Probe { .. }) => false,
        }
    }

    /// Whether the message of a packet would find no room: where nothing is given up it is left out, and comes again.
    fn has_no_room_for(&self, packet: &AnyPacket<'_>) -> bool {
        let (AnyPacket::Improved(Extended::Data(part) | Extended::Answer(part)), true) = (packet, self.full)
        else {
            return false;
        };
        part.data.len() * usize::from(part.count) > self.common.inbox.room()
    }

    fn tell_confirmed(&mut self) {
        while let Some(tag) = self.sender.take_confirmed() {
            self.common.queue.settle(tag, Outcome::Acked);
        }
    }

    /// Writes the next part of the current message, or of the next message.
    fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.expire_current(now);
        if self.current.is_none() {
            self.current = self.next_message(now).map(|message| (message, 0));
        }
        let (message, index) = self.current.as_mut()?;
        let len = self.sender.send_part(now, &message_of(message), *index, buf);
        self.has_sent = true;
        *index += 1;
        let is_last = *index >= self.sender.parts(message.bytes.len());
        if (is_last || len.is_none())
            && let Some((message, _)) = self.current.take()
        {
            // A buffer shorter than `max_message` is the driver's mistake; the message is lost in either case.
            match len {
                Some(_) if self.full => self.common.queue.recycle(message.bytes),
                Some(_) => self.common.queue.finish(message, Outcome::Released),
                None => self.common.queue.finish(message, Outcome::Aborted),
            }
        }
        len
    }

    /// The next message that the peer wants and the path can carry; those before it expire.
    fn next_message(&mut self, now: Instant) -> Option<Queued> {
        self.waits_until = None;
        loop {
            let admission = self.sender.admit(now, &message_of(self.common.queue.peek(now)?));
            match admission {
                Admission::Send => return self.common.queue.pop(now),
                Admission::Drop => {
                    let message = self.common.queue.pop(now)?;
                    self.common.queue.finish(message, Outcome::Expired { maybe_received: false });
                }
                Admission::Wait(until) => {
                    self.waits_until = Some(until);
                    return None;
                }
                Admission::Hold => return None,
            }
        }
    }

    /// Drops the rest of a message whose deadline passed while it was being sent.
    fn expire_current(&mut self, now: Instant) {
        // Parts that were sent are kept for ever, and a message is of use as a whole only.
        let full = self.full;
        let is_late = |message: &Queued| !full && message.deadline.is_some_and(|deadline| now > deadline);
        if let Some((message, sent)) = self.current.take_if(|(message, _)| is_late(message)) {
            self.common.queue.finish(message, Outcome::Expired { maybe_received: sent > 0 });
        }
    }
}

impl Protocol for Srp {
    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn profile(&self) -> Profile {
        let is_improved = self.mode == Mode::Improved;
        // 64 parts of a peer's own datagram size, but no message is longer than this.
        let max_receive = if is_improved { usize::from(u16::MAX) } else { MAX_PACKET - HEADER };
        Profile {
            acknowledged: self.full,
            ordered: !is_improved,
            retransmits: self.retransmits,
            priorities: is_improved,
            // Otherwise a sender keeps messages only for a while, and the receiver decides which it requests.
            reliable: self.full,
            capabilities: Capabilities {
                unordered: is_improved,
                flow_control: self.full,
                // A receiver's reports slow a sender down.
                congestion_control: is_improved,
                fragmentation: is_improved,
                ..Capabilities::OF_UDP
            },
            ..Profile::of_datagrams(self.max_message, max_receive, HEADER)
        }
    }

    fn on_datagram(&mut self, now: Instant, datagram: &Datagram<'_>) {
        let Datagram { path, bytes, received_at } = *datagram;
        let Ok(packet) = AnyPacket::parse(self.mode, bytes) else {
            self.common.tally.on_malformed();
            return;
        };
        if !self.is_for_receiver(&packet) {
            self.common.congestion_changed |= self.sender.handle_packet(now, &packet);
        } else if !self.has_no_room_for(&packet) {
            let inbox = &mut self.common.inbox;
            let mut deliver = |delivery: Delivery<'_>| push(inbox, path, &delivery);
            self.receiver.handle_packet(now, received_at, &packet, &mut deliver);
        }
        self.tell_confirmed();
    }

    fn on_timeout(&mut self, now: Instant) {
        self.expire_current(now);
        self.waits_until = self.waits_until.filter(|until| *until > now);
        let inbox = &mut self.common.inbox;
        self.receiver.handle_timeout(now, &mut |delivery| push(inbox, PathId::default(), &delivery));
        self.sender.handle_timeout(now);
    }

    fn write(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let request = self.receiver.poll_transmit(now, buf);
        request.or_else(|| self.sender.poll_transmit(now, buf)).or_else(|| self.write_data(now, buf))
    }

    fn next_timeout(&self) -> Option<Instant> {
        let current = self.current.as_ref().filter(|_| !self.full).and_then(|(message, _)| message.deadline);
        let current = current.map(|deadline| Instant::from_nanos(deadline.as_nanos().saturating_add(1)));
        // As published, a side that has received nothing measures nothing.
        let receives = self.has_heard || self.mode == Mode::Improved;
        let receiver = self.receiver.poll_timeout().filter(|_| receives);
        sooner(sooner(current, self.waits_until), sooner(receiver, self.sender.poll_timeout()))
    }

    fn is_idle(&self) -> bool {
        self.current.is_none() && self.sender.is_empty()
    }

    fn progress(&self) -> Option<Instant> {
        self.sender.progress()
    }

    fn linger(&self) -> Duration {
        if self.has_sent { self.linger } else { Duration::ZERO }
    }

    fn abandon(&mut self) {
        self.tell_confirmed();
        while let Some(tag) = self.sender.abandon() {
            self.common.queue.settle(tag, Outcome::Aborted);
        }
        if let Some((message, _)) = self.current.take() {
            self.common.queue.finish(message, Outcome::Aborted);
        }
    }

    fn reserve(&mut self, messages: usize, typical: usize) {
        self.receiver.reserve(messages, typical);
        self.sender.reserve(messages, typical);
    }

    fn stats(&self) -> PathStats {
        let counters = Counters {
            retransmitted: self.sender.retransmitted(),
            duplicates: self.receiver.duplicates(),
            ..self.common.stats().counters
        };
        if let Some(path) = self.sender.path() {
            return PathStats { counters, ..path };
        }
        let round_trip = self.receiver.measured_round_trip();
        PathStats {
            srtt: round_trip.map(|smoothed| smoothed.mean()),
            rttvar: round_trip.map(|smoothed| smoothed.deviation()),
            min_rtt: self.receiver.least_round_trip(),
            pacing_rate: self.sender.limit().map(|bytes| BitRate((8.0 * bytes) as u64)),
            counters,
            ..PathStats::default()
        }
    }
}

fn push(inbox: &mut Inbox, path: PathId, delivery: &Delivery<'_>) {
    // A given-up message is simply missing: receivers of sound number messages themselves.
    if let Delivery::Message { bytes, received_at, repaired, stream, .. } = *delivery {
        let stream = StreamId(stream.into());
        inbox.push_received(bytes, Received { len: bytes.len(), path, stream, received_at, repaired });
    }
}

fn message_of(message: &Queued) -> Message<'_> {
    let Queued { tag, ref bytes, deadline, priority, stream } = *message;
    Message { bytes, priority, deadline, stream: stream.0.min(LAST_STREAM.into()) as u8, tag }
}

/// Memory reserved for a message: one Ethernet packet's. Longer ones grow a buffer once.
const ETHERNET: usize = 1472;
/// Messages that the published server keeps. *Reading*: the report gives no number; its client can hold back as many.
const KEPT_MESSAGES: usize = 256;
/// Longest wait for the last retransmissions.
const MAX_LINGER: Duration = Duration::from_secs(1);
