//! Sends one medium: blocks pulled from a source, cut into packets, kept in a store, and sent when and as often as the
//! protector says.
//!
//! The channels may be divided into groups: each block then becomes a packet of every group, at the same media time,
//! each group under an SSRC of its own and, where the transport has enough streams, on a stream of its own.

mod config;
mod counted_clock;
mod lane;
mod tag;

use std::ops::Range;
use std::time::Duration;

use antiphon_core::{BitRate, Epoch, Instant, MediaTime, sooner};
use antiphon_media::packet::{PacketConfig, PacketError, Packetiser};
use antiphon_media::playout::ClockedError;
use antiphon_media::{LivePace, OnClock, Pull, Source};

use crate::least::Least;
use crate::protect::{Emit, Protector, Repeat};
use crate::spool::Spool;
use crate::store::{Store, StoreRoom, Stored};
pub use config::{SendTrackConfig, SendTrackCounters};
use counted_clock::CountedClock;
use lane::{Lane, longest_message, messages_of_a_block};
pub(crate) use tag::{NUMBER_BITS, NUMBER_MASK, number_of, programme_of, tag};

/// A medium that is sent.
pub struct SendTrack {
    source: Box<dyn Source>,
    /// One for each channel group.
    lanes: Vec<Lane>,
    /// Messages that a block becomes.
    messages: usize,
    config: SendTrackConfig,
    block: Vec<f32>,
    buf: Vec<u8>,
    /// Bytes that a packet may have now, no more than `buf` has.
    most: usize,
    store: Store,
    protector: Box<dyn Protector>,
    /// When the first sample of the track was captured; set when it starts.
    start: Option<Instant>,
    /// What the time stamps count, if they do not begin anywhere.
    clock: Option<CountedClock>,
    /// Of a live source then: its sound by that clock.
    on_clock: Option<Box<OnClock>>,
    /// Blocks of a live source that leave together where it gives several at once.
    run: u32,
    /// Set for a live source.
    live: Option<LivePace>,
    /// When a live source that does not wake the participant is asked next.
    ask_again: Instant,
    /// Sample frames due so far, pulled or not.
    position: u64,
    ended: bool,
    /// A source that can wait is not pulled while the store is full of what is to be kept.
    waits: bool,
    /// Messages are kept for a recording.
    records: bool,
    counters: SendTrackCounters,
    /// When the sample frame 0 would have been captured, by the participant's clock in nanoseconds, as the least delayed of
    /// its blocks show.
    captured: Least,
}

impl SendTrack {
    /// A track of `source`, whose format must be that of `config.packet`. One block is pulled for each packet: longer
    /// blocks that `ptime` or the path divides are pulled as several shorter ones, each due at its own time,
    /// or a few at once where that would be thousands of times a second.
    pub fn new(source: Box<dyn Source>, mut config: SendTrackConfig) -> Result<Self, PacketError> {
        let asked = config.packet;
        config.packet.block_frames = asked.one_packet_block(config.groups)?;
        let run = asked.blocks_together(config.packet.block_frames);
        let packetisers = Packetiser::for_groups(config.packet, config.groups, config.seed)?;
        let frames = config.packet.block_frames as usize;
        let samples = frames * config.packet.format.channels();
        let lane = |(packetiser, channels): (Packetiser, Range<usize>)| Lane {
            part: vec![0.0; if config.groups.count() > 1 { frames * channels.len() } else { 0 }],
            channels,
            packetiser,
            made: 0,
        };
        let lanes: Vec<Lane> = packetisers.into_iter().zip(config.groups.ranges()).map(lane).collect();
        let block_time = MediaTime::new(frames as u64, config.packet.format.rate()).duration();
        let messages = messages_of_a_block(&lanes, frames)?;
        let protector = Repeat::new(config.protect, block_time / messages as u32);
        let longest = longest_message(lanes.iter().map(|lane| lane.packetiser.config()));
        let remembered = protector.remembers().max(messages);
        Ok(SendTrack {
            source,
            block: vec![0.0; samples],
            buf: vec![0; config.packet.max_packet],
            most: config.packet.max_packet,
            store: Store::new(StoreRoom::within(config.keeps, longest, remembered)),
            protector: Box::new(protector),
            lanes,
            messages,
            config,
            start: None,
            clock: None,
            on_clock: None,
            run,
            live: None,
            ask_again: Instant::ZERO,
            position: 0,
            ended: false,
            waits: false,
            records: false,
            counters: SendTrackCounters::default(),
            captured: Least::default(),
        })
    }

    /// Messages of this track, copies included, that wait when a machine stalls for as long as senders catch up with.
    pub fn messages_of_a_stall(&self) -> usize {
        self.messages * messages_of_a_stall(self.block_time()) * self.protector.copies() as usize
    }

