//! Processes packets: the rules of verification tags (RFC 9260 §8.5), then chunk by chunk.

use antiphon_core::{CloseReason, Instant, PathId, Received, Seq32, StreamId};

use super::association::Phase;
use super::endpoint::Sctp;
use super::outgoing::Violation;
use super::received::Heard;
use super::settings::{MAX_MESSAGE, MAX_PATHS, WINDOW};
use super::timers::MOST_PROBES;
use super::validator::Call;
use super::wire::chunks::{DataHeader, ForwardTsn, Sack, Unknown};
use super::wire::writer::{Writer, push_tlv};
use super::wire::{self, Chunk, Chunks, HEADER, Header, REFLECTED, TLV, Tlvs, cause, chunk};

/// Path and time of arrival of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub id: PathId,
    /// Index of its path.
    pub path: usize,
    received_at: Instant,
}

impl Sctp {
    pub(super) fn handle_packet(&mut self, now: Instant, id: PathId, packet: &[u8], received_at: Instant) {
        let Some((header, mut chunks)) = wire::parse(packet) else {
            return self.tally.on_malformed();
        };
        let to_us = header.destination == self.validator.terms.local_port;
        let Some(first) = chunks.clone().next().filter(|_| to_us) else {
            return self.tally.on_malformed();
        };
        if first.kind == chunk::COOKIE_ECHO {
            if !self.handle_cookie(now, id, packet, (header, &first)) {
                return;
            }
            chunks.next();
        }
        let Some(association) = &mut self.association else { return self.validate(now, id, packet) };
        if header.source != association.remote_port {
            return self.tally.on_malformed();
        }
        if first.kind == chunk::INIT {
            let alone = chunks.nth(1).is_none() && header.tag == 0;
            return match alone {
                true => {
                    self.handle_init(now, Call { path: id, asked: packet.len(), header, init: first });
                }
                false => self.tally.on_malformed(),
            };
        }
        if !self.tag_is_good(header, &first, id) {
            return;
        }
        let Some(association) = &mut self.association else { return };
        // A valid packet from an address for which there is no room is processed as one of the first path.
        let path = association.path_of(&self.settings, id, self.packet, now).unwrap_or(0);
        association.silent_since = None;
        self.handle_chunks(now, chunks, Arrival { id, path, received_at });
    }

    /// Whether a packet belongs to this association (§8.5); others are counted, or answered where the RFC requires it.
    fn tag_is_good(&mut self, header: Header, first: &Chunk<'_>, id: PathId) -> bool {
        let Some(association) = &self.association else { return false };
        let ours = header.tag == association.tcb.local_tag;
        let good = match first.kind {
            chunk::ABORT | chunk::SHUTDOWN_COMPLETE if first.flags & REFLECTED != 0 => {
                header.tag == association.tcb.peer_tag && header.tag != 0
            }
            // The peer refers to an association that this side does not know (§8.5.1, E).
            chunk::SHUTDOWN_ACK if association.phase.is_handshake() => {
                let mut bytes = vec![0; HEADER + TLV];
                Writer::only(&mut bytes, header.back(header.tag), chunk::SHUTDOWN_COMPLETE, REFLECTED, &[]);
                if self.answers.is_empty() {
                    self.answers.push_back((id, bytes));
                }
                return false;
            }
            _ => ours,
        };
        if !good {
            self.tally.on_malformed();
        }
        good
    }

    fn handle_chunks(&mut self, now: Instant, mut chunks: Chunks<'_>, arrival: Arrival) {
        let mut brought_data = false;
        for chunk in chunks.by_ref() {
            brought_data |= matches!(chunk.kind, chunk::DATA | chunk::I_DATA);
            if !self.handle_chunk(now, &chunk, arrival) || self.stage.is_over() {
                break;
            }
        }
        if chunks.is_broken() {
            self.tally.on_malformed();
        }
        if let Some(association) = self.association.as_mut().filter(|_| brought_data) {
            association.sack.packets += 1;
            association.sack.path = arrival.path;
            // Every second packet, or after the delay (§6.2).
            association.sack.now |= association.sack.packets >= 2;
            association.sack.at.get_or_insert(now + self.settings.ack_delay);
        }
    }

