//! Descriptions of a stream: SDP (RFC 8866) for other players, reading theirs, and the short form for a flag.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use sdp_types::{Connection, Media, MediaType, Origin, Session, Time, TransportProto};

use crate::packet::{DYNAMIC_PAYLOAD_TYPE, ExtensionIds, Marking, PacketConfig, PacketError};
use crate::packet::{static_format, static_payload_type};
use crate::{Coding, FormatError, SampleFormat, StreamFormat, opus};

/// Everything that a receiver must know about a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDescription {
    /// Rate and channels.
    pub format: StreamFormat,
    /// How packets hold the sound.
    pub coding: Coding,
    /// 0 to 127.
    pub payload_type: u8,
    /// How long a packet lasts, if stated.
    pub ptime: Option<Duration>,
    /// Where packets are sent: a group, or the receiver.
    pub address: Option<IpAddr>,
    /// The UDP port they go to.
    pub port: Option<u16>,
    /// The only sender to listen to in the group (RFC 4570).
    pub source: Option<IpAddr>,
    /// Whether RTCP comes on the same port (RFC 5761).
    pub rtcp_mux: bool,
    /// Header extension elements in use.
    pub extensions: ExtensionIds,
    /// Whether this is one of several streams that are to be played together (RFC 5888 §7), such as channel groups: it
    /// does not hold all of the sound.
    pub is_part: bool,
    /// Reference clock, such as `ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0` or `ntp=/traceable/` (RFC 7273 §4).
    pub reference_clock: Option<String>,
    /// What the media clock follows.
    pub media_clock: Option<MediaClock>,
}

/// What only SDP needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdpOptions {
    /// Name of the session, shown by players.
    pub name: String,
    /// Identifies the session among those of this host; its NTP time of start serves (RFC 8866 §5.2).
    pub session_id: u64,
    /// The sender's own address.
    pub origin: IpAddr,
    /// Time to live of IPv4 multicast.
    pub ttl: u8,
}

/// What the media clock of a stream follows (RFC 7273 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaClock {
    /// The sender's own, without a fixed relation to the reference clock (§5.1, `mediaclk:sender`).
    Sender,
    /// The reference clock, at whose epoch the RTP time stamp has this value (§5.2, `mediaclk:direct`).
    Direct(u32),
}

/// Why a description cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SdpError {
    /// Not SDP.
    #[error(
        "this is not an SDP description ({why}): give the file that the sender wrote, starting with 'v=0'"
    )]
    Syntax {
        /// The parser's error.
        why: String,
    },
    /// Longer than any description.
    #[error("an SDP description of {len} bytes is too long: at most {MAX_SDP} are read")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// No audio in it, or none in unencrypted RTP.
    #[error("no unencrypted RTP audio in this description: a line 'm=audio PORT RTP/AVP TYPE' is needed")]
    NoAudio,
    /// Audio, but none that we decode.
    #[error(
        "none of the offered formats ({offered}) is supported: the sender must use L16, L24, PCMU, PCMA or opus"
    )]
    Unsupported {
        /// The offered protocol.
        offered: String,
    },
    /// A line that makes no sense.
    #[error("'{line}' in this description: {why}")]
    Line {
        /// The line.
        line: String,
        /// What is wrong with it, and what would be right.
        why: &'static str,
    },
    /// Outside what Antiphon carries.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Not of the short form.
    #[error("'{text}' is not a stream format: write SAMPLE/RATE/CHANNELS, such as l16/48000/2")]
    Short {
        /// The text.
        text: String,
    },
    /// Above 127, or mistaken for RTCP.
    #[error("payload type {payload_type} cannot be used: use 0 to 63 or 96 to 127")]
    PayloadType {
        /// The requested value.
        payload_type: u32,
    },
}

impl StreamDescription {
    /// A stream of that format, with the static payload type that fits or 96, and no addresses.
    pub fn new(coding: impl Into<Coding>, format: StreamFormat) -> Self {
        let coding = coding.into();
        StreamDescription {
            format,
            coding,
            payload_type: static_payload_type(coding, format).unwrap_or(DYNAMIC_PAYLOAD_TYPE),
            ptime: None,
            address: None,
            port: None,
            source: None,
            rtcp_mux: true,
            extensions: ExtensionIds::UNDIVIDED,
            is_part: false,
            reference_clock: None,
            media_clock: None,
        }
    }

