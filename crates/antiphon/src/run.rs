//! One media thread on sockets: opens its wire, drives a participant, and collects notes. Every stream runs through it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::wire::{IPV4_HEADER, TCP_IPV4_HEADERS, TCP_SEGMENT, UDP_IPV4_HEADERS};
use antiphon_core::{Instant, Participant, PathId, Profile, Role, Stack, Wire, WireId};
use antiphon_net::capture::MESSAGE_PORT;
use antiphon_net::netns::Namespace;
use antiphon_net::{
    Capture, CaptureSummary, DriveOptions, DriveReport, Line, LineError, LineObserver, LineStats, Lines,
    OsClock, RawLine, SocketOptions, Stop, Tap, Taps, Target, TcpLine, TcpListening, UdpLine, WaitStyle,
    Waker, become_media_thread, drive_each,
};
use antiphon_proto::Substrate;
use antiphon_session::Session;

use crate::Error;
pub use crate::emulated::{EmulatedLinks, link_means, prepare_link};
use crate::transport::ByIp;
pub use crate::transport::StackPlan;

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

enum Opened {
    Line(Box<dyn Line + Send>),
    Listening(TcpListening),
}

/// A wire beside the first one of a run.
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

impl WirePlan {
    /// Opens the socket. A call over TCP waits for the connection.
    pub fn open(self) -> Result<OpenedWire, Error> {
        let (opened, max_datagram) = self.open_wire()?;
        Ok(OpenedWire { opened, max_datagram, plan: self })
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
                let line = UdpLine::open(target, &self.socket)?;
                let most = line.max_datagram();
                Ok((Opened::Line(Box::new(line)), most))
            }
            // Messages are limited to a segment, as on the datagram transports beside it.
            (Substrate::Tcp, Target::Call(peer)) => {
                Ok((Opened::Line(Box::new(TcpLine::call(peer, &self.socket)?)), TCP_SEGMENT))
            }
            (Substrate::Tcp, Target::Listen(local)) => {
                Ok((Opened::Listening(TcpListening::bind(local, &self.socket)?), TCP_SEGMENT))
            }
        }
    }
}

impl OpenedWire {
    /// The stack that opens its endpoints, and the paths on which a called peer is reached.
    pub fn stack(&self) -> Result<(Rc<dyn Stack>, Vec<PathId>), Error> {
        let stack = self.plan.stack.open(self.max_datagram)?;
        let paths = paths(stack.open(Instant::ZERO, Role::Caller).profile(), &self.plan.socket);
        Ok((stack, paths))
    }

    /// The largest datagram that is not fragmented, in bytes of UDP's or IP's payload.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    /// Adds it to the lines of a run.
    pub fn add(self, wire: WireId, lines: &mut Lines<'static>) -> Result<(), LineError> {
        match self.opened {
            Opened::Line(line) => lines.add(wire, line),
            Opened::Listening(listening) => lines.listen(wire, listening),
        }
    }
}

/// The first path of a wire, and those to the peer's other addresses.
fn paths(profile: Profile, socket: &SocketOptions) -> Vec<PathId> {
    let others = if profile.wire == Wire::Datagram { socket.other_peers.len() } else { 0 };
    (0..=others as u32).map(PathId).collect()
}

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
        let OpenedWire { opened, max_datagram, .. } = first.open()?;
        let stack = self.stack.open(max_datagram)?;
        let role = if matches!(self.target, Target::Call(_)) { Role::Caller } else { Role::Listener };
        let profile = stack.open(self.clock.now(), role).profile();
        let line_notes = Rc::new(RefCell::new(LineNotes::default()));
        let name = self.taps.as_ref().map_or(self.stack.transport.scheme, |(_, name)| name);
        let stacks = Rc::new(RefCell::new(BTreeMap::from([(WIRE, (name.to_string(), Rc::clone(&stack)))])));
        let mut lines = Lines::new();
        lines.set_observer(Box::new(TapAssigner {
            line_notes: Rc::clone(&line_notes),
            taps: self.taps.clone().map(|(taps, _)| taps),
            idle: Vec::new(),
            made: BTreeMap::new(),
            stacks: Rc::clone(&stacks),
        }));
        if let Some(waker) = &self.waker {
            lines.set_waker(waker.clone());
        }
        match opened {
            Opened::Line(line) => lines.add(WIRE, line)?,
            Opened::Listening(listening) => {
                line_notes.borrow_mut().note(listening.notes());
                lines.listen(WIRE, listening)?;
            }
        }
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
        self.line_notes.borrow().notes.clone()
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
        let (stack, _) = opened.stack()?;
        self.stacks.borrow_mut().insert(wire, (opened.plan.stack.transport.scheme.into(), Rc::clone(&stack)));
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
        let LineNotes { notes, facts, .. } = self.line_notes.take();
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

