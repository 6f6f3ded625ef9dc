//! Protects a track against loss, over any transport: which messages go out, when, and how often.

use std::collections::VecDeque;
use std::str::FromStr;
use std::time::Duration;

use antiphon_core::{Instant, units};

use crate::store::Store;

/// Decides what of a track is sent, and when.
pub trait Protector {
    /// The message of that number was made; `store` holds it.
    fn on_message(&mut self, now: Instant, number: u64, store: &Store);

    /// The next thing to send, if any is due.
    fn poll(&mut self, now: Instant) -> Option<Emit>;

    /// When [`Self::poll`] has something to send.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Number of messages that must be kept after the last one made.
    fn remembers(&self) -> usize;

    /// How often each message is sent.
    fn copies(&self) -> u32;
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Emit {
    /// The message's number.
    pub number: u64,
    /// The copy's number; 0 for the first transmission.
    pub copy: u8,
}

/// Sends each message at once, and again `times - 1` times, `spacing` apart.
///
/// Copies that are further apart than a burst of losses survive it (RFC 2198 §1 carries them in later packets; here
/// they are packets of their own, which any RTP receiver takes). At an independent loss rate of p, p^times is missing.
#[derive(Debug)]
pub struct Repeat {
    setting: Repetition,
    /// Messages to be repeated: when, which, and the number of the copy. One queue for each copy number, so that each
    /// is in order.
    waiting: Vec<VecDeque<(Instant, u64)>>,
    interval: Duration,
}

/// How a track is protected; `repeat:N,spacing=T`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repetition {
    /// How often each message is sent, 1 to 8.
    pub times: u8,
    /// Time from one copy to the next, up to a second.
    pub spacing: Duration,
}

impl Default for Repetition {
    /// Each message once.
    fn default() -> Self {
        Repetition { times: 1, spacing: Duration::ZERO }
    }
}

/// Why a protection setting is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtectError {
    /// Not a known protection.
    #[error(
        "'{0}' is not a kind of protection: write none, or repeat:N,spacing=T such as repeat:2,spacing=10ms"
    )]
    Unknown(String),
    /// The number of copies is out of range.
    #[error("a message is sent 1 to {MOST_COPIES} times, not '{0}': write such as repeat:2,spacing=10ms")]
    Times(String),
    /// The spacing is not a duration, or too long.
    #[error("the spacing of copies is a time up to 1s, not '{0}': write such as repeat:2,spacing=10ms")]
    Spacing(String),
}

impl FromStr for Repetition {
    type Err = ProtectError;

    fn from_str(text: &str) -> Result<Self, ProtectError> {
        let short = |text: &str| text.chars().take(40).collect::<String>();
        if text == "none" {
            return Ok(Repetition::default());
        }
        let rest = text.strip_prefix("repeat:").ok_or_else(|| ProtectError::Unknown(short(text)))?;
        let (times, spacing) = match rest.split_once(',') {
            Some((times, spacing)) => {
                let spacing = spacing.strip_prefix("spacing=");
                (times, Some(spacing.ok_or_else(|| ProtectError::Unknown(short(text)))?))
            }
            None => (rest, None),
        };
        let count = times.parse::<u8>().ok().filter(|times| (1..=MOST_COPIES).contains(times));
        let parse = |spacing: &str| {
            let time = units::parse_duration(spacing).ok().filter(|time| *time <= MOST_SPACING);
            time.ok_or_else(|| ProtectError::Spacing(short(spacing)))
        };
        Ok(Repetition {
            times: count.ok_or_else(|| ProtectError::Times(short(times)))?,
            spacing: spacing.map(parse).transpose()?.unwrap_or(DEFAULT_SPACING),
        })
    }
}

impl std::fmt::Display for Repetition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.times {
            0 | 1 => f.write_str("none"),
            times => write!(f, "repeat:{times},spacing={}", units::format_duration(self.spacing)),
        }
    }
}

impl Repeat {
    /// Repeats, as `setting` says, the messages of a track that come at least `interval` apart.
    pub fn new(setting: Repetition, interval: Duration) -> Self {
        let mut repeat = Repeat { setting, waiting: Vec::new(), interval };
        let room = repeat.remembers();
        let copies = usize::from(setting.times.max(1));
        repeat.waiting = (0..copies).map(|_| VecDeque::with_capacity(room)).collect();
        repeat
    }
}

impl Protector for Repeat {
    fn on_message(&mut self, now: Instant, number: u64, _store: &Store) {
        for (copy, queue) in self.waiting.iter_mut().enumerate() {
            // A stalled machine makes more messages at once than a track otherwise does: the oldest copies are left
            // out.
            if queue.len() == queue.capacity() {
                queue.pop_front();
            }
            queue.push_back((now + self.setting.spacing * copy as u32, number));
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Emit> {
        let due = |queue: &VecDeque<(Instant, u64)>| queue.front().is_some_and(|(at, _)| *at <= now);
        let copy = self.waiting.iter().position(due)?;
        let (_, number) = self.waiting[copy].pop_front()?;
        Some(Emit { number, copy: copy as u8 })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|queue| queue.front()).map(|(at, _)| *at).min()
    }

    fn remembers(&self) -> usize {
        let span = self.setting.spacing * u32::from(self.setting.times.max(1) - 1) + STALL;
        let messages = span.as_nanos().div_ceil(self.interval.as_nanos().max(1)) as usize;
        messages.clamp(LEAST_REMEMBERED, MOST_REMEMBERED)
    }

    fn copies(&self) -> u32 {
        self.setting.times.max(1).into()
    }
}

/// The most copies of a message: with more, the copies themselves fill the path.
const MOST_COPIES: u8 = 8;
/// Copies further apart than a playout delay of one second are of no use.
const MOST_SPACING: Duration = Duration::from_secs(1);
/// Longer than most bursts of losses on Wi-Fi and the Internet, and well within a playout delay of 80 ms.
const DEFAULT_SPACING: Duration = Duration::from_millis(10);
/// The longest pause of a sender that it catches up with at once.
const STALL: Duration = Duration::from_millis(250);
/// The fewest messages kept: those of one block in all its channel groups.
const LEAST_REMEMBERED: usize = 64;
/// The most messages kept: 7 s of the shortest packets, at 64 sample frames and 48 kHz.
const MOST_REMEMBERED: usize = 8192;
