//! The sender of a video: frames of one size at regular intervals, each in several packets.

use std::time::Duration;

use antiphon_core::{CloseMode, Endpoint, Event, Instant, Message, OnEndpoint, Role, Single, StreamId};
use antiphon_measure::SentFrame;
use antiphon_media::packet::RTP_HEADER;

use super::error::WorldError;
use super::meter::SharedLog;
use super::participant::{Kind, StreamParticipant};
use super::streams::StreamBuilder;
use crate::setup::{Content, FrameChoice, VideoSpec};

/// Ticks of video's time stamps a second (RFC 3551 §5).
const CLOCK: u64 = 90_000;

/// How a video is sent.
#[derive(Clone, Copy, Debug)]
pub struct Filming {
    pub video: VideoSpec,
    /// No frame is due then or later.
    pub until: Instant,
    /// A frame's packets are given up so long after it was due.
    pub lifetime: Option<Duration>,
    /// The next packet is handed over when the transport has taken the one before, like a program whose write blocks.
    pub blocks: bool,
    /// Of each message, 0 the most urgent.
    pub priority: u8,
    /// RTP number of the first packet.
    pub first: u16,
}

/// Sends a video.
pub struct VideoSender {
    endpoint: Box<dyn Endpoint>,
    filming: Filming,
    /// Streams of the association over which frames are spread in turn.
    streams: u64,
    log: SharedLog,
    packet: Vec<u8>,
    /// When frame 0 was due: as soon as the transport was connected.
    begun: Option<Instant>,
    /// The frame that is next in order.
    next: u64,
    /// The frame of which some packets were not handed over yet, and the first of those.
    halfway: Option<(u64, u64)>,
    /// Packets whose outcome is not known.
    waiting: u64,
    closing: bool,
    finished: bool,
}

impl VideoSender {
    /// A sender on `endpoint`, which records in `log` what it sends.
    pub fn new(endpoint: Box<dyn Endpoint>, filming: Filming, log: &SharedLog) -> Self {
        let mut packet = vec![0; filming.video.layout.packet.max(RTP_HEADER)];
        // Version 2, payload type 97, then number, time stamp and SSRC (RFC 3550 §5.1).
        packet[..2].copy_from_slice(&[2 << 6, 97]);
        packet[8..12].copy_from_slice(b"VIDE");
        VideoSender {
            streams: u64::from(filming.video.streams.min(endpoint.profile().streams).max(1)),
            endpoint,
            filming,
            log: SharedLog::clone(log),
            packet,
            begun: None,
            next: 0,
            halfway: None,
            waiting: 0,
            closing: false,
            finished: false,
        }
    }

    /// When a frame is due; `None` beyond the last one.
    fn due(&self, frame: u64) -> Option<Instant> {
        let layout = &self.filming.video.layout;
        let nanos = layout.interval.as_nanos().saturating_mul(u128::from(frame));
        let due = self.begun? + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        (frame < layout.count && due < self.filming.until).then_some(due)
    }

    /// The frame that is begun at `now`, if one is due and the transport is free for it.
    fn chosen(&self, now: Instant) -> Option<(u64, Instant)> {
        let due = self.due(self.next).filter(|due| *due <= now)?;
        let is_free = self.waiting == 0;
        match self.filming.video.choice {
            FrameChoice::All if is_free || !self.filming.blocks => Some((self.next, due)),
            FrameChoice::Newest if is_free => {
                let since = now.since(self.begun?).as_nanos();
                let newest = (since / self.filming.video.layout.interval.as_nanos().max(1)) as u64;
                let due_by_now = |frame: &u64| self.due(*frame).is_some_and(|due| due <= now);
                // The newest may lie beyond the end.
                let frame = (self.next..=newest).rev().find(due_by_now)?;
                Some((frame, self.due(frame)?))
            }
            _ => None,
        }
    }

