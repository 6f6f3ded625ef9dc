//! The figures of a running command for monitoring programs: an HTTP server for `GET /metrics` in the text format of
//! OpenMetrics.
//!
//! It runs on a thread of its own and answers one request at a time, each within [`PATIENCE`] and from at most 8192 bytes, so that
//! a slow or hostile client costs nothing but other clients' time. Media threads know nothing of it: it tells the state that
//! the thread which displays figures has handed over.

mod figures;
mod request;
mod text;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::{OsClock, Stop};

use crate::Error;
use crate::run::spawn;
use request::{Answer, MOST_REQUEST, Request};
use text::CONTENT_TYPE;

pub use figures::MetricsState;

/// A server of metrics. Dropping it ends it.
pub struct MetricsServer {
    shared: Arc<Mutex<Option<Told>>>,
    clock: OsClock,
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

/// The last state, and when it was told.
struct Told {
    at: Instant,
    state: MetricsState,
}

impl MetricsServer {
    /// Begins to serve at `address`; port 0 takes a free one.
    pub fn start(address: SocketAddr) -> Result<Self, Error> {
        let refused = |error: io::Error| {
            Error::failed(format!(
                "cannot serve metrics at {address}: {error}; choose another address or port with --metrics"
            ))
        };
        let listener = TcpListener::bind(address).map_err(refused)?;
        // It is asked for clients, so that it can be stopped.
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (shared, clock, stop) = (Arc::new(Mutex::new(None)), OsClock::new(), Stop::new());
        let server = Server { listener, shared: Arc::clone(&shared), clock, stop: stop.clone() };
        let thread = spawn("metrics", move || server.run())?;
        Ok(MetricsServer { shared, clock, address, stop, thread: Some(thread) })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells a new state.
    pub fn tell(&self, state: MetricsState) {
        let told = Told { at: self.clock.now(), state };
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _a_panic_was_printed_by_its_thread = thread.join();
        }
    }
}

/// The thread's side.
struct Server {
    listener: TcpListener,
    shared: Arc<Mutex<Option<Told>>>,
    clock: OsClock,
    stop: Stop,
}

impl Server {
    fn run(self) {
        while !self.stop.is_asked() {
            match self.listener.accept() {
                // What goes wrong with a client concerns it alone.
                Ok((client, _)) => drop(self.serve(client)),
                // Nobody is there, or the system is short of something: both are asked again.
                Err(_) => std::thread::park_timeout(LOOK_EVERY),
            }
        }
    }

    fn serve(&self, client: TcpStream) -> io::Result<()> {
        client.set_nonblocking(false)?;
        let mut client = Patient { client, clock: self.clock, until: self.clock.now() + PATIENCE };
        let answer = client.request()?;
        let (status, kind, text, body) = match answer {
            Answer::Metrics { body } => match self.text() {
                Some(text) => ("200 OK", CONTENT_TYPE, text, body),
                None => ("503 Service Unavailable", PLAIN, "the stream has not begun\n".into(), body),
            },
            Answer::Refusal(status, why) => (status, PLAIN, format!("{why}\n"), true),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        client.write(head.as_bytes())?;
        if body {
            client.write(text.as_bytes())?;
        }
        client.end()
    }

    /// The text of the last state, if there is one.
    fn text(&self) -> Option<String> {
        let told = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Told { at, state } = told.as_ref()?;
        let (age, state) = (self.clock.now().since(*at), state.clone());
        // The lock is not held while the text is made.
        drop(told);
        Some(figures::exposition(&state, age.as_secs_f64()))
    }
}

/// A client that is served until a time.
struct Patient {
    client: TcpStream,
    clock: OsClock,
    until: Instant,
}

impl Patient {
    /// The time that is left.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.since(self.clock.now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn request(&mut self) -> io::Result<Answer> {
        let mut bytes = Vec::with_capacity(MOST_REQUEST);
        loop {
            if let Request::Whole(answer) = request::read(&bytes) {
                return Ok(answer);
            }
            match self.read(&mut bytes)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                _ => continue,
            }
        }
    }

    /// Reads what is there. A request that is too long is refused before more of it is read.
    fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        self.client.set_read_timeout(Some(self.left()?))?;
        let mut piece = [0; 1024];
        let read = self.client.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..read]);
        Ok(read)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.client.set_write_timeout(Some(self.left()?))?;
            match self.client.write(bytes)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }

    /// Ends the answer, and waits a little until the client has it: closing a socket with unread bytes would take it back
    /// (RFC 9112 §9.6).
    fn end(&mut self) -> io::Result<()> {
        self.client.shutdown(std::net::Shutdown::Write)?;
        self.until = self.until.min(self.clock.now() + LINGER);
        let mut rest = [0; 1024];
        for _ in 0..MOST_REST {
            self.client.set_read_timeout(Some(self.left()?))?;
            if self.client.read(&mut rest)? == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// How long a client is served.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the end of a client's bytes is waited for.
const LINGER: Duration = Duration::from_millis(200);
/// How many pieces of what follows a request are read and dropped.
const MOST_REST: usize = 64;
/// How often it is asked for clients.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PLAIN: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests;
