//! The channels that a port sends.

mod invocation;

use std::cell::Cell;

use antiphon_core::{Instant, Message, Profile, Rng, SendError, Tag};
use antiphon_media::rtcp::write_bye;
use antiphon_media::voice::{
    ByteClock, Datum, OPUS_TICKS, SilenceDetector, VOICE_HEADER, VoiceContent, VoiceEncoder, VoiceSource,
    voice_ssrc, write_voice_header,
};

use super::VoiceSending;
use invocation::{Invoked, Turn};

/// What was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VoiceSent {
    /// Bytes of voice that sources have put into FIFOs, or that found no room there.
    pub captured: u64,
    /// Bytes of voice that the transport took.
    pub bytes: u64,
    /// Packets of voice that it took.
    pub packets: u64,
    /// Bytes that found no room in their FIFO, as the transport took nothing.
    pub overflow: u64,
    /// Bytes of pauses, which are not sent.
    pub paused: u64,
    /// Bytes that the transport refused.
    pub refused: u64,
    /// Messages without an outcome yet.
    pub open: u64,
    /// Messages that the peer has confirmed.
    pub acked: u64,
    /// Messages given up as their time was over.
    pub expired: u64,
    /// Messages given up otherwise.
    pub lost: u64,
}

/// All channels of one direction.
///
/// Channels are invoked in groups: every channel when its FIFO holds a datum, the groups spread over that time. So the
/// work of a thousand channels comes evenly, and a wake-up serves several channels.
pub(super) struct Outgoing {
    settings: VoiceSending,
    channels: Vec<Channel>,
    /// Channels before this one have ended, and handed over everything.
    drained: Cell<usize>,
    /// The upper half of our SSRCs, of those on the first page.
    sender: u16,
    clock: Option<ByteClock>,
    /// The sources of each begin together, those of the next ones a part of a datum later.
    groups: usize,
    /// Which invocation of its channels the group is due for, counted from 0.
    cycle: u64,
    group: usize,
    /// The next channel of the group.
    next: usize,
    blocked: bool,
    /// Since when nobody is there to hear.
    halted: Option<Instant>,
    buf: Vec<u8>,
    /// For a packet of Opus.
    packet: Vec<u8>,
    sent: VoiceSent,
    /// The message of goodbyes that is sent next.
    next_goodbye: usize,
    /// When the last message was accepted.
    last: Instant,
}

/// Hands a message to the transport.
pub(super) type Send<'a> = dyn FnMut(Message<'_>) -> Result<(), SendError> + 'a;

struct Channel {
    source: VoiceSource,
    /// Bytes in all.
    end: u64,
    /// Bytes that left its FIFO or found no room in it.
    taken: u64,
    /// Bytes that its source did not give, as nobody was there.
    left_out: u64,
    sequence: u16,
    /// Time stamp of its first byte.
    origin: u32,
    priority: u8,
    detector: SilenceDetector,
    /// The bytes after which the pause was last told; `None` while sound is sent.
    paused: Option<u64>,
    encoder: Option<Box<VoiceEncoder>>,
    /// Whether sound was sent since the pause, or the beginning.
    talks: bool,
}

impl Outgoing {
    pub fn new(settings: VoiceSending, seed: u64) -> Self {
        let mut rng = Rng::fork(seed, "voice");
        let sender = rng.next_u32() as u16;
        let channel = |(number, source): (usize, &VoiceSource)| Channel {
            end: settings.length.unwrap_or(u64::MAX).min(source.len().unwrap_or(u64::MAX)),
            source: source.clone(),
            taken: 0,
            left_out: 0,
            sequence: rng.next_u32() as u16,
            origin: rng.next_u32(),
            priority: settings.priorities.get(number).copied().unwrap_or(0),
            detector: SilenceDetector::default(),
            paused: None,
            encoder: settings.opus.map(|rate| Box::new(VoiceEncoder::new(rate))),
            talks: false,
        };
        let channels: Vec<Channel> = settings.sources.iter().enumerate().map(channel).collect();
        let groups = (channels.len() / TOGETHER).clamp(1, (settings.size / LEAST_APART).max(1));
        Outgoing {
            channels,
            drained: Cell::new(0),
            sender,
            clock: None,
            groups,
            cycle: 0,
            group: 0,
            next: 0,
            blocked: false,
            halted: None,
            buf: vec![0; VOICE_HEADER + settings.fifo + settings.size],
            packet: vec![0; VOICE_HEADER + MOST_CODED],
            sent: VoiceSent::default(),
            next_goodbye: 0,
            last: Instant::ZERO,
            settings,
        }
    }

