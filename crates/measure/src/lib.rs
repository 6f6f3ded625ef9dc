//! What a stream was like: delay, jitter, loss, late, bursts, rates, and what follows from them.
//!
//! Nothing here knows where the numbers come from: time, sequence numbers and counts are passed in. Two layers:
//!
//! * **Accumulators** that the media thread feeds: [`FrameLog`] (a row per frame; what `compare` uses),
//!   [`StreamAccount`] (a receiver that only sees numbers), and the parts they are made of: [`Histogram`], the jitters,
//!   [`LossRuns`], [`BufferCheck`]. All memory is taken at construction; feeding never allocates.
//! * **Conclusions** drawn afterwards or beside: [`TransportFigures`], [`PlayoutCurve`], the E-model ([`rating`]),
//!   [`Gate`] for scripts and [`advise`] for people.
//!
//! A figure that was not measured is `None`, in JSON `null`: never zero, never NaN.

mod account;
mod advice;
mod buffer_check;
mod bursts;
mod desired;
mod emodel;
mod fate;
mod figures;
mod frame_log;
mod gate;
mod histogram;
mod jitter;
mod playout;
mod rate;
mod statistics;

pub use account::{AccountReport, Arrival, StreamAccount, Totals};
pub use advice::{Abilities, Advice, Candidate, Purpose, advise, advise_for};
pub use buffer_check::{BufferCheck, BufferResult, BufferRule, LipSync};
pub use bursts::{BurstTotals, G_MIN, LONGEST_COUNTED, LossRuns};
pub use desired::{DesiredQuality, QualityRatios, interval_deviation_ms};
pub use emodel::{CodecImpairment, delay_impairment, delay_impairment_simple, loss_impairment, mos, rating};
pub use fate::{Fate, FateCounts, Unbalanced};
pub use figures::{DelayBasis, PlayoutFigures, RunFacts, TransportFigures};
pub use frame_log::{FrameArrival, FrameLog, FrameLogConfig, FrameRow, Tallies};
pub use gate::{Condition, Failure, Gate, GateError};
pub use histogram::{Distribution, Histogram, millis, nearest_rank};
pub use jitter::{
    DelayVariation, Gaps, InterarrivalJitter, InterarrivalJitterInt, ROLLING_GAPS, RollingDeviation,
    mean_absolute_deviation, pdv,
};
pub use playout::{PlayoutCurve, PlayoutPoint, PlayoutTarget};
pub use rate::{Skew, bit_rate, cpu_ms_per_s, kbit_per_s, overhead_percent, percent};
pub use statistics::{MeanInterval, Z95, is_below, jain, share_at_most, student_t, wilson};
