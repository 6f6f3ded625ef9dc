//! A participant with tracks: what `send`, `receive`, `compare`, the laboratory's sound and the C interface run.
//!
//! A session has peers, each with the association that leads to it, at most one send track, which goes to all of them,
//! and at most one receive track, or a track of an application's messages. It drives nothing: see
//! [`antiphon_core::pump`].

mod apart;
mod asking;
mod catching_up;
mod change;
mod choosing;
mod collision;
mod conference;
mod congestion;
mod data;
mod data_beside;
mod deliver;
mod end;
mod fan_out;
mod figures;
mod foreign;
mod further;
mod in_step;
mod key_frames;
mod packets;
mod peers;
mod presence;
mod programmes;
mod receipts;
mod repair;
mod repeating;
mod reports;
mod rtcp_wire;
mod sending_again;
mod serving;
mod shared_clock;
mod two_way;
mod video;
mod video_reports;
mod video_session;

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{
    BrokenReason, Epoch, Event, Input, Instant, Outcome, Participant, PathId, Profile, Role, Stack, Tag,
    Transmit, Wire, WireId, sooner,
};
use antiphon_media::rtcp::PlayoutDelay;

use apart::WaysApart;
pub use apart::{Apart, VideoEnd};
pub(crate) use catching_up::{Answered, PictureFlow};
pub use change::{Change, ChangeFailure};
pub use choosing::ProgrammeList;
pub use figures::SenderCounters;
pub use in_step::InStep;
pub use programmes::{ProgrammesError, ServedProgramme, check_programmes};
pub(crate) use serving::Served;
pub use serving::{Receiver, Serve, ServedCounters};
pub use shared_clock::SharedClock;

use crate::associations::{AssociationId, Associations, Handled, Policy, Timers};
use crate::framing::StreamFraming;
use crate::looks::{of_messages, of_receivers};
use crate::manager::{CongestionManager, GrantAll};
use crate::members::Joined;
use crate::observer::{Observer, Seen};
use crate::peer::{Peer, PeerCounters, PeerEnd};
use crate::receive_track::ReceiveTrack;
use crate::send_track::{SendTrack, number_of, programme_of};
use asking::Asking;
use choosing::Choosing;
use conference::Conference;
use congestion::Arrivals;
use data::MessageTrack;
use data_beside::Data;
use deliver::Redial;
use end::State;
use further::FurtherState;
use in_step::{Following, Telling};
use programmes::Programmes;
use receipts::Receipts;
use rtcp_wire::RtcpWire;
use serving::Serving;
use two_way::TwoWay;
pub use video::MOST_VIDEO_TRACKS;
pub(crate) use video::PICTURES_PRIORITY;
use video::Video;
pub use video_session::VideoFormat;
use video_session::VideoSession;

pub use data::{LinkState, MessagePort};

/// How a session behaves.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Our name in reports.
    pub cname: String,
    /// Wall-clock time of the run's clock.
    pub epoch: Epoch,
    /// Seed of the SSRC of a session that sends nothing, and of the intervals of reports.
    pub seed: u64,
    /// How long sent messages are of use to a peer that has not reported its playout delay.
    pub playout_delay: PlayoutDelay,
    /// What our own receive track reports to peers of its playout.
    pub tells: Option<PlayoutDelay>,
    /// Our own media comes back from a reflector, and is received.
    pub reflected: Option<Reflected>,
    /// Whether the session ends with the stream that is received (recordings), or waits for another.
    pub ends_with_stream: bool,
    /// What stands around RTP packets within the associations' messages.
    pub framing: StreamFraming,
    /// Sound goes both ways with one peer, and the session ends when either end leaves.
    pub two_way: bool,
}

/// How long a session waits for a reflector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reflected {
    /// For a connection.
    pub connect: Duration,
    /// For the first packet to come back, before the reflector is taken to be absent.
    pub answer: Duration,
    /// For packets still in flight after the last one was sent.
    pub drain: Duration,
    /// Whether the media waits for [`Session::start_at`], so that several sessions can start at one time, instead of
    /// starting as soon as there is a connection.
    pub told_start: bool,
}

