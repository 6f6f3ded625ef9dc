//! What is decided of a stream that is sent before anything is opened.

mod checks;

use std::time::Duration;

use antiphon_core::BitRate;
use antiphon_core::units::format_duration;
use antiphon_measure::{LipSync, Purpose};
use antiphon_media::packet::{ExtensionIds, PacketConfig};
use antiphon_media::{ChannelGroups, ChannelMap, Coding, Source, StreamFormat, opus};
use antiphon_net::{OsClock, Target};
use antiphon_session::{
    KEPT_BYTES, MOST_VIDEO_TRACKS, PlayoutDelay, Repetition, SendTrackConfig, converted, limited,
};
use antiphon_sound::{DeviceMeter, Notes, open_source};
use antiphon_video::VideoDescription;

use checks::{check_data, check_described, check_ptp, check_step, check_video, for_one_receiver};

use super::programmes::{Further, check_programmes, frames_of, further_programmes};
use crate::backup::{BackedUp, Backup, BackupMeter};
use crate::data::DataInput;
use crate::groups::read_groups;
use crate::pictures::{Overs, VideoFile, VideoOver};
use crate::programmes::ProgrammeSource;
use crate::transport::{StackPlan, StreamKeys, StreamUri, unguessable};
use crate::{DEFAULT_LATENCY, Error, SendOptions};

/// Everything that can be decided before the media thread starts.
pub(crate) struct SendPlan {
    pub uri: StreamUri,
    pub stack: StackPlan,
    pub source: Box<dyn Source>,
    /// Pictures beside the sound.
    pub video: Vec<VideoFile>,
    /// Further tracks of them.
    pub further_video: Vec<Vec<VideoFile>>,
    /// The transports that these and the data have for themselves.
    pub overs: Overs,
    /// Data beside both.
    pub data: Vec<DataInput>,
    /// What other programs are told of the pictures.
    pub described: Option<VideoDescription>,
    /// Of a sender with programmes: the source's name, and the others.
    pub programmes: Option<(String, Vec<Further>)>,
    pub notes: Notes,
    pub device: Option<DeviceMeter>,
    pub backup: Option<BackupMeter>,
    pub format: StreamFormat,
    pub groups: ChannelGroups,
    pub coding: Coding,
    /// Of Opus, if asked for.
    pub bit_rate: Option<BitRate>,
    /// For a receiver that has not reported its own.
    pub playout_delay: PlayoutDelay,
    pub protect: Repetition,
    /// From capture to playout at all receivers.
    pub in_step: Option<Duration>,
    /// Whether it is sound beside a picture.
    pub tv: bool,
    pub clock: OsClock,
}

impl SendPlan {
    pub fn new(options: &SendOptions, clock: OsClock) -> Result<Self, Error> {
        let uri = StreamUri::read(&options.target, &options.socket)?.without_role()?;
        let (keys, address) = (&uri.keys, uri.address());
        if matches!(uri.target, Target::Listen(_)) && address.ip().is_multicast() {
            let scheme = uri.transport.scheme;
            return Err(Error::usage(format!(
                "'{}' is how a group is received: write {scheme}://{address} to send to it, or {scheme}://:{} for receivers to call",
                options.target,
                address.port()
            )));
        }
        let place = options.target.split_once("://").map_or("", |(_, place)| place);
        if matches!(uri.target, Target::Listen(_)) && matches!(place.split('?').next(), Some("" | "/") | None)
        {
            let (scheme, port) = (uri.transport.scheme, address.port());
            return Err(Error::usage(format!(
                "'{}' names no receiver: write {scheme}://HOST:{port} to call one, or {scheme}://:{port} to wait for receivers",
                options.target
            )));
        }
        if let (Target::Listen(_), Some(option)) = (uri.target, for_one_receiver(options)) {
            let (scheme, port) = (uri.transport.scheme, address.port());
            return Err(Error::usage(format!(
                "{option} is for one receiver that is called, and '{}' waits for many: omit it, or write {scheme}://HOST:{port}",
                options.target
            )));
        }
        check_programmes(options, matches!(uri.target, Target::Listen(_)))?;
        if options.most_receivers == 0 {
            return Err(Error::usage("--most-receivers 0 leaves nobody to send to: allow at least 1"));
        }
        let told = keys.fixed_latency()?.map(PlayoutDelay::Of).or(options.latency);
        Self::over(uri, told, options, clock)
    }

