//! A protocol directly over IP as a line: calling one peer, or listening for many.
//!
//! Raw sockets need a privilege and have no ports: every packet of the protocol that reaches this machine is delivered
//! to each of them. The line selects its own by the ports in the packet, which are the transport's (see [`OverIp`]). A
//! listener's is the one in the URI; a caller draws its own, which the line learns from the first packet sent. So does a member of
//! a group: what is for all is for the group's address and port, what is for the member alone for its own.
//!
//! A kernel that implements the protocol itself also answers packets for our ports, which it does not know; a note
//! reports that. The open socket keeps other kernels from sending "protocol unreachable".

mod group;

use std::net::{IpAddr, SocketAddr};

use antiphon_core::{Input, Instant, OverIp, PathId, Wire, WireView};

use crate::address::Target;
use crate::allow::AllowList;
use crate::batch::{Ask, BATCH, ReceiveBatch, SendBatch};
use crate::capture::{Direction, Ends};
use crate::clock::{OsClock, Reading};
use crate::datagrams::{BEHIND, MOST_BATCHES, ROOM_TO_SEND};
use crate::line::{Line, LineCommon, LineError, Wait};
use crate::options::{self, SocketOptions};
use crate::paths::{AddressTable, slot};
use crate::poll::{self, Readiness};
use crate::raw_socket::{self, PortHeld, RawSocket};
use crate::receive_timeout::{ReceiveTimeout, Sleep};
use crate::system::fd::{AsFd, BorrowedFd};
use crate::wake::Waker;
use group::Group;

/// Raw sockets with their buffers and the table of their peers' addresses.
pub struct RawLine {
    over_ip: Box<dyn OverIp + Send>,
    /// One for each path of a calling line; when listening for both IP versions, IPv6's and IPv4's.
    outlets: Vec<Outlet>,
    /// The addresses of a calling line's one peer, by path; none where it listens.
    called: Vec<SocketAddr>,
    /// Of a line that sends to a group, whose path is 0, or has joined one.
    group: Option<Group>,
    peers: AddressTable,
    /// Where a listening line takes packets from.
    allow: AllowList,
    /// Our address on each path, by its number.
    ours: Vec<IpAddr>,
    receive: ReceiveBatch,
    /// The packet that the participant has just written.
    packet: Vec<u8>,
    timeout: ReceiveTimeout,
    max_datagram: usize,
    /// Its address is ours, where there is a single one, and our port; 0: not known yet.
    common: LineCommon,
    /// Prevents others from listening on the same port.
    _port: Option<PortHeld>,
}

/// A socket, and its packets that wait to be sent.
struct Outlet {
    socket: RawSocket,
    send: SendBatch,
    /// Ends of the waiting packets: the kernel is given them without ports.
    ends: Vec<Ends>,
}

impl RawLine {
    /// Opens the line that `target` asks for; its port is that of the transport.
    pub fn open(
        target: Target,
        over_ip: Box<dyn OverIp + Send>,
        options: &SocketOptions,
    ) -> Result<Self, LineError> {
        match target {
            Target::Call(peer) => Self::call(peer, over_ip, options),
            Target::Listen(local) => Self::listen(local, over_ip, options),
        }
    }

    /// A line to one peer, on all its addresses, or to a multicast group and its members.
    pub fn call(
        peer: SocketAddr,
        over_ip: Box<dyn OverIp + Send>,
        options: &SocketOptions,
    ) -> Result<Self, LineError> {
        if options::is_multicast(peer.ip()) {
            return Self::of_group(peer, false, over_ip, options);
        }
        let called: Vec<SocketAddr> =
            std::iter::once(peer).chain(options.other_peers.iter().copied()).collect();
        for (at, address) in called.iter().copied().enumerate() {
            let why = match () {
                () if address.port() != peer.port() => {
                    format!("over IP the peer has the same port at all its addresses: {} here", peer.port())
                }
                () if called[..at].contains(&address) => "it is named twice".into(),
                () if at >= MOST_CALLED => format!("a peer can have at most {MOST_CALLED} addresses"),
                () => continue,
            };
            return Err(LineError::Unreachable { address, why });
        }
        let mut notes = Vec::new();
        let open = |address: &SocketAddr| RawSocket::call(*address, over_ip.protocol(), options, &mut notes);
        let sockets = called.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut line = Self::with(sockets, over_ip, options, notes);
        line.called = called;
        Ok(line)
    }

    /// A line that waits for peers on `local`, or joins the group if `local` is one.
    pub fn listen(
        local: SocketAddr,
        over_ip: Box<dyn OverIp + Send>,
        options: &SocketOptions,
    ) -> Result<Self, LineError> {
        if options::is_multicast(local.ip()) {
            return Self::of_group(local, true, over_ip, options);
        }
        let mut notes = Vec::new();
        let sockets = RawSocket::listen(local, over_ip.protocol(), options, &mut notes)?;
        let port = PortHeld::take(over_ip.protocol(), local)?;
        let mut line = Self::with(sockets, over_ip, options, notes);
        line.common.local.set_port(local.port());
        line._port = Some(port);
        Ok(line)
    }

