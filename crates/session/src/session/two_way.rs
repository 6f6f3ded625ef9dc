//! A call: sound goes both ways with one peer, until either end leaves.
//!
//! An end leaves when it is stopped. One whose source has an end leaves when that has come, too: it says that its own stream is
//! over, as any sender does, and hears the peer out. So an end whose peer's stream is over leaves as well, after the rest of
//! its own source if that has an end.

use std::time::Duration;

use antiphon_core::{CloseReason, Instant, Received};
use antiphon_media::rtcp::Delays;

use super::Session;
use super::end::State;
use crate::associations::AssociationId;
use crate::mouth_to_ear::{DelayMeter, MouthToEar, TELL_EVERY};
use crate::observer::Arrived;
use crate::peer::PeerEnd;
use crate::receive_track::ReceiveTrack;
use crate::send_track::SendTrack;

/// What only a call has.
#[derive(Debug, Default)]
pub(super) struct TwoWay {
    meter: DelayMeter,
    /// When the peer is told our delays next.
    tells: Option<Instant>,
    /// The user has ended it: nothing is waited for.
    stopped: bool,
    /// When the peer's address was proved.
    proved: Option<Instant>,
}

impl TwoWay {
    pub fn on_clock_set(&mut self) {
        self.meter.on_clock_set();
    }

    pub fn on_stop(&mut self) {
        self.stopped = true;
    }

    /// The peer's stream begins: it hears soon that we hear it, which shows that its address is its own.
    pub fn on_began(&mut self, now: Instant) {
        self.tells = Some(now);
    }

    /// Another caller takes the place of the one before.
    pub fn on_replaced(&mut self) {
        self.meter.forget();
    }
}

impl Session {
    /// Delays of our devices: from a sample's capture until the source has it, from the sink until it is heard, and by how much
    /// both may be wrong. Only a call uses them.
    pub fn set_device_delays(&mut self, capture: Duration, playback: Duration, error: Duration) {
        if let Some(two_way) = &mut self.two_way {
            two_way.meter.set_devices(capture, playback, error);
        }
    }

    /// How long sound takes in a call from mouth to ear; `None` before it is known.
    pub fn mouth_to_ear(&self, now: Instant) -> Option<MouthToEar> {
        self.two_way.as_ref()?.meter.estimate(now)
    }

    /// When the address of a call's peer was proved, if it had to be.
    pub(super) fn proved_since(&self) -> Option<Instant> {
        self.two_way.as_ref()?.proved
    }

    /// Whether a caller's address may be another's: it is sent nothing before its sound comes.
    pub(super) fn awaits_caller(&self, at: usize) -> bool {
        let association = self.peers[at].as_ref().and_then(|peer| peer.association);
        self.two_way.is_some() && !association.is_some_and(|id| self.associations.is_validated(id))
    }

    /// A packet of the peer's sound came.
    pub(super) fn meter_sound(&mut self, now: Instant, arrived: &Arrived) {
        if self.two_way.is_some() && self.sending.is_none() {
            self.start_at(now);
        }
        let (Some(two_way), Some(track)) = (&mut self.two_way, &self.receive) else { return };
        let Some(stamp) = arrived.ntp.filter(|_| !arrived.duplicate) else { return };
        let packet = (arrived.at, stamp, arrived.len);
        two_way.meter.on_sound(self.config.epoch, packet, arrived.repaired, track.sink_time(arrived));
    }

    /// Takes a packet of delays; returns whether it was one.
    pub(super) fn on_delays(
        &mut self,
        now: Instant,
        id: AssociationId,
        received: Received,
        bytes: &[u8],
    ) -> bool {
        let Some(told) = Delays::parse(bytes) else { return false };
        if let Some(two_way) = self.two_way.as_mut().filter(|_| told.ssrc != self.ssrc) {
            two_way.meter.on_told(now, self.config.epoch, received.received_at, received.repaired, told);
            // Only who receives what is sent to its address knows our number.
            if told.hears == Some(self.ssrc) && !self.associations.is_validated(id) {
                self.associations.validate(id);
                two_way.proved = Some(now);
            }
        }
        true
    }

