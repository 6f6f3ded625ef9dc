//! A source whose bytes are read and decoded on a separate thread and passed on through a bounded ring: the media
//! thread only copies samples.

use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use antiphon_media::{Pull, Ready, SampleFormat, Source, StreamFormat, Wake};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::decode::Decode;
use crate::{Notes, OpenError};

/// Opens one item of a playlist. The argument is the number of sample frames to leave out; the returned number is how
/// many of them the decoder skipped itself.
pub(crate) type Opener = Box<dyn Fn(&Notes, u64) -> Result<(Box<dyn Decode>, u64), OpenError> + Send>;

/// The playlist: what is played, in which order, and from where.
pub(crate) struct Playlist {
    /// At least one; all of equal rate and channels.
    pub items: Vec<Opener>,
    /// Begin again at the end.
    pub repeat: bool,
    /// Sample frames left out of the first round.
    pub skip: u64,
    /// Sample frames of all items together, if known beforehand.
    pub length: Option<u64>,
}

/// Samples in the ring between a disk and the media thread.
///
/// Three seconds cover delays of disks and schedulers; 1.5 MB keep a stereo program within its 12 MB. Many channels get
/// more than that: a quarter of a second at least, and room for two of the largest blocks.
pub(crate) fn ring_samples(stream: StreamFormat) -> usize {
    const MOST: usize = 1_500_000 / size_of::<f32>();
    let (rate, channels) = (stream.rate() as usize, stream.channels());
    let least = (rate / 4).max(2 * 4096) * channels;
    let frames = (3 * rate * channels).min(MOST).max(least) / channels;
    frames * channels
}

/// Samples that are read ahead of a source: a sixth of them, half a second, as a file can be read again and what is missed of a recording is lost.
/// So a sender's program stays within its 12 MB.
fn ahead_samples(stream: StreamFormat) -> usize {
    (ring_samples(stream) / stream.channels() / 6).max(2 * 4096) * stream.channels()
}

/// How long a thread at the slow end of a ring sleeps between polls. The ring holds at least five such periods.
pub(crate) const REST: Duration = Duration::from_millis(50);

/// Starts the thread at the slow end of a ring.
pub(crate) fn start_thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, OpenError> {
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|error| OpenError::no_thread(&error))
}

/// The part on the media thread.
pub(crate) struct StreamSource {
    pub ring: Consumer<f32>,
    pub stream: StreamFormat,
    pub sample: SampleFormat,
    pub length: Option<u64>,
    /// The thread that fills the ring, if there is more than it held at first.
    pub feeder: Option<Thread>,
}

impl StreamSource {
    /// Opens the first item, fills the ring on this thread (so that the first pull finds sound, and every common error
    /// is reported here), and leaves the rest to a thread.
    pub fn start(playlist: Playlist, name: &str, notes: &Notes) -> Result<Self, OpenError> {
        let late = playlist.skip > 0;
        let (decoder, skipped) = playlist.items[0](notes, playlist.skip)?;
        let playlist = Playlist { skip: playlist.skip - skipped, ..playlist };
        let (stream, sample) = (decoder.format(), decoder.sample_format());
        let length = match playlist.items.len() {
            1 => decoder.length(),
            _ => playlist.length,
        };
        let length = length.filter(|_| !playlist.repeat);
        let length = length.map(|frames| frames.saturating_sub(playlist.skip));
        let (producer, ring) = RingBuffer::new(ahead_samples(stream));
        let mut feeder = Feeder::new(playlist, decoder, producer, notes);
        let more = feeder.fill();
        if ring.is_empty() && late {
            return Err(OpenError::refused(
                format!("start= is after the end of {name}"),
                "choose a smaller start=",
            ));
        }
        if ring.is_empty() {
            return Err(OpenError::Empty { name: name.into(), why: notes.list().pop() });
        }
        let feeder = match more {
            true => Some(start_thread("sound-read", move || feeder.run())?.thread().clone()),
            false => None,
        };
        Ok(StreamSource { ring, stream, sample, length, feeder })
    }
}

impl Source for StreamSource {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn sample_format(&self) -> SampleFormat {
        self.sample
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.stream.channels();
        let wanted = block.len() - block.len() % channels;
        // Checked before the ring: then everything that the feeder wrote before it ended is seen.
        let ended = self.ring.is_abandoned();
        let there = self.ring.slots();
        let full = there == self.ring.buffer().capacity();
        if wanted == 0 || there < wanted && !ended && !full {
            return Pull::Starved;
        }
        let (filled, _) = self.ring.pop_partial_slice(&mut block[..wanted]);
        match filled.len() / channels {
            0 => Pull::End,
            frames => Pull::Frames(frames),
        }
    }

    fn is_live(&self) -> bool {
        false
    }

    fn ready(&self) -> Ready {
        let ended = self.ring.is_abandoned();
        Ready { frames: self.ring.slots() / self.stream.channels(), ended, piece: 0 }
    }

