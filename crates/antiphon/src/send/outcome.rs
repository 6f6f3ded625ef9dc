//! What became of a stream that was sent: whether the receiver has it, and what speaks against it.

use antiphon_core::{CloseReason, MediaTime};
use antiphon_session::{PeerEnd, PlayoutDelay};

use super::status::Snapshot;
use crate::ErrorKind;
use crate::receive::MissingSound;

/// Why a stream did not arrive whole, or may not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortfall {
    /// A sentence with figures.
    pub message: String,
    /// [`ErrorKind::Unreachable`] where the receiver was lost.
    pub kind: ErrorKind,
}

impl Shortfall {
    /// Something is missing, though the receiver is there.
    pub(super) fn failed(message: String) -> Self {
        Shortfall { message, kind: ErrorKind::Failed }
    }
}

impl serde::Serialize for Shortfall {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.message)
    }
}

/// What says that a receiver has the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmedBy {
    /// A recording, which has told that it has every packet.
    Receiver,
    /// Reports of the receiver (RTCP), which came while it was sent.
    Reports,
    /// Nothing: no report came, and nothing spoke against it.
    Nothing,
}

/// A stream of which all has been done that is done.
pub(super) struct Outcome<'a> {
    pub last: &'a Snapshot,
    pub rate: u32,
    /// Sample frames of the source, if known.
    pub total: Option<u64>,
    /// How long packets are of use to a receiver that has told nothing.
    pub playout_delay: PlayoutDelay,
    /// Whether the user ended it.
    pub stopped: bool,
    /// What a spool had no room for.
    pub dropped: &'a [MissingSound],
}

impl Outcome<'_> {
    pub fn confirmed_by(&self) -> ConfirmedBy {
        match (self.last.counters.peers.receipts, self.last.report) {
            (true, _) => ConfirmedBy::Receiver,
            (false, Some(_)) => ConfirmedBy::Reports,
            (false, None) => ConfirmedBy::Nothing,
        }
    }

    pub fn shortfall(&self) -> Option<Shortfall> {
        let failed = |message| Some(Shortfall { message, kind: ErrorKind::Failed });
        let lost = |message| Some(Shortfall { message, kind: ErrorKind::Unreachable });
        let peers = self.last.counters.peers;
        let sent = self.seconds(self.last.position);
        let total = self.total.map_or_else(String::new, |total| format!(" of {}", self.seconds(total)));
        let open = match peers.unconfirmed {
            0 => String::new(),
            packets => format!("; {packets} packets are not confirmed"),
        };
        match self.last.end {
            _ if self.stopped => {}
            Some(PeerEnd::Left) => {
                return failed(format!("the receiver ended the stream after {sent}{total}{open}"));
            }
            Some(PeerEnd::Silent) => {
                return lost(format!(
                    "the recording has confirmed nothing for ten minutes, after {sent}{total}{open}"
                ));
            }
            Some(PeerEnd::Closed(reason)) => {
                let text = format!("{} after {sent}{total}{open}", why("the receiver", reason));
                return if reason == CloseReason::Peer { failed(text) } else { lost(text) };
            }
            None => {}
        }
        if self.last.served.is_some() {
            // Receivers come and go, down to none.
            return self.cut_short().and_then(failed);
        }
        // A group's members come and go, down to none; a recording that has confirmed everything has it, whatever came after.
        let has_all = peers.receipts && peers.unconfirmed == 0 && peers.dropped == 0;
        let one = self.last.members == 1 || self.last.members == 0 && !self.last.to_group;
        let one = one && !self.stopped && !has_all;
        if let Some(silence) = self.last.silence.filter(|_| one) {
            let seconds = silence.as_secs_f64();
            return lost(format!(
                "the receiver has not reported for the last {seconds:.1} s of {sent}: it may not have heard them"
            ));
        }
        if self.last.broken.is_some() && one {
            return lost(format!(
                "the receiver could not be reached any more at the end, after {sent}{open}"
            ));
        }
        if self.last.unheard && one {
            return lost(format!(
                "nothing came back from the receiver in {sent}: check the address and the firewall, and that it listens"
            ));
        }
        if self.last.silent_since_end && one {
            return lost(format!(
                "the receiver did not answer any more at the end, after {sent}{total}: it may have missed the last of it"
            ));
        }
        if peers.dropped > 0 {
            return failed(format!(
                "{} packets are missing in the recording: there was no room to keep them while it could not be reached{}",
                peers.dropped,
                places(self.dropped)
            ));
        }
        if peers.unconfirmed > 0 {
            return failed(format!("{} packets of a recording are not confirmed", peers.unconfirmed));
        }
        let records = self.last.told.unwrap_or(self.playout_delay) == PlayoutDelay::Unbounded;
        let unsent = peers.refused + peers.expired;
        if records && unsent > 0 && !self.stopped {
            return failed(format!(
                "{unsent} packets of a recording were not sent, as the transport did not take them: use tcp or \
                 sctp?reliability=full, which lose nothing"
            ));
        }
        if let Some(pictures) = self.last.pictures_cut_short.filter(|pictures| *pictures > 0) {
            return failed(format!(
                "pictures are missing: their transport carried {pictures} of them, and was not there for the rest"
            ));
        }
        self.cut_short().and_then(failed)
    }

    /// What to say of a source that has ended before its end.
    fn cut_short(&self) -> Option<String> {
        let total = self.total.filter(|total| self.last.position < *total && !self.stopped)?;
        let (sent, total) = (self.seconds(self.last.position), self.seconds(total));
        Some(format!("the source ended after {sent} of {total}: it was cut short while it was read"))
    }

    fn seconds(&self, frames: u64) -> String {
        format!("{:.1} s", MediaTime::new(frames, self.rate).duration().as_secs_f64())
    }
}

/// Where sound was dropped.
fn places(dropped: &[MissingSound]) -> String {
    let place = |one: &MissingSound| format!("{:.1} s at {:.1} s", one.duration_s, one.at_s);
    match dropped {
        [] => String::new(),
        [first, _, _, _, .., last] => {
            format!(" (in {} places, from {} to {})", dropped.len(), place(first), place(last))
        }
        few => format!(" ({})", few.iter().map(place).collect::<Vec<_>>().join(", ")),
    }
}

/// What became of a recording that was completed after its stream: the sample frames that it still misses, or why it was not
/// completed.
pub(super) fn completed(
    result: Result<(u64, u64), String>,
    confirmed_by: ConfirmedBy,
) -> (ConfirmedBy, Option<Shortfall>) {
    let failed = |message| Some(Shortfall { message, kind: ErrorKind::Failed });
    match result {
        Ok((0, _)) => (ConfirmedBy::Receiver, None),
        Ok((missing, _)) => {
            (confirmed_by, failed(format!("{missing} sample frames are still missing in the recording")))
        }
        Err(why) => (confirmed_by, failed(why)),
    }
}

/// The beginning of a sentence on the end of an association with `who`.
pub(crate) fn why(who: &str, reason: CloseReason) -> String {
    let what = match reason {
        CloseReason::Refused => "refuses the connection, perhaps as it has another one,",
        CloseReason::Protocol => "broke the rules of the protocol, and the connection ended,",
        CloseReason::TimedOut => "no longer answers,",
        CloseReason::Restarted => "was started again and does not know the connection,",
        CloseReason::Peer | CloseReason::Local => "ended the connection",
    };
    format!("{who} {what}")
}
