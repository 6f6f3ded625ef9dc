//! Heartbeats of both sides, including path MTU probes (RFC 9260 §8.3, RFC 8899 §6.2).

use std::collections::VecDeque;

use antiphon_core::{Instant, PathId};

use super::endpoint::Sctp;
use super::mtu::INFO;
use super::path::Path;
use super::receive::Arrival;
use super::settings::MAX_PATHS;
use super::wire::init::parameter;
use super::wire::{Chunk, HEADER, Tlvs};

/// Contents of the peer's heartbeats, each to be returned to where it came from (RFC 9260 §8.3), in memory held ready.
#[derive(Debug)]
pub(super) struct Echoes {
    waiting: VecDeque<(PathId, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Echoes {
    pub fn new() -> Self {
        let spare = (0..MOST_ECHOES).map(|_| Vec::with_capacity(USUAL_HEARTBEAT)).collect();
        Echoes { waiting: VecDeque::with_capacity(MOST_ECHOES), spare }
    }

    /// Keeps what came by `path`. A peer that sends more at once than there is room for repeats them.
    fn push(&mut self, path: PathId, contents: &[u8]) {
        if let Some(mut bytes) = self.spare.pop() {
            bytes.clear();
            bytes.extend_from_slice(contents);
            self.waiting.push_back((path, bytes));
        }
    }

    /// Has `write` put the oldest into a packet; returns its path.
    pub fn pop<T>(&mut self, write: impl FnOnce(&[u8]) -> T) -> Option<(PathId, T)> {
        let (path, bytes) = self.waiting.pop_front()?;
        let written = write(&bytes);
        self.spare.push(bytes);
        Some((path, written))
    }
}

impl Sctp {
    pub(super) fn handle_heartbeat(&mut self, chunk: &Chunk<'_>, arrival: Arrival) {
        let Some(association) = &mut self.association else { return };
        // The right tag proves that the peer has this association; its contents are returned unchanged.
        if association.tcb.peer_tag != 0 && HEADER + chunk.whole.len() <= self.packet {
            association.echoes.push(arrival.id, chunk.value);
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
            return self.tally.on_malformed();
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
            None => self.tally.on_malformed(),
        }
        association.run_sizes(now);
    }
}

/// Heartbeats that wait to be returned: one for each path.
const MOST_ECHOES: usize = MAX_PATHS;
/// Bytes reserved for a heartbeat's contents: Linux sends an address, a time and a number, some fifty bytes.
const USUAL_HEARTBEAT: usize = 64;
