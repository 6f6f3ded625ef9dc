//! The transport trait: one association as a state machine that never touches a socket, a clock or a thread.
//!
//! A driver (`net` in the real world, `lab` in the virtual one) tells an [`Endpoint`] what arrived and what time it
//! is, and drains what it wants sent, delivered and reported. The contract, which `proto`'s conformance suite checks
//! for every transport:
//!
//! * every frame that [`Endpoint::send`] accepts gets **exactly one** [`Event::Frame`] outcome, at the latest before
//!   [`Event::Closed`];
//! * nothing comes out after `Closed`: no bytes, no frames, no events, no time-out;
//! * nothing comes out without an input, a call or a due time-out;
//! * no byte of a frame is first sent after the frame's deadline; a frame once begun on a byte stream is completed;
//! * hostile input is counted, never a panic, and never costs unbounded memory.

use std::time::Duration;

use crate::doorkeeper::Doorkeeper;
use crate::time::Instant;
use crate::units::{BitRate, ByteCount};

/// One association with one peer or one multicast group.
///
/// Not `Send`: an endpoint stays on the thread that opened it, since not every library beneath one can move.
pub trait Endpoint {
    /// What kind of transport this is. Fixed for the life of the endpoint, but for `max_frame`, which path MTU
    /// discovery may change.
    fn profile(&self) -> Profile;

    /// Takes a frame for sending. Its bytes are copied; they are put on the wire by [`Self::poll_transmit`], so that
    /// a frame past its deadline is never sent (late binding).
    fn send(&mut self, now: Instant, frame: Frame<'_>) -> Result<FrameId, SendError>;

    /// Ends the association, flushing what was accepted or dropping it. [`Event::Closed`] follows, at once or later.
    fn close(&mut self, now: Instant, mode: CloseMode);

    /// Something happened on the wire.
    fn handle_input(&mut self, now: Instant, input: Input<'_>);

    /// The instant that [`Self::poll_timeout`] named has come. Harmless when called early.
    fn handle_timeout(&mut self, now: Instant);

    /// [`Self::handle_timeout`] if its time has come: for drivers that look in whenever anything happens.
    fn handle_due(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.handle_timeout(now);
        }
    }

    /// Writes the next datagram, or the next bytes of the stream, into `buf`.
    ///
    /// On a datagram wire `buf` holds at least the path's datagram size and one call makes one datagram. On a byte
    /// stream it may be of any length; the driver sends all that was written, or reports [`Input::Broken`].
    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit>;

    /// Copies the next received frame into `buf`, which must hold [`Profile::max_receive`] bytes.
    fn poll_frame(&mut self, buf: &mut [u8]) -> Option<Received>;

    /// The next event.
    fn poll_event(&mut self) -> Option<Event>;

    /// When [`Self::handle_timeout`] wants to be called; `None` for never.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What the endpoint knows of its path, and what it has counted.
    fn path_stats(&self) -> PathStats;

    /// Holds memory ready for `frames` that wait at once, in whatever queues there are or will be: on their way out, unconfirmed,
    /// to be sent again, or to be fetched. Nothing is allocated then while a machine stands still for as long as so many
    /// frames take. For the endpoint of a single stream, before it begins; one of many is not asked, holds little, and
    /// allocates when more wait than ever before.
    fn reserve(&mut self, _frames: usize) {}

    /// The number by which every packet of the peer's names this association, whatever path it comes by; `None` where the
    /// path alone says whose a packet is. A listener's driver compares it with [`Doorkeeper::association_of`].
    fn association(&self) -> Option<u64> {
        None
    }

    /// Who meets strangers before they get an endpoint of this kind, opened with the same seed; `None` where the first
    /// datagram is let in by its looks. For listeners.
    fn doorkeeper(&mut self, _now: Instant) -> Option<Box<dyn Doorkeeper>> {
        None
    }
}

/// What a transport is and promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Datagrams or a byte stream beneath it.
    pub wire: Wire,
    /// The largest frame [`Endpoint::send`] takes, in bytes.
    pub max_frame: usize,
    /// The largest frame [`Endpoint::poll_frame`] returns, in bytes: peers may send larger ones than we do.
    pub max_receive: usize,
    /// Bytes the transport itself adds to a frame of one packet, below RTP and above UDP, TCP or IP.
    pub frame_overhead: usize,
    /// Whether outcomes tell that the peer has a frame.
    pub acknowledged: bool,
    /// Whether frames arrive in the order sent.
    pub ordered: bool,
    /// Whether lost frames are sent again.
    pub retransmits: bool,
    /// Streams that whoever sends may spread frames over, at least 1: what is lost on one holds up none of the others. 1
    /// also where the peer chooses which streams it wants, as frames on another than the first might not reach it.
    pub streams: u16,
}

