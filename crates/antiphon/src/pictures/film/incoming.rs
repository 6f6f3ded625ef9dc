//! Pictures put together from packets, each at its place in the sound.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use antiphon_core::{MediaTime, Unwrapper};
use antiphon_video::{
    CLOCK_RATE, Codec, Depacketiser, DepacketiserConfig, Frame, ReceivedFrame, VideoCounters,
    VideoDescription, h264,
};

use super::Shared;
use super::chain::Chain;
use super::rejoining::Rejoining;
use super::sync::SyncMeter;
use crate::pictures::queue::{About, Out};

/// The pictures that come, in the order of decoding.
pub(super) struct Incoming {
    packets: Out,
    track: Option<Track>,
    /// Whole pictures whose place in the sound has not come.
    pub frames: VecDeque<Frame>,
    shared: Arc<Shared>,
    finished: VideoCounters,
    policy: Policy,
    recorded: Recorded,
}

/// Which pictures are kept, and how long those that are not whole are waited for.
#[derive(Clone, Copy)]
pub(super) struct Policy {
    /// How long after its place in the sound a picture is waited for, in nanoseconds.
    pub grace: i64,
    /// What can't be decoded as others are missing is left out.
    pub shown: bool,
    /// Pictures of another codec than the first ones are taken as well.
    pub any_codec: bool,
}

impl Policy {
    /// A recording has what came, and waits as long as what a transport repairs takes.
    pub const RECORDED: Policy = Policy { grace: 2_000_000_000, shown: false, any_codec: false };
}

/// The pictures of one stream.
pub(super) struct Track {
    ssrc: u32,
    codec: Codec,
    pub(super) depacketiser: Depacketiser,
    /// The last time stamp, unwrapped as the depacketiser does it, in the second cycle at first.
    timestamps: Unwrapper<32>,
    /// What is added to a time stamp's time to give its place in the sound, in nanoseconds.
    pub(super) offset: Option<i64>,
    /// The same when pictures were placed last.
    placed_with: Option<i64>,
    /// The same by the last packet alone.
    seen: Option<i64>,
    /// The time of the last packet.
    last: i64,
    /// Whole pictures that came before their place was known.
    unplaced: VecDeque<(u64, Frame)>,
    pub(super) chain: Chain,
    /// Times at which it went on elsewhere in its numbers.
    restarts: u64,
    /// What is sent again to a group, and what comes meanwhile.
    pub(super) rejoining: Rejoining,
    /// Parameter sets of H.264 that its sender tells in SDP, and perhaps not in the stream.
    sets: Vec<Vec<u8>>,
    /// Of another program's H.264: no parameter sets are known yet, without which nothing can be decoded.
    lacks_sets: bool,
    policy: Policy,
}

impl Incoming {
    pub fn new(packets: Out, shared: Arc<Shared>, policy: Policy) -> Self {
        // Nothing can be decoded before the first key frame.
        shared.wants_repeats.store(true, Ordering::Relaxed);
        Incoming {
            packets,
            track: None,
            frames: VecDeque::new(),
            shared,
            finished: VideoCounters::default(),
            policy,
            recorded: Recorded::default(),
        }
    }

    /// How the pictures are compressed, once one of their packets has come.
    pub fn codec(&self) -> Option<Codec> {
        self.track.as_ref().map(|track| track.codec)
    }

    /// Takes the packets that have come, when the sound stands at this place, in nanoseconds.
    pub fn take_packets(&mut self, position: i64) {
        let mut sync = self.shared.sync();
        sync.advance(position);
        while let Some((about, packet)) = self.packets.pop() {
            if self.track.as_ref().is_none_or(|track| track.ssrc != about.ssrc) {
                let Some(next) = Track::new(&about, self.policy, self.shared.described.as_ref()) else {
                    self.shared.unknown_codec.store(true, Ordering::Relaxed);
                    continue;
                };
                let other = self.track.as_ref().is_some_and(|track| track.codec != next.codec);
                if other && !self.policy.any_codec {
                    self.shared.other_codec.store(true, Ordering::Relaxed);
                    continue;
                }
                if let Some(mut before) = self.track.replace(next) {
                    before.finish();
                    self.frames.extend(before.placed());
                    add(&mut self.finished, before.depacketiser.counters());
                }
            }
            let Some(track) = &mut self.track else { continue };
            if about.again {
                if !self.recorded.has_begun && track.begins_repeats(packet) {
                    let Some(next) = Track::new(&about, self.policy, self.shared.described.as_ref()) else {
                        continue;
                    };
                    let (before, counted) = track.rejoin(position, next);
                    // None of what came since something was missing can be decoded.
                    self.frames.extend(before.into_iter().filter(|_| self.policy.shown));
                    add(&mut self.finished, counted);
                }
                track.on_repeat(position, &about, packet);
                continue;
            }
            track.on_due(position, &about, packet);
            // What belongs before the beginning of the sound was sent later for those that follow.
            if let Some(time) = track.place_of(about.timestamp).filter(|time| *time >= 0) {
                sync.on_packet(position, time, self.policy.grace);
            }
        }
        if let Some(track) = &mut self.track {
            track.give_up_before(position);
            track.poll(|time| sync.on_whole(position, time));
            let moved = track.moved();
            self.frames.iter_mut().filter(|_| self.policy.shown).for_each(|frame| shift(frame, moved));
            let placed = track.placed();
            self.recorded.note(&mut sync, &placed, track, self.policy);
            self.frames.extend(placed);
            track.watch_chain();
            self.shared.wants_key.store(track.chain.wants_key_frame(), Ordering::Relaxed);
            let wants = track.wants_repeats() && !self.recorded.has_begun;
            self.shared.wants_repeats.store(wants, Ordering::Relaxed);
        }
        self.count();
    }

