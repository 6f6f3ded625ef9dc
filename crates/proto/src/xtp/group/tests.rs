//! A sender and its members, with a path of 10 ms to each that loses packets independently.

mod hostile;
mod members;
mod proof;
mod shares;
mod whole;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{
    CloseMode, CloseReason, Endpoint, Event, Input, Instant, Message, Outcome, PathId, Rng, Secret, Tag,
    handle_due,
};

use super::{GroupMember, GroupSender, MOST_MEMBERS};
use crate::seeds::Seeds;
use crate::xtp::settings;
use crate::xtp::wire::{self, Header, Segment, Status, diag, option};

const STEP: Duration = Duration::from_millis(1);
const PACKET: usize = 1400;
const LEN: usize = 1000;

struct Member {
    end: GroupMember,
    /// Share of packets from the sender, and to it, that are lost.
    loss: f64,
    messages: Vec<u64>,
    /// When each of them came.
    came: Vec<Instant>,
    events: Vec<Event>,
    alive: bool,
}

struct Group {
    sender: GroupSender,
    members: Vec<Member>,
    now: Instant,
    one_way: Duration,
    /// Share of the packets to the group that nobody gets.
    common_loss: f64,
    /// When, to whom (0: the sender), from whom.
    flight: VecDeque<(Instant, usize, PathId, Vec<u8>)>,
    rng: Rng,
    events: Vec<Event>,
    came: Vec<(PathId, Vec<u8>)>,
    next: u64,
    traffic: Traffic,
    /// Joins that members have sent.
    joins: Vec<Vec<u8>>,
    /// Bytes that came to the sender, and left it, by path.
    seen: Vec<(PathId, usize, bool)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    data: usize,
    repairs: usize,
    coded: usize,
    reports: usize,
    /// Packets with data that were sent before.
    first_of: u64,
    /// Members that were told to leave, and joins that were refused.
    told: usize,
    refused: usize,
}

