//! A network namespace as a handle, and how a thread enters it.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use nix::sched::{CloneFlags, setns, unshare};

use super::netlink::Netlink;
use super::{NetnsError, Privilege};

/// A network namespace that exists as long as a handle or a socket in it.
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// A new one that contains only a loopback device that is up.
    pub fn private() -> Result<Self, NetnsError> {
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|error| NetnsError::new("cannot make a network namespace", error))?;
            let mut netlink = Netlink::open()?;
            netlink.set_up("lo")?;
            Namespace::current()
        })?
    }

    /// That of the calling thread.
    pub fn current() -> Result<Self, NetnsError> {
        Namespace::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// An existing one: by name as `ip netns` gives them, by the number of a process in it, or by path.
    pub fn find(name: &str) -> Result<Self, NetnsError> {
        if name.contains('/') {
            return Namespace::open(Path::new(name));
        }
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            return Namespace::open(Path::new(&format!("/proc/{name}/ns/net")));
        }
        Namespace::open(Path::new(&format!("/run/netns/{name}")))
    }

    /// Whether two handles refer to the same namespace.
    pub fn is_same(&self, other: &Namespace) -> bool {
        let number = |namespace: &Namespace| {
            nix::sys::stat::fstat(&*namespace.fd).map(|stat| (stat.st_dev, stat.st_ino))
        };
        matches!((number(self), number(other)), (Ok(one), Ok(two)) if one == two)
    }

    pub(super) fn raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&*self.fd)
    }

    fn open(path: &Path) -> Result<Self, NetnsError> {
        let file = std::fs::File::open(path)
            .map_err(|error| NetnsError::new(format!("no network namespace at {}", path.display()), error))?;
        Ok(Namespace { fd: Arc::new(file.into()) })
    }

    /// Moves the calling thread into this namespace: the sockets that it opens from now on are there, earlier ones stay
    /// where they are. Threads that it starts later begin there, too.
    ///
    /// Without root there is no way back to the namespace that the process was started in; use a thread of its own, or
    /// [`Self::run`].
    pub fn enter(&self) -> Result<(), NetnsError> {
        setns(&*self.fd, CloneFlags::CLONE_NEWNET)
            .map_err(|error| NetnsError::new("cannot enter a network namespace", error))
    }

    /// Runs `work` on a thread of its own in this namespace and waits for it: the short way to open sockets there.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        in_thread(|| self.enter().map(|()| work()))?
    }
}

/// Namespaces belong to threads; the calling thread keeps its own.
fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, work);
        match thread {
            Ok(thread) => thread
                .join()
                .map_err(|_| NetnsError::new("work in a namespace", std::io::Error::other("it panicked"))),
            Err(error) => Err(NetnsError::new("cannot start a thread", error)),
        }
    })
}

/// Gets the right to create network namespaces. Call it at the beginning of a program, while it has only one thread:
/// the kernel refuses it to others.
///
/// As root nothing changes. Otherwise the process moves into a user namespace of its own in which it has all rights
/// over what it creates there, and no more rights than before over anything else: it keeps its network, its files, its
/// user number.
pub fn become_namespace_root() -> Result<Privilege, NetnsError> {
    if has_capabilities() {
        return Ok(Privilege::Root);
    }
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|error| NetnsError::new("cannot make a user namespace", error))?;
    // user_namespaces(7): without setgroups denied an unprivileged process may not map its group.
    for (file, text) in [
        ("setgroups", "deny".to_string()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| NetnsError::new(format!("cannot write /proc/self/{file}"), error))?;
    }
    Ok(Privilege::UserNamespace)
}

/// Whether the effective set contains the capabilities for creating namespaces and devices (linux/capability.h).
fn has_capabilities() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    const NET_RAW: u64 = 1 << 13;
    const SYS_ADMIN: u64 = 1 << 21;
    // Without the file no capability is known: a user namespace of our own is tried then.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    let wanted = NET_ADMIN | NET_RAW | SYS_ADMIN;
    held.is_some_and(|held| held & wanted == wanted)
}
