//! What a stream suffers from another one beside it, and what becomes of video frames: the metrics of the study of two
//! streams (Latecki, Kulkarni and Mulik 2003, section 2), and one-way delay beside them, which its gaps do not show.

use std::ops::Range;
use std::time::Duration;

use antiphon_core::Instant;

use crate::histogram::millis;
use crate::jitter::RollingDeviation;
use crate::list::StreamFigures;
use crate::rate::percent;

/// A gap above this counts as a packet that is late for a buffer of 200 ms where packets come each 50 ms (section 2).
const LATE_GAP: Duration = Duration::from_millis(250);
/// The study counts these as well (section 3.1).
const LONG_GAP: Duration = Duration::from_millis(500);

/// Adds what a stream's arrivals show of another one beside it.
///
/// `arrivals`, `others`: of different packets of the two, in any order. `sending`: from when to when the other one was sent.
/// Gaps count as the study counts them: between successive arrivals of received packets, in the whole run. (Counted while there is video
/// only, those without a packet of it would be 8 ms over UDP and 25 ms over TCP; 21 and 43 are printed.)
pub fn add_beside(
    figures: &mut StreamFigures,
    arrivals: &[Instant],
    others: &[Instant],
    sending: &Range<Instant>,
) {
    let (arrivals, others) = (sorted(arrivals), sorted(others));
    let over = |limit: Duration| {
        let late = arrivals.windows(2).filter(|pair| pair[1].since(pair[0]) > limit).count();
        (arrivals.len() > 1).then_some(late as f64)
    };
    figures.gaps_above_250ms = over(LATE_GAP);
    figures.gaps_above_500ms = over(LONG_GAP);
    let (mut shared, mut own) = (Mean::default(), Mean::default());
    let mut rolling = RollingDeviation::default();
    let mut deviations = Mean::default();
    for pair in arrivals.windows(2) {
        let gap = pair[1].since(pair[0]);
        rolling.on_gap(gap);
        if sending.contains(&pair[1])
            && let Some(deviation) = rolling.ms()
        {
            deviations.add(deviation);
        }
        let until = |at: Instant| others.partition_point(|other| *other <= at);
        let has_other = until(pair[1]) > until(pair[0]);
        if has_other { shared.add(millis(gap)) } else { own.add(millis(gap)) }
    }
    figures.gap_shared_ms = shared.mean();
    figures.gap_unshared_ms = own.mean();
    figures.gap_sd_mean_ms = deviations.mean();
    figures.gap_sd_max_ms = deviations.greatest();
}

/// Adds the shares of the packets `sent` that a listener with each of five playout delays would not have heard: those that never
/// came, and those that came too late, counted from the least delayed packet. `delays`: of those that came.
pub fn add_playout(figures: &mut StreamFigures, delays: &[Duration], sent: u64) {
    // Where nothing came, all is missed whatever the delay.
    let least = delays.iter().min().copied().unwrap_or_default();
    let missed = |ms: u64| {
        let limit = least + Duration::from_millis(ms);
        let heard = delays.iter().filter(|delay| **delay <= limit).count() as u64;
        percent(sent.saturating_sub(heard), sent)
    };
    figures.missed_50ms_percent = missed(50);
    figures.missed_100ms_percent = missed(100);
    figures.missed_200ms_percent = missed(200);
    figures.missed_500ms_percent = missed(500);
    figures.missed_1000ms_percent = missed(1000);
}

/// How a video is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VideoLayout {
    /// Bytes of a video frame.
    pub frame: usize,
    /// The most bytes of a packet.
    pub packet: usize,
    /// From one frame to the next.
    pub interval: Duration,
    /// Frames of the video.
    pub count: u64,
}

impl VideoLayout {
    /// Packets of a frame.
    pub fn packets(&self) -> u64 {
        self.frame.div_ceil(self.packet.max(1)) as u64
    }

