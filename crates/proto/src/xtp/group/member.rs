//! A member of a group: receives what one sender sends to all, and asks for what it misses. Here are the driver's interface and time-outs;
//! what it receives is in `receive`, what it sends in `packets`.

mod packets;
mod receive;

use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId, PathStats, Profile,
    Received, Rng, SendError, Transmit,
};

use super::backoff::draw;
use super::decoder::Decoder;
use super::{STATUS_SIZE, WINDOW};
use crate::inbox::Inbox;
use crate::queue::{Room, SendQueue};
use crate::seeds::Seeds;
use crate::tally::{Datagram, Tally};
use crate::xtp::incoming::Incoming;
use crate::xtp::settings::Settings;
use crate::xtp::wire::{HEADER, JOIN, Key};
use crate::xtp::{MAX_MESSAGE, MIN_PACKET};

/// The association of a receiver with the sender to its group.
pub(in crate::xtp) struct GroupMember {
    settings: Settings,
    packet: usize,
    queue: SendQueue,
    inbox: Inbox,
    tally: Tally,
    incoming: Incoming,
    decoder: Decoder,
    rng: Rng,
    /// Key and path of the sender; `None` before it was heard.
    sender: Option<(Key, PathId)>,
    own: Key,
    membership: Membership,
    /// Whether a message has begun, so that positions are known.
    started: bool,
    /// Number of the sender's latest packet.
    echo: u32,
    heard: Instant,
    /// Position behind the farthest byte that has left the sender.
    sent_to: u64,
    /// The sender repairs nothing.
    no_repairs: bool,
    /// Over how long requests are spread, how often reports are sent, and how many members there are, as the sender says.
    spread: Duration,
    interval: Duration,
    /// Bytes of reports a second that it has a share of.
    rate: f64,
    members: f64,
    rtt: Duration,
    /// When it asks for what it lacks, and how long it waits before it asks again.
    ask_at: Option<Instant>,
    ask_again: Duration,
    /// The shortest time from one request to the next: the longer the more the last report told.
    ask_pause: Duration,
    /// When it asked last, and the position up to which all had come then.
    asked: (Instant, u64),
    report_at: Option<Instant>,
    /// A packet has come behind a gap that was not there before.
    new_gap: bool,
    /// A report is to be sent now.
    report: bool,
    leave: bool,
    /// Reports that are still to say that packets were passed over.
    passed_over: u32,
    /// Number of its own latest packet.
    sync: u32,
    closed: bool,
}

/// How far a member is on its way into the group.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Membership {
    /// It asks to become one: when next, how often it has asked, when it last did, and the bytes that the sender has sent it more than it
    /// has answered: an address that has proved nothing gets no more than that.
    Asking {
        at: Instant,
        due: bool,
        times: u32,
        asked: Instant,
        credit: usize,
    },
    /// It returns what it was offered.
    Proving {
        at: Instant,
        due: bool,
        times: u32,
        key: Key,
        number: u64,
        sync: u32,
    },
    Member {
        key: Key,
        number: u64,
    },
    /// The sender takes no more; it listens, and asks again later.
    Refused {
        until: Instant,
    },
    /// No sender has been heard.
    Unheard,
}

impl GroupMember {
    /// `packet`: bytes of the largest packet; `port`: its own, by which members on one machine differ directly over IP.
    pub fn open(settings: Settings, packet: usize, port: u16, seeds: &Seeds, now: Instant) -> Self {
        let mut rng = Rng::fork(seeds.next(), "xtp member");
        let own = Key::new(rng.next_u32(), 0, port);
        GroupMember {
            settings,
            packet,
            queue: SendQueue::new(Room::LEAN, packet),
            inbox: Inbox::new(Room::LEAN, packet),
            tally: Tally::default(),
            incoming: Incoming::new(settings.ordered).with_bounds(WINDOW, MOST_SPANS),
            decoder: Decoder::new(),
            rng,
            sender: None,
            own,
            membership: Membership::Unheard,
            started: false,
            echo: 0,
            heard: now,
            sent_to: 0,
            no_repairs: false,
            spread: Duration::ZERO,
            interval: FIRST_INTERVAL,
            rate: STATUS_SIZE as f64 / FIRST_INTERVAL.as_secs_f64(),
            members: 1.0,
            rtt: FIRST_RTT,
            ask_at: None,
            ask_again: LEAST_AGAIN,
            ask_pause: FIRST_INTERVAL / ASKS_PER_REPORT,
            asked: (now, 0),
            report_at: None,
            new_gap: false,
            report: false,
            leave: false,
            passed_over: 0,
            sync: 0,
            closed: false,
        }
    }

    fn is_member(&self) -> bool {
        matches!(self.membership, Membership::Member { .. })
    }

    /// It is no member any more, or not yet.
    fn lose_membership(&mut self, membership: Membership) {
        self.membership = membership;
        self.ask_at = None;
        self.report = false;
        if self.leave {
            self.end(CloseReason::Local);
        }
    }

    /// It asks to become a member once the sender has been heard again.
    fn ask_anew(&mut self, now: Instant) {
        let at = now + FIRST_AGAIN;
        self.lose_membership(Membership::Asking { at, due: false, times: 0, asked: now, credit: 0 });
    }

    fn end(&mut self, reason: CloseReason) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.queue.finish_all(Outcome::Aborted);
        self.queue.report(Event::Closed(reason));
    }
}

