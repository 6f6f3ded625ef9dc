//! The sender to a group: its packets and the end of the association; the driver's interface (`driver`), who joins (`joins`), what members report (`reports`) and
//! how often (`intervals`), and what is sent (`packets`).

mod driver;
mod intervals;
mod joins;
mod packets;
mod reports;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{CloseReason, Event, Instant, Outcome, PathId, Rng};

use super::MOST_MEMBERS;
use super::alike::Alike;
use super::gaps::Gaps;
use super::held::{Held, Known};
use super::repair::Repairs;
use super::roster::Roster;
use super::round_trips::Departures;
use crate::inbox::Inbox;
use crate::patience::{LONGEST_LEAVE, leave_by};
use crate::queue::{Room, SendQueue};
use crate::seeds::{Seeds, dynamic_port};
use crate::tally::{Datagram, Tally};
use crate::xtp::pace::Pace;
use crate::xtp::settings::{Reliability, Settings};
use crate::xtp::validator::XtpValidator;
use crate::xtp::wire::{self, Key, Segment, option};
use intervals::Intervals;

/// The association of a sender with a group.
pub(in crate::xtp) struct GroupSender {
    settings: Settings,
    packet: usize,
    validator: XtpValidator,
    queue: SendQueue,
    inbox: Inbox,
    tally: Tally,
    held: Held,
    roster: Roster,
    repairs: Repairs,
    alike: Alike,
    pace: Pace,
    key: Key,
    /// Number of the latest packet to the group, and when the latest left.
    number: u64,
    departures: Departures,
    stage: Stage,
    /// Packets to single members and to those who want to be.
    answers: VecDeque<(PathId, Vec<u8>)>,
    welcomes: VecDeque<Welcome>,
    /// Where the members begin of which some are asked to report next.
    poll_from: usize,
    /// When the group is told how far the stream is.
    announce_at: Instant,
    announced_at: Option<Instant>,
    /// Position before which members were told that nothing is repaired.
    given_up_to: u64,
    /// From one announcement to the next, while nothing new is sent.
    announce_every: Duration,
    announce: bool,
    /// When members were looked at last.
    checked_at: Instant,
    /// New data wait since then for members that lag behind.
    blocked_since: Option<Instant>,
    last_data: Option<Instant>,
    /// From when a message is handed over to its deadline, of the latest that had one.
    horizon: Option<Duration>,
    intervals: Intervals,
    closing: Option<Instant>,
    ends: Ends,
}

/// Packets that end the association.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// Still to be sent.
    left: u32,
    /// When the next is sent.
    at: Instant,
    /// It is to be sent now.
    due: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Members that must be there before anything is sent are not.
    Gathering,
    Open,
    Closed,
}

/// A member that is to be told that it is one.
#[derive(Clone, Copy, Debug)]
struct Welcome {
    path: PathId,
    /// Its own key, and the key for its packets.
    own: Key,
    key: Key,
    /// It is to report at once.
    polls: bool,
}

impl GroupSender {
    /// `packet`: bytes of the largest packet.
    pub fn open(settings: Settings, packet: usize, seeds: &Seeds, now: Instant) -> Self {
        let mut draws = Rng::fork(seeds.next(), "xtp group");
        let port = dynamic_port(&mut draws);
        let mut sender = GroupSender {
            settings,
            packet,
            validator: XtpValidator::new(&seeds.shared(), port, false),
            queue: SendQueue::new(Room::LEAN, packet),
            inbox: Inbox::new(Room::PROVED, packet),
            tally: Tally::default(),
            // Positions never wrap: a stream begins low in their range.
            held: Held::new(u64::from(draws.next_u32())),
            roster: Roster::new(MOST_MEMBERS),
            repairs: Repairs::new(now, settings.parity),
            alike: Alike::default(),
            pace: Pace::new(settings.traffic.out_rate, settings.traffic.out_burst, now),
            key: Key::new(draws.next_u32(), settings.port, port),
            number: 0,
            departures: Departures::new(now),
            stage: Stage::Gathering,
            answers: VecDeque::new(),
            welcomes: VecDeque::new(),
            poll_from: 0,
            announce_at: now,
            announced_at: None,
            given_up_to: 0,
            announce_every: FIRST_ANNOUNCEMENTS,
            announce: false,
            checked_at: now,
            blocked_since: None,
            last_data: None,
            horizon: None,
            intervals: Intervals::new(now, SHORTEST_STATUS),
            closing: None,
            ends: Ends { left: 0, at: now, due: false },
        };
        sender.held.reserve(LEAST_RESERVED, READY * packet);
        sender.repairs.reserve(LEAST_RESERVED);
        sender.alike.reserve();
        sender.begin_if_ready(now);
        sender
    }

