//! The application's own messages over any transport, by URI: what programs use that bring their own codec.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use antiphon::messages::{MessageLink, MessageOptions};
//!
//! let link = MessageLink::open("srp://192.0.2.7:7800?latency=80ms", &MessageOptions::default())?;
//! link.wait_connected(Some(Duration::from_secs(2)))?;
//! link.send(b"a message", Some(Duration::from_millis(80)))?;
//! let mut buffer = [0; 1500];
//! let message = link.receive(&mut buffer, None)?;
//! println!("{} bytes came", message.len);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod port;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::{OsClock, SocketOptions, Stop, Waker};
use antiphon_session::{LinkState, Session, StreamFraming};

use crate::run::{RunPlan, session_config, spawn};
use crate::transport::StreamUri;
use crate::{DEFAULT_LATENCY, Error};
use port::{AppSide, MediaSide, SharedState, queues};

pub use port::MessageStats;

/// How a [`MessageLink`] is opened.
#[derive(Clone, Debug)]
pub struct MessageOptions {
    /// How old a message may be when it is used: protocols derive their retransmission limits from it. `latency` in the
    /// URI wins.
    pub latency: Duration,
    /// Socket options; those in the URI win.
    pub socket: SocketOptions,
    /// Seed of the endpoint, combined with a secret number of this process.
    pub seed: u64,
}

impl Default for MessageOptions {
    fn default() -> Self {
        MessageOptions { latency: DEFAULT_LATENCY, socket: SocketOptions::default(), seed: 1 }
    }
}

/// An association that carries the application's messages both ways, with a media thread of its own.
///
/// May be shared by threads. Messages wait in bounded queues of [`QUEUED_MESSAGES`] each way.
pub struct MessageLink {
    send: Mutex<port::Outbox>,
    receive: Mutex<port::Arrivals>,
    shared: Arc<SharedState>,
    /// Wakes the media thread.
    media: Waker,
    /// Signalled when messages arrive or the state changes.
    news: Waker,
    stop: Stop,
    thread: Mutex<Option<JoinHandle<Result<(), Error>>>>,
    clock: OsClock,
    local: SocketAddr,
    max_message: usize,
}

/// A message that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrivedMessage {
    /// Bytes copied into the buffer.
    pub len: usize,
    /// Bytes of the whole message; more than `len` when the buffer was too short, and the rest is lost.
    pub full_len: usize,
    /// When its last byte was received, on the clock of [`MessageLink::now`].
    pub received_at: Instant,
    /// Whether it had to be sent more than once, as far as this side knows.
    pub repaired: bool,
}

/// Why a message could not be sent or received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// The queue is full: the transport takes messages more slowly than they are offered, or no peer is connected yet.
    #[error("{QUEUED_MESSAGES} messages are already queued: wait for the peer, or send less")]
    Full,
    /// The message is empty.
    #[error("a message must have at least one byte")]
    Empty,
    /// The message is larger than the transport carries.
    #[error("a message of {len} bytes is larger than this transport carries ({max})")]
    TooLarge {
        /// Its size in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// No message came in time.
    #[error("timeout: nothing was received")]
    TimedOut,
    /// The association has ended and all received messages were fetched.
    #[error("the association has ended: open a new one")]
    Closed,
}

impl MessageLink {
    /// Opens an association: `scheme://HOST:PORT` calls, `scheme://:PORT` or `scheme://@ADDRESS:PORT` waits for a
    /// caller. Returns when the socket is open; [`Self::wait_connected`] waits until messages flow.
    pub fn open(uri: &str, options: &MessageOptions) -> Result<Self, Error> {
        let uri = StreamUri::read(uri, &options.socket)?.without_role()?;
        if uri.keys.framing.is_some() {
            return Err(Error::usage("'framing' applies to sound only: omit it for messages"));
        }
        if uri.keys.protect.is_some() {
            return Err(Error::usage(
                "messages carry no number by which a copy would be told from a new one: leave 'protect' out, or number \
                 them and send them twice",
            ));
        }
        let latency = uri.keys.fixed_latency()?.unwrap_or(options.latency);
        let stack = uri.stack(options.seed, latency, StreamFraming::Rtp);
        let bell = || Waker::new().map_err(no_descriptor);
        let (clock, stop, media, news) = (OsClock::new(), Stop::new(), bell()?, bell()?);
        let (AppSide { outbox, arrivals }, media_side) = queues(&news);
        let shared = Arc::clone(&media_side.shared);
        let (ready, opened) = mpsc::channel();
        let plan = RunPlan { waker: Some(media.clone()), ..RunPlan::new(uri.wire(stack), clock) };
        let (thread_stop, bell) = (stop.clone(), news.clone());
        let thread = spawn("messages", move || {
            let shared = Arc::clone(&media_side.shared);
            let result = carry(plan, media_side, &thread_stop, &ready);
            MediaSide::close(&shared, &bell);
            result
        })?;
        let Ok((local, max_message)) = opened.recv() else {
            let ended = thread.join().map_err(|_| Error::failed("the media thread panicked"))?;
            return Err(ended.err().unwrap_or_else(|| Error::failed("the media thread ended unexpectedly")));
        };
        Ok(MessageLink {
            send: Mutex::new(outbox),
            receive: Mutex::new(arrivals),
            shared,
            media,
            news,
            stop,
            thread: Mutex::new(Some(thread)),
            clock,
            local,
            max_message,
        })
    }

