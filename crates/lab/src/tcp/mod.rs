//! A TCP in virtual time, accurate enough to replace a kernel's.
//!
//! A pair of [`Tcp`] exchanges [`Segment`]s; time is passed in, nothing is drawn at random, so runs repeat exactly.
//! Each concern has a file: `scoreboard` (segments in flight), `detect` (loss detection), `recovery` (window
//! reductions), `timers`, `ack`, `sender`, `receiver`; window growth and round-trip estimation are in
//! `antiphon_proto::{cc, rtt}`. [`Profile`] distinguishes kernels.
//!
//! ```
//! use antiphon_core::Instant;
//! use antiphon_lab::tcp::{Profile, Tcp};
//!
//! let now = Instant::ZERO;
//! let mut near = Tcp::connect(Profile::linux());
//! let mut far = Tcp::accept(Profile::linux());
//! near.write(now, b"sound");
//! while let Some(segment) = near.poll_transmit(now) {
//!     far.handle_segment(now, segment);
//!     while let Some(answer) = far.poll_transmit(now) {
//!         near.handle_segment(now, answer);
//!     }
//! }
//! let mut heard = [0; 16];
//! assert_eq!(far.read(now, &mut heard), 5);
//! ```
//!
//! Not modelled: urgent data, simultaneous open, TIME-WAIT, HyStart, pacing, tuning of the receive buffer and a kernel's
//! bookkeeping overhead in it, merging of small segments on retransmission.

mod ack;
mod detect;
mod profile;
mod receiver;
mod recovery;
mod scoreboard;
mod segment;
mod sender;
mod stats;
mod timers;

#[cfg(test)]
mod tests;

use antiphon_core::Instant;
use antiphon_proto::rtt::RttEstimator;

pub use antiphon_proto::rtt::{RtoFloor, RtoSettings};
pub use profile::{AckRule, Algorithm, DelayedAck, LossDetection, Nagle, Profile, Reduction, WindowUnit};
pub use recovery::Phase;
pub use segment::{Flags, HEADER_BYTES, SackBlocks, Segment, SynOptions, Timestamps};
pub use stats::Stats;

use receiver::Receiver;
use sender::{Piece, Sender};

/// One end of a connection.
#[derive(Debug)]
pub struct Tcp {
    profile: Profile,
    state: State,
    sender: Sender,
    receiver: Receiver,
    /// Times the SYN, or the SYN-ACK.
    handshake: RttEstimator,
    handshake_at: Option<Instant>,
    syn_sent_at: Option<Instant>,
    syn_tries: u32,
    wants_syn: bool,
    wants_reset: bool,
    timestamps: bool,
    ts_recent: u32,
    last_ack_sent: u64,
    spare: Vec<Vec<u8>>,
    segments_sent: u64,
    segments_received: u64,
    damaged: u64,
    wire_bytes_sent: u64,
}

/// State of a connection; [`Tcp::is_finished`] and [`Tcp::peer_finished`] tell how it closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Waits for a SYN.
    Listen,
    /// Has sent a SYN.
    SynSent,
    /// Has answered a SYN.
    SynReceived,
    /// Data may flow.
    Established,
    /// The connection has ended.
    Closed(Closed),
}

/// Why a connection ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The peer did not answer for too long.
    TimedOut,
    /// The peer sent a reset.
    Reset,
    /// [`Tcp::abort`] was called.
    Aborted,
}

impl Tcp {
    /// Opens a connection: the SYN is ready to be sent.
    pub fn connect(profile: Profile) -> Self {
        let mut tcp = Tcp::accept(profile);
        tcp.state = State::SynSent;
        tcp.wants_syn = true;
        tcp
    }

    /// Waits for a connection.
    pub fn accept(profile: Profile) -> Self {
        Tcp {
            profile,
            state: State::Listen,
            sender: Sender::new(&profile),
            receiver: Receiver::new(&profile),
            handshake: RttEstimator::new(profile.rto),
            handshake_at: None,
            syn_sent_at: None,
            syn_tries: 0,
            wants_syn: false,
            wants_reset: false,
            timestamps: profile.timestamps,
            ts_recent: 0,
            last_ack_sent: 1,
            spare: Vec::new(),
            segments_sent: 0,
            segments_received: 0,
            damaged: 0,
            wire_bytes_sent: 0,
        }
    }

    /// Where the connection stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Data may flow.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Takes as many of `bytes` as the send buffer has room for; none once closed.
    pub fn write(&mut self, _now: Instant, bytes: &[u8]) -> usize {
        if matches!(self.state, State::Closed(_)) { 0 } else { self.sender.write(bytes) }
    }

