//! How large packets may be: path MTU discovery with Syncs padded to the size that is tried (RFC 4340 §14, RFC 8899).
//!
//! The bytes after a Sync's header are ignored, and a SyncAck names the Sync that it answers (RFC 4340 §5.7), so that
//! its number in the log tells which size has passed. A Sync is a packet without data: if lost, it is covered by the
//! NDP Count of the next packet and is no congestion. No Sync is sent before the connection is open, when both ends
//! have shown that they receive what is sent to them.

use antiphon_core::{Instant, Outcome};

use super::endpoint::{DccpEndpoint, State};
use super::logs::Fate;
use super::rtt::Rtt;
use super::seq::Seq48;
use super::wire::{ACK_HEADER, DATA_HEADER, Kind};

impl DccpEndpoint {
    /// Bytes of a packet at most, as far as is known.
    pub(super) fn packet_size(&self) -> usize {
        self.flow.as_ref().map_or(self.max_datagram, |flow| flow.mtu.size())
    }

    /// Bytes of a message at most: what every data packet may need besides is an NDP Count; acknowledgements go apart if
    /// need be.
    pub(super) fn message_size(&self) -> usize {
        self.packet_size().saturating_sub(DATA_HEADER + LONGEST_NDP_COUNT).max(1)
    }

    /// When [`Self::run_sizes`] has something to do.
    pub(super) fn next_size(&self) -> Option<Instant> {
        self.flow.as_ref().filter(|_| self.state == State::Open)?.mtu.next()
    }

    /// Processes the fates of packets, and continues the search over time.
    pub(super) fn run_sizes(&mut self, now: Instant) {
        let is_open = self.state == State::Open;
        let Some(flow) = &mut self.flow else { return };
        while let Some(sent) = flow.sent.next_settled() {
            match sent.fate {
                Fate::Acked if sent.data => flow.mtu.on_pass(sent.len.into()),
                Fate::Lost if sent.data => flow.mtu.on_loss(sent.len.into()),
                _ => {}
            }
        }
        if is_open && flow.mtu.run(now, patience(&self.rtt)) {
            // None of them would arrive, and each would count as a loss for congestion control.
            let most = self.message_size();
            self.queue.finish_larger(most, Outcome::Aborted);
            self.congestion_changed = true;
        }
    }

    /// The peer has answered the Sync with that number.
    pub(super) fn on_sync_answered(&mut self, now: Instant, sync: Seq48) {
        let Some(flow) = &mut self.flow else { return };
        let Some(sent) = flow.sent.entry_mut(sync).filter(|sent| !sent.data) else { return };
        let size = usize::from(sent.len);
        // Congestion control has the round trip, as it knows when the packet was sent.
        flow.mtu.on_answered(now, if size <= LONGEST_SMALL { 0 } else { size });
    }

    /// The Sync that tries a size, if one is due.
    pub(super) fn write_probe(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if self.state != State::Open {
            return None;
        }
        let (size, _) = self.flow.as_mut()?.mtu.take_due(now)?;
        let kind = Kind::Sync { ack: self.sequence.gsr };
        self.write_padded(now, kind, size, buf)
    }
}

/// How long the answer to a probe takes at most.
fn patience(rtt: &Rtt) -> std::time::Duration {
    rtt.timeout() + super::ccid::SLACK
}

/// An NDP Count of six bytes, with its number and length (RFC 4340 §7.7).
const LONGEST_NDP_COUNT: usize = 8;
/// A Sync that is not padded.
const LONGEST_SMALL: usize = ACK_HEADER + LONGEST_NDP_COUNT;