    /// What is measured of the pictures against their sound.
    pub fn sync(&self) -> MutexGuard<'_, SyncMeter> {
        self.shared.sync()
    }

    /// No more packets will come: all that waits is given.
    pub fn finish(&mut self) {
        if let Some(track) = &mut self.track {
            track.finish();
            let (placed, mut sync) = (track.placed_at_last(), self.shared.sync());
            self.recorded.note(&mut sync, &placed, track, self.policy);
            sync.advance(i64::MAX);
            drop(sync);
            self.frames.extend(placed);
        }
        self.count();
    }

    /// How long after its place in the sound a picture is waited for.
    pub fn grace(&self) -> Duration {
        Duration::from_nanos(self.policy.grace.unsigned_abs())
    }

    /// Whether more waits for its place than there is room for: a sender may say of any picture that it belongs to next week.
    pub fn is_full(&self) -> bool {
        self.frames.iter().map(|frame| frame.data.len()).sum::<usize>() > MOST_HELD
    }

    /// Nothing can be decoded until the next key frame: pictures were left out.
    pub fn break_chain(&mut self) {
        if let Some(track) = &mut self.track {
            track.chain.break_off();
        }
    }

    fn count(&self) {
        let mut all = self.finished;
        if let Some(track) = &self.track {
            add(&mut all, track.depacketiser.counters());
        }
        self.shared.whole.store(all.whole, Ordering::Relaxed);
        self.shared.broken.store(all.broken, Ordering::Relaxed);
        self.shared.missing.store(all.missing, Ordering::Relaxed);
    }

    /// So many pictures were written.
    pub fn count_written(&self, written: u64) {
        self.shared.written.store(written, Ordering::Relaxed);
    }

    /// Bytes of whole pictures that wait.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        let unplaced = self.track.iter().flat_map(|track| &track.unplaced).map(|(_, frame)| frame);
        self.frames.iter().chain(unplaced).map(|frame| frame.data.len()).sum()
    }

    #[cfg(test)]
    pub fn set_packets(&mut self, packets: Out) {
        self.packets = packets;
    }
}

impl Track {
    /// `described`: what SDP tells of pictures of another program.
    fn new(about: &About, policy: Policy, described: Option<&VideoDescription>) -> Option<Self> {
        let codec = Codec::from_encoding_name(about.encoding.as_str())?;
        let usual = DepacketiserConfig::new(codec);
        let marking = described.map_or(usual.marking, |described| described.marking);
        let config = DepacketiserConfig { reorder: REORDER, marking, ..usual };
        Some(Track {
            ssrc: about.ssrc,
            codec,
            depacketiser: Depacketiser::new(config),
            timestamps: Unwrapper::default(),
            offset: None,
            placed_with: None,
            seen: None,
            last: 0,
            unplaced: VecDeque::new(),
            chain: Chain::new(),
            restarts: 0,
            rejoining: Rejoining::default(),
            sets: described.map_or_else(Vec::new, |described| described.config.clone()),
            lacks_sets: described.is_some() && codec == Codec::H264,
            policy,
        })
    }

    pub(super) fn on_packet(&mut self, about: &About, packet: &[u8]) {
        let stamp = self.timestamps.extend(about.timestamp.into());
        self.last = nanos(stamp);
        if let Some(written) = about.written.filter(|place| place.unsigned_abs() < MOST_PLACE) {
            let seen = written - nanos(stamp);
            self.seen = Some(seen);
            // What a packet's clock adds by chance is smoothed away; another clock is followed at once. Sound that is played as it comes
            // may be made longer or shorter, which is followed at once, too.
            self.offset = Some(match self.offset {
                Some(offset) if !self.policy.shown && (seen - offset).abs() < JUMP => {
                    offset + (seen - offset) / 16
                }
                _ => seen,
            });
        }
        let _broken_packets_are_counted_as_missing = self.depacketiser.handle_packet(packet);
    }

    /// What should have come before this place in the sound is not waited for any longer.
    fn give_up_before(&mut self, position: i64) {
        let Some(offset) = self.offset else { return };
        // What comes late is waited for as long as it comes: others need it, though it can't be shown.
        let position = position.min(self.last.saturating_add(offset));
        let due = position.saturating_sub(offset).saturating_sub(self.policy.grace);
        if let Ok(due) = u64::try_from(due) {
            let stamp = u128::from(due) * u128::from(CLOCK_RATE) / 1_000_000_000;
            self.depacketiser.give_up_through(stamp as u64);
        }
    }

