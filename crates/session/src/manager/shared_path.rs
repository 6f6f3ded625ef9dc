//! One path that the tracks of a session share: what is on its way, how fast the path takes it, and what that leaves to the
//! pictures when the sound has had its own.

mod measures;
mod sent_stream;

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::rtcp::{ArrivalReport, PacketArrival};

use super::copa::{Copa, Told, USUAL_PACKET};
use super::slow_path::{Arrival, SlowPath};
use super::{Budget, CongestionManager, PathFigures, TrackId};
use crate::associations::AssociationId;
use crate::packet_arrivals::LATEST;
pub(super) use measures::MeanRate;
use measures::{Delivered, Reported, RoundTrip};
use sent_stream::{SentStream, name_of};

/// Shares out the path to one peer that tells when packets arrive (RFC 8888), over any transport but one of a byte stream.
///
/// Sound is sent when it is due, and counts. The other tracks share what is left of the window, at an even pace. As long as the peer has
/// told nothing, which other programs do, everything is sent when it is due.
#[derive(Debug)]
pub struct SharedPath {
    on: Option<AssociationId>,
    streams: Vec<SentStream>,
    copa: Option<Copa>,
    slow: SlowPath,
    in_flight: u64,
    /// Average size of the pictures' packets; before there are any, of the sound's.
    packet: f64,
    /// Of which of them: 0 of the sound's, 1 of data's, 2 of the pictures'.
    packets_of: u8,
    /// When a packet of pictures was last sent, and one of their first track.
    pictures_at: Option<Instant>,
    first_at: Option<Instant>,
    round_trip: RoundTrip,
    /// From sending to the report of it, smoothed.
    answer: Option<Duration>,
    reported: Option<Instant>,
    /// When pictures were first to be sent, and what had been sent by then.
    asked: Option<(Instant, u64)>,
    /// Bytes sent.
    sent: u64,
    /// Bytes that may leave at once, and when they were counted.
    credit: f64,
    credited: Instant,
    delivered: Delivered,
    sound: MeanRate,
    figures: PathFigures,
    /// Reports that tell something new, and those that can't be true.
    told: u64,
    contradictions: u32,
    /// Other senders are like this one.
    yields: bool,
}

impl SharedPath {
    /// For so many streams: the channel groups of the sound, and the pictures.
    pub fn new(streams: usize) -> Self {
        SharedPath {
            on: None,
            streams: (0..streams).map(|_| SentStream::new()).collect(),
            copa: None,
            slow: SlowPath::new(),
            in_flight: 0,
            packet: 0.0,
            packets_of: 0,
            pictures_at: None,
            first_at: None,
            round_trip: RoundTrip::default(),
            answer: None,
            reported: None,
            asked: None,
            sent: 0,
            credit: 0.0,
            credited: Instant::ZERO,
            delivered: Delivered::default(),
            sound: MeanRate::default(),
            figures: PathFigures::default(),
            told: 0,
            contradictions: 0,
            yields: false,
        }
    }

    /// The same that takes no other sender of the path for one that minds losses alone, if `yields`, beside sound that was there before.
    pub(super) fn of_group(self, yields: bool, sound: MeanRate) -> Self {
        SharedPath { yields, sound, ..self }
    }

    /// Reports of the peer that can't be true: of packets that were not sent, or not yet when they are told to have come, or that are missing
    /// after they had come.
    pub(super) fn contradictions(&self) -> u32 {
        self.contradictions
    }

    /// Reports of the peer that tell of packets of which nothing was told before.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// From sending to the report of it, smoothed; nothing before a report.
    pub(super) fn answer(&self) -> Option<Duration> {
        self.answer
    }

    /// Whether less than half of what was sent in the last second has arrived.
    pub(super) fn delivers_little(&self) -> bool {
        self.delivered.is_little
    }

    /// Another peer takes the place of this one: nothing is known of its path.
    pub(super) fn forget(&mut self) {
        if let Some(on) = self.on {
            self.begin(on);
        }
    }

    /// Another association leads to the peer: nothing is known of its path.
    fn begin(&mut self, on: AssociationId) {
        self.streams.iter_mut().for_each(SentStream::forget);
        (self.on, self.copa, self.reported, self.answer) = (Some(on), None, None, None);
        (self.in_flight, self.round_trip, self.slow) = (0, RoundTrip::default(), SlowPath::new());
        (self.delivered, self.figures, self.asked) = Default::default();
        self.contradictions = 0;
    }

