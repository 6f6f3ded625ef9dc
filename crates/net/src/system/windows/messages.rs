//! Datagrams with control messages: C's `recvmsg`, `sendmsg` and `sendto` over `WSARecvMsg`, `WSASendMsg` and `sendto`.
//!
//! Sockets are non-blocking (`prepare`). A call without `MSG_DONTWAIT` waits as long as the socket's time-out, by `WSAPoll`.
#![allow(unsafe_code, reason = "Winsock's calls over buffers that their caller owns")]
#![allow(non_snake_case, reason = "CMSG_LEN and its like have the names of C's macros")]

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use windows_sys::Win32::Foundation::SetLastError;
use windows_sys::Win32::Networking::WinSock as sock;

use super::fd::RawFd;
use super::libc::{MSG_DONTWAIT, cmsghdr, msghdr};

/// Receives one datagram, as C's `recvmsg`; of one that is longer than the buffer the beginning.
///
/// # Safety
///
/// The header's pointers are to live buffers of the lengths given; it has one buffer for data.
pub unsafe fn recvmsg(fd: RawFd, header: *mut msghdr, flags: i32) -> isize {
    let Some(receive) = receive_function(fd) else { return failed() };
    // SAFETY: as promised by the caller.
    let (header, buffer) = unsafe { (&mut *header, &*(*header).msg_iov) };
    let mut data = sock::WSABUF { len: buffer.iov_len as u32, buf: buffer.iov_base.cast() };
    call(fd, flags, sock::POLLRDNORM, sock::SO_RCVTIMEO, || {
        let mut message = message_of(header, &raw mut data);
        let mut len = 0;
        // SAFETY: the pointers are the caller's, to live buffers of the lengths given; without an OVERLAPPED the call is over when it returns.
        let result =
            unsafe { receive(fd as sock::SOCKET, &raw mut message, &raw mut len, ptr::null_mut(), None) };
        // SAFETY: a plain call.
        let too_long = result != 0 && unsafe { sock::WSAGetLastError() } == sock::WSAEMSGSIZE;
        if result != 0 && !too_long {
            return None;
        }
        header.msg_namelen = message.namelen;
        header.msg_controllen = message.Control.len as usize;
        Some(if too_long { buffer.iov_len as isize } else { len as isize })
    })
}

/// The header as Winsock has it, with this one buffer for data.
fn message_of(header: &msghdr, data: *mut sock::WSABUF) -> sock::WSAMSG {
    sock::WSAMSG {
        name: header.msg_name.cast(),
        namelen: header.msg_namelen,
        lpBuffers: data,
        dwBufferCount: 1,
        Control: sock::WSABUF { len: header.msg_controllen as u32, buf: header.msg_control.cast() },
        dwFlags: 0,
    }
}

/// Sends one datagram, as C's `sendmsg`.
///
/// # Safety
///
/// As for [`recvmsg`].
pub unsafe fn sendmsg(fd: RawFd, header: *const msghdr, flags: i32) -> isize {
    // SAFETY: as promised by the caller.
    let (header, buffer) = unsafe { (&*header, &*(*header).msg_iov) };
    if header.msg_controllen == 0 {
        // SAFETY: as promised by the caller.
        return unsafe {
            sendto(
                fd,
                buffer.iov_base,
                buffer.iov_len,
                flags,
                header.msg_name.cast_const(),
                header.msg_namelen,
            )
        };
    }
    let mut data = sock::WSABUF { len: buffer.iov_len as u32, buf: buffer.iov_base.cast() };
    let message = message_of(header, &raw mut data);
    call(fd, flags, sock::POLLWRNORM, sock::SO_SNDTIMEO, || {
        let mut len = 0;
        // SAFETY: as for receiving; the message is only read.
        let result = unsafe {
            sock::WSASendMsg(fd as sock::SOCKET, &raw const message, 0, &raw mut len, ptr::null_mut(), None)
        };
        (result == 0).then_some(len as isize)
    })
}

/// Sends one datagram, as C's `sendto`.
///
/// # Safety
///
/// The pointers are to live buffers of the lengths given; without a name it is null.
pub unsafe fn sendto(
    fd: RawFd,
    bytes: *const c_void,
    len: usize,
    flags: i32,
    name: *const c_void,
    name_len: i32,
) -> isize {
    call(fd, flags, sock::POLLWRNORM, sock::SO_SNDTIMEO, || {
        // SAFETY: as promised by the caller.
        let sent =
            unsafe { sock::sendto(fd as sock::SOCKET, bytes.cast(), len as i32, 0, name.cast(), name_len) };
        (sent >= 0).then_some(sent as isize)
    })
}

/// Reads a byte stream, as C's `recvmsg` does; Windows has no time stamps for it.
///
/// # Safety
///
/// As for [`recvmsg`].
pub(crate) unsafe fn receive_stream(fd: RawFd, header: *mut msghdr, flags: i32) -> isize {
    // SAFETY: as promised by the caller.
    let (header, buffer) = unsafe { (&mut *header, &*(*header).msg_iov) };
    header.msg_controllen = 0;
    call(fd, flags, sock::POLLRDNORM, sock::SO_RCVTIMEO, || {
        let len = buffer.iov_len.min(i32::MAX as usize) as i32;
        // SAFETY: as promised by the caller.
        let got = unsafe { sock::recv(fd as sock::SOCKET, buffer.iov_base.cast(), len, 0) };
        (got >= 0).then_some(got as isize)
    })
}

