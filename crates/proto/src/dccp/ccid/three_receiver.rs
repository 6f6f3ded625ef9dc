//! CCID 3, the receiving half: detects losses, reports the loss event rate and the receive rate to the sender (RFC 4342
//! §6, §8).

use std::time::Duration;

use antiphon_core::Instant;

use super::loss::{Counter, DUPLICATES, LossHistory, Waiting};
use super::{Incoming, Receiver};
use crate::cc::tfrc;
use crate::dccp::logs::ReceiveLog;
use crate::dccp::rtt::Rtt;
use crate::dccp::seq::Seq48;
use crate::dccp::wire::{DccpOption, OptionWriter, tens_of_micros};

#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiverThree {
    history: LossHistory,
    counter: Counter,
    /// Every packet up to this number is settled.
    settled: Seq48,
    /// Arrivals after a hole, in order.
    waiting: [Option<Waiting>; DUPLICATES],
    /// Mean size of data packets, bytes.
    size: f64,
    rtt: Duration,
    /// Reports to send now.
    due: u8,
    /// Whether they are the first of a loss, which must name a data packet.
    holds: bool,
    /// Window counter of the packet that the last regular feedback was for.
    last_counter: Option<u8>,
    /// When the rate's measurement began, and what arrived since.
    measured_from: Instant,
    bytes: u64,
    rate: f64,
    greatest_rate: f64,
    newest_at: Instant,
    /// Whether the packet that an acknowledgement would name carries data.
    names_data: bool,
}

impl ReceiverThree {
    /// `before`: the number before the first that may be data.
    pub fn new(before: Seq48, rtt: Duration) -> Self {
        ReceiverThree { settled: before, rtt, ..ReceiverThree::default() }
    }

    fn on_data(&mut self, incoming: &Incoming, len: usize) {
        let now = incoming.received_at;
        self.bytes += len as u64;
        self.size = if self.size == 0.0 { len as f64 } else { 0.9 * self.size + 0.1 * len as f64 };
        match self.last_counter {
            // The very first packet is answered at once (RFC 5348 §6.3).
            None => {
                (self.measured_from, self.bytes) = (now, 0);
                self.last_counter = Some(incoming.ccval);
                self.due = TWICE;
            }
            // Once a round trip: four counts (RFC 4342 §10.3). After an outage the counter may have gone round, and a
            // sender that waits half a second between packets would wait for another.
            Some(last)
                if incoming.ccval.wrapping_sub(last) & 0x0f >= 4
                    || now.since(self.measured_from) >= OVERDUE.max(4 * self.rtt) =>
            {
                self.last_counter = Some(incoming.ccval);
                self.due = self.due.max(1);
            }
            Some(_) => {}
        }
        let period = now.since(self.measured_from);
        if self.due > 0 && period >= self.rtt {
            self.measure(now, period);
        }
    }

    /// What arrived in the last round trip or more; over shorter times it would be too noisy (RFC 4342 §8.3).
    ///
    /// Departs from the RFC for periods over four round trips: silence (an outage, a pause) does not show what the path
    /// carries, and after half a minute's outage would limit the sender to a packet in half a minute.
    fn measure(&mut self, now: Instant, period: Duration) {
        let period = period.min(4 * self.rtt);
        self.rate = self.bytes as f64 / period.as_secs_f64().max(1e-6);
        self.greatest_rate = self.greatest_rate.max(self.rate);
        (self.measured_from, self.bytes) = (now, 0);
    }

    /// Inserts an arrival and settles what can be settled; returns whether a loss event began.
    fn settle(&mut self, arrival: Waiting) -> bool {
        if !self.settled.is_before(arrival.seq) {
            return false;
        }
        self.insert(arrival);
        let mut new_event = false;
        while let Some(first) = self.waiting[0] {
            let hole = first.seq.distance(self.settled) - 1;
            if hole > 0 && self.waiting.iter().any(Option::is_none) {
                break;
            }
            // A hole that is no longer than the packets without data before its end contains no data (RFC 4340 §7.7).
            let idle = first.ndp.is_some_and(|count| count >= hole as u64);
            if hole > 0 && !idle {
                new_event |= self.on_lost(u32::try_from(hole).unwrap_or(u32::MAX), first.ccval);
            }
            self.counter.extend(first.ccval);
            self.history.on_received(first.data);
            self.settled = first.seq;
            self.waiting.rotate_left(1);
            self.waiting[DUPLICATES - 1] = None;
        }
        new_event
    }