    /// Bytes of a frame's packet, counted from 0; 0 beyond the last.
    pub fn bytes_of(&self, part: u64) -> usize {
        let from = self.packet.saturating_mul(usize::try_from(part).unwrap_or(usize::MAX));
        self.frame.saturating_sub(from).min(self.packet)
    }
}

/// A video frame that was handed to the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentFrame {
    /// When it was due.
    pub due: Instant,
    /// The index of its first packet among all that were handed over; the others follow.
    pub first: u64,
}

/// Adds what came of a video. `begin`: when its first frame was due. `came`: the index of each packet that arrived, and when.
pub fn add_video(
    figures: &mut StreamFigures,
    layout: &VideoLayout,
    begin: Instant,
    frames: &[SentFrame],
    came: &[(u64, Instant)],
) {
    let mut seen: Vec<Seen> = frames.iter().map(|_| Seen::default()).collect();
    let mut bytes = 0;
    for (index, at) in came {
        let place = frames.partition_point(|frame| frame.first <= *index);
        let Some(number) = place.checked_sub(1) else { continue };
        bytes += layout.bytes_of(index - frames[number].first) as u64;
        seen[number].packets += 1;
        seen[number].last = seen[number].last.max(*at);
    }
    let times = || came.iter().map(|(_, at)| *at);
    let (first, last) = (times().min(), times().max());
    let span =
        first.zip(last).map(|(first, last)| last.since(first).as_secs_f64()).filter(|span| *span > 0.0);
    figures.media_kbit_per_s = span.map(|span| bytes as f64 * 8.0 / 1e3 / span);
    figures.frames_sent = Some(frames.len() as f64);
    let whole: Vec<(Instant, Instant)> = frames
        .iter()
        .zip(&seen)
        .filter(|(_, seen)| seen.packets == layout.packets())
        .map(|(frame, seen)| (frame.due, seen.last))
        .collect();
    figures.frames_whole = Some(whole.len() as f64);
    let mut delays = Mean::default();
    whole.iter().for_each(|(due, at)| delays.add(millis(at.since(*due))));
    figures.frame_delay_mean_ms = delays.mean();
    let shown = shown(whole);
    let mut gaps = Mean::default();
    shown.windows(2).for_each(|pair| gaps.add(millis(pair[1].since(pair[0]))));
    figures.frame_gap_mean_ms = gaps.mean();
    let length = layout.interval.saturating_mul(u32::try_from(layout.count).unwrap_or(u32::MAX));
    let end = (begin + length).max(last.unwrap_or(begin));
    figures.freeze_percent = frozen(&shown, begin..end, layout.interval);
}

/// What has come of a frame.
#[derive(Clone, Copy, Default)]
struct Seen {
    packets: u64,
    last: Instant,
}

/// When the picture changes: whole frames in the order of their last packets, those older than the one shown left out.
fn shown(mut whole: Vec<(Instant, Instant)>) -> Vec<Instant> {
    whole.sort_unstable_by_key(|(due, at)| (*at, *due));
    let mut newest = None;
    whole.retain(|(due, _)| {
        let is_newer = newest.is_none_or(|newest| *due > newest);
        newest = newest.max(Some(*due));
        is_newer
    });
    whole.into_iter().map(|(_, at)| at).collect()
}

/// The share of the time in which the picture stood still for longer than one frame lasts: what each wait takes beyond that.
fn frozen(shown: &[Instant], time: Range<Instant>, interval: Duration) -> Option<f64> {
    let all = time.end.since(time.start);
    let mut frozen = Duration::ZERO;
    let mut before = time.start;
    for at in shown.iter().copied().chain([time.end]) {
        frozen += at.since(before).saturating_sub(interval);
        before = at;
    }
    (!all.is_zero()).then(|| 100.0 * frozen.as_secs_f64() / all.as_secs_f64())
}

/// A mean, and the greatest value.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
    greatest: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        self.greatest = self.greatest.max(value);
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn greatest(&self) -> Option<f64> {
        (self.count > 0).then_some(self.greatest)
    }
}

fn sorted(times: &[Instant]) -> Vec<Instant> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times
}

#[cfg(test)]
mod tests;
