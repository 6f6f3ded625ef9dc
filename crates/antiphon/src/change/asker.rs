//! Asks for changes of a running stream's transport, from any thread, and shows what became of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antiphon_net::{SocketOptions, Target};
use antiphon_session::{Joining, StreamFraming};

use crate::auto::is_auto;
use crate::run::WirePlan;
use crate::transport::{StackPlan, StreamKeys, StreamUri};
use crate::{Error, SendOptions};

/// What became of the changes of a stream's transport.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransportChanges {
    /// URI of the transport that the stream uses, or the first of those that it uses.
    pub carrying: String,
    /// How many changes have happened: the stream moved, or the receiver accepted a transport beside the others.
    pub happened: u64,
    /// Changes that were asked for and did not happen, and why, a sentence each.
    pub failures: Vec<String>,
}

/// A change that is asked for, its URI found to be valid.
pub(super) struct Asked {
    pub joining: Joining,
    pub uri: String,
    pub plan: WirePlan,
}

/// Asks for changes of one stream. Clones ask the same stream.
#[derive(Clone)]
pub(crate) struct Asker {
    socket: SocketOptions,
    seed: u64,
    stack: StackPlan,
    /// Settings in the stream's first URI.
    keys: StreamKeys,
    /// The stream's first URI calls nobody.
    waits_for_callers: bool,
    /// The media thread never takes this lock.
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    /// What the stream has not taken yet.
    asked: Vec<Asked>,
    /// The stream has ended, and takes nothing more.
    ended: bool,
    /// Transports that are asked for beside the first, less those that failed.
    beside: usize,
    so_far: TransportChanges,
}

impl Asker {
    /// For a stream with these options, the first URI and its stack.
    pub fn new(options: &SendOptions, first: &StreamUri, stack: &StackPlan) -> Self {
        let so_far = TransportChanges { carrying: options.target.clone(), ..TransportChanges::default() };
        let shared = Shared { asked: Vec::new(), ended: false, beside: options.also.len(), so_far };
        Asker {
            socket: options.socket.clone(),
            seed: options.seed,
            stack: stack.clone(),
            keys: first.keys.clone(),
            waits_for_callers: matches!(first.target, Target::Listen(_)),
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the stream to go over to another transport. Errors: usage, or failed when the stream has ended.
    pub fn switch_to(&self, uri: &str) -> Result<(), Error> {
        self.ask(uri, Joining::Instead)
    }

    /// Asks for the stream to be sent over one more transport, for good. Errors: as [`Self::switch_to`].
    pub fn also(&self, uri: &str) -> Result<(), Error> {
        self.ask(uri, Joining::Beside)
    }

    fn ask(&self, uri: &str, joining: Joining) -> Result<(), Error> {
        // Names may be looked up, so no lock is held.
        let asked = Asked { joining, uri: uri.into(), plan: self.read(uri)? };
        let mut shared = self.lock();
        if shared.ended {
            return Err(Error::failed(format!("{uri}: the stream has ended")));
        }
        if joining == Joining::Beside && shared.beside >= MOST_BESIDE {
            return Err(too_many_beside());
        }
        if shared.asked.len() >= MOST_WAITING {
            return Err(Error::usage(format!(
                "{uri}: {MOST_WAITING} changes wait for their turn already: wait until some have happened"
            )));
        }
        shared.asked.push(asked);
        shared.beside += usize::from(joining == Joining::Beside);
        Ok(())
    }

    /// What became of the changes so far.
    pub fn so_far(&self) -> TransportChanges {
        self.lock().so_far.clone()
    }

    /// The next `most` changes that were asked for.
    pub(super) fn take(&self, most: usize) -> Vec<Asked> {
        let asked = &mut self.lock().asked;
        let count = asked.len().min(most);
        asked.drain(..count).collect()
    }

    /// Refuses changes from now on; returns those that nobody took.
    pub(super) fn end(&self) -> Vec<Asked> {
        let mut shared = self.lock();
        shared.ended = true;
        std::mem::take(&mut shared.asked)
    }

    /// The stream has moved, or is accepted beside the others.
    pub(super) fn on_happened(&self) {
        self.lock().so_far.happened += 1;
    }

    /// The stream uses `uri` now.
    pub(super) fn on_carrying(&self, uri: &str) {
        self.lock().so_far.carrying = uri.into();
    }

    /// A change did not happen, or a transport has ended. `was_beside`: there is room for another beside the first.
    pub(super) fn on_failed(&self, sentence: String, was_beside: bool) {
        let mut shared = self.lock();
        shared.so_far.failures.push(sentence);
        shared.beside = shared.beside.saturating_sub(usize::from(was_beside));
    }

    /// The wire of a further URI. It may repeat what the first one says of the sound, as one for any transport does; what would
    /// differ is refused. It may set the transport and the socket as it likes.
    pub(super) fn read(&self, text: &str) -> Result<WirePlan, Error> {
        let (first, keys) = (&self.stack, &self.keys);
        if is_auto(text) {
            return Err(Error::usage(format!(
                "'{text}' chooses a transport for a whole stream, from its beginning: name a transport"
            )));
        }
        let uri = StreamUri::read(text, &self.socket)?;
        let further = &uri.keys;
        let of_sound = [
            ("rate", differs(&further.rate, &keys.rate)),
            ("channels", differs(&further.channels, &keys.channels)),
            ("format", differs(&further.coding, &keys.coding)),
            ("bitrate", differs(&further.bit_rate, &keys.bit_rate)),
            ("groups", differs(&further.groups, &keys.groups)),
            ("ptime", differs(&further.ptime, &keys.ptime)),
            ("latency", differs(&further.latency, &keys.latency)),
            ("protect", differs(&further.protect, &keys.protect)),
            ("framing", further.framing.is_some_and(|framing| framing != first.framing)),
        ];
        if let Some((key, _)) = of_sound.iter().find(|(_, given)| *given) {
            return Err(Error::usage(format!(
                "'{text}': {key}= belongs to the stream, which has one: write it in the first URI"
            )));
        }
        if first.framing != StreamFraming::Rtp {
            return Err(Error::usage(format!(
                "the framing '{}' has no packet numbers by which a receiver joins two transports: omit --also and \
                 --switch",
                first.framing.name()
            )));
        }
        if matches!(uri.target, Target::Listen(_)) {
            return Err(Error::usage(format!(
                "'{text}' has no receiver: write {}://HOST:PORT",
                uri.transport.scheme
            )));
        }
        if self.waits_for_callers {
            return Err(Error::usage(
                "a sender that waits for callers can't choose their transport: name the receiver, or omit --also and \
                 --switch",
            ));
        }
        let stack =
            StackPlan { groups: first.groups, ..uri.stack(self.seed, first.playout_delay, first.framing) };
        Ok(uri.wire(stack))
    }
}

/// Whether a further URI says what the first one does not.
fn differs<T: PartialEq>(further: &Option<T>, first: &Option<T>) -> bool {
    further.is_some() && further != first
}

pub(super) fn too_many_beside() -> Error {
    Error::usage(format!("a stream has at most {MOST_BESIDE} transports beside the first (--also)"))
}

/// Associations beside the first one: one more takes its place now and then (`session::further`).
pub(super) const MOST_BESIDE: usize = 2;
/// Changes that may wait for their turn: more than a program has reason to ask for, and little memory.
pub(super) const MOST_WAITING: usize = 64;
