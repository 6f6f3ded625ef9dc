//! Parses arguments into plain values. Every refusal says what would be right.

use std::convert::Infallible;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use antiphon::core::units::{format_duration, parse_duration, parse_frequency};
use antiphon::core::uri::Uri;
use antiphon::core::{BitRate, ByteCount, UnitError};
use antiphon::link::DuplexSpec;
use antiphon::media::voice::voice_time;
use antiphon::media::{
    ChannelGroups, Coding, FormatError, MAX_SESSION_NAME, SampleFormat, StreamDescription, StreamFormat, opus,
};
use antiphon::net::Target;
use antiphon::session::PlayoutDelay;
use antiphon::{MOST_VOICE_CHANNELS, SpoolPlace, VOICE_DATA_SIZES};
use antiphon_experiments::Capture;

/// Why a value is refused, in words.
type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// A time of some seconds: the error for a bare number suggests seconds, not milliseconds.
pub fn seconds(text: &str) -> Result<Duration, UnitError> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err(UnitError::OutOfRange { text: text.into(), range: "more than 0s" }),
        Err(UnitError::NoUnit { text, .. }) => {
            let example = format!("{}s", text.trim());
            Err(UnitError::NoUnit { text, example })
        }
        other => other,
    }
}

/// 1 to 64 channels.
pub fn channels(text: &str) -> Result<u32, Refusal> {
    let channels = whole(text, "channels, such as 2")?;
    // Any valid rate will do: only the channels are checked.
    StreamFormat::new(48_000, channels)?;
    Ok(channels)
}

/// Channel groups as text; the number of channels is known later.
pub fn groups(text: &str) -> Result<String, Refusal> {
    let channels: usize = text.split(',').filter_map(|word| word.trim().parse::<usize>().ok()).sum();
    // Checked as if they added up: only errors that do not depend on the stream are refused here.
    ChannelGroups::parse(channels.clamp(1, 64), text)?;
    Ok(text.into())
}

/// 16 to 4096 sample frames: `256` or `256frames`.
pub fn block(text: &str) -> Result<u32, Refusal> {
    let number = text.strip_suffix("frames").unwrap_or(text).trim();
    let frames = whole(number, "sample frames, such as 256")?;
    if (16..=4096).contains(&frames) { Ok(frames) } else { Err(FormatError::Block { frames }.into()) }
}

/// 0 to 63 and 96 to 127: values that cannot be confused with RTCP (RFC 5761 §4).
pub fn payload_type(text: &str) -> Result<u8, Refusal> {
    let number = whole(text, "a payload type, such as 96")?;
    let any = StreamDescription::new(SampleFormat::L16, StreamFormat::new(48_000, 2)?);
    Ok(any.with_payload_type(number)?.payload_type)
}

/// A medium, perhaps a node on it, and a file: `wlan@client=talk.pcapng`.
pub fn capture(text: &str) -> Result<Capture, Refusal> {
    let (place, file) = text.split_once('=').unwrap_or((text, ""));
    let (medium, node) = place.split_once('@').map_or((place, None), |(medium, node)| (medium, Some(node)));
    if medium.is_empty() || file.is_empty() || node.is_some_and(str::is_empty) {
        return Err("write a medium and a file, such as line=talk.pcapng or wlan@client=talk.pcapng".into());
    }
    Ok(Capture { medium: medium.into(), node: node.map(Into::into), file: file.into() })
}

/// 1 to 256 threads.
pub fn threads(text: &str) -> Result<usize, Refusal> {
    Ok(within(text, "a number, such as 2", 1..=256)? as usize)
}

/// A variable and its values: `loss=0%,5%`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The variable.
    pub name: String,
    /// At least one.
    pub values: Vec<String>,
}

/// A variable of a sweep with its values.
pub fn setting(text: &str) -> Result<Setting, Refusal> {
    match text.split_once('=') {
        Some((name, values)) if !name.is_empty() && !values.is_empty() => {
            Ok(Setting { name: name.into(), values: values.split(',').map(|v| v.trim().into()).collect() })
        }
        _ => Err("write a name and its values, such as loss=0%,5%".into()),
    }
}

/// Size of a media packet: from an RTP header to UDP's payload in one datagram on Ethernet.
pub fn packet(text: &str) -> Result<ByteCount, Refusal> {
    match text.parse::<ByteCount>()? {
        size @ ByteCount(12..=1472) => Ok(size),
        _ => Err("use 12B (an RTP header) to 1472B (one Ethernet datagram)".into()),
    }
}