    /// There is room: with all places taken, [`Self::settle`] has emptied at least one.
    fn insert(&mut self, arrival: Waiting) {
        let place = self.waiting.iter().position(|w| w.is_none_or(|w| arrival.seq.is_before(w.seq)));
        if let Some(at) = place {
            self.waiting[at..].rotate_right(1);
            self.waiting[at] = Some(arrival);
        }
    }

    fn on_lost(&mut self, lost: u32, ccval: u8) -> bool {
        if self.history.intervals().is_empty() {
            (self.due, self.holds) = (TWICE, true);
        }
        let counter = Counter::extend(&mut self.counter.clone(), ccval);
        let (size, rtt, rate) = (self.size.max(1.0), self.rtt, self.greatest_rate);
        self.history.on_lost(lost, counter, |before| first_interval(size, rtt, rate, before))
    }

    /// A report names the last data packet (RFC 5348 §6.2), which here is the acknowledgement number; if that is
    /// another packet's, the first report of a loss waits. Otherwise Linux stores the losses without computing a rate
    /// from them, and with its next time-out falls to a packet in 64 s. Later reports do not wait: a slow sender would
    /// wait, too.
    fn owes_report(&self) -> bool {
        self.due > 0 && (self.names_data || !self.holds)
    }
}

impl Receiver for ReceiverThree {
    fn on_packet(&mut self, incoming: &Incoming, _ack_ratio: u64, rtt: &Rtt) {
        self.rtt = rtt.srtt().unwrap_or(self.rtt);
        if incoming.newest {
            (self.newest_at, self.names_data) = (incoming.received_at, incoming.data.is_some());
        }
        if let Some(len) = incoming.data {
            self.on_data(incoming, len);
        }
        let new_event = self.settle(Waiting {
            seq: incoming.seq,
            ccval: incoming.ccval,
            data: incoming.data.is_some(),
            ndp: incoming.ndp,
        });
        // A congestion mark counts as a lost packet (RFC 4342 §6.1).
        let marked_event = incoming.marked && self.on_lost(1, incoming.ccval);
        self.due = self.due.max(u8::from(new_event || marked_event));
        if self.rate == 0.0 && (new_event || marked_event) {
            // A loss within the first round trip: nothing was measured yet, and with a reported rate of zero a sender
            // would fall to a packet in 64 s, as Linux does. What has arrived so far counts as one round trip's.
            let period = incoming.received_at.since(self.measured_from).clamp(self.rtt, 4 * self.rtt);
            self.rate = (self.bytes as f64).max(self.size) / period.as_secs_f64().max(1e-6);
        }
    }

    fn is_due(&self, _now: Instant) -> bool {
        self.owes_report()
    }

    fn is_wanted(&self) -> bool {
        self.owes_report()
    }

    /// RFC 4342 §6: Elapsed Time, Loss Event Rate, Receive Rate, Loss Intervals. Other acknowledgements have none of
    /// them: the sender would take them for feedback.
    fn write(&self, now: Instant, _log: &ReceiveLog, options: &mut OptionWriter) {
        if !self.owes_report() {
            return;
        }
        options.write(DccpOption::ElapsedTime(tens_of_micros(now.since(self.newest_at))));
        let inverse = self.history.mean().map_or(u32::MAX, |mean| mean.ceil() as u32);
        options.write(DccpOption::LossEventRate(inverse));
        options.write(DccpOption::ReceiveRate(self.rate.min(f64::from(u32::MAX)) as u32));
        // The Skip Length, then the intervals.
        let mut bytes = [0; 1 + 8 * 9];
        bytes[0] = self.waiting.iter().flatten().count() as u8;
        let mut len = 1;
        for interval in self.history.intervals().iter().take(8) {
            for (number, at) in [(interval.lossless, 0), (interval.lossy, 3), (interval.data, 6)] {
                // 24 bits; the top bit of the losses is a nonce, which is not used.
                let number = number.min((1 << 23) - 1).to_be_bytes();
                bytes[len + at..len + at + 3].copy_from_slice(&number[1..]);
            }
            len += 9;
        }
        if len > 1 {
            options.write(DccpOption::LossIntervals(&bytes[..len]));
        }
    }

    /// The first report is sent twice, and so is the first of a loss: RFC 5348 §6 permits reports more often than once
    /// a round trip, and Linux needs these two. Until the first comes it may send only a packet a second; and if the
    /// first that comes reports losses, it computes no rate from that and takes it for zero, a packet in 64 s, unless
    /// the second arrives before its time-out.
    fn on_ack_sent(&mut self) {
        if self.owes_report() {
            self.due -= 1;
            self.holds &= self.due > 0;
        }
    }
}

