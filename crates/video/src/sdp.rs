//! Media sections of video in SDP (RFC 8866), written and read: the payload format's name and parameters.

use std::fmt::Write as _;
use std::net::IpAddr;

use antiphon_media::packet::{DYNAMIC_PAYLOAD_TYPE, ExtensionIds};
use antiphon_media::sdp_lines::{MAX_SDP, address_of, is_plain_rtp, one_line, rtpmap};
use antiphon_media::{SdpError, SdpOptions};
use sdp_types::{Connection, Media, MediaType, Origin, Session, Time, TransportProto};

use crate::codec::{CLOCK_RATE, Codec};
use crate::frame::StreamInfo;
use crate::h264;
use crate::marking::Marking;

/// Everything that a receiver must know about a stream of video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoDescription {
    /// How the pictures are compressed.
    pub codec: Codec,
    /// 0 to 127.
    pub payload_type: u8,
    /// Where packets are sent: a group, or the receiver.
    pub address: Option<IpAddr>,
    /// The UDP port they go to.
    pub port: Option<u16>,
    /// Whether RTCP comes on the same port (RFC 5761).
    pub rtcp_mux: bool,
    /// Under which identifier frames are marked (RFC 9626).
    pub marking: Option<u8>,
    /// Under which identifier packets tell the sender's clock (RFC 6051).
    pub ntp: Option<u8>,
    /// Whether key frames can be asked for (RFC 4585, RFC 5104).
    pub feedback: bool,
    /// Parameter sets of H.264, one NAL unit each without start code; else empty.
    pub config: Vec<Vec<u8>>,
}

/// Why a description of video cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VideoSdpError {
    /// As with sound.
    #[error(transparent)]
    Sdp(#[from] SdpError),
    /// No video in it, or none in unencrypted RTP.
    #[error("no unencrypted RTP video in this description: a line 'm=video PORT RTP/AVP TYPE' is needed")]
    NoVideo,
    /// Video, but none that we unpack.
    #[error(
        "none of the offered video formats ({offered}) is supported: the sender must use H264 (packetization-mode 0 or \
             1), VP8, VP9, AV1 or JPEG"
    )]
    Unsupported {
        /// What was offered.
        offered: String,
    },
}

impl VideoDescription {
    /// A stream of that codec, with its usual payload type and no addresses.
    pub fn new(codec: Codec) -> Self {
        VideoDescription {
            codec,
            payload_type: codec.static_payload_type().unwrap_or(DYNAMIC_PAYLOAD_TYPE),
            address: None,
            port: None,
            rtcp_mux: true,
            marking: None,
            ntp: None,
            feedback: false,
            config: Vec::new(),
        }
    }

    /// The same with what a file tells of the stream.
    pub fn of(info: &StreamInfo) -> Self {
        let config = if info.codec == Codec::H264 { info.config.clone() } else { Vec::new() };
        VideoDescription { config, ..Self::new(info.codec) }
    }

    /// What the description tells of the stream.
    pub fn info(&self) -> StreamInfo {
        let size = self
            .config
            .iter()
            .find(|set| h264::kind(set) == h264::nal::SPS)
            .and_then(|set| h264::size_of(set));
        StreamInfo { codec: self.codec, size, config: self.config.clone() }
    }

    /// Writes SDP of this stream alone, which ffmpeg and GStreamer play. Addresses that are not known become "any" and
    /// port 5006.
    pub fn to_sdp(&self, options: &SdpOptions) -> String {
        let origin = Origin::with_ip_addr(options.session_id, 1, options.origin);
        let mut session = Session::new(origin, one_line(&options.name));
        let address = self.address.unwrap_or(match options.origin {
            IpAddr::V4(_) => IpAddr::from([0u8; 4]),
            IpAddr::V6(_) => IpAddr::from([0u16; 8]),
        });
        let ttl = (address.is_multicast() && address.is_ipv4()).then_some(options.ttl);
        session.set_connection(Connection::from_ip_addr_ttl(address, ttl));
        session.add_time(Time::new(0, 0));
        session.add_media(self.media());
        write(&session)
    }

