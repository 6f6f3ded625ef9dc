//! RTCP on a port of its own, the next after RTP's (RFC 3550 §11): of senders that do not multiplex both (RFC 5761 §5.1.1).

use std::time::Duration;

use antiphon_core::{Instant, PathId, Transmit, WireId};
use antiphon_media::packet::{PacketKind, classify};

use super::Session;
use super::reports::ReportFrom;
use crate::receive_track::ReceiveTrack;

/// A wire that carries nothing but RTCP.
pub(super) struct RtcpWire {
    wire: WireId,
    /// Where our sender's RTCP comes from, and when it last came.
    from: Option<(PathId, Instant)>,
    /// The report that waits to be sent.
    report: Vec<u8>,
    is_ready: bool,
}

impl Session {
    /// Takes the RTCP of the sender that is received on `wire`, too, and answers there once it comes from there.
    pub fn listen_for_rtcp(&mut self, wire: WireId) {
        let report = Vec::with_capacity(self.report.len());
        self.rtcp_wire = Some(RtcpWire { wire, from: None, report, is_ready: false });
    }

    /// A datagram on the wire for RTCP; returns whether `wire` is that one.
    pub(super) fn on_rtcp_wire(&mut self, now: Instant, wire: WireId, path: PathId, bytes: &[u8]) -> bool {
        let Some(rtcp_wire) = self.rtcp_wire.as_mut().filter(|own| own.wire == wire) else { return false };
        let followed = self.receive.as_ref().and_then(ReceiveTrack::followed);
        let is_rtcp = classify(bytes) == Some(PacketKind::Rtcp);
        let of_our_sender = followed.is_some_and(|ssrc| bytes.get(4..8) == Some(&ssrc.to_be_bytes()[..]));
        let (Some(at), true) = (self.single, is_rtcp && of_our_sender) else {
            // A sender's first report may come before its first sound.
            self.unknown_sources += u64::from(!is_rtcp || followed.is_some());
            return true;
        };
        // Who knows the SSRC does not take the place of the sender's own address while that is heard.
        if rtcp_wire.heard(now).is_none_or(|known| known == path) {
            rtcp_wire.from = Some((path, now));
        }
        self.on_rtcp(now, (at, now), bytes, false, ReportFrom::Elsewhere);
        true
    }

    /// Puts the first `len` bytes of the report on the wire for RTCP, if the sender's comes from there.
    pub(super) fn report_apart(&mut self, now: Instant, len: usize) -> bool {
        let Some(wire) = self.rtcp_wire.as_mut().filter(|wire| wire.heard(now).is_some()) else {
            return false;
        };
        wire.report.clear();
        wire.report.extend_from_slice(&self.report[..len]);
        wire.is_ready = true;
        true
    }

    pub(super) fn poll_rtcp_wire(&mut self) -> Option<WireId> {
        let wire = self.rtcp_wire.as_mut()?;
        std::mem::take(&mut wire.is_ready).then_some(wire.wire)
    }

    pub(super) fn transmit_rtcp(&mut self, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        let own = self.rtcp_wire.as_mut().filter(|own| own.wire == wire && !own.report.is_empty())?;
        let (path, _) = own.from?;
        let len = own.report.len();
        buf.get_mut(..len)?.copy_from_slice(&own.report);
        own.report.clear();
        Some(Transmit { path, len })
    }

    pub(super) fn knows_rtcp(&self, wire: WireId, path: PathId) -> bool {
        let own = self.rtcp_wire.as_ref().filter(|own| own.wire == wire);
        own.and_then(|own| own.from).is_some_and(|(known, _)| known == path)
    }
}

impl RtcpWire {
    /// Where the sender's reports come from, while they do.
    fn heard(&self, now: Instant) -> Option<PathId> {
        self.from.filter(|(_, at)| now.since(*at) <= SILENT).map(|(path, _)| path)
    }
}

/// Five intervals of 5 s (RFC 3550 §6.3.5): nothing is sent to an address that has been silent for longer.
const SILENT: Duration = Duration::from_secs(25);
