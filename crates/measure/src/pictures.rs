//! Pictures beside a sound: when the packets of each were sent and came, what a player could show, and what they cost the sound.

use std::ops::RangeInclusive;
use std::time::Duration;

use antiphon_core::{Instant, SendError};
use serde::{Deserialize, Serialize};

use crate::fate::Fate;
use crate::histogram::{Distribution, Histogram, millis};
use crate::packet_log::{LoggedPacket, PacketArrival, PacketLog, PacketLogConfig};
use crate::rate::{kbit_per_s, percent};

/// Skew of pictures against their sound, without its sign, of those that were shown.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SkewFigures {
    /// Half of the pictures are within it, in milliseconds.
    pub median_ms: f64,
    /// 95 % of them.
    pub p95_ms: f64,
    /// 99.9 % of them.
    pub p99_9_ms: f64,
    /// The largest.
    pub worst_ms: f64,
    /// How many are beyond the bound of 80 ms, in percent.
    pub beyond_percent: f64,
}

/// The figures of the pictures beside a sound, of one transport. `None` is null: not measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PicturesFigures {
    /// Pictures that were sent.
    pub sent: u64,
    /// Pictures that the sender left out, or did not finish: they would have been too late, or could not be decoded.
    pub left_out: u64,
    /// Pictures of which every packet arrived.
    pub whole: u64,
    /// Of those that were to be shown, `sent` and `left_out` together.
    pub whole_percent: Option<f64>,
    /// Whole pictures that came too late to be shown with their sound.
    pub too_late: u64,
    /// For how long the last picture stood still beyond its time.
    pub frozen_s: f64,
    /// The same as a share of the time in which there are pictures.
    pub frozen_percent: Option<f64>,
    /// Times at which all since the last key frame was sent again.
    pub caught_up: u64,
    /// Packets handed over, refused ones included, and those that were sent again.
    pub packets_sent: u64,
    /// Packets that arrived, each once.
    pub packets_received: u64,
    /// Packets that never arrived, and were not given up by the sender.
    pub lost: u64,
    /// Packets that the sender gave up.
    pub expired: u64,
    /// Packets that the transport did not take.
    pub refused: u64,
    /// Lost, of the packets sent.
    pub lost_percent: Option<f64>,
    /// Round trips of packets.
    pub rtt_ms: Distribution,
    /// One-way delays of packets; omitted if the clocks are not known to agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_ms: Option<Distribution>,
    /// From a picture's due time until all of it is back, of whole pictures.
    pub whole_ms: Distribution,
    /// Skew of those that were shown; omitted if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew: Option<SkewFigures>,
    /// Bytes of the packets that were handed over.
    pub media_bytes: u64,
    /// Their mean rate, over the time in which there are pictures.
    pub media_kbit_per_s: Option<f64>,
    /// The sound while pictures were sent; omitted if there were too few packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound_beside: Option<SoundPart>,
    /// The sound after the last of them; the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound_alone: Option<SoundPart>,
}

/// A part of the sound, in which pictures were sent beside it or not.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SoundPart {
    /// Packets of sound in it.
    pub packets: u64,
    /// Those that could not be played: lost, expired, refused or late.
    pub missing_percent: f64,
    /// Half of those that came were back within this time.
    pub rtt_p50_ms: f64,
    /// 99 % of them.
    pub rtt_p99_ms: f64,
}

/// What is known of pictures besides their [`PictureLog`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PictureFacts {
    /// Pictures that were sent, without those that were begun and left out then.
    pub sent: u64,
    /// Pictures that the sender left out.
    pub left_out: u64,
    /// Packets that the sender gave up.
    pub expired: u64,
    /// Times at which all since the last key frame was sent again.
    pub caught_up: u64,
    /// Whole pictures that came too late to be shown.
    pub too_late: u64,
    /// For how long the last picture stood still beyond its time.
    pub frozen: Duration,
    /// Skew of those that were shown.
    pub skew: Option<SkewFigures>,
}

/// A packet of pictures that was handed to the transport.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SentPicturePacket {
    /// RTP's number.
    pub sequence: u16,
    /// The number of the picture that it is of.
    pub picture: u64,
    /// Which of the picture's packets it is, counted from 0, and how many it has.
    pub part: (u32, u32),
    /// When the picture was due, if it is heard of for the first time.
    pub due: Instant,
    /// Bytes of the packet.
    pub bytes: usize,
    /// Whether the transport took it.
    pub result: Result<(), SendError>,
}

