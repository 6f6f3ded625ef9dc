//! The figures of a stream, of its meter and of all that is beside it.

use antiphon_measure::percent;
use antiphon_session::{Change, Session};

use super::network::Network;
use super::packet::Tally;
use super::socket::Socket;
use crate::figures::StreamFigures;

/// Playout results of a receiver of sound.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// Packets that came after their playout time.
    late: u64,
    /// Concealed sound, as a share of all that was played.
    concealed_percent: Option<f64>,
}

impl Played {
    /// `None` before anything was heard.
    pub fn of(session: &Session) -> Option<Played> {
        let playout = session.receive_track()?.playout()?;
        let concealed = playout.concealed_frames;
        let concealed_percent = percent(concealed, playout.played_frames + concealed);
        Some(Played { late: playout.late, concealed_percent })
    }

    /// Adds it to the figures of arrivals.
    pub fn add_to(&self, figures: &mut StreamFigures) {
        let late = figures.sent.filter(|sent| *sent > 0.0).map(|sent| 100.0 * self.late as f64 / sent);
        figures.late_percent = late;
        figures.missing_percent = figures.missing_percent.zip(late).map(|(missing, late)| missing + late);
        figures.concealed_percent = self.concealed_percent;
    }
}

/// The figures of a stream at one of its receivers.
pub fn figures(sender: &Socket, receiver: &Socket, flows: &[u32], net: &Network) -> StreamFigures {
    // A reflector measures nothing itself, and its sender does; where neither has a meter, every figure is "not measured".
    let mut measured =
        receiver.participant().figures().or_else(|| sender.participant().figures()).unwrap_or_default();
    if let Some(copies) = sender.copies() {
        copies.borrow().causes().add_to(&mut measured);
    }
    let repeated = match (sender.stream_ends().next(), flows) {
        (Some(end), [_]) => Some(end.tcp.stats().retransmitted_segments),
        (None, [_]) => Some(sender.participant().counters().retransmitted),
        // Those of transports that are no longer used are not known.
        _ => None,
    };
    let sum =
        |of: fn(&Tally) -> u64| Some(flows.iter().map(|flow| of(net.pool.tally(*flow))).sum::<u64>() as f64);
    let wire_bytes = flows.iter().map(|flow| net.flow(*flow as usize).wire_bytes).sum::<u64>();
    let failed = sender.changes().iter().filter(|(_, change)| matches!(change, Change::Failed(..))).count();
    StreamFigures {
        changes_failed: (flows.len() > 1).then_some(failed as f64),
        wire_bytes: Some(wire_bytes as f64),
        retransmissions: repeated.map(|count| count as f64),
        mac_exhausted: sum(|tally| tally.exhausted.get()),
        queue_dropped: sum(|tally| tally.overflowed.get()),
        ..measured
    }
}
