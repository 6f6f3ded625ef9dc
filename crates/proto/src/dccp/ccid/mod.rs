//! Congestion control, one half-connection at a time: a sender of data at one end, a receiver at the other.
//!
//! CCID 2 (RFC 4341) counts packets as TCP counts segments; CCID 3 (RFC 4342, TFRC: RFC 5348) follows an equation.

mod guess;
pub mod loss;
mod three_receiver;
mod three_sender;
mod two;

use std::time::Duration;

use antiphon_core::Instant;

use super::logs::{Fate, ReceiveLog, SentLog};
use super::rtt::Rtt;
use super::seq::Seq48;
use super::wire::OptionWriter;
use crate::rtt::RtoSettings;

pub(crate) use three_receiver::ReceiverThree;
pub(crate) use three_sender::SenderThree;
pub(crate) use two::{ReceiverTwo, SLACK, SenderTwo};

/// Contents of an acknowledgement that congestion control uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback<'a> {
    /// The acknowledgement number.
    pub ack: Seq48,
    /// Ack Vectors, in order.
    pub vectors: &'a [&'a [u8]],
    /// How long the peer kept the acknowledged packet; zero if it does not tell.
    pub elapsed: Duration,
    /// 1/p, and bytes per second: CCID 3's.
    pub loss_event_rate: Option<u32>,
    /// See above.
    pub receive_rate: Option<u32>,
    /// Packets whose data the peer dropped for lack of room.
    pub overrun: u32,
    /// The peer cannot take more at present (RFC 4340 §11.6).
    pub slow: bool,
}

/// The sending half.
#[derive(Debug)]
pub(crate) enum Sender {
    Two(SenderTwo),
    Three(SenderThree),
}

impl Sender {
    /// The sender of `ccid`, whose first packet will be `first`.
    /// `rto`: CCID 2's time-outs, if they are not ours.
    pub fn new(ccid: u64, now: Instant, first: Seq48, rtt: &Rtt, rto: Option<RtoSettings>) -> Self {
        match ccid {
            3 => Sender::Three(SenderThree::new(now, rtt.srtt())),
            _ => Sender::Two(SenderTwo::new(first, rto)),
        }
    }

    /// Whether `len` bytes may be sent. Also called when there is more to send than permitted.
    pub fn may_send(&mut self, now: Instant, len: usize) -> bool {
        match self {
            Sender::Two(two) => two.may_send(len),
            Sender::Three(three) => three.may_send(now, len),
        }
    }

    /// The CCVal of the next packet.
    pub fn ccval(&mut self, now: Instant) -> u8 {
        match self {
            Sender::Two(_) => 0,
            Sender::Three(three) => three.ccval(now),
        }
    }

    /// Data of `len` bytes were sent.
    pub fn on_sent(&mut self, now: Instant, len: usize, rtt: &Rtt) {
        match self {
            Sender::Two(two) => two.on_sent(now, rtt),
            Sender::Three(three) => three.on_sent(now, len),
        }
    }

    /// An acknowledgement was received; returns whether there was congestion.
    pub fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        log: &mut SentLog,
        rtt: &mut Rtt,
    ) -> bool {
        match self {
            Sender::Two(two) => two.on_feedback(now, feedback, log, rtt),
            Sender::Three(three) => three.on_feedback(now, feedback, log, rtt),
        }
    }

    /// Returns whether a time-out was due.
    pub fn handle_timeout(&mut self, now: Instant, log: &mut SentLog) -> bool {
        match self {
            Sender::Two(two) => two.handle_timeout(now, log),
            Sender::Three(three) => {
                let waits = three.waits_for_report();
                let expired = three.handle_timeout(now);
                if expired && waits {
                    log.settle(log.next(), Fate::Lost);
                }
                expired
            }
        }
    }

    /// When it must be called, besides [`Self::next_departure`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Sender::Two(two) => two.poll_timeout(),
            Sender::Three(three) => three.poll_timeout(),
        }
    }

    /// When the next packet may be sent, if a rate limits it.
    pub fn next_departure(&self) -> Option<Instant> {
        match self {
            Sender::Two(_) => None,
            Sender::Three(three) => three.next_departure(),
        }
    }

    /// Data packets after which one must acknowledge the peer's acknowledgements (RFC 4341 §6.2: once a window).
    pub fn ack_of_acks_after(&self) -> u32 {
        match self {
            Sender::Two(two) => two.cwnd().max(16),
            Sender::Three(_) => u32::MAX,
        }
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
#[derive(Debug)]
pub(crate) enum Receiver {
    Two(ReceiverTwo),
    Three(Box<ReceiverThree>),
}

impl Receiver {
    /// The receiver of `ccid`; `before`: the number before the first that may be data.
    pub fn new(ccid: u64, before: Seq48, rtt: &Rtt) -> Self {
        match ccid {
            3 => Receiver::Three(Box::new(ReceiverThree::new(before, rtt.estimate()))),
            _ => Receiver::Two(ReceiverTwo::default()),
        }
    }

    /// A packet arrived, for the first time.
    pub fn on_packet(&mut self, incoming: &Incoming, ack_ratio: u64, rtt: &Rtt) {
        match self {
            Receiver::Two(two) => two.on_packet(incoming, ack_ratio),
            Receiver::Three(three) => three.on_packet(incoming, rtt.srtt()),
        }
    }

    /// Whether an acknowledgement must be sent now.
    pub fn is_due(&self, now: Instant) -> bool {
        match self {
            Receiver::Two(two) => two.is_due(now),
            Receiver::Three(three) => three.is_due(),
        }
    }

    /// Whether an acknowledgement should be added to outgoing data.
    pub fn is_wanted(&self) -> bool {
        match self {
            Receiver::Two(two) => two.is_wanted(),
            Receiver::Three(three) => three.is_due(),
        }
    }

    /// When an acknowledgement must be sent.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Receiver::Two(two) => two.poll_timeout(),
            Receiver::Three(_) => None,
        }
    }

    /// Writes an acknowledgement's options. Nothing is settled yet: the packet may turn out too long.
    pub fn write(&self, now: Instant, log: &ReceiveLog, options: &mut OptionWriter) {
        match self {
            Receiver::Two(two) => two.write(now, log, options),
            Receiver::Three(three) => three.write(now, options),
        }
    }

    /// The options of [`Self::write`] were sent.
    pub fn on_ack_sent(&mut self) {
        match self {
            Receiver::Two(two) => two.on_ack_sent(),
            Receiver::Three(three) => three.on_ack_sent(),
        }
    }

    /// Whether acknowledgements carry Ack Vectors.
    pub fn has_vectors(&self) -> bool {
        matches!(self, Receiver::Two(_))
    }
}
