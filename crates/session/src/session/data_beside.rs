//! Data beside the sound and the pictures of a session.
//!
//! They come last: nothing leaves while pictures wait for what the path carries, and where nothing is known of that, no more than what every
//! path carries. They begin when the receiver has shown that it is there, as a file that nobody hears is lost.

use std::time::Duration;

use antiphon_core::{Instant, Message, Outcome, Received, SendError, Tag, Wire};
use antiphon_media::packet::{DataPlace, RtpView};

use super::end::State;
use super::fan_out::SHORTEST_HOLD;
use super::{Apart, Session};
use crate::associations::AssociationId;
use crate::data_in::{DataIn, DataInCounters, DataSink};
use crate::data_track::{DataTrack, DataTrackCounters, DataWay, data_of, data_tag};
use crate::manager::{Budget, TrackId};
use crate::peer::Peer;
use crate::receive_track::ReceiveTrack;
use crate::video_track::VideoTrack;

/// The data of a session.
#[derive(Default)]
pub(super) struct Data {
    tracks: Vec<DataTrack>,
    receive: Option<DataIn>,
    /// The association that they go over instead of the sound's.
    apart: Option<Apart>,
    /// Since when the sound waits for their end.
    over: Option<Instant>,
}

impl Data {
    pub fn tracks_mut(&mut self) -> impl Iterator<Item = &mut DataTrack> {
        self.tracks.iter_mut()
    }

    /// Whether the sender of those that are received has ended them; `None` where none are.
    pub fn has_ended(&self) -> Option<bool> {
        self.receive.as_ref().map(DataIn::has_ended)
    }
}

impl Session {
    /// Sends data beside the sound, to all peers.
    pub fn add_data_track(&mut self, track: DataTrack) {
        self.beside.tracks.push(track);
    }

    /// Sends data over an association of [`Self::send_apart`]: that of the pictures, or one of their own. Call it before there is a peer.
    pub fn set_data_over(&mut self, apart: Apart) {
        self.beside.apart = Some(apart);
    }

    /// The association over which `peer` is sent data now.
    fn data_destination(&self, peer: &Peer) -> Option<AssociationId> {
        Self::destination(self.beside.apart, peer)
    }

    /// Receives data into this sink.
    pub fn set_data_sink(&mut self, sink: Box<dyn DataSink>) {
        self.beside.receive = Some(DataIn::new(sink));
    }

    /// Totals of each data track that is sent.
    pub fn data_sent(&self) -> impl Iterator<Item = DataTrackCounters> {
        self.beside.tracks.iter().map(DataTrack::counters)
    }

    /// Totals of the data that were received, if they are.
    pub fn data_received(&self) -> Option<DataInCounters> {
        self.beside.receive.as_ref().map(|data| data.counters)
    }

    /// Sends the data that may leave now, after the sound and the pictures.
    pub(super) fn run_data(&mut self, now: Instant) {
        let (Some(origin), State::Open) = (self.video_origin(), self.state) else { return };
        for at in 0..self.beside.tracks.len() {
            if self.beside.tracks[at].next_call().is_some_and(|next| next <= now) {
                self.run_data_track(now, origin, at);
            }
        }
    }

    fn run_data_track(&mut self, now: Instant, origin: Instant, at: usize) {
        // What comes meanwhile grows old.
        self.beside.tracks[at].read(now);
        if self.data_must_wait(now, origin) {
            return self.beside.tracks[at].hold(now + ASK_AGAIN);
        }
        let budget =
            if self.is_data_unmanaged() { Budget::All } else { self.manager.budget(now, TrackId::DATA) };
        let way = DataWay {
            pace: (budget == Budget::All).then_some(UNKNOWN_PATH),
            most_open: if self.has_stream_for_data() { 1 } else { MOST_OPEN },
        };
        let mut used = 0;
        loop {
            if let Budget::Bytes(most, again) = budget
                && used >= most
            {
                return self.beside.tracks[at].hold(again.max(now + SHORTEST_HOLD));
            }
            let Some(len) = self.send_piece(now, at, way) else { return };
            used += len;
        }
    }

    /// Hands the next packet of a track to all peers; returns its length, or `None` if there is none or it waits.
    fn send_piece(&mut self, now: Instant, at: usize, way: DataWay) -> Option<usize> {
        let stream = self.streams_before_data() + at;
        let waits = self.peers.iter().flatten().count() == 1;
        let apart = self.beside.apart;
        let track = &mut self.beside.tracks[at];
        let packet = track.poll(now, way)?;
        let len = packet.bytes.len();
        let (mut taken, mut refused) = (0, 0);
        for peer in self.peers.iter_mut().flatten() {
            let Some(id) = Self::destination(apart, peer) else { continue };
            let message = Message::new(data_tag(at), packet.bytes, packet.deadline);
            let message = Message { priority: DATA_PRIORITY, ..message };
            match self.associations.send_media(now, id, stream, message) {
                Ok(()) => {
                    if let Some(path) = Session::path_of(&self.associations, peer, id) {
                        self.manager.on_sent(now, path, TrackId::DATA, packet.bytes);
                    }
                    taken += 1;
                }
                Err(SendError::Blocked { .. }) if waits => {
                    track.on_blocked(now);
                    return None;
                }
                Err(_) => refused += 1,
            }
        }
        track.on_sent(now, len, (taken, refused));
        Some(len)
    }

