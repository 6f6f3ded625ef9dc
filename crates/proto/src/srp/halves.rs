//! The sending and the receiving half of an association in either mode.

use std::time::Duration;

use antiphon_core::{Instant, Role};

use super::estimate::Smoothed;
use super::improved::{Admission, Message, Receiver, ReceiverConfig, Sender, SenderConfig};
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
    sender: Sender,
    linger: Duration,
    has_sent: bool,
}

impl Halves {
    pub fn new(settings: &Settings, role: Role, max_datagram: usize, seed: u64, now: Instant) -> Self {
        let (loss, latency) = (settings.desired_loss, settings.desired_latency);
        let decide = settings.decide.algorithm();
        if settings.mode == Mode::AsPublished {
            let marked = role == Role::Listener;
            // A side that only sends has nothing to measure: the first message received starts the probes.
            let config =
                ClientConfig { probe_at_start: false, time_mark: marked, ..ClientConfig::new(loss, latency) };
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
        Halves::Improved(Box::new(Improved {
            receiver: Receiver::new(
                ReceiverConfig { streams: settings.streams, ..ReceiverConfig::new(loss, latency) },
                decide,
            ),
            sender: Sender::new(SenderConfig { max_datagram, keep, latency, seed }),
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
                halves.sender.reserve(messages, typical);
            }
        }
    }

    pub fn max_message(&self) -> usize {
        match self {
            Halves::AsPublished(halves) => halves.max_message,
            Halves::Improved(halves) => halves.sender.max_message(),
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

    /// How long to stay open for retransmissions of the last messages.
    pub fn linger(&self) -> Duration {
        match self {
            Halves::Improved(halves) if halves.has_sent => halves.linger,
            Halves::Improved(_) | Halves::AsPublished(_) => Duration::ZERO,
        }
    }

    /// Returns whether congestion began or ended.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        received_at: Instant,
        bytes: &[u8],
        deliver: &mut Deliver<'_>,
    ) -> Result<bool, WireError> {
        match self {
            Halves::AsPublished(halves) => {
                halves.handle(now, received_at, &Packet::parse(bytes)?, deliver);
                Ok(false)
            }
            Halves::Improved(halves) => Ok(match Extended::parse(bytes)? {
                Extended::Nack(nack) => {
                    halves.sender.on_nack(now, &nack);
                    false
                }
                Extended::Probe { epoch, time, report, wanted } => {
                    halves.sender.on_probe(now, epoch, time, report, wanted)
                }
                packet => {
                    halves.receiver.handle(now, received_at, &packet, deliver);
                    false
                }
            }),
        }
    }

    pub fn handle_timeout(&mut self, now: Instant, deliver: &mut Deliver<'_>) {
        match self {
            Halves::AsPublished(halves) => halves.client.handle_timeout(now, deliver),
            Halves::Improved(halves) => halves.receiver.handle_timeout(now, deliver),
        }
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Halves::AsPublished(halves) if halves.has_heard => halves.client.poll_timeout(),
            Halves::AsPublished(_) => None,
            Halves::Improved(halves) => halves.receiver.poll_timeout(),
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
                request.or_else(|| halves.sender.poll_transmit(now, buf))
            }
        }
    }

    /// Packets that a message takes.
    pub fn parts(&self, len: usize) -> usize {
        match self {
            Halves::AsPublished(_) => 1,
            Halves::Improved(halves) => halves.sender.parts(len),
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
                halves.sender.send_part(now, &message_of(message), index, buf)
            }
        }
    }

    /// Whether to send a message.
    pub fn admit(&mut self, now: Instant, message: &Queued) -> Admission {
        match self {
            Halves::AsPublished(_) => Admission::Send,
            Halves::Improved(halves) => halves.sender.admit(now, &message_of(message)),
        }
    }

    /// The limit that the peer's reports set, in bytes a second.
    pub fn limit(&self) -> Option<f64> {
        match self {
            Halves::AsPublished(_) => None,
            Halves::Improved(halves) => halves.sender.limit(),
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
            Halves::Improved(halves) => halves.sender.counts().retransmitted,
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
