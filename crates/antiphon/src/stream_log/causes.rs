//! What a defect comes from, and what to do about it, as sentences from the figures of a stream.

use antiphon_proto::{Substrate, Transport};

use super::Kind;
use crate::{ReceiveStatus, SendStatus};

/// What is known when a defect is described.
pub(super) struct Known<'a> {
    pub transport: Option<&'static Transport>,
    /// Whether the transport sends again what was lost.
    pub repairs: bool,
    /// Whether the stream goes to a group.
    pub group: bool,
    pub sent: Option<&'a SendStatus>,
    pub received: Option<&'a ReceiveStatus>,
}

/// A defect in words.
pub(super) struct Described {
    pub what: String,
    pub cause: String,
    pub remedy: String,
}

impl Known<'_> {
    /// So many defects of a kind.
    pub fn describe(&self, kind: Kind, count: u64) -> Described {
        let (what, cause, remedy) = match kind {
            Kind::Lost => (packets(count, "lost"), self.cause_of_loss(), self.against_loss()),
            Kind::Late => (packets(count, "late"), self.cause_of_lateness(), self.against_lateness()),
            Kind::RemoteLoss => self.remote_loss(),
            Kind::Expired => (
                packets(count, "expired before they were sent"),
                format!("the path takes less than {}", self.rate()),
                LESS.into(),
            ),
            Kind::Refused => (
                packets(count, "refused by the transport"),
                format!("its send queue was full: the path takes less than {}", self.rate()),
                LESS.into(),
            ),
            Kind::Dropped => (
                packets(count, "dropped"),
                "the recording could not be reached, and there was no room to keep them".into(),
                "use --spool DIR on a disk with room".into(),
            ),
            Kind::Starved => (
                format!("the source gave nothing for {count} ms"),
                "its file, pipe or program was not ready in time".into(),
                "use a faster disk or less load; of a live source check the program that plays".into(),
            ),
            Kind::DelayRaised => self.delay_raised(),
            Kind::UnknownSource => (
                packets(count, "of another sender ignored"),
                "a second sender uses this address and port".into(),
                "stop it, or name the one to hear with --allow ADDRESS".into(),
            ),
            Kind::Malformed => (
                format!("{} neither RTP nor RTCP", counted(count, "message is", "messages are")),
                "another program sends here, or the sender uses another --framing".into(),
                "use the transport and the framing of the sender".into(),
            ),
            Kind::Xrun => (
                counted(count, "xrun of the sound server", "xruns of the sound server"),
                "a cycle took longer than its period: the computer was busy".into(),
                "give the server a longer period or real-time priority".into(),
            ),
            Kind::Underrun => (
                counted(count, "underrun of the sound device", "underruns of the sound device"),
                "sound was handed over too late for its cycle: the computer was busy".into(),
                "use a longer period of the server, and less load".into(),
            ),
            Kind::Uncaptured => (
                format!("{} not fetched", counted(count, "captured sample frame", "captured sample frames")),
                "the computer was too busy to read the sound device in time".into(),
                "use a larger --block, and less load".into(),
            ),
            Kind::ServerLost => (
                "the sound server is gone".into(),
                "it ended, or shut this client out".into(),
                "start it again; the stream waits for it".into(),
            ),
        };
        Described { what, cause, remedy }
    }

    fn is_tcp(&self) -> bool {
        self.transport.is_some_and(|transport| transport.substrate == Substrate::Tcp)
    }

    fn cause_of_loss(&self) -> String {
        match (self.is_tcp(), self.repairs) {
            (true, _) => "the sender gave them up: the path stalled, or takes less than the stream".into(),
            (false, true) => "the network dropped them, and no repair came in time".into(),
            (false, false) => "the network dropped them".into(),
        }
    }

    fn against_loss(&self) -> String {
        match self.delay().filter(|_| self.repairs) {
            Some(delay) => format!("give repairs more time: --latency above {delay:.0}ms"),
            None if self.repairs => LESS.into(),
            None if self.group => {
                "use --protect repeat:2 where it is sent; one sender's stream is repaired for a group over xtp://".into()
            }
            None => "use a transport that repairs (srp, sctp), or --protect repeat:2 where it is sent".into(),
        }
    }

    /// The playout delay in force, in milliseconds.
    fn delay(&self) -> Option<f64> {
        let heard = self.received.and_then(|status| status.latency_ms);
        heard.or(self.sent.and_then(|status| status.remote_latency_ms))
    }

    fn cause_of_lateness(&self) -> String {
        let delay =
            self.delay().map_or("their time".into(), |delay| format!("the playout delay of {delay:.0} ms"));
        let jitter = self.received.and_then(|status| status.jitter_rfc3550_ms);
        let jitter = jitter.map_or_else(String::new, |jitter| format!("; jitter is {jitter:.1} ms"));
        format!("they came after {delay}{jitter}")
    }

    /// The shortest delay that would do, where enough packets have told.
    fn against_lateness(&self) -> String {
        let Some(status) = self.received else { return "use a longer --latency".into() };
        let now = status.latency_ms.unwrap_or(0.0);
        let better =
            status.trade_off.iter().find(|point| point.latency_ms.ceil() > now && point.late_percent < 0.5);
        match (better, status.adapted) {
            (Some(point), None) => format!(
                "use --latency {:.0}ms (1 in {:.0} late), or auto",
                point.latency_ms.ceil(),
                (100.0 / point.late_percent.max(1e-6)).round()
            ),
            (_, Some(_)) => {
                "the delay adapts; if this goes on, raise its bound: --latency auto,max=TIME".into()
            }
            (None, None) => "use a longer --latency, or --latency auto, which adapts".into(),
        }
    }

    fn remote_loss(&self) -> (String, String, String) {
        let Some(status) = self.sent else { return Default::default() };
        let what = match (status.worst_loss_percent, status.remote_loss_percent) {
            (Some(worst), _) => format!("a receiver of the group lost {worst:.1} %"),
            (None, loss) => format!("the receiver lost {:.1} %", loss.unwrap_or(0.0)),
        };
        // A packet that is sent again may still come after the report.
        let cause = match self.repairs {
            true => "at its last report they had not come, or their repairs were still on the way".into(),
            false => format!("{}, by its last report", self.cause_of_loss()),
        };
        (what, cause, self.against_loss())
    }

    fn delay_raised(&self) -> (String, String, String) {
        let target = self.received.and_then(|status| status.adapted).map_or(0.0, |adapted| adapted.target_ms);
        let cause = "packets came later than before".into();
        (
            format!("the playout delay rises to {target:.0} ms"),
            cause,
            "max= of --latency auto bounds it".into(),
        )
    }

    fn rate(&self) -> String {
        let rate = self.sent.and_then(|status| status.live.kbit_per_s);
        rate.map_or("the stream's rate".into(), |rate| format!("the stream's {rate:.0} kbit/s"))
    }
}

/// What makes a stream need less of its path.
const LESS: &str = "send less: --format l16, fewer --channels; or use a longer --latency";

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn packets(count: u64, what: &str) -> String {
    format!("{} {what}", counted(count, "packet", "packets"))
}
