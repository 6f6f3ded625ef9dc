//! The reflecting side of one transport, on one media thread: a socket for datagrams, or all connections of a listening one.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_net::netns::Namespace;
use antiphon_net::{OsClock, SocketOptions, Stop, Taps, Target};
use antiphon_session::{ArrivalTable, Policy, Reflector, ReflectorConfig};

use crate::run::{RunPlan, WIRE, WirePlan, spawn};
use crate::show::{Looked, Looks, looks, newest};
use crate::transport::TransportChoice;
use crate::{Error, ReflectedTransport};

/// Settings of a far end.
#[derive(Clone)]
pub(crate) struct FarPlan {
    pub choice: TransportChoice,
    pub bind: SocketAddr,
    /// Network namespace to run in; `None`: the process's own.
    pub namespace: Option<Namespace>,
    pub arrivals: Option<ArrivalTable>,
    pub picture_arrivals: Option<ArrivalTable>,
    pub clock: OsClock,
    pub socket: SocketOptions,
    pub max_peers: usize,
    /// Time from one message to the next, if exactly one stream is expected.
    pub interval: Option<Duration>,
    pub seed: u64,
    /// Captures packets of its sockets.
    pub taps: Option<Taps>,
}

/// Counters of a far end.
#[derive(Clone, Copy, Debug, Default)]
struct FarProgress {
    /// Peers served so far.
    peers: u64,
    /// Messages returned.
    returned: u64,
}

/// A running far end. Dropping it stops it in order, so that when one cannot start the others are stopped, too.
pub(crate) struct FarEnd {
    pub address: SocketAddr,
    pub choice: TransportChoice,
    looked: Looked<FarProgress>,
    progress: FarProgress,
    /// Whether its thread has told anything between the last two looks at it.
    alive: bool,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl FarEnd {
    /// Opens its socket on a thread of its own and waits until it is open.
    pub fn start(plan: FarPlan) -> Result<Self, Error> {
        let (tell, told) = mpsc::channel();
        let (out, looked) = looks();
        let (stop, choice) = (Stop::new(), plan.choice.clone());
        let thread_stop = stop.clone();
        let name = format!("far-{}", choice.transport.scheme);
        let thread = spawn(name, move || {
            if let Err(error) = serve(&plan, &tell, &thread_stop, out) {
                // Start-up errors only: once the socket is open the caller no longer waits, and peers notice that a
                // socket fails.
                let _caller_is_gone = tell.send(Err(error));
            }
        })?;
        let address =
            told.recv().map_err(|_| Error::failed("the reflector's thread ended unexpectedly"))??;
        let progress = FarProgress::default();
        Ok(FarEnd { address, choice, looked, progress, alive: false, stop, thread: Some(thread) })
    }

    /// Its state, at most a tenth of a second old.
    pub fn status(&mut self) -> ReflectedTransport {
        let newest = newest(&mut self.looked);
        self.alive = newest.is_some();
        self.progress = newest.unwrap_or(self.progress);
        ReflectedTransport {
            transport: self.choice.transport.scheme,
            address: self.address.to_string(),
            peers: self.progress.peers,
            messages_returned: self.progress.returned,
        }
    }

    /// Whether its media thread told its state between the last two calls of [`Self::status`].
    pub fn is_alive(&self) -> bool {
        self.alive
    }

    /// Stops it in order and returns its state.
    pub fn finish(mut self) -> ReflectedTransport {
        self.end();
        self.status()
    }

    fn end(&mut self) {
        self.stop.ask();
        let _a_panic_was_printed_by_its_thread = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(
    plan: &FarPlan,
    tell: &mpsc::Sender<Result<SocketAddr, Error>>,
    stop: &Stop,
    mut out: Looks<FarProgress>,
) -> Result<(), Error> {
    let stack = plan.choice.stack(plan.bind.port(), plan.seed, crate::DEFAULT_LATENCY);
    let wire = WirePlan {
        over_ip: plan.choice.over_ip,
        ..WirePlan::new(stack, Target::Listen(plan.bind), plan.socket.clone())
    };
    let mut runner = RunPlan {
        namespace: plan.namespace.clone(),
        taps: plan.taps.clone().map(|taps| (taps, plan.choice.transport.scheme.into())),
        ..RunPlan::new(wire, plan.clock)
    }
    .open()?;
    let policy = Policy::Many { most: plan.max_peers, idle: PEER_IDLE };
    let config = ReflectorConfig {
        interval: plan.interval,
        marks: true,
        arrivals: plan.arrivals.clone(),
        picture_arrivals: plan.picture_arrivals.clone(),
        ..ReflectorConfig::default()
    };
    let stack = runner.stack().clone();
    let mut reflector = Reflector::new(plan.clock.now(), WIRE, stack, policy, config);
    let _caller_is_gone = tell.send(Ok(runner.local_address()));
    let progress = |reflector: &Reflector| FarProgress {
        peers: reflector.admission().admitted,
        returned: reflector.counters().returned,
    };
    let driven = runner.drive(&mut reflector, stop, &mut |now, reflector: &mut Reflector, _| {
        out.look(now, || progress(reflector));
    });
    out.last(progress(&reflector));
    driven.map(drop)
}

/// A peer silent for this long makes room for another.
const PEER_IDLE: Duration = Duration::from_secs(10);
