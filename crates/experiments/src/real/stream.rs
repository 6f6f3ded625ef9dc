//! The two threads of a stream.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use antiphon::run::{RunPlan, Runner, StackPlan, WirePlan};
use antiphon::session::StreamFraming;
use antiphon::{Error, ErrorKind};
use antiphon_core::Instant;
use antiphon_lab::live::{FarEnd, FarRecord, NearEnd, NearRecord, StreamPlacement};
use antiphon_lab::setup::{NodeId, Setup};
use antiphon_lab::tcp::Algorithm;
use antiphon_net::{OsClock, SocketOptions, Stop, Target};
use antiphon_proto::Transport;

use super::testbed::Testbed;
use super::wait_until;

/// State of a running stream, for the control.
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
    pub testbed: &'a Testbed,
    pub clock: OsClock,
    pub seed: u64,
    pub number: usize,
    pub transport: &'static Transport,
    pub seen: &'a Seen,
    pub stop_near: &'a Stop,
    pub stop_far: &'a Stop,
}

/// What a thread sends once it is ready: the far end sends the address to call.
pub(super) type Ready = mpsc::Sender<Result<SocketAddr, Error>>;

impl Link<'_> {
    fn socket(&self, node: NodeId, target: impl FnOnce(SocketAddr) -> Target) -> Result<Runner, Error> {
        let (place, spec) = (self.testbed.place(node), &self.setup.streams[self.number]);
        let stack = StackPlan {
            transport: self.transport,
            query: spec.query.clone(),
            seed: self.seed,
            playout_delay: spec.latency,
            framing: StreamFraming::Rtp,
            groups: 1,
            multicast: false,
        };
        let target = target(SocketAddr::new(place.address, 0));
        let socket = with_algorithm(spec.tcp.algorithm);
        let wire = WirePlan::new(stack, target, socket);
        let plan = RunPlan { namespace: place.namespace, ..RunPlan::new(wire, self.clock) };
        let mut tries = 0;
        loop {
            tries += 1;
            match plan.clone().open() {
                // A link that loses packets also loses those that open a connection.
                Err(error)
                    if error.kind == ErrorKind::Unreachable
                        && tries < MOST_CALLS
                        && !self.stop_near.is_asked() => {}
                Err(error) => return Err(error),
                Ok(runner) => return with_congestion(runner),
            }
        }
    }

    fn frame(&self, begin: Instant, runner: &Runner) -> StreamPlacement {
        StreamPlacement { stream: self.number, begin, max_datagram: runner.max_datagram(), seed: self.seed }
    }

    /// The receiving thread; returns its record and the rounds of its loop.
    pub fn far(&self, ready: &Ready, begin: &mpsc::Receiver<Instant>) -> Result<(FarRecord, u64), Error> {
        let done = Done(&self.seen.far_done);
        let spec = &self.setup.streams[self.number];
        let mut runner = self.socket(spec.to[0], Target::Listen)?;
        // The control no longer waits only if the run is given up, which `begin` then reports.
        let _given_up = ready.send(Ok(runner.local_address()));
        let Ok(begin) = begin.recv() else { return Ok((FarRecord::default(), 0)) };
        let mut end = FarEnd::new(self.setup, &self.frame(begin, &runner)).map_err(usage)?;
        let report = runner.drive(&mut end, self.stop_far, &mut |_, end, _| show_far(end, self.seen))?;
        drop(done);
        Ok((end.into_record(), report.rounds))
    }

    /// The sending thread; returns its record and the rounds of its loop.
    pub fn near(
        &self,
        call: SocketAddr,
        ready: &Ready,
        begin: &mpsc::Receiver<Instant>,
    ) -> Result<(Option<NearRecord>, u64), Error> {
        let done = Done(&self.seen.near_done);
        let spec = &self.setup.streams[self.number];
        let mut runner = self.socket(spec.from, |_| Target::Call(call))?;
        // As in `far`: the control no longer waits only if the run is given up, which `begin` then reports.
        let _given_up = ready.send(Ok(call));
        let Ok(begin) = begin.recv() else { return Ok((None, 0)) };
        let mut end = NearEnd::new(self.setup, &self.frame(begin, &runner)).map_err(usage)?;
        let show = if spec.reflected { show_near_reflected } else { show_near };
        if !wait_until(&self.clock, begin + spec.start, || self.stop_near.is_asked()) {
            return Ok((None, 0));
        }
        let report = runner.drive(&mut end, self.stop_near, &mut |_, end, _| show(end, self.seen))?;
        drop(done);
        Ok((Some(end.into_record()), report.rounds))
    }
}

/// With another congestion control than the scenario's this would be another experiment.
fn with_congestion(runner: Runner) -> Result<Runner, Error> {
    match runner.notes().iter().find(|note| note.starts_with("congestion control")) {
        Some(note) => Err(Error::failed(format!(
            "{note}: load it, or give the stream a 'tcp' with another algorithm; /proc/sys/net/ipv4 lists what there is in \
             tcp_available_congestion_control"
        ))),
        None => Ok(runner),
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

/// Signals that a thread has ended, in whatever way.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn show_near(end: &NearEnd, seen: &Seen) {
    seen.sent.store(end.sent(), Ordering::Relaxed);
}

fn show_near_reflected(end: &NearEnd, seen: &Seen) {
    show_near(end, seen);
    seen.arrived.store(end.returned().unwrap_or(0), Ordering::Relaxed);
}

fn show_far(end: &FarEnd, seen: &Seen) {
    // A reflector shows no arrivals of its own.
    if end.arrived() > 0 {
        seen.arrived.store(end.arrived(), Ordering::Relaxed);
    }
    seen.ended.store(end.is_ended(), Ordering::Relaxed);
}

/// Calls before a connection is given up: at 30 % loss both ways, one in 300 remains unanswered.
const MOST_CALLS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_congestion_control_is_no_substitute() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = |socket: SocketOptions| {
            let stack = StackPlan {
                transport: antiphon_proto::find("tcp").unwrap(),
                query: "".parse().unwrap(),
                seed: 1,
                playout_delay: std::time::Duration::from_millis(80),
                framing: StreamFraming::Rtp,
                groups: 1,
                multicast: false,
            };
            let target = Target::Call(listener.local_addr().unwrap());
            with_congestion(
                RunPlan::new(WirePlan::new(stack, target, socket), OsClock::new()).open().unwrap(),
            )
        };
        // Every Linux has Reno (tcp(7)).
        let facts = open(with_algorithm(Algorithm::Reno)).unwrap().finish().facts;
        assert!(facts.iter().any(|fact| fact.contains("reno")), "{facts:?}");
        let none = SocketOptions { congestion: Some("nosuch".into()), ..SocketOptions::default() };
        let refused = open(none).err().unwrap().message;
        assert!(
            refused.contains("'nosuch' is not available") && refused.contains("another algorithm"),
            "{refused}"
        );
    }
}
