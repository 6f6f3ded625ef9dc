//! When the packets of a peer's streams arrived, or those of all parties of a group: what is told to senders of pictures, which share out the path by it (RFC 8888).

use std::time::Duration;

use antiphon_core::wire::UDP_IPV4_HEADERS;
use antiphon_core::{Instant, Received, Unwrapper};
use antiphon_media::rtcp::{ArrivalReportWriter, PacketArrival};

/// The arrivals of one peer's packets.
#[derive(Debug, Default)]
pub(crate) struct PacketArrivals {
    streams: Vec<Stream>,
    /// Memory for streams that repeat pictures to a group, of which the first packet comes in the middle of the film, and how many of them have theirs.
    spare: Vec<Stream>,
    repeating: usize,
    /// Whether there are packets that were not told of.
    has_news: bool,
    /// When the first one came, and when they were last told.
    first: Option<Instant>,
    told: Option<Instant>,
    /// Bytes that reports may have by now, and those of the last one.
    earned: f64,
    cost: f64,
}

#[derive(Debug)]
struct Stream {
    ssrc: u32,
    numbers: Unwrapper<16>,
    ring: Vec<Arrival>,
    /// The number after the highest one, and what it was at each of the last reports, the newest first.
    next: u64,
    told: [u64; TIMES],
    /// When the last one came.
    last: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    /// When it came; `None`: that tells nothing of the path.
    at: Option<Instant>,
}

impl PacketArrivals {
    /// Other streams begin.
    pub fn begin(&mut self) {
        self.streams.clear();
        self.repeating = 0;
    }

    /// Holds memory ready for so many streams of which [`Self::on_repeat`] will hear.
    pub fn hold_ready(&mut self, repeating: usize) {
        let missing = repeating.saturating_sub(self.spare.len() + self.repeating);
        if missing > 0 {
            self.streams.reserve(missing);
            self.spare.extend((0..missing).map(|_| Stream::new(0)));
        }
    }

    /// A packet of a stream that repeats another one to a group: as [`Self::on_packet`], but of more such streams than memory is held ready for nothing is told.
    pub fn on_repeat(&mut self, now: Instant, name: (u32, u16), received: Received, len: usize) {
        if self.streams.iter().all(|stream| stream.ssrc != name.0) {
            let Some(spare) = self.spare.pop() else { return };
            self.streams.push(Stream { ssrc: name.0, ..spare });
            self.repeating += 1;
        }
        self.on_packet(now, name, received, len);
    }

    /// A packet of `len` bytes came, and was looked at now.
    pub fn on_packet(&mut self, now: Instant, (ssrc, sequence): (u32, u16), received: Received, len: usize) {
        let at = self.streams.iter().position(|stream| stream.ssrc == ssrc).or_else(|| {
            if self.streams.len() < MOST_STREAMS {
                self.streams.push(Stream::new(ssrc));
                return Some(self.streams.len() - 1);
            }
            // Other streams than these are none of one session's; of a group's parties some leave.
            let gone = self.streams.iter().position(|stream| now.since(stream.last) >= GONE)?;
            self.streams[gone].begin(ssrc);
            Some(gone)
        });
        let Some(at) = at else { return };
        // What a machine that can't keep up lets wait, waits for all the same.
        let is_behind = now.since(received.received_at) > BEHIND;
        let came = if is_behind { now } else { received.received_at };
        self.streams[at].last = now;
        self.streams[at].on_packet(sequence, (!received.repaired).then_some(came));
        self.has_news = true;
        self.first.get_or_insert(received.received_at);
        self.earned += SHARE * (len + UDP_IPV4_HEADERS) as f64;
    }

    /// When to tell them: the first ones soon, since the sender knows nothing yet.
    pub fn due(&self) -> Option<Instant> {
        let wait = if self.earned >= self.cost { SOONEST } else { LATEST };
        let due = self.told.map(|told| told + wait).or(self.first.map(|first| first + SOONEST));
        due.filter(|_| self.has_news)
    }

