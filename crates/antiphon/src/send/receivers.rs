//! The receivers that have called a sender, and their figures.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::{CloseReason, Instant};
use antiphon_net::Lines;
use antiphon_session::{Hearing, Receiver, ServedCounters, Session};

use super::status::{delay_ms, millis, percent};

/// A receiver that has called, as far as is known.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SendReceiver {
    /// Its number, in the order of joining, from 1.
    pub number: u64,
    /// Its address and port.
    pub address: Option<String>,
    /// When it joined, in seconds since the run began.
    pub joined_s: f64,
    /// How it went: `left`, or `silent`; none while it is there.
    pub gone: Option<&'static str>,
    /// Packets handed to its transport.
    pub packets_sent: u64,
    /// Packets that its transport refused or gave up since they were too old.
    pub not_sent: u64,
    /// Packets that it has not received, in all; none before it has told.
    pub lost: Option<i64>,
    /// Packets that came too late to be played; none before it has told.
    pub late: Option<u32>,
    /// What is missing of the sound, lost or late, in percent; none before it has told.
    pub missing_percent: Option<f64>,
    /// Its loss in the last interval between reports, in percent.
    pub loss_percent: Option<f64>,
    /// Its jitter (RFC 3550), in milliseconds.
    pub jitter_ms: Option<f64>,
    /// The round trip to it, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Its playout delay, in milliseconds; none if it has told none, or records.
    pub playout_delay_ms: Option<f64>,
    /// From a sample's capture to its playout there, in milliseconds, without the device that captures it; none before it is
    /// known, and of a recording.
    pub capture_to_playout_ms: Option<f64>,
}

/// A receiver, and where it is or was.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    receiver: Receiver,
    address: Option<SocketAddr>,
}

impl Placed {
    /// Whether it is still there.
    pub fn is_there(&self) -> bool {
        self.receiver.gone.is_none()
    }

    /// Its figures, of a stream of `rate` sample frames a second.
    pub fn figures(&self, rate: u32) -> SendReceiver {
        let Receiver { number, joined, gone, sent, member, .. } = self.receiver;
        let report = member.and_then(|member| member.report);
        let heard = member.and_then(|member| member.hearing);
        SendReceiver {
            number,
            address: self.address.map(|address| address.to_string()),
            joined_s: joined.since(Instant::ZERO).as_secs_f64(),
            gone: gone.map(|why| if why == CloseReason::TimedOut { "silent" } else { "left" }),
            packets_sent: sent.accepted,
            not_sent: sent.refused + sent.expired,
            lost: heard
                .map(|heard| heard.lost.into())
                .or(report.map(|report| report.block.cumulative_lost.into())),
            late: heard.map(|heard| heard.late),
            missing_percent: heard.and_then(missing),
            loss_percent: report.map(|report| percent(report.block.fraction_lost)),
            jitter_ms: report.map(|report| f64::from(report.block.jitter) * 1e3 / f64::from(rate)),
            rtt_ms: report.and_then(|report| report.round_trip).map(millis),
            playout_delay_ms: delay_ms(member.and_then(|member| member.playout_delay)),
            capture_to_playout_ms: heard.and_then(|heard| heard.delay).map(millis),
        }
    }
}

/// What is missing of the sound, in percent.
fn missing(heard: Hearing) -> Option<f64> {
    let all = f64::from(heard.received) + f64::from(heard.lost);
    (all > 0.0).then(|| 100.0 * (f64::from(heard.lost) + f64::from(heard.late)) / all)
}

/// Where receivers are and were: an association that has ended has no address any more. On the media thread.
pub(crate) struct Places {
    /// By the numbers of the receivers.
    known: Vec<(u64, SocketAddr)>,
    look: Instant,
}

impl Places {
    pub fn new() -> Self {
        Places { known: Vec::with_capacity(MOST_PLACES), look: Instant::ZERO }
    }

    /// Notes the addresses of those that are there, now and then.
    pub fn note(&mut self, now: Instant, session: &Session, lines: &Lines<'_>) {
        if now < self.look {
            return;
        }
        self.look = now + NOTE_EVERY;
        for receiver in session.receivers() {
            let fresh = self.known.binary_search_by_key(&receiver.number, |(number, _)| *number).err();
            let address = receiver.place.and_then(|(wire, path)| lines.peer_address(wire, path));
            let (Some(at), Some(address)) = (fresh, address) else { continue };
            let full = self.known.len() == MOST_PLACES;
            if full {
                self.known.remove(0);
            }
            self.known.insert(at.saturating_sub(full.into()), (receiver.number, address));
        }
    }

    /// All receivers, in the order of joining.
    pub fn all(&self, session: &Session) -> impl Iterator<Item = Placed> {
        session.receivers().map(|receiver| Placed { receiver, address: self.of(receiver.number) })
    }

    /// Where a receiver is or was.
    pub fn of(&self, number: u64) -> Option<SocketAddr> {
        let at = self.known.binary_search_by_key(&number, |(number, _)| *number);
        at.ok().map(|at| self.known[at].1)
    }

    /// The figures of all that are there or were.
    pub fn figures(&self, session: &Session, rate: u32) -> Vec<SendReceiver> {
        let mut all: Vec<_> = self.all(session).map(|placed| placed.figures(rate)).collect();
        all.sort_by_key(|receiver| receiver.number);
        all
    }
}

/// What has changed among the receivers that have called, in sentences.
pub(super) fn comings_and_goings(
    before: ServedCounters,
    now: ServedCounters,
    most: usize,
) -> impl Iterator<Item = String> {
    let some = |count: u64, what: &str| match count {
        0 => None,
        1 => Some(format!("a receiver {what}")),
        count => Some(format!("{count} receivers {what}")),
    };
    let there = now.present;
    let counted = move |what: Option<String>| what.map(|what| format!("{what}; {there} served now"));
    [
        counted(some(now.joined - before.joined, "joined")),
        counted(some(now.left - before.left, "left")),
        counted(some(now.silent - before.silent, "fell silent")),
        some(now.refused - before.refused, "called and was refused").map(|what| {
            let what = what.replace("receivers called and was", "receivers called and were");
            format!("{what}: {most} are served already; --most-receivers allows more")
        }),
    ]
    .into_iter()
    .flatten()
}

/// Addresses that are remembered.
const MOST_PLACES: usize = 1024;
/// How often it is looked where new receivers are.
const NOTE_EVERY: Duration = Duration::from_millis(50);
