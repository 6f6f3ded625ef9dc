//! Packets on their way out, one by one, each into the driver's buffer.

use antiphon_core::{Instant, PathId};

use super::association::{Association, Phase};
use super::endpoint::Sctp;
use super::mtu::INFO;
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
        if let Some(sent) = self.last_words(buf) {
            return Some(sent);
        }
        let association = self.association.as_ref()?;
        match association.phase {
            Phase::CookieWait | Phase::CookieEchoed => self.handshake_packet(buf),
            _ => self.path_packet(now, buf).or_else(|| self.main_packet(now, buf)),
        }
    }

    fn header(&self, association: &Association) -> Header {
        let (source, destination) = (self.door.terms.local_port, association.remote_port);
        Header { source, destination, tag: association.peer_tag }
    }

    /// ABORT or SHUTDOWN COMPLETE, after which there is no association.
    fn last_words(&mut self, buf: &mut [u8]) -> Option<(PathId, usize)> {
        let association = self.association.as_ref()?;
        let causes = association.due.abort.as_deref();
        if causes.is_none() && !association.due.shutdown_complete {
            return None;
        }
        let mut writer = Writer::new(buf, self.header(association));
        match causes {
            Some(causes) => writer.chunk(chunk::ABORT, 0, &[causes]),
            None => writer.chunk(chunk::SHUTDOWN_COMPLETE, 0, &[]),
        };
        let sent = (association.paths[association.best_path()].id, writer.finish());
        self.association = None;
        Some(sent)
    }

    fn handshake_packet(&mut self, buf: &mut [u8]) -> Option<(PathId, usize)> {
        let association = self.association.as_ref().filter(|association| association.due.step)?;
        // Another address may answer where the first does not.
        let at = association.greeted_by + association.tries as usize;
        let path = association.paths[at % association.paths.len()].id;
        let len = if association.phase == Phase::CookieWait {
            let value = self.init_value(association);
            let mut writer = Writer::new(buf, Header { tag: 0, ..self.header(association) });
            writer.chunk(chunk::INIT, 0, &[&value]);
            writer.finish()
        } else {
            let mut writer = Writer::new(buf, self.header(association));
            writer.chunk(chunk::COOKIE_ECHO, 0, &[&association.cookie]);
            writer.finish()
        };
        if let Some(association) = &mut self.association {
            association.due.step = false;
        }
        Some((path, len))
    }

    /// Heartbeats and their answers, which belong to a path.
    fn path_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        let association = self.association.as_mut()?;
        let source = self.door.terms.local_port;
        let header = Header { source, destination: association.remote_port, tag: association.peer_tag };
        for path in &mut association.paths {
            if !path.echo.is_empty() {
                let mut writer = Writer::new(buf, header);
                writer.chunk(chunk::HEARTBEAT_ACK, 0, &[&path.echo]);
                path.echo.clear();
                return Some((path.id, writer.finish()));
            }
            if path.probe {
                path.probe = false;
                let nonce = self.door.nonce();
                path.heartbeat = Some((nonce, now));
                let mut writer = Writer::new(buf, header);
                let (kind, len) = (parameter::HEARTBEAT_INFO.to_be_bytes(), (TLV as u16 + 8).to_be_bytes());
                writer.chunk(chunk::HEARTBEAT, 0, &[&kind, &len, &nonce.to_be_bytes()]);
                return Some((path.id, writer.finish()));
            }
            if let Some((info, size)) = path.mtu.next_probe(now, || self.door.nonce())
                && size <= buf.len()
            {
                let mut writer = Writer::new(buf, header);
                let (kind, len) =
                    (parameter::HEARTBEAT_INFO.to_be_bytes(), ((TLV + INFO) as u16).to_be_bytes());
                writer.chunk(chunk::HEARTBEAT, 0, &[&kind, &len, &info]);
                writer.pad_to(size);
                return Some((path.id, writer.finish()));
            }
        }
        None
    }

    /// Control, acknowledgement and payload, in this order.
    fn main_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        let association = self.association.as_mut()?;
        let source = self.door.terms.local_port;
        let header = Header { source, destination: association.remote_port, tag: association.peer_tag };
        let carries = association.will_carry(now, &mut self.queue);
        let best = association.best_path();
        let by = match association.due.cookie_ack {
            Some(path) => path,
            None if carries || !association.paths[association.sack.path].is_good() => best,
            None => association.sack.path,
        };
        let most = association.most_by(by, self.settings.all_paths).min(buf.len());
        let mut writer = Writer::new(&mut buf[..most], header);
        if association.due.cookie_ack.take().is_some() {
            writer.chunk(chunk::COOKIE_ACK, 0, &[]);
        }
        if !association.due.errors.is_empty() {
            writer.chunk(chunk::ERROR, 0, &[&association.due.errors]);
            association.due.errors.clear();
        }
        let held = association.assembly.charged() + self.inbox.fill();
        association.put_acknowledgement(&mut writer, carries, super::settings::WINDOW.saturating_sub(held));
        association.put_forward(now, &mut writer, by, &mut self.skipped);
        association.put_leave(now, &mut writer);
        if carries && by == best {
            association.put_payload(now, &mut writer, by, &mut self.queue);
        }
        if writer.is_empty() {
            return None;
        }
        let (path, len) = (association.paths[by].id, writer.finish());
        if self.settings.all_paths {
            self.copy.0.clear();
            self.copy.0.extend_from_slice(&buf[..len]);
            let others = association.paths.iter().filter(|other| other.confirmed && other.id != path);
            self.copy.1.extend(others.map(|other| other.id));
        }
        Some((path, len))
    }
}

