//! One film in versions of different bit rates, of which the one that the path carries is sent.
//!
//! Changes take place at key frames. A lower version is taken as soon as pictures are left out, or as the path is known to carry less;
//! a higher one is tried when nothing was left out for some time, and after each trial that fails it takes longer until the next.

use std::time::Duration;

use antiphon_session::{VideoPayload, VideoSource, VideoWay};

/// The versions, in one source.
pub(super) struct Versions {
    versions: Vec<Version>,
    /// Which one is sent, and which one will be, from its next key frame on.
    current: usize,
    next: usize,
    /// The number of the unit that is sent, over all versions, and its number in its own.
    unit: u64,
    own: Option<u64>,
    /// When that unit was due.
    position: Duration,
    /// Units left out in all, and when there was one last, or a change.
    left_out: u64,
    calm_since: Duration,
    /// When the present version was first sent, if it is on trial.
    trial: Option<Duration>,
    /// How long it must be calm before a trial.
    patience: Duration,
}

struct Version {
    source: Box<dyn VideoSource>,
    /// Bytes so far, and until when.
    bytes: u64,
    until: Duration,
}

impl Versions {
    /// Of these sources of the same film; begins with the first one.
    pub fn new(sources: Vec<Box<dyn VideoSource>>) -> Self {
        let version = |source| Version { source, bytes: 0, until: Duration::ZERO };
        Versions {
            versions: sources.into_iter().map(version).collect(),
            current: 0,
            next: 0,
            unit: 0,
            own: None,
            position: Duration::ZERO,
            left_out: 0,
            calm_since: Duration::ZERO,
            trial: None,
            patience: PATIENCE,
        }
    }

    /// Reads the others as far as this one is, and changes to another at its key frame.
    fn keep_up(&mut self) {
        let position = self.position;
        let others = self.versions.iter_mut().enumerate().filter(|(at, _)| *at != self.current);
        for (_, version) in others {
            while let Some(payload) = version.source.next() {
                if payload.due > position {
                    break;
                }
                version.pass();
            }
        }
        if self.next == self.current {
            return;
        }
        // Between two units of this one.
        let current = self.versions[self.current].source.next();
        let fresh = current.filter(|payload| Some(payload.unit) != self.own);
        let Some(due) = fresh.map(|payload| payload.due) else { return };
        let wanted = self.versions[self.next].source.next();
        if wanted.is_some_and(|payload| payload.is_key && payload.part.0 == 0 && payload.due <= due) {
            (self.current, self.own) = (self.next, None);
        }
    }

    /// The version above or below that fits better, if one does.
    fn choose(&mut self, way: VideoWay) {
        let now = self.position;
        if way.left_out > self.left_out {
            let suffers = now.saturating_sub(self.calm_since) < LATELY || way.left_out > self.left_out + 1;
            (self.left_out, self.calm_since) = (way.left_out, now);
            if suffers || self.trial.is_some() {
                self.lower(now);
            }
            return;
        }
        if way.late >= LATE {
            // A recording waits for every picture: none is left out, and they come later and later.
            let is_news = now.saturating_sub(self.calm_since) >= LATELY;
            if is_news {
                self.lower(now);
            }
            return;
        }
        let rate = self.versions[self.current].rate();
        if way.rate.zip(rate).is_some_and(|(path, own)| way.is_held && path < own) {
            return self.lower(now);
        }
        if self.trial.is_some_and(|since| now.saturating_sub(since) >= TRIAL) {
            (self.trial, self.patience) = (None, PATIENCE);
        }
        let is_calm = now.saturating_sub(self.calm_since) >= self.patience;
        if is_calm && self.current == self.next && self.current + 1 < self.versions.len() {
            self.next = self.current + 1;
            (self.trial, self.calm_since) = (Some(now), now);
        }
    }

    fn lower(&mut self, now: Duration) {
        if self.trial.take().is_some() {
            self.patience = (2 * self.patience).min(LONGEST_PATIENCE);
        }
        self.calm_since = now;
        // One that was to follow has not begun.
        self.next = self.next.min(self.current);
        if self.next == self.current {
            self.next = self.current.saturating_sub(1);
        }
    }
}

impl Version {
    /// Leaves out a payload.
    fn pass(&mut self) {
        if let Some(payload) = self.source.next() {
            self.bytes += payload.bytes.len() as u64;
            self.until = self.until.max(payload.due);
        }
        self.source.take();
    }

    /// Bytes a second, once a few seconds have shown it.
    fn rate(&self) -> Option<f64> {
        (self.until >= SHOWS_RATE).then(|| self.bytes as f64 / self.until.as_secs_f64())
    }
}

impl VideoSource for Versions {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        self.keep_up();
        let payload = self.versions[self.current].source.next()?;
        if self.own != Some(payload.unit) {
            (self.own, self.unit) = (Some(payload.unit), self.unit + 1);
            self.position = payload.due;
        }
        Some(VideoPayload { unit: self.unit, ..payload })
    }

    fn take(&mut self) {
        self.versions[self.current].pass();
    }

    fn is_ended(&mut self) -> bool {
        self.versions[self.current].source.is_ended()
    }

    fn on_way(&mut self, way: VideoWay) {
        self.choose(way);
    }
}

