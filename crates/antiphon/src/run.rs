//! One media thread on sockets: opens its wire, drives a participant, and collects notes. Every stream runs through it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::wire::{IPV4_HEADER, TCP_IPV4_HEADERS, UDP_IPV4_HEADERS};
use antiphon_core::{Instant, Participant, PathId, Profile, Stack, Wire, WireId};
use antiphon_net::capture::MESSAGE_PORT;
use antiphon_net::netns::Namespace;
use antiphon_net::{
    Capture, CaptureSummary, DriveOptions, DriveReport, LineStats, Lines, OsClock, SocketOptions, Stop, Taps,
    Target, UdpLine, WaitStyle, Waker, become_media_thread, drive_each, system_secret,
};
use antiphon_proto::Substrate;
use antiphon_session::{Apart, PlayoutDelay, Serve, Session, SessionConfig, StreamFraming, VideoFormat};

pub use crate::emulated::{EmulatedLinks, link_means, prepare_link};
pub use crate::line_notes::Stacks;
use crate::line_notes::{LineNotes, TapAssigner};
pub use crate::transport::StackPlan;
pub use crate::wire::{AddedWire, OpenedWire, WirePlan};
use crate::{Error, cname};

/// All settings of a run; made on any thread, opened on the one that is to drive it.
#[derive(Clone)]
pub struct RunPlan {
    /// The first wire.
    pub wire: WirePlan,
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
    first: AddedWire,
    plan: RunPlan,
    scheduling: String,
}

/// The first wire of a run.
pub const WIRE: WireId = WireId(0);

impl RunPlan {
    /// With default settings.
    pub fn new(wire: WirePlan, clock: OsClock) -> Self {
        RunPlan { wire, namespace: None, taps: None, waker: None, wait: WaitStyle::default(), clock }
    }

    /// Opens the socket, on the calling thread, in the plan's namespace.
    pub fn open(self) -> Result<Runner, Error> {
        if let Some(namespace) = &self.namespace {
            namespace.enter().map_err(|error| Error::failed(error.to_string()))?;
        }
        let opened = self.wire.clone().open()?;
        let line_notes = Rc::new(RefCell::new(LineNotes::default()));
        let (stacks, taps) = (Stacks::default(), self.taps.clone());
        let mut lines = Lines::new();
        lines.set_observer(Box::new(TapAssigner::new(&line_notes, taps.map(|(taps, _)| taps), &stacks)));
        if let Some(waker) = &self.waker {
            lines.set_waker(waker.clone());
        }
        line_notes.borrow_mut().note(opened.notes());
        let name = self.taps.as_ref().map_or(self.wire.stack.transport.scheme, |(_, name)| name);
        let first = opened.add(WIRE, name, &mut lines, &stacks)?;
        Ok(Runner { lines, line_notes, stacks, first, plan: self, scheduling: String::new() })
    }
}

impl Runner {
    /// Whether all that was sent on its first wire has left this machine.
    pub fn has_flushed(&self) -> bool {
        self.lines.has_flushed(WIRE)
    }

    /// The address at which others reach it.
    pub fn local_address(&self) -> SocketAddr {
        self.lines.local_address(WIRE).unwrap_or_else(|| self.plan.wire.target.address())
    }

    /// The largest datagram that is not fragmented, in bytes of UDP's or IP's payload.
    pub fn max_datagram(&self) -> usize {
        self.first.max_datagram
    }

    /// Options that the system has refused so far, in words.
    pub fn notes(&self) -> Vec<String> {
        self.line_notes.borrow().notes().to_vec()
    }

    /// The stack that opens its endpoints.
    pub fn stack(&self) -> &Rc<dyn Stack> {
        &self.first.stack
    }

    /// The paths on which a called peer is reached.
    pub fn paths(&self) -> &[PathId] {
        &self.first.paths
    }

    /// The profile of its endpoints.
    pub fn profile(&self) -> Profile {
        self.first.profile
    }

