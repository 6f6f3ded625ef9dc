//! Sound that replaces missing sound.
//!
//! A concealer sees every block that is played, in order, so that it has a history to draw on and can blend the sound
//! after a gap with its concealment. Good blocks pass unchanged, bit for bit, except for the blend after a gap.

mod prediction;

use std::f32::consts::PI;

use prediction::Prediction;

use crate::StreamFormat;

/// State of a gap that is being filled.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a> {
    /// Sample frames still missing, including those of this call; `None` while nothing after the gap has arrived.
    pub remaining: Option<usize>,
    /// The sound after the gap, as much as [`Conceal::look_ahead`] asks for and has arrived; may be empty.
    pub ahead: &'a [f32],
}

/// A kind of concealment. Blocks are `[sample_frame][channel]`, of any number of sample frames.
pub trait Conceal: Send {
    /// Sample frames after the gap that the concealer needs.
    fn look_ahead(&self) -> usize {
        0
    }

    /// `block` is played. Right after a gap its beginning may be blended; otherwise it stays as it is.
    fn good(&mut self, block: &mut [f32]);

    /// Fills `out`, the next part of a gap.
    fn lost(&mut self, gap: Gap<'_>, out: &mut [f32]);
}

/// The kinds of concealment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Concealment {
    /// Fades to silence within 2.5 ms.
    Silence,
    /// Repeats the last 10 ms, fading to nothing at 60 ms.
    Repetition,
    /// Lets the sound go on by linear prediction, fading to nothing at 60 ms. Costs some tenths of a millisecond for each gap.
    #[default]
    Prediction,
    /// Silence with nothing blended ([`Blank`]): not offered to listeners.
    Blank,
}

impl Concealment {
    /// Those that a listener can choose, in the order that help texts list them.
    pub const ALL: [Concealment; 3] =
        [Concealment::Silence, Concealment::Repetition, Concealment::Prediction];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Concealment::Silence => "silence",
            Concealment::Repetition => "repetition",
            Concealment::Prediction => "prediction",
            Concealment::Blank => "blank",
        }
    }

    /// Whether sound is made up, as a decoder can do as well.
    pub fn invents(self) -> bool {
        matches!(self, Concealment::Repetition | Concealment::Prediction)
    }

    /// Makes one for a stream.
    pub fn open(self, format: StreamFormat) -> Box<dyn Conceal> {
        match self {
            Concealment::Silence => Box::new(Inventive::new(format, Silence::new(format))),
            Concealment::Repetition => Box::new(Inventive::new(format, Repetition::new(format))),
            Concealment::Prediction => Box::new(Inventive::new(format, Prediction::new(format))),
            Concealment::Blank => Box::new(Blank),
        }
    }
}

/// The text is not the name of a kind of concealment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown concealment '{name}'{}; known: silence, repetition, prediction", antiphon_core::did_you_mean(*.nearest))]
pub struct UnknownConcealment {
    name: String,
    nearest: Option<&'static str>,
}

impl std::str::FromStr for Concealment {
    type Err = UnknownConcealment;

    fn from_str(text: &str) -> Result<Self, UnknownConcealment> {
        let known = Concealment::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| UnknownConcealment {
            name: text.chars().take(40).collect(),
            nearest: antiphon_core::nearest(text, Concealment::ALL.map(Concealment::name)),
        })
    }
}

/// Silence with nothing blended: all that came stays as it is, for a recording that is completed later, or where nobody
/// listens.
#[derive(Clone, Copy, Debug)]
pub struct Blank;

impl Conceal for Blank {
    fn good(&mut self, _block: &mut [f32]) {}

    fn lost(&mut self, _gap: Gap<'_>, out: &mut [f32]) {
        out.fill(0.0);
    }
}

/// What is heard in a gap, made of the sound before it.
trait Invention: Send {
    /// A gap begins; the last `whole` sample frames came and were not blended.
    fn begin(&mut self, whole: usize);

    /// The sample of a channel, `since` sample frames into the gap.
    fn sample(&mut self, since: usize, channel: usize) -> f32;

    /// `block` goes out, whether it came or was invented.
    fn remember(&mut self, block: &[f32]);

    /// Sample frames of the blend after a gap of `lost` sample frames.
    fn blend(&self, lost: usize) -> usize;
}

/// A concealer that fills gaps with an invention, and blends what comes after them with it.
#[derive(Clone, Debug)]
struct Inventive<I> {
    invention: I,
    channels: usize,
    /// Sample frames since the last gap began.
    since: usize,
    /// Sample frames of the blend after the last gap, and how many of them are still to do.
    blend: usize,
    returning: usize,
    /// Sample frames that came whole since then.
    whole: usize,
    lost: bool,
}

impl<I: Invention> Inventive<I> {
    fn new(format: StreamFormat, invention: I) -> Self {
        let channels = format.channels();
        Inventive { invention, channels, since: 0, blend: 0, returning: 0, whole: 0, lost: false }
    }
}

impl<I: Invention> Conceal for Inventive<I> {
    fn good(&mut self, block: &mut [f32]) {
        if std::mem::take(&mut self.lost) {
            self.blend = self.invention.blend(self.since);
            self.returning = self.blend;
        }
        let blended = self.returning.min(block.len() / self.channels);
        self.whole = self.whole.saturating_add(block.len() / self.channels - blended);
        for frame in block.chunks_exact_mut(self.channels).take(self.returning) {
            let weight = rise(self.blend - self.returning, self.blend);
            for (channel, x) in frame.iter_mut().enumerate() {
                *x = *x * weight + self.invention.sample(self.since, channel) * (1.0 - weight);
            }
            self.returning -= 1;
            self.since += 1;
        }
        self.invention.remember(block);
    }

