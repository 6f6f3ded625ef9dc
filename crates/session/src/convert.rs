//! Converts sources and sinks to another rate or other channels.

use antiphon_media::{
    ChannelMap, ChannelMapError, FormatError, Pull, Ready, Resampler, SampleFormat, Sink, SinkError, Source,
    StreamFormat, Wake,
};

/// Why a source can't be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The channels don't map.
    #[error(transparent)]
    Channels(#[from] ChannelMapError),
    /// The rates don't convert.
    #[error(transparent)]
    Rate(#[from] FormatError),
}

/// `source` converted to `wanted`, with `map` for its channels (`None`: the usual way); `source` itself if nothing
/// needs converting.
pub fn converted(
    source: Box<dyn Source>,
    wanted: StreamFormat,
    map: Option<ChannelMap>,
) -> Result<Box<dyn Source>, ConvertError> {
    let has = source.format();
    let map = match map {
        Some(map) => map,
        None => ChannelMap::standard(has.channels(), wanted.channels())?,
    };
    if has == wanted && map.is_identity() {
        return Ok(source);
    }
    Ok(Box::new(ConvertedSource::new(source, wanted, map)?))
}

/// A source behind a channel map and a resampler.
struct ConvertedSource {
    source: Box<dyn Source>,
    wanted: StreamFormat,
    map: ChannelMap,
    resampler: Option<Resampler>,
    raw: Vec<f32>,
    mapped: Vec<f32>,
    /// Converted sound that did not fit into the block asked for: `ready[at..len]`.
    ready: Vec<f32>,
    at: usize,
    len: usize,
    ledger: Ledger,
}

/// Counts of what a conversion has taken and given, so that its output has the length and position of its input.
#[derive(Clone, Copy, Debug)]
struct Ledger {
    from: u64,
    to: u64,
    /// Sample frames at the beginning of the output that are only the filter's delay.
    skip: usize,
    taken: u64,
    given: u64,
}

impl Ledger {
    fn new(from: StreamFormat, to: StreamFormat, resampler: Option<&Resampler>) -> Self {
        let skip = resampler.map_or(0, Resampler::delay);
        Ledger { from: from.rate().into(), to: to.rate().into(), skip, taken: 0, given: 0 }
    }

    /// Number of output sample frames that correspond to `frames` of input, rounded.
    fn worth(&self, frames: u64) -> u64 {
        ((u128::from(frames) * u128::from(self.to) + u128::from(self.from / 2)) / u128::from(self.from))
            as u64
    }

    /// Records `given` sample frames of output; returns how many of them to skip at the beginning.
    fn book(&mut self, given: usize) -> usize {
        let skipped = self.skip.min(given);
        self.skip -= skipped;
        self.given += (given - skipped) as u64;
        skipped
    }

    /// Output that is still due once the input has ended.
    fn due(&self) -> u64 {
        self.worth(self.taken).saturating_sub(self.given)
    }
}

impl ConvertedSource {
    fn new(source: Box<dyn Source>, wanted: StreamFormat, map: ChannelMap) -> Result<Self, ConvertError> {
        let has = source.format();
        let resampler = (has.rate() != wanted.rate())
            .then(|| Resampler::pushing(has.rate(), wanted.rate(), wanted.channels(), CHUNK))
            .transpose()?;
        let most = resampler.as_ref().map_or(CHUNK, Resampler::max_other_side);
        Ok(ConvertedSource {
            ledger: Ledger::new(has, wanted, resampler.as_ref()),
            resampler,
            raw: vec![0.0; CHUNK * has.channels()],
            mapped: vec![0.0; CHUNK * wanted.channels()],
            ready: vec![0.0; most * wanted.channels()],
            at: 0,
            len: 0,
            source,
            wanted,
            map,
        })
    }

    /// Converts the next chunk into `ready`; `None` when that was possible.
    fn refill(&mut self) -> Option<Pull> {
        let channels = self.wanted.channels();
        let (mut ended, mut due) = (false, usize::MAX);
        let frames = match self.source.pull(&mut self.raw) {
            Pull::Frames(frames) => {
                self.ledger.taken += frames as u64;
                self.map.apply(&self.raw[..frames * self.map.inputs()], &mut self.mapped)
            }
            Pull::Starved => return Some(Pull::Starved),
            Pull::End if self.resampler.is_none() || self.ledger.due() == 0 => return Some(Pull::End),
            Pull::End => {
                // Silence after the end pushes out what the resampler still holds.
                self.mapped.fill(0.0);
                (ended, due) = (true, self.ledger.due() as usize);
                CHUNK
            }
        };
        let mapped = &self.mapped[..frames * channels];
        let given = match &mut self.resampler {
            None => {
                self.ready[..mapped.len()].copy_from_slice(mapped);
                frames
            }
            Some(resampler) => resampler.process(mapped, &mut self.ready).1,
        };
        let skipped = self.ledger.book(given);
        let end = if ended { given.min(skipped.saturating_add(due)) } else { given };
        (self.at, self.len) = (skipped * channels, end * channels);
        None
    }
}

impl Source for ConvertedSource {
    fn format(&self) -> StreamFormat {
        self.wanted
    }

    fn sample_format(&self) -> SampleFormat {
        // Converted sound has more precision than its 16-bit source; 24 bits keep it.
        match self.source.sample_format() {
            SampleFormat::L16 if self.resampler.is_some() => SampleFormat::L24,
            other => other,
        }
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.wanted.channels();
        let mut filled = 0;
        while filled < block.len() {
            if self.at == self.len
                && let Some(nothing) = self.refill()
            {
                return if filled == 0 { nothing } else { Pull::Frames(filled / channels) };
            }
            let n = (self.len - self.at).min(block.len() - filled);
            block[filled..filled + n].copy_from_slice(&self.ready[self.at..self.at + n]);
            (self.at, filled) = (self.at + n, filled + n);
        }
        Pull::Frames(filled / channels)
    }

    fn length(&self) -> Option<u64> {
        self.source.length().map(|frames| self.ledger.worth(frames))
    }

    fn is_live(&self) -> bool {
        self.source.is_live()
    }

    fn ready(&self) -> Ready {
        let Ready { frames, ended } = self.source.ready();
        let waiting = (self.len - self.at) / self.wanted.channels();
        // Whole chunks are taken, except for the last; a resampler's output may come a sample frame later.
        let taken = if ended || frames == usize::MAX { frames } else { frames / CHUNK * CHUNK };
        let made = match self.resampler {
            Some(_) if taken < usize::MAX => {
                self.ledger.worth(taken as u64).saturating_sub(self.ledger.skip as u64 + 1) as usize
            }
            _ => taken,
        };
        Ready { frames: waiting.saturating_add(made), ended }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        // What is already converted is less than a chunk; the source joins what follows to it.
        let (from, to) = (self.ledger.from, self.ledger.to);
        let kept = (frames as u64).saturating_mul(from).div_ceil(to);
        self.ledger.worth(self.source.keep_newest(usize::try_from(kept).unwrap_or(usize::MAX)))
    }

    fn set_waker(&mut self, wake: Wake) {
        self.source.set_waker(wake);
    }
}

/// A sink for `stream` that writes to `sink`, whatever its rate and channels; `sink` itself if nothing needs
/// converting.
pub fn converted_sink(sink: Box<dyn Sink>, stream: StreamFormat) -> Result<Box<dyn Sink>, ConvertError> {
    let wanted = sink.format();
    if wanted == stream {
        return Ok(sink);
    }
    let map = ChannelMap::standard(stream.channels(), wanted.channels())?;
    let resampler = (stream.rate() != wanted.rate())
        .then(|| Resampler::pushing(stream.rate(), wanted.rate(), wanted.channels(), CHUNK))
        .transpose()?;
    let most = resampler.as_ref().map_or(CHUNK, Resampler::max_other_side);
    Ok(Box::new(ConvertedSink {
        ledger: Ledger::new(stream, wanted, resampler.as_ref()),
        sink,
        stream,
        map,
        resampler,
        mapped: vec![0.0; CHUNK * wanted.channels()],
        out: vec![0.0; most * wanted.channels()],
    }))
}

struct ConvertedSink {
    sink: Box<dyn Sink>,
    stream: StreamFormat,
    map: ChannelMap,
    resampler: Option<Resampler>,
    mapped: Vec<f32>,
    out: Vec<f32>,
    ledger: Ledger,
}

impl Sink for ConvertedSink {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        let channels = self.map.outputs();
        for chunk in block.chunks(CHUNK * self.map.inputs()) {
            let frames = self.map.apply(chunk, &mut self.mapped);
            let mapped = &self.mapped[..frames * channels];
            match &mut self.resampler {
                None => self.sink.push(mapped)?,
                Some(resampler) => {
                    let (_, given) = resampler.process(mapped, &mut self.out);
                    self.ledger.taken += frames as u64;
                    let skipped = self.ledger.book(given);
                    self.sink.push(&self.out[skipped * channels..given * channels])?;
                }
            }
        }
        Ok(())
    }

    fn clocked(&self) -> bool {
        self.sink.clocked()
    }

    fn wants(&self) -> Option<usize> {
        let (from, to) = (self.stream.rate() as usize, self.sink.format().rate() as usize);
        self.sink.wants().map(|frames| frames * from / to)
    }

    fn period(&self) -> Option<usize> {
        let (from, to) = (self.stream.rate() as usize, self.sink.format().rate() as usize);
        self.sink.period().map(|frames| frames * from / to)
    }

    fn room(&self) -> usize {
        let (from, to) = (self.stream.rate() as u128, self.sink.format().rate() as u128);
        // What a resampler holds comes out with the next sound.
        let room = (self.sink.room() as u128 * from / to).saturating_sub(2 * CHUNK as u128);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        let Some(resampler) = &mut self.resampler else { return self.sink.silence(frames) };
        // Silence pushes out what the resampler holds; of the rest, it is known what would come out.
        let (held, channels) = (frames.min(FLUSH), self.map.outputs());
        self.mapped.fill(0.0);
        let mut left = held as usize;
        while left > 0 {
            let part = left.min(CHUNK);
            let (_, given) = resampler.process(&self.mapped[..part * channels], &mut self.out);
            self.ledger.taken += part as u64;
            let skipped = self.ledger.book(given);
            self.sink.push(&self.out[skipped * channels..given * channels])?;
            left -= part;
        }
        // The resampler's delay stays between what was taken and what was given.
        let before = self.ledger.worth(self.ledger.taken);
        self.ledger.taken += frames - held;
        let rest = self.ledger.worth(self.ledger.taken) - before;
        self.ledger.given += rest;
        self.sink.silence(rest)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let channels = self.map.outputs();
        if let Some(resampler) = &mut self.resampler {
            // Silence after the end pushes out what the resampler still holds. A failing sink is reported below.
            self.mapped.fill(0.0);
            while self.ledger.due() > 0 {
                let due = self.ledger.due() as usize;
                let (_, given) = resampler.process(&self.mapped, &mut self.out);
                let skipped = self.ledger.book(given);
                let end = given.min(skipped.saturating_add(due));
                if given == 0 || self.sink.push(&self.out[skipped * channels..end * channels]).is_err() {
                    break;
                }
            }
        }
        self.sink.finish()
    }
}

