//! What one transport's run of a comparison came to.

use std::time::Duration;

use antiphon_core::Profile;
use antiphon_measure::{LoggedPacket, PacketLog, PictureLog, RunFacts, TransportFigures};

use crate::LinkCounts;
use crate::near_end::NearResult;
use crate::transport::TransportChoice;

/// One transport's run, measured.
pub(crate) struct Measured {
    pub choice: TransportChoice,
    pub log: PacketLog,
    /// Those beside the sound.
    pub pictures: Option<PictureLog>,
    pub figures: TransportFigures,
    pub latency: Duration,
    /// What its endpoint promised.
    pub profile: Profile,
    pub header_bytes: u32,
}

impl Measured {
    pub fn new(
        choice: TransportChoice,
        result: NearResult,
        link: &str,
        crossed: Option<&LinkCounts>,
    ) -> Self {
        let mut notes = result.facts;
        if let Some(LinkCounts { up, down, .. }) = crossed {
            notes.push(format!(
                "the link dropped {} of {} packets on the way out and {} of {} on the way back (loss {}, full queue {})",
                up.lost + up.overflowed,
                up.offered,
                down.lost + down.overflowed,
                down.offered,
                up.lost + down.lost,
                up.overflowed + down.overflowed,
            ));
        }
        let facts = RunFacts {
            transport: choice.label.clone(),
            link: link.into(),
            // The link's own count where there is one: it includes headers, acknowledgements and the kernel's
            // retransmissions.
            wire_bytes: crossed.map_or(result.wire_bytes, |crossed| crossed.up.offered_bytes),
            media_bytes: result.media_bytes,
            pictures: result.pictures.as_ref().map(|(_, figures)| *figures),
            cpu: Some(result.cpu),
            duration: result.duration,
            notes,
        };
        let figures = TransportFigures::new(&result.log, &facts);
        Measured {
            choice,
            log: result.log,
            pictures: result.pictures.map(|(log, _)| log),
            figures,
            latency: result.latency,
            profile: result.profile,
            header_bytes: result.header_bytes,
        }
    }

    /// From mouth to ear, in milliseconds: the length of a packet and its way, which is half a round trip where it could not be
    /// measured; `None` for packets that did not come.
    pub fn mouth_to_ear_ms(&self) -> Vec<Option<f32>> {
        let one_clock = self.figures.one_way_ms.is_some();
        let way = |row: LoggedPacket| if one_clock { row.one_way } else { row.rtt().map(|rtt| rtt / 2) };
        let delay = |row| way(row).map(|way| (self.figures.packet_ms + way.as_secs_f64() * 1e3) as f32);
        self.log.rows().map(delay).collect()
    }
}
