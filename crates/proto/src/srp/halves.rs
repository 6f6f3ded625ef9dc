//! The two halves of an association, whichever mode they speak: for drivers of either.

use std::time::Duration;

use antiphon_core::{Instant, PathStats, Tag};

use super::estimate::Smoothed;
use super::improved::{Admission, Message};
use super::settings::Mode;
use super::wire::extended::Extended;
use super::wire::{Packet, WireError};
use super::{Deliver, Streams};

/// A packet of either mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnyPacket<'a> {
    /// As in the report.
    AsPublished(Packet<'a>),
    /// Of the improved mode.
    Improved(Extended<'a>),
}

impl<'a> AnyPacket<'a> {
    /// Reads a datagram of this mode.
    pub fn parse(mode: Mode, bytes: &'a [u8]) -> Result<Self, WireError> {
        match mode {
            Mode::AsPublished => Packet::parse(bytes).map(AnyPacket::AsPublished),
            Mode::Improved => Extended::parse(bytes).map(AnyPacket::Improved),
        }
    }
}

/// The half that receives messages: [`Client`](super::Client) or [`Receiver`](super::Receiver).
pub trait ReceivingHalf: Send {
    /// Processes a packet that arrived at `received_at`. One of the other mode, or for a sender, is ignored.
    fn handle_packet(
        &mut self,
        now: Instant,
        received_at: Instant,
        packet: &AnyPacket<'_>,
        deliver: &mut Deliver<'_>,
    );

    /// Handles the time-out of [`Self::poll_timeout`].
    fn handle_timeout(&mut self, now: Instant, deliver: &mut Deliver<'_>);

    /// When to call [`Self::handle_timeout`] and then [`Self::poll_transmit`] next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Writes the next packet for the sender: a request or a probe.
    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize>;

    /// Reserves memory for `messages` of `typical` bytes that are missing, or wait for one that is.
    fn reserve(&mut self, messages: usize, typical: usize);

    /// Requests these streams from now on, repeated until the sender has confirmed it; as published there is only one.
    fn want(&mut self, _streams: Streams) {}

    /// Messages or packets received twice.
    fn duplicates(&self) -> u64;

    /// Smoothed round trip and its deviation, once measured.
    fn measured_round_trip(&self) -> Option<Smoothed>;

    /// The shortest round trip measured, where that is kept.
    fn least_round_trip(&self) -> Option<Duration> {
        None
    }
}

/// The half that sends messages: [`Server`](super::Server), or [`Sender`](super::Sender) and the one that gives nothing up.
pub trait SendingHalf: Send {
    /// Processes a packet; whether congestion began or ended. One of the other mode, or for a receiver, is ignored.
    fn handle_packet(&mut self, now: Instant, packet: &AnyPacket<'_>) -> bool;

    /// The longest message, in bytes.
    fn max_message(&self) -> usize;

    /// Packets that a message of `len` bytes takes.
    fn parts(&self, len: usize) -> usize;

    /// Whether to send a message: call it before the first part; a sender may ignore the result.
    fn admit(&mut self, _now: Instant, _message: &Message<'_>) -> Admission {
        Admission::Send
    }

    /// Writes part `index` of a message and keeps it; returns the packet's length. Send parts in order, with no other
    /// message between them.
    ///
    /// `None` if there is no such part, the message is too long, or `buf` too short.
    fn send_part(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        index: usize,
        buf: &mut [u8],
    ) -> Option<usize>;

    /// Writes the next packet due to the receiver: an echo or a retransmission.
    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize>;

    /// Reserves memory for `packets` of `typical` bytes that are kept.
    fn reserve(&mut self, packets: usize, typical: usize);

    /// Packets sent more than once.
    fn retransmitted(&self) -> u64;

    /// Limit in bytes a second, where the receiver's reports set one.
    fn limit(&self) -> Option<f64> {
        None
    }

    /// When to call [`Self::handle_timeout`]; only where nothing is given up, as what follows.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Handles the time-out of [`Self::poll_timeout`].
    fn handle_timeout(&mut self, _now: Instant) {}

    /// A message that was confirmed since the last call.
    fn take_confirmed(&mut self) -> Option<Tag> {
        None
    }

    /// Gives everything up; returns a message that was not confirmed.
    fn abandon(&mut self) -> Option<Tag> {
        None
    }

    /// Whether everything is confirmed.
    fn is_empty(&self) -> bool {
        true
    }

    /// When something was last confirmed.
    fn progress(&self) -> Option<Instant> {
        None
    }

    /// Round trip and window, once measured.
    fn path(&self) -> Option<PathStats> {
        None
    }
}
