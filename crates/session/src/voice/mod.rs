//! A participant with voice channels: many of 64 kbit/s over one association, both ways at once.
//!
//! ```text
//! VoicePort ─┬─ Associations: one with the peer
//!            ├─ Outgoing: the clock of our sources; FIFO, priority and talk spurts of each channel
//!            └─ Incoming: the clock of our sinks; a VoiceFifo for each channel ─► VoiceSink
//! ```
//!
//! It stands beside [`Session`](crate::Session) and not inside: a track has one playout buffer of many channels on one time
//! line and measures clocks, whereas here each channel is a stream of its own, its buffer is a FIFO whose faults are to be
//! seen, and a channel must cost little.

mod incoming;
mod outgoing;
mod reach;
mod settings;

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{
    BrokenReason, CloseMode, CloseReason, Event, Input, Instant, Message, Outcome, Participant, PathId,
    PathStats, Profile, Stack, Tag, Transmit, WireId, sooner,
};
use antiphon_media::packet::{PacketKind, classify};
use antiphon_media::rtcp::{RtcpItem, visit_compound};
use antiphon_media::voice::{FifoCounters, parse_voice};

use crate::associations::{AssociationId, Associations, Policy};
use incoming::Incoming;
use outgoing::{DATA, Outgoing};
use reach::Reach;

pub use incoming::{MOST_OPUS_CHANNELS, VoiceReceived};
pub use outgoing::VoiceSent;
pub use settings::{VoiceReceiving, VoiceRole, VoiceSending, VoiceSink};

/// A participant with voice channels.
pub struct VoicePort<S> {
    associations: Associations,
    association: Option<AssociationId>,
    profile: Option<Profile>,
    reach: Reach,
    role: VoiceRole,
    outgoing: Option<Outgoing>,
    incoming: Incoming<S>,
    forever: bool,
    listens: bool,
    state: State,
    buf: Vec<u8>,
    gone: Option<Gone>,
    /// When it began to end: what comes then tells nothing of the peer.
    left_at: Option<Instant>,
    /// Why the port ended before the channels did.
    ended: Option<CloseReason>,
}

/// The peer's association has ended.
#[derive(Clone, Copy, Debug)]
struct Gone {
    reason: CloseReason,
    /// The channels on which the port's end depends had ended before.
    complete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// Everything was sent; goodbyes are said several times, as one may be lost.
    SayingGoodbye {
        said: u32,
        next: Instant,
    },
    Closing,
    Finished,
}

impl<S: VoiceSink> VoicePort<S> {
    /// A port without a peer; `sends`: the channels of this side, if it has any, as senders have.
    pub fn new(
        now: Instant,
        seed: u64,
        role: VoiceRole,
        sends: Option<VoiceSending>,
        receives: VoiceReceiving,
        sink: S,
    ) -> Self {
        VoicePort {
            associations: Associations::new(),
            association: None,
            profile: None,
            reach: Reach::new(now),
            role,
            outgoing: sends.map(|sends| Outgoing::new(sends, seed)),
            incoming: Incoming::new(now, receives, sink),
            forever: receives.forever,
            listens: false,
            state: State::Open,
            buf: Vec::new(),
            gone: None,
            left_at: None,
            ended: None,
        }
    }

    /// Calls a peer over `wire`, on which it has these paths.
    pub fn call(&mut self, now: Instant, wire: WireId, paths: &[PathId], stack: &dyn Stack) {
        let id = self.associations.call(now, wire, paths, stack);
        self.attach(now, id);
    }

    /// Waits for a peer on `wire`. Another may take its place when it has been silent for `silence` or has ended.
    pub fn listen(&mut self, now: Instant, wire: WireId, stack: Rc<dyn Stack>, silence: Duration) {
        self.listens = true;
        self.associations.listen(now, wire, stack, Policy::Single { silence, streams: true });
    }

    /// What was sent.
    pub fn sent(&self, now: Instant) -> VoiceSent {
        self.outgoing.as_ref().map_or_else(VoiceSent::default, |outgoing| outgoing.sent(now))
    }

    /// Channels that this side sends.
    pub fn channels_sent(&self) -> usize {
        self.outgoing.as_ref().map_or(0, Outgoing::channels)
    }

    /// What was received.
    pub fn received(&self) -> VoiceReceived {
        self.incoming.received()
    }

    /// What the FIFO of a received channel has counted.
    pub fn fifo(&self, channel: usize) -> Option<FifoCounters> {
        self.incoming.fifo(channel)
    }

    /// Why the peer cannot be reached, as far as is known at `now`.
    pub fn broken(&self, now: Instant) -> Option<BrokenReason> {
        self.reach.broken(self.left_at.unwrap_or(now))
    }

    /// Why the peer has never answered, if it was still absent after `patience`.
    pub fn never_answered(&self, now: Instant, patience: Duration) -> Option<BrokenReason> {
        self.reach.never_answered(self.left_at.unwrap_or(now), patience)
    }

