//! What this machine grants to live sound: limits, socket buffers, clocks, loopback. For `antiphon doctor`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::SockRef;

use crate::group_socket::GroupSocket;
use crate::line::LineError;
use crate::multicast::join;
use crate::options::{Multicast, SocketOptions};
use crate::system;

/// Limits of this process, as they are now (on Unix getrlimit(2)); `None`: unlimited, or not to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessLimits {
    /// The highest real-time priority that a thread may ask for; 0: none.
    pub realtime_priority: Option<u64>,
    /// Bytes that may be locked into memory.
    pub locked_memory: Option<u64>,
    /// Files and sockets that may be open at a time, after the process has raised its own limit.
    pub open_files: Option<u64>,
}

/// The limits of this process.
pub fn process_limits() -> ProcessLimits {
    let [realtime_priority, locked_memory] = system::realtime_and_memory_limits();
    ProcessLimits { realtime_priority, locked_memory, open_files: system::most_open_files() }
}

/// Bytes of data that a socket's buffers take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketBuffers {
    /// What waits to be read.
    pub receive: usize,
    /// What waits to be sent.
    pub send: usize,
}

/// The buffers that a UDP socket gets which asks for those of `options`.
pub fn socket_buffers(options: &SocketOptions) -> io::Result<SocketBuffers> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = SockRef::from(&socket);
    socket.set_recv_buffer_size(options.receive_buffer)?;
    socket.set_send_buffer_size(options.send_buffer)?;
    Ok(SocketBuffers {
        receive: socket.recv_buffer_size()? / system::BUFFER_FACTOR,
        send: socket.send_buffer_size()? / system::BUFFER_FACTOR,
    })
}

/// Sends a datagram to ourselves at `address`, as a test of its family.
pub fn datagram_to_self(address: IpAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((address, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send_to(PROBE, socket.local_addr()?)?;
    let (mut buf, mut own) = ([0; 64], socket.local_addr()?);
    own.set_ip(address);
    heard(socket.recv_from(&mut buf)?, &buf, own)
}

/// Sends a datagram to a group of this machine alone and hears it on the loopback interface: groups reach programs here.
pub fn datagram_to_group() -> Result<(), LineError> {
    let options = SocketOptions {
        multicast: Multicast { interface: Some(Ipv4Addr::LOCALHOST.to_string()), ..Multicast::default() },
        ..SocketOptions::default()
    };
    let failed = || LineError::system("multicast");
    let hears = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed())?;
    hears.set_read_timeout(Some(PATIENCE)).map_err(failed())?;
    let listens: socket2::Socket = hears.into();
    join(&listens, IpAddr::V4(GROUP), &options).map_err(failed())?;
    let hears: UdpSocket = listens.into();
    let port = hears.local_addr().map_err(failed())?.port();
    let sends = GroupSocket::sending(IpAddr::V4(GROUP), &options)?;
    sends.send_to(PROBE, SocketAddr::from((GROUP, port))).map_err(failed())?;
    let mut buf = [0; 64];
    let (len, _) = hears.recv_from(&mut buf).map_err(failed())?;
    (buf[..len] == *PROBE).then_some(()).ok_or_else(|| failed()(io::Error::other("another datagram came")))
}

fn heard((len, from): (usize, SocketAddr), buf: &[u8], own: SocketAddr) -> io::Result<()> {
    if buf[..len] == *PROBE && from == own { Ok(()) } else { Err(io::Error::other("another datagram came")) }
}

/// What the kernel's wall clock is steered by (adjtimex(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WallClockState {
    /// Whether a time service says that it keeps the clock synchronous.
    pub synchronised: bool,
    /// How far it may be wrong at most, as the time service says.
    pub max_error: Duration,
}

/// The state of the wall clock.
pub fn wall_clock_state() -> io::Result<WallClockState> {
    system::wall_clock_state()
}

/// The resolution that the kernel promises for the clock of runs.
pub fn clock_resolution() -> Option<Duration> {
    system::clock_resolution()
}

const PROBE: &[u8] = b"antiphon doctor";
/// Of those that an organisation gives out itself (RFC 2365 §6.2).
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 77, 10);
/// Loopback answers at once; a machine that stands still for so long has other faults.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use nix::sys::resource::{Resource, getrlimit};

    use super::*;

    #[test]
    fn buffers_are_what_the_kernel_grants_and_no_more() {
        let asks = SocketOptions { receive_buffer: 65_536, send_buffer: 32_768, ..SocketOptions::default() };
        // Far below every system's limit.
        assert_eq!(socket_buffers(&asks).unwrap(), SocketBuffers { receive: 65_536, send: 32_768 });
        let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
        let most: usize = most.trim().parse().unwrap();
        let asks = SocketOptions { receive_buffer: most + 1, ..SocketOptions::default() };
        assert_eq!(socket_buffers(&asks).unwrap().receive, most);
    }

    #[test]
    fn clocks_and_limits_are_read() {
        assert!(clock_resolution().is_some_and(|resolution| resolution <= Duration::from_millis(10)));
        wall_clock_state().unwrap();
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(process_limits().open_files.is_none_or(|limit| limit == most));
    }

    #[test]
    fn datagrams_reach_ourselves() {
        datagram_to_self(Ipv4Addr::LOCALHOST.into()).unwrap();
        // An address of nobody here (RFC 5737).
        assert!(datagram_to_self(Ipv4Addr::new(192, 0, 2, 1).into()).is_err());
        datagram_to_group().unwrap();
    }
}
