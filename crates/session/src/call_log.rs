//! The log of a stream that comes back: when each packet was sent, arrived at the far end, and returned.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime, Outcome};
use antiphon_measure::{Fate, PacketArrival, PacketLog, PacketLogConfig};
use antiphon_media::packet::Packetiser;
use antiphon_media::playout::Inserted;

use crate::arrivals::ArrivalTable;
use crate::observer::{Arrived, Observer, Seen, Sent};

/// Records what a session whose media comes back reports of its packets.
pub struct CallLog {
    log: PacketLog,
    packet_frames: u64,
    /// The far end's arrival table, if both ends share a clock.
    arrivals: Option<ArrivalTable>,
    /// Messages sent so far, refused ones included, and the number of the next one's packet.
    sent: u64,
    next_sequence: u16,
    round_trip: Option<Duration>,
}

/// Progress of a stream that comes back.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallProgress {
    /// Packets sent, refused ones included.
    pub sent: u64,
    /// Packets that came back.
    pub received: u64,
    /// Of them, late ones.
    pub late: u64,
    /// The last round trip.
    pub round_trip: Option<Duration>,
}

impl CallLog {
    /// A log of so many packets of a track with one channel group; `arrivals`: where the far end notes what came there, if
    /// it shares our clock.
    pub fn new(packetiser: &Packetiser, packets: usize, arrivals: Option<ArrivalTable>) -> Self {
        let config = packetiser.config();
        let frames = packetiser.packet_frames();
        let log = PacketLogConfig {
            capacity: packets,
            clock_rate: config.format.rate(),
            packet: MediaTime::new(frames as u64, config.format.rate()).duration(),
            packet_bytes: (u64::from(config.bandwidth()) * frames as u64
                / (8 * u64::from(config.format.rate()))) as u32,
        };
        let next_sequence = packetiser.next_sequence();
        let packet_frames = frames as u64;
        CallLog {
            log: PacketLog::new(log),
            packet_frames,
            arrivals,
            sent: 0,
            next_sequence,
            round_trip: None,
        }
    }

    fn on_sent(&mut self, now: Instant, sent: &Sent) {
        let sequence = sent.info.sequence;
        if let Some(arrivals) = &self.arrivals {
            if let Some(settled) = sent.number.checked_sub(SETTLED) {
                note_reached(&mut self.log, arrivals, settled, sequence.wrapping_sub(SETTLED as u16));
            }
            arrivals.clear(sequence);
        }
        match sent.result {
            Ok(()) => self.log.on_sent(sent.number, now),
            Err(_) => self.log.on_refused(sent.number, now),
        }
        self.log.on_size(sent.number, sent.len);
        (self.sent, self.next_sequence) = (sent.number + 1, sequence.wrapping_add(1));
    }

    fn on_arrived(&mut self, arrived: &Arrived) {
        // The latest packet with that number: fewer than 65 536 are in flight.
        let back = u64::from(self.next_sequence.wrapping_sub(1).wrapping_sub(arrived.sequence));
        let Some(seq) = self.sent.checked_sub(back + 1) else { return };
        let there = self.arrivals.as_ref().and_then(|arrivals| arrivals.arrival(arrived.sequence));
        let one_way = there.zip(self.log.sent_at(seq));
        let arrival = PacketArrival {
            seq,
            at: arrived.at,
            timestamp: arrived.timestamp,
            len: arrived.payload as u32,
            one_way: one_way.filter(|(there, sent)| there >= sent).map(|(there, sent)| there.since(sent)),
            repaired: arrived.repaired,
        };
        let round_trip = self.log.on_received(arrival);
        self.round_trip = round_trip.or(self.round_trip);
        let missed =
            matches!(arrived.inserted, Some(Inserted::Late { .. } | Inserted::Early | Inserted::Discarded));
        // It came, but too late to be heard. Copies of a packet do not change its fate.
        if missed && round_trip.is_some() {
            self.log.on_fate(seq, Fate::Late);
        }
    }

    /// The progress so far.
    pub fn progress(&self) -> CallProgress {
        let counts = self.log.counts();
        CallProgress {
            sent: counts.total(),
            received: counts.arrived(),
            late: counts.of(Fate::Late),
            round_trip: self.round_trip,
        }
    }

    /// What is known of the packets so far.
    pub fn log(&self) -> &PacketLog {
        &self.log
    }

    /// The same, taken out.
    pub fn into_log(self) -> PacketLog {
        self.log
    }

    /// Completes the log: nothing comes any more, and so many sample frames were concealed.
    pub fn finish(&mut self, concealed: u64) {
        if let Some(arrivals) = &self.arrivals {
            // Packets sent too recently to have been looked up.
            for back in 1..=self.sent.min(SETTLED) {
                let sequence = self.next_sequence.wrapping_sub(back as u16);
                note_reached(&mut self.log, arrivals, self.sent - back, sequence);
            }
        }
        self.log.finish();
        // The report counts holes in packets, like everything else there.
        self.log.on_concealed(concealed.div_ceil(self.packet_frames.max(1)));
    }
}

impl Observer for CallLog {
    fn on(&mut self, now: Instant, seen: &Seen) {
        match seen {
            Seen::Sent(sent) => self.on_sent(now, sent),
            Seen::Arrived(arrived) => self.on_arrived(arrived),
            Seen::Outcome { number, outcome: Outcome::Expired { .. } } => {
                self.log.on_fate(*number, Fate::Expired);
            }
            Seen::Began { .. }
            | Seen::Outcome { .. }
            | Seen::Broken { .. }
            | Seen::PictureSent(_)
            | Seen::PictureArrived { .. } => {}
        }
    }
}

/// Takes from the table that a packet arrived at the far end, even if it never came back.
fn note_reached(log: &mut PacketLog, arrivals: &ArrivalTable, number: u64, sequence: u16) {
    if let (Some(there), Some(sent)) = (arrivals.arrival(sequence), log.sent_at(number))
        && there >= sent
    {
        log.on_reached(number, there.since(sent));
    }
}

/// After so many later packets, the arrival of a packet at the far end is known: 5 s of 1.3 ms blocks, half of what the
/// log remembers.
const SETTLED: u64 = 4_096;
