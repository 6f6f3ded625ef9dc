//! Systems without network namespaces: everything is refused, with an error that says so.

use std::convert::Infallible;
use std::io;

use super::{Configured, NetnsError, Privilege};
use crate::system::fd::{AsFd, BorrowedFd};

fn missing<T>() -> Result<T, NetnsError> {
    Err(NetnsError::new(
        "network namespaces",
        io::Error::new(io::ErrorKind::Unsupported, "only Linux has them"),
    ))
}

/// A network namespace, of which this system has none.
#[derive(Clone, Debug)]
pub struct Namespace(Infallible);

impl Namespace {
    /// Fails.
    pub fn private() -> Result<Self, NetnsError> {
        missing()
    }

    /// Fails.
    pub fn current() -> Result<Self, NetnsError> {
        missing()
    }

    /// Fails.
    pub fn find(_name: &str) -> Result<Self, NetnsError> {
        missing()
    }

    /// Whether two handles refer to the same namespace.
    pub fn is_same(&self, _other: &Namespace) -> bool {
        match self.0 {}
    }

    /// Moves the calling thread into this namespace.
    pub fn enter(&self) -> Result<(), NetnsError> {
        match self.0 {}
    }

    /// Runs `work` in this namespace.
    pub fn run<T: Send>(&self, _work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        match self.0 {}
    }
}

/// Fails.
pub fn become_namespace_root() -> Result<Privilege, NetnsError> {
    missing()
}

/// How packets enter and leave a namespace: not at all.
pub(crate) struct Port(Infallible);

impl Port {
    pub fn read<'a>(&mut self, _buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        match self.0 {}
    }

    pub fn write(&mut self, _packet: &[u8]) -> bool {
        match self.0 {}
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

pub(crate) fn tun_port(_name: &str) -> Result<Port, NetnsError> {
    missing()
}

pub(crate) fn veth_port(_name: &str, _peer: [u8; 6]) -> Result<Port, NetnsError> {
    missing()
}

pub(crate) fn disable_offloads(_name: &str) -> Result<(), NetnsError> {
    missing()
}

/// What sets devices up.
pub(crate) struct Netlink(Infallible);

impl Netlink {
    pub fn open() -> Result<Self, NetnsError> {
        missing()
    }

    pub fn set_up(&mut self, _name: &str) -> Result<(), NetnsError> {
        match self.0 {}
    }

    pub fn add_veth(
        &mut self,
        _name: &str,
        _peer: &str,
        _peer_namespace: Option<&Namespace>,
    ) -> Result<(), NetnsError> {
        match self.0 {}
    }

    pub fn configure(
        &mut self,
        _name: &str,
        _addresses: Configured,
        _hardware: Option<[u8; 6]>,
    ) -> Result<(), NetnsError> {
        match self.0 {}
    }
}