    /// Sources begin, if they have not begun.
    pub fn begin(&mut self, now: Instant) {
        self.clock.get_or_insert(ByteClock::new(now, self.settings.clock_ppm));
    }

    pub fn has_begun(&self) -> bool {
        self.clock.is_some()
    }

    /// Whether the transport has taken anything.
    pub fn has_sent(&self) -> bool {
        self.sent.packets > 0
    }

    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    pub fn sent_mut(&mut self) -> &mut VoiceSent {
        &mut self.sent
    }

    /// Nobody is there to hear: sources give nothing.
    pub fn halt(&mut self, now: Instant) {
        self.halted.get_or_insert(now);
        // The next association tells of room of its own.
        self.blocked = false;
    }

    /// Sources go on, if they were halted; what they would have given meanwhile is left out.
    pub fn resume(&mut self, now: Instant) {
        let (Some(halted), Some(clock)) = (self.halted.take(), self.clock) else { return };
        let (from, at) = (clock.bytes(halted), clock.bytes(now));
        for number in 0..self.channels.len() {
            let phase = self.phase_of(number);
            let channel = &mut self.channels[number];
            let left_out = channel.captured(at, phase) - channel.captured(from, phase);
            channel.left_out += left_out;
            // What was in the FIFO then is not of use any more.
            self.sent.overflow += channel.captured(from, phase) - channel.taken;
            channel.taken = channel.captured(at, phase);
        }
    }

    /// What was sent; `captured` up to `now`.
    pub fn sent(&self, now: Instant) -> VoiceSent {
        let at = self.clock.map_or(0, |clock| clock.bytes(self.halted.unwrap_or(now)));
        let captured = self.channels.iter().enumerate();
        let given = |(number, channel): (usize, &Channel)| {
            channel.captured(at, self.phase_of(number)) - channel.left_out
        };
        let captured = captured.map(given).sum();
        VoiceSent { captured, ..self.sent }
    }

    /// The transport takes messages again.
    pub fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Whether every source has ended and everything was handed over.
    pub fn is_drained(&self) -> bool {
        // Asked at each wake-up, also while channels end one by one: none goes on once it has ended.
        let rest = &self.channels[self.drained.get()..];
        let going = rest.iter().position(|channel| channel.taken < channel.end);
        self.drained.set(self.drained.get() + going.unwrap_or(rest.len()));
        self.clock.is_some() && going.is_none()
    }

    /// Whether all of that has an outcome.
    pub fn is_confirmed(&self) -> bool {
        self.is_drained() && self.sent.open == 0
    }

    /// Whether nothing of it is on its way any more that could still be of use.
    pub fn is_settled(&self, now: Instant) -> bool {
        self.sent.open == 0 || now.since(self.last) >= self.settings.lifetime
    }

    /// When what is on its way is of no use any more.
    pub fn settles_at(&self) -> Instant {
        self.last + self.settings.lifetime
    }

