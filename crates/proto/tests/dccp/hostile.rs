//! Unknown sources: forged packets, floods, and packets that were damaged on their way.

use std::time::Duration;

use antiphon_core::{CloseMode, Endpoint, Event, Instant, Message, Rng, Role, Tag};
use antiphon_proto::dccp::wire::{Header, Kind, OptionWriter, Packet, ResetCode, emit};
use antiphon_proto::dccp::{Checksum, Seq48};

use crate::common::ends::{events, fetched, flush, has_ended, say};
use crate::common::hear;
use crate::world::{World, datagram, endpoint, paced};

pub fn header(bytes: &[u8]) -> Header {
    Packet::parse(bytes, Checksum::Udp).expect("a packet").header
}

fn bytes(header: &Header, data: &[u8]) -> Vec<u8> {
    let mut buf = [0; 1452];
    let len = emit(header, &OptionWriter::default(), data, Checksum::Udp, &mut buf).expect("room");
    buf[..len].to_vec()
}

/// Two ends that know each other, and the client's last packet.
struct Connected {
    client: Box<dyn Endpoint>,
    server: Box<dyn Endpoint>,
    now: Instant,
    last: Header,
    /// The server's last packet.
    answer: Header,
}

impl Connected {
    fn new(query: &str) -> Self {
        let (client, server) = (endpoint(query, Role::Caller, 1), endpoint(query, Role::Listener, 2));
        let none = Header::new((0, 0), Kind::Data, Seq48::default());
        let now = Instant::from_millis(1);
        let mut connected = Connected { client, server, now, last: none, answer: none };
        // For more than a second: each end has asked whether the path takes what the driver says, and says no more.
        (0..60).for_each(|_| connected.exchange());
        connected.send(4);
        assert_eq!(fetched(&mut *connected.server)[0].len(), 100);
        connected
    }

    /// All that both have to say, 20 ms later.
    fn exchange(&mut self) {
        self.now += Duration::from_millis(20);
        for packet in flush(&mut *self.client, self.now) {
            self.last = header(&packet);
            hear(&mut *self.server, self.now, &packet);
        }
        for packet in flush(&mut *self.server, self.now) {
            self.answer = header(&packet);
            hear(&mut *self.client, self.now, &packet);
        }
    }

    fn send(&mut self, messages: u32) {
        for _ in 0..messages {
            say(&mut *self.client, self.now, &[7; 100]);
            self.exchange();
        }
        (0..5).for_each(|_| self.exchange());
    }

    /// A packet to the server, `ahead` of the client's last.
    fn forged(&self, kind: Kind, ahead: i64) -> Vec<u8> {
        let ports = (self.last.source, self.last.destination);
        bytes(&Header::new(ports, kind, self.last.seq.plus(ahead)), &[9; 30])
    }
}

fn kinds(ack: Seq48) -> [Kind; 8] {
    let reset = Kind::Reset { ack, code: ResetCode::ABORTED, data: [0; 3] };
    let service = u32::from_be_bytes(*b"RTPA");
    [
        Kind::Request { service },
        Kind::Data,
        Kind::Ack { ack },
        Kind::DataAck { ack },
        Kind::Close { ack },
        reset,
        Kind::Sync { ack },
        Kind::SyncAck { ack },
    ]
}

#[test]
fn blind_forgeries_end_nothing_and_get_eight_answers_a_second() {
    for query in ["ccid=2", "ccid=3"] {
        let mut pair = Connected::new(query);
        let mut rng = Rng::fork(3, "forger");
        let (before, mut answers) = (pair.server.stats().counters, 0);
        let (start, count) = (pair.now, 40_000);
        for n in 0..count {
            pair.now = start + Duration::from_micros(50) * n;
            let kind = kinds(Seq48::random(&mut rng))[rng.below(8) as usize];
            let far = Seq48::random(&mut rng).distance(Seq48::default());
            let forged = pair.forged(kind, far);
            hear(&mut *pair.server, pair.now, &forged);
            answers += flush(&mut *pair.server, pair.now).len();
        }
        let after = pair.server.stats().counters;
        assert_eq!(after.malformed - before.malformed, u64::from(count), "{query}: all are noticed");
        assert!((15..=17).contains(&answers), "{query}: {answers} answers in two seconds");
        assert!(fetched(&mut *pair.server).is_empty(), "{query}: nothing is taken for data");
        // And the two go on as if nothing had been: the Syncs, which the client never saw, cost numbers only.
        pair.send(50);
        assert_eq!(fetched(&mut *pair.server).len(), 50, "{query}");
    }
}