    /// Whether members lack the same packets.
    #[cfg(test)]
    pub fn alike_for_tests(&self) -> f64 {
        self.alike.degree()
    }

    /// Key and number of the member on a path.
    #[cfg(test)]
    pub fn member_for_tests(&self, path: PathId) -> (Key, u64) {
        self.roster.on_path(path).map(|member| (member.key, member.number)).expect("a member")
    }

    #[cfg(test)]
    pub fn expel_for_tests(&mut self, path: PathId) {
        let at = self.roster.all().position(|member| member.path == path).expect("a member");
        self.expel(at);
    }

    #[cfg(test)]
    pub fn next_for_tests(&self) -> u64 {
        self.held.next()
    }

    /// Number of the latest packet to the group.
    #[cfg(test)]
    pub fn number_for_tests(&self) -> u64 {
        self.number
    }

    #[cfg(test)]
    pub fn number_from_for_tests(&mut self, number: u64) {
        self.number = number;
    }

    fn repairs_anything(&self) -> bool {
        self.settings.reliability != Reliability::None
    }

    fn begin_if_ready(&mut self, now: Instant) {
        if self.stage == Stage::Gathering && self.roster.len() >= self.settings.wait_for {
            self.stage = Stage::Open;
            self.announce_at = now;
            self.queue.report(Event::Connected);
        }
    }

    /// The number of the packet with this `sync`; `None` if none was sent in the last half of them.
    fn number_of(&self, sync: u32) -> Option<u64> {
        let back = (self.number as u32).wrapping_sub(sync);
        self.number.checked_sub(u64::from(back)).filter(|_| back < 1 << 31)
    }

    /// How long after its deadline a packet's fate is asked for.
    fn patience(&self) -> Duration {
        (3 * self.intervals.current() + 2 * self.roster.longest_rtt()).min(MOST_PATIENCE)
    }

    fn handle_packet(&mut self, now: Instant, datagram: Datagram<'_>) {
        let Datagram { path, bytes, received_at } = datagram;
        let Some((header, segment)) = wire::parse(bytes).filter(|(header, _)| header.has(option::MULTI))
        else {
            return self.tally.on_malformed();
        };
        if let Segment::Join { status, key, .. } = segment {
            return self.handle_join(now, received_at, path, (&header, status, key));
        }
        let member = if header.returned { self.roster.index_of(header.key) } else { None };
        let Some(at) = member else {
            self.tally.on_malformed();
            return self.deny(path, &header, bytes.len());
        };
        let last = self.held.next();
        let member = self.roster.get_mut(at);
        // Key, number and path are known to the member alone.
        if member.path != path || member.number != header.seq {
            return self.tally.on_malformed();
        }
        member.heard = received_at;
        member.suspended = false;
        let newest = member.is_newest(header.sync);
        if header.has(option::END) {
            return self.remove(at, CloseReason::Peer);
        }
        match segment {
            Segment::Status(status, _) if status.rseq <= last => {
                if newest {
                    self.handle_status(now, received_at, at, (&header, status, Gaps::none(status.rseq)));
                }
            }
            Segment::Report(status, body) if status.rseq <= last => match Gaps::read(status.rseq, body) {
                Some(gaps) if newest => self.handle_status(now, received_at, at, (&header, status, gaps)),
                Some(_) => {}
                None => self.tally.on_malformed(),
            },
            Segment::Data { bytes, .. } if header.has(option::EOM) && !bytes.is_empty() => {
                self.inbox.push(bytes, &[], path, received_at);
            }
            _ => self.tally.on_malformed(),
        }
    }

    fn settle(&mut self, now: Instant) {
        let patience = self.patience();
        let GroupSender { held, queue, roster, settings, repairs, .. } = self;
        let asks = settings.reliability != Reliability::None;
        held.settle(now, patience, queue, |packet| match asks {
            true => roster.known(packet),
            false if repairs.needs(packet.ordinal) => Known::NotAll { lacking: false },
            false => Known::Nobody,
        });
    }