    /// Over what `uri` names, to a receiver whose playout delay is taken to be `told` until it reports it.
    pub fn over(
        uri: StreamUri,
        told: Option<PlayoutDelay>,
        options: &SendOptions,
        clock: OsClock,
    ) -> Result<Self, Error> {
        let keys = &uri.keys;
        let framing = keys.framing.unwrap_or(options.framing);
        check_described(&uri, framing, options)?;
        options.spool.check()?;
        let first = options.programmes.first();
        let opened = open_source(first.map_or(&options.source, |first| &first.source))?;
        let has = opened.source.format();
        let (format, map) = stream_format(options, keys, has)?;
        let mut source = converted(opened.source, format, map)?;
        let coding = keys.coding.or(options.coding).unwrap_or(source.sample_format().into());
        check_ptp(&uri, &*source, options)?;
        let mut meter = None;
        if let Some(backup) = &options.backup {
            let (both, plays) = back_up(source, backup, block_frames(options, keys, coding), clock)?;
            source = both;
            meter = Some(plays);
        }
        if let Some(length) = options.length {
            source = limited(source, frames_of(length, format));
        }
        let bit_rate = keys.bit_rate.or(options.bit_rate);
        let groups = read_groups(keys.groups.as_deref().or(options.groups.as_deref()), format, options)?;
        for range in groups.ranges() {
            coding.check(StreamFormat::new(format.rate(), range.len() as u32)?)?;
        }
        if coding != Coding::Opus && bit_rate.is_some() {
            return Err(Error::usage(format!(
                "a bit rate is for Opus, and {} has that of its samples: omit it, or write --format opus",
                coding.name()
            )));
        }
        if options.plain && groups.count() > 1 {
            return Err(Error::usage(
                "channel groups are told apart by a header extension, which --plain leaves out: omit one of them",
            ));
        }
        let tv = options.purpose == Purpose::TvSound;
        let in_step = options.in_step.or(tv.then_some(LipSync::SKEW));
        check_step(in_step, told)?;
        let programmes = further_programmes(options, format)?;
        let is_live = source.is_live()
            || programmes.iter().flat_map(|(_, others)| others).any(|other| other.source.is_live());
        let playout_delay = told.or(in_step.map(PlayoutDelay::Of)).unwrap_or({
            // Live sound is of no use when it is old; of a file, all sound is wanted.
            if is_live { PlayoutDelay::Of(DEFAULT_LATENCY) } else { PlayoutDelay::Unbounded }
        });
        let video = VideoFile::open_all(&options.video, options.video_rate)?;
        let further_video = further_video(options)?;
        check_video(!video.is_empty(), framing, options)?;
        let overs = overs(&uri, options)?;
        check_data(&uri, framing, options)?;
        let data = DataInput::open_all(options)?;
        let described = video.first().zip(overs.of_pictures()).filter(|_| options.sdp.is_some());
        let described = described.map(|(video, over)| video.described(over.address()));
        let patience = match playout_delay {
            PlayoutDelay::Of(delay) => delay,
            PlayoutDelay::Unbounded => DEFAULT_LATENCY,
        };
        let stack = uri.stack(options.seed, patience, framing);
        let stack = StackPlan { groups: groups.count(), ..stack };
        let protect = keys.protect.unwrap_or(options.protect);
        let (notes, device) = (opened.notes, opened.device);
        let plan = SendPlan {
            uri,
            stack,
            source,
            video,
            further_video,
            overs,
            data,
            described,
            programmes,
            notes,
            device,
            backup: meter,
            format,
            groups,
            coding,
            bit_rate,
            playout_delay,
            protect,
            in_step,
            tv,
            clock,
        };
        // What makes packets on no path is refused before anything is opened.
        plan.packet(options, usize::MAX).one_packet_block(plan.groups)?;
        Ok(plan)
    }

    /// Whether receivers call.
    pub fn serves(&self) -> bool {
        matches!(self.uri.target, Target::Listen(_))
    }

