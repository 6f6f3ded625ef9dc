//! One media thread on sockets: opens its wire, drives a participant, and collects notes. Every stream runs through it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::wire::{IPV4_HEADER, TCP_IPV4_HEADERS, UDP_IPV4_HEADERS};
use antiphon_core::{Instant, Participant, PathId, Profile, Role, Stack, Wire, WireId};
use antiphon_net::capture::MESSAGE_PORT;
use antiphon_net::netns::Namespace;
use antiphon_net::{
    Capture, CaptureSummary, DriveOptions, DriveReport, LineStats, Lines, OsClock, SocketOptions, Stop, Taps,
    Target, WaitStyle, Waker, become_media_thread, drive_each,
};
use antiphon_proto::Substrate;
use antiphon_session::Session;

use crate::Error;
pub use crate::emulated::{EmulatedLinks, link_means, prepare_link};
use crate::line_notes::{LineNotes, TapAssigner};
use crate::transport::ByIp;
pub use crate::transport::StackPlan;
use crate::wire::paths;
pub use crate::wire::{OpenedWire, WirePlan};

/// All settings of a run; made on any thread, opened on the one that is to drive it.
#[derive(Clone)]
pub struct RunPlan {
    /// Opens endpoints.
    pub stack: StackPlan,
    /// The peer to call, or where to wait.
    pub target: Target,
    /// How to run directly over IP, if asked for.
    pub over_ip: Option<ByIp>,
    /// Socket options.
    pub socket: SocketOptions,
    /// Network namespace to run in; `None`: the process's own.
    pub namespace: Option<Namespace>,
    /// Captures the packets of the wire, on interfaces of that name.
    pub taps: Option<(Taps, String)>,
    /// Ends waits early.
    pub waker: Option<Waker>,
    /// How the thread waits.
    pub wait: WaitStyle,
    /// The run's clock.
    pub clock: OsClock,
}

/// An opened run: its wire, and the stack that opens endpoints on it. It stays on its thread.
pub struct Runner {
    lines: Lines<'static>,
    line_notes: Rc<RefCell<LineNotes>>,
    stacks: Stacks,
    stack: Rc<dyn Stack>,
    plan: RunPlan,
    profile: Profile,
    max_datagram: usize,
    scheduling: String,
}

/// Names and stacks of the wires of a run.
pub type Stacks = Rc<RefCell<BTreeMap<WireId, (String, Rc<dyn Stack>)>>>;

/// The first wire of a run.
pub const WIRE: WireId = WireId(0);

impl RunPlan {
    /// With default settings.
    pub fn new(stack: StackPlan, target: Target, socket: SocketOptions, clock: OsClock) -> Self {
        RunPlan {
            stack,
            target,
            over_ip: None,
            socket,
            namespace: None,
            taps: None,
            waker: None,
            wait: WaitStyle::default(),
            clock,
        }
    }

    /// Opens the socket, on the calling thread, in the plan's namespace.
    pub fn open(self) -> Result<Runner, Error> {
        if let Some(namespace) = &self.namespace {
            namespace.enter().map_err(|error| Error::failed(error.to_string()))?;
        }
        let first = WirePlan {
            stack: self.stack.clone(),
            target: self.target,
            over_ip: self.over_ip,
            socket: self.socket.clone(),
        };
        let opened = first.open()?;
        let (max_datagram, stack) = (opened.max_datagram(), opened.stack()?);
        let role = if matches!(self.target, Target::Call(_)) { Role::Caller } else { Role::Listener };
        let profile = stack.open(self.clock.now(), role).profile();
        let line_notes = Rc::new(RefCell::new(LineNotes::default()));
        let name = self.taps.as_ref().map_or(self.stack.transport.scheme, |(_, name)| name);
        let stacks = Rc::new(RefCell::new(BTreeMap::from([(WIRE, (name.to_string(), Rc::clone(&stack)))])));
        let mut lines = Lines::new();
        let taps = self.taps.clone().map(|(taps, _)| taps);
        lines.set_observer(Box::new(TapAssigner::new(&line_notes, taps, &stacks)));
        if let Some(waker) = &self.waker {
            lines.set_waker(waker.clone());
        }
        line_notes.borrow_mut().note(opened.notes());
        opened.add(WIRE, &mut lines)?;
        Ok(Runner {
            lines,
            line_notes,
            stacks,
            stack,
            profile,
            max_datagram,
            scheduling: String::new(),
            plan: self,
        })
    }
}

impl Runner {
    /// The address at which others reach it.
    pub fn local_address(&self) -> SocketAddr {
        self.lines.local_address(WIRE).unwrap_or_else(|| self.plan.target.address())
    }

    /// The largest datagram that is not fragmented, in bytes of UDP's or IP's payload.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    /// Options that the system has refused so far, in words.
    pub fn notes(&self) -> Vec<String> {
        self.line_notes.borrow().notes().to_vec()
    }

    /// The stack that opens its endpoints.
    pub fn stack(&self) -> &Rc<dyn Stack> {
        &self.stack
    }