/// Notes and facts of the lines of a run.
#[derive(Default)]
struct LineNotes {
    notes: Vec<String>,
    facts: Vec<String>,
    /// All notes and facts so far: many connections report the same.
    said: BTreeSet<String>,
}

impl LineNotes {
    fn note(&mut self, notes: &[String]) {
        for note in notes {
            if self.said.len() < MOST_SAID && self.said.insert(note.clone()) {
                self.notes.push(note.clone());
            }
        }
    }

    /// Adds the facts of a line that is closing.
    fn add_facts(&mut self, line: &mut dyn Line) {
        for fact in line.facts() {
            if self.said.len() < MOST_SAID && self.said.insert(fact.clone()) {
                self.facts.push(fact);
            }
        }
    }
}

/// Collects the notes of lines and gives them taps. A capture has one interface for each datagram socket, and one for each
/// simultaneous connection, which is reused when the connection ends.
struct TapAssigner {
    line_notes: Rc<RefCell<LineNotes>>,
    taps: Option<Taps>,
    /// Taps without a line, by the name of their wire.
    idle: Vec<(String, Tap)>,
    /// How many were made, by the name of their wire.
    made: BTreeMap<String, usize>,
    stacks: Stacks,
}

impl TapAssigner {
    /// The name and the stack of a wire; a connection that came in has those of the byte stream that listens.
    fn stack_of(&self, wire: WireId) -> Option<(String, Rc<dyn Stack>)> {
        let stacks = self.stacks.borrow();
        let streams = |(_, stack): &&(String, Rc<dyn Stack>)| {
            stack.open(Instant::ZERO, Role::Listener).profile().wire == Wire::ByteStream
        };
        stacks.get(&wire).or_else(|| stacks.values().find(streams)).cloned()
    }

    /// An unused tap for `wire`.
    fn tap(&mut self, wire: WireId) -> Option<Tap> {
        let taps = self.taps.as_ref()?;
        let (name, stack) = self.stack_of(wire)?;
        if let Some(at) = self.idle.iter().position(|(of, _)| *of == name) {
            return Some(self.idle.remove(at).1);
        }
        let made = self.made.entry(name.clone()).or_default();
        *made += 1;
        let interface = if *made == 1 { name } else { format!("{name}-{made}") };
        Some(taps.tap_inside(&interface, stack.dissector()))
    }
}

impl LineObserver for TapAssigner {
    fn on_open(&mut self, wire: WireId, line: &mut dyn Line) {
        self.line_notes.borrow_mut().note(line.notes());
        if let Some(tap) = self.tap(wire) {
            line.set_tap(tap);
        }
    }

    fn on_close(&mut self, wire: WireId, line: &mut dyn Line) {
        self.line_notes.borrow_mut().add_facts(line);
        if let (Some(mut tap), Some((name, _))) = (line.take_tap(), self.stack_of(wire)) {
            tap.hang_up();
            self.idle.push((name, tap));
        }
    }
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

/// The most different sentences that are kept: a server of many connections gets the same from each.
const MOST_SAID: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that a thousand peers call one after another does not hold a thousand rings.
    #[test]
    fn a_tap_is_the_next_lines_when_one_gives_it_back() {
        let directory = tempfile::tempdir().unwrap();
        let capture = Capture::create(directory.path().join("x.pcapng"), OsClock::new()).unwrap();
        let choice = crate::transport::TransportChoice::read("tcp").unwrap();
        let stack = choice.stack(0, 1, crate::DEFAULT_LATENCY).open(TCP_SEGMENT).unwrap();
        let taps = Some(capture.taps());
        let line_notes = Rc::default();
        let stacks = Rc::new(RefCell::new(BTreeMap::from([(WIRE, ("tcp".to_string(), stack))])));
        let mut assigner = TapAssigner { line_notes, taps, idle: Vec::new(), made: BTreeMap::new(), stacks };
        let line = || UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).unwrap();
        let mut held = line();
        assigner.on_open(WIRE, &mut held);
        for _ in 0..1000 {
            let mut line = line();
            assigner.on_open(WIRE, &mut line);
            assigner.on_close(WIRE, &mut line);
        }
        assert_eq!(assigner.made["tcp"], 2);
        assigner.on_close(WIRE, &mut held);
        assert_eq!(assigner.idle.len(), 2);
    }
}
