//! Packets received and sent, by sequence number: the memory behind Ack Vectors and congestion control.

use antiphon_core::Instant;

use super::seq::Seq48;

/// Length of both logs in numbers; also the sequence window that this end announces, so that whatever the peer may
/// validly acknowledge is still known. Enough for 400 packets per round trip at the five-fold margin of RFC 4340
/// §7.5.2.
pub const REACH: usize = 2048;

/// Which of the peer's packets arrived (RFC 4340 §11.4 and appendix A).
#[derive(Debug)]
pub struct ReceiveLog {
    states: Box<[u8]>,
    greatest: Seq48,
    /// The peer knows about everything before it.
    floor: Seq48,
    /// Own packets that carried Ack Vectors, and up to what.
    reports: [(Seq48, Seq48); REPORTS],
    next_report: usize,
}

/// Kind of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    /// For the first time.
    New {
        /// Numbers between it and the greatest before it are missing.
        beyond_gap: bool,
        /// It is the greatest now.
        newest: bool,
    },
    /// A duplicate, or too late to tell.
    Again,
}

impl ReceiveLog {
    /// A log that begins with packet `first`, which has arrived.
    pub fn new(first: Seq48) -> Self {
        let mut log = ReceiveLog {
            states: vec![MISSING; REACH].into(),
            greatest: first,
            floor: first,
            reports: [(first, first); REPORTS],
            next_report: 0,
        };
        log.states[slot(first)] = RECEIVED;
        log
    }

    /// Packet `seq` arrived, with a congestion mark or without.
    pub fn on_packet(&mut self, seq: Seq48, marked: bool) -> Arrived {
        let state = if marked { MARKED } else { RECEIVED };
        let ahead = seq.distance(self.greatest);
        if ahead > 0 {
            for n in 1..ahead.min(REACH as i64) {
                self.states[slot(seq.plus(-n))] = MISSING;
            }
            self.states[slot(seq)] = state;
            self.greatest = seq;
            let oldest = seq.plus(1 - REACH as i64);
            self.floor = self.floor.later(oldest);
            return Arrived::New { beyond_gap: ahead > 1, newest: true };
        }
        if -ahead >= REACH as i64 || self.states[slot(seq)] != MISSING {
            return Arrived::Again;
        }
        self.states[slot(seq)] = state;
        Arrived::New { beyond_gap: false, newest: false }
    }

    /// Writes the Ack Vector into `buf`, newest packet first; returns its length in bytes. The oldest packets are
    /// omitted if there is no room.
    pub fn write_vector(&self, buf: &mut [u8]) -> usize {
        let (mut len, mut seq) = (0, self.greatest);
        let mut left = self.greatest.distance(self.floor).clamp(0, REACH as i64 - 1) + 1;
        while left > 0 && len < buf.len() {
            let state = self.states[slot(seq)];
            let mut run = 1;
            while run < left.min(64) && self.states[slot(seq.plus(-run))] == state {
                run += 1;
            }
            buf[len] = (state << 6) | (run - 1) as u8;
            len += 1;
            left -= run;
            seq = seq.plus(-run);
        }
        len
    }

    /// An Ack Vector went out in packet `seq` of this end.
    pub fn on_reported(&mut self, seq: Seq48) {
        self.reports[self.next_report] = (seq, self.greatest);
        self.next_report = (self.next_report + 1) % REPORTS;
    }

    /// The peer has packet `seq` of this end: its report need not be repeated.
    pub fn on_acknowledged(&mut self, seq: Seq48) {
        if let Some((_, upto)) = self.reports.iter().find(|(report, _)| *report == seq) {
            // A slightly late packet is still reported in the next vectors.
            self.floor = self.floor.later(upto.plus(-LATE));
        }
    }
}

/// Packets sent, as far as they may still be acknowledged.
#[derive(Debug)]
pub struct SentLog {
    entries: Box<[Sent]>,
    /// The number that the next packet will have.
    pub next: Seq48,
    /// The oldest number still known.
    pub first: Seq48,
    /// [`SentLog::next_settled`] has returned everything before this number.
    told: Seq48,
}

/// A packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// Bytes of the packet, header and all.
    pub len: u16,
    /// Whether it carried a message.
    pub data: bool,
    /// Its CCVal.
    pub ccval: u8,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fate {
    /// Nothing yet.
    #[default]
    Open,
    /// It arrived.
    Acked,
    /// Counts as lost.
    Lost,
}

impl SentLog {
    /// A log that begins with packet `first`, not sent yet.
    pub fn new(first: Seq48) -> Self {
        SentLog { entries: vec![Sent::default(); REACH].into(), next: first, first, told: first }
    }

    /// Packet `seq` is sent; every number is logged, one after the other.
    pub fn push(&mut self, seq: Seq48, sent: Sent) {
        assert!(seq == self.next, "sequence numbers are used one after the other");
        self.entries[slot(seq)] = sent;
        self.next = seq.next();
        self.first = self.first.later(self.next.plus(-(REACH as i64)));
    }

    /// What was sent as `seq`, if that is known.
    pub fn entry_mut(&mut self, seq: Seq48) -> Option<&mut Sent> {
        let known = !seq.is_before(self.first) && seq.is_before(self.next);
        known.then(|| &mut self.entries[slot(seq)])
    }