impl Group {
    fn new(query: &str, members: usize, loss: f64) -> Self {
        let read = || settings::read(&query.parse().expect("a query"), PACKET - 40, true).expect("settings");
        let now = Instant::from_millis(1000);
        let seeds = Seeds::new(Secret::for_laboratory(1));
        let members = (0..members as u64).map(|n| {
            let end = GroupMember::open(
                read(),
                PACKET,
                50_000 + n as u16,
                &Seeds::new(Secret::for_laboratory(100 + n)),
                now,
            );
            Member { end, loss, messages: Vec::new(), came: Vec::new(), events: Vec::new(), alive: true }
        });
        Group {
            sender: GroupSender::open(read(), PACKET, &seeds, now),
            members: members.collect(),
            now,
            one_way: Duration::from_millis(10),
            common_loss: 0.0,
            flight: VecDeque::new(),
            rng: Rng::new(77),
            events: Vec::new(),
            came: Vec::new(),
            next: 0,
            traffic: Traffic::default(),
            joins: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn count(&mut self, packet: &[u8], path: PathId) {
        let Some((header, segment)) = wire::parse(packet) else { panic!("our own packet is sound") };
        match segment {
            Segment::Data { .. } if path == PathId(0) && header.seq >= self.traffic.first_of => {
                self.traffic.first_of = header.seq + 1;
                self.traffic.data += packet.len();
            }
            Segment::Data { .. } => self.traffic.repairs += packet.len(),
            Segment::Diag { code: diag::CONTEXT_ABANDONED, .. } => self.traffic.told += 1,
            Segment::Diag { code: diag::JOIN_REFUSED, .. } => self.traffic.refused += 1,
            Segment::Repair(_) => {
                self.traffic.repairs += packet.len();
                self.traffic.coded += 1;
            }
            _ => {}
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.now += STEP;
            let now = self.now;
            while let Some((_, to, path, mut bytes)) = self.flight.pop_front_if(|(at, ..)| *at <= now) {
                let input = Input::Datagram { path, bytes: &mut bytes, received_at: now };
                match to.checked_sub(1) {
                    None => self.sender.handle_input(now, input),
                    Some(at) if self.members[at].alive => self.members[at].end.handle_input(now, input),
                    Some(_) => {}
                }
            }
            let mut buf = [0; PACKET];
            handle_due(&mut self.sender, now);
            while let Some(sent) = self.sender.poll_transmit(now, &mut buf) {
                self.count(&buf[..sent.len], sent.path);
                self.seen.push((sent.path, sent.len, true));
                if sent.path == PathId(0) && self.common_loss > 0.0 && self.rng.chance(self.common_loss) {
                    continue;
                }
                for (at, member) in self.members.iter().enumerate() {
                    let reaches = sent.path == PathId(0) || sent.path == PathId(at as u32 + 1);
                    if reaches && !self.rng.chance(member.loss) {
                        self.flight.push_back((
                            now + self.one_way,
                            at + 1,
                            PathId(0),
                            buf[..sent.len].to_vec(),
                        ));
                    }
                }
            }
            let mut room = vec![0; crate::xtp::MAX_MESSAGE];
            while let Some(received) = self.sender.poll_message(&mut room) {
                self.came.push((received.path, room[..received.len].to_vec()));
            }
            self.events.extend(std::iter::from_fn(|| self.sender.poll_event()));
            for (at, member) in self.members.iter_mut().enumerate().filter(|(_, member)| member.alive) {
                handle_due(&mut member.end, now);
                while let Some(sent) = member.end.poll_transmit(now, &mut buf) {
                    self.traffic.reports += sent.len;
                    if matches!(wire::parse(&buf[..sent.len]), Some((_, Segment::Join { .. }))) {
                        self.joins.push(buf[..sent.len].to_vec());
                    }
                    if !self.rng.chance(member.loss) {
                        let path = PathId(at as u32 + 1);
                        self.seen.push((path, sent.len, false));
                        self.flight.push_back((now + self.one_way, 0, path, buf[..sent.len].to_vec()));
                    }
                }
                while let Some(received) = member.end.poll_message(&mut room) {
                    let number = u64::from_be_bytes(*room.first_chunk().expect("eight bytes"));
                    assert!(room[8..received.len].iter().all(|byte| *byte == number as u8), "{number}");
                    member.messages.push(number);
                    member.came.push(now);
                }
                member.events.extend(std::iter::from_fn(|| member.end.poll_event()));
            }
        }
    }

    fn send(&mut self, len: usize, budget: Option<Duration>) {
        let mut bytes = vec![self.next as u8; len];
        bytes[..8].copy_from_slice(&self.next.to_be_bytes());
        let deadline = budget.map(|budget| self.now + budget);
        self.sender.send(self.now, Message::new(Tag(self.next), &bytes, deadline)).expect("room");
        self.next += 1;
    }

    /// A message each 5 ms.
    fn stream(&mut self, count: u64, budget: Option<Duration>) {
        for _ in 0..count {
            self.send(LEN, budget);
            self.run(5);
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let outcome =
            |event: &Event| if let Event::Outcome { outcome, .. } = event { Some(*outcome) } else { None };
        self.events.iter().filter_map(outcome).collect()
    }

    fn joined(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::PathProved(_))).count()
    }

    fn missing(&self, member: usize) -> usize {
        let mut got = self.members[member].messages.clone();
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), self.members[member].messages.len(), "nothing comes twice");
        self.next as usize - got.len()
    }
}

fn left(member: u32, why: CloseReason) -> Event {
    Event::MemberLeft { member: PathId(member), why }
}

/// A report of the member on path 1, its packet number `sync`.
fn reported(group: &Group, status: Status, sync: u32) -> Vec<u8> {
    let (key, number) = group.sender.member_for_tests(PathId(1));
    let header = Header { key, returned: true, options: option::MULTI, sort: 0, sync, seq: number };
    let mut buf = vec![0; 200];
    let mut writer = wire::Writer::new(&mut buf, &header, wire::format::CNTL);
    writer.status(&status);
    let len = writer.finish();
    buf.truncate(len);
    buf
}
