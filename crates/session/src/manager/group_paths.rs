//! The paths to the members of a multicast group: one stream goes to all, at a rate that the slowest of them carries.
//!
//! Each member tells when packets arrived, and has a [`SharedPath`] here. What may leave is what the fullest of these paths has room for. A
//! member whose path has no room for pictures beside the sound holds up nobody: it could not show them at any rate.

use std::time::Duration;

use antiphon_core::{Event, Instant};
use antiphon_media::rtcp::ArrivalReport;

use super::shared_path::MeanRate;
use super::{Budget, CongestionManager, PathFigures, SharedPath, TrackId};
use crate::associations::AssociationId;

/// Shares out what the slowest path to a group carries. Where no member tells anything, everything is sent when it is due, after a first second.
///
/// A bounded number of members are followed, the slowest; of a larger group the others take turns in one place. The first of these allocate their paths;
/// nothing else allocates.
#[derive(Debug)]
pub struct GroupPaths {
    streams: usize,
    members: Vec<Member>,
    /// Bounds what is sent before any member has told anything, and until all have had the time to.
    beginning: SharedPath,
    /// When one first did.
    began: Option<Instant>,
    /// When another one last took a member's place.
    replaced: Instant,
    sound: MeanRate,
}

#[derive(Debug)]
struct Member {
    ssrc: u32,
    path: SharedPath,
    heard: Instant,
}

impl GroupPaths {
    /// For so many streams: the channel groups of the sound, and the pictures.
    pub fn new(streams: usize) -> Self {
        GroupPaths {
            streams,
            members: Vec::with_capacity(MOST),
            beginning: SharedPath::new(streams),
            began: None,
            replaced: Instant::ZERO,
            sound: MeanRate::default(),
        }
    }

    /// Whether pictures are sent at a rate that this member carries: it tells what arrives, and has room for some beside the sound. Before
    /// a second of it has arrived, nobody knows.
    fn counts(&self, now: Instant, member: &Member) -> bool {
        let PathFigures { rate: Some(rate), delivered, .. } = member.path.figures() else { return false };
        // What has arrived tells of a path that is sent more than its window.
        let carries = delivered.map_or(f64::INFINITY, |delivered| delivered.max(rate));
        now.since(member.heard) < SILENCE && carries >= self.sound.rate(now) + LEAST_PICTURES
    }

    fn is_beginning(&self, now: Instant) -> bool {
        self.began.is_none_or(|began| now.since(began) < BEGINNING)
    }

    /// Where a member is that was not known: a new place, that of one that is gone, or, now and then, that of the fastest.
    fn place_for(&mut self, now: Instant, ssrc: u32) -> Option<usize> {
        if self.members.len() < MOST {
            self.members.push(Member { ssrc, path: SharedPath::new(self.streams), heard: now });
            return Some(self.members.len() - 1);
        }
        let gone = self.members.iter().position(|member| now.since(member.heard) >= SILENCE);
        let turn = || {
            let rate = |member: &Member| member.path.figures().rate.unwrap_or(0.0);
            let all = self.members.iter().enumerate();
            let fastest = all.max_by(|a, b| rate(a.1).total_cmp(&rate(b.1))).map(|(at, _)| at);
            fastest.filter(|_| now.since(self.replaced) >= TURN)
        };
        let at = gone.or_else(turn)?;
        self.replaced = now;
        let member = &mut self.members[at];
        (member.ssrc, member.heard) = (ssrc, now);
        member.path.forget();
        Some(at)
    }
}

impl CongestionManager for GroupPaths {
    fn on_event(&mut self, _now: Instant, _on: AssociationId, _event: &Event) {}

    fn on_sent(&mut self, now: Instant, on: AssociationId, track: TrackId, packet: &[u8]) {
        if track == TrackId::SOUND {
            self.sound.note(now, packet.len());
        }
        if self.is_beginning(now) {
            self.beginning.on_sent(now, on, track, packet);
        }
        self.members.iter_mut().for_each(|member| member.path.on_sent(now, on, track, packet));
    }

    fn on_report(&mut self, now: Instant, on: AssociationId, report: &ArrivalReport<'_>) {
        let known = self.members.iter().position(|member| member.ssrc == report.ssrc);
        let Some(at) = known.or_else(|| self.place_for(now, report.ssrc)) else { return };
        self.began.get_or_insert(now);
        let member = &mut self.members[at];
        member.heard = now;
        member.path.on_report(now, on, report);
    }

