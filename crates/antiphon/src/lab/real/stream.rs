//! The two threads of a stream.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use antiphon_core::{Input, Instant, PathId, Transmit};
use antiphon_lab::live::{FarEnd, FarRecord, Frame, NearEnd, NearRecord};
use antiphon_lab::setup::{NodeId, Setup};
use antiphon_lab::tcp::Algorithm;
use antiphon_net::{DriveOptions, OsClock, SocketOptions, Stop, Target, become_media_thread, drive};
use antiphon_proto::Transport;
use antiphon_session::Station;

use super::ground::Ground;
use super::wait_until;
use crate::Error;
use crate::transport::{OpenedLine, open_line};

/// What the control sees of a stream under way.
#[derive(Default)]
pub(super) struct Seen {
    pub sent: AtomicU64,
    /// At the far end, or where the stream is reflected back at the near end.
    pub arrived: AtomicU64,
    /// The connection beneath the far end has ended.
    pub ended: AtomicBool,
    pub near_done: AtomicBool,
    pub far_done: AtomicBool,
}

/// What the threads of a stream share with the control.
pub(super) struct Link<'a> {
    pub setup: &'a Setup,
    pub ground: &'a Ground,
    pub clock: OsClock,
    pub seed: u64,
    pub number: usize,
    pub transport: &'static Transport,
    pub seen: &'a Seen,
    pub stop_near: &'a Stop,
    pub stop_far: &'a Stop,
}

/// What a thread tells once it is ready: the far end where it is to be called.
pub(super) type Ready = mpsc::Sender<Result<SocketAddr, Error>>;

impl Link<'_> {
    fn socket(&self, node: NodeId, target: impl FnOnce(SocketAddr) -> Target) -> Result<OpenedLine, Error> {
        let place = self.ground.place(node);
        if let Some(namespace) = &place.namespace {
            namespace.enter().map_err(|error| Error::failed(error.to_string()))?;
        }
        let options = with_algorithm(self.setup.streams[self.number].tcp.algorithm);
        let target = target(SocketAddr::new(place.address, 0));
        let mut tries = 0;
        loop {
            tries += 1;
            match open_line(self.transport, None, target, &options) {
                // A link that loses packets loses those that open a connection, too.
                Err(error) if error.is_unreachable() && tries < MOST_CALLS && !self.stop_near.is_asked() => {}
                Err(error) => return Err(error.into()),
                Ok(opened) => return with_congestion(opened),
            }
        }
    }

    fn frame(&self, begin: Instant, line: &OpenedLine) -> Frame {
        Frame { stream: self.number, begin, max_datagram: line.max_datagram, seed: self.seed }
    }

    /// The receiving thread; what it noted, and rounds of its loop.
    pub fn far(&self, ready: &Ready, begin: &mpsc::Receiver<Instant>) -> Result<(FarRecord, u64), Error> {
        let done = Done(&self.seen.far_done);
        let spec = &self.setup.streams[self.number];
        let mut opened = self.socket(spec.to[0], Target::Listen)?;
        // Who waits has gone only if the run is given up, which `begin` tells.
        let _ = ready.send(Ok(opened.line.local_address()));
        let Ok(begin) = begin.recv() else { return Ok((FarRecord::default(), 0)) };
        let end = FarEnd::new(self.setup, &self.frame(begin, &opened)).map_err(usage)?;
        let mut watched = Watched { end, seen: self.seen, sent: false, stopped: false, show: show_far };
        become_media_thread();
        let report =
            drive(&mut *opened.line, &mut watched, &self.clock, self.stop_far, DriveOptions::default())?;
        drop(done);
        Ok((watched.end.into_record(), report.rounds))
    }

    /// The sending thread; what it noted, and rounds of its loop.
    pub fn near(
        &self,
        call: SocketAddr,
        ready: &Ready,
        begin: &mpsc::Receiver<Instant>,
    ) -> Result<(Option<NearRecord>, u64), Error> {
        let done = Done(&self.seen.near_done);
        let spec = &self.setup.streams[self.number];
        let mut opened = self.socket(spec.from, |_| Target::Call(call))?;
        // As in `far`: who waits has gone only if the run is given up, which `begin` tells.
        let _ = ready.send(Ok(call));
        let Ok(begin) = begin.recv() else { return Ok((None, 0)) };
        let end = NearEnd::new(self.setup, &self.frame(begin, &opened)).map_err(usage)?;
        let show = if spec.reflected { show_near_reflected } else { show_near };
        let mut watched = Watched { end, seen: self.seen, sent: false, stopped: false, show };
        if !wait_until(&self.clock, begin + spec.start, || self.stop_near.is_asked()) {
            return Ok((None, 0));
        }
        become_media_thread();
        let report =
            drive(&mut *opened.line, &mut watched, &self.clock, self.stop_near, DriveOptions::default())?;
        drop(done);
        Ok((Some(watched.end.into_record()), report.rounds))
    }
}

