//! A listening TCP socket: one line per connection.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

use crate::line::LineError;
use crate::options::SocketOptions;
use crate::system::fd::{AsFd, BorrowedFd};
use crate::tcp::TcpLine;
use crate::tcp_setup::{accept, address_of, listening_socket, set_up_accepted};

/// A listening socket, which [`crate::Lines::listen`] serves on one thread.
pub struct TcpListening {
    socket: Socket,
    local: SocketAddr,
    options: SocketOptions,
    notes: Vec<String>,
}

impl TcpListening {
    /// Listens on `local`.
    pub fn bind(local: SocketAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let mut notes = Vec::new();
        let socket = listening_socket(local, options, BACKLOG, &mut notes)?;
        let local = address_of(&socket)?;
        Ok(TcpListening { socket, local, options: options.clone(), notes })
    }

    /// The address that it listens on.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Options that the system refused, in words. Connections inherit them, and note refused ones themselves as well.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The next caller that may call, if there is one. An error means that none can be accepted for a while.
    pub(crate) fn next_caller(&self) -> io::Result<Option<(Socket, SocketAddr)>> {
        for _ in 0..BACKLOG {
            let Some((stream, peer)) = accept(&self.socket)? else { break };
            if self.options.allow.takes(peer.ip()) {
                return Ok(Some((stream, peer)));
            }
        }
        Ok(None)
    }

    /// The line of a caller. An error means that it has gone already.
    pub(crate) fn line(&self, stream: Socket, peer: SocketAddr) -> io::Result<TcpLine> {
        let mut notes = Vec::new();
        set_up_accepted(&stream, peer, &self.options, &mut notes)?;
        Ok(TcpLine::accepted(stream, self.local, &self.options, notes))
    }
}

impl AsFd for TcpListening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Callers that the kernel keeps until they are accepted: enough for a hundred at once.
const BACKLOG: i32 = 128;