    /// RTP's time stamp at PTP's epoch, if the stream's time stamps count the time of a PTP clock: `ts-refclk:ptp=…` and
    /// `mediaclk:direct=` (RFC 7273 §4.3, §5.2; AES67-2018 §8.2 and §8.3).
    pub fn ptp_offset(&self) -> Option<u32> {
        let is_ptp = self.reference_clock.as_deref().is_some_and(|clock| clock.starts_with("ptp="));
        match self.media_clock {
            Some(MediaClock::Direct(offset)) if is_ptp => Some(offset),
            _ => None,
        }
    }

    /// Describes what a packetiser of that configuration sends.
    pub fn of(config: &PacketConfig) -> Result<Self, PacketError> {
        let nanos = config.packet_frames()? as u64 * 1_000_000_000 / u64::from(config.format.rate());
        Ok(StreamDescription {
            payload_type: config.payload_type,
            ptime: Some(Duration::from_nanos(nanos)),
            extensions: config.extensions,
            ..Self::new(config.coding, config.format)
        })
    }

    /// The same under another payload type.
    pub fn with_payload_type(mut self, payload_type: u32) -> Result<Self, SdpError> {
        match u8::try_from(payload_type) {
            Ok(fits @ (0..=63 | 96..=127)) => self.payload_type = fits,
            _ => return Err(SdpError::PayloadType { payload_type }),
        }
        Ok(self)
    }

    /// Writes SDP that ffmpeg and GStreamer play. Addresses that are not known become "any" and port 5004.
    pub fn to_sdp(&self, options: &SdpOptions) -> String {
        sdp_of(std::slice::from_ref(self), &[], "", options)
    }

    fn media(&self, address: IpAddr) -> Media {
        let pt = self.payload_type;
        let mut media = Media::new(MediaType::Audio, self.port.unwrap_or(5004), TransportProto::RtpAvp, pt);
        // Of Opus the line is always the same; what is sent stands in the next (RFC 7587 §7).
        let (encoding, channels) = match self.coding {
            Coding::Pcm(sample) => (encoding_name(sample), self.format.channels()),
            Coding::Opus => (OPUS, opus::MOST_CHANNELS),
        };
        let mut rtpmap = format!("{pt} {encoding}/{}", self.format.rate());
        if channels > 1 {
            // Writing to a string can't fail.
            let _ = write!(rtpmap, "/{channels}");
        }
        media.add_attribute_with_value("rtpmap", rtpmap);
        if self.coding == Coding::Opus {
            let stereo = u8::from(self.format.channels() > 1);
            media.add_attribute_with_value("fmtp", format!("{pt} stereo={stereo};sprop-stereo={stereo}"));
        }
        if let Some(ptime) = self.ptime {
            media.add_attribute_with_value("ptime", milliseconds(ptime));
            if self.coding == Coding::Opus {
                media.add_attribute_with_value("maxptime", milliseconds(ptime));
            }
        }
        media.add_attribute_from_str("recvonly");
        if self.rtcp_mux {
            media.add_attribute_from_str("rtcp-mux");
        }
        if let (true, Some(source)) = (address.is_multicast(), self.source) {
            let family = if source.is_ipv4() { "IP4" } else { "IP6" };
            media.add_attribute_with_value("source-filter", format!(" incl IN {family} {address} {source}"));
        }
        let elements = [
            (self.extensions.ntp, ExtensionIds::NTP_URI),
            (self.extensions.format, ExtensionIds::FORMAT_URI),
            (self.extensions.group, ExtensionIds::GROUP_URI),
        ];
        for (id, uri) in elements {
            if let Some(id) = id {
                media.add_attribute_with_value("extmap", format!("{id} {uri}"));
            }
        }
        if let Some(clock) = &self.reference_clock {
            media.add_attribute_with_value("ts-refclk", one_line(clock));
        }
        match self.media_clock {
            Some(MediaClock::Sender) => media.add_attribute_with_value("mediaclk", "sender"),
            Some(MediaClock::Direct(offset)) => {
                media.add_attribute_with_value("mediaclk", format!("direct={offset}"));
            }
            None => {}
        }
        media
    }