    /// Returns whether to continue with the next chunk.
    fn handle_chunk(&mut self, now: Instant, chunk: &Chunk<'_>, arrival: Arrival) -> bool {
        match chunk.kind {
            chunk::DATA | chunk::I_DATA => self.handle_data(now, chunk, arrival),
            chunk::SACK => match Sack::parse(chunk.value) {
                Some(sack) => self.handle_sack(now, &sack, arrival.received_at),
                None => self.tally.on_malformed(),
            },
            chunk::FORWARD_TSN | chunk::I_FORWARD_TSN => self.handle_forward(now, chunk, arrival),
            chunk::HEARTBEAT => self.handle_heartbeat(chunk, arrival),
            chunk::HEARTBEAT_ACK => self.handle_heartbeat_ack(now, chunk),
            chunk::INIT_ACK => self.handle_init_ack(now, arrival.path, chunk),
            chunk::COOKIE_ACK => self.handle_cookie_ack(now),
            chunk::ERROR => self.handle_error(now, chunk),
            chunk::ABORT => self.handle_abort(now, chunk, arrival),
            chunk::SHUTDOWN => self.handle_shutdown(now, chunk),
            chunk::SHUTDOWN_ACK => self.handle_shutdown_ack(now),
            chunk::SHUTDOWN_COMPLETE => self.handle_shutdown_complete(now),
            // An INIT travels alone; a second COOKIE ECHO has no effect; no socket here reports congestion marks.
            chunk::INIT | chunk::COOKIE_ECHO | chunk::ECNE | chunk::CWR | chunk::PAD => {}
            other => return self.handle_unknown(other, chunk),
        }
        true
    }

    fn handle_unknown(&mut self, kind: u8, chunk: &Chunk<'_>) -> bool {
        let rule = Unknown::chunk(kind);
        if rule.report {
            self.report(cause::UNRECOGNISED_CHUNK, chunk.whole);
        }
        rule.skip
    }

    /// Puts a cause into the next ERROR, if there is room.
    fn report(&mut self, code: u16, value: &[u8]) {
        let Some(association) = &mut self.association else { return };
        let errors = &mut association.due.errors;
        if association.tcb.peer_tag != 0
            && errors.len() + TLV + value.len() <= MOST_REPORTED.min(self.packet / 2)
        {
            push_tlv(errors, code, &[value]);
        }
    }

    /// Reports a stream that does not exist (RFC 9260 §3.3.10.1); nothing is kept for it.
    fn report_stream(&mut self, stream: u16) {
        let [high, low] = stream.to_be_bytes();
        self.report(cause::INVALID_STREAM, &[high, low, 0, 0]);
    }

    pub(super) fn violated(&mut self, now: Instant, code: u16, value: &[u8]) {
        self.tally.on_malformed();
        let mut causes = Vec::new();
        push_tlv(&mut causes, code, &[value]);
        self.abort(now, causes, CloseReason::Protocol);
    }

    fn handle_data(&mut self, now: Instant, chunk: &Chunk<'_>, arrival: Arrival) {
        let Some((header, payload)) = DataHeader::parse(chunk) else {
            return self.tally.on_malformed();
        };
        let Some(association) = &mut self.association else { return };
        if !matches!(association.phase, Phase::Established | Phase::ShutdownSent) {
            return;
        }
        if header.interleaved != association.tcb.interleaving {
            return self.violated(now, cause::PROTOCOL_VIOLATION, &[]);
        }
        if payload.is_empty() {
            return self.violated(now, cause::NO_USER_DATA, &header.tsn.0.to_be_bytes());
        }
        let had_gaps = association.log.has_gaps();
        let news = association.log.peek(header.tsn);
        match news {
            Heard::New { .. } => self.take_data(now, &header, payload, arrival),
            Heard::Again => {
                self.tally.on_duplicate();
                // With several paths, duplicates are intended.
                if association.paths.len() == 1 {
                    association.log.note_duplicate(header.tsn);
                    association.sack.now = true;
                }
            }
            Heard::Refused => association.sack.now = true,
        }
        if let Some(association) = &mut self.association {
            // A peer that has begun to shut down waits for confirmation that all its data was received.
            association.due.step |= association.phase == Phase::ShutdownSent;
            association.sack.now |= header.immediate || had_gaps || association.log.has_gaps();
        }
    }

    fn take_data(&mut self, now: Instant, header: &DataHeader, payload: &[u8], arrival: Arrival) {
        let Some(association) = &mut self.association else { return };
        let used = association.assembly.charged + self.inbox.fill();
        let fills_gap = header.tsn.is_before(association.log.highest());
        if used + payload.len() > if fills_gap { 2 * WINDOW } else { WINDOW } {
            association.sack.now = true;
            // Messages that can't become complete use all memory, and no TSN is missing.
            let stuck = association.assembly.charged > WINDOW - MAX_MESSAGE;
            if stuck && self.inbox.is_empty() && !association.log.has_gaps() {
                self.violated(now, cause::OUT_OF_RESOURCE, &[]);
            }
            return;
        }
        association.log.enter(header.tsn);
        if header.stream >= association.tcb.in_streams {
            return self.report_stream(header.stream);
        }
        // With several paths, numbers arrive out of order anyway.
        let repaired = fills_gap && association.paths.len() == 1;
        association.assembly.take(header, payload, deliver(&mut self.inbox, arrival, repaired));
    }