    /// Why the port ended before the channels did, if the end of the peer's association was the cause.
    pub fn ended(&self) -> Option<CloseReason> {
        self.ended
    }

    /// Statistics of the transport.
    pub fn stats(&self) -> PathStats {
        let endpoint = self.association.and_then(|id| self.associations.endpoint(id));
        endpoint.map_or_else(|| self.associations.last_stats(), |endpoint| endpoint.stats())
    }

    /// The sink.
    pub fn sink(&self) -> &S {
        self.incoming.sink()
    }

    /// The sink, at the end.
    pub fn into_sink(self) -> S {
        self.incoming.into_sink()
    }

    fn attach(&mut self, now: Instant, id: AssociationId) {
        // What the previous peer has not heard is not of use to this one.
        self.outgoing.iter_mut().filter(|one| one.has_begun()).for_each(|one| one.halt(now));
        self.association = Some(id);
        self.gone = None;
        self.profile = self.associations.profile(id);
        let profile = self.profile.expect("it was just opened");
        self.reach.on_attached(&profile);
        if self.buf.len() < profile.max_receive {
            self.buf.resize(profile.max_receive, 0);
        }
        self.associations.reserve_messages(id, MESSAGES);
    }

    /// Takes in the associations that a listening wire admitted.
    fn take_opened(&mut self, now: Instant) {
        while let Some(id) = self.associations.poll_opened() {
            if self.association == Some(id) || self.associations.is_waiting(id) {
                continue;
            }
            if self.association.is_some() {
                self.incoming.end(now);
            }
            self.attach(now, id);
        }
    }

    fn fetch(&mut self, now: Instant) {
        while let Some((id, received)) = self.associations.poll_message(&mut self.buf) {
            if self.association != Some(id) {
                let used = self.associations.on_used(now, id);
                if !used {
                    continue;
                }
                self.incoming.end(now);
                self.attach(now, id);
            }
            let bytes = &self.buf[..received.len];
            if let Some(datum) = parse_voice(bytes) {
                self.associations.on_used(now, id);
                self.reach.on_answer();
                self.incoming.on_datum(now, &datum);
                continue;
            }
            let incoming = &mut self.incoming;
            let whole = classify(bytes) == Some(PacketKind::Rtcp)
                && visit_compound(bytes, |item| {
                    if let RtcpItem::Bye { ssrc } = item {
                        incoming.on_goodbye(ssrc);
                    }
                })
                .is_ok();
            if whole {
                self.reach.on_answer();
            } else {
                incoming.on_malformed();
            }
        }
    }

    fn hear(&mut self, now: Instant) {
        while let Some((id, event)) = self.associations.poll_event() {
            if let (Event::Outcome { tag: DATA, outcome }, Some(outgoing)) = (&event, &mut self.outgoing) {
                let sent = outgoing.sent_mut();
                sent.open = sent.open.saturating_sub(1);
                match outcome {
                    Outcome::Released => {}
                    Outcome::Acked => {
                        sent.acked += 1;
                        self.reach.on_answer();
                    }
                    Outcome::Expired { .. } => sent.expired += 1,
                    _ => sent.lost += 1,
                }
            }
            if self.association != Some(id) {
                continue;
            }
            match event {
                Event::Connected => {
                    let profile = self.profile.expect("an association has one");
                    self.reach.on_connected(now, &profile);
                    self.outgoing.iter_mut().for_each(|outgoing| outgoing.begin(now));
                }
                Event::Writable => self.outgoing.iter_mut().for_each(Outgoing::unblock),
                // A peer that has heard goodbyes may be gone.
                Event::Broken(reason) if self.state == State::Open => self.reach.on_broken(now, reason),
                Event::Closed(reason) => self.on_closed(now, reason),
                _ => {}
            }
        }
    }

    fn on_closed(&mut self, now: Instant, reason: CloseReason) {
        let complete = match self.role {
            VoiceRole::Sender => self.outgoing.as_ref().is_none_or(Outgoing::is_confirmed),
            VoiceRole::Receiver => self.incoming.is_over(),
        };
        self.gone = Some(Gone { reason, complete });
        (self.association, self.reach.connected) = (None, false);
        self.outgoing.iter_mut().for_each(|outgoing| outgoing.halt(now));
        self.incoming.end(now);
    }

    /// The peer, if it is gone for good and what came from it was heard.
    fn left(&self) -> Option<Gone> {
        // To a listener another may come, for which there has been no voice yet.
        let waits = self.listens && (self.forever || !self.has_had_voice());
        self.gone.filter(|_| self.association.is_none() && !waits && self.incoming.is_drained())
    }

    fn has_had_voice(&self) -> bool {
        match self.role {
            VoiceRole::Sender => self.outgoing.as_ref().is_some_and(Outgoing::has_sent),
            VoiceRole::Receiver => self.incoming.has_begun(),
        }
    }