    /// Where the picture of this time stamp, near the last one, belongs.
    fn place_of(&self, timestamp: u32) -> Option<i64> {
        Some(nanos(self.timestamps.peek(timestamp.into())).saturating_add(self.offset?))
    }

    /// By how much places have changed since pictures were placed last.
    fn moved(&self) -> i64 {
        self.offset.zip(self.placed_with).map_or(0, |(now, before)| now.saturating_sub(before))
    }

    /// `on_whole` hears where each one that is whole belongs.
    fn poll(&mut self, mut on_whole: impl FnMut(i64)) {
        let restarts = self.depacketiser.counters().restarts;
        if std::mem::replace(&mut self.restarts, restarts) != restarts {
            self.chain.break_off();
        }
        while let Some(received) = self.depacketiser.poll_frame() {
            if let Some(offset) = self.offset.filter(|_| received.is_whole()) {
                on_whole(nanos(received.timestamp).saturating_add(offset));
            }
            self.keep(received);
        }
    }

    pub(super) fn finish(&mut self) {
        while let Some(received) = self.depacketiser.finish() {
            self.keep(received);
        }
    }

    fn keep(&mut self, received: ReceivedFrame) {
        let is_decodable = self.chain.on_picture(&received);
        if received.is_whole() && received.picture.key {
            self.on_key_frame();
        }
        let keeps = is_decodable || !self.policy.shown;
        if let Some(mut frame) = received.frame.filter(|_| keeps) {
            if frame.picture.key && self.codec == Codec::H264 {
                frame.data = h264::with_parameter_sets(frame.data, &self.sets);
                self.lacks_sets &= h264::parameter_sets(&frame.data).is_empty();
            }
            if self.lacks_sets {
                return self.chain.break_off();
            }
            self.unplaced.push_back((received.timestamp, frame));
            while self.unplaced.iter().map(|(_, frame)| frame.data.len()).sum::<usize>() > MOST_HELD {
                self.unplaced.pop_front();
                self.chain.break_off();
            }
        }
    }

    /// The pictures whose place is known. One that belongs before the beginning is there at the beginning.
    pub(super) fn placed(&mut self) -> Vec<Frame> {
        let Some(offset) = self.offset else { return Vec::new() };
        self.placed_with = Some(offset);
        let place = |(stamp, frame): (u64, Frame)| {
            let at = nanos(stamp).saturating_add(offset).max(0) as u64;
            Frame { time: MediaTime::new(at, 1_000_000_000), ..frame }
        };
        self.unplaced.drain(..).map(place).collect()
    }

    /// The same at the end: without sound that they belong to, the first one is at its beginning.
    fn placed_at_last(&mut self) -> Vec<Frame> {
        let first = self.unplaced.iter().map(|(stamp, _)| *stamp).min();
        self.offset = self.offset.or(first.map(|stamp| -nanos(stamp)));
        self.placed()
    }
}

/// The time of a time stamp, in nanoseconds.
pub(super) fn nanos(stamp: u64) -> i64 {
    (u128::from(stamp) * 1_000_000_000 / u128::from(CLOCK_RATE)) as i64
}

/// Measures where pictures stand in a recording: it has them from the first key frame on.
#[derive(Default)]
struct Recorded {
    has_begun: bool,
}

impl Recorded {
    fn note(&mut self, sync: &mut SyncMeter, placed: &[Frame], track: &Track, policy: Policy) {
        let (Some(offset), Some(seen), false) = (track.offset, track.seen, policy.shown) else { return };
        for frame in placed {
            self.has_begun |= frame.picture.key;
            if self.has_begun {
                // The file's times are milliseconds.
                let time = frame.time.frames as i64;
                let written = (time + 500_000) / 1_000_000 * 1_000_000;
                sync.on_shown(written, time.saturating_add(seen.saturating_sub(offset)));
            }
        }
    }
}

/// Moves a picture to another place.
fn shift(frame: &mut Frame, by: i64) {
    frame.time.frames = frame.time.frames.saturating_add_signed(by);
}

fn add(all: &mut VideoCounters, more: VideoCounters) {
    all.whole += more.whole;
    all.broken += more.broken;
    all.missing += more.missing;
}

/// Packets behind a gap: the sound's place ends the wait for what is missing.
const REORDER: u64 = 1 << 20;
/// Differences of clocks beyond this are another clock.
const JUMP: i64 = 20_000_000;
/// A place farther away than this, a week, is of no honest clock.
const MOST_PLACE: u64 = 7 * 86_400 * 1_000_000_000;
/// Bytes of pictures that wait for their place in the sound, or to be told it: 16 s of 8 Mbit/s.
pub(super) const MOST_HELD: usize = 16 << 20;
