//! Progress of an experiment, and its remaining time.

use std::time::Duration;

use antiphon::Stop;
use antiphon::core::Instant;
use antiphon::net::OsClock;
use antiphon_experiments::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Output;
use crate::progress::{PLAIN_EVERY, Pace, take_off};

/// Displays the progress of an experiment.
pub struct RunProgress {
    bar: Option<ProgressBar>,
    plain: Pace,
    clock: OsClock,
    began: Instant,
    stop: Stop,
}

impl RunProgress {
    /// Nothing is drawn before the first [`Self::update`].
    pub fn new(output: &Output, stop: &Stop) -> Self {
        let style = ProgressStyle::with_template("{wide_bar:.green} {msg}").expect("a constant template");
        let bar = output.draws.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            ProgressBar::with_draw_target(Some(0), target).with_style(style.progress_chars("━━ "))
        });
        let clock = output.clock();
        let plain = Pace::new(clock, PLAIN_EVERY);
        RunProgress { bar, plain, clock, began: clock.now(), stop: stop.clone() }
    }

    /// Displays the present progress.
    pub fn update(&mut self, progress: &Progress, output: &Output) {
        if self.stop.is_asked() {
            self.clear();
            return;
        }
        let line = || line(progress, self.clock.now().since(self.began));
        match &self.bar {
            Some(bar) => {
                bar.set_length(progress.planned.into());
                bar.set_position(progress.done.into());
                bar.set_message(line());
            }
            None if self.plain.is_due() => output.talk(&line()),
            None => {}
        }
    }

    /// Removes it from the screen like [`take_off`].
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            take_off(&bar, &self.stop);
        }
    }
}

fn line(progress: &Progress, elapsed: Duration) -> String {
    let Progress { planned, done, before, expected, .. } = *progress;
    let percent = 100.0 * f64::from(done) / f64::from(planned.max(1));
    let left = match (expected, done - before) {
        // Runs on sockets take a known time.
        (Some(expected), _) => {
            format!(", {} left", human(expected.saturating_sub(elapsed).as_secs_f64()))
        }
        (None, 0) => "".into(),
        (None, ended) => {
            let left = elapsed.as_secs_f64() * f64::from(planned - done) / f64::from(ended);
            format!(", {} left", human(left))
        }
    };
    format!("{percent:3.0} %  {done} of {planned} runs{left}")
}

/// A duration in common units.
pub(super) fn human(seconds: f64) -> String {
    match seconds.round() as u64 {
        s @ 0..=99 => format!("{s} s"),
        s @ 100..=5999 => format!("{} min", s.div_ceil(60)),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_counts_what_was_done_here() {
        let progress = |done| Progress { planned: 540, done, before: 40, events: 0, expected: None };
        assert_eq!(line(&progress(40), Duration::from_secs(9)), "  7 %  40 of 540 runs");
        assert_eq!(line(&progress(290), Duration::from_secs(50)), " 54 %  290 of 540 runs, 50 s left");
        assert_eq!(line(&progress(540), Duration::from_secs(50)), "100 %  540 of 540 runs, 0 s left");
        let real = Progress { expected: Some(Duration::from_secs(90)), ..progress(40) };
        assert_eq!(line(&real, Duration::from_secs(9)), "  7 %  40 of 540 runs, 81 s left");
        assert_eq!((human(100.0), human(7260.0)), ("2 min".into(), "2 h 1 min".into()));
    }
}
