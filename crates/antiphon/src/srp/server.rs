//! The sending side: the program's thread sends, a thread of its own answers requests and returns probes.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::Tag;
use antiphon_net::{Arrival, LentSocket, OsClock, RawFd};
use antiphon_proto::srp::wire::MAX_PACKET;
use antiphon_proto::srp::{AnyPacket, Message, Mode, Sender, SenderConfig, SendingHalf, Server};

use super::{LOOK_EVERY, PACKET_ROOM, max_datagram, number, system};
use crate::transport::unguessable;

/// A server of one SRP client. May be shared by threads: they take turns at sending.
pub struct SrpServer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    socket: LentSocket,
    clock: OsClock,
    stopped: AtomicBool,
    machine: Mutex<Sending>,
}

/// The protocol, and a buffer for a packet.
struct Sending {
    mode: Mode,
    machine: Box<dyn SendingHalf>,
    packet: Vec<u8>,
}

impl SrpServer {
    /// Begins to serve `to` on the program's UDP socket `sock`, and starts the thread that receives.
    ///
    /// `keep`: for how long the improved mode can repair sent messages; as published, the last 256 messages are kept.
    /// Errors carry the number known in C; see [`LentSocket::lend`], and `EAGAIN` where no thread can be started.
    pub fn start(sock: RawFd, to: SocketAddr, mode: Mode, keep: Duration) -> io::Result<Self> {
        let socket = LentSocket::lend(sock, to)?;
        let machine: Box<dyn SendingHalf> = match mode {
            Mode::AsPublished => Box::new(Server::new(KEPT_MESSAGES)),
            Mode::Improved => {
                // What cannot be repaired any more cannot be played any more. No code here depends on it: the program
                // alone decides what it sends.
                let latency = keep;
                let config =
                    SenderConfig { max_datagram: max_datagram(to), keep, latency, seed: unguessable() };
                Box::new(Sender::new(config))
            }
        };
        let machine = Mutex::new(Sending { mode, machine, packet: vec![0; MAX_PACKET] });
        let shared =
            Arc::new(Shared { socket, clock: OsClock::new(), stopped: AtomicBool::new(false), machine });
        let receiving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("srp server".into()).spawn(move || receiving.run())?;
        Ok(SrpServer { shared, thread: Mutex::new(Some(thread)) })
    }

    /// The longest message, in bytes.
    pub fn max_message(&self) -> usize {
        self.shared.lock().map_or(0, |sending| sending.machine.max_message())
    }

    /// Sends a message and keeps it for repairs.
    ///
    /// Errors: `EINVAL` for an empty message (the client could not tell it from a loss), `EMSGSIZE` for one longer than
    /// [`Self::max_message`], `EBADF` when the program has closed its socket, `ECANCELED` when stopped, and the
    /// socket's own errors. After a socket error the message has its number and is kept: the client may still ask for
    /// it.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        if message.is_empty() {
            return Err(system(number::EINVAL));
        }
        let shared = &*self.shared;
        let mut sending = shared.lock()?;
        if shared.stopped.load(Ordering::Acquire) {
            return Err(system(number::ECANCELED));
        }
        if !shared.socket.is_lent() {
            return Err(system(number::EBADF));
        }
        let Sending { machine, packet, .. } = &mut *sending;
        if message.len() > machine.max_message() {
            return Err(system(number::EMSGSIZE));
        }
        let message = Message { bytes: message, priority: 0, deadline: None, stream: 0, tag: Tag::NONE };
        let (now, mut result) = (shared.clock.now(), Ok(()));
        for part in 0..machine.parts(message.bytes.len()) {
            let Some(len) = machine.send_part(now, &message, part, packet) else {
                return Err(system(number::EMSGSIZE));
            };
            // Each part is kept, even if sending an earlier one failed.
            result = result.and(shared.socket.send(&packet[..len]));
        }
        result
    }

    /// Stops the server at once: after this returns the socket is not used here any more. A program that wants the last
    /// messages to be repaired waits a little first.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.socket.waker().wake();
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            // A panic of the thread was printed to standard error.
            let _ended_one_way_or_the_other = thread.join();
        }
        // A thread that is sending holds this lock until it has finished.
        drop(self.shared.lock());
    }
}

impl Drop for SrpServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> io::Result<MutexGuard<'_, Sending>> {
        // A thread panicked while holding the lock: the state cannot be trusted.
        self.machine.lock().map_err(|_| system(number::EIO))
    }

    /// The receive thread.
    fn run(&self) {
        let mut packet = vec![0; PACKET_ROOM];
        while !self.stopped.load(Ordering::Acquire) {
            match self.socket.wait(LOOK_EVERY) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The socket is closed: `send` reports that.
                Err(_) => return,
            }
            // Errors of earlier datagrams (no peer listens yet) are ignored.
            while let Ok(Arrival::Datagram { len, received_at: _ }) =
                self.socket.receive(&self.clock, &mut packet)
            {
                let Ok(mut sending) = self.lock() else { return };
                self.answer(&mut sending, &packet[..len]);
                if self.stopped.load(Ordering::Acquire) {
                    return;
                }
            }
        }
    }

    fn answer(&self, sending: &mut Sending, bytes: &[u8]) {
        let now = self.clock.now();
        let Sending { mode, machine, packet } = sending;
        // A datagram that is no packet of the protocol is dropped: it may belong to the program's own handshake.
        if let Ok(received) = AnyPacket::parse(*mode, bytes) {
            machine.handle_packet(now, &received);
        }
        while let Some(len) = machine.poll_transmit(now, packet) {
            // A repair for which the socket has no room counts as lost, and is requested again.
            let _lost = self.socket.send(&packet[..len]);
        }
    }
}

/// Messages kept as published. *Reading*: the report gives no number; as many as our client can hold back.
const KEPT_MESSAGES: usize = 256;