impl Profile {
    /// The stream for what goes beside the sound, RTCP above all; sound itself goes on stream 0 and, divided into groups, on
    /// those from 2 on. The same stream where there is but one.
    pub fn control_stream(&self) -> StreamId {
        StreamId(u16::from(self.streams > 1))
    }

    /// The stream for the `index`-th stream of media, counted from 0: channel groups of sound, and further kinds of media after
    /// them. Each has one to itself while there are enough beside [`Self::control_stream`]; then they take turns.
    pub fn media_stream(&self, index: usize) -> StreamId {
        let media = usize::from(self.streams).saturating_sub(1).max(1);
        let turn = (index % media) as u16;
        StreamId(if turn == 0 { 0 } else { turn + 1 })
    }
}

/// What carries an endpoint's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// Datagrams: may be lost, reordered, duplicated, never cut.
    Datagram,
    /// A reliable byte stream that the kernel (or the lab's TCP) provides.
    ByteStream,
}

/// One media packet (RTP or RTCP) on its way down.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The packet.
    pub bytes: &'a [u8],
    /// After this instant the frame is of no use and is not begun; `None` for a recording, which wants everything.
    pub deadline: Option<Instant>,
    /// 0 is most urgent. Transports without priorities ignore it.
    pub priority: u8,
    /// Which stream of the association carries it; transports with one stream ignore it.
    pub stream: StreamId,
}

impl<'a> Frame<'a> {
    /// A frame of the default stream and priority.
    pub fn new(bytes: &'a [u8], deadline: Option<Instant>) -> Self {
        Frame { bytes, deadline, priority: 0, stream: StreamId(0) }
    }
}

/// Names an accepted frame until its outcome; counts up from 0 in the order of acceptance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameId(pub u64);

/// A stream within an association.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u16);

/// A way to the peer. Endpoints see this number, the driver knows the address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PathId(pub u32);

/// Explicit congestion notification of a datagram (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable,
    /// Capable, ECT(0).
    Capable0,
    /// Capable, ECT(1).
    Capable1,
    /// Congestion experienced.
    Congested,
}

/// What the driver tells an endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A datagram came in.
    Datagram {
        /// Whence.
        path: PathId,
        /// Its payload, from a stranger until proved otherwise.
        bytes: &'a [u8],
        /// Its congestion mark.
        ecn: Ecn,
        /// When the kernel took it from the wire, where it says so; else when it was read. Never after `now`.
        received_at: Instant,
    },
    /// Bytes of the stream came in, in order.
    Stream {
        /// The bytes, of any number.
        bytes: &'a [u8],
        /// As for a datagram, of the last byte.
        received_at: Instant,
    },
    /// The stream beneath is there (again): both directions start at a frame boundary.
    Connected,
    /// The stream or path beneath is gone. What was written and not confirmed may or may not have arrived.
    Broken(BrokenReason),
    /// What only the kernel knows.
    Report(KernelReport),
}

/// Why a path broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokenReason {
    /// The peer refused (reset, port unreachable).
    Refused,
    /// The peer ended the stream in order.
    EndOfStream,
    /// No answer in time, or no route.
    Unreachable,
}

/// Figures of a kernel transport (Linux `TCP_INFO`).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct KernelReport {
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// Smallest round trip seen.
    pub min_rtt: Duration,
    /// Congestion window in bytes.
    pub cwnd: ByteCount,
    /// Bytes sent and not acknowledged.
    pub in_flight: ByteCount,
    /// Segments sent again so far.
    pub retransmitted: u64,
    /// Bytes put on the wire so far, repairs included, headers of TCP and IP not.
    pub sent_bytes: u64,
    /// Segments put on the wire so far, bare acknowledgements included.
    pub segments_sent: u64,
}