    fn handle_forward(&mut self, now: Instant, chunk: &Chunk<'_>, arrival: Arrival) {
        let Some(forward) = ForwardTsn::parse(chunk) else {
            return self.tally.on_malformed();
        };
        let Some(association) = &mut self.association else { return };
        if !matches!(association.phase, Phase::Established | Phase::ShutdownSent) {
            return;
        }
        if (chunk.kind == chunk::I_FORWARD_TSN) != association.tcb.interleaving {
            return self.violated(now, cause::PROTOCOL_VIOLATION, &[]);
        }
        association.sack.now = true;
        association.sack.path = arrival.path;
        association.due.step |= association.phase == Phase::ShutdownSent;
        if !association.log.forward(forward.cumulative) {
            return;
        }
        let (streams, mut stray) = (association.tcb.in_streams, None);
        let there_are = forward.skipped().filter(|skip| {
            let exists = skip.stream < streams;
            stray = stray.or((!exists).then_some(skip.stream));
            exists
        });
        let give = deliver(&mut self.inbox, arrival, false);
        association.assembly.forward(forward.cumulative, there_are, give);
        stray.into_iter().for_each(|stream| self.report_stream(stream));
    }

    fn handle_error(&mut self, now: Instant, chunk: &Chunk<'_>) {
        let stale =
            Tlvs::new(chunk.value).find(|(code, value, _)| *code == cause::STALE_COOKIE && value.len() == 4);
        match stale {
            Some((_, value, _)) => {
                self.handle_stale_cookie(now, u32::from_be_bytes([value[0], value[1], value[2], value[3]]));
            }
            None => self.tally.on_malformed(),
        }
    }

    fn handle_abort(&mut self, now: Instant, chunk: &Chunk<'_>, arrival: Arrival) {
        let Some(association) = &mut self.association else { return };
        let reason = match association.phase {
            Phase::CookieWait | Phase::CookieEchoed => CloseReason::Refused,
            // The peer does not know that address of ours, and treats a heartbeat from there as out of the blue (§8.4).
            // If the association were gone, answers on confirmed paths would show it.
            _ if chunk.flags & REFLECTED != 0 && !association.paths[arrival.path].confirmed => {
                let path = &mut association.paths[arrival.path];
                path.errors = path.errors.max(MOST_PROBES);
                return;
            }
            // §8.4: it knows no such association.
            _ if chunk.flags & REFLECTED != 0 => CloseReason::Restarted,
            _ => CloseReason::Peer,
        };
        self.end(now, self.closed_by(reason));
        self.association = None;
    }

    fn handle_shutdown(&mut self, now: Instant, chunk: &Chunk<'_>) {
        let Some(cumulative) = chunk.value.first_chunk().map(|bytes| Seq32(u32::from_be_bytes(*bytes)))
        else {
            return self.tally.on_malformed();
        };
        let Some(association) = &mut self.association else { return };
        let taken = association.out.on_cumulative(now, cumulative, &mut association.paths, &mut self.queue);
        match taken {
            Err(Violation) => return self.violated(now, cause::PROTOCOL_VIOLATION, &[]),
            Ok(None) => {}
            Ok(Some(acked)) => self.use_ack(now, cumulative, &acked, &[0; MAX_PATHS]),
        }
        let Some(association) = &mut self.association else { return };
        match association.phase {
            Phase::Established => association.phase = Phase::ShutdownReceived,
            // Both sides close at once (§9.2).
            Phase::ShutdownSent => {
                (association.phase, association.due.step) = (Phase::ShutdownAckSent, true);
            }
            Phase::ShutdownAckSent => association.due.step = true,
            Phase::ShutdownReceived | Phase::CookieWait | Phase::CookieEchoed => {}
        }
    }

    fn handle_shutdown_ack(&mut self, now: Instant) {
        let Some(association) = &mut self.association else { return };
        if matches!(association.phase, Phase::ShutdownSent | Phase::ShutdownAckSent) {
            association.due.shutdown_complete = true;
            self.end(now, self.closed_by(CloseReason::Peer));
        }
    }

    fn handle_shutdown_complete(&mut self, now: Instant) {
        if self.association.as_ref().is_some_and(|a| a.phase == Phase::ShutdownAckSent) {
            self.end(now, self.closed_by(CloseReason::Peer));
            self.association = None;
        }
    }
}

/// Puts complete messages into the inbox. `repaired`: part of the first one arrived after later chunks; the others only
/// waited for it.
fn deliver<'a>(
    inbox: &'a mut crate::inbox::Inbox,
    arrival: Arrival,
    mut repaired: bool,
) -> impl FnMut(u16, &[u8]) + 'a {
    move |stream, bytes| {
        if bytes.len() > MAX_MESSAGE {
            return inbox.refuse();
        }
        let received = Received {
            len: bytes.len(),
            path: arrival.id,
            stream: StreamId(stream),
            received_at: arrival.received_at,
            repaired: std::mem::take(&mut repaired),
        };
        inbox.push_received(bytes, received);
    }
}

/// Most bytes of an ERROR's causes.
const MOST_REPORTED: usize = 512;
