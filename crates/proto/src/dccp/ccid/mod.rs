//! Congestion control, one half-connection at a time: a sender of data at one end, a receiver at the other.
//!
//! CCID 2 (RFC 4341) counts packets as TCP counts segments; CCID 3 (RFC 4342, TFRC: RFC 5348) follows an equation.

mod guess;
pub mod loss;
mod three_receiver;
mod three_sender;
mod two;

use std::fmt::Debug;

use antiphon_core::{Instant, PathStats};

use super::logs::{ReceiveLog, SentLog};
use super::read::Seen;
use super::rtt::Rtt;
use super::seq::Seq48;
use super::wire::OptionWriter;
use crate::rtt::RtoSettings;

use three_receiver::ReceiverThree;
use three_sender::SenderThree;
pub(crate) use two::SLACK;
use two::{ReceiverTwo, SenderTwo};

/// The sending half. What only one of the two controls has, the other leaves at the default.
pub(crate) trait Sender: Debug {
    /// Whether `len` bytes may be sent. Also called when there is more to send than permitted.
    fn may_send(&mut self, now: Instant, len: usize) -> bool;

    /// The CCVal of the next packet.
    fn ccval(&mut self, _now: Instant) -> u8 {
        0
    }

    /// Data of `len` bytes were sent.
    fn on_sent(&mut self, now: Instant, len: usize, rtt: &Rtt);

    /// An acknowledgement of `ack` was received, in a packet that said what was `seen`; returns whether there was
    /// congestion.
    fn on_feedback(
        &mut self,
        now: Instant,
        ack: Seq48,
        seen: &Seen<'_>,
        log: &mut SentLog,
        rtt: &mut Rtt,
    ) -> bool;

    /// Returns whether a time-out was due.
    fn handle_timeout(&mut self, now: Instant, log: &mut SentLog) -> bool;

    /// When it must be called, besides [`Self::next_departure`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// When the next packet may be sent, if a rate limits it.
    fn next_departure(&self) -> Option<Instant> {
        None
    }

    /// Data packets for which one acknowledgement is asked, if it asks for so many; `now`: the ratio so far.
    fn ack_ratio(&self, _now: u64) -> Option<u64> {
        None
    }

    /// Data packets after which one must acknowledge the peer's acknowledgements (RFC 4341 §6.2: once a window).
    fn ack_of_acks_after(&self) -> u32 {
        u32::MAX
    }

    /// Adds its figures to `stats`; `packet`: bytes of a packet of full size.
    fn figures(&self, packet: usize, stats: PathStats) -> PathStats;
}

/// The sender of `ccid`, whose first packet will be `first`.
/// `rto`: CCID 2's time-outs, if they are not ours.
pub(crate) fn sender(
    ccid: u64,
    now: Instant,
    first: Seq48,
    rtt: &Rtt,
    rto: Option<RtoSettings>,
) -> Box<dyn Sender> {
    match ccid {
        3 => Box::new(SenderThree::new(now, rtt.srtt())),
        _ => Box::new(SenderTwo::new(first, rto)),
    }
}

/// A packet from the peer, for the receiving half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub seq: Seq48,
    pub ccval: u8,
    /// Bytes of data; `None`: a packet without data.
    pub data: Option<usize>,
    /// Its NDP Count option.
    pub ndp: Option<u64>,
    pub beyond_gap: bool,
    /// Its number is the greatest so far: the one that acknowledgements name.
    pub newest: bool,
    pub marked: bool,
    pub received_at: Instant,
}

/// The receiving half.
pub(crate) trait Receiver: Debug {
    /// A packet arrived, for the first time.
    fn on_packet(&mut self, incoming: &Incoming, ack_ratio: u64, rtt: &Rtt);

    /// Whether an acknowledgement must be sent now.
    fn is_due(&self, now: Instant) -> bool;

    /// Whether an acknowledgement should be added to outgoing data.
    fn is_wanted(&self) -> bool;

    /// When an acknowledgement must be sent.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Writes an acknowledgement's options. Nothing is settled yet: the packet may turn out too long.
    fn write(&self, now: Instant, log: &ReceiveLog, options: &mut OptionWriter);

    /// The options of [`Self::write`] were sent.
    fn on_ack_sent(&mut self);

    /// Whether acknowledgements carry Ack Vectors.
    fn has_vectors(&self) -> bool {
        false
    }
}

/// The receiver of `ccid`; `before`: the number before the first that may be data.
pub(crate) fn receiver(ccid: u64, before: Seq48, rtt: &Rtt) -> Box<dyn Receiver> {
    match ccid {
        3 => Box::new(ReceiverThree::new(before, rtt.estimate())),
        _ => Box::new(ReceiverTwo::default()),
    }
}
