//! Pictures of a session, beside its sound: each track to every peer, and received ones to a sink.

mod handing;

use std::time::Duration;

use antiphon_core::{Instant, Outcome, Received, Tag, Wire, sooner};
use antiphon_media::packet::{ExtensionIds, VIDEO_CLOCK, parse_data, parse_rtp};
use antiphon_media::rtcp::PlayoutDelay;

use super::end::State;
use super::fan_out::SHORTEST_HOLD;
use super::repeating::Asked;
use super::{Session, tell};
use crate::associations::AssociationId;
use crate::manager::{Budget, TrackId};
use crate::observer::Seen;
use crate::send_track::SendTrack;
use crate::video_in::{VideoIn, VideoInCounters, VideoSink};
use crate::video_track::{AGAIN, VideoTrack, VideoTrackCounters, Way, video_of};
pub(crate) use handing::PICTURES_PRIORITY;
pub(super) use handing::priority_of;
use handing::{Handing, To, USUAL_PATIENCE};

/// The pictures of a session.
#[derive(Default)]
pub(super) struct Video {
    tracks: Vec<VideoTrack>,
    /// When peers that lack some of it are sent more.
    pub(super) catches_up: Option<Instant>,
    /// Questions of a group for a key frame.
    pub(super) asked: Asked,
    receive: Option<VideoIn>,
}

impl Video {
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> {
        self.tracks.iter().map(VideoTrack::ssrc)
    }

    /// Whether packets of this SSRC are of pictures that are sent, or sent again.
    pub fn has_ssrc(&self, ssrc: u32) -> bool {
        self.tracks.iter().any(|track| track.has_ssrc(ssrc))
    }

    pub fn tracks(&self) -> impl Iterator<Item = &VideoTrack> {
        self.tracks.iter()
    }

    pub fn tracks_mut(&mut self) -> impl Iterator<Item = &mut VideoTrack> {
        self.tracks.iter_mut()
    }

    pub fn receive_mut(&mut self) -> Option<&mut VideoIn> {
        self.receive.as_mut()
    }

    /// Whether pictures are received.
    pub fn receives(&self) -> bool {
        self.receive.is_some()
    }

    /// Whether the sender of those that are received has ended them.
    pub fn has_ended(&self) -> bool {
        self.receive.as_ref().is_some_and(VideoIn::has_ended)
    }

    /// Whether all that was sent has its outcome.
    pub fn is_settled(&self) -> bool {
        self.tracks.iter().all(VideoTrack::is_settled)
    }

    /// Whether there are packets that should have left by now, or have no outcome yet.
    pub fn is_behind(&mut self, now: Instant, origin: Instant) -> bool {
        self.tracks.iter_mut().any(|track| track.is_behind(now, origin))
    }

    /// Whether everything was sent.
    pub fn is_drained(&mut self) -> bool {
        self.tracks.iter_mut().all(VideoTrack::is_drained)
    }
}

impl Session {
    /// Sends pictures beside the sound, to all peers. Of several tracks each comes after those that were added before it: it has what they
    /// leave of the path, and does not leave while they wait.
    pub fn add_video_track(&mut self, mut track: VideoTrack) {
        debug_assert!(self.video.tracks.len() < MOST_VIDEO_TRACKS);
        track.set_number(self.video.tracks.len() as u8);
        if !self.reports_apart(track.ssrc()) {
            for peer in self.peers.iter_mut().flatten() {
                peer.rtcp.add_source_at(track.ssrc(), VIDEO_CLOCK);
            }
        }
        self.video.tracks.push(track);
    }

    /// The SSRC of each video track that is sent.
    pub fn video_ssrcs(&self) -> impl Iterator<Item = u32> {
        self.video.ssrcs()
    }

    /// Receives pictures into this sink: those of a sender's first track.
    pub fn set_video_sink(&mut self, sink: Box<dyn VideoSink>) {
        self.video.receive = Some(VideoIn::new(sink));
    }

    /// Receives the sender's next track of pictures into this sink, after [`Self::set_video_sink`] for the first.
    pub fn add_video_sink(&mut self, sink: Box<dyn VideoSink>) {
        match &mut self.video.receive {
            Some(video) => video.add(sink),
            None => self.set_video_sink(sink),
        }
    }

    /// Totals of each video track that is sent.
    pub fn video_sent(&self) -> impl Iterator<Item = VideoTrackCounters> {
        self.video.tracks.iter().map(VideoTrack::counters)
    }

    /// Totals of the pictures that were received, if they are.
    pub fn video_received(&self) -> Option<VideoInCounters> {
        self.video.receive.as_ref().map(|video| video.counters)
    }

    /// When the pictures began.
    pub(super) fn video_origin(&self) -> Option<Instant> {
        self.send.as_ref().and_then(SendTrack::origin)
    }

