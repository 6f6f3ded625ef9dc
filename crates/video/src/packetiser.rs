//! Frames into RTP packets.

use antiphon_core::wire::ETHERNET_MTU;
use antiphon_core::{MediaTime, Rng};
use antiphon_media::packet::{DYNAMIC_PAYLOAD_TYPE, RTP_HEADER, max_packet_for_mtu};
use rtp_types::RtpPacketBuilder;

use crate::codec::Codec;
use crate::frame::{Frame, MAX_FRAME};
use crate::marking::{MARKING_ID, Marking, extension, marks};
use crate::payload::{Cutter, MIN_PAYLOAD, Payloads};

/// How a stream's frames are cut into packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VideoPacketConfig {
    /// How the pictures are compressed.
    pub codec: Codec,
    /// 0 to 127.
    pub payload_type: u8,
    /// Bytes of the longest packet with its RTP header; see [`max_packet_for_mtu`].
    pub max_packet: usize,
    /// Under which identifier frames are marked ([`Marking`]), 1 to 14; `None` to leave the marks out.
    pub marking: Option<u8>,
}

impl VideoPacketConfig {
    /// Packets for an Ethernet with IPv6, with marks.
    pub fn new(codec: Codec) -> Self {
        VideoPacketConfig {
            codec,
            payload_type: codec.static_payload_type().unwrap_or(DYNAMIC_PAYLOAD_TYPE),
            max_packet: max_packet_for_mtu(ETHERNET_MTU, true),
            marking: Some(MARKING_ID),
        }
    }

    /// Bytes before the payload.
    fn header(&self) -> usize {
        RTP_HEADER + if self.marking.is_some() { EXTENSION } else { 0 }
    }

    fn check(&self) -> Result<(), VideoPacketError> {
        // 64 to 95 with the marker would look like RTCP (RFC 5761 §4).
        if self.payload_type > 127 || (64..=95).contains(&self.payload_type) {
            return Err(VideoPacketError::PayloadType { payload_type: self.payload_type });
        }
        if self.marking.is_some_and(|id| !(1..=14).contains(&id)) {
            return Err(VideoPacketError::Marking);
        }
        let needed = self.header() + MIN_PAYLOAD;
        if self.max_packet < needed {
            return Err(VideoPacketError::Narrow { needed, max_packet: self.max_packet });
        }
        Ok(())
    }
}

/// Why frames cannot be packetised that way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VideoPacketError {
    /// Above 127, or in the range that looks like RTCP.
    #[error("payload type {payload_type} cannot be used: use 96 to 127")]
    PayloadType {
        /// The requested value.
        payload_type: u8,
    },
    /// Not 1 to 14.
    #[error("the header extension identifier of frame marks must be 1 to 14")]
    Marking,
    /// The path carries too little.
    #[error("video needs packets of {needed} bytes, but packets may have {max_packet}: use a larger MTU")]
    Narrow {
        /// Bytes that a packet must be able to have.
        needed: usize,
        /// The limit in bytes.
        max_packet: usize,
    },
    /// Of another stream.
    #[error("a frame of {frame} does not belong to a stream of {stream}")]
    OtherCodec {
        /// The frame's.
        frame: Codec,
        /// The stream's.
        stream: Codec,
    },
    /// Longer than any real frame.
    #[error("a video frame of {len} bytes is too long: at most {MAX_FRAME} are sent")]
    TooLong {
        /// Its bytes.
        len: usize,
    },
    /// Not in the form of [`Frame`].
    #[error("a frame of {len} bytes is no picture of {codec}: it is damaged, and is left out")]
    Damaged {
        /// What it should be.
        codec: Codec,
        /// Its bytes.
        len: usize,
    },
}

/// Fields of the header of a packet just made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VideoPacketInfo {
    /// RTP sequence number.
    pub sequence: u16,
    /// RTP time stamp of the frame.
    pub timestamp: u32,
    /// The frame's first packet.
    pub first: bool,
    /// The frame's last packet.
    pub marker: bool,
}