    /// Reads the first audio of an SDP description that we decode.
    pub fn from_sdp(text: &[u8]) -> Result<Self, SdpError> {
        if text.len() > MAX_SDP {
            return Err(SdpError::TooLong { len: text.len() });
        }
        let session = Session::parse(text).map_err(|error| SdpError::Syntax { why: error.to_string() })?;
        // The parser takes a second description for lines of the first.
        if text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"v=")).count() > 1 {
            return Err(wrong_line("v=0", "it stands there twice: give one description, of one session"));
        }
        let mut offered = Vec::new();
        let mut audio = false;
        for media in session.medias.iter().filter(|m| m.media == "audio" && is_plain_rtp(&m.proto)) {
            audio = true;
            for name in media.fmt.split_ascii_whitespace() {
                match coding(media, name) {
                    Some(found) => return describe(&session, media, found),
                    None => {
                        offered.push(rtpmap(media, name).unwrap_or(name).chars().take(40).collect::<String>())
                    }
                }
            }
        }
        if !audio {
            return Err(SdpError::NoAudio);
        }
        offered.truncate(8);
        Err(SdpError::Unsupported { offered: offered.join(", ") })
    }
}

/// The name of the session that SDP describes, in one line of at most [`MAX_SESSION_NAME`] characters; empty if it has none.
pub fn session_name(text: &[u8]) -> String {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"s="));
    let name = String::from_utf8_lossy(line.unwrap_or_default());
    name.trim().chars().filter(|c| !c.is_control()).take(MAX_SESSION_NAME).collect()
}

/// Characters of a session's name that are shown or sent: a line of a list.
pub const MAX_SESSION_NAME: usize = 100;

/// One description of streams that are to be played together, such as channel groups, all of one sender `cname`.
///
/// They are synchronised (`LS`, RFC 5888 §7), share address and port (`BUNDLE`, RFC 9143); `ssrcs` differ (RFC 5576).
pub fn sdp_of(streams: &[StreamDescription], ssrcs: &[u32], cname: &str, options: &SdpOptions) -> String {
    let origin = Origin::with_ip_addr(options.session_id, 1, options.origin);
    let mut session = Session::new(origin, one_line(&options.name));
    let address = streams.iter().find_map(|stream| stream.address).unwrap_or(match options.origin {
        IpAddr::V4(_) => IpAddr::from([0u8; 4]),
        IpAddr::V6(_) => IpAddr::from([0u16; 8]),
    });
    let ttl = (address.is_multicast() && address.is_ipv4()).then_some(options.ttl);
    session.set_connection(Connection::from_ip_addr_ttl(address, ttl));
    session.add_time(Time::new(0, 0));
    let together = streams.len() > 1;
    if together {
        let names: String = (1..=streams.len()).map(|n| format!(" {n}")).collect();
        session.add_attribute_with_value("group", format!("LS{names}"));
        session.add_attribute_with_value("group", format!("BUNDLE{names}"));
    }
    for (n, stream) in streams.iter().enumerate() {
        let mut media = stream.media(address);
        if together {
            media.add_attribute_with_value("mid", (n + 1).to_string());
        }
        if let Some(ssrc) = ssrcs.get(n) {
            media.add_attribute_with_value("ssrc", format!("{ssrc} cname:{}", one_line(cname)));
        }
        session.add_media(media);
    }
    let mut text = Vec::new();
    session.write(&mut text).expect("a Vec takes everything");
    String::from_utf8_lossy(&text).into_owned()
}

impl std::str::FromStr for StreamDescription {
    type Err = SdpError;

    /// `SAMPLE/RATE/CHANNELS`, such as `l16/48000/2` or `mulaw/8000`; one channel when none is given.
    fn from_str(text: &str) -> Result<Self, SdpError> {
        let short = || SdpError::Short { text: text.chars().take(60).collect() };
        let mut parts = text.split('/');
        let (Some(sample), Some(rate), channels, None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(short());
        };
        let coding: Coding = sample.parse()?;
        let rate = rate.parse().map_err(|_| short())?;
        let channels = channels.map_or(Ok(1), str::parse).map_err(|_| short())?;
        let format = StreamFormat::new(rate, channels)?;
        coding.check(format)?;
        Ok(StreamDescription::new(coding, format))
    }
}

