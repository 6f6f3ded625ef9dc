//! Packets of a world: IP packets with their flow and path, with or without content.
//!
//! Contents are in boxes that are reused through a [`Pool`], whatever becomes of the packet, so that neither delivery
//! nor loss causes an allocation. Packets of competing traffic have no content.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use antiphon_core::Instant;
use antiphon_core::wire::{ICMP_ECHO_HEADER, IPV4_HEADER};
use antiphon_link::{Discard, Packet};

use crate::tcp::Segment;

pub use antiphon_core::wire::UDP_IPV4_HEADERS as UDP_HEADERS;

/// IPv4 and ICMP echo headers.
pub const PING_HEADERS: usize = IPV4_HEADER + ICMP_ECHO_HEADER;

/// An IP packet.
#[derive(Debug)]
pub struct Parcel {
    /// Bytes, IP header included.
    pub len: u32,
    /// Its flow.
    pub flow: u32,
    /// Its direction in the flow: 0 is forward, *n* back from the *n*-th receiver; [`GROUP`] to all receivers.
    pub way: u16,
    /// Number of nodes of its path that it has passed.
    pub hop: u16,
    /// Where it leaves a medium, if the medium must be told.
    pub exit: u16,
    /// A bit was inverted: the checksum fails.
    pub damaged: bool,
    /// Its content.
    pub body: Body,
}

impl Parcel {
    /// A packet at the beginning of its path.
    pub fn new(len: usize, flow: u32, way: u16, body: Body) -> Self {
        Parcel { len: len as u32, flow, way, hop: 0, exit: 0, damaged: false, body }
    }

    /// Whether it carries no data of its user: an acknowledgement, say.
    pub fn is_control(&self) -> bool {
        match &self.body {
            Body::Filler(_) => false,
            Body::Datagram(datagram) => datagram.control,
            Body::Segment(segment) => segment.payload.is_empty(),
        }
    }
}

/// The direction of a multicast packet.
pub const GROUP: u16 = u16::MAX;

/// Content of a packet.
#[derive(Debug)]
pub enum Body {
    /// No content; only the time of sending is read.
    Filler(Instant),
    /// A UDP payload.
    Datagram(Carried<Datagram>),
    /// A TCP segment.
    Segment(Carried<Segment>),
}

/// A UDP payload in a buffer of at least its length.
#[derive(Debug, Default)]
pub struct Datagram {
    /// The buffer.
    pub bytes: Vec<u8>,
    /// Length of the payload in it.
    pub len: usize,
    /// What [`super::copies::Copies`] recognises it by, of streams that have one.
    pub mark: u32,
    /// It has no data of its user, where that matters.
    pub control: bool,
    /// The priority in its header, where a node honours priorities.
    pub priority: Option<u16>,
}

/// Content borrowed from a pool, returned to it when dropped.
#[derive(Debug)]
pub struct Carried<T: Content> {
    content: Option<Box<T>>,
    pool: Rc<Pool>,
}

/// Content that a pool stores.
pub trait Content: Default + 'static {
    /// Makes it equal to `other`, in the existing buffer.
    fn copy_from(&mut self, other: &Self);

    /// Where the pool stores it.
    fn shelf(pool: &Pool) -> &RefCell<Vec<Box<Self>>>;
}

/// Buffers for reuse, and outcomes of the packets of each flow.
#[derive(Debug, Default)]
pub struct Pool {
    #[expect(
        clippy::vec_box,
        reason = "the boxes are what is reused: a segment is too large to be moved about"
    )]
    datagrams: RefCell<Vec<Box<Datagram>>>,
    #[expect(clippy::vec_box, reason = "as above")]
    segments: RefCell<Vec<Box<Segment>>>,
    payloads: RefCell<Vec<Vec<u8>>>,
    /// Contents that are in use.
    carried: Cell<usize>,
    tallies: Vec<Tally>,
}

/// Outcomes of the packets of a flow.
#[derive(Debug, Default)]
pub struct Tally {
    /// Dropped by a loss model.
    pub lost: Cell<u64>,
    /// Dropped by a full queue.
    pub overflowed: Cell<u64>,
    /// The last MAC retry failed.
    pub exhausted: Cell<u64>,
    /// Arrived with a wrong checksum, and were dropped by the host.
    pub damaged: Cell<u64>,
}

/// One more.
pub fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl Pool {
    /// A pool for packets of flows `0..flows`.
    pub fn new(flows: usize) -> Rc<Self> {
        Rc::new(Pool { tallies: (0..flows).map(|_| Tally::default()).collect(), ..Pool::default() })
    }

    /// Reserves segments with buffers of `bytes`, for a burst of losses or a long queue.
    pub fn stock(&self, segments: usize, bytes: usize) {
        self.segments.borrow_mut().extend((0..segments).map(|_| Box::default()));
        self.payloads.borrow_mut().extend((0..segments).map(|_| Vec::with_capacity(bytes)));
    }

    /// Reserves datagrams of at most `bytes` bytes; rarely all that can be in flight at once are.
    pub fn stock_datagrams(&self, datagrams: usize, bytes: usize) {
        let datagram = || Box::new(Datagram { bytes: vec![0; bytes], ..Datagram::default() });
        self.datagrams.borrow_mut().extend((0..datagrams).map(|_| datagram()));
    }

    /// Outcomes of a flow's packets.
    pub fn tally(&self, flow: u32) -> &Tally {
        &self.tallies[flow as usize]
    }

    /// Whether no packet with content is anywhere.
    pub fn is_at_rest(&self) -> bool {
        self.carried.get() == 0
    }

    /// Content as its last user left it.
    pub fn take<T: Content>(self: &Rc<Self>) -> Carried<T> {
        let content = T::shelf(self).borrow_mut().pop().unwrap_or_default();
        self.carried.set(self.carried.get() + 1);
        Carried { content: Some(content), pool: Rc::clone(self) }
    }
}

