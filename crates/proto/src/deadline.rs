//! How [`Message::deadline`](antiphon_core::Message::deadline) limits retransmissions.
//!
//! A message that is known to be lost is retransmitted at once. If its deadline comes before an answer could, one more
//! copy is sent at the last moment: the repair may be lost like any packet, and a gap between two copies is longer than
//! most bursts of losses. A copy costs a packet for each loss, so copies are as rare as losses.

use std::time::Duration;

use antiphon_core::Instant;

/// When the last copy of a lost message is sent.
pub(crate) fn last_chance(deadline: Instant) -> Instant {
    deadline - WAKE_UP
}

/// Time that a busy machine takes to wake a thread: 1 to 2 ms.
pub(crate) const WAKE_UP: Duration = Duration::from_millis(2);
