//! The same endpoint directly over IP, as protocol 33.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{CloseMode, CloseReason, Endpoint, Event, Instant, Role};
use antiphon_proto::dccp::wire::{Header, Kind, Packet, ResetCode};
use antiphon_proto::dccp::{Checksum, DccpEndpoint, RTP_AUDIO, Settings};
use antiphon_testkit::{Parties, Party, Shape, Talk, World};

/// A client and a server, and the packets that went over the wire.
struct Wire {
    world: World<Parties, Parties>,
    log: Rc<RefCell<Vec<Vec<u8>>>>,
}

fn checksum(addresses: [&str; 2]) -> Checksum {
    let [one, other] = addresses.map(|text| text.parse::<IpAddr>().expect("an address"));
    Checksum::over_ip(one, other).expect("of one family")
}

impl Wire {
    /// Each end has a hundred messages to send.
    fn new(query: &str, checksums: [Checksum; 2]) -> Self {
        let settings = Settings::read(&query.parse::<Query>().expect("a query")).expect("settings");
        let end = |role, checksum, seed| {
            let endpoint = DccpEndpoint::new(
                settings,
                role,
                checksum,
                MOST,
                antiphon_core::Secret::for_laboratory(seed),
                Instant::ZERO,
            );
            let (begins, every) = (Instant::from_millis(100), Duration::from_millis(5));
            let talk = Talk::paced(begins, every, 100, |_, _| Shape::new(300, None));
            let endpoint: Box<dyn Endpoint> = Box::new(endpoint);
            [Party::new(endpoint).talking(talk)]
        };
        let (near, far) = (end(Role::Caller, checksums[0], 1), end(Role::Listener, checksums[1], 2));
        let mut world = World::side_by_side(near, far, &["delay=2ms"], 1);
        world.most = MOST;
        let log = world.log(|leaving| leaving.bytes.to_vec());
        Wire { world, log }
    }

    /// A hundred messages each way, then the end that `closes` says.
    fn conversation(&mut self, client_closes: bool) {
        let ends = Instant::from_millis(700);
        self.world.run_until(ends);
        let end = if client_closes { &mut self.world.near[0] } else { &mut self.world.far[0] };
        end.endpoint.close(ends, CloseMode::Graceful);
        self.world.run_until(ends + Duration::from_millis(200));
    }
}

/// What a packet may have, for an Ethernet path over IPv4.
const MOST: usize = 1480;

#[test]
fn a_conversation_over_ip_has_right_checksums_and_a_right_end() {
    for addresses in [["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]] {
        let sum = checksum(addresses);
        for (query, client_closes) in
            [("ccid=2", true), ("ccid=2", false), ("ccid=3", true), ("ccid=3&coverage=1", false)]
        {
            let mut wire = Wire::new(query, [sum; 2]);
            wire.conversation(client_closes);
            let (near, far) = (&wire.world.near[0], &wire.world.far[0]);
            assert_eq!(near.messages.len() + far.messages.len(), 200, "{query}");
            let log = wire.log.borrow();
            let headers = log.iter().map(|bytes| Packet::parse(bytes, sum).expect("a right checksum").header);
            let headers: Vec<Header> = headers.collect();
            let kinds: Vec<Kind> = headers.iter().map(|header| header.kind).collect();
            assert!(matches!(kinds[0], Kind::Request { service: RTP_AUDIO }), "{:?}", kinds[0]);
            assert!(matches!(kinds[1], Kind::Response { service: RTP_AUDIO, .. }), "{:?}", kinds[1]);
            let count = |wanted: fn(&Kind) -> bool| kinds.iter().filter(|kind| wanted(kind)).count();
            let asked = count(|kind| matches!(kind, Kind::CloseReq { .. }));
            assert_eq!(asked, usize::from(!client_closes), "only a server asks for the Close");
            assert_eq!(count(|kind| matches!(kind, Kind::Close { .. })), 1);
            let last = kinds[kinds.len() - 1];
            assert!(matches!(last, Kind::Reset { code: ResetCode::CLOSED, .. }), "{last:?}");
            let covered = headers.iter().filter(|header| header.coverage > 0);
            assert_eq!(covered.count() > 190, query.contains("coverage"), "coverage was agreed on");
            let ends = [near, far].map(|end| end.events.last().expect("events").1);
            let (ours, theirs) = (Event::Closed(CloseReason::Local), Event::Closed(CloseReason::Peer));
            assert_eq!(ends, if client_closes { [ours, theirs] } else { [theirs, ours] }, "{query}");
        }
    }
}

#[test]
fn a_wrong_pseudo_header_is_another_connection() {
    let sums = [checksum(["192.0.2.1", "192.0.2.2"]), checksum(["192.0.2.1", "192.0.2.3"])];
    let mut wire = Wire::new("", sums);
    wire.world.run_until(Instant::from_millis(50));
    assert!(wire.world.far[0].counters().malformed > 0 && wire.world.near[0].events.is_empty());
}
