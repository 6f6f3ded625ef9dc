//! The far end of a comparison: returns every message to its sender, over the same transport.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::{
    CloseMode, Event, Input, Instant, Message, Participant, PathId, Stack, Tag, Transmit, WireId,
};
use antiphon_media::packet::{ExtensionIds, PacketKind, classify, mark_returned, parse_rtp};

use crate::arrivals::ArrivalTable;
use crate::associations::{AdmissionCounters, AssociationId, Associations, Policy};
use crate::send_track::messages_of_a_stall;
use crate::session::PICTURES_PRIORITY;

/// Returns every message that arrives, as received but for a mark where that is asked for (Schiavoni, Queiroz and Wanderley
/// 2013, section 3: the loopback computer does not decode anything).
pub struct Reflector {
    associations: Associations,
    config: ReflectorConfig,
    wire: WireId,
    /// Messages handed back that have no outcome yet, by association.
    open: Vec<u32>,
    /// Buffer for the message being returned.
    buf: Vec<u8>,
    counters: ReflectorCounters,
    stopping: bool,
}

/// What a reflector has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReflectorCounters {
    /// Messages received.
    pub received: u64,
    /// Bytes in them.
    pub received_bytes: u64,
    /// Messages handed back to the transport.
    pub returned: u64,
    /// Messages that were not returned: the transport had no room, they were too large for it, or they are not of our senders
    /// or were returned before.
    pub refused: u64,
}

/// How a reflector behaves.
#[derive(Clone, Debug)]
pub struct ReflectorConfig {
    /// How long a message may wait here to be sent back.
    pub patience: Duration,
    /// Takes a message only when the one before it has been sent, like a program whose write blocks: its patience
    /// begins then.
    pub one_at_a_time: bool,
    /// Time from one message to the next, if there is known to be only one stream: its endpoint then reserves memory
    /// for the messages that wait while a machine is stalled.
    pub interval: Option<Duration>,
    /// Returns only packets of our own senders, each once, even where another reflector sends it on: for open networks.
    pub marks: bool,
    /// Where to note arrivals.
    pub arrivals: Option<ArrivalTable>,
    /// Where to note those of pictures, if they are another source's.
    pub picture_arrivals: Option<ArrivalTable>,
    /// Counts associations, for another thread to see.
    pub peers: Option<Arc<AtomicU64>>,
    /// Counts messages returned, for another thread to see.
    pub returned: Option<Arc<AtomicU64>>,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        // A second: an older echo is of no use, and no path here queues for longer.
        ReflectorConfig {
            patience: Duration::from_secs(1),
            one_at_a_time: false,
            interval: None,
            marks: false,
            arrivals: None,
            picture_arrivals: None,
            peers: None,
            returned: None,
        }
    }
}

