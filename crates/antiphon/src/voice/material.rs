//! The sound of voice channels, read before they begin.

use std::time::Duration;

use antiphon_media::voice::{VOICE_RATE, VoiceKind, VoiceMaterial};
use antiphon_media::{Pull, SampleFormat, StreamFormat, codec};
use antiphon_net::Stop;
use antiphon_session::{converted, limited};
use antiphon_sound::open_source;

use crate::Error;

/// Reads `source` in mu-law at 8 kHz, of a source that is not made here at most `length`, until it ends or `stop` is asked for. Also
/// returns what is to be told about it.
pub(super) fn read(
    source: &str,
    length: Option<Duration>,
    seed: u64,
    stop: &Stop,
) -> Result<(VoiceMaterial, Vec<String>), Error> {
    let name = source.strip_suffix(':').unwrap_or(source);
    if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == name) {
        return Ok((VoiceMaterial::of_kind(*kind, seed), Vec::new()));
    }
    let opened = open_source(source)?;
    let format = StreamFormat::new(VOICE_RATE, opened.source.format().channels() as u32)?;
    let mut sound = converted(opened.source, format, None)?;
    if let Some(length) = length {
        sound = limited(sound, (length.as_secs_f64() * f64::from(VOICE_RATE)).ceil() as u64);
    }
    let channels = format.channels();
    let most = (MOST_BYTES / channels) as u64;
    match sound.length() {
        Some(frames) if frames > most => return Err(too_long(source)),
        None if length.is_none() && source.starts_with("tone:") => {
            return Err(Error::usage(format!("'{source}' has no end: add --seconds 10s, or use tones:")));
        }
        _ => {}
    }
    let mut all = vec![Vec::new(); channels];
    let (mut samples, mut bytes) = (vec![0.0; BLOCK * channels], vec![0; BLOCK * channels]);
    loop {
        // A pipe shows only by its pace whether it is live, and one in which nothing comes would be waited for for ever.
        if sound.is_live() {
            return Err(live(source));
        }
        if stop.is_asked() {
            return Err(Error::failed(format!("'{source}': stopped before it was read")));
        }
        let frames = match sound.pull(&mut samples) {
            Pull::Frames(frames) => frames,
            Pull::Starved => {
                std::thread::park_timeout(Duration::from_millis(1));
                continue;
            }
            Pull::End => break,
        };
        let samples = &samples[..frames * channels];
        codec::encode(SampleFormat::MuLaw, samples, &mut bytes);
        for frame in bytes[..samples.len()].chunks_exact(channels) {
            all.iter_mut().zip(frame).for_each(|(one, byte)| one.push(*byte));
        }
        if all[0].len() as u64 > most {
            return Err(too_long(source));
        }
    }
    Ok((VoiceMaterial::of_channels(all), opened.notes.list()))
}

fn live(source: &str) -> Error {
    Error::usage(format!(
        "'{source}': voice channels take sound that is there before they begin: use a file, clip:demo, speech:, tones: or noise:"
    ))
}

fn too_long(source: &str) -> Error {
    Error::usage(format!(
        "'{source}' is longer than voice channels keep in memory ({} MB): send a part with --seconds 600s",
        MOST_BYTES / 1_000_000
    ))
}

/// What is made here.
const KINDS: &[(&str, VoiceKind)] =
    &[("speech", VoiceKind::Speech), ("tones", VoiceKind::Tones), ("noise", VoiceKind::Noise)];
/// Bytes of sound that are kept: seven hours of a channel.
const MOST_BYTES: usize = 200_000_000;
/// Sample frames that are read at once.
const BLOCK: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str, length: Option<Duration>) -> Result<VoiceMaterial, Error> {
        super::read(source, length, 1, &Stop::new()).map(|(material, _)| material)
    }

    #[test]
    fn a_source_that_ends_is_read_into_mulaw_and_others_are_refused() {
        let material = read("tone:1000Hz?seconds=2s&channels=2", None).expect("a tone");
        assert_eq!(material.channel(3).len(), Some(16_000));
        let part = read("tone:1000Hz", Some(Duration::from_millis(500))).expect("a part");
        assert_eq!(part.channel(0).len(), Some(4_000));
        assert_eq!(read("speech:", None).expect("speech").channel(0).len(), None);
        let endless = read("tone:1000Hz", None).expect_err("no end");
        assert!(endless.message.contains("--seconds"), "{endless}");
        assert!(read("file:does-not-exist.wav", None).is_err());
    }

    #[test]
    fn reading_stops_when_it_is_told_to() {
        let stop = Stop::new();
        stop.ask();
        let stopped = super::read("tone:1000Hz?seconds=2s", None, 1, &stop).expect_err("it was stopped");
        assert!(stopped.message.contains("stopped"), "{stopped}");
    }
}
