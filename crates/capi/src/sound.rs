//! Sound from a source to a peer, or from a peer to a sink, in the background.
#![allow(unsafe_code, reason = "functions that C calls, by names and pointers that C knows")]
#![allow(non_camel_case_types, reason = "names as C writes them")]

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use antiphon::{ErrorKind, ReceiveOptions, SendOptions, SoundStatus, SoundTask};

use crate::boundary::{Extensible, patience, text};
use crate::errors::{
    ANTIPHON_CLOSED, ANTIPHON_INVALID, ANTIPHON_OK, ANTIPHON_TIMEOUT, Failure, answer, store, store_handle,
};
use crate::registry::Registry;

/// Sound under way. A handle, not an address: one that was closed, or never was, does no harm.
#[derive(Debug)]
pub struct antiphon_sound {
    _opaque: [u8; 0],
}

/// How sound under way is doing. Set `size` to `sizeof(struct antiphon_sound_status)`. What does not concern a side is
/// zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct antiphon_sound_status {
    /// `sizeof(struct antiphon_sound_status)`.
    pub size: usize,
    /// Sound sent or played so far, in seconds.
    pub sound_s: f64,
    /// Packets sent or received.
    pub packets: u64,
    /// Packets that never came though later ones were played.
    pub lost: u64,
    /// Packets that came after their playout time.
    pub late: u64,
    /// Packets that the sender gave up since their deadline had passed.
    pub expired: u64,
    /// Holes filled with made-up sound.
    pub concealed: u64,
    /// Round trip in milliseconds, as the receiver's reports tell the sender; negative where it is not known.
    pub rtt_ms: f64,
    /// Changes of the transport that have happened: the stream moved, or the receiver accepted one beside the others.
    /// Those that `auto://` chooses are not counted.
    pub changes: u64,
    /// Changes that did not happen, and transports that ended before the stream; `antiphon_sound_wait` says why.
    pub changes_failed: u64,
}

// SAFETY: numbers only, the first of them the size.
unsafe impl Extensible for antiphon_sound_status {}

/// The most URIs on which sound is received.
pub const ANTIPHON_SOUND_MAX_URIS: usize = 32;

static SOUNDS: Registry<SoundTask> = Registry::new();

/// Begins to send the sound of `source` (a file's path, `tone:440Hz`, `-` for standard input) to `uri`, such as
/// `rtp://HOST:PORT`, and stores a handle in `*sound`.
///
/// Returns `ANTIPHON_OK` when source and address were found to be good, or an error; `*sound` is NULL then.
///
/// # Safety
///
/// `source` and `uri` are NULL or end in a zero byte; `sound` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_sound_send(
    source: *const c_char,
    uri: *const c_char,
    sound: *mut *mut antiphon_sound,
) -> c_int {
    let begin = |source: &str, uri: &str| {
        let (source, target) = (source.into(), uri.into());
        SoundTask::send(SendOptions { source, target, ..SendOptions::default() })
    };
    // SAFETY: as the caller vouches.
    unsafe { start((source, "source"), (uri, "uri"), sound, begin) }
}

/// Begins to receive from `uri`, such as `rtp://:PORT`, into `sink` (a WAV file's path, `null:`, `-` for standard
/// output), and stores a handle in `*sound`. It ends when the sender ends its stream.
///
/// Returns `ANTIPHON_OK` when the socket is there, or an error; `*sound` is NULL then.
///
/// # Safety
///
/// `uri` and `sink` are NULL or end in a zero byte; `sound` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_sound_receive(
    uri: *const c_char,
    sink: *const c_char,
    sound: *mut *mut antiphon_sound,
) -> c_int {
    let begin = |uri: &str, sink: &str| {
        let (source, sink) = (uri.into(), sink.into());
        SoundTask::receive(ReceiveOptions { source, sink, ..ReceiveOptions::default() })
    };
    // SAFETY: as the caller vouches.
    unsafe { start((uri, "uri"), (sink, "sink"), sound, begin) }
}

