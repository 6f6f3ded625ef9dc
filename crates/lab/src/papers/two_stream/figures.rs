//! The paper's figures of audio and video together.

use antiphon_measure::{FigureDef, StreamFigures};

use super::super::derived::Derived;
use super::VIDEO;
use crate::results::Record;

/// Audio packets that never came.
pub(super) const AUDIO_DROPPED: &str = "audio_dropped";
/// Audio lost for playout as the paper counts it, in seconds.
pub(super) const AUDIO_LOST_S: &str = "audio_lost_s";
/// Of the video beside the audio.
pub(super) const VIDEO_KBIT_PER_S: &str = "video_kbit_per_s";
/// See [`VIDEO_KBIT_PER_S`].
pub(super) const FRAMES_SENT: &str = "video_frames_sent";
/// See [`VIDEO_KBIT_PER_S`].
pub(super) const FRAMES_WHOLE: &str = "video_frames_whole";

/// Of audio in a packet (section 2).
pub(super) const PACKET_S: f64 = 0.05;

pub(in crate::papers) const DERIVED: &[Derived] = &[
    Derived {
        def: FigureDef::ratio(AUDIO_DROPPED, "audio dropped", "Audio packets sent less those that arrived."),
        reading: "",
        of: |audio, _| dropped(audio),
    },
    Derived {
        def: FigureDef::ratio(
            AUDIO_LOST_S,
            "audio lost, s",
            "50 ms for each audio packet that never came, and for each that came more than 250 ms after the one before: what the paper takes for \
             lost with a playout buffer of 200 ms.",
        ),
        reading: "",
        of: |audio, _| Some(PACKET_S * (dropped(audio)? + audio.gaps_above_250ms?)),
    },
    Derived {
        def: FigureDef::ratio(
            VIDEO_KBIT_PER_S,
            "video rate, kbit/s",
            "Bytes of video that were received, over the time from the first to the last.",
        ),
        reading: "",
        of: |_, run| video(run)?.media_kbit_per_s,
    },
    Derived {
        def: FigureDef::ratio(
            FRAMES_SENT,
            "video frames sent",
            "Video frames that were handed to the transport.",
        ),
        reading: "",
        of: |_, run| video(run)?.frames_sent,
    },
    Derived {
        def: FigureDef::ratio(
            FRAMES_WHOLE,
            "video frames intact",
            "Video frames of which every packet arrived.",
        ),
        reading: "",
        of: |_, run| video(run)?.frames_whole,
    },
];

fn dropped(audio: &StreamFigures) -> Option<f64> {
    Some(audio.sent? - audio.received?)
}

fn video(run: &[Record]) -> Option<&StreamFigures> {
    run.iter().find(|record| record.stream == VIDEO).map(|record| &record.figures)
}