    fn lost(&mut self, _gap: Gap<'_>, out: &mut [f32]) {
        if !self.lost {
            self.invention.begin(std::mem::take(&mut self.whole));
            (self.lost, self.since, self.returning) = (true, 0, 0);
        }
        for frame in out.chunks_exact_mut(self.channels) {
            for (channel, x) in frame.iter_mut().enumerate() {
                *x = self.invention.sample(self.since, channel);
            }
            self.since = self.since.saturating_add(1);
        }
        self.invention.remember(out);
    }
}

/// Silence, reached and left without a click: the last sample fades out, the sound fades in.
#[derive(Clone, Debug)]
struct Silence {
    fade: usize,
    /// The last sample frame that went out, and the one at which the last gap began.
    heard: Vec<f32>,
    from: Vec<f32>,
}

impl Silence {
    fn new(format: StreamFormat) -> Self {
        let frame = vec![0.0; format.channels()];
        Silence { fade: frames(format, JOIN_MS), heard: frame.clone(), from: frame }
    }
}

impl Invention for Silence {
    fn begin(&mut self, _whole: usize) {
        self.from.copy_from_slice(&self.heard);
    }

    fn sample(&mut self, since: usize, channel: usize) -> f32 {
        self.from[channel] * (1.0 - rise(since, self.fade))
    }

    fn remember(&mut self, block: &[f32]) {
        if let Some(frame) = block.chunks_exact(self.heard.len()).next_back() {
            self.heard.copy_from_slice(frame);
        }
    }

    fn blend(&self, _lost: usize) -> usize {
        self.fade
    }
}

/// The last 10 ms over and over, joined by blends of 2.5 ms, at full strength for 10 ms and then fading to nothing at
/// 60 ms: the times of ITU-T G.711 Appendix I, without its search for the pitch.
#[derive(Clone, Debug)]
struct Repetition {
    channels: usize,
    period: usize,
    join: usize,
    hold: usize,
    end: usize,
    /// The last `join + period` sample frames that went out, as a ring.
    history: Vec<f32>,
    next: usize,
    /// The same in order, as of the beginning of the gap.
    template: Vec<f32>,
}

impl Repetition {
    fn new(format: StreamFormat) -> Self {
        let (join, period) = (frames(format, JOIN_MS), frames(format, PERIOD_MS));
        let len = (join + period) * format.channels();
        Repetition {
            channels: format.channels(),
            period,
            join,
            hold: frames(format, HOLD_MS),
            end: frames(format, END_MS),
            history: vec![0.0; len],
            next: 0,
            template: vec![0.0; len],
        }
    }

    fn gain(&self, since: usize) -> f32 {
        let faded = since.saturating_sub(self.hold) as f32 / (self.end - self.hold) as f32;
        (1.0 - faded).max(0.0)
    }
}

impl Invention for Repetition {
    fn begin(&mut self, _whole: usize) {
        let tail = self.history.len() - self.next;
        self.template[..tail].copy_from_slice(&self.history[self.next..]);
        self.template[tail..].copy_from_slice(&self.history[..self.next]);
    }

    fn sample(&mut self, since: usize, channel: usize) -> f32 {
        if since >= self.end {
            return 0.0;
        }
        let at = |frame: usize| self.template[frame * self.channels + channel];
        let phase = since % self.period;
        let seam = self.period - self.join;
        let mut x = at(self.join + phase);
        if phase >= seam {
            // The end of the period is faded into the sound before its beginning.
            let weight = rise(phase - seam, self.join);
            x = x * (1.0 - weight) + at(phase - seam) * weight;
        }
        if since < self.join {
            // The history in reverse starts at the sample where the sound stopped, whatever its phase.
            let weight = rise(since, self.join);
            x = x * weight + at(self.join + self.period - 1 - since) * (1.0 - weight);
        }
        x * self.gain(since)
    }

    fn remember(&mut self, block: &[f32]) {
        into_ring(&mut self.history, &mut self.next, block);
    }

    /// 2.5 ms, and 4 ms for each 10 ms lost beyond the first, at most 10 ms (Appendix I).
    fn blend(&self, lost: usize) -> usize {
        (self.join + lost.saturating_sub(self.hold) * 2 / 5).min(self.period)
    }
}

/// Writes the end of `block` into a ring at `next`, which moves on.
fn into_ring(ring: &mut [f32], next: &mut usize, block: &[f32]) {
    let len = ring.len();
    let block = &block[block.len().saturating_sub(len)..];
    let first = block.len().min(len - *next);
    ring[*next..*next + first].copy_from_slice(&block[..first]);
    ring[..block.len() - first].copy_from_slice(&block[first..]);
    *next = (*next + block.len()) % len;
}

/// A raised cosine from 0 towards 1 over `len` steps.
pub(crate) fn rise(step: usize, len: usize) -> f32 {
    if step >= len {
        return 1.0;
    }
    0.5 - 0.5 * (PI * (step as f32 + 0.5) / len as f32).cos()
}

pub(crate) fn frames(format: StreamFormat, ms: f64) -> usize {
    (f64::from(format.rate()) * ms / 1000.0).round() as usize
}

/// A quarter of the shortest pitch period that Appendix I looks for is 1.25 ms; twice that is smooth for music as well.
pub(crate) const JOIN_MS: f64 = 2.5;
const PERIOD_MS: f64 = 10.0;
/// Appendix I: full strength for the first 10 ms, 20 % less for each further 10 ms, nothing at 60 ms.
const HOLD_MS: f64 = 10.0;
const END_MS: f64 = 60.0;

#[cfg(test)]
mod tests;
