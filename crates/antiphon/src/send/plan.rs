//! What is decided of a stream that is sent before anything is opened.

use antiphon_media::packet::PacketConfig;
use antiphon_media::{ChannelGroups, ChannelMap, SampleFormat, Source, StreamFormat};
use antiphon_net::{OsClock, Target};
use antiphon_proto::Substrate;
use antiphon_session::{
    KEPT_BYTES, PlayoutDelay, Repetition, SendTrackConfig, StreamFraming, converted, limited,
};
use antiphon_sound::{Notes, open_source};

use crate::groups::read_groups;
use crate::transport::{StackPlan, StreamKeys, StreamUri, unguessable};
use crate::{DEFAULT_LATENCY, Error, SendOptions};

/// Everything that can be decided before the media thread starts.
pub(super) struct SendPlan {
    pub uri: StreamUri,
    pub stack: StackPlan,
    pub source: Box<dyn Source>,
    pub notes: Notes,
    pub format: StreamFormat,
    pub groups: ChannelGroups,
    pub sample: SampleFormat,
    /// For a receiver that has not reported its own.
    pub playout_delay: PlayoutDelay,
    pub protect: Repetition,
    pub clock: OsClock,
}

impl SendPlan {
    pub fn new(options: &SendOptions, clock: OsClock) -> Result<Self, Error> {
        let uri = StreamUri::read(&options.target, &options.socket)?.without_role()?;
        let (transport, keys) = (uri.transport, &uri.keys);
        if transport.substrate == Substrate::Udp && matches!(uri.target, Target::Listen(_)) {
            return Err(Error::usage(format!(
                "'{}' has no receiver: write {}://HOST:{}",
                options.target,
                transport.scheme,
                keys.default_port(transport)
            )));
        }
        let framing = keys.framing.unwrap_or(options.framing);
        if framing != StreamFraming::Rtp && options.sdp.is_some() {
            return Err(Error::usage(format!(
                "an SDP file describes plain RTP, and other players do not know the framing '{}': omit --sdp or the framing",
                framing.name()
            )));
        }
        options.spool.check()?;
        let opened = open_source(&options.source)?;
        let has = opened.source.format();
        let (format, map) = stream_format(options, keys, has)?;
        let mut source = converted(opened.source, format, map)?;
        if let Some(length) = options.length {
            source = limited(source, (length.as_secs_f64() * f64::from(format.rate())).round() as u64);
        }
        let sample = keys.sample.or(options.sample).unwrap_or(source.sample_format());
        let groups = read_groups(keys.groups.as_deref().or(options.groups.as_deref()), format, options)?;
        let playout_delay = keys.latency.map(PlayoutDelay::Of).or(options.latency).unwrap_or({
            // Live sound is of no use when it is old; of a file, all sound is wanted.
            if source.is_live() { PlayoutDelay::Of(DEFAULT_LATENCY) } else { PlayoutDelay::Unbounded }
        });
        let patience = match playout_delay {
            PlayoutDelay::Of(delay) => delay,
            PlayoutDelay::Unbounded => DEFAULT_LATENCY,
        };
        let stack = uri.stack(options.seed, patience, framing);
        let stack = StackPlan { groups: groups.count(), ..stack };
        let protect = keys.protect.unwrap_or(options.protect);
        let notes = opened.notes;
        Ok(SendPlan { uri, stack, source, notes, format, groups, sample, playout_delay, protect, clock })
    }

    pub fn describe(&self, options: &SendOptions) -> String {
        let verb = if matches!(self.uri.target, Target::Call(_)) { "to" } else { "to each caller" };
        let delay = match self.playout_delay {
            PlayoutDelay::Unbounded => "packets never expire".to_string(),
            PlayoutDelay::Of(delay) => {
                format!("packets older than {} expire", antiphon_core::units::format_duration(delay))
            }
        };
        let groups = match self.groups.count() {
            1 => String::new(),
            _ => format!(", in groups of {}", self.groups),
        };
        let protect = match self.protect.times {
            0 | 1 => String::new(),
            times => format!("; each packet is sent {times} times"),
        };
        format!(
            "sending {} ({}{groups}, {}) {verb} {}://{}; {delay} unless the receiver reports another playout delay{protect}",
            options.source,
            self.format,
            self.sample.name(),
            self.uri.transport.scheme,
            self.uri.address(),
        )
    }

    pub fn track(&self, options: &SendOptions, max_packet: usize, woken: bool) -> SendTrackConfig {
        SendTrackConfig {
            packet: self.packet(options, max_packet),
            groups: self.groups,
            protect: self.protect,
            epoch: self.clock.epoch(),
            seed: options.seed ^ unguessable(),
            woken,
            keeps: KEPT_BYTES,
        }
    }

    fn packet(&self, options: &SendOptions, max_packet: usize) -> PacketConfig {
        let mut packet = PacketConfig::new(self.format, self.sample, options.block_frames);
        packet.max_packet = max_packet;
        packet.ptime = self.uri.keys.ptime.or(options.ptime);
        packet.payload_type = options.payload_type.unwrap_or(packet.payload_type);
        packet
    }
}

/// The format that a source of format `has` is sent in, and where its channels go.
pub(crate) fn stream_format(
    options: &SendOptions,
    keys: &StreamKeys,
    has: StreamFormat,
) -> Result<(StreamFormat, Option<ChannelMap>), Error> {
    let rate = keys.rate.or(options.rate).unwrap_or(has.rate());
    let channels = keys.channels.or(options.channels).unwrap_or(has.channels() as u32);
    let map = options.channel_map.as_deref().map(|text| ChannelMap::parse(has.channels(), text)).transpose();
    let map = map.map_err(|error| Error::usage(error.to_string()))?;
    let channels = map.as_ref().map_or(channels, |map| map.outputs() as u32);
    Ok((StreamFormat::new(rate, channels)?, map))
}
