//! `srp.h`: the six functions of the SRP report's appendix, on a socket that the program made.
//!
//! Source: K. French, G. Oprica, M. Piecuch, "SRP - A Multimedia Network Protocol", Worcester Polytechnic Institute,
//! 2000, appendix 8.
#![allow(unsafe_code, reason = "functions that C calls, by names and pointers that C knows")]
#![allow(non_camel_case_types, reason = "names of the report")]

use std::ffi::{c_float, c_int, c_uint, c_void};
use std::io;
use std::time::Duration;

use antiphon::proto::srp::{Decision, Mode, Settings};
use antiphon::srp::{Incoming, SrpClient, SrpServer};

use crate::boundary::{address, bytes, guarded, room, set_errno};
use crate::registry::{Registry, mark};

/// For `flags`: speak the improved protocol instead of the one of the report. Both sides need the same. Messages come
/// as they arrive, not in order; each lost packet is told, and a message has as many as it takes.
pub const SRP_IMPROVED: c_uint = 1;

/// For `flags` of a client: `srp_recvfrom` returns `-EPIPE` on errors, which no number of bytes is. Without it, errors
/// are `EPIPE` as the report has it, and a message of 32 bytes looks the same; `errno` is 0 after a message.
pub const SRP_NEGATIVE_ERRORS: c_uint = 2;

/// For `flags` of a client: decide by *equal loss latency*. Without it: by *optimum quality* as published, by the
/// deadline when improved.
pub const SRP_EQUAL_LOSS_LATENCY: c_uint = 4;

/// A client: begun by `srp_client_start`, ended by `srp_client_stop`.
///
/// A handle, not an address: never followed, so that one that was stopped, or never was, does no harm.
#[derive(Debug)]
pub struct srp_client_socket {
    _opaque: [u8; 0],
}

/// A server: begun by `srp_server_start`, ended by `srp_server_stop`. A handle like `srp_client_socket`.
#[derive(Debug)]
pub struct srp_server_socket {
    _opaque: [u8; 0],
}

static CLIENTS: Registry<SrpClient> = Registry::new();
static SERVERS: Registry<SrpServer> = Registry::new();

/// Begins to receive from the server at `to`, through the UDP socket `sock`.
///
/// `loss`: the share of messages that may be lost, more than 0 and less than 1. `lat`: the latency that is tolerated, in
/// milliseconds, more than 0. `flags`: 0, or `SRP_` constants added up.
///
/// Returns NULL on error, with `errno`: `EINVAL` (loss, latency, flags, `tolen`, an address without port or host, or a
/// group), `EFAULT` (`to` is NULL), `EAFNOSUPPORT` (no IP address, or another version than the socket's), `EBADF`,
/// `ENOTSOCK`, `EPROTOTYPE`, `EPROTONOSUPPORT` (`sock` is no UDP socket), `EMFILE`, `ENFILE`.
///
/// # Safety
///
/// `to` is NULL or points to `tolen` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srp_client_start(
    sock: c_int,
    flags: c_uint,
    to: *const libc::sockaddr,
    tolen: c_int,
    loss: c_float,
    lat: c_int,
) -> *mut srp_client_socket {
    let start = || -> Result<*mut srp_client_socket, c_int> {
        let mode = mode(flags)?;
        // SAFETY: as the caller vouches.
        let to = unsafe { address(to, tolen) }?;
        let latency = u64::try_from(lat).map_err(|_| libc::EINVAL)?;
        let mut settings = Settings::new(mode, Duration::from_millis(latency));
        settings.desired_loss = f64::from(loss);
        if flags & SRP_EQUAL_LOSS_LATENCY != 0 {
            settings.decide = Decision::EqualLossLatency;
        }
        let client = SrpClient::start(lent(sock), to, &settings).map_err(|error| number(&error))?;
        CLIENTS.insert(client, flags & SRP_NEGATIVE_ERRORS != 0).ok_or(libc::ENFILE)
    };
    or_null(guarded(Err(libc::EIO), start))
}

