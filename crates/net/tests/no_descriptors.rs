//! A server whose process has no descriptor left; alone in its process, whose limit it lowers.
#![allow(unsafe_code, reason = "the limit has no safe wrapper here")]

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use antiphon_net::{OsClock, SocketOptions, TcpListening};

fn limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes into a live rlimit.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit
}

fn set_limit(limit: libc::rlimit) {
    // SAFETY: reads a live rlimit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

/// Whoever asks in a loop for the next caller must not use up a processor while there is one whom the kernel can't give.
#[test]
fn a_caller_that_cannot_be_had_is_waited_for() {
    let listening =
        TcpListening::bind(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("a free port");
    let _caller = TcpStream::connect(listening.local_address()).expect("it listens");
    let usual = limit();
    // The kernel gives the lowest number that is free.
    let next = File::open("/dev/null").expect("every Linux has it").as_raw_fd() as libc::rlim_t;
    set_limit(libc::rlimit { rlim_cur: next, ..usual });
    let (clock, pause) = (OsClock::new(), Duration::from_millis(50));
    let start = clock.now();
    let none = listening.accept(pause).is_none();
    let took = clock.now().since(start);
    set_limit(usual);
    assert!(none && took >= pause, "{none}, after {took:?}");
    assert!(listening.accept(Duration::from_secs(10)).is_some(), "the caller is there still");
}