#[test]
fn acknowledgements_of_packets_never_sent_open_no_window() {
    for query in ["ccid=2", "ccid=3"] {
        let mut pair = Connected::new(query);
        // The server sends, too: two messages are on their way to a client that never says so.
        for _ in 0..8 {
            say(&mut *pair.server, pair.now, &[5; 1000]);
        }
        let sent = flush(&mut *pair.server, pair.now).len();
        let newest = pair.answer.seq.plus(sent as i64);
        let before = pair.server.stats();
        let never = [newest.plus(1), newest.plus(5), newest.plus(1 << 40), pair.answer.seq.plus(-3000)];
        for (n, ack) in never.into_iter().enumerate() {
            let forged = pair.forged(Kind::Ack { ack }, 1 + n as i64);
            hear(&mut *pair.server, pair.now, &forged);
        }
        let after = pair.server.stats();
        assert_eq!((before.cwnd, before.in_flight, before.srtt), (after.cwnd, after.in_flight, after.srtt));
        assert_eq!(before.pacing_rate, after.pacing_rate);
        assert_eq!(after.counters.malformed - before.counters.malformed, 4);
        let answers: Vec<Kind> = flush(&mut *pair.server, pair.now).iter().map(|p| header(p).kind).collect();
        assert!(matches!(answers[..], [Kind::Sync { .. }, ..]), "{answers:?}");
    }
}

#[test]
fn only_a_reset_with_the_right_number_ends_a_connection() {
    let mut pair = Connected::new("");
    let reset = |ack| Kind::Reset { ack, code: ResetCode::ABORTED, data: [0; 3] };
    let known = pair.answer.seq;
    for (ack, ahead) in
        [(known, 0), (known, -5), (known, 5_000), (known.plus(50), 1), (known.plus(-5_000), 1)]
    {
        let forged = pair.forged(reset(ack), ahead);
        pair.now += Duration::from_secs(1);
        hear(&mut *pair.server, pair.now, &forged);
        let kinds: Vec<Kind> = flush(&mut *pair.server, pair.now).iter().map(|p| header(p).kind).collect();
        // RFC 4340 §7.5.4: for a Reset the Sync names the number last received, not the forged one.
        assert_eq!(kinds, [Kind::Sync { ack: pair.last.seq }], "{ahead}");
    }
    let sent = pair.server.stats().counters;
    let right = pair.forged(reset(pair.answer.seq), 1);
    hear(&mut *pair.server, pair.now, &right);
    assert!(flush(&mut *pair.server, pair.now).is_empty(), "a Reset is never answered");
    let events = events(&mut *pair.server);
    assert!(matches!(events.last(), Some(Event::Closed(_))), "{events:?}");
    assert!(sent.malformed >= 5);
}

/// RFC 4340 §5.8.2 and §8.1.4. A valid option may end a connection; one that may be ignored is.
#[test]
fn unknown_mandatory_options_end_it_with_the_right_code() {
    let not_understood = Some((ResetCode::MANDATORY_ERROR, [55, 7, 0]));
    for (options, expected) in [
        ([1, 55, 3, 7], not_understood),
        ([0, 55, 3, 7], None),
        // Mandatory with nothing behind it.
        ([0, 0, 0, 1], Some((ResetCode::MANDATORY_ERROR, [1, 0, 0]))),
        // An Init Cookie that this server never sealed.
        ([36, 4, 1, 2], Some((ResetCode::BAD_INIT_COOKIE, [0; 3]))),
    ] {
        let mut pair = Connected::new("");
        let ports = (pair.last.source, pair.last.destination);
        let head = Header::new(ports, Kind::Ack { ack: pair.answer.seq }, pair.last.seq.plus(1));
        let (mut writer, mut buf) = (OptionWriter::default(), [0; 64]);
        writer.put(60, &[&[0, 0]]);
        let len = emit(&head, &writer, &[], Checksum::Udp, &mut buf).expect("room");
        buf[head.kind.header_len()..len].copy_from_slice(&options);
        pair.server.handle_input(pair.now, datagram(&mut buf[..len], pair.now));
        let resets = flush(&mut *pair.server, pair.now).iter().find_map(|packet| match header(packet).kind {
            Kind::Reset { code, data, .. } => Some((code, data)),
            _ => None,
        });
        assert_eq!(resets, expected, "{options:?}");
        assert_eq!(has_ended(&mut *pair.server), expected.is_some(), "{options:?}");
    }
}

