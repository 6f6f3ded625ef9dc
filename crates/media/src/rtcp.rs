//! RTCP (RFC 3550 §6): reports in both directions, source descriptions, and BYE.

mod app;
mod arrivals;
mod clocks;
mod delays;
mod extended;
mod picture_loss;
mod presence;
mod programmes;
mod receipt;
mod reception;
mod session;
mod summary;
mod wire;

pub use app::{App, AppKind, Token};
pub use arrivals::{ArrivalReport, ArrivalReportWriter, PacketArrival};
pub use clocks::{ClockAnswer, ClockQuestion, ClockWord, Hearing, MOST_ANSWERS};
pub use delays::{Delays, HeardDelays};
pub use extended::{NominalDelay, PlayoutDelay};
pub use picture_loss::PictureLoss;
pub use presence::Presence;
pub use programmes::{MAX_PROGRAMME_NAME, MOST_PROGRAMMES, Programme, ProgrammeAnswer, ProgrammeQuestion};
pub use receipt::Receipt;
pub use reception::Reception;
pub use session::{
    Cname, MAX_REPORT, RemoteReport, RtcpConfig, RtcpCounters, RtcpEvent, RtcpSession, SenderClock,
};
pub use summary::GroupSize;
pub use wire::{
    ReportBlock, ReportBlocks, RtcpError, RtcpItem, SenderInfo, visit_compound, write_bye, write_cname,
    write_group_size, write_nominal_delay, write_report,
};