    /// Tells the peer our delays, if it is time.
    pub(super) fn send_delays(&mut self, now: Instant) {
        if self.next_delays().is_none_or(|next| next > now) {
            return;
        }
        let (epoch, ssrc) = (self.config.epoch, self.ssrc);
        let hears = self.receive.as_ref().and_then(ReceiveTrack::followed);
        let Some(two_way) = &mut self.two_way else { return };
        two_way.tells = Some(now + TELL_EVERY);
        let bytes = two_way.meter.tells(now, epoch, ssrc, hears).to_bytes();
        let peer = self.peers.iter().flatten().find(|peer| peer.connected);
        let Some(id) = peer.and_then(|peer| peer.association) else { return };
        if self.associations.may_tell(now, id, bytes.len(), SILENT) {
            self.associations.send_control(now, id, None, &bytes);
        }
    }

    pub(super) fn next_delays(&self) -> Option<Instant> {
        let two_way = self.two_way.as_ref()?;
        let connected = self.peers.iter().flatten().any(|peer| peer.connected);
        let talks = matches!(self.state, State::Open | State::Draining { .. }) && connected;
        talks.then(|| two_way.tells.unwrap_or(Instant::ZERO))
    }

    /// Ends a call whose peer has left, when all that it sent has been played.
    pub(super) fn step_two_way(&mut self, now: Instant) {
        let Some(track) = &self.receive else { return };
        if track.error().is_some() {
            return self.close(now);
        }
        // A peer that was not there yet may come.
        let gone =
            self.sending.is_some() && !self.peers.iter().flatten().any(|peer| peer.association.is_some());
        let over = track.is_over();
        // What is left of a source that ends is sent, as long as somebody is there to hear it.
        let source_ends = self.send.as_ref().is_some_and(|track| track.ends_by_itself() && !track.is_ended());
        let unreachable = self.peers.iter().flatten().any(|peer| peer.broken_lately(now).is_some());
        if gone && (over || !track.has_said_bye()) {
            self.close(now);
        } else if over && (!source_ends || unreachable) {
            self.begin_stopping(now);
        }
    }

    /// After our goodbyes: hears the peer out, until its stream is over or it is silent. Returns whether it does.
    pub(super) fn hear_out(&mut self, now: Instant) -> bool {
        let (Some(two_way), Some(track)) = (&self.two_way, &self.receive) else { return false };
        let silent = now.since(track.last_heard().unwrap_or(self.opened_at)) >= SILENT;
        let connected = self.peers.iter().flatten().any(|peer| peer.connected && peer.broken.is_none());
        let hears = !two_way.stopped && !track.is_over() && (connected && !silent || track.has_said_bye());
        if hears {
            let until = track.last_heard().unwrap_or(now) + SILENT;
            self.state = State::Draining { until: until.max(now + HEAR_AGAIN) };
        }
        hears
    }

    /// The peer's association has ended: returns whether what it sent is still to be played, or the call is over.
    pub(super) fn on_hung_up(&mut self, now: Instant, at: usize, reason: CloseReason) -> bool {
        if self.two_way.is_none() || matches!(self.state, State::Closing | State::Finished) {
            return false;
        }
        let said_bye = self.receive.as_ref().is_some_and(ReceiveTrack::has_said_bye);
        if !said_bye && self.state == State::Open {
            self.peer_end.get_or_insert(PeerEnd::Closed(reason));
        }
        let Some(peer) = &mut self.peers[at] else { return true };
        (peer.association, peer.connected) = (None, false);
        self.report_timers.set(at, None);
        if !said_bye {
            self.close(now);
        }
        true
    }
}

impl SendTrack {
    /// Whether its source is known to end.
    fn ends_by_itself(&self) -> bool {
        self.length().is_some()
    }
}

/// A peer whose sound stops for so long without a goodbye is gone.
const SILENT: Duration = Duration::from_secs(5);
/// How soon it is looked again whether the peer is done, at the latest.
const HEAR_AGAIN: Duration = Duration::from_millis(50);
