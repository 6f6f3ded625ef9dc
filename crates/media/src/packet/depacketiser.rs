//! Reads RTP packets, which may be hostile, into unwrapped numbers and borrowed sound.

use antiphon_core::{NtpTime, Unwrapper};
use rtp_types::{RtpPacket, RtpParseError};

use super::extension::{self, ONE_BYTE_PROFILE};
use super::{ExtensionIds, InBandFormat, InBandGroup, InBandVideo, Marking};
use crate::{ChannelGroups, Coding, StreamFormat, codec};

/// Why bytes are not an RTP packet, or not one of this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtpError {
    /// Fewer bytes than its own header says.
    #[error("an RTP packet of {actual} bytes is cut off: its header announces {expected}")]
    Truncated {
        /// Bytes needed.
        expected: usize,
        /// Bytes received.
        actual: usize,
    },
    /// Not version 2.
    #[error("unsupported RTP version {version}: the sender must use version 2")]
    Version {
        /// The version in the packet.
        version: u8,
    },
    /// More padding than packet, or zero padding.
    #[error("invalid RTP padding of {padding} bytes")]
    Padding {
        /// The padding in the packet.
        padding: u8,
    },
    /// Not a packet of Opus.
    #[error("{len} bytes of payload are no packet of Opus: check the format, or give the sender's SDP")]
    NotOpus {
        /// Bytes of payload.
        len: usize,
    },
    /// The sound is not a whole number of sample frames: another format than agreed.
    #[error(
        "{len} bytes of sound are not a whole number of sample frames of {frame} bytes: \
             check sample format and channels, or give the sender's SDP"
    )]
    NotWholeFrames {
        /// Bytes of payload.
        len: usize,
        /// Bytes of one sample frame in the agreed format.
        frame: usize,
    },
}

/// An RTP packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RtpView<'a> {
    /// Synchronisation source.
    pub ssrc: u32,
    /// Sequence number.
    pub sequence: u16,
    /// Time stamp, in sample frames for every format that Antiphon carries.
    pub timestamp: u32,
    /// 0 to 127.
    pub payload_type: u8,
    /// First packet after silence.
    pub marker: bool,
    /// The sender's clock, if the packet carries it.
    pub ntp: Option<NtpTime>,
    /// The format, if the packet carries it in band.
    pub format: Option<InBandFormat>,
    /// The packet's channel group, if the packet carries it in band.
    pub group: Option<InBandGroup>,
    /// What it carries of a picture, if it does.
    pub video: Option<InBandVideo>,
    /// Marks of the video frame that it is of.
    pub marking: Option<Marking>,
    /// The sound, without padding.
    pub payload: &'a [u8],
}

/// Reads an RTP packet; looks for header extension elements under `ids`.
pub fn parse_rtp(bytes: &[u8], ids: ExtensionIds) -> Result<RtpView<'_>, RtpError> {
    let packet = RtpPacket::parse(bytes).map_err(|error| match error {
        RtpParseError::Truncated { expected, actual } => RtpError::Truncated { expected, actual },
        RtpParseError::UnsupportedVersion(version) => RtpError::Version { version },
        RtpParseError::PaddingInvalid(padding) => RtpError::Padding { padding },
    })?;
    let found = match packet.extension() {
        Some((ONE_BYTE_PROFILE, body)) => extension::read(ids, body),
        _ => extension::Elements::default(),
    };
    let start = packet.payload_offset();
    Ok(RtpView {
        ssrc: packet.ssrc(),
        sequence: packet.sequence_number(),
        timestamp: packet.timestamp(),
        payload_type: packet.payload_type(),
        marker: packet.marker_bit(),
        ntp: found.ntp,
        format: found.format,
        group: found.group,
        video: found.video,
        marking: found.marking,
        payload: &bytes[start..start + packet.payload_len()],
    })
}

/// A packet of a known stream: numbers that do not wrap, sound of whole sample frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaPacket<'a> {
    /// Unwrapped sequence number.
    pub sequence: u64,
    /// Unwrapped time stamp of its first sample frame, in sample frames.
    pub timestamp: u64,
    /// Sample frames in it, at least one, without those of [`Self::lead`].
    pub frames: usize,
    /// Sample frames before the first one that are decoded and not played: what a decoder gives before the stream begins.
    pub lead: usize,
    /// How they are stored.
    pub coding: Coding,
    /// Samples per sample frame.
    pub channels: usize,
    /// Whether error correction or retransmission brought it back.
    pub recovered: bool,
    /// The sound.
    pub payload: &'a [u8],
}

