//! The sound files of a report. During a run they are recorded as WAV, which costs a media thread a copy into a ring; afterwards they
//! become FLAC, half the size with the same samples, wherever FLAC can hold them.

use std::path::Path;
use std::time::Duration;

use antiphon_media::{SampleFormat, Sink, Source, StreamFormat};
use antiphon_report::Clip;
use antiphon_sound::{
    Existing, SinkKind, SinkSpec, SourceSpec, each_block, fits_flac, write_flac, write_whole,
};

use crate::Error;

/// File name, without its extension, of the recording of what a listener heard over that transport.
fn heard_stem(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("heard-{}", label.chars().map(plain).collect::<String>())
}

/// Where the media thread of that transport records; replaces what an older report left.
pub(crate) fn recording(
    out: &Path,
    label: &str,
    format: StreamFormat,
    sample: SampleFormat,
) -> Result<Box<dyn Sink>, Error> {
    let path = out.join(heard_stem(label) + ".wav");
    // An older report's file of the other kind would be taken for this one's.
    let _there_may_be_none = std::fs::remove_file(path.with_extension("flac"));
    let kind = SinkKind::File { path, sample: Some(sample), existing: Existing::Overwrite };
    Ok(SinkSpec { kind, rate: None, channels: None }.open(format, sample)?.sink)
}

/// Makes the recording of that transport the report's file; the clip has everything but its gaps and colour.
pub(super) fn keep(out: &Path, label: &str, sample: SampleFormat) -> Result<Clip, Error> {
    let stem = heard_stem(label);
    let wav = out.join(format!("{stem}.wav"));
    let title = format!("heard over {label}");
    // Not by its text, in which a character could mean something else.
    let file = SourceSpec::File { path: wav.clone(), repeat: false, start: Duration::ZERO };
    let mut source = file.open()?.source;
    if !fits_flac(source.format(), sample) {
        let waveform = whole_waveform(&mut *source);
        return Ok(clip(title, format!("{stem}.wav"), String::new(), label, waveform));
    }
    let clip = encode(out, &stem, &mut *source, sample, title, label)?;
    std::fs::remove_file(&wav)
        .map_err(|error| Error::failed(format!("cannot remove '{}': {error}", wav.display())))?;
    Ok(clip)
}

/// Writes the sound that was sent.
pub(super) fn keep_original(
    out: &Path,
    open: &dyn Fn() -> Result<Box<dyn Source>, Error>,
    sample: SampleFormat,
) -> Result<Clip, Error> {
    let mut source = open()?;
    let (stem, title) = ("original", String::from("original"));
    if fits_flac(source.format(), sample) {
        let clip = encode(out, stem, &mut *source, sample, title, "")?;
        let _older_reports = std::fs::remove_file(out.join("original.wav"));
        return Ok(clip);
    }
    let file = "original.wav";
    write_whole(&out.join(file), &mut *source, sample)?;
    let waveform = whole_waveform(&mut *open()?);
    Ok(clip(title, file.into(), "What was sent.".into(), "", waveform))
}

fn encode(
    out: &Path,
    stem: &str,
    source: &mut dyn Source,
    sample: SampleFormat,
    title: String,
    label: &str,
) -> Result<Clip, Error> {
    let file = format!("{stem}.flac");
    let mut waveform = Waveform::new(source);
    write_flac(&out.join(&file), source, sample, &mut |block| waveform.hear(block))?;
    let note = if label.is_empty() { "What was sent.".into() } else { String::new() };
    Ok(clip(title, file, note, label, waveform))
}

fn clip(title: String, file: String, note: String, label: &str, waveform: Waveform) -> Clip {
    Clip {
        title,
        file,
        note,
        strip: label.into(),
        seconds: waveform.frames as f64 / waveform.rate,
        peaks: waveform.peaks,
        ..Clip::default()
    }
}

/// The largest magnitude in each of equal parts of a sound.
struct Waveform {
    channels: usize,
    rate: f64,
    /// Sample frames for each peak.
    part: u64,
    frames: u64,
    peaks: Vec<f32>,
}

impl Waveform {
    fn new(source: &dyn Source) -> Self {
        let format = source.format();
        let finest = u64::from(format.rate()) / PEAKS_PER_SECOND;
        let part = finest.max(source.length().unwrap_or(0) / MOST_PEAKS).max(1);
        Waveform {
            channels: format.channels(),
            rate: f64::from(format.rate()),
            part,
            frames: 0,
            peaks: Vec::new(),
        }
    }

    fn hear(&mut self, block: &[f32]) {
        for frame in block.chunks_exact(self.channels) {
            if self.frames.is_multiple_of(self.part) {
                self.peaks.push(0.0);
            }
            let loudest = frame.iter().fold(0.0f32, |loudest, sample| loudest.max(sample.abs()));
            if let Some(peak) = self.peaks.last_mut() {
                *peak = peak.max(loudest.min(1.0));
            }
            self.frames += 1;
        }
    }
}

/// Finer than a screen shows of ten seconds.
const PEAKS_PER_SECOND: u64 = 200;
/// Twice the pixels of a wide screen: hours of sound make the page no larger.
const MOST_PEAKS: u64 = 4_000;

/// The waveform of a sound that is written elsewhere.
fn whole_waveform(source: &mut dyn Source) -> Waveform {
    let mut waveform = Waveform::new(source);
    let all = each_block(source, 4_096, &mut |block| {
        waveform.hear(block);
        Ok(())
    });
    all.expect("nothing is written, so nothing can fail");
    waveform
}