    fn budget(&mut self, now: Instant, track: TrackId) -> Budget {
        let mut least = match self.is_beginning(now) {
            true => self.beginning.budget(now, track),
            false => Budget::All,
        };
        for at in 0..self.members.len() {
            let counts = self.counts(now, &self.members[at]);
            // Each is asked: what it may be sent grows with time.
            let budget = self.members[at].path.budget(now, track);
            if !counts {
                continue;
            }
            least = match (least, budget) {
                (Budget::Bytes(before, again), Budget::Bytes(bytes, _)) if before <= bytes => {
                    Budget::Bytes(before, again)
                }
                (before, Budget::All) => before,
                (_, budget) => budget,
            };
        }
        least
    }

    fn takes(&mut self, _now: Instant, _on: AssociationId, _bytes: usize, _patience: Duration) -> bool {
        true
    }

    /// Of the slowest that counts.
    fn figures(&self) -> PathFigures {
        // Those that told something lately: the newest report is about now.
        let Some(now) = self.members.iter().map(|member| member.heard).max() else {
            return PathFigures::default();
        };
        let counted = self.members.iter().filter(|member| self.counts(now, member));
        let figures = counted.map(|member| member.path.figures());
        let rate = |one: &PathFigures| one.rate.unwrap_or(f64::INFINITY);
        let slowest = figures.min_by(|a, b| rate(a).total_cmp(&rate(b)));
        // Where none counts nothing bounds the pictures, and no figure is known.
        slowest.unwrap_or_default()
    }
}

/// Members that are followed.
const MOST: usize = 16;
/// A member that tells nothing for so long has left: while pictures come it tells ten times a second.
const SILENCE: Duration = Duration::from_secs(3);
/// By then every member has told something, as each does within a tenth of a second of what comes.
const BEGINNING: Duration = Duration::from_millis(300);
/// How often one of those that are not followed takes the place of the fastest.
const TURN: Duration = Duration::from_secs(1);
/// A path that has less room than this beside the sound, in bytes a second, is too slow for pictures: 64 kbit/s.
const LEAST_PICTURES: f64 = 8_000.0;

#[cfg(test)]
mod tests {
    use antiphon_core::Rng;
    use antiphon_media::rtcp::{ArrivalReportWriter, PacketArrival};

    use super::*;

    const ON: AssociationId = AssociationId(0);

    fn packet(ssrc: u32, number: u16) -> Vec<u8> {
        let mut bytes = vec![0; 1_000];
        bytes[2..4].copy_from_slice(&number.to_be_bytes());
        bytes[8..12].copy_from_slice(&ssrc.to_be_bytes());
        bytes
    }

    /// A member tells that packets from the number `first` on have come.
    fn tell(paths: &mut GroupPaths, now: Instant, member: u32, first: u16, count: usize) {
        let mut buf = [0; 600];
        let mut writer = ArrivalReportWriter::new(member, &mut buf).unwrap();
        let came = (0..count).map(|_| PacketArrival::Arrived(Some(Duration::ZERO)));
        writer.stream(7, first, came);
        let len = writer.finish(0);
        paths.on_report(now, ON, &ArrivalReport::parse(&buf[..len]).unwrap());
    }

    #[test]
    fn a_thousand_members_take_the_memory_of_a_few() {
        let (mut paths, mut rng) = (GroupPaths::new(2), Rng::new(1));
        for n in 0..1_000u16 {
            let now = Instant::from_millis(20 * u64::from(n));
            paths.on_sent(now, ON, TrackId::FIRST_PICTURES, &packet(7, n));
            for _ in 0..10 {
                tell(&mut paths, now + Duration::from_millis(10), rng.next_u32() % 1_000, n, 1);
            }
            let _any = paths.budget(now, TrackId::FIRST_PICTURES);
        }
        assert_eq!(paths.members.len(), MOST);
    }

    #[test]
    fn nobody_who_tells_nothing_bounds_anything() {
        let mut paths = GroupPaths::new(2);
        for n in 0..300 {
            let now = Instant::from_millis(20 * u64::from(n));
            paths.on_sent(now, ON, TrackId::FIRST_PICTURES, &packet(7, n));
            let budget = paths.budget(now, TrackId::FIRST_PICTURES);
            assert_eq!(budget == Budget::All, n >= 50, "{n}: {budget:?}");
        }
        // One that told something, and then no more, is gone.
        tell(&mut paths, Instant::from_millis(6_000), 1, 290, 10);
        paths.on_sent(Instant::from_millis(6_010), ON, TrackId::FIRST_PICTURES, &packet(7, 300));
        let now = Instant::from_millis(6_400);
        tell(&mut paths, now, 1, 300, 1);
        assert_ne!(paths.budget(now, TrackId::FIRST_PICTURES), Budget::All);
        assert_eq!(paths.budget(now, TrackId::SOUND), Budget::All);
        assert_eq!(paths.budget(now + SILENCE, TrackId::FIRST_PICTURES), Budget::All);
    }
}
