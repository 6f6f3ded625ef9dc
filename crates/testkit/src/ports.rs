//! Ports for programs and libraries that are told where to listen.
//!
//! A port that the kernel chose and that was closed again may be somebody else's a moment later: other sockets of this machine
//! get theirs from the same range. The ports here are below that range, so that the kernel gives them to nobody, and a process
//! has each of its rows for itself.
#![allow(clippy::disallowed_methods, reason = "a port is free if a socket can have it")]

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

/// So many adjacent ports on which nothing listens, for datagrams and connections: the first of them, which is even.
///
/// Nobody else gets them, nor the one above an even number of them, which is for RTCP: neither another call, nor another process
/// that asks here, nor a socket for which the kernel chooses.
///
/// # Panics
///
/// If there are more than 100 of them, or none is left on this machine.
pub fn free_ports(count: u16) -> u16 {
    static LEFT: Mutex<Row> = Mutex::new(Row { next: 0, end: 0, held: Vec::new() });
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).take(count)
}

/// Ports of this process.
struct Row {
    next: u16,
    end: u16,
    held: Vec<lock::Held>,
}

impl Row {
    fn take(&mut self, count: u16) -> u16 {
        let count = count.next_multiple_of(2);
        assert!(count <= ROW, "at most {ROW} adjacent ports, not {count}");
        loop {
            while self.end - self.next < count {
                self.begin();
            }
            let first = self.next;
            match (first..first + count).rfind(|port| !is_free(*port)) {
                None => {
                    self.next += count;
                    return first;
                }
                // A program that is no test may listen anywhere.
                Some(taken) => self.next = (taken + 1).next_multiple_of(2),
            }
        }
    }

    /// Goes on with another row, which no process has.
    fn begin(&mut self) {
        // Processes begin at different places, so that what is still on its way to one does not reach the next.
        let of_process = (std::process::id() % u32::from(ROWS)) as u16;
        let mut rows = (0..ROWS).map(|n| LOWEST + (of_process + n) % ROWS * ROW);
        let held = rows.find_map(|first| Some((first, lock::hold(first)?)));
        let (first, held) = held.expect("every row of ports is in use");
        self.held.push(held);
        (self.next, self.end) = (first, first + ROW);
    }
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::UNSPECIFIED, port);
    UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
}

/// Ports of a process at a time.
const ROW: u16 = 100;
/// Of the first row. Linux gives out 32768 to 60999 if nothing else is set (`net.ipv4.ip_local_port_range`).
const LOWEST: u16 = 20_000;
const ROWS: u16 = 120;

#[cfg(target_os = "linux")]
mod lock {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    /// A name that no other socket of this network namespace has; released with the process, however that ends.
    pub type Held = UnixDatagram;

    /// The row that begins with this port, unless somebody has it.
    pub fn hold(first: u16) -> Option<Held> {
        let name = SocketAddr::from_abstract_name(format!("antiphon-test-ports-{first}")).ok()?;
        UnixDatagram::bind_addr(&name).ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod lock {
    /// Elsewhere the number of the process alone keeps them apart.
    pub type Held = u16;

    pub fn hold(first: u16) -> Option<Held> {
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_are_given_once_and_are_free() {
        let threads = [(); 4].map(|()| {
            std::thread::spawn(|| (0..40).map(|n| (free_ports(1 + n % 4), 1 + n % 4)).collect::<Vec<_>>())
        });
        let mut seen = BTreeSet::new();
        for (first, count) in threads.into_iter().flat_map(|thread| thread.join().expect("no panic")) {
            assert!(first.is_multiple_of(2) && (LOWEST..LOWEST + ROWS * ROW).contains(&first), "{first}");
            // With the one above for RTCP.
            for port in first..first + count.next_multiple_of(2) {
                assert!(seen.insert(port) && is_free(port), "{port}");
            }
        }
    }

    #[test]
    fn a_port_that_a_program_has_is_passed_over() {
        let mut row = Row { next: 0, end: 0, held: Vec::new() };
        row.begin();
        let next = row.next;
        let _datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, next)).expect("free");
        let _connections = TcpListener::bind((Ipv4Addr::LOCALHOST, next + 3)).expect("free");
        assert_eq!(row.take(1), next + 4);
        row.next = row.end - 4;
        assert_eq!((row.take(3), row.held.len()), (row.end - 4, 1));
        row.take(1);
        assert_eq!(row.held.len(), 2, "another row");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_row_that_is_held_is_nobody_elses() {
        let first = LOWEST + ROWS * ROW;
        let held = lock::hold(first).expect("beyond those that are given");
        assert!(lock::hold(first).is_none());
        drop(held);
        assert!(lock::hold(first).is_some());
    }
}
