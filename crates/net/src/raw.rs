//! A protocol directly over IP as a line: calling one peer, or listening for many.
//!
//! Raw sockets need a privilege and know no ports: every packet of the protocol that comes to this machine comes to each
//! of them. The line picks out its own by the ports in the packet, which are the transport's (see [`OverIp`]). A
//! listener's is the one behind the address in the URI; a caller draws one of its own, which the line learns from the
//! first packet that goes out.
//!
//! A kernel that speaks the protocol itself answers packets for our ports too, as it knows nothing of them; the notes
//! say so where that is the case. A kernel that does not is kept from saying "protocol unreachable" by the open socket.

use std::net::{IpAddr, SocketAddr};

use antiphon_core::{Ecn, Input, Instant, OverIp, PathId, over_ip};
use antiphon_session::Station;

use crate::address::Target;
use crate::batch::{BATCH, ReceiveBatch, SendBatch};
use crate::capture::{Direction, Ends};
use crate::clock::OsClock;
use crate::datagrams::{BEHIND, MOST_BATCHES, ROOM_TO_SEND};
use crate::line::{Fittings, IDLE, Line, LineError, Wait};
use crate::options::SocketOptions;
use crate::paths::{AddressTable, slot};
use crate::poll;
use crate::raw_socket::{self, PortHeld, RawSocket};
use crate::wake::Waker;

/// Raw sockets with their buffers and the table of the addresses they talk to.
pub struct RawLine {
    protocol: OverIp,
    /// One for each path of a calling line; listening for both IP versions, IPv6's and IPv4's.
    outlets: Vec<Outlet>,
    /// The addresses of a calling line's one peer, by path; none where it listens.
    called: Vec<SocketAddr>,
    peers: AddressTable,
    /// Our address on each path, by its number.
    ours: Vec<IpAddr>,
    receive: ReceiveBatch,
    /// The packet that the station has just made.
    packet: Vec<u8>,
    /// Whether the last packet had to wait for us: then more are likely there, and are read in batches.
    behind: bool,
    max_datagram: usize,
    /// Our address among them, where it is one, and our port; 0: not known yet.
    fittings: Fittings,
    /// Keeps others from listening on the same port.
    _port: Option<PortHeld>,
}

/// A socket, and what waits to go out on it.
struct Outlet {
    socket: RawSocket,
    send: SendBatch,
    /// Of the packets that wait: what the kernel is told has no ports.
    ends: Vec<Ends>,
}

impl RawLine {
    /// Opens the line that `target` asks for; its port is the transport's own.
    pub fn open(target: Target, protocol: OverIp, options: &SocketOptions) -> Result<Self, LineError> {
        match target {
            Target::Call(peer) => Self::call(peer, protocol, options),
            Target::Listen(local) => Self::listen(local, protocol, options),
        }
    }

    /// A line to one peer, by all its addresses.
    pub fn call(peer: SocketAddr, protocol: OverIp, options: &SocketOptions) -> Result<Self, LineError> {
        let called: Vec<SocketAddr> =
            std::iter::once(peer).chain(options.other_peers.iter().copied()).collect();
        for (at, address) in called.iter().copied().enumerate() {
            let why = match () {
                () if address.port() != peer.port() => {
                    format!("over IP the peer has one port at all its addresses: {} here", peer.port())
                }
                () if called[..at].contains(&address) => "it is named twice".into(),
                () if at >= MOST_CALLED => format!("a peer is called by {MOST_CALLED} addresses at most"),
                () => continue,
            };
            return Err(LineError::Unreachable { address, why });
        }
        let mut notes = Vec::new();
        let open = |address: &SocketAddr| RawSocket::call(*address, protocol.protocol, options, &mut notes);
        let sockets = called.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut line = Self::with(sockets, protocol, options, notes);
        line.called = called;
        Ok(line)
    }

    /// A line that waits for peers on `local`.
    pub fn listen(local: SocketAddr, protocol: OverIp, options: &SocketOptions) -> Result<Self, LineError> {
        let mut notes = Vec::new();
        let sockets = RawSocket::listen(local, protocol.protocol, options, &mut notes)?;
        let port = PortHeld::take(protocol.protocol, local)?;
        let mut line = Self::with(sockets, protocol, options, notes);
        line.fittings.local.set_port(local.port());
        line._port = Some(port);
        Ok(line)
    }

