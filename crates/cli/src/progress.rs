//! Progress of long work: moving lines if standard error is a terminal, otherwise a plain line at intervals.

use std::io::Write;
use std::time::Duration;

use antiphon::core::Instant;
use antiphon::net::OsClock;
use antiphon::{Progress, Stop};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Output;
use crate::signals::STOPPING;

/// How often a plain line is printed.
pub const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// The longest time between two plain lines of a stream: a log of weeks has 24 of them a day.
const PLAIN_AT_LEAST_EVERY: Duration = Duration::from_secs(3600);

/// Tells when something is due at regular intervals.
pub struct Pace {
    clock: OsClock,
    every: Duration,
    /// To which the intervals grow, each twice as long as the one before.
    longest: Duration,
    next: Instant,
}

impl Pace {
    /// The first time after `every`.
    pub fn new(clock: OsClock, every: Duration) -> Self {
        Pace { clock, every, longest: every, next: clock.now() + every }
    }

    /// The first time after `every`, then after ever longer times up to `longest`.
    pub fn slowing(clock: OsClock, every: Duration, longest: Duration) -> Self {
        Pace { longest, ..Pace::new(clock, every) }
    }

    /// Whether it is due, at most once for each time.
    pub fn is_due(&mut self) -> bool {
        self.is_due_at(self.clock.now())
    }

    fn is_due_at(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.every = (2 * self.every).min(self.longest);
        // Missed times are skipped.
        while self.next <= now {
            self.next += self.every;
        }
        true
    }
}

/// Displays the progress of a comparison.
pub struct CompareProgress {
    bars: Option<MultiProgress>,
    total: Option<ProgressBar>,
    lines: Vec<ProgressBar>,
    plain: Pace,
    stop: Stop,
}

impl CompareProgress {
    /// Nothing is drawn before the first [`Self::update`].
    pub fn new(output: &Output, stop: &Stop) -> Self {
        let bars =
            output.draws.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10)));
        let plain = Pace::new(output.clock(), PLAIN_EVERY);
        CompareProgress { bars, total: None, lines: Vec::new(), plain, stop: stop.clone() }
    }

    /// Displays the present progress.
    pub fn update(&mut self, progress: &Progress, output: &Output) {
        if self.stop.is_asked() {
            self.clear();
            return;
        }
        let Some(bars) = &self.bars else {
            if self.plain.is_due() {
                output.talk(&time_line(progress.elapsed, progress.total));
            }
            return;
        };
        let total = self.total.get_or_insert_with(|| bars.add(bar(progress.total)));
        total.set_position(millis(progress.elapsed));
        total.set_message(time_line(progress.elapsed, progress.total));
        while self.lines.len() < progress.transports.len() {
            self.lines.push(bars.add(ProgressBar::no_length().with_style(line_style())));
        }
        for (line, transport) in self.lines.iter().zip(&progress.transports) {
            let rtt = transport.rtt.map_or("-".into(), |rtt| format!("{:.1} ms", rtt.as_secs_f64() * 1e3));
            line.set_message(format!(
                "{:<8} sent {:>6} returned {:>6} late {:>5} round trip {rtt:>8}",
                transport.transport, transport.sent, transport.received, transport.late
            ));
        }
    }

    /// Removes it from the screen, unless it was interrupted.
    pub fn clear(&mut self) {
        let Some(bars) = self.bars.take() else { return };
        if self.stop.is_asked() {
            bars.set_draw_target(ProgressDrawTarget::hidden());
            leave();
        } else {
            // A terminal that is gone need not be cleared.
            let _ = bars.clear();
        }
    }
}

/// Reports the end below the progress, which stays. The terminal has printed `^C` there and moved the cursor, so that
/// clearing would remove too much or too little.
pub fn leave() {
    // If standard error is closed, nothing can be printed.
    let _closed = writeln!(std::io::stderr(), " {STOPPING}");
}

/// Removes a bar from the screen, unless it was interrupted.
pub fn take_off(bar: &ProgressBar, stop: &Stop) {
    if stop.is_asked() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        leave();
    } else {
        bar.finish_and_clear();
    }
}

/// Displays the progress of one stream.
pub struct StreamProgress {
    bar: Option<ProgressBar>,
    plain: Pace,
    stop: Stop,
}

impl StreamProgress {
    /// Nothing is drawn before the first [`Self::update`].
    pub fn new(output: &Output, stop: &Stop) -> Self {
        let bar = output.draws.then(|| {
            let line = ProgressBar::no_length().with_style(line_style());
            line.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            line
        });
        let plain = Pace::slowing(output.clock(), PLAIN_EVERY, PLAIN_AT_LEAST_EVERY);
        StreamProgress { bar, plain, stop: stop.clone() }
    }

    /// Displays a line, or prints it at intervals if nothing can be drawn.
    pub fn update(&mut self, line: impl FnOnce() -> String, output: &Output) {
        if self.stop.is_asked() {
            self.clear();
            return;
        }
        match &self.bar {
            Some(bar) => bar.set_message(line()),
            None if self.plain.is_due() => output.talk(&line()),
            None => {}
        }
    }

    /// Prints a message without breaking the progress line.
    pub fn talk(&self, text: &str, output: &Output) {
        self.around(|| output.talk(text));
    }

    /// Prints something without breaking the progress line.
    pub fn around(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes it from the screen like [`take_off`].
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            take_off(&bar, &self.stop);
        }
    }
}

fn time_line(elapsed: Duration, total: Option<Duration>) -> String {
    match total {
        Some(total) => format!("{:.0} of {:.0} s", elapsed.min(total).as_secs_f64(), total.as_secs_f64()),
        None => format!("{:.0} s", elapsed.as_secs_f64()),
    }
}

fn bar(total: Option<Duration>) -> ProgressBar {
    let template = if total.is_some() { "{wide_bar:.green} {msg}" } else { "{spinner} {msg}" };
    let style = ProgressStyle::with_template(template).expect("a constant template").progress_chars("━━ ");
    total.map_or_else(ProgressBar::no_length, |total| ProgressBar::new(millis(total))).with_style(style)
}

/// Columns of a moving line. It ends before the edge of the terminal: it never takes two lines, and leaves room for the
/// terminal's `^C`.
pub fn line_width() -> usize {
    crate::output::stderr_width().unwrap_or(NO_TERMINAL).saturating_sub(3).max(1)
}

/// Columns where there is no terminal to ask: what a log is read with.
const NO_TERMINAL: usize = 80;

fn line_style() -> ProgressStyle {
    let width = line_width();
    ProgressStyle::with_template(&format!("{{msg:{width}!}}")).expect("a template but for its number")
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_of_weeks_are_few() {
        let seconds = |pace: &mut Pace, end: u64| -> Vec<u64> {
            let at = |s| Instant::ZERO + Duration::from_secs(s);
            (0..end).filter(|s| pace.is_due_at(at(*s))).collect()
        };
        let begins = |pace: Pace| Pace { next: Instant::ZERO + pace.every, ..pace };
        let clock = OsClock::new();
        let mut slowing = begins(Pace::slowing(clock, PLAIN_EVERY, PLAIN_AT_LEAST_EVERY));
        let lines = seconds(&mut slowing, 14 * 24 * 3600);
        assert_eq!(lines[..4], [10, 30, 70, 150]);
        assert!((330..=350).contains(&lines.len()), "{}", lines.len());
        assert_eq!(seconds(&mut begins(Pace::new(clock, PLAIN_EVERY)), 60), [10, 20, 30, 40, 50]);
    }
}
