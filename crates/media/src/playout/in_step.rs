//! A playout buffer whose schedule somebody else tells, so that several receivers play the same sample frame at the same time.
//!
//! While it is told, a playout delay that adapts does not: all of the delay is the teller's. The sound is played unchanged, and what is missing at its
//! time is concealed.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime};

use super::elastic::Elastic;
use super::{Clocking, MAX_PACKET_FRAMES, Playout, Pulled};

impl Playout {
    /// The sample frame of RTP's time stamp `timestamp` was captured at `captured`, in nanoseconds of our clock, and is played
    /// `delay` after that: the schedule no longer follows arrivals. Returns whether it does so: not before the first packet, where nothing
    /// is late, and where there is no room for so much sound.
    pub fn keep_in_step(&mut self, timestamp: u32, captured: i64, delay: Duration) -> bool {
        let hurries = !matches!(self.config.clocking, Clocking::Unhurried { .. });
        let room = MediaTime::new(
            self.capacity().saturating_sub(MAX_PACKET_FRAMES as u64),
            self.config.format.rate(),
        );
        let Some(position) = self.position.filter(|_| hurries && delay <= room.duration()) else {
            return false;
        };
        self.moved |= !self.clock.is_told();
        let ahead = timestamp.wrapping_sub(position as u32) as i32;
        self.clock.tell(position.saturating_add_signed(ahead.into()), captured);
        self.config.playout_delay = delay;
        true
    }

    /// The schedule follows arrivals again, `delay` after an undelayed one. A delay that adapts goes on from the one in force instead.
    pub fn leave_step(&mut self, delay: Duration) {
        self.clock.follow_arrivals();
        if self.elastic.is_none() {
            self.config.playout_delay = delay;
        }
    }

    /// [`Self::pull`] of a buffer whose delay adapts when nobody tells the schedule.
    pub(super) fn pull_in_step(&mut self, now: Instant, out: &mut [f32], elastic: &mut Elastic) -> Pulled {
        let channels = self.config.format.channels();
        // What it is to be later is learnt all the while.
        let lost = self.counters().lost;
        if let Some(schedule) = self.clock.offset() {
            elastic.target.advance(now, schedule, lost);
        }
        // The last piece that was changed has left the buffer.
        let before = elastic.take_pending(out, channels);
        let mut pulled = Pulled { media: self.position, ..Pulled::default() };
        if before * channels < out.len() {
            pulled = self.pull_fixed(now, &mut out[before * channels..]);
        }
        pulled.frames += before;
        pulled.media = pulled.media.map(|media| media.saturating_sub(before as u64));
        elastic.heard(&out[..pulled.frames * channels]);
        pulled
    }
}

#[cfg(test)]
mod tests {
    use crate::packet::MediaPacket;
    use crate::playout::{AdaptiveDelay, ClockedPlayout, PlayoutConfig};
    use crate::{SampleFormat, StreamFormat, codec};

    use super::*;

    const FRAMES: u64 = 256;
    /// Milliseconds from the capture of a sample frame until its packet comes at the earliest, and how much later it may come.
    const PATH: u64 = 20;
    const JITTER: u64 = 3;
    /// When the schedule begins to be told and when it ends, in milliseconds.
    const TOLD: std::ops::Range<u64> = 10_000..20_000;
    const WISH: Duration = Duration::from_millis(80);

    /// Each sample frame tells its place, so that what is heard shows when it was captured.
    fn sound(frame: u64) -> f32 {
        frame as f32 / 4e6
    }

    fn insert(playout: &mut Playout, number: u64, at: Instant) {
        let start = number * FRAMES;
        let samples: Vec<f32> = (start..start + FRAMES).map(sound).collect();
        let mut payload = vec![0; samples.len() * 4];
        codec::encode(SampleFormat::F32, &samples, &mut payload);
        let packet = MediaPacket {
            sequence: 65_536 + number,
            timestamp: (1 << 32) + start,
            frames: samples.len(),
            lead: 0,
            coding: SampleFormat::F32.into(),
            channels: 1,
            recovered: false,
            payload: &payload,
        };
        playout.insert(at, &packet);
    }

    /// Milliseconds from capture to the device at each pull, with the time of the pull.
    fn delays(packets: u64) -> Vec<(u64, f64)> {
        let format = StreamFormat::new(48_000, 1).unwrap();
        let config = PlayoutConfig {
            adapts: Some(AdaptiveDelay::default()),
            ..PlayoutConfig::new(format, Duration::ZERO, Clocking::Sink)
        };
        let mut device = ClockedPlayout::new(config, 48_000, FRAMES as usize).unwrap();
        let (mut block, mut all) = ([0.0; FRAMES as usize], Vec::new());
        for number in 0..packets {
            let now = Instant::from_nanos(number * FRAMES * 1_000_000_000 / 48_000);
            let ms = now.as_nanos() / 1_000_000;
            match TOLD.contains(&ms) {
                true => {
                    let kept = device.playout_mut().keep_in_step(0, 0, WISH);
                    assert_eq!(kept, device.playout().adapted().is_none());
                }
                false if device.playout().clock().is_told() => {
                    device.playout_mut().leave_step(Duration::ZERO);
                }
                false => {}
            }
            device.pull(now, &mut block);
            let place = f64::from(block[0]) * 4e6 / 48.0;
            if place > 0.0 {
                all.push((ms, now.as_nanos() as f64 / 1e6 - place));
            }
            let came = (PATH + number * 7 % (JITTER + 1)) * 1_000_000;
            insert(device.playout_mut(), number, now + Duration::from_nanos(came));
        }
        all
    }

    #[test]
    fn a_delay_that_adapts_yields_to_a_told_schedule_and_goes_on_after_it() {
        let all = delays(40_000 * 48 / FRAMES);
        let within = |range: std::ops::Range<u64>| {
            let part = all.iter().filter(|(ms, _)| range.contains(ms)).map(|(_, delay)| *delay);
            part.fold((f64::MAX, f64::MIN), |(least, most), delay| (least.min(delay), most.max(delay)))
        };
        let adapted = within(9_000..TOLD.start);
        assert!(adapted.1 < 45.0, "it has come down from 100 ms: {adapted:?}");
        let told = within(TOLD.start + 300..TOLD.end);
        assert!(told.0 > 79.5 && told.1 < 80.5, "at once, and not by resampling: {told:?}");
        let after = within(35_000..39_000);
        assert!(after.1 < 45.0, "it adapts again: {after:?}");
    }
}
