//! Errors, with the exit codes that scripts rely on.

/// What went wrong, in a sentence that says what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Kind of error.
    pub kind: ErrorKind,
    /// Message for the user.
    pub message: String,
}

/// Kind of error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Failed while running. Exit code 1.
    Failed,
    /// Asked for something impossible or unintelligible. Exit code 2.
    Usage,
    /// The peer is absent or refuses. Exit code 4.
    Unreachable,
}

impl Error {
    /// Failed while running.
    pub fn failed(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Failed, message: message.into() }
    }

    /// The user's mistake.
    pub fn usage(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Usage, message: message.into() }
    }

    /// The peer is absent.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Unreachable, message: message.into() }
    }

    /// The documented exit code.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::Failed => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Unreachable => 4,
        }
    }
}

impl From<antiphon_net::LineError> for Error {
    fn from(error: antiphon_net::LineError) -> Self {
        let kind = if error.is_unreachable() { ErrorKind::Unreachable } else { ErrorKind::Failed };
        Error { kind, message: error.to_string() }
    }
}

macro_rules! from_usage {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Error::usage(error.to_string())
            }
        })*
    };
}

from_usage!(
    antiphon_core::uri::UriError,
    antiphon_core::UnitError,
    antiphon_link::SpecError,
    antiphon_measure::GateError,
    antiphon_media::FormatError,
    antiphon_media::SdpError,
    antiphon_media::packet::PacketError,
    antiphon_net::AddressError,
    antiphon_proto::OpenError,
    antiphon_session::ConvertError,
    antiphon_sound::OpenError,
);
