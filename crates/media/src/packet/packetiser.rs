//! Blocks of sound into RTP packets (RFC 3550 §5.1, RFC 3551 §4).

use std::ops::RangeInclusive;
use std::time::Duration;

use antiphon_core::wire::ETHERNET_MTU;
use antiphon_core::{MediaTime, NtpTime, Rng};
use rtp_types::RtpPacketBuilder;

use super::extension::{self, Elements, MAX_BODY, ONE_BYTE_PROFILE};
use super::{DYNAMIC_PAYLOAD_TYPE, ExtensionIds, InBandFormat, InBandGroup, static_payload_type};
use crate::{ChannelGroups, FormatError, SampleFormat, StreamFormat, codec};

/// How a stream is cut into packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// Rate and channels.
    pub format: StreamFormat,
    /// How samples are stored.
    pub sample: SampleFormat,
    /// Sample frames in a full block, 16 to 4096.
    pub block_frames: u32,
    /// 0 to 127.
    pub payload_type: u8,
    /// Upper limit of a packet's length, in bytes of RTP; see [`super::max_packet_for_mtu`]. More than the path carries
    /// in one datagram causes IP fragmentation.
    pub max_packet: usize,
    /// Upper limit of a packet's duration (SDP's `ptime`); never longer than a block, since waiting for another block
    /// would add delay: for longer packets, use longer blocks.
    pub ptime: Option<Duration>,
    /// Header extension elements to write.
    pub extensions: ExtensionIds,
}

impl PacketConfig {
    /// Uses the static payload type that fits, or 96; packets for an Ethernet with IPv6; clock and format in band.
    pub fn new(format: StreamFormat, sample: SampleFormat, block_frames: u32) -> Self {
        PacketConfig {
            format,
            sample,
            block_frames,
            payload_type: static_payload_type(sample, format).unwrap_or(DYNAMIC_PAYLOAD_TYPE),
            max_packet: super::max_packet_for_mtu(ETHERNET_MTU, true),
            ptime: None,
            extensions: ExtensionIds::UNDIVIDED,
        }
    }

    /// Bytes in front of the sound in the longest header that this stream writes.
    pub fn max_header(&self) -> usize {
        RTP_HEADER + self.extensions.max_len()
    }

    /// Sample frames in a full packet: a block is split evenly into as few packets as the limits allow.
    pub fn packet_frames(&self) -> Result<usize, PacketError> {
        let block = self.block_frames as usize;
        Ok(block.div_ceil(block.div_ceil(self.most_frames()?)))
    }

    /// The block to pull, in sample frames, at most [`Self::block_frames`], such that each block is one packet in every
    /// one of `groups`.
    ///
    /// Packets of one block leave together, though only the last of them is due: split blocks make bursts, delay a
    /// packet by a block's time, and make receivers with a few milliseconds of buffer run dry. Pull this block instead
    /// of the requested one. Sixteen sample frames are the shortest block: where not even those fit into one packet,
    /// blocks of sixteen are split.
    pub fn one_packet_block(&self, groups: ChannelGroups) -> Result<u32, PacketError> {
        self.check()?;
        let mut block = self.block_frames;
        for range in groups.ranges() {
            let most = self.of_group(range.len(), groups)?.most_frames()?;
            block = block.min(u32::try_from(most).unwrap_or(block));
        }
        Ok(block.max(*BLOCKS.start()))
    }

    /// Most sample frames that fit into a packet, whatever the block.
    fn most_frames(&self) -> Result<usize, PacketError> {
        let frame = self.sample.bytes() * self.format.channels();
        let header = self.max_header();
        let fit = self.max_packet.saturating_sub(header) / frame;
        let timed = self.ptime.map_or(usize::MAX, |t| {
            (t.as_nanos() * u128::from(self.format.rate()) / 1_000_000_000).max(1) as usize
        });
        match fit.min(timed) {
            0 => Err(PacketError::Narrow { needed: header + frame, max_packet: self.max_packet }),
            most => Ok(most),
        }
    }

    /// The configuration of one group with `channels` channels of a stream that is divided into `groups`.
    fn of_group(&self, channels: usize, groups: ChannelGroups) -> Result<PacketConfig, PacketError> {
        if groups.count() == 1 {
            return Ok(*self);
        }
        Ok(PacketConfig {
            format: StreamFormat::new(self.format.rate(), channels as u32)?,
            extensions: ExtensionIds { group: Some(GROUP_ID), ..self.extensions },
            ..*self
        })
    }

