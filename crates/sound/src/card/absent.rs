//! Devices of the system, in a build without them.

use antiphon_core::uri::Query;
use antiphon_media::{Sink, Source};

use crate::devices::{Device, device as entry};
use crate::{DeviceMeter, Notes, OpenError};

/// The scheme of this system's devices.
pub(crate) const SCHEME: &str = SYSTEM.0;
/// The scheme, and a name in sentences.
#[cfg(not(windows))]
const SYSTEM: (&str, &str) = ("alsa", "ALSA");
#[cfg(windows)]
const SYSTEM: (&str, &str) = ("card", "the devices of the system");
/// What to do instead.
#[cfg(windows)]
const INSTEAD: &str = "build antiphon with --features cpal, or use jack:, or a pipe";
#[cfg(not(windows))]
const INSTEAD: &str = "build antiphon with --features cpal (on Debian after: apt install libasound2-dev), or use pulse: or jack:, \
                       or a pipe from arecord and into aplay";

/// A stream of a sound card: none can be asked for in this build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CardSpec {}

impl CardSpec {
    pub(crate) fn read(_device: &str, _query: &Query) -> Result<Self, OpenError> {
        Err(OpenError::NotInThisVersion {
            what: format!("{SCHEME}: ({})", SYSTEM.1),
            instead: INSTEAD.into(),
        })
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        match *self {}
    }

    pub(crate) fn capture(&self, _notes: &Notes) -> Result<(Box<dyn Source>, DeviceMeter), OpenError> {
        match *self {}
    }

    pub(crate) fn play(
        &self,
        _channels: u32,
        _notes: &Notes,
    ) -> Result<(Box<dyn Sink>, DeviceMeter), OpenError> {
        match *self {}
    }
}

/// That there is none.
pub(crate) fn describe() -> Vec<Device> {
    let about = format!("{}: not in this build; {INSTEAD}", SYSTEM.1);
    vec![Device { available: false, clocked: true, ..entry(SCHEME, &about, None, None) }]
}
