//! Antiphon as a library: compare transports, send, receive and reflect live audio, run a link emulator.
//!
//! ```no_run
//! use antiphon::{CompareOptions, Stop, compare};
//!
//! let options = CompareOptions::default();
//! let result = compare(&options, &Stop::new(), &mut |_| {})?;
//! for figures in &result.figures {
//!     println!("{}: {} of {} packets lost", figures.transport, figures.lost, figures.packets_sent);
//! }
//! # Ok::<(), antiphon::Error>(())
//! ```
//!
//! [`messages`] carries an application's own messages over any transport, [`srp`] the SRP report's interface on a
//! socket that the program made; [`run`] starts the media thread of all of these. The command line and the C interface
//! are thin layers over this crate; the laboratory is `antiphon-experiments`, which a program that streams need not
//! link.

mod announce;
mod announced;
mod auto;
mod backup;
mod cell;
mod change;
mod cname;
mod commands;
mod compare;
mod complete;
mod data;
mod device;
mod discovery;
mod doctor;
mod embedded;
mod emulated;
mod error;
mod far_end;
mod groups;
mod hosts_part;
mod line_notes;
mod live;
mod measured;
pub mod messages;
mod metrics;
mod near_end;
mod notices;
mod options;
mod passport;
mod pictures;
mod programmes;
mod receive;
mod reflect;
mod render;
mod requirement;
mod send;
mod service;
mod show;
mod spool;
mod standstill;
mod stream_log;
mod stream_plan;
mod table;
mod talk;
mod task;
mod together;
mod transport;
mod trouble;
mod voice;
mod wire;

pub mod about;
pub mod run;
pub mod srp;

pub use antiphon_core as core;
pub use antiphon_core::DEFAULT_LATENCY;
pub use antiphon_link as link;
pub use antiphon_measure as measure;
pub use antiphon_media as media;
pub use antiphon_net as net;
pub use antiphon_net::Stop;
pub use antiphon_proto as proto;
pub use antiphon_report as report;
pub use antiphon_session as session;
pub use antiphon_session::{Latency, LatencyError};
pub use antiphon_sound as sound;
pub use antiphon_trace as trace;
pub use antiphon_video as video;

pub use announce::ANNOUNCEMENT_GROUPS;
pub use announced::{Announced, AnnouncedStream, hear_announcements};
pub use auto::SCHEME as AUTO;
pub use backup::Backup;
pub use cell::{CellAdvice, cell_advice, cell_sentences};
pub use change::{Switch, TransportChanges};
pub use commands::quoted;
pub use compare::{Comparison, LinkCounts, LinkSummary, Progress, TransportProgress, WayCounts, compare};
pub use complete::CompleteOver;
pub use data::{DataHole, DataReceived, DataSent};
pub use device::DeviceStatus;
pub use discovery::{FoundPeer, PeerRole};
pub use doctor::{Check, Diagnosis, DoctorOptions, DoctorProgress, Verdict, doctor};
pub use error::{Error, ErrorKind};
pub use groups::{ReceiveGroup, SendGroup};
pub use live::{ChannelLevel, LiveFigures};
pub use metrics::{MetricsServer, MetricsState};
pub use notices::NoticeLimiter;
pub use options::{
    Announce, CompareOptions, DEFAULT_PORT, LinkMethod, MOST_RECEIVERS, ReceiveOptions, ReflectOptions,
    SendOptions, SinkClock, default_out,
};
pub use pictures::{
    FrameRate, FurtherPictures, PicturesReceived, PicturesSent, SkewFigures, parse_frame_rate,
};
pub use programmes::{ListedProgramme, ProgrammeChoice, ProgrammeSource, Programmes, list_programmes};
pub use receive::{
    AdaptedDelay, Gap, GapCause, MissingSound, ReceiveStatus, ReceiveSummary, Recording, StepStatus,
    TradeOff, receive,
};
pub use reflect::{ReflectStatus, ReflectedTransport, reflect};
pub use requirement::{Judgement, Requirement};
pub use send::{
    ConfirmedBy, SendMember, SendProgramme, SendReceiver, SendStatus, SendSummary, Shortfall, send,
};
pub use service::ServiceNotifier;
pub use spool::SpoolPlace;
pub use stream_log::{Minute, Second, StreamEvent, StreamLog, Weight};
pub use table::{figure_row, figure_rows};
pub use talk::{
    DelayBasis, DelayStatus, MuteSwitch, PartyRecording, PartyStatus, TalkOptions, TalkStatus, TalkSummary,
    talk,
};
pub use task::{SoundStatus, SoundTask};
pub use transport::{COMMON_KEYS, check_transport};
pub use voice::{
    MOST_VOICE_CHANNELS, VOICE_DATA_SIZES, VoiceOptions, VoicePriorities, VoiceReceivedStatus, VoiceRole,
    VoiceSentStatus, VoiceStatus, VoiceSummary, voice,
};