    /// Puts this stream beside the sound of a description, to be played in synchrony with it (`LS`, RFC 5888 §7).
    pub fn add_to(&self, sdp: &str) -> Result<String, VideoSdpError> {
        let mut session = parse(sdp.as_bytes())?;
        let mut names = Vec::new();
        for (n, media) in (1..).zip(session.medias.iter_mut()) {
            let own = media.get_first_attribute_value("mid").flatten().map(str::to_owned);
            let name = own.unwrap_or_else(|| {
                media.add_attribute_with_value("mid", n.to_string());
                n.to_string()
            });
            names.push(name);
        }
        let mut media = self.media();
        let own = format!("video{}", names.len() + 1);
        media.add_attribute_with_value("mid", &own);
        if let Some(address) = self.address {
            // Pictures of a group cross as many routers as its sound.
            let of_sound = session.medias.iter().flat_map(|media| &media.connections);
            let is_same = |one: &&Connection| matches!(address_of(one), Ok(Some(other)) if other == address);
            let same = session.connection.iter().chain(of_sound).find(is_same);
            media.add_connection(same.cloned().unwrap_or(Connection::from_ip_addr_ttl(address, None)));
        }
        names.push(own);
        // One group of all that is played together takes the place of the sound's own.
        session.attributes.retain(|attribute| {
            attribute.attribute != "group"
                || !attribute.value.as_ref().is_some_and(|value| value.starts_with("LS"))
        });
        session.add_attribute_with_value("group", format!("LS {}", names.join(" ")));
        session.add_media(media);
        Ok(write(&session))
    }

    fn media(&self) -> Media {
        let pt = self.payload_type;
        let proto = if self.feedback { TransportProto::RtpAvpf } else { TransportProto::RtpAvp };
        let mut media = Media::new(MediaType::Video, self.port.unwrap_or(5006), proto, pt);
        media.add_attribute_with_value("rtpmap", format!("{pt} {}/{CLOCK_RATE}", self.codec.encoding_name()));
        if let Some(parameters) = self.parameters() {
            media.add_attribute_with_value("fmtp", format!("{pt} {parameters}"));
        }
        if self.feedback {
            for kind in ["nack pli", "ccm fir"] {
                media.add_attribute_with_value("rtcp-fb", format!("{pt} {kind}"));
            }
        }
        media.add_attribute_from_str("recvonly");
        if self.rtcp_mux {
            media.add_attribute_from_str("rtcp-mux");
        }
        for (id, uri) in [(self.ntp, ExtensionIds::NTP_URI), (self.marking, Marking::URI)] {
            if let Some(id) = id {
                media.add_attribute_with_value("extmap", format!("{id} {uri}"));
            }
        }
        media
    }

    /// RFC 6184 §8.1: mode, profile and level, and the parameter sets that come before the first picture.
    fn parameters(&self) -> Option<String> {
        if self.codec != Codec::H264 {
            return None;
        }
        let mut text = String::from("packetization-mode=1");
        let first = self.config.iter().find(|set| h264::kind(set) == h264::nal::SPS);
        if let Some([_, profile, constraints, level, ..]) = first.map(Vec::as_slice) {
            // Writing to a string can't fail.
            let _ = write!(text, ";profile-level-id={profile:02X}{constraints:02X}{level:02X}");
        }
        if !self.config.is_empty() {
            let sets: Vec<_> = self.config.iter().map(|set| base64(set)).collect();
            let _ = write!(text, ";sprop-parameter-sets={}", sets.join(","));
        }
        Some(text)
    }

