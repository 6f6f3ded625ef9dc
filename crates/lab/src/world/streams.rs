//! Builds the participants of a stream.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::wire::TCP_NOT_SENT_LOW_WATER;
use antiphon_core::{Endpoint, Instant, Rng, Role, SendError, Single, Stack, WireId};
use antiphon_measure::BufferRule;
use antiphon_media::medusa::{BlockMode, MAX_CHANNELS};
use antiphon_media::packet::RTP_HEADER;
use antiphon_media::rtcp::Token;
use antiphon_proto::{OpenError, StackArgs, Substrate, Transport};
use antiphon_session::{Framing, Joining, Policy, Reflector, ReflectorConfig, framed, of_messages};

use super::answering;
use super::check;
use super::copies::{Copies, SharedCopies};
use super::error::WorldError;
use super::generator::{Generator, Law, Listener, Pace};
use super::headers::Reader;
use super::medusa::{BLOCK_TIME, Medusa, Sending};
use super::meter::{Meter, SentLog, SharedLog, SharedMeter, frames_between};
use super::packet::UDP_HEADERS;
use super::participant::{Kind, StreamParticipant};
use super::socket::{Planned, Port, Socket, WIRE, Wire, forward};
use super::sound::{self, Clip, SILENCE};
use super::stream_end::StreamEnd;
use super::timer::Timer;
use super::unheard;
use crate::setup::{Content, Headers, Setup, SoundSpec, StreamSpec};
use crate::tcp::Tcp;

/// Settings of the participants of one stream.
pub struct StreamBuilder<'a> {
    pub spec: &'a StreamSpec,
    pub transport: &'static Transport,
    pub flow: u32,
    /// The largest UDP payload on its path.
    pub most: usize,
    pub start: Instant,
    /// When streams without an end of their own stop.
    pub until: Instant,
    pub seed: u64,
    /// It is driven in real time.
    pub on_sockets: bool,
    /// Some node must know what datagrams carry, or how urgent they are.
    is_read: bool,
}