/// Ends a client and frees it. The socket stays open; nothing here uses it any more when this returns. A
/// `srp_recvfrom` that waits in another thread returns an error.
///
/// What is no client, or none any more, is let be, with `errno` set to `EBADF`. Not to be called by a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn srp_client_stop(sock: *mut srp_client_socket) {
    end(&CLIENTS, sock, SrpClient::stop);
}

/// Waits for the next message and copies it into `buffer`, `max` bytes of it at most; the rest of a longer one is gone.
///
/// Returns the number of bytes copied; 0 when the next message was lost; `EPIPE` on error, or `-EPIPE` for clients with
/// `SRP_NEGATIVE_ERRORS`, with `errno`: `EBADF` (no client, or none any more; or the program has closed or shut down
/// its socket, which is noticed within 50 ms), `ECANCELED` (stopped meanwhile), `EFAULT` (`buffer` is NULL), `EINVAL`
/// (`max` is not more than 0), `EINTR` (a signal came), or what the socket said, such as `ECONNREFUSED` where it is
/// connected; after those two the client goes on. Otherwise `errno` is 0.
///
/// Requests and time probes go out while this waits: call it again without long pauses.
///
/// # Safety
///
/// `buffer` is NULL or points to `max` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srp_recvfrom(
    sock: *mut srp_client_socket,
    buffer: *mut c_void,
    max: c_int,
) -> c_int {
    let receive = || -> Result<c_int, c_int> {
        let client = CLIENTS.find(sock).ok_or(libc::EBADF)?;
        let max = usize::try_from(max).ok().filter(|max| *max > 0).ok_or(libc::EINVAL)?;
        // SAFETY: as the caller vouches.
        let buffer = unsafe { room(buffer, max) }.ok_or(libc::EFAULT)?;
        match client.receive(buffer).map_err(|error| number(&error))? {
            Incoming::Message { len } => Ok(c_int::try_from(len).unwrap_or(c_int::MAX)),
            Incoming::Lost => Ok(0),
        }
    };
    let result = guarded(Err(libc::EIO), receive);
    set_errno(result.err().unwrap_or(0));
    result.unwrap_or(if mark(sock) { -libc::EPIPE } else { libc::EPIPE })
}

/// Begins to serve the client at `to`, through the UDP socket `sock`, and starts the thread that receives its requests.
///
/// `flags`: as for `srp_client_start`; only `SRP_IMPROVED` concerns a server. Returns NULL on error, with `errno` as
/// there, and `EAGAIN` where no thread is to be had.
///
/// # Safety
///
/// `to` is NULL or points to `tolen` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srp_server_start(
    sock: c_int,
    flags: c_uint,
    to: *const libc::sockaddr,
    tolen: c_int,
) -> *mut srp_server_socket {
    let start = || -> Result<*mut srp_server_socket, c_int> {
        let mode = mode(flags)?;
        // SAFETY: as the caller vouches.
        let to = unsafe { address(to, tolen) }?;
        let server = SrpServer::start(lent(sock), to, mode, KEEP).map_err(|error| number(&error))?;
        SERVERS.insert(server, false).ok_or(libc::ENFILE)
    };
    or_null(guarded(Err(libc::EIO), start))
}

/// Ends a server and its thread, and frees it. The socket stays open; nothing here uses it any more when this returns.
/// What was sent last is repaired no more: a program that cares waits a little first.
///
/// What is no server, or none any more, is let be, with `errno` set to `EBADF`. Not to be called by a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn srp_server_stop(sock: *mut srp_server_socket) {
    end(&SERVERS, sock, SrpServer::stop);
}

