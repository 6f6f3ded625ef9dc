//! The messages of the send track on their way to each association of each peer.

use std::time::Duration;

use antiphon_core::{Instant, Message, SendError, sooner};
use antiphon_media::rtcp::PlayoutDelay;

use super::change::Destinations;
use super::end::State;
use super::{Session, tell};
use crate::associations::Associations;
use crate::manager::{Budget, CongestionManager, TrackId};
use crate::observer::{Observer, Seen, Sent};
use crate::peer::Peer;
use crate::protect::Emit;
use crate::send_track::{SendTrack, tag};
use crate::store::Stored;

impl Session {
    /// Makes the messages of every track that are due, and sends them to the peers that get it, as far as the congestion manager lets it.
    pub(super) fn run_track(&mut self, now: Instant) {
        if self.state == State::Open {
            let tracks = self.send.iter_mut().chain(&mut self.programmes.others);
            tracks.for_each(|track| track.advance(now));
        }
        if self.send.is_none() || self.held_until.is_some_and(|until| until > now) {
            return;
        }
        let budget = self.manager.budget(now, TrackId::SOUND);
        self.held_until = None;
        let mut used = 0;
        let mut fan_out = FanOut {
            now,
            delay: self.config.playout_delay,
            associations: &mut self.associations,
            manager: &mut *self.manager,
            observers: &mut self.observers,
            most: usize::MAX,
            bounded: self.two_way.is_some(),
        };
        let tracks = self.send.iter_mut().chain(&mut self.programmes.others);
        for (programme, track) in tracks.enumerate() {
            fan_out.most = usize::MAX;
            loop {
                if let Budget::Bytes(most, again) = budget
                    && used >= most
                {
                    self.held_until = Some(again.max(now + SHORTEST_HOLD));
                    return;
                }
                let Some(emit) = track.poll(now) else { break };
                let Some((stored, bytes)) = track.store().get(emit.number) else { continue };
                let mut of_use = false;
                let gets =
                    |peer: &&mut Box<Peer>| peer.delivery.is_none() && peer.served.programme == programme;
                for peer in self.peers.iter_mut().flatten().filter(gets) {
                    of_use |= fan_out.to(peer, emit, track, &stored, bytes);
                }
                used += if of_use { bytes.len() } else { 0 };
            }
            // What follows is cut for the narrowest path.
            if fan_out.most < usize::MAX {
                track.set_max_packet(fan_out.most);
            }
        }
    }

    /// When [`Self::run_track`] has something to do.
    pub(super) fn next_fan_out(&self) -> Option<Instant> {
        if self.send.is_none() || self.state != State::Open {
            return None;
        }
        let soonest = |next: fn(&SendTrack) -> Option<Instant>| self.send_tracks().filter_map(next).min();
        match self.held_until {
            // Media is made in time, and waits in the store.
            Some(until) => sooner(soonest(SendTrack::next_advance), Some(until)),
            None => soonest(SendTrack::poll_timeout),
        }
    }
}

/// Hands messages to associations.
struct FanOut<'a> {
    now: Instant,
    /// The playout delay of a peer that has reported none.
    delay: PlayoutDelay,
    associations: &'a mut Associations,
    manager: &'a mut dyn CongestionManager,
    observers: &'a mut [Box<dyn Observer>],
    /// The largest message that every association takes, of those that were sent to.
    most: usize,
    /// Peers that have called may be sent no more than their addresses are good for.
    bounded: bool,
}

impl FanOut<'_> {
    /// Sends one message to `peer`, over each of its associations. Returns whether it was still of use: what has waited too long
    /// expires in the endpoints, and takes nothing of the budget.
    fn to(&mut self, peer: &mut Peer, emit: Emit, track: &SendTrack, stored: &Stored, bytes: &[u8]) -> bool {
        let destinations = Destinations::of(peer);
        let Some((first, others)) = destinations.ids().split_first() else { return false };
        let programme = peer.served.programme;
        let deadline = peer.playout_delay.unwrap_or(self.delay).deadline(stored.due);
        let Self { now, associations, manager, most, bounded, .. } = self;
        let now = *now;
        let of_use = deadline.is_none_or(|deadline| deadline >= now);
        let path = Session::path_to(associations, peer);
        let mut send = |id| {
            *most = associations.profile(id).map_or(*most, |profile| profile.max_message.min(*most));
            if *bounded && !associations.may_stream(id, bytes.len()) {
                return Err(SendError::Blocked { queued: 0 });
            }
            if let (true, Some(path)) = (of_use, path.of(associations, id)) {
                manager.on_sent(now, path, TrackId::SOUND, bytes);
            }
            associations.send_media(
                now,
                id,
                stored.group,
                Message::new(tag(programme, emit), bytes, deadline),
            )
        };
        if emit.copy == 0 {
            peer.outcomes.begin(emit.number, destinations.ids().len());
        }
        let result = send(*first);
        let others_refused = others.iter().filter(|id| send(**id).is_err()).count();
        let refused = others_refused + usize::from(result.is_err());
        peer.counters.settled += peer.outcomes.refuse(emit.number, refused);
        if emit.copy == 0 {
            peer.counters.accepted += u64::from(result.is_ok());
            peer.counters.accepted_bytes += if result.is_ok() { bytes.len() as u64 } else { 0 };
            peer.counters.refused += u64::from(result.is_err());
            let (ssrc, captured) = (track.ssrc_of(stored.group), track.captured_at(stored));
            peer.rtcp.on_sent(now, ssrc, captured, stored.info.payload);
            tell(self.observers, now, &Seen::Sent(Sent::of(stored, bytes.len(), result)));
        }
        of_use
    }
}

/// A manager that names no later instant is asked again after this time, so that a thread does not spin.
pub(super) const SHORTEST_HOLD: Duration = Duration::from_millis(1);
