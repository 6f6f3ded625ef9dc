//! Antiphon as a library: compare transports, send, receive and reflect live audio, run a link emulator.
//!
//! ```no_run
//! use antiphon::{CompareOptions, Stop, compare};
//!
//! let options = CompareOptions::default();
//! let result = compare(&options, &Stop::new(), &mut |_| {})?;
//! for figures in &result.figures {
//!     println!("{}: {} of {} frames lost", figures.transport, figures.lost, figures.frames_sent);
//! }
//! # Ok::<(), antiphon::Error>(())
//! ```
//!
//! This crate is what a Rust program adds; the command line, the C interface and others are thin skins over it.

mod compare;
mod embedded;
mod error;
mod far_end;
pub mod frames;
mod near_end;
mod options;
mod passport;
mod receive;
mod reflect;
mod render;
mod send;
mod show;
mod stream_plan;
mod table;
mod task;
mod transport;

pub mod lab;
pub mod srp;

pub use antiphon_core as core;
pub use antiphon_link as link;
pub use antiphon_measure as measure;
pub use antiphon_media as media;
pub use antiphon_net as net;
pub use antiphon_net::Stop;
pub use antiphon_proto as proto;
pub use antiphon_report as report;
pub use antiphon_session as session;
pub use antiphon_sound as sound;
pub use antiphon_trace as trace;

pub use compare::{Comparison, LinkCounts, LinkSummary, Progress, TransportProgress, WayCounts, compare};
pub use error::{Error, ErrorKind};
pub use options::{
    CompareOptions, DEFAULT_LATENCY, DEFAULT_PORT, LinkMethod, ReceiveOptions, ReflectOptions, SendOptions,
    SinkClock, default_out,
};
pub use receive::{ReceiveGroup, ReceiveStatus, ReceiveSummary, receive};
pub use reflect::{ReflectStatus, ReflectedTransport, reflect};
pub use send::{SendGroup, SendStatus, SendSummary, send};
pub use table::figure_rows;
pub use task::{SoundStatus, SoundTask};
pub use transport::{COMMON_KEYS, check_transport};
