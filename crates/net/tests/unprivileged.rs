//! The router as an ordinary user runs it: in a user namespace of its own, over packet sockets where TUN is closed.
//!
//! A program of its own, since a user namespace can only be entered by a single-threaded process. Run by root, it
//! starts itself again as the user `nobody`.

mod common;

use std::os::unix::process::CommandExt;
use std::process::Command;

use antiphon_net::netns::{Means, Privilege, become_namespace_root, probe};
use antiphon_testkit::skip_for_want_of;

/// The overflow user of Linux (`/proc/sys/kernel/overflowuid`), which owns nothing.
const NOBODY: u32 = 65_534;

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        println!("unprivileged: test");
        return;
    }
    if nix::unistd::geteuid().is_root() {
        as_nobody();
    } else {
        check();
    }
}

fn as_nobody() {
    let program = std::env::current_exe().expect("a running program has a file");
    match Command::new(&program).uid(NOBODY).gid(NOBODY).current_dir("/").status() {
        Ok(status) => assert!(status.success(), "as nobody: {status}"),
        Err(error) => {
            skip_for_want_of(&format!("{} cannot be run as another user: {error}", program.display()));
        }
    }
}

fn check() {
    match become_namespace_root() {
        Ok(privilege) => assert_eq!(privilege, Privilege::UserNamespace),
        Err(error) => return skip_for_want_of(&error),
    }
    let means = match probe() {
        Means::Forbidden(reason) => return skip_for_want_of(&reason),
        means => means,
    };
    println!("unprivileged router by {means:?}");
    for means in [means, Means::VethPacket] {
        let router = common::router(means, &[("delay=1ms,loss=5%", 7), ("delay=1ms,loss=5%", 8)]);
        for lane in 0..2 {
            common::udp_agrees(&router, lane);
            common::tcp_completes(&router, lane);
        }
    }
    println!("unprivileged ... ok");
}
