//! A UDP socket as a line: calling one peer, listening for many, or sending to and joining a group.

use std::io;
use std::net::{IpAddr, SocketAddr};

use antiphon_core::wire::{UDP_IPV4_HEADERS, UDP_IPV6_HEADERS};
use antiphon_core::{Input, Instant, PathId, Wire, WireView};
use socket2::{Domain, Protocol, Socket, Type};

use crate::address::{Target, any_for, open_for};
use crate::allow::AllowList;
use crate::batch::{Ask, BATCH, ReceiveBatch, SendBatch, Taken};
use crate::capture::{Direction, Ends, Marks, Tap};
use crate::clock::OsClock;
use crate::datagrams::{BEHIND, MOST_BATCHES, ROOM_TO_SEND, path_mtu};
use crate::line::{IDLE, Line, LineCommon, LineError, Wait};
use crate::multicast::{join, set_up_sending, with_scope};
use crate::options::{self, SocketOptions};
use crate::paths::AddressTable;
use crate::poll::{NO_FD, Readiness, wait_for_any};
use crate::receive_timeout::{ReceiveTimeout, Sleep};
use crate::system::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use crate::system::{self, libc};
use crate::tcp_setup::address_of;
use crate::wake::Waker;
use crate::way::Way;

/// A UDP socket with its buffers and the table of its peers' addresses.
pub struct UdpLine {
    socket: Socket,
    /// The one peer of a calling line.
    peer: Option<Peer>,
    /// Its other addresses: paths 1 and up.
    others: Vec<SocketAddr>,
    /// Who calls a listening line, and which of our addresses they call.
    peers: AddressTable<(SocketAddr, Option<IpAddr>)>,
    /// Where a listening line takes datagrams from.
    allow: AllowList,
    /// The kernel's count of dropped datagrams when last read.
    dropped: u32,
    way: Way,
    receive: ReceiveBatch,
    /// Of a group's member: the other socket, from which it sends. A socket bound to a group's address receives nothing else.
    own: Option<Own>,
    send: SendBatch,
    /// Whether several datagrams waited when it last sent.
    in_bursts: bool,
    timeout: ReceiveTimeout,
    max_datagram: usize,
    common: LineCommon,
}

/// A second socket, which takes the place of the first while it is read.
struct Own {
    socket: Socket,
    receive: ReceiveBatch,
    dropped: u32,
}

#[derive(Clone, Copy)]
struct Peer {
    address: SocketAddr,
    /// A connected socket gets ICMP errors, and receives from its peer only; it cannot be connected to a group.
    connected: bool,
}

impl Peer {
    /// The path of a source address.
    fn path_from(&self, others: &[SocketAddr], from: Option<SocketAddr>) -> Option<PathId> {
        let mut addresses = std::iter::once(&self.address).chain(others);
        addresses.position(|address| Some(*address) == from).map(|at| PathId(at as u32))
    }

    fn address_of(&self, others: &[SocketAddr], path: PathId) -> SocketAddr {
        let other = (path.0 as usize).checked_sub(1).and_then(|at| others.get(at));
        other.copied().unwrap_or(self.address)
    }
}

impl UdpLine {
    /// Opens the line that `target` asks for.
    pub fn open(target: Target, options: &SocketOptions) -> Result<Self, LineError> {
        match target {
            Target::Call(peer) => Self::call(peer, options),
            Target::Listen(local) => Self::listen(local, options),
        }
    }

    /// A line to one peer or to a multicast group.
    pub fn call(peer: SocketAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let mut notes = Vec::new();
        let socket = new_socket(peer, options, &mut notes)?;
        let group = options::is_multicast(peer.ip());
        if group {
            set_up_sending(&socket, peer.ip(), options).map_err(LineError::system("multicast"))?;
        }
        if group && options.multicast.joins {
            return Self::share(socket, peer, options, notes);
        }
        socket.bind(&any_for(peer).into()).map_err(LineError::system("cannot open a UDP socket"))?;
        let others = options.other_peers.clone();
        if let Some(address) = others.iter().copied().find(|other| other.is_ipv6() != peer.is_ipv6()) {
            let why = format!("{peer} has another IP version than the other addresses: use one version");
            return Err(LineError::Unreachable { address, why });
        }
        if group && options.multicast.members {
            let mut line = Self::with(socket, options, peer.is_ipv6(), notes)?;
            let to_group = line.peers.path_of((peer, None), |_| true);
            assert_eq!(to_group, Some(PathId(0)), "the first path of a table");
            return Ok(line);
        }
        // A connected socket receives from one address only.
        let connected = !group && others.is_empty() && connect(&socket, peer)?;
        let mut line = Self::with(socket, options, peer.is_ipv6(), notes)?;
        (line.peer, line.others) = (Some(Peer { address: peer, connected }), others);
        Ok(line)
    }

