//! The clips bundled with the program, so that it can be tried without a sound file.

use std::io::Cursor;

use crate::decode::{Compressed, Decode};
use crate::stream::Opener;
use crate::wav::{WavDecoder, WavInfo, refuse};
use crate::{Notes, OpenError};

/// A bundled clip. `assets/LICENSES.md` lists origin, licence and production of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clip {
    /// Percussion: transients. 48 kHz, stereo, 10.7 s.
    Tabla,
    /// A sustained chord: the hardest case for concealment. 48 kHz, stereo, 10.0 s.
    Guitar,
    /// A synthesised male voice. 48 kHz mono, or 8 kHz mu-law; 13.2 s.
    SpeechMale,
    /// A synthesised female voice. 48 kHz mono, or 8 kHz mu-law; 12.0 s.
    SpeechFemale,
    /// Tabla, then guitar: 48 kHz, stereo, 20.6 s.
    Demo,
    /// Speech, and a click of 5 ms every 2 s: the sound of the bundled clips with pictures. 48 kHz, mono, 76.0 s.
    Clapper,
}

impl Clip {
    /// All of them, in the order that lists show.
    pub const ALL: [Clip; 6] =
        [Clip::Demo, Clip::Tabla, Clip::Guitar, Clip::SpeechMale, Clip::SpeechFemale, Clip::Clapper];

    /// As in `clip:NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Clip::Tabla => "tabla",
            Clip::Guitar => "guitar",
            Clip::SpeechMale => "speech-male",
            Clip::SpeechFemale => "speech-female",
            Clip::Demo => "demo",
            Clip::Clapper => "clapper",
        }
    }

    /// Description of the sound.
    pub fn about(self) -> &'static str {
        match self {
            Clip::Tabla => "percussion, transients; 48 kHz stereo, 10.7 s",
            Clip::Guitar => "a sustained chord; 48 kHz stereo, 10.0 s",
            Clip::SpeechMale => "a male voice; 48 kHz mono, or ?rate=8kHz as mu-law; 13.2 s",
            Clip::SpeechFemale => "a female voice; 48 kHz mono, or ?rate=8kHz as mu-law; 12.0 s",
            Clip::Demo => "tabla, then guitar; 48 kHz stereo, 20.6 s",
            Clip::Clapper => "speech, and a click every 2 s for --video clip:h264-100; 48 kHz mono, 76.0 s",
        }
    }

    /// The sampling rates in which it exists, in Hz, the most usual first.
    pub fn rates(self) -> &'static [u32] {
        match self {
            Clip::SpeechMale | Clip::SpeechFemale => &[48_000, 8_000],
            _ => &[48_000],
        }
    }

    /// Sample frames at 48 kHz.
    pub fn length(self) -> u64 {
        match self {
            Clip::Tabla => 512_352,
            Clip::Guitar => 478_659,
            Clip::SpeechMale => 633_332,
            Clip::SpeechFemale => 576_923,
            Clip::Demo => Clip::Tabla.length() + Clip::Guitar.length(),
            Clip::Clapper => 3_647_959,
        }
    }

    /// The file at one of its rates; of [`Self::Demo`] the first part.
    pub fn bytes(self, rate: u32) -> &'static [u8] {
        match (self, rate) {
            (Clip::Guitar, _) => include_bytes!("../assets/music-guitar.flac"),
            (Clip::SpeechMale, 8_000) => include_bytes!("../assets/speech-male-8k.wav"),
            (Clip::SpeechMale, _) => include_bytes!("../assets/speech-male.flac"),
            (Clip::SpeechFemale, 8_000) => include_bytes!("../assets/speech-female-8k.wav"),
            (Clip::SpeechFemale, _) => include_bytes!("../assets/speech-female.flac"),
            (Clip::Clapper, _) => include_bytes!("../assets/clapper.ogg"),
            (Clip::Tabla | Clip::Demo, _) => include_bytes!("../assets/music-tabla.flac"),
        }
    }

    /// The parts to play, one after the other.
    pub(crate) fn openers(self, rate: u32) -> Vec<Opener> {
        let one = |clip: Clip| -> Opener { Box::new(move |notes, _| Ok((clip.open(rate, notes)?, 0))) };
        match self {
            Clip::Demo => vec![one(Clip::Tabla), one(Clip::Guitar)],
            clip => vec![one(clip)],
        }
    }

    fn open(self, rate: u32, notes: &Notes) -> Result<Box<dyn Decode>, OpenError> {
        let bytes = self.bytes(rate);
        if bytes.starts_with(b"RIFF") {
            let mut reader = Cursor::new(bytes);
            let info = WavInfo::parse(&mut reader).map_err(|error| refuse(error, self.name()))?;
            return Ok(Box::new(WavDecoder::behind_header(reader, &info, notes.clone())));
        }
        Ok(Box::new(Compressed::open(Box::new(Cursor::new(bytes)), self.name(), notes)?))
    }
}

impl std::str::FromStr for Clip {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        let known = Clip::ALL.iter().find(|clip| clip.name() == text);
        known.copied().ok_or_else(|| OpenError::unknown("clip", text, Clip::ALL.map(Clip::name)))
    }
}