    /// Sends the packets of pictures that are due, after the sound.
    pub(super) fn run_video(&mut self, now: Instant) {
        let (Some(origin), State::Open) = (self.video_origin(), self.state) else { return };
        for at in 0..self.video.tracks.len() {
            if self.video.tracks[at].next_call(origin).is_some_and(|next| next <= now) {
                self.run_video_track(now, origin, at);
            }
        }
        if self.video.catches_up.is_some_and(|at| at <= now) {
            self.catch_up(now);
        }
    }

    /// Whether the manager is not asked about pictures: it knows one path.
    pub(super) fn is_video_unmanaged(&self) -> bool {
        let is_apart = self.sends_video_apart();
        let mut peers = self.peers.iter().flatten();
        let mut ways = self.peers.iter().flatten().filter_map(|peer| Self::video_destination(is_apart, peer));
        let is_one = peers.next().is_some() && peers.next().is_none();
        !is_one || self.sends_video_session() || ways.all(|id| self.is_unmanaged(id))
    }

    /// Under which number an association sends the first track of pictures: those of the sound come first.
    pub(super) fn streams_before_video(&self) -> usize {
        match self.sends_video_apart() {
            true => 0,
            false => self.send.as_ref().map_or(0, |track| track.ssrcs().count()),
        }
    }

    fn run_video_track(&mut self, now: Instant, origin: Instant, at: usize) {
        if self.video.tracks[..at].iter().any(|before| before.is_held_at(now)) {
            return self.video.tracks[at].hold(now + ASK_AGAIN);
        }
        let id = TrackId(1 + at as u16);
        let is_unmanaged = self.is_video_unmanaged();
        if at == 0 {
            let counted = self.video.tracks[at].counters();
            self.manager.on_pictures(now, counted.units, counted.left_out);
        }
        let budget = if is_unmanaged { Budget::All } else { self.manager.budget(now, id) };
        let way = self.way_of_pictures(now, at, is_unmanaged);
        let handing = Handing {
            track: at,
            stream: self.streams_before_video() + at,
            // A single peer is waited for; one of many must not hold up the others.
            waits: self.peers.iter().flatten().count() == 1,
            is_apart: self.sends_video_apart(),
            bounded: self.two_way.is_some(),
            delay: self.config.playout_delay,
        };
        let mut used = 0;
        let track = &mut self.video.tracks[at];
        loop {
            if let Budget::Bytes(most, again) = budget
                && used >= most
            {
                return track.hold(again.max(now + SHORTEST_HOLD));
            }
            let Some(packet) = track.poll(now, origin, way) else { return };
            let (payload, len, due) = (packet.payload, packet.bytes.len(), packet.due);
            let to = To {
                peers: &mut self.peers,
                associations: &mut self.associations,
                manager: &mut *self.manager,
                observers: &mut self.observers,
            };
            let Some((taken, refused)) = handing.hand_over(now, packet, to) else {
                return track.on_blocked(now);
            };
            // A peer that has come later gets it in its turn.
            used += if taken + refused > 0 { len } else { 0 };
            if taken > 0 {
                self.apart.on_progress(now);
            }
            track.on_sent(now, due, len, (taken, refused));
            let (ssrc, timestamp) = (track.ssrc(), track.timestamp(now, origin));
            let apart = self.apart.reports_mut();
            let is_beside = apart.is_none();
            let beside = self.peers.iter_mut().flatten().filter(|peer| peer.connected && is_beside);
            let beside = beside.map(|peer| &mut peer.rtcp);
            beside.chain(apart).for_each(|rtcp| rtcp.on_sent(now, ssrc, timestamp, payload));
        }
    }

    /// What the way of the pictures of a track is like.
    fn way_of_pictures(&self, now: Instant, at: usize, is_unmanaged: bool) -> Way {
        let patience = self.video_patience();
        let is_stream = is_unmanaged && self.has_stream_for_video();
        let is_apart = self.sends_video_apart();
        let mut ways = self.peers.iter().flatten().filter_map(|peer| Self::video_destination(is_apart, peer));
        Way {
            patience,
            // A stream gets a picture when it has taken the one before.
            longest: if is_stream { Some(Duration::ZERO) } else { self.longest_wait(patience) },
            rate: match is_unmanaged {
                true => self.video.tracks[at].rate_taken().filter(|_| is_stream),
                false => self.rate_of_pictures(now, at),
            },
            is_stream,
            is_missing: match is_apart {
                true => ways.next().is_none(),
                // They wait until the address of a caller is proved: a part of a picture is of no use.
                false => self.two_way.is_some() && ways.any(|id| !self.associations.is_validated(id)),
            },
            since: self.video_open_since().or(self.proved_since()),
            known: self.manager.known_since(now).filter(|_| !is_unmanaged),
        }
    }

    /// What the sound leaves of the path, in bytes a second, if that is known.
    pub(super) fn rate_beside_sound(&self) -> Option<f64> {
        let sound = self.sound_on_path();
        Some((self.manager.figures().rate? - sound).max(0.0))
    }

