//! Blocks of sound into RTP packets (RFC 3550 §5.1, RFC 3551 §4).

use antiphon_core::{MediaTime, NtpTime, Rng};
use rtp_types::RtpPacketBuilder;

use super::extension::{self, Elements, MAX_BODY, ONE_BYTE_PROFILE};
use super::{DYNAMIC_PAYLOAD_TYPE, InBandFormat, InBandGroup, PacketConfig, PacketError};
use crate::{ChannelGroups, Coding, codec, opus};

/// Fields of the header of a packet just made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketInfo {
    /// RTP sequence number.
    pub sequence: u16,
    /// RTP time stamp of its first sample frame.
    pub timestamp: u32,
    /// Where the block that it was made of began in the stream; Opus delays the sound in the packet by its look-ahead.
    pub media: MediaTime,
    /// Sample frames in it.
    pub frames: usize,
    /// Bytes of sound.
    pub payload: usize,
    /// First after the start or a pause.
    pub marker: bool,
}

/// Splits blocks into packets. One per stream; allocates nothing.
pub struct Packetiser {
    config: PacketConfig,
    packet_frames: usize,
    ssrc: u32,
    sequence: u16,
    timestamp_offset: u32,
    /// Sample frames packetised or skipped so far.
    position: u64,
    marker: bool,
    packets: u64,
    octets: u64,
    /// Packets since the format was to be told.
    announced: u64,
    group: Option<InBandGroup>,
    encoder: Option<Box<opus::Encoder>>,
    /// Sample frames of the source that no packet holds yet.
    unsent: usize,
}

impl Packetiser {
    /// Sequence number, time stamp and SSRC start at random values drawn from `seed` (RFC 3550 §5.1, §8.1).
    pub fn new(config: PacketConfig, seed: u64) -> Result<Self, PacketError> {
        config.check()?;
        let mut rng = Rng::fork(seed, "packetiser");
        let packet_frames = config.packet_frames()?;
        let encoder = || opus::Encoder::new(config.format.channels(), packet_frames, config.bandwidth());
        Ok(Packetiser {
            packet_frames,
            encoder: (config.coding == Coding::Opus).then(encoder).map(Box::new),
            unsent: 0,
            config,
            ssrc: rng.next_u32(),
            sequence: rng.next_u32() as u16,
            timestamp_offset: rng.next_u32(),
            position: 0,
            marker: true,
            packets: 0,
            octets: 0,
            announced: 0,
            group: None,
        })
    }

    /// One packetiser for each channel group of a stream that `config` describes as a whole: each has its own SSRC and
    /// first sequence number; all have the same time stamps. For an undivided stream, the result is one [`Self::new`].
    ///
    /// Divided streams have dynamic payload types, one for each number of channels, from `config.payload_type` on (RFC
    /// 3551 §3: a payload type means one format): a static one would describe a part of the stream as all of it.
    pub fn for_groups(
        config: PacketConfig,
        groups: ChannelGroups,
        seed: u64,
    ) -> Result<Vec<Self>, PacketError> {
        if groups.count() == 1 {
            return Ok(vec![Self::new(config, seed)?]);
        }
        let channels = groups.range(0).map_or(1, |range| range.len());
        let first = Self::new(config.of_group(channels, groups)?, seed)?;
        let (sender, mut rng) = (first.ssrc, Rng::fork(seed, "packetiser of groups"));
        let mut made: Vec<Self> = Vec::with_capacity(groups.count());
        for (index, range) in groups.ranges().enumerate() {
            let same = made.iter().find(|other| other.config.format.channels() == range.len());
            let highest = made.iter().map(|other| other.config.payload_type + 1).max();
            let base = config.payload_type.max(DYNAMIC_PAYLOAD_TYPE);
            let own = PacketConfig {
                payload_type: same.map_or(highest.unwrap_or(base), |other| other.config.payload_type),
                ..config.of_group(range.len(), groups)?
            };
            let mut packetiser = Self { timestamp_offset: first.timestamp_offset, ..Self::new(own, seed)? };
            if index > 0 {
                packetiser.sequence = rng.next_u32() as u16;
                packetiser.ssrc = rng.next_u32();
                while made.iter().any(|other| other.ssrc == packetiser.ssrc) {
                    packetiser.ssrc = rng.next_u32();
                }
            }
            packetiser.group = Some(InBandGroup { sender, index: index as u8, groups });
            made.push(packetiser);
        }
        Ok(made)
    }

    /// Sample frame 0 has the time stamp `stamp`, and those that follow the ones after it. A packet after a jump is marked as one after
    /// a pause.
    pub fn set_first_timestamp(&mut self, stamp: u32) {
        self.marker |= std::mem::replace(&mut self.timestamp_offset, stamp) != stamp;
    }

    /// Makes the packets of `block` (whole sample frames; any number, though the split is made for a full block), each
    /// in `buf`, and lends each to `each`. `ntp` is the time of sending for the header extension.
    ///
    /// `buf` holds at least `max_packet` bytes; if it is shorter, packets are limited to its length.
    pub fn packetise(
        &mut self,
        block: &[f32],
        ntp: NtpTime,
        buf: &mut [u8],
        mut each: impl FnMut(PacketInfo, &[u8]),
    ) {
        let channels = self.config.format.channels();
        let Coding::Pcm(sample) = self.config.coding else {
            return block
                .chunks(self.packet_frames * channels)
                .for_each(|part| self.compress(part, ntp, buf, &mut each));
        };
        let room = buf.len().saturating_sub(self.config.max_header());
        let frames = self.packet_frames.min(room / (channels * sample.bytes()));
        if frames == 0 {
            // A buffer without room for a single sample frame: media time advances without a packet.
            return self.skip((block.len() / channels) as u64);
        }
        for part in block.chunks(frames * channels) {
            let mut info = self.info(part.len() / channels);
            let header = self.write_header(info, ntp, buf);
            info.payload = codec::encode(sample, part, &mut buf[header..]);
            self.advance(info);
            each(info, &buf[..header + info.payload]);
        }
    }

