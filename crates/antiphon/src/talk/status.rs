//! State of a call: what the media thread shows of it, and what users see.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::Lines;
use antiphon_session::{Asymmetry, Basis, MouthToEar, Session};

use super::party::{PartiesLook, PartyStatus};
use crate::live::PeakMeter;
use crate::{ReceiveStatus, SendStatus, receive, send};

/// State of a call; reported about ten times a second.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct TalkStatus {
    /// Whether this end's source is muted.
    pub muted: bool,
    /// What this end sends.
    pub sent: SendStatus,
    /// What this end hears.
    pub received: ReceiveStatus,
    /// How long sound takes from mouth to ear; `None` before it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayStatus>,
    /// Of a call over a group: the other parties that are there, in the order of their joining.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parties: Option<Vec<PartyStatus>>,
}

/// How long sound takes from mouth to ear, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct DelayStatus {
    /// From the peer's mouth to our ear.
    pub from_peer_ms: f64,
    /// From our mouth to the peer's ear.
    pub to_peer_ms: f64,
    /// Each of both lies within so much.
    pub half_width_ms: f64,
    /// Both together lie within so much.
    pub sum_half_width_ms: f64,
    /// The least round trip of the network.
    pub network_round_trip_ms: f64,
    /// What the half width rests on.
    pub basis: DelayBasis,
}

/// What the error of one way rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayBasis {
    /// The round trip alone: it holds on any path.
    RoundTrip,
    /// The assumption that neither way takes more than 70 % of the round trip; nothing speaks against it.
    Symmetry,
    /// The round trip alone, since long packets take much longer one way.
    UnequalRates,
    /// The round trip alone, since packets wait much longer one way.
    UnequalQueues,
    /// The round trip alone, since by the clocks of both ends, which nearly agree, one way takes much longer.
    UnequalByClocks,
}

impl DelayBasis {
    /// Why it cannot be told which way takes how much, if it cannot.
    pub fn doubt(self) -> Option<&'static str> {
        match self {
            DelayBasis::RoundTrip | DelayBasis::Symmetry => None,
            DelayBasis::UnequalRates => Some("its rates differ by direction"),
            DelayBasis::UnequalQueues => Some("its queues differ by direction"),
            DelayBasis::UnequalByClocks => Some("by both clocks its delays differ by direction"),
        }
    }
}

impl DelayStatus {
    /// Why it cannot be told which way takes how much, if it cannot, in a sentence with what is known.
    pub(super) fn doubt(self) -> Option<String> {
        let doubt = self.basis.doubt()?;
        let sum = self.from_peer_ms + self.to_peer_ms;
        Some(format!(
            "the path does not take alike both ways: {doubt}. Both ways together take {sum:.0} ms ±{:.1}; which way takes how much cannot \
             be told",
            self.sum_half_width_ms
        ))
    }
}

impl From<MouthToEar> for DelayStatus {
    fn from(known: MouthToEar) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        DelayStatus {
            from_peer_ms: ms(known.from_peer),
            to_peer_ms: ms(known.to_peer),
            half_width_ms: ms(known.half_width),
            sum_half_width_ms: ms(known.sum_half_width),
            network_round_trip_ms: ms(known.round_trip),
            basis: match known.basis {
                Basis::RoundTrip => DelayBasis::RoundTrip,
                Basis::Symmetry => DelayBasis::Symmetry,
                Basis::Asymmetry(Asymmetry::Rate) => DelayBasis::UnequalRates,
                Basis::Asymmetry(Asymmetry::Queueing) => DelayBasis::UnequalQueues,
                Basis::Asymmetry(Asymmetry::Clocks) => DelayBasis::UnequalByClocks,
            },
        }
    }
}

/// Snapshot of the session.
#[derive(Clone, Copy)]
pub(super) struct Snapshot {
    pub sent: send::Snapshot,
    pub received: receive::Snapshot,
    pub delay: Option<MouthToEar>,
    /// Of a call over a group.
    pub parties: Option<PartiesLook>,
}

impl Snapshot {
    pub fn of(session: &mut Session, now: Instant, [own, peers]: [&PeakMeter; 2]) -> Self {
        Snapshot {
            sent: send::Snapshot::of(session, now, own),
            received: receive::Snapshot::of(session, now, peers),
            delay: session.mouth_to_ear(now),
            parties: PartiesLook::of(session),
        }
    }

    /// Also where the peer is.
    pub fn with_peer(self, session: &Session, lines: &Lines<'_>) -> Self {
        let (sent, received) = (self.sent.with_peer(session, lines), self.received.with_peer(session, lines));
        Snapshot {
            sent,
            received,
            parties: self.parties.map(|parties| parties.with_addresses(lines)),
            ..self
        }
    }
}
