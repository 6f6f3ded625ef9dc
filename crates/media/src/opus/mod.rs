//! Opus (RFC 6716) in RTP (RFC 7587): for paths that do not carry PCM.
//!
//! A packet of Opus holds 2.5 to 120 ms of sound and can be decoded only after those before it, since the decoder goes on
//! from where it stands. So the playout buffer keeps packets as they came, and decodes each when its turn comes
//! (`playout`): in the order of media time, whatever order they came in. What is lost is made up by the decoder, or
//! taken from the next packet if its sender has put a copy there (in-band forward error correction, RFC 6716 §2.1.7).
//!
//! Our encoder uses the transform codec alone (CELT). It takes 2.5 ms to look ahead instead of 6.5 ms, takes packets of any
//! duration, and keeps to its bit rate; the speech codec (SILK), which alone has forward error correction, is better at
//! bit rates below 32 kbit/s a channel. We decode all of both.
//!
//! The codec is `opus-rs`, a port of libopus to Rust. It allocates at construction only.

mod decoder;
mod encoder;
mod packet;

pub use decoder::Decoder;
pub use encoder::{Encoder, of_one_length};
pub(crate) use encoder::{most_payload, usual_payload};
pub use packet::packet_frames;

/// Sampling rate, and rate of RTP's time stamps (RFC 7587 §4.1), in Hz.
pub const RATE: u32 = 48_000;
/// Channels of an RTP stream (RFC 7587 §4.2).
pub const MOST_CHANNELS: usize = 2;
/// Sample frames of the packets that are sent: 2.5, 5, 10, 20, 40 and 60 ms (RFC 6716 §2.1.4).
pub const PACKET_FRAMES: [u32; 6] = [120, 240, 480, 960, 1920, 2880];
/// Sample frames of a packet where nothing else is asked: 20 ms, as RFC 7587 §6.1 has it (`ptime`).
pub const USUAL_FRAMES: u32 = 960;
/// Sample frames by which our encoder's sound is late: half the overlap of its windows (RFC 6716 §4.3.7), as it uses CELT alone.
pub const LOOK_AHEAD: usize = 120;
/// Sample frames of the longest packet: 120 ms (RFC 6716 §3.2.5, R5).
pub const MOST_FRAMES: usize = 5760;
/// Bytes of the longest packet that is taken: six full frames of 20 ms. Longer ones, with more than 510 kbit/s, are
/// possible only with frames of less than 20 ms in one packet, which no sender makes.
pub const MOST_BYTES: usize = 6 * MOST_FRAME_BYTES + 16;
/// Bit rates of an RTP stream, in bits a second. Opus goes down to 6 kbit/s with its speech codec; CELT makes no
/// sound below this one.
pub const BIT_RATES: std::ops::RangeInclusive<u32> = 16_000..=510_000;

/// Bytes of the longest frame (RFC 6716 §3.2.1).
const MOST_FRAME_BYTES: usize = 1275;

/// The bit rate where none is asked, in bits a second: what `opusenc` takes for one channel and for two.
pub const fn usual_bit_rate(channels: usize) -> u32 {
    if channels > 1 { 96_000 } else { 64_000 }
}

#[cfg(test)]
mod tests;