    fn send(&mut self, now: Instant) {
        let (Some(outgoing), Some(id), Some(profile)) = (&mut self.outgoing, self.association, self.profile)
        else {
            return;
        };
        // The first message of some transports sets up the association.
        if !outgoing.has_begun() && profile.calls_with_first_message && !self.listens {
            outgoing.begin(now);
            self.reach.connected = true;
        }
        // A sender whose channels have ended leaves.
        let is_left = self.role == VoiceRole::Receiver && self.incoming.is_over();
        if self.reach.connected && !is_left && self.state == State::Open {
            outgoing.resume(now);
            let associations = &mut self.associations;
            outgoing.run(now, &profile, &mut |message| associations.send(now, id, message));
        } else if outgoing.has_begun() {
            outgoing.halt(now);
        }
    }

    /// Goes on to the next state when its time has come.
    fn step(&mut self, now: Instant) {
        match self.state {
            State::Open => {
                let said_all = self.outgoing.as_ref().is_some_and(Outgoing::is_drained);
                let settled = self.outgoing.as_ref().is_none_or(|outgoing| outgoing.is_settled(now));
                let heard_all = !self.forever && self.incoming.is_over() && self.incoming.is_drained();
                let over = match self.role {
                    // It stays as long as the sender does, whatever it sends itself.
                    VoiceRole::Receiver => heard_all,
                    VoiceRole::Sender => said_all && settled,
                };
                if let Some(gone) = self.left() {
                    self.ended = Some(gone.reason).filter(|_| !gone.complete);
                    self.close(now);
                } else if over {
                    self.say_goodbye(now);
                } else if self.incoming.is_over() && self.listens && self.role == VoiceRole::Receiver {
                    self.association.into_iter().for_each(|id| self.associations.release(id));
                }
            }
            State::SayingGoodbye { said, next } if next <= now => {
                self.tell_end(now);
                self.state = match said + 1 {
                    BYES => return self.close(now),
                    said => State::SayingGoodbye { said, next: now + BYE_GAP },
                };
            }
            State::Closing if self.associations.is_empty() => {
                // What came while the association ended.
                self.incoming.finish(now);
                self.state = State::Finished;
            }
            _ => {}
        }
    }

    fn say_goodbye(&mut self, now: Instant) {
        self.left_at = Some(now);
        self.state = State::SayingGoodbye { said: 0, next: now };
        self.step(now);
    }

    fn tell_end(&mut self, now: Instant) {
        let (Some(outgoing), Some(id)) = (&mut self.outgoing, self.association) else { return };
        let associations = &mut self.associations;
        outgoing.say_goodbye(&mut |bytes| {
            associations.send(now, id, Message::new(Tag::NONE, bytes, Some(now + BYE_LIFE)))
        });
    }

    fn close(&mut self, now: Instant) {
        self.left_at.get_or_insert(now);
        self.incoming.finish(now);
        self.associations.stop(now);
        if let Some(id) = self.association {
            let mode = if self.reach.connected { CloseMode::Graceful } else { CloseMode::Abort };
            self.associations.close(now, id, mode);
        }
        self.state = State::Closing;
    }
}

impl<S: VoiceSink> Participant for VoicePort<S> {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        self.associations.handle_input(now, wire, input);
    }

    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        self.associations.accept(now, listener)
    }

    fn advance(&mut self, now: Instant) {
        self.associations.advance(now);
        self.take_opened(now);
        self.fetch(now);
        self.hear(now);
        self.send(now);
        if self.state != State::Closing {
            self.incoming.run(now);
        }
        self.step(now);
        self.hear(now);
        self.step(now);
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        self.associations.poll_ready()
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        self.associations.poll_transmit(now, wire, buf)
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.associations.poll_close()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.associations.poll_timeout();
        if due == Some(Instant::ZERO) {
            // Nothing can be due sooner.
            return due;
        }
        match self.state {
            State::Open => {
                let outgoing = self.outgoing.as_ref().filter(|_| self.reach.connected);
                let settles = outgoing.filter(|one| one.is_drained() && self.role == VoiceRole::Sender);
                let next = outgoing.filter(|one| !one.is_drained()).and_then(Outgoing::poll_timeout);
                let next = sooner(next, settles.map(Outgoing::settles_at));
                sooner(sooner(due, next), self.incoming.poll_timeout())
            }
            State::SayingGoodbye { next, .. } => {
                sooner(sooner(due, Some(next)), self.incoming.poll_timeout())
            }
            State::Closing | State::Finished => due,
        }
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.associations.knows(wire, path)
    }

    fn takes(&self, _wire: WireId) -> bool {
        true
    }

    fn stop(&mut self, now: Instant) {
        if self.state == State::Open {
            self.say_goodbye(now);
        }
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

/// Messages for which an association reserves memory, each way: those of a quarter of a second's stall, as far as
/// endpoints hold so many.
const MESSAGES: usize = 1024;
/// How often goodbyes are said.
const BYES: u32 = 3;
/// The time between two goodbyes.
const BYE_GAP: Duration = Duration::from_millis(20);
/// How long a goodbye is of use.
const BYE_LIFE: Duration = Duration::from_secs(1);