/// Adds a Timestamp with this chance, else a Change of a feature to up to so many bytes of `value`.
pub fn wish(options: &mut OptionWriter, rng: &mut Rng, stamps: f64, feature: u8, value: &[u8], most: u32) {
    if rng.chance(stamps) {
        options.put(41, &[&value[..4]]);
    } else {
        options.put(32 + 2 * rng.below(2) as u8, &[&[feature], &value[..1 + rng.below(most) as usize]]);
    }
}

#[test]
fn unproved_addresses_are_sent_no_more_than_came() {
    for seed in 0..20 {
        let mut rng = Rng::fork(seed, "spoofer");
        let mut server = endpoint("", Role::Listener, seed);
        let (mut came, mut went, mut now) = (0, 0, Instant::from_millis(1));
        for n in 0..2_000u32 {
            let service = if rng.chance(0.1) { 0 } else { u32::from_be_bytes(*b"RTPA") };
            let mut kind = kinds(Seq48::random(&mut rng))[rng.below(8) as usize];
            if rng.chance(0.7) {
                kind = Kind::Request { service };
            }
            // The same numbers or others, options or not.
            let seq = Seq48::new(u64::from(n) + if rng.chance(0.1) { 1 << 30 } else { 0 });
            let port = 5004 + u16::from(rng.chance(0.05));
            let head = Header::new((40_000, port), kind, seq);
            let mut options = OptionWriter::default();
            for _ in 0..rng.below(5) {
                // Timestamps, Changes of what is known and unknown: all of them want an answer.
                let (feature, value) = (rng.below(12) as u8, rng.next_u32().to_be_bytes());
                wish(&mut options, &mut rng, 0.3, feature, &value, 3);
            }
            let mut buf = [0; 1452];
            let len = emit(&head, &options, &[], Checksum::Udp, &mut buf).expect("room");
            if len > 28 && rng.chance(0.1) {
                // Mandatory before whatever follows: a reason to end it all with a Reset.
                buf[head.kind.header_len()] = 1;
            }
            came += len;
            server.handle_input(now, datagram(&mut buf[..len], now));
            went += flush(&mut *server, now).iter().map(Vec::len).sum::<usize>();
            assert!(went <= came, "{went} bytes went where {came} came from");
            now += Duration::from_millis(u64::from(rng.below(40)));
        }
        assert!(went > 0, "it did answer");
        assert!(!events(&mut *server).contains(&Event::Connected), "no source proved anything");
    }
}

#[test]
fn a_request_to_the_wrong_service_or_port_is_refused() {
    let hear = |service: &[u8; 4], port: u16| {
        let mut server = endpoint("", Role::Listener, 1);
        let kind = Kind::Request { service: u32::from_be_bytes(*service) };
        let head = Header::new((40_000, port), kind, Seq48::new(77));
        let now = Instant::from_millis(1);
        let mut request = bytes(&head, &[]);
        // Padding pays for the answer.
        request[4] += 10;
        request.extend([0; 40]);
        hear(&mut *server, now, &request);
        flush(&mut *server, now).iter().map(|packet| header(packet)).collect::<Vec<_>>()
    };
    let answer = hear(b"RTPV", 5004);
    let code = |header: &Header| match header.kind {
        Kind::Reset { code, ack, .. } => {
            assert_eq!((ack, header.seq), (Seq48::new(77), Seq48::new(0)));
            Some(code)
        }
        _ => None,
    };
    assert_eq!(answer.iter().map(code).collect::<Vec<_>>(), [Some(ResetCode::BAD_SERVICE)]);
    let answer = hear(b"RTPA", 5005);
    assert_eq!(answer.iter().map(code).collect::<Vec<_>>(), [Some(ResetCode::NO_CONNECTION)]);
    assert!(matches!(hear(b"RTPA", 5004)[..], [Header { kind: Kind::Response { .. }, .. }]));
}

