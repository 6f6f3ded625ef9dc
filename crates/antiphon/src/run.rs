//! One media thread on sockets: what it opens, drives and leaves behind. Everything that streams here runs through it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::wire::{IPV4_HEADER, TCP_IPV4_HEADERS, TCP_SEGMENT, UDP_IPV4_HEADERS};
use antiphon_core::{Instant, Participant, PathId, Profile, Role, Stack, Wire, WireId};
use antiphon_net::capture::FRAME_PORT;
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

/// All that a run needs; made on any thread, opened on the one that is to drive it.
#[derive(Clone)]
pub struct RunPlan {
    /// What opens endpoints.
    pub stack: StackPlan,
    /// Whom to call, or where to wait.
    pub target: Target,
    /// How to go directly over IP, if that is asked for.
    pub over_ip: Option<ByIp>,
    /// Socket options.
    pub socket: SocketOptions,
    /// Where to live; `None`: where the process lives.
    pub namespace: Option<Namespace>,
    /// Shows what crosses the wire, on interfaces of that name.
    pub taps: Option<(Taps, String)>,
    /// Ends waits early.
    pub waker: Option<Waker>,
    /// How the thread waits.
    pub wait: WaitStyle,
    /// Of the run.
    pub clock: OsClock,
}

/// An opened run: its wire, and what opens endpoints on it. It stays on its thread.
pub struct Runner {
    lines: Lines<'static>,
    attendance: Rc<RefCell<Attendance>>,
    stack: Rc<dyn Stack>,
    plan: RunPlan,
    profile: Profile,
    max_datagram: usize,
    scheduling: String,
}

/// The one wire that a run begins with.
pub const WIRE: WireId = WireId(0);

enum Opened {
    Line(Box<dyn Line>),
    Listening(TcpListening),
}

impl RunPlan {
    /// With nothing but the necessary.
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

    /// Opens the socket, on the calling thread, in the namespace it is to live in.
    pub fn open(self) -> Result<Runner, Error> {
        if let Some(namespace) = &self.namespace {
            namespace.enter().map_err(|error| Error::failed(error.to_string()))?;
        }
        let (opened, max_datagram) = self.open_wire()?;
        let stack = self.stack.open(max_datagram)?;
        let role = if matches!(self.target, Target::Call(_)) { Role::Caller } else { Role::Listener };
        let profile = stack.open(self.clock.now(), role).profile();
        let attendance = Rc::new(RefCell::new(Attendance::default()));
        let mut lines = Lines::new();
        lines.set_observer(Box::new(Attendant {
            attendance: Rc::clone(&attendance),
            taps: self.taps.clone(),
            idle: Vec::new(),
            made: 0,
            stack: Rc::clone(&stack),
        }));
        if let Some(waker) = &self.waker {
            lines.set_waker(waker.clone());
        }
        match opened {
            Opened::Line(line) => lines.add(WIRE, line)?,
            Opened::Listening(listening) => {
                attendance.borrow_mut().note(listening.notes());
                lines.listen(WIRE, listening)?;
            }
        }
        Ok(Runner { lines, attendance, stack, profile, max_datagram, scheduling: String::new(), plan: self })
    }

    /// The socket, and the largest datagram that goes out whole.
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
            // Messages are kept to a segment, as on the datagram transports beside it.
            (Substrate::Tcp, Target::Call(peer)) => {
                Ok((Opened::Line(Box::new(TcpLine::call(peer, &self.socket)?)), TCP_SEGMENT))
            }
            (Substrate::Tcp, Target::Listen(local)) => {
                Ok((Opened::Listening(TcpListening::bind(local, &self.socket)?), TCP_SEGMENT))
            }
        }
    }
}

impl Runner {
    /// The address that others reach it at.
    pub fn local_address(&self) -> SocketAddr {
        self.lines.local_address(WIRE).unwrap_or_else(|| self.plan.target.address())
    }

    /// The largest datagram that goes out whole, in bytes of what UDP or IP carries.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    /// Options that the system refused so far, in words.
    pub fn notes(&self) -> Vec<String> {
        self.attendance.borrow().notes.clone()
    }

    /// What opens its endpoints.
    pub fn stack(&self) -> &Rc<dyn Stack> {
        &self.stack
    }

    /// What its endpoints promise.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The largest packet that goes out in one piece, in bytes: transports that can cut longer ones should not have to.
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
        let others = if self.profile.wire == Wire::Datagram { self.plan.socket.other_peers.len() } else { 0 };
        (0..=others as u32).map(PathId).collect()
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

    /// Drives `participant` to its end, as a media thread; `each` has a look at it after every round.
    pub fn drive<P: Participant>(
        &mut self,
        participant: &mut P,
        stop: &Stop,
        each: &mut dyn FnMut(Instant, &mut P),
    ) -> Result<DriveReport, Error> {
        self.scheduling = become_media_thread().to_string();
        let options = DriveOptions { wait: self.plan.wait };
        Ok(drive_each(&mut self.lines, participant, &self.plan.clock, stop, options, each)?)
    }

    /// What the wire has counted; zeros after it has failed, as its counters went with it (the run ends with the error).
    pub fn wire_stats(&self) -> LineStats {
        self.lines.stats(WIRE).unwrap_or_default()
    }

