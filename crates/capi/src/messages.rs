//! Messages of the program's own over any transport, by URI.
#![allow(unsafe_code, reason = "functions that C calls, by names and pointers that C knows")]
#![allow(non_camel_case_types, reason = "names as C writes them")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::time::Duration;

use antiphon::messages::{MessageLink, MessageOptions, MessageStats};
use antiphon::session::LinkState;

use crate::boundary::{Extensible, bytes, patience, read_sized, room, text, write_sized};
use crate::errors::{ANTIPHON_OK, Failure, answer, store, store_handle};
use crate::registry::Registry;

/// An association that carries messages. A handle, not an address: one that was closed, or never was, does no harm.
#[derive(Debug)]
pub struct antiphon_link {
    _opaque: [u8; 0],
}

/// No peer yet.
pub const ANTIPHON_WAITING: c_int = 0;
/// Messages flow.
pub const ANTIPHON_CONNECTED: c_int = 1;
/// The peer can't be reached for now.
pub const ANTIPHON_BROKEN: c_int = 2;
/// The association has ended.
pub const ANTIPHON_ENDED: c_int = 3;

/// How to open an association. Set `size` to `sizeof(struct antiphon_options)` and the rest to zero, then what is wanted.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct antiphon_options {
    /// `sizeof(struct antiphon_options)`.
    pub size: usize,
    /// How old a message may be when it is used, in milliseconds; 0 for 80. `latency` in the URI wins.
    pub latency_ms: c_uint,
}

/// What is known of a received message. Set `size` to `sizeof(struct antiphon_message_info)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct antiphon_message_info {
    /// `sizeof(struct antiphon_message_info)`.
    pub size: usize,
    /// Bytes of the message; more than were copied when the buffer was too short, and the rest is gone.
    pub length: usize,
    /// When its last byte came off the wire, in nanoseconds of `CLOCK_MONOTONIC`.
    pub received_ns: u64,
    /// 1 if it had to be sent more than once, as far as this side knows; else 0.
    pub repaired: c_int,
}

/// How an association is doing. Set `size` to `sizeof(struct antiphon_stats)`. Each figure is right; all of them need
/// not be of the same instant.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct antiphon_stats {
    /// `sizeof(struct antiphon_stats)`.
    pub size: usize,
    /// Messages that the transport took.
    pub messages_accepted: u64,
    /// Messages that it refused though they were in the queue.
    pub messages_refused: u64,
    /// Messages on the wire of which no more will be known.
    pub messages_released: u64,
    /// Messages that the peer has confirmed.
    pub messages_acked: u64,
    /// Messages given up since their time was over.
    pub messages_expired: u64,
    /// Messages given up after the transport's last try.
    pub messages_exhausted: u64,
    /// Messages whose fate the end of the association has left open.
    pub messages_aborted: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Messages received and dropped, since they were not fetched in time.
    pub messages_dropped: u64,
    /// Datagrams sent, or the kernel's segments where known. This and the next six start again at 0 with another peer.
    pub datagrams_sent: u64,
    /// Bytes in them, below UDP or TCP.
    pub bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets or messages received twice.
    pub duplicates: u64,
    /// Datagrams or parts of the stream that broke the protocol.
    pub malformed: u64,
    /// Datagrams of others than the peer.
    pub unknown_sources: u64,
    /// Smoothed round trip in nanoseconds; -1 where it is not known.
    pub srtt_ns: i64,
    /// Its mean deviation in nanoseconds; -1 where it is not known.
    pub rttvar_ns: i64,
    /// The shortest round trip in nanoseconds; -1 where it is not known.
    pub min_rtt_ns: i64,
    /// `ANTIPHON_WAITING`, `ANTIPHON_CONNECTED`, `ANTIPHON_BROKEN` or `ANTIPHON_ENDED`.
    pub state: c_int,
}

