//! Sets up an association (RFC 9260 §5.1), and handles INITs and cookies during one (§5.2).

use antiphon_core::{CloseReason, Instant, PathId, Seq32, Verdict};

use super::association::{Association, Phase};
use super::cookie::{Opened, Tcb};
use super::endpoint::Sctp;
use super::validator::{Call, INIT_ACK_LEN, Standing};
use super::wire::init::{InitFields, Offer, parameter};
use super::wire::writer::push_tlv;
use super::wire::{Chunk, HEADER, Header, TLV, cause};
use crate::patience::UNANSWERED;

impl Sctp {
    /// Sends the INIT.
    pub(super) fn call(&mut self, now: Instant) {
        if let Some(association) = &mut self.association
            && association.phase == Phase::CookieWait
        {
            association.due.step = true;
            association.t1 = Some(now + self.settings.rto.initial);
            association.tell_at = Some(now + UNANSWERED);
        }
    }

    /// The value of this side's INIT.
    pub(super) fn init_value(&self, association: &Association) -> Vec<u8> {
        let most = self.validator.terms.init_ack_len();
        let mut value = Vec::with_capacity(most);
        let fields = self.validator.terms.init_fields(association.tcb.local_tag, association.tcb.local_tsn);
        value.extend_from_slice(&fields.emit());
        self.validator.terms.put_offer(self.validator.terms.interleaving, &mut value);
        if let Some(longer) = association.due.preservative {
            push_tlv(&mut value, parameter::COOKIE_PRESERVATIVE, &[&longer.to_be_bytes()]);
        }
        // The answer must not be longer, even with as many addresses: listeners like ours limit answers to shorter
        // INITs.
        let missing = most.saturating_sub(HEADER + TLV + value.len());
        if missing >= TLV {
            push_tlv(&mut value, parameter::PADDING, &[&[0; INIT_ACK_LEN][..missing - TLV]]);
        }
        value
    }

    /// Handles a packet from an unknown source, without keeping state.
    pub(super) fn validate(&mut self, now: Instant, path: PathId, packet: &[u8]) {
        match self.validator.validate_packet(now, path, packet) {
            Verdict::Reply { .. } => self.answer(path),
            Verdict::Accept | Verdict::AcceptWith { .. } => {}
            Verdict::Ignore => self.tally.on_malformed(),
        }
    }

    fn answer(&mut self, path: PathId) {
        if self.answers.len() < MOST_ANSWERS {
            self.answers.push_back((path, self.validator.answer().to_vec()));
        }
    }

    /// An INIT during an association: nothing changes until its cookie comes back (§5.2.1, §5.2.2).
    pub(super) fn handle_init(&mut self, now: Instant, call: Call<'_>) {
        let Some(association) = &mut self.association else { return };
        let ties = [association.tcb.local_tag, association.tcb.peer_tag];
        let same = Some((association.tcb.local_tag, association.tcb.local_tsn));
        let standing = match association.phase {
            Phase::CookieWait => Standing { own: same, ties: [0; 2] },
            Phase::CookieEchoed => Standing { own: same, ties },
            Phase::ShutdownAckSent => {
                association.due.step = true;
                return;
            }
            _ => Standing { own: None, ties },
        };
        // The path in the validator's numbering, if it saw one: here every path is 0.
        let sealed_for = Call { path: self.cookie_path.unwrap_or(call.path), ..call };
        match self.validator.on_init(now, sealed_for, standing) {
            Verdict::Reply { .. } => self.answer(call.path),
            _ => self.tally.on_malformed(),
        }
    }

    pub(super) fn handle_init_ack(&mut self, now: Instant, path: usize, chunk: &Chunk<'_>) {
        let Some(association) = self.association.as_mut().filter(|a| a.phase == Phase::CookieWait) else {
            return;
        };
        let Some((peer, parameters)) = InitFields::parse(chunk.value).filter(|(peer, _)| peer.tag != 0)
        else {
            return self.tally.on_malformed();
        };
        let mut reports = Vec::new();
        let offer = Offer::read(parameters, |whole| {
            if reports.len() + whole.len() <= MOST_REPORTED {
                reports.resize(reports.len().next_multiple_of(4), 0);
                reports.extend_from_slice(whole);
            }
        });
        if self.validator.terms.interleaving && offer.interleaves_otherwise {
            // The peer accepted our INIT but keeps no state for it: another INIT begins anew.
            self.validator.terms.interleaving = false;
            association.due.step = true;
            return;
        }
        let cookie = offer.cookie.filter(|cookie| HEADER + TLV + cookie.len() <= self.packet);
        let (Some(cookie), true, None) = (cookie, peer.is_valid(), offer.unresolvable) else {
            association.tcb.peer_tag = peer.tag;
            let mut causes = Vec::new();
            push_tlv(&mut causes, cause::INVALID_PARAMETER, &[]);
            return self.abort(now, causes, CloseReason::Protocol);
        };
        let own = (association.tcb.local_tag, association.tcb.local_tsn);
        let tcb = self.validator.terms.tcb(&peer, &offer, own, [0; 2]);
        association.begin(&self.settings, &tcb, self.packet, now);
        association.phase = Phase::CookieEchoed;
        association.cookie.clear();
        association.cookie.extend_from_slice(cookie);
        if !reports.is_empty() {
            push_tlv(&mut association.due.errors, cause::UNRECOGNISED_PARAMETERS, &[&reports]);
        }
        // The cookie is returned on the path on which it arrived (§5.1, C).
        (association.due.step, association.tries, association.init_path) = (true, 0, path);
        association.t1 = Some(now + self.settings.rto.initial);
    }