    /// The pictures in words, after those for the sound.
    pub fn described_video(&self, options: &SendOptions) -> String {
        let video = self.video.first().zip(options.video.first());
        video.map_or_else(String::new, |(video, path)| {
            let versions = match self.video.len() {
                1 => String::new(),
                versions => format!(" in {versions} versions"),
            };
            let over = over(self.overs.of_pictures());
            let further = match self.further_video.len() {
                0 => String::new(),
                1 => " and a further track of pictures".into(),
                tracks => format!(" and {tracks} further tracks of pictures"),
            };
            format!(" with {} of {}{versions}{further}{over}", video.describe(), path.display())
        })
    }

    pub fn describe(&self, options: &SendOptions) -> String {
        let verb = if matches!(self.uri.target, Target::Call(_)) { "to" } else { "to each caller of" };
        let delay = match self.playout_delay {
            PlayoutDelay::Unbounded => "packets never expire".to_string(),
            PlayoutDelay::Of(delay) => {
                format!("packets older than {} expire", format_duration(delay))
            }
        };
        let step = self.in_step.map_or_else(String::new, |delay| {
            format!("; receivers play {} after capture, in step", format_duration(delay))
        });
        let named = |one: &ProgrammeSource| format!("{} ({})", one.name, one.source);
        let named: Vec<String> = options.programmes.iter().map(named).collect();
        let sources = if named.is_empty() { options.source.clone() } else { named.join(", ") };
        let groups = match self.groups.count() {
            1 => String::new(),
            _ => format!(", in groups of {}", self.groups),
        };
        let video = self.described_video(options);
        let data = match options.data.len() {
            0 => String::new(),
            _ => format!(" and data ({}){}", options.data.join(", "), over(self.overs.of_data())),
        };
        let protect = match self.protect.times {
            0 | 1 => String::new(),
            times => format!("; each packet is sent {times} times"),
        };
        format!(
            "sending {sources} ({}{groups}, {}){video}{data} {verb} {}://{}; {delay} unless the receiver reports another playout delay{protect}{step}",
            self.format,
            self.coded(),
            self.uri.transport.scheme,
            self.uri.address(),
        )
    }

    /// How packets hold the sound, as a word.
    pub fn coded(&self) -> String {
        match self.coding {
            Coding::Pcm(sample) => sample.name().into(),
            Coding::Opus => {
                let each = self.groups.ranges().map(|range| u64::from(opus::usual_bit_rate(range.len())));
                format!("opus at {}", self.bit_rate.unwrap_or(BitRate(each.sum())))
            }
        }
    }

    pub fn track(&self, options: &SendOptions, max_packet: usize, woken: bool) -> SendTrackConfig {
        SendTrackConfig {
            packet: self.packet(options, max_packet),
            groups: self.groups,
            protect: self.protect,
            epoch: self.clock.epoch(),
            seed: options.seed ^ unguessable(),
            woken,
            // Who changes programmes records none of them whole.
            keeps: if self.programmes.is_some() { 0 } else { KEPT_BYTES },
        }
    }

    fn packet(&self, options: &SendOptions, max_packet: usize) -> PacketConfig {
        let keys = &self.uri.keys;
        let block_frames = block_frames(options, keys, self.coding);
        let mut packet = PacketConfig::new(self.format, self.coding, block_frames);
        packet.max_packet = max_packet;
        // A packet of Opus is a block, and can't be divided.
        packet.ptime = keys.ptime.or(options.ptime).filter(|_| self.coding != Coding::Opus);
        packet.bit_rate = self.bit_rate.map(|rate| u32::try_from(rate.0).unwrap_or(u32::MAX));
        packet.payload_type = options.payload_type.unwrap_or(packet.payload_type);
        if options.plain {
            packet.extensions = ExtensionIds::NONE;
        }
        packet
    }
}

/// Sample frames in a block.
pub(super) fn block_frames(options: &SendOptions, keys: &StreamKeys, coding: Coding) -> u32 {
    let usual = match (coding, keys.ptime.or(options.ptime)) {
        (Coding::Pcm(_), _) => USUAL_BLOCK,
        (Coding::Opus, None) => opus::USUAL_FRAMES,
        (Coding::Opus, Some(time)) => frames_in(time, opus::RATE),
    };
    options.block_frames.unwrap_or(usual)
}

