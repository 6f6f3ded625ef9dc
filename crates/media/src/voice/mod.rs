//! Voice channels of 64 kbit/s: many telephone-quality channels, each a FIFO between a converter and a transport.
//!
//! A channel is 8000 samples of mu-law a second, so a byte every 125 us (Weaver and McNabb 1992, section 3). At the sender
//! bytes accumulate in its FIFO and an invocation sends all of them; at the receiver they go into a FIFO from which a sink
//! takes one every 125 us of its own clock.
//!
//! ```text
//! VoiceSource ─ counted by a ByteClock ─ datum ─► transport ─► parse ─ VoiceFifo ─ ByteClock ─ sink
//! ```
//!
//! A datum is an RTP packet of payload type 0, so that analysers read it (`packet`). Nothing here allocates after
//! construction.

mod clock;
mod fifo;
mod opus;
mod packet;
mod pool;
mod silence;
mod source;

pub use clock::{ByteClock, MOST_PPM};
pub use fifo::{FifoCounters, Piece, VoiceFifo};
pub use opus::{OPUS_RATES, OPUS_SIZES, OPUS_STATE, VoiceDecoder, VoiceEncoder};
pub use packet::{
    Datum, MOST_CHANNELS, OPUS_TICKS, VOICE_HEADER, VoiceContent, parse_voice, voice_channel,
    voice_header_len, voice_ssrc, write_voice_header,
};
pub use pool::VoicePool;
pub use silence::{ComfortNoise, HANGOVER, Level, NoiseLevel, SilenceDetector};
pub use source::{VoiceKind, VoiceMaterial, VoiceSource};

/// Samples, and bytes, of a channel in a second.
pub const VOICE_RATE: u32 = 8_000;

/// How long so many bytes of a channel last: 125 us each.
pub fn voice_time(bytes: usize) -> std::time::Duration {
    std::time::Duration::from_nanos(clock::NANOS.saturating_mul(bytes as u64))
}

/// Whole bytes of a channel in this time.
pub fn voice_bytes(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos() / u128::from(clock::NANOS)).unwrap_or(u64::MAX)
}

/// Voice data sizes that may be sent at a time, in bytes (Weaver and McNabb 1992, section 3: 8 to 4096).
pub const VOICE_SIZES: std::ops::RangeInclusive<usize> = 8..=4096;

/// The mu-law byte of silence: positive zero.
pub const QUIET: u8 = 0xff;
