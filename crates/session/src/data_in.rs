//! Receives data beside the sound of a session: which sender's pieces count, and where they go.

use antiphon_media::packet::DataPlace;

use crate::data_track::{MOST_DATA_TRACKS, MOST_TRACK};

/// Where pieces of data go to. Called on the media thread: copies them into a bounded queue; what puts them in their places does so on a
/// thread of its own.
pub trait DataSink: Send {
    /// A piece of the sender that is followed, below [`MOST_DATA_TRACKS`] and [`MOST_TRACK`]. It may be a duplicate, or overtaken by others.
    fn on_piece(&mut self, place: DataPlace, bytes: &[u8]);
}

/// Counts of the data that a session receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataInCounters {
    /// Pieces that count.
    pub pieces: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Pieces of other senders, and such as belong nowhere.
    pub others: u64,
}

/// The data that a session receives.
pub(crate) struct DataIn {
    sink: Box<dyn DataSink>,
    /// The SSRC of each track.
    followed: [Option<u32>; MOST_DATA_TRACKS],
    /// Its end has come.
    ended: [bool; MOST_DATA_TRACKS],
    pub counters: DataInCounters,
}

impl DataIn {
    pub fn new(sink: Box<dyn DataSink>) -> Self {
        DataIn {
            sink,
            followed: [None; MOST_DATA_TRACKS],
            ended: [false; MOST_DATA_TRACKS],
            counters: DataInCounters::default(),
        }
    }

    /// Whether the sender has ended all tracks that came.
    pub fn has_ended(&self) -> bool {
        let mut tracks =
            self.followed.iter().zip(self.ended).filter(|(followed, _)| followed.is_some()).peekable();
        tracks.peek().is_some() && tracks.all(|(_, ended)| ended)
    }

    /// A piece of the track of this SSRC came, which goes beside `sound`. `heard`: the sound that is heard, if there is any.
    pub fn on_piece(
        &mut self,
        (ssrc, sound): (u32, u32),
        heard: Option<u32>,
        place: DataPlace,
        bytes: &[u8],
    ) {
        let followed = self.followed.get_mut(usize::from(place.track));
        let belongs = heard.is_none_or(|heard| heard == sound);
        let fits = place.offset.saturating_add(bytes.len() as u64) <= MOST_TRACK;
        // The first one is followed: another sender's pieces at the same places would make a file of neither.
        let Some(followed) = followed.filter(|one| one.is_none_or(|one| one == ssrc) && belongs && fits)
        else {
            self.counters.others += 1;
            return;
        };
        *followed = Some(ssrc);
        self.ended[usize::from(place.track)] |= place.ends;
        self.counters.pieces += 1;
        self.counters.bytes += bytes.len() as u64;
        self.sink.on_piece(place, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    struct Kept(Arc<Mutex<Vec<(u64, usize)>>>);

    impl DataSink for Kept {
        fn on_piece(&mut self, place: DataPlace, bytes: &[u8]) {
            self.0.lock().unwrap().push((place.offset, bytes.len()));
        }
    }

    #[test]
    fn what_belongs_nowhere_is_counted_and_not_kept() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let mut data = DataIn::new(Box::new(Kept(kept.clone())));
        let at = |track, offset| DataPlace { track, offset, ..DataPlace::default() };
        data.on_piece((1, 7), Some(7), at(0, 0), b"ab");
        data.on_piece((1, 7), None, at(0, 2), b"c");
        data.on_piece((1, 7), Some(7), at(0, MOST_TRACK - 1), b"d");
        assert_eq!(*kept.lock().unwrap(), [(0, 2), (2, 1), (MOST_TRACK - 1, 1)]);
        for (names, heard, place) in [
            ((1, 7), Some(7), at(0, MOST_TRACK)),
            ((1, 7), Some(7), at(0, u64::MAX)),
            ((1, 7), Some(7), at(MOST_DATA_TRACKS as u8, 0)),
            ((1, 7), Some(7), at(255, 0)),
            ((1, 7), Some(8), at(0, 0)),
            ((2, 7), Some(7), at(0, 0)),
        ] {
            data.on_piece(names, heard, place, b"x");
        }
        let DataInCounters { pieces, bytes, others } = data.counters;
        assert_eq!((kept.lock().unwrap().len(), pieces, bytes, others), (3, 3, 4, 6));
    }
}
