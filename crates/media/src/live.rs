//! Live sources: telling them from recordings, and pulling them at their own pace.
//!
//! A recording waits until it is pulled, and the run's clock says when. A live source has a clock of its own (RFC 3550
//! §5.1 wants its sampling clock to be the stream's), which no schedule made of the run's clock follows: 100 ppm of
//! difference are 0.36 s in an hour, and whatever waited when sending began would wait for ever.

mod meter;
mod pace;

pub use meter::{LiveMeter, Liveness};
pub use pace::LivePace;