/// Begins to receive from one sender that may come on each of `count` addresses, such as `rtp://:PORT` and
/// `tcp://:PORT`, into `sink`: the first of `uris` is where it begins, and it may go over to the others
/// (`antiphon_sound_switch`) or use them as well (`antiphon_sound_also`). Otherwise as `antiphon_sound_receive`.
///
/// Returns `ANTIPHON_OK` when the sockets are there; `ANTIPHON_INVALID` for no URI or more than
/// `ANTIPHON_SOUND_MAX_URIS`; or another error; `*sound` is NULL then.
///
/// # Safety
///
/// `uris` is NULL or points to `count` texts, each NULL or with a zero byte at its end; `sink` likewise; `sound` is NULL or
/// can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_sound_receive_on(
    uris: *const *const c_char,
    count: usize,
    sink: *const c_char,
    sound: *mut *mut antiphon_sound,
) -> c_int {
    let open = || {
        // SAFETY: as the caller vouches.
        let (mut uris, sink) = unsafe { (texts(uris, count)?, text(sink)) };
        let sink = sink.ok_or_else(|| Failure::text("sink"))?.into();
        let source = uris.remove(0);
        Ok(SoundTask::receive(ReceiveOptions { source, also: uris, sink, ..ReceiveOptions::default() })?)
    };
    // SAFETY: as the caller vouches.
    answer(|| unsafe { store_handle(sound, "sound", &SOUNDS, open) })
}

/// Has a stream that is being sent go over to the transport and address of `uri`, such as `tcp://HOST:PORT`,
/// without a gap. The receiver must listen there (`antiphon_sound_receive_on`). Keys that describe the sound
/// belong into the first URI. A name in `uri` is looked up before this returns.
///
/// Returns `ANTIPHON_OK` when the change is queued: `antiphon_sound_get_status` counts what happened, one change
/// after the other, and `antiphon_sound_wait` says what did not. `ANTIPHON_USAGE` for a URI that the stream can't
/// change to, for sound that is received, and for a stream over `auto://`, which chooses by itself;
/// `ANTIPHON_CLOSED` when the stream has ended; or another error.
///
/// # Safety
///
/// `uri` is NULL or ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_sound_switch(sound: *mut antiphon_sound, uri: *const c_char) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { change(sound, uri, SoundTask::switch_to) }
}

/// Sends everything over `uri` as well until the end, to the same receiver, which must listen there; two such at
/// most. Otherwise as `antiphon_sound_switch`.
///
/// # Safety
///
/// `uri` is NULL or ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_sound_also(sound: *mut antiphon_sound, uri: *const c_char) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { change(sound, uri, SoundTask::also) }
}

/// Waits until the sound has ended. `timeout_ms`: negative for without limit.
///
/// Returns `ANTIPHON_OK`, `ANTIPHON_TIMEOUT`, or the error that ended it. `ANTIPHON_FAILED` also when the sound was
/// sent and changes of the transport did not happen: `antiphon_last_error` has a line for each then.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_sound_wait(sound: *mut antiphon_sound, timeout_ms: c_int) -> c_int {
    answer(|| {
        let unfinished = || Failure::new(ANTIPHON_TIMEOUT, "the sound has not ended within the time given");
        find(sound)?.wait(patience(timeout_ms)).ok_or_else(unfinished)??;
        Ok(ANTIPHON_OK)
    })
}

/// Stores how the sound is doing in `*status`.
///
/// # Safety
///
/// `status` is NULL or as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_sound_get_status(
    sound: *mut antiphon_sound,
    status: *mut antiphon_sound_status,
) -> c_int {
    answer(|| {
        let sound = find(sound)?;
        // SAFETY: as the caller vouches.
        unsafe { store(status, "status", &status_of(&sound)) }
    })
}

/// Asks the sound to end in order, waits until it has, and frees it. Returns `ANTIPHON_OK`, or the error that ended
/// it, as `antiphon_sound_wait`: a change of the transport that had no time to happen is one that did not.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_sound_close(sound: *mut antiphon_sound) -> c_int {
    answer(|| {
        let task = SOUNDS.remove(sound).ok_or_else(Failure::bad_handle)?;
        task.stop();
        // Without a limit, waiting tells how it ended.
        task.wait(None).unwrap_or(Ok(()))?;
        Ok(ANTIPHON_OK)
    })
}

