//! Packets of Opus, from any sender, into sound.

use opus_rs::OpusDecoder;

use super::{MOST_FRAMES, RATE, packet_frames};

/// Expands an RTP stream into one or two channels, whatever its packets have (RFC 7587 §4.2 lets them change). Allocates at
/// construction only.
pub struct Decoder {
    inner: OpusDecoder,
    channels: usize,
    silence: Silence,
}

/// The last packet, if nothing of it could be heard. After a few that are alike the decoder itself stands still, and the next
/// ones need not be decoded.
struct Silence {
    packet: Vec<u8>,
    /// Packets in a row that were like it.
    alike: u32,
}

impl Decoder {
    /// For one or two channels.
    ///
    /// Panics with other numbers.
    pub fn new(channels: usize) -> Self {
        Decoder {
            inner: OpusDecoder::new(RATE as i32, channels).expect("one or two channels"),
            channels,
            silence: Silence { packet: Vec::with_capacity(LONGEST_SILENCE), alike: 0 },
        }
    }

    /// Expands the packet that follows the last one, or what was made up since, into `out`, which holds [`MOST_FRAMES`]. Returns
    /// its sample frames: those of [`packet_frames`]. What the packet should hold and does not is made up.
    pub fn decode(&mut self, packet: &[u8], out: &mut [f32]) -> usize {
        let Some(frames) = packet_frames(packet) else { return 0 };
        if self.silence.is_still(packet) {
            out[..frames * self.channels].fill(0.0);
            return frames;
        }
        let decoded = self.inner.decode(packet, MOST_FRAMES, out);
        if decoded != Ok(frames) {
            self.conceal(frames, out);
        }
        self.clean(frames, out);
        let silent = out[..frames * self.channels].iter().all(|sample| sample.abs() < INAUDIBLE);
        self.silence.follow(silent, packet);
        frames
    }

    /// Makes up `frames` sample frames, a multiple of [`Self::STEP`] up to [`MOST_FRAMES`], that are missing.
    pub fn conceal(&mut self, frames: usize, out: &mut [f32]) {
        self.silence.follow(false, &[]);
        if self.inner.decode(&[], frames, out) != Ok(frames) {
            out.fill(0.0);
        }
        self.clean(frames, out);
    }

    /// The same of what is missing before `next`, which may hold a copy of its end. `next` is decoded afterwards.
    pub fn recover(&mut self, next: &[u8], frames: usize, out: &mut [f32]) {
        if packet_frames(next).is_none() || self.inner.decode_fec(next, frames, out) != Ok(frames) {
            self.conceal(frames, out);
        }
        self.silence.follow(false, &[]);
        self.clean(frames, out);
    }

    fn clean(&self, frames: usize, out: &mut [f32]) {
        for sample in &mut out[..frames * self.channels] {
            // A value that is no number would silence all filters behind for good; where a packet changes from one codec to the
            // other, the decoder may go beyond full scale.
            *sample = if sample.is_finite() { sample.clamp(-1.0, 1.0) } else { 0.0 };
        }
    }

    /// Sample frames of which what is made up is a multiple: 2.5 ms.
    pub const STEP: usize = 120;
}

impl Silence {
    fn is_still(&self, packet: &[u8]) -> bool {
        self.alike >= STILL && self.packet == packet
    }

    fn follow(&mut self, silent: bool, packet: &[u8]) {
        if silent && self.packet == packet {
            self.alike += 1;
            return;
        }
        self.packet.clear();
        if silent && packet.len() <= LONGEST_SILENCE {
            self.packet.extend_from_slice(packet);
        }
        self.alike = 0;
    }
}

/// Packets of silence like the one before, after which the decoder stands still.
const STILL: u32 = 3;
/// Bytes of a packet of silence that is remembered; a longer one is decoded each time.
const LONGEST_SILENCE: usize = 1024;
/// Half a step of 24 bits.
const INAUDIBLE: f32 = 1.0 / (1 << 24) as f32;
