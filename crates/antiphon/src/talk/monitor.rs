//! The own sound of a call beside the peer's, as late as the peer hears it.
//!
//! What is pulled from the source is copied into a ring, and each block for the sink gets as much of it added, so much later. Both
//! happen on the media thread; the ring is there since sources may be pulled on another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_media::{
    Pull, Ready, SampleFormat, SinkError, Source, StreamFormat, Wake, pulled_through, pushed_through,
};
use antiphon_session::{OpenSink, converted};
use rtrb::{Consumer, Producer, RingBuffer};

/// How late the own sound is to be played; on any thread.
#[derive(Clone, Debug, Default)]
pub(super) struct MonitorDelay(Arc<AtomicU64>);

impl MonitorDelay {
    /// From the source's giving it to the sink's getting it.
    pub fn set(&self, delay: Duration) {
        let nanos = u64::try_from(delay.min(LONGEST).as_nanos()).unwrap_or(u64::MAX);
        // Zero says that it is not known.
        self.0.store(nanos.max(1), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Duration> {
        Some(self.0.load(Ordering::Relaxed)).filter(|nanos| *nanos > 0).map(Duration::from_nanos)
    }
}

/// `source`, of which a copy is played beside what the sinks of `open` get, later by a delay that is set while it runs.
pub(super) fn monitored(
    source: Box<dyn Source>,
    open: OpenSink,
    delay: &MonitorDelay,
) -> (Box<dyn Source>, OpenSink) {
    let format = source.format();
    let room = frames(LONGEST + ROOM, format.rate()) * format.channels();
    let (copy, copied) = RingBuffer::new(room);
    let echo = Echo { ring: copied, format, delay: delay.clone(), flows: false, margin: 0 };
    (with_copy(source, copy), with_echo(open, echo))
}

fn frames(time: Duration, rate: u32) -> usize {
    (time.as_secs_f64() * f64::from(rate)) as usize
}

/// `source`, of whose sound a copy goes into a ring.
fn with_copy(source: Box<dyn Source>, mut copy: Producer<f32>) -> Box<dyn Source> {
    let channels = source.format().channels();
    pulled_through(source, move |source, block| {
        let pulled = source.pull(block);
        if let Pull::Frames(frames) = pulled {
            let sound = &block[..frames * channels];
            // The ring is full while the sink plays nothing yet: whole blocks are left out.
            if copy.slots() >= sound.len() {
                let _all_of_it = copy.push_partial_slice(sound);
            }
        }
        pulled
    })
}

/// The copy as a source: silence until as much waits as the delay asks for.
struct Echo {
    ring: Consumer<f32>,
    format: StreamFormat,
    delay: MonitorDelay,
    flows: bool,
    /// By how many sample frames more must wait than the delay asks for: sound comes and goes in blocks.
    margin: usize,
}

impl Echo {
    /// Leaves out what is older than the delay, and waits while less than that is there.
    fn align(&mut self) {
        let channels = self.format.channels();
        let waiting = self.ring.slots() / channels;
        let Some(delay) = self.delay.get() else {
            self.flows = false;
            // The newest is kept, so that the delay has something to begin with.
            return self.leave_out(waiting.saturating_sub(frames(LONGEST, self.format.rate())));
        };
        let wanted = frames(delay, self.format.rate()) + self.margin;
        let slack = frames(SLACK, self.format.rate());
        if waiting + slack < wanted {
            self.flows = false;
        } else if !self.flows && waiting >= wanted || waiting > wanted + slack {
            self.leave_out(waiting - wanted);
            self.flows = true;
        }
    }

    fn leave_out(&mut self, frames: usize) {
        if let Ok(chunk) = self.ring.read_chunk(frames * self.format.channels()) {
            chunk.commit_all();
        }
    }
}

impl Source for Echo {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::F32
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        self.align();
        block.fill(0.0);
        if self.flows {
            let (_got, rest) = self.ring.pop_partial_slice(block);
            // It ran out: blocks are longer than the delay, or the two clocks differ.
            self.flows = rest.is_empty();
            self.margin += rest.len() / self.format.channels();
            self.margin = self.margin.min(frames(SLACK, self.format.rate()));
        }
        Pull::Frames(block.len() / self.format.channels())
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_live(&self) -> bool {
        false
    }

    fn ready(&self) -> Ready {
        Ready::ALWAYS
    }

    fn keep_newest(&mut self, _frames: usize) -> u64 {
        0
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// The sinks of `open`, the first of which also plays `echo`.
fn with_echo(mut open: OpenSink, echo: Echo) -> OpenSink {
    let mut echo = Some(echo);
    Box::new(move |format, sample| {
        let inner = open(format, sample)?;
        let Some(echo) = echo.take() else { return Ok(inner) };
        let wanted = inner.format();
        let mut echo = converted(Box::new(echo), wanted, None).map_err(|error| error.to_string())?;
        let most = BLOCK * wanted.channels();
        let (mut own, mut sum) = (vec![0.0; most], vec![0.0; most]);
        Ok(pushed_through(inner, move |sink, block| {
            let mut dropped = 0;
            for part in block.chunks(most) {
                let (own, sum) = (&mut own[..part.len()], &mut sum[..part.len()]);
                own.fill(0.0);
                // What it does not give is silence.
                let _gave = echo.pull(own);
                for ((sum, one), other) in sum.iter_mut().zip(part).zip(&*own) {
                    *sum = one + other;
                }
                match sink.push(sum) {
                    Ok(()) => {}
                    Err(SinkError::Overrun { dropped: frames }) => dropped += frames,
                    Err(error) => return Err(error),
                }
            }
            if dropped > 0 { Err(SinkError::Overrun { dropped }) } else { Ok(()) }
        }))
    })
}

/// Sample frames that are mixed at a time.
const BLOCK: usize = 1024;
/// The longest delay; a longer one is played as this.
const LONGEST: Duration = Duration::from_secs(2);
/// Sound that may wait beyond that: blocks of the source.
const ROOM: Duration = Duration::from_millis(500);
/// By how much the sound may be too late before some of it is left out: more than blocks and threads vary.
const SLACK: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests {
    use antiphon_core::MediaTime;
    use antiphon_testkit::{Kept, Noise};

    use super::*;

    const OWN: usize = 480;

    fn lasting(frames: usize, rate: u32) -> Duration {
        MediaTime::new(frames as u64, rate).duration()
    }

    /// Pulls blocks of 480 at 48 kHz and pushes as long a block of the peer's silence; returns what is heard.
    fn heard(peer: StreamFormat, delay: Option<Duration>, blocks: usize) -> Vec<f32> {
        let own = StreamFormat::new(48_000, 1).unwrap();
        // One click, in the eleventh block.
        let source = Noise::like(own, u64::MAX, |frame, _| if frame == 5_000 { 0.5 } else { 0.0 });
        let (kept, monitor) = (Kept::default(), MonitorDelay::default());
        let (mut source, mut open) = monitored(source, kept.opener(), &monitor);
        let mut sink = open(peer, SampleFormat::L16).unwrap();
        delay.into_iter().for_each(|delay| monitor.set(delay));
        let block = OWN * peer.rate() as usize / 48_000 * peer.channels();
        for _ in 0..blocks {
            assert_eq!(source.pull(&mut [0.0; OWN]), Pull::Frames(OWN));
            sink.push(&vec![0.0; block]).unwrap();
        }
        kept.samples()
    }

    fn loudest(sound: &[f32], channels: usize) -> usize {
        let level = |frame: &&[f32]| (frame[0].abs() * 1e6) as u64;
        sound.chunks(channels).enumerate().max_by_key(|(_, frame)| level(frame)).unwrap().0
    }

    #[test]
    fn the_own_sound_comes_later_by_the_delay() {
        for millis in [5, 20, 100] {
            let stereo = StreamFormat::new(48_000, 2).unwrap();
            let sound = heard(stereo, Some(Duration::from_millis(millis)), 60);
            let at = loudest(&sound, 2);
            assert_eq!(sound[2 * at..2 * at + 2], [0.5, 0.5], "{millis} ms: in both channels");
            // The sink gets its first block when the source has given one.
            let late = lasting(at + OWN - 5_000, 48_000);
            // Blocks of 10 ms come and go at once, so as much more may have to wait.
            let more = late.checked_sub(Duration::from_millis(millis - 5)).unwrap();
            assert!(more <= Duration::from_millis(20), "{late:?} of {millis} ms");
        }
    }

    #[test]
    fn a_sink_at_another_rate_gets_it_converted() {
        let peer = StreamFormat::new(24_000, 1).unwrap();
        let sound = heard(peer, Some(Duration::from_millis(50)), 60);
        let late = lasting(loudest(&sound, 1) + OWN / 2 - 2_500, 24_000);
        assert!(late.abs_diff(Duration::from_millis(50)) <= Duration::from_millis(35), "{late:?}");
    }

    #[test]
    fn before_the_delay_is_known_nothing_is_heard() {
        let sound = heard(StreamFormat::new(48_000, 1).unwrap(), None, 600);
        assert!(sound.len() == 600 * OWN && sound.iter().all(|sample| *sample == 0.0));
    }
}