    /// A line that sends to a group and hears all of its members. Its packets come from the group's port (RFC 4961), and the group
    /// is path 0.
    fn share(
        socket: Socket,
        group: SocketAddr,
        options: &SocketOptions,
        notes: Vec<String>,
    ) -> Result<Self, LineError> {
        // Several members may be on one machine.
        socket.set_reuse_address(true).map_err(LineError::system("multicast"))?;
        let local = with_scope(group, options)?;
        socket.bind(&local.into()).map_err(LineError::binding(local))?;
        join(&socket, local.ip(), options)
            .map_err(LineError::system(format!("cannot join {}", local.ip())))?;
        let mut line = Self::with(socket, options, local.is_ipv6(), notes)?;
        let to_group = line.peers.path_of((local, None), |_| true);
        assert_eq!(to_group, Some(PathId(0)), "the first path of a table");
        Ok(line)
    }

    /// A line that waits for peers on `local`, or joins the group if `local` is one.
    pub fn listen(local: SocketAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let mut notes = Vec::new();
        let (socket, local) = open_for(local, |local| new_socket(local, options, &mut notes))?;
        let group = options::is_multicast(local.ip());
        if group {
            // Several listeners on one machine may join the same group.
            socket.set_reuse_address(true).map_err(LineError::system("multicast"))?;
        }
        if local.ip().is_unspecified() {
            // Otherwise the kernel chooses, and a peer that called another address does not take the answer for one.
            let reported = options::report_destinations(&socket, local.is_ipv6());
            reported.map_err(LineError::system("addresses of arrivals"))?;
        }
        let local = with_scope(local, options)?;
        socket.bind(&local.into()).map_err(LineError::binding(local))?;
        if group {
            join(&socket, local.ip(), options)
                .map_err(LineError::system(format!("cannot join {}", local.ip())))?;
        }
        let own = if group && options.multicast.members { Some(Own::open(local, options)?) } else { None };
        Ok(UdpLine { own, ..Self::with(socket, options, local.is_ipv6(), notes)? })
    }

    fn with(
        socket: Socket,
        options: &SocketOptions,
        v6: bool,
        notes: Vec<String>,
    ) -> Result<Self, LineError> {
        let local = address_of(&socket)?;
        let max_datagram = max_datagram(&socket, options, v6);
        if options.segments {
            options::join_segments(&socket);
        }
        Ok(UdpLine {
            socket,
            peer: None,
            others: Vec::new(),
            peers: AddressTable::default(),
            allow: options.allow.clone(),
            dropped: 0,
            way: Way::default(),
            receive: ReceiveBatch::new(),
            own: None,
            send: SendBatch::new(max_datagram.max(ROOM_TO_SEND)).in_segments(options.segments),
            in_bursts: false,
            timeout: ReceiveTimeout::new(),
            max_datagram,
            common: LineCommon::new(local, notes),
        })
    }

    /// The largest payload that is not fragmented, in bytes.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    #[cfg(test)]
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Passes on the datagrams of the last batch; returns when that was and how many they were.
    fn pass_on(&mut self, n: usize, clock: &OsClock, participant: &mut WireView<'_>) -> (Instant, u64) {
        let reading = clock.read();
        let now = reading.now;
        let mut came = 0;
        for i in 0..n {
            let own = self.receive.own_address(i);
            let marks = self.common.tap.as_ref().and_then(|_| self.receive.class_and_ttl(i));
            self.common.stats.dropped += self.newly_dropped(i);
            let datagram = self.receive.datagram(i);
            let (from, stamp) = (datagram.from, datagram.stamp);
            if self.peer.is_none() && from.is_some_and(|from| !self.allow.takes(from.ip())) {
                came += datagram.each(|_| {});
                continue;
            }
            let path = match (&self.peer, from) {
                (Some(_), _) if self.others.is_empty() => Some(PathId::default()),
                (Some(peer), from) => peer.path_from(&self.others, from),
                (None, Some(from)) => self.peers.path_of((from, own), |path| participant.knows(path)),
                (None, None) => None,
            };
            let Some(path) = path else {
                let unknown = datagram.each(|_| {});
                self.common.stats.unknown_sources += unknown;
                came += unknown;
                continue;
            };
            let received_at = reading.instant_of(stamp);
            let (local, peer) = (self.common.local, from.or(self.peer.map(|peer| peer.address)));
            let tap = &mut self.common.tap;
            came += datagram.each(|bytes| {
                if let (Some(tap), Some(peer)) = (&mut *tap, peer) {
                    let marks = marks.map_or_else(Marks::default, |(class, ttl)| Marks { class, ttl });
                    tap.arrival(received_at, Ends { local, peer }, marks, bytes);
                }
                participant.handle_input(now, Input::Datagram { path, bytes, received_at });
            });
            self.common.stats.kernel_stamps |= stamp.is_some();
            if stamp.is_none() || now.since(received_at) > BEHIND {
                self.receive.fall_behind();
            }
        }
        self.common.stats.received += came;
        (now, came)
    }

