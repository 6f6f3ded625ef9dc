//! The media thread's side of a capture: copies what crosses the socket into a bounded ring.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use antiphon_core::Instant;
use rtrb::{Consumer, Producer, RingBuffer};

use super::record::{Direction, Ending, Ends, Head, Kind, Marks, UDP};
use crate::clock::OsClock;

/// One interface of a capture, held by the line whose traffic it captures.
///
/// Every call copies into a preallocated ring and returns: it does not allocate, lock, wait or enter the kernel.
/// Records without room are dropped and counted in the file's interface statistics and the summary.
pub struct Tap {
    records: Producer<Head>,
    bytes: Producer<u8>,
    dropped: Arc<AtomicU64>,
    clock: OsClock,
    connection: Option<Connection>,
    /// Of packets that are sent.
    marks: Marks,
}

/// The present connection, and how many bytes of its stream have crossed in each direction.
#[derive(Clone, Copy)]
struct Connection {
    ends: Ends,
    sent: u64,
    received: u64,
}

/// The writer's side of a [`Tap`].
pub(super) struct Drain {
    pub records: Consumer<Head>,
    bytes: Consumer<u8>,
    pub dropped: Arc<AtomicU64>,
}

impl Tap {
    pub(super) fn new(clock: OsClock) -> (Tap, Drain) {
        let (records, recorded) = RingBuffer::new(RECORDS);
        let (bytes, copied) = RingBuffer::new(RING);
        let dropped = Arc::new(AtomicU64::new(0));
        let drain = Drain { records: recorded, bytes: copied, dropped: Arc::clone(&dropped) };
        (Tap { records, bytes, dropped, clock, connection: None, marks: Marks::default() }, drain)
    }

    /// Packets that are sent have these marks from now on.
    pub fn set_marks(&mut self, marks: Marks) {
        self.marks = marks;
    }

    /// A datagram crossed the UDP socket at `at`.
    pub fn datagram(&mut self, direction: Direction, at: Instant, ends: Ends, bytes: &[u8]) {
        self.packet(UDP, direction, at, ends, bytes);
    }

    /// A datagram with these marks arrived.
    pub fn arrival(&mut self, at: Instant, ends: Ends, marks: Marks, bytes: &[u8]) {
        let sent = std::mem::replace(&mut self.marks, marks);
        self.packet(UDP, Direction::Received, at, ends, bytes);
        self.marks = sent;
    }

    /// A packet of that IP protocol crossed the socket at `at`. Protocols other than UDP are shown with only an IP
    /// header.
    pub fn packet(&mut self, protocol: u8, direction: Direction, at: Instant, ends: Ends, bytes: &[u8]) {
        if bytes.len() > largest_payload(ends.peer) {
            // Too long for an IP packet, so it did not cross any wire.
            return self.count_dropped();
        }
        let kind = Kind::Datagram { protocol, direction };
        self.push(kind, at, Connection { ends, sent: 0, received: 0 }, bytes);
    }

    /// A connection is established; `caller` is the direction of the call. One still open ends here.
    pub fn opened(&mut self, caller: Direction, at: Instant, ends: Ends) {
        self.closed(Ending::Reset, at);
        let connection = Connection { ends, sent: 0, received: 0 };
        self.connection = Some(connection);
        self.push(Kind::Opened(caller), at, connection, &[]);
    }

    /// Bytes of the connection's stream crossed the socket, the last of them at `at`. Without a connection they are
    /// counted as dropped.
    pub fn stream(&mut self, direction: Direction, at: Instant, bytes: &[u8]) {
        let Some(mut connection) = self.connection else { return self.count_dropped() };
        for part in bytes.chunks(LONGEST_STRETCH) {
            self.push(Kind::Stream(direction), at, connection, part);
            match direction {
                Direction::Sent => connection.sent += part.len() as u64,
                Direction::Received => connection.received += part.len() as u64,
            }
        }
        self.connection = Some(connection);
    }

    /// The connection ended, if there was one.
    pub fn closed(&mut self, ending: Ending, at: Instant) {
        if let Some(connection) = self.connection.take() {
            self.push(Kind::Closed(ending), at, connection, &[]);
        }
    }

    /// The line is dropped while its connection is open: records its end. The next line may use the tap from now on.
    pub fn hang_up(&mut self) {
        let now = self.clock.now();
        self.closed(Ending::Finished(Direction::Sent), now);
    }

