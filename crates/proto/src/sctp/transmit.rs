//! Writes packets one by one into the driver's buffer.

use std::time::Duration;

use antiphon_core::{Instant, PathId};

use super::association::{Association, Phase};
use super::endpoint::Sctp;
use super::outgoing::Departure;
use super::settings::WINDOW;
use super::wire::chunks::Skipped;
use super::wire::init::parameter;
use super::wire::writer::Writer;
use super::wire::{Header, TLV, chunk};
use crate::queue::SendQueue;

impl Sctp {
    /// The next packet: its path and length.
    pub(super) fn next_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        if let Some((path, answer)) = self.answers.pop_front() {
            buf[..answer.len()].copy_from_slice(&answer);
            return Some((path, answer.len()));
        }
        if let Some(path) = self.copy.1.pop() {
            buf[..self.copy.0.len()].copy_from_slice(&self.copy.0);
            return Some((path, self.copy.0.len()));
        }
        let most = self.packet.min(buf.len());
        let buf = &mut buf[..most];
        if let Some(sent) = self.final_packet(buf) {
            return Some(sent);
        }
        let association = self.association.as_ref()?;
        match association.phase {
            Phase::CookieWait | Phase::CookieEchoed => self.handshake_packet(now, buf),
            _ => self.path_packet(now, buf).or_else(|| self.main_packet(now, buf)),
        }
    }

    /// Writes ABORT or SHUTDOWN COMPLETE, after which there is no association.
    fn final_packet(&mut self, buf: &mut [u8]) -> Option<(PathId, usize)> {
        let association = self.association.as_ref()?;
        let causes = association.due.abort.as_deref();
        if causes.is_none() && !association.due.shutdown_complete {
            return None;
        }
        let (kind, causes) =
            causes.map_or((chunk::SHUTDOWN_COMPLETE, &[][..]), |causes| (chunk::ABORT, causes));
        let len = Writer::only(buf, association.header(), kind, 0, &[causes]);
        let sent = (association.paths[association.best_path()].id, len);
        self.association = None;
        Some(sent)
    }

    fn handshake_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        let association = self.association.as_ref().filter(|association| association.due.step)?;
        // Tries another address in turn, as the first may not answer.
        let at = (association.init_path + association.tries as usize) % association.paths.len();
        let path = association.paths[at].id;
        let len = if association.phase == Phase::CookieWait {
            let header = Header { tag: 0, ..association.header() };
            Writer::only(buf, header, chunk::INIT, 0, &[&self.init_value(association)])
        } else {
            let mut writer = Writer::new(buf, association.header());
            writer.chunk(chunk::COOKIE_ECHO, 0, &[&association.cookie]);
            // What waits already comes with it (RFC 9260 §5.1, C); what is lost with it is sent again later.
            if let Some(association) = self.association.as_mut().filter(|one| one.tries == 0) {
                association.put_payload(now, &mut writer, at, &mut self.queue, self.settings.ack_delay);
            }
            writer.finish()
        };
        if let Some(association) = &mut self.association {
            association.due.step = false;
        }
        Some((path, len))
    }

    /// Heartbeats and their answers, which belong to one path.
    fn path_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        let association = self.association.as_mut()?;
        let header = association.header();
        let echoed = association
            .echoes
            .pop(|contents| Writer::only(buf, header, chunk::HEARTBEAT_ACK, 0, &[contents]));
        if echoed.is_some() {
            return echoed;
        }
        for path in &mut association.paths {
            if path.probe {
                path.probe = false;
                let nonce = self.validator.nonce();
                path.heartbeat = Some((nonce, now));
                let mut writer = Writer::new(buf, header);
                put_heartbeat(&mut writer, &nonce.to_be_bytes());
                return Some((path.id, writer.finish()));
            }
            if let Some((info, size)) = path.mtu.next_probe(now, || self.validator.nonce())
                && size <= buf.len()
            {
                let mut writer = Writer::new(buf, header);
                put_heartbeat(&mut writer, &info);
                writer.pad_to(size);
                return Some((path.id, writer.finish()));
            }
        }
        None
    }

    /// Control chunks, SACK and payload, in this order.
    fn main_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        let association = self.association.as_mut()?;
        let header = association.header();
        let carries = association.will_carry(now, &mut self.queue);
        let by = association.path_for(carries);
        let most = association.most_by(by, self.settings.all_paths).min(buf.len());
        let mut writer = Writer::new(&mut buf[..most], header);
        association.put_control(&mut writer);
        let window = WINDOW.saturating_sub(association.assembly.charged + self.inbox.fill());
        association.put_acknowledgement(&mut writer, carries, window);
        association.put_forward(now, &mut writer, by, &mut self.skipped);
        association.put_leave(now, &mut writer);
        if carries && by == association.best_path() {
            association.put_payload(now, &mut writer, by, &mut self.queue, self.settings.ack_delay);
        }
        if writer.is_empty() {
            return None;
        }
        let (path, len) = (association.paths[by].id, writer.finish());
        if self.settings.all_paths {
            let others = association.paths.iter().filter(|other| other.confirmed && other.id != path);
            self.copy.1.extend(others.map(|other| other.id));
            self.copy.0.clear();
            self.copy.0.extend_from_slice(&buf[..len]);
        }
        Some((path, len))
    }
}

