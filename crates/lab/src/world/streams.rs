//! Makes the stations of a stream, and draws its figures.

use antiphon_core::{Endpoint, Instant, Rng, SendError, Wire as WireKind};
use antiphon_measure::BufferRule;
use antiphon_media::ChannelGroups;
use antiphon_media::medusa::{BlockMode, MAX_CHANNELS};
use antiphon_proto::{OpenArgs, OpenError, Role, Transport};
use antiphon_session::{Framed, Framing, ReceiveStation, Reflector, ReflectorConfig};

use super::check;
use super::error::WorldError;
use super::generator::{Generator, Listener, Pace, RTP_HEADER};
use super::medusa::{BLOCK_TIME, Medusa, Sending};
use super::meter::{Meter, SentLog, SharedLog, frames_between};
use super::network::Network;
use super::packet::UDP_HEADERS;
use super::socket::{Party, Socket, Wire, forward};
use super::sound::{self, Clip};
use super::stream_end::{LOW_WATER, StreamEnd};
use crate::figures::{Course, StreamFigures};
use crate::setup::{Content, StreamSpec};
use crate::tcp::Tcp;

/// What the stations of one stream are made from.
pub struct Maker<'a> {
    pub spec: &'a StreamSpec,
    pub transport: &'static Transport,
    pub flow: u32,
    /// The largest UDP payload on its way.
    pub most: usize,
    pub start: Instant,
    /// When streams without an end of their own stop.
    pub until: Instant,
    pub seed: u64,
}

