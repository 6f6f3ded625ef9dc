//! The definition of one run: plain data between a scenario's text and the world that runs it.
//!
//! Nodes are numbered by their index in [`Setup::nodes`]. Media connect them as a tree, so that there is one path
//! between any two; a node between two media forwards.

mod content;

use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{BitRate, DEFAULT_LATENCY, Ppm, Ratio, Rng};
use antiphon_link::wlan::{Category, CellSpec};
use antiphon_link::{Alternation, DuplexSpec, QueueLimit, ReplayPath, RingClass, RingSpec};

use antiphon_session::Joining;

pub use content::{Content, FrameChoice, Pacing, PicturesSpec, SoundSpec, VideoSpec};

use crate::tcp::Profile;

/// A network, what runs over it, and for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// How long traffic and streams without an end of their own send.
    pub duration: Duration,
    /// How long after that packets in flight may still arrive.
    pub drain: Duration,
    /// The run ends as soon as nothing more can happen to any stream. Their figures are the same then; media and traffic are
    /// counted up to that time.
    pub ends_with_streams: bool,
    /// The stations, routers and access points.
    pub nodes: Vec<NodeSpec>,
    /// The media that connect them.
    pub media: Vec<MediumSpec>,
    /// Traffic that loads the network.
    pub traffic: Vec<TrafficSpec>,
    /// Streams that are measured.
    pub streams: Vec<StreamSpec>,
    /// What all that is random of the media comes from, if not from the seed of the run: runs with the same one meet the same
    /// fades and stalls at the same times, whatever is sent over them.
    pub media_seed: Option<u64>,
}

impl Setup {
    /// What all that is random of the medium called `name` comes from in a run of that seed.
    pub fn seed_of_medium(&self, name: &str, run: u64) -> u64 {
        Rng::fork(self.media_seed.unwrap_or(run), &format!("medium {name}")).next_u64()
    }
}

/// The index of a node in [`Setup::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(pub usize);

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeSpec {
    /// Unique in its setup.
    pub name: String,
    /// The processor time of a packet.
    pub cost: HostCost,
    /// Packets that may wait for its processor, or for each of two, the one being processed included; further ones are dropped.
    pub queue: u32,
    /// What waits in it, for its processor or for the token of a ring, goes by the priority in the packets' headers, and by age where it
    /// is the same. Where a queue is full the last one makes room for a more urgent one.
    pub priorities: bool,
}

impl NodeSpec {
    /// A machine whose processor takes no time, and where the oldest packet goes first.
    pub fn new(name: impl Into<String>) -> Self {
        NodeSpec { name: name.into(), cost: HostCost::default(), queue: HOST_QUEUE, priorities: false }
    }
}

/// Packets that wait for a processor by default, as in Linux's `netdev_max_backlog`.
pub const HOST_QUEUE: u32 = 1000;

/// Time that a node's processor spends on packets before they go out or come in.
///
/// A packet that a node forwards takes both.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct HostCost {
    /// For each packet sent.
    pub send_packet: Duration,
    /// For each byte sent (IP packet), in seconds: fractions of a nanosecond are usual.
    pub send_byte_s: f64,
    /// For each packet received.
    pub receive_packet: Duration,
    /// For each byte received (IP packet), in seconds.
    pub receive_byte_s: f64,
    /// For each packet sent without data of its user, such as an acknowledgement, in place of the times above; `None`: as for
    /// any other.
    pub send_control: Option<Duration>,
    /// The same for each such packet received.
    pub receive_control: Option<Duration>,
    /// What the node sends, and what it receives, have a processor each. Packets without data count as acknowledgements, which are
    /// work of the side whose data they acknowledge.
    pub apart: bool,
    /// Additional wait of packets, in and out, until a thread is woken: exponential, with this mean. It does not occupy
    /// the processor, so that other packets are processed meanwhile, and packets stay in order.
    pub wake: Duration,
}

impl HostCost {
    /// Whether packets without data of their user cost something else.
    pub fn tells_control(&self) -> bool {
        self.send_control.or(self.receive_control).is_some() || self.apart
    }
}

/// A medium that connects nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct MediumSpec {
    /// Unique in its setup.
    pub name: String,
    /// Of which kind.
    pub kind: MediumKind,
}

impl MediumSpec {
    /// A medium of that name.
    pub fn new(name: impl Into<String>, kind: MediumKind) -> Self {
        MediumSpec { name: name.into(), kind }
    }
}

