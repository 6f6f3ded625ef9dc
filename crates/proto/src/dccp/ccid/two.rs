//! CCID 2: TCP-like congestion control (RFC 4341).

use std::time::Duration;

use antiphon_core::{ByteCount, Instant, PathStats};

use super::{Incoming, Receiver, Sender};
use crate::dccp::logs::{Fate, MARKED, REACH, RECEIVED, ReceiveLog, SentLog, runs};
use crate::dccp::read::Seen;
use crate::dccp::rtt::Rtt;
use crate::dccp::seq::Seq48;
use crate::dccp::wire::{DccpOption, OptionWriter, tens_of_micros};
use crate::patience::LONGEST_PAUSE;
use crate::rtt::{RtoSettings, backed_off};

/// Sends as many data packets as a window allows, and treats their losses as congestion.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderTwo {
    cwnd: u32,
    ssthresh: u32,
    /// Data packets in flight.
    pipe: u32,
    /// Packets newly acknowledged that have not increased the window yet.
    credit: u32,
    /// Before this number everything is settled.
    lowest: Seq48,
    greatest_acked: Option<Seq48>,
    /// Losses up to this number belong to the last congestion event.
    recover: Seq48,
    /// Whether anything was sent yet: the first message's size determines the initial window.
    begun: bool,
    timeout_at: Option<Instant>,
    backoff: u32,
    /// The longest reported delay of an acknowledgement at the peer.
    longest_kept: Option<Duration>,
    /// A kernel's time-outs in place of ours.
    rto: Option<RtoSettings>,
}

impl SenderTwo {
    pub fn new(first: Seq48, rto: Option<RtoSettings>) -> Self {
        let (ssthresh, recover) = (u32::MAX, first.plus(-1));
        SenderTwo { ssthresh, lowest: first, recover, rto, ..SenderTwo::default() }
    }
}

impl Sender for SenderTwo {
    fn may_send(&mut self, _now: Instant, len: usize) -> bool {
        if !self.begun {
            self.begun = true;
            // RFC 4341 §5, after RFC 3390: four packets, but no more than 4380 bytes, if that is two.
            self.cwnd = (4380 / len.max(1) as u32).clamp(2, 4);
        }
        self.pipe < self.cwnd
    }

    fn on_sent(&mut self, now: Instant, _len: usize, rtt: &Rtt) {
        self.pipe += 1;
        // Linux: `sk_reset_timer` in `ccid2_hc_tx_packet_sent`.
        if self.timeout_at.is_none() || self.rto.is_some() {
            self.timeout_at = Some(now + self.timeout(rtt));
        }
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        ack: Seq48,
        seen: &Seen<'_>,
        log: &mut SentLog,
        rtt: &mut Rtt,
    ) -> bool {
        self.lowest = self.lowest.later(log.first);
        let was_full = self.pipe >= self.cwnd || self.in_slow_start() && 2 * self.pipe >= self.cwnd;
        if !seen.elapsed.is_zero() {
            self.longest_kept = self.longest_kept.max(Some(seen.elapsed.min(MOST_KEPT)));
        }
        if let Some(sent) = log.entry_mut(ack)
            && sent.fate == Fate::Open
        {
            let kept = if self.rto.is_some() { Duration::ZERO } else { seen.elapsed };
            rtt.on_sample(now.since(sent.at).saturating_sub(kept));
        }
        let (acked, marked) = self.settle_acked(ack, seen.vectors(), log);
        let lost = self.settle_lost(log);
        while self.lowest.is_before(log.next)
            && log.entry_mut(self.lowest).is_some_and(|sent| sent.fate != Fate::Open)
        {
            self.lowest = self.lowest.next();
        }
        let congested = [marked, lost].into_iter().flatten().any(|seq| self.recover.is_before(seq));
        if congested {
            self.cwnd = (self.cwnd / 2).max(1);
            self.ssthresh = self.cwnd.max(2);
            self.credit = 0;
            self.recover = log.next.plus(-1);
        } else if was_full && !seen.slow {
            self.grow(acked);
        }
        // Each packet that the peer dropped for lack of room costs one (RFC 4340 §11.7.2).
        self.cwnd = self.cwnd.saturating_sub(seen.overrun).max(1);
        if acked > 0 {
            self.backoff = 0;
            self.timeout_at = None;
        }
        match self.pipe {
            0 => self.timeout_at = None,
            _ => self.timeout_at = self.timeout_at.or(Some(now + self.timeout(rtt))),
        }
        congested
    }

