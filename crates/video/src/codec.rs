//! The codecs whose pictures are carried.

use std::fmt;

/// How the pictures of a stream are compressed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Codec {
    /// H.264 (ITU-T H.264), in RTP by RFC 6184.
    H264,
    /// VP8 (RFC 6386), in RTP by RFC 7741.
    Vp8,
    /// VP9, in RTP by RFC 9628.
    Vp9,
    /// AV1, in RTP by the Alliance's "RTP Payload Format For AV1", version 1.0.
    Av1,
    /// Motion JPEG: every picture is a baseline JPEG, in RTP by RFC 2435.
    Mjpeg,
}

impl Codec {
    /// All of them.
    pub const ALL: [Codec; 5] = [Codec::H264, Codec::Vp8, Codec::Vp9, Codec::Av1, Codec::Mjpeg];

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Codec::H264 => "H.264",
            Codec::Vp8 => "VP8",
            Codec::Vp9 => "VP9",
            Codec::Av1 => "AV1",
            Codec::Mjpeg => "MJPEG",
        }
    }

    /// The name in an `rtpmap` (RFC 6184 §8.2.1, RFC 7741 §6.2.1, RFC 9628 §7.1, AV1 RTP §7.2, RFC 3551 §6).
    pub fn encoding_name(self) -> &'static str {
        match self {
            Codec::H264 => "H264",
            Codec::Vp8 => "VP8",
            Codec::Vp9 => "VP9",
            Codec::Av1 => "AV1",
            Codec::Mjpeg => "JPEG",
        }
    }

    /// The static payload type of RFC 3551 §6, if the codec has one.
    pub fn static_payload_type(self) -> Option<u8> {
        (self == Codec::Mjpeg).then_some(26)
    }

    /// The codec with that name in an `rtpmap`.
    pub fn from_encoding_name(name: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.encoding_name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Time stamps of video in RTP have this rate, whatever the codec (RFC 3551 §5).
pub const CLOCK_RATE: u32 = 90_000;