/// What a media line offers under a payload type: the type, its coding, rate and channels.
type Offered = (u8, Coding, u32, u32);

/// Whether a media line's protocol is RTP without encryption.
pub fn is_plain_rtp(proto: &str) -> bool {
    proto == "RTP/AVP" || proto == "RTP/AVPF"
}

/// The value of the `rtpmap` for a payload type, after the type.
pub fn rtpmap<'a>(media: &'a Media, payload_type: &str) -> Option<&'a str> {
    media.get_attribute_values("rtpmap").flatten().find_map(|value| {
        let (name, rest) = value.trim().split_once(' ')?;
        (name == payload_type).then_some(rest.trim())
    })
}

fn coding(media: &Media, name: &str) -> Option<Offered> {
    let payload_type: u8 = name.parse().ok().filter(|pt| *pt <= 127)?;
    let Some(map) = rtpmap(media, name) else {
        let (sample, format) = static_format(payload_type)?;
        return Some((payload_type, sample.into(), format.rate(), format.channels() as u32));
    };
    let mut parts = map.split('/');
    let encoding = parts.next()?;
    if encoding.eq_ignore_ascii_case(OPUS) {
        return Some((payload_type, Coding::Opus, opus::RATE, opus_channels(media, name)));
    }
    let sample =
        SampleFormat::ALL.into_iter().find(|sample| encoding_name(*sample).eq_ignore_ascii_case(encoding))?;
    let rate = parts.next()?.trim().parse().ok()?;
    let channels = parts.next().map_or(Some(1), |text| text.trim().parse().ok())?;
    Some((payload_type, sample.into(), rate, channels))
}

/// Channels of a stream of Opus: the sender may send both, whatever it says (RFC 7587 §7), so one only if it says so.
fn opus_channels(media: &Media, payload_type: &str) -> u32 {
    let parameters = media.get_attribute_values("fmtp").flatten().find_map(|value| {
        let (name, rest) = value.trim().split_once(' ')?;
        (name == payload_type).then_some(rest)
    });
    let mono = |text: &str| {
        text.split_once('=').is_some_and(|(name, value)| {
            name.trim().eq_ignore_ascii_case("sprop-stereo") && value.trim() == "0"
        })
    };
    if parameters.is_some_and(|text| text.split(';').any(mono)) { 1 } else { opus::MOST_CHANNELS as u32 }
}

fn wrong_line(line: &str, why: &'static str) -> SdpError {
    SdpError::Line { line: line.chars().take(60).collect(), why }
}

/// The time of a packet (RFC 8866 §6.4).
fn packet_time(text: &str) -> Result<Duration, SdpError> {
    let ms: f64 = text.trim().parse().unwrap_or(f64::NAN);
    // A packet of more than 10 s is not live sound; the description is wrong.
    if ms > 0.0 && ms <= 10_000.0 {
        return Ok(Duration::from_secs_f64(ms / 1000.0));
    }
    Err(wrong_line(&format!("a=ptime:{text}"), "write milliseconds, such as a=ptime:5"))
}

/// What a media clock follows (RFC 7273 §5); `None` for one that we do not know, such as one whose rate is not the time stamps'.
fn media_clock(text: &str) -> Option<MediaClock> {
    match text.trim() {
        "sender" => Some(MediaClock::Sender),
        direct => direct.strip_prefix("direct=")?.parse().ok().map(MediaClock::Direct),
    }
}

/// The address of a connection (RFC 8866 §5.7); `None` for "any", at which no receiver can listen.
pub fn address_of(connection: &Connection) -> Result<Option<IpAddr>, SdpError> {
    let (network, kind) = (connection.nettype.to_string(), connection.addrtype.to_string());
    let line = format!("c={network} {kind} {}", connection.connection_address);
    if network != "IN" || !matches!(&*kind, "IP4" | "IP6") {
        return Err(wrong_line(&line, "write c=IN IP4 ADDRESS or c=IN IP6 ADDRESS"));
    }
    // A name is no address; what it means is not looked up.
    let address = connection.try_address().ok().map(|address| address.ip);
    Ok(address.filter(|address| !address.is_unspecified()))
}

