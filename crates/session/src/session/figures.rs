//! Figures of a session.

use std::time::Duration;

use antiphon_core::{BrokenReason, Instant, PathId, PathStats, WireId};
use antiphon_media::rtcp::{PlayoutDelay, RemoteReport};

use super::Session;
use crate::associations::AdmissionCounters;
use crate::members::{Joined, Member};
use crate::peer::{Peer, PeerCounters, PeerEnd};
use crate::receive_track::ReceiveTrack;
use crate::send_track::{SendTrack, SendTrackCounters};

/// What was sent, to all peers together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderCounters {
    /// Of the track.
    pub track: SendTrackCounters,
    /// Of the peers.
    pub peers: PeerCounters,
}

/// Between the reports of a receiver of which only one has come (RFC 3550 §6.2: 5 s, which vary by half).
const SLOWEST_REPORTS: Duration = Duration::from_millis(7_500);
/// Shorter times between reports than this are chance.
const SHORTEST_GAP: Duration = Duration::from_secs(1);

impl Session {
    /// The send track.
    pub fn send_track(&self) -> Option<&SendTrack> {
        self.send.as_ref()
    }

    /// The receive track.
    pub fn receive_track(&self) -> Option<&ReceiveTrack> {
        self.receive.as_ref()
    }

    /// The receive track, to fetch notices and the sink.
    pub fn receive_track_mut(&mut self) -> Option<&mut ReceiveTrack> {
        self.receive.as_mut()
    }

    /// The current peers.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().flatten().map(|peer| &**peer)
    }

    /// The first peer; the last one, once it is gone.
    pub(super) fn shown(&self) -> Option<&Peer> {
        self.peers().next().or(self.gone.as_deref())
    }

    /// Totals of what was sent.
    pub fn sent(&self) -> SenderCounters {
        let mut peers = self.past;
        let messages = self.send.as_ref().map_or(0, |track| track.store().next());
        self.peers().for_each(|peer| peers += peer.counted(messages));
        let mut track = SendTrackCounters::default();
        self.send_tracks().for_each(|one| track += one.counters());
        SenderCounters { track, peers }
    }

    /// The first peer's last report on each channel group.
    pub fn reports(&self) -> &[Option<RemoteReport>] {
        self.shown().map_or(&[], Peer::reports)
    }

    /// The first peer's receivers by their reports; the last ones, once it is gone.
    pub fn members(&self) -> &[Member] {
        self.shown().map_or(&[], Peer::members)
    }

    /// Whether the peer is a multicast group.
    pub fn is_to_group(&self) -> bool {
        self.group
    }

    /// Who gets repairs of the group that is sent to: nobody where the transport has no members.
    pub fn joined(&self) -> Joined {
        self.joined
    }

    /// The last report of any peer on any channel group.
    pub fn last_report(&self) -> Option<RemoteReport> {
        let reports = self.peers().chain(self.gone.as_deref()).flat_map(|peer| &peer.reports);
        reports.flatten().copied().max_by_key(|report| report.at)
    }

    /// Path statistics of the first peer's transport; the last ones, once it is gone.
    pub fn stats(&self) -> PathStats {
        let id = self.peers().find_map(|peer| peer.association);
        let endpoint = id.and_then(|id| self.associations.endpoint(id));
        endpoint.map_or_else(|| self.associations.last_stats(), |endpoint| endpoint.stats())
    }

    /// Whether nothing at all came from a peer whose transport answers.
    pub fn is_unheard(&self) -> bool {
        self.answers && self.stats().counters.bytes_received == 0
    }

    /// Whether nothing came any more from a peer whose transport answers, since sending ended.
    pub fn is_silent_since_end(&self) -> bool {
        self.heard_by_end == Some(self.stats().counters.bytes_received)
    }

    /// Where the first peer is reached: its wire, and the path on it.
    pub fn peer_path(&self) -> Option<(WireId, PathId)> {
        let id = self.peers().find_map(|peer| peer.association)?;
        self.associations.first_path_of(id)
    }

    /// Messages that a transport has taken and whose outcome is open: queued, or sent and not acknowledged. Of the peer with the
    /// most.
    pub fn unsettled(&self) -> u64 {
        let open = |counters: PeerCounters| counters.accepted.saturating_sub(counters.settled);
        self.peers().map(|peer| open(peer.counters)).max().unwrap_or(0)
    }

    /// Why no peer has ever answered, if the path is broken now.
    pub fn never_answered(&self) -> Option<BrokenReason> {
        self.absent_since(Instant::ZERO)
    }

    /// The same, if an error at `at` or later shows it: a datagram that was refused says nothing of a peer that has come since. A broken
    /// connection stays so until there is another.
    pub fn absent_since(&self, at: Instant) -> Option<BrokenReason> {
        let shows = |peer: &&Peer| !peer.answered && peer.broken_at.is_none_or(|told| told >= at);
        let absent = self.peers().find(shows).and_then(Peer::broken);
        absent.or(self.gone.as_deref().filter(shows).and_then(Peer::broken))
    }

    /// Why the first peer cannot be reached now, or could not be when it was given up.
    pub fn broken(&self) -> Option<BrokenReason> {
        self.shown().and_then(Peer::broken)
    }

    /// How long before the end of what was sent the last report of a receiver came, if that is so much longer than between its
    /// other reports that it must be gone.
    pub fn silence_at_end(&self) -> Option<Duration> {
        let (_, Some(end)) = self.sending? else { return None };
        // Sound may end before the pictures do, and reports on it with it.
        let report = self.last_report()?.at;
        let heard = self.arrivals.heard().map_or(report, |told| report.max(told));
        let silence = end.since(heard);
        let usual = self.longest_gap.map_or(SLOWEST_REPORTS, |gap| gap.max(SHORTEST_GAP));
        (silence > 3 * usual).then_some(silence)
    }

    /// The playout delay that the first peer reported, or the last one that is gone.
    pub fn told_delay(&self) -> Option<PlayoutDelay> {
        self.shown().and_then(Peer::playout_delay)
    }

    /// Why the stream that is sent has ended, if not by its own end or by ours.
    pub fn peer_end(&self) -> Option<PeerEnd> {
        self.peer_end
    }

    /// Whether the session was given up because nothing came back from the reflector.
    pub fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// Whether any peer to send to was ever connected.
    pub fn has_connected(&self) -> bool {
        self.sending.is_some() || self.peers.iter().flatten().any(|peer| peer.connected)
    }

    /// From the first to the last message sent.
    pub fn sending_time(&self) -> Duration {
        match self.sending {
            Some((began, Some(ended))) => ended.since(began),
            _ => Duration::ZERO,
        }
    }

    /// Datagrams and connections from sources other than our peers.
    pub fn unknown_sources(&self) -> u64 {
        self.unknown_sources
    }

    /// Messages from a reflector that are not ours.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// What the admission of the first listening wire has counted.
    pub fn admission(&self) -> AdmissionCounters {
        let wire = self.listening.first().map(|(wire, _)| *wire);
        wire.map_or_else(AdmissionCounters::default, |wire| self.associations.admission(wire))
    }
}