// SAFETY: integers only, the first of them the size.
unsafe impl Extensible for antiphon_options {}
// SAFETY: as above.
unsafe impl Extensible for antiphon_message_info {}
// SAFETY: as above.
unsafe impl Extensible for antiphon_stats {}

static LINKS: Registry<MessageLink> = Registry::new();

/// Opens an association and stores its handle in `*link`. `scheme://HOST:PORT` calls, `scheme://:PORT` or
/// `scheme://@ADDRESS:PORT` waits for a caller; keys such as `?latency=40ms` follow. `options` may be NULL.
///
/// Returns `ANTIPHON_OK` when the socket is there (`antiphon_wait` tells when messages flow), or an error; `*link` is
/// NULL then.
///
/// # Safety
///
/// `uri` is NULL or ends in a zero byte; `options` is NULL or as long as it says; `link` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_open(
    uri: *const c_char,
    options: *const antiphon_options,
    link: *mut *mut antiphon_link,
) -> c_int {
    let open = || {
        // SAFETY: as the caller vouches.
        let uri = unsafe { text(uri) }.ok_or_else(|| Failure::text("uri"))?;
        let mut chosen = MessageOptions::default();
        if !options.is_null() {
            // SAFETY: as the caller vouches.
            let options = unsafe { read_sized(options) }.ok_or_else(|| Failure::size("options"))?;
            if options.latency_ms > 0 {
                chosen.latency = Duration::from_millis(options.latency_ms.into());
            }
        }
        Ok(MessageLink::open(uri, &chosen)?)
    };
    // SAFETY: as the caller vouches.
    answer(|| unsafe { store_handle(link, "link", &LINKS, open) })
}

/// Waits until messages flow: for the connection, and where the transport has none (rtp, srp, arq) until the peer has
/// answered a question that `antiphon_open` asks; a program that knows nothing of it answers with its first message.
/// `timeout_ms`: negative for without limit.
///
/// Returns `ANTIPHON_OK`, `ANTIPHON_TIMEOUT`, `ANTIPHON_CLOSED` or another error.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_wait(link: *mut antiphon_link, timeout_ms: c_int) -> c_int {
    answer(|| {
        find(link)?.wait_connected(patience(timeout_ms))?;
        Ok(ANTIPHON_OK)
    })
}

/// Queues a copy of a message for sending. `lifetime_us`: for how many microseconds from now on it is of use, after which
/// it is not begun; 0: no limit.
///
/// Returns `ANTIPHON_OK`, `ANTIPHON_FULL` (256 messages are waiting), `ANTIPHON_TOO_LARGE` (see `antiphon_max_message`),
/// `ANTIPHON_CLOSED` or another error. What became of it is counted in `antiphon_stats`.
///
/// # Safety
///
/// `data` is NULL or points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_send(
    link: *mut antiphon_link,
    data: *const c_void,
    len: usize,
    lifetime_us: i64,
) -> c_int {
    answer(|| {
        let link = find(link)?;
        let invalid = |words: &str| Failure::new(crate::errors::ANTIPHON_INVALID, words);
        // SAFETY: as the caller vouches.
        let message = unsafe { bytes(data, len) }.ok_or_else(|| invalid("data is NULL, or len is 0"))?;
        let lifetime =
            u64::try_from(lifetime_us).map_err(|_| invalid("lifetime_us is negative: 0 is for ever"))?;
        link.send(message, (lifetime > 0).then(|| Duration::from_micros(lifetime)))?;
        Ok(ANTIPHON_OK)
    })
}

