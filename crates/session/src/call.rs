//! Both halves of a stream on one endpoint towards a reflector, with a row for every frame: what `compare` runs for
//! each transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_core::{CloseMode, Endpoint, Event, Input, Instant, Outcome, PathStats, Received, Transmit};
use antiphon_measure::{Fate, FrameArrival, FrameLog, FrameLogConfig};
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{
    Depacketiser, ExtensionIds, PacketConfig, PacketError, PacketKind, RtpView, classify, parse_rtp,
};
use antiphon_media::playout::{Clocking, Inserted, Playout, PlayoutConfig, PlayoutCounters, PlayoutError};
use antiphon_media::{ChannelGroups, Sink, SinkError, Source};

use crate::board::ArrivalBoard;
use crate::sender::{SenderConfig, SenderCounters, SentFrame, SoundSender};
use crate::station::{Station, sooner};

/// How a call is made.
#[derive(Clone, Debug)]
pub struct CallConfig {
    /// The sending half; a call is not divided into channel groups.
    pub sender: SenderConfig,
    /// Playout target at the returning end: from the arrival of an undelayed frame to its sound.
    pub latency: Duration,
    /// What to do about missing sound.
    pub conceal: Concealment,
    /// Where the far end notes arrivals, if it shares our clock.
    pub board: Option<ArrivalBoard>,
    /// Rows of the log.
    pub log_frames: usize,
    /// Shows another thread how far the call is.
    pub live: Arc<LiveCall>,
    /// How long to send without anything coming back before the peer is taken not to be there.
    pub answer_patience: Duration,
    /// How long to wait for stragglers after the last frame was sent.
    pub drain: Duration,
}

/// How far a call is, for another thread to see; written after every round of the media thread.
#[derive(Debug, Default)]
pub struct LiveCall {
    /// Frames sent, refused ones included.
    pub sent: AtomicU64,
    /// Frames that came back.
    pub received: AtomicU64,
    /// Of them, late ones.
    pub late: AtomicU64,
    /// The last round trip in nanoseconds; 0 for none yet.
    pub rtt_nanos: AtomicU64,
}

/// What a listener at the returning end would have heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    /// The playout buffer's totals.
    pub playout: PlayoutCounters,
    /// Sample frames that the sink was too slow for.
    pub overrun_frames: u64,
    /// Whether the sink gave up.
    pub sink_failed: bool,
}

/// Why a call can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The stream can't be cut into packets so.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The playout target is out of the question.
    #[error(transparent)]
    Playout(#[from] PlayoutError),
}

/// Sends a source to a reflector, plays what comes back, and logs the life of every frame.
pub struct CallStation {
    endpoint: Box<dyn Endpoint>,
    sender: SoundSender,
    log: FrameLog,
    depacketiser: Depacketiser,
    playout: Playout,
    sink: Box<dyn Sink>,
    board: Option<ArrivalBoard>,
    live: Arc<LiveCall>,
    buf: Vec<u8>,
    block: Vec<f32>,
    drain: Duration,
    answer_patience: Duration,
    unanswered: bool,
    /// Until when a connection is waited for.
    patience: Option<Instant>,
    heard: Heard,
    /// Unwrapped time stamp behind the last sample frame played.
    heard_until: Option<u64>,
    foreign: u64,
    state: State,
    began: Option<Instant>,
    ended: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Until the transport says that frames flow.
    Waiting,
    Calling,
    /// Everything is sent; what is on its way may still come until then.
    Draining {
        until: Instant,
    },
    Closing,
    Finished,
}

