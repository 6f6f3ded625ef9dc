//! How a stream is cut into packets, and what cannot be.

use std::ops::RangeInclusive;
use std::time::Duration;

use antiphon_core::BitRate;
use antiphon_core::wire::ETHERNET_MTU;

use super::{DYNAMIC_PAYLOAD_TYPE, ExtensionIds, static_payload_type};
use crate::{ChannelGroups, Coding, FormatError, StreamFormat, opus};

/// How a stream is cut into packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// Rate and channels.
    pub format: StreamFormat,
    /// How packets hold the sound.
    pub coding: Coding,
    /// Sample frames in a full block, 16 to 4096; of Opus one of [`opus::PACKET_FRAMES`].
    pub block_frames: u32,
    /// Of Opus: bits of all channels in a second; `None` for what each stream usually has.
    pub bit_rate: Option<u32>,
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
    pub fn new(format: StreamFormat, coding: impl Into<Coding>, block_frames: u32) -> Self {
        let coding = coding.into();
        PacketConfig {
            format,
            coding,
            block_frames,
            bit_rate: None,
            payload_type: static_payload_type(coding, format).unwrap_or(DYNAMIC_PAYLOAD_TYPE),
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
    /// a block is as many full packets as have sixteen, or the requested one if that is shorter. Two packets of 8 where 11 would fit
    /// cost the kernel a third more of them.
    pub fn one_packet_block(&self, groups: ChannelGroups) -> Result<u32, PacketError> {
        self.check()?;
        let mut block = self.block_frames;
        for range in groups.ranges() {
            let most = self.of_group(range.len(), groups)?.most_frames()?;
            block = block.min(u32::try_from(most).unwrap_or(block));
        }
        let shortest = *BLOCKS.start();
        Ok((block * shortest.div_ceil(block)).min(self.block_frames).max(shortest))
    }

    /// How many blocks of `block` sample frames, the one that is pulled instead of the requested one, leave together where a live source
    /// gives several at once: 1 unless many channels make them so short that a thread would wake thousands of times a second. Who asks
    /// for a packet's duration gets such packets one by one.
    pub fn blocks_together(&self, block: u32) -> u32 {
        let frames = frames_together(self.format.rate(), self.block_frames);
        if self.ptime.is_some() { 1 } else { (frames / block.max(1)).max(1) }
    }

    /// Bits of sound in a second, without headers: of Opus what it keeps to over some packets.
    pub fn bandwidth(&self) -> u32 {
        match self.coding {
            Coding::Pcm(sample) => (sample.bytes() * 8 * self.format.channels()) as u32 * self.format.rate(),
            Coding::Opus => self.bit_rate.unwrap_or(opus::usual_bit_rate(self.format.channels())),
        }
    }

    /// Bytes of the longest message that this stream makes.
    pub fn longest(&self) -> Result<usize, PacketError> {
        let frames = self.packet_frames()?;
        let payload = match self.coding {
            Coding::Pcm(sample) => frames * sample.bytes() * self.format.channels(),
            Coding::Opus => opus::most_payload(frames, self.bandwidth()),
        };
        Ok((self.max_header() + payload).min(self.max_packet))
    }

    /// Most sample frames that fit into a packet, whatever the block.
    fn most_frames(&self) -> Result<usize, PacketError> {
        let header = self.max_header();
        let Coding::Pcm(sample) = self.coding else {
            return self.check_opus().map(|()| self.block_frames as usize);
        };
        let frame = sample.bytes() * self.format.channels();
        let fit = self.max_packet.saturating_sub(header) / frame;
        let timed = self.ptime.map_or(usize::MAX, |t| {
            (t.as_nanos() * u128::from(self.format.rate()) / 1_000_000_000).max(1) as usize
        });
        match fit.min(timed) {
            0 => Err(PacketError::Narrow { needed: header + frame, max_packet: self.max_packet }),
            most => Ok(most),
        }
    }

    /// Packets of Opus are made whole: a block is one, or the stream is refused.
    fn check_opus(&self) -> Result<(), PacketError> {
        self.coding.check(self.format)?;
        if !opus::PACKET_FRAMES.contains(&self.block_frames) {
            return Err(PacketError::OpusFrames { frames: self.block_frames });
        }
        let bit_rate = self.bandwidth();
        if !opus::BIT_RATES.contains(&bit_rate) {
            return Err(PacketError::OpusBitRate { bit_rate });
        }
        let needed = self.max_header() + opus::most_payload(self.block_frames as usize, bit_rate);
        // Sudden sound has to do with less than it could use, but the usual must fit.
        let usual = self.max_header() + opus::usual_payload(self.block_frames as usize, bit_rate);
        let bounded = if self.block_frames > opus::USUAL_FRAMES { needed } else { usual };
        if bounded > self.max_packet {
            return Err(PacketError::OpusTooLong { needed: bounded, max_packet: self.max_packet });
        }
        Ok(())
    }

    /// The configuration of one group with `channels` channels of a stream that is divided into `groups`.
    pub(super) fn of_group(
        &self,
        channels: usize,
        groups: ChannelGroups,
    ) -> Result<PacketConfig, PacketError> {
        if groups.count() == 1 {
            return Ok(*self);
        }
        let share = |all: u32| (u64::from(all) * channels as u64 / groups.channels() as u64) as u32;
        Ok(PacketConfig {
            format: StreamFormat::new(self.format.rate(), channels as u32)?,
            bit_rate: self.bit_rate.map(share),
            extensions: ExtensionIds { group: Some(GROUP_ID), ..self.extensions },
            ..*self
        })
    }

    pub(super) fn check(&self) -> Result<(), PacketError> {
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

/// Sample frames at `rate` per second that are handled at once at most where many channels make packets very short, by one who asks for blocks
/// of `block`: as many as last a millisecond, and no more than a quarter of a block.
pub fn frames_together(rate: u32, block: u32) -> u32 {
    let most = TOGETHER.as_micros() as u64 * u64::from(rate) / 1_000_000;
    u32::try_from(most).unwrap_or(u32::MAX).min(block / PARTS)
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
    /// Not one of the durations that Opus has.
    #[error(
        "packets of Opus last 2.5, 5, 10, 20, 40 or 60 ms, not {frames} sample frames at 48 kHz: \
             use a block of 120, 240, 480, 960, 1920 or 2880"
    )]
    OpusFrames {
        /// The requested block.
        frames: u32,
    },
    /// Too few bits for sound, or more than Opus has a use for.
    #[error("a stream of Opus has 16 to 510 kbit/s for one or two channels, not {}: choose a bit rate between", BitRate((*bit_rate).into()))]
    OpusBitRate {
        /// What was requested for one stream, in bits a second.
        bit_rate: u32,
    },
    /// A packet of Opus does not fit into one of the path.
    #[error(
        "a packet of Opus needs {needed} bytes, but packets may have {max_packet}: use a shorter block or a lower bit rate"
    )]
    OpusTooLong {
        /// Bytes of a packet.
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

/// Limits of a block in sample frames. Fewer make more header than sound; 4096 are 85 ms at 48 kHz.
const BLOCKS: RangeInclusive<u32> = 16..=4096;
/// The third of [`ExtensionIds::default`].
const GROUP_ID: u8 = 3;
/// Bytes of RTP's fixed header (RFC 3550 §5.1).
pub const RTP_HEADER: usize = 12;

/// How long what is handled at once lasts at most: to a receiver this is jitter, and its delays are of several milliseconds.
const TOGETHER: Duration = Duration::from_millis(1);
/// Of a requested block, one part in this many is handled at once at most: who asks for short blocks has short delays.
const PARTS: u32 = 4;
