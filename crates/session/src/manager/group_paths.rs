//! The paths to the members of a multicast group: one stream goes to all, at a rate that the slowest of them carries.
//!
//! Each member tells when packets arrived, and has a [`SharedPath`] here. What may leave is what the fullest of these paths has room for. A
//! member whose path has no room for pictures beside the sound holds up no other that has: it could not show them at any rate. Where no member has room, all
//! count, since pictures that nobody can show would only delay the sound. Nor does one count whose reports can't be
//! true, or that stays far below the others for long while most pictures are left out for it: a member can send false reports.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::rtcp::ArrivalReport;

use super::beginning::Beginning;
use super::shared_path::MeanRate;
use super::{Budget, CongestionManager, PathFigures, SharedPath, TrackId, Uncounted};
use crate::associations::AssociationId;
use crate::packet_arrivals::LATEST;
use crate::session::MOST_VIDEO_TRACKS;

/// Shares out what the slowest path to a group carries. Where no member tells anything, everything is sent when it is due, after a first second.
///
/// A bounded number of members are followed, the slowest; of a larger group the others take turns in one place. The first of these allocate their paths;
/// nothing else allocates.
#[derive(Debug)]
pub struct GroupPaths {
    streams: usize,
    yields: bool,
    members: Vec<Member>,
    beginning: Beginning,
    /// When another one last took a member's place.
    replaced: Instant,
    sound: MeanRate,
    pictures: Pictures,
}

#[derive(Debug)]
struct Member {
    ssrc: u32,
    path: SharedPath,
    heard: Instant,
    /// When the first packet was sent since then.
    untold: Option<Instant>,
    /// It has said that it leaves, and told nothing since.
    has_left: bool,
    /// For how long it has been far below the others, less a part of the time in which it was not.
    below: Duration,
    is_left_behind: bool,
    room: Room,
}

/// Whether a path has room for pictures beside the sound. A measured rate swings, so what it says holds when it has said so for a while.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    is_lacking: bool,
    /// Since when it has been the other way round.
    changed: Option<Instant>,
}

impl Room {
    fn note(&mut self, now: Instant, is_lacking: bool) {
        if is_lacking == self.is_lacking {
            self.changed = None;
        } else if now.since(*self.changed.get_or_insert(now)) >= SURE {
            *self = Room { is_lacking, changed: None };
        }
    }
}

/// How many pictures leave.
#[derive(Debug, Default)]
struct Pictures {
    since: Instant,
    /// Begun and left out, by then.
    counted: (u64, u64),
    /// In the span before that, most were left out, or waited.
    are_few: bool,
}

impl Pictures {
    fn note(&mut self, now: Instant, begun: u64, left_out: u64) {
        if now.since(self.since) >= PICTURES_OVER {
            let (begun_by_then, left_by_then) = self.counted;
            let (sent, left) = (begun - begun_by_then, left_out - left_by_then);
            // While one waits none is left out.
            self.are_few = FAR * sent <= sent + left;
            (self.since, self.counted) = (now, (begun, left_out));
        }
    }
}

impl Member {
    /// Bytes a second that its path carries, as it tells; nothing before a second of it has arrived. What has arrived tells of a path that is
    /// sent more than its window.
    fn carries(&self) -> Option<f64> {
        let PathFigures { rate, delivered, .. } = self.path.figures();
        Some(rate?.max(delivered.unwrap_or(0.0)))
    }

    /// Whether what its path carries has been measured.
    fn is_known(&self) -> bool {
        self.path.figures().delivered.is_some()
    }

    fn lacks_room(&self) -> bool {
        self.room.is_lacking && self.is_known()
    }

    /// Whether its reports are on time. If not, it has left, or its path delivers nothing.
    fn tells(&self, now: Instant) -> bool {
        // Before its first report no answer time is known, and half of the longest interval of reports stands for it.
        let within = LATEST + self.path.answer().unwrap_or_default().max(LATEST / 2);
        !self.has_left && self.untold.is_none_or(|since| now.since(since) < within)
    }

    fn is_heard(&self, now: Instant) -> bool {
        !self.has_left && now.since(self.heard) < SILENCE
    }

    fn contradicts(&self) -> bool {
        self.path.contradictions() >= CONTRADICTIONS
    }