    /// Writes the report of `ssrc`, whose clock reads `written`. Returns its length.
    pub fn write(&mut self, now: Instant, ssrc: u32, written: u32, buf: &mut [u8]) -> Option<usize> {
        let mut writer = ArrivalReportWriter::new(ssrc, buf)?;
        let full = self.streams.iter_mut().position(|stream| !stream.write(now, &mut writer));
        // Those that found no room come first in the next one.
        if let Some(full) = full {
            self.streams.rotate_left(full);
        }
        let len = writer.finish(written);
        (self.has_news, self.told) = (false, Some(now));
        self.cost = (len + UDP_IPV4_HEADERS) as f64;
        self.earned = (self.earned - self.cost).clamp(-self.cost, self.cost);
        Some(len)
    }
}

impl Stream {
    fn new(ssrc: u32) -> Self {
        Stream {
            ssrc,
            numbers: Unwrapper::default(),
            ring: vec![NONE; REMEMBERED],
            next: 0,
            told: [0; TIMES],
            last: Instant::ZERO,
        }
    }

    /// Another one takes its place.
    fn begin(&mut self, ssrc: u32) {
        self.ring.fill(NONE);
        (self.ssrc, self.numbers, self.next, self.told) = (ssrc, Unwrapper::default(), 0, [0; TIMES]);
    }

    fn on_packet(&mut self, sequence: u16, at: Option<Instant>) {
        let number = self.numbers.extend(sequence.into());
        let place = &mut self.ring[(number % REMEMBERED as u64) as usize];
        if place.number == number {
            return;
        }
        if self.next == 0 {
            // Nothing before it was sent to us.
            self.told = [number; TIMES];
        }
        *place = Arrival { number, at };
        self.next = self.next.max(number + 1);
    }

    /// What has come since the last reports but two, as one may be lost. Returns whether there was room for it.
    fn write(&mut self, now: Instant, writer: &mut ArrivalReportWriter<'_>) -> bool {
        let least = self.next.saturating_sub(REMEMBERED as u64 / 2);
        let first = self.told[TIMES - 1].max(least).max(self.next.saturating_sub(writer.room() as u64));
        if self.told[0] < self.next {
            if writer.room() == 0 {
                return false;
            }
            let packets = (0..(self.next - first) as usize).map(|n| {
                let number = first + n as u64;
                let arrival = self.ring[(number % REMEMBERED as u64) as usize];
                match arrival.number == number {
                    true => PacketArrival::Arrived(arrival.at.map(|at| now.since(at))),
                    false => PacketArrival::Missing,
                }
            });
            writer.stream(self.ssrc, first as u16, packets);
        }
        self.told.copy_within(..TIMES - 1, 1);
        self.told[0] = self.next;
        true
    }
}

const NONE: Arrival = Arrival { number: u64::MAX, at: None };

