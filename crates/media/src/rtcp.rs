//! RTCP (RFC 3550 §6): reports in both directions, source descriptions, and BYE.

mod app;
mod extended;
mod presence;
mod receipt;
mod reception;
mod session;
mod summary;
mod wire;

pub use app::{App, AppKind, Token};
pub use extended::{NominalDelay, PlayoutDelay};
pub use presence::Presence;
pub use receipt::Receipt;
pub use reception::Reception;
pub use session::{MAX_REPORT, RemoteReport, RtcpConfig, RtcpCounters, RtcpEvent, RtcpSession, SenderClock};
pub use summary::GroupSize;
pub use wire::{
    ReportBlock, ReportBlocks, RtcpError, RtcpItem, SenderInfo, visit_compound, write_bye, write_cname,
    write_group_size, write_nominal_delay, write_report,
};