impl CallStation {
    /// A call over `endpoint`; what a listener would hear goes to `sink`.
    pub fn new(
        mut endpoint: Box<dyn Endpoint>,
        source: Box<dyn Source>,
        sink: Box<dyn Sink>,
        config: CallConfig,
    ) -> Result<Self, CallError> {
        let packet: PacketConfig = config.sender.packet;
        // The log has one row of numbers: what is compared is the transport, not how channels are divided.
        let groups = ChannelGroups::whole(packet.format.channels());
        let sender = SoundSender::new(source, SenderConfig { groups, ..config.sender })?;
        sender.reserve(&mut *endpoint);
        let frames = sender.packetiser().packet_frames() as u64;
        let log = FrameLogConfig {
            capacity: config.log_frames,
            clock_rate: packet.format.rate(),
            packet: antiphon_core::MediaTime::new(frames, packet.format.rate()).duration(),
            packet_bytes: (frames as usize * packet.format.channels() * packet.sample.bytes()) as u32,
        };
        let playout = PlayoutConfig {
            conceal: config.conceal,
            ..PlayoutConfig::new(packet.format, config.latency, Clocking::Sender)
        };
        Ok(CallStation {
            buf: vec![0; endpoint.profile().max_receive],
            block: vec![0.0; packet.block_frames as usize * packet.format.channels()],
            depacketiser: Depacketiser::new(packet.format, packet.sample),
            playout: Playout::new(playout)?,
            log: FrameLog::new(log),
            endpoint,
            sender,
            sink,
            board: config.board,
            live: config.live,
            drain: config.drain,
            answer_patience: config.answer_patience,
            unanswered: false,
            patience: None,
            heard: Heard::default(),
            heard_until: None,
            foreign: 0,
            state: State::Waiting,
            began: None,
            ended: None,
        })
    }

    /// The log of every frame. Complete once the station has finished.
    pub fn log(&self) -> &FrameLog {
        &self.log
    }

    /// What was heard so far.
    pub fn heard(&self) -> Heard {
        Heard { playout: self.playout.counters(), ..self.heard }
    }

    /// The sending half's totals.
    pub fn sent(&self) -> SenderCounters {
        self.sender.counters()
    }

    /// Frames that came and are not ours: somebody else's packets, or broken ones.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// What the transport knows of the path.
    pub fn path_stats(&self) -> PathStats {
        self.endpoint.path_stats()
    }

    /// Whether the call was given up since nothing ever came back.
    pub fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// From the first to the last frame sent.
    pub fn duration(&self) -> Duration {
        match (self.began, self.ended) {
            (Some(began), Some(ended)) => ended.since(began),
            _ => Duration::ZERO,
        }
    }

    /// Whether the transport ever said that frames flow.
    pub fn is_connected(&self) -> bool {
        self.began.is_some()
    }

    /// The sink, to be finished off the media thread, and the log.
    pub fn into_parts(self) -> (FrameLog, Box<dyn Sink>) {
        (self.log, self.sink)
    }

    fn fetch(&mut self) {
        while let Some(received) = self.endpoint.poll_frame(&mut self.buf) {
            let frame = &self.buf[..received.len];
            let ours = self.sender.packetiser().ssrc();
            match (classify(frame), parse_rtp(frame, ExtensionIds::default())) {
                (Some(PacketKind::Rtp), Ok(view)) if view.ssrc == ours => {
                    // The view borrows the buffer: what is needed of self is lent piece by piece.
                    let number = number_of(&self.sender, view.sequence);
                    let rtt = on_returned(
                        Returned { number, received, view },
                        &mut self.log,
                        &mut self.depacketiser,
                        &mut self.playout,
                        self.board.as_ref(),
                    );
                    if let Some(rtt) = rtt {
                        self.live.rtt_nanos.store(rtt.as_nanos() as u64, Ordering::Relaxed);
                    }
                }
                _ => self.foreign += 1,
            }
        }
    }