    /// Waits as told, as far as the receiving call does not: returns whether that call is to wait, and `None` if
    /// nothing came.
    fn sleep(&mut self, wait: Wait) -> Option<bool> {
        if let Some(own) = &self.own {
            return self.sleep_for_both(own.socket.as_raw_fd(), wait);
        }
        let sleep = match &self.common.waker {
            Some(_) => Sleep::polling(wait),
            None if self.receive.is_behind() => Sleep::No,
            None => self.timeout.plan(&self.socket, wait),
        };
        match sleep {
            Sleep::No => Some(false),
            Sleep::InCall => Some(true),
            Sleep::Poll(time) => self.common.poll(self.fd(), Readiness::READABLE, time).then_some(false),
        }
    }

    /// As [`Self::sleep`], for a line with two sockets.
    fn sleep_for_both(&self, own: RawFd, wait: Wait) -> Option<bool> {
        let time = match wait {
            Wait::No => return Some(false),
            Wait::For(time) => time,
            Wait::Idle => IDLE,
        };
        let waker = self.common.waker.as_ref();
        let fds = [self.fd(), own, waker.map_or(NO_FD, Waker::fd)];
        let [group, own, woken] = wait_for_any(fds, time);
        if let (true, Some(waker)) = (woken, waker) {
            waker.clear();
        }
        (group || own).then_some(false)
    }

    /// Exchanges the two sockets.
    fn exchange(&mut self) {
        if let Some(own) = &mut self.own {
            std::mem::swap(&mut self.socket, &mut own.socket);
            std::mem::swap(&mut self.receive, &mut own.receive);
            std::mem::swap(&mut self.dropped, &mut own.dropped);
        }
    }

    /// Reads what waits in the socket; returns when that was, if anything came.
    fn read(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: bool,
    ) -> Result<Option<Instant>, LineError> {
        // A socket connected to one peer receives from that peer only.
        let names = !self.peer.is_some_and(|peer| peer.connected);
        let mut ask = Ask { wait, names };
        let mut looked = None;
        let mut came = 0;
        // A flood must not delay the media thread's other work.
        for _ in 0..MOST_BATCHES {
            match self.receive.receive(self.fd(), ask) {
                Ok(0) => {
                    if ask.wait {
                        self.timeout.on_empty();
                    }
                    break;
                }
                Ok(n) => {
                    let (now, of_batch) = self.pass_on(n, clock, participant);
                    looked = Some(now);
                    came += of_batch;
                    if !self.receive.has_more(n) || came >= (MOST_BATCHES * BATCH) as u64 {
                        break;
                    }
                }
                Err(error) => looked = Some(self.common.on_error(clock.now(), error, participant)?),
            }
            ask.wait = false;
        }
        Ok(looked)
    }

    /// Lets the participant write its next datagram into the batch; returns whether it had one.
    fn fill(&mut self, now: Instant, participant: &mut WireView<'_>) -> bool {
        let Some(transmit) = self.send.next().and_then(|buf| participant.poll_transmit(now, buf)) else {
            return false;
        };
        let (to, from) = match &self.peer {
            Some(peer) => ((!peer.connected).then(|| peer.address_of(&self.others, transmit.path)), None),
            None => match self.peers.address_of(transmit.path) {
                Some((peer, own)) => (Some(peer), own),
                // The peer was forgotten between receiving and answering.
                None => return true,
            },
        };
        self.send.commit_from(transmit.len, to, from);
        true
    }

    /// The path has become narrower: a router on the way said so, or the route has changed.
    fn learn_size(&mut self, now: Instant, participant: &mut WireView<'_>) {
        let headers = if self.common.local.is_ipv6() { UDP_IPV6_HEADERS } else { UDP_IPV4_HEADERS };
        let most = path_mtu(&self.socket, self.common.local.is_ipv6()) - headers;
        if most < self.max_datagram {
            self.max_datagram = most;
            participant.handle_input(now, Input::MaxDatagram(most));
        }
    }

    /// Datagrams that the kernel dropped before the `i`th of the batch and after the last one read.
    fn newly_dropped(&mut self, i: usize) -> u64 {
        let Some(dropped) = self.receive.dropped(i) else { return 0 };
        u64::from(dropped.wrapping_sub(std::mem::replace(&mut self.dropped, dropped)))
    }

    /// Reports the datagrams of the last batch that the kernel took (bits of `taken`) to the tap.
    fn show_sent(&mut self, now: Instant, taken: Taken) {
        let LineCommon { local, tap: Some(tap), .. } = &mut self.common else { return };
        for i in taken.indices() {
            let datagram = self.send.datagram(i);
            if let Some(peer) = datagram.to.or(self.peer.map(|peer| peer.address)) {
                tap.datagram(Direction::Sent, now, Ends { local: *local, peer }, datagram.bytes);
            }
        }
    }
}