    /// Bytes that [`Self::write`] would take.
    pub fn writable(&self) -> usize {
        self.sender.room()
    }

    /// The application has more to write than there is room for.
    pub fn note_waiting(&mut self) {
        self.sender.note_waiting();
    }

    /// Bytes written and not yet sent: what `TCP_NOTSENT_LOWAT` keeps short.
    pub fn unsent(&self) -> usize {
        self.sender.unsent() as usize
    }

    /// Bytes that [`Self::read`] would return.
    pub fn readable(&self) -> usize {
        self.receiver.readable()
    }

    /// Takes what has arrived in order; may make a window update due.
    pub fn read(&mut self, _now: Instant, buf: &mut [u8]) -> usize {
        self.receiver.read(buf)
    }

    /// No more will be written: a FIN follows the data. Reading goes on.
    pub fn close(&mut self, _now: Instant) {
        self.sender.close();
    }

    /// Gives the connection up with a reset.
    pub fn abort(&mut self, _now: Instant) {
        self.wants_reset = matches!(self.state, State::Established | State::SynReceived);
        self.end(Closed::Aborted);
    }

    /// Whether all that was written, and the FIN, is acknowledged.
    pub fn is_finished(&self) -> bool {
        self.sender.is_finished()
    }

    /// Whether the peer has closed and all it sent was read.
    pub fn peer_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    fn end(&mut self, why: Closed) {
        self.state = State::Closed(why);
        self.handshake_at = None;
        self.wants_syn = false;
        self.sender.timer = None;
        self.sender.reorder_timer = None;
    }

    /// Takes a segment from the network; returns its buffer, to be handed to the peer's [`Self::recycle`].
    pub fn handle_segment(&mut self, now: Instant, segment: Segment) -> Vec<u8> {
        self.segments_received += 1;
        if segment.damaged {
            self.damaged += 1;
        } else if segment.flags.rst {
            if self.state != State::Listen {
                self.end(Closed::Reset);
            }
        } else {
            match self.state {
                State::Closed(_) => {}
                State::Listen | State::SynSent => self.on_syn(now, &segment),
                State::SynReceived | State::Established => self.on_segment(now, &segment),
            }
        }
        segment.payload
    }

    /// A SYN at a listener, or a SYN-ACK at the caller.
    fn on_syn(&mut self, now: Instant, segment: &Segment) {
        let calls = self.state == State::SynSent;
        let Some(options) = segment.syn.filter(|_| segment.flags.syn && segment.flags.ack == calls) else {
            return;
        };
        if calls && segment.ack != 1 {
            return;
        }
        self.timestamps = self.profile.timestamps && options.timestamps;
        self.ts_recent = segment.timestamps.map_or(0, |timestamps| timestamps.value);
        let sack = self.profile.sack && options.sack;
        let mss = options.mss.min(self.profile.mss).max(LEAST_MSS);
        let payload = mss - if self.timestamps { 12 } else { 0 };
        if let (Some(_), Some(scale)) = (options.window_scale, self.profile.window_scale) {
            self.receiver.set_scale(scale.min(MAX_SCALE));
        }
        self.sender.open(now, payload, sack);
        self.sender.edge = 1 + u64::from(segment.window);
        self.sender.largest_window = u64::from(segment.window);
        if calls {
            self.receiver.ack_now();
            self.establish(now);
        } else {
            self.state = State::SynReceived;
            self.wants_syn = true;
        }
    }

    fn establish(&mut self, now: Instant) {
        self.state = State::Established;
        self.handshake_at = None;
        if let (Some(at), 1) = (self.syn_sent_at, self.syn_tries) {
            self.sender.rtt.on_sample(now.since(at));
        }
    }

    fn on_segment(&mut self, now: Instant, segment: &Segment) {
        if segment.flags.syn {
            // Our answer was lost: the caller's SYN, or the listener's SYN-ACK, came again.
            self.wants_syn = self.state == State::SynReceived;
            self.receiver.ack_now();
            return;
        }
        if !segment.flags.ack {
            return;
        }
        if self.state == State::SynReceived && segment.ack >= 1 {
            self.establish(now);
        }
        if let Some(timestamps) = segment.timestamps.filter(|_| segment.seq <= self.last_ack_sent) {
            self.ts_recent = self.ts_recent.max(timestamps.value);
        }
        if !self.sender.on_ack(now, segment) {
            self.receiver.ack_now();
            return;
        }
        if !segment.payload.is_empty() || segment.flags.fin {
            self.receiver.on_data(now, segment.seq, &segment.payload, segment.flags.fin, segment.flags.psh);
        } else if segment.seq < self.receiver.next() && segment.seq < self.last_ack_sent {
            // Out of window: a probe that wants an answer (RFC 9293 §3.10.7.4).
            self.receiver.ack_now();
        }
    }