impl Reflector {
    /// A reflector that listens on `wire`.
    pub fn new(
        now: Instant,
        wire: WireId,
        stack: Rc<dyn Stack>,
        policy: Policy,
        config: ReflectorConfig,
    ) -> Self {
        let mut associations = Associations::new();
        if let Policy::Many { most, .. } = policy {
            associations.reserve(most.min(MOST_RESERVED));
        }
        associations.listen(now, wire, stack, policy);
        Reflector {
            associations,
            config,
            wire,
            open: Vec::new(),
            buf: Vec::new(),
            counters: ReflectorCounters::default(),
            stopping: false,
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> ReflectorCounters {
        self.counters
    }

    /// Peers served and turned away.
    pub fn admission(&self) -> AdmissionCounters {
        self.associations.admission(self.wire)
    }

    /// Its associations.
    pub fn associations(&self) -> &Associations {
        &self.associations
    }

    fn take_opened(&mut self) {
        while let Some(id) = self.associations.poll_opened() {
            if self.open.len() <= id.index() {
                self.open.resize(id.index() + 1, 0);
            }
            self.open[id.index()] = 0;
            let room = self.associations.profile(id).map_or(0, |profile| profile.max_receive);
            if self.buf.len() < room {
                self.buf.resize(room, 0);
            }
            if let Some(interval) = self.config.interval {
                self.associations.reserve_messages(id, messages_of_a_stall(interval));
            }
            if let Some(peers) = &self.config.peers {
                peers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn reflect(&mut self, now: Instant) {
        self.wait_for_outcomes();
        while let Some((id, received)) = self.associations.poll_message(&mut self.buf) {
            let bytes = &mut self.buf[..received.len];
            self.counters.received += 1;
            self.counters.received_bytes += received.len as u64;
            for table in self.config.arrivals.iter().chain(&self.config.picture_arrivals) {
                table.note(bytes, received.received_at);
            }
            let priority = priority_of(bytes);
            if self.config.marks && !mark_returned(bytes) || !self.associations.on_used(now, id) {
                self.counters.refused += 1;
                continue;
            }
            let message = Message::new(Tag(0), bytes, Some(now + self.config.patience));
            let message = Message { priority, ..message };
            match self.associations.send(now, id, message) {
                Ok(()) => {
                    self.open[id.index()] += 1;
                    self.counters.returned += 1;
                    if let Some(returned) = &self.config.returned {
                        returned.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(_) => self.counters.refused += 1,
            }
            self.wait_for_outcomes();
        }
    }

    /// Stops taking messages from an association whose last message has no outcome yet, if messages are taken one at a
    /// time.
    fn wait_for_outcomes(&mut self) {
        if !self.config.one_at_a_time {
            return;
        }
        let waiting = self.open.iter().enumerate().filter(|(_, open)| **open > 0);
        waiting.for_each(|(at, _)| self.associations.pause(AssociationId(at as u32)));
    }

    fn hear(&mut self) {
        while let Some((id, event)) = self.associations.poll_event() {
            if let Event::Outcome { .. } = event {
                self.open[id.index()] -= 1;
                if self.config.one_at_a_time {
                    self.associations.touch(id);
                }
            }
        }
    }
}

impl Participant for Reflector {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        self.associations.handle_input(now, wire, input);
    }

    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        self.associations.accept(now, listener)
    }

    fn advance(&mut self, now: Instant) {
        self.associations.advance(now);
        self.take_opened();
        self.hear();
        self.reflect(now);
        self.hear();
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
        self.associations.poll_timeout()
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        self.associations.knows(wire, path)
    }

    fn takes(&self, _wire: WireId) -> bool {
        true
    }

    fn stop(&mut self, now: Instant) {
        self.stopping = true;
        self.associations.stop(now);
        for id in self.associations.iter().collect::<Vec<_>>() {
            self.associations.close(now, id, CloseMode::Graceful);
        }
    }

    fn is_finished(&self) -> bool {
        self.stopping && self.associations.is_empty()
    }
}

/// Pictures go behind the sound on their way back, too.
fn priority_of(bytes: &[u8]) -> u8 {
    let is_rtp = classify(bytes) == Some(PacketKind::Rtp);
    let view = is_rtp.then(|| parse_rtp(bytes, ExtensionIds::default()).ok()).flatten();
    if view.is_some_and(|view| view.video.is_some()) { PICTURES_PRIORITY } else { 0 }
}

/// The most associations for which memory is reserved in advance.
const MOST_RESERVED: usize = 1024;

#[cfg(test)]
mod tests {
    use antiphon_core::NtpTime;
    use antiphon_media::packet::{EncodingName, Marking, VideoStream};

    use super::*;

    #[test]
    fn pictures_are_returned_behind_the_sound() {
        let mut buf = [0; 200];
        let stream = VideoStream::new(EncodingName::new("H264").unwrap(), 127, 1, 2);
        let marking = Marking {
            start: true,
            end: true,
            independent: true,
            discardable: false,
            temporal_layer: 0,
            base_pictures: 0,
        };
        let len = stream.packet((0, marking), NtpTime::default(), b"picture", &mut buf).unwrap();
        assert_eq!(priority_of(&buf[..len]), PICTURES_PRIORITY);
        // Without the extension that says so it is sound.
        let sound = [&[0x80, 96][..], &buf[2..12], b"sound"].concat();
        let goodbye = [0x81, 203, 0, 1, 0, 0, 0, 7];
        for other in [&sound[..], &goodbye, &buf[..3], &[]] {
            assert_eq!(priority_of(other), 0, "{other:?}");
        }
    }
}