    fn with(
        sockets: Vec<RawSocket>,
        over_ip: Box<dyn OverIp + Send>,
        options: &SocketOptions,
        mut notes: Vec<String>,
    ) -> Self {
        let max_datagram = sockets.iter().map(|socket| socket.max_datagram(options)).min();
        let max_datagram = max_datagram.expect("one socket at least");
        notes.extend(raw_socket::kernel_speaks(over_ip.protocol()));
        let mut local = sockets[0].local();
        local.set_port(0);
        let room = max_datagram.max(ROOM_TO_SEND);
        let outlet = |socket| Outlet { socket, send: SendBatch::new(room), ends: Vec::with_capacity(BATCH) };
        RawLine {
            over_ip,
            outlets: sockets.into_iter().map(outlet).collect(),
            called: Vec::new(),
            group: None,
            peers: AddressTable::default(),
            allow: options.allow.clone(),
            ours: Vec::new(),
            receive: ReceiveBatch::new(),
            packet: vec![0; room],
            timeout: ReceiveTimeout::new(),
            max_datagram,
            common: LineCommon::new(local, notes),
            _port: None,
        }
    }

    /// The largest packet that is not fragmented, in bytes.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    /// Passes on those packets of the last batch from that outlet that are ours; returns when that was.
    fn pass_on(
        &mut self,
        outlet: usize,
        n: usize,
        clock: &OsClock,
        participant: &mut WireView<'_>,
    ) -> Instant {
        let reading = clock.read();
        for i in 0..n {
            self.pass_on_one(outlet, i, reading, participant);
        }
        reading.now
    }

    fn pass_on_one(&mut self, outlet: usize, i: usize, reading: Reading, participant: &mut WireView<'_>) {
        let destination = self.receive.destination_v6(i);
        let datagram = self.receive.datagram(i);
        let stamp = datagram.stamp;
        let received_at = reading.instant_of(stamp);
        let read = self.outlets[outlet].socket.read(&*self.over_ip, datagram, destination);
        let Some((ends, packet)) = read else { return };
        let ours = match self.group {
            Some(group) => group.takes(self.common.local.port(), &ends),
            None => is_ours(self.common.local, self.called.get(outlet), &ends),
        };
        if !ours {
            return;
        }
        if self.called.is_empty() && !self.allow.takes(ends.peer.ip()) {
            return;
        }
        self.common.stats.received += 1;
        if !self.over_ip.is_sound(packet, ends.peer.ip(), ends.local.ip()) {
            self.common.stats.damaged += 1;
            return;
        }
        let path = match self.called.is_empty() {
            true => self.peers.path_of(ends.peer, |path| participant.knows(path)),
            false => Some(PathId(outlet as u32)),
        };
        let Some(path) = path else {
            self.common.stats.unknown_sources += 1;
            return;
        };
        remember(&mut self.ours, path, ends.local.ip());
        self.common.stats.kernel_stamps |= stamp.is_some();
        if let Some(tap) = &mut self.common.tap {
            tap.packet(self.over_ip.protocol(), Direction::Received, received_at, ends, packet);
        }
        let input = Input::Datagram { path, bytes: packet, received_at };
        participant.handle_input(reading.now, input);
        if stamp.is_none() || reading.now.since(received_at) > BEHIND {
            self.receive.fall_behind();
        }
    }

    /// The address for packets on `path`; `None` if the peer was forgotten between receiving and answering.
    fn ends_of(&self, path: PathId) -> Option<Ends> {
        let called = |at: usize| Some((self.outlets.get(at)?.socket.local().ip(), *self.called.get(at)?));
        let (ours, peer) = match self.group {
            Some(group) => (group.ours, self.peers.address_of(path)?),
            None if self.called.is_empty() => (*self.ours.get(slot(path))?, self.peers.address_of(path)?),
            None => called(path.0 as usize)?,
        };
        Some(Ends { local: SocketAddr::new(ours, self.common.local.port()), peer })
    }

    /// Completes the packet that the participant wrote and adds it to its outlet's batch; returns that outlet.
    fn commit(&mut self, len: usize, path: PathId) -> Option<usize> {
        let calls = !self.called.is_empty();
        let learns = calls || self.group.is_some();
        if let Some((source, _)) = self.over_ip.ports(&self.packet[..len]).filter(|_| learns) {
            self.common.local.set_port(source);
        }
        let ends = self.ends_of(path)?;
        let packet = &mut self.packet[..len];
        self.over_ip.seal(packet, ends.local.ip(), ends.peer.ip());
        let is_v6 = ends.peer.is_ipv6();
        let at = match calls {
            true => path.0 as usize,
            false => self.outlets.iter().position(|outlet| outlet.socket.is_v6() == is_v6)?,
        };
        let outlet = &mut self.outlets[at];
        outlet.send.next()?[..len].copy_from_slice(packet);
        // A raw IPv6 socket interprets a port as the protocol number.
        let mut to = ends.peer;
        to.set_port(0);
        match calls {
            true => outlet.send.commit(len, None),
            false => outlet.send.commit_from(len, Some(to), Some(ends.local.ip())),
        }
        outlet.ends.push(ends);
        Some(at)
    }

