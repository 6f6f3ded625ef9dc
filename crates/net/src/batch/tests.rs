use std::os::fd::AsRawFd;
use std::time::Duration;

use antiphon_core::Instant;
use socket2::{Domain, Socket, Type};

use super::*;

use crate::clock::OsClock;

/// A pair of local sockets: unlike on loopback, a sender must wait for its receiver.
fn pair(timeout: Duration) -> (Socket, Socket) {
    let (near, far) = Socket::pair(Domain::UNIX, Type::DGRAM, None).expect("a socket pair");
    near.set_write_timeout(Some(timeout)).expect("a socket");
    near.set_send_buffer_size(4_096).expect("a socket");
    far.set_nonblocking(true).expect("a socket");
    (near, far)
}

fn fill(batch: &mut SendBatch, count: usize) {
    for n in 0..count {
        let room = batch.next().expect("room in the batch");
        room[0] = n as u8;
        batch.commit(100, None);
    }
}

#[test]
fn a_full_batch_is_sent_in_order_and_takes_no_more() {
    let (near, far) = pair(Duration::from_millis(40));
    near.set_send_buffer_size(1 << 16).expect("a socket");
    let mut batch = SendBatch::new(200);
    // Local sockets queue only so few (net.unix.max_dgram_qlen, 10 on most machines).
    fill(&mut batch, 8);
    assert_eq!(batch.send(near.as_raw_fd(), |error| panic!("{error}")), Taken(0xff));
    assert_eq!(batch.len(), 0);
    let mut received = ReceiveBatch::new();
    let ask = Ask { wait: false, names: true };
    received.fall_behind();
    assert_eq!(received.receive(far.as_raw_fd(), ask).expect("a socket"), 8);
    for n in 0..8 {
        let datagram = received.datagram(n);
        assert_eq!((datagram.bytes.len(), datagram.bytes[0]), (100, n as u8));
        assert!(datagram.from.is_none(), "no address of IP");
    }
    assert_eq!(received.receive(far.as_raw_fd(), ask).expect("a socket"), 0);
    fill(&mut batch, BATCH);
    assert!(batch.next().is_none());
}

#[test]
fn a_blocked_receiver_costs_one_send_time_out_a_batch() {
    let once = || {
        let (near, _far) = pair(Duration::from_millis(40));
        let clock = OsClock::new();
        let mut batch = SendBatch::new(200);
        let mut failed = 0;
        for _ in 0..4 {
            fill(&mut batch, BATCH);
            batch.send(near.as_raw_fd(), |_| failed += 1);
        }
        // 64 datagrams into a socket with room for some ten: at 40 ms each they would take two seconds.
        assert!(failed > 40, "{failed} found no room");
        clock.now().since(Instant::ZERO)
    };
    // The least of several, since a busy machine wakes a thread late now and then.
    let took = [once(), once(), once()];
    let least = took.iter().min().expect("three");
    assert!((Duration::from_millis(40)..Duration::from_millis(600)).contains(least), "{took:?}");
}

#[test]
fn datagrams_are_read_singly_until_one_has_waited() {
    let (near, far) = pair(Duration::from_millis(40));
    near.set_send_buffer_size(1 << 16).expect("a socket");
    let (mut batch, mut received) = (SendBatch::new(200), ReceiveBatch::new());
    fill(&mut batch, 8);
    assert_eq!(batch.send(near.as_raw_fd(), |error| panic!("{error}")), Taken(0xff));
    let ask = Ask { wait: false, names: false };
    assert_eq!(received.receive(far.as_raw_fd(), ask).expect("a socket"), 1);
    assert!(!received.is_behind() && !received.has_more(1));
    received.fall_behind();
    assert!(received.has_more(1));
    assert_eq!(received.receive(far.as_raw_fd(), ask).expect("a socket"), 7);
    assert!(received.is_behind() && !received.has_more(7), "fewer came than were asked for");
    assert_eq!(received.datagram(6).bytes[0], 7);
    assert_eq!(received.receive(far.as_raw_fd(), ask).expect("a socket"), 0);
    assert!(!received.is_behind());
}

#[test]
fn the_largest_datagrams_stay_whole_beside_each_other() {
    let (near, far) = pair(Duration::from_millis(40));
    near.set_send_buffer_size(1 << 20).expect("a socket");
    let (mut batch, mut received) = (SendBatch::new(LARGEST), ReceiveBatch::new());
    for n in 0..3 {
        batch.next().expect("room in the batch").fill(n + 1);
        batch.commit(LARGEST - usize::from(n), None);
    }
    assert_eq!(batch.send(near.as_raw_fd(), |error| panic!("{error}")), Taken(0b111));
    received.fall_behind();
    let ask = Ask { wait: false, names: false };
    assert_eq!(received.receive(far.as_raw_fd(), ask).expect("a socket"), 3);
    for n in 0..3u8 {
        let bytes = received.datagram(usize::from(n)).bytes;
        assert!(bytes.len() == LARGEST - usize::from(n) && bytes.iter().all(|byte| *byte == n + 1));
    }
}

#[test]
fn an_empty_datagram_counts_as_sent_and_received() {
    let (near, far) = pair(Duration::from_millis(40));
    let (mut batch, mut received) = (SendBatch::new(200), ReceiveBatch::new());
    batch.commit(0, None);
    assert_eq!(batch.send(near.as_raw_fd(), |error| panic!("{error}")), Taken(1));
    let ask = Ask { wait: false, names: false };
    assert_eq!(received.receive(far.as_raw_fd(), ask).expect("a socket"), 1);
    assert!(received.datagram(0).bytes.is_empty());
}

/// The largest UDP payload over IPv4 (RFC 768).
const LARGEST: usize = 65_507;
