//! What every crate of Antiphon shares: time, units, serial numbers, URIs, a seeded random generator, and the traits of
//! transports ([`Endpoint`], [`Layer`], [`Stack`], [`Validator`], [`Dissector`], [`OverIp`]) and of what drivers run
//! ([`Participant`], [`pump`]).
//!
//! Nothing here touches a socket, a clock, a thread or the operating system's randomness: the real world (`net`) and
//! the virtual one (`lab`) drive the same state machines by passing in time and bytes.

mod around;
pub mod cc;
mod connection_id;
mod dissector;
mod endpoint;
mod event;
mod input;
mod layer;
mod message;
mod one_wire;
mod over_ip;
mod participant;
mod rng;
mod secret;
mod serial;
mod stack;
mod stats;
mod time;
pub mod units;
pub mod uri;
mod validator;
pub mod wire;

pub use around::Around;
pub use connection_id::ConnectionId;
pub use dissector::{Dissected, Dissector, Fragment, OverIpPacket, Plain};
pub use endpoint::{Capabilities, Endpoint, Profile, handle_due};
pub use event::{CloseMode, CloseReason, Event, Outcome};
pub use input::{BrokenReason, Input, KernelReport, PathId, Transmit, Wire};
pub use layer::Layer;
pub use message::{Message, Received, SendError, StreamId, Tag};
pub use one_wire::{Lent, OnEndpoint, OneWire, Single};
pub use over_ip::{OverIp, first_ports};
pub use participant::{
    MOST_BUSY, MOST_ROUNDS, Participant, Pumped, WireId, WireView, Wires, pump, sooner, soonest,
};
pub use rng::Rng;
pub use secret::{Draws, Secret};
pub use serial::{Seq16, Seq32, Unwrapper};
pub use stack::{Role, Stack};
pub use stats::{Counters, PathStats};
pub use time::{DEFAULT_LATENCY, Epoch, Instant, MediaTime, NtpTime};
pub use units::{BitRate, ByteCount, Ppm, Ratio, UnitError};
pub use validator::{StreamPlace, Validator, Verdict};

/// The most similar of `known` to `word`, if similar enough to be a typing error: insertions, deletions, substitutions
/// and swaps of neighbours count one each.
///
/// Used wherever a name is refused, so that the error can offer the name that was probably meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count().max(3) / 2).min(3);
    // Foreign input may be of any length; comparing the beginning is enough.
    let start = |text: &str| text.to_lowercase().chars().take(64).collect::<String>();
    let typed = start(word);
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&typed, &start(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= limit || candidate.starts_with(word) && word.len() > 1)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The suffix of an error for [`nearest`]: `, did you mean 'rtp'?`, or nothing.
pub fn did_you_mean(nearest: Option<impl AsRef<str>>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean '{}'?", name.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn nearest_offers_typing_errors_and_nothing_else() {
        let known = ["rtp", "tcp", "sctp", "latency", "loss"];
        assert_eq!(nearest("rpt", known), Some("rtp"));
        assert_eq!(nearest("latncy", known), Some("latency"));
        assert_eq!(nearest("lat", known), Some("latency"));
        assert_eq!(nearest("quicksilver", known), None);
        assert_eq!(nearest(&"latency".repeat(100_000), known), None);
    }
}
