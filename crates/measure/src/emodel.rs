//! The E-model of ITU-T G.107 with default parameters: a talker's rating of delay and loss.
//!
//! Made for narrowband speech; not valid for music. Echo is assumed to be perfectly cancelled.

use serde::{Deserialize, Serialize};

/// How a codec and its concealment react to loss.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CodecImpairment {
    /// Ie: impairment without loss.
    pub ie: f64,
    /// Bpl: robustness to loss.
    pub bpl: f64,
}

impl CodecImpairment {
    /// G.711 with concealment of its appendix I (G.113: Ie 0, Bpl 25.1).
    pub const G711_CONCEALED: CodecImpairment = CodecImpairment { ie: 0.0, bpl: 25.1 };
}

/// R without delay and loss: G.107's defaults.
const R_BEST: f64 = 93.2;

/// Delay impairment Idd of `mouth_to_ear_ms` (G.107 §7.4): packetising, network, playout and codec together.
pub fn delay_impairment(mouth_to_ear_ms: f64) -> f64 {
    // Zero up to 100 ms; this form of the condition also catches NaN.
    if mouth_to_ear_ms.is_nan() || mouth_to_ear_ms <= 100.0 {
        return 0.0;
    }
    let x = (mouth_to_ear_ms / 100.0).log2();
    25.0 * ((1.0 + x.powi(6)).powf(1.0 / 6.0) - 3.0 * (1.0 + (x / 3.0).powi(6)).powf(1.0 / 6.0) + 2.0)
}

/// Effective equipment impairment of `missing_percent` (loss and late, after repair) with the burst ratio `burst_ratio`
/// (G.107's BurstR: the mean burst relative to that of independent loss of the same share, which has 1).
pub fn loss_impairment(codec: CodecImpairment, missing_percent: f64, burst_ratio: f64) -> f64 {
    let p = missing_percent.clamp(0.0, 100.0);
    codec.ie + (95.0 - codec.ie) * p / (p / burst_ratio.max(1.0) + codec.bpl)
}

/// The transmission rating R, from about 0 to 93.2.
pub fn rating(codec: CodecImpairment, mouth_to_ear_ms: f64, missing_percent: f64, burst_ratio: f64) -> f64 {
    R_BEST - delay_impairment(mouth_to_ear_ms) - loss_impairment(codec, missing_percent, burst_ratio)
}

/// Mean opinion score (1 to 4.5) of a rating. For small ratings the formula falls below 1; it is limited to 1.
pub fn mos(r: f64) -> f64 {
    if r >= 100.0 {
        4.5
    } else if r > 0.0 {
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G.711 with silence for missing packets (G.113: Ie 0, Bpl 4.3).
    const G711: CodecImpairment = CodecImpairment { ie: 0.0, bpl: 4.3 };

    /// Half the last printed digit.
    fn near(got: f64, printed: f64, digits: i32) {
        assert!((got - printed).abs() <= 0.501 * 10f64.powi(-digits), "{got} {printed}");
    }

    #[test]
    fn delay_table() {
        let idd = [
            (120.0, 0.0),
            (150.0, 0.16),
            (175.0, 1.03),
            (200.0, 3.04),
            (250.0, 8.92),
            (300.0, 14.76),
            (400.0, 24.07),
            (500.0, 30.64),
        ];
        idd.into_iter().for_each(|(ms, printed)| near(delay_impairment(ms), printed, 2));
        assert_eq!(delay_impairment(100.0), 0.0);
    }

    #[test]
    fn loss_table() {
        let plain = [9.90, 17.92, 28.03, 30.16, 39.04, 51.08, 66.43, 78.19];
        let concealed = [1.86, 3.64, 6.36, 7.01, 10.14, 15.78, 27.07, 42.13];
        for (i, p) in [0.5, 1.0, 1.8, 2.0, 3.0, 5.0, 10.0, 20.0].into_iter().enumerate() {
            near(loss_impairment(G711, p, 1.0), plain[i], 2);
            near(loss_impairment(CodecImpairment::G711_CONCEALED, p, 1.0), concealed[i], 2);
        }
    }

    #[test]
    fn ratings_and_scores() {
        let rows = [
            (80.0, 0.0, (93.2, 4.41), (93.2, 4.41)),
            (80.0, 1.8, (65.2, 3.36), (86.8, 4.25)),
            (200.0, 1.8, (62.1, 3.21), (83.8, 4.16)),
            (300.0, 3.0, (39.4, 2.03), (68.3, 3.52)),
        ];
        for (ms, p, plain, concealed) in rows {
            for (codec, (r, score)) in [(G711, plain), (CodecImpairment::G711_CONCEALED, concealed)] {
                let got = rating(codec, ms, p, 1.0);
                near(got, r, 1);
                near(mos(got), score, 2);
            }
        }
        for (r, score) in [(90.0, 4.339), (80.0, 4.024), (70.0, 3.597), (50.0, 2.575)] {
            near(mos(r), score, 3);
        }
        near(mos(60.0), 3.10, 2);
        // The bare formula has 0.992 here.
        assert_eq!(mos(5.0), 1.0);
        assert_eq!((mos(-5.0), mos(120.0)), (1.0, 4.5));
    }

    #[test]
    fn bursts_hurt_more() {
        let at = |ratio| loss_impairment(CodecImpairment::G711_CONCEALED, 3.0, ratio);
        assert!(at(2.0) > at(1.0) && at(0.5) == at(1.0));
    }
}