    fn push(&mut self, kind: Kind, at: Instant, connection: Connection, bytes: &[u8]) {
        let Connection { ends, sent, received } = connection;
        let (marks, len) = (self.marks, bytes.len() as u32);
        let head = Head { kind, at, ends: ends.canonical(), marks, sent, received, len };
        // The bytes first: they are there once the writer sees the head.
        if self.records.is_full() || self.bytes.push_entire_slice(bytes).is_err() {
            return self.count_dropped();
        }
        let noted = self.records.push(head).is_ok();
        debug_assert!(noted, "only this side fills the ring, and there was room");
    }

    fn count_dropped(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl Drain {
    /// The oldest record's head.
    pub fn head(&mut self) -> Option<Head> {
        self.records.peek().ok().copied()
    }

    /// Removes the record whose `head` was just seen, its bytes into `body`.
    pub fn take(&mut self, head: &Head, body: &mut Vec<u8>) {
        let _seen = self.records.pop();
        body.resize(head.len as usize, 0);
        let taken = self.bytes.pop_entire_slice(body).is_ok();
        debug_assert!(taken, "the bytes of a record are there before its head");
    }
}

/// The largest UDP payload: what 65 535 bytes of IPv4 packet (RFC 791) or of IPv6 payload (RFC 8200) leave.
fn largest_payload(peer: SocketAddr) -> usize {
    if peer.ip().to_canonical().is_ipv4() { 65_535 - 20 - 8 } else { 65_535 - 8 }
}

/// Bytes between a tap and the writer, which reads a hundred times a second: enough for a stall of disk or scheduler of
/// five seconds at 48 kHz stereo with 16 bits, or a tenth of a second at 64 channels with 24 bits.
pub(super) const RING: usize = 1 << 20;
/// Records beside them: five seconds of packets of 64 sample frames at 48 kHz.
const RECORDS: usize = 4_096;
/// The most stream bytes in one record, so that a record always fits into the ring.
const LONGEST_STRETCH: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Ends {
        Ends { local: "127.0.0.1:1".parse().unwrap(), peer: "127.0.0.1:2".parse().unwrap() }
    }

    #[test]
    fn overflow_is_counted_and_what_was_there_stays() {
        for (len, fit) in [(1000, RING / 1000), (1, RECORDS)] {
            let (mut tap, mut drain) = Tap::new(OsClock::new());
            for n in 0..fit as u64 + 17 {
                tap.datagram(Direction::Sent, Instant::from_nanos(n), ends(), &[n as u8; 1000][..len]);
            }
            assert_eq!(drain.dropped.load(Ordering::Relaxed), 17);
            let mut body = Vec::new();
            for n in 0..fit as u64 {
                let head = drain.head().expect("as many as fit");
                drain.take(&head, &mut body);
                assert_eq!((head.at.as_nanos(), &body[..]), (n, &[n as u8; 1000][..len]));
            }
            assert_eq!(drain.head(), None);
        }
    }

    #[test]
    fn a_record_half_written_is_not_taken() {
        let (mut tap, mut drain) = Tap::new(OsClock::new());
        tap.datagram(Direction::Sent, Instant::ZERO, ends(), &[7; 10]);
        let head = drain.head().expect("whole");
        drain.take(&head, &mut Vec::new());
        for split in 0..=10 {
            for part in [split, 10 - split] {
                tap.bytes.push_entire_slice(&[7; 10][..part]).unwrap();
                assert_eq!(drain.head(), None, "{split} bytes");
            }
            tap.records.push(head).unwrap();
            let (head, mut body) = (drain.head().expect("whole"), Vec::new());
            drain.take(&head, &mut body);
            assert_eq!(body, [7; 10]);
        }
    }

    #[test]
    fn too_long_packets_and_unconnected_streams_are_dropped() {
        let (mut tap, mut drain) = Tap::new(OsClock::new());
        tap.datagram(Direction::Sent, Instant::ZERO, ends(), &vec![0; 65_508]);
        tap.stream(Direction::Sent, Instant::ZERO, &[1]);
        assert_eq!((drain.dropped.load(Ordering::Relaxed), drain.head()), (2, None));
        tap.datagram(Direction::Sent, Instant::ZERO, ends(), &vec![0; 65_507]);
        assert!(drain.head().is_some());
    }
}