/// 8 to 4096 bytes of voice.
pub fn voice_size(text: &str) -> Result<usize, Refusal> {
    let (least, most) = (VOICE_DATA_SIZES.start(), VOICE_DATA_SIZES.end());
    let ByteCount(size) = text.parse::<ByteCount>()?;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let time = |size: &usize| format_duration(voice_time(*size));
    let refusal =
        || format!("use {least}B ({} of a channel) to {most}B ({})", time(least), time(most)).into();
    if VOICE_DATA_SIZES.contains(&size) { Ok(size) } else { Err(refusal()) }
}

/// Bytes of a FIFO; the facade knows its bounds.
pub fn fifo(text: &str) -> Result<usize, Refusal> {
    let ByteCount(size) = text.parse::<ByteCount>()?;
    usize::try_from(size).map_err(Into::into)
}

/// Voice channels; the facade knows how many.
pub fn voice_channels(text: &str) -> Result<usize, Refusal> {
    Ok(within(text, "channels, such as 24", 1..=MOST_VOICE_CHANNELS as u32)? as usize)
}

/// A bit rate of Opus; the facade knows its bounds.
pub fn opus(text: &str) -> Result<u32, Refusal> {
    let BitRate(rate) = text.parse::<BitRate>()?;
    u32::try_from(rate).map_err(Into::into)
}

/// A level relative to overload: -45dB.
pub fn level(text: &str) -> Result<f32, Refusal> {
    let Some(number) = text.strip_suffix("dB") else {
        return Err(format!("a level has a unit: write {text}dB").into());
    };
    match number.trim().parse::<f32>() {
        Ok(level) if (-127.0..=0.0).contains(&level) => Ok(level),
        _ => Err("write a level from -127dB to 0dB (overload), such as -45dB".into()),
    }
}

/// 1 to 65 536 peers.
pub fn peers(text: &str) -> Result<usize, Refusal> {
    Ok(within(text, "a number, such as 64", 1..=65_536)? as usize)
}

/// A code point from 0 to 63, or its name in RFC 2474, 2597, 3246 or 8622.
pub fn dscp(text: &str) -> Result<u8, Refusal> {
    const HELP: &str = "use 0 to 63, or one of ef, le, cs0 to cs7, af11 to af43";
    let name = text.to_ascii_lowercase();
    let digits =
        |prefix| name.strip_prefix(prefix).map(|rest: &str| rest.bytes().map(|b| b.wrapping_sub(b'0')));
    if name == "ef" || name == "le" {
        return Ok(if name == "ef" { 46 } else { 1 });
    }
    if let Some(class) = digits("cs") {
        return match class.collect::<Vec<_>>()[..] {
            [class @ 0..=7] => Ok(class * 8),
            _ => Err(HELP.into()),
        };
    }
    if let Some(class) = digits("af") {
        return match class.collect::<Vec<_>>()[..] {
            [class @ 1..=4, precedence @ 1..=3] => Ok(class * 8 + precedence * 2),
            _ => Err(HELP.into()),
        };
    }
    match name.parse() {
        Ok(number @ 0..=63) => Ok(number),
        _ => Err(HELP.into()),
    }
}

/// A source or sink, which the facade parses.
pub fn uri(text: &str) -> Result<String, Infallible> {
    Ok(text.trim_start().into())
}

/// Where to receive from, which the facade parses. A number alone is refused here: it is meant for `--voice`, which takes one in `send` only.
pub fn received_from(text: &str) -> Result<String, Refusal> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(
            "write where to listen, such as rtp://:7710; 'receive --voice' takes no number, as the sender decides it"
                .into(),
        );
    }
    Ok(text.trim_start().into())
}

/// `-?format=s16le` is standard input or output, but looks like an option to the parser: a blank in front, which
/// [`uri`] removes again, prevents that.
pub fn shield(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with("-?") => format!(" {text}").into(),
        _ => argument,
    }
}

/// A link, as it was written.
pub fn link(text: &str) -> Result<String, antiphon::link::SpecError> {
    text.parse::<DuplexSpec>().map(|_| text.into())
}

/// An address to listen on: `:7710`, `HOST:PORT`, `[::1]:7710`; port 0 takes a free one.
pub fn listen(text: &str) -> Result<SocketAddr, Refusal> {
    // Port 0 cannot be called, so the general parser of addresses refuses it.
    let free = text.strip_suffix(":0").map(|host| format!("{host}:1"));
    let mut address = address(free.as_deref().unwrap_or(text))?.address();
    if free.is_some() {
        address.set_port(0);
    }
    Ok(address)
}

/// An address to serve at: as [`listen`], but without a host on this machine alone.
pub fn serve_here(text: &str) -> Result<SocketAddr, Refusal> {
    let address = listen(text)?;
    let anywhere = text.starts_with(':');
    Ok(if anywhere { SocketAddr::from(([127, 0, 0, 1], address.port())) } else { address })
}