/// A participant with tracks.
pub struct Session {
    config: SessionConfig,
    associations: Associations,
    /// A peer keeps its index for as long as it exists. Boxed, as an empty entry then has no bytes that a check could
    /// read.
    peers: Vec<Option<Box<Peer>>>,
    /// The peer of each association.
    peer_of: Vec<Option<u32>>,
    /// When a report to each peer is due.
    report_timers: Timers,
    /// The wire for RTCP alone, if there is one.
    rtcp_wire: Option<RtcpWire>,
    /// Whether the peer is a multicast group.
    group: bool,
    /// The single peer of a listening session: any association that is admitted becomes its own.
    single: Option<usize>,
    /// The listening wires, and the profiles of their stacks.
    listening: Vec<(WireId, Profile)>,
    /// Silence after which another sender may take a single peer's place.
    silence: Duration,
    further: FurtherState,
    /// How to call the peer again.
    redial: Option<Redial>,
    /// How long a recording that confirms nothing more is waited for.
    patience: Duration,
    /// Why the stream ended, if neither by its own end nor by ours.
    peer_end: Option<PeerEnd>,
    receipts: Receipts,
    /// When the track was last told how long repairs take.
    repair_told: Option<Instant>,
    /// The receive track has no room: nothing is fetched, and streams are not read.
    holds_up: bool,
    send: Option<SendTrack>,
    /// What is sent beside the send track, to other peers.
    programmes: Programmes,
    receive: Option<ReceiveTrack>,
    data: Option<MessageTrack>,
    video: Video,
    /// Data beside them.
    beside: Data,
    /// Of pictures that have an association of their own.
    apart: WaysApart,
    /// Of pictures of another program, which come in an RTP session of their own.
    video_session: Option<VideoSession>,
    /// When packets of a sender of pictures arrived.
    arrivals: Arrivals,
    /// Who has joined the group that is sent to.
    joined: Joined,
    /// Of a call.
    two_way: Option<TwoWay>,
    /// Of a sender that many may call.
    serving: Option<Serving>,
    /// Of a receiver that calls its sender.
    asking: Option<Asking>,
    /// Of a receiver that asks for programmes.
    choosing: Option<Choosing>,
    /// What a sender tells of its clock.
    telling: Option<Telling>,
    /// What a receiver knows of its sender's clock.
    following: Following,
    /// Of a call over a group.
    conference: Option<Conference>,
    manager: Box<dyn CongestionManager>,
    /// Until then the send track has used up what it may send.
    held_until: Option<Instant>,
    observers: Vec<Box<dyn Observer>>,
    ssrc: u32,
    /// Whether it was changed since another party had it.
    collided: bool,
    buf: Vec<u8>,
    report: Vec<u8>,
    state: State,
    /// When sending began, and when it ended.
    sending: Option<(Instant, Option<Instant>)>,
    /// Messages for which the endpoint of a single peer reserves memory: those of the send track, and of a received
    /// stream once its packet duration is known.
    room: usize,
    unanswered: bool,
    opened_at: Instant,
    /// Counters of peers that are gone.
    past: PeerCounters,
    /// The last peer that is gone; [`Peer::broken`] says why it could not be reached when it was given up.
    gone: Option<Box<Peer>>,
    /// The longest time between two reports on what is sent.
    longest_gap: Option<Duration>,
    /// Whether a peer's transport itself answers datagrams.
    answers: bool,
    /// Bytes that had come when sending ended, from a peer whose transport answers all that it gets.
    heard_by_end: Option<u64>,
    unknown_sources: u64,
    /// Messages from a reflector that are not ours.
    foreign: u64,
    /// Packets in the other framing, until there is sound or the user was told.
    other_framing: usize,
    told_framing: bool,
}

impl Session {
    /// A session without peers and tracks.
    pub fn new(config: SessionConfig, now: Instant) -> Self {
        Session {
            ssrc: antiphon_core::Rng::fork(config.seed, "receiver").next_u32(),
            two_way: config.two_way.then(TwoWay::default),
            config,
            associations: Associations::new(),
            peers: Vec::new(),
            peer_of: Vec::new(),
            report_timers: Timers::default(),
            rtcp_wire: None,
            group: false,
            single: None,
            listening: Vec::new(),
            silence: Duration::ZERO,
            further: FurtherState::default(),
            redial: None,
            patience: PATIENCE,
            peer_end: None,
            receipts: Receipts::default(),
            repair_told: None,
            holds_up: false,
            send: None,
            programmes: Programmes::default(),
            receive: None,
            data: None,
            video: Video::default(),
            beside: Data::default(),
            apart: WaysApart::default(),
            video_session: None,
            arrivals: Arrivals::default(),
            conference: None,
            joined: Joined::default(),
            serving: None,
            asking: None,
            choosing: None,
            telling: None,
            following: Following::default(),
            manager: Box::new(GrantAll),
            held_until: None,
            observers: Vec::new(),
            collided: false,
            buf: Vec::new(),
            report: vec![0; 1500],
            state: State::Open,
            sending: None,
            room: 0,
            unanswered: false,
            opened_at: now,
            past: PeerCounters::default(),
            gone: None,
            answers: false,
            heard_by_end: None,
            longest_gap: None,
            unknown_sources: 0,
            foreign: 0,
            other_framing: 0,
            told_framing: false,
        }
    }

