//! A station that sends a stream and hears the reports on it.

use std::time::Duration;

use antiphon_core::{
    BrokenReason, CloseMode, Endpoint, Event, Input, Instant, PathStats, StreamId, Transmit,
};
use antiphon_media::Source;
use antiphon_media::packet::{PacketError, PacketKind, classify};
use antiphon_media::rtcp::{RemoteReport, RtcpConfig, RtcpEvent, RtcpSession};

use crate::sender::{SenderConfig, SenderCounters, SoundSender};
use crate::station::{Station, send_report, sooner};
use crate::witness::{Passing, Witness};

/// Sends a source over an endpoint, with RTCP beside it, and takes leave at the end.
pub struct SendStation {
    endpoint: Box<dyn Endpoint>,
    sender: SoundSender,
    rtcp: RtcpSession,
    buf: Vec<u8>,
    report: Vec<u8>,
    last_report: Option<RemoteReport>,
    state: State,
    broken: Option<BrokenReason>,
    answered: bool,
    witness: Option<Witness>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Until the transport says that frames flow: sound sent before would only grow old.
    Waiting,
    Sending,
    /// The source has ended; the goodbye goes out several times, as a datagram may be lost.
    Leaving {
        byes: u32,
        next: Instant,
    },
    Closing,
    Finished,
}

impl SendStation {
    /// A station that sends `source`; `cname` is its name in reports.
    pub fn new(
        mut endpoint: Box<dyn Endpoint>,
        source: Box<dyn Source>,
        config: SenderConfig,
        cname: &str,
        now: Instant,
    ) -> Result<Self, PacketError> {
        let sender = SoundSender::new(source, config)?;
        sender.reserve(&mut *endpoint);
        let rate = config.packet.format.rate();
        let rtcp = RtcpConfig::new(sender.packetiser().ssrc(), cname, rate, config.epoch);
        Ok(SendStation {
            rtcp: RtcpSession::new(rtcp, config.seed, now),
            buf: vec![0; endpoint.profile().max_receive],
            report: vec![0; 1500],
            endpoint,
            sender,
            last_report: None,
            state: State::Waiting,
            broken: None,
            answered: false,
            witness: None,
        })
    }

    /// Lets `witness` know of every frame put on the path and of what the transport says became of it.
    pub fn set_witness(&mut self, witness: Witness) {
        self.witness = Some(witness);
    }

    /// The sending half.
    pub fn sender(&self) -> &SoundSender {
        &self.sender
    }

    /// Totals.
    pub fn counters(&self) -> SenderCounters {
        self.sender.counters()
    }

    /// The receiver's last word on the stream.
    pub fn last_report(&self) -> Option<RemoteReport> {
        self.last_report
    }

    /// What the transport knows of the path.
    pub fn path_stats(&self) -> PathStats {
        self.endpoint.path_stats()
    }

    /// Why nobody seems to be there: the path is broken now, and no answer ever came.
    pub fn unanswered(&self) -> Option<BrokenReason> {
        self.broken.filter(|_| !self.answered)
    }

    fn fetch(&mut self, now: Instant) {
        while let Some(received) = self.endpoint.poll_frame(&mut self.buf) {
            (self.answered, self.broken) = (true, None);
            let frame = &self.buf[..received.len];
            if classify(frame) == Some(PacketKind::Rtcp) {
                let (ssrc, mut last) = (self.rtcp.ssrc(), self.last_report);
                let handled = self.rtcp.handle(now, frame, |event| match event {
                    RtcpEvent::Report(report) if report.block.ssrc == ssrc => last = Some(report),
                    _ => {}
                });
                // Broken reports are counted there and change nothing.
                if handled.is_ok() {
                    self.last_report = last;
                }
            }
        }
    }

    fn events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => {
                    self.broken = None;
                    if self.state == State::Waiting {
                        self.state = State::Sending;
                    }
                }
                Event::Broken(reason) => self.broken = Some(reason),
                Event::Frame { id, outcome } => {
                    let number = self.sender.on_outcome(id, outcome);
                    if let (Some(number), Some(witness)) = (number, &mut self.witness) {
                        witness(Passing::Outcome { number, at: now, outcome });
                    }
                }
                Event::Closed(_) => self.state = State::Finished,
                Event::Congestion(_) | Event::Writable => {}
            }
        }
    }

    fn send(&mut self, now: Instant) {
        let (rtcp, witness) = (&mut self.rtcp, &mut self.witness);
        self.sender.advance(now, &mut *self.endpoint, |sent| {
            rtcp.on_sent(now, sent.info.timestamp, sent.len);
            if let (Some(witness), Ok(_)) = (&mut *witness, sent.result) {
                witness(Passing::Sent { number: sent.number, at: now, len: sent.len });
            }
        });
        if let Some(len) = self.rtcp.poll_report(now, &mut self.report) {
            // A report that is lost must not hold up sound where each stream has an order of its own.
            let stream = self.endpoint.profile().control_stream();
            send_report(&mut *self.endpoint, now, &self.report[..len], stream);
        }
        if self.sender.is_ended() {
            self.state = State::Leaving { byes: 0, next: now };
        }
    }

    fn leave(&mut self, now: Instant, byes: u32, next: Instant) {
        if next > now {
            return;
        }
        if byes == 0 {
            let len = self.rtcp.close(now, &mut self.report);
            self.report.truncate(len.unwrap_or(0));
        }
        if byes < BYES && !self.report.is_empty() {
            // Behind the last of the sound: a goodbye that overtook a repetition of it would cut it off.
            send_report(&mut *self.endpoint, now, &self.report, StreamId(0));
            self.state = State::Leaving { byes: byes + 1, next: now + BYE_GAP };
        } else {
            self.endpoint.close(now, CloseMode::Graceful);
            self.state = State::Closing;
        }
    }
}

impl Station for SendStation {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.endpoint.handle_due(now);
        self.fetch(now);
        self.events(now);
        match self.state {
            State::Sending => self.send(now),
            State::Leaving { byes, next } => self.leave(now, byes, next),
            State::Waiting | State::Closing | State::Finished => {}
        }
        self.events(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = match self.state {
            State::Sending => sooner(self.sender.poll_timeout(), self.rtcp.poll_timeout()),
            State::Leaving { next, .. } => Some(next),
            State::Waiting | State::Closing | State::Finished => None,
        };
        sooner(own, self.endpoint.poll_timeout())
    }

    fn stop(&mut self, now: Instant) {
        self.sender.end();
        match self.state {
            State::Waiting => {
                self.endpoint.close(now, CloseMode::Abort);
                self.state = State::Closing;
            }
            State::Sending => self.state = State::Leaving { byes: 0, next: now },
            State::Leaving { .. } | State::Closing | State::Finished => {}
        }
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

/// Goodbyes sent: all three are lost once in a thousand times at 10 % loss.
const BYES: u32 = 3;
/// Apart enough not to be lost in one burst, near enough not to keep the user.
const BYE_GAP: Duration = Duration::from_millis(30);