    fn check(&self) -> Result<(), PacketError> {
        if !BLOCKS.contains(&self.block_frames) {
            return Err(FormatError::Block { frames: self.block_frames }.into());
        }
        // 64 to 95 with the marker would look like RTCP (RFC 5761 §4).
        if self.payload_type > 127 || (64..=95).contains(&self.payload_type) {
            return Err(PacketError::PayloadType { payload_type: self.payload_type });
        }
        if !self.extensions.are_valid() {
            return Err(PacketError::Extensions);
        }
        Ok(())
    }
}

/// Why a stream cannot be packetised that way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The block is out of range.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Not one sample frame fits.
    #[error(
        "one sample frame needs a packet of {needed} bytes, but packets may have {max_packet}: \
             use fewer channels, a smaller sample format or a larger MTU"
    )]
    Narrow {
        /// Bytes of a packet with one sample frame.
        needed: usize,
        /// The limit in bytes.
        max_packet: usize,
    },
    /// Above 127, or in the range that looks like RTCP.
    #[error("payload type {payload_type} cannot be used: use 96 to 127")]
    PayloadType {
        /// The requested value.
        payload_type: u8,
    },
    /// Not 1 to 14, or the same twice.
    #[error("header extension identifiers must be different and 1 to 14")]
    Extensions,
}

/// Fields of the header of a packet just made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketInfo {
    /// RTP sequence number.
    pub sequence: u16,
    /// RTP time stamp of its first sample frame.
    pub timestamp: u32,
    /// The same since the stream began, without the random offset.
    pub media: MediaTime,
    /// Sample frames in it.
    pub frames: usize,
    /// First after the start or a pause.
    pub marker: bool,
}

/// Splits blocks into packets. One per stream; allocates nothing.
#[derive(Clone, Debug)]
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
    group: Option<InBandGroup>,
}

impl Packetiser {
    /// Sequence number, time stamp and SSRC start at random values drawn from `seed` (RFC 3550 §5.1, §8.1).
    pub fn new(config: PacketConfig, seed: u64) -> Result<Self, PacketError> {
        config.check()?;
        let mut rng = Rng::fork(seed, "packetiser");
        Ok(Packetiser {
            packet_frames: config.packet_frames()?,
            config,
            ssrc: rng.next_u32(),
            sequence: rng.next_u32() as u16,
            timestamp_offset: rng.next_u32(),
            position: 0,
            marker: true,
            packets: 0,
            octets: 0,
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
        let first = Self::new(config, seed)?;
        if groups.count() == 1 {
            return Ok(vec![first]);
        }
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
        let room = buf.len().saturating_sub(self.config.max_header());
        let frames = self.packet_frames.min(room / (channels * self.config.sample.bytes()));
        if frames == 0 {
            // A buffer without room for a single sample frame: media time advances without a packet.
            return self.skip((block.len() / channels) as u64);
        }
        for part in block.chunks(frames * channels) {
            let info = PacketInfo {
                sequence: self.sequence,
                timestamp: self.timestamp_at(self.position),
                media: MediaTime::new(self.position, self.config.format.rate()),
                frames: part.len() / channels,
                marker: self.marker,
            };
            let header = self.write_header(info, ntp, buf);
            let payload = codec::encode(self.config.sample, part, &mut buf[header..]);
            self.advance(info, payload);
            each(info, &buf[..header + payload]);
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
        (self.packets, self.octets) = (0, 0);
        if let Some(group) = &mut self.group {
            group.sender = sender;
        }
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
        let in_band = (self.packets < ANNOUNCE_FIRST || self.packets.is_multiple_of(ANNOUNCE_EVERY))
            .then_some(InBandFormat {
                format: self.config.format,
                sample: self.config.sample,
                block_frames: self.config.block_frames as u16,
            });
        let group = self.group.filter(|_| in_band.is_some());
        let mut body = [0; MAX_BODY];
        let elements = Elements { ntp: Some(ntp), format: in_band, group };
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

    fn advance(&mut self, info: PacketInfo, payload: usize) {
        self.sequence = self.sequence.wrapping_add(1);
        self.position += info.frames as u64;
        self.marker = false;
        self.packets += 1;
        self.octets += payload as u64;
    }
}

/// Limits of a block in sample frames. Fewer make more header than sound; 4096 are 85 ms at 48 kHz.
const BLOCKS: RangeInclusive<u32> = 16..=4096;
/// The third of [`ExtensionIds::default`].
const GROUP_ID: u8 = 3;
/// Bytes of RTP's fixed header (RFC 3550 §5.1).
pub const RTP_HEADER: usize = 12;
/// The first packets carry the format, so that the loss of a few does not delay the start…
const ANNOUNCE_FIRST: u64 = 32;
/// …and one in this many afterwards, for late joiners: 85 ms at 256 sample frames and 48 kHz, 0.4 bytes each.
const ANNOUNCE_EVERY: u64 = 16;

#[cfg(test)]
mod tests;