impl<'a> StreamBuilder<'a> {
    /// Checks what can be checked before there is a world. `spec` is of `setup`, `mtu` the largest IP packet on the stream's path.
    pub fn new(
        spec: &'a StreamSpec,
        setup: &Setup,
        flow: u32,
        mtu: usize,
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
            _ if !found.multicast => return refuse(found.scheme),
            _ if spec.reflected && !found.members => {
                return refuse("a stream whose receivers can't answer its sender");
            }
            _ => {}
        }
        let start = Instant::ZERO + spec.start;
        let most = mtu - UDP_HEADERS;
        let seed = Rng::fork(seed, &format!("stream {}", spec.name)).next_u64();
        let until = Instant::ZERO + setup.duration;
        let is_read = setup.nodes.iter().any(|node| node.cost.tells_control() || node.priorities);
        let builder = StreamBuilder {
            spec,
            transport: found,
            flow,
            most,
            start,
            until,
            seed,
            on_sockets: false,
            is_read,
        };
        builder.check()?;
        Ok(builder)
    }

    fn check(&self) -> Result<(), WorldError> {
        check::tcp(&self.spec.name, &self.spec.tcp)?;
        if self.spec.to.len() > MOST_RECEIVERS {
            return Err(self.quantity("a group has 10000 receivers at most"));
        }
        if !self.spec.further.is_empty() && !matches!(self.spec.content, Content::Sound(_)) {
            return Err(self.quantity("only sound changes its transport, or goes over several"));
        }
        let frame = self.check_content()?;
        if self.frames() > MOST_FRAMES {
            return Err(
                self.quantity(&format!("{} packets are more than the {MOST_FRAMES} of a run", self.frames()))
            );
        }
        let profile = self.endpoint(Role::Caller, self.seed)?.profile();
        let max = profile.max_message;
        if frame > max {
            let error = SendError::TooLarge { len: frame, max };
            return Err(WorldError::Frame { stream: self.spec.name.clone(), error });
        }
        check::timer(self.spec)?;
        check::video(self.spec)?;
        check::pictures(self.spec, self.most)?;
        check::answered(self.spec, &profile)?;
        check::self_paced(self.spec, &profile)?;
        check::priority(self.spec, &profile)?;
        check::headers(self.spec, &profile, self.most)
    }

    /// Checks its content; returns the minimum size of a packet in bytes.
    fn check_content(&self) -> Result<usize, WorldError> {
        Ok(match &self.spec.content {
            Content::Packets { frame, interval, .. } => {
                if interval.is_zero() {
                    return Err(self.quantity("packets need an interval above zero, such as 7.4ms"));
                }
                if *frame < RTP_HEADER {
                    return Err(self.quantity(&format!(
                        "a packet of {frame} bytes has no room for the {RTP_HEADER} bytes of an RTP header"
                    )));
                }
                *frame
            }
            Content::SelfPaced { frame, .. } => *frame,
            Content::Video(video) => video.layout.packet.min(video.layout.frame),
            Content::Medusa { channels, .. } => {
                if !(1..=u16::from(MAX_CHANNELS)).contains(channels) || !self.spec.reflected {
                    return Err(self.quantity("Medusa sends 1 to 16 channels to a reflector"));
                }
                RTP_HEADER
            }
            Content::Sound(sound) => {
                if sound.sample_rate == 0 || sound.block == 0 {
                    return Err(self.quantity("sound needs a sample rate and a block above zero"));
                }
                if self.spec.reflected {
                    return Err(self.quantity("only streams of packets can be reflected"));
                }
                self.clip(sound)?;
                RTP_HEADER
            }
        })
    }

    fn quantity(&self, what: &str) -> WorldError {
        WorldError::quantity(&self.spec.name, what)
    }

    /// The most frames that it sends.
    pub fn frames(&self) -> u64 {
        match &self.spec.content {
            Content::Packets { interval, count, .. } => {
                let most = frames_between(self.start, self.until, *interval);
                count.unwrap_or(most).min(most)
            }
            Content::SelfPaced { count, .. } => *count,
            Content::Video(video) => video.layout.count.saturating_mul(video.layout.packets()),
            Content::Medusa { channels, blocks, .. } => {
                let most = frames_between(self.start, self.until, BLOCK_TIME);
                most.min(*blocks).saturating_mul((*channels).into())
            }
            Content::Sound(sound) => {
                self.clip(sound).map_or(0, |clip| clip.packets(self.until.since(self.start)))
            }
        }
    }

    /// The sound of this stream, if it is one of sound.
    fn clip(&self, sound: &SoundSpec) -> Result<Clip, WorldError> {
        Clip::new(&self.spec.name, sound, self.most)
    }

    /// An endpoint of the stream's transport.
    pub(super) fn endpoint(&self, role: Role, seed: u64) -> Result<Box<dyn Endpoint>, WorldError> {
        let now = if role == Role::Caller { self.start } else { Instant::ZERO };
        Ok(self.stack(seed)?.open(now, role))
    }

    /// Opens its endpoints.
    pub fn stack(&self, seed: u64) -> Result<Rc<dyn Stack>, WorldError> {
        let query = &self.spec.query;
        let group = self.spec.to.len() > 1;
        let args = StackArgs { group, ..StackArgs::new(query, seed, self.most, self.spec.latency) };
        let stack = (self.transport.stack)(&args).map_err(|error| WorldError::Transport {
            stream: self.spec.name.clone(),
            error: Box::new(error),
        })?;
        let unheard = self.spec.unheard;
        let stack = if unheard.share.0 > 0.0 { unheard::around(stack, unheard, seed) } else { stack };
        Ok(if self.spec.answers { answering::around(stack) } else { stack })
    }

    /// Whether it is on a byte stream.
    pub(super) fn is_stream(&self) -> bool {
        self.transport.substrate == Substrate::Tcp
    }

    /// A seed for one of its parts.
    pub fn fork(&self, label: &str) -> u64 {
        Rng::fork(self.seed, label).next_u64()
    }

    /// The log in which the sender's participant records what it sends.
    pub fn log(&self) -> Result<SharedLog, WorldError> {
        let groups = match &self.spec.content {
            Content::Sound(sound) => self.clip(sound)?.groups(),
            _ => 1,
        };
        Ok(SentLog::shared(self.frames() as usize, groups))
    }

    /// The sender's socket, then one for each receiver.
    pub fn sockets(&self) -> Result<Vec<Socket>, WorldError> {
        let log = self.log()?;
        let copies = self.copies();
        let mut sockets = vec![self.socket(self.near(&log)?, None, &copies)?];
        for receiver in 0..self.spec.to.len() {
            let far = self.far(self.meter(&log)?, receiver)?;
            sockets.push(self.socket(far, Some(receiver), &copies)?);
        }
        Ok(sockets)
    }

    /// A meter for all its frames.
    fn meter(&self, log: &SharedLog) -> Result<SharedMeter, WorldError> {
        let timer = self.spec.timer.map(|resolution| Timer {
            resolution,
            seed: self.fork("timer"),
            rounds_down: self.spec.timer_rounds_down,
        });
        let meter =
            Meter::new(log, self.frames() as usize, self.rule()?).watching(self.spec.watch).timed_by(timer);
        let meter = meter.of_video(self.video().map(|video| (video.layout, self.start)));
        Ok(Rc::new(RefCell::new(meter)))
    }

    /// The rule by which its receivers' buffer is judged.
    pub fn rule(&self) -> Result<BufferRule, WorldError> {
        Ok(match self.spec.content {
            Content::Packets { frame, interval, .. } => BufferRule::for_packets(interval, frame as u32),
            // Nothing plays them: the buffer's figures say nothing.
            Content::SelfPaced { frame, .. } => BufferRule::for_packets(Duration::ZERO, frame as u32),
            Content::Video(video) => BufferRule::for_packets(Duration::ZERO, video.layout.packet as u32),
            Content::Sound(sound) => self.clip(&sound)?.rule(),
            Content::Medusa { .. } => BufferRule::for_packets(BLOCK_TIME, PACKET_BYTES),
        })
    }

    /// The sender, which records in `log` what it sends.
    pub fn near(&self, log: &SharedLog) -> Result<StreamParticipant, WorldError> {
        match &self.spec.content {
            Content::Packets { frame, interval, .. } => self.generator(log, *frame, Law::Every(*interval)),
            Content::SelfPaced { frame, pacing, .. } => {
                self.generator(log, *frame, Law::Paced(*pacing, self.spec.patience))
            }
            Content::Video(video) => self.film(log, *video),
            Content::Sound(sound) => sound::near(self, &self.clip(sound)?, log),
            Content::Medusa { channels, blocks, mode } => self.medusa(log, *channels, *blocks, *mode),
        }
    }

    fn generator(&self, log: &SharedLog, frame: usize, law: Law) -> Result<StreamParticipant, WorldError> {
        let endpoint = self.endpoint(Role::Caller, self.fork("near"))?;
        let reflected = self.spec.reflected;
        let pace = Pace {
            frame,
            law: if endpoint.profile().paces_itself { Law::Asked } else { law },
            count: self.frames(),
            until: self.until,
            patience: self.spec.patience,
            blocks: self.is_stream() && self.spec.patience.is_none(),
            reflected,
            priority: self.spec.priority,
        };
        let back = reflected.then(|| self.meter(log)).transpose()?;
        let generator = Generator::new(endpoint, pace, log, back.clone(), self.first());
        Ok(StreamParticipant::new(Kind::Generator(Box::new(Single::new(generator))), back))
    }

    /// The RTP number of the first packet, if no session draws it.
    pub(super) fn first(&self) -> u16 {
        Rng::fork(self.seed, "number").next_u32() as u16
    }

    /// A receiver, which measures with `meter` unless it reflects. Of a group the first one does.
    pub fn far(&self, meter: SharedMeter, receiver: usize) -> Result<StreamParticipant, WorldError> {
        let seed = self.fork(&format!("far {receiver}"));
        if let Content::Sound(_) = self.spec.content {
            return sound::far(self, meter, seed);
        }
        if self.spec.reflected && receiver == 0 {
            return self.reflector(seed);
        }
        let listener = Listener::new(self.endpoint(Role::Listener, seed)?, Rc::clone(&meter))
            .when_delivered(self.video().is_some());
        Ok(StreamParticipant::new(Kind::Listener(Box::new(Single::new(listener))), Some(meter)))
    }

    fn reflector(&self, seed: u64) -> Result<StreamParticipant, WorldError> {
        let patience = self.spec.patience.unwrap_or(self.until.since(Instant::ZERO));
        let medusa = matches!(self.spec.content, Content::Medusa { .. });
        let one_at_a_time = medusa && self.is_stream();
        let stack = self.stack(seed)?;
        // The program returns what it receives without decoding it: where datagrams hold parts of a stream of bytes, none
        // of them looks like a message.
        let stack = if medusa { of_messages(stack) } else { stack };
        let config = ReflectorConfig { patience, one_at_a_time, ..ReflectorConfig::default() };
        let policy = Policy::Single { silence: SILENCE, streams: true };
        let reflector = Reflector::new(Instant::ZERO, WIRE, stack, policy, config);
        Ok(StreamParticipant::new(Kind::Reflector(Box::new(reflector)), None))
    }

    /// The program of paper `transport-alternatives`.
    fn medusa(
        &self,
        log: &SharedLog,
        channels: u16,
        blocks: u64,
        mode: BlockMode,
    ) -> Result<StreamParticipant, WorldError> {
        // Section 4.2: a send that fails is discarded, not tried again. Over a byte stream `send_timeout` sees to that.
        let gives_up_refused = !self.is_stream();
        let framing = Framing { send_timeout: self.spec.patience, gives_up_refused, ..Framing::default() };
        let endpoint = framed(self.stack(self.fork("near"))?, framing).open(self.start, Role::Caller);
        let sending = Sending {
            channels,
            blocks: blocks.min(self.frames()),
            mode,
            until: self.until,
            patience: self.spec.patience,
            first: self.first(),
            seed: self.fork("sound"),
            resamples: self.on_sockets,
        };
        let back = self.meter(log)?;
        let medusa = Medusa::new(endpoint, sending, log, Rc::clone(&back))
            .map_err(|error| self.quantity(&error.to_string()))?;
        Ok(StreamParticipant::new(Kind::Medusa(Box::new(Single::new(medusa))), Some(back)))
    }

    /// A socket for the sender, or for a receiver.
    fn socket(
        &self,
        participant: StreamParticipant,
        receiver: Option<usize>,
        copies: &Option<SharedCopies>,
    ) -> Result<Socket, WorldError> {
        let starts = if receiver.is_none() { self.start } else { Instant::ZERO };
        let port = self.port(WIRE, receiver)?.noting(copies.clone());
        Ok(Socket::new(participant, port, starts))
    }

    /// A record of repetitions, for the one protocol whose duplicates reach the application.
    fn copies(&self) -> Option<SharedCopies> {
        let published = self.spec.transport == "arq" && self.spec.query.value("mode") == Some("as-published");
        published.then(|| Copies::shared(self.frames() as usize))
    }

    /// The port of a wire, of the sender or of a receiver.
    fn port(&self, id: WireId, receiver: Option<usize>) -> Result<Port, WorldError> {
        let way = receiver.map_or(forward(self.spec.to.len()), |receiver| receiver as u16 + 1);
        let opens = if receiver.is_none() { self.start } else { Instant::ZERO };
        let wire = if self.is_stream() {
            let tcp =
                if receiver.is_none() { Tcp::connect(self.spec.tcp) } else { Tcp::accept(self.spec.tcp) };
            // A generator without patience fills the whole send buffer, like a program whose write blocks.
            let fills = match self.spec.content {
                Content::Packets { .. } | Content::SelfPaced { .. } => self.spec.patience.is_none(),
                Content::Medusa { .. } | Content::Video(_) => true,
                Content::Sound(_) => false,
            };
            let low_water = (!fills).then_some(TCP_NOT_SENT_LOW_WATER);
            Wire::Stream(Box::new(StreamEnd::new(tcp, id, self.flow, way)), low_water)
        } else {
            Wire::Datagrams { most: self.most }
        };
        let port = Port::new(id, wire, self.flow, way, opens);
        let has_members = receiver.is_none() && self.spec.to.len() > 1 && self.transport.members;
        Ok(port.with_members(has_members).counted_by(self.reader()?))
    }

    /// Tells what its datagrams carry, where it matters.
    fn reader(&self) -> Result<Option<Reader>, WorldError> {
        let headers = self.spec.headers;
        if self.is_stream() || (!self.is_read && headers == Headers::AsSent) {
            return Ok(None);
        }
        let stack = self.stack(self.seed)?;
        let bare = stack.open(Instant::ZERO, Role::Caller).profile().bare;
        Ok(Some(Reader::new(&*stack, bare, headers)))
    }

    /// Adds this stream's path to the sockets of a sender and its receiver, as their wire `id`.
    pub fn add_to(&self, sockets: &mut [Socket], id: WireId, joining: Joining) -> Result<(), WorldError> {
        let [near, far] = sockets else {
            let (stream, receivers) = (self.spec.name.clone(), sockets.len() - 1);
            return Err(WorldError::NoGroup {
                stream,
                receivers,
                what: "a stream with several associations",
            });
        };
        let mut token = Token::default();
        Rng::fork(self.seed, "token").fill(&mut token);
        let stack = self.stack(self.fork(&format!("near {}", id.0)))?;
        let planned = Planned { at: self.start, wire: id, joining, stack, token };
        near.call_on(self.port(id, None)?, planned);
        far.listen_on(self.port(id, Some(0))?, self.stack(self.fork(&format!("far {}", id.0)))?);
        Ok(())
    }
}

/// The most frames of one stream in a run: more than a day of 5 ms frames, of each of which 33 bytes are kept.
const MOST_FRAMES: u64 = 20_000_000;
/// Bytes of Medusa's data, for figures that need a size.
const PACKET_BYTES: u32 = 940;
/// The most receivers: each has a participant of its own.
const MOST_RECEIVERS: usize = 10_000;