    fn with(
        sockets: Vec<RawSocket>,
        protocol: OverIp,
        options: &SocketOptions,
        mut notes: Vec<String>,
    ) -> Self {
        let max_datagram = sockets.iter().map(|socket| socket.max_datagram(options)).min();
        let max_datagram = max_datagram.expect("one socket at least");
        notes.extend(raw_socket::kernel_speaks(protocol.protocol));
        let mut local = sockets[0].local();
        local.set_port(0);
        let room = max_datagram.max(ROOM_TO_SEND);
        let outlet = |socket| Outlet { socket, send: SendBatch::new(room), ends: Vec::with_capacity(BATCH) };
        RawLine {
            protocol,
            outlets: sockets.into_iter().map(outlet).collect(),
            called: Vec::new(),
            peers: AddressTable::default(),
            ours: Vec::new(),
            receive: ReceiveBatch::new(),
            packet: vec![0; room],
            behind: false,
            max_datagram,
            fittings: Fittings::new(local, notes),
            _port: None,
        }
    }

    /// The largest packet that goes out whole, in bytes.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    /// Whether a packet between these ends, which came in by that outlet, belongs to this line, not to another one on
    /// this machine.
    fn is_ours(&self, outlet: usize, ends: &Ends) -> bool {
        let same = |peer: SocketAddr| peer.port() == ends.peer.port() && peer.ip() == ends.peer.ip();
        // Port 0 is nobody's: a caller that has not sent anything yet hears nothing.
        self.fittings.local.port() != 0
            && ends.local.port() == self.fittings.local.port()
            && self.called.get(outlet).copied().is_none_or(same)
    }

    /// Passes on the packets of the last batch, which came in by that outlet, as far as they are ours.
    fn pass_on(&mut self, outlet: usize, n: usize, clock: &OsClock, station: &mut dyn Station) {
        let now = clock.now();
        for i in 0..n {
            let datagram = self.receive.datagram(i);
            let destination = self.receive.destination_v6(i);
            let read = self.outlets[outlet].socket.read(&datagram, destination);
            let Some((ends, packet)) = read.filter(|(ends, _)| self.is_ours(outlet, ends)) else { continue };
            self.fittings.stats.received += 1;
            if !(self.protocol.is_sound)(packet, ends.peer.ip(), ends.local.ip()) {
                self.fittings.stats.damaged += 1;
                continue;
            }
            let path = match self.called.is_empty() {
                true => self.peers.path_of(ends.peer, station),
                false => Some(PathId(outlet as u32)),
            };
            let Some(path) = path else {
                self.fittings.stats.strangers += 1;
                continue;
            };
            remember(&mut self.ours, path, ends.local.ip());
            self.fittings.stats.kernel_stamps |= datagram.stamp.is_some();
            let received_at = datagram.stamp.map_or(now, |stamp| clock.instant_of_stamp(stamp, now));
            self.behind |= now.since(received_at) > BEHIND;
            if let Some(tap) = &mut self.fittings.tap {
                tap.packet(self.protocol.protocol, Direction::Received, received_at, ends, packet);
            }
            let input = Input::Datagram { path, bytes: packet, ecn: Ecn::NotCapable, received_at };
            station.handle_input(now, input);
        }
    }

    /// Whither a packet on `path` goes; `None` if the peer was forgotten between hearing and answering it.
    fn ends_of(&self, path: PathId) -> Option<Ends> {
        let called = |at: usize| Some((self.outlets.get(at)?.socket.local().ip(), *self.called.get(at)?));
        let (ours, peer) = match self.called.is_empty() {
            true => (*self.ours.get(slot(path))?, self.peers.address_of(path)?),
            false => called(path.0 as usize)?,
        };
        Some(Ends { local: SocketAddr::new(ours, self.fittings.local.port()), peer })
    }

