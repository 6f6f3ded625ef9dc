//! Pictures beside the sound: from a file to the session, and from the session into a file with the sound.
//!
//! ```text
//! file ─ frames ─ payloads ─ thread ─ ring ─ session        session ─ ring ─ thread ─ frames ─ Matroska
//!                                                           sound   ─ ring ─┘
//! ```
//!
//! The media thread copies bytes and no more. Reading and cutting have a thread of their own; what is recorded is put together
//! and written on the thread that writes the sound.

mod compared;
mod film;
mod foreign;
mod over;
mod queue;
mod sending;
mod versions;

pub use antiphon_measure::SkewFigures;
pub(crate) use compared::{BesidePlan, BesideRun, BothSinks, PicturesPlan};
pub(crate) use film::{Film, FilmCounters, FilmPlan};
pub(crate) use foreign::{ForeignNews, ForeignPictures};
pub(crate) use over::{Beside, Overs, VideoCall, VideoOver};
pub(crate) use sending::{PacketLength, VideoFile};

use std::path::Path;

use antiphon_session::{PathFigures, VideoEnd, VideoTrackCounters};
pub use antiphon_video::FrameRate;

use crate::{Error, Latency};

/// What is received of pictures.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct PicturesReceived {
    /// Pictures that came whole.
    pub whole: u64,
    /// Pictures of which a part came.
    pub broken: u64,
    /// Packets that never came.
    pub packets_missing: u64,
    /// Pictures written; fewer than came whole if the first ones needed others.
    pub written: u64,
    /// Packets that came faster than the disk or the player takes them, and were dropped.
    pub dropped: u64,
    /// Pictures for a player that came whole, and too late to be shown with their sound.
    pub too_late: u64,
    /// For how long the last picture stood still beyond its time, in seconds.
    pub frozen_s: f64,
    /// By how much pictures come too late, in milliseconds, while none is in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_sync_ms: Option<f64>,
    /// Skew of those that were shown or recorded against their sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skew: Option<SkewFigures>,
    /// The scheme of their own transport; `None` if they come with the sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<&'static str>,
}

/// What is received of a sender's further track of pictures.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct FurtherPictures {
    /// The file that was asked for, or, once it is there, the one that was created.
    pub file: String,
    /// What came.
    #[serde(flatten)]
    pub pictures: PicturesReceived,
}

impl FurtherPictures {
    /// What is missing, in a sentence.
    pub(crate) fn shortfall(&self) -> Option<String> {
        let PicturesReceived { whole, broken, .. } = self.pictures;
        if whole + broken == 0 {
            return Some(format!(
                "no pictures came for '{}': the sender needs a --video-track more",
                self.file
            ));
        }
        self.pictures.shortfall(Path::new(&self.file))
    }
}

impl PicturesReceived {
    /// What has changed of whether pictures come in time for their sound, in a sentence. `was_out` is what was told last.
    pub(crate) fn sync_news(&self, was_out: &mut bool, latency: Option<Latency>) -> Option<String> {
        let is_out = self.out_of_sync_ms.is_some();
        if std::mem::replace(was_out, is_out) == is_out {
            return None;
        }
        let Some(by) = self.out_of_sync_ms else {
            return Some("pictures are in sync with the sound again".into());
        };
        let more = match latency {
            Some(Latency::Of(delay)) => {
                // In steps of ten milliseconds.
                let enough = ((delay.as_secs_f64() * 1e3 + by) / 10.0).ceil() * 10.0;
                format!("with --latency {enough:.0}ms the sound would wait for them")
            }
            _ => "a longer max of --latency auto would have the sound wait for them".into(),
        };
        Some(format!(
            "pictures are out of sync: they come up to {by:.0} ms after their sound, so they are not shown; {more}"
        ))
    }

    /// Of this and another sender together: counts are added, and of what can't be, the worse one is told.
    pub(crate) fn with(self, other: PicturesReceived) -> Self {
        let worse = |skew: Option<SkewFigures>| skew.map_or(-1.0, |skew| skew.p99_9_ms);
        let is_worse = worse(other.skew) > worse(self.skew);
        let out_of_sync_ms = match (self.out_of_sync_ms, other.out_of_sync_ms) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        PicturesReceived {
            whole: self.whole + other.whole,
            broken: self.broken + other.broken,
            packets_missing: self.packets_missing + other.packets_missing,
            written: self.written + other.written,
            dropped: self.dropped + other.dropped,
            too_late: self.too_late + other.too_late,
            frozen_s: self.frozen_s + other.frozen_s,
            out_of_sync_ms,
            skew: if is_worse { other.skew } else { self.skew },
            over: self.over,
        }
    }

    /// That a player was shown none of those that came, in a sentence.
    pub(crate) fn unseen(&self) -> Option<String> {
        (self.whole > 0 && self.written == 0).then(|| {
            "no picture was shown: none that can be decoded by itself came before the sound had to begin alone".into()
        })
    }

    /// What is to be said of pictures with a transport of their own, in a sentence: that they never came by it, or that it ended before
    /// they did.
    pub(crate) fn cut_short(&self, end: Option<VideoEnd>, over: &str) -> Option<String> {
        match end? {
            VideoEnd::NeverCame if self.whole + self.broken == 0 => Some(format!(
                "no pictures came over {over}: the sender needs --video and the same --video-over"
            )),
            VideoEnd::CutShort => Some(format!(
                "the last pictures may be missing: {over} ended before the sender had said that these were all"
            )),
            VideoEnd::NeverCame | VideoEnd::Whole => None,
        }
    }

