//! The sending and the receiving half of an association in either mode.

use std::time::Duration;

use antiphon_core::{Instant, Role, sooner};

use super::estimate::Smoothed;
use super::improved::{Admission, CompleteSender, Message, Receiver, ReceiverConfig, Sender, SenderConfig};
use super::published::{Client, ClientConfig, MARK, Server};
use super::settings::{Mode, Settings};
use super::wire::extended::Extended;
use super::wire::{HEADER, MAX_PACKET, Packet, WireError};
use super::{Deliver, LAST_STREAM, Streams};
use crate::queue::Queued;

/// Both halves of an association.
pub(super) enum Halves {
    AsPublished(Box<Published>),
    Improved(Box<Improved>),
}

/// A client and a server of the report, both at one side.
pub(super) struct Published {
    client: Client,
    server: Server,
    max_message: usize,
    marked: bool,
    has_sent: bool,
    has_heard: bool,
}

pub(super) struct Improved {
    receiver: Receiver,
    sender: Sending,
    linger: Duration,
    has_sent: bool,
}

/// The sending half of the improved mode.
enum Sending {
    /// Keeps packets for a while.
    Usual(Box<Sender>),
    /// Keeps them until they are confirmed (`reliability=full`).
    Complete(Box<CompleteSender>),
}

impl Halves {
    pub fn new(settings: &Settings, role: Role, max_datagram: usize, seed: u64, now: Instant) -> Self {
        let (loss, latency) = (settings.desired_loss, settings.desired_latency);
        let decide = settings.decide.algorithm();
        if settings.mode == Mode::AsPublished {
            let marked = role == Role::Listener;
            // A side that only sends has nothing to measure: the first message received starts the probes.
            let config = ClientConfig {
                probe_at_start: false,
                time_mark: marked,
                keep_loss: settings.keep_loss,
                keep_latency: settings.keep_latency,
                ..ClientConfig::new(loss, latency)
            };
            return Halves::AsPublished(Box::new(Published {
                client: Client::new(config, decide, now),
                server: Server::new(KEPT_MESSAGES),
                max_message: max_datagram.min(MAX_PACKET).saturating_sub(HEADER).max(1),
                marked,
                has_sent: false,
                has_heard: false,
            }));
        }
        let keep = latency.saturating_mul(4).max(Duration::from_secs(1));
        let (streams, full) = (settings.streams, settings.full);
        let config = ReceiverConfig { streams, full, ..ReceiverConfig::new(loss, latency) };
        let sender = if full {
            let called = role == Role::Caller;
            Sending::Complete(Box::new(CompleteSender::new(max_datagram, called, seed)))
        } else {
            Sending::Usual(Box::new(Sender::new(SenderConfig { max_datagram, keep, latency, seed })))
        };
        Halves::Improved(Box::new(Improved {
            receiver: Receiver::new(config, decide),
            sender,
            linger: latency.min(MAX_LINGER),
            has_sent: false,
        }))
    }

    /// Reserves memory for `messages` of `typical` bytes that wait at once.
    pub fn reserve(&mut self, messages: usize, typical: usize) {
        match self {
            Halves::AsPublished(halves) => {
                halves.client.reserve(typical);
                halves.server.reserve(typical);
            }
            Halves::Improved(halves) => {
                halves.receiver.reserve(messages);
                match &mut halves.sender {
                    Sending::Usual(sender) => sender.reserve(messages, typical),
                    Sending::Complete(sender) => sender.reserve(messages, typical),
                }
            }
        }
    }

    pub fn max_message(&self) -> usize {
        match self {
            Halves::AsPublished(halves) => halves.max_message,
            Halves::Improved(halves) => match &halves.sender {
                Sending::Usual(sender) => sender.max_message(),
                Sending::Complete(sender) => sender.max_message(),
            },
        }
    }

    pub fn max_receive(&self) -> usize {
        match self {
            Halves::AsPublished(_) => MAX_PACKET - HEADER,
            // 64 parts of a peer's own datagram size, but no message is longer than this.
            Halves::Improved(_) => usize::from(u16::MAX),
        }
    }

    pub fn is_ordered(&self) -> bool {
        matches!(self, Halves::AsPublished(_))
    }

    pub fn is_improved(&self) -> bool {
        matches!(self, Halves::Improved(_))
    }