    /// Handles a returned cookie: it must be ours, fresh, and sealed for this path; others are counted and dropped.
    /// Returns whether to process the rest of its packet.
    pub(super) fn handle_cookie(
        &mut self,
        now: Instant,
        path: PathId,
        packet: &[u8],
        (header, chunk): (Header, &Chunk<'_>),
    ) -> bool {
        // The reason for a refusal is reported below, as for an unknown source.
        let opened = Opened::open(&self.validator.keys, now, header, chunk.value).ok();
        // Behind a validator every path is 0 and the validator has compared it; an existing peer keeps its path.
        let is_ours = |claimed| {
            (path == PathId::default() || claimed == path)
                && self.cookie_path.is_none_or(|kept| kept == claimed)
        };
        let opened = opened.filter(|o| is_ours(o.path) && o.tcb.local_tag == header.tag);
        let Some(Opened { tcb, path: sealed_for }) = opened else {
            // Reports a stale cookie to the peer.
            self.validate(now, path, packet);
            return false;
        };
        let taken = match &self.association {
            None => self.take_in(now, path, header, &tcb),
            Some(_) => self.compare_tags(now, path, header, &tcb),
        };
        if taken {
            self.cookie_path = Some(sealed_for);
        }
        taken
    }

    fn take_in(&mut self, now: Instant, path: PathId, header: Header, tcb: &Tcb) -> bool {
        self.validator.stir(tcb);
        let mut association = Association::answering(
            &self.settings,
            (header.destination, header.source),
            tcb,
            path,
            self.packet,
            now,
        );
        association.due.cookie_ack = Some(0);
        self.association = Some(Box::new(association));
        self.open();
        true
    }

    /// §5.2.4, table 12.
    fn compare_tags(&mut self, now: Instant, path: PathId, header: Header, tcb: &Tcb) -> bool {
        let Some(association) = &mut self.association else { return false };
        if header.source != association.remote_port {
            self.tally.on_malformed();
            return false;
        }
        let (local, peer) =
            (tcb.local_tag == association.tcb.local_tag, tcb.peer_tag == association.tcb.peer_tag);
        let both_ties = tcb.ties == [association.tcb.local_tag, association.tcb.peer_tag] && tcb.ties[0] != 0;
        match (local, peer) {
            // A: the peer has restarted.
            (false, false) if both_ties => self.restart(now, path, tcb),
            // B: both sides called at once.
            (true, false) => self.collide(now, path, tcb),
            // D: a duplicate; the acknowledgement of the first one may have been lost.
            (true, true) => {
                if association.phase.is_handshake() {
                    return self.collide(now, path, tcb);
                }
                let at = association.path_of(&self.settings, path, self.packet, now);
                // If there is no room for another path, the first one is used.
                association.due.cookie_ack = Some(at.unwrap_or(0));
                true
            }
            // C: late. Other combinations do not belong to this association.
            _ => {
                self.tally.on_malformed();
                false
            }
        }
    }

    fn restart(&mut self, now: Instant, path: PathId, tcb: &Tcb) -> bool {
        let Some(association) = &mut self.association else { return false };
        if association.phase == Phase::ShutdownAckSent {
            association.due.step = true;
            push_tlv(&mut association.due.errors, cause::COOKIE_WHILE_SHUTTING_DOWN, &[]);
            return false;
        }
        self.forget_sent();
        self.begin_again(now, path, tcb);
        true
    }

    fn collide(&mut self, now: Instant, path: PathId, tcb: &Tcb) -> bool {
        let waiting = self.association.as_ref().is_some_and(|a| a.phase.is_handshake());
        if waiting {
            self.forget_sent();
            self.begin_again(now, path, tcb);
        } else if let Some(association) = &mut self.association {
            // The association continues: only the peer's tag differs.
            association.tcb.peer_tag = tcb.peer_tag;
            association.due.cookie_ack = Some(0);
        }
        true
    }

    fn begin_again(&mut self, now: Instant, path: PathId, tcb: &Tcb) {
        let Some(association) = &mut self.association else { return };
        association.begin(&self.settings, tcb, self.packet, now);
        // If there is no room for another path, the first one is used.
        let at = association.path_of(&self.settings, path, self.packet, now).unwrap_or(0);
        association.init_path = at;
        association.establish(now);
        association.due.cookie_ack = Some(at);
        self.open();
    }

    pub(super) fn handle_cookie_ack(&mut self, now: Instant) {
        if let Some(association) = &mut self.association
            && association.phase == Phase::CookieEchoed
        {
            association.cookie = Vec::new();
            association.establish(now);
            self.open();
        }
    }

    /// The peer reports a stale cookie: requests one that lives longer (§5.2.6).
    pub(super) fn handle_stale_cookie(&mut self, now: Instant, staleness_us: u32) {
        if self.association.as_ref().is_none_or(|a| a.phase != Phase::CookieEchoed) {
            return;
        }
        self.forget_sent();
        let Some(association) = &mut self.association else { return };
        let drawn: (u32, Seq32) = self.validator.draw();
        (association.tcb.local_tag, association.tcb.local_tsn) = drawn;
        association.tcb.peer_tag = 0;
        (association.phase, association.due.step) = (Phase::CookieWait, true);
        association.due.preservative = Some((staleness_us / 1000).saturating_mul(2).clamp(1000, 60_000));
        association.t1 = Some(now + self.settings.rto.initial);
    }
}

/// Most answers to unknown sources that wait for the driver.
const MOST_ANSWERS: usize = 16;
/// Most bytes of unknown parameters that are reported.
const MOST_REPORTED: usize = 256;
