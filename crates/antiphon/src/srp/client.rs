//! The receiving side: runs on the thread that asks for messages, as in the report.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use antiphon_net::{Arrival, LentSocket, OsClock, RawFd, Waker};
use antiphon_proto::srp::{
    AnyPacket, Client, ClientConfig, Delivery, Mode, Receiver, ReceiverConfig, ReceivingHalf, Settings,
};

use super::{LOOK_EVERY, PACKET_ROOM, number, system};

/// A client of one SRP server.
///
/// Requests and probes are sent while [`Self::receive`] waits, so a program must call it repeatedly without long
/// pauses; datagrams that came in between are judged by the kernel's receive times. May be shared by threads: they take
/// turns.
pub struct SrpClient {
    inner: Mutex<Inner>,
    waker: Waker,
    stopped: AtomicBool,
}

/// Result of [`SrpClient::receive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// A message: so many of its bytes are in the buffer. What did not fit is dropped.
    Message {
        /// Bytes copied.
        len: usize,
    },
    /// The next message was lost and given up. As published, each lost message is reported once and in its place; the
    /// improved mode reports each lost packet.
    Lost,
}

struct Inner {
    /// `None` once stopped.
    socket: Option<LentSocket>,
    mode: Mode,
    machine: Box<dyn ReceivingHalf>,
    clock: OsClock,
    ready: Ready,
    packet: Vec<u8>,
}

/// Results not returned yet, in order. A datagram is read only when none is left of the one before, so the most there
/// can be is what one datagram releases from the protocol's own buffers.
#[derive(Default)]
struct Ready {
    items: VecDeque<Option<Vec<u8>>>,
    spare: Vec<Vec<u8>>,
}

impl SrpClient {
    /// Begins to receive from `to` on the program's UDP socket `sock`.
    ///
    /// `settings` must hold a desired loss above 0 and below 1, and a desired latency above 0. Errors carry the number
    /// known in C; see [`LentSocket::lend`], and `EINVAL` for settings.
    pub fn start(sock: RawFd, to: SocketAddr, settings: &Settings) -> io::Result<Self> {
        let (loss, latency) = (settings.desired_loss, settings.desired_latency);
        // Written so that NaN is refused, too.
        let sensible = loss > 0.0 && loss < 1.0 && !latency.is_zero();
        if !sensible {
            return Err(system(number::EINVAL));
        }
        let socket = LentSocket::lend(sock, to)?;
        let (clock, decide) = (OsClock::new(), settings.decide.algorithm());
        let mode = settings.mode;
        let machine: Box<dyn ReceivingHalf> = match mode {
            Mode::AsPublished => Box::new(Client::new(ClientConfig::new(loss, latency), decide, clock.now())),
            Mode::Improved => Box::new(Receiver::new(ReceiverConfig::new(loss, latency), decide)),
        };
        let waker = socket.waker();
        let (ready, packet) = (Ready::default(), vec![0; PACKET_ROOM]);
        let inner = Inner { socket: Some(socket), mode, machine, clock, ready, packet };
        Ok(SrpClient { inner: Mutex::new(inner), waker, stopped: AtomicBool::new(false) })
    }

    /// Waits for the next message, or for the decision that it is lost.
    ///
    /// Errors: `ECANCELED` when stopped, `EBADF` when the program has closed or shut down its socket (noticed within 50
    /// ms), `EINTR` when a signal came, and the socket's own errors, such as `ECONNREFUSED` where it is connected.
    /// After those the client can continue.
    pub fn receive(&self, buf: &mut [u8]) -> io::Result<Incoming> {
        let mut inner = self.lock()?;
        loop {
            if self.stopped.load(Ordering::Acquire) {
                return Err(system(number::ECANCELED));
            }
            if let Some(incoming) = inner.ready.pop(buf) {
                return Ok(incoming);
            }
            inner.step()?;
        }
    }

    /// Stops the client: a waiting [`Self::receive`] in another thread returns an error, and after this returns the
    /// socket is not used here any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.waker.wake();
        if let Ok(mut inner) = self.lock() {
            inner.socket = None;
        }
    }

    fn lock(&self) -> io::Result<MutexGuard<'_, Inner>> {
        // A thread panicked while holding the lock: the state cannot be trusted.
        self.inner.lock().map_err(|_| system(number::EIO))
    }
}

impl Inner {
    /// One round: what is due, what is to be sent, a wait, one datagram.
    fn step(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            let ready = &mut self.ready;
            self.machine.handle_timeout(now, &mut |delivery| ready.push(&delivery));
        }
        self.transmit()?;
        if !self.ready.items.is_empty() {
            return Ok(());
        }
        let Some(socket) = &self.socket else { return Err(system(number::ECANCELED)) };
        let due = self.machine.poll_timeout().map(|at| at.since(self.clock.now()));
        socket.wait(due.map_or(LOOK_EVERY, |due| due.min(LOOK_EVERY)))?;
        let arrival = socket.receive(&self.clock, &mut self.packet)?;
        if let Arrival::Datagram { len, received_at } = arrival {
            let ready = &mut self.ready;
            let now = self.clock.now();
            // A datagram that is no packet of the protocol is dropped: it may belong to the program's own handshake.
            if let Ok(packet) = AnyPacket::parse(self.mode, &self.packet[..len]) {
                let deliver = &mut |delivery: Delivery<'_>| ready.push(&delivery);
                self.machine.handle_packet(now, received_at, &packet, deliver);
            }
        }
        self.transmit()
    }

    fn transmit(&mut self) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Err(system(number::ECANCELED)) };
        // Requests are a few dozen bytes, and the received datagram in the buffer is no longer needed.
        while let Some(len) = self.machine.poll_transmit(self.clock.now(), &mut self.packet) {
            // A request for which the socket has no room counts as lost, and is repeated.
            match socket.send(&self.packet[..len]) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Ready {
    fn push(&mut self, delivery: &Delivery<'_>) {
        self.items.push_back(match *delivery {
            Delivery::Message { bytes, .. } => {
                // More messages can be returned at once than ever before: makes one more buffer, on the program's own
                // thread.
                let mut message = self.spare.pop().unwrap_or_default();
                message.clear();
                message.extend_from_slice(bytes);
                Some(message)
            }
            Delivery::Lost { .. } => None,
        });
    }

    fn pop(&mut self, buf: &mut [u8]) -> Option<Incoming> {
        let Some(message) = self.items.pop_front()? else { return Some(Incoming::Lost) };
        let len = message.len().min(buf.len());
        buf[..len].copy_from_slice(&message[..len]);
        self.spare.push(message);
        Some(Incoming::Message { len })
    }
}
