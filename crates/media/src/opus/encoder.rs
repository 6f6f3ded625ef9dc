//! Sound into packets of Opus.

use opus_rs::{Application, OpusEncoder};

use super::RATE;

/// Compresses an RTP stream of one or two channels. Allocates at construction only.
pub struct Encoder {
    inner: OpusEncoder,
    frame: Vec<f32>,
    frames: usize,
    bit_rate: u32,
    silence: Silence,
}

/// The last packet, if it holds silence alone. After a few that are alike the encoder itself stands still, and the next ones are
/// copies: silence takes most of the time that sound takes to encode.
struct Silence {
    packet: Vec<u8>,
    /// Bytes that it had for itself.
    room: usize,
    /// Packets in a row that were like it.
    alike: u32,
}

impl Encoder {
    /// Packets of `frames` sample frames (one of [`super::PACKET_FRAMES`]) with so many bits a second.
    ///
    /// Panics with other values than [`crate::packet::PacketConfig`] lets through.
    pub fn new(channels: usize, frames: usize, bit_rate: u32) -> Self {
        let mut inner = OpusEncoder::new(RATE as i32, channels, Application::RestrictedLowDelay)
            .expect("48 kHz, and one or two channels");
        inner.complexity = COMPLEXITY;
        // Frames of a longer packet are made one by one, and only those of a fixed length surely fit into it.
        inner.use_cbr = of_one_length(frames);
        let silence = Silence::new(most_payload(frames, bit_rate));
        Encoder { inner, frame: vec![0.0; frames * channels], frames, bit_rate, silence }
    }

    /// Compresses `sound`, a packet's or less, followed by silence; returns the bytes written into `out`. `None` if `out`
    /// is too short for any sound.
    ///
    /// The packet holds the sound of [`super::LOOK_AHEAD`] sample frames before, and lacks as many at the end of `sound`.
    pub fn encode(&mut self, sound: &[f32], out: &mut [u8]) -> Option<usize> {
        let room = out.len().min(most_payload(self.frames, self.bit_rate));
        let silent = sound.iter().all(|sample| *sample == 0.0);
        if silent && let Some(packet) = self.silence.again(room) {
            out[..packet.len()].copy_from_slice(packet);
            return Some(packet.len());
        }
        let len = sound.len().min(self.frame.len());
        let (head, tail) = self.frame.split_at_mut(len);
        for (to, from) in head.iter_mut().zip(sound) {
            *to = if from.is_nan() { 0.0 } else { from.clamp(-1.0, 1.0) };
        }
        tail.fill(0.0);
        let fits = room.saturating_sub(LENGTHS) as u64 * 8 * u64::from(RATE) / self.frames as u64;
        self.inner.bitrate_bps = fits.min(u64::from(self.bit_rate)) as i32;
        let made = self.inner.encode(&self.frame, self.frames, &mut out[..room]).ok()?;
        self.silence.follow(silent, room, &out[..made]);
        Some(made)
    }
}

impl Silence {
    fn new(most: usize) -> Self {
        Silence { packet: Vec::with_capacity(most), room: 0, alike: 0 }
    }

    /// The next packet of silence, if it is known.
    fn again(&self, room: usize) -> Option<&[u8]> {
        (self.alike >= STILL && self.room == room).then_some(&self.packet)
    }

    fn follow(&mut self, silent: bool, room: usize, packet: &[u8]) {
        if silent && self.packet == packet && self.room == room {
            self.alike += 1;
            return;
        }
        self.packet.clear();
        if silent {
            self.packet.extend_from_slice(packet);
        }
        self.room = room;
        self.alike = 0;
    }
}

/// Whether packets of `frames` sample frames have the same length whatever the sound.
pub const fn of_one_length(frames: usize) -> bool {
    frames > LONGEST_FRAME
}

/// Bytes of the longest packet of `frames` sample frames at this bit rate: sudden sound takes up to twice the usual, except in packets of
/// several frames.
pub(crate) fn most_payload(frames: usize, bit_rate: u32) -> usize {
    let usual = usual_payload(frames, bit_rate);
    let most = if of_one_length(frames) { usual } else { 2 * usual };
    (most + LENGTHS).min(frames.div_ceil(LONGEST_FRAME) * super::MOST_FRAME_BYTES + LENGTHS)
}

/// Bytes of a packet of `frames` sample frames at this bit rate, rounded up.
pub(crate) fn usual_payload(frames: usize, bit_rate: u32) -> usize {
    (frames as u64 * u64::from(bit_rate)).div_ceil(u64::from(RATE) * 8) as usize
}

/// Sample frames of the longest frame of CELT: 20 ms.
const LONGEST_FRAME: usize = 960;
/// Packets of silence like the one before, after which the encoder stands still. The first may hold the end of the sound.
const STILL: u32 = 3;
/// Bytes that say how long the frames of a packet are, and what rounding adds.
const LENGTHS: usize = 16;
/// Of 0 to 10: half the time of the best for nearly its quality.
const COMPLEXITY: i32 = 5;
