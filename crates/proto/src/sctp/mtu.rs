//! Path MTU discovery with heartbeats (RFC 8899 §6.2): padded to the probed size, each with a number that authenticates
//! its answer.

use std::time::Duration;

use antiphon_core::Instant;

#[cfg(test)]
pub(super) use crate::mtu::{BASE, GRAIN};

/// The packet size of a path. A probe's mark is a number that can't be guessed; 0 before it is drawn.
pub(super) type Mtu = crate::mtu::Mtu<u64>;

impl Mtu {
    /// The heartbeat to send now: its contents, and the packet size, 0 for one without padding.
    pub fn next_probe(&mut self, now: Instant, mut draw: impl FnMut() -> u64) -> Option<([u8; INFO], usize)> {
        let (size, nonce) = self.take_due(now)?;
        while *nonce == 0 {
            *nonce = draw();
        }
        let mut info = [0; INFO];
        info[..8].copy_from_slice(&nonce.to_be_bytes());
        info[8..].copy_from_slice(&(size as u32).to_be_bytes());
        Some((info, size))
    }

    /// Processes an answer to a probe of this path; returns the round trip, if it can be measured from it. `None` for
    /// other answers.
    pub fn on_answer(&mut self, now: Instant, info: &[u8; INFO]) -> Option<Option<Duration>> {
        let ([nonce @ .., _, _, _, _], [_, _, _, _, _, _, _, _, size @ ..]) = (info, info);
        let (nonce, size) = (u64::from_be_bytes(*nonce), u32::from_be_bytes(*size) as usize);
        let is_ours = nonce != 0 && self.mark(size) == Some(&nonce);
        is_ours.then(|| self.on_answered(now, size))
    }
}

/// Bytes of a probe's contents: a number that can't be guessed, and the size.
pub(super) const INFO: usize = 12;

#[cfg(test)]
mod tests;
