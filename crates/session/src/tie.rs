//! Ties pictures to the sound of a sender that puts no clock into its packets: by its sender reports (RFC 3550 §6.4.1), which tell when
//! on one clock both were captured, or, where there are none, by arrivals.

use std::time::Duration;

use antiphon_core::{Instant, Unwrapper};
use antiphon_media::packet::VIDEO_CLOCK;
use antiphon_media::rtcp::{RtcpItem, SenderClock, visit_compound};

use crate::least::Least;

/// By what pictures have their place in the sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VideoTie {
    /// Sender reports of both.
    Reports,
    /// When they arrive: at least one of the two has no reports, or they are of clocks that have nothing to do with each other.
    Arrivals,
}

/// What is known of the clocks of a sender's sound and of its pictures.
#[derive(Debug)]
pub(crate) struct Tie {
    /// The last sender report of each source, the latest one last.
    reports: Vec<SenderClock>,
    sound: ByArrival,
    pictures: ByArrival,
    /// When the first picture came.
    since: Option<Instant>,
    /// How long reports are waited for.
    patience: Duration,
    by: Option<VideoTie>,
}

/// When the packets of a stream come, less the media time in their stamps.
#[derive(Debug, Default)]
struct ByArrival {
    ssrc: u32,
    stamps: Unwrapper<32>,
    least: Least,
}

impl Tie {
    /// `patience`: how long reports are waited for before arrivals count.
    pub fn new(patience: Duration) -> Self {
        Tie {
            reports: Vec::with_capacity(MOST_REPORTS),
            sound: ByArrival::default(),
            pictures: ByArrival::default(),
            since: None,
            patience,
            by: None,
        }
    }

    /// By what the last picture had its place.
    pub fn by(&self) -> Option<VideoTie> {
        self.by
    }

    /// Takes the sender reports of a compound packet. They may come before the first packet of their source, so it is looked at later whose
    /// they are.
    pub fn on_compound(&mut self, bytes: &[u8]) {
        let reports = &mut self.reports;
        let _a_broken_one_is_counted_elsewhere = visit_compound(bytes, |item| {
            if let RtcpItem::Sender { ssrc, info, .. } = item {
                reports.retain(|known| known.ssrc != ssrc);
                if reports.len() == MOST_REPORTS {
                    reports.remove(0);
                }
                reports.push(SenderClock { ssrc, ntp: info.ntp, rtp_timestamp: info.rtp_timestamp });
            }
        });
    }

    /// A packet of the sound came.
    pub fn on_sound(&mut self, at: Instant, (ssrc, timestamp): (u32, u32), rate: u32) {
        self.sound.note(at, (ssrc, timestamp), rate);
    }

    /// A packet of pictures came. Returns the time stamp of the sound that was captured with its picture, once that is known.
    pub fn on_picture(
        &mut self,
        at: Instant,
        (ssrc, timestamp): (u32, u32),
        (sound, rate): (u32, u32),
    ) -> Option<u32> {
        self.pictures.note(at, (ssrc, timestamp), VIDEO_CLOCK);
        let since = *self.since.get_or_insert(at);
        let arrived = self.by_arrival(timestamp, (sound, rate));
        let reported = self.by_reports((ssrc, timestamp), (sound, rate));
        // Reports of two machines whose clocks were never set say nothing of each other.
        let most = i64::from(rate) * MOST_APART.as_secs() as i64;
        let is_near = |one: u32, other: u32| i64::from(one.wrapping_sub(other) as i32).abs() <= most;
        let reported = reported.filter(|reported| arrived.is_none_or(|arrived| is_near(*reported, arrived)));
        let is_late = self.by == Some(VideoTie::Arrivals) || at.since(since) >= self.patience;
        let (place, by) = match (reported, arrived) {
            (Some(place), _) => (place, VideoTie::Reports),
            (None, Some(place)) if is_late => (place, VideoTie::Arrivals),
            (None, _) => return None,
        };
        self.by = Some(by);
        Some(place)
    }

    fn by_reports(&self, (ssrc, timestamp): (u32, u32), (sound, rate): (u32, u32)) -> Option<u32> {
        let of = |ssrc: u32| self.reports.iter().find(|report| report.ssrc == ssrc);
        let (pictures, sound) = (of(ssrc)?, of(sound)?);
        let nanos = pictures.ntp_of(timestamp, VIDEO_CLOCK).signed_nanos_since(sound.ntp);
        let ticks = (i128::from(nanos) * i128::from(rate) + NANOS / 2).div_euclid(NANOS);
        Some(sound.rtp_timestamp.wrapping_add(ticks as u32))
    }

    fn by_arrival(&self, timestamp: u32, (sound, rate): (u32, u32)) -> Option<u32> {
        let (pictures, of_sound) = (&self.pictures, &self.sound);
        let offset =
            pictures.least.get()?.wrapping_sub(of_sound.least.get().filter(|_| of_sound.ssrc == sound)?);
        let media = nanos_of(pictures.stamps.peek(timestamp.into()), VIDEO_CLOCK).wrapping_add(offset);
        Some(((i128::from(media) * i128::from(rate) + NANOS / 2) / NANOS) as u32)
    }
}