    fn block_time(&self) -> Duration {
        MediaTime::new(self.config.packet.block_frames.into(), self.config.packet.format.rate()).duration()
    }

    /// Has the time stamps count a clock, which was read just now: when, by the run's clock, and what it showed since its epoch. Each is then
    /// that of its sample frame by that clock, as `mediaclk:direct=0` promises (RFC 7273 §5.2), whatever becomes of the schedule. A live source, which
    /// has a clock of its own, is resampled to that one ([`OnClock`]).
    ///
    /// # Errors
    ///
    /// If its rate can't be resampled.
    pub fn count_clock(&mut self, reading: (Instant, Duration)) -> Result<(), ClockedError> {
        if self.source.is_live() {
            let block = self.config.packet.block_frames as usize;
            self.on_clock = Some(Box::new(OnClock::new(&*self.source, block)?));
        }
        self.clock = Some(CountedClock::new(reading));
        if let Some(start) = self.start {
            self.set_start(start);
        }
        Ok(())
    }

    /// Whether the time stamps count a clock.
    pub(crate) fn counts_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// That clock is read again: about once a second.
    pub(crate) fn read_clock(&mut self, reading: (Instant, Duration)) {
        let was_set = self.clock.as_mut().is_some_and(|clock| clock.read(reading));
        if let (true, Some(start)) = (was_set, self.start) {
            self.counters.clock_steps += 1;
            self.set_start(start);
        }
    }

    /// Begins at `at`: the first block is due one block later. What a live source gathered before is left out.
    pub fn begin(&mut self, at: Instant) {
        if self.start.is_none() {
            self.on_clock.iter_mut().for_each(|on_clock| on_clock.begin(&mut *self.source));
            self.set_start(at);
        }
    }

    /// Sample frame 0 is captured at `start`, or would have been if the schedule had always been this one.
    fn set_start(&mut self, start: Instant) {
        let Some(clock) = &self.clock else {
            self.start = Some(start);
            return;
        };
        let (stamp, start) = clock.frame_from(start, self.config.packet.format.rate());
        self.start = Some(start);
        self.lanes.iter_mut().for_each(|lane| lane.packetiser.set_first_timestamp(stamp));
    }

    /// Makes the messages of every block that is due, and hands them to the protector.
    pub fn advance(&mut self, now: Instant) {
        if self.start.is_none_or(|start| start > now) {
            return;
        }
        self.catch_up(now);
        if let Some(on_clock) = &mut self.on_clock {
            on_clock.gather(now, &mut *self.source);
            self.counters.skipped_frames = on_clock.skipped_frames();
        }
        while let Some(due) = self.next_block(now) {
            match self.pull(due) {
                Pull::Frames(frames) => self.make(now, due, frames),
                Pull::Starved => {
                    self.starve();
                    break;
                }
                Pull::End => {
                    self.make_last(now, due);
                    self.ended = true;
                }
            }
        }
        self.ask_again = now + TRY_AGAIN;
    }

    /// Fills the block that is due at `due`.
    fn pull(&mut self, due: Instant) -> Pull {
        let Some(on_clock) = &mut self.on_clock else { return self.source.pull(&mut self.block) };
        let (pulled, lacks) = on_clock.pull(due, &mut self.block, &*self.source);
        self.counters.starved += u64::from(lacks);
        pulled
    }

    /// Whether the source paces the track.
    fn follows_source(&self) -> bool {
        self.source.is_live() && self.on_clock.is_none()
    }

    /// How long a block waits once its last sample frame has been captured.
    fn hold(&self) -> Duration {
        let held = self.on_clock.as_ref().map(|on_clock| on_clock.delay());
        held.map_or(Duration::ZERO, |delay| delay.saturating_sub(self.block_time()))
    }

    /// When the last sample of the next block was captured, if that instant has come. A live source has a clock of its
    /// own: a block is due when it is available.
    fn next_block(&mut self, now: Instant) -> Option<Instant> {
        if self.ended || self.is_held_up() {
            return None;
        }
        let packet = &self.config.packet;
        let (block, rate) = (packet.block_frames as usize, packet.format.rate());
        if !self.follows_source() {
            if self.live.take().is_some() {
                // The source had looked live but is a recording: from here on the run's clock paces it.
                self.set_start(now - MediaTime::new(self.position, rate).duration());
            }
            return self.due().filter(|due| *due <= now);
        }
        if self.records {
            // Nothing is left out of a recording, however old it is by now.
            let ready = self.source.ready();
            return (ready.frames >= block || ready.ended).then_some(now);
        }
        let pace = self.live.get_or_insert_with(|| LivePace::new(block, rate).in_runs_of(self.run));
        let is_due = pace.poll(now, &mut *self.source);
        self.counters.skipped_frames = pace.skipped_frames();
        is_due.then_some(now)
    }