    /// What the sound and the tracks before it leave of that to the track of pictures at `at`.
    fn rate_of_pictures(&self, now: Instant, at: usize) -> Option<f64> {
        let before = self.video.tracks[..at].iter().map(|track| track.rate_since_key_frame(now));
        Some((self.rate_beside_sound()? - before.sum::<f64>()).max(0.0))
    }

    /// For how long after it was due a picture is of use to the peer that waits for it the longest; `None`: to a recording,
    /// for ever.
    pub(super) fn video_patience(&self) -> Option<Duration> {
        let own = self.config.playout_delay;
        let of = |delay: PlayoutDelay| match delay {
            PlayoutDelay::Of(delay) => delay,
            PlayoutDelay::Unbounded => Duration::MAX,
        };
        let peers = self.peers.iter().flatten().map(|peer| of(peer.playout_delay.unwrap_or(own)));
        peers.max().filter(|delay| *delay < Duration::MAX)
    }

    /// For how long a transport that tells what it has delivered may have had a picture before another one is begun: so that the
    /// rest of the patience is left to that one, but not before an answer can have come. Those for many don't wait for one.
    fn longest_wait(&self, patience: Option<Duration>) -> Option<Duration> {
        let mut peers = self.peers.iter().flatten();
        let (Some(peer), None) = (peers.next(), peers.next()) else { return None };
        let id = Self::video_destination(self.sends_video_apart(), peer).or(peer.association);
        let endpoint = id.and_then(|id| self.associations.endpoint(id))?;
        let profile = endpoint.profile();
        // Before there was an answer, half of the patience alone counts.
        let answer = endpoint.stats().answer_time().unwrap_or_default();
        let tells = profile.acknowledged || profile.wire == Wire::ByteStream;
        tells.then_some((patience.unwrap_or(USUAL_PATIENCE) / 2).max(answer))
    }

    /// When [`Self::run_video`] has something to do.
    pub(super) fn next_video(&self) -> Option<Instant> {
        let origin = self.video_origin().filter(|_| self.state == State::Open)?;
        let next = self.video.tracks.iter().filter_map(|track| track.next_call(origin)).min();
        sooner(next, self.video.catches_up)
    }

    /// A message of a video track has its outcome. Returns whether the tag is of one.
    pub(super) fn on_video_outcome(&mut self, now: Instant, peer: usize, tag: Tag, outcome: Outcome) -> bool {
        let Some((at, unit)) = video_of(tag) else { return false };
        if unit == AGAIN {
            let peer = self.peers.get_mut(peer).and_then(Option::as_mut);
            peer.into_iter().for_each(|peer| peer.pictures_of(at).on_outcome());
            return true;
        }
        self.apart.on_progress(now);
        if let Some(track) = self.video.tracks.get_mut(at) {
            track.on_outcome(now, unit, matches!(outcome, Outcome::Expired { .. }));
        }
        true
    }

    /// A packet of the peer at `at`: returns whether it is of a picture that is wanted.
    pub(super) fn on_video(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        received: Received,
        bytes: &[u8],
    ) -> bool {
        let Ok(view) = parse_rtp(bytes, ExtensionIds::default()) else { return false };
        if view.video.is_none() {
            return false;
        }
        if let Some(piece) = parse_data(&view) {
            self.on_data(now, (at, id), received, &view, piece);
            return true;
        }
        if self.on_party_picture(now, (at, id), received, (&view, bytes)) {
            return true;
        }
        // Only our own packets come back from a reflector.
        let reflected = self.config.reflected.is_some();
        if reflected && !self.video.ssrcs().any(|own| own == view.ssrc) {
            self.foreign += 1;
            return true;
        }
        // Those that nobody wants, and those of several tracks of which one is followed, take as much of the path, and of what the sound needs.
        let (is_told, name) = (!self.is_unmanaged(id), (view.ssrc, view.sequence));
        // Only a group is sent packets again beside the others.
        let repeating = self.video.receive.as_ref().filter(|_| self.group).map_or(0, VideoIn::tracks);
        match view.video.is_some_and(|video| video.again.is_some()) {
            true => self.arrivals.on_repeat(now, at, name, received),
            false => self.arrivals.on_picture(now, (at, id), (is_told, repeating), name, received),
        }
        let Some(video) = &mut self.video.receive else { return false };
        let followed = video.on_packet(now, (&view, bytes), self.receive.as_ref());
        if followed {
            let at = received.received_at;
            tell(&mut self.observers, now, &Seen::PictureArrived { sequence: view.sequence, at });
        }
        // A session sends no report on its own pictures.
        if let (true, Some(peer)) = (followed && !reflected, &mut self.peers[at]) {
            let numbers = (view.sequence, view.timestamp);
            peer.rtcp.on_received_at(received.received_at, view.ssrc, numbers, VIDEO_CLOCK);
        }
        true
    }
}

/// Tracks of pictures that a session sends at most.
pub const MOST_VIDEO_TRACKS: usize = 4;
/// How soon a track that comes after others that wait asks again.
const ASK_AGAIN: Duration = Duration::from_millis(5);