/// Another congestion control than the scenario's would be another experiment.
fn with_congestion(opened: OpenedLine) -> Result<OpenedLine, Error> {
    match opened.line.notes().iter().find(|note| note.starts_with("congestion control")) {
        Some(note) => Err(Error::failed(format!(
            "{note}: load it, or give the stream a 'tcp' with another algorithm; /proc/sys/net/ipv4 lists what there is in \
             tcp_available_congestion_control"
        ))),
        None => Ok(opened),
    }
}

/// The usual options, with a congestion control by the kernel's name for it.
pub(super) fn with_algorithm(algorithm: Algorithm) -> SocketOptions {
    let name = match algorithm {
        Algorithm::Reno => "reno",
        Algorithm::Cubic => "cubic",
    };
    SocketOptions { congestion: Some(name.into()), ..SocketOptions::default() }
}

fn usage(error: antiphon_lab::world::WorldError) -> Error {
    Error::usage(error.to_string())
}

/// Says that a thread has ended, however it does.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A station that shows another thread how far it is, and is over as soon as it is stopped: its peer needs no farewell.
///
/// It is driven as the world drives it: what was sent has its outcome at once, and what waited for that goes out in the same
/// round, not when something else wakes the thread.
struct Watched<'a, S> {
    end: S,
    seen: &'a Seen,
    /// Something was sent since it advanced.
    sent: bool,
    stopped: bool,
    show: fn(&S, &Seen),
}

fn show_near(end: &NearEnd, seen: &Seen) {
    seen.sent.store(end.sent(), Ordering::Relaxed);
}

fn show_near_reflected(end: &NearEnd, seen: &Seen) {
    show_near(end, seen);
    seen.arrived.store(end.returned().unwrap_or(0), Ordering::Relaxed);
}

fn show_far(end: &FarEnd, seen: &Seen) {
    // A reflector has no arrivals of its own to show.
    if end.arrived() > 0 {
        seen.arrived.store(end.arrived(), Ordering::Relaxed);
    }
    seen.ended.store(end.is_ended(), Ordering::Relaxed);
}

impl<S: Station> Station for Watched<'_, S> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.end.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        self.end.advance(now);
        self.sent = false;
        (self.show)(&self.end, self.seen);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let mut transmit = self.end.poll_transmit(now, buf);
        if transmit.is_none() && self.sent {
            self.advance(now);
            transmit = self.end.poll_transmit(now, buf);
        }
        self.sent |= transmit.is_some();
        transmit
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.end.poll_timeout()
    }

    fn stop(&mut self, now: Instant) {
        self.stopped = true;
        self.end.stop(now);
    }

    fn is_finished(&self) -> bool {
        self.stopped || self.end.is_finished()
    }

    fn knows(&self, path: PathId) -> bool {
        self.end.knows(path)
    }
}

/// Calls until a connection is given up: at 30 % loss both ways, one in 300 remains unanswered.
const MOST_CALLS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands over a frame each time it advances, as one does that waits for the outcome of the last.
    struct OneByOne {
        left: u32,
        ready: bool,
    }

    impl Station for OneByOne {
        fn handle_input(&mut self, _now: Instant, _input: Input<'_>) {}

        fn advance(&mut self, _now: Instant) {
            if self.left > 0 && !self.ready {
                (self.left, self.ready) = (self.left - 1, true);
            }
        }

        fn poll_transmit(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<Transmit> {
            let (path, ecn) = (PathId::default(), antiphon_core::Ecn::NotCapable);
            std::mem::take(&mut self.ready).then_some(Transmit { path, len: 1, ecn })
        }

        fn poll_timeout(&self) -> Option<Instant> {
            None
        }

        fn stop(&mut self, _now: Instant) {}

        fn is_finished(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_waits_for_an_outcome_goes_out_in_the_same_round() {
        let (seen, end) = (Seen::default(), OneByOne { left: 5, ready: false });
        let mut watched = Watched { end, seen: &seen, sent: false, stopped: false, show: |_, _| {} };
        let now = Instant::ZERO;
        assert!(watched.poll_transmit(now, &mut []).is_none(), "nothing advances by itself");
        watched.advance(now);
        let sent = std::iter::from_fn(|| watched.poll_transmit(now, &mut [])).count();
        assert_eq!(sent, 5);
        watched.stop(now);
        assert!(watched.is_finished());
    }

    #[test]
    fn another_congestion_control_is_no_substitute() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = |options: SocketOptions| {
            let line = antiphon_net::TcpLine::call(listener.local_addr().unwrap(), &options).unwrap();
            with_congestion(OpenedLine { line: Box::new(line), max_datagram: 1448 })
        };
        // Every Linux has Reno (tcp(7)).
        let opened = open(with_algorithm(Algorithm::Reno)).unwrap();
        assert!(opened.line.facts().iter().any(|fact| fact.contains("reno")), "{:?}", opened.line.facts());
        let none = SocketOptions { congestion: Some("nosuch".into()), ..SocketOptions::default() };
        let refused = open(none).err().unwrap().message;
        assert!(
            refused.contains("'nosuch' not obtained") && refused.contains("another algorithm"),
            "{refused}"
        );
    }
}
