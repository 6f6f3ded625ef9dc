//! The application's own frames over any transport, by URI: what programs use that bring their own codec.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use antiphon::frames::{FrameLink, FrameOptions};
//!
//! let link = FrameLink::open("srp://192.0.2.7:7800?latency=80ms", &FrameOptions::default())?;
//! link.wait_connected(Some(Duration::from_secs(2)))?;
//! link.send(b"a frame", Some(Duration::from_millis(80)))?;
//! let mut buffer = [0; 1500];
//! let frame = link.receive(&mut buffer, None)?;
//! println!("{} bytes came", frame.len);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod port;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::uri::Uri;
use antiphon_core::{Instant, OverIp};
use antiphon_net::{DriveOptions, OsClock, SocketOptions, Stop, Target, Waker, become_media_thread, drive};
use antiphon_proto::{Role, find};
use antiphon_session::{FramePeer, FrameStation, LinkState, StreamFraming};

use crate::transport::{EndpointPlan, StreamKeys, open_line};
use crate::{DEFAULT_LATENCY, Error};
use port::{AppSide, Board, MediaSide, queues};

pub use port::FrameStats;

/// How a [`FrameLink`] is opened.
#[derive(Clone, Debug)]
pub struct FrameOptions {
    /// How old a frame may be when it is used: protocols size their patience by it. `latency` in the URI wins.
    pub latency: Duration,
    /// Socket options; those in the URI win.
    pub socket: SocketOptions,
    /// Seeds the endpoint, together with a number of this process that nobody knows.
    pub seed: u64,
}

impl Default for FrameOptions {
    fn default() -> Self {
        FrameOptions { latency: DEFAULT_LATENCY, socket: SocketOptions::default(), seed: 1 }
    }
}

/// An association that carries the application's frames both ways, with a media thread of its own.
///
/// May be shared by threads. Frames wait in bounded queues of [`QUEUED_FRAMES`] each way.
pub struct FrameLink {
    send: Mutex<port::Outbox>,
    receive: Mutex<port::Arrivals>,
    board: Arc<Board>,
    /// Wakes the media thread.
    media: Waker,
    /// Rung when frames arrive or the state changes.
    news: Waker,
    stop: Stop,
    thread: Mutex<Option<JoinHandle<Result<(), Error>>>>,
    clock: OsClock,
    local: SocketAddr,
    max_frame: usize,
}

/// A frame that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrivedFrame {
    /// Bytes copied into the buffer.
    pub len: usize,
    /// Bytes that the frame has; more than `len` when the buffer was too short for it, and the rest is gone.
    pub full_len: usize,
    /// When its last byte came off the wire, on the clock of [`FrameLink::now`].
    pub received_at: Instant,
    /// Whether it had to be sent more than once, as far as this side knows.
    pub repaired: bool,
}

/// Why a frame could not be sent or received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The queue has no room: the transport takes frames more slowly than they are offered, or no peer is there yet.
    #[error("{QUEUED_FRAMES} frames are waiting to be sent already: wait for the peer, or send less")]
    Full,
    /// No bytes.
    #[error("a frame must have at least one byte")]
    Empty,
    /// More than the transport carries.
    #[error("a frame of {len} bytes is larger than this transport carries ({max})")]
    TooLarge {
        /// Its bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// Nothing came in time.
    #[error("nothing came within the time given")]
    TimedOut,
    /// The association has ended and everything that came was fetched.
    #[error("the association has ended: open another")]
    Closed,
}