    /// The largest packet that is not fragmented, in bytes: transports that can split longer messages should not have
    /// to.
    pub fn max_packet(&self) -> usize {
        self.first.max_packet()
    }

    /// Bytes around a message that goes out in one packet: the transport's own and those below it.
    pub fn header_bytes(&self) -> u32 {
        self.first.profile.message_overhead as u32 + self.headers_below() as u32
    }

    /// Bytes of a packet's headers below the transport's: IPv4's, and UDP's or TCP's unless it runs over IP.
    pub fn headers_below(&self) -> u64 {
        (match self.plan.wire.stack.transport.substrate {
            _ if self.plan.wire.over_ip.is_some() => IPV4_HEADER,
            Substrate::Udp => UDP_IPV4_HEADERS,
            Substrate::Tcp => TCP_IPV4_HEADERS,
        }) as u64
    }

    /// Adds a wire on which `session` waits for the same peer as on the first; see [`Session::listen`].
    pub fn listen_further(
        &mut self,
        wire: WireId,
        plan: WirePlan,
        session: &mut Session,
        silence: Duration,
    ) -> Result<(), Error> {
        let stack = self.open_further(wire, plan)?;
        session.listen(self.plan.clock.now(), wire, stack, silence);
        Ok(())
    }

    /// The same for what `apart` names of the peer whose sound comes over the first wire.
    pub fn listen_apart(
        &mut self,
        (apart, wire): (Apart, WireId),
        plan: WirePlan,
        session: &mut Session,
        silence: Duration,
    ) -> Result<(), Error> {
        let stack = self.open_further(wire, plan)?;
        session.listen_apart(self.plan.clock.now(), apart, wire, stack, silence);
        Ok(())
    }

    fn open_further(&mut self, wire: WireId, plan: WirePlan) -> Result<Rc<dyn Stack>, Error> {
        let name = plan.stack.transport.scheme;
        let opened = plan.open()?;
        self.line_notes.borrow_mut().note(opened.notes());
        Ok(opened.add(wire, name, &mut self.lines, &self.stacks)?.stack)
    }

    /// Has `session` take RTCP on the port after RTP's as well, where players send it that do not multiplex both.
    ///
    /// Only for RTP on an even port (RFC 3550 §11); where the next one is in use, whoever sends there is not heard.
    pub fn listen_for_rtcp(&mut self, wire: WireId, session: &mut Session) -> Result<(), Error> {
        let bare = self.first.profile.bare && self.plan.wire.over_ip.is_none();
        let local = match self.plan.wire.target {
            Target::Listen(local) if bare => SocketAddr::new(local.ip(), self.local_address().port()),
            _ => return Ok(()),
        };
        if !local.port().is_multiple_of(2) {
            return Ok(());
        }
        let next = SocketAddr::new(local.ip(), local.port() + 1);
        match UdpLine::listen(next, &self.plan.wire.socket) {
            Ok(line) => {
                self.lines.add(wire, Box::new(line))?;
                session.listen_for_rtcp(wire);
            }
            Err(error) => {
                let note = format!("RTCP on port {} is not received: {error}", next.port());
                self.line_notes.borrow_mut().note(&[note]);
            }
        }
        Ok(())
    }

    /// Has `session` receive pictures in an RTP session of their own on `local`, on the wire `first`, and their RTCP there and, if the port is
    /// even, on the next one, on the wire behind `first`.
    pub fn listen_for_video_session(
        &mut self,
        first: WireId,
        (local, socket): (SocketAddr, &SocketOptions),
        session: &mut Session,
        format: VideoFormat,
    ) -> Result<(), Error> {
        self.lines.add(first, Box::new(UdpLine::listen(local, socket)?))?;
        let next = WireId(first.0 + 1);
        let mut rtcp = None;
        if local.port().is_multiple_of(2) {
            match UdpLine::listen(SocketAddr::new(local.ip(), local.port() + 1), socket) {
                Ok(line) => {
                    self.lines.add(next, Box::new(line))?;
                    rtcp = Some(next);
                }
                Err(error) => {
                    let note =
                        format!("RTCP of the pictures on port {} is not received: {error}", local.port() + 1);
                    self.line_notes.borrow_mut().note(&[note]);
                }
            }
        }
        session.listen_for_video_session(self.plan.clock.now(), format, first, rtcp);
        Ok(())
    }