    /// Reads the first video of an SDP description that we unpack.
    pub fn from_sdp(text: &[u8]) -> Result<Self, VideoSdpError> {
        let session = parse(text)?;
        let mut offered = Vec::new();
        let mut is_there = false;
        for media in
            session.medias.iter().filter(|media| media.media == "video" && is_plain_rtp(&media.proto))
        {
            is_there = true;
            for name in media.fmt.split_ascii_whitespace() {
                match Self::of_media(&session, media, name)? {
                    Some(found) => return Ok(found),
                    None => {
                        let shown = rtpmap(media, name).unwrap_or(name);
                        offered.push(shown.chars().filter(|c| !c.is_control()).take(40).collect::<String>());
                    }
                }
            }
        }
        if !is_there {
            return Err(VideoSdpError::NoVideo);
        }
        offered.truncate(8);
        Err(VideoSdpError::Unsupported { offered: offered.join(", ") })
    }

    fn of_media(session: &Session, media: &Media, name: &str) -> Result<Option<Self>, VideoSdpError> {
        let Some(payload_type) = name.parse::<u8>().ok().filter(|pt| *pt <= 127) else { return Ok(None) };
        let codec = match rtpmap(media, name) {
            Some(map) => map.split_once('/').and_then(|(encoding, rate)| {
                let is_usual = rate.trim().parse() == Ok(CLOCK_RATE);
                Codec::from_encoding_name(encoding).filter(|_| is_usual)
            }),
            None => Codec::ALL.into_iter().find(|codec| codec.static_payload_type() == Some(payload_type)),
        };
        let Some(codec) = codec else { return Ok(None) };
        let format = media.get_attribute_values("fmtp").flatten().find_map(|value| {
            let (of, rest) = value.trim().split_once(' ')?;
            (of == name).then_some(rest)
        });
        // Without `fmtp` every parameter has its default.
        let format = format.unwrap_or_default();
        // Mode 2 interleaves NAL units.
        if codec == Codec::H264 && parameter(format, "packetization-mode").is_some_and(|mode| mode == "2") {
            return Ok(None);
        }
        if media.port == 0 {
            let line = format!("m=video 0 {} {}", media.proto, media.fmt).chars().take(60).collect();
            let why = "port 0 means that the stream is refused (RFC 3264, section 6): write its port";
            return Err(SdpError::Line { line, why }.into());
        }
        let connection = media.connections.first().or(session.connection.as_ref());
        let marks =
            media.get_attribute_values("extmap").chain(session.get_attribute_values("extmap")).flatten();
        let marks: Vec<&str> = marks.collect();
        let ids = |uri| marks.iter().find_map(|value| extension_id(value, uri));
        // Two elements can't have one identifier: then neither is believed.
        let (marking, ntp) = (ids(Marking::URI), ids(ExtensionIds::NTP_URI));
        let (marking, ntp) = if marking == ntp { (None, None) } else { (marking, ntp) };
        Ok(Some(VideoDescription {
            payload_type,
            address: connection.map(address_of).transpose()?.flatten(),
            port: Some(media.port),
            rtcp_mux: media.has_attribute("rtcp-mux"),
            marking,
            ntp,
            feedback: media
                .get_attribute_values("rtcp-fb")
                .flatten()
                .any(|value| value.contains("pli") || value.contains("fir")),
            config: if codec == Codec::H264 { parameter_sets(format) } else { Vec::new() },
            ..Self::new(codec)
        }))
    }
}

fn parse(text: &[u8]) -> Result<Session, SdpError> {
    if text.len() > MAX_SDP {
        return Err(SdpError::TooLong { len: text.len() });
    }
    Session::parse(text).map_err(|error| SdpError::Syntax { why: error.to_string() })
}

fn write(session: &Session) -> String {
    let mut text = Vec::new();
    session.write(&mut text).expect("a Vec takes everything");
    String::from_utf8_lossy(&text).into_owned()
}

fn parameter<'a>(format: &'a str, wanted: &str) -> Option<&'a str> {
    format.split(';').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then_some(value.trim())
    })
}

fn parameter_sets(format: &str) -> Vec<Vec<u8>> {
    // Without them they come in the stream.
    let text = parameter(format, "sprop-parameter-sets").unwrap_or_default();
    let sets = text.split(',').take(MOST_SETS).filter_map(from_base64);
    sets.filter(|set| matches!(h264::kind(set), h264::nal::SPS | h264::nal::PPS)).collect()
}