    fn send_due(&mut self, now: Instant) {
        loop {
            if let Some((frame, part)) = self.halfway {
                if self.filming.blocks && self.waiting > 0 {
                    return;
                }
                self.halfway = (part + 1 < self.filming.video.layout.packets()).then_some((frame, part + 1));
                self.send(now, frame, part);
                continue;
            }
            let Some((frame, due)) = self.chosen(now) else { return };
            self.next = frame + 1;
            self.halfway = Some((frame, 0));
            let first = self.log.borrow().sent();
            self.log.borrow_mut().on_frame(SentFrame { due, first });
        }
    }

    fn send(&mut self, now: Instant, frame: u64, part: u64) {
        let Filming { video, lifetime, first, priority, .. } = self.filming;
        let (tag, number) = (self.log.borrow().next_tag(), self.log.borrow().sent());
        let sequence = first.wrapping_add(number as u16);
        let ticks = video.layout.interval.as_nanos() * u128::from(frame) * u128::from(CLOCK) / 1_000_000_000;
        self.packet[2..4].copy_from_slice(&sequence.to_be_bytes());
        self.packet[4..8].copy_from_slice(&(ticks as u32).to_be_bytes());
        let deadline = self.due(frame).zip(lifetime).map(|(due, lifetime)| due + lifetime);
        let stream = StreamId((frame % self.streams) as u16);
        let message = Message::new(tag, &self.packet[..video.layout.bytes_of(part)], deadline);
        let sent = self.endpoint.send(now, Message { stream, priority, ..message });
        self.waiting += u64::from(sent.is_ok());
        self.log.borrow_mut().on_sent(0, sequence, now, sent);
    }

    fn events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => _ = self.begun.get_or_insert(now),
                Event::Broken(_) => self.log.borrow_mut().broken |= !self.is_done(),
                Event::Outcome { tag, outcome } => {
                    self.waiting -= 1;
                    self.log.borrow_mut().on_outcome(tag.0, outcome);
                }
                Event::Closed(_) => self.finished = true,
                _ => {}
            }
        }
    }

    /// Nothing is left to be sent.
    fn is_done(&self) -> bool {
        let over = self.begun.is_some() && self.due(self.next).is_none();
        over && self.halfway.is_none() && self.waiting == 0
    }
}

impl StreamBuilder<'_> {
    /// The sender of a video.
    pub(super) fn film(&self, log: &SharedLog, video: VideoSpec) -> Result<StreamParticipant, WorldError> {
        let endpoint = self.endpoint(Role::Caller, self.fork("near"))?;
        let filming = Filming {
            video,
            until: self.until,
            lifetime: self.spec.patience,
            blocks: self.is_stream(),
            priority: self.spec.priority,
            first: self.first(),
        };
        let sender = VideoSender::new(endpoint, filming, log);
        Ok(StreamParticipant::new(Kind::Video(Box::new(Single::new(sender))), None))
    }

    /// The video of this stream, if it is one.
    pub fn video(&self) -> Option<&VideoSpec> {
        match &self.spec.content {
            Content::Video(video) => Some(video),
            _ => None,
        }
    }
}

impl OnEndpoint for VideoSender {
    fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn endpoint_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    fn work(&mut self, now: Instant) {
        // What has come is none of the sender's.
        self.events(now);
        if self.endpoint.profile().calls_with_first_message {
            self.begun.get_or_insert(now);
        }
        self.send_due(now);
        if self.is_done() && !self.closing {
            self.closing = true;
            self.endpoint.close(now, CloseMode::Graceful);
            self.events(now);
        }
    }

    fn next_work(&self) -> Option<Instant> {
        let waits =
            self.waiting > 0 && (self.filming.blocks || self.filming.video.choice == FrameChoice::Newest);
        self.due(self.next).filter(|_| !waits && self.halfway.is_none())
    }

    fn is_over(&self) -> bool {
        self.finished
    }
}
