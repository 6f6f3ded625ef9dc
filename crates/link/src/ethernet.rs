//! Ethernet: the size of a frame on the wire, a port that sends frames, and a store-and-forward switch.
//!
//! A crossover cable is two [`Port`]s, one at each end; its own delay, 5 ns a metre, is not modelled.

use std::time::Duration;

use antiphon_core::{BitRate, Instant, Rng, sooner};

use crate::delay::Delay;
use crate::packet::{Counters, Discard, Packet};
use crate::queue::Queue;
use crate::spec::QueueLimit;

/// 10BASE-T.
pub const ETHERNET_10: BitRate = BitRate(10_000_000);
/// 100BASE-TX.
pub const ETHERNET_100: BitRate = BitRate(100_000_000);
/// 1000BASE-T.
pub const ETHERNET_1000: BitRate = BitRate(1_000_000_000);

/// Preamble and start of frame (IEEE 802.3 §3.1.1).
const PREAMBLE: usize = 8;
/// Two addresses and the type.
const HEADER: usize = 14;
/// The check sequence.
const FCS: usize = 4;
/// A shorter frame is padded to this, header and FCS included (IEEE 802.3 §4.4.2, minFrameSize 512 bits).
const MIN_FRAME: usize = 64;
/// Gap after each frame (IEEE 802.3 §4.4.2, interPacketGap 96 bits).
const GAP: usize = 12;

/// Bytes on the wire of a frame with an IP packet of `ip_len` bytes, preamble included, gap not.
pub const fn frame_len(ip_len: usize) -> usize {
    let frame = ip_len.saturating_add(HEADER + FCS);
    let frame = if frame < MIN_FRAME { MIN_FRAME } else { frame };
    frame.saturating_add(PREAMBLE)
}

/// An IP packet in its frame.
struct Frame<P>(P);

impl<P: Packet> Packet for Frame<P> {
    fn wire_len(&self) -> usize {
        frame_len(self.0.wire_len())
    }

    fn priority(&self) -> Option<u16> {
        self.0.priority()
    }

    fn duplicate(&self) -> Self {
        Frame(self.0.duplicate())
    }

    fn flip_bit(&mut self, bit: u64) {
        self.0.flip_bit(bit);
    }

    fn discard(self, why: Discard) {
        self.0.discard(why);
    }
}

/// The sending side of a full-duplex interface: a queue, and frames one after the other with a gap between.
///
/// It takes IP packets ([`Packet::wire_len`] counts from the IP header on) and outputs them when the last bit of the
/// frame is sent. Its counters count frames with their preambles.
pub struct Port<P> {
    queue: Queue<Frame<P>>,
}

impl<P: Packet> Port<P> {
    /// A port of that rate. The limit counts waiting frames, without the one being sent.
    pub fn new(rate: BitRate, limit: QueueLimit, seed: u64) -> Self {
        Port { queue: Queue::new(Some(rate), limit, None, seed).with_gap(GAP) }
    }

    /// Takes a packet at `now`, which never goes back; returns it if the queue is full.
    pub fn offer(&mut self, now: Instant, packet: P) -> Option<P> {
        self.queue.offer(now, Frame(packet)).map(|Frame(packet)| packet)
    }

    /// Whether there is room for a packet of `ip_len` bytes at `now`: for callers that can wait. If it returns true,
    /// [`Self::offer`] takes the packet.
    pub fn has_room(&mut self, now: Instant, ip_len: usize) -> bool {
        self.queue.has_room(now, frame_len(ip_len))
    }

    /// The next packet whose frame has been sent by `now`, with the instant.
    pub fn poll_at(&mut self, now: Instant) -> Option<(Instant, P)> {
        self.queue.poll(now).map(|(at, Frame(packet))| (at, packet))
    }

    /// When to poll next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    /// Counters, in frames.
    pub fn counters(&self) -> Counters {
        self.queue.counters()
    }
}

/// A store-and-forward switch: a frame that has arrived completely is queued at the given output port.
///
/// Ports are full duplex and the switching fabric is fast enough, so frames wait only for their output port. The caller
/// maps addresses to ports, as a switch does that has learnt them all.
pub struct Switch<P> {
    ports: Vec<OutputPort<P>>,
    misdirected: u64,
}

struct OutputPort<P> {
    /// Lookup and forwarding: the fixed latency.
    fabric: Delay<P>,
    port: Port<P>,
    counters: Counters,
}

impl<P: Packet> Switch<P> {
    /// A switch with a port for each rate and a queue of that limit at each. `latency`: from a frame's last bit coming
    /// in to its first bit going out of an idle port (5 to 20 µs in usual switches).
    pub fn new(rates: &[BitRate], limit: QueueLimit, latency: Duration, seed: u64) -> Self {
        let port = |(number, rate): (usize, &BitRate)| OutputPort {
            fabric: Delay::new(latency),
            port: Port::new(*rate, limit, Rng::fork(seed, &format!("port {number}")).next_u64()),
            counters: Counters::default(),
        };
        Switch { ports: rates.iter().enumerate().map(port).collect(), misdirected: 0 }
    }

    /// Takes a packet whose frame has arrived completely at `now`, which never goes back, for output port `to`.
    ///
    /// Returns it if there is no such port (counted only by [`Self::misdirected`]) or the switch holds too many. A full
    /// output queue drops it later, when it arrives there.
    pub fn offer(&mut self, now: Instant, to: usize, packet: P) -> Option<P> {
        let Some(output) = self.ports.get_mut(to) else {
            self.misdirected += 1;
            return Some(packet);
        };
        output.advance(now);
        output.counters.count_offered(packet.wire_len());
        let refused = output.fabric.offer(now, packet, Duration::ZERO);
        output.counters.overflowed += u64::from(refused.is_some());
        refused
    }

    /// The next packet that a port has sent by `now`: when, which port, which packet. At one instant, the lower port
    /// first.
    pub fn poll_at(&mut self, now: Instant) -> Option<(Instant, usize, P)> {
        // A port may be due and output nothing: the packet crossed the fabric and waits at the port, or was dropped.
        while let Some((due, port)) = self.first().filter(|(due, _)| *due <= now) {
            let output = &mut self.ports[port];
            output.advance(due);
            if let Some((at, packet)) = output.port.poll_at(due) {
                output.counters.count_delivered(packet.wire_len());
                return Some((at, port, packet));
            }
        }
        None
    }

    /// When to poll next. That poll may return nothing.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.first().map(|(due, _)| due)
    }

    /// What was queued at a port and sent by it, in packets and their own bytes; `None` if there is no such port.
    pub fn counters(&self, port: usize) -> Option<Counters> {
        let output = self.ports.get(port)?;
        Some(Counters {
            queued: output.port.counters().queued,
            in_flight: output.fabric.counters().in_flight,
            dropped_early: output.port.counters().dropped_early,
            ..output.counters
        })
    }

    /// Packets for a port that does not exist.
    pub fn misdirected(&self) -> u64 {
        self.misdirected
    }

    fn first(&self) -> Option<(Instant, usize)> {
        let due = |output: &OutputPort<P>| sooner(output.fabric.poll_timeout(), output.port.poll_timeout());
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(port, output)| Some((due(output)?, port))).min()
    }
}

impl<P: Packet> OutputPort<P> {
    /// Moves packets that have crossed the fabric by `now` to the port.
    fn advance(&mut self, now: Instant) {
        while let Some((at, packet)) = self.fabric.poll(now) {
            if let Some(refused) = self.port.offer(at, packet) {
                self.counters.overflowed += 1;
                refused.discard(Discard::Overflowed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
