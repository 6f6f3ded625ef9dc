//! Several datagrams, one call for each: these systems have no call for many that fetches addresses as well.
#![allow(unsafe_code, reason = "calls for one datagram over headers that the caller owns")]

use std::ptr;

use super::fd::RawFd;
use super::libc;

/// A datagram and its length, as Linux has it.
#[allow(non_camel_case_types, reason = "the name that Linux has for it")]
#[derive(Clone, Copy)]
pub(crate) struct mmsghdr {
    pub msg_hdr: libc::msghdr,
    pub msg_len: libc::c_uint,
}

/// Receives up to `count` datagrams; returns how many, or -1 with the error of the first.
///
/// # Safety
///
/// `headers` points to `count` headers whose pointers are to live buffers of the lengths given.
pub(crate) unsafe fn recvmmsg(
    fd: RawFd,
    headers: *mut mmsghdr,
    count: u32,
    flags: i32,
    _timeout: *mut libc::timespec,
) -> i32 {
    each(headers, count, |header| {
        // SAFETY: as promised by the caller.
        unsafe { libc::recvmsg(fd, ptr::from_mut(header), flags) }
    })
}

/// Sends up to `count` datagrams; returns how many, or -1 with the error of the first.
///
/// # Safety
///
/// As for [`recvmmsg`].
pub(crate) unsafe fn sendmmsg(fd: RawFd, headers: *mut mmsghdr, count: u32, flags: i32) -> i32 {
    each(headers, count, |header| {
        // SAFETY: as promised by the caller.
        unsafe { libc::sendmsg(fd, ptr::from_mut(header), flags) }
    })
}

fn each(headers: *mut mmsghdr, count: u32, mut call: impl FnMut(&mut libc::msghdr) -> isize) -> i32 {
    for at in 0..count as usize {
        // SAFETY: the callers' caller promises so many headers.
        let one = unsafe { &mut *headers.add(at) };
        let len = call(&mut one.msg_hdr);
        if len < 0 {
            return if at == 0 { -1 } else { at as i32 };
        }
        one.msg_len = len as libc::c_uint;
    }
    count as i32
}