/// An address to call: `HOST:PORT`.
pub fn call(text: &str) -> Result<SocketAddr, Refusal> {
    match address(text)? {
        Target::Call(address) => Ok(address),
        Target::Listen(_) => Err("write HOST:PORT, such as 192.0.2.7:7710".into()),
    }
}

fn address(text: &str) -> Result<Target, Refusal> {
    let uri: Uri = format!("udp://{text}").parse()?;
    if uri.port.is_none() || !uri.path.is_empty() {
        return Err(format!(
            "write HOST:PORT, such as {}:7710",
            if text.is_empty() { "192.0.2.7" } else { &uri.host }
        )
        .into());
    }
    Ok(Target::resolve(&uri, 0)?)
}

fn whole(text: &str, wanted: &str) -> Result<u32, Refusal> {
    text.parse().map_err(|_| format!("write a whole number of {wanted}").into())
}

/// A seed.
pub fn seed(text: &str) -> Result<u64, Refusal> {
    text.parse().map_err(|_| "write a whole number from 0 to 18446744073709551615, such as 7".into())
}

/// The number of a run.
pub fn run(text: &str) -> Result<u32, Refusal> {
    whole(text, "a run, such as 3")
}

/// 1 to 100 000 runs.
pub fn repetitions(text: &str) -> Result<u32, Refusal> {
    within(text, "runs, such as 20", 1..=100_000)
}

/// Priority of a socket (`SO_PRIORITY`) that needs no privilege.
pub fn priority(text: &str) -> Result<u32, Refusal> {
    within(text, "a priority, such as 6", 0..=6)
}

/// Routers that packets to a group may cross.
pub fn ttl(text: &str) -> Result<u8, Refusal> {
    Ok(within(text, "hops, such as 4", 0..=255)? as u8)
}

fn within(text: &str, wanted: &str, range: std::ops::RangeInclusive<u32>) -> Result<u32, Refusal> {
    let number = whole(text, wanted)?;
    let refused = || format!("use {} to {}", range.start(), range.end()).into();
    range.contains(&number).then_some(number).ok_or_else(refused)
}

/// The name of an announced stream: one line.
pub fn session_name(text: &str) -> Result<String, Refusal> {
    let fits = (1..=MAX_SESSION_NAME).contains(&text.chars().count());
    if fits && !text.chars().any(char::is_control) {
        return Ok(text.into());
    }
    Err(format!("write a name of 1 to {MAX_SESSION_NAME} characters in one line").into())
}

/// A multicast group of IP version 4.
pub fn announcement_group(text: &str) -> Result<Ipv4Addr, Refusal> {
    match text.parse::<Ipv4Addr>() {
        Ok(group) if group.is_multicast() => Ok(group),
        _ => Err("write a multicast group, such as 239.255.255.255".into()),
    }
}

/// A file to be written; its directory must be there.
pub fn new_file(text: &str) -> Result<PathBuf, Refusal> {
    let path = PathBuf::from(text);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        _ if text.is_empty() => Err("name a file".into()),
        _ if path.is_dir() => Err("that is a directory: name a file in it".into()),
        Some(folder) if !folder.is_dir() => {
            Err(format!("there is no directory '{}': create it, or choose another", folder.display()).into())
        }
        _ => Ok(path),
    }
}

/// A directory, or `none`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory(pub Option<PathBuf>);

impl FromStr for Directory {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err("name a directory, '.' for this one, or none"),
            "none" => Ok(Directory(None)),
            path => Ok(Directory(Some(path.into()))),
        }
    }
}

/// How long packets are of use: a time, or `none` for ever.
pub fn playout_delay(text: &str) -> Result<PlayoutDelay, UnitError> {
    Ok(if text == "none" { PlayoutDelay::Unbounded } else { PlayoutDelay::Of(parse_duration(text)?) })
}

/// A sample format or another coding, and perhaps rate and channels: `l16`, `l16/48000`, `l16/48kHz/2`, `opus`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireFormat {
    /// How packets hold the sound.
    pub coding: Option<Coding>,
    /// In Hz.
    pub rate: Option<u32>,
    /// Samples per sample frame.
    pub channels: Option<u32>,
}