    /// Everything in flight counts as lost, and the window restarts with one packet (RFC 4341 §5).
    fn handle_timeout(&mut self, now: Instant, log: &mut SentLog) -> bool {
        if self.timeout_at.is_none_or(|at| now < at) {
            return false;
        }
        self.timeout_at = None;
        log.settle(log.next, Fate::Lost);
        self.lowest = log.next;
        self.ssthresh = (self.cwnd / 2).max(2);
        (self.cwnd, self.pipe, self.credit) = (1, 0, 0);
        self.recover = log.next.plus(-1);
        let most = if self.rto.is_some() { u32::MAX } else { MAX_BACKOFF };
        self.backoff = self.backoff.saturating_add(1).min(most);
        true
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout_at
    }

    /// No more than half of the window, rounded up (RFC 4341 §6.1.2). A peer without a timer for acknowledgements would
    /// keep a window of one packet shut for ever. Two again once the window is four, which is the least that the RFC
    /// wants there.
    fn ack_ratio(&self, now: u64) -> Option<u64> {
        Some(match self.cwnd {
            0 | 3 => now,
            1 | 2 => 1,
            _ => 2,
        })
    }

    fn ack_of_acks_after(&self) -> u32 {
        self.cwnd.max(16)
    }

    /// It counts packets; the figures are for packets of full size.
    fn figures(&self, packet: usize, stats: PathStats) -> PathStats {
        let bytes = |packets: u32| Some(ByteCount(u64::from(packets) * packet as u64));
        PathStats { cwnd: bytes(self.cwnd), in_flight: bytes(self.pipe), ..stats }
    }
}

impl SenderTwo {
    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Marks the packets that the vectors report as arrived; returns how many data packets that were, and a marked
    /// one's number.
    fn settle_acked(&mut self, ack: Seq48, vectors: &[&[u8]], log: &mut SentLog) -> (u32, Option<Seq48>) {
        let (mut acked, mut marked) = (0, None);
        let mut seq = ack;
        // The acknowledged packet itself has arrived, even without a vector.
        let alone = [(RECEIVED, 1)].into_iter().take(usize::from(vectors.is_empty()));
        for (state, run) in alone.chain(runs(vectors)) {
            if seq.is_before(self.lowest) {
                break;
            }
            let end = seq.plus(-run);
            while (state == RECEIVED || state == MARKED) && end.is_before(seq) && !seq.is_before(self.lowest)
            {
                if let Some(sent) = log.entry_mut(seq)
                    && sent.fate == Fate::Open
                {
                    sent.fate = Fate::Acked;
                    self.greatest_acked =
                        Some(self.greatest_acked.map_or(seq, |greatest| greatest.later(seq)));
                    acked += u32::from(sent.data);
                    if state == MARKED {
                        marked.get_or_insert(seq);
                    }
                }
                seq = seq.plus(-1);
            }
            seq = end;
        }
        self.pipe = self.pipe.saturating_sub(acked);
        (acked, marked)
    }

    /// Counts packets as lost that have three acknowledged packets after them; returns the newest data packet among
    /// them.
    fn settle_lost(&mut self, log: &mut SentLog) -> Option<Seq48> {
        let mut seq = self.greatest_acked?;
        let (mut later, mut newest) = (0, None);
        while !seq.is_before(self.lowest) {
            if let Some(sent) = log.entry_mut(seq) {
                match sent.fate {
                    Fate::Acked => later += 1,
                    Fate::Open if later >= DUPLICATES => {
                        sent.fate = Fate::Lost;
                        if sent.data {
                            self.pipe = self.pipe.saturating_sub(1);
                            newest = newest.or(Some(seq));
                        }
                    }
                    Fate::Open | Fate::Lost => {}
                }
            }
            seq = seq.plus(-1);
        }
        newest
    }

    /// RFC 4341 §5.1: in slow start one packet for two that were acknowledged, otherwise one a window; only while the
    /// window limits the sender.
    fn grow(&mut self, acked: u32) {
        self.credit += acked;
        let per_packet = if self.in_slow_start() { 2 } else { self.cwnd.max(1) };
        let more = (self.credit / per_packet).min(if self.in_slow_start() { acked } else { 1 });
        self.credit = (self.credit - more * per_packet).min(per_packet);
        self.cwnd = (self.cwnd + more).min(MAX_WINDOW);
    }

    /// RFC 6298 §5.5's doubling, but with a lower limit: in an outage of half a minute it would grow to half a minute.
    fn timeout(&self, rtt: &Rtt) -> Duration {
        if let Some(rto) = self.rto {
            return backed_off(rto.timeout(rtt), self.backoff, rto.max);
        }
        // For a peer that reports its acknowledgement delays, the longest permitted delay need not be assumed.
        let kept = self.longest_kept.map_or(MOST_KEPT, |kept| (2 * kept).min(MOST_KEPT));
        let base = rtt.timeout() + kept + SLACK;
        backed_off(base, self.backoff, LONGEST_PAUSE)
    }
}

/// Counts data, and determines when to acknowledge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiverTwo {
    /// Data packets not acknowledged.
    waiting: u64,
    newest_at: Instant,
    due_at: Option<Instant>,
}