#[test]
fn damaged_repeated_and_overtaken_packets_break_no_promise() {
    let mut total = 0;
    for seed in 0..60u64 {
        let query = ["ccid=2", "ccid=3", "order=newest", "coverage=3"][seed as usize % 4];
        let mut rng = Rng::fork(seed, "damage");
        let mut ends = [endpoint(query, Role::Caller, seed), endpoint(query, Role::Listener, seed + 1)];
        let (mut open, mut accepted, mut closed) = ([0u64; 2], [0u64; 2], [false; 2]);
        let (mut wire, mut now) = (Vec::<(usize, Vec<u8>)>::new(), Instant::from_millis(1));
        for n in 0..1_500 {
            now += Duration::from_millis(u64::from(rng.below(8)));
            for (i, end) in ends.iter_mut().enumerate() {
                if rng.chance(0.3)
                    && end
                        .send(now, Message::new(Tag::NONE, &[3; 200], Some(now + Duration::from_millis(60))))
                        .is_ok()
                {
                    accepted[i] += 1;
                    open[i] += 1;
                }
                wire.extend(flush(&mut **end, now).into_iter().map(|packet| (1 - i, packet)));
                if n == 1_400 {
                    end.close(now, if seed % 2 == 0 { CloseMode::Graceful } else { CloseMode::Abort });
                }
                assert!(fetched(&mut **end).iter().all(|bytes| !closed[i] && !bytes.is_empty()));
                for event in events(&mut **end) {
                    assert!(!closed[i], "{event:?} after Closed");
                    open[i] -= u64::from(matches!(event, Event::Outcome { .. }));
                    closed[i] |= matches!(event, Event::Closed(_));
                    assert!(!closed[i] || open[i] == 0, "an outcome for every message before Closed");
                }
            }
            while !wire.is_empty() && rng.chance(0.7) {
                let (to, mut packet) = wire.swap_remove(rng.below(wire.len() as u32) as usize);
                if rng.chance(0.1) {
                    wire.push((to, packet.clone()));
                }
                if n > 20 && rng.chance(0.05) {
                    let at = rng.below(packet.len().min(80) as u32) as usize;
                    packet[at] = rng.next_u32() as u8;
                }
                if rng.chance(0.02) {
                    packet.truncate(rng.below(60) as usize);
                }
                hear(&mut *ends[to], now, &packet);
            }
        }
        total += accepted[0] + accepted[1];
    }
    // Damage that passes for a Reset ends some early; of some 800 messages each most go well.
    assert!(total > 60 * 300, "{total} messages");
}

#[test]
fn a_stream_whose_data_is_lost_for_long_stays_synchronised() {
    // A message in half a second, and most of an hour in which no data gets through: more than three quarters of the
    // window of 2048 numbers are used up by them. Only the questions whether the peer is there keep both ends in step.
    let (every, budget) = (Duration::from_millis(500), Duration::from_millis(400));
    let mut world = World::new("delay=20ms", "", paced(Instant::from_millis(500), 100, every, budget), 5);
    let (begins, ends) = (Instant::from_millis(10_000), Instant::from_millis(2_500_000));
    world.run_until(begins);
    world.up.taken = Some(Box::new(|_, bytes| matches!(bytes[8] >> 1 & 0x0f, DATA | DATA_ACK)));
    world.run_until(ends);
    world.up.taken = None;
    let probes = world.near[0].counters().datagrams_sent;
    assert!(probes > 3 * 2048 / 4 + 20, "{probes} packets were sent");
    let until = ends + Duration::from_secs(20);
    world.run_until(until);
    let arrived = world.arrived(0, ends, until);
    // 40 messages; the rate has fallen to a packet in some seconds, as nearly all were lost.
    assert!(arrived >= 30, "{arrived} messages arrive afterwards");
}

#[test]
fn duplicates_by_the_network_are_delivered_once() {
    for query in ["ccid=2", "ccid=3"] {
        let (every, budget) = (Duration::from_millis(5), Duration::from_millis(80));
        let talk = paced(Instant::from_millis(500), 100, every, budget);
        let mut world = World::new("delay=20ms,duplicate=20%", query, talk, 5);
        world.run_until(Instant::from_millis(5_490));
        let doubled = world.far[0].counters().duplicates;
        assert!(doubled > 100, "{query}: {doubled} packets came twice");
        // 998 messages, the last four of them still on their way.
        let arrived = world.arrivals().len();
        assert!((985..=998).contains(&arrived), "{query}: {arrived} messages");
    }
}

/// Packet types (RFC 4340 §5.1).
const DATA: u8 = 2;
const DATA_ACK: u8 = 4;
