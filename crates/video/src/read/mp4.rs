//! MP4 (ISO 14496-12, -14, -15): the movie box with its tables, and movie fragments.

use std::io::{Cursor, Read, Seek};

use mp4_atom::{Atom, FourCC, Moof, Moov, Trak};

use super::input::Input;
use super::mp4_samples::{Fragments, Place, TimeScale, of_movie};
use super::{Demuxer, Sample, VideoFileError, check_len};
use crate::codec::Codec;
use crate::frame::{PictureSize, StreamInfo};

pub struct Mp4Reader<R> {
    input: Input<R>,
    info: StreamInfo,
    length_size: Option<usize>,
    time: TimeScale,
    fragments: Fragments,
    /// Samples that are known and not read yet.
    places: std::vec::IntoIter<Place>,
    /// The next box in the file that may be a movie fragment.
    next_box: u64,
}

impl<R: Read + Seek> Mp4Reader<R> {
    pub fn open(input: R) -> Result<Self, VideoFileError> {
        let mut input = Input::new(input)?;
        let (at, size) = loop {
            if input.is_at_end() {
                return Err(damaged("it has no movie box"));
            }
            let header = BoxHeader::read(&mut input)?;
            if header.kind == *b"moov" {
                break (input.at(), header.size);
            }
            input.seek(header.end)?;
        };
        let body = read_table(&mut input, size)?;
        let movie =
            Moov::decode_body(&mut Cursor::new(body)).map_err(|_| damaged("its movie box can't be read"))?;
        let mut other = None;
        let chosen = movie.trak.iter().find_map(|track| match describe(track) {
            Some(Ok(found)) => Some((track, found)),
            Some(Err(name)) => {
                other.get_or_insert(name);
                None
            }
            None => None,
        });
        let Some((track, (info, length_size))) = chosen else {
            return Err(other.map_or(VideoFileError::NoVideo, |name| VideoFileError::Codec { name }));
        };
        let time = TimeScale::of(&movie, track);
        let places = of_movie(&track.mdia.minf.stbl)?.into_iter();
        let fragments = Fragments::of(&movie, track);
        Ok(Mp4Reader { info, length_size, time, fragments, places, next_box: at + size, input })
    }

    /// Reads boxes until one brings samples; `false` at the end of the file.
    fn read_fragment(&mut self) -> Result<bool, VideoFileError> {
        while self.next_box < self.input.len() {
            self.input.seek(self.next_box)?;
            let begin = self.input.at();
            let header = BoxHeader::read(&mut self.input)?;
            self.next_box = header.end;
            if header.kind != *b"moof" {
                continue;
            }
            let body = read_table(&mut self.input, header.size)?;
            let moof = Moof::decode_body(&mut Cursor::new(body));
            let moof = moof.map_err(|_| damaged("a movie fragment can't be read"))?;
            self.places = self.fragments.places(&moof, begin)?.into_iter();
            return Ok(true);
        }
        if self.next_box > self.input.len() {
            return Err(VideoFileError::Truncated { frames: 0 });
        }
        Ok(false)
    }
}

impl<R: Read + Seek + Send> Demuxer for Mp4Reader<R> {
    fn info(&self) -> StreamInfo {
        self.info.clone()
    }

    fn length_size(&self) -> Option<usize> {
        self.length_size
    }

    fn next(&mut self) -> Result<Option<Sample>, VideoFileError> {
        loop {
            if let Some(place) = self.places.next() {
                let len = check_len(place.size.into())?;
                self.input.seek(place.offset)?;
                let data = self.input.read(len)?;
                return Ok(Some(Sample { data, ticks: self.time.ticks(place.time) }));
            }
            if !self.read_fragment()? {
                return Ok(None);
            }
        }
    }
}

/// Whether a file begins with such a box.
pub fn is_begun_by(kind: &[u8]) -> bool {
    [b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp"].iter().any(|known| kind == *known)
}

struct BoxHeader {
    kind: [u8; 4],
    /// Without the header.
    size: u64,
    end: u64,
}

impl BoxHeader {
    fn read<R: Read + Seek>(input: &mut Input<R>) -> Result<Self, VideoFileError> {
        let begin = input.at();
        let [s0, s1, s2, s3, kind @ ..] = input.read_array::<8>()?;
        let whole = match u32::from_be_bytes([s0, s1, s2, s3]) {
            0 => input.len() - begin,
            1 => u64::from_be_bytes(input.read_array()?),
            size => size.into(),
        };
        let end = begin.checked_add(whole).filter(|end| *end >= input.at());
        let end = end.ok_or(damaged("a box is shorter than its own header"))?;
        Ok(BoxHeader { kind, size: end - input.at(), end })
    }
}

fn read_table<R: Read + Seek>(input: &mut Input<R>, len: u64) -> Result<Vec<u8>, VideoFileError> {
    if len > MAX_TABLE {
        return Err(VideoFileError::TooLong { what: "a table of frames", len, max: MAX_TABLE });
    }
    input.read(len as usize)
}

/// The video of a track and the size of lengths; the name of a codec that is not carried; `None` if it is no video.
fn describe(track: &Trak) -> Option<Result<(StreamInfo, Option<usize>), String>> {
    use mp4_atom::Codec as Entry;
    let entry = track.mdia.minf.stbl.stsd.codecs.first()?;
    let (codec, visual) = match entry {
        Entry::Avc1(entry) => (Codec::H264, &entry.visual),
        Entry::Avc3(entry) => (Codec::H264, &entry.visual),
        Entry::Vp08(entry) => (Codec::Vp8, &entry.visual),
        Entry::Vp09(entry) => (Codec::Vp9, &entry.visual),
        Entry::Av01(entry) => (Codec::Av1, &entry.visual),
        Entry::Jpeg(entry) => (Codec::Mjpeg, &entry.visual),
        Entry::Hev1(_) | Entry::Hvc1(_) => return Some(Err("H.265".into())),
        Entry::Unknown(kind, _) if track.mdia.hdlr.handler == FourCC::new(b"vide") => {
            return Some(Err(kind.to_string()));
        }
        _ => return None,
    };
    let size = PictureSize { width: visual.width.into(), height: visual.height.into() };
    let mut info = StreamInfo { size: Some(size), ..StreamInfo::new(codec) };
    let mut length_size = None;
    match entry {
        Entry::Avc1(mp4_atom::Avc1 { avcc, .. }) | Entry::Avc3(mp4_atom::Avc3 { avcc, .. }) => {
            info.config =
                avcc.sequence_parameter_sets.iter().chain(&avcc.picture_parameter_sets).cloned().collect();
            length_size = Some(usize::from(avcc.length_size).clamp(1, 4));
        }
        Entry::Av01(entry) => info.config.extend(crate::av1::sequence_header(&entry.av1c.config_obus)),
        _ => {}
    }
    Some(Ok((info, length_size)))
}

pub(super) fn damaged(what: &'static str) -> VideoFileError {
    VideoFileError::Damaged { frames: 0, what }
}

/// Bytes of the longest movie box: tables of a day of video have 40 MB.
const MAX_TABLE: u64 = 64 << 20;
