//! What the user is told of transports that pictures and data have for themselves.

use std::time::Duration;

use antiphon_core::WireId;
use antiphon_session::Change;

use super::TOLD_AFTER;
use crate::pictures::{Beside, VideoOver};

/// One of them.
pub(super) struct ApartNews {
    uri: String,
    what: Beside,
    wire: WireId,
    /// The receiver has taken it at least once.
    happened: bool,
    /// The user knows that it is still being tried.
    told: bool,
}

impl ApartNews {
    pub fn of(over: &VideoOver) -> Self {
        ApartNews { uri: over.text(), what: over.what(), wire: over.wire_id(), happened: false, told: false }
    }

    /// Whether it has this wire.
    pub fn is_of(&self, wire: WireId) -> bool {
        self.wire == wire
    }

    /// That the receiver never took it, in a sentence.
    pub fn missed(&self) -> Option<String> {
        let what = self.what.name();
        (!self.happened)
            .then(|| format!("{}: the stream ended before the receiver accepted {what} there", self.uri))
    }

    /// Tells what the receiver has not taken for long.
    pub fn look(&mut self, sent: Duration, notice: &mut dyn FnMut(String)) {
        if !self.happened && sent >= TOLD_AFTER && !std::mem::replace(&mut self.told, true) {
            notice(format!(
                "{}: the receiver, which needs {}, does not accept {} there yet; still trying",
                self.uri,
                self.what.option(),
                self.what.name()
            ));
        }
    }

    /// Tells what became of it.
    pub fn tell(&mut self, change: Change, notice: &mut dyn FnMut(String)) {
        let (uri, what) = (&self.uri, self.what.name());
        match change {
            Change::Joined(_) if std::mem::replace(&mut self.happened, true) => {
                notice(format!("the receiver accepts the {what} over {uri} again"));
            }
            Change::Joined(_) | Change::Moved(_) => {
                notice(format!("the receiver accepts the {what} over {uri}"))
            }
            Change::Failed(_, why) => {
                notice(format!("{uri}: {why}; the sound goes on without {what}, and they are tried again"));
            }
        }
    }
}