impl MediaPacket<'_> {
    /// Unwrapped time stamp of the packet itself, which tells how long it was on its way.
    pub fn stamp(&self) -> u64 {
        self.timestamp.saturating_sub(self.lead as u64)
    }

    /// Of PCM: decodes into `out` (whole sample frames) from sample frame `skip` on; returns the sample frames written.
    pub fn decode(&self, skip: usize, out: &mut [f32]) -> usize {
        let Coding::Pcm(sample) = self.coding else { return 0 };
        let frame = sample.bytes() * self.channels;
        let rest = self.payload.get(skip * frame..).unwrap_or_default();
        codec::decode(sample, rest, out) / self.channels
    }
}

/// Unwraps the numbers of one sender: sequence numbers per channel group, time stamps for all groups together, so that
/// a group that was silent during a wrap stays aligned with the others.
///
/// Numbers more than half a cycle from the last count as a step the other way: a `SourceTracker` before it filters out
/// such jumps, and a new stream gets a new depacketiser.
#[derive(Clone, Debug)]
pub struct Depacketiser {
    format: StreamFormat,
    coding: Coding,
    groups: Vec<Group>,
    timestamp: Unwrapper<32>,
}

#[derive(Clone, Debug)]
struct Group {
    channels: usize,
    sequence: Unwrapper<16>,
    /// The lowest number so far.
    first: Option<u64>,
}

impl Depacketiser {
    /// For an undivided stream of that format.
    pub fn new(format: StreamFormat, coding: impl Into<Coding>) -> Self {
        Self::grouped(format, coding, ChannelGroups::whole(format.channels()))
    }

    /// For a stream whose channels are divided into `groups`.
    pub fn grouped(format: StreamFormat, coding: impl Into<Coding>, groups: ChannelGroups) -> Self {
        let group = |range: std::ops::Range<usize>| Group {
            channels: range.len(),
            sequence: Unwrapper::default(),
            first: None,
        };
        Depacketiser {
            format,
            coding: coding.into(),
            groups: groups.ranges().map(group).collect(),
            timestamp: Unwrapper::default(),
        }
    }

    /// Rate and channels of all groups together.
    pub fn format(&self) -> StreamFormat {
        self.format
    }