    /// Completes the packet that the station made and puts it where it goes out; answers which outlet that is.
    fn commit(&mut self, len: usize, path: PathId) -> Option<usize> {
        let calls = !self.called.is_empty();
        if let Some((source, _)) = over_ip::ports(&self.packet[..len]).filter(|_| calls) {
            self.fittings.local.set_port(source);
        }
        let ends = self.ends_of(path)?;
        let packet = &mut self.packet[..len];
        (self.protocol.seal)(packet, ends.local.ip(), ends.peer.ip());
        let is_v6 = ends.peer.is_ipv6();
        let at = match calls {
            true => path.0 as usize,
            false => self.outlets.iter().position(|outlet| outlet.socket.is_v6() == is_v6)?,
        };
        let outlet = &mut self.outlets[at];
        outlet.send.next()?[..len].copy_from_slice(packet);
        // A raw IPv6 socket takes a port for the number of the protocol.
        let mut to = ends.peer;
        to.set_port(0);
        match calls {
            true => outlet.send.commit(len, None),
            false => outlet.send.commit_from(len, Some(to), Some(ends.local.ip())),
        }
        outlet.ends.push(ends);
        Some(at)
    }

    /// Sends what waits at an outlet.
    fn flush(&mut self, at: usize, now: Instant, station: &mut dyn Station) {
        let Outlet { socket, send, ends } = &mut self.outlets[at];
        let batch = send.flush(socket.fd());
        if let Some(tap) = &mut self.fittings.tap {
            for i in batch.taken.indices() {
                tap.packet(self.protocol.protocol, Direction::Sent, now, ends[i], send.datagram(i).bytes);
            }
        }
        ends.clear();
        self.fittings.on_sent(now, batch, station);
    }

    /// Reads what has come in by one outlet, waiting for it if told to.
    fn drain(
        &mut self,
        outlet: usize,
        mut block: bool,
        clock: &OsClock,
        station: &mut dyn Station,
    ) -> Result<(), LineError> {
        for _ in 0..MOST_BATCHES {
            match self.receive.receive(self.outlets[outlet].socket.fd(), block) {
                Ok(n) => {
                    self.pass_on(outlet, n, clock, station);
                    if n < BATCH {
                        break;
                    }
                }
                Err(error) => self.fittings.on_error(clock.now(), error, station)?,
            }
            block = false;
        }
        Ok(())
    }
}

impl Line for RawLine {
    fn receive(&mut self, clock: &OsClock, station: &mut dyn Station, wait: Wait) -> Result<(), LineError> {
        let alone = self.outlets.len() == 1 && self.fittings.waker.is_none();
        let block = wait == Wait::Idle && alone && !self.behind;
        self.behind = false;
        let time = match wait {
            Wait::For(time) => time,
            Wait::Idle if !alone => IDLE,
            Wait::Idle | Wait::No => std::time::Duration::ZERO,
        };
        if !time.is_zero() {
            let outlet = |at: usize| self.outlets.get(at).map_or(poll::NOBODY, |outlet| outlet.socket.fd());
            let waker = self.fittings.waker.as_ref().map_or(poll::NOBODY, Waker::fd);
            let fds: [_; 1 + MOST_CALLED] = std::array::from_fn(|at| at.checked_sub(1).map_or(waker, outlet));
            let [woken, came @ ..] = poll::wait_for_any(fds, time);
            if let (true, Some(waker)) = (woken, &self.fittings.waker) {
                waker.hear();
            }
            if !came.contains(&true) {
                return Ok(());
            }
        }
        (0..self.outlets.len()).try_for_each(|outlet| self.drain(outlet, block, clock, station))
    }

    fn transmit(&mut self, now: Instant, station: &mut dyn Station) -> Result<(), LineError> {
        while let Some(transmit) = station.poll_transmit(now, &mut self.packet) {
            if let Some(outlet) = self.commit(transmit.len, transmit.path)
                && self.outlets[outlet].ends.len() == BATCH
            {
                self.flush(outlet, now, station);
            }
        }
        for outlet in 0..self.outlets.len() {
            if !self.outlets[outlet].ends.is_empty() {
                self.flush(outlet, now, station);
            }
        }
        Ok(())
    }

    fn fittings(&self) -> &Fittings {
        &self.fittings
    }

    fn fittings_mut(&mut self) -> &mut Fittings {
        &mut self.fittings
    }
}

/// Addresses of one peer at most, in line with what transports of several paths keep.
const MOST_CALLED: usize = 4;

/// Keeps that path's peers talk to us at this address.
fn remember(ours: &mut Vec<IpAddr>, path: PathId, address: IpAddr) {
    let at = slot(path);
    if ours.len() <= at {
        ours.resize(at + 1, address);
    }
    ours[at] = address;
}
