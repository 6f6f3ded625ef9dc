//! The driver's interface of a group's sender.

use antiphon_core::{
    ByteCount, Capabilities, CloseMode, Endpoint, Event, Input, Instant, Message, PathId, PathStats, Profile,
    Received, SendError, Transmit,
};

use super::super::combination::OVERHEAD;
use super::super::roster::Member;
use super::{CHECK, GROUP, GroupSender, LEAST_RESERVED, Stage};
use crate::queue::Room;
use crate::tally::Datagram;
use crate::xtp::settings::Reliability;
use crate::xtp::wire::HEADER;
use crate::xtp::{MAX_MESSAGE, MIN_PACKET};

impl Endpoint for GroupSender {
    fn profile(&self) -> Profile {
        let repairs = self.repairs_anything();
        let ordered = self.settings.ordered;
        Profile {
            acknowledged: repairs,
            ordered,
            retransmits: repairs,
            priorities: self.settings.sort,
            capabilities: Capabilities {
                unordered: !ordered,
                flow_control: repairs,
                fragmentation: true,
                ..Capabilities::OF_UDP
            },
            // It leaves room for what a combination adds to a packet. It is not `reliable`, as members that leave or lag behind may
            // miss messages.
            ..Profile::of_datagrams(MAX_MESSAGE, MAX_MESSAGE, HEADER + OVERHEAD)
        }
    }

    fn reserve(&mut self, messages: usize) {
        // A message waits to be sent, or its packets are held: buffers are for half of them each.
        let half = messages.div_ceil(2);
        self.queue.make_room(Room { buffers: half, ..Room::of(messages) }, self.packet);
        self.inbox.make_room(Room::of(messages), self.packet);
        self.held.reserve(messages.max(LEAST_RESERVED), half * self.packet);
        self.repairs.reserve(messages.max(LEAST_RESERVED));
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        if self.closing.is_some() || self.stage == Stage::Closed {
            return Err(SendError::Closed);
        }
        // `full` repeats whatever the deadline.
        let deadline = message.deadline.filter(|_| self.settings.reliability != Reliability::Full);
        self.queue.push(Message { deadline, ..message }, MAX_MESSAGE)
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        if self.closing.is_some() || self.stage == Stage::Closed {
            return;
        }
        self.closing = Some(now);
        if mode == CloseMode::Abort {
            self.stop(now);
        }
        self.move_on(now);
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.is_over() {
            return;
        }
        match input {
            Input::MaxDatagram(most) => self.packet = self.packet.min(most.max(MIN_PACKET + OVERHEAD)),
            input => {
                if let Some(datagram) = self.tally.take(input, &mut self.queue) {
                    let received_at = datagram.received_at.min(now);
                    self.handle_packet(now, Datagram { received_at, ..datagram });
                }
            }
        }
        self.move_on(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.stage == Stage::Closed {
            self.ends.due |= self.ends.left > 0 && now >= self.ends.at;
            return;
        }
        self.queue.expire(now);
        self.pace.on_timeout(now);
        self.repairs.on_silence(now);
        self.settle(now);
        if now.since(self.checked_at) >= CHECK {
            self.check_members(now);
            self.settle(now);
        }
        self.announce |= now >= self.announce_at;
        self.repairs.end_round(now, &mut self.held, &self.roster);
        self.move_on(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if self.is_over() {
            return None;
        }
        let (path, len) = self.next_packet(now, buf)?;
        if path == GROUP {
            self.departures.note(self.number, now);
        }
        self.move_on(now);
        Some(Transmit { path, ..self.tally.transmit(len) })
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        self.inbox.pop(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.report_closed();
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.stage == Stage::Closed {
            return (self.ends.left > 0 && !self.ends.due).then_some(self.ends.at);
        }
        let all = [
            (!self.announce).then_some(self.announce_at),
            (self.roster.len() > 0).then(|| self.checked_at + CHECK),
            self.repairs.next_round(),
            self.repairs.next_credit(),
            self.queue.next_expiry(),
            self.held.next_settling(self.patience()),
            self.pace.next(),
            self.leave_by(),
        ];
        all.into_iter().flatten().min()
    }

    fn stats(&self) -> PathStats {
        let rtt = self.roster.all().map(|member| member.rtt());
        PathStats {
            srtt: rtt.max(),
            min_rtt: self.roster.all().map(|member| member.rtt()).min(),
            in_flight: Some(ByteCount(self.held.bytes() as u64)),
            counters: self.tally.counters(&self.queue, &self.inbox),
            ..PathStats::default()
        }
    }

    fn path_stats(&self, path: PathId) -> Option<PathStats> {
        match path {
            GROUP => Some(self.stats()),
            path => self.roster.on_path(path).map(Member::stats),
        }
    }
}
