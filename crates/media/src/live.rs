//! Live sources: distinguishing them from recordings, and pulling them at their own pace.
//!
//! A recording waits until it is pulled, at the pace of the run's clock. A live source has its own clock (RFC 3550 §5.1
//! wants its sampling clock to be the stream's), which no schedule made of the run's clock follows: a difference of 100
//! ppm is 0.36 s in an hour, and what was buffered when sending began would stay buffered permanently.

mod meter;
mod on_clock;
mod pace;

pub use meter::{LiveMeter, Liveness};
pub use on_clock::OnClock;
pub use pace::LivePace;