    /// Sends the packets that wait at an outlet.
    fn flush(&mut self, at: usize, now: Instant, participant: &mut WireView<'_>) {
        let Outlet { socket, send, ends } = &mut self.outlets[at];
        let batch = send.flush(socket.fd());
        if let Some(tap) = &mut self.common.tap {
            for i in batch.taken.indices() {
                tap.packet(self.over_ip.protocol(), Direction::Sent, now, ends[i], send.datagram(i).bytes);
            }
        }
        ends.clear();
        self.common.on_sent(now, batch, participant);
    }

    /// Reads what one outlet has received, waiting for it if told to; returns when it last read the clock, if something
    /// came.
    fn drain(
        &mut self,
        outlet: usize,
        wait: bool,
        clock: &OsClock,
        participant: &mut WireView<'_>,
    ) -> Result<Option<Instant>, LineError> {
        let mut ask = Ask { wait, names: true };
        let mut looked = None;
        for _ in 0..MOST_BATCHES {
            match self.receive.receive(self.outlets[outlet].socket.fd(), ask) {
                Ok(0) => {
                    if ask.wait {
                        self.timeout.on_empty();
                    }
                    break;
                }
                Ok(n) => {
                    looked = Some(self.pass_on(outlet, n, clock, participant));
                    if !self.receive.has_more(n) {
                        break;
                    }
                }
                Err(error) => looked = Some(self.common.on_error(clock.now(), error, participant)?),
            }
            ask.wait = false;
        }
        Ok(looked)
    }

    /// Waits as told, as far as the receiving call does not: returns whether that call is to wait, and `None` if
    /// nothing came.
    fn sleep(&mut self, wait: Wait) -> Option<bool> {
        let sleep = match (&self.outlets[..], &self.common.waker) {
            ([_], None) if self.receive.is_behind() => Sleep::No,
            ([outlet], None) => self.timeout.plan(outlet.socket.socket(), wait),
            _ => Sleep::polling(wait),
        };
        let time = match sleep {
            Sleep::No => return Some(false),
            Sleep::InCall => return Some(true),
            Sleep::Poll(time) => time,
        };
        let outlet = |at: usize| self.outlets.get(at).map_or(poll::NO_FD, |outlet| outlet.socket.fd());
        let waker = self.common.waker.as_ref().map_or(poll::NO_FD, Waker::fd);
        let fds: [_; 1 + MOST_CALLED] = std::array::from_fn(|at| at.checked_sub(1).map_or(waker, outlet));
        let [woken, came @ ..] = poll::wait_for_any(fds, time);
        if let (true, Some(waker)) = (woken, &self.common.waker) {
            waker.clear();
        }
        came.contains(&true).then_some(false)
    }
}

impl Line for RawLine {
    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        let Some(wait) = self.sleep(wait) else { return Ok(clock.now()) };
        let mut looked = None;
        for outlet in 0..self.outlets.len() {
            looked = self.drain(outlet, wait, clock, participant)?.or(looked);
        }
        Ok(looked.unwrap_or_else(|| clock.now()))
    }

    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError> {
        while let Some(transmit) = participant.poll_transmit(now, &mut self.packet) {
            if let Some(outlet) = self.commit(transmit.len, transmit.path)
                && self.outlets[outlet].ends.len() == BATCH
            {
                self.flush(outlet, now, participant);
            }
        }
        for outlet in 0..self.outlets.len() {
            if !self.outlets[outlet].ends.is_empty() {
                self.flush(outlet, now, participant);
            }
        }
        Ok(())
    }

    fn wire(&self) -> Wire {
        Wire::Datagram
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness)) {
        for outlet in &self.outlets {
            each(outlet.socket.socket().as_fd(), Readiness::READABLE);
        }
    }

    fn peer_address(&self, path: PathId) -> Option<SocketAddr> {
        self.ends_of(path).map(|ends| ends.peer)
    }

    fn common(&self) -> &LineCommon {
        &self.common
    }

    fn common_mut(&mut self) -> &mut LineCommon {
        &mut self.common
    }
}

/// The most addresses of one peer, in line with what transports of several paths keep.
const MOST_CALLED: usize = 4;

/// Whether a packet between these ends, received where `called` is called, belongs to the line at `local`, not to
/// another on this machine.
fn is_ours(local: SocketAddr, called: Option<&SocketAddr>, ends: &Ends) -> bool {
    let same = |peer: &SocketAddr| peer.port() == ends.peer.port() && peer.ip() == ends.peer.ip();
    // Port 0 belongs to no socket: a caller that has not sent anything yet receives nothing.
    local.port() != 0 && ends.local.port() == local.port() && called.is_none_or(same)
}

/// Remembers that peers on that path send to us at this address.
fn remember(ours: &mut Vec<IpAddr>, path: PathId, address: IpAddr) {
    let at = slot(path);
    if ours.len() <= at {
        ours.resize(at + 1, address);
    }
    ours[at] = address;
}
