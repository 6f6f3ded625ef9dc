//! Voice compressed with Opus (RFC 6716): a quarter of the bytes and less, for processor time and delay.
//!
//! Mu-law goes in and comes out, so that FIFOs hold the same bytes whatever was on the wire. The codec is a port of libopus
//! to Rust, which builds without any other tool.

use opus_rs::{Application, OpusDecoder, OpusEncoder};

use super::VOICE_RATE;
use crate::SampleFormat;
use crate::codec;

/// Voice data sizes that Opus takes, in bytes of mu-law: frames of 10, 20, 40 and 60 ms (RFC 6716 §2.1.4) that its speech
/// codec has.
pub const OPUS_SIZES: [usize; 4] = [80, 160, 320, 480];

/// Bit rates for speech (RFC 6716 §2.1.1), in bits a second.
pub const OPUS_RATES: std::ops::RangeInclusive<u32> = 6_000..=128_000;

/// Bytes that an encoder holds, and a decoder.
pub const OPUS_STATE: usize = 320_000;

/// Compresses one channel.
pub struct VoiceEncoder {
    encoder: OpusEncoder,
    samples: [f32; MOST_SENT],
}

impl VoiceEncoder {
    /// For so many bits a second.
    pub fn new(bits_per_s: u32) -> Self {
        let mut encoder = OpusEncoder::new(VOICE_RATE as i32, 1, Application::Voip).expect("a rate of Opus");
        encoder.bitrate_bps = bits_per_s.clamp(*OPUS_RATES.start(), *OPUS_RATES.end()) as i32;
        encoder.complexity = COMPLEXITY;
        VoiceEncoder { encoder, samples: [0.0; MOST_SENT] }
    }

    /// Compresses `voice`, which has one of [`OPUS_SIZES`]; returns the bytes written into `out`, or `None` if it has not.
    pub fn encode(&mut self, voice: &[u8], out: &mut [u8]) -> Option<usize> {
        let samples = self.samples.get_mut(..voice.len())?;
        codec::decode(SampleFormat::MuLaw, voice, samples);
        self.encoder.encode(samples, voice.len(), out).ok()
    }
}

/// Expands one channel.
pub struct VoiceDecoder {
    decoder: OpusDecoder,
    samples: [f32; MOST_RECEIVED],
    voice: [u8; MOST_RECEIVED],
}

impl Default for VoiceDecoder {
    fn default() -> Self {
        VoiceDecoder {
            decoder: OpusDecoder::new(VOICE_RATE as i32, 1).expect("a rate of Opus"),
            samples: [0.0; MOST_RECEIVED],
            voice: [0; MOST_RECEIVED],
        }
    }
}

impl VoiceDecoder {
    /// Expands a packet, from any peer, into mu-law; nothing if it is none of Opus.
    pub fn decode(&mut self, packet: &[u8]) -> &[u8] {
        // Of a packet without a frame the decoder would make up sound.
        let decoded = if packet.len() < 2 {
            Err("no frame")
        } else {
            self.decoder.decode(packet, MOST_RECEIVED, &mut self.samples)
        };
        let len = decoded.map_or(0, |len| len.min(MOST_RECEIVED));
        let written = codec::encode(SampleFormat::MuLaw, &self.samples[..len], &mut self.voice);
        &self.voice[..written]
    }
}

/// Samples of the longest that is sent.
const MOST_SENT: usize = OPUS_SIZES[OPUS_SIZES.len() - 1];
/// Samples of the longest packet: 120 ms (RFC 6716 §3.2.5).
const MOST_RECEIVED: usize = 960;
/// Of 0 to 10: half the time of the best for nearly its quality.
const COMPLEXITY: i32 = 5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::voice::{Level, VoiceKind, VoiceMaterial};

    #[test]
    fn voice_comes_back_as_loud_in_fewer_bytes() {
        let source = VoiceMaterial::of_kind(VoiceKind::Tones, 1).channel(0);
        for size in OPUS_SIZES {
            let (mut encoder, mut decoder) = (VoiceEncoder::new(16_000), VoiceDecoder::default());
            let (mut voice, mut packet) = (vec![0; size], [0; 400]);
            let (mut bytes, mut heard) = (0, Vec::new());
            for n in 0..8_000 / size as u64 {
                source.read(n * size as u64, &mut voice);
                let len = encoder.encode(&voice, &mut packet).expect("a frame");
                bytes += len;
                let decoded = decoder.decode(&packet[..len]);
                assert_eq!(decoded.len(), size);
                heard.extend_from_slice(decoded);
            }
            // 16 kbit/s are 2000 bytes in this second, give or take.
            assert!((500..2_600).contains(&bytes), "{size}: {bytes}");
            let (sent, heard) = (Level::of(&voice).db(), Level::of(&heard[4_000..]).db());
            assert!((sent - heard).abs() < 3.0, "{size}: {heard} for {sent}");
        }
        assert_eq!(VoiceEncoder::new(16_000).encode(&[0; 100], &mut [0; 400]), None);
        assert_eq!(VoiceEncoder::new(16_000).encode(&[0; 500], &mut [0; 400]), None);
        assert_eq!(VoiceDecoder::default().decode(&[]), []);
    }

    proptest! {
        #[test]
        fn hostile_packets_are_decoded_or_refused(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..20)) {
            let mut decoder = VoiceDecoder::default();
            for packet in packets {
                prop_assert!(decoder.decode(&packet).len() <= MOST_RECEIVED);
            }
        }
    }
}
