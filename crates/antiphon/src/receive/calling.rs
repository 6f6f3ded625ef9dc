//! What becomes of a receiver that calls its sender.

use antiphon_core::{BrokenReason, CloseReason};
use antiphon_session::PeerEnd;

use crate::Error;
use crate::send::{unreachable_as, why};

/// Nothing came from the sender that was called.
pub(super) fn no_sender(reason: BrokenReason, source: &str) -> Error {
    let reason = unreachable_as(reason);
    Error::unreachable(format!(
        "the sender '{source}' cannot be reached: {reason}; start 'antiphon send SOURCE' there first, to an address without \
         a host, such as rtp://:7710, or receive with --forever, which goes on calling"
    ))
}

/// Why a sender that was called has gone, in a sentence.
pub(super) fn ended(end: Option<PeerEnd>) -> Option<String> {
    match end? {
        PeerEnd::Closed(CloseReason::Refused) => Some(
            "the sender refuses: it serves as many receivers as it takes; --most-receivers there allows more"
                .into(),
        ),
        PeerEnd::Closed(reason) => Some(format!("{} without a goodbye", why("the sender", reason))),
        PeerEnd::Left | PeerEnd::Silent => None,
    }
}
