//! A station that sends a stream and hears the reports on it.

use std::time::Duration;

use antiphon_core::{BrokenReason, CloseMode, Endpoint, Event, Input, Instant, PathStats, Transmit};
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
    /// The last report on each channel group.
    reports: Vec<Option<RemoteReport>>,
    /// What is said at the end of each group.
    goodbyes: Vec<Vec<u8>>,
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
        let mut rtcp = RtcpSession::new(rtcp, config.seed, now);
        sender.ssrcs().skip(1).for_each(|ssrc| rtcp.add_source(ssrc));
        Ok(SendStation {
            reports: vec![None; config.groups.count()],
            goodbyes: Vec::new(),
            rtcp,
            buf: vec![0; endpoint.profile().max_receive],
            report: vec![0; 1500],
            endpoint,
            sender,
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

    /// The receiver's last word on the stream, on whichever channel group it was.
    pub fn last_report(&self) -> Option<RemoteReport> {
        self.reports.iter().flatten().copied().max_by_key(|report| report.at)
    }

    /// The receiver's last word on each channel group.
    pub fn reports(&self) -> &[Option<RemoteReport>] {
        &self.reports
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
                let (sender, reports) = (&self.sender, &mut self.reports);
                // The session checks all of a compound before it tells of any, and counts broken ones: they change nothing.
                let _counted_there = self.rtcp.handle(now, frame, |event| {
                    let RtcpEvent::Report(report) = event else { return };
                    if let Some(group) = sender.ssrcs().position(|ssrc| ssrc == report.block.ssrc) {
                        reports[group] = Some(report);
                    }
                });
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
            rtcp.on_sent(now, sent.ssrc, sent.info.timestamp, sent.len);
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
            let goodbyes = &mut self.goodbyes;
            self.rtcp.close_each(now, &mut self.report, |_, bytes| goodbyes.push(bytes.to_vec()));
        }
        if byes < BYES && !self.goodbyes.is_empty() {
            // Behind the last of the sound of each group: one that overtook a repetition of it would cut it off.
            let profile = self.endpoint.profile();
            for (group, goodbye) in self.goodbyes.iter().enumerate() {
                send_report(&mut *self.endpoint, now, goodbye, profile.media_stream(group));
            }
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
