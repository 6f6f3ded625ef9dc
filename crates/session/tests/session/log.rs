//! A packet log filled by an observer, as in a comparison.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use antiphon_core::{Instant, MediaTime, Outcome};
use antiphon_measure::{Fate, PacketArrival, PacketLog, PacketLogConfig};
use antiphon_media::packet::PacketConfig;
use antiphon_media::playout::Inserted;
use antiphon_session::{ArrivalTable, Arrived, Observer, Seen, Sent, Session};

/// The log of a comparison; the observer of its session holds it, too.
#[derive(Clone)]
pub struct Log(Rc<RefCell<Logged>>);

struct Logged {
    log: PacketLog,
    table: Option<ArrivalTable>,
    frames: u64,
    /// Messages made so far, and the sequence number of the next.
    made: u64,
    next_sequence: u16,
}

impl Log {
    /// Of a stream of such packets, with so many rows; `table` is the one of the far end.
    pub fn new(packet: &PacketConfig, rows: usize, table: Option<ArrivalTable>) -> Self {
        let (frames, format) = (u64::from(packet.block_frames), packet.format);
        let config = PacketLogConfig {
            capacity: rows,
            clock_rate: format.rate(),
            packet: MediaTime::new(frames, format.rate()).duration(),
            packet_bytes: (frames as usize * format.channels() * packet.sample.bytes()) as u32,
        };
        let log = PacketLog::new(config);
        Log(Rc::new(RefCell::new(Logged { log, table, frames, made: 0, next_sequence: 0 })))
    }

    /// The log.
    pub fn get(&self) -> Ref<'_, PacketLog> {
        Ref::map(self.0.borrow(), |logged| &logged.log)
    }

    /// The session has finished: what did not come is lost, and what was concealed is counted.
    pub fn finish(&self, session: &Session) {
        let mut logged = self.0.borrow_mut();
        (1..=logged.made.min(SETTLED)).for_each(|back| logged.settle(back));
        logged.log.finish();
        let playout = session.receive_track().and_then(|track| track.playout());
        let concealed = playout.map_or(0, |playout| playout.concealed_frames);
        let frames = logged.frames;
        logged.log.on_concealed(concealed.div_ceil(frames));
    }
}

impl Observer for Log {
    fn on(&mut self, now: Instant, seen: &Seen) {
        let mut logged = self.0.borrow_mut();
        match seen {
            Seen::Sent(sent) => logged.on_sent(now, sent),
            Seen::Arrived(arrived) => logged.on_arrived(arrived),
            Seen::Outcome { number, outcome: Outcome::Expired { .. } } => {
                logged.log.on_fate(*number, Fate::Expired);
            }
            Seen::Outcome { .. } | Seen::Began { .. } | Seen::Broken { .. } => {}
        }
    }
}

impl Logged {
    fn on_sent(&mut self, now: Instant, sent: &Sent) {
        (self.made, self.next_sequence) = (sent.number + 1, sent.info.sequence.wrapping_add(1));
        if sent.number >= SETTLED {
            self.settle(SETTLED + 1);
        }
        self.table.iter().for_each(|table| table.clear(sent.info.sequence));
        match sent.result {
            Ok(()) => self.log.on_sent(sent.number, now),
            Err(_) => self.log.on_refused(sent.number, now),
        }
        self.log.on_size(sent.number, sent.len);
    }

    /// Takes from the table that the message sent `back` messages ago arrived there, even if it never came back.
    fn settle(&mut self, back: u64) {
        let (number, sequence) = (self.made - back, self.next_sequence.wrapping_sub(back as u16));
        let there = self.table.as_ref().and_then(|table| table.arrival(sequence));
        if let (Some(there), Some(sent)) = (there, self.log.sent_at(number))
            && there >= sent
        {
            self.log.on_reached(number, there.since(sent));
        }
    }

    fn on_arrived(&mut self, arrived: &Arrived) {
        // The latest one with this number.
        let back = u64::from(self.next_sequence.wrapping_sub(1).wrapping_sub(arrived.sequence));
        let Some(number) = self.made.checked_sub(back + 1) else { return };
        let there = self.table.as_ref().and_then(|table| table.arrival(arrived.sequence));
        let one_way = there.and_then(|there| {
            let sent = self.log.sent_at(number)?;
            (there >= sent).then(|| there.since(sent))
        });
        let rtt = self.log.on_received(PacketArrival {
            seq: number,
            at: arrived.at,
            timestamp: arrived.timestamp,
            len: arrived.payload as u32,
            one_way,
            repaired: arrived.repaired,
        });
        let late = Some(Inserted::Early) == arrived.inserted
            || matches!(arrived.inserted, Some(Inserted::Late { .. } | Inserted::Discarded));
        // It came, but too late to be heard. Copies do not change its fate.
        if late && rtt.is_some() {
            self.log.on_fate(number, Fate::Late);
        }
    }
}

/// After so many later messages, the arrival of a message there is known: 5 s of 1.3 ms blocks, half of what the log
/// remembers.
const SETTLED: u64 = 4_096;