/// Opens the further tracks of pictures.
fn further_video(options: &SendOptions) -> Result<Vec<Vec<VideoFile>>, Error> {
    let tracks = &options.video_tracks;
    if tracks.is_empty() {
        return Ok(Vec::new());
    }
    let why = if options.video.is_empty() {
        "--video-track is a track of pictures beside that of --video: name the first one with --video"
    } else if tracks.len() >= MOST_VIDEO_TRACKS {
        return Err(Error::usage(format!(
            "--video-track: a stream has {MOST_VIDEO_TRACKS} tracks of pictures at most, that of --video and {} more",
            MOST_VIDEO_TRACKS - 1
        )));
    } else if options.sdp.is_some() {
        "an SDP file describes one track of pictures: omit --sdp, or --video-track"
    } else {
        return tracks.iter().map(|files| VideoFile::open_all(files, options.video_rate)).collect();
    };
    Err(Error::usage(why))
}

/// Where what goes beside the sound goes, in words.
fn over(over: Option<&VideoOver>) -> String {
    over.map_or_else(String::new, |over| format!(" over {}", over.text()))
}

/// The transports that pictures and data have for themselves.
fn overs(sound: &StreamUri, options: &SendOptions) -> Result<Overs, Error> {
    // Other programs have a port for each medium.
    let described = options.sdp.is_some() && !options.video.is_empty();
    let own = described.then_some(PLAIN);
    let (video, data) = (options.video_over.as_deref().or(own), options.data_over.as_deref());
    // Pictures to a group take the way of its sound.
    let socket = if described { &sound.keys.socket } else { &options.socket };
    let read = |text: &str| StreamUri::read(text, socket)?.without_role();
    let overs = Overs::read((video, data), sound, (socket, described), read)?;
    let Some(first) = overs.iter().next() else { return Ok(overs) };
    if !options.also.is_empty() || !options.switch.is_empty() {
        return Err(Error::usage(format!(
            "{} gives sound and {} a transport each, and --also and --switch are for one that has both: omit one of them",
            first.what().option(),
            first.what().name()
        )));
    }
    let is_plain = |uri: &StreamUri| uri.transport.profile_of("").message_overhead == 0;
    let is_described = overs.of_pictures().is_some_and(VideoOver::is_plain) && is_plain(sound);
    if described && !(is_described && matches!(sound.target, Target::Call(_))) {
        return Err(Error::usage(
            "an SDP file describes sound and pictures over plain RTP to a receiver, or a group, that is called: send to rtp://HOST:PORT, \
             with --video-over rtp or without it, or omit --sdp",
        ));
    }
    Ok(overs)
}

/// The transport that other programs know.
const PLAIN: &str = "rtp";

/// `source` with what takes over from it.
fn back_up(
    source: Box<dyn Source>,
    backup: &Backup,
    block_frames: u32,
    clock: OsClock,
) -> Result<(Box<dyn Source>, BackupMeter), Error> {
    let opened = open_source(&backup.source).map_err(|error| Error::usage(format!("--backup: {error}")))?;
    let second = converted(opened.source, source.format(), None)?;
    let (both, meter) = BackedUp::new(source, second, backup.after, block_frames as usize, clock);
    Ok((Box::new(both), meter))
}

/// Sample frames in this time, rounded.
fn frames_in(time: Duration, rate: u32) -> u32 {
    let frames = (time.as_nanos() * u128::from(rate) + 500_000_000) / 1_000_000_000;
    u32::try_from(frames).unwrap_or(u32::MAX)
}

/// The format that a source of format `has` is sent in, and where its channels go.
pub(crate) fn stream_format(
    options: &SendOptions,
    keys: &StreamKeys,
    has: StreamFormat,
) -> Result<(StreamFormat, Option<ChannelMap>), Error> {
    let usual = match keys.coding.or(options.coding) {
        Some(Coding::Opus) => opus::RATE,
        Some(Coding::Pcm(_)) | None => has.rate(),
    };
    let rate = keys.rate.or(options.rate).unwrap_or(usual);
    let channels = keys.channels.or(options.channels).unwrap_or(has.channels() as u32);
    let map = options.channel_map.as_deref().map(|text| ChannelMap::parse(has.channels(), text)).transpose();
    let map = map.map_err(|error| Error::usage(error.to_string()))?;
    let channels = map.as_ref().map_or(channels, |map| map.outputs() as u32);
    Ok((StreamFormat::new(rate, channels)?, map))
}

/// Sample frames of a block of uncompressed sound.
const USUAL_BLOCK: u32 = 256;