    fn send(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        if self.log.counts().arrived() == 0 && now.since(began) > self.answer_patience {
            self.unanswered = true;
            self.ended = Some(now);
            return self.close(now);
        }
        let (log, board) = (&mut self.log, &self.board);
        self.sender.advance(now, &mut *self.endpoint, |SentFrame { number, info, len, result, .. }| {
            if let Some(board) = board {
                if let Some(settled) = number.checked_sub(SETTLED) {
                    note_reached(log, board, settled, info.sequence.wrapping_sub(SETTLED as u16));
                }
                board.clear(info.sequence);
            }
            match result {
                Ok(_) => log.on_sent(number, now),
                Err(_) => log.on_refused(number, now),
            }
            log.on_size(number, len);
        });
        if self.sender.is_ended() {
            self.ended = Some(now);
            self.state = State::Draining { until: now + self.drain };
        }
    }

    /// Whether everything that was sent has been played or concealed: beyond it there is nothing to hear.
    fn is_played_out(&self) -> bool {
        self.left_to_play() == Some(0)
    }

    /// Sample frames that were sent and have not been played or concealed; `None` while more may be sent, or if nothing
    /// was heard yet.
    fn left_to_play(&self) -> Option<usize> {
        let packetiser = self.sender.packetiser();
        let end = packetiser.position().frames as u32;
        let heard = (self.heard_until? as u32).wrapping_sub(packetiser.timestamp_at(0));
        // Both wrap after a day; what is between them never is that long.
        let left = (end.wrapping_sub(heard) as i32).max(0) as usize;
        self.sender.is_ended().then_some(left)
    }

    fn play(&mut self, now: Instant) {
        let channels = self.playout.config().format.channels();
        let block = self.block.len() / channels;
        loop {
            // A wake-up that comes late, or a lost end, must not make sound up beyond what was sent.
            let room = self.left_to_play().unwrap_or(block).min(block);
            let pulled = self.playout.pull(now, &mut self.block[..room * channels]);
            let frames = pulled.frames;
            if frames == 0 {
                break;
            }
            self.heard_until = pulled.media.map(|media| media + frames as u64);
            match self.sink.push(&self.block[..frames * channels]) {
                Ok(()) => {}
                Err(SinkError::Overrun { dropped }) => self.heard.overrun_frames += dropped as u64,
                Err(SinkError::Failed | SinkError::Cause(_)) => self.heard.sink_failed = true,
            }
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected if self.state == State::Waiting => self.state = State::Calling,
                Event::Frame { id, outcome } => {
                    let number = self.sender.on_outcome(id, outcome);
                    if let (Some(number), Outcome::Expired { .. }) = (number, outcome) {
                        self.log.on_fate(number, Fate::Expired);
                    }
                }
                Event::Closed(_) => self.state = State::Finished,
                _ => {}
            }
        }
    }

    fn show(&self) {
        let counts = self.log.counts();
        self.live.sent.store(counts.total(), Ordering::Relaxed);
        self.live.received.store(counts.arrived(), Ordering::Relaxed);
        self.live.late.store(counts.of(Fate::Late), Ordering::Relaxed);
    }

    /// Closes once nothing more can come, or is not worth waiting for.
    fn drain(&mut self, now: Instant, until: Instant) {
        let all_known = self.log.counts().of(Fate::Pending) == 0;
        let all_heard = self.is_played_out() || self.log.counts().arrived() == 0;
        if until <= now || (all_known && all_heard) {
            self.close(now);
        }
    }

    /// Asks the board for the frames that were sent too recently to have been asked for.
    fn settle(&mut self) {
        let Some(board) = &self.board else { return };
        let (frames, next) = (self.sender.frames(), self.sender.packetiser().next_sequence());
        for back in 1..=frames.min(SETTLED) {
            note_reached(&mut self.log, board, frames - back, next.wrapping_sub(back as u16));
        }
    }

    /// A transport with a handshake would call for minutes; whoever compares wants to know sooner.
    fn wait(&mut self, now: Instant) {
        if *self.patience.get_or_insert(now + CONNECT) <= now {
            self.close(now);
            self.endpoint.close(now, CloseMode::Abort);
            self.endpoint.handle_timeout(now);
        }
    }

    fn close(&mut self, now: Instant) {
        self.playout.finish();
        self.play(now);
        self.settle();
        self.log.finish();
        let concealed = self.playout.counters().concealed_frames;
        // The report counts holes in units of frames, as everything else there.
        let unit = self.sender.packetiser().packet_frames() as u64;
        self.log.on_concealed(concealed.div_ceil(unit));
        self.endpoint.close(now, CloseMode::Graceful);
        self.state = State::Closing;
    }
}

