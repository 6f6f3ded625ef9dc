//! Converts sources and sinks to another rate or other channels.

use std::ops::Range;

use antiphon_media::{
    ChannelMap, ChannelMapError, FormatError, Pull, Ready, Resampler, SampleFormat, Sink, SinkError, Source,
    StreamFormat, Wake, Wants,
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
    let raw = vec![0.0; CHUNK * has.channels()];
    Ok(Box::new(ConvertedSource { conversion: Conversion::new(has, wanted, map)?, source, wanted, raw }))
}

/// A source behind a channel map and a resampler.
struct ConvertedSource {
    source: Box<dyn Source>,
    wanted: StreamFormat,
    conversion: Conversion,
    raw: Vec<f32>,
}

/// A channel map and a resampler.
struct Conversion {
    map: ChannelMap,
    resampler: Option<Resampler>,
    ledger: Ledger,
    mapped: Vec<f32>,
    /// What the resampler gave; the output is the map's where there is none.
    resampled: Vec<f32>,
    /// Samples of the output that have not been used.
    made: Range<usize>,
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

impl Conversion {
    fn new(from: StreamFormat, to: StreamFormat, map: ChannelMap) -> Result<Self, FormatError> {
        let resampler = (from.rate() != to.rate())
            .then(|| Resampler::pushing(from.rate(), to.rate(), to.channels(), CHUNK))
            .transpose()?;
        let most = resampler.as_ref().map_or(0, Resampler::max_other_side);
        Ok(Conversion {
            map,
            ledger: Ledger::new(from, to, resampler.as_ref()),
            resampler,
            mapped: vec![0.0; CHUNK * to.channels()],
            resampled: vec![0.0; most * to.channels()],
            made: 0..0,
        })
    }

    /// Converts `input` of up to [`CHUNK`] sample frames to [`Self::output`].
    fn convert(&mut self, input: &[f32]) {
        let frames = self.map.apply(input, &mut self.mapped);
        self.ledger.taken += frames as u64;
        self.resample(frames, usize::MAX);
    }

    /// Has `frames` of silence push out what the resampler holds, of which at most `most` are of use. Returns how many
    /// came, the filter's delay included.
    fn push_out(&mut self, frames: usize, most: usize) -> usize {
        self.mapped.fill(0.0);
        self.resample(frames, most)
    }

    fn resample(&mut self, frames: usize, most: usize) -> usize {
        let channels = self.map.outputs();
        let given = match &mut self.resampler {
            None => frames,
            Some(resampler) => resampler.process(&self.mapped[..frames * channels], &mut self.resampled).1,
        };
        let skipped = self.ledger.book(given);
        self.made = skipped * channels..given.min(skipped.saturating_add(most)) * channels;
        given
    }

    /// What the last conversion gave and was not used.
    fn output(&self) -> &[f32] {
        let all = if self.resampler.is_some() { &self.resampled } else { &self.mapped };
        &all[self.made.clone()]
    }
}

impl ConvertedSource {
    /// Converts the next chunk; `None` when that was possible.
    fn refill(&mut self) -> Option<Pull> {
        let due = self.conversion.ledger.due();
        match self.source.pull(&mut self.raw) {
            Pull::Frames(frames) => {
                self.conversion.convert(&self.raw[..frames * self.conversion.map.inputs()]);
            }
            Pull::Starved => return Some(Pull::Starved),
            Pull::End if self.conversion.resampler.is_none() || due == 0 => return Some(Pull::End),
            Pull::End => drop(self.conversion.push_out(CHUNK, due as usize)),
        }
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
            SampleFormat::L16 if self.conversion.resampler.is_some() => SampleFormat::L24,
            other => other,
        }
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.wanted.channels();
        let mut filled = 0;
        while filled < block.len() {
            if self.conversion.made.is_empty()
                && let Some(nothing) = self.refill()
            {
                return if filled == 0 { nothing } else { Pull::Frames(filled / channels) };
            }
            let made = self.conversion.output();
            let n = made.len().min(block.len() - filled);
            block[filled..filled + n].copy_from_slice(&made[..n]);
            self.conversion.made.start += n;
            filled += n;
        }
        Pull::Frames(filled / channels)
    }