/// The pictures of one stream: filled by the media thread without allocation.
#[derive(Clone, Debug)]
pub struct PictureLog {
    /// Their packets, by RTP's numbers in one row.
    packets: PacketLog,
    /// The number of the last packet that was sent, counted on beyond 16 bits.
    last: Option<u64>,
    /// Which part of which picture each of the last packets is, by RTP's number.
    part_of: Box<[PartOf]>,
    pictures: Vec<Picture>,
    /// Of each part of all pictures, whether it came.
    came: Vec<bool>,
    /// The number of the last picture.
    newest: Option<u64>,
    bytes: u64,
    span: Option<(Instant, Instant)>,
    /// When the last of them came.
    last_came: Option<Instant>,
}

/// A part of a picture, by their places in the log.
#[derive(Clone, Copy, Debug)]
struct PartOf {
    /// [`NO_PICTURE`]: it is of none that has a place.
    picture: u32,
    part: u32,
}

/// What became of a picture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Picture {
    number: u64,
    /// Its first part among those of all.
    first: usize,
    /// When it was due.
    pub due: Instant,
    /// How many packets it has.
    pub parts: u32,
    /// How many of them came.
    pub came: u32,
    /// When the last of them came.
    pub last: Instant,
}

impl Picture {
    /// From its due time until all of it was there; `None` if a part never came.
    pub fn delay(&self) -> Option<Duration> {
        (self.came == self.parts).then(|| self.last.since(self.due))
    }
}

impl PictureLog {
    /// An empty log with room for so many pictures; further ones are counted with their packets alone.
    pub fn new(pictures: usize) -> Self {
        // Its figures of sound are not looked at.
        let config = PacketLogConfig {
            capacity: 0,
            clock_rate: CLOCK_RATE,
            packet: Duration::from_millis(1),
            packet_bytes: 1,
        };
        PictureLog {
            packets: PacketLog::new(config),
            last: None,
            part_of: vec![PartOf { picture: NO_PICTURE, part: 0 }; 1 << 16].into_boxed_slice(),
            pictures: Vec::with_capacity(pictures.min(MOST_PICTURES)),
            came: Vec::with_capacity(
                pictures.min(MOST_PICTURES).saturating_mul(USUAL_PARTS).max(LEAST_PARTS),
            ),
            newest: None,
            bytes: 0,
            span: None,
            last_came: None,
        }
    }

    /// A packet was handed over.
    pub fn on_sent(&mut self, now: Instant, packet: &SentPicturePacket) {
        let sequence = packet.sequence;
        // Numbers count up; where packets are known to be missing, some are left out.
        let number = match self.last {
            Some(last) => last + u64::from(sequence.wrapping_sub(last as u16)),
            None => u64::from(sequence),
        };
        self.last = Some(number);
        match packet.result {
            Ok(()) => self.packets.on_sent(number, now),
            Err(_) => self.packets.on_refused(number, now),
        }
        self.bytes += if packet.result.is_ok() { packet.bytes as u64 } else { 0 };
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        let picture = self.place_of(packet).unwrap_or(NO_PICTURE);
        self.part_of[usize::from(sequence)] = PartOf { picture, part: packet.part.0 };
    }

    /// The place of a packet's picture, which begins if it was not heard of.
    fn place_of(&mut self, packet: &SentPicturePacket) -> Option<u32> {
        let SentPicturePacket { picture: number, part: (part, parts), due, .. } = *packet;
        if self.newest.is_none_or(|newest| number > newest) {
            self.newest = Some(number);
            let first = self.came.len();
            let has_room = self.pictures.len() < self.pictures.capacity()
                && self.came.capacity() - first >= parts as usize;
            if has_room {
                self.came.resize(first + parts as usize, false);
                self.pictures.push(Picture { number, first, due, parts, came: 0, last: due });
            }
        }
        let place = self.pictures.binary_search_by_key(&number, |picture| picture.number).ok()?;
        (part < self.pictures[place].parts).then_some(place as u32)
    }

    /// The packet of this number came. `one_way`: only if the clocks of both ends are known to agree.
    pub fn on_received(&mut self, sequence: u16, at: Instant, one_way: Option<Duration>) {
        let Some(last) = self.last else { return };
        let Some(number) = last.checked_sub(u64::from((last as u16).wrapping_sub(sequence))) else { return };
        let arrival = PacketArrival { seq: number, at, timestamp: 0, len: 0, one_way, repaired: false };
        if self.packets.on_received(arrival).is_none() {
            return;
        }
        self.last_came = self.last_came.max(Some(at));
        let PartOf { picture, part } = self.part_of[usize::from(sequence)];
        if let Some(picture) = self.pictures.get_mut(picture as usize)
            && !std::mem::replace(&mut self.came[picture.first + part as usize], true)
        {
            picture.came += 1;
            picture.last = picture.last.max(at);
        }
    }