    /// The place of a new stream: one that none had, or that of the stream that has been silent for the longest, which goes on under another
    /// SSRC.
    fn place_for(&mut self, ssrc: u32, number: u16) -> Option<usize> {
        let silent = |stream: &(usize, &SentStream)| stream.1.last_sent();
        let (at, _) = self.streams.iter().enumerate().min_by_key(silent)?;
        let stream = &mut self.streams[at];
        self.in_flight -= stream.in_flight();
        stream.begin(ssrc, number);
        Some(at)
    }

    /// Bytes a second that leave at an even pace. `slow`: as [`Self::slow_rate`].
    fn pace(&self, copa: &Copa, slow: Option<f64>) -> f64 {
        let Some(answer) = self.answer else { return f64::INFINITY };
        let pace = AHEAD * copa.window(self.packet) / answer.max(SHORTEST).as_secs_f64();
        slow.map_or(pace, |slow| slow.min(pace))
    }

    /// Bytes a second on a path that takes long for a packet, while the queue is ours.
    fn slow_rate(&self, copa: &Copa) -> Option<f64> {
        self.slow.rate(self.packet).filter(|_| copa.is_alone())
    }

    /// Bytes that may be on their way.
    fn window(&self, copa: &Copa, slow: Option<f64>) -> f64 {
        match (slow, self.slow.aim(self.packet), self.round_trip.shortest()) {
            // The rate rules; this is for when nothing is told.
            (Some(rate), Some(aim), Some(shortest)) => rate * (shortest + LATEST + 4 * aim).as_secs_f64(),
            _ => copa.window(self.packet),
        }
    }

    fn gain(&mut self, now: Instant, pace: f64, is_slow: bool) {
        let gained = pace * now.since(self.credited).as_secs_f64();
        let packets = if is_slow { 1.0 } else { 2.0 };
        let most = (packets * self.packet).max(pace * BURST.as_secs_f64());
        (self.credit, self.credited) = ((self.credit + gained).min(most), now);
    }

    /// Until something was told: a little at first, and everything where nothing is ever told.
    fn first_budget(&mut self, now: Instant) -> Budget {
        if self.packets_of == 0 {
            // One shows how long they are. It may be due long after a track has first asked.
            self.asked = Some((now, self.sent));
            return Budget::Bytes(1, now);
        }
        let (began, sent) = self.asked.get_or_insert((now, self.sent));
        let passed = now.since(*began);
        if passed >= UNTOLD {
            return Budget::All;
        }
        let intervals = (passed.as_nanos() / FIRST_INTERVAL.as_nanos()) as u32;
        let most = (FIRST_PACKETS * self.packet).max(USUAL_PACKET) as u64 * u64::from(intervals + 1);
        let left = most.saturating_sub(self.sent - *sent);
        let next = *began + FIRST_INTERVAL * (intervals + 1);
        // What is told meanwhile shows how much more may leave: with a playout delay of less than the interval it must not wait for its end.
        Budget::Bytes(left as usize, next.min(now + ASK_AGAIN))
    }

    /// What was sent before the first packet that is told of was not lost: nobody was there yet.
    fn forget_unheard(&mut self, report: &ArrivalReport<'_>) {
        let sent_at = |(ssrc, number, _)| {
            let stream = self.streams.iter().find(|stream| stream.is_of(ssrc))?;
            stream.sent(number).map(|sent| sent.at)
        };
        let Some(first) = report.packets().filter_map(sent_at).min() else { return };
        let forgotten: u64 = self.streams.iter_mut().map(|stream| stream.forget_before(first)).sum();
        self.in_flight -= forgotten;
    }

    /// Packets that nothing was told of for long are lost.
    fn notice_silence(&mut self, now: Instant) {
        let (Some(reported), Some(copa)) = (self.reported, &mut self.copa) else { return };
        // Without a measured time, all that came had been sent again: the least patience holds.
        let patience = self.answer.map_or(SILENCE, |answer| SILENCE.max(4 * answer));
        let oldest = self.streams.iter().filter_map(SentStream::oldest_at).min();
        if now.since(reported) < patience || oldest.is_none_or(|at| now.since(at) < patience) {
            return;
        }
        copa.on_silence(self.packet);
        self.slow = SlowPath::new();
        self.streams.iter_mut().for_each(SentStream::forget);
        (self.in_flight, self.reported) = (0, Some(now));
    }