/// What [`Endpoint::poll_transmit`] wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Where to.
    pub path: PathId,
    /// Bytes written into the lent buffer.
    pub len: usize,
    /// The mark to send it with.
    pub ecn: Ecn,
}

/// What [`Endpoint::poll_frame`] wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Bytes written into the lent buffer.
    pub len: usize,
    /// Whence its last part came.
    pub path: PathId,
    /// Which stream carried it.
    pub stream: StreamId,
    /// When its last byte came off the wire.
    pub received_at: Instant,
    /// Whether it had to be sent more than once, as far as this side knows.
    pub repaired: bool,
}

/// What an endpoint reports. Small and `Copy`, so that C and Python get plain structures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// Frames flow: the peer answered, or the transport needs no answer. Comes again after a reconnection.
    Connected,
    /// The path is gone for now. What was accepted waits for its deadline; a driver may try to come back.
    Broken(BrokenReason),
    /// The fate of an accepted frame: exactly one each.
    Frame {
        /// Which frame.
        id: FrameId,
        /// What became of it.
        outcome: Outcome,
    },
    /// Congestion control changed phase.
    Congestion(PathStats),
    /// There is room again; only after [`Endpoint::send`] answered [`SendError::Blocked`].
    Writable,
    /// The association ended. The last event.
    Closed(CloseReason),
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is on the wire and this transport will never know more.
    Released,
    /// The peer has it.
    Acked,
    /// Its deadline passed and the sender gave it up.
    Expired {
        /// Whether any of it had been sent, so that the peer may hold it all the same.
        maybe_received: bool,
    },
    /// The transport's own limit of tries was reached.
    RetriesExhausted,
    /// The association ended before its fate was known.
    Aborted,
}

/// How to end an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseMode {
    /// Send what was accepted, as far as deadlines allow, then take leave.
    Graceful,
    /// Drop everything at once.
    Abort,
}

/// Why an association ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// This side asked.
    Local,
    /// The peer asked.
    Peer,
    /// The peer refused.
    Refused,
    /// No answer.
    TimedOut,
    /// The peer broke the protocol.
    Protocol,
}

/// Why a frame was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// Larger than [`Profile::max_frame`].
    #[error("a frame of {len} bytes is larger than this transport carries ({max})")]
    TooLarge {
        /// Its size in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A frame of no bytes.
    #[error("a frame must have at least one byte")]
    Empty,
    /// The send queue is full; [`Event::Writable`] follows.
    #[error("{queued} frames are waiting already")]
    Blocked {
        /// Frames waiting.
        queued: usize,
    },
    /// Closing or closed.
    #[error("the association is closed")]
    Closed,
}

/// What an endpoint knows of its path. `None` where a transport does not measure it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathStats {
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Mean deviation of the round-trip time.
    pub rttvar: Option<Duration>,
    /// Smallest round-trip time.
    pub min_rtt: Option<Duration>,
    /// Congestion window.
    pub cwnd: Option<ByteCount>,
    /// Bytes sent and not acknowledged.
    pub in_flight: Option<ByteCount>,
    /// The rate at which datagrams are released.
    pub pacing_rate: Option<BitRate>,
    /// Totals since the endpoint was opened.
    pub counters: Counters,
}

/// Totals since an endpoint was opened. *Sent* and *received* count what crossed the wire, repairs included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Datagrams sent, or kernel segments where known.
    pub datagrams_sent: u64,
    /// Bytes in them, transport headers included, UDP, TCP and IP headers not.
    pub bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
    /// Frames accepted by `send`.
    pub frames_accepted: u64,
    /// Frames handed to the application.
    pub frames_delivered: u64,
    /// Frames whose deadline passed in the send queue.
    pub frames_expired: u64,
    /// Frames that arrived and had to be dropped, since nobody fetched them in time.
    pub frames_dropped: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Frames or packets received twice and delivered once.
    pub duplicates: u64,
    /// Datagrams or stream parts that broke the protocol.
    pub malformed: u64,
}