    /// Packets up to `upto` will not be reported any more: those that are open had this `fate`.
    pub fn settle(&mut self, upto: Seq48, fate: Fate) {
        let mut seq = self.told.later(self.first);
        while seq.is_before(self.next) && !upto.is_before(seq) {
            let sent = &mut self.entries[slot(seq)];
            if sent.fate == Fate::Open {
                sent.fate = fate;
            }
            seq = seq.next();
        }
    }

    /// The next packet whose fate is known, each once and in the order sent; none after one whose fate is still open.
    pub fn next_settled(&mut self) -> Option<Sent> {
        self.told = self.told.later(self.first);
        let sent = *self.entry_mut(self.told)?;
        if sent.fate == Fate::Open {
            return None;
        }
        self.told = self.told.next();
        Some(sent)
    }
}

fn slot(seq: Seq48) -> usize {
    seq.value() as usize % REACH
}

/// The runs of Ack Vectors, newest first: each state, and how many packets it holds of.
pub fn runs(vectors: &[&[u8]]) -> impl Iterator<Item = (u8, i64)> {
    vectors.iter().flat_map(|vector| vector.iter()).map(|byte| (byte >> 6, i64::from(byte & 0x3f) + 1))
}

/// Ack Vector states (RFC 4340 §11.4).
pub const RECEIVED: u8 = 0;
/// Received with a congestion mark.
pub const MARKED: u8 = 1;
/// Not received yet.
pub const MISSING: u8 = 3;

/// The most acknowledgements in flight that are remembered: at 400 packets per round trip and Ack Ratio 2 there would
/// be 200; the oldest are replaced.
const REPORTS: usize = 64;
/// Packets that may be late after they were reported missing.
const LATE: i64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_the_rfc_comes_out() {
        // RFC 4340 §11.4's example: 100 received, 99 not, 98..95 received, 94 marked, 93..88 received.
        let mut log = ReceiveLog::new(Seq48::new(88));
        for seq in (89..=98).chain([100]) {
            log.on_packet(Seq48::new(seq), seq == 94);
        }
        let mut buf = [0; 16];
        let len = log.write_vector(&mut buf);
        assert_eq!(buf[..len], [0x00, 0xc0, 0x03, 0x40, 0x05]);
        let told: Vec<(u8, i64)> = runs(&[&buf[..2], &buf[2..len]]).collect();
        assert_eq!(told, [(0, 1), (3, 1), (0, 4), (1, 1), (0, 6)]);
    }

    #[test]
    fn duplicates_are_known_and_acknowledged_numbers_forgotten() {
        let mut log = ReceiveLog::new(Seq48::new((1 << 48) - 40));
        let first = Seq48::new((1 << 48) - 40);
        for n in 1..100 {
            assert_eq!(log.on_packet(first.plus(n), false), Arrived::New { beyond_gap: false, newest: true });
        }
        assert_eq!(log.on_packet(first.plus(50), false), Arrived::Again);
        let mut buf = [0; 64];
        assert_eq!(log.write_vector(&mut buf), 2, "100 packets, 64 to a byte");
        log.on_reported(Seq48::new(7));
        log.on_acknowledged(Seq48::new(6));
        assert_eq!(log.write_vector(&mut buf), 2);
        log.on_acknowledged(Seq48::new(7));
        assert_eq!((log.write_vector(&mut buf), buf[0]), (1, LATE as u8));
        assert_eq!(
            log.on_packet(first.plus(REACH as i64 * 3), false),
            Arrived::New { beyond_gap: true, newest: true }
        );
        assert_eq!(log.on_packet(first.plus(99), false), Arrived::Again, "beyond reach");
        assert_eq!(log.write_vector(&mut buf), 1 + 2047usize.div_ceil(64), "one received, the rest missing");
    }

    #[test]
    fn the_sent_log_knows_its_reach_and_no_more() {
        let start = Seq48::new((1 << 48) - 10);
        let mut log = SentLog::new(start);
        for n in 0..REACH as i64 + 5 {
            log.push(start.plus(n), Sent { at: Instant::from_nanos(n as u64), ..Sent::default() });
        }
        assert_eq!(log.first, start.plus(5));
        assert_eq!(log.entry_mut(start.plus(4)), None);
        assert_eq!(log.entry_mut(start.plus(5)).map(|sent| sent.at), Some(Instant::from_nanos(5)));
        assert_eq!(log.entry_mut(log.next), None, "not sent yet");
    }

    #[test]
    fn fates_are_returned_once_and_in_order() {
        let start = Seq48::new((1 << 48) - 3);
        let mut log = SentLog::new(start);
        (0..6).for_each(|len| log.push(log.next, Sent { len, ..Sent::default() }));
        let told = |log: &mut SentLog| -> Vec<(u16, Fate)> {
            std::iter::from_fn(|| log.next_settled()).map(|sent| (sent.len, sent.fate)).collect()
        };
        log.entry_mut(start.plus(1)).expect("known").fate = Fate::Acked;
        assert_eq!(told(&mut log), [], "the first is open");
        log.settle(start.plus(2), Fate::Lost);
        assert_eq!(told(&mut log), [(0, Fate::Lost), (1, Fate::Acked), (2, Fate::Lost)]);
        (0..REACH as u64).for_each(|_| log.push(log.next, Sent::default()));
        log.settle(log.next, Fate::Acked);
        assert_eq!(told(&mut log).len(), REACH, "beyond reach nothing is known");
        assert_eq!(log.next_settled(), None);
    }
}
