//! What happened to a stream, for displays: the last minute second by second, and each event with its cause and what to do.
//!
//! Fed with the states that [`crate::send`], [`crate::receive`] and [`crate::talk`] report and with their notices; on the thread
//! that displays them, never on the media thread.

mod causes;
mod minute;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_core::uri::Uri;
use antiphon_proto::{Transport, find};

use crate::transport::with_scheme;
use crate::{DeviceStatus, ReceiveStatus, SendStatus, TalkStatus};
use causes::{Described, Known};
pub use minute::{Minute, Second};

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Something to know.
    Note,
    /// Sound was or may be missing.
    Defect,
}

/// Something that happened to a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamEvent {
    /// When it began.
    pub at: Instant,
    /// When it last happened: defects of a kind in close succession are one event.
    pub last: Instant,
    /// How much it matters.
    pub weight: Weight,
    /// What happened.
    pub what: String,
    /// Why; empty for a notice.
    pub cause: String,
    /// What to do about it; empty for a notice.
    pub remedy: String,
    kind: Option<Kind>,
    count: u64,
}

/// Kinds of defects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lost,
    Late,
    RemoteLoss,
    Expired,
    Refused,
    Dropped,
    Starved,
    DelayRaised,
    UnknownSource,
    Malformed,
    Xrun,
    Underrun,
    Uncaptured,
    ServerLost,
}

/// The last minute of a stream, and what happened to it.
#[derive(Clone, Debug, Default)]
pub struct StreamLog {
    transport: Option<&'static Transport>,
    repairs: bool,
    group: bool,
    minute: Minute,
    /// The newest first.
    events: VecDeque<StreamEvent>,
    /// The state before, from which what is new is counted.
    sent: SendStatus,
    received: ReceiveStatus,
}