impl Association {
    /// Whether payload would go out now.
    fn will_carry(&self, now: Instant, queue: &mut SendQueue) -> bool {
        if !matches!(self.phase, Phase::Established | Phase::ShutdownReceived) {
            return false;
        }
        let path = &self.paths[self.best_path()];
        if !path.confirmed || (path.flight >= path.window.cwnd && !self.burst) {
            return false;
        }
        self.out.has_lost() || self.out.is_cutting() || queue.peek_ready(now, |_| true).is_some()
    }

    /// Bytes of a packet at most.
    fn most_by(&self, by: usize, all_paths: bool) -> usize {
        let others = self.paths.iter().filter(|path| all_paths && path.confirmed);
        let most = others.map(|path| path.mtu.size()).fold(self.paths[by].mtu.size(), usize::min);
        if self.out.must_resend_larger(most) { usize::MAX } else { most }
    }

    /// A SACK, if one is due, or if there is one to tell and payload to tell it with.
    fn put_acknowledgement(&mut self, writer: &mut Writer<'_>, carries: bool, window: usize) {
        let sack = &mut self.sack;
        let rides = carries && sack.packets > 0;
        if !sack.now && !rides {
            return;
        }
        if writer.sack(self.log.cumulative(), window as u32, self.log.gaps(), self.log.duplicates()) {
            self.log.clear_duplicates();
            (sack.packets, sack.now, sack.at, sack.window) = (0, false, None, window);
        }
    }

    /// FORWARD TSN, if something was given up.
    fn put_forward(
        &mut self,
        now: Instant,
        writer: &mut Writer<'_>,
        by: usize,
        skipped: &mut Vec<super::wire::chunks::Skipped>,
    ) {
        if !self.due.forward {
            return;
        }
        match self.out.forward_point(skipped) {
            None => self.due.forward = false,
            Some(point) => {
                if writer.forward_tsn(self.interleaved, point, skipped) {
                    (self.due.forward, self.forwarded_at) = (false, Some(now));
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
            Phase::ShutdownSent => {
                writer.chunk(chunk::SHUTDOWN, 0, &[&self.log.cumulative().0.to_be_bytes()])
            }
            Phase::ShutdownAckSent => writer.chunk(chunk::SHUTDOWN_ACK, 0, &[]),
            _ => false,
        };
        self.due.step = false;
        if written {
            let patience = self.paths[self.best_path()].rtt.timeout();
            self.t1 = Some(now + patience);
        }
    }

    fn put_payload(&mut self, now: Instant, writer: &mut Writer<'_>, by: usize, queue: &mut SendQueue) {
        if self.out.has_lost() {
            let burst = std::mem::take(&mut self.burst);
            self.out.resend(now, writer, (by, &mut self.paths), queue, burst);
        }
        self.burst = false;
        self.out.send_new(now, writer, (by, &mut self.paths), queue);
        // What was given up just now is told with the next packet.
        self.due.forward |= self.out.takes_news_of_giving_up();
    }
}
