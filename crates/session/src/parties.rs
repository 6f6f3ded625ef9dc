//! The other parties of a call over a group: each has a receive track, and all of them play into one sink, or each into its own.
//!
//! A group is an RTP session with a source for each party (RFC 3550 §3). A party is its sender's SSRC. It gets a track, with a
//! playout buffer, a clock estimate and concealment of its own, once it has shown that it streams ([`Candidates`]), and loses it
//! when it says goodbye or is silent for long. Other packets to the group do not displace a party that streams.

mod apart;
mod candidates;
mod early;
mod figures;
mod pictures;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, PathId, Received, sooner};
use antiphon_media::packet::{ExtensionIds, RtpView, parse_rtp};
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::{Sink, SinkError, StreamFormat};

use crate::mixer::Mixer;
use crate::part::Formats;
use crate::receive_track::{
    ReceiveError, ReceiveTrack, ReceiveTrackConfig, ReceiveTrackCounters, Told, UNKNOWN_PATIENCE,
};
pub use apart::PartySinks;
use apart::{Hearing, Output};
use candidates::Candidates;
use early::Early;
pub use figures::{PartiesCounters, PartyFigures};
pub(crate) use pictures::PictureTold;

/// How the parties of a group are heard.
#[derive(Clone, Debug)]
pub struct PartiesConfig {
    /// How each of them is received; with a playout delay.
    pub track: ReceiveTrackConfig,
    /// Sample frames in a packet of ours, which those of the others are likely to have.
    pub packet: usize,
    /// The most parties besides us.
    pub most: usize,
}

/// Something that happened to the parties, for the user. Without a string, so that the media thread does not allocate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PartyNotice {
    /// A party is heard from now on.
    Joined {
        /// Its SSRC.
        ssrc: u32,
        /// Where its packets come from.
        path: PathId,
        /// What it sends.
        format: StreamFormat,
    },
    /// A party is not heard any more.
    Gone {
        /// Its SSRC.
        ssrc: u32,
        /// Why.
        why: WhyGone,
    },
    /// A source streams whose format cannot be told from its packets.
    UnknownFormat {
        /// The payload type seen.
        payload_type: u8,
    },
    /// There is no room for another party; told once, until there is again.
    Full {
        /// The most parties besides us.
        most: usize,
    },
    /// A party sends pictures as well, and all are heard in one sink of sound alone; told once.
    Pictures {
        /// Its SSRC.
        ssrc: u32,
    },
}

/// Why a party is not heard any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyGone {
    /// It said goodbye.
    Left,
    /// It was silent for five seconds.
    Silent,
    /// Its sound cannot be played: so many channels need too much memory for the playout delay.
    Unplayable,
    /// It goes on in another format, as a party that joins anew.
    OtherFormat,
}

/// A party.
struct Party {
    ssrc: u32,
    path: PathId,
    since: Instant,
    heard: Instant,
    track: ReceiveTrack,
    output: Output,
    /// Whether the user was told of it.
    told: bool,
}

/// The other parties of a call over a group.
pub struct Parties {
    config: PartiesConfig,
    hearing: Hearing,
    list: Vec<Party>,
    candidates: Candidates,
    /// Pictures of those that are not there yet.
    early: Early,
    formats: Formats,
    /// Packets of unknown format, since the last party joined.
    unknown_run: u32,
    notices: VecDeque<PartyNotice>,
    /// Whether a party was refused since there was room.
    told_full: bool,
    /// That pictures are left out was told.
    told_pictures: bool,
    /// A party that is heard since the last packet, for pictures of it that waited.
    new: Option<(u32, PathId)>,
    counters: PartiesCounters,
    /// Of parties that are gone and had a sink of their own: the longest time for which one was played.
    longest_past: Duration,
    /// Totals of parties that are gone.
    past: (PlayoutCounters, ReceiveTrackCounters),
    error: Option<ReceiveError>,
}

impl Parties {
    /// Parties that play to `sink` from `now` on.
    pub fn new(config: PartiesConfig, sink: Box<dyn Sink>, now: Instant) -> Self {
        let mixer = Mixer::new(sink, config.packet, now);
        Parties::heard_in(Hearing::Mixed(mixer), config)
    }

    /// Parties each of which plays to a sink of its own, and shows its pictures there.
    pub fn apart(config: PartiesConfig, sinks: Box<dyn PartySinks>) -> Self {
        Parties::heard_in(Hearing::Apart(sinks), config)
    }

    fn heard_in(hearing: Hearing, config: PartiesConfig) -> Self {
        Parties {
            hearing,
            early: Early::default(),
            list: Vec::with_capacity(config.most),
            candidates: Candidates::default(),
            formats: Formats::new(config.track.description.as_ref(), config.track.any_payload_type),
            unknown_run: 0,
            notices: VecDeque::with_capacity(MOST_NOTICES),
            told_full: false,
            told_pictures: false,
            new: None,
            counters: PartiesCounters::default(),
            longest_past: Duration::ZERO,
            past: Default::default(),
            error: None,
            config,
        }
    }

