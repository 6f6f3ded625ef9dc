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

/// A connected pair of UDP sockets on loopback.
fn udp_pair() -> (std::net::UdpSocket, std::net::UdpSocket) {
    let open = || std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let (near, far) = (open(), open());
    near.connect(far.local_addr().expect("its address")).expect("loopback");
    far.set_nonblocking(true).expect("a socket");
    (near, far)
}

/// Sends datagrams of these lengths, each filled with its number, and returns what came.
fn through(
    batch: &mut SendBatch,
    near: &std::net::UdpSocket,
    far: &std::net::UdpSocket,
    lens: &[usize],
) -> Vec<Vec<u8>> {
    for (number, len) in lens.iter().enumerate() {
        batch.next().expect("room in the batch")[..*len].fill(number as u8);
        batch.commit(*len, None);
    }
    let all = u64::MAX >> (64 - lens.len());
    assert_eq!(batch.send(near.as_raw_fd(), |error| panic!("{error}")), Taken(all));
    let mut buf = [0; 2_000];
    std::iter::from_fn(|| far.recv(&mut buf).ok().map(|len| buf[..len].to_vec())).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn datagrams_that_leave_as_one_come_as_they_were_written() {
    let (near, far) = udp_pair();
    let mut batch = SendBatch::new(1_500).in_segments(true);
    let cases: [(&[usize], &[usize]); 7] = [
        (&[1_000; 16], &[16]),
        // As many as the kernel takes, by their number and by their bytes.
        (&[100; 64], &[64]),
        (&[1_084; 64], &[60, 4]),
        // The last may be shorter, and what is longer begins anew.
        (&[1_000, 1_000, 1_000, 1_000, 20, 1_000, 1_000], &[5, 1, 1]),
        (&[50, 100, 100, 100, 100, 101, 101], &[1, 4, 1, 1]),
        (&[10, 10, 10], &[1, 1, 1]),
        (&[30, 30, 30, 30, 0, 30], &[4, 1, 1]),
    ];
    for (lens, runs) in cases {
        let came = through(&mut batch, &near, &far, lens);
        let sent: Vec<Vec<u8>> =
            lens.iter().enumerate().map(|(number, len)| vec![number as u8; *len]).collect();
        assert_eq!(came, sent);
        assert_eq!(batch.runs_for_tests(runs.len()), runs);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn datagrams_that_come_as_one_are_told_apart() {
    let (near, far) = udp_pair();
    let far = Socket::from(far);
    crate::options::join_segments(&far);
    let v6 = far.local_addr().expect("an address").is_ipv6();
    crate::options::report_class_and_ttl(&far, v6).expect("a socket");
    for option in [libc::SO_TIMESTAMPNS, libc::SO_RXQ_OVFL] {
        crate::options::set_int(&far, libc::SOL_SOCKET, option, 1).expect("a socket");
    }
    let mut received = ReceiveBatch::new();
    // Whether the last call brought some that were together: then the next one asks for one.
    let mut joined = false;
    // What is received as one: the lengths of the parts of each.
    let cases: [(&[usize], &[&[usize]]); 4] = [
        (&[1_000; 16], &[&[1_000; 16]]),
        (&[1_000, 1_000, 1_000, 1_000, 20, 7, 0], &[&[1_000, 1_000, 1_000, 1_000, 20], &[7], &[0]]),
        (&[50, 100, 100, 100, 100], &[&[50], &[100; 4]]),
        (&[300, 0, 300], &[&[300], &[0], &[300]]),
    ];
    for (lens, whole) in cases {
        let mut batch = SendBatch::new(1_500).in_segments(true);
        for (number, len) in lens.iter().enumerate() {
            batch.next().expect("room in the batch")[..*len].fill(number as u8);
            batch.commit(*len, None);
        }
        batch.send(near.as_raw_fd(), |error| panic!("{error}"));
        let (mut number, mut came) = (0, Vec::new());
        while came.len() < whole.len() {
            received.fall_behind();
            let count =
                received.receive(far.as_raw_fd(), Ask { wait: false, names: false }).expect("a socket");
            let most = if joined { 1 } else { BATCH };
            assert!((1..=most).contains(&count), "{count} of {most}");
            let from = came.len();
            for at in 0..count {
                assert!(received.class_and_ttl(at).is_some() && received.datagram(at).stamp.is_some());
                let mut parts = Vec::new();
                let passed = received.datagram(at).each(|bytes| {
                    assert!(bytes.iter().all(|byte| *byte == number));
                    number += 1;
                    parts.push(bytes.len());
                });
                assert_eq!(passed, parts.len() as u64);
                came.push(parts);
            }
            joined = came[from..].iter().any(|parts| parts.len() > 1);
        }
        assert_eq!(came, whole);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_socket_that_cannot_cut_sends_one_by_one() {
    let (near, far) = udp_pair();
    // The kernel cuts only what has checksums.
    crate::options::set_int(&near, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).expect("a socket");
    let mut batch = SendBatch::new(1_500).in_segments(true);
    for _ in 0..2 {
        let came = through(&mut batch, &near, &far, &[700; 12]);
        assert!(came.len() == 12 && came.iter().enumerate().all(|(at, bytes)| *bytes == vec![at as u8; 700]));
        assert_eq!(batch.runs_for_tests(12), [1; 12]);
    }
}