/// # Safety
///
/// The texts are NULL or end in a zero byte; `sound` is NULL or can be written to.
unsafe fn start(
    first: (*const c_char, &str),
    second: (*const c_char, &str),
    sound: *mut *mut antiphon_sound,
    begin: impl FnOnce(&str, &str) -> Result<SoundTask, antiphon::Error>,
) -> c_int {
    let open = || {
        // SAFETY: as the caller vouches.
        let (one, two) = unsafe { (text(first.0), text(second.0)) };
        let one = one.ok_or_else(|| Failure::text(first.1))?;
        let two = two.ok_or_else(|| Failure::text(second.1))?;
        Ok(begin(one, two)?)
    };
    // SAFETY: as the caller vouches.
    answer(|| unsafe { store_handle(sound, "sound", &SOUNDS, open) })
}

fn find(sound: *mut antiphon_sound) -> Result<Arc<SoundTask>, Failure> {
    SOUNDS.find(sound).ok_or_else(Failure::bad_handle)
}

/// # Safety
///
/// `uri` is NULL or ends in a zero byte.
unsafe fn change(
    sound: *mut antiphon_sound,
    uri: *const c_char,
    ask: impl FnOnce(&SoundTask, &str) -> Result<(), antiphon::Error>,
) -> c_int {
    answer(|| {
        let sound = find(sound)?;
        // SAFETY: as the caller vouches.
        let uri = unsafe { text(uri) }.ok_or_else(|| Failure::text("uri"))?;
        ask(&sound, uri).map_err(|error| match error.kind {
            // The stream has ended, and nothing else fails here.
            ErrorKind::Failed => Failure::new(ANTIPHON_CLOSED, error.message),
            ErrorKind::Usage | ErrorKind::Unreachable => error.into(),
        })?;
        Ok(ANTIPHON_OK)
    })
}

/// The texts of an array, at least one.
///
/// # Safety
///
/// `uris` is NULL or points to `count` texts, each NULL or with a zero byte at its end.
unsafe fn texts(uris: *const *const c_char, count: usize) -> Result<Vec<String>, Failure> {
    if uris.is_null() {
        return Err(Failure::null("uris"));
    }
    if !(1..=ANTIPHON_SOUND_MAX_URIS).contains(&count) {
        let words = format!("{count} URIs: sound is received on 1 to {ANTIPHON_SOUND_MAX_URIS}");
        return Err(Failure::new(ANTIPHON_INVALID, words));
    }
    let one = |at: usize| {
        // SAFETY: the caller vouches for so many pointers, and for where they point.
        let uri = unsafe { text(uris.add(at).read()) };
        uri.map(String::from).ok_or_else(|| Failure::text(&format!("uris[{at}]")))
    };
    (0..count).map(one).collect()
}

fn status_of(sound: &SoundTask) -> antiphon_sound_status {
    let status = sound.status().into();
    match sound.changes() {
        Some(changes) => antiphon_sound_status {
            changes: changes.happened,
            changes_failed: changes.failures.len() as u64,
            ..status
        },
        // A receiver follows its sender, and over `auto://` the stream chooses: the program asks for no change there.
        None => status,
    }
}

impl From<SoundStatus> for antiphon_sound_status {
    fn from(status: SoundStatus) -> Self {
        let nothing = antiphon_sound_status {
            size: 0,
            sound_s: 0.0,
            packets: 0,
            lost: 0,
            late: 0,
            expired: 0,
            concealed: 0,
            rtt_ms: -1.0,
            changes: 0,
            changes_failed: 0,
        };
        match status {
            SoundStatus::Sending(sent) => antiphon_sound_status {
                sound_s: sent.sent_s,
                packets: sent.packets_sent,
                expired: sent.expired,
                rtt_ms: sent.rtt_ms.unwrap_or(-1.0),
                ..nothing
            },
            SoundStatus::Receiving(heard) => antiphon_sound_status {
                sound_s: heard.played_s,
                packets: heard.packets_received,
                lost: heard.lost,
                late: heard.late,
                concealed: heard.concealed,
                ..nothing
            },
        }
    }
}