    /// What captures know of the wires of this run: the name and the stack of each.
    pub fn stacks(&self) -> Stacks {
        self.stacks.clone()
    }

    /// Has `session` call the peer, or wait for one; another may take its place after `silence`.
    pub fn join(&self, session: &mut Session, silence: Duration) {
        let now = self.plan.clock.now();
        self.tell_group(session);
        match self.plan.wire.target {
            Target::Call(_) => {
                session.call(now, WIRE, &self.first.paths, &*self.first.stack);
            }
            Target::Listen(_) => session.listen(now, WIRE, Rc::clone(&self.first.stack), silence),
        }
    }

    /// Has `session` serve those who call, `most` at once. A single one that records over a byte stream keeps its place when the
    /// connection breaks.
    pub fn serve(&self, session: &mut Session, most: usize) {
        let stack = Rc::clone(&self.first.stack);
        let now = self.plan.clock.now();
        if most == 1 && self.first.profile.wire == Wire::ByteStream && !session.has_programmes() {
            return session.listen(now, WIRE, stack, crate::send::SILENCE);
        }
        session.serve(now, WIRE, stack, Serve { most, idle: IDLE, secret: system_secret() });
    }

    /// Tells `session` of a multicast group.
    fn tell_group(&self, session: &mut Session) {
        if self.plan.wire.target.address().ip().is_multicast() {
            session.set_group();
        }
    }

    /// The same for a stream that is sent: a peer that records is called again when its association has ended, and with
    /// `always` any other.
    pub fn join_lastingly(&self, session: &mut Session, silence: Duration, always: bool) {
        if let Target::Listen(_) = self.plan.wire.target {
            return self.join(session, silence);
        }
        self.tell_group(session);
        let (now, stack) = (self.plan.clock.now(), Rc::clone(&self.first.stack));
        session.keep_calling(now, WIRE, &self.first.paths, stack, always);
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

/// The settings of a session without media, with a name of its own: what streams differ in is set by them.
pub(crate) fn session_config(seed: u64, clock: OsClock) -> SessionConfig {
    SessionConfig {
        cname: cname::unique(),
        epoch: clock.epoch(),
        seed,
        playout_delay: PlayoutDelay::Unbounded,
        tells: None,
        reflected: None,
        ends_with_stream: true,
        framing: StreamFraming::Rtp,
        two_way: false,
    }
}

/// Keeps the wall-clock time that a session's reports tell, and by which one plays whose sender counts PTP's: the clock may be set, and machines sleep.
pub struct WallClock {
    clock: OsClock,
    next: Instant,
}

impl WallClock {
    /// Of a session that began with `clock`'s epoch.
    pub fn new(clock: OsClock) -> Self {
        WallClock { clock, next: Instant::ZERO + READ_AGAIN }
    }

    /// Reads it when it is time.
    pub fn keep(&mut self, now: Instant, session: &mut Session) {
        if now >= self.next {
            self.next = now + READ_AGAIN;
            session.set_epoch(self.clock.epoch_now());
            session.set_shared_time(|| self.clock.tai());
        }
    }
}

/// A receiver that has said nothing for so long is gone: it tells once a second that it is there.
const IDLE: Duration = Duration::from_secs(4);

/// How often the wall clock is read: about as often as a report is sent.
const READ_AGAIN: Duration = Duration::from_secs(1);

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
    started.map_err(|error| {
        Error::failed(format!(
            "cannot start a thread: {error}; raise the limit on processes (ulimit -u) or memory (ulimit -v)"
        ))
    })
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
