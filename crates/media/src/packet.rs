//! RTP packets: blocks of sound into packets, and packets, from any sender, back into blocks.

mod config;
mod data;
mod depacketiser;
mod extension;
mod marking;
mod packetiser;
mod returned;
mod video;

pub use config::{PacketConfig, PacketError, RTP_HEADER, frames_together};
pub use data::{DATA, DATA_HEADER, DataPlace, DataStream, MOST_DATA, parse_data};
pub use depacketiser::{Depacketiser, MediaPacket, RtpError, RtpView, parse_rtp};
pub use extension::{EncodingName, ExtensionIds, InBandFormat, InBandGroup, InBandVideo};
pub use marking::Marking;
pub use packetiser::{PacketInfo, Packetiser};
pub use returned::{mark_returned, unmark_returned};
pub use video::{VIDEO_CLOCK, VIDEO_HEADER, VideoStream, renumber, restore};

use antiphon_core::wire::{UDP_IPV4_HEADERS, UDP_IPV6_HEADERS};

use crate::{Coding, SampleFormat, StreamFormat};

/// The kind of a datagram on a port shared by RTP and RTCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketKind {
    /// Media.
    Rtp,
    /// Control.
    Rtcp,
}

/// Distinguishes RTP and RTCP by the second byte (RFC 5761 §4): RTCP packet types 192 to 223 are RTP payload types 64
/// to 95 with the marker set, which may not be used beside RTCP. `None` for neither: the version is not 2.
pub fn classify(bytes: &[u8]) -> Option<PacketKind> {
    match bytes {
        [first, second, ..] if first >> 6 == 2 => Some(match second {
            192..=223 => PacketKind::Rtcp,
            _ => PacketKind::Rtp,
        }),
        _ => None,
    }
}

/// The static payload type of RFC 3551 §6 that describes such a stream completely: 0, 8, 10 or 11.
pub fn static_payload_type(coding: impl Into<Coding>, format: StreamFormat) -> Option<u8> {
    let Coding::Pcm(sample) = coding.into() else { return None };
    match (sample, format.rate(), format.channels()) {
        (SampleFormat::MuLaw, 8_000, 1) => Some(0),
        (SampleFormat::ALaw, 8_000, 1) => Some(8),
        (SampleFormat::L16, 44_100, 2) => Some(10),
        (SampleFormat::L16, 44_100, 1) => Some(11),
        _ => None,
    }
}

/// The format of a static payload type of RFC 3551 §6, if Antiphon decodes it.
pub fn static_format(payload_type: u8) -> Option<(SampleFormat, StreamFormat)> {
    let (sample, rate, channels) = match payload_type {
        0 => (SampleFormat::MuLaw, 8_000, 1),
        8 => (SampleFormat::ALaw, 8_000, 1),
        10 => (SampleFormat::L16, 44_100, 2),
        11 => (SampleFormat::L16, 44_100, 1),
        _ => return None,
    };
    Some((sample, StreamFormat::new(rate, channels).ok()?))
}

/// The first payload type that RFC 3551 §6 leaves to negotiation; used where no static one fits.
pub const DYNAMIC_PAYLOAD_TYPE: u8 = 96;

/// Bytes of RTP that one datagram of a path with this MTU carries: the MTU less IP (20 or 40) and UDP (8).
pub const fn max_packet_for_mtu(mtu: usize, ipv6: bool) -> usize {
    mtu.saturating_sub(if ipv6 { UDP_IPV6_HEADERS } else { UDP_IPV4_HEADERS })
}
