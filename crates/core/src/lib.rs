//! What every room of Antiphon shares: time, units, serial numbers, URIs, a fixed random generator and the
//! transport trait.
//!
//! Nothing here touches a socket, a clock, a thread or the operating system's randomness: the real world (`net`) and
//! the virtual one (`lab`) drive the same state machines by passing time and bytes in.

mod doorkeeper;
mod endpoint;
pub mod over_ip;
mod rng;
mod serial;
mod time;
pub mod units;
mod unwrap;
pub mod uri;

pub use doorkeeper::{Doorkeeper, Meeting};
pub use endpoint::{
    BrokenReason, CloseMode, CloseReason, Counters, Ecn, Endpoint, Event, Frame, FrameId, Input,
    KernelReport, Outcome, PathId, PathStats, Profile, Received, SendError, StreamId, Transmit, Wire,
};
pub use over_ip::OverIp;
pub use rng::Rng;
pub use serial::{Seq16, Seq32, Unwrapper};
pub use time::{Epoch, Instant, MediaTime, NtpTime};
pub use units::{BitRate, ByteCount, Ppm, Ratio, UnitError};
pub use unwrap::{Bare, Inside, Look, Piece, Unwrap};

/// The edit-distance-nearest of `known` to `word`, if near enough to be a slip of the keyboard.
///
/// Used wherever a name is refused, so that the error can offer the name that was probably meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count().max(3) / 2).min(3);
    known
        .into_iter()
        .map(|candidate| (edit_distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= limit || candidate.starts_with(word) && word.len() > 1)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// What an error adds for [`nearest`]: `, did you mean 'rtp'?`, or nothing.
pub fn did_you_mean(nearest: Option<impl AsRef<str>>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean '{}'?", name.as_ref()))
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours each cost one.
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + substitution);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn nearest_offers_slips_and_refuses_strangers() {
        let known = ["rtp", "tcp", "sctp", "latency", "loss"];
        assert_eq!(nearest("rpt", known), Some("rtp"));
        assert_eq!(nearest("latncy", known), Some("latency"));
        assert_eq!(nearest("lat", known), Some("latency"));
        assert_eq!(nearest("quicksilver", known), None);
    }
}