impl Pool {
    /// A box for a segment to be sent.
    pub fn wrap(self: &Rc<Self>, segment: Segment) -> Carried<Segment> {
        let mut carried = self.take::<Segment>();
        // The buffer that was in the box.
        let before = std::mem::replace(&mut *carried, segment);
        self.keep_payload(before.payload);
        carried
    }

    /// Keeps the buffer of a segment that has arrived.
    pub fn keep_payload(&self, payload: Vec<u8>) {
        if payload.capacity() > 0 {
            self.payloads.borrow_mut().push(payload);
        }
    }

    /// A buffer for a later segment.
    pub fn payload(&self) -> Option<Vec<u8>> {
        self.payloads.borrow_mut().pop()
    }
}

impl Content for Datagram {
    fn copy_from(&mut self, other: &Self) {
        self.buffer(other.len)[..other.len].copy_from_slice(other.payload());
        self.len = other.len;
        self.mark = other.mark;
        self.control = other.control;
        self.priority = other.priority;
    }

    fn shelf(pool: &Pool) -> &RefCell<Vec<Box<Self>>> {
        &pool.datagrams
    }
}

impl Content for Segment {
    fn copy_from(&mut self, other: &Self) {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        payload.extend_from_slice(&other.payload);
        *self = Segment { payload, ..*other };
    }

    fn shelf(pool: &Pool) -> &RefCell<Vec<Box<Self>>> {
        &pool.segments
    }
}

impl<T: Content> std::ops::Deref for Carried<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.content.as_ref().expect("content is taken back only on dropping")
    }
}

impl<T: Content> std::ops::DerefMut for Carried<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.content.as_mut().expect("content is taken back only on dropping")
    }
}

impl<T: Content> Drop for Carried<T> {
    fn drop(&mut self) {
        if let Some(content) = self.content.take() {
            T::shelf(&self.pool).borrow_mut().push(content);
            self.pool.carried.set(self.pool.carried.get() - 1);
        }
    }
}

impl<T: Content> Clone for Carried<T> {
    fn clone(&self) -> Self {
        let mut copy = self.pool.take::<T>();
        copy.copy_from(self);
        copy
    }
}

impl Datagram {
    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The payload, mutable.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// The whole buffer, of at least `room` bytes.
    pub fn buffer(&mut self, room: usize) -> &mut [u8] {
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        &mut self.bytes
    }
}

impl Packet for Parcel {
    fn wire_len(&self) -> usize {
        self.len as usize
    }

    fn priority(&self) -> Option<u16> {
        match &self.body {
            Body::Datagram(datagram) => datagram.priority,
            Body::Filler(_) | Body::Segment(_) => None,
        }
    }

    fn duplicate(&self) -> Self {
        let body = match &self.body {
            Body::Filler(sent) => Body::Filler(*sent),
            Body::Datagram(datagram) => Body::Datagram(datagram.clone()),
            Body::Segment(segment) => Body::Segment(segment.clone()),
        };
        Parcel { body, ..*self }
    }

    fn flip_bit(&mut self, bit: u64) {
        self.damaged = true;
        if let Body::Segment(segment) = &mut self.body {
            segment.flip_bit(bit);
        }
    }

    fn discard(self, why: Discard) {
        let (flow, pool) = match &self.body {
            Body::Filler(_) => return,
            Body::Datagram(datagram) => (self.flow, &datagram.pool),
            Body::Segment(segment) => (self.flow, &segment.pool),
        };
        let tally = pool.tally(flow);
        count(match why {
            Discard::Lost => &tally.lost,
            Discard::Overflowed => &tally.overflowed,
            Discard::Exhausted => &tally.exhausted,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_goes_back_and_is_found_again() {
        let pool = Pool::new(1);
        let mut one = pool.take::<Datagram>();
        one.buffer(100)[7] = 9;
        one.len = 8;
        let copy = one.clone();
        assert_eq!(copy.payload(), one.payload());
        drop(copy);
        assert!(!pool.is_at_rest());
        drop(one);
        assert!(pool.is_at_rest());
        assert_eq!(pool.datagrams.borrow().len(), 2);
        let again = pool.take::<Datagram>();
        assert_eq!((again.bytes.len(), pool.datagrams.borrow().len()), (100, 1));
    }

    #[test]
    fn what_is_discarded_is_counted_by_flow_and_reason() {
        let pool = Pool::new(2);
        let parcel = |flow| Parcel::new(100, flow, 0, Body::Datagram(pool.take()));
        parcel(1).discard(Discard::Exhausted);
        parcel(1).discard(Discard::Overflowed);
        parcel(0).duplicate().discard(Discard::Lost);
        let counts = |flow| {
            let tally = pool.tally(flow);
            [tally.lost.get(), tally.overflowed.get(), tally.exhausted.get()]
        };
        assert_eq!((counts(0), counts(1)), ([1, 0, 0], [0, 1, 1]));
    }
}