    /// The address at which others reach this link.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The largest message that can be sent, in bytes.
    pub fn max_message(&self) -> usize {
        self.max_message
    }

    /// Time since the link was opened.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// An instant of this link as time of `CLOCK_MONOTONIC`, for programs that use that clock.
    pub fn monotonic(&self, at: Instant) -> Duration {
        self.clock.monotonic(at)
    }

    /// Hands a message to the media thread. `lifetime`: how long it is of use from now on; `None`: for ever. Its
    /// transmission does not begin after that.
    pub fn send(&self, message: &[u8], lifetime: Option<Duration>) -> Result<(), MessageError> {
        if message.is_empty() {
            return Err(MessageError::Empty);
        }
        if message.len() > self.max_message {
            return Err(MessageError::TooLarge { len: message.len(), max: self.max_message });
        }
        if self.state() == LinkState::Closed || self.stop.is_asked() {
            return Err(MessageError::Closed);
        }
        let deadline = lifetime.map(|lifetime| self.clock.now() + lifetime);
        let mut outbox = self.send.lock().unwrap_or_else(PoisonError::into_inner);
        if !outbox.push(message, deadline) {
            return Err(MessageError::Full);
        }
        self.media.wake();
        Ok(())
    }

    /// Waits for the next message and copies it into `buf`. `patience`: how long to wait; `None`: without limit; zero:
    /// not at all.
    pub fn receive(
        &self,
        buf: &mut [u8],
        patience: Option<Duration>,
    ) -> Result<ArrivedMessage, MessageError> {
        let mut arrived = None;
        self.wait_for(patience, || {
            // Read before the queue, so that messages received before the end are still returned.
            let ended = self.state() == LinkState::Closed || self.stop.is_asked();
            let mut arrivals = self.receive.lock().unwrap_or_else(PoisonError::into_inner);
            arrived = arrivals.pop(buf);
            if arrived.is_some() && arrivals.frees_a_full_queue() {
                self.media.wake();
            }
            arrived.is_some() || ended
        });
        arrived.ok_or(if self.state() == LinkState::Closed || self.stop.is_asked() {
            MessageError::Closed
        } else {
            MessageError::TimedOut
        })
    }

    /// Waits until messages flow: for the connection, and where the transport has none until the peer has answered the
    /// question of [`Presence`](antiphon_media::rtcp::Presence), or anything else came from it.
    pub fn wait_connected(&self, patience: Option<Duration>) -> Result<(), MessageError> {
        let done = |state| matches!(state, LinkState::Connected | LinkState::Closed);
        self.wait_for(patience, || done(self.state()) || self.stop.is_asked());
        match self.state() {
            LinkState::Connected => Ok(()),
            LinkState::Closed => Err(MessageError::Closed),
            LinkState::Waiting | LinkState::Broken if self.stop.is_asked() => Err(MessageError::Closed),
            LinkState::Waiting | LinkState::Broken => Err(MessageError::TimedOut),
        }
    }

    /// Calls `done` until it returns true or patience is over, and sleeps in between.
    fn wait_for(&self, patience: Option<Duration>, mut done: impl FnMut() -> bool) {
        let until = patience.map(|patience| self.clock.now() + patience);
        self.shared.waiting.fetch_add(1, Ordering::SeqCst);
        while !done() {
            let left = until.map(|until| until.since(self.clock.now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            // Another waiting thread may have taken the signal, so the state is also polled.
            self.news.wait(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)));
        }
        self.shared.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// The association's state.
    pub fn state(&self) -> LinkState {
        self.shared.state()
    }

    /// Whether the association was ever lost, though it may be there again.
    pub(crate) fn has_broken(&self) -> bool {
        self.shared.breaks() > 0
    }

    /// Counters and path figures, each as of the media thread's last round.
    pub fn stats(&self) -> MessageStats {
        self.shared.stats()
    }

    /// Ends the association: sends what waits, as far as deadlines and two seconds allow, and closes. Waiting calls in
    /// other threads return [`MessageError::Closed`]. Returns the error that had ended it before, if any.
    pub fn close(&self) -> Result<(), Error> {
        self.stop.ask();
        self.media.wake();
        self.news.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = thread.map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).map_err(|_| Error::failed("the media thread panicked"))?
    }
}

impl Drop for MessageLink {
    fn drop(&mut self) {
        // Callers that need the error call `close`.
        let _unheard = self.close();
    }
}

/// The media thread.
fn carry(
    plan: RunPlan,
    port: MediaSide,
    stop: &Stop,
    ready: &mpsc::Sender<(SocketAddr, usize)>,
) -> Result<(), Error> {
    let (clock, seed) = (plan.clock, plan.wire.stack.seed ^ crate::transport::unguessable());
    let mut runner = plan.open()?;
    let mut session = Session::new(session_config(seed, clock), clock.now());
    session.set_port(Box::new(port));
    runner.join(&mut session, SILENCE);
    let _main_thread_is_gone = ready.send((runner.local_address(), runner.profile().max_message));
    runner.drive(&mut session, stop, &mut |_, _, _| {}).map(drop)
}

fn no_descriptor(error: io::Error) -> Error {
    Error::failed(format!("cannot make an event descriptor: {error}; raise the limit on open files"))
}

/// The most messages that wait each way: a second of 4 ms packets.
pub const QUEUED_MESSAGES: usize = 256;
/// How soon a missed signal or a request to stop is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Silence after which a waiting side accepts another caller: longer than a roaming station takes.
const SILENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