    /// Takes what a report tells of packets that were on their way.
    fn take_arrivals(&mut self, now: Instant, report: &ArrivalReport<'_>) -> Reported {
        let mut told = Reported::default();
        for (ssrc, number, packet) in report.packets() {
            let Some(stream) = self.streams.iter_mut().find(|stream| stream.is_of(ssrc)) else {
                continue;
            };
            told.contradicts |= stream.is_ahead(number);
            let PacketArrival::Arrived(ago) = packet else {
                told.contradicts |= stream.has_come(number);
                continue;
            };
            let Some(sent) = stream.on_arrived(number) else { continue };
            told.arrived += u64::from(sent.bytes);
            told.packets.0 += 1;
            let since = now.since(sent.at);
            if let Some(ago) = ago {
                // What a peer says of its own clock may be anything.
                told.contradicts |= ago > since + CLOCK_ERROR;
                let round_trip = since.saturating_sub(ago);
                self.round_trip.note(now, round_trip, self.answer);
                told.longest = told.longest.max(round_trip);
                told.answer = told.answer.max(Some(since));
                let wait = round_trip.saturating_sub(self.round_trip.shortest().unwrap_or(round_trip));
                self.slow.note(Arrival { at: report.arrived_at(ago), bytes: sent.bytes, wait });
            }
        }
        self.slow.end_report(now);
        for stream in &mut self.streams {
            let (lost, bytes) = stream.lost();
            told.packets.1 += lost;
            self.in_flight -= bytes;
        }
        self.in_flight -= told.arrived;
        told
    }
}

impl CongestionManager for SharedPath {
    fn on_sent(&mut self, now: Instant, on: AssociationId, track: TrackId, packet: &[u8]) {
        let packets_of = match track {
            TrackId::SOUND => 0,
            TrackId::DATA => 1,
            _ => 2,
        };
        let is_picture = packets_of > 0;
        if !is_picture {
            self.sound.note(now, packet.len());
        }
        if self.on != Some(on) {
            // Sound may go over several; the pictures go over the one that counts.
            if self.on.is_some() && !is_picture {
                return;
            }
            self.begin(on);
        }
        if is_picture && self.packets_of == 0 && self.reported.is_none() {
            // A peer tells of nothing that came before the first of them.
            self.streams.iter_mut().for_each(SentStream::forget);
            self.in_flight = 0;
        }
        let Some((number, ssrc)) = name_of(packet) else { return };
        let known = self.streams.iter().position(|stream| stream.is_of(ssrc));
        let Some(at) = known.or_else(|| self.place_for(ssrc, number)) else { return };
        self.in_flight -= self.streams[at].on_sent(now, number, packet.len());
        self.in_flight += packet.len() as u64;
        if packets_of == 2 {
            self.pictures_at = Some(now);
            self.first_at = if track == TrackId::FIRST_PICTURES { Some(now) } else { self.first_at };
        }
        if packets_of > self.packets_of {
            (self.packets_of, self.packet) = (packets_of, 0.0);
        }
        if packets_of == self.packets_of {
            let weight = if self.packet == 0.0 { 1.0 } else { 1.0 / 16.0 };
            self.packet += weight * (packet.len() as f64 - self.packet);
        }
        self.credit -= packet.len() as f64;
        self.sent += packet.len() as u64;
    }