/// Streams of one peer: 32 channel groups and pictures; or the sound, the pictures and those that are sent again of the 16 parties of a group.
const MOST_STREAMS: usize = 48;
/// A stream that has been silent for so long makes room for another.
const GONE: Duration = Duration::from_secs(5);
/// Packets of a stream that are remembered.
const REMEMBERED: usize = 1024;
/// How often each packet is told of.
const TIMES: usize = 3;
/// A thread that is woken up waits for less where there is a processor for it: one tick of the slowest usual clock, 100 Hz.
const BEHIND: Duration = Duration::from_millis(10);
/// The share of what comes that reports may have: that of RTCP (RFC 3550 §6.2).
const SHARE: f64 = 0.05;
/// The shortest time between two reports, and the longest while packets come.
const SOONEST: Duration = Duration::from_millis(20);
pub(crate) const LATEST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use antiphon_core::{PathId, StreamId};
    use antiphon_media::rtcp::ArrivalReport;

    use super::*;

    const FIRST: u16 = 65_530;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(10_000 + millis)
    }

    fn received(millis: u64, repaired: bool) -> Received {
        let (len, stream, path) = (1_000, StreamId(0), PathId(0));
        Received { len, received_at: at(millis), repaired, stream, path }
    }

    /// What a report at this time tells of packets.
    fn told(arrivals: &mut PacketArrivals, millis: u64) -> Vec<(u16, PacketArrival)> {
        let mut buf = [0; 1_100];
        let len = arrivals.write(at(millis), 9, 0, &mut buf).unwrap();
        let report = ArrivalReport::parse(&buf[..len]).unwrap();
        report.packets().map(|(_, number, packet)| (number, packet)).collect()
    }

    #[test]
    fn each_packet_is_told_of_three_times() {
        let mut arrivals = PacketArrivals::default();
        assert_eq!(arrivals.due(), None);
        for round in 0..6 {
            let now = u64::from(round) * 20;
            // The third of four is lost.
            for n in [0, 1, 3] {
                arrivals.on_packet(
                    at(now),
                    (5, FIRST.wrapping_add(4 * round + n)),
                    received(now, false),
                    1_000,
                );
            }
            let (packets, times) = (told(&mut arrivals, now + 10), usize::from(round.min(2) + 1));
            assert_eq!(packets.len(), 4 * times, "round {round}");
            let missing = packets.iter().filter(|packet| packet.1 == PacketArrival::Missing).count();
            assert_eq!(missing, times);
            assert_eq!(arrivals.due(), None, "there is no news");
        }
        // The last one lost comes again, which tells nothing of the path.
        let last = FIRST.wrapping_add(22);
        arrivals.on_packet(at(130), (5, last), received(130, true), 1_000);
        arrivals.on_packet(at(131), (5, last.wrapping_add(2)), received(131, false), 1_000);
        let packets = told(&mut arrivals, 140);
        assert!(packets.contains(&(last, PacketArrival::Arrived(None))), "{packets:?}");
    }

    /// Small packets that come slowly are told of ten times a second, many large ones fifty times.
    #[test]
    fn reports_take_a_twentieth_at_most() {
        for (each, len, expected) in [(50, 100, 18..=24), (5, 200, 40..=70), (1, 1_000, 95..=101)] {
            let (mut arrivals, mut reports, mut bytes, mut came) = (PacketArrivals::default(), 0, 0, 0);
            for millis in 0..2_000u64 {
                if millis.is_multiple_of(each) {
                    let packet = Received { len, ..received(millis, false) };
                    arrivals.on_packet(at(millis), (5, (millis / each) as u16), packet, len);
                    came += len + UDP_IPV4_HEADERS;
                }
                if arrivals.due().is_some_and(|due| due <= at(millis)) {
                    let mut buf = [0; 1_100];
                    bytes += arrivals.write(at(millis), 9, 0, &mut buf).unwrap() + UDP_IPV4_HEADERS;
                    reports += 1;
                }
            }
            assert!(expected.contains(&reports), "{reports} reports");
            // Ten in a second there are in any case.
            assert!(reports <= 24 || bytes * 20 <= came, "{bytes} of {came}");
        }
    }

    /// With more streams than a report has room for, each is told of in one of the next ones.
    #[test]
    fn streams_without_room_come_first_in_the_next_report() {
        let mut arrivals = PacketArrivals::default();
        let mut told_of = std::collections::BTreeSet::new();
        for round in 0..8u16 {
            let now = 1_000 * u64::from(round);
            for (ssrc, n) in (0..30).flat_map(|ssrc| (0..40).map(move |n| (ssrc, n))) {
                arrivals.on_packet(at(now), (ssrc, 40 * round + n), received(now, false), 1_000);
            }
            let mut buf = [0; 1_100];
            let len = arrivals.write(at(now + 20), 9, 0, &mut buf).unwrap();
            told_of.extend(ArrivalReport::parse(&buf[..len]).unwrap().packets().map(|(ssrc, ..)| ssrc));
        }
        assert_eq!(told_of.len(), 30, "{told_of:?}");
    }

    /// So many streams have places; those of parties that have left are taken by others.
    #[test]
    fn a_stream_that_is_gone_makes_room() {
        let mut arrivals = PacketArrivals::default();
        (0..=48).for_each(|ssrc| arrivals.on_packet(at(0), (ssrc, 7), received(0, false), 100));
        assert!(arrivals.streams.len() == MOST_STREAMS && arrivals.streams.iter().all(|one| one.ssrc != 48));
        (1..48).for_each(|ssrc| arrivals.on_packet(at(6_000), (ssrc, 8), received(6_000, false), 100));
        arrivals.on_packet(at(6_000), (99, 30_000), received(6_000, false), 100);
        let packets = told(&mut arrivals, 6_010);
        assert!(packets.iter().any(|(number, _)| *number == 30_000), "{packets:?}");
        assert!(arrivals.streams.iter().all(|one| one.ssrc != 0));
    }
}
