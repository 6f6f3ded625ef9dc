//! When the blocks of a live source are pulled.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime};

use crate::Source;

/// Lets a live source pace its sender.
///
/// A block is pulled as soon as it is complete, so that the source's clock is the stream's and no delay builds up. More
/// than one block can be waiting for three reasons, and each is handled in its own way:
///
/// * *Sending begins.* All but the newest block is left out: it would stay the stream's delay.
/// * *The source gives much at once*, as `arecord` does every 125 ms. Blocks of such a piece leave one after the other,
///   2 % faster than they last: as evenly as the receiver needs them, and all gone before the next piece comes. Of very short
///   blocks several leave together ([`Self::in_runs_of`]).
/// * *A stall* of the media thread or of the source. Overdue blocks leave at once, as each is late already; beyond
///   250 ms only the newest block is worth sending.
///
/// A piece is distinguished from a stall by what the source says ([`crate::Ready::piece`]), or by the usual piece of the last seconds. Several stalls in a row look like large pieces; but
/// of a piece hardly anything waits when the next one comes. Where more than 250 ms wait for as long as a piece lasts, only the newest block
/// is worth sending as well. Sound that is left out is not missing
/// in media time: the sound continues at the next time stamp, nearer to its capture than before.
#[derive(Clone, Debug)]
pub struct LivePace {
    /// Sample frames.
    block: usize,
    rate: u32,
    /// From one block of a piece to the next.
    gap: Duration,
    /// Blocks of a piece that leave together.
    run: u32,
    /// Blocks of the present run that were pulled.
    sent_of_run: u32,
    state: State,
    /// Sample frames that remained of the last piece.
    left: usize,
    /// Most sample frames of this piece that waited.
    piece: usize,
    /// Since when, and the fewest sample frames that have waited since.
    least: Option<(Instant, usize)>,
    usual: Usual,
    skipped: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing has been pulled yet.
    Beginning,
    /// The source had no whole block: the next one is pulled when it comes.
    Awaiting,
    /// More blocks are ready; the next is due at this instant.
    Following(Instant),
}

impl LivePace {
    /// For blocks of `block` sample frames, at least 1, at `rate` per second. Made when sending begins, or when the source
    /// turns out to be live.
    pub fn new(block: usize, rate: u32) -> Self {
        let lasts = MediaTime::new(block.max(1) as u64, rate).duration();
        LivePace {
            block: block.max(1),
            rate,
            gap: lasts - lasts / FASTER,
            run: 1,
            sent_of_run: 0,
            state: State::Beginning,
            left: 0,
            piece: 0,
            least: None,
            usual: Usual::default(),
            skipped: 0,
        }
    }

    /// So many blocks of a piece, at least 1, leave together, at the time of the first: none leaves later than alone, and the thread wakes
    /// once for all of them.
    pub fn in_runs_of(self, blocks: u32) -> Self {
        LivePace { run: blocks.max(1), ..self }
    }

    /// Returns whether a block is to be pulled now; call it until it returns false. Leaves out sound that is too old to
    /// be sent. Called when the source wakes the thread ([`Source::set_waker`]) and at [`Self::poll_timeout`].
    pub fn poll(&mut self, now: Instant, source: &mut dyn Source) -> bool {
        let ready = source.ready();
        if ready.ended && ready.frames == 0 {
            return true;
        }
        if let State::Beginning = self.state {
            return self.leave_out(source);
        }
        if ready.frames < self.block && !ready.ended {
            self.await_more(now, ready.frames);
            return false;
        }
        let waiting = ready.frames.saturating_sub(self.left);
        self.piece = self.piece.max(waiting);
        let overdue = self.overdue(waiting, ready.piece);
        let due = match self.state {
            // Of a source that says what it gives at a time, more than that is late whenever it comes.
            State::Following(due) if ready.piece > 0 && !overdue.is_zero() => due.min(now - overdue),
            State::Following(due) => due,
            State::Beginning | State::Awaiting => now - overdue,
        };
        self.state = State::Following(due);
        if now.since(due) > MOST_BEHIND || self.stays_behind(now, ready.frames) {
            return self.leave_out(source);
        }
        if due > now {
            return false;
        }
        match ready.frames < 2 * self.block && !ready.ended {
            true => self.await_more(now, ready.frames - self.block),
            false => self.state = State::Following(self.after(due)),
        }
        true
    }