/// Takes from the board that a frame came there, even if it never came back.
fn note_reached(log: &mut FrameLog, board: &ArrivalBoard, number: u64, sequence: u16) {
    if let (Some(there), Some(sent)) = (board.arrival(sequence), log.sent_at(number))
        && there >= sent
    {
        log.on_reached(number, there.since(sent));
    }
}

/// A frame that came back.
struct Returned<'a> {
    number: Option<u64>,
    received: Received,
    view: RtpView<'a>,
}

fn on_returned(
    Returned { number, received, view }: Returned<'_>,
    log: &mut FrameLog,
    depacketiser: &mut Depacketiser,
    playout: &mut Playout,
    board: Option<&ArrivalBoard>,
) -> Option<Duration> {
    let number = number?;
    let at = received.received_at;
    // Both ends of the board read the run's clock.
    let one_way = board.and_then(|board| board.arrival(view.sequence)).and_then(|there| {
        let sent = log.sent_at(number)?;
        (there >= sent).then(|| there.since(sent))
    });
    let len = view.payload.len() as u32;
    let rtt = log.on_received(FrameArrival {
        seq: number,
        at,
        timestamp: view.timestamp,
        len,
        one_way,
        repaired: received.repaired,
    });
    if let Ok(packet) = depacketiser.accept(&view) {
        let inserted = playout.insert(at, &packet);
        let missed = matches!(inserted, Inserted::Late { .. } | Inserted::Early | Inserted::Discarded);
        // It came, but not at a time at which it could be heard. Copies of a frame do not change its fate.
        if missed && rtt.is_some() {
            log.on_fate(number, Fate::Late);
        }
    }
    rtt
}

/// Which of our frames bears that sequence number: the latest one sent, since fewer than 65 536 are on their way.
fn number_of(sender: &SoundSender, sequence: u16) -> Option<u64> {
    let next = sender.packetiser().next_sequence();
    let back = u64::from(next.wrapping_sub(1).wrapping_sub(sequence));
    (sender.frames()).checked_sub(back + 1)
}

impl Station for CallStation {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.endpoint.handle_due(now);
        self.fetch();
        self.events();
        self.play(now);
        match self.state {
            State::Calling => self.send(now),
            State::Draining { until } => self.drain(now, until),
            State::Waiting => self.wait(now),
            State::Closing | State::Finished => {}
        }
        self.events();
        self.show();
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = match self.state {
            State::Calling => sooner(self.sender.poll_timeout(), self.playout.poll_timeout()),
            State::Draining { until } if self.is_played_out() => Some(until),
            State::Draining { until } => sooner(Some(until), self.playout.poll_timeout()),
            State::Waiting => self.patience,
            State::Closing | State::Finished => None,
        };
        sooner(own, self.endpoint.poll_timeout())
    }

    fn stop(&mut self, now: Instant) {
        self.sender.end();
        self.ended.get_or_insert(now);
        match self.state {
            // What is on its way may still come: a moment is worth the truth about it.
            State::Calling => self.state = State::Draining { until: now + self.drain.min(STOP_DRAIN) },
            State::Waiting => self.close(now),
            State::Draining { .. } | State::Closing | State::Finished => {}
        }
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

/// So many frames later, what came there of a frame is known: 5 s of 1.3 ms blocks, half of what the log remembers.
const SETTLED: u64 = 4_096;
/// How long a connection may take: a Request or SYN that is lost is sent again after a second, and after two more.
const CONNECT: Duration = Duration::from_millis(3_500);
/// How long a call that was interrupted waits for stragglers.
const STOP_DRAIN: Duration = Duration::from_millis(500);