/// Sends a message of `len` bytes: 1 to 1480 as published (1456 where packets are not to be cut by IP), 1 to 65535 when
/// improved.
///
/// Returns the number of bytes sent, all of them, or -1 with `errno`: `EBADF` (no server, or none any more; or the
/// program has closed its socket), `ECANCELED` (stopped meanwhile), `EFAULT` (`msg` is NULL), `EINVAL` (`len` is not
/// more than 0), `EMSGSIZE` (too long), or what the socket said. After the last the message counts as sent: the client
/// may still ask for it.
///
/// # Safety
///
/// `msg` is NULL or points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srp_sendto(sock: *mut srp_server_socket, msg: *const c_void, len: c_int) -> c_int {
    let send = || -> Result<(), c_int> {
        let server = SERVERS.find(sock).ok_or(libc::EBADF)?;
        let len = usize::try_from(len).ok().filter(|len| *len > 0).ok_or(libc::EINVAL)?;
        // SAFETY: as the caller vouches.
        let message = unsafe { bytes(msg, len) }.ok_or(libc::EFAULT)?;
        server.send(message).map_err(|error| number(&error))
    };
    match guarded(Err(libc::EIO), send) {
        Ok(()) => len,
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

fn mode(flags: c_uint) -> Result<Mode, c_int> {
    if flags & !(SRP_IMPROVED | SRP_NEGATIVE_ERRORS | SRP_EQUAL_LOSS_LATENCY) != 0 {
        return Err(libc::EINVAL);
    }
    Ok(if flags & SRP_IMPROVED != 0 { Mode::Improved } else { Mode::AsPublished })
}

/// Takes a handle out of its registry and stops what it stood for.
fn end<T, H>(registry: &Registry<T>, handle: *mut H, stop: impl FnOnce(&T)) {
    let found = || registry.remove(handle).map(|open| stop(&open)).ok_or(libc::EBADF);
    if let Err(error) = guarded(Err(libc::EIO), found) {
        set_errno(error);
    }
}

/// The program's socket as the system has it.
#[cfg(unix)]
fn lent(sock: c_int) -> c_int {
    sock
}

/// The program's socket as the system has it: a handle, of which Windows uses no more than 32 bits.
#[cfg(windows)]
fn lent(sock: c_int) -> antiphon::net::RawFd {
    antiphon::net::RawFd::try_from(sock).unwrap_or(!0)
}

fn number(error: &io::Error) -> c_int {
    error.raw_os_error().map_or(libc::EIO, errno_of)
}

#[cfg(unix)]
fn errno_of(code: c_int) -> c_int {
    code
}

/// The number that C's library has for an error of Winsock (winerror.h, errno.h).
#[cfg(windows)]
fn errno_of(code: c_int) -> c_int {
    match code {
        10004 => libc::EINTR,
        10009 => libc::EBADF,
        10013 => libc::EACCES,
        10014 => libc::EFAULT,
        10022 => libc::EINVAL,
        10024 => libc::EMFILE,
        10035 => libc::EAGAIN,
        10038 => libc::ENOTSOCK,
        10040 => libc::EMSGSIZE,
        10041 => libc::EPROTOTYPE,
        10043 => libc::EPROTONOSUPPORT,
        10047 => libc::EAFNOSUPPORT,
        10049 => libc::EADDRNOTAVAIL,
        10050 => libc::ENETDOWN,
        10051 => libc::ENETUNREACH,
        // What a datagram socket says of a port without a program.
        10054 | 10061 => libc::ECONNREFUSED,
        10055 => libc::ENOBUFS,
        10065 => libc::EHOSTUNREACH,
        10103 => libc::ECANCELED,
        _ => libc::EIO,
    }
}

fn or_null<T>(result: Result<*mut T, c_int>) -> *mut T {
    result.unwrap_or_else(|error| {
        set_errno(error);
        std::ptr::null_mut()
    })
}

/// For how long an improved server can repair. The interface does not tell it the client's latency; no receiver plays what
/// is older.
const KEEP: Duration = Duration::from_secs(2);