    /// When the next block is due by the schedule.
    fn due(&self) -> Option<Instant> {
        let end_of_block = self.position + u64::from(self.config.packet.block_frames);
        let start = self.start.filter(|_| !self.ended)?;
        let end_of_block = MediaTime::new(end_of_block, self.config.packet.format.rate()).duration();
        Some(start + end_of_block + self.hold())
    }

    fn starve(&mut self) {
        // Later sound follows directly on earlier sound: the schedule waits, media time does not jump.
        self.counters.starved += 1;
        if let Some(start) = self.start {
            self.set_start(start + TRY_AGAIN);
        }
    }

    fn make(&mut self, now: Instant, due: Instant, frames: usize) {
        let channels = self.config.packet.format.channels();
        self.counters.blocks += 1;
        self.position += frames as u64;
        let sound = MediaTime::new(self.position, self.config.packet.format.rate()).duration();
        self.captured.note(now, now.as_nanos() as i64 - sound.as_nanos() as i64);
        let ntp = self.config.epoch.ntp(now);
        let (store, protector, counters) = (&mut self.store, &mut self.protector, &mut self.counters);
        for (group, lane) in self.lanes.iter_mut().enumerate() {
            let (packetiser, made, sound) = lane.pick(&self.block[..frames * channels], channels);
            packetiser.packetise(sound, ntp, &mut self.buf[..self.most], |info, bytes| {
                counters.messages += 1;
                counters.media_bytes += info.payload as u64;
                let number = store.push(group, *made, info, due, bytes);
                *made += 1;
                protector.on_message(now, number, store);
            });
        }
    }

    /// Sound that a codec has not given yet comes out with the silence after it.
    fn make_last(&mut self, now: Instant, due: Instant) {
        let unsent = self.lanes.iter().map(|lane| lane.packetiser.unsent()).max().unwrap_or(0);
        if unsent > 0 {
            self.block.fill(0.0);
            self.make(now, due, unsent.min(self.config.packet.block_frames as usize));
        }
    }