    fn on_report(&mut self, now: Instant, on: AssociationId, report: &ArrivalReport<'_>) {
        if self.on != Some(on) {
            return;
        }
        if self.copa.is_none() {
            self.forget_unheard(report);
        }
        let in_flight = self.in_flight;
        let Reported { arrived, packets, longest, answer, contradicts } = self.take_arrivals(now, report);
        self.contradictions += u32::from(contradicts);
        if packets == (0, 0) {
            return;
        }
        self.reported = Some(now);
        self.told += 1;
        self.delivered.note(now, arrived, self.sent);
        let smoothed = match (self.answer, answer) {
            (Some(before), Some(answer)) => Some(before * 7 / 8 + answer / 8),
            (before, answer) => before.or(answer),
        };
        self.answer = smoothed;
        let Some(answer) = smoothed else { return };
        let Some((shortest, standing)) = self.round_trip.get() else { return };
        let takes = self.slow.proved() * answer.as_secs_f64();
        let (packet, yields, sound) = (self.packet, self.yields, self.sound.rate(now));
        let copa = self.copa.get_or_insert_with(|| match yields {
            true => Copa::yielding(packet, takes, sound * answer.as_secs_f64()),
            false => Copa::new(packet, takes),
        });
        let told = Told {
            arrived: arrived as f64,
            packets,
            packet: self.packet,
            standing: standing.saturating_sub(shortest),
            meant: self.slow.aim(self.packet).map_or(Duration::ZERO, |aim| 2 * aim),
            longest: longest.saturating_sub(shortest),
            answer,
            in_flight: in_flight as f64,
            sound: self.sound.rate(now),
            is_slow: self.slow.is_likely(self.packet),
        };
        copa.on_report(now, &told);
        if let Some(capacity) = self.slow.capacity(self.packet) {
            copa.set_window(capacity * answer.as_secs_f64(), &told);
        }
        let figures = &mut self.figures;
        if figures.rate.is_none() || !copa.is_draining() {
            figures.rate = Some(copa.estimate() / answer.max(SHORTEST).as_secs_f64());
        }
        (figures.delivered, figures.competes) = (self.delivered.rate, copa.competes());
        figures.queueing = Some(standing.saturating_sub(shortest));
        figures.lost += u64::from(packets.1);
    }

    fn budget(&mut self, now: Instant, track: TrackId) -> Budget {
        self.notice_silence(now);
        if track == TrackId::SOUND {
            return Budget::All;
        }
        let Some(copa) = self.copa.as_ref() else { return self.first_budget(now) };
        let slow = self.slow_rate(copa);
        let comes = |at: Option<Instant>| at.is_some_and(|at| now.since(at) < SILENCE);
        // A picture that becomes due finds room beside what comes after it and is on its way.
        let share = match track {
            TrackId::DATA if comes(self.pictures_at) => 0.5,
            TrackId::DATA | TrackId::FIRST_PICTURES => 1.0,
            _ if comes(self.first_at) => 0.75,
            _ => 1.0,
        };
        let (room, pace) = (share * self.window(copa, slow) - self.in_flight as f64, self.pace(copa, slow));
        self.gain(now, pace, slow.is_some());
        let pace = pace.max(1.0);
        if room <= 0.0 {
            return Budget::Bytes(0, now + ASK_AGAIN);
        }
        if self.credit <= 0.0 {
            let wait = Duration::from_secs_f64((1.0 - self.credit) / pace);
            return Budget::Bytes(0, now + wait.clamp(SHORTEST, ASK_AGAIN));
        }
        let wait = Duration::from_secs_f64(self.packet / pace);
        Budget::Bytes(self.credit.min(room) as usize, now + wait.clamp(SHORTEST, ASK_AGAIN))
    }

    fn takes(&mut self, now: Instant, on: AssociationId, bytes: usize, patience: Duration) -> bool {
        self.notice_silence(now);
        // One that tells nothing is sent everything.
        let (Some(copa), Some(answer), true) = (&self.copa, self.answer, self.on == Some(on)) else {
            return true;
        };
        let rate = copa.estimate() / answer.max(SHORTEST).as_secs_f64();
        let window = copa.window(self.packet);
        let (before, behind) =
            (self.in_flight as f64 - window, (self.in_flight + bytes as u64) as f64 - window);
        before <= 0.0 || behind <= rate * patience.as_secs_f64()
    }

    fn figures(&self) -> PathFigures {
        self.figures
    }
}

/// Packets that may be sent at the beginning in each of these intervals, a round trip of usual length (RFC 5681 §3.1: two to four, of which
/// the fewest keep the sound from waiting), or the bytes of a usual one, if they are short. After this time the peer tells nothing.
const FIRST_PACKETS: f64 = 2.0;
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
const UNTOLD: Duration = Duration::from_secs(1);
/// The pace above the window's rate, so that it is the window that bounds.
const AHEAD: f64 = 1.25;
/// What may leave at once.
const BURST: Duration = Duration::from_millis(5);
/// The clock's resolution in reports is a millisecond.
const SHORTEST: Duration = Duration::from_millis(1);
/// By how much a peer may err about how long ago a packet came: units of its clock, and what a machine takes to write a report.
const CLOCK_ERROR: Duration = Duration::from_millis(10);
/// How soon to ask again while the window is full.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// Without a report for so long the path is taken to be broken (RFC 6298 §2.4).
const SILENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