impl ByArrival {
    fn note(&mut self, at: Instant, (ssrc, timestamp): (u32, u32), rate: u32) {
        if self.ssrc != ssrc {
            *self = ByArrival { ssrc, ..ByArrival::default() };
        }
        let media = nanos_of(self.stamps.extend(timestamp.into()), rate);
        self.least.note(at, (at.as_nanos() as i64).wrapping_sub(media));
    }
}

fn nanos_of(stamp: u64, rate: u32) -> i64 {
    (i128::from(stamp) * NANOS / i128::from(rate.max(1))) as i64
}

const NANOS: i128 = 1_000_000_000;
/// Sources whose reports are kept: two, and those that they had before or that others have.
const MOST_REPORTS: usize = 8;
/// Farther from one another than this, sound and pictures that arrive together were not captured together by one clock.
const MOST_APART: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use antiphon_core::NtpTime;
    use antiphon_media::rtcp::{SenderInfo, write_report};
    use proptest::prelude::*;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(6);

    fn report(ssrc: u32, seconds: u64, rtp_timestamp: u32) -> Vec<u8> {
        let ntp = NtpTime::from_unix(Duration::from_secs(seconds));
        let info = SenderInfo { ntp, rtp_timestamp, ..SenderInfo::default() };
        let mut bytes = [0; 64];
        let len = write_report(ssrc, Some(&info), &[], &mut bytes).expect("room");
        bytes[..len].to_vec()
    }

    #[test]
    fn reports_tie_pictures_to_the_sound_whatever_arrives_when() {
        let (mut tie, at) = (Tie::new(PATIENCE), Instant::from_millis);
        // They come before the first packets. The pictures' stamps wrap.
        tie.on_compound(&report(1, 1_000, 48_000));
        tie.on_compound(&report(2, 1_001, 0u32.wrapping_sub(90_000)));
        tie.on_sound(at(500), (1, 48_000), 48_000);
        // Captured 2 s after the report of the sound.
        assert_eq!(tie.on_picture(at(900), (2, 0), (1, 48_000)), Some(48_000 + 2 * 48_000));
        assert_eq!(tie.by(), Some(VideoTie::Reports));
    }

    #[test]
    fn without_reports_arrivals_count_after_the_patience() {
        let (mut tie, at) = (Tie::new(PATIENCE), Instant::from_millis);
        for n in 0..200u32 {
            let now = at(u64::from(n) * 40);
            // A third of the packets is late.
            let late = Duration::from_millis(if n % 3 == 1 { 25 } else { 0 });
            tie.on_sound(now + late, (1, 7 + n * 1_920), 48_000);
            let place = tie.on_picture(now + late, (2, 11 + n * 3_600), (1, 48_000));
            let (waits, expected) = (n < 150, 7 + n * 1_920);
            assert_eq!(place.is_none(), waits, "{n}");
            let error = place.map_or(0, |place| place.wrapping_sub(expected) as i32);
            assert!(error.abs() <= 1, "{n}: {error}");
        }
        assert_eq!(tie.by(), Some(VideoTie::Arrivals));
        tie.on_compound(&report(1, 1_000, 7));
        tie.on_compound(&report(2, 1_000, 11));
        assert!(tie.on_picture(at(8_000), (2, 11 + 200 * 3_600), (1, 48_000)).is_some());
        assert_eq!(tie.by(), Some(VideoTie::Reports), "reports that come later count");
    }

    #[test]
    fn reports_of_clocks_an_hour_apart_are_not_believed() {
        let (mut tie, at) = (Tie::new(Duration::ZERO), Instant::from_millis);
        tie.on_compound(&report(1, 1_000, 0));
        tie.on_compound(&report(2, 4_600, 0));
        tie.on_sound(at(10), (1, 480), 48_000);
        assert_eq!(tie.on_picture(at(10), (2, 900), (1, 48_000)), Some(480));
        assert_eq!(tie.by(), Some(VideoTie::Arrivals));
    }

    proptest! {
        #[test]
        fn any_packets_are_taken_without_panic_and_memory_is_bounded(
            packets in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), 0..4u8), 0..60),
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut tie = Tie::new(Duration::ZERO);
            tie.on_compound(&bytes);
            for (at, ssrc, timestamp, rate, kind) in packets {
                match kind {
                    0 => tie.on_compound(&report(ssrc, at >> 32, timestamp)),
                    1 => tie.on_sound(Instant::from_nanos(at >> 1), (ssrc, timestamp), rate),
                    _ => { tie.on_picture(Instant::from_nanos(at >> 1), (ssrc, timestamp), (ssrc, rate)); }
                }
            }
            prop_assert!(tie.reports.len() <= MOST_REPORTS);
        }
    }
}