    /// The sender that gives nothing up.
    pub fn complete(&self) -> Option<&CompleteSender> {
        match self {
            Halves::Improved(halves) => match &halves.sender {
                Sending::Complete(sender) => Some(sender),
                Sending::Usual(_) => None,
            },
            Halves::AsPublished(_) => None,
        }
    }

    /// As [`Self::complete`].
    pub fn complete_mut(&mut self) -> Option<&mut CompleteSender> {
        match self {
            Halves::Improved(halves) => match &mut halves.sender {
                Sending::Complete(sender) => Some(sender),
                Sending::Usual(_) => None,
            },
            Halves::AsPublished(_) => None,
        }
    }

    /// How long to stay open for retransmissions of the last messages.
    pub fn linger(&self) -> Duration {
        match self {
            Halves::Improved(_) if self.complete().is_some() => Duration::ZERO,
            Halves::Improved(halves) if halves.has_sent => halves.linger,
            Halves::Improved(_) | Halves::AsPublished(_) => Duration::ZERO,
        }
    }

    /// Returns whether congestion began or ended. `room`: the longest message that can be delivered; where nothing is given up,
    /// a longer one is left out, and comes again.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        received_at: Instant,
        bytes: &[u8],
        room: usize,
        deliver: &mut Deliver<'_>,
    ) -> Result<bool, WireError> {
        match self {
            Halves::AsPublished(halves) => {
                halves.handle(now, received_at, &Packet::parse(bytes)?, deliver);
                Ok(false)
            }
            Halves::Improved(halves) => {
                halves.handle(now, received_at, &Extended::parse(bytes)?, room, deliver)
            }
        }
    }

    pub fn handle_timeout(&mut self, now: Instant, deliver: &mut Deliver<'_>) {
        match self {
            Halves::AsPublished(halves) => halves.client.handle_timeout(now, deliver),
            Halves::Improved(halves) => {
                halves.receiver.handle_timeout(now, deliver);
                if let Sending::Complete(sender) = &mut halves.sender {
                    sender.handle_timeout(now);
                }
            }
        }
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Halves::AsPublished(halves) if halves.has_heard => halves.client.poll_timeout(),
            Halves::AsPublished(_) => None,
            Halves::Improved(halves) => match &halves.sender {
                Sending::Usual(_) => halves.receiver.poll_timeout(),
                Sending::Complete(sender) => sooner(halves.receiver.poll_timeout(), sender.poll_timeout()),
            },
        }
    }

    /// Writes requests, probes, retransmissions and echoes.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        match self {
            Halves::AsPublished(halves) => {
                let request = halves.client.poll_transmit(now, buf);
                request.or_else(|| halves.server.poll_transmit(buf))
            }
            Halves::Improved(halves) => {
                let request = halves.receiver.poll_transmit(now, buf);
                request.or_else(|| match &mut halves.sender {
                    Sending::Usual(sender) => sender.poll_transmit(now, buf),
                    Sending::Complete(sender) => sender.poll_transmit(now, buf),
                })
            }
        }
    }

    /// Packets that a message takes.
    pub fn parts(&self, len: usize) -> usize {
        match self {
            Halves::AsPublished(_) => 1,
            Halves::Improved(halves) => match &halves.sender {
                Sending::Usual(sender) => sender.parts(len),
                Sending::Complete(sender) => sender.parts(len),
            },
        }
    }

    pub fn send_part(
        &mut self,
        now: Instant,
        message: &Queued,
        index: usize,
        buf: &mut [u8],
    ) -> Option<usize> {
        match self {
            Halves::AsPublished(halves) => {
                halves.has_sent = true;
                halves.server.send(now, &message.bytes, buf)
            }
            Halves::Improved(halves) => {
                halves.has_sent = true;
                match &mut halves.sender {
                    Sending::Usual(sender) => sender.send_part(now, &message_of(message), index, buf),
                    Sending::Complete(sender) => {
                        sender.send_part(now, &message_of(message), message.tag, index, buf)
                    }
                }
            }
        }
    }

    /// Whether to send a message.
    pub fn admit(&mut self, now: Instant, message: &Queued) -> Admission {
        match self {
            Halves::AsPublished(_) => Admission::Send,
            Halves::Improved(halves) => match &mut halves.sender {
                Sending::Usual(sender) => sender.admit(now, &message_of(message)),
                Sending::Complete(sender) if sender.admits(message.bytes.len()) => Admission::Send,
                Sending::Complete(_) => Admission::Hold,
            },
        }
    }

    /// The limit that the peer's reports set, in bytes a second.
    pub fn limit(&self) -> Option<f64> {
        match self {
            Halves::AsPublished(_) => None,
            Halves::Improved(halves) => match &halves.sender {
                Sending::Usual(sender) => sender.limit(),
                Sending::Complete(_) => None,
            },
        }
    }

    /// Requests these of the peer's streams; as published there is only one.
    pub fn want(&mut self, streams: Streams) {
        if let Halves::Improved(halves) = self {
            halves.receiver.want(streams);
        }
    }

    pub fn retransmitted(&self) -> u64 {
        match self {
            Halves::AsPublished(halves) => halves.server.counts().retransmitted,
            Halves::Improved(halves) => match &halves.sender {
                Sending::Usual(sender) => sender.counts().retransmitted,
                Sending::Complete(sender) => sender.retransmitted(),
            },
        }
    }

    pub fn duplicates(&self) -> u64 {
        match self {
            Halves::AsPublished(halves) => halves.client.counts().duplicates,
            Halves::Improved(halves) => halves.receiver.counts().duplicates,
        }
    }

    pub fn round_trip(&self) -> Option<Smoothed> {
        match self {
            Halves::AsPublished(halves) => halves.client.measured_round_trip(),
            Halves::Improved(halves) => halves.receiver.measured_round_trip(),
        }
    }

    pub fn least_round_trip(&self) -> Option<Duration> {
        match self {
            Halves::AsPublished(_) => None,
            Halves::Improved(halves) => halves.receiver.least_round_trip(),
        }
    }
}

