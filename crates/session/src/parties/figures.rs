//! Figures of the parties of a group.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime, PathId, Ppm};
use antiphon_media::StreamFormat;
use antiphon_media::playout::{AdaptedFigures, PlayoutCounters};

use super::{Parties, Party};
use crate::mixer::{Mixer, MixerCounters};
use crate::receive_track::ReceiveTrackCounters;
use crate::video_in::VideoInCounters;

/// Counts of what came from the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartiesCounters {
    /// Parties that were given a track so far.
    pub joined: u64,
    /// Packets of ours that came back.
    pub own: u64,
    /// Packets of sources without a track.
    pub on_probation: u64,
    /// Packets that would have begun a track, had there been room.
    pub refused: u64,
    /// Packets that are neither RTP nor RTCP, or broken.
    pub malformed: u64,
    /// Packets of pictures that were not taken: all are heard in one sink, or they came from elsewhere than their sound.
    pub pictures_left_out: u64,
}

/// Figures of one party.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartyFigures {
    /// Its SSRC.
    pub ssrc: u32,
    /// Where its packets come from.
    pub path: PathId,
    /// When it was last heard.
    pub heard: Instant,
    /// What it sends; `None` before it is known.
    pub format: Option<StreamFormat>,
    /// What its playout buffer counted.
    pub playout: PlayoutCounters,
    /// What its track counted.
    pub counters: ReceiveTrackCounters,
    /// How much faster its sampling clock runs than ours, once known.
    pub drift: Option<Ppm>,
    /// What a playout delay that adapts has done.
    pub adapted: Option<AdaptedFigures>,
    /// Sound that waits in its playout buffer.
    pub buffer: Duration,
    /// Its highest sample since its figures were last taken.
    pub peak: f32,
    /// Its pictures, if they are received.
    pub pictures: Option<VideoInCounters>,
}

impl Parties {
    /// Figures of each party, in the order of their joining; takes the peaks.
    pub fn figures(&self) -> impl Iterator<Item = PartyFigures> {
        self.list.iter().map(|party| {
            let track = &party.track;
            PartyFigures {
                ssrc: party.ssrc,
                path: party.path,
                heard: party.heard,
                format: track.format(),
                // Before it begins nothing was lost or played.
                playout: track.playout().unwrap_or_default(),
                counters: track.counters(),
                drift: track.drift(),
                adapted: track.adapted(),
                buffer: party.buffer(),
                peak: party.output.take_peak(),
                pictures: party.output.pictures(),
            }
        })
    }

    /// The rate of the time stamps of a party, or of one of its channel groups.
    pub fn rate_of(&self, ssrc: u32) -> Option<u32> {
        let party = self.list.iter().find(|party| party.ssrc == ssrc || party.track.is_of(ssrc))?;
        party.track.format().map(StreamFormat::rate)
    }

    /// Sound that waits in the fullest playout buffer; none without a party.
    pub fn fullest(&self) -> Duration {
        self.list.iter().map(Party::buffer).max().unwrap_or_default()
    }

    /// Of playout delays that adapt, the longest.
    pub fn longest_delay(&self) -> Option<AdaptedFigures> {
        let adapted = self.list.iter().filter_map(|party| party.track.adapted());
        adapted.max_by_key(|figures| figures.in_force)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether nobody else is there.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What the playout buffers of all parties counted, those that are gone included.
    pub fn playout(&self) -> PlayoutCounters {
        let now = self.list.iter().filter_map(|party| party.track.playout());
        now.fold(self.past.0, |sum, one| sum + one)
    }

    /// What the tracks of all parties counted, those that are gone included.
    pub fn track_counters(&self) -> ReceiveTrackCounters {
        let mut sum = self.past.1;
        self.list.iter().for_each(|party| sum += party.track.counters());
        sum.malformed += self.counters.malformed;
        sum
    }

    /// What came from the group.
    pub fn counters(&self) -> PartiesCounters {
        self.counters
    }

    /// What was given to the sink of all; `None` where each has its own.
    pub fn mixer(&self) -> Option<MixerCounters> {
        self.hearing.mixer().map(Mixer::counters)
    }

    /// For how long there has been sound: of the mix, or of the party of which most was played.
    pub fn played(&self) -> Duration {
        let time = |frames, format: StreamFormat| MediaTime::new(frames, format.rate()).duration();
        if let Some(mixer) = self.hearing.mixer() {
            return time(mixer.counters().frames, mixer.format());
        }
        self.list.iter().map(Party::played).max().unwrap_or_default().max(self.longest_past)
    }
}

impl Party {
    pub(super) fn played(&self) -> Duration {
        let (format, playout) = (self.track.format(), self.track.playout());
        let played = format.zip(playout);
        played.map_or(Duration::ZERO, |(format, playout)| {
            MediaTime::new(playout.played_frames, format.rate()).duration()
        })
    }

    fn buffer(&self) -> Duration {
        let rate = self.track.format().map_or(1, StreamFormat::rate);
        MediaTime::new(self.track.playout_level(), rate).duration()
    }
}