    /// Sends this track to all peers. Call it before there are any.
    pub fn set_send_track(&mut self, track: SendTrack) {
        self.ssrc = track.packetiser().ssrc();
        self.send = Some(track);
    }

    /// Receives into this track.
    pub fn set_receive_track(&mut self, track: ReceiveTrack) {
        self.receive = Some(track);
    }

    /// Carries an application's messages both ways, with one peer, instead of tracks. Call it before there is a peer or
    /// a listening wire.
    pub fn set_port(&mut self, port: Box<dyn MessagePort>) {
        self.data = Some(MessageTrack::new(port));
    }

    /// Wall-clock time of the run's clock, read again: reports tell it. Corrections under a millisecond are left out:
    /// so long may reading both clocks take.
    pub fn set_epoch(&mut self, epoch: Epoch) {
        let known = self.config.epoch.ntp_at_zero;
        if epoch.ntp_at_zero.signed_nanos_since(known).unsigned_abs() < STEP.as_nanos() as u64 {
            return;
        }
        self.config.epoch = epoch;
        self.two_way.iter_mut().for_each(TwoWay::on_clock_set);
        let tracks = self.send.iter_mut().chain(&mut self.programmes.others);
        tracks.for_each(|track| track.set_epoch(epoch));
        self.video.tracks_mut().for_each(|track| track.set_epoch(epoch));
        self.peers.iter_mut().flatten().for_each(|peer| peer.rtcp.set_epoch(epoch));
        self.video_reports_mut().for_each(|rtcp| rtcp.set_epoch(epoch));
    }

    /// Wall-clock time of the run's clock, as reports tell it.
    pub fn epoch(&self) -> Epoch {
        self.config.epoch
    }

    /// Has `manager` say what may be sent; without one, everything is sent when it is due.
    pub fn set_congestion_manager(&mut self, manager: Box<dyn CongestionManager>) {
        self.manager = manager;
    }