/// Pictures that are later than this show that the path carries less.
const LATE: Duration = Duration::from_millis(500);
/// Pictures left out within this time of one another are no chance.
const LATELY: Duration = Duration::from_secs(2);
/// How long it must be calm before a higher version is tried: two distances of key frames of a usual film.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same after trials that failed.
const LONGEST_PATIENCE: Duration = Duration::from_secs(80);
/// A version that nothing was left out of for so long has passed its trial.
const TRIAL: Duration = Duration::from_secs(10);
/// How long a version is read before its rate is known.
const SHOWS_RATE: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    /// 25 pictures a second, a key frame every two seconds, one payload each.
    struct Film {
        at: u64,
        units: u64,
        bytes: Vec<u8>,
    }

    impl VideoSource for Film {
        fn next(&mut self) -> Option<VideoPayload<'_>> {
            let due = Duration::from_millis(40) * self.at as u32;
            let is_key = self.at.is_multiple_of(50);
            let (unit, bytes) = (self.at, &self.bytes[..]);
            let payload = VideoPayload {
                unit,
                part: (0, 1),
                due,
                shown: due,
                is_key,
                is_needed: true,
                layer: 0,
                bytes,
            };
            (self.at < self.units).then_some(payload)
        }

        fn take(&mut self) {
            self.at += 1;
        }

        fn is_ended(&mut self) -> bool {
            self.at == self.units
        }

        fn on_way(&mut self, _way: VideoWay) {}
    }

    fn versions(units: u64) -> Versions {
        let film = |bytes| Box::new(Film { at: 0, units, bytes: vec![0; bytes] }) as Box<dyn VideoSource>;
        Versions::new(vec![film(500), film(1_300), film(5_000)])
    }

    /// The sizes of the pictures that are sent in each second over a path that carries so many bytes of one.
    fn sent(seconds: u64, carries: impl Fn(u64) -> usize) -> Vec<usize> {
        let mut versions = versions(25 * seconds);
        let (mut sizes, mut left_out, mut units) = (vec![], 0, vec![]);
        while let Some(payload) = versions.next() {
            let (at, size, is_key) =
                (payload.due.as_millis() as u64 / 1000, payload.bytes.len(), payload.is_key);
            assert_eq!(payload.due, Duration::from_millis(40) * units.len() as u32, "each picture once");
            if sizes.last().is_some_and(|before| *before != size) {
                assert!(is_key, "a change at {at} s without a key frame");
            }
            sizes.push(size);
            units.push(payload.unit);
            left_out += u64::from(size > carries(at));
            versions.on_way(VideoWay { left_out, ..VideoWay::default() });
            versions.take();
        }
        assert!(units.windows(2).all(|pair| pair[1] == pair[0] + 1), "units are counted over all versions");
        assert_eq!(units.len() as u64, 25 * seconds);
        sizes.chunks(25).map(|second| second[0]).collect()
    }

    #[test]
    fn the_best_version_that_the_path_carries_is_sent() {
        let sizes = sent(60, |_| 6_000);
        assert_eq!(sizes.last(), Some(&5_000));
        assert!(sizes[20..].iter().all(|size| *size == 5_000), "{sizes:?}");
        let sizes = sent(120, |_| 2_000);
        let middle = sizes.iter().filter(|size| **size == 1_300).count();
        assert!(middle > 90, "trials get rarer: {sizes:?}");
        assert!(sizes.contains(&5_000), "it is tried: {sizes:?}");
    }

    #[test]
    fn a_path_that_gets_narrow_is_given_less_at_the_next_key_frame() {
        let sizes = sent(60, |second| if second < 30 { 6_000 } else { 600 });
        assert_eq!(sizes[29], 5_000);
        // Two steps down, and trials that fail.
        assert!(sizes[34..40].iter().all(|size| *size == 500), "{sizes:?}");
        let trials = sizes[40..].iter().filter(|size| **size > 500).count();
        assert!(trials <= 4, "{sizes:?}");
    }

    /// A recording gets every picture, and later and later.
    #[test]
    fn pictures_that_come_late_are_of_a_lower_version() {
        let mut versions = versions(1_500);
        (versions.current, versions.next) = (2, 2);
        let (mut sizes, mut late) = (Vec::new(), Duration::ZERO);
        while let Some(payload) = versions.next() {
            let size = payload.bytes.len();
            sizes.push(size);
            // The path carries 2000 bytes of each.
            late = (late + Duration::from_micros(20) * size as u32).saturating_sub(Duration::from_millis(40));
            versions.on_way(VideoWay { late, ..VideoWay::default() });
            versions.take();
        }
        let low = sizes[100..].iter().filter(|size| **size < 5_000).count();
        assert!(low > 1_000, "{low} of 1400");
    }

    #[test]
    fn a_path_that_is_known_to_carry_less_gets_less_before_anything_is_left_out() {
        let mut versions = versions(3_000);
        (versions.current, versions.next) = (2, 2);
        let mut sizes = Vec::new();
        while let Some(payload) = versions.next() {
            sizes.push(payload.bytes.len());
            let rate = Some(if sizes.len() < 500 { 200e3 } else { 50e3 });
            versions.on_way(VideoWay { rate, is_held: true, ..VideoWay::default() });
            versions.take();
        }
        assert_eq!((sizes[499], sizes[560]), (5_000, 1_300));
    }
}
