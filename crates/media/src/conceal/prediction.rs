//! Sound that goes on as the sound before it: linear prediction of high order.
//!
//! At the beginning of a gap each channel's last 40 ms are modelled as the output of an all-pole filter: autocorrelation with a Hann
//! window, then Levinson's recursion, which always gives a stable filter (Makhoul 1975, "Linear prediction: a tutorial review"). The filter
//! then runs on without input. Kauppinen and Roth (2002, "Audio signal extrapolation: theory and applications") fill gaps in music so, with
//! orders of some hundreds. An order of 8 ms holds the pitch of voices above 125 Hz as well as formants and partials.

use super::{Invention, frames, rise};
use crate::StreamFormat;

/// The continuation of the sound by prediction, at full strength for 20 ms and then fading to nothing at 60 ms.
#[derive(Clone, Debug)]
pub(super) struct Prediction {
    channels: usize,
    order: usize,
    hold: usize,
    end: usize,
    join: usize,
    longest_blend: usize,
    /// The last sample frames that went out, as a ring.
    history: Vec<f32>,
    next: usize,
    window: Vec<f64>,
    model: Model,
    /// Of each channel `order` coefficients, the newest sample's last.
    filters: Vec<f64>,
    /// Of each channel the last `order` samples before the gap, then those predicted so far.
    predicted: Vec<Vec<f64>>,
    /// Of each channel the largest step from sample to sample before the gap, if at least so many sample frames of it came whole.
    steps: Vec<f64>,
    least_whole: usize,
    /// Of each channel the largest sample before the gap.
    peaks: Vec<f64>,
}

/// Memory for a channel's filter while it is computed.
#[derive(Clone, Debug)]
struct Model {
    windowed: Vec<f64>,
    correlation: Vec<f64>,
    filter: Vec<f64>,
    before: Vec<f64>,
}

impl Prediction {
    pub fn new(format: StreamFormat) -> Self {
        let channels = format.channels();
        let len = frames(format, HISTORY_MS);
        // The work at the beginning of a gap grows with the channels' orders together.
        let order = frames(format, ORDER_MS).min(MOST_WORK / channels).max(LEAST_ORDER).min(len / 2);
        let end = frames(format, END_MS);
        let window = |n: usize| rise(n.min(len - 1 - n), len / 2).into();
        Prediction {
            channels,
            order,
            hold: frames(format, HOLD_MS),
            end,
            join: frames(format, super::JOIN_MS),
            longest_blend: frames(format, LONGEST_BLEND_MS),
            history: vec![0.0; len * channels],
            next: 0,
            window: (0..len).map(window).collect(),
            model: Model {
                windowed: vec![0.0; len],
                correlation: vec![0.0; order + 1],
                filter: vec![0.0; order],
                before: vec![0.0; order],
            },
            filters: vec![0.0; order * channels],
            // A clone of an empty vector has no capacity, so each is made.
            predicted: (0..channels).map(|_| Vec::with_capacity(order + end)).collect(),
            steps: vec![0.0; channels],
            least_whole: frames(format, LEAST_WHOLE_MS),
            peaks: vec![0.0; channels],
        }
    }

    fn gain(&self, since: usize) -> f32 {
        let faded = since.saturating_sub(self.hold) as f32 / (self.end - self.hold) as f32;
        (1.0 - faded).max(0.0)
    }
}

impl Model {
    /// The filter of these samples; all zero for silence.
    fn fit(&mut self, samples: impl Iterator<Item = f64>, window: &[f64]) -> &[f64] {
        for ((place, sample), weight) in self.windowed.iter_mut().zip(samples).zip(window) {
            *place = sample * weight;
        }
        for (lag, sum) in self.correlation.iter_mut().enumerate() {
            *sum = dot(&self.windowed[lag..], &self.windowed[..window.len() - lag]);
        }
        self.filter.fill(0.0);
        self.correlation[0] *= 1.0 + WHITE;
        self.levinson();
        // The newest sample's coefficient last, as samples stand in memory.
        self.filter.reverse();
        &self.filter
    }

