//! Creates the sockets of a TCP line: for calling, for listening, and accepted ones.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::address::open_for;
use crate::line::LineError;
use crate::options::{self, SocketOptions};
use crate::system::{self, libc};

/// A socket to call with, every option set.
pub(crate) fn new_socket(
    peer: SocketAddr,
    options: &SocketOptions,
    notes: &mut Vec<String>,
) -> Result<Socket, LineError> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))
        .map_err(LineError::system("cannot open a TCP socket"))?;
    options::apply(&socket, options, peer.is_ipv6(), notes);
    set_up_stream(&socket, options, notes).map_err(LineError::system("TCP options"))?;
    Ok(socket)
}

/// Sets the options that only TCP has.
pub(crate) fn set_up_stream(
    socket: &Socket,
    options: &SocketOptions,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let lowat = options::set_int(socket, libc::IPPROTO_TCP, system::TCP_NOTSENT_LOWAT, NOT_SENT_LOW_WATER);
    if let Err(error) = lowat {
        notes.push(format!("a short send queue is not available: {error}"));
    }
    if let Err(error) = set_patience(socket, options.peer_patience) {
        notes.push(format!("detection of a silent peer is not available: {error}"));
    }
    if let Some(name) = &options.congestion
        && let Err(error) = system::set_congestion(socket, name.as_bytes())
    {
        notes.push(format!("congestion control '{name}' is not available: {error}"));
    }
    Ok(())
}

/// A connection inherits most options of the listening socket, but not all: its priority, for example, begins at 0.
pub(crate) fn set_up_accepted(
    socket: &Socket,
    peer: SocketAddr,
    options: &SocketOptions,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    options::apply(socket, options, peer.is_ipv6(), notes);
    set_up_stream(socket, options, notes)
}

/// Makes the kernel probe a silent peer, and give up one that does not answer: a machine that lost power or its network
/// sends no FIN.
fn set_patience(socket: &Socket, patience: Duration) -> io::Result<()> {
    let part = |n: u32| (patience / n).max(KERNEL_TICK);
    let keepalive = socket2::TcpKeepalive::new().with_time(part(2)).with_interval(part(4)).with_retries(2);
    socket.set_tcp_keepalive(&keepalive)?;
    // For unacknowledged data, when there are no probes; it limits the probes as well (tcp(7)).
    system::set_user_timeout(socket, patience)
}

/// Prepares an established connection for use: it was begun without waiting, and waits from now on.
pub(crate) fn settle(stream: &Socket) -> io::Result<SocketAddr> {
    system::settle(stream)?;
    let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
    // After many calls to a free port of this machine, the kernel may use that very port for the call, and TCP then
    // connects the socket to itself.
    let local = local.as_socket().filter(|local| Some(*local) != peer.as_socket());
    local.ok_or_else(|| ErrorKind::ConnectionRefused.into())
}

/// A non-blocking socket that listens on `local`, for IPv4 as well if that is the wildcard of IPv6. The kernel keeps
/// `backlog` callers until they are accepted.
pub(crate) fn listening_socket(
    local: SocketAddr,
    options: &SocketOptions,
    backlog: i32,
    notes: &mut Vec<String>,
) -> Result<Socket, LineError> {
    let (socket, local) = open_for(local, |local| new_socket(local, options, notes))?;
    // A restarted receiver must not wait for the old connection's TIME-WAIT.
    system::allow_rebinding(&socket).map_err(LineError::system("reuse of the address"))?;
    socket.bind(&local.into()).map_err(LineError::binding(local))?;
    socket.listen(backlog).map_err(LineError::binding(local))?;
    socket.set_nonblocking(true).map_err(LineError::system("non-blocking accept"))?;
    Ok(socket)
}

/// Begins a call without waiting for it; on success the socket goes into `stream`.
pub(crate) fn begin_connecting(socket: Socket, peer: SocketAddr, stream: &mut Option<Socket>) -> bool {
    if socket.set_nonblocking(true).is_err() {
        return false;
    }
    let begun = match socket.connect(&peer.into()) {
        Ok(()) => true,
        Err(error) => error.raw_os_error() == Some(libc::EINPROGRESS),
    };
    if begun {
        *stream = Some(socket);
    }
    begun
}

/// The next caller, if there is one. An error means that none can be accepted for now, for example because this process
/// has no descriptor left; another attempt at once has the same result.
pub(crate) fn accept(socket: &Socket) -> io::Result<Option<(Socket, SocketAddr)>> {
    match socket.accept() {
        Ok((stream, peer)) => Ok(peer.as_socket().map(|peer| (stream, peer))),
        Err(error) if error.kind() == ErrorKind::WouldBlock || is_of_the_caller(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error of `accept` concerns one caller, which is then off the queue, or a signal (accept(2)).
fn is_of_the_caller(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    let known = matches!(
        code,
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::EPERM
                | libc::ENETDOWN
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    );
    known || code.is_some_and(system::is_of_a_caller)
}

/// The address to which a socket is bound.
pub(crate) fn address_of(socket: &Socket) -> Result<SocketAddr, LineError> {
    let local = socket.local_addr().map_err(LineError::system("socket address"))?;
    Ok(local.as_socket().expect("an IP socket has an IP address"))
}

/// Unsent bytes that the kernel may hold.
const NOT_SENT_LOW_WATER: i32 = antiphon_core::wire::TCP_NOT_SENT_LOW_WATER as i32;
/// The unit of the kernel's keep-alive times (tcp(7), TCP_KEEPIDLE).
const KERNEL_TICK: Duration = Duration::from_secs(1);