impl Improved {
    fn handle(
        &mut self,
        now: Instant,
        received_at: Instant,
        packet: &Extended<'_>,
        room: usize,
        deliver: &mut Deliver<'_>,
    ) -> Result<bool, WireError> {
        match (packet, &mut self.sender) {
            (Extended::Nack(nack), Sending::Usual(sender)) => sender.on_nack(now, nack),
            (Extended::Nack(nack), Sending::Complete(sender)) => sender.on_nack(now, nack),
            (Extended::Probe { epoch, time, report, wanted }, Sending::Usual(sender)) => {
                return Ok(sender.on_probe(now, *epoch, *time, *report, *wanted));
            }
            (Extended::Probe { epoch, time, report, .. }, Sending::Complete(sender)) => {
                sender.on_probe(now, *epoch, *time, report);
            }
            (Extended::Data(part) | Extended::Answer(part), Sending::Complete(_))
                if part.data.len() * usize::from(part.count) > room => {}
            (Extended::Data(_) | Extended::Answer(_) | Extended::Echo { .. }, _) => {
                self.receiver.handle(now, received_at, packet, deliver);
            }
        }
        Ok(false)
    }
}

impl Published {
    /// The peer's probes and our own returned ones look the same. The report has a client on one side and a server on
    /// the other; with both on both sides, the mark in the time distinguishes them. No packet is returned endlessly: a
    /// peer that only receives returns none, and the server's limit applies as well.
    fn handle(&mut self, now: Instant, received_at: Instant, packet: &Packet<'_>, deliver: &mut Deliver<'_>) {
        match *packet {
            Packet::Data { .. } | Packet::Answer { .. } => {
                self.has_heard = true;
                self.client.handle(now, received_at, packet, deliver);
            }
            Packet::Nack { .. } => self.server.handle(now, packet),
            Packet::Probe { time } => {
                let ours = (time & MARK != 0) == self.marked;
                if !self.has_sent || (self.has_heard && ours) {
                    self.client.handle(now, received_at, packet, deliver);
                } else {
                    self.server.handle(now, packet);
                }
            }
        }
    }
}

fn message_of(message: &Queued) -> Message<'_> {
    let stream = message.stream.0.min(LAST_STREAM.into()) as u8;
    Message { bytes: &message.bytes, priority: message.priority, deadline: message.deadline, stream }
}

/// Messages that the published server keeps. *Reading*: the report gives no number; its client can hold back as many.
const KEPT_MESSAGES: usize = 256;
/// Longest wait for the last retransmissions.
const MAX_LINGER: Duration = Duration::from_secs(1);
