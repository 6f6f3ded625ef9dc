//! Sound from a source to a peer, or from a peer to a sink, in the background.
#![allow(unsafe_code, reason = "functions that C calls, by names and pointers that C knows")]
#![allow(non_camel_case_types, reason = "names as C writes them")]

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use antiphon::{ReceiveOptions, SendOptions, SoundStatus, SoundTask};

use crate::boundary::{Extensible, patience, text};
use crate::errors::{ANTIPHON_OK, ANTIPHON_TIMEOUT, Failure, answer, store, store_handle};
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
}

// SAFETY: numbers only, the first of them the size.
unsafe impl Extensible for antiphon_sound_status {}

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

/// Waits until the sound has ended. `timeout_ms`: negative for without limit.
///
/// Returns `ANTIPHON_OK`, `ANTIPHON_TIMEOUT`, or the error that ended it.
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
        unsafe { store(status, "status", &sound.status().into()) }
    })
}

/// Asks the sound to end in order, waits until it has, and frees it. Returns `ANTIPHON_OK`, or the error that ended it.
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