    /// The next segment for the network: retransmissions, new data, a bare acknowledgement.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        let segment = match self.state {
            State::Closed(_) => std::mem::take(&mut self.wants_reset).then(|| self.reset())?,
            State::Listen => return None,
            State::SynSent | State::SynReceived => {
                std::mem::take(&mut self.wants_syn).then(|| self.syn(now))?
            }
            State::Established => match self.sender.poll(now) {
                Some(piece) => self.data(now, &piece),
                None if self.receiver.ack_is_due(now) => self.bare_ack(now),
                None => return None,
            },
        };
        self.segments_sent += 1;
        self.wire_bytes_sent += segment.wire_size() as u64;
        Some(segment)
    }

    fn syn(&mut self, now: Instant) -> Segment {
        self.syn_tries += 1;
        self.syn_sent_at = Some(now);
        self.handshake_at = Some(now + self.handshake.rto());
        let answers = self.state == State::SynReceived;
        let options = SynOptions {
            mss: self.profile.mss,
            sack: self.profile.sack,
            timestamps: self.timestamps,
            window_scale: self.profile.window_scale,
        };
        let mut segment = self.bare(now);
        segment.seq = 0;
        segment.ack = u64::from(answers);
        segment.flags = Flags { syn: true, ack: answers, ..Flags::default() };
        segment.syn = Some(options);
        // The window of a SYN is never scaled (RFC 7323 §2.2).
        segment.window = segment.window.min(65_535);
        segment
    }

    fn reset(&mut self) -> Segment {
        let flags = Flags { rst: true, ack: true, ..Flags::default() };
        Segment { seq: self.sender.next, ack: self.receiver.next(), flags, ..Segment::default() }
    }

    fn data(&mut self, now: Instant, piece: &Piece) -> Segment {
        let mut segment = self.bare(now);
        segment.seq = piece.seq;
        segment.flags.fin = piece.fin;
        segment.flags.psh = piece.push;
        let full = self.profile.mss as usize;
        segment.payload = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(full));
        self.sender.fill(piece, &mut segment.payload);
        self.receiver.on_ack_sent(now, piece.len > 0);
        segment
    }

    fn bare_ack(&mut self, now: Instant) -> Segment {
        let mut segment = self.bare(now);
        if self.sender.sack {
            let limit = if self.timestamps { 3 } else { 4 };
            segment.sack = self.receiver.sack_blocks(limit);
        }
        self.receiver.on_ack_sent(now, false);
        segment
    }

    fn bare(&mut self, now: Instant) -> Segment {
        self.last_ack_sent = self.receiver.next();
        let value = (now.as_nanos() / 1_000_000) as u32;
        Segment {
            seq: self.sender.next,
            ack: self.receiver.next(),
            flags: Flags { ack: true, ..Flags::default() },
            window: self.receiver.window(),
            timestamps: self.timestamps.then_some(Timestamps { value, echo: self.ts_recent }),
            ..Segment::default()
        }
    }

    /// When [`Self::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let data = match self.state {
            State::Established => {
                self.sender.poll_timeout().into_iter().chain(self.receiver.poll_timeout()).min()
            }
            _ => None,
        };
        data.into_iter().chain(self.handshake_at).min()
    }

    /// Does what is due at `now`; [`Self::poll_transmit`] follows.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.handshake_at.is_some_and(|at| at <= now) {
            self.handshake_at = None;
            self.handshake.back_off();
            self.wants_syn = true;
            if self.syn_tries > self.profile.syn_retries {
                self.end(Closed::TimedOut);
            }
        }
        if self.state == State::Established {
            if self.receiver.poll_timeout().is_some_and(|at| at <= now) {
                self.receiver.ack_now();
            }
            if !self.sender.handle_timeout(now) {
                self.end(Closed::TimedOut);
            }
        }
    }

    /// Takes a buffer for later segments; more than a thousand are freed.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }

    /// Whether a buffer is available for a later segment.
    pub fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// The present phase of loss recovery.
    pub fn phase(&self) -> Phase {
        self.sender.recovery.phase()
    }
}

/// RFC 7323 §2.3.
const MAX_SCALE: u8 = 14;
/// As Linux (`tcp_min_snd_mss` 48): a hostile SYN must not make a segment per byte.
const LEAST_MSS: u32 = 48;
/// 1.5 MB of full segments: what a flow of 100 Mbit/s has in flight at 100 ms. Beyond it, buffers are newly allocated.
const SPARE_BUFFERS: usize = 1024;