impl FromStr for WireFormat {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let parts: Vec<&str> = text.split('/').collect();
        let (name, rate, channels) = match parts[..] {
            [name] => (name, None, None),
            // As in SDP's rtpmap: without a number of channels there is one.
            [name, rate] => (name, Some(rate), Some("1")),
            [name, rate, channels] => (name, Some(rate), Some(channels)),
            _ => return Err("write FORMAT/RATE/CHANNELS, such as l16/48000/2".into()),
        };
        // After the slash a bare number is in Hz, as in SDP.
        let hertz = |text: &str| text.parse().or_else(|_| parse_frequency(text));
        let format = WireFormat {
            coding: Some(name.parse()?),
            rate: rate.map(hertz).transpose()?,
            channels: channels.map(self::channels).transpose()?,
        };
        if let (Some(rate), Some(channels)) = (format.rate, format.channels) {
            StreamFormat::new(rate, channels)?;
        }
        Ok(format)
    }
}

impl WireFormat {
    /// As a description of a stream, which needs all three parts.
    pub fn description(self) -> Result<StreamDescription, antiphon::Error> {
        match (self.coding, self.rate, self.channels) {
            (Some(coding), Some(rate), Some(channels)) => {
                let format = StreamFormat::new(rate, channels)?;
                coding.check(format)?;
                Ok(StreamDescription::new(coding, format))
            }
            // Whatever the sender has, it can be decoded to two channels.
            (Some(Coding::Opus), None, None) => {
                let format = StreamFormat::new(opus::RATE, opus::MOST_CHANNELS as u32)?;
                Ok(StreamDescription::new(Coding::Opus, format))
            }
            _ => {
                let name = self.coding.map_or("l16", Coding::name);
                Err(antiphon::Error::usage(format!(
                    "--format {name} has no rate and channels: write for example {name}/48000/2"
                )))
            }
        }
    }
}

/// The sample format of a comparison.
pub fn compared(text: &str) -> Result<SampleFormat, Refusal> {
    match text.parse()? {
        Coding::Pcm(sample) => Ok(sample),
        Coding::Opus => Err(
            "a comparison asks whether samples come as they were sent, and Opus changes all of them: use l16, or mulaw for few bytes"
                .into(),
        ),
    }
}

/// A directory for what waits, or none.
pub fn spool(text: &str) -> Result<SpoolPlace, String> {
    match text {
        "" => Err("write a directory, or off".into()),
        "off" => Ok(SpoolPlace::Off),
        directory => Ok(SpoolPlace::In(directory.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bare_seconds_are_refused_with_seconds() {
        assert_eq!(seconds("15s").unwrap(), Duration::from_secs(15));
        assert_eq!(seconds("2min").unwrap(), Duration::from_secs(120));
        assert_eq!(seconds("15").unwrap_err().to_string(), "'15' has no unit: write 15s");
        assert!(seconds("0s").is_err());
    }

    #[test]
    fn code_points_by_number_and_name() {
        // RFC 4594, table 3.
        for (name, value) in
            [("ef", 46), ("AF41", 34), ("cs5", 40), ("le", 1), ("0", 0), ("63", 63), ("af11", 10)]
        {
            assert_eq!(dscp(name).unwrap(), value, "{name}");
        }
        for wrong in ["64", "-1", "cs8", "af51", "af14", "af", "cs", "csx", "express", ""] {
            assert!(dscp(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn formats_as_in_sdp() {
        let full: WireFormat = "L16/48000/2".parse().unwrap();
        assert_eq!((full.rate, full.channels), (Some(48_000), Some(2)));
        assert_eq!("l24/44.1kHz".parse::<WireFormat>().unwrap().channels, Some(1));
        assert!("l16".parse::<WireFormat>().unwrap().description().is_err());
        for wrong in ["", "l16/7/2", "l16/48000/0", "l16/48000/2/1", "l17", "l16//2", "l16/48/2"] {
            assert!(wrong.parse::<WireFormat>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_listen_and_call() {
        assert_eq!(listen(":7710").unwrap().to_string(), "[::]:7710");
        assert_eq!(listen("127.0.0.1:0").unwrap().to_string(), "127.0.0.1:0");
        let served = |text: &str| serve_here(text).map(|address| address.to_string()).ok();
        assert_eq!(served(":9464").as_deref(), Some("127.0.0.1:9464"));
        assert_eq!(served("0.0.0.0:0").as_deref(), Some("0.0.0.0:0"));
        assert_eq!(served("[::]:9464").as_deref(), Some("[::]:9464"));
        assert_eq!((served("9464"), served(":99999"), served("")), (None, None, None));
        assert_eq!(call("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(call("[::1]:80").unwrap().to_string(), "[::1]:80");
        for wrong in [":80", "127.0.0.1", "", "127.0.0.1:0x", "127.0.0.1:80/x", "::1:80"] {
            assert!(call(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _only_panics_count = (
                (dscp(&text), block(&text), channels(&text), payload_type(&text), seconds(&text)),
                (text.parse::<WireFormat>(), playout_delay(&text)),
                text.parse::<antiphon::Requirement>(),
            );
        }
    }
}