    /// When the next group is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let idle = self.blocked || self.halted.is_some() || self.channels.is_empty();
        let clock = self.clock.filter(|_| !idle)?;
        Some(clock.at(self.due()))
    }

    fn due(&self) -> u64 {
        self.phase(self.group) + (self.cycle + 1) * self.settings.size as u64
    }

    fn phase(&self, group: usize) -> u64 {
        (group * self.settings.size / self.groups) as u64
    }

    fn first_of(&self, group: usize) -> usize {
        (group * self.channels.len()).div_ceil(self.groups)
    }

    fn phase_of(&self, channel: usize) -> u64 {
        self.phase(channel * self.groups / self.channels.len().max(1))
    }

    /// Invokes the channels that are due, [`AT_ONCE`] of them at most: each sends whatever has accumulated.
    pub fn run(&mut self, now: Instant, profile: &Profile, send: &mut Send<'_>) {
        let Some(clock) = self.clock.filter(|_| !self.channels.is_empty()) else { return };
        let mut turn = Turn { now, at: clock.bytes(now), profile, send };
        let mut left = AT_ONCE;
        while !self.blocked && self.due() <= turn.at {
            let end = self.first_of(self.group + 1);
            while self.next < end {
                if left == 0 {
                    return;
                }
                if self.invoke(&mut turn, self.next) == Invoked::Blocked {
                    self.blocked = true;
                    return;
                }
                (self.next, left) = (self.next + 1, left - 1);
            }
            self.advance_group(turn.at);
        }
    }

    fn advance_group(&mut self, at: u64) {
        self.group += 1;
        if self.group < self.groups {
            return;
        }
        (self.group, self.next) = (0, 0);
        // Invocations that were missed are not made up for: the next one sends more.
        let size = self.settings.size as u64;
        self.cycle = (self.cycle + 1).max((at / size).saturating_sub(1));
    }

    /// Hands over the goodbyes of all channels once (RFC 3550 §6.6), or of as many as the transport has room for: the next ones are then those
    /// that had none.
    pub fn say_goodbye(&mut self, send: &mut dyn FnMut(&[u8]) -> Result<(), SendError>) {
        let mut buf = [0; BYES_TOGETHER * BYE];
        let messages = self.channels.len().div_ceil(BYES_TOGETHER);
        for _ in 0..messages {
            let first = self.next_goodbye * BYES_TOGETHER;
            let count = BYES_TOGETHER.min(self.channels.len() - first);
            for (at, bye) in buf.chunks_exact_mut(BYE).take(count).enumerate() {
                let written = write_bye(voice_ssrc(self.sender, (first + at) as u32), bye);
                debug_assert_eq!(written, Some(BYE));
            }
            if let Err(SendError::Blocked { .. }) = send(&buf[..count * BYE]) {
                return;
            }
            self.next_goodbye = (self.next_goodbye + 1) % messages;
        }
    }
}

impl Channel {
    /// Bytes that its source has given at byte `at` of the clock.
    fn captured(&self, at: u64, phase: u64) -> u64 {
        at.saturating_sub(phase).min(self.end)
    }

    fn header(&self, sender: u16, number: usize, content: VoiceContent<'_>, buf: &mut [u8]) -> usize {
        let datum = Datum {
            sender,
            channel: number as u32,
            sequence: self.sequence,
            timestamp: match content {
                VoiceContent::Opus(_) => self.origin.wrapping_add(OPUS_TICKS.wrapping_mul(self.taken as u32)),
                _ => self.origin.wrapping_add(self.taken as u32),
            },
            marker: !self.talks && !matches!(content, VoiceContent::Pause(_)),
            content,
        };
        write_voice_header(&datum, buf).expect("the buffer has room for a header")
    }
}

/// The tag of voice; goodbyes have none.
pub(super) const DATA: Tag = Tag(0);
/// Channels that are invoked together at least, where there are as many: a wake-up costs as much as some messages.
const TOGETHER: usize = 10;
/// Channels that are invoked before what they send leaves: the processor's cache then still holds it, and these are two of the kernel's longest
/// datagrams.
const AT_ONCE: usize = 128;
/// Bytes between two groups at least: a millisecond, as timers are no more precise.
const LEAST_APART: usize = 8;
/// Bytes of a goodbye.
const BYE: usize = 8;
/// Goodbyes in a message, which fits into any packet.
const BYES_TOGETHER: usize = 64;
/// Bytes of the longest packet of Opus that is sent: 60 ms at 128 kbit/s.
const MOST_CODED: usize = 1_000;