    /// Wall-clock time of the run's clock from now on.
    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        self.config.epoch = epoch;
    }

    /// The next packets tell the format, as the first ones did: a receiver has come.
    pub(crate) fn tell_format(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.packetiser.tell_format());
    }

    /// An RTP time stamp, and when its sample frame was captured; `None` before any was.
    pub(crate) fn captured(&self) -> Option<(u32, Instant)> {
        let start = self.start.filter(|_| self.position > 0)?;
        let sound = MediaTime::new(self.position, self.config.packet.format.rate()).duration();
        let at = match self.follows_source() {
            true => Instant::from_nanos((self.captured.get()? + sound.as_nanos() as i64).max(0) as u64),
            false => start + sound,
        };
        Some((self.packetiser().timestamp_at(self.position), at))
    }

    /// When a packet leaves whose time stamp is that of the track's beginning: what is captured beside the sound at a media time
    /// has the clock of this instant and that time, as the sound's packets of that time have. `None` before it began.
    pub(crate) fn origin(&self) -> Option<Instant> {
        let start = self.start?;
        let origin = match self.follows_source() {
            true => Instant::from_nanos(self.captured.get()?.max(0) as u64),
            false => start + self.hold(),
        };
        let packet = &self.config.packet;
        let ahead = packet.block_frames as usize + packet.coding.look_ahead();
        Some(origin + MediaTime::new(ahead as u64, packet.format.rate()).duration())
    }

    /// From now on packets have at most so many bytes: no path to a peer carries more. Those that were made stay as they are.
    pub fn set_max_packet(&mut self, most: usize) {
        self.most = most.min(self.buf.len());
    }

    /// After a stall of many blocks, moves the schedule instead of sending all of them at once.
    fn catch_up(&mut self, now: Instant) {
        let (Some(start), Some(due)) = (self.start, self.due()) else { return };
        let behind = now.since(due);
        if behind > MOST_BEHIND && !self.follows_source() {
            self.set_start(start + behind);
            self.counters.stalls += 1;
        }
    }

    /// The next message to send.
    pub fn poll(&mut self, now: Instant) -> Option<Emit> {
        self.protector.poll(now)
    }

    /// The longest message that the track makes, in bytes: known before the first one is made.
    pub fn longest_message(&self) -> usize {
        longest_message(self.packets())
    }

    /// The messages that are remembered.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether messages can be kept for a recording.
    pub(crate) fn can_keep(&self) -> bool {
        self.config.keeps > 0
    }

    /// Messages from `number` on are kept, as far as there is room, and with `waits` a source that can wait is not pulled
    /// while there is none; `u64::MAX`: none are kept.
    pub(crate) fn keep_from(&mut self, number: u64, waits: bool) {
        self.store.keep_from(number);
        (self.waits, self.records) = (waits, number != u64::MAX);
    }

    /// What is to be kept of a live source, and memory has no room for, waits in `spool`.
    pub fn set_spool(&mut self, spool: Box<dyn Spool>) {
        self.store.set_spool(spool);
    }

    /// Fetches what waits in the spool.
    pub(crate) fn refill(&mut self) {
        self.store.refill();
    }

    /// Whether the source waits until messages that are kept have been confirmed.
    pub fn is_held_up(&self) -> bool {
        self.waits && !self.source.is_live() && self.store.is_full(self.messages)
    }

    /// When [`Self::advance`] or [`Self::poll`] has something to do; `None` once the source has ended and all is sent, and before
    /// it begins.
    pub fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.next_advance(), self.protector.poll_timeout())
    }

    /// When [`Self::advance`] has something to do.
    pub fn next_advance(&self) -> Option<Instant> {
        if self.is_held_up() {
            return None;
        }
        if !self.follows_source() {
            return self.due();
        }
        let start = self.start.filter(|_| !self.ended)?;
        let asked = self.ask_again > start;
        if self.records && asked {
            // All that was ready has been pulled; the source wakes the participant when there is more.
            return (!self.config.woken).then_some(self.ask_again);
        }
        let Some(pace) = &self.live else { return Some(start) };
        sooner(pace.poll_timeout(), (!self.config.woken).then_some(self.ask_again))
    }

    /// Whether every transmission of every message has been due.
    pub fn is_drained(&self) -> bool {
        self.ended && self.protector.poll_timeout().is_none()
    }

    /// Ends the track before its source does.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether the source has ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Sample frames of its source, where it is known to end.
    pub fn length(&self) -> Option<u64> {
        self.source.length()
    }

    /// Whether the source delivers sound as it is captured.
    pub fn is_live(&self) -> bool {
        self.source.is_live()
    }

    /// How often each message is sent.
    pub fn copies(&self) -> u32 {
        self.protector.copies()
    }

    /// Channels, those of all groups together.
    pub fn channels(&self) -> usize {
        self.config.packet.format.channels()
    }

    /// The packetiser of the first channel group, for its numbers.
    pub fn packetiser(&self) -> &Packetiser {
        &self.lanes[0].packetiser
    }

    /// The SSRC of each channel group.
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> {
        self.lanes.iter().map(|lane| lane.packetiser.ssrc())
    }

    /// Goes on under other SSRCs, one for each channel group.
    pub(crate) fn set_ssrcs(&mut self, ssrcs: &[u32]) {
        let Some(sender) = ssrcs.first() else { return };
        for (lane, ssrc) in self.lanes.iter_mut().zip(ssrcs) {
            lane.packetiser.set_ssrc(*ssrc, *sender);
        }
    }

    /// The SSRC of a channel group.
    pub fn ssrc_of(&self, group: usize) -> u32 {
        self.lanes[group].packetiser.ssrc()
    }

    /// RTP's time stamp of what was captured at the beginning of a message's block: sender reports tell the time of this one
    /// (RFC 3550 §6.4.1), whatever a codec delays.
    pub(crate) fn captured_at(&self, stored: &Stored) -> u32 {
        self.lanes[stored.group].packetiser.timestamp_at(stored.info.media.frames)
    }

    /// What SDP says of each channel group.
    pub fn packets(&self) -> impl Iterator<Item = &PacketConfig> {
        self.lanes.iter().map(|lane| lane.packetiser.config())
    }

    /// Bits of sound a second, without headers.
    pub(crate) fn bandwidth(&self) -> BitRate {
        BitRate(self.packets().map(|packet| u64::from(packet.bandwidth())).sum())
    }

    /// Totals.
    pub fn counters(&self) -> SendTrackCounters {
        self.counters
    }
}

/// Messages, one each `interval`, for which an endpoint reserves memory (`Endpoint::reserve`): those of a track that
/// wait when a machine stalls for as long as senders catch up with.
pub fn messages_of_a_stall(interval: Duration) -> usize {
    // Those of the stall; as many in the silence after it, since time-outs that have doubled meanwhile take as long
    // again; and as many that wait behind them until the window has opened.
    let time = 3 * MOST_BEHIND;
    time.as_nanos().div_ceil(interval.as_nanos().max(1)) as usize
}

/// How soon a source that had no block is asked again: well under the shortest usual block.
const TRY_AGAIN: Duration = Duration::from_millis(1);
/// How far behind its schedule a sender may fall before it gives up catching up.
const MOST_BEHIND: Duration = Duration::from_millis(250);
#[cfg(test)]
mod tests;