    fn keep_newest(&mut self, _frames: usize) -> u64 {
        0
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

impl Drop for StreamSource {
    fn drop(&mut self) {
        if let Some(feeder) = &self.feeder {
            // The feeder sees the abandoned ring and ends; waiting for it could mean waiting for a disk, or for the program
            // that writes a pipe.
            feeder.unpark();
        }
    }
}

/// The part on the reading thread.
struct Feeder {
    playlist: Playlist,
    item: usize,
    decoder: Box<dyn Decode>,
    ring: Producer<f32>,
    pending: Vec<f32>,
    sent: usize,
    /// Samples still to be left out.
    skip: u64,
    /// Samples of this round, so that repeating a file without sound is not an endless loop.
    round: u64,
    notes: Notes,
}

impl Feeder {
    fn new(playlist: Playlist, decoder: Box<dyn Decode>, ring: Producer<f32>, notes: &Notes) -> Self {
        let skip = playlist.skip * decoder.format().channels() as u64;
        Feeder {
            playlist,
            item: 0,
            decoder,
            ring,
            pending: Vec::new(),
            sent: 0,
            skip,
            round: 0,
            notes: notes.clone(),
        }
    }

    fn run(&mut self) {
        while !self.ring.is_abandoned() && self.fill() {
            thread::park_timeout(REST);
        }
    }

    /// Fills the ring; `false` if nothing will follow.
    fn fill(&mut self) -> bool {
        loop {
            let (_, rest) = self.ring.push_partial_slice(&self.pending[self.sent..]);
            self.sent = self.pending.len() - rest.len();
            if self.sent < self.pending.len() {
                return true;
            }
            self.pending.clear();
            self.sent = 0;
            if self.ring.is_abandoned() || !self.more() {
                return false;
            }
        }
    }

    /// Decodes the next samples into `pending`; `false` if nothing will follow.
    fn more(&mut self) -> bool {
        match self.decoder.decode(&mut self.pending) {
            Ok(true) => {
                self.round += self.pending.len() as u64;
                let skipped = self.skip.min(self.pending.len() as u64);
                self.skip -= skipped;
                self.sent = skipped as usize;
                true
            }
            Ok(false) => self.next_item(),
            Err(why) => {
                self.notes.add(format!("reading stopped: {why}"));
                false
            }
        }
    }

    fn next_item(&mut self) -> bool {
        self.item += 1;
        if self.item >= self.playlist.items.len() {
            if !self.playlist.repeat || self.round == 0 {
                return false;
            }
            self.item = 0;
            self.round = 0;
        }
        match self.playlist.items[self.item](&self.notes, 0).map(|(decoder, _)| decoder) {
            Ok(decoder) if decoder.format() == self.decoder.format() => {
                self.decoder = decoder;
                true
            }
            Ok(decoder) => {
                self.notes.add(format!(
                    "reading stopped: the sound changed to {}, while it was played",
                    decoder.format()
                ));
                false
            }
            Err(error) => {
                self.notes.add(format!("reading stopped: {error}"));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts upwards, `step` sample frames at a time, until `end`.
    struct Counting {
        at: u64,
        end: u64,
        step: u64,
        channels: u32,
    }

    impl Decode for Counting {
        fn format(&self) -> StreamFormat {
            StreamFormat::new(8_000, self.channels).unwrap()
        }
        fn sample_format(&self) -> SampleFormat {
            SampleFormat::F32
        }
        fn length(&self) -> Option<u64> {
            Some(self.end)
        }
        fn decode(&mut self, out: &mut Vec<f32>) -> Result<bool, String> {
            let until = (self.at + self.step).min(self.end);
            for frame in self.at..until {
                out.extend(
                    (0..self.channels).map(|c| (frame * u64::from(self.channels) + u64::from(c)) as f32),
                );
            }
            let more = until > self.at;
            self.at = until;
            Ok(more)
        }
    }

    fn counting(end: u64, repeat: bool, skip: u64) -> Playlist {
        Playlist {
            items: vec![Box::new(move |_: &Notes, _| {
                let decoder = Counting { at: 0, end, step: 100, channels: 2 };
                Ok((Box::new(decoder) as Box<dyn Decode>, 0))
            })],
            repeat,
            skip,
            length: None,
        }
    }

    fn drain(source: &mut StreamSource, block: usize, most: usize) -> Vec<f32> {
        let mut out = Vec::new();
        let mut samples = vec![0.0; block];
        while out.len() < most {
            match source.pull(&mut samples) {
                Pull::Frames(frames) => out.extend(&samples[..frames * 2]),
                Pull::Starved => thread::yield_now(),
                Pull::End => break,
            }
        }
        out
    }

    #[test]
    fn hands_over_everything_once_and_in_order() {
        // Longer than the ring (3 s at 8 kHz), so that the thread is used.
        let mut source = StreamSource::start(counting(60_001, false, 0), "count", &Notes::default()).unwrap();
        assert_eq!(source.length(), Some(60_001));
        let heard = drain(&mut source, 514, usize::MAX);
        assert!(heard.iter().enumerate().all(|(i, x)| *x == i as f32));
        assert_eq!(heard.len(), 120_002);
        assert_eq!(source.pull(&mut [0.0; 2]), Pull::End);
    }

    #[test]
    fn skips_and_repeats_from_the_beginning() {
        let mut source = StreamSource::start(counting(150, true, 30), "count", &Notes::default()).unwrap();
        assert_eq!(source.length(), None);
        let heard = drain(&mut source, 20, 1_000);
        let expected = (60..300).chain((0..300).cycle()).map(|x| x as f32);
        assert!(heard.iter().copied().eq(expected.take(heard.len())));
    }

    #[test]
    fn nothing_to_play_is_an_error_and_not_a_loop() {
        let notes = Notes::default();
        let refusal =
            |playlist| StreamSource::start(playlist, "it", &notes).err().map(|e| e.to_string()).unwrap();
        assert!(refusal(counting(0, true, 0)).contains("contains no sound"));
        assert!(refusal(counting(150, false, 150)).contains("smaller start="));
    }

    #[test]
    fn rings_are_bounded() {
        let samples = |rate, channels| ring_samples(StreamFormat::new(rate, channels).unwrap());
        assert_eq!(samples(48_000, 2), 288_000);
        assert_eq!(samples(8_000, 1), 24_000);
        assert!(samples(192_000, 2) * 4 <= 1_500_000);
        // The widest stream gets a quarter of a second: 12 MB.
        assert_eq!(samples(192_000, 64), 48_000 * 64);
    }
}
