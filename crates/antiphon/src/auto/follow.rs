//! Watches a running stream whose transport was chosen, and chooses again.

use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_measure::Advice;
use antiphon_net::{OsClock, Stop};
use antiphon_proto::TRANSPORTS;

use super::{Measuring, Place, sentence};
use crate::Error;
use crate::change::Changes;
use crate::run::spawn;
use crate::send::SendStatus;

/// Watches a running stream, and changes its transport.
pub(super) struct Follow {
    place: Place,
    measuring: Measuring,
    clock: OsClock,
    unsent: Unsent,
    missed: Missed,
    again: Option<JoinHandle<Result<Advice, Error>>>,
    /// Ends a measurement that the stream doesn't wait for.
    stop: Stop,
}

impl Follow {
    pub fn new(place: Place, measuring: Measuring) -> Self {
        let (clock, stop) = (OsClock::new(), Stop::new());
        let (unsent, missed) = (Unsent::default(), Missed::default());
        Follow { place, measuring, clock, unsent, missed, again: None, stop }
    }

    pub fn look(&mut self, status: &SendStatus, changes: &mut Changes, notice: &mut dyn FnMut(String)) {
        if let Some(measured) = self.again.take_if(|thread| thread.is_finished()) {
            match measured.join() {
                Ok(Ok(advice)) => self.take(&advice, changes, notice),
                Ok(Err(error)) => notice(format!("measuring again failed: {error}")),
                Err(_) => notice("measuring again failed: its thread panicked".into()),
            }
            return;
        }
        let now = self.clock.now();
        let unsent_percent = self.unsent.note(now, status);
        let is_good = self.again.is_some()
            || is_met(status, unsent_percent, self.measuring.packet_ms(), self.measuring.purpose);
        if !self.missed.note(now, is_good) {
            return;
        }
        notice(format!(
            "the connection has not been good enough for a minute ({}); measuring again",
            self.measuring.purpose.title()
        ));
        let (mut measuring, stop) = (self.measuring.clone(), self.stop.clone());
        let carrying = changes.carrying();
        let carries = |scheme: &&str| self.place.uri(scheme).is_ok_and(|uri| uri == carrying);
        let current = TRANSPORTS.iter().map(|transport| transport.scheme).find(carries);
        measuring.options.current = current.map(Into::into);
        match spawn("measure", move || measuring.run(&stop)) {
            Ok(thread) => self.again = Some(thread),
            Err(error) => notice(format!("measuring again failed: {error}")),
        }
    }

    fn take(&self, advice: &Advice, changes: &mut Changes, notice: &mut dyn FnMut(String)) {
        notice(sentence(advice));
        let carries = |label: &String| self.place.uri(label).is_ok_and(|uri| uri == changes.carrying());
        if carries(&advice.transport) || advice.ties.iter().any(carries) {
            return notice(format!("no transport is better than {}", changes.carrying()));
        }
        let asked = self.place.uri(&advice.transport).and_then(|uri| changes.switch_to(&uri));
        if let Err(error) = asked {
            notice(format!("can't change to {}: {error}", advice.transport));
        }
    }

    /// Ends what is still being measured.
    pub fn finish(self) {
        self.stop.ask();
        // Nobody wants its result any more.
        let _measured = self.again.map(JoinHandle::join);
    }
}

/// Whether a stream is good enough, as its receiver reports it.
fn is_met(
    status: &SendStatus,
    unsent_percent: f64,
    packet_ms: f64,
    purpose: antiphon_measure::Purpose,
) -> bool {
    // Before the first report nothing is known to be missing.
    let Some(age) = status.report_age else { return true };
    if age > SILENCE {
        return false;
    }
    let lost = status.remote_loss_percent.unwrap_or(0.0);
    let missing = unsent_percent + lost * (1.0 - unsent_percent / 100.0);
    // What waits to be acknowledged has half a round trip of it on the way back.
    let queued = |rtt: f64| (status.live.buffer_ms - rtt / 2.0).max(rtt / 2.0);
    purpose.is_met_by(missing, status.rtt_ms.map(|rtt| packet_ms + queued(rtt)))
}

/// Share of packets that the sender itself gave up, which receivers of plain RTP can't see in their losses.
#[derive(Default)]
struct Unsent {
    /// When the present window began, with the packets that were sent and that were not until then.
    began: Option<(Instant, u64, u64)>,
    percent: f64,
}