    fn next_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<(PathId, usize)> {
        if let Some((path, answer)) = self.answers.pop_front() {
            buf[..answer.len()].copy_from_slice(&answer);
            return Some((path, answer.len()));
        }
        if let Some(welcome) = self.welcomes.pop_front() {
            return Some((welcome.path, self.write_welcome(now, &welcome, buf)));
        }
        if std::mem::take(&mut self.ends.due) {
            self.ends = Ends { left: self.ends.left - 1, at: now + BETWEEN_ENDS, due: false };
            return Some((GROUP, self.write_announcement(now, option::END | option::WCLOSE, buf)));
        }
        if self.stage == Stage::Closed {
            return None;
        }
        if self.announce || now >= self.announce_at {
            self.announce = false;
            if self.last_data.is_some_and(|at| now.since(at) >= LEAST_ANNOUNCEMENT) {
                self.repairs.on_pause();
            }
            self.announce_at = now + self.announce_every;
            self.announce_every = (2 * self.announce_every).min(MOST_ANNOUNCEMENT);
            self.announced_at = Some(now);
            self.intervals.tell(now, self.status_interval(now));
            let before_data = self.held.count() == 0;
            let len = if before_data { self.write_first(buf) } else { self.write_announcement(now, 0, buf) };
            return Some((GROUP, len));
        }
        if self.stage != Stage::Open {
            return None;
        }
        self.repairs.end_round(now, &mut self.held, &self.roster);
        let len = self.write_repair(now, buf).or_else(|| self.write_data(now, buf))?;
        Some((GROUP, len))
    }

    fn leave_by(&self) -> Option<Instant> {
        let closing = self.closing?;
        let last = self.held.last_deadline().max(self.queue.last_deadline());
        Some(leave_by(closing, last.map(|last| last.min(closing + LONGEST_LEAVE)), LONGEST_LEAVE))
    }

    fn move_on(&mut self, now: Instant) {
        let Some(leave) = self.leave_by().filter(|_| self.stage != Stage::Closed) else { return };
        let drained = self.held.is_empty() && self.queue.is_empty();
        if drained || now >= leave {
            self.stop(now);
        }
    }

    /// Sends nothing more but END, several times, as it is not acknowledged.
    fn stop(&mut self, now: Instant) {
        self.held.abort(&mut self.queue);
        self.queue.finish_all(Outcome::Aborted);
        self.repairs.clear();
        self.stage = Stage::Closed;
        self.ends = Ends { left: TIMES_ENDED, at: now, due: true };
    }

    fn report_closed(&mut self) {
        if self.stage == Stage::Closed && self.ends.left == 0 && self.closing.take().is_some() {
            self.answers.clear();
            self.inbox.clear();
            self.queue.report(Event::Closed(CloseReason::Local));
        }
    }

    fn is_over(&self) -> bool {
        self.stage == Stage::Closed && self.closing.is_none()
    }
}

/// The path to the group itself; those to its members have other numbers.
const GROUP: PathId = PathId(0);
/// Before the first data, announcements follow each other at twice this, and so on.
const FIRST_ANNOUNCEMENTS: Duration = Duration::from_millis(50);
/// The shortest and the longest time from one announcement to the next. At the longest they take 1.4 kbit/s.
const LEAST_ANNOUNCEMENT: Duration = Duration::from_millis(20);
const MOST_ANNOUNCEMENT: Duration = Duration::from_millis(500);
/// Members are looked at so often.
const CHECK: Duration = Duration::from_millis(100);
/// Members report at most and at least so often.
const SHORTEST_STATUS: Duration = Duration::from_millis(100);
/// The longest that a packet's fate is asked for after its deadline.
const MOST_PATIENCE: Duration = Duration::from_secs(1);
/// Answers that wait to be sent; further ones are dropped, and asked for again.
const MOST_ANSWERS: usize = 256;
/// The end is said so often, with so much time in between.
const TIMES_ENDED: u32 = 3;
const BETWEEN_ENDS: Duration = Duration::from_millis(20);
/// Packets for which memory is reserved, and full ones whose bytes have room.
const LEAST_RESERVED: usize = 256;
const READY: usize = 32;