fn describe(session: &Session, media: &Media, offered: Offered) -> Result<StreamDescription, SdpError> {
    let (payload_type, coding, rate, channels) = offered;
    if media.port == 0 {
        let line = format!("m=audio 0 {} {}", media.proto, media.fmt);
        return Err(wrong_line(
            &line,
            "port 0 means that the stream is refused (RFC 3264, section 6): write its port",
        ));
    }
    let connection = media.connections.first().or(session.connection.as_ref());
    let value = |name: &'static str| {
        let own = media.get_first_attribute_value(name).flatten();
        own.or_else(|| session.get_first_attribute_value(name).flatten())
    };
    Ok(StreamDescription {
        payload_type,
        ptime: value("ptime").map(packet_time).transpose()?,
        address: connection.map(address_of).transpose()?.flatten(),
        port: Some(media.port),
        source: value("source-filter").and_then(source_filter),
        rtcp_mux: media.has_attribute("rtcp-mux"),
        extensions: extensions(session, media),
        is_part: is_part(session, media),
        reference_clock: value("ts-refclk").map(|clock| one_line(clock.trim())),
        media_clock: value("mediaclk").and_then(media_clock),
        ..StreamDescription::new(coding, StreamFormat::new(rate, channels)?)
    })
}

/// Whether other media are to be played in synchrony with it (RFC 5888 §7).
fn is_part(session: &Session, media: &Media) -> bool {
    let Some(mid) = media.get_first_attribute_value("mid").flatten() else { return false };
    session.get_attribute_values("group").flatten().any(|group| {
        let mut words = group.split_ascii_whitespace();
        let in_step = words.next() == Some("LS");
        let audio = |name: &&str| {
            let named = |m: &&Media| m.get_first_attribute_value("mid").flatten() == Some(*name);
            session.medias.iter().find(named).is_some_and(|m| m.media == "audio")
        };
        let names: Vec<&str> = words.collect();
        in_step && names.contains(&mid) && names.iter().filter(|name| audio(name)).count() > 1
    })
}

/// `incl IN IP4 GROUP SOURCE` (RFC 4570 §3); `None` with several sources.
fn source_filter(value: &str) -> Option<IpAddr> {
    let mut words = value.split_ascii_whitespace();
    if words.next() != Some("incl") {
        return None;
    }
    let source = words.nth(3)?.parse().ok()?;
    words.next().is_none().then_some(source)
}

fn extensions(session: &Session, media: &Media) -> ExtensionIds {
    let mut ids = ExtensionIds::NONE;
    let all = session.get_attribute_values("extmap").chain(media.get_attribute_values("extmap"));
    for value in all.flatten() {
        let mut words = value.split_ascii_whitespace();
        // The identifier may carry a direction: "1/sendonly".
        let id =
            words.next().and_then(|w| w.split('/').next()?.parse().ok()).filter(|id| (1..=14).contains(id));
        match words.next() {
            Some(ExtensionIds::NTP_URI) => ids.ntp = id,
            Some(ExtensionIds::FORMAT_URI) => ids.format = id,
            Some(ExtensionIds::GROUP_URI) => ids.group = id,
            Some(ExtensionIds::VIDEO_URI) => ids.video = id,
            Some(Marking::URI) => ids.marking = id,
            _ => {}
        }
    }
    if ids.are_valid() { ids } else { ExtensionIds::NONE }
}

/// The name of Opus in an `rtpmap` (RFC 7587 §7).
const OPUS: &str = "opus";

/// The name in an `rtpmap` (RFC 3551 §6, RFC 3190 §4). Floats have no registered one.
fn encoding_name(sample: SampleFormat) -> &'static str {
    match sample {
        SampleFormat::L16 => "L16",
        SampleFormat::L24 => "L24",
        SampleFormat::F32 => "x-antiphon-f32",
        SampleFormat::MuLaw => "PCMU",
        SampleFormat::ALaw => "PCMA",
    }
}

/// At most three decimals, without trailing zeros: `5.333`, `20`.
fn milliseconds(d: Duration) -> String {
    let text = format!("{:.3}", d.as_secs_f64() * 1000.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A line feed in a name would start a new SDP line.
pub fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    if clean.trim().is_empty() { "-".into() } else { clean }
}

/// Bytes of the longest description that is read: real ones have a kilobyte or two.
pub const MAX_SDP: usize = 65_536;

#[cfg(test)]
mod tests;
