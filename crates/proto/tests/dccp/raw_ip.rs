//! The same endpoint directly over IP, as protocol 33.

use std::net::IpAddr;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{CloseMode, CloseReason, Endpoint, Event, Frame, Instant};
use antiphon_proto::Role;
use antiphon_proto::dccp::wire::{Kind, Packet, ResetCode};
use antiphon_proto::dccp::{Checksum, DccpEndpoint, RTP_AUDIO, Settings};

use crate::world::datagram;

/// What went over the wire: whether from the client, and the packet.
type Log = Vec<(bool, Vec<u8>)>;

struct Wire {
    client: DccpEndpoint,
    server: DccpEndpoint,
    now: Instant,
    log: Log,
    received: usize,
    events: [Vec<Event>; 2],
}

fn checksum(addresses: [&str; 2]) -> Checksum {
    let [one, other] = addresses.map(|text| text.parse::<IpAddr>().expect("an address"));
    Checksum::over_ip(one, other).expect("of one family")
}

impl Wire {
    fn new(query: &str, checksums: [Checksum; 2]) -> Self {
        let settings = Settings::read(&query.parse::<Query>().expect("a query")).expect("settings");
        let end =
            |role, checksum, seed| DccpEndpoint::new(settings, role, checksum, 1480, seed, Instant::ZERO);
        Wire {
            client: end(Role::Caller, checksums[0], 1),
            server: end(Role::Listener, checksums[1], 2),
            now: Instant::ZERO,
            log: Vec::new(),
            received: 0,
            events: [Vec::new(), Vec::new()],
        }
    }

    /// 5 ms, each way as much.
    fn step(&mut self) {
        self.now += Duration::from_millis(5);
        let (now, mut buf) = (self.now, vec![0; 65_536]);
        for from_client in [true, false] {
            let (from, to) = match from_client {
                true => (&mut self.client, &mut self.server),
                false => (&mut self.server, &mut self.client),
            };
            if from.poll_timeout().is_some_and(|at| at <= now) {
                from.handle_timeout(now);
            }
            while let Some(sent) = from.poll_transmit(now, &mut buf) {
                self.log.push((from_client, buf[..sent.len].to_vec()));
                to.handle_input(now, datagram(&buf[..sent.len], now));
            }
            while to.poll_frame(&mut buf).is_some() {
                self.received += 1;
            }
            while let Some(event) = from.poll_event() {
                self.events[usize::from(!from_client)].push(event);
            }
        }
    }

    /// A hundred frames each way, then the end that `closes` says.
    fn conversation(&mut self, client_closes: bool) {
        for n in 0..140 {
            if (20..120).contains(&n) {
                for end in [&mut self.client, &mut self.server] {
                    end.send(self.now, Frame::new(&[0x80; 300], None)).expect("room");
                }
            }
            self.step();
        }
        let end = if client_closes { &mut self.client } else { &mut self.server };
        end.close(self.now, CloseMode::Graceful);
        (0..40).for_each(|_| self.step());
    }
}

#[test]
fn a_conversation_over_ip_has_right_checksums_and_a_right_end() {
    for addresses in [["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]] {
        let sum = checksum(addresses);
        for (query, client_closes) in
            [("ccid=2", true), ("ccid=2", false), ("ccid=3", true), ("ccid=3&coverage=1", false)]
        {
            let mut wire = Wire::new(query, [sum; 2]);
            wire.conversation(client_closes);
            assert_eq!(wire.received, 200, "{query}");
            let kinds: Vec<Kind> = wire
                .log
                .iter()
                .map(|(_, bytes)| Packet::parse(bytes, sum).expect("a right checksum").header.kind)
                .collect();
            assert!(matches!(kinds[0], Kind::Request { service: RTP_AUDIO }), "{:?}", kinds[0]);
            assert!(matches!(kinds[1], Kind::Response { service: RTP_AUDIO, .. }), "{:?}", kinds[1]);
            let count = |wanted: fn(&Kind) -> bool| kinds.iter().filter(|kind| wanted(kind)).count();
            let asked = count(|kind| matches!(kind, Kind::CloseReq { .. }));
            assert_eq!(asked, usize::from(!client_closes), "only a server asks for the Close");
            assert_eq!(count(|kind| matches!(kind, Kind::Close { .. })), 1);
            let last = kinds[kinds.len() - 1];
            assert!(matches!(last, Kind::Reset { code: ResetCode::CLOSED, .. }), "{last:?}");
            let covered =
                wire.log.iter().filter(|(_, b)| Packet::parse(b, sum).expect("parsed").header.coverage > 0);
            assert_eq!(covered.count() > 190, query.contains("coverage"), "coverage was agreed on");
            let ends = wire.events.each_ref().map(|events| *events.last().expect("events"));
            let (ours, theirs) = (Event::Closed(CloseReason::Local), Event::Closed(CloseReason::Peer));
            assert_eq!(ends, if client_closes { [ours, theirs] } else { [theirs, ours] }, "{query}");
        }
    }
}

#[test]
fn a_wrong_pseudo_header_is_another_connection() {
    let sums = [checksum(["192.0.2.1", "192.0.2.2"]), checksum(["192.0.2.1", "192.0.2.3"])];
    let mut wire = Wire::new("", sums);
    (0..10).for_each(|_| wire.step());
    assert!(wire.server.path_stats().counters.malformed > 0 && wire.events[0].is_empty());
}