impl FrameLink {
    /// Opens an association: `scheme://HOST:PORT` calls, `scheme://:PORT` or `scheme://@ADDRESS:PORT` waits for a
    /// caller. Answers when the socket is there; [`Self::wait_connected`] tells when frames flow.
    pub fn open(uri: &str, options: &FrameOptions) -> Result<Self, Error> {
        let uri: Uri = uri.parse()?;
        let transport = find(&uri.scheme)?;
        let keys = StreamKeys::read(transport, &uri.query, &options.socket)?;
        let target = Target::resolve(&uri, keys.default_port(transport))?;
        if keys.framing.is_some() {
            return Err(Error::usage("frames are carried as they are: leave 'framing' out, it is for sound"));
        }
        let plan = EndpointPlan {
            transport,
            role: if matches!(target, Target::Call(_)) { Role::Caller } else { Role::Listener },
            query: keys.for_endpoint(uri.query, target),
            seed: options.seed,
            latency: keys.latency.unwrap_or(options.latency),
            framing: StreamFraming::Rtp,
        };
        let bell = || Waker::new().map_err(no_descriptor);
        let (clock, stop, media, news) = (OsClock::new(), Stop::new(), bell()?, bell()?);
        let (AppSide { outbox, arrivals }, media_side) = queues(&news);
        let board = Arc::clone(&media_side.board);
        let (ready, opened) = mpsc::channel();
        let bells = (media.clone(), news.clone());
        let over_ip = keys.over_ip;
        let running =
            Running { plan, over_ip, target, socket: keys.socket, clock, stop: stop.clone(), bells };
        let thread = std::thread::Builder::new()
            .name("frames".into())
            .spawn(move || running.run(media_side, &ready))
            .map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
        let Ok((local, max_frame)) = opened.recv() else {
            let ended = thread.join().map_err(|_| Error::failed("the media thread panicked"))?;
            return Err(ended.err().unwrap_or_else(|| Error::failed("the media thread ended at once")));
        };
        Ok(FrameLink {
            send: Mutex::new(outbox),
            receive: Mutex::new(arrivals),
            board,
            media,
            news,
            stop,
            thread: Mutex::new(Some(thread)),
            clock,
            local,
            max_frame,
        })
    }

    /// The address that others reach this link at.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The largest frame that goes out, in bytes.
    pub fn max_frame(&self) -> usize {
        self.max_frame
    }

    /// Time since the link was opened.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// An instant of this link as time of `CLOCK_MONOTONIC`, for programs that keep that clock.
    pub fn monotonic(&self, at: Instant) -> Duration {
        self.clock.monotonic(at)
    }

    /// Hands a frame to the media thread. `lifetime`: how long it is of use from now on; `None`: for ever. It is not
    /// begun after that.
    pub fn send(&self, frame: &[u8], lifetime: Option<Duration>) -> Result<(), FrameError> {
        if frame.is_empty() {
            return Err(FrameError::Empty);
        }
        if frame.len() > self.max_frame {
            return Err(FrameError::TooLarge { len: frame.len(), max: self.max_frame });
        }
        if self.state() == LinkState::Closed || self.stop.is_asked() {
            return Err(FrameError::Closed);
        }
        let deadline = lifetime.map(|lifetime| self.clock.now() + lifetime);
        let mut outbox = self.send.lock().unwrap_or_else(PoisonError::into_inner);
        if !outbox.push(frame, deadline) {
            return Err(FrameError::Full);
        }
        self.media.wake();
        Ok(())
    }

    /// Waits for the next frame and copies it into `buf`. `patience`: how long to wait; `None` without limit, zero not
    /// at all.
    pub fn receive(&self, buf: &mut [u8], patience: Option<Duration>) -> Result<ArrivedFrame, FrameError> {
        let mut arrived = None;
        self.wait_for(patience, || {
            // Looked at before the queue: what came before the end is handed out.
            let ended = self.state() == LinkState::Closed || self.stop.is_asked();
            let mut arrivals = self.receive.lock().unwrap_or_else(PoisonError::into_inner);
            arrived = arrivals.pop(buf);
            if arrived.is_some() && arrivals.frees_a_full_queue() {
                self.media.wake();
            }
            arrived.is_some() || ended
        });
        arrived.ok_or(if self.state() == LinkState::Closed || self.stop.is_asked() {
            FrameError::Closed
        } else {
            FrameError::TimedOut
        })
    }