/// Makes a call and, where it would wait and may, waits and makes it once more. Returns its result, or -1 with the error as the last of this thread.
fn call(fd: RawFd, flags: i32, event: i16, timeout: i32, mut once: impl FnMut() -> Option<isize>) -> isize {
    if let Some(result) = once() {
        return result;
    }
    // SAFETY: a plain call.
    let would_wait = unsafe { sock::WSAGetLastError() } == sock::WSAEWOULDBLOCK;
    if flags & MSG_DONTWAIT != 0 || !would_wait {
        return failed();
    }
    let mut poll = sock::WSAPOLLFD { fd: fd as sock::SOCKET, events: event, revents: 0 };
    let (mut millis, mut len) = (0i32, size_of::<i32>() as i32);
    // SAFETY: pointers to live values of the lengths given.
    let ready = unsafe {
        let to = (&raw mut millis).cast();
        sock::getsockopt(fd as sock::SOCKET, sock::SOL_SOCKET, timeout, to, &raw mut len) == 0
            && sock::WSAPoll(&raw mut poll, 1, millis) > 0
    };
    if ready && let Some(result) = once() {
        return result;
    }
    if !ready {
        // SAFETY: a plain call.
        unsafe { sock::WSASetLastError(sock::WSAEWOULDBLOCK) };
    }
    failed()
}

/// -1, with Winsock's last error where `std::io::Error::last_os_error` finds it.
fn failed() -> isize {
    // SAFETY: plain calls.
    unsafe { SetLastError(sock::WSAGetLastError() as u32) };
    -1
}

/// `WSARecvMsg`, which each provider of sockets has; ours are all of one (TCP/IP).
fn receive_function(
    fd: RawFd,
) -> Option<
    unsafe extern "system" fn(
        sock::SOCKET,
        *mut sock::WSAMSG,
        *mut u32,
        *mut windows_sys::Win32::System::IO::OVERLAPPED,
        sock::LPWSAOVERLAPPED_COMPLETION_ROUTINE,
    ) -> i32,
> {
    // Null until it is found. Threads that look for it at the same time find the same.
    static FOUND: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
    let known = FOUND.load(Ordering::Relaxed);
    if !known.is_null() {
        // SAFETY: only what the system gave for this function is stored, and a pointer to a function that may be missing is a pointer.
        return unsafe { std::mem::transmute::<*mut (), sock::LPFN_WSARECVMSG>(known) };
    }
    let wanted = sock::WSAID_WSARECVMSG;
    let mut found: sock::LPFN_WSARECVMSG = None;
    let mut len = 0;
    // SAFETY: the input is a GUID and the output a pointer to a function, both live and of the lengths given.
    let result = unsafe {
        sock::WSAIoctl(
            fd as sock::SOCKET,
            sock::SIO_GET_EXTENSION_FUNCTION_POINTER,
            (&raw const wanted).cast(),
            size_of::<windows_sys::core::GUID>() as u32,
            (&raw mut found).cast(),
            size_of::<sock::LPFN_WSARECVMSG>() as u32,
            &raw mut len,
            ptr::null_mut(),
            None,
        )
    };
    if result != 0 {
        return None;
    }
    FOUND.store(found.map_or(ptr::null_mut(), |found| found as *mut ()), Ordering::Relaxed);
    found
}

/// Bytes of a control message's head and its gap (`WSA_CMSGDATA_ALIGN`).
const HEAD: usize = size_of::<cmsghdr>().next_multiple_of(ALIGN);
/// `MAX_NATURAL_ALIGNMENT`.
const ALIGN: usize = size_of::<usize>();

/// Bytes of a message with its head (`WSA_CMSG_LEN`).
///
/// # Safety
///
/// It only computes; C's is a macro, which is not safe in Rust either.
pub unsafe fn CMSG_LEN(len: u32) -> u32 {
    HEAD as u32 + len
}

/// The same, with the gap behind it (`WSA_CMSG_SPACE`).
///
/// # Safety
///
/// As for [`CMSG_LEN`].
pub unsafe fn CMSG_SPACE(len: u32) -> u32 {
    (HEAD + (len as usize).next_multiple_of(ALIGN)) as u32
}

/// Where a message's data begin (`WSA_CMSG_DATA`).
///
/// # Safety
///
/// `message` points to one with data.
pub unsafe fn CMSG_DATA(message: *const cmsghdr) -> *mut u8 {
    // SAFETY: as promised by the caller.
    unsafe { message.cast::<u8>().add(HEAD).cast_mut() }
}

/// The first message of a header's buffer; null if there is none (`WSA_CMSG_FIRSTHDR`).
///
/// # Safety
///
/// The header's buffer is live and as long as it says.
pub unsafe fn CMSG_FIRSTHDR(header: *const msghdr) -> *mut cmsghdr {
    // SAFETY: as promised by the caller.
    let header = unsafe { &*header };
    if header.msg_controllen < size_of::<cmsghdr>() { ptr::null_mut() } else { header.msg_control.cast() }
}

/// The message after that one; null if there is none (`WSA_CMSG_NXTHDR`).
///
/// # Safety
///
/// As for [`CMSG_FIRSTHDR`], and `message` is one of the buffer.
pub unsafe fn CMSG_NXTHDR(header: *const msghdr, message: *const cmsghdr) -> *mut cmsghdr {
    // SAFETY: as promised by the caller.
    let (header, len) = unsafe { (&*header, (*message).cmsg_len) };
    let at = message as usize - header.msg_control as usize;
    let next = at + len.max(size_of::<cmsghdr>()).next_multiple_of(ALIGN);
    if next + size_of::<cmsghdr>() > header.msg_controllen {
        return ptr::null_mut();
    }
    // SAFETY: a whole head is left there in the buffer.
    unsafe { header.msg_control.cast::<u8>().add(next).cast() }
}