/// The interval before the first loss, in data packets: with it the equation gives the greatest rate seen; if the very
/// first data packet is lost, half a packet per round trip (RFC 5348 §6.3.1).
fn first_interval(size: f64, rtt: Duration, rate: f64, before: u32) -> u32 {
    let target = if before == 0 || rate == 0.0 { 0.5 * size / rtt.as_secs_f64().max(1e-6) } else { rate };
    (1.0 / tfrc::loss_event_rate(size, rtt, target)).round() as u32
}

/// Without a report for so long, the next packet gets one: twice a delayed acknowledgement of TCP, for a round trip that
/// is estimated too short.
const OVERDUE: Duration = Duration::from_millis(200);
/// How often the first reports are sent.
const TWICE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn arrives(receiver: &mut ReceiverThree, seq: u64, data: Option<usize>, ms: u64) {
        let received_at = Instant::from_millis(ms);
        let seq = Seq48::new(seq);
        let packet = Incoming {
            seq,
            ccval: 0,
            data,
            ndp: None,
            beyond_gap: false,
            newest: true,
            marked: false,
            received_at,
        };
        receiver.on_packet(&packet, 0, &Rtt::default());
    }

    /// The counter says nothing after an outage: it has gone round. One packet must suffice to tell the sender.
    #[test]
    fn the_first_packet_after_an_outage_is_reported_whatever_its_counter_is() {
        let mut receiver = ReceiverThree::new(Seq48::new(0), Duration::from_millis(40));
        for ms in [100, 105, 110] {
            arrives(&mut receiver, ms / 5, Some(1000), ms);
        }
        while receiver.owes_report() {
            receiver.on_ack_sent();
        }
        arrives(&mut receiver, 23, Some(1000), 115);
        assert!(!receiver.owes_report(), "within the round trip");
        arrives(&mut receiver, 90, Some(1000), 30_000);
        assert!(receiver.owes_report());
    }

    #[test]
    fn a_loss_within_the_first_round_trip_is_reported_with_a_rate() {
        let rtt = Duration::from_millis(40);
        let mut receiver = ReceiverThree::new(Seq48::new(0), rtt);
        for (n, seq) in [1, 3, 4, 5].into_iter().enumerate() {
            arrives(&mut receiver, seq, Some(1000), 100 + n as u64);
        }
        // Three packets since the first, in 40 ms.
        assert!(receiver.owes_report() && receiver.history.mean().is_some());
        assert_eq!(receiver.rate, 75_000.0);
        // A peer whose counter does not change has taken longer than that for as many.
        let mut receiver = ReceiverThree::new(Seq48::new(0), rtt);
        arrives(&mut receiver, 1, Some(1000), 100);
        (0..2).for_each(|_| receiver.on_ack_sent());
        for (seq, ms) in [(3, 180), (4, 190), (5, 200)] {
            arrives(&mut receiver, seq, Some(1000), ms);
        }
        assert_eq!(receiver.rate, 30_000.0);
    }

    /// As observed with Linux 6.1, whose data and acknowledgements alternate: its first data packet, the second packet
    /// of all, was lost, and an acknowledgement revealed it. A single report of that stopped its sender for 64 s.
    #[test]
    fn the_first_reports_go_twice_and_only_after_data() {
        let mut receiver = ReceiverThree::new(Seq48::new(0), Duration::from_micros(300));
        let (log, mut reports) = (ReceiveLog::new(Seq48::new(0)), Vec::new());
        for (ms, (seq, data)) in
            [(1, None), (3, None), (4, Some(200)), (5, None), (6, Some(200)), (7, Some(200))]
                .into_iter()
                .enumerate()
        {
            arrives(&mut receiver, seq, data, 10 * ms as u64);
            while receiver.owes_report() {
                let mut options = OptionWriter::default();
                receiver.write(Instant::from_millis(10 * ms as u64), &log, &mut options);
                assert!(options.written() > 0);
                reports.push((seq, receiver.history.mean().is_some()));
                receiver.on_ack_sent();
            }
            let mut options = OptionWriter::default();
            receiver.write(Instant::from_millis(10 * ms as u64), &log, &mut options);
            assert!(options.written() == 0, "to Linux all of these are reports");
        }
        assert_eq!(reports, [(4, false), (4, false), (6, true), (6, true)]);
        assert!(!receiver.holds, "later ones wait for nothing");
    }

    #[test]
    fn a_report_without_news_of_a_loss_does_not_wait_for_data() {
        let mut receiver = ReceiverThree::new(Seq48::new(0), Duration::from_millis(40));
        arrives(&mut receiver, 1, Some(200), 10);
        arrives(&mut receiver, 2, None, 10);
        // A sender without a round trip sends a packet a second until it gets a report.
        assert!(receiver.owes_report());
    }
}