impl<'a> Maker<'a> {
    /// Checks what can be checked before there is a world. `mtu` is the largest IP packet on the stream's way.
    pub fn new(
        spec: &'a StreamSpec,
        flow: u32,
        mtu: usize,
        until: Instant,
        seed: u64,
    ) -> Result<Self, WorldError> {
        let stream = || spec.name.clone();
        let transport = |error: OpenError| WorldError::Transport { stream: stream(), error: Box::new(error) };
        let found = antiphon_proto::find(&spec.transport).map_err(transport)?;
        let keys = found.keys.iter().map(|key| key.name);
        spec.query
            .only(keys)
            .map_err(|error| WorldError::Query { stream: stream(), error: Box::new(error) })?;
        let refuse = |what: &'static str| {
            Err(WorldError::NoGroup { stream: stream(), receivers: spec.to.len(), what })
        };
        match spec.to.len() {
            0 => return Err(WorldError::NoReceiver(stream())),
            1 => {}
            _ if !found.strengths.multicast => return refuse(found.scheme),
            _ if spec.reflected => return refuse("a stream that is reflected"),
            _ => {}
        }
        let start = Instant::ZERO + spec.start;
        let most = mtu - UDP_HEADERS;
        let seed = Rng::fork(seed, &format!("stream {}", spec.name)).next_u64();
        let maker = Maker { spec, transport: found, flow, most, start, until, seed };
        maker.check()?;
        Ok(maker)
    }

    fn check(&self) -> Result<(), WorldError> {
        check::tcp(&self.spec.name, &self.spec.tcp)?;
        if self.spec.to.len() > MOST_RECEIVERS {
            return Err(self.quantity("a group has 10000 receivers at most"));
        }
        let frame = match &self.spec.content {
            Content::Packets { frame, interval, .. } => {
                if interval.is_zero() {
                    return Err(self.quantity("frames need an interval above zero, such as 7.4ms"));
                }
                if *frame < RTP_HEADER {
                    return Err(self.quantity(&format!(
                        "a frame of {frame} bytes has no room for the {RTP_HEADER} bytes of an RTP header"
                    )));
                }
                *frame
            }
            Content::Medusa { channels, .. } => {
                if !(1..=u16::from(MAX_CHANNELS)).contains(channels) || !self.spec.reflected {
                    return Err(self.quantity("Medusa sends 1 to 16 channels to a reflector"));
                }
                RTP_HEADER
            }
            Content::Sound { sample_rate, groups, block } => {
                if *sample_rate == 0 || *block == 0 {
                    return Err(self.quantity("sound needs a sample rate and a block above zero"));
                }
                if self.spec.reflected {
                    return Err(self.quantity("only streams of packets can be reflected"));
                }
                self.clip(*sample_rate, *groups, *block)?;
                RTP_HEADER
            }
        };
        if self.frames() > MOST_FRAMES {
            return Err(
                self.quantity(&format!("{} frames are more than the {MOST_FRAMES} of a run", self.frames()))
            );
        }
        let max = self.endpoint(Role::Caller, self.seed)?.profile().max_frame;
        if frame > max {
            let error = SendError::TooLarge { len: frame, max };
            return Err(WorldError::Frame { stream: self.spec.name.clone(), error });
        }
        Ok(())
    }

    fn quantity(&self, what: &str) -> WorldError {
        WorldError::quantity(&self.spec.name, what)
    }

    /// How many frames it sends at most.
    pub fn frames(&self) -> u64 {
        match &self.spec.content {
            Content::Packets { interval, count, .. } => {
                let most = frames_between(self.start, self.until, *interval);
                count.unwrap_or(most).min(most)
            }
            Content::Medusa { channels, blocks, .. } => {
                let most = frames_between(self.start, self.until, BLOCK_TIME);
                most.min(*blocks).saturating_mul((*channels).into())
            }
            Content::Sound { sample_rate, groups, block } => {
                let clip = self.clip(*sample_rate, *groups, *block);
                clip.map_or(0, |clip| clip.packets(self.until.since(self.start)))
            }
        }
    }

    /// Whether the transport keeps the pace itself, as the published loop of simple retransmission does.
    fn keeps_pace(&self) -> bool {
        self.transport.scheme == "arq" && self.spec.query.value("pace").is_some()
    }

    /// What the sound of this stream is, where it is one of sound.
    pub fn clip(&self, rate: u32, groups: ChannelGroups, block: u32) -> Result<Clip, WorldError> {
        Clip::new(&self.spec.name, rate, groups, block, self.most)
    }

    /// An endpoint of the stream's transport.
    pub fn endpoint(&self, role: Role, seed: u64) -> Result<Box<dyn Endpoint>, WorldError> {
        let args = OpenArgs {
            role,
            query: &self.spec.query,
            seed,
            now: if role == Role::Caller { self.start } else { Instant::ZERO },
            max_datagram: self.most,
            latency: self.spec.latency,
        };
        (self.transport.open)(&args)
            .map_err(|error| WorldError::Transport { stream: self.spec.name.clone(), error: Box::new(error) })
    }

    fn seed(&self, label: &str) -> u64 {
        Rng::fork(self.seed, label).next_u64()
    }

    /// The sender's socket, then one for each receiver.
    pub fn sockets(&self) -> Result<(SharedLog, Vec<Socket>), WorldError> {
        let log = SentLog::shared(self.frames() as usize);
        let (near, stream) = self.near(&log)?;
        let mut sockets = vec![self.socket(near, stream, None)];
        for receiver in 0..self.spec.to.len() {
            let meter = Meter::new(&log, self.frames() as usize, self.rule()?);
            sockets.push(self.socket(self.far(meter, receiver)?, stream, Some(receiver)));
        }
        Ok((log, sockets))
    }

    /// How the buffer of its receivers is judged.
    pub fn rule(&self) -> Result<BufferRule, WorldError> {
        Ok(match self.spec.content {
            Content::Packets { frame, interval, .. } => BufferRule::for_packets(interval, frame as u32),
            Content::Sound { sample_rate, groups, block } => self.clip(sample_rate, groups, block)?.rule(),
            Content::Medusa { .. } => BufferRule::for_packets(BLOCK_TIME, PACKET_BYTES),
        })
    }

    /// The sender's station, which notes in `log` what it sends; and whether it is on a byte stream.
    pub fn near(&self, log: &SharedLog) -> Result<(Party, bool), WorldError> {
        let (frame, interval) = match self.spec.content {
            Content::Packets { frame, interval, .. } => (frame, interval),
            Content::Sound { sample_rate, groups, block } => {
                return sound::near(self, &self.clip(sample_rate, groups, block)?, log);
            }
            Content::Medusa { channels, blocks, mode } => return self.medusa(log, channels, blocks, mode),
        };
        let endpoint = self.endpoint(Role::Caller, self.seed("near"))?;
        let stream = endpoint.profile().wire == WireKind::ByteStream;
        let reflected = self.spec.reflected;
        let pace = Pace {
            frame,
            interval,
            count: self.frames(),
            until: self.until,
            patience: self.spec.patience,
            blocks: stream && self.spec.patience.is_none(),
            asked: self.keeps_pace(),
            reflected,
        };
        let rule = self.rule()?;
        let back = reflected.then(|| Meter::new(log, self.frames() as usize, rule));
        let first = Rng::fork(self.seed, "number").next_u32() as u16;
        Ok((Party::Generator(Box::new(Generator::new(endpoint, pace, log, back, first))), stream))
    }

    /// The station of a receiver, which measures with `meter` unless it reflects.
    pub fn far(&self, meter: Meter, receiver: usize) -> Result<Party, WorldError> {
        let seed = self.seed(&format!("far {receiver}"));
        if let Content::Sound { sample_rate, groups, block } = self.spec.content {
            return sound::far(self, &self.clip(sample_rate, groups, block)?, meter, seed);
        }
        let endpoint = self.endpoint(Role::Listener, seed)?;
        Ok(if self.spec.reflected {
            self.reflector(endpoint)
        } else {
            Party::Listener(Box::new(Listener::new(endpoint, meter)))
        })
    }

    fn reflector(&self, endpoint: Box<dyn Endpoint>) -> Party {
        let patience = self.spec.patience.unwrap_or(self.until.since(Instant::ZERO));
        let medusa = matches!(self.spec.content, Content::Medusa { .. });
        let one_at_a_time = medusa && endpoint.profile().wire == WireKind::ByteStream;
        let config = ReflectorConfig { patience, one_at_a_time, ..ReflectorConfig::default() };
        Party::Reflector(Box::new(Reflector::new(endpoint, config)))
    }

    /// The program of paper `transport-alternatives`, and whether it is on a byte stream.
    fn medusa(
        &self,
        log: &SharedLog,
        channels: u16,
        blocks: u64,
        mode: BlockMode,
    ) -> Result<(Party, bool), WorldError> {
        let endpoint = self.endpoint(Role::Caller, self.seed("near"))?;
        let stream = endpoint.profile().wire == WireKind::ByteStream;
        let framing = Framing { send_timeout: self.spec.patience, ..Framing::default() };
        let first = Rng::fork(self.seed, "number").next_u32() as u16;
        let (until, patience, seed) = (self.until, self.spec.patience, self.seed("sound"));
        let blocks = blocks.min(self.frames());
        // A one-to-many socket has nobody to connect to before it sends (RFC 6458 §3.1).
        let calls_with_frame = self.spec.query.value("style") == Some("many");
        let sending = Sending { channels, blocks, mode, until, patience, calls_with_frame, first, seed };
        let frames = self.frames() as usize;
        let meter = Meter::new(log, frames, self.rule()?);
        let medusa = Medusa::new(Framed::new(endpoint, framing), sending, log, meter);
        let medusa = medusa.map_err(|error| self.quantity(&error.to_string()))?;
        Ok((Party::Medusa(Box::new(medusa)), stream))
    }

    /// A socket for the sender, or for a receiver.
    pub fn socket(&self, party: Party, stream: bool, receiver: Option<usize>) -> Socket {
        let way = receiver.map_or(forward(self.spec.to.len()), |receiver| receiver as u16 + 1);
        let starts = if receiver.is_none() { self.start } else { Instant::ZERO };
        let wire = if stream {
            let tcp =
                if receiver.is_none() { Tcp::connect(self.spec.tcp) } else { Tcp::accept(self.spec.tcp) };
            // A generator without patience fills the whole send buffer, as a program does whose write blocks.
            let fills = match self.spec.content {
                Content::Packets { .. } => self.spec.patience.is_none(),
                Content::Medusa { .. } => true,
                Content::Sound { .. } => false,
            };
            Wire::Stream(Box::new(StreamEnd::new(tcp, self.flow, way)), (!fills).then_some(LOW_WATER))
        } else {
            Wire::Datagrams { most: self.most }
        };
        Socket::new(party, wire, self.flow, way, starts)
    }
}

