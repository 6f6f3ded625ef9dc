//! PulseAudio, on a system whose sound servers do not speak its protocol.

use antiphon_core::uri::Query;
use antiphon_media::{Sink, Source};

use crate::devices::{Device, device as entry};
use crate::{DeviceMeter, Notes, OpenError};

/// What to do instead.
const INSTEAD: &str =
    "use jack:, or build antiphon with --features cpal for the devices of the system, or a pipe";

/// A stream of a PulseAudio server: none can be asked for on this system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PulseSpec {}

impl PulseSpec {
    pub(crate) fn read(_device: &str, _query: &Query) -> Result<Self, OpenError> {
        Err(OpenError::NotInThisVersion {
            what: "pulse: (PulseAudio, PipeWire)".into(),
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
    let about = format!("PulseAudio, PipeWire: not on this system; {INSTEAD}");
    vec![Device { available: false, clocked: true, ..entry("pulse", &about, None, None) }]
}