/// `source` up to `frames` sample frames.
pub fn limited(source: Box<dyn Source>, frames: u64) -> Box<dyn Source> {
    Box::new(LimitedSource { source, left: frames })
}

struct LimitedSource {
    source: Box<dyn Source>,
    left: u64,
}

impl Source for LimitedSource {
    fn format(&self) -> StreamFormat {
        self.source.format()
    }

    fn sample_format(&self) -> SampleFormat {
        self.source.sample_format()
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.source.format().channels();
        let room = (block.len() / channels).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if room == 0 {
            return Pull::End;
        }
        let pulled = self.source.pull(&mut block[..room * channels]);
        if let Pull::Frames(frames) = pulled {
            self.left -= frames as u64;
        }
        pulled
    }

    fn length(&self) -> Option<u64> {
        Some(self.source.length().map_or(self.left, |length| length.min(self.left)))
    }

    fn is_live(&self) -> bool {
        self.source.is_live()
    }

    fn ready(&self) -> Ready {
        let ready = self.source.ready();
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        Ready { frames: ready.frames.min(left), ended: ready.ended || ready.frames >= left }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        self.source.keep_newest(frames)
    }

    fn set_waker(&mut self, wake: Wake) {
        self.source.set_waker(wake);
    }
}

/// Sample frames of silence after which a resampler holds no sound: more than its filter is long.
const FLUSH: u64 = 2048;
/// Sample frames converted at a time.
const CHUNK: usize = 256;
