//! The bundled clip with a clapper, so that video can be tried, and skew measured, without a file. Its sound is the clip `clapper` of `antiphon-sound`.
//!
//! `scripts/make-clip` made it and can make further rates; `assets/LICENSES.md` says of what.

use std::io::Cursor;
use std::str::FromStr;

use antiphon_core::{did_you_mean, nearest};

use crate::codec::Codec;
use crate::read::{OpenOptions, VideoFileError, VideoReader};

/// A version of the clip: 76 s, 320×240, a key frame every 2 s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clip {
    /// H.264, 264 kbit/s, 2.75 frames a second: 209 frames of about 12 kB, as Latecki, Kulkarni and Mulik sent them.
    H264Slow,
    /// H.264, 100 kbit/s, 25 frames a second, two temporal layers.
    H264,
    /// H.264, 1000 kbit/s, 25 frames a second, two temporal layers: a higher version of the same film.
    H264High,
    /// VP8, 100 kbit/s, 25 frames a second, two temporal layers.
    Vp8,
    /// AV1, 100 kbit/s, 25 frames a second, two temporal layers.
    Av1,
}

impl Clip {
    /// All of them.
    pub const ALL: [Clip; 5] = [Clip::H264Slow, Clip::H264, Clip::H264High, Clip::Vp8, Clip::Av1];

    /// As in `clip:NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Clip::H264Slow => "h264-264",
            Clip::H264 => "h264-100",
            Clip::H264High => "h264-1000",
            Clip::Vp8 => "vp8-100",
            Clip::Av1 => "av1-100",
        }
    }

    /// What it is.
    pub fn about(self) -> &'static str {
        match self {
            Clip::H264Slow => "clapper and test pattern; H.264, 264 kbit/s, 2.75 frames/s; 76 s",
            Clip::H264 => "clapper and test pattern; H.264, 100 kbit/s, 25 frames/s, two layers; 76 s",
            Clip::H264High => "clapper and test pattern; H.264, 1000 kbit/s, 25 frames/s, two layers; 76 s",
            Clip::Vp8 => "clapper and test pattern; VP8, 100 kbit/s, 25 frames/s, two layers; 76 s",
            Clip::Av1 => "clapper and test pattern; AV1, 100 kbit/s, 25 frames/s, two layers; 76 s",
        }
    }

    /// How its pictures are compressed.
    pub fn codec(self) -> Codec {
        match self {
            Clip::H264Slow | Clip::H264 | Clip::H264High => Codec::H264,
            Clip::Vp8 => Codec::Vp8,
            Clip::Av1 => Codec::Av1,
        }
    }

    /// The file, Matroska.
    pub fn file(self) -> &'static [u8] {
        match self {
            Clip::H264Slow => include_bytes!("../assets/h264-264.mkv"),
            Clip::H264 => include_bytes!("../assets/h264-100.mkv"),
            Clip::H264High => include_bytes!("../assets/h264-1000.mkv"),
            Clip::Vp8 => include_bytes!("../assets/vp8-100.mkv"),
            Clip::Av1 => include_bytes!("../assets/av1-100.mkv"),
        }
    }

    /// Its frames.
    pub fn open(self) -> Result<VideoReader, VideoFileError> {
        VideoReader::open(Cursor::new(self.file()), OpenOptions::default())
    }
}

impl FromStr for Clip {
    type Err = UnknownClip;

    fn from_str(name: &str) -> Result<Self, UnknownClip> {
        Clip::ALL.into_iter().find(|clip| clip.name() == name).ok_or_else(|| {
            let known = nearest(name, Clip::ALL.map(Clip::name));
            UnknownClip { name: name.chars().take(40).collect(), hint: did_you_mean(known) }
        })
    }
}

/// No clip has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no clip with video is called '{name}'{hint}: there are h264-264, h264-100, h264-1000, vp8-100 and av1-100"
)]
pub struct UnknownClip {
    /// The name.
    pub name: String,
    /// What was probably meant.
    pub hint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_what_it_says() {
        for clip in Clip::ALL {
            let mut reader = clip.open().expect("a file");
            let (mut frames, mut keys, mut droppable, mut bytes, mut last_key) = (0u64, 0, 0, 0, 0);
            while let Some(frame) = reader.next_frame().expect("it is whole") {
                assert_eq!((frame.codec, frame.codec), (clip.codec(), reader.info().codec));
                if frame.picture.key {
                    // 2.75 frames a second have none at exactly 2 s.
                    assert!(frame.time.frames - last_key <= 2_400 * 90, "{clip:?}: {}", frame.time.frames);
                    last_key = frame.time.frames;
                    keys += 1;
                }
                assert_eq!(frame.picture.droppable, frame.picture.temporal_layer == 1);
                droppable += u64::from(frame.picture.droppable);
                bytes += frame.data.len();
                frames += 1;
            }
            let (wanted, rate, layered) = match clip {
                Clip::H264Slow => (209, 264_436, 0),
                Clip::H264High => (1_900, 1_000_000, 1_900 / 3),
                _ => (1_900, 100_000, 1_900 / 3),
            };
            assert_eq!((frames, keys), (wanted, 38), "{clip:?}");
            assert!(droppable >= layered && (droppable > 0) == (layered > 0), "{clip:?}: {droppable}");
            let of_rate = bytes as f64 * 8.0 / 76.0 / f64::from(rate);
            assert!((0.88..1.03).contains(&of_rate), "{clip:?}: {of_rate}");
        }
    }

    #[test]
    fn names_are_found_and_errors_offer_one() {
        assert!(Clip::ALL.into_iter().all(|clip| clip.name().parse() == Ok(clip)));
        let error = "h264-10".parse::<Clip>().expect_err("there is none").to_string();
        assert!(error.contains("'h264-100'"), "{error}");
    }
}