    /// Reports every packet to `observer` from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.push(observer);
    }

    /// The peer is a multicast group, whose members' reports share the bandwidth that RTCP may use. Call it before there is
    /// a peer.
    pub fn set_group(&mut self) {
        self.group = true;
    }

    /// Whether the peer is a multicast group.
    pub fn is_group(&self) -> bool {
        self.group
    }

    /// Calls a peer over `wire`, on which it has these paths.
    pub fn call(&mut self, now: Instant, wire: WireId, paths: &[PathId], stack: &dyn Stack) -> AssociationId {
        let id = self.associate(now, wire, paths, stack);
        let at = self.new_peer(now);
        self.attach(now, id, at);
        self.begin_asking(now, id);
        self.begin_asking_for_sound(now);
        id
    }

    pub(crate) fn associate(
        &mut self,
        now: Instant,
        wire: WireId,
        paths: &[PathId],
        stack: &dyn Stack,
    ) -> AssociationId {
        match self.group {
            true => self.associations.call_group(now, wire, stack),
            false => self.associations.call(now, wire, paths, stack),
        }
    }

    /// Waits for one peer on `wire`. Another may take its place when it has been silent for `silence` or has ended its
    /// stream. Called for further wires, waits for the same peer on any of them: the peer may come over several, once it
    /// has shown over each that it is the same one.
    pub fn listen(&mut self, now: Instant, wire: WireId, stack: Rc<dyn Stack>, silence: Duration) {
        if self.single.is_none() {
            self.single = Some(self.new_peer(now));
        }
        self.silence = silence;
        let streams = self.receive.is_some() && self.data.is_none();
        self.listen_for(now, wire, stack, Policy::Single { silence, streams });
    }

    /// Serves many receivers on `wire`: each peer that calls is sent the track from then on.
    pub fn serve(&mut self, now: Instant, wire: WireId, stack: Rc<dyn Stack>, serve: Serve) {
        // Callers that are not proved yet, and those that are told that there is no room, have places of their own.
        let most = 2 * serve.most.max(CALLERS);
        self.begin_serving(now, serve);
        // Within a framing, its blocks begin an association.
        let stack = if self.config.framing == StreamFraming::Rtp { of_receivers(stack) } else { stack };
        self.listen_for(now, wire, stack, Policy::Many { most, idle: serve.idle });
    }

    fn listen_for(&mut self, now: Instant, wire: WireId, stack: Rc<dyn Stack>, policy: Policy) {
        let stack = if self.data.is_some() { of_messages(stack) } else { stack };
        let profile = stack.open(now, Role::Listener).profile();
        self.hold(profile.max_receive);
        self.listening.push((wire, profile));
        self.associations.listen(now, wire, stack, policy);
    }

    /// Enlarges the buffer to messages of so many bytes.
    fn hold(&mut self, len: usize) {
        if self.buf.len() < len {
            self.buf.resize(len, 0);
        }
    }

    fn hear(&mut self, now: Instant) {
        while let Some((id, event)) = self.associations.poll_event() {
            self.manager.on_event(now, id, &event);
            if self.associations.is_group(id) {
                self.joined.on_event(&event);
            }
            let Some(at) = self.peer_at(id) else { continue };
            let current = self.peers[at].as_ref().is_some_and(|peer| peer.association == Some(id));
            if let Some(data) =
                self.data.as_mut().filter(|_| current || matches!(event, Event::Outcome { .. }))
            {
                data.on_event(&event);
            }
            match event {
                Event::Outcome { tag, outcome } => self.on_outcome(now, at, tag, outcome),
                Event::Closed(reason) if current => self.on_closed(now, id, at, reason),
                _ if !current => self.on_other_event(now, at, id, &event),
                Event::Connected => self.on_connected(now, at),
                Event::Broken(reason) => self.on_broken(now, at, reason),
                Event::Writable => self.on_writable(at),
                _ => {}
            }
        }
    }

    /// An event of an association that is not the peer's first one.
    fn on_other_event(&mut self, now: Instant, at: usize, id: AssociationId, event: &Event) {
        self.on_further_event(now, at, id, event);
        if let Event::Closed(_) = event {
            self.peer_of[id.index()] = None;
        }
    }

    fn on_connected(&mut self, now: Instant, at: usize) {
        let Some(peer) = &mut self.peers[at] else { return };
        let again = peer.broken.take().is_some();
        if self.serving.is_some() {
            if peer.association.is_some_and(|id| !self.awaits_proof(id)) {
                self.admit_receiver(now, at);
            }
            return;
        }
        peer.connected = true;
        if let Some(track) = &mut self.receive {
            track.on_connected(again);
        }
        let told_start = self.config.reflected.is_some_and(|reflected| reflected.told_start);
        if !told_start && !self.awaits_caller(at) {
            self.start_at(now);
        }
    }

    /// Starts the send track's media at `at`, if it has not started.
    pub fn start_at(&mut self, at: Instant) {
        if let (Some(track), State::Open) = (&mut self.send, self.state) {
            track.begin(at);
            self.programmes.others.iter_mut().for_each(|track| track.begin(at));
            self.sending.get_or_insert((at, None));
        }
    }

    fn on_broken(&mut self, now: Instant, at: usize, reason: BrokenReason) {
        // A receiver that leaves at the first goodbye is no error.
        if let Some(peer) = self.peers[at].as_mut().filter(|_| self.state == State::Open) {
            let profile = peer.association.and_then(|id| self.associations.profile(id));
            let stream = profile.is_some_and(|profile| profile.wire == Wire::ByteStream);
            (peer.broken, peer.broken_at) = (Some(reason), (!stream).then_some(now));
        }
        if let Some(data) = &mut self.data {
            data.broken_at = Some(now);
        }
        if self.state.receives() {
            tell(&mut self.observers, now, &Seen::Broken { reason });
        }
        self.renew(now, at);
    }

    fn on_outcome(&mut self, now: Instant, at: usize, tag: Tag, outcome: Outcome) {
        let is_beside = self.data.is_none()
            && (self.on_data_outcome(now, tag, outcome) || self.on_video_outcome(now, at, tag, outcome));
        if is_beside {
            return;
        }
        let (Some(number), Some(peer)) = (number_of(tag), &mut self.peers[at]) else { return };
        if self.data.is_some() {
            return;
        }
        let (programme, first) = programme_of(tag);
        if programme != peer.served.programme {
            // Of the programme that it was sent before: its first copy counts for all.
            peer.counters.settled += u64::from(first);
            return;
        }
        let Some(outcome) = peer.outcomes.settle(number, Some(outcome)) else { return };
        if let Some(delivery) = &mut peer.delivery {
            delivery.on_outcome(now, outcome);
        }
        peer.counters.settled += 1;
        peer.counters.expired += u64::from(matches!(outcome, Outcome::Expired { .. }));
        tell(&mut self.observers, now, &Seen::Outcome { number, outcome });
    }

    fn play(&mut self, now: Instant) {
        self.tell_repair(now);
        self.keep_in_step(now);
        self.play_parties(now);
        if let Some(track) = self.receive.as_mut().filter(|_| self.state.receives()) {
            track.advance(now);
            if track.has_ended()
                && self.two_way.is_none()
                && let Some(id) = self.single.and_then(|at| self.peers[at].as_ref()?.association)
            {
                self.associations.release(id);
            }
        }
    }
}