/// What a receiver of sound had to make up, as a share of all it played.
pub fn concealed_percent(station: &ReceiveStation) -> Option<f64> {
    let playout = station.receiver().playout()?;
    let played = playout.played_frames + playout.concealed_frames;
    (played > 0).then(|| 100.0 * playout.concealed_frames as f64 / played as f64)
}

/// The figures of a stream at one of its receivers.
pub fn figures(sender: &Socket, receiver: &Socket, flow: u32, net: &Network) -> StreamFigures {
    let mut figures = match (&sender.party, &receiver.party) {
        (_, Party::Listener(listener)) => listener.meter().figures(false),
        (Party::Send(near), Party::Receive(far, meter)) => {
            let mut figures = meter.borrow().figures(false);
            let counters = near.counters();
            figures.expired = Some((counters.expired + counters.refused) as f64);
            figures.concealed_percent = concealed_percent(far);
            figures
        }
        (Party::Generator(generator), _) => {
            generator.meter().map(|meter| meter.figures(true)).unwrap_or_default()
        }
        (Party::Medusa(medusa), _) => medusa.meter().figures(true),
        _ => StreamFigures::default(),
    };
    let repeated = match (&sender.party, sender.stream_end()) {
        (_, Some(end)) => Some(end.tcp.stats().retransmitted_segments),
        (Party::Generator(generator), _) => Some(generator.endpoint().path_stats().counters.retransmitted),
        (Party::Medusa(medusa), _) => Some(medusa.endpoint().path_stats().counters.retransmitted),
        (Party::Send(station), _) => Some(station.path_stats().counters.retransmitted),
        _ => None,
    };
    let tally = net.pool.tally(flow);
    figures.wire_bytes = Some(net.flow(flow as usize).wire_bytes as f64);
    figures.retransmissions = repeated.map(|count| count as f64);
    figures.mac_exhausted = Some(tally.exhausted.get() as f64);
    figures.queue_dropped = Some(tally.overflowed.get() as f64);
    figures
}

/// What became of each frame at a receiver that measures, or at a sender whose frames return.
pub fn course(sender: &Socket, receiver: &Socket) -> Option<Course> {
    match (&sender.party, &receiver.party) {
        (_, Party::Listener(listener)) => Some(listener.meter().course()),
        (_, Party::Receive(_, meter)) => Some(meter.borrow().course()),
        (Party::Generator(generator), _) => generator.meter().map(Meter::course),
        (Party::Medusa(medusa), _) => Some(medusa.meter().course()),
        _ => None,
    }
}

/// Frames of one stream in a run: more than a day of 5 ms frames, of each of which 24 bytes are kept.
const MOST_FRAMES: u64 = 20_000_000;
/// Of Medusa's data, for figures that ask for a size.
const PACKET_BYTES: u32 = 940;
/// Each has a station of its own.
const MOST_RECEIVERS: usize = 10_000;
