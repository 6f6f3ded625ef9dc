//! Files with video in: their frames in the order of decoding, with the time at which each is shown.
//!
//! Everything in a file may be wrong. Sizes are believed only as far as bytes follow, memory is bounded by [`MAX_FRAME`]
//! and by limits of tables, and what is wrong is an error that says what to do.
//!
//! MP4 boxes are read by `mp4-atom`, which allocates by what is there and survived 20 000 damaged files; `re_mp4` 0.5
//! indexes tables by numbers of the file, and did not end on the same files. Matroska is read by a reader of our own: it
//! shares the elements with our writer, bounds each block, and tells a file that is cut off, which `matroska-demuxer` 0.8
//! takes for its end (and a damaged file made it overflow).

mod annexb;
mod input;
mod ivf;
mod matroska;
mod mp4;
mod mp4_samples;
mod pictures;

pub(crate) use matroska::codec_id;

use std::io::{Read, Seek, SeekFrom};

use crate::codec::Codec;
use crate::frame::{Frame, MAX_FRAME, StreamInfo, video_time};
use crate::inspect::Inspector;
use crate::jpeg::JpegError;
use crate::{av1, h264, jpeg};

/// Frames a second, as a fraction: `FrameRate { frames: 11, seconds: 4 }` is 2.75.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRate {
    /// So many frames
    pub frames: u32,
    /// in so many seconds.
    pub seconds: u32,
}

impl FrameRate {
    /// When frame `n` is shown, in units of the RTP clock.
    fn ticks(self, n: u64) -> u64 {
        let ticks = u128::from(n) * u128::from(self.seconds) * u128::from(crate::CLOCK_RATE);
        (ticks / u128::from(self.frames.max(1))) as u64
    }
}

/// What a file may need to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// For raw H.264 and raw JPEGs, which hold no times.
    pub rate: Option<FrameRate>,
}

/// Why a video file cannot be read, or read on.
#[derive(Debug, thiserror::Error)]
pub enum VideoFileError {
    /// None of the formats.
    #[error("this is no video file of a known kind: give MP4, Matroska, WebM, IVF, raw H.264 or raw JPEGs")]
    Unknown,
    /// There is no track with pictures.
    #[error("there is no video in this file, or none that could be read")]
    NoVideo,
    /// A codec that is not carried.
    #[error(
        "the video in this file is {name:?}, which is not supported: encode it as H.264, VP8, VP9, AV1 or MJPEG, \
             as ffmpeg -i FILE -c:v libx264 NEW.mkv does"
    )]
    Codec {
        /// What the file calls it.
        name: String,
    },
    /// A raw stream without times.
    #[error("a raw stream holds no times: give its frame rate, or a file of MP4 or Matroska")]
    NoRate,
    /// It ends early.
    #[error("the file is cut off after {frames} video frames: copy it again; what is whole can be used")]
    Truncated {
        /// Frames that came before.
        frames: u64,
    },
    /// Its structure is wrong.
    #[error("the file is damaged after {frames} video frames ({what}): encode or copy it again")]
    Damaged {
        /// Frames that came before.
        frames: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A part is larger than any real one.
    #[error(
        "the file holds {what} of {len} bytes, and at most {max} are read: it is damaged, or no ordinary video"
    )]
    TooLong {
        /// What is so long.
        what: &'static str,
        /// Its length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// Decoding cannot begin anywhere.
    #[error(
        "none of the {frames} video frames in this file is a key frame: it can't be decoded, encode it again"
    )]
    NoKeyFrame {
        /// Frames that were looked at.
        frames: u64,
    },
    /// A JPEG that cannot be sent.
    #[error(transparent)]
    Jpeg(#[from] JpegError),
    /// The file can't be read.
    #[error("the video file could not be read: {0}")]
    Io(#[from] std::io::Error),
}

/// A frame as a container has it.
struct Sample {
    data: Vec<u8>,
    /// Units of the RTP clock.
    ticks: u64,
}

/// Reads a kind of file.
trait Demuxer: Send {
    fn info(&self) -> StreamInfo;
    /// How H.264 is written: behind lengths of so many bytes, or with start codes.
    fn length_size(&self) -> Option<usize> {
        None
    }
    fn next(&mut self) -> Result<Option<Sample>, VideoFileError>;
}

/// The video of a file.
pub struct VideoReader {
    demuxer: Box<dyn Demuxer>,
    info: StreamInfo,
    inspector: Inspector,
    frames: u64,
    /// Frames before the first key frame, which nobody can decode.
    skipped: u64,
    is_over: bool,
}

impl std::fmt::Debug for VideoReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VideoReader")
            .field("info", &self.info)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}

