//! The other parties of a call over a group: what the media thread shows of them, and what users see.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use antiphon_core::WireId;
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::rtcp::{Cname, RemoteReport};
use antiphon_net::Lines;
use antiphon_session::{MOST_PARTIES, PartyFigures, PartyNotice, Session, WhyGone};

use super::party_films::{PartyFilms, PartyRecording};
use crate::live::dbfs;
use crate::pictures::PicturesReceived;

/// A party of a call over a group, besides us.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct PartyStatus {
    /// What a display calls it: its IP address, with its SSRC if several send from there.
    #[serde(skip)]
    pub label: String,
    /// Its SSRC, in hexadecimal.
    pub ssrc: String,
    /// The name that it gives itself in its reports (CNAME); `None` before the first.
    pub name: Option<String>,
    /// Where its packets come from.
    pub address: Option<String>,
    /// Its highest sample of the last second, in decibels below full scale; `None` for silence.
    pub peak_dbfs: Option<f64>,
    /// RTP packets received of it.
    pub packets_received: u64,
    /// Packets that never came although later ones were played.
    pub lost: u64,
    /// Packets after their deadline.
    pub late: u64,
    /// Holes filled by concealment.
    pub concealed: u64,
    /// Sound of it that waits to be played, in milliseconds.
    pub buffer_ms: f64,
    /// How much faster its sampling clock runs than ours.
    pub drift_ppm: Option<f64>,
    /// The playout delay of its sound, where that adapts; in milliseconds.
    pub latency_ms: Option<f64>,
    /// Round trip to it by its reports, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// What it lost of us in the last interval between its reports, in percent.
    pub remote_loss_percent: Option<f64>,
    /// Its pictures, where each party is played or recorded by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures: Option<PicturesReceived>,
    /// The file in which it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// One party at one moment.
#[derive(Clone, Copy)]
struct PartyLook {
    figures: PartyFigures,
    name: Option<Cname>,
    report: Option<RemoteReport>,
    address: Option<SocketAddr>,
}

/// The parties at one moment, and the next thing that happened.
#[derive(Clone, Copy)]
pub(super) struct PartiesLook {
    all: [Option<PartyLook>; MOST_PARTIES],
    notice: Option<PartyNotice>,
    /// Where the party that the notice is about sends from.
    notice_from: Option<SocketAddr>,
}

impl PartiesLook {
    /// Of a call over a group. On the media thread.
    pub fn of(session: &mut Session) -> Option<Self> {
        let notice = session.parties_mut()?.poll_notice();
        let mut all = [None; MOST_PARTIES];
        for (look, figures) in all.iter_mut().zip(session.parties()?.figures()) {
            let (name, report) = (session.cname_of(figures.ssrc), session.report_of(figures.ssrc));
            *look = Some(PartyLook { figures, name, report, address: None });
        }
        Some(PartiesLook { all, notice, notice_from: None })
    }

    /// Also where they are.
    pub fn with_addresses(mut self, lines: &Lines<'_>) -> Self {
        let address = |path| lines.peer_address(WireId(0), path);
        for look in self.all.iter_mut().flatten() {
            look.address = address(look.figures.path);
        }
        if let Some(PartyNotice::Joined { path, .. }) = self.notice {
            self.notice_from = address(path);
        }
        self
    }
}

/// Who is there, as it is shown.
#[derive(Default)]
pub(super) struct Present {
    /// Where each has a sink of its own.
    films: Option<PartyFilms>,
    /// Where a party sends from, by its SSRC.
    from: BTreeMap<u32, SocketAddr>,
    /// Highest samples of the last second, by SSRC.
    peaks: VecDeque<Vec<(u32, f32)>>,
}

impl Present {
    /// With what is told of the sinks of parties, where each has its own.
    pub fn with(films: Option<PartyFilms>) -> Self {
        Present { films, ..Present::default() }
    }

    /// The parties now; what happened since the last is told.
    pub fn look(&mut self, now: &PartiesLook, notice: &mut dyn FnMut(String)) -> Vec<PartyStatus> {
        for look in now.all.iter().flatten() {
            if let Some(address) = look.address {
                self.from.insert(look.figures.ssrc, address);
            }
        }
        if let Some(event) = now.notice {
            if let (PartyNotice::Joined { ssrc, .. }, Some(address)) = (event, now.notice_from) {
                self.from.insert(ssrc, address);
            }
            notice(self.describe(event));
        }
        self.look_at_films(now, notice);
        if self.from.len() > MOST_KEPT {
            self.from.retain(|ssrc, _| now.all.iter().flatten().any(|look| look.figures.ssrc == *ssrc));
        }
        let peaks = now.all.iter().flatten().map(|look| (look.figures.ssrc, look.figures.peak)).collect();
        self.peaks.push_back(peaks);
        if self.peaks.len() > LOOKS_OF_A_SECOND {
            self.peaks.pop_front();
        }
        let label = |look: &PartyLook| {
            let ip = |look: &PartyLook| self.from.get(&look.figures.ssrc).map(SocketAddr::ip);
            let alike = now.all.iter().flatten().filter(|other| ip(other) == ip(look)).count();
            match ip(look).filter(|_| alike == 1) {
                Some(ip) => ip.to_string(),
                None => self.name_of(look.figures.ssrc),
            }
        };
        let status = |look: &PartyLook| PartyStatus { label: label(look), ..self.status(look) };
        now.all.iter().flatten().map(status).collect()
    }