    fn length(&self) -> Option<u64> {
        self.source.length().map(|frames| self.conversion.ledger.worth(frames))
    }

    fn is_live(&self) -> bool {
        self.source.is_live()
    }

    fn ready(&self) -> Ready {
        let Ready { frames, ended, piece } = self.source.ready();
        let Conversion { ledger, made, resampler, .. } = &self.conversion;
        let waiting = made.len() / self.wanted.channels();
        // Whole chunks are taken, except for the last; a resampler's output may come a sample frame later.
        let taken = if ended || frames == usize::MAX { frames } else { frames / CHUNK * CHUNK };
        let made = match resampler {
            Some(_) if taken < usize::MAX => {
                ledger.worth(taken as u64).saturating_sub(ledger.skip as u64 + 1) as usize
            }
            _ => taken,
        };
        // It comes out in chunks.
        let piece = ledger.worth(piece.next_multiple_of(CHUNK) as u64) as usize;
        Ready { frames: waiting.saturating_add(made), ended, piece }
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        // What is already converted is less than a chunk; the source joins what follows to it.
        let ledger = self.conversion.ledger;
        let kept = (frames as u64).saturating_mul(ledger.from).div_ceil(ledger.to);
        ledger.worth(self.source.keep_newest(usize::try_from(kept).unwrap_or(usize::MAX)))
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
    Ok(Box::new(ConvertedSink { sink, stream, conversion: Conversion::new(stream, wanted, map)? }))
}

struct ConvertedSink {
    sink: Box<dyn Sink>,
    stream: StreamFormat,
    conversion: Conversion,
}

impl Sink for ConvertedSink {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        for chunk in block.chunks(CHUNK * self.conversion.map.inputs()) {
            self.conversion.convert(chunk);
            self.sink.push(self.conversion.output())?;
        }
        Ok(())
    }

    fn clocked(&self) -> bool {
        self.sink.clocked()
    }

    fn wants(&self) -> Option<Wants> {
        let (from, to) = (self.stream.rate() as usize, self.sink.format().rate() as usize);
        let wants = self.sink.wants()?;
        let block = wants.block.saturating_mul(from).div_ceil(to);
        Some(Wants {
            frames: wants.frames * from / to,
            block,
            missed: wants.missed * from as u64 / to as u64,
            margin: wants.margin * from / to,
            ahead: wants.ahead * from / to,
            early: wants.early * from / to,
            slipped: wants.slipped,
        })
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
        let conversion = &mut self.conversion;
        if conversion.resampler.is_none() {
            return self.sink.silence(frames);
        }
        // Silence pushes out what the resampler holds; of the rest, it is known what would come out.
        let held = frames.min(FLUSH);
        let mut left = held as usize;
        while left > 0 {
            let part = left.min(CHUNK);
            conversion.ledger.taken += part as u64;
            conversion.push_out(part, usize::MAX);
            self.sink.push(conversion.output())?;
            left -= part;
        }
        // The resampler's delay stays between what was taken and what was given.
        let ledger = &mut conversion.ledger;
        let before = ledger.worth(ledger.taken);
        ledger.taken += frames - held;
        let rest = ledger.worth(ledger.taken) - before;
        ledger.given += rest;
        self.sink.silence(rest)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        // Silence after the end pushes out what the resampler still holds. A failing sink is reported below.
        while self.conversion.resampler.is_some() && self.conversion.ledger.due() > 0 {
            let due = self.conversion.ledger.due() as usize;
            let came = self.conversion.push_out(CHUNK, due);
            if came == 0 || self.sink.push(self.conversion.output()).is_err() {
                break;
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
        Ready { frames: ready.frames.min(left), ended: ready.ended || ready.frames >= left, ..ready }
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