impl VideoReader {
    /// Opens a file; its kind is found by its first bytes. Reading may wait for a disk: it belongs on a thread of its own.
    pub fn open<R: Read + Seek + Send + 'static>(
        mut input: R,
        options: OpenOptions,
    ) -> Result<Self, VideoFileError> {
        let mut head = Vec::new();
        input.by_ref().take(12).read_to_end(&mut head)?;
        input.seek(SeekFrom::Start(0))?;
        let rate =
            || options.rate.filter(|rate| rate.frames > 0 && rate.seconds > 0).ok_or(VideoFileError::NoRate);
        let demuxer: Box<dyn Demuxer> = match &head[..] {
            [0x1a, 0x45, 0xdf, 0xa3, ..] => Box::new(matroska::MatroskaReader::open(input)?),
            [b'D', b'K', b'I', b'F', ..] => Box::new(ivf::IvfReader::open(input)?),
            [_, _, _, _, kind @ .., _, _, _, _] if mp4::is_begun_by(kind) => {
                Box::new(mp4::Mp4Reader::open(input)?)
            }
            [0xff, 0xd8, 0xff, ..] => Box::new(pictures::PictureReader::new(input, rate()?)),
            [0, 0, 1, ..] | [0, 0, 0, 1, ..] => Box::new(annexb::AnnexBReader::open(input, rate()?)?),
            _ => return Err(VideoFileError::Unknown),
        };
        let info = demuxer.info();
        let inspector = Inspector::new(info.codec);
        Ok(VideoReader { demuxer, info, inspector, frames: 0, skipped: 0, is_over: false })
    }

    /// The codec, the size and the parameter sets, as far as they are known before the first frame.
    pub fn info(&self) -> &StreamInfo {
        &self.info
    }

    /// Frames left out because no key frame came before them.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next frame in the order of decoding; `None` at the end. After an error there is no more.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, VideoFileError> {
        if self.is_over {
            return Ok(None);
        }
        let next = self.read_frame();
        self.is_over = !matches!(next, Ok(Some(_)));
        match next {
            // Containers don't count.
            Err(VideoFileError::Truncated { .. }) => Err(VideoFileError::Truncated { frames: self.frames }),
            Err(VideoFileError::Damaged { what, .. }) => {
                Err(VideoFileError::Damaged { frames: self.frames, what })
            }
            other => other,
        }
    }

    fn read_frame(&mut self) -> Result<Option<Frame>, VideoFileError> {
        loop {
            let Some(sample) = self.demuxer.next()? else {
                return match (self.frames, self.skipped) {
                    (0, 0) => Err(VideoFileError::NoVideo),
                    (0, skipped) => Err(VideoFileError::NoKeyFrame { frames: skipped }),
                    _ => Ok(None),
                };
            };
            // Encoders that leave a picture out may write an empty one.
            if sample.data.is_empty() {
                continue;
            }
            let data = self.normalise(sample.data)?;
            let damaged = VideoFileError::Damaged { frames: 0, what: "a frame is no picture of its codec" };
            let mut picture = self.inspector.inspect(&data).ok_or(damaged)?;
            if self.frames == 0 && !picture.key {
                self.skipped += 1;
                continue;
            }
            let data = if picture.key { self.begin_with_config(data) } else { data };
            if picture.key && self.info.codec == Codec::H264 {
                picture.size = h264::inspect(&data).size;
            }
            self.info.size = picture.size.or(self.info.size);
            self.frames += 1;
            return Ok(Some(Frame { codec: self.info.codec, time: video_time(sample.ticks), picture, data }));
        }
    }

    /// The form of [`Frame`].
    fn normalise(&self, data: Vec<u8>) -> Result<Vec<u8>, VideoFileError> {
        let damaged = |what| VideoFileError::Damaged { frames: 0, what };
        match (self.info.codec, self.demuxer.length_size()) {
            (Codec::H264, Some(size)) => h264::from_length_prefixed(&data, size)
                .ok_or(damaged("a frame's parts are longer than the frame")),
            (Codec::Av1, _) => {
                av1::normalise(&data).ok_or(damaged("a frame's parts are longer than the frame"))
            }
            (Codec::Mjpeg, _) => Ok(jpeg::normalise(&data)?),
            _ => Ok(data),
        }
    }

    /// Parameter sets that a container holds apart stand in front of each key frame.
    fn begin_with_config(&mut self, data: Vec<u8>) -> Vec<u8> {
        match self.info.codec {
            Codec::H264 => {
                let own = h264::parameter_sets(&data);
                if own.iter().any(|set| h264::kind(set) == h264::nal::SPS) {
                    self.info.config = own;
                    return data;
                }
                h264::with_parameter_sets(data, &self.info.config)
            }
            Codec::Av1 => match av1::sequence_header(&data) {
                Some(header) => {
                    self.info.config = vec![header];
                    data
                }
                None => [self.info.config.concat(), data].concat(),
            },
            Codec::Vp8 | Codec::Vp9 | Codec::Mjpeg => data,
        }
    }
}

/// Bytes of the longest frame are bounded wherever a container tells a length.
fn check_len(len: u64) -> Result<usize, VideoFileError> {
    let max = MAX_FRAME as u64;
    if len > max {
        return Err(VideoFileError::TooLong { what: "a video frame", len, max });
    }
    Ok(len as usize)
}
