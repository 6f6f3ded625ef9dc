//! Why a file that is sent beside the sound could not be read to its end: told by the thread that reads it.

use std::sync::{Arc, Mutex, PoisonError};

/// The sentence, as soon as there is one.
#[derive(Clone, Default)]
pub(crate) struct ReadTrouble(Arc<Mutex<Option<String>>>);

impl ReadTrouble {
    /// The sentence, if there is one.
    pub fn note(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reading has failed.
    pub fn set(&self, why: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}