    /// Closes the sockets: captures see the ends of connections. What the user should know.
    pub fn finish(mut self) -> Aftermath {
        let wires: Vec<WireId> = self.lines.wires().collect();
        for wire in wires {
            if let Some(mut line) = self.lines.take(wire) {
                self.attendance.borrow_mut().leave(&mut *line);
            }
        }
        let Attendance { notes, facts, .. } = self.attendance.take();
        Aftermath { scheduling: self.scheduling, notes, facts }
    }
}

/// What is left of a run.
#[derive(Clone, Debug, Default)]
pub struct Aftermath {
    /// What the system gave the media thread.
    pub scheduling: String,
    /// Options that the system refused, in words.
    pub notes: Vec<String>,
    /// What is worth knowing of the lines, in words: the kernel's congestion control.
    pub facts: Vec<String>,
}

/// What the lines of a run had to say.
#[derive(Default)]
struct Attendance {
    notes: Vec<String>,
    facts: Vec<String>,
    /// All of both: many connections say the same.
    said: BTreeSet<String>,
}

impl Attendance {
    fn note(&mut self, notes: &[String]) {
        for note in notes {
            if self.said.len() < MOST_SAID && self.said.insert(note.clone()) {
                self.notes.push(note.clone());
            }
        }
    }

    /// A line ends.
    fn leave(&mut self, line: &mut dyn Line) {
        for fact in line.facts() {
            if self.said.len() < MOST_SAID && self.said.insert(fact.clone()) {
                self.facts.push(fact);
            }
        }
    }
}

/// Hears of lines that come and go. A capture has an interface for a socket of datagrams, and one for each connection that
/// there is at once, which is the next one's when it ends.
struct Attendant {
    attendance: Rc<RefCell<Attendance>>,
    taps: Option<(Taps, String)>,
    /// Taps that no connection has.
    idle: Vec<Tap>,
    made: usize,
    stack: Rc<dyn Stack>,
}

impl Attendant {
    /// A tap that nobody has.
    fn tap(&mut self) -> Option<Tap> {
        let (taps, name) = self.taps.as_ref()?;
        Some(self.idle.pop().unwrap_or_else(|| {
            self.made += 1;
            let name = if self.made == 1 { name.clone() } else { format!("{name}-{}", self.made) };
            taps.tap_inside(&name, self.stack.dissector())
        }))
    }
}

impl LineObserver for Attendant {
    fn on_open(&mut self, _wire: WireId, line: &mut dyn Line) {
        self.attendance.borrow_mut().note(line.notes());
        if let Some(tap) = self.tap() {
            line.set_tap(tap);
        }
    }

    fn on_close(&mut self, _wire: WireId, line: &mut dyn Line) {
        self.attendance.borrow_mut().leave(line);
        if let Some(mut tap) = line.take_tap() {
            tap.hang_up();
            self.idle.push(tap);
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

/// Begins a capture file, if one was asked for.
pub(crate) fn create_capture(path: Option<&Path>, clock: OsClock) -> Result<Option<Capture>, Error> {
    let create = |path| Capture::create(path, clock).map_err(|error| Error::failed(error.to_string()));
    path.map(create).transpose()
}

/// Closes a capture file, if one was asked for, and tells what is in it, or why not all is. A capture that failed does
/// not undo the stream.
pub(crate) fn finish_capture(capture: Option<Capture>) -> Option<Result<String, String>> {
    let incomplete = |error| format!("the capture is incomplete: {error}");
    Some(capture?.finish().map(|summary| captured(&summary)).map_err(incomplete))
}

fn captured(summary: &CaptureSummary) -> String {
    let CaptureSummary { packets, inside, dropped, incomplete, .. } = *summary;
    let mut text = format!("captured {} packets, {dropped} dropped", packets - inside);
    if inside > 0 {
        text += &format!(", and {inside} of what is inside them (RTP: -d udp.port=={FRAME_PORT},rtp)");
    }
    if incomplete > 0 {
        text += &format!(", without {incomplete} fragments of packets that did not become whole");
    }
    text
}

/// Different sentences of lines that are kept: a server of many connections is told the same by each.
const MOST_SAID: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is asked a thousand times by one peer after another does not hold a thousand rings.
    #[test]
    fn a_tap_is_the_next_lines_when_one_gives_it_back() {
        let directory = tempfile::tempdir().unwrap();
        let capture = Capture::create(directory.path().join("x.pcapng"), OsClock::new()).unwrap();
        let choice = crate::transport::TransportChoice::read("tcp").unwrap();
        let stack = choice.stack(0, 1, crate::DEFAULT_LATENCY).open(TCP_SEGMENT).unwrap();
        let taps = Some((capture.taps(), "tcp".into()));
        let attendance = Rc::default();
        let mut attendant = Attendant { attendance, taps, idle: Vec::new(), made: 0, stack };
        let line = || UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).unwrap();
        let mut held = line();
        attendant.on_open(WIRE, &mut held);
        for _ in 0..1000 {
            let mut line = line();
            attendant.on_open(WIRE, &mut line);
            attendant.on_close(WIRE, &mut line);
        }
        assert_eq!(attendant.made, 2);
        attendant.on_close(WIRE, &mut held);
        assert_eq!(attendant.idle.len(), 2);
    }
}
