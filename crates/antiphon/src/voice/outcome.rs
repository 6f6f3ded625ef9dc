//! What became of voice channels: whether they came to their end, and what speaks against it.

use antiphon_core::CloseReason;
use antiphon_session::VoiceRole;

use super::sinks::Written;
use super::status::Snapshot;
use crate::ErrorKind;
use crate::send::{Shortfall, why};

/// Why the channels did not come to their end, or are not recorded whole.
pub(super) fn shortfall(
    last: &Snapshot,
    role: VoiceRole,
    stopped: bool,
    written: &Written,
) -> Option<Shortfall> {
    let parted = parted(last, role).filter(|_| !stopped);
    let unwritten = (written.dropped > 0).then(|| {
        format!("{} bytes of sound could not be written fast enough and are left out", written.dropped)
    });
    match (parted, unwritten) {
        (Some(parted), Some(unwritten)) => {
            Some(Shortfall { message: format!("{}; {unwritten}", parted.message), ..parted })
        }
        (parted, None) => parted,
        (None, Some(message)) => Some(Shortfall { message, kind: ErrorKind::Failed }),
    }
}

/// How the peer was lost before the end.
fn parted(last: &Snapshot, role: VoiceRole) -> Option<Shortfall> {
    let who = match role {
        VoiceRole::Sender => "the receiver",
        VoiceRole::Receiver => "the sender",
    };
    let after = format!("after {:.1} s", last.elapsed.as_secs_f64());
    if let Some(reason) = last.ended {
        let kind = if reason == CloseReason::Peer { ErrorKind::Failed } else { ErrorKind::Unreachable };
        return Some(Shortfall { message: format!("{} {after}", why(who, reason)), kind });
    }
    let broken = last.broken.is_some() && role == VoiceRole::Sender;
    broken.then(|| Shortfall {
        message: format!("{who} could not be reached any more at the end, {after}"),
        kind: ErrorKind::Unreachable,
    })
}

#[cfg(test)]
mod tests {
    use antiphon_core::BrokenReason;

    use super::*;

    fn told(last: Snapshot, role: VoiceRole, stopped: bool, dropped: u64) -> Option<(String, ErrorKind)> {
        let written = Written { dropped, ..Written::default() };
        shortfall(&last, role, stopped, &written).map(|shortfall| (shortfall.message, shortfall.kind))
    }

    #[test]
    fn a_lost_peer_is_told_and_a_wanted_end_is_not() {
        let ended = |reason| Snapshot { ended: Some(reason), ..Snapshot::default() };
        let (sender, receiver) = (VoiceRole::Sender, VoiceRole::Receiver);
        assert_eq!(told(Snapshot::default(), sender, false, 0), None);
        assert_eq!(told(ended(CloseReason::TimedOut), sender, true, 0), None);
        let (message, kind) = told(ended(CloseReason::TimedOut), sender, false, 0).expect("lost");
        assert_eq!(
            (message.as_str(), kind),
            ("the receiver no longer answers, after 0.0 s", ErrorKind::Unreachable)
        );
        let (message, kind) = told(ended(CloseReason::Peer), receiver, false, 7).expect("cut short");
        assert!(message.starts_with("the sender ended") && message.contains("; 7 bytes"), "{message}");
        assert_eq!(kind, ErrorKind::Failed);
        let broken = Snapshot { broken: Some(BrokenReason::Refused), ..Snapshot::default() };
        assert_eq!(told(broken, sender, false, 0).expect("lost").1, ErrorKind::Unreachable);
        // A listener hears of a caller that is gone otherwise.
        assert_eq!(told(broken, receiver, false, 0), None);
    }
}
