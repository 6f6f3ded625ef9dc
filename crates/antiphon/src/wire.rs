//! Wires of a run: what is to be opened, and what is open.

use std::rc::Rc;

use antiphon_core::wire::TCP_SEGMENT;
use antiphon_core::{Instant, PathId, Profile, Role, Stack, Wire, WireId};
use antiphon_net::{Line, LineError, Lines, RawLine, SocketOptions, Target, TcpLine, TcpListening, UdpLine};
use antiphon_proto::Substrate;

use crate::Error;
use crate::line_notes::{Known, Stacks};
use crate::transport::{ByIp, StackPlan};

/// An open socket.
enum Opened {
    Line(Box<dyn Line + Send>),
    Listening(Box<TcpListening>),
}

/// All settings of a wire.
#[derive(Clone)]
pub struct WirePlan {
    /// Opens endpoints.
    pub stack: StackPlan,
    /// The peer to call, or where to wait.
    pub target: Target,
    /// How to run directly over IP, if asked for.
    pub over_ip: Option<ByIp>,
    /// Socket options.
    pub socket: SocketOptions,
}

/// A wire whose socket is open; made on any thread, since connecting may wait, and added to a run on its own.
pub struct OpenedWire {
    opened: Opened,
    max_datagram: usize,
    plan: WirePlan,
}

/// A wire that belongs to a run.
pub struct AddedWire {
    /// Opens its endpoints.
    pub stack: Rc<dyn Stack>,
    /// Its endpoints' profile.
    pub profile: Profile,
    /// The paths on which a called peer is reached: the first, and those of its other addresses.
    pub paths: Vec<PathId>,
    /// The largest datagram that is not fragmented, in bytes of UDP's or IP's payload.
    pub max_datagram: usize,
}

impl AddedWire {
    /// The largest packet that is not fragmented, in bytes: transports that can split longer messages should not have
    /// to.
    pub fn max_packet(&self) -> usize {
        max_packet(&self.profile, self.max_datagram)
    }
}

impl WirePlan {
    /// Inside UDP or TCP.
    pub fn new(stack: StackPlan, target: Target, socket: SocketOptions) -> Self {
        WirePlan { stack, target, over_ip: None, socket }
    }

    /// The role of its endpoints.
    fn role(&self) -> Role {
        if matches!(self.target, Target::Call(_)) { Role::Caller } else { Role::Listener }
    }

    /// Opens the socket. A call over TCP waits for the connection.
    pub fn open(self) -> Result<OpenedWire, Error> {
        let (opened, max_datagram) = self.open_wire()?;
        Ok(OpenedWire { opened, max_datagram, plan: self })
    }

    /// Whether opening it waits for the peer.
    pub(crate) fn waits(&self) -> bool {
        self.stack.transport.substrate == Substrate::Tcp && matches!(self.target, Target::Call(_))
    }

    /// The largest packet that is not fragmented over a byte stream, which is known before it is opened.
    pub(crate) fn max_packet_of_stream(&self) -> Result<usize, Error> {
        let profile = self.stack.open(TCP_SEGMENT)?.open(Instant::ZERO, self.role()).profile();
        Ok(max_packet(&profile, TCP_SEGMENT))
    }

    /// The socket, and the size of the largest datagram that is not fragmented.
    fn open_wire(&self) -> Result<(Opened, usize), LineError> {
        if let Some(over_ip) = self.over_ip {
            let line = RawLine::open(self.target, Box::new(over_ip), &self.socket)?;
            let most = line.max_datagram();
            return Ok((Opened::Line(Box::new(line)), most));
        }
        match (self.stack.transport.substrate, self.target) {
            (Substrate::Udp, target) => {
                let mut socket = self.socket.clone();
                socket.multicast.members = self.stack.transport.members;
                let line = UdpLine::open(target, &socket)?;
                let most = line.max_datagram();
                Ok((Opened::Line(Box::new(line)), most))
            }
            // Messages are limited to a segment, as on the datagram transports beside it.
            (Substrate::Tcp, Target::Call(peer)) => {
                Ok((Opened::Line(Box::new(TcpLine::call(peer, &self.socket)?)), TCP_SEGMENT))
            }
            (Substrate::Tcp, Target::Listen(local)) => {
                Ok((Opened::Listening(Box::new(TcpListening::bind(local, &self.socket)?)), TCP_SEGMENT))
            }
        }
    }
}

impl OpenedWire {
    /// What a listening socket's options were refused, in words; lines tell by themselves.
    pub fn notes(&self) -> &[String] {
        match &self.opened {
            Opened::Line(_) => &[],
            Opened::Listening(listening) => listening.notes(),
        }
    }

    /// The transport's scheme.
    pub fn scheme(&self) -> &'static str {
        self.plan.stack.transport.scheme
    }

    /// As [`AddedWire::max_packet`].
    pub(crate) fn max_packet(&self) -> Result<usize, Error> {
        let stack = self.plan.stack.open(self.max_datagram)?;
        Ok(max_packet(&stack.open(Instant::ZERO, self.plan.role()).profile(), self.max_datagram))
    }

    /// Adds it to the lines of a run; captures call it `name`.
    pub fn add(
        self,
        wire: WireId,
        name: &str,
        lines: &mut Lines<'static>,
        stacks: &Stacks,
    ) -> Result<AddedWire, Error> {
        let stack = self.plan.stack.open(self.max_datagram)?;
        let profile = stack.open(Instant::ZERO, self.plan.role()).profile();
        // A line that is added asks for its name.
        stacks.insert(wire, Known { name: name.into(), kind: profile.wire, stack: Rc::clone(&stack) });
        let added = match self.opened {
            Opened::Line(line) => lines.add(wire, line),
            Opened::Listening(listening) => lines.listen(wire, *listening),
        };
        added.inspect_err(|_| stacks.remove(wire))?;
        let paths = paths(profile, &self.plan.socket);
        Ok(AddedWire { stack, profile, paths, max_datagram: self.max_datagram })
    }
}

fn max_packet(profile: &Profile, max_datagram: usize) -> usize {
    let whole = match profile.wire {
        Wire::Datagram => max_datagram.saturating_sub(profile.message_overhead),
        Wire::ByteStream => max_datagram,
    };
    whole.min(profile.max_message)
}

/// The first path of a wire, and those to the peer's other addresses.
fn paths(profile: Profile, socket: &SocketOptions) -> Vec<PathId> {
    let others = if profile.wire == Wire::Datagram { socket.other_peers.len() } else { 0 };
    (0..=others as u32).map(PathId).collect()
}