    /// Takes an RTP packet of another party; reports it with the party's SSRC.
    pub(crate) fn on_rtp(
        &mut self,
        now: Instant,
        received: Received,
        bytes: &[u8],
        tell: &mut dyn FnMut(u32, Told<'_>),
    ) {
        let Ok(view) = parse_rtp(bytes, ExtensionIds::default()) else { return self.on_malformed() };
        // The SSRC of a channel group belongs to the party that says so.
        let sender = view.group.map_or(view.ssrc, |group| group.sender);
        let known = self.list.iter().position(|one| one.ssrc == sender || one.track.is_of(view.ssrc));
        let Some(at) = known.or_else(|| self.admit(now, &view, sender, received.path)) else { return };
        let party = &mut self.list[at];
        (party.path, party.heard) = (received.path, now);
        let (ssrc, path) = (party.ssrc, party.path);
        let output = &mut party.output;
        party.track.on_rtp(now, received, bytes, &mut |told| {
            output.note_sound(now, &told);
            tell(ssrc, told);
        });
        let joined = party.track.format().map(|format| PartyNotice::Joined { ssrc, path, format });
        let failed = || PartyNotice::Gone { ssrc, why: WhyGone::Unplayable };
        let mixed = matches!(party.output, Output::Mixed(_));
        // Of one that has a sink of its own the owner of the sinks is told.
        let notice = joined.or_else(|| party.track.error().filter(|_| mixed).map(|_| failed()));
        if let Some(notice) = notice.filter(|_| !std::mem::replace(&mut party.told, true)) {
            self.new = Some((ssrc, path));
            self.notice(notice);
        }
    }

    /// A packet that is neither RTP nor RTCP came, or a broken one.
    pub(crate) fn on_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// A packet of ours came back.
    pub(crate) fn on_own(&mut self) {
        self.counters.own += 1;
    }

    /// A packet of a source without a track: gives it one if it streams, tells its format, and there is room.
    fn admit(&mut self, now: Instant, view: &RtpView<'_>, sender: u32, path: PathId) -> Option<usize> {
        self.counters.on_probation += 1;
        let streams = self.candidates.on_packet(now, view.ssrc, view.sequence);
        // A further channel group of a party has its place when the first has.
        if !streams || sender != view.ssrc {
            return None;
        }
        if self.formats.part_of(view, None).is_none() {
            self.unknown_run += 1;
            if self.unknown_run == UNKNOWN_PATIENCE {
                self.notice(PartyNotice::UnknownFormat { payload_type: view.payload_type });
            }
            return None;
        }
        if self.list.len() >= self.config.most {
            self.counters.refused += 1;
            if !std::mem::replace(&mut self.told_full, true) {
                self.notice(PartyNotice::Full { most: self.config.most });
            }
            return None;
        }
        self.candidates.forget(view.ssrc);
        self.unknown_run = 0;
        let (output, open) = self.hearing.output(now, sender, path);
        let track = ReceiveTrack::new(self.config.track.clone(), open, None);
        self.list.push(Party { ssrc: sender, path, since: now, heard: now, track, output, told: false });
        self.counters.joined += 1;
        Some(self.list.len() - 1)
    }

    /// RTCP says that a source has ended its stream. It counts at once if it came from where the source's sound comes from, and
    /// otherwise once its sound has stopped: anybody in the group can send it.
    pub(crate) fn on_bye(&mut self, now: Instant, ssrc: u32, path: PathId) {
        if let Some(party) = self.list.iter_mut().find(|one| one.ssrc == ssrc || one.track.is_of(ssrc)) {
            match party.path == path {
                true => party.track.on_bye(now, ssrc),
                false => party.track.on_doubtful_bye(now, ssrc),
            }
        }
    }

    /// Plays what the sink takes; parties that are gone go to `gone`.
    pub(crate) fn advance(&mut self, now: Instant, gone: &mut dyn FnMut(u32)) {
        self.mix(now);
        self.list
            .iter_mut()
            .filter(|party| party.track.error().is_none())
            .for_each(|party| party.track.advance(now));
        self.look_for_errors();
        let mut at = 0;
        while at < self.list.len() {
            match self.list[at].is_gone(now) {
                Some(why) => self.remove(at, why, gone),
                None => at += 1,
            }
        }
    }

    /// Mixes what the sink takes, where all are heard in one.
    fn mix(&mut self, now: Instant) {
        let Hearing::Mixed(mixer) = &mut self.hearing else { return };
        let failed = |_: SinkError| ReceiveError::SinkFailed;
        self.error = mixer.catch_up(now).err().map(failed).or(self.error.take());
        while self.error.is_none()
            && let Some(block) = mixer.due(now).or_else(|| {
                let early = mixer.early(now)?;
                have_come(&self.list, early.frames).then_some(early)
            })
        {
            mixer.begin(block);
            for party in &mut self.list {
                party.track.play(block.at);
                if let Output::Mixed(input) = &mut party.output {
                    mixer.add(input);
                }
            }
            self.error = mixer.push().err().map(failed);
        }
    }

    fn remove(&mut self, at: usize, why: WhyGone, gone: &mut dyn FnMut(u32)) {
        let mut party = self.list.remove(at);
        self.longest_past = self.longest_past.max(party.played());
        let (playout, counters) = &mut self.past;
        // One that never began has lost and played nothing.
        *playout = *playout + party.track.playout().unwrap_or_default();
        *counters += party.track.counters();
        self.told_full = false;
        // Of one that could not be played it was told before.
        if party.told && party.track.error().is_none() {
            self.notice(PartyNotice::Gone { ssrc: party.ssrc, why });
        }
        gone(party.ssrc);
        if let Output::Apart(apart) = &party.output {
            apart.pictures.iter().for_each(|pictures| gone(*pictures));
        }
        self.hearing.close(&mut party);
    }

    /// When [`Self::advance`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.error.is_some() {
            return None;
        }
        // What cannot be played is never due.
        let due = |party: &Party| party.track.poll_timeout().filter(|_| party.track.error().is_none());
        let parties = self.list.iter().map(|one| sooner(due(one), Some(one.heard + SILENT)));
        parties.fold(self.hearing.poll_timeout(), sooner)
    }

    /// Packet duration of a party's stream that has begun since this was last called.
    pub(crate) fn takes_pace(&mut self) -> Option<Duration> {
        self.list.iter_mut().find_map(|party| party.track.takes_pace())
    }

    /// The most recent happenings that were not fetched yet, oldest first.
    pub fn poll_notice(&mut self) -> Option<PartyNotice> {
        self.notices.pop_front()
    }

    fn notice(&mut self, notice: PartyNotice) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push_back(notice);
        }
    }

    /// Whether the sound of this SSRC is a party's, which comes on this path.
    pub(crate) fn has(&self, ssrc: u32, path: PathId) -> bool {
        self.list.iter().any(|party| party.ssrc == ssrc && party.path == path)
    }

    /// Whether packets of a party come on this path.
    pub(crate) fn knows(&self, path: PathId) -> bool {
        self.list.iter().any(|party| party.path == path)
    }

    /// Why hearing can't go on, if it can't.
    pub fn error(&self) -> Option<&ReceiveError> {
        self.error.as_ref()
    }

    /// The call is over: the sink of all, to be finished off the media thread. Sinks of their own go back to their owner.
    pub fn into_sink(mut self) -> Option<Box<dyn Sink>> {
        self.list.iter_mut().for_each(|party| self.hearing.close(party));
        match self.hearing {
            Hearing::Mixed(mixer) => Some(mixer.into_sink()),
            Hearing::Apart(_) => None,
        }
    }
}

