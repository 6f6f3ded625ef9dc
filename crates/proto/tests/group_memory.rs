//! Memory of a sender to a group: little for each member, and bounded where all of them lack everything.

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Endpoint, Event, Input, Instant, Message, PathId, Role, Tag, handle_due};
use antiphon_proto::StackArgs;
use antiphon_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// As many members as a group has, and some more that are refused.
const MEMBERS: usize = 1000;
const RECEIVERS: usize = MEMBERS + 20;
const MAX_DATAGRAM: usize = 1452;

/// What the laboratory's sender and members hold is told apart by whose calls ask for it.
struct Group {
    sender: Box<dyn Endpoint>,
    members: Vec<Box<dyn Endpoint>>,
    now: Instant,
    /// Bytes that the sender holds, and the most that it has held.
    held: i64,
    most: i64,
    joined: usize,
    /// Members get packets of data.
    carries_data: bool,
    to_sender: Vec<(PathId, Vec<u8>)>,
}

fn endpoint(role: Role, seed: u64) -> Box<dyn Endpoint> {
    let query: Query = "members=0&reliability=full".parse().expect("a query");
    let args =
        StackArgs { group: true, ..StackArgs::new(&query, seed, MAX_DATAGRAM, Duration::from_millis(80)) };
    antiphon_proto::stack("xtp", &args).expect("the settings are there").open(Instant::from_millis(1), role)
}

/// Whether a packet of XTP is data, or a coded repair of it.
fn is_data(packet: &[u8]) -> bool {
    [0, 9].contains(&(packet[11] & 0x1f))
}

impl Group {
    fn new() -> Self {
        let (held, sender) = Counting::held(|| endpoint(Role::Caller, 0));
        Group {
            sender,
            members: (1..=RECEIVERS as u64).map(|seed| endpoint(Role::Listener, seed)).collect(),
            now: Instant::from_millis(1),
            held,
            most: held,
            joined: 0,
            carries_data: true,
            to_sender: Vec::new(),
        }
    }

    fn sender<T>(&mut self, work: impl FnOnce(&mut dyn Endpoint) -> T) -> T {
        let (bytes, made) = Counting::held(|| work(&mut *self.sender));
        self.held += bytes;
        self.most = self.most.max(self.held);
        made
    }

    /// A millisecond, which is also how long packets take.
    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        for (path, mut bytes) in std::mem::take(&mut self.to_sender) {
            self.sender(|end| {
                end.handle_input(now, Input::Datagram { path, bytes: &mut bytes, received_at: now });
            });
        }
        self.sender(|end| handle_due(end, now));
        let mut buf = [0; MAX_DATAGRAM];
        while let Some(sent) = self.sender(|end| end.poll_transmit(now, &mut buf)) {
            let one = (sent.path.0 as usize).checked_sub(1);
            let to = one.map_or(0..RECEIVERS, |one| one..one + 1);
            for member in self.members[to].iter_mut().filter(|_| self.carries_data || !is_data(&buf)) {
                let mut bytes = buf[..sent.len].to_vec();
                let path = PathId(0);
                member.handle_input(now, Input::Datagram { path, bytes: &mut bytes, received_at: now });
            }
        }
        while let Some(event) = self.sender(|end| end.poll_event()) {
            self.joined += usize::from(matches!(event, Event::PathProved(_)));
        }
        let mut room = vec![0; 65_536];
        for (member, path) in self.members.iter_mut().zip(1..) {
            handle_due(&mut **member, now);
            while let Some(sent) = member.poll_transmit(now, &mut buf) {
                self.to_sender.push((PathId(path), buf[..sent.len].to_vec()));
            }
            while member.poll_message(&mut room).is_some() {}
            while member.poll_event().is_some() {}
        }
    }

    /// Hands over so many messages of `len` bytes, as far as they are taken.
    fn send(&mut self, count: usize, len: usize) {
        let (now, bytes) = (self.now, vec![7; len]);
        for _ in 0..count {
            let message = Message::new(Tag::NONE, &bytes, None);
            let _refused_where_the_queue_is_full = self.sender(|end| end.send(now, message));
        }
    }
}

#[test]
fn a_thousand_members_cost_little_also_where_they_lack_everything() {
    // Of the whole: 4 MB wait for members, the entries of their packets included, 1 MB to be sent and 1 MB to be fetched.
    for len in [10_usize, 100, 1000, 1400, 20_000] {
        let mut group = Group::new();
        let alone = group.held;
        for step in 0..600 {
            if step % 20 == 0 {
                group.send(1, len);
            }
            group.step();
        }
        assert_eq!(group.joined, MEMBERS);
        let with_members = group.held;
        let each = (with_members - alone) / MEMBERS as i64;
        assert!(each < 64_000 && with_members - alone < 8_000_000, "{each} bytes for a member");
        // They say more than the application fetches.
        let now = group.now;
        for member in &mut group.members {
            let said = Message::new(Tag::NONE, &[7; 1200], None);
            member.send(now, said).expect("room");
        }
        // 4 MB a second that nobody gets, and nobody is gone yet that says so.
        group.carries_data = false;
        for step in 0..1_800_usize {
            let until = |step: usize| step * 4_000 / len;
            group.send(until(step + 1) - until(step), len);
            group.step();
        }
        println!("{len}: {alone} bytes alone, {each} for a member, {} at most", group.most);
        let (window, queue, inbox) = (4_000_000, if len < 1000 { 0 } else { 1_000_000 }, 1_000_000);
        assert!(group.most > alone + window + queue + inbox, "they were full: {} bytes", group.most);
        assert!(group.most > with_members + 5_000_000, "beside the members: {} bytes", group.most);
        assert!(group.most < 8_000_000, "{} bytes", group.most);
    }
}