    /// Waits until frames flow.
    pub fn wait_connected(&self, patience: Option<Duration>) -> Result<(), FrameError> {
        let done = |state| matches!(state, LinkState::Connected | LinkState::Closed);
        self.wait_for(patience, || done(self.state()) || self.stop.is_asked());
        match self.state() {
            LinkState::Connected => Ok(()),
            LinkState::Closed => Err(FrameError::Closed),
            LinkState::Waiting | LinkState::Broken if self.stop.is_asked() => Err(FrameError::Closed),
            LinkState::Waiting | LinkState::Broken => Err(FrameError::TimedOut),
        }
    }

    /// Asks `done` until it says so or patience is over, sleeping in between.
    fn wait_for(&self, patience: Option<Duration>, mut done: impl FnMut() -> bool) {
        let until = patience.map(|patience| self.clock.now() + patience);
        self.board.waiting.fetch_add(1, Ordering::SeqCst);
        while !done() {
            let left = until.map(|until| until.since(self.clock.now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            // A ring that another waiting thread has heard is made up for by looking again.
            self.news.wait(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)));
        }
        self.board.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// How the association stands.
    pub fn state(&self) -> LinkState {
        self.board.state()
    }

    /// Counters and path figures, each as of the media thread's last round.
    pub fn stats(&self) -> FrameStats {
        self.board.stats()
    }

    /// Ends the association: sends what waits, as far as deadlines and two seconds allow, and takes leave. Waiting
    /// calls in other threads end with [`FrameError::Closed`]. Answers the error that had ended it before, if one had.
    pub fn close(&self) -> Result<(), Error> {
        self.stop.ask();
        self.media.wake();
        self.news.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = thread.map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).map_err(|_| Error::failed("the media thread panicked"))?
    }
}

impl Drop for FrameLink {
    fn drop(&mut self) {
        // Who wants to know calls `close`.
        let _unheard = self.close();
    }
}

/// What the media thread starts with.
struct Running {
    plan: EndpointPlan,
    over_ip: Option<OverIp>,
    target: Target,
    socket: SocketOptions,
    clock: OsClock,
    stop: Stop,
    /// To be woken by, and to wake the application with.
    bells: (Waker, Waker),
}

impl Running {
    fn run(self, port: MediaSide, ready: &mpsc::Sender<(SocketAddr, usize)>) -> Result<(), Error> {
        let (board, news) = (Arc::clone(&port.board), self.bells.1.clone());
        let result = self.stream(port, ready);
        MediaSide::close(&board, &news);
        result
    }

    fn stream(self, port: MediaSide, ready: &mpsc::Sender<(SocketAddr, usize)>) -> Result<(), Error> {
        let Running { plan, over_ip, target, socket, clock, stop, bells: (media, _) } = self;
        let mut opened = open_line(plan.transport, over_ip, target, &socket)?;
        opened.line.set_waker(media);
        let max_datagram = opened.max_datagram;
        // Opened once here, so that a wrong option is an error now and not on the first datagram.
        let max_frame = plan.open(clock.now(), max_datagram)?.profile().max_frame;
        let peer = match target {
            Target::Call(_) => FramePeer::Called,
            Target::Listen(_) => FramePeer::Awaited { admits: plan.transport.admits, silence: SILENCE },
        };
        let make = Box::new(move |now| {
            let mut endpoint = plan.reopen(now, max_datagram);
            // All that the application has queued may come at once.
            endpoint.reserve(QUEUED_FRAMES);
            endpoint
        });
        let mut station = FrameStation::new(make, peer, port, clock.now());
        let _main_thread_is_gone = ready.send((opened.line.local_address(), max_frame));
        // What was not obtained costs punctuality, no more.
        let _scheduling = become_media_thread();
        drive(&mut *opened.line, &mut station, &clock, &stop, DriveOptions::default())?;
        Ok(())
    }
}

fn no_descriptor(error: io::Error) -> Error {
    Error::failed(format!("cannot make an event descriptor: {error}; raise the limit on open files"))
}

/// Frames that may wait each way: a second of 4 ms packets.
pub const QUEUED_FRAMES: usize = 256;
/// How soon a lost ring or a request to stop is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Silence after which a waiting side takes another caller: as long as a roaming station takes, and some.
const SILENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