/// Cuts the frames of one stream into packets. Memory is used again from frame to frame.
#[derive(Debug)]
pub struct VideoPacketiser {
    config: VideoPacketConfig,
    cutter: Cutter,
    payloads: Payloads,
    ssrc: u32,
    sequence: u16,
    timestamp_offset: u32,
    base_pictures: u8,
    packets: u64,
    octets: u64,
}

impl VideoPacketiser {
    /// Sequence number, time stamp and SSRC start at random values drawn from `seed` (RFC 3550 §5.1, §8.1).
    pub fn new(config: VideoPacketConfig, seed: u64) -> Result<Self, VideoPacketError> {
        config.check()?;
        let mut rng = Rng::fork(seed, "video packetiser");
        Ok(VideoPacketiser {
            cutter: Cutter::new(config.codec, rng.next_u32() as u16),
            payloads: Payloads::default(),
            config,
            ssrc: rng.next_u32(),
            sequence: rng.next_u32() as u16,
            timestamp_offset: rng.next_u32(),
            base_pictures: 0,
            packets: 0,
            octets: 0,
        })
    }

    /// The stream's synchronisation source.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Packets and bytes of payload so far, as sender reports tell them (RFC 3550 §6.4.1).
    pub fn counters(&self) -> (u64, u64) {
        (self.packets, self.octets)
    }

    /// The RTP time stamp of a media time of this stream.
    pub fn timestamp(&self, time: MediaTime) -> u32 {
        let ticks = u128::from(time.frames) * u128::from(crate::CLOCK_RATE) / u128::from(time.rate.max(1));
        self.timestamp_offset.wrapping_add(ticks as u32)
    }

    /// Packets that may be longer or shorter from the next frame on, as the path allows.
    pub fn set_max_packet(&mut self, max_packet: usize) -> Result<(), VideoPacketError> {
        let config = VideoPacketConfig { max_packet, ..self.config };
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// Makes the packets of a frame, each in `buf`, and lends each to `each`; returns their number.
    ///
    /// `buf` holds at least `max_packet` bytes.
    pub fn packetise(
        &mut self,
        frame: &Frame,
        buf: &mut [u8],
        mut each: impl FnMut(VideoPacketInfo, &[u8]),
    ) -> Result<usize, VideoPacketError> {
        let (codec, len) = (frame.codec, frame.data.len());
        if codec != self.config.codec {
            return Err(VideoPacketError::OtherCodec { frame: codec, stream: self.config.codec });
        }
        if len > MAX_FRAME {
            return Err(VideoPacketError::TooLong { len });
        }
        let most = self.config.max_packet - self.config.header();
        let cut = self.cutter.cut(frame, most, &mut self.payloads);
        cut.ok_or(VideoPacketError::Damaged { codec, len })?;
        if frame.picture.temporal_layer == 0 {
            self.base_pictures = self.base_pictures.wrapping_add(1);
        }
        let (count, timestamp) = (self.payloads.len(), self.timestamp(frame.time));
        for (n, payload) in self.payloads.iter().enumerate() {
            let (first, marker) = (n == 0, n + 1 == count);
            let info = VideoPacketInfo { sequence: self.sequence, timestamp, first, marker };
            let marking = marks(&frame.picture, first, marker, self.base_pictures);
            let written = self.write(info, marking, payload, buf);
            each(info, &buf[..written]);
            self.sequence = self.sequence.wrapping_add(1);
            self.packets += 1;
            self.octets += payload.len() as u64;
        }
        Ok(count)
    }

    fn write(&self, info: VideoPacketInfo, marking: Marking, payload: &[u8], buf: &mut [u8]) -> usize {
        let element;
        let mut packet = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(self.config.payload_type)
            .sequence_number(info.sequence)
            .timestamp(info.timestamp)
            .ssrc(self.ssrc)
            .marker_bit(info.marker)
            .payload(payload);
        if let Some(id) = self.config.marking {
            element = extension(marking, id);
            packet = packet.extension(ONE_BYTE_PROFILE, &element[..]);
        }
        packet
            .write_into(buf)
            .expect("the buffer holds the longest packet, and the extension is a whole word")
    }
}

/// The profile of header extensions with one-byte headers (RFC 8285 §4.2).
const ONE_BYTE_PROFILE: u16 = 0xbede;
/// Bytes of the header extension with the marks.
const EXTENSION: usize = 8;