/// A heartbeat that carries `info`.
fn put_heartbeat(writer: &mut Writer<'_>, info: &[u8]) {
    let (kind, len) = (parameter::HEARTBEAT_INFO.to_be_bytes(), ((TLV + info.len()) as u16).to_be_bytes());
    writer.chunk(chunk::HEARTBEAT, 0, &[&kind, &len, info]);
}

impl Association {
    fn header(&self) -> Header {
        Header { source: self.local_port, destination: self.remote_port, tag: self.tcb.peer_tag }
    }

    /// The path of a packet: for an answer, the path on which the cookie or the last payload arrived; with our own
    /// payload, the best path.
    fn path_for(&self, carries: bool) -> usize {
        match self.due.cookie_ack {
            Some(path) => path,
            None if carries || !self.paths[self.sack.path].is_good() => self.best_path(),
            None => self.sack.path,
        }
    }

    /// Writes COOKIE ACK and ERROR.
    fn put_control(&mut self, writer: &mut Writer<'_>) {
        if self.due.cookie_ack.take().is_some() {
            writer.chunk(chunk::COOKIE_ACK, 0, &[]);
        }
        if !self.due.errors.is_empty() {
            writer.chunk(chunk::ERROR, 0, &[&self.due.errors]);
            self.due.errors.clear();
        }
    }

    /// Whether payload can be sent now.
    fn will_carry(&mut self, now: Instant, queue: &mut SendQueue) -> bool {
        if !matches!(self.phase, Phase::Established | Phase::ShutdownReceived) {
            return false;
        }
        let best = self.best_path();
        let path = &mut self.paths[best];
        if path.tail.now && path.flight > 0 {
            return true;
        }
        let waits =
            self.out.lost > 0 || !self.out.cutting.is_empty() || queue.peek_ready(now, |_| true).is_some();
        if !path.confirmed || !waits {
            return false;
        }
        let has_window = path.flight < path.window.cwnd || self.burst;
        if !has_window {
            path.on_blocked(now);
        }
        has_window
    }

    /// Largest packet in bytes.
    fn most_by(&self, by: usize, all_paths: bool) -> usize {
        let others = self.paths.iter().filter(|path| all_paths && path.confirmed);
        let most = others.map(|path| path.mtu.size()).fold(self.paths[by].mtu.size(), usize::min);
        if self.out.must_resend_larger(most) { usize::MAX } else { most }
    }

    /// Writes a SACK if one is due, or if there is something to acknowledge and payload to send with it.
    fn put_acknowledgement(&mut self, writer: &mut Writer<'_>, carries: bool, window: usize) {
        let sack = &mut self.sack;
        let rides = carries && sack.packets > 0;
        if !sack.now && !rides {
            return;
        }
        if writer.sack(self.log.cumulative, window as u32, self.log.gaps(), &self.log.duplicates) {
            self.log.duplicates.clear();
            (sack.packets, sack.now, sack.at, sack.window) = (0, false, None, window);
        }
    }

    /// Writes a FORWARD TSN, if something was given up; what is given up for this packet comes with the next one.
    fn put_forward(&mut self, now: Instant, writer: &mut Writer<'_>, by: usize, skipped: &mut Vec<Skipped>) {
        if !self.out.forward_due {
            return;
        }
        match self.out.forward_point(skipped) {
            None => self.out.forward_due = false,
            Some(point) => {
                if writer.forward_tsn(self.tcb.interleaving, point, skipped) {
                    (self.out.forward_due, self.forwarded_at) = (false, Some(now));
                    if self.paths[by].t3.is_none() {
                        self.paths[by].start_t3(now);
                    }
                }
            }
        }
    }

    fn put_leave(&mut self, now: Instant, writer: &mut Writer<'_>) {
        let written = match self.phase {
            _ if !self.due.step => return,
            Phase::ShutdownSent => writer.chunk(chunk::SHUTDOWN, 0, &[&self.log.cumulative.0.to_be_bytes()]),
            Phase::ShutdownAckSent => writer.chunk(chunk::SHUTDOWN_ACK, 0, &[]),
            _ => false,
        };
        self.due.step = false;
        if written {
            let patience = self.paths[self.best_path()].rtt.rto();
            self.t1 = Some(now + patience);
        }
    }

    fn put_payload(
        &mut self,
        now: Instant,
        writer: &mut Writer<'_>,
        by: usize,
        queue: &mut SendQueue,
        ack_delay: Duration,
    ) {
        let burst = std::mem::take(&mut self.burst);
        let (probes, before) = (std::mem::take(&mut self.paths[by].tail.now), self.out.highest());
        let mut packet = Departure { now, writer, by, paths: &mut self.paths, queue };
        self.out.resend(&mut packet, burst);
        self.out.send_new(&mut packet, probes);
        let is_new = self.out.highest() != before;
        let probe = match probes {
            true if is_new => Some(self.out.highest()),
            true => self.out.resend_last(&mut packet),
            false => None,
        };
        if let Some(tsn) = probe {
            self.paths[by].tail.on_send(tsn, !is_new);
        }
        if is_new {
            self.schedule_probe(now, ack_delay);
        }
    }
}
