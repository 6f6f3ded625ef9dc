//! Measures a stream: delay, jitter, loss, late packets, bursts, rates, and what follows from them.
//!
//! Nothing here knows where the numbers come from: time, sequence numbers and counts are passed in. Three parts:
//!
//! * **Accumulators** that the media thread feeds: [`PacketLog`] (a row per packet; what `compare` uses) and the parts
//!   it is made of: [`Histogram`], the jitters, [`LossRuns`], [`BufferCheck`]. All memory is taken at construction; feeding never allocates.
//! * **The list** of figures ([`FIGURES`]): name, unit, title, definition and direction of each, for every table, page and file.
//! * **Conclusions** drawn during or after the run: [`TransportFigures`], [`PlayoutCurve`], the E-model ([`rating`]),
//!   [`Gate`] for scripts and [`advise`] for people.
//!
//! A figure that was not measured is `None`, in JSON `null`: never zero, never NaN.

mod advice;
mod blocks;
mod buffer_check;
mod bursts;
mod desired;
mod emodel;
mod fate;
mod figures;
mod gate;
mod headsets;
mod histogram;
mod jitter;
mod list;
mod packet_log;
mod pictures;
mod playout;
mod rate;
mod statistics;
mod two_streams;

pub use advice::{Advice, Candidate, Purpose, advise, advise_for};
pub use blocks::{Blocks, Sums};
pub use buffer_check::{BufferCheck, BufferResult, BufferRule, LipSync};
pub use bursts::{BurstTotals, G_MIN, LONGEST_COUNTED, LossRuns};
pub use desired::{DesiredQuality, QualityRatios, interval_deviation_ms};
pub use emodel::{CodecImpairment, delay_impairment, loss_impairment, mos, rating};
pub use fate::{Fate, FateCounts, Unbalanced};
pub use figures::{DelayBasis, PlayoutFigures, RunFacts, TransportFigures};
pub use gate::{Condition, Failure, Gate, GateError};
pub use headsets::{CellCapacity, Fit, HEADSET_BIT_RATE, cell_capacities};
pub use histogram::{Distribution, Histogram, millis, nearest_rank};
pub use jitter::{
    DelayVariation, Gaps, InterarrivalJitter, ROLLING_GAPS, RollingDeviation, mean_absolute_deviation, pdv,
};
pub use list::{Better, FIGURES, FigureDef, STREAM_FIGURES, StreamFigures, Unit, figure};
pub use packet_log::{LoggedPacket, PacketArrival, PacketLog, PacketLogConfig, Tallies};
pub use pictures::{
    Picture, PictureFacts, PictureLog, PicturesFigures, SentPicturePacket, SkewFigures, SoundPart,
};
pub use playout::{PlayoutCurve, PlayoutPoint, RequiredDelay};
pub use rate::{cpu_ms_per_s, kbit_per_s, overhead_percent, percent};
pub use statistics::{BlockMean, MeanInterval, student_t};
pub use two_streams::{SentFrame, VideoLayout, add_beside, add_playout, add_video};