impl Participant for Session {
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>) {
        match input {
            Input::Datagram { path, bytes, received_at } => {
                self.note_sender_reports(bytes);
                if self.on_rtcp_wire(now, wire, path, bytes)
                    || self.on_video_session(now, (wire, path), received_at, bytes)
                {
                    return;
                }
                let datagram = Input::Datagram { path, bytes: &mut *bytes, received_at };
                if self.associations.handle_input(now, wire, datagram) == Handled::UnknownSource {
                    self.on_unknown(now, bytes);
                }
            }
            other => {
                self.associations.handle_input(now, wire, other);
            }
        }
    }

    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId> {
        self.associations.accept(now, listener)
    }

    fn advance(&mut self, now: Instant) {
        self.associations.advance(now);
        self.take_opened(now);
        self.fetch(now);
        self.hear(now);
        self.ask(now);
        self.ask_for_sound(now);
        self.ask_about_programmes(now);
        self.look_after_receivers(now);
        self.send_messages(now);
        self.play(now);
        self.step_redial(now);
        self.run_track(now);
        self.run_video(now);
        self.deliver(now);
        self.run_data(now);
        self.send_reports(now);
        self.send_receipts(now);
        self.send_delays(now);
        self.tell_arrivals(now);
        self.ask_for_key_frame(now);
        self.tell_clock(now);
        self.ask_clock(now);
        self.step(now);
        self.step_further(now);
        self.step_apart(now);
        self.step_video_session(now);
        self.hear(now);
        self.finish();
        self.show_port(now);
    }

    fn poll_ready(&mut self) -> Option<WireId> {
        let ready = self.associations.poll_ready().or_else(|| self.poll_rtcp_wire());
        ready.or_else(|| self.poll_video_session())
    }

    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit> {
        let apart = self.transmit_rtcp(wire, buf).or_else(|| self.transmit_for_video(wire, buf));
        apart.or_else(|| self.associations.poll_transmit(now, wire, buf))
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.associations.poll_close()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.associations.poll_timeout();
        if due == Some(Instant::ZERO) {
            // Nothing can be due sooner.
            return due;
        }
        let due = sooner(due, sooner(self.next_fan_out(), self.next_video()));
        let receiving = self.receive.as_ref().filter(|_| self.state.receives());
        let due = sooner(due, receiving.and_then(ReceiveTrack::poll_timeout));
        let due = sooner(due, sooner(self.next_give_up(), self.next_question()));
        let due = sooner(due, sooner(self.next_further(), self.next_apart()));
        let due = sooner(due, sooner(self.next_video_session(), self.next_data()));
        let due = sooner(due, sooner(self.next_delivery(), self.next_receipt()));
        let due = sooner(due, sooner(self.next_delays(), self.next_of_parties()));
        let due = sooner(due, sooner(self.next_clock_word(), self.next_clock_question()));
        let due = sooner(due, sooner(self.next_ask(), self.next_look_after_receivers()));
        let due = sooner(due, sooner(self.next_programme_question(), self.next_arrivals()));
        sooner(due, sooner(self.next_report(), self.next_step()))
    }

    fn knows(&self, wire: WireId, path: PathId) -> bool {
        let party = self.conference.as_ref().is_some_and(|conference| conference.parties.knows(path));
        party
            || self.associations.knows(wire, path)
            || self.knows_rtcp(wire, path)
            || self.knows_video(wire, path)
    }

    fn takes(&self, wire: WireId) -> bool {
        !self.holds_up || self.listening.iter().any(|(listener, _)| *listener == wire)
    }

    fn stop(&mut self, now: Instant) {
        // Messages received with the request are not left behind.
        self.fetch(now);
        self.two_way.iter_mut().for_each(TwoWay::on_stop);
        self.begin_stopping(now);
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

/// How long a recording that confirms nothing more is waited for: as long as a laptop may be on its way, or a server be
/// restarted.
const PATIENCE: Duration = Duration::from_secs(600);

/// The least number of callers that a sender has places for beside those that it serves.
const CALLERS: usize = 8;

/// Less than this is how long reading the wall clock and the run's clock takes, not a correction of either.
const STEP: Duration = Duration::from_millis(1);

/// Tells all observers.
fn tell(observers: &mut [Box<dyn Observer>], now: Instant, seen: &Seen) {
    for observer in observers {
        observer.on(now, seen);
    }
}
