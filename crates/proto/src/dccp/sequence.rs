//! Which sequence and acknowledgement numbers are valid (RFC 4340 §7.5), and how often a Sync may be sent.

use std::time::Duration;

use antiphon_core::Instant;

use super::seq::Seq48;
use super::wire::Kind;

/// The numbers of a connection, by the names that RFC 4340 §7.1 gives them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    /// First number sent.
    pub iss: Seq48,
    /// First number received.
    pub isr: Seq48,
    /// Greatest number sent.
    pub gss: Seq48,
    /// Greatest number received.
    pub gsr: Seq48,
    /// Greatest acknowledgement number received.
    pub gar: Seq48,
    /// First number received once open.
    pub osr: Seq48,
    /// When the latest Syncs went out, the oldest at `next_sync`.
    synced: [Option<Instant>; MOST_SYNCS],
    next_sync: usize,
}

/// Reaction to an invalid number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is in place.
    Valid,
    /// Send a Sync that names this number.
    Sync(Seq48),
    /// Nothing.
    Drop,
}

impl Sequence {
    /// Nothing received yet; the first packet sent will have number `iss`.
    pub fn new(iss: Seq48) -> Self {
        Sequence { iss, gss: iss.plus(-1), gar: iss, ..Sequence::default() }
    }

    /// The peer's first packet.
    pub fn start_receiving(&mut self, isr: Seq48) {
        (self.isr, self.gsr, self.osr) = (isr, isr, isr);
    }

    /// Whether `ack` acknowledges something that was sent and is not too old. `window`: this end's.
    pub fn acknowledges(&self, ack: Seq48, window: u64) -> bool {
        ack.is_within(self.awl(window), self.gss)
    }

    /// Steps 5 and 6 of RFC 4340 §8.5. `windows`: the peer's and this end's Sequence Window.
    pub fn check(&mut self, kind: &Kind, seq: Seq48, windows: (u64, u64)) -> Verdict {
        let (theirs, ours) = (windows.0 as i64, windows.1);
        let low = self.gsr.plus(1 - theirs / 4).later(self.isr);
        let high = self.gsr.plus((3 * theirs + 3) / 4);
        let ack = kind.ack();
        let (low, ack_low) = match kind {
            Kind::Sync { .. } | Kind::SyncAck { .. } => {
                let valid = !seq.is_before(low) && ack.is_some_and(|ack| self.acknowledges(ack, ours));
                if valid {
                    self.gsr = self.gsr.later(seq);
                    if let (Kind::SyncAck { .. }, Some(ack)) = (kind, ack) {
                        self.gar = self.gar.later(ack);
                    }
                }
                return if valid { Verdict::Valid } else { Verdict::Drop };
            }
            Kind::CloseReq { .. } | Kind::Close { .. } | Kind::Reset { .. } => (self.gsr.next(), self.gar),
            _ => (low, self.awl(ours)),
        };
        let ack_fits = ack.is_none_or(|ack| ack.is_within(ack_low, self.gss));
        if seq.is_within(low, high) && ack_fits {
            self.gsr = self.gsr.later(seq);
            self.gar = ack.map_or(self.gar, |ack| self.gar.later(ack));
            return Verdict::Valid;
        }
        // The sender of a blind Reset must not learn whether its number was near.
        Verdict::Sync(if matches!(kind, Kind::Reset { .. }) { self.gsr } else { seq })
    }

    /// Whether a Sync may go out now; it then counts as sent.
    pub fn may_sync(&mut self, now: Instant) -> bool {
        let may = self.synced[self.next_sync].is_none_or(|at| now.since(at) >= SYNC_SPAN);
        if may {
            self.synced[self.next_sync] = Some(now);
            self.next_sync = (self.next_sync + 1) % MOST_SYNCS;
        }
        may
    }

    fn awl(&self, window: u64) -> Seq48 {
        self.gss.plus(1 - window as i64).later(self.iss)
    }
}

/// RFC 4340 §7.5.4: at most about eight a second, which bounds the cost of forged packets. They may come one after the
/// other: to find that the other end has restarted takes two.
const MOST_SYNCS: usize = 8;
const SYNC_SPAN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Sent 100..=300, received 1000..=1200.
    fn middle() -> Sequence {
        let mut sequence = Sequence::new(Seq48::new(100));
        sequence.start_receiving(Seq48::new(1000));
        (sequence.gss, sequence.gsr, sequence.gar) = (Seq48::new(300), Seq48::new(1200), Seq48::new(290));
        sequence
    }

    /// RFC 4340 §7.5.1 and table 4 at W = W' = 100, by hand: SWL 1176, SWH 1275, AWL 201, AWH 300.
    #[test]
    fn the_windows_are_those_of_the_table() {
        let ack = |n| Kind::Ack { ack: Seq48::new(n) };
        let close = |n| Kind::Close { ack: Seq48::new(n) };
        let sync = |n| Kind::Sync { ack: Seq48::new(n) };
        let number = |n| Seq48::new(n);
        let cases = [
            (Kind::Data, 1176, Verdict::Valid),
            (Kind::Data, 1175, Verdict::Sync(number(1175))),
            (Kind::Data, 1275, Verdict::Valid),
            (Kind::Data, 1276, Verdict::Sync(number(1276))),
            (ack(201), 1201, Verdict::Valid),
            (ack(200), 1201, Verdict::Sync(number(1201))),
            (ack(300), 1201, Verdict::Valid),
            (ack(301), 1201, Verdict::Sync(number(1201))),
            (close(290), 1201, Verdict::Valid),
            (close(290), 1200, Verdict::Sync(number(1200))),
            (close(289), 1201, Verdict::Sync(number(1201))),
            (sync(201), 1176, Verdict::Valid),
            (sync(201), 5000, Verdict::Valid),
            (sync(200), 1201, Verdict::Drop),
            (sync(201), 1175, Verdict::Drop),
        ];
        for (kind, seq, expected) in cases {
            assert_eq!(middle().check(&kind, number(seq), (100, 100)), expected, "{kind:?} {seq}");
        }
        let reset =
            Kind::Reset { ack: number(100), code: super::super::wire::ResetCode::CLOSED, data: [0; 3] };
        assert_eq!(middle().check(&reset, number(1201), (100, 100)), Verdict::Sync(number(1200)));
    }

    #[test]
    fn syncs_are_rationed() {
        let mut sequence = middle();
        let sent = (0..1000).filter(|ms| sequence.may_sync(Instant::from_millis(*ms))).count();
        assert_eq!(sent, 8);
    }
}