    /// A packet of Opus out of `part`, a packet's sound or the rest of it.
    fn compress(
        &mut self,
        part: &[f32],
        ntp: NtpTime,
        buf: &mut [u8],
        each: &mut impl FnMut(PacketInfo, &[u8]),
    ) {
        let mut info = self.info(self.packet_frames);
        if buf.len() <= self.config.max_header() {
            return self.skip(self.packet_frames as u64);
        }
        let header = self.write_header(info, ntp, buf);
        let encoded = self.encoder.as_mut().and_then(|encoder| encoder.encode(part, &mut buf[header..]));
        let Some(payload) = encoded else { return self.skip(self.packet_frames as u64) };
        info.payload = payload;
        // What is left of the packet holds silence, or what the packet before could not hold yet.
        let padding = self.packet_frames - part.len() / self.config.format.channels();
        self.unsent = self.config.coding.look_ahead().saturating_sub(padding);
        self.advance(info);
        each(info, &buf[..header + payload]);
    }

    /// Sample frames of what was packetised that are in no packet yet: so many more bring them out.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// The header's fields of a packet that begins where the last one ended. Its sound was captured when its time stamp says.
    fn info(&self, frames: usize) -> PacketInfo {
        let look_ahead = self.config.coding.look_ahead() as u32;
        PacketInfo {
            sequence: self.sequence,
            timestamp: self.timestamp_at(self.position).wrapping_sub(look_ahead),
            media: MediaTime::new(self.position, self.config.format.rate()),
            frames,
            payload: 0,
            marker: self.marker,
        }
    }

    /// Advances media time without packets: the source starved or is silent. The next packet carries the marker.
    pub fn skip(&mut self, frames: u64) {
        self.position += frames;
        self.marker = true;
    }

    /// How the stream is cut.
    pub fn config(&self) -> &PacketConfig {
        &self.config
    }

    /// Sample frames in a full packet.
    pub fn packet_frames(&self) -> usize {
        self.packet_frames
    }

    /// The stream's synchronisation source.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Takes another SSRC after a collision (RFC 3550 §8.2); the receivers see a new stream.
    /// `sender`: the SSRC of the first channel group.
    pub fn set_ssrc(&mut self, ssrc: u32, sender: u32) {
        self.ssrc = ssrc;
        self.marker = true;
        // The format is told again, as to a receiver that begins.
        (self.packets, self.octets, self.announced) = (0, 0, 0);
        if let Some(group) = &mut self.group {
            group.sender = sender;
        }
    }

    /// The next packets tell the format, as the first ones did: a receiver has come that has not heard those.
    pub fn tell_format(&mut self) {
        self.announced = 0;
    }

    /// Where the next block begins.
    pub fn position(&self) -> MediaTime {
        MediaTime::new(self.position, self.config.format.rate())
    }

    /// The RTP time stamp of the sample frame `frames` after the stream began.
    pub fn timestamp_at(&self, frames: u64) -> u32 {
        self.timestamp_offset.wrapping_add(frames as u32)
    }

    /// The sequence number that the next packet will have.
    pub fn next_sequence(&self) -> u16 {
        self.sequence
    }

    /// Packets and octets of payload so far, as sender reports count them (RFC 3550 §6.4.1).
    pub fn sent(&self) -> (u64, u64) {
        (self.packets, self.octets)
    }

    fn write_header(&self, info: PacketInfo, ntp: NtpTime, buf: &mut [u8]) -> usize {
        let in_band = (self.announced < ANNOUNCE_FIRST || self.announced.is_multiple_of(ANNOUNCE_EVERY))
            .then_some(InBandFormat {
                format: self.config.format,
                coding: self.config.coding,
                block_frames: self.config.block_frames as u16,
            });
        let group = self.group.filter(|_| in_band.is_some());
        let mut body = [0; MAX_BODY];
        let elements = Elements { ntp: Some(ntp), format: in_band, group, ..Elements::default() };
        let len = extension::write(self.config.extensions, &elements, &mut body);
        let mut packet = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .marker_bit(info.marker)
            .payload_type(self.config.payload_type)
            .sequence_number(info.sequence)
            .timestamp(info.timestamp)
            .ssrc(self.ssrc);
        if len > 0 {
            packet = packet.extension(ONE_BYTE_PROFILE, &body[..len]);
        }
        packet.write_into(buf).expect("the buffer holds the longest header and a sample frame")
    }

    fn advance(&mut self, info: PacketInfo) {
        self.sequence = self.sequence.wrapping_add(1);
        self.position += info.frames as u64;
        self.marker = false;
        self.packets += 1;
        self.announced += 1;
        self.octets += info.payload as u64;
    }
}

/// The first packets carry the format, so that the loss of a few does not delay the start…
const ANNOUNCE_FIRST: u64 = 32;
/// …and one in this many afterwards, for late joiners: 85 ms at 256 sample frames and 48 kHz, 0.4 bytes each.
const ANNOUNCE_EVERY: u64 = 16;

#[cfg(test)]
mod tests;