    fn look_at_films(&mut self, now: &PartiesLook, notice: &mut dyn FnMut(String)) {
        let Some(mut films) = self.films.take() else { return };
        let present: Vec<u32> = now.all.iter().flatten().map(|look| look.figures.ssrc).collect();
        films.look(&present, &|ssrc| self.name_of(ssrc), notice);
        for look in now.all.iter().flatten() {
            let (ssrc, address) = (look.figures.ssrc, look.address.map(|address| address.to_string()));
            films.name(ssrc, look.name.as_ref().map(Cname::as_str), address.as_deref());
            let packets = look.figures.pictures.map_or(0, |pictures| pictures.packets);
            if let Some(news) = films.judge(ssrc, packets) {
                notice(format!("{} {news}", self.name_of(ssrc)));
            }
        }
        self.films = Some(films);
    }

    /// The pictures of all, where each has a sink of its own.
    pub fn pictures(&self) -> Option<PicturesReceived> {
        self.films.as_ref().map(PartyFilms::total)
    }

    /// At the end: what was recorded of whom, and messages for the user.
    pub fn into_recordings(self) -> (Vec<PartyRecording>, Vec<String>) {
        self.films.map_or_else(Default::default, PartyFilms::into_recordings)
    }

    fn status(&self, look: &PartyLook) -> PartyStatus {
        let PartyFigures { ssrc, playout, counters, drift, adapted, buffer, .. } = look.figures;
        let PlayoutCounters { lost, late, concealments, .. } = playout;
        let (pictures, file) = match self.films.as_ref().and_then(|films| films.of(ssrc)) {
            Some((pictures, file)) => (Some(pictures), file),
            None => (None, None),
        };
        let of_it = self.peaks.iter().flatten().filter(|(whose, _)| *whose == ssrc);
        PartyStatus {
            label: String::new(),
            ssrc: format!("{ssrc:08x}"),
            name: look.name.map(|name| name.as_str().into()),
            address: self.from.get(&ssrc).map(SocketAddr::to_string),
            peak_dbfs: dbfs(of_it.fold(0.0_f32, |highest, (_, peak)| highest.max(*peak))),
            packets_received: counters.packets,
            lost,
            late,
            concealed: concealments,
            buffer_ms: millis(buffer),
            drift_ppm: drift.map(|drift| drift.0),
            latency_ms: adapted.map(|adapted| millis(adapted.in_force)),
            rtt_ms: look.report.and_then(|report| report.round_trip).map(millis),
            remote_loss_percent: look.report.map(|report| f64::from(report.block.fraction_lost) / 2.56),
            pictures,
            file,
        }
    }

    /// Something that happened, as a sentence.
    pub fn describe(&mut self, event: PartyNotice) -> String {
        match event {
            PartyNotice::Joined { ssrc, format, .. } => {
                format!("{} joined the call: {format}", self.name_of(ssrc))
            }
            PartyNotice::Gone { ssrc, why } => {
                let who = self.name_of(ssrc);
                self.from.remove(&ssrc);
                match why {
                    WhyGone::Left => format!("{who} left the call"),
                    WhyGone::Silent => format!("no packets from {who} for 5 s: it is taken to be gone"),
                    WhyGone::Unplayable => format!(
                        "{who} is not heard: its channels need too much memory for this playout delay; use a shorter --latency"
                    ),
                    WhyGone::OtherFormat => format!("{who} changed its format"),
                }
            }
            PartyNotice::UnknownFormat { payload_type } => format!(
                "packets of payload type {payload_type} do not say what they carry: their sender is not heard; Antiphon's parties, without \
                 --plain, and static payload types (RFC 3551) do"
            ),
            PartyNotice::Pictures { ssrc } => format!(
                "{} sends pictures as well, which are not received: watch with --sink player:, or record each party with --sink NAME.mkv",
                self.name_of(ssrc)
            ),
            PartyNotice::Full { most } => format!(
                "there is room for {most} other parties, and more send to this group: they are not heard until one leaves"
            ),
        }
    }

    /// Where a party sends from, and its SSRC: programs on one machine have one address.
    fn name_of(&self, ssrc: u32) -> String {
        let ip = self.from.get(&ssrc).map_or_else(|| "a party".into(), |address| address.ip().to_string());
        format!("{ip} (SSRC {ssrc:08x})")
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Addresses that are kept, also of parties whose end could not be told.
const MOST_KEPT: usize = 16 * MOST_PARTIES;
/// Looks come ten times a second.
const LOOKS_OF_A_SECOND: usize = 10;