    /// Under which number their association sends the first track: those of what goes before them in it come first.
    fn streams_before_data(&self) -> usize {
        let sounds = self.send.as_ref().map_or(0, |track| track.ssrcs().count());
        let goes_along = match self.beside.apart {
            Some(Apart::Data) => false,
            Some(Apart::Pictures) => true,
            None => !self.sends_video_apart(),
        };
        let pictures = if goes_along { self.video.ssrcs().count() } else { 0 };
        pictures + if self.beside.apart.is_none() { sounds } else { 0 }
    }

    /// Whether nothing of them is to leave: nobody is there yet, or pictures wait for what the path carries, or begin.
    fn data_must_wait(&self, now: Instant, origin: Instant) -> bool {
        let mut peers = self.peers.iter().flatten();
        let is_there = peers.any(|peer| peer.answered && self.data_destination(peer).is_some());
        let mut pictures = self.video.tracks();
        let begin = self.manager.figures().rate.is_none() && now.since(origin) < PICTURES_FIRST;
        !is_there || pictures.any(|track| VideoTrack::is_held_at(track, now) || begin)
    }

    /// Whether the manager is not asked about data: it knows one path.
    fn is_data_unmanaged(&self) -> bool {
        let mut peers = self.peers.iter().flatten();
        let (Some(peer), None) = (peers.next(), peers.next()) else { return true };
        self.data_destination(peer).is_none_or(|id| self.is_unmanaged(id))
    }

    /// Whether they go over a stream of bytes, which gets a piece when it has taken the one before.
    fn has_stream_for_data(&self) -> bool {
        let mut ids = self.peers.iter().flatten().filter_map(|peer| self.data_destination(peer));
        let profile = |id| self.associations.profile(id);
        ids.any(|id| profile(id).is_some_and(|profile| profile.wire == Wire::ByteStream))
    }

    /// Whether all data were sent, or the rest is given up, at a sender whose sound is at its end.
    pub(super) fn is_data_over(&mut self, now: Instant) -> bool {
        self.beside.tracks.iter_mut().for_each(DataTrack::end);
        let over = *self.beside.over.get_or_insert(now);
        let progress = self.beside.tracks.iter().map(DataTrack::progress).max();
        let is_silent = progress.is_none_or(|progress| now.since(progress.max(over)) >= PATIENCE);
        // Who has not taken a transport of theirs by now does not listen on it.
        let mut peers = self.peers.iter().flatten();
        let is_unwanted = progress == Some(Instant::ZERO) && self.beside.apart.is_some();
        let is_unwanted = is_unwanted && peers.all(|peer| self.data_destination(peer).is_none());
        is_silent || is_unwanted || self.beside.tracks.iter().all(DataTrack::is_over)
    }

    /// When [`Self::run_data`] has something to do.
    pub(super) fn next_data(&self) -> Option<Instant> {
        self.video_origin().filter(|_| self.state == State::Open)?;
        self.beside.tracks.iter().filter_map(DataTrack::next_call).min()
    }

    /// A message of a data track has its outcome. Returns whether the tag is of one.
    pub(super) fn on_data_outcome(&mut self, now: Instant, tag: Tag, outcome: Outcome) -> bool {
        let Some(at) = data_of(tag) else { return false };
        if let Some(track) = self.beside.tracks.get_mut(at) {
            let is_expired = matches!(outcome, Outcome::Expired { .. });
            let is_lost = matches!(outcome, Outcome::RetriesExhausted | Outcome::Aborted);
            track.on_outcome(now, is_expired, is_lost);
        }
        true
    }

    /// A piece of data of the peer at `at`.
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        received: Received,
        view: &RtpView<'_>,
        (sound, place, bytes): (u32, DataPlace, &[u8]),
    ) {
        // They are for a receiver: in a call, and from a reflector, nobody has sent any.
        if self.config.reflected.is_some() || self.config.two_way {
            self.foreign += 1;
            return;
        }
        // As with pictures, those that nobody wants take as much of the path.
        let is_told = !self.is_unmanaged(id);
        self.arrivals.on_data(now, (at, id), is_told, (view.ssrc, view.sequence), received);
        let heard = self.receive.as_ref().and_then(ReceiveTrack::followed);
        if let Some(data) = &mut self.beside.receive {
            data.on_piece((view.ssrc, sound), heard, place, bytes);
        }
    }
}

/// Pictures go first, where a transport can choose.
const DATA_PRIORITY: u8 = 2;
/// Bytes a second where nobody tells what the path carries: 64 kbit/s, a channel of telephony.
const UNKNOWN_PATH: f64 = 8000.0;
/// Pieces that a transport may have without having told what became of them: with their packets 150 kB.
const MOST_OPEN: usize = 256;
/// For how long the first pictures have the path for themselves, unless it is known sooner what it carries.
const PICTURES_FIRST: Duration = Duration::from_secs(1);
/// How soon to ask again whether there is room.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// How long the end of the sound waits for data that get no further.
const PATIENCE: Duration = Duration::from_secs(5);