    /// What a recording misses of the pictures, in a sentence; `None` if nothing is missing. Those before its first key frame are none
    /// of it.
    pub(crate) fn shortfall(&self, file: &Path) -> Option<String> {
        let PicturesReceived { whole, broken, packets_missing, written, dropped, .. } = *self;
        let file = file.display();
        if whole > 0 && written == 0 {
            return Some(format!(
                "'{file}' has no pictures: none that can be decoded by itself came in its first seconds"
            ));
        }
        (broken + packets_missing + dropped > 0).then(|| {
            format!(
                "'{file}' misses pictures: {broken} are broken, {packets_missing} of their packets never came and {dropped} could not be \
                 written fast enough"
            )
        })
    }
}

#[cfg(test)]
mod news {
    use super::*;

    #[test]
    fn of_several_senders_counts_are_added_and_the_worst_skew_is_told() {
        let skew = |p99_9_ms| SkewFigures {
            median_ms: 1.0,
            p95_ms: 2.0,
            p99_9_ms,
            worst_ms: 9.0,
            beyond_percent: 0.0,
        };
        let one = PicturesReceived {
            whole: 3,
            frozen_s: 0.5,
            skew: Some(skew(4.0)),
            ..PicturesReceived::default()
        };
        let other = PicturesReceived { whole: 4, out_of_sync_ms: Some(90.0), skew: Some(skew(5.0)), ..one };
        let none = PicturesReceived::default();
        for sum in [one.with(other).with(none), none.with(other).with(one)] {
            assert_eq!((sum.whole, sum.frozen_s), (7, 1.0));
            assert_eq!((sum.out_of_sync_ms, sum.skew), (Some(90.0), Some(skew(5.0))));
        }
    }

    #[test]
    fn pictures_out_of_sync_are_told_once_with_the_delay_that_they_need() {
        let fixed = Some(Latency::Of(std::time::Duration::from_millis(80)));
        let adapts: Latency = "auto".parse().expect("a delay that adapts");
        let (good, mut was_out) = (PicturesReceived::default(), false);
        let bad = PicturesReceived { out_of_sync_ms: Some(143.5), ..good };
        assert_eq!(good.sync_news(&mut was_out, fixed), None);
        let told = bad.sync_news(&mut was_out, fixed).expect("it is told");
        assert!(told.contains("144 ms after their sound") && told.contains("--latency 230ms"), "{told}");
        assert_eq!(bad.sync_news(&mut was_out, fixed), None, "once");
        let told = good.sync_news(&mut was_out, fixed).expect("it is told");
        assert!(told.contains("in sync with the sound again"), "{told}");
        assert_eq!(good.sync_news(&mut was_out, fixed), None);
        let told = bad.sync_news(&mut was_out, Some(adapts)).expect("it is told");
        assert!(told.contains("max of --latency auto"), "{told}");
    }
}

/// What is sent of pictures.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct PicturesSent {
    /// Pictures sent.
    pub sent: u64,
    /// Pictures left out, whole: nobody could have shown them in time, or decoded them.
    pub left_out: u64,
    /// Packets handed to the transport.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets that the transport gave up as they were too late.
    pub expired: u64,
    /// Packets that the transport refused.
    pub refused: u64,
    /// Times at which a receiver was sent all since the last key frame again, as it came later or had lost it.
    pub caught_up: u64,
    /// The scheme of their own transport; `None` if they go with the sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<&'static str>,
    /// What the path takes of sound and pictures, in kbit/s, where the receiver tells when packets arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_kbit_per_s: Option<f64>,
    /// How long packets wait in its queues at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_queueing_ms: Option<f64>,
}

impl PicturesSent {
    pub(crate) fn new(counted: VideoTrackCounters, path: PathFigures) -> Self {
        let VideoTrackCounters { units, left_out, packets, bytes, refused, expired, caught_up } = counted;
        PicturesSent {
            sent: units,
            left_out,
            packets,
            bytes,
            expired,
            refused,
            caught_up,
            over: None,
            path_kbit_per_s: path.rate.map(|rate| rate * 8.0 / 1e3),
            path_queueing_ms: path.queueing.map(|time| time.as_secs_f64() * 1e3),
        }
    }
}

/// Reads frames a second: `25`, `29.97`, `30000/1001`.
pub fn parse_frame_rate(text: &str) -> Result<FrameRate, Error> {
    let number =
        |text: &str| text.trim().parse::<f64>().ok().filter(|value| (0.01..=1_000.0).contains(value));
    let rate = match text.split_once('/') {
        Some((frames, seconds)) => {
            let whole =
                |text: &str| text.trim().parse::<u32>().ok().filter(|value| (1..=1_000_000).contains(value));
            whole(frames).zip(whole(seconds)).filter(|(frames, seconds)| {
                number(&format!("{}", f64::from(*frames) / f64::from(*seconds))).is_some()
            })
        }
        None => number(text).map(|rate| ((rate * 1_000.0).round() as u32, 1_000)),
    };
    let (frames, seconds) = rate.ok_or_else(|| {
        Error::usage(format!("'{text}' is no frame rate: write frames a second, such as 25 or 30000/1001"))
    })?;
    Ok(FrameRate { frames, seconds })
}
