//! Sources and sinks of sound on this machine: files, pipes, test tones, bundled clips, recordings.
//!
//! A text becomes a plain value ([`SourceSpec`], [`SinkSpec`]) and then an opened [`OpenedSource`] or [`OpenedSink`],
//! whose `pull` and `push` run on the media thread. Blocking work (disks, pipes, decoders) runs on a separate thread,
//! behind a bounded ring:
//!
//! ```text
//! file, pipe, clip ─ decoder ─ thread ─ ring ─ pull      push ─ ring ─ thread ─ WAV file, pipe
//! tone ─────────────────────────────────────── pull      push ─ null, memory
//!                                                          push ─ ring ─ thread ─ player (with pictures)
//! JACK ─ its real-time thread ─────────── ring ─ pull      push ─ ring ─ JACK
//! ```
//!
//! Other sound servers and sound cards come in a later version; [`devices`] says so.
//!
//! ```
//! use antiphon_media::Pull;
//!
//! let mut tone = antiphon_sound::open_source("tone:440Hz?seconds=1s")?;
//! let mut block = [0.0; 2 * 256];
//! assert_eq!(tone.source.pull(&mut block), Pull::Frames(256));
//! # Ok::<(), antiphon_sound::OpenError>(())
//! ```

#[cfg(feature = "cpal")]
mod card;
#[cfg(not(feature = "cpal"))]
#[path = "card/absent.rs"]
mod card;
mod clip;
mod decode;
mod deposit;
mod device;
mod devices;
mod error;
mod flac;
mod jack;
mod os;
mod pipe;
mod player;
#[cfg(unix)]
mod pulse;
#[cfg(not(unix))]
#[path = "pulse_absent.rs"]
mod pulse;
mod raw;
mod record;
mod settings;
mod sink;
mod source;
mod stream;
mod tone;
mod voice_files;
mod wav;
mod whole;

pub use card::CardSpec;
pub use clip::Clip;
pub use deposit::Deposit;
pub use device::{DeviceFigures, DeviceMeter};
pub use devices::{Device, devices};
pub use error::{Notes, OpenError};
pub use flac::{fits_flac, write_flac};
pub use jack::{Connect, JackSpec};
pub use player::{Outlet, OutletWriter, PlayerSpec, Title};
pub use pulse::PulseSpec;
pub use raw::{Encoding, RawFormat};
pub use sink::{
    Created, Existing, FilmTarget, Memory, MemorySink, OpenedSink, SinkKind, SinkSpec, open_sink, play_film,
    play_into, record,
};
pub use source::{OpenedSource, SourceSpec, open_source};
pub use tone::{Signal, Tone};
pub use voice_files::{VoiceFiles, VoiceFilesWritten};
pub use wav::{CuePoint, RepairError, Repaired, WavPatch, add_cue_points, repair};
pub use whole::{each_block, write_whole};