impl Unsent {
    /// The share in the last whole window, in percent.
    fn note(&mut self, now: Instant, status: &SendStatus) -> f64 {
        let (sent, unsent) = (status.packets_sent, status.expired + status.refused);
        let (began, sent_then, unsent_then) = *self.began.get_or_insert((now, sent, unsent));
        if now.since(began) >= WINDOW {
            let (sent_since, unsent_since) = (sent - sent_then, unsent - unsent_then);
            self.percent = 100.0 * unsent_since as f64 / (sent_since + unsent_since).max(1) as f64;
            self.began = Some((now, sent, unsent));
        }
        self.percent
    }
}

/// Whether a connection has not been good enough for a minute.
#[derive(Default)]
struct Missed(Option<Instant>);

impl Missed {
    /// Notes how it is now; returns true once when it has been bad for [`PATIENCE`], and counts from there again.
    fn note(&mut self, now: Instant, is_good: bool) -> bool {
        if is_good {
            self.0 = None;
            return false;
        }
        let is_over = now.since(*self.0.get_or_insert(now)) >= PATIENCE;
        if is_over {
            self.0 = None;
        }
        is_over
    }
}

/// How long a connection may be worse than the purpose needs before it is measured again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Without reports for so long, nobody knows that the stream arrives. Reports come every 2.5 to 7.5 s / 1.2 (RFC 3550
/// §6.3.1): three of them are missing.
const SILENCE: Duration = Duration::from_secs(20);
/// What the sender gives up is counted over about the time between reports.
const WINDOW: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use antiphon_measure::Purpose;

    use super::*;
    use crate::live::LiveFigures;

    #[test]
    fn a_minute_of_bad_reports_and_no_less_is_missed() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut missed = Missed::default();
        let noted: Vec<u64> =
            (0..300).filter(|second| missed.note(at(*second), *second == 59 || *second == 130)).collect();
        // Good at 59 and 130: bad from 60, and again from 131; after a minute it begins anew.
        assert_eq!(noted, [120, 191, 252]);
    }

    fn status(loss: Option<f64>, age: Option<u64>) -> SendStatus {
        SendStatus {
            remote_loss_percent: loss,
            report_age: age.map(Duration::from_secs),
            ..SendStatus::default()
        }
    }

    #[test]
    fn losses_silence_and_what_was_never_sent_are_not_good_enough() {
        let is_good = |status: &SendStatus, unsent| is_met(status, unsent, 5.0, Purpose::Record);
        assert!(is_good(&status(None, None), 0.0), "nothing is known yet");
        assert!(is_good(&status(Some(0.0), Some(20)), 0.0));
        assert!(!is_good(&status(Some(0.1), Some(1)), 0.0));
        assert!(!is_good(&status(Some(0.0), Some(21)), 0.0), "reports have stopped");
        assert!(!is_good(&status(Some(0.0), Some(1)), 0.1));
        let far = SendStatus { rtt_ms: Some(1000.0), ..status(Some(0.0), Some(1)) };
        assert!(!is_met(&far, 0.0, 5.0, Purpose::PlayTogether));
        let near = |buffer_ms| SendStatus {
            rtt_ms: Some(4.0),
            live: LiveFigures { buffer_ms, ..LiveFigures::default() },
            ..status(Some(0.0), Some(1))
        };
        assert!(is_met(&near(4.0), 0.0, 5.0, Purpose::PlayTogether));
        assert!(!is_met(&near(400.0), 0.0, 5.0, Purpose::PlayTogether), "sound waits in the sender");
    }

    #[test]
    fn what_the_sender_gives_up_is_counted_by_windows() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut unsent = Unsent::default();
        let mut note = |seconds, packets_sent, expired, refused| {
            unsent.note(at(seconds), &SendStatus { packets_sent, expired, refused, ..SendStatus::default() })
        };
        assert_eq!(note(0, 100, 50, 0), 0.0, "what was before is not counted");
        assert_eq!(note(4, 160, 60, 5), 0.0, "the window is not over");
        assert_eq!(note(5, 175, 70, 5), 25.0);
        assert_eq!(note(9, 475, 70, 5), 25.0);
        assert_eq!(note(10, 475, 70, 5), 0.0);
    }
}