impl Receiver for ReceiverTwo {
    fn on_packet(&mut self, incoming: &Incoming, ack_ratio: u64, _rtt: &Rtt) {
        if incoming.newest {
            self.newest_at = incoming.received_at;
        }
        if incoming.data.is_none() {
            return;
        }
        self.waiting += 1;
        // A gap or a mark is reported at once (RFC 4341 §6.1 leaves it open; the sender reacts to congestion sooner).
        let at_once = self.waiting >= ack_ratio.max(1) || incoming.beyond_gap || incoming.marked;
        let by = if at_once { incoming.received_at } else { incoming.received_at + DELAYED_ACK };
        self.due_at = Some(self.due_at.map_or(by, |due| due.min(by)));
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due_at.is_some_and(|due| due <= now)
    }

    fn is_wanted(&self) -> bool {
        self.waiting > 0
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due_at
    }

    fn write(&self, now: Instant, log: &ReceiveLog, options: &mut OptionWriter) {
        let mut vector = [0; LONGEST_VECTOR];
        let len = log.write_vector(&mut vector);
        let kept = tens_of_micros(now.since(self.newest_at));
        // A negligible delay needs no option.
        if kept > 0 {
            options.write(DccpOption::ElapsedTime(kept));
        }
        options.write(DccpOption::AckVector(&vector[..len]));
    }

    fn on_ack_sent(&mut self) {
        (self.waiting, self.due_at) = (0, None);
    }

    fn has_vectors(&self) -> bool {
        true
    }
}

/// RFC 4341 §5: a packet is lost when three later ones arrived (TCP's duplicate acknowledgements).
const DUPLICATES: u32 = 3;
/// The log must cover everything in flight, and as much again for what the window has lost.
const MAX_WINDOW: u32 = REACH as u32 / 2;
/// A peer may keep an acknowledgement for 0.2 s (RFC 4341 §6.1); shorter time-outs would take that for a loss.
const MOST_KEPT: Duration = Duration::from_millis(200);
/// Time-outs are not more exact than wake-ups on a busy machine.
pub(crate) const SLACK: Duration = Duration::from_millis(25);
const MAX_BACKOFF: u32 = 3;
/// Long enough that messages of 10 ms in one direction share an acknowledgement, well below RFC 4341's 0.2 s.
const DELAYED_ACK: Duration = Duration::from_millis(25);
/// The capacity of one option: 253 runs of up to 64 packets.
const LONGEST_VECTOR: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtt::RtoFloor;

    const MS: Duration = Duration::from_millis(1);

    /// Linux 3.2: 3 s at first, then the round trip and 200 ms more (its variation is less), from the last packet on,
    /// doubled up to 64 s (`net/dccp/ccids/ccid2.c`: `ccid2_hc_tx_init`, `ccid2_rtt_estimator`, `ccid2_hc_tx_rto_expire`).
    #[test]
    fn time_outs_of_linux() {
        let max = 64_000 * MS;
        let rto = RtoSettings {
            initial: 3000 * MS,
            min: 200 * MS,
            max,
            longest: max,
            floor: RtoFloor::Variation,
            granularity: Duration::ZERO,
        };
        let (mut two, mut rtt) = (SenderTwo::new(Seq48::new(1), Some(rto)), Rtt::default());
        let at = |ms: u64| Some(Instant::from_millis(ms));
        two.on_sent(Instant::from_millis(10), 100, &rtt);
        assert_eq!(two.poll_timeout(), at(3010));
        (0..100).for_each(|_| rtt.on_sample(20 * MS));
        two.on_sent(Instant::from_millis(40), 100, &rtt);
        assert_eq!(two.poll_timeout(), at(260), "each packet sets it anew");
        let (mut log, mut now, mut waits) = (SentLog::new(Seq48::new(1)), 260, Vec::new());
        for _ in 0..11 {
            assert!(two.handle_timeout(Instant::from_millis(now), &mut log));
            two.on_sent(Instant::from_millis(now), 100, &rtt);
            let due = two.poll_timeout().expect("it runs");
            waits.push(due.since(Instant::from_millis(now)).as_millis() as u64);
            now = due.as_nanos() / 1_000_000;
        }
        assert_eq!(waits, [440, 880, 1760, 3520, 7040, 14_080, 28_160, 56_320, 64_000, 64_000, 64_000]);
        // Ours end sooner, and count from the oldest packet.
        let mut ours = SenderTwo::new(Seq48::new(1), None);
        ours.on_sent(Instant::from_millis(0), 100, &rtt);
        ours.on_sent(Instant::from_millis(30), 100, &rtt);
        assert!(ours.poll_timeout() < at(260) && ours.poll_timeout() > at(200), "{:?}", ours.poll_timeout());
    }
}