    /// When the packet of this number was sent, if it is one of the last.
    pub fn sent_at(&self, sequence: u16) -> Option<Instant> {
        let last = self.last?;
        self.packets.sent_at(last.checked_sub(u64::from((last as u16).wrapping_sub(sequence)))?)
    }

    /// Nothing more will come.
    pub fn finish(&mut self) {
        self.packets.finish();
    }

    /// The pictures, in the order of sending.
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// What came of them, beside a sound.
    pub fn figures(&self, facts: &PictureFacts, sound: &PacketLog) -> PicturesFigures {
        let counts = self.packets.counts();
        let (sent, received) = (self.packets.packets_sent(), counts.arrived());
        let refused = counts.of(Fate::Refused);
        let missing = sent.saturating_sub(received + refused);
        let expired = facts.expired.min(missing);
        let mut whole_ms = Histogram::new();
        self.pictures.iter().filter_map(Picture::delay).for_each(|delay| whole_ms.record(delay));
        let time = self.span.map_or(Duration::ZERO, |(first, last)| last.since(first));
        let one_way = self.packets.one_way();
        PicturesFigures {
            sent: facts.sent,
            left_out: facts.left_out,
            whole: whole_ms.count(),
            whole_percent: percent(whole_ms.count(), facts.sent + facts.left_out),
            too_late: facts.too_late,
            frozen_s: facts.frozen.as_secs_f64(),
            frozen_percent: (!time.is_zero())
                .then(|| 100.0 * facts.frozen.as_secs_f64() / time.as_secs_f64()),
            caught_up: facts.caught_up,
            packets_sent: sent,
            packets_received: received,
            lost: missing - expired,
            expired,
            refused,
            lost_percent: percent(missing - expired, sent),
            rtt_ms: self.packets.rtt().into(),
            one_way_ms: self.packets.has_one_clock().then(|| one_way.into()),
            whole_ms: (&whole_ms).into(),
            skew: facts.skew,
            media_bytes: self.bytes,
            media_kbit_per_s: kbit_per_s(self.bytes, time),
            sound_beside: self.span.and_then(|(first, last)| SoundPart::of(sound, first..=last)),
            sound_alone: self
                .over()
                .and_then(|over| SoundPart::of(sound, over..=Instant::from_nanos(u64::MAX))),
        }
    }

    /// From when on nothing of them was under way.
    fn over(&self) -> Option<Instant> {
        self.span.map(|(_, last)| self.last_came.map_or(last, |came| came.max(last)))
    }
}

impl SoundPart {
    /// Of the packets that were sent in this time; `None` if they are too few for a percentile.
    fn of(log: &PacketLog, time: RangeInclusive<Instant>) -> Option<Self> {
        let (mut packets, mut missing) = (0, 0);
        let mut round_trips = Histogram::new();
        for row in log.rows().filter(|row| time.contains(&row.sent)) {
            packets += 1;
            missing += u64::from(!is_heard(&row));
            row.rtt().into_iter().for_each(|time| round_trips.record(time));
        }
        let quantile = |share| round_trips.quantile(share).map(millis);
        let enough = packets >= LEAST_PACKETS;
        Some(SoundPart {
            packets,
            missing_percent: percent(missing, packets).filter(|_| enough)?,
            rtt_p50_ms: quantile(0.5)?,
            rtt_p99_ms: quantile(0.99)?,
        })
    }
}

fn is_heard(row: &LoggedPacket) -> bool {
    matches!(row.fate, Fate::Played | Fate::Recovered)
}

impl PicturesFigures {
    /// What the pictures cost the sound, in a sentence; `None` if the run was too short to tell.
    pub fn cost(&self) -> Option<String> {
        let (beside, alone) = (self.sound_beside?, self.sound_alone?);
        let SoundPart { missing_percent, rtt_p99_ms, .. } = beside;
        Some(format!(
            "beside the pictures {missing_percent:.2} % of the sound was missing, and 99 % of the rest was back within {rtt_p99_ms:.1} ms; after \
             them {:.2} % and {:.1} ms",
            alone.missing_percent, alone.rtt_p99_ms
        ))
    }
}

/// Parts of pictures that a log has room for: so many for each, or so many in all.
const USUAL_PARTS: usize = 32;
const LEAST_PARTS: usize = 100_000;
/// Of a packet that is of no picture in the log.
const NO_PICTURE: u32 = u32::MAX;
/// Of RTP's time stamps of pictures, in Hz.
const CLOCK_RATE: u32 = 90_000;
/// The most pictures that a log has room for: an hour of 60 Hz, 8 MB.
const MOST_PICTURES: usize = 216_000;
/// Of fewer packets there is no 99th percentile.
const LEAST_PACKETS: u64 = 100;

#[cfg(test)]
pub(crate) mod tests;