impl Endpoint for GroupMember {
    fn profile(&self) -> Profile {
        let max_message = self.packet - HEADER;
        let base = Profile::of_datagrams(max_message, MAX_MESSAGE, HEADER);
        Profile { ordered: self.settings.ordered, ..base }
    }

    fn reserve(&mut self, messages: usize) {
        self.queue.make_room(Room::of(messages), self.packet);
        self.inbox.make_room(Room::of(messages), self.packet);
        self.incoming.reserve(messages.max(LEAST_RESERVED), self.packet);
        self.decoder.reserve(self.packet);
    }

    fn send(&mut self, _now: Instant, message: Message<'_>) -> Result<(), SendError> {
        if self.closed || self.leave {
            return Err(SendError::Closed);
        }
        self.queue.push(message, self.packet - HEADER)
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        if self.closed {
            return;
        }
        while mode == CloseMode::Abort
            && let Some(message) = self.queue.pop(now)
        {
            self.queue.finish(message, Outcome::Aborted);
        }
        match self.is_member() {
            true => self.leave = true,
            false => self.end(CloseReason::Local),
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if self.closed {
            return;
        }
        match input {
            Input::MaxDatagram(most) => self.packet = self.packet.min(most.max(MIN_PACKET)),
            input => {
                if let Some(datagram) = self.tally.take(input, &mut self.queue) {
                    let received_at = datagram.received_at.min(now);
                    self.handle_packet(now, Datagram { received_at, ..datagram });
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        self.queue.expire(now);
        if self.ask_at.is_some_and(|at| at <= now) {
            self.report = true;
            // As soon as it may while repairs come, else more and more rarely.
            let least = self.rtt.mul_f64(1.5).max(LEAST_AGAIN).max(self.ask_pause);
            let next = self.incoming.next();
            self.ask_again = if next > self.asked.1 {
                least
            } else {
                (2 * self.ask_again).clamp(least, MOST_AGAIN.max(least))
            };
            self.asked = (now, next);
            self.ask_at = Some(now + self.ask_again + draw(&mut self.rng, self.spread, self.members));
        }
        if self.report_at.is_some_and(|at| at <= now) {
            self.report = true;
            self.report_at = Some(now + self.interval);
        }
        match &mut self.membership {
            Membership::Asking { at, due, credit, .. } if *at <= now => {
                // Without packets of the sender nothing is asked.
                *due = *credit >= JOIN;
                *at = now + FIRST_AGAIN;
            }
            Membership::Proving { at, times, .. } if *at <= now && *times >= MOST_PROOFS => {
                // Another member may have been offered the same key: with another one of its own it is offered another.
                self.own = Key::new(self.rng.next_u32(), self.own.other(), self.own.owner());
                self.ask_anew(now);
            }
            Membership::Proving { at, due, .. } if *at <= now => {
                *due = true;
                *at = now + FIRST_AGAIN;
            }
            Membership::Refused { until } if *until <= now => self.ask_anew(now),
            // Nobody is there to report to.
            Membership::Member { .. } if now.since(self.heard) >= SENDER_GONE => self.ask_anew(now),
            _ => {}
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        if self.closed {
            return None;
        }
        let len = self.next_packet(now, buf)?;
        let (_, path) = self.sender?;
        Some(Transmit { path, ..self.tally.transmit(len) })
    }

    fn poll_message(&mut self, buf: &mut [u8]) -> Option<Received> {
        let received = self.inbox.pop(buf)?;
        self.incoming.resume(&mut self.inbox);
        Some(received)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.queue.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.closed {
            return None;
        }
        let membership = match self.membership {
            Membership::Asking { at, due: false, credit, .. } if credit >= JOIN => Some(at),
            Membership::Proving { at, due: false, .. } => Some(at),
            Membership::Refused { until } => Some(until),
            Membership::Member { .. } => Some(self.heard + SENDER_GONE),
            _ => None,
        };
        let report = self.report_at.filter(|_| self.is_member());
        [membership, self.ask_at, report, self.queue.next_expiry()].into_iter().flatten().min()
    }

    fn stats(&self) -> PathStats {
        let rtt = self.is_member().then_some(self.rtt);
        let counters = self.tally.counters(&self.queue, &self.inbox);
        PathStats { srtt: rtt, min_rtt: rtt, counters, ..PathStats::default() }
    }

    fn path_stats(&self, path: PathId) -> Option<PathStats> {
        self.sender.is_some_and(|(_, sender)| sender == path).then(|| self.stats())
    }
}

/// Requests have so many times the bytes of reports, and are so many at most from one report to the next: all members' requests together have a
/// quarter of the data's rate.
const ASKS_PER_REPORT: u32 = 5;
/// The shortest and the longest wait before what is still missing is asked for again.
const LEAST_AGAIN: Duration = Duration::from_millis(20);
const MOST_AGAIN: Duration = Duration::from_millis(500);
/// How often reports are sent before the sender has said so, and at least.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(15);
/// Before the offer has come.
const FIRST_RTT: Duration = Duration::from_millis(20);
/// A join without an answer is repeated first after this, then more rarely.
const FIRST_AGAIN: Duration = Duration::from_millis(250);
/// Proofs without an answer, after which a member asks anew.
const MOST_PROOFS: u32 = 8;
const LEAST_RESERVED: usize = 256;
/// Gaps that a member bears: with 2000 packets a second, a tenth of which is lost, those of five round trips of a second. Further packets behind
/// a gap count as not received.
const MOST_SPANS: usize = 1024;
/// Silence after which the sender counts as gone: six announcements, as long as it waits for a member itself.
const SENDER_GONE: Duration = Duration::from_secs(3);