impl StreamLog {
    /// Of a stream to or from `uri`, or of a call to a host; it tells the transport. One that cannot be read tells nothing: it was
    /// refused before the stream began.
    pub fn new(uri: &str) -> Self {
        let Ok(uri) = with_scheme(uri).parse::<Uri>() else { return StreamLog::default() };
        let transport = find(&uri.scheme).ok();
        let repairs = transport.is_some_and(|transport| transport.profile_of("").retransmits);
        let group = uri.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_multicast());
        StreamLog { transport, repairs, group, ..StreamLog::default() }
    }

    /// The transport, if the URI names one.
    pub fn transport(&self) -> Option<&'static Transport> {
        self.transport
    }

    /// The last minute.
    pub fn minute(&self) -> &Minute {
        &self.minute
    }

    /// What happened, the newest first; the oldest of very many are forgotten.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &StreamEvent> {
        self.events.iter()
    }

    /// Something that the user is told.
    pub fn on_notice(&mut self, now: Instant, text: &str) {
        let what = text.to_string();
        let (cause, remedy) = (String::new(), String::new());
        let event = StreamEvent {
            at: now,
            last: now,
            weight: Weight::Note,
            what,
            cause,
            remedy,
            kind: None,
            count: 1,
        };
        self.push(event);
    }

    /// The state of a stream that is sent.
    pub fn on_sent(&mut self, now: Instant, status: &SendStatus) {
        let before = std::mem::replace(&mut self.sent, status.clone());
        let new = |count: fn(&SendStatus) -> u64| count(status).saturating_sub(count(&before));
        let counts = [
            (Kind::Expired, new(|status| status.expired)),
            (Kind::Refused, new(|status| status.refused)),
            (Kind::Dropped, new(|status| status.dropped)),
            (Kind::Starved, new(|status| status.starved)),
        ];
        let loss = status.worst_loss_percent.or(status.remote_loss_percent);
        let second = self.minute.at(now);
        second.unsent = second.unsent.saturating_add(counts[0].1).saturating_add(counts[1].1);
        second.rtt_ms = status.rtt_ms;
        second.remote_loss_percent = loss;
        second.kbit_per_s = status.live.kbit_per_s;
        second.delay_ms = status.remote_latency_ms;
        second.jitter_ms = status.remote_jitter_ms;
        counts.into_iter().for_each(|(kind, count)| self.count(now, kind, count));
        // A report holds until the next one: only another figure is known to be another report.
        let reported = loss != before.worst_loss_percent.or(before.remote_loss_percent);
        self.count(now, Kind::RemoteLoss, u64::from(reported && loss.is_some_and(|loss| loss > 0.0)));
        self.on_device(now, status.device, before.device);
    }

    /// The state of a stream that is received.
    pub fn on_received(&mut self, now: Instant, status: &ReceiveStatus) {
        let before = std::mem::replace(&mut self.received, status.clone());
        let new = |count: fn(&ReceiveStatus) -> u64| count(status).saturating_sub(count(&before));
        // A packet that still comes moves from lost to late.
        let (lost, late) = (new(|status| status.lost), new(|status| status.late));
        let second = self.minute.at(now);
        second.lost = second.lost.saturating_add(lost);
        second.late = second.late.saturating_add(late);
        second.repaired = second.repaired.saturating_add(new(|status| status.repaired));
        second.concealed = second.concealed.saturating_add(new(|status| status.concealed));
        second.buffer_ms = Some(status.live.buffer_ms);
        second.delay_ms = status.latency_ms;
        second.jitter_ms = status.jitter_rfc3550_ms;
        second.drift_ppm = status.drift_ppm;
        second.kbit_per_s = status.live.kbit_per_s;
        for (kind, count) in [
            (Kind::Lost, lost),
            (Kind::Late, late),
            (Kind::UnknownSource, new(|status| status.unknown_sources)),
            (Kind::Malformed, new(|status| status.malformed)),
            (Kind::DelayRaised, new(|status| status.adapted.map_or(0, |adapted| adapted.rises))),
        ] {
            self.count(now, kind, count);
        }
        self.on_device(now, status.device, before.device);
    }

    /// The state of a call.
    pub fn on_talk(&mut self, now: Instant, status: &TalkStatus) {
        self.on_sent(now, &status.sent);
        self.on_received(now, &status.received);
    }

    fn on_device(&mut self, now: Instant, device: Option<DeviceStatus>, before: Option<DeviceStatus>) {
        let Some(device) = device else { return };
        // Before its first state nothing had been counted.
        let before = before.unwrap_or_default();
        let new = |count: fn(&DeviceStatus) -> u64| count(&device).saturating_sub(count(&before));
        for (kind, count) in [
            (Kind::Xrun, new(|device| device.xruns)),
            (Kind::Underrun, new(|device| device.underruns)),
            (Kind::Uncaptured, new(|device| device.dropped_frames)),
            (Kind::ServerLost, new(|device| device.lost_servers)),
        ] {
            self.count(now, kind, count);
        }
    }

    /// So many more defects of a kind.
    fn count(&mut self, now: Instant, kind: Kind, more: u64) {
        if more == 0 {
            return;
        }
        let goes_on = |event: &StreamEvent| event.kind == Some(kind) && now.since(event.last) < ONE_EVENT;
        let before = self.events.iter().position(goes_on).and_then(|at| self.events.remove(at));
        let (at, count) = before.map_or((now, more), |event| (event.at, event.count.saturating_add(more)));
        let (sent, received) = (Some(&self.sent), Some(&self.received));
        let known =
            Known { transport: self.transport, repairs: self.repairs, group: self.group, sent, received };
        let Described { what, cause, remedy } = known.describe(kind, count);
        let weight = if kind == Kind::DelayRaised { Weight::Note } else { Weight::Defect };
        self.push(StreamEvent { at, last: now, weight, what, cause, remedy, kind: Some(kind), count });
    }

    fn push(&mut self, event: StreamEvent) {
        self.events.truncate(MOST_EVENTS - 1);
        self.events.push_front(event);
    }
}

/// Defects of a kind that follow each other within this time are one event.
const ONE_EVENT: Duration = Duration::from_secs(3);
/// Events that are kept: more than a screen shows.
const MOST_EVENTS: usize = 200;

#[cfg(test)]
mod tests;