    /// The profile of its endpoints.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The largest packet that is not fragmented, in bytes: transports that can split longer messages should not have
    /// to.
    pub fn max_packet(&self) -> usize {
        let whole = match self.profile.wire {
            Wire::Datagram => self.max_datagram.saturating_sub(self.profile.message_overhead),
            Wire::ByteStream => self.max_datagram,
        };
        whole.min(self.profile.max_message)
    }

    /// Bytes around a message that goes out in one packet: the transport's own and those below it.
    pub fn header_bytes(&self) -> u32 {
        self.profile.message_overhead as u32 + self.headers_below() as u32
    }

    /// Bytes of a packet's headers below the transport's: IPv4's, and UDP's or TCP's unless it runs over IP.
    pub fn headers_below(&self) -> u64 {
        (match self.plan.stack.transport.substrate {
            _ if self.plan.over_ip.is_some() => IPV4_HEADER,
            Substrate::Udp => UDP_IPV4_HEADERS,
            Substrate::Tcp => TCP_IPV4_HEADERS,
        }) as u64
    }

    /// The paths on which a called peer is reached: the first, and those of its other addresses.
    pub fn paths(&self) -> Vec<PathId> {
        paths(self.profile, &self.plan.socket)
    }

    /// Adds a wire on which `session` waits for the same peer as on the first; see [`Session::listen`].
    pub fn listen_further(
        &mut self,
        wire: WireId,
        plan: WirePlan,
        session: &mut Session,
        silence: Duration,
    ) -> Result<(), Error> {
        let opened = plan.open()?;
        let stack = opened.stack()?;
        self.stacks.borrow_mut().insert(wire, (opened.scheme().into(), Rc::clone(&stack)));
        self.line_notes.borrow_mut().note(opened.notes());
        opened.add(wire, &mut self.lines)?;
        session.listen(self.plan.clock.now(), wire, stack, silence);
        Ok(())
    }

    /// What captures know of the wires of this run: the name and the stack of each.
    pub fn stacks(&self) -> Stacks {
        Rc::clone(&self.stacks)
    }

    /// Has `session` call the peer, or wait for one; another may take its place after `silence`.
    pub fn join(&self, session: &mut Session, silence: Duration) {
        let now = self.plan.clock.now();
        match self.plan.target {
            Target::Call(_) => {
                session.call(now, WIRE, &self.paths(), &*self.stack);
            }
            Target::Listen(_) => session.listen(now, WIRE, Rc::clone(&self.stack), silence),
        }
    }

    /// Drives `participant` to its end, on this media thread; `each` is called after every round.
    pub fn drive<P: Participant>(
        &mut self,
        participant: &mut P,
        stop: &Stop,
        each: &mut dyn FnMut(Instant, &mut P, &mut Lines<'static>),
    ) -> Result<DriveReport, Error> {
        self.scheduling = become_media_thread().to_string();
        let options = DriveOptions { wait: self.plan.wait };
        Ok(drive_each(&mut self.lines, participant, &self.plan.clock, stop, options, each)?)
    }

    /// What the wire has counted; `None` if it failed while connections that it had accepted went on.
    pub fn wire_stats(&self) -> Option<LineStats> {
        self.lines.stats(WIRE)
    }

    /// Closes the sockets, so that captures hold the ends of connections. Returns what the user should know.
    pub fn finish(mut self) -> Aftermath {
        let wires: Vec<WireId> = self.lines.wires().collect();
        for wire in wires {
            if let Some(mut line) = self.lines.take(wire) {
                self.line_notes.borrow_mut().add_facts(&mut *line);
            }
        }
        let (notes, facts) = self.line_notes.take().into_parts();
        Aftermath { scheduling: self.scheduling, notes, facts }
    }
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Aftermath {
    /// Scheduling that the system gave the media thread.
    pub scheduling: String,
    /// Options that the system refused, in words.
    pub notes: Vec<String>,
    /// Facts about the lines, in words, such as the kernel's congestion control.
    pub facts: Vec<String>,
}

/// Starts a thread of that name.
pub(crate) fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    let started = std::thread::Builder::new().name(name.into()).spawn(body);
    started.map_err(|error| Error::failed(format!("cannot start a thread: {error}")))
}

/// Creates a capture file, if one was asked for.
pub(crate) fn create_capture(path: Option<&Path>, clock: OsClock) -> Result<Option<Capture>, Error> {
    let create = |path| Capture::create(path, clock).map_err(|error| Error::failed(error.to_string()));
    path.map(create).transpose()
}

/// Closes a capture file, if one was asked for. Returns what it holds, or why it is incomplete. A failed capture does
/// not stop the stream.
pub(crate) fn finish_capture(capture: Option<Capture>) -> Option<Result<String, String>> {
    let incomplete = |error| format!("the capture is incomplete: {error}");
    Some(capture?.finish().map(|summary| captured(&summary)).map_err(incomplete))
}

fn captured(summary: &CaptureSummary) -> String {
    let CaptureSummary { packets, inside, dropped, incomplete, .. } = *summary;
    let mut text = format!("captured {} packets, {dropped} dropped", packets - inside);
    if inside > 0 {
        text += &format!(", and {inside} of their content (RTP: -d udp.port=={MESSAGE_PORT},rtp)");
    }
    if incomplete > 0 {
        text += &format!(", without {incomplete} fragments of incomplete packets");
    }
    text
}
