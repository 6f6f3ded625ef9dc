//! Sessions: everything of one party above its wires, as state machines.
//!
//! ```text
//! Session ─┬─ Associations: routes, admission, timers; each association is a dyn Endpoint
//!          ├─ Peer × n: playout delay, RTCP, outcomes
//!          ├─ SendTrack: source ─ packetiser ─ store ─ protector
//!          ├─ ReceiveTrack: recoverer ─ playout ─ sink
//!          ├─ VideoTrack × n and a VideoSink: pictures beside the sound
//!          ├─ DataTrack × n and a DataSink: data beside both
//!          └─ Observer × n
//! Reflector ── Associations: returns every message as it came
//! VoicePort ── Associations: many voice channels over one, both ways
//! ```
//!
//! [`Session`] and [`Reflector`] are participants ([`antiphon_core::Participant`]): `net` drives them on sockets, the laboratory
//! in virtual time. Transports come as a [`antiphon_core::Stack`]; [`StreamFraming`] puts a framing around one.
//! `docs/architecture.md` describes how these objects work together.

mod arrivals;
mod arrived;
mod associations;
mod call_log;
mod convert;
mod data_in;
mod data_track;
mod delivery;
mod framed;
mod framing;
mod gaps;
mod latency;
mod least;
mod looks;
mod manager;
mod marks;
mod members;
mod mixer;
mod mouth_to_ear;
mod observer;
mod pace;
mod packet_arrivals;
mod part;
mod parties;
mod peer;
mod player;
mod protect;
mod receive_track;
mod recover;
mod reflector;
mod send_track;
mod session;
mod spool;
mod store;
mod tie;
mod video_in;
mod video_track;
mod voice;

pub use antiphon_media::playout::{AdaptedFigures, AdaptiveDelay, Cause, GapBegun, GapsBegun};
pub use antiphon_media::rtcp::{Hearing, PlayoutDelay};
pub use arrivals::ArrivalTable;
pub use associations::{AdmissionCounters, AssociationId, Associations, Handled, Policy};
pub use call_log::{CallLog, CallProgress};
pub use convert::{ConvertError, converted, converted_sink, limited};
pub use data_in::{DataInCounters, DataSink};
pub use data_track::{
    DataPiece, DataSource, DataTrack, DataTrackConfig, DataTrackCounters, MOST_DATA_TRACKS, MOST_PIECE,
    MOST_TRACK,
};
pub use framed::Framing;
pub use framing::{StreamFraming, UnknownFraming, framed};
pub use gaps::{Gap, Gaps};
pub use latency::{Latency, LatencyError};
pub use looks::of_messages;
pub use manager::{
    Budget, CongestionManager, GrantAll, GroupPaths, PathFigures, SharedPath, SharedPaths, TrackId, Uncounted,
};
pub use members::{Joined, Member};
pub use mixer::MixerCounters;
pub use mouth_to_ear::{Asymmetry, Basis, MouthToEar};
pub use observer::{Arrived, Observer, PictureSent, Seen, Sent};
pub use parties::{
    MOST_PARTIES, Parties, PartiesConfig, PartiesCounters, PartyFigures, PartyNotice, PartySinks, WhyGone,
};
pub use peer::{Joining, Peer, PeerCounters, PeerEnd};
pub use protect::{Emit, ProtectError, Repetition};
pub use receive_track::{
    GroupFigures, LATENESS, LongGaps, MayOpen, Notice, OpenSink, ReceiveError, ReceiveTrack,
    ReceiveTrackConfig, ReceiveTrackCounters, Written,
};
pub use reflector::{Reflector, ReflectorConfig, ReflectorCounters};
pub use send_track::{SendTrack, SendTrackConfig, SendTrackCounters, messages_of_a_stall};
pub use session::{
    Apart, Change, ChangeFailure, InStep, LinkState, MOST_VIDEO_TRACKS, MessagePort, ProgrammeList,
    ProgrammesError, Receiver, Reflected, SenderCounters, Serve, ServedCounters, ServedProgramme, Session,
    SessionConfig, SharedClock, VideoEnd, VideoFormat, check_programmes,
};
pub use spool::{RECORD_HEADER, Spool};
pub use store::{KEPT_BYTES, Store, StoreRoom, Stored};
pub use tie::VideoTie;
pub use video_in::{VideoArrived, VideoInCounters, VideoSink};
pub use video_track::{
    VideoPayload, VideoSource, VideoTrack, VideoTrackConfig, VideoTrackCounters, VideoWay,
};
pub use voice::{
    MOST_OPUS_CHANNELS, VoicePort, VoiceReceived, VoiceReceiving, VoiceRole, VoiceSending, VoiceSent,
    VoiceSink,
};