impl Line for UdpLine {
    fn set_tap(&mut self, mut tap: Tap) {
        let v6 = self.common.local.is_ipv6();
        // Without it captures show the usual values.
        let _usual_values = options::report_class_and_ttl(&self.socket, v6);
        let peer = self.peer.map(|peer| peer.address.ip());
        let class = options::read_int(&self.socket, libc::IPPROTO_IP, libc::IP_TOS);
        let usual = Marks::default();
        tap.set_marks(Marks {
            class: class.map_or(usual.class, |class| class as u8),
            ttl: options::ttl_to(&self.socket, peer).unwrap_or(usual.ttl),
        });
        self.common.tap = Some(tap);
    }

    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        let Some(wait) = self.sleep(wait) else { return Ok(clock.now()) };
        let mut looked = self.read(clock, participant, wait)?;
        if self.own.is_some() {
            self.exchange();
            let own = self.read(clock, participant, false);
            self.exchange();
            looked = own?.or(looked);
        }
        Ok(looked.unwrap_or_else(|| clock.now()))
    }

    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError> {
        let mut sent = 0;
        loop {
            // A datagram that is usually single is sent before asking for more.
            let most = if sent == 0 && !self.in_bursts { 1 } else { self.send.places() };
            while self.send.len() < most && self.fill(now, participant) {}
            if self.send.len() == 0 {
                self.in_bursts = sent > 1;
                return Ok(());
            }
            sent += self.send.len();
            let from = self.own.as_ref().map_or(self.fd(), |own| own.socket.as_raw_fd());
            let batch = self.send.flush(from);
            self.show_sent(now, batch.taken);
            if let Some(peer) = self.peer.filter(|peer| peer.connected) {
                if batch.too_large {
                    self.learn_size(now, participant);
                }
                self.way.on_sent(now, &batch, &self.socket, peer.address, &mut self.common);
            }
            self.common.on_sent(now, batch, participant);
        }
    }

    fn wire(&self) -> Wire {
        Wire::Datagram
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>, Readiness)) {
        each(self.socket.as_fd(), Readiness::READABLE);
        if let Some(own) = &self.own {
            each(own.socket.as_fd(), Readiness::READABLE);
        }
    }

    fn peer_address(&self, path: PathId) -> Option<SocketAddr> {
        match self.peer {
            Some(peer) => Some(peer.address_of(&self.others, path)),
            None => self.peers.address_of(path).map(|(peer, _)| peer),
        }
    }

    fn common(&self) -> &LineCommon {
        &self.common
    }

    fn common_mut(&mut self) -> &mut LineCommon {
        &mut self.common
    }
}

impl Own {
    fn open(group: SocketAddr, options: &SocketOptions) -> Result<Self, LineError> {
        let socket = new_socket(group, options, &mut Vec::new())?;
        socket.bind(&any_for(group).into()).map_err(LineError::system("cannot open a UDP socket"))?;
        Ok(Own { socket, receive: ReceiveBatch::new(), dropped: 0 })
    }
}

fn new_socket(
    address: SocketAddr,
    options: &SocketOptions,
    notes: &mut Vec<String>,
) -> Result<Socket, LineError> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(LineError::system("cannot open a UDP socket"))?;
    options::apply_to_datagrams(&socket, options, address.is_ipv6(), notes);
    Ok(socket)
}

/// Connects to a peer; returns false for a broadcast address: a datagram then goes to many, and answers come from
/// others.
fn connect(socket: &Socket, peer: SocketAddr) -> Result<bool, LineError> {
    match socket.connect(&peer.into()) {
        Ok(()) => system::report_refusals(socket).map(|()| true).map_err(LineError::system("UDP options")),
        // The kernel's error for a broadcast address without SO_BROADCAST (ip(7)).
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && peer.is_ipv4() => {
            socket.set_broadcast(true).map_err(LineError::system("broadcast"))?;
            Ok(false)
        }
        Err(error) => Err(LineError::Unreachable { address: peer, why: error.to_string() }),
    }
}

/// The payload that fits the path's MTU as far as the kernel knows it, at most that of Ethernet.
fn max_datagram(socket: &Socket, options: &SocketOptions, v6: bool) -> usize {
    if options.fragment {
        return LARGEST_PAYLOAD;
    }
    path_mtu(socket, v6) - if v6 { UDP_IPV6_HEADERS } else { UDP_IPV4_HEADERS }
}

/// The largest UDP payload over IPv4.
const LARGEST_PAYLOAD: usize = antiphon_core::wire::MAX_UDP_PAYLOAD;