/// Whether the sound of all parties that play any has come for the next `frames` sample frames. Not where nobody plays: who begins meanwhile would lose its beginning.
fn have_come(parties: &[Party], frames: usize) -> bool {
    let mut one = false;
    parties.iter().filter_map(|party| party.track.has_come(frames)).all(|come| {
        one |= come;
        come
    }) && one
}

impl Party {
    /// One that cannot be played keeps its place until it is silent: otherwise it would join again with each packet.
    fn is_gone(&self, now: Instant) -> Option<WhyGone> {
        let changed = self.track.counters().other_format >= CHANGED && now.since(self.since) >= STEADY;
        if changed {
            Some(WhyGone::OtherFormat)
        } else if self.track.is_over() && self.track.error().is_none() {
            Some(WhyGone::Left)
        } else {
            (now.since(self.heard) >= SILENT).then_some(WhyGone::Silent)
        }
    }
}

/// The most parties besides us. Each has a playout buffer of up to 4 MB; what its pictures take is bounded by their sink.
pub const MOST_PARTIES: usize = 16;
/// A party whose packets stop for so long without a goodbye is gone: as long as the peer of a call of two.
const SILENT: Duration = Duration::from_secs(5);
/// Packets in another format by which a party has changed it: a stray one does not.
const CHANGED: u64 = 16;
/// Formats change no more often than that: each gets a new playout buffer.
const STEADY: Duration = Duration::from_secs(1);
/// Notices kept until they are fetched.
const MOST_NOTICES: usize = 64;
