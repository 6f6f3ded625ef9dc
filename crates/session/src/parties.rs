//! The other parties of a call over a group: each has a receive track, and all of them play into one sink.
//!
//! A group is an RTP session with a source for each party (RFC 3550 §3). A party is its sender's SSRC. It gets a track, with a
//! playout buffer, a clock estimate and concealment of its own, once it has shown that it streams ([`Candidates`]), and loses it
//! when it says goodbye or is silent for long. Other packets to the group do not displace a party that streams.

mod candidates;
mod figures;

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, PathId, Received, sooner};
use antiphon_media::packet::{ExtensionIds, RtpView, parse_rtp};
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::{Sink, StreamFormat};

use crate::mixer::{Input, Mixer};
use crate::part::Formats;
use crate::receive_track::{
    ReceiveError, ReceiveTrack, ReceiveTrackConfig, ReceiveTrackCounters, Told, UNKNOWN_PATIENCE,
};
use candidates::Candidates;
pub use figures::{PartiesCounters, PartyFigures};

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
    input: Input,
    /// Whether the user was told of it.
    told: bool,
}

/// The other parties of a call over a group.
pub struct Parties {
    config: PartiesConfig,
    mixer: Mixer,
    list: Vec<Party>,
    candidates: Candidates,
    formats: Formats,
    /// Packets of unknown format, since the last party joined.
    unknown_run: u32,
    notices: VecDeque<PartyNotice>,
    /// Whether a party was refused since there was room.
    told_full: bool,
    counters: PartiesCounters,
    /// Totals of parties that are gone.
    past: (PlayoutCounters, ReceiveTrackCounters),
    error: Option<ReceiveError>,
}

impl Parties {
    /// Parties that play to `sink` from `now` on.
    pub fn new(config: PartiesConfig, sink: Box<dyn Sink>, now: Instant) -> Self {
        Parties {
            mixer: Mixer::new(sink, config.packet, now),
            list: Vec::with_capacity(config.most),
            candidates: Candidates::default(),
            formats: Formats::new(config.track.description.as_ref(), config.track.any_payload_type),
            unknown_run: 0,
            notices: VecDeque::with_capacity(MOST_NOTICES),
            told_full: false,
            counters: PartiesCounters::default(),
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
        party.track.on_rtp(now, received, bytes, &mut |told| tell(ssrc, told));
        let joined = party.track.format().map(|format| PartyNotice::Joined { ssrc, path, format });
        let failed = || PartyNotice::Gone { ssrc, why: WhyGone::Unplayable };
        let notice = joined.or_else(|| party.track.error().map(|_| failed()));
        if let Some(notice) = notice.filter(|_| !std::mem::replace(&mut party.told, true)) {
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
        let (input, open) = self.mixer.input();
        let track = ReceiveTrack::new(self.config.track.clone(), open, None);
        self.list.push(Party { ssrc: sender, path, since: now, heard: now, track, input, told: false });
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
        if self.mixer.catch_up(now).is_err() {
            self.error = Some(ReceiveError::SinkFailed);
        }
        while self.error.is_none()
            && let Some(at) = self.mixer.begin_block(now)
        {
            for party in &mut self.list {
                party.track.advance(at);
                self.mixer.add(&mut party.input);
            }
            if self.mixer.push().is_err() {
                self.error = Some(ReceiveError::SinkFailed);
            }
        }
        self.list.iter_mut().for_each(|party| party.track.advance(now));
        let mut at = 0;
        while at < self.list.len() {
            match self.list[at].is_gone(now) {
                Some(why) => gone(self.remove(at, why)),
                None => at += 1,
            }
        }
    }

    fn remove(&mut self, at: usize, why: WhyGone) -> u32 {
        let party = self.list.remove(at);
        let (playout, counters) = &mut self.past;
        // One that never began has lost and played nothing.
        *playout = *playout + party.track.playout().unwrap_or_default();
        *counters += party.track.counters();
        self.told_full = false;
        // Of one that could not be played it was told before.
        if party.told && party.track.error().is_none() {
            self.notice(PartyNotice::Gone { ssrc: party.ssrc, why });
        }
        party.ssrc
    }

    /// When [`Self::advance`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.error.is_some() {
            return None;
        }
        let parties = self.list.iter().map(|one| sooner(one.track.poll_timeout(), Some(one.heard + SILENT)));
        parties.fold(Some(self.mixer.poll_timeout()), sooner)
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

    /// Whether packets of a party come on this path.
    pub(crate) fn knows(&self, path: PathId) -> bool {
        self.list.iter().any(|party| party.path == path)
    }

    /// Why hearing can't go on, if it can't.
    pub fn error(&self) -> Option<&ReceiveError> {
        self.error.as_ref()
    }

    /// The sink, to be finished off the media thread.
    pub fn into_sink(self) -> Box<dyn Sink> {
        self.mixer.into_sink()
    }
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

/// The most parties besides us. Each has a playout buffer of up to 4 MB.
pub const MOST_PARTIES: usize = 16;
/// A party whose packets stop for so long without a goodbye is gone: as long as the peer of a call of two.
const SILENT: Duration = Duration::from_secs(5);
/// Packets in another format by which a party has changed it: a stray one does not.
const CHANGED: u64 = 16;
/// Formats change no more often than that: each gets a new playout buffer.
const STEADY: Duration = Duration::from_secs(1);
/// Notices kept until they are fetched.
const MOST_NOTICES: usize = 64;
