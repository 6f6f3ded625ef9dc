//! Heartbeats of both sides, including path MTU probes (RFC 9260 §8.3, RFC 8899 §6.2).

use antiphon_core::Instant;

use super::endpoint::Sctp;
use super::mtu::INFO;
use super::path::Path;
use super::receive::Arrival;
use super::wire::init::parameter;
use super::wire::{Chunk, HEADER, Tlvs};

impl Sctp {
    pub(super) fn handle_heartbeat(&mut self, chunk: &Chunk<'_>, arrival: Arrival) {
        let Some(association) = &mut self.association else { return };
        // The right tag proves that the peer has this association; its contents are returned unchanged.
        if association.peer_tag != 0 && HEADER + chunk.whole.len() <= self.packet {
            let echo = &mut association.paths[arrival.path].echo;
            echo.clear();
            echo.extend_from_slice(chunk.value);
        }
    }

    pub(super) fn handle_heartbeat_ack(&mut self, now: Instant, chunk: &Chunk<'_>) {
        let Some(association) = &mut self.association else { return };
        let info = Tlvs::new(chunk.value).find(|(kind, ..)| *kind == parameter::HEARTBEAT_INFO);
        let info = info.map_or(&[][..], |(_, value, _)| value);
        // The length tells which kind of heartbeat was answered; any other length answers none and is counted.
        if let Ok(info) = <&[u8; INFO]>::try_from(info) {
            return self.handle_probe_answer(now, info);
        }
        let is_its = |path: &Path| path.heartbeat.is_some_and(|(nonce, _)| nonce.to_be_bytes() == *info);
        let Some(at) = association.paths.iter().position(is_its) else {
            self.counters.malformed += 1;
            return;
        };
        let interval = association.heartbeat_interval(&self.settings, at);
        let path = &mut association.paths[at];
        if let Some((_, sent_at)) = path.heartbeat.take() {
            path.rtt.on_sample(now.since(sent_at));
        }
        path.answered();
        path.heartbeat_at = now + interval;
    }

    /// A path MTU probe was answered.
    fn handle_probe_answer(&mut self, now: Instant, info: &[u8; INFO]) {
        let Some(association) = &mut self.association else { return };
        let answered =
            association.paths.iter_mut().find_map(|path| Some((path.mtu.on_answer(now, info)?, path)));
        match answered {
            Some((rtt, path)) => {
                path.answered();
                rtt.into_iter().for_each(|rtt| path.rtt.on_sample(rtt));
            }
            None => self.counters.malformed += 1,
        }
        association.run_sizes(now);
    }
}
