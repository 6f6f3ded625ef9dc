//! Network interfaces, by their names and addresses.
#![allow(unsafe_code, reason = "GetAdaptersAddresses returns linked lists")]

use std::io;
use std::net::IpAddr;
use std::ptr;

use windows_sys::Win32::Foundation::{ERROR_BUFFER_OVERFLOW, ERROR_NO_DATA};
use windows_sys::Win32::NetworkManagement::IpHelper::{
    GAA_FLAG_SKIP_ANYCAST, GAA_FLAG_SKIP_DNS_SERVER, GAA_FLAG_SKIP_MULTICAST, GetAdaptersAddresses,
    IP_ADAPTER_ADDRESSES_LH,
};
use windows_sys::Win32::Networking::WinSock::AF_UNSPEC;

use super::libc;
use crate::batch::socket_address;

/// Index of the network interface of that name (as Windows shows it, such as `Ethernet 2`, or the one that it has for programs) or, if it is an address, with that
/// address; `None` if there is none.
pub(crate) fn interface_index(name: &str) -> io::Result<Option<u32>> {
    let list = adapters()?;
    let address = name.parse::<IpAddr>().ok();
    let mut next: *const IP_ADAPTER_ADDRESSES_LH = list.as_ptr().cast();
    // An empty list has room for no adapter.
    if list.is_empty() {
        next = ptr::null();
    }
    // SAFETY: the system filled the list, whose pointers are to parts of it or null.
    while let Some(adapter) = unsafe { next.as_ref() } {
        let found = match address {
            Some(address) => has_address(adapter, address),
            // SAFETY: both names end with zero.
            None => unsafe {
                wide(adapter.FriendlyName) == name || narrow(adapter.AdapterName) == name.as_bytes()
            },
        };
        if found {
            // SAFETY: of this union one reading is the index, which every adapter has.
            let v4 = unsafe { adapter.Anonymous1.Anonymous.IfIndex };
            // An adapter without IPv4 has that of IPv6 alone.
            return Ok(Some(if v4 == 0 { adapter.Ipv6IfIndex } else { v4 }));
        }
        next = adapter.Next;
    }
    Ok(None)
}

/// The system's list, in memory aligned for it.
fn adapters() -> io::Result<Vec<u64>> {
    let flags = GAA_FLAG_SKIP_ANYCAST | GAA_FLAG_SKIP_MULTICAST | GAA_FLAG_SKIP_DNS_SERVER;
    let mut bytes = FIRST_ROOM;
    for _ in 0..MOST_ATTEMPTS {
        let mut list = vec![0u64; bytes.div_ceil(8) as usize];
        // SAFETY: the list has that many bytes; the system writes how many it needs.
        let result = unsafe {
            let to = list.as_mut_ptr().cast();
            GetAdaptersAddresses(AF_UNSPEC.into(), flags, ptr::null(), to, &raw mut bytes)
        };
        match result {
            0 => return Ok(list),
            ERROR_NO_DATA => return Ok(Vec::new()),
            // Adapters come and go.
            ERROR_BUFFER_OVERFLOW => {}
            error => return Err(io::Error::from_raw_os_error(error as i32)),
        }
    }
    Err(io::Error::from_raw_os_error(ERROR_BUFFER_OVERFLOW as i32))
}

fn has_address(adapter: &IP_ADAPTER_ADDRESSES_LH, address: IpAddr) -> bool {
    let mut next = adapter.FirstUnicastAddress;
    // SAFETY: as for the list itself.
    while let Some(one) = unsafe { next.as_ref() } {
        let len = (one.Address.iSockaddrLength.max(0) as usize).min(size_of::<libc::sockaddr_storage>());
        let mut storage = libc::sockaddr_storage { ss_family: 0, rest: [0; 126] };
        // SAFETY: the address is as long as it says, and no longer than the storage.
        unsafe {
            ptr::copy_nonoverlapping(one.Address.lpSockaddr.cast::<u8>(), (&raw mut storage).cast(), len);
        }
        if socket_address(&storage).is_some_and(|found| found.ip() == address) {
            return true;
        }
        next = one.Next;
    }
    false
}

/// # Safety
///
/// `text` points to characters that end with zero, or is null.
unsafe fn wide(text: *const u16) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as promised by the caller.
    let units = unsafe {
        let len = (0..).take_while(|at| *text.add(*at) != 0).count();
        std::slice::from_raw_parts(text, len)
    };
    String::from_utf16_lossy(units)
}

/// # Safety
///
/// As for [`wide`].
unsafe fn narrow<'a>(text: *const u8) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: as promised by the caller.
    unsafe { std::ffi::CStr::from_ptr(text.cast()) }.to_bytes()
}

/// Bytes for the list of most machines, as the documentation proposes.
const FIRST_ROOM: u32 = 15_000;
/// Attempts before a list that grows each time is given up.
const MOST_ATTEMPTS: usize = 4;
