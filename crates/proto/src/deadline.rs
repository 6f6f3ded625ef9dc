//! What [`Message::deadline`](antiphon_core::Message::deadline) means for repairs.
//!
//! A message that is known to be lost is sent again at once. Where its deadline comes before an answer could, one more copy
//! goes out at the last moment: the repair may get lost like any packet, and a gap between two copies is longer than most
//! bursts of losses. A copy costs a packet for each loss, as few as there are losses.

use std::time::Duration;

use antiphon_core::Instant;

/// When the last copy of a message that was lost goes out.
pub(crate) fn last_chance(deadline: Instant) -> Instant {
    deadline - WAKE_UP
}

/// What a busy machine takes to wake a thread: 1 to 2 ms.
pub(crate) const WAKE_UP: Duration = Duration::from_millis(2);