/// The kinds of media; all carry IP packets.
#[derive(Clone, PartialEq, Debug)]
pub enum MediumKind {
    /// A chain of link elements each way; *up* is from the first node to the second. Its rate counts IP packets.
    Link {
        /// Its ends.
        between: [NodeId; 2],
        /// Delays, losses and queues, both ways.
        spec: Box<DuplexSpec>,
    },
    /// A link whose delay and loss alternate with others, both ways.
    Alternating {
        /// Its ends.
        between: [NodeId; 2],
        /// As of a link.
        spec: Box<DuplexSpec>,
        /// What takes the place of its delay and loss in every second period.
        with: Alternation,
    },
    /// A recorded path, whose delays and losses are repeated.
    Replay {
        /// Its ends.
        between: [NodeId; 2],
        /// From the first to the second.
        up: ReplayPath,
        /// Back.
        down: ReplayPath,
    },
    /// A full-duplex cable with an Ethernet port at each end.
    Cable {
        /// Its ends.
        between: [NodeId; 2],
        /// Of both ports.
        rate: BitRate,
        /// Of each port's queue.
        queue: QueueLimit,
    },
    /// A store-and-forward switch, each node on a full-duplex cable of its own.
    Switch {
        /// Its nodes.
        nodes: Vec<NodeId>,
        /// Of all ports.
        rate: BitRate,
        /// Of each port's queue.
        queue: QueueLimit,
        /// From the last bit in to the first bit out.
        latency: Duration,
    },
    /// An 802.11 cell; the n-th node is the n-th station of the cell's description.
    Cell {
        /// Its nodes.
        nodes: Vec<NodeId>,
        /// Its other settings.
        spec: CellSpec,
    },
    /// An FDDI ring; the n-th node is the n-th station of the ring's description.
    Ring {
        /// Its nodes.
        nodes: Vec<NodeId>,
        /// Its other settings.
        spec: RingSpec,
    },
}

/// How the media treat packets of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Treatment {
    /// In a cell with EDCA.
    pub category: Category,
    /// On a ring.
    pub ring: RingClass,
}

impl Default for Treatment {
    fn default() -> Self {
        Treatment { category: Category::BestEffort, ring: RingClass::Asynchronous }
    }
}

/// Traffic that competes with the streams.
#[derive(Clone, PartialEq, Debug)]
pub struct TrafficSpec {
    /// Unique among traffic and streams of its setup.
    pub name: String,
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// Its kind.
    pub kind: TrafficKind,
    /// When it begins, after the beginning of the run. It ends with the run's duration.
    pub start: Duration,
    /// By how much the clock of its sender may be off: each run has another, all alike likely. Two regular senders whose clocks agree
    /// keep their phase for a whole run, which no two machines do.
    pub clock: Ppm,
    /// By how much each packet of data to a group on its sender's first medium delays all that it sends from then on: a program that waits
    /// by counting, on a machine that takes in what goes to all. Regular senders alone.
    pub held_up: Duration,
    /// How the media treat its packets.
    pub treatment: Treatment,
}

impl TrafficSpec {
    /// Traffic from the beginning of the run, which media treat as any other.
    pub fn new(name: impl Into<String>, [from, to]: [NodeId; 2], kind: TrafficKind) -> Self {
        let (start, held_up) = (Duration::ZERO, Duration::ZERO);
        let (clock, treatment) = (Ppm::default(), Treatment::default());
        TrafficSpec { name: name.into(), from, to, kind, start, clock, held_up, treatment }
    }
}

/// Kinds of traffic. `payload` is the UDP payload in bytes.
#[derive(Clone, PartialEq, Debug)]
pub enum TrafficKind {
    /// A UDP packet at regular intervals. `rate` counts UDP payload, as iperf does; zero is silence.
    Constant {
        /// Of payload.
        rate: BitRate,
        /// Of each packet.
        payload: usize,
    },
    /// UDP packets at exponential intervals.
    Poisson {
        /// Mean, of payload.
        rate: BitRate,
        /// Of each packet.
        payload: usize,
    },
    /// Groups of UDP packets back to back, at regular intervals.
    Bursts {
        /// In a burst.
        packets: u32,
        /// From the beginning of one burst to that of the next, in the mean.
        period: Duration,
        /// By which share of the period each one is shorter or longer at most, all alike likely.
        jitter: Ratio,
        /// Of each packet.
        payload: usize,
    },
    /// UDP as fast as the sender's first medium takes it: its queue is never empty.
    Blaster {
        /// Of each packet.
        payload: usize,
    },
    /// A TCP that always has more to send.
    GreedyTcp {
        /// Of both ends.
        profile: Profile,
    },
    /// Echo requests, answered at once by the far node; their round trips are measured.
    Ping {
        /// Between requests.
        interval: Duration,
        /// ICMP data in bytes: 56 by ping's default.
        payload: usize,
        /// How many in all.
        count: u32,
    },
}