/// `ID[/DIRECTION] URI` (RFC 8285 §5).
fn extension_id(value: &str, uri: &str) -> Option<u8> {
    let mut words = value.split_ascii_whitespace();
    let id = words.next()?.split('/').next()?.parse().ok().filter(|id| (1..=14).contains(id))?;
    (words.next() == Some(uri)).then_some(id)
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for n in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * n) & 63) as usize];
            text.push(if n <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().trim_end_matches('=').bytes();
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for digit in digits {
        let value = ALPHABET.iter().position(|known| *known == digit)? as u32;
        bits = bits << 6 | value;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// More parameter sets than any stream has.
const MOST_SETS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SdpOptions {
        SdpOptions { name: "a test".into(), session_id: 1, origin: [127, 0, 0, 1].into(), ttl: 1 }
    }

    #[test]
    fn what_is_written_is_read() {
        for codec in Codec::ALL {
            let config = if codec == Codec::H264 {
                vec![vec![0x67, 66, 0xc0, 13, 1], vec![0x68, 0xce]]
            } else {
                vec![]
            };
            let description = VideoDescription {
                address: Some([127, 0, 0, 1].into()),
                port: Some(5_004),
                marking: Some(5),
                ntp: Some(1),
                feedback: true,
                config,
                ..VideoDescription::new(codec)
            };
            assert_eq!(
                VideoDescription::from_sdp(description.to_sdp(&options()).as_bytes()),
                Ok(description)
            );
        }
    }

    #[test]
    fn video_stands_beside_the_sound() {
        use antiphon_media::{SampleFormat, StreamDescription, StreamFormat};
        let sound =
            StreamDescription::new(SampleFormat::L16, StreamFormat::new(48_000, 2).expect("a format"));
        let both = VideoDescription::new(Codec::Vp8).add_to(&sound.to_sdp(&options())).expect("our own");
        assert!(both.contains("a=group:LS 1 video2"), "{both}");
        assert_eq!(VideoDescription::from_sdp(both.as_bytes()).map(|video| video.codec), Ok(Codec::Vp8));
        let heard = StreamDescription::from_sdp(both.as_bytes()).expect("the sound is still there");
        assert!(heard.format == sound.format && !heard.is_part);
    }

    #[test]
    fn ffmpegs_description_is_read() {
        let text = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=No Name\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
            m=video 5004 RTP/AVP 96\r\nb=AS:200\r\na=rtpmap:96 H264/90000\r\n\
            a=fmtp:96 packetization-mode=1; sprop-parameter-sets=Z/QADZGbKCg/YCIAAAMAAgAAAwBkHihTLA==,aOvjxEhE; profile-level-id=F4000D\r\n";
        let description = VideoDescription::from_sdp(text.as_bytes()).expect("it is SDP");
        assert_eq!((description.config.len(), description.config[1][0]), (2, 0x68));
        assert!(description.info().size.is_some());
    }

    #[test]
    fn what_cannot_be_unpacked_is_named() {
        let of = |media: &str| {
            VideoDescription::from_sdp(
                format!("v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n{media}").as_bytes(),
            )
        };
        let error = of("m=video 5004 RTP/AVP 96\r\na=rtpmap:96 H265/90000\r\n").expect_err("not supported");
        assert!(error.to_string().contains("H265"), "{error}");
        let interleaved =
            "m=video 5004 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=2\r\n";
        assert!(matches!(of(interleaved), Err(VideoSdpError::Unsupported { .. })));
        assert_eq!(of("m=audio 5004 RTP/AVP 0\r\n"), Err(VideoSdpError::NoVideo));
    }

    #[test]
    fn base64_round_trips() {
        for len in 1..20 {
            let bytes: Vec<u8> = (0..len).map(|n: u8| n.wrapping_mul(37)).collect();
            assert_eq!(from_base64(&base64(&bytes)), Some(bytes));
        }
        assert_eq!(base64(b"Ma"), "TWE=");
        assert_eq!(from_base64("T*E="), None);
    }
}
