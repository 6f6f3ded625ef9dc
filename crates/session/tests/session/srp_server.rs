//! One SRP server for many clients on one socket: each has its own state, gets the streams that it chose, and has only
//! its own losses repaired.

use std::time::Duration;

use antiphon_core::{Endpoint, Instant, Message, PathId, Rng, Role, StreamId, Tag};
use antiphon_session::{AssociationId, Associations, Policy};

use crate::world::{WIRE, datagram, endpoint, ms, stack};

/// Sends a message of each of three streams every 20 ms to each client.
struct Server {
    associations: Associations,
    sources: Vec<Source>,
}

struct Source {
    to: AssociationId,
    next: Instant,
    sent: u8,
}

const INTERVAL: Duration = Duration::from_millis(20);
const STREAMS: u16 = 3;

impl Server {
    fn advance(&mut self, now: Instant) {
        self.associations.advance(now);
        while let Some(to) = self.associations.poll_opened() {
            self.sources.push(Source { to, next: now + INTERVAL, sent: 0 });
        }
        for source in &mut self.sources {
            while source.next <= now {
                for stream in 0..STREAMS {
                    let bytes = [source.sent, stream as u8];
                    let stream = StreamId(stream);
                    let message = Message { stream, ..Message::new(Tag::NONE, &bytes, Some(now + ms(80))) };
                    self.associations.send(now, source.to, message).expect("nothing waits for long");
                }
                source.sent += 1;
                source.next += INTERVAL;
            }
        }
        while self.associations.poll_message(&mut [0; 70_000]).is_some() {}
        while self.associations.poll_event().is_some() {}
    }
}

struct Client {
    endpoint: Box<dyn Endpoint>,
    loss: f64,
    got: Vec<(u8, u8)>,
    repaired: usize,
}

fn client(query: &str, loss: f64, now: Instant) -> Client {
    let endpoint = endpoint(&format!("srp?{query}"), Role::Caller, now);
    Client { endpoint, loss, got: Vec::new(), repaired: 0 }
}

#[test]
fn each_client_gets_its_streams_and_its_own_repairs() {
    let mut now = Instant::from_millis(1);
    let mut hub = Server { associations: Associations::new(), sources: Vec::new() };
    let policy = Policy::Many { most: 8, idle: ms(10_000) };
    hub.associations.listen(now, WIRE, stack("srp"), policy);
    let mut clients =
        [client("streams=0", 0.0, now), client("streams=1.2", 0.1, now), client("streams=2", 0.1, now)];
    let (mut rng, mut buf) = (Rng::fork(9, "loss"), vec![0; 65_535]);
    for step in 0..2_000 {
        for (at, client) in clients.iter_mut().enumerate() {
            antiphon_core::handle_due(&mut *client.endpoint, now);
            while let Some(sent) = client.endpoint.poll_transmit(now, &mut buf) {
                let lost = rng.chance(client.loss);
                if !lost {
                    hub.associations.handle_input(
                        now,
                        WIRE,
                        datagram(&mut buf[..sent.len], PathId(at as u32), now),
                    );
                }
            }
        }
        // An unknown source's requests and reports from elsewhere make no association and change no other.
        if step % 10 == 0 {
            let mut forged = [0; 36];
            (forged[0], forged[3], forged[10]) = (0x81, 3, (step / 10) as u8);
            hub.associations.handle_input(now, WIRE, datagram(&mut forged.to_vec(), PathId(99), now));
        }
        hub.advance(now);
        while let Some(sent) = hub.associations.poll_transmit(now, WIRE, &mut buf) {
            let client = &mut clients[sent.path.0 as usize];
            if !rng.chance(client.loss) {
                let bytes = buf[..sent.len].to_vec();
                client.endpoint.handle_input(now, datagram(&mut bytes.to_vec(), PathId::default(), now));
            }
            let mut frame = vec![0; 65_535];
            while let Some(received) = client.endpoint.poll_message(&mut frame) {
                client.got.push((frame[1], frame[0]));
                assert_eq!(received.stream, StreamId(frame[1].into()));
                client.repaired += usize::from(received.repaired);
            }
        }
        now += ms(1);
    }
    let counters = hub.associations.admission(WIRE);
    assert_eq!((counters.admitted, counters.not_admitted), (3, 200));
    // From the first frame after the client's first request; if that request is lost, a repetition later at worst.
    for (client, streams) in clients.iter_mut().zip([&[0][..], &[1, 2], &[2]]) {
        client.got.sort_unstable();
        client.got.dedup();
        for stream in 0..STREAMS as u8 {
            let count = client.got.iter().filter(|(of, _)| *of == stream).count();
            if streams.contains(&stream) {
                // A tenth lost and not repaired would leave 89.
                assert!((96..=100).contains(&count), "stream {stream}: {count} of 100");
            } else {
                assert_eq!(count, 0, "stream {stream} was not asked for");
            }
        }
        assert_eq!(client.repaired > 0, client.loss > 0.0, "{} repaired", client.repaired);
    }
}
