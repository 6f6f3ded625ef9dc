//! How a port sends and receives, and where what it receives goes.

use std::time::Duration;

use antiphon_core::wire::{ETHERNET_MTU, UDP_IPV6_HEADERS};
use antiphon_media::voice::{Piece, VoiceSource, voice_time};

/// Whose channels decide when a port ends. Either end may call or listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VoiceRole {
    /// Its own: it ends when it has sent everything.
    Sender,
    /// The peer's: it ends when these have ended, whatever it sends itself.
    Receiver,
}

/// What a port sends.
#[derive(Clone, Debug)]
pub struct VoiceSending {
    /// What each channel says.
    pub sources: Vec<VoiceSource>,
    /// The priority of each channel, 0 the most urgent; 0 for those that are not listed.
    pub priorities: Vec<u8>,
    /// Bytes of voice that make a channel due, 8 to 4096.
    pub size: usize,
    /// Bytes of each channel's FIFO; at least `size`.
    pub fifo: usize,
    /// How much faster the clock of the sources runs than the run's.
    pub clock_ppm: i32,
    /// Bytes of each channel in all; `None` without an end.
    pub length: Option<u64>,
    /// Blocks of at most so many dB are pauses, which are not sent; `None`: everything is sent.
    pub silence: Option<f32>,
    /// Compresses with Opus to so many bits a second; `size` is then one of [`OPUS_SIZES`](antiphon_media::voice::OPUS_SIZES).
    pub opus: Option<u32>,
    /// How long a datum is of use after it was sent first: the playout delay of the peer.
    pub lifetime: Duration,
    /// Bytes of the largest message that a transport gets which doesn't cut messages.
    pub max_packet: usize,
}

impl VoiceSending {
    /// These channels, in data of `size` bytes from FIFOs of twice that.
    pub fn new(sources: Vec<VoiceSource>, size: usize) -> Self {
        VoiceSending {
            sources,
            priorities: Vec::new(),
            size,
            fifo: 2 * size,
            clock_ppm: 0,
            length: None,
            silence: None,
            opus: None,
            lifetime: voice_time(2 * size),
            max_packet: ETHERNET_MTU - UDP_IPV6_HEADERS,
        }
    }
}

/// How a port receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VoiceReceiving {
    /// Bytes of each channel's FIFO; `None`: twice a datum, or as many as `delay` needs.
    pub fifo: Option<usize>,
    /// Bytes that a sink waits for after the first datum; `None`: half of what the FIFO then has free.
    pub delay: Option<usize>,
    /// How much faster the clock of the sinks runs than the run's.
    pub clock_ppm: i32,
    /// Whether to go on listening when the peer's channels have ended.
    pub forever: bool,
}

/// Takes what channels say. Called on the media thread: does not block, allocate or lock.
pub trait VoiceSink {
    /// The sink of `channel` takes `piece`; `tick`: bytes that the sinks' clock had counted before its first byte. Of a
    /// [`Piece::Missing`] or [`Piece::Underflow`] that is known only after the fact it is the tick of the byte behind.
    fn piece(&mut self, channel: u32, tick: u64, piece: Piece<'_>);

    /// All channels are taken up to byte `tick` of the clock.
    fn on_taken(&mut self, tick: u64);
}
