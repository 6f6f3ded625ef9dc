//! What a transport contributes to the charts.

use crate::chart::{Series, Style};
use crate::compare::TransportPanel;
use crate::fate::Strip;
use crate::shares::not_there_after;

impl TransportPanel {
    pub(super) fn over_time(&self, colour: usize) -> Series {
        let seconds: Vec<f64> = self.sent_ms.iter().map(|ms| f64::from(*ms) / 1000.0).collect();
        let never = seconds.iter().zip(&self.latency_ms).filter(|(_, l)| l.is_none()).map(|(x, _)| *x);
        Series {
            name: self.name.clone(),
            colour,
            style: Style::Points,
            ticks: never.collect(),
            y: self.latency_ms.iter().map(|l| l.map(f64::from)).collect(),
            x: seconds,
            ..Series::default()
        }
    }

    /// The pictures beside the sound.
    pub(super) fn pictures_over_time(&self, colour: usize) -> Series {
        let seconds: Vec<f64> = self.picture_due_ms.iter().map(|ms| f64::from(*ms) / 1000.0).collect();
        let never = seconds.iter().zip(&self.picture_ms).filter(|(_, l)| l.is_none()).map(|(x, _)| *x);
        Series {
            name: "pictures".into(),
            colour,
            style: Style::Points,
            ticks: never.collect(),
            y: self.picture_ms.iter().map(|l| l.map(f64::from)).collect(),
            x: seconds,
            ..Series::default()
        }
    }

    /// Drawn up to `end_ms`, even without further arrivals: what is missing by then stays missing.
    pub(super) fn distribution(&self, colour: usize, end_ms: f32) -> Series {
        let mut steps = not_there_after(self.delays(), DISTRIBUTION_POINTS);
        match steps.last() {
            Some(last) if last.1 > 0.0 && last.0 < f64::from(end_ms) => {
                steps.push((f64::from(end_ms), last.1))
            }
            _ => {}
        }
        let mut shares: Vec<Option<f64>> =
            std::iter::once(Some(1.0)).chain(steps.iter().map(|s| Some(s.1))).collect();
        // Zero is not on a logarithmic axis; the last step is drawn up to where it would fall.
        if let [.., before, last @ Some(0.0)] = shares.as_mut_slice() {
            *last = *before;
        }
        Series {
            name: self.name.clone(),
            colour,
            style: Style::Steps,
            // Before the first arrival every packet is still missing.
            x: std::iter::once(0.0).chain(steps.iter().map(|s| s.0)).collect(),
            y: shares,
            ..Series::default()
        }
    }

    pub(super) fn strip(&self, colour: usize) -> Strip {
        Strip {
            name: self.name.clone(),
            colour: Some(colour),
            fates: self.fate.clone(),
            sent_ms: self.sent_ms.clone(),
            latency_ms: self.latency_ms.clone(),
            hides_repairs: self.hides_repairs,
        }
    }
}

/// Points of a distribution: two per pixel of a phone.
const DISTRIBUTION_POINTS: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(latency: &[Option<f32>]) -> TransportPanel {
        TransportPanel { latency_ms: latency.to_vec(), ..TransportPanel::default() }
    }

    #[test]
    fn curves_go_on_at_the_loss_and_never_touch_zero() {
        let lossy = panel(&[Some(1.0), None]).distribution(0, 9.0);
        assert_eq!(lossy.x, [0.0, 1.0, 9.0]);
        assert_eq!(lossy.y, [Some(1.0), Some(0.5), Some(0.5)]);
        // All arrived by 2 ms: the last step ends there, and nothing is drawn where no packet is missing.
        let whole = panel(&[Some(1.0), Some(2.0)]).distribution(0, 9.0);
        assert_eq!(whole.x, [0.0, 1.0, 2.0]);
        assert_eq!(whole.y, [Some(1.0), Some(0.5), Some(0.5)]);
    }
}
