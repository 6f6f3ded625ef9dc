//! The header of our recordings: its length does not depend on the recorded length, so that it can be rewritten in
//! place.

use antiphon_media::{SampleFormat, StreamFormat};

use super::{DS64_SIZE, GUID_TAIL, TAG_A_LAW, TAG_EXTENSIBLE, TAG_FLOAT, TAG_MU_LAW, TAG_PCM};
use crate::raw::RawFormat;

/// The header of a recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub stream: StreamFormat,
    pub sample: SampleFormat,
}

impl Header {
    /// Bytes per sample frame.
    pub fn frame_bytes(self) -> u64 {
        (self.sample.bytes() * self.stream.channels()) as u64
    }

    /// The header of a file with `data` bytes of samples; RIFF while its 32-bit sizes suffice, then RF64.
    pub fn emit(self, data: u64) -> Vec<u8> {
        let chunks = self.chunks(data);
        // Everything after the first eight bytes: "WAVE", ds64, the chunks, the data chunk's header, data and pad byte.
        let riff = 4 + 8 + u64::from(DS64_SIZE) + chunks.len() as u64 + 8 + data + data % 2;
        let small = u32::try_from(riff).ok();
        let mut out = Vec::with_capacity(128);
        out.extend(if small.is_some() { b"RIFF" } else { b"RF64" });
        out.extend(small.unwrap_or(u32::MAX).to_le_bytes());
        out.extend(b"WAVE");
        out.extend(ds64(small.is_none().then_some((riff, data, data / self.frame_bytes()))));
        out.extend(chunks);
        out.extend(b"data");
        out.extend(small.map_or(u32::MAX, |_| data as u32).to_le_bytes());
        out
    }

    /// `fmt ` and, for everything but plain PCM, `fact`.
    fn chunks(self, data: u64) -> Vec<u8> {
        let raw = RawFormat::from(self.sample);
        let (channels, bits) = (self.stream.channels() as u16, 8 * raw.bytes() as u16);
        let tag = match self.sample {
            SampleFormat::L16 | SampleFormat::L24 => TAG_PCM,
            SampleFormat::F32 => TAG_FLOAT,
            SampleFormat::MuLaw => TAG_MU_LAW,
            SampleFormat::ALaw => TAG_A_LAW,
        };
        // Microsoft requires the extensible form beyond two channels or 16 bits of PCM.
        let extensible = channels > 2 || self.sample == SampleFormat::L24;
        let size: u32 = match (extensible, tag) {
            (true, _) => 40,
            (false, TAG_PCM) => 16,
            (false, _) => 18,
        };
        let mut out = Vec::with_capacity(64);
        out.extend(b"fmt ");
        out.extend(size.to_le_bytes());
        out.extend(if extensible { TAG_EXTENSIBLE } else { tag }.to_le_bytes());
        out.extend(channels.to_le_bytes());
        out.extend(self.stream.rate().to_le_bytes());
        let byte_rate = u64::from(self.stream.rate()) * self.frame_bytes();
        out.extend((byte_rate as u32).to_le_bytes());
        out.extend((self.frame_bytes() as u16).to_le_bytes());
        out.extend(bits.to_le_bytes());
        if size >= 18 {
            out.extend((size as u16 - 18).to_le_bytes());
        }
        if extensible {
            out.extend(bits.to_le_bytes());
            out.extend(speakers(channels).to_le_bytes());
            out.extend(tag.to_le_bytes());
            out.extend(GUID_TAIL);
        }
        if tag != TAG_PCM {
            out.extend(b"fact\x04\0\0\0");
            out.extend(u32::try_from(data / self.frame_bytes()).unwrap_or(u32::MAX).to_le_bytes());
        }
        out
    }
}

/// The chunk that holds 64-bit sizes (RIFF, data, sample frames), or reserves room for them.
pub(super) fn ds64(sizes: Option<(u64, u64, u64)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + DS64_SIZE as usize);
    out.extend(if sizes.is_some() { b"ds64" } else { b"JUNK" });
    out.extend(DS64_SIZE.to_le_bytes());
    let (riff, data, frames) = sizes.unwrap_or_default();
    out.extend([riff, data, frames].iter().flat_map(|size| size.to_le_bytes()));
    out.extend(0u32.to_le_bytes());
    out
}

/// The loudspeakers of the channels: centre, or left and right, otherwise unspecified.
fn speakers(channels: u16) -> u32 {
    match channels {
        1 => 0x4,
        2 => 0x3,
        _ => 0,
    }
}