    /// It is far below the others, or not, and was so since it was last heard.
    fn judge(&mut self, is_far: bool, passed: Duration) {
        let passed = passed.min(LONGEST_STEP);
        self.below = match is_far {
            true => (self.below + passed).min(LONG),
            false => self.below.saturating_sub(passed / FORGIVES),
        };
        self.is_left_behind = self.below >= LONG || self.is_left_behind && !self.below.is_zero();
    }
}

impl GroupPaths {
    /// For so many streams: the channel groups of the sound, and the pictures. There is room for those that are sent again beside them.
    pub fn new(streams: usize) -> Self {
        GroupPaths::with(streams, false)
    }

    /// The same for a party of a call: those who send as well, with such managers, fill the paths of the others. None takes another for a TCP and fills
    /// the queue as that does; beside a TCP its pictures have what that leaves.
    pub fn of_call(streams: usize) -> Self {
        GroupPaths::with(streams, true)
    }

    fn with(streams: usize, yields: bool) -> Self {
        let streams = streams + MOST_VIDEO_TRACKS;
        GroupPaths {
            streams,
            yields,
            members: Vec::with_capacity(MOST),
            beginning: if yields { Beginning::of_call() } else { Beginning::default() },
            replaced: Instant::ZERO,
            sound: MeanRate::default(),
            pictures: Pictures::default(),
        }
    }

    /// Whether pictures are sent at a rate that this member carries: it tells what arrives, and has room for some beside the sound, or no other member
    /// has.
    fn counts(&self, now: Instant, member: &Member) -> bool {
        self.is_believed(now, member) && (!member.lacks_room() || !self.has_room(now))
    }

    fn is_believed(&self, now: Instant, member: &Member) -> bool {
        let is_known = member.carries().is_some() && member.is_heard(now);
        is_known && self.is_there(now, member) && !member.contradicts() && !member.is_left_behind
    }

    /// Whether it tells what comes, or none does: then the sender's own way may be what takes nothing.
    fn is_there(&self, now: Instant, member: &Member) -> bool {
        member.tells(now) || !self.members.iter().any(|other| other.tells(now))
    }

    /// Whether any member is known to have room for pictures.
    fn has_room(&self, now: Instant) -> bool {
        let mut members = self.members.iter().filter(|member| member.is_known() && !member.room.is_lacking);
        members.any(|member| self.is_believed(now, member))
    }

    /// Whether the member at `at` carries far less beside the sound than the others in the median, while most pictures are left out. One other member is no
    /// measure.
    fn is_far_below(&self, now: Instant, at: usize) -> bool {
        let (mut others, mut count) = ([0.0; MOST], 0);
        for (other, member) in self.members.iter().enumerate() {
            let is_heard = member.is_heard(now) && !member.contradicts();
            if let Some(carries) = member.carries().filter(|_| other != at && is_heard) {
                others[count] = carries;
                count += 1;
            }
        }
        let others = &mut others[..count];
        others.sort_unstable_by(f64::total_cmp);
        // Of an even number the lower one.
        let median = others.get(count.saturating_sub(1) / 2).filter(|_| count >= 2);
        let sound = self.sound.rate(now);
        let own = self.members[at].carries();
        let is_far = |(median, own): (&f64, f64)| FAR as f64 * (own - sound).max(0.0) < median - sound;
        self.pictures.are_few && median.zip(own).is_some_and(is_far)
    }

    /// Where a member is that was not known: a new place, that of one that is gone, or, now and then, that of the fastest.
    fn place_for(&mut self, now: Instant, ssrc: u32) -> Option<usize> {
        if self.members.len() < MOST {
            let path = SharedPath::new(self.streams).of_group(self.yields, self.sound);
            self.members.push(Member {
                ssrc,
                path,
                heard: now,
                untold: None,
                has_left: false,
                below: Duration::ZERO,
                is_left_behind: false,
                room: Room::default(),
            });
            return Some(self.members.len() - 1);
        }
        let gone = self.members.iter().position(|member| !member.is_heard(now));
        let turn = || {
            let rate = |member: &Member| member.path.figures().rate.unwrap_or(0.0);
            let all = self.members.iter().enumerate();
            let fastest = all.max_by(|a, b| rate(a.1).total_cmp(&rate(b.1))).map(|(at, _)| at);
            fastest.filter(|_| now.since(self.replaced) >= TURN)
        };
        let at = gone.or_else(turn)?;
        self.replaced = now;
        let member = &mut self.members[at];
        (member.ssrc, member.heard, member.untold, member.has_left) = (ssrc, now, None, false);
        (member.below, member.is_left_behind) = (Duration::ZERO, false);
        member.room = Room::default();
        member.path.forget();
        Some(at)
    }
}