/// An audio stream whose reception is measured.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamSpec {
    /// Unique among traffic and streams of its setup.
    pub name: String,
    /// The scheme of a transport of `antiphon_proto::TRANSPORTS`.
    pub transport: String,
    /// The transport's own settings.
    pub query: Query,
    /// The sender.
    pub from: NodeId,
    /// The receiver, or a multicast group of several.
    pub to: Vec<NodeId>,
    /// What is sent.
    pub content: Content,
    /// Pictures beside sound to a single receiver, in the same session.
    pub pictures: Option<PicturesSpec>,
    /// The far end returns every frame and the sender measures round trips; otherwise the far end measures. Of a group the first
    /// receiver returns them, and the others measure.
    pub reflected: bool,
    /// When it begins, after the beginning of the run.
    pub start: Duration,
    /// A frame is given up if its transmission could not begin for this long; `None`: never.
    pub patience: Option<Duration>,
    /// The receiver's playout delay, and the time that transports may take for repairs.
    pub latency: Duration,
    /// The TCP below a transport on a byte stream; others ignore it.
    pub tcp: Profile,
    /// How the media treat its packets.
    pub treatment: Treatment,
    /// Further associations with the receiver, of sound to a single one.
    pub further: Vec<FurtherSpec>,
    /// The part of the run to which the figures `watched_…` refer.
    pub watch: Option<Watch>,
    /// What its packets count on media and processors.
    pub headers: Headers,
    /// The resolution of the timer with which the sender of a reflected stream also measures round trips.
    pub timer: Option<Duration>,
    /// It reads the ticks that have passed between two of its counts; otherwise those that have begun.
    pub timer_rounds_down: bool,
    /// What the receiving ends miss, or pretend to.
    pub unheard: Unheard,
    /// Its ends answer each packet with data at once by one without, beside what the transport itself sends: the acknowledgements of a
    /// protocol that sends more of them.
    pub answers: bool,
    /// Of its messages, 0 the most urgent.
    pub priority: u8,
    /// The stream of another name that is looked at beside it: its figures tell gaps with and without packets of that one, and what
    /// listeners with several playout delays would miss.
    pub beside: Option<String>,
}

/// What a datagram of a stream counts on media and processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Headers {
    /// Its bytes, and the headers of UDP and IP.
    #[default]
    AsSent,
    /// As XTP 3.6 directly on the medium, whatever ours have: 44 bytes beside data, 92 without (Weaver and McNabb 1992: header
    /// 40, trailer 4, control segment 48).
    Xtp36,
}

/// Packets with data that the receiving ends of a stream don't hear, the far end of a reflected one and its sender alike: at regular
/// distances, from a random one on.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Unheard {
    /// The share of them.
    pub share: Ratio,
    /// They are delivered all the same: only the transport takes them for lost.
    pub delivered: bool,
}

/// The beginning of each period but the first, counted from the beginning of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    /// Length of a period.
    pub every: Duration,
    /// So much of it.
    pub length: Duration,
}

/// One more association of a sender with its receiver: beside the others for good, or in place of the present one.
#[derive(Clone, PartialEq, Debug)]
pub struct FurtherSpec {
    /// The scheme of a transport, as of a stream.
    pub transport: String,
    /// The transport's own settings.
    pub query: Query,
    /// Another network interface of the sender's machine and one of the receiver's, or the stream's own nodes.
    pub between: [NodeId; 2],
    /// When it begins, after the beginning of the stream.
    pub at: Duration,
    /// What it is for.
    pub joining: Joining,
}

impl StreamSpec {
    /// A stream from the beginning to the end, not reflected, over a transport without settings, over today's TCP where
    /// it needs one, and played [`DEFAULT_LATENCY`] later.
    pub fn new(name: &str, transport: &str, [from, to]: [NodeId; 2], content: Content) -> Self {
        StreamSpec {
            name: name.into(),
            transport: transport.into(),
            query: Query::default(),
            from,
            to: vec![to],
            content,
            pictures: None,
            reflected: false,
            start: Duration::ZERO,
            patience: None,
            latency: DEFAULT_LATENCY,
            tcp: Profile::linux(),
            treatment: Treatment::default(),
            further: Vec::new(),
            watch: None,
            headers: Headers::default(),
            timer: None,
            timer_rounds_down: false,
            unheard: Unheard::default(),
            answers: false,
            priority: 0,
            beside: None,
        }
    }

    /// Whether it can be looked at beside the stream of this name, or the pictures.
    pub(crate) fn is_beside(&self, name: &str, streams: &[StreamSpec]) -> bool {
        let own = self.pictures.as_ref().is_some_and(|pictures| pictures.name == name);
        own || streams.iter().any(|other| other.name == name && other.name != self.name)
    }

    /// The same stream over one of its further associations alone.
    pub(crate) fn over(&self, further: &FurtherSpec) -> StreamSpec {
        StreamSpec {
            transport: further.transport.clone(),
            query: further.query.clone(),
            from: further.between[0],
            to: vec![further.between[1]],
            start: self.start + further.at,
            further: Vec::new(),
            ..self.clone()
        }
    }
}