/// Waits for the next message and copies it into `buffer`, `max` bytes of it at most. `timeout_ms`: negative for without
/// limit, 0 for not at all. `info` may be NULL.
///
/// Returns the number of bytes copied, at least 1; `ANTIPHON_TIMEOUT`; `ANTIPHON_CLOSED` when the association has ended
/// and everything that came was fetched; or another error.
///
/// # Safety
///
/// `buffer` is NULL or points to `max` bytes; `info` is NULL or as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_receive(
    link: *mut antiphon_link,
    buffer: *mut c_void,
    max: usize,
    timeout_ms: c_int,
    info: *mut antiphon_message_info,
) -> c_int {
    answer(|| {
        let link = find(link)?;
        let invalid = || Failure::new(crate::errors::ANTIPHON_INVALID, "buffer is NULL, or max is 0");
        // SAFETY: as the caller vouches.
        let buffer = unsafe { room(buffer, max) }.ok_or_else(invalid)?;
        // Before a message is taken for it: its size.
        // SAFETY: as the caller vouches.
        if !info.is_null() && unsafe { read_sized(info) }.is_none() {
            return Err(Failure::size("info"));
        }
        let arrived = link.receive(buffer, patience(timeout_ms))?;
        if !info.is_null() {
            let received = link.monotonic(arrived.received_at);
            let told = antiphon_message_info {
                size: 0,
                length: arrived.full_len,
                received_ns: u64::try_from(received.as_nanos()).unwrap_or(u64::MAX),
                repaired: c_int::from(arrived.repaired),
            };
            // SAFETY: as the caller vouches.
            unsafe { write_sized(info, &told) };
        }
        Ok(c_int::try_from(arrived.len).unwrap_or(c_int::MAX))
    })
}

/// The largest message that can be sent, in bytes; or an error.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_max_message(link: *mut antiphon_link) -> c_int {
    answer(|| Ok(c_int::try_from(find(link)?.max_message()).unwrap_or(c_int::MAX)))
}

/// Stores how an association is doing in `*stats`.
///
/// # Safety
///
/// `stats` is NULL or as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_get_stats(link: *mut antiphon_link, stats: *mut antiphon_stats) -> c_int {
    answer(|| {
        let link = find(link)?;
        // SAFETY: as the caller vouches.
        unsafe { store(stats, "stats", &link.stats().into()) }
    })
}

/// Ends an association and frees it: sends what waits, as far as lifetimes and two seconds allow, and tells the peer. Calls
/// that wait in other threads return `ANTIPHON_CLOSED`.
///
/// Returns `ANTIPHON_OK`, or the error that had ended it before. The handle is closed in any case.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_close(link: *mut antiphon_link) -> c_int {
    answer(|| {
        LINKS.remove(link).ok_or_else(Failure::bad_handle)?.close()?;
        Ok(ANTIPHON_OK)
    })
}

fn find(link: *mut antiphon_link) -> Result<std::sync::Arc<MessageLink>, Failure> {
    LINKS.find(link).ok_or_else(Failure::bad_handle)
}

impl From<MessageStats> for antiphon_stats {
    fn from(stats: MessageStats) -> Self {
        let nanos = |time: Option<Duration>| {
            time.map_or(-1, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
        };
        antiphon_stats {
            size: 0,
            messages_accepted: stats.messages_accepted,
            messages_refused: stats.messages_refused,
            messages_released: stats.messages_released,
            messages_acked: stats.messages_acked,
            messages_expired: stats.messages_expired,
            messages_exhausted: stats.messages_exhausted,
            messages_aborted: stats.messages_aborted,
            messages_received: stats.messages_received,
            messages_dropped: stats.messages_dropped,
            datagrams_sent: stats.datagrams_sent,
            bytes_sent: stats.bytes_sent,
            datagrams_received: stats.datagrams_received,
            bytes_received: stats.bytes_received,
            retransmitted: stats.retransmitted,
            duplicates: stats.duplicates,
            malformed: stats.malformed,
            unknown_sources: stats.unknown_sources,
            srtt_ns: nanos(stats.srtt),
            rttvar_ns: nanos(stats.rttvar),
            min_rtt_ns: nanos(stats.min_rtt),
            state: match stats.state {
                LinkState::Waiting => ANTIPHON_WAITING,
                LinkState::Connected => ANTIPHON_CONNECTED,
                LinkState::Broken => ANTIPHON_BROKEN,
                LinkState::Closed => ANTIPHON_ENDED,
            },
        }
    }
}