impl CongestionManager for GroupPaths {
    fn on_sent(&mut self, now: Instant, on: AssociationId, track: TrackId, packet: &[u8]) {
        if track == TrackId::SOUND {
            self.sound.note(now, packet.len());
        }
        self.beginning.on_sent(now, track, packet.len());
        for member in &mut self.members {
            member.untold.get_or_insert(now);
            member.path.on_sent(now, on, track, packet);
        }
    }

    fn on_report(&mut self, now: Instant, on: AssociationId, report: &ArrivalReport<'_>) {
        let known = self.members.iter().position(|member| member.ssrc == report.ssrc);
        let is_placed = known.is_none();
        let Some(at) = known.or_else(|| self.place_for(now, report.ssrc)) else { return };
        self.beginning.on_told(now);
        let is_far = self.is_far_below(now, at);
        let member = &mut self.members[at];
        let told = member.path.told();
        member.path.on_report(now, on, report);
        if member.path.told() == told && !is_placed {
            // It is as if it were silent.
            return;
        }
        member.judge(is_far, now.since(member.heard));
        (member.heard, member.untold, member.has_left) = (now, None, false);
        let PathFigures { rate, delivered, .. } = member.path.figures();
        if let Some(rate) = rate {
            let needs = self.sound.rate(now) + LEAST_PICTURES;
            // One that tells of few packets holds up the pictures, whatever rate follows from these.
            let is_little = rate < needs || member.path.delivers_little();
            member.room.note(now, is_little && delivered.is_none_or(|delivered| delivered < needs));
        }
    }

    fn on_left(&mut self, ssrc: u32) {
        for member in self.members.iter_mut().filter(|member| member.ssrc == ssrc) {
            member.has_left = true;
        }
    }

    fn on_pictures(&mut self, now: Instant, begun: u64, left_out: u64) {
        self.pictures.note(now, begun, left_out);
    }

    fn budget(&mut self, now: Instant, track: TrackId) -> Budget {
        if track == TrackId::SOUND {
            return Budget::All;
        }
        let are_known = self.members.iter().all(|member| member.carries().is_some());
        let mut least = self.beginning.budget(now, are_known);
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

    fn known_since(&self, now: Instant) -> Option<Instant> {
        self.beginning.known_since(now)
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
        let many = |is: fn(&Member) -> bool| {
            let heard = self.members.iter().filter(|member| member.is_heard(now));
            heard.filter(|member| is(member)).count() as u16
        };
        let uncounted = Uncounted {
            contradicting: many(Member::contradicts),
            far_below: many(|member| member.is_left_behind && !member.contradicts()),
            without_room: match self.has_room(now) {
                true => many(|member| member.lacks_room() && !member.is_left_behind && !member.contradicts()),
                false => 0,
            },
        };
        match slowest {
            Some(figures) => PathFigures { uncounted, ..figures },
            // No member counts: nothing limits the pictures, and no figure of a path is known.
            None => PathFigures { uncounted, ..PathFigures::default() },
        }
    }
}

/// Members that are followed.
const MOST: usize = 16;
/// A member that tells nothing for so long has left: while pictures come it tells ten times a second.
const SILENCE: Duration = Duration::from_secs(3);
/// How often one of those that are not followed takes the place of the fastest.
const TURN: Duration = Duration::from_secs(1);
/// Reports that can't be true, of a member that counts no longer: a report that another one has overtaken can look so.
const CONTRADICTIONS: u32 = 3;
/// One that carries less beside the sound than this part of the others' median is far below them; and fewer pictures than this part leave then.
const FAR: u64 = 4;
/// For how long it may be so, and by how much slower that is forgotten.
const LONG: Duration = Duration::from_secs(10);
const FORGIVES: u32 = 4;
/// Between two reports of a member that has been silent less is known.
const LONGEST_STEP: Duration = Duration::from_millis(500);
/// Over which pictures are counted.
const PICTURES_OVER: Duration = Duration::from_secs(2);
/// For how long a path that had room must lack it, or the other way round.
const SURE: Duration = Duration::from_secs(1);
/// A path that has less room than this beside the sound, in bytes a second, is too slow for pictures: 64 kbit/s.
const LEAST_PICTURES: f64 = 8_000.0;

#[cfg(test)]
mod tests;