    /// Solves for the coefficients by which the past predicts the next sample, the newest sample's first.
    fn levinson(&mut self) {
        let Model { correlation, filter, before, .. } = self;
        let mut error = correlation[0];
        for order in 0..filter.len() {
            if error <= SILENT {
                return;
            }
            let known: f64 =
                filter[..order].iter().zip(correlation[1..=order].iter().rev()).map(|(a, r)| a * r).sum();
            let reflection = (correlation[order + 1] - known) / error;
            before[..order].copy_from_slice(&filter[..order]);
            for (place, mirrored) in filter[..order].iter_mut().zip(before[..order].iter().rev()) {
                *place -= reflection * mirrored;
            }
            filter[order] = reflection;
            error *= 1.0 - reflection * reflection;
        }
    }
}

impl Invention for Prediction {
    fn begin(&mut self, whole: usize) {
        for channel in 0..self.channels {
            let (newer, older) = self.history.split_at(self.next);
            let samples = || {
                let in_order = older.chunks_exact(self.channels).chain(newer.chunks_exact(self.channels));
                in_order.map(|frame| f64::from(frame[channel]))
            };
            let filter = self.model.fit(samples(), &self.window);
            self.filters[channel * self.order..][..self.order].copy_from_slice(filter);
            let before = self.window.len() - self.order;
            self.predicted[channel].clear();
            self.predicted[channel].extend(samples().skip(before));
            self.peaks[channel] = samples().fold(0.0, |peak, sample| sample.abs().max(peak));
            // What concealment and blends did is no measure for the sound.
            let whole = whole.min(self.window.len());
            if whole >= self.least_whole {
                let sound = || samples().skip(self.window.len() - whole);
                let steps = sound().skip(1).zip(sound()).map(|(next, sample)| (next - sample).abs());
                self.steps[channel] = steps.fold(0.0, f64::max);
            }
        }
    }

    fn sample(&mut self, since: usize, channel: usize) -> f32 {
        if since >= self.end {
            return 0.0;
        }
        let filter = &self.filters[channel * self.order..][..self.order];
        let predicted = &mut self.predicted[channel];
        while predicted.len() <= self.order + since {
            let past = &predicted[predicted.len() - self.order..];
            let (next, last) = (dot(filter, past), past[self.order - 1]);
            // A filter that fits badly, as at an onset, makes no click: it moves no faster than the sound did, nor gets louder.
            let next = next.clamp(last - self.steps[channel], last + self.steps[channel]);
            predicted.push(next.clamp(-self.peaks[channel], self.peaks[channel]));
        }
        predicted[self.order + since] as f32 * self.gain(since)
    }

    fn remember(&mut self, block: &[f32]) {
        super::into_ring(&mut self.history, &mut self.next, block);
    }

    /// As with [`super::Repetition`].
    fn blend(&self, lost: usize) -> usize {
        (self.join + lost.saturating_sub(4 * self.join) * 2 / 5).min(self.longest_blend)
    }
}

/// The sum of products; in several parts, so that processors compute them at once.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, rest_a) = a.as_chunks::<LANES>();
    let (b, rest_b) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum::<f64>()
}

const LANES: usize = 8;
/// What a filter is computed from: several periods of a low voice, and short enough for sound that changes.
const HISTORY_MS: f64 = 40.0;
const ORDER_MS: f64 = 8.0;
/// Coefficients of all channels together: two channels at 48 kHz have all that they want. Their filters take less than a millisecond.
const MOST_WORK: usize = 768;
const LEAST_ORDER: usize = 16;
/// Longer than repetition holds, as it sounds less like a machine.
const HOLD_MS: f64 = 20.0;
const END_MS: f64 = 60.0;
const LONGEST_BLEND_MS: f64 = 10.0;
/// Half a period of 200 Hz.
const LEAST_WHOLE_MS: f64 = 2.5;
/// White noise of this power relative to the sound's, which keeps the recursion exact enough in 64 bits.
const WHITE: f64 = 1e-9;
/// Sound of less energy than this in the whole history is silence.
const SILENT: f64 = 1e-12;