    /// How packets hold the sound.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// [`Self::accept_in`] the first group.
    pub fn accept<'a>(&mut self, view: &RtpView<'a>) -> Result<MediaPacket<'a>, RtpError> {
        self.accept_in(0, view)
    }

    /// Refuses a packet whose sound is not whole sample frames of `group`; otherwise unwraps its numbers.
    ///
    /// Panics if the stream has no such group.
    pub fn accept_in<'a>(&mut self, group: usize, view: &RtpView<'a>) -> Result<MediaPacket<'a>, RtpError> {
        let Group { channels, sequence, first } = &mut self.groups[group];
        let len = view.payload.len();
        let Some(frames) = self.coding.frames(view.payload, *channels) else {
            return Err(match self.coding {
                Coding::Pcm(sample) => RtpError::NotWholeFrames { len, frame: sample.bytes() * *channels },
                Coding::Opus => RtpError::NotOpus { len },
            });
        };
        let sequence = sequence.extend(u64::from(view.sequence));
        let is_first = first.is_none_or(|first| sequence <= first);
        *first = first.or(Some(sequence)).map(|first| first.min(sequence));
        // A stream of ours, as it says of itself, begins so much before its sound.
        let begins = is_first && view.marker && view.format.is_some();
        let lead = if begins { self.coding.look_ahead().min(frames - 1) } else { 0 };
        Ok(MediaPacket {
            sequence,
            timestamp: self.timestamp.extend(u64::from(view.timestamp)) + lead as u64,
            frames: frames - lead,
            lead,
            coding: self.coding,
            channels: *channels,
            recovered: false,
            payload: view.payload,
        })
    }

    /// Forgets the numbers; for a sender that restarted.
    pub fn restart(&mut self) {
        (0..self.groups.len()).for_each(|group| self.restart_group(group));
        self.timestamp = Unwrapper::default();
    }

    /// So many packets of one group did not come, more than its sequence numbers alone show.
    ///
    /// Panics if the stream has no such group.
    pub fn skip_packets(&mut self, group: usize, packets: u64) {
        self.groups[group].sequence.skip(packets);
    }

    /// Forgets the sequence numbers of one group; for a group that restarted on the clock of the others.
    pub fn restart_group(&mut self, group: usize) {
        let group = &mut self.groups[group];
        (group.sequence, group.first) = (Unwrapper::default(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PacketKind, classify, static_format, static_payload_type};
    use super::*;
    use crate::SampleFormat;
    use proptest::prelude::*;

    /// The packet of the fact sheet, checked with an analyser: RFC 6051's 64-bit clock under identifier 1.
    const CLOCKED: [u8; 28] = [
        0x90, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0xa0, 0x11, 0x22, 0x33, 0x44, 0xbe, 0xde, 0x00, 0x03, 0x17,
        0xe5, 0xa1, 0xb2, 0xc3, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    ];

    #[test]
    fn reads_the_checked_vector() {
        let view = parse_rtp(&CLOCKED, ExtensionIds::default()).unwrap();
        assert_eq!((view.ssrc, view.sequence, view.timestamp), (0x1122_3344, 1, 160));
        assert_eq!(view.ntp, Some(NtpTime::from_bits(0xe5a1_b2c3_8000_0000)));
        assert!(view.payload.is_empty());
    }

    #[test]
    fn errors_are_typed() {
        let ids = ExtensionIds::default();
        for len in 0..CLOCKED.len() {
            assert!(matches!(parse_rtp(&CLOCKED[..len], ids), Err(RtpError::Truncated { .. })));
        }
        let mut bytes = CLOCKED;
        bytes[0] = 0x50;
        assert_eq!(parse_rtp(&bytes, ids), Err(RtpError::Version { version: 1 }));
        bytes[0] = 0xb0;
        assert!(parse_rtp(&bytes, ids).is_err(), "padding without padding");
        let mut depacketiser = Depacketiser::new(StreamFormat::new(48_000, 2).unwrap(), SampleFormat::L16);
        let view = RtpView { payload: &[0; 6], ..parse_rtp(&CLOCKED, ids).unwrap() };
        let error = depacketiser.accept(&view).unwrap_err();
        assert_eq!(error, RtpError::NotWholeFrames { len: 6, frame: 4 });
        assert!(error.to_string().contains("SDP"));
    }

    #[test]
    fn rtcp_is_distinguished_from_rtp() {
        assert_eq!(classify(&[0x80, 200]), Some(PacketKind::Rtcp));
        assert_eq!(classify(&[0x81, 205]), Some(PacketKind::Rtcp));
        assert_eq!(classify(&[0x80, 96]), Some(PacketKind::Rtp));
        assert_eq!(classify(&[0x80, 0x80 | 96]), Some(PacketKind::Rtp));
        assert_eq!(classify(&[0x40, 200]), None);
        assert_eq!(classify(&[0x80]), None);
    }

    #[test]
    fn static_types_agree_both_ways() {
        let known: Vec<u8> = (0..128).filter(|pt| static_format(*pt).is_some()).collect();
        assert_eq!(known, [0, 8, 10, 11]);
        for pt in known {
            let (sample, format) = static_format(pt).unwrap();
            assert_eq!(static_payload_type(sample, format), Some(pt));
        }
        let opus = StreamFormat::new(48_000, 2).unwrap();
        assert_eq!(static_payload_type(Coding::Opus, opus), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), version in any::<bool>()) {
            if let (true, Some(first)) = (version, bytes.first_mut()) {
                *first = (*first & 0x3f) | 0x80;
            }
            let _ = classify(&bytes);
            if let Ok(view) = parse_rtp(&bytes, ExtensionIds::default()) {
                prop_assert!(view.payload.len() <= bytes.len() - 12);
                let mut depacketiser = Depacketiser::new(StreamFormat::new(8_000, 1).unwrap(), SampleFormat::L24);
                if let Ok(packet) = depacketiser.accept(&view) {
                    prop_assert_eq!(packet.frames * 3, view.payload.len());
                }
            }
        }
    }
}
