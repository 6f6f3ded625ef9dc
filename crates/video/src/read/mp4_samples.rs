//! Where the samples of an MP4 are and when they are shown: the tables of the movie box, and the runs of fragments.

use mp4_atom::{Moof, Moov, Stbl, StszSamples, Traf, Trak, Trex};

use super::VideoFileError;
use super::mp4::damaged;
use crate::codec::CLOCK_RATE;

/// A sample in the file.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub offset: u64,
    pub size: u32,
    /// When it is shown, in the track's units, before edits.
    pub time: i64,
}

/// The track's units of time, and by how much the edit list moves them (ISO 14496-12 §8.6.6).
#[derive(Clone, Copy, Debug)]
pub struct TimeScale {
    units: u32,
    shift: i128,
}

impl TimeScale {
    pub fn of(movie: &Moov, track: &Trak) -> Self {
        let units = track.mdia.mdhd.timescale.max(1);
        let edits = track.edts.iter().filter_map(|edits| edits.elst.as_ref()).flat_map(|list| &list.entries);
        let mut shift = 0;
        for edit in edits {
            match edit.media_time {
                // Nothing is shown for so long.
                None => {
                    let movie_units = i128::from(movie.mvhd.timescale.max(1));
                    shift += i128::from(edit.segment_duration) * i128::from(units) / movie_units;
                }
                Some(begin) => {
                    shift -= i128::from(begin);
                    break;
                }
            }
        }
        TimeScale { units, shift }
    }

    /// In units of the RTP clock; what is before the begin is shown at the begin.
    pub fn ticks(self, time: i64) -> u64 {
        let shifted = i128::from(time).saturating_add(self.shift).max(0);
        u64::try_from(shifted.saturating_mul(CLOCK_RATE.into()) / i128::from(self.units)).unwrap_or(u64::MAX)
    }
}

/// Values of a table of runs, one for each sample.
struct Runs<I> {
    entries: I,
    value: i64,
    left: u32,
}

impl<I: Iterator<Item = (u32, i64)>> Runs<I> {
    fn new(entries: I) -> Self {
        Runs { entries, value: 0, left: 0 }
    }

    /// The value of the next sample; the last one goes on.
    fn next(&mut self) -> i64 {
        while self.left == 0 {
            match self.entries.next() {
                Some((count, value)) => (self.left, self.value) = (count, value),
                None => return self.value,
            }
        }
        self.left -= 1;
        self.value
    }
}

/// All samples that the tables of the movie box tell (§8.6, §8.7).
pub fn of_movie(tables: &Stbl) -> Result<Vec<Place>, VideoFileError> {
    let count = match &tables.stsz.samples {
        StszSamples::Identical { count, .. } => *count as usize,
        StszSamples::Different { sizes } => sizes.len(),
    };
    check_count(count)?;
    let size = |n: usize| match &tables.stsz.samples {
        StszSamples::Identical { size, .. } => *size,
        StszSamples::Different { sizes } => sizes[n],
    };
    let mut durations =
        Runs::new(tables.stts.entries.iter().map(|run| (run.sample_count, run.sample_delta.into())));
    let offsets = tables.ctts.iter().flat_map(|table| &table.entries);
    let mut offsets = Runs::new(offsets.map(|run| (run.sample_count, run.sample_offset)));
    let chunks: Vec<u64> = match (&tables.stco, &tables.co64) {
        (Some(short), _) => short.entries.iter().map(|offset| u64::from(*offset)).collect(),
        (None, Some(long)) => long.entries.clone(),
        (None, None) => Vec::new(),
    };
    let mut places = Vec::new();
    let mut decoded = 0i64;
    let mut runs = tables.stsc.entries.iter().peekable();
    let mut in_chunk = 0;
    for (number, chunk) in (1u32..).zip(chunks) {
        if let Some(run) = runs.next_if(|run| run.first_chunk <= number) {
            in_chunk = run.samples_per_chunk;
        }
        let mut offset = chunk;
        for _ in 0..in_chunk {
            let n = places.len();
            if n == count {
                return Ok(places);
            }
            let size = size(n);
            places.push(Place { offset, size, time: decoded.saturating_add(offsets.next()) });
            offset = offset.saturating_add(size.into());
            decoded = decoded.saturating_add(durations.next());
        }
    }
    if places.len() < count {
        return Err(damaged("its tables tell more frames than places"));
    }
    Ok(places)
}

/// What is known of a track's fragments before they come.
#[derive(Debug)]
pub struct Fragments {
    track: u32,
    defaults: Option<Trex>,
    /// When the next sample is decoded, in the track's units.
    decoded: i64,
}

impl Fragments {
    pub fn of(movie: &Moov, track: &Trak) -> Self {
        let id = track.tkhd.track_id;
        let mut all = movie.mvex.iter().flat_map(|extends| &extends.trex);
        Fragments { track: id, defaults: all.find(|defaults| defaults.track_id == id).cloned(), decoded: 0 }
    }

    /// The track's samples in a fragment that begins at `begin` in the file (§8.8).
    pub fn places(&mut self, moof: &Moof, begin: u64) -> Result<Vec<Place>, VideoFileError> {
        let mut places = Vec::new();
        let track = self.track;
        for fragment in moof.traf.iter().filter(|fragment| fragment.tfhd.track_id == track) {
            self.of_track(fragment, begin, &mut places)?;
        }
        Ok(places)
    }

    fn of_track(
        &mut self,
        fragment: &Traf,
        begin: u64,
        places: &mut Vec<Place>,
    ) -> Result<(), VideoFileError> {
        let header = &fragment.tfhd;
        let defaults = self.defaults.as_ref();
        let duration = header.default_sample_duration.or(defaults.map(|all| all.default_sample_duration));
        let size = header.default_sample_size.or(defaults.map(|all| all.default_sample_size));
        if let Some(time) = &fragment.tfdt {
            self.decoded = i64::try_from(time.base_media_decode_time).unwrap_or(i64::MAX);
        }
        let base = header.base_data_offset.unwrap_or(begin);
        let mut offset = base;
        for run in &fragment.trun {
            if let Some(from) = run.data_offset {
                offset = base.saturating_add_signed(from.into());
            }
            check_count(places.len() + run.samples.iter().len())?;
            for sample in run.samples.iter() {
                let size = sample.size.or(size).unwrap_or(0);
                let time = self.decoded.saturating_add(sample.cts.unwrap_or(0));
                places.push(Place { offset, size, time });
                offset = offset.saturating_add(size.into());
                self.decoded = self.decoded.saturating_add(sample.duration.or(duration).unwrap_or(0).into());
            }
        }
        Ok(())
    }
}

fn check_count(count: usize) -> Result<(), VideoFileError> {
    if count > MAX_SAMPLES {
        let (len, max) = (count as u64, MAX_SAMPLES as u64);
        return Err(VideoFileError::TooLong { what: "a list of frames", len, max });
    }
    Ok(())
}

/// Frames of a day at 48 a second.
const MAX_SAMPLES: usize = 4 << 20;