    /// When to call [`Self::poll`] without a wake from the source; `None` if only the source can tell.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Following(due) => Some(due),
            State::Beginning | State::Awaiting => None,
        }
    }

    /// Sample frames left out so far.
    pub fn skipped_frames(&self) -> u64 {
        self.skipped
    }

    /// When the block after one that was due at `due` is due.
    fn after(&mut self, due: Instant) -> Instant {
        self.sent_of_run += 1;
        if self.sent_of_run < self.run {
            return due;
        }
        self.sent_of_run = 0;
        due + self.gap * self.run
    }

    /// For how long the first of `waiting` sample frames, counted from when the buffer was last empty, has been due:
    /// what exceeds the source's usual piece, or the one that it says, came during a stall.
    fn overdue(&self, waiting: usize, piece: usize) -> Duration {
        let usual = if piece > 0 { piece } else { self.usual.frames() };
        // Pieces that are not a whole number of blocks leave sometimes one block more, sometimes one less.
        let at_once = if usual > self.block { usual + self.block } else { self.block };
        MediaTime::new(waiting.saturating_sub(at_once) as u64, self.rate).duration()
    }

    /// Whether more than is worth sending has waited for as long as a piece lasts.
    fn stays_behind(&mut self, now: Instant, ready: usize) -> bool {
        let (since, least) = self.least.map_or((now, ready), |(since, least)| (since, least.min(ready)));
        self.least = Some((since, least));
        let time = |frames: usize| MediaTime::new(frames as u64, self.rate).duration();
        if now.since(since) <= time(self.usual.frames() + self.block) {
            return false;
        }
        self.least = None;
        time(least) > MOST_BEHIND
    }

    fn await_more(&mut self, now: Instant, left: usize) {
        if self.piece > 0 {
            self.usual.add(now, self.piece);
        }
        self.state = State::Awaiting;
        self.left = left;
        (self.piece, self.least) = (0, None);
        self.sent_of_run = 0;
    }

    fn leave_out(&mut self, source: &mut dyn Source) -> bool {
        self.skipped += source.keep_newest(self.block);
        let kept = source.ready();
        let is_whole = kept.frames >= self.block || kept.ended;
        self.state = State::Awaiting;
        self.left = if is_whole { 0 } else { kept.frames };
        (self.piece, self.least) = (0, None);
        self.sent_of_run = 0;
        is_whole
    }
}

/// The source's usual piece: the largest of the last seconds that was not the only one of its size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    began: Option<Instant>,
    /// The largest of this window, and the second.
    current: [usize; 2],
    /// The second largest of the windows before.
    past: [usize; 2],
}

impl Usual {
    pub fn add(&mut self, now: Instant, frames: usize) {
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= WINDOW {
            self.past = [self.current[1], self.past[0]];
            self.current = [0; 2];
            self.began = Some(now);
        }
        let [largest, second] = self.current;
        self.current = [largest.max(frames), second.max(frames.min(largest))];
    }

    pub fn frames(&self) -> usize {
        self.past.into_iter().fold(self.current[1], usize::max)
    }
}

/// One part in this many: what waits of a piece of 125 ms is gone 2.5 ms before the next one comes, more than two
/// clocks differ by; a receiver sees these 2.5 ms as jitter.
const FASTER: u32 = 50;
/// The longest stall after which all missed sound is sent; a receiver may have room for it.
const MOST_BEHIND: Duration = Duration::from_millis(250);
/// Twice as long as the longest piece that a live pipe may give ([`super::LiveMeter`]), so that each window sees two.
const WINDOW: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
