//! Starts the threads of a run, detects its end, and gathers their records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_lab::figures::StreamFigures;
use antiphon_lab::live::{FarRecord, NearRecord, StreamRecord, figures};
use antiphon_lab::setup::{Setup, TrafficKind, TrafficSpec};
use antiphon_net::{OsClock, Stop};
use antiphon_proto::{Substrate, Transport, find};

use super::load::{self, Load};
use super::stream::{Link, Seen};
use super::testbed::Testbed;
use super::{LONGEST_DRAIN, LOOK, wait_until};
use crate::engine::no_thread;
use antiphon::Error;

/// One run.
pub(super) struct Control<'a> {
    pub setup: &'a Setup,
    pub seed: u64,
    pub clock: OsClock,
    pub testbed: &'a Testbed,
    /// When nothing has arrived for this long, nothing more will.
    pub quiet: Duration,
    /// The user's request to stop.
    pub stop: &'a Stop,
}

/// The threads of one stream.
struct StreamThreads<'s> {
    transport: &'static Transport,
    seen: &'s Seen,
    stops: &'s [Stop; 2],
    near: Thread<'s, Option<NearRecord>>,
    far: Thread<'s, FarRecord>,
    begin: [mpsc::Sender<Instant>; 2],
}

/// A thread with its result, and the number of rounds of its loop.
type Thread<'s, T> = ScopedJoinHandle<'s, Result<(T, u64), Error>>;
/// Streams and pings with their figures, in the order of the setup; and rounds of all loops.
pub(super) type Figures = (Vec<(String, StreamFigures)>, u64);

impl Control<'_> {
    /// Runs the setup to its end.
    pub fn run(&self) -> Result<Figures, Error> {
        let count = self.setup.streams.len();
        let seen: Vec<Seen> = (0..count).map(|_| Seen::default()).collect();
        let stops: Vec<[Stop; 2]> = (0..count).map(|_| [Stop::new(), Stop::new()]).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let outcome = self.in_scope(scope, &seen, &stops, &over);
            // Whatever the outcome, no thread may keep the scope open.
            over.store(true, Ordering::Relaxed);
            stops.iter().flatten().for_each(Stop::ask);
            outcome
        })
    }

    fn in_scope<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        seen: &'s [Seen],
        stops: &'s [[Stop; 2]],
        over: &'s AtomicBool,
    ) -> Result<Figures, Error> {
        let mut streams = Vec::new();
        for (number, (seen, stops)) in seen.iter().zip(stops).enumerate() {
            streams.push(self.stream(scope, number, seen, stops)?);
        }
        let loads = load::start(scope, self.setup, self.testbed, self.clock, self.seed, over)?;
        let begin = self.clock.now() + LEAD;
        for thread in streams.iter().flat_map(|stream| &stream.begin).chain(loads.iter().map(Load::begin)) {
            // If the thread has ended already, joining it gives the reason.
            let _ = thread.send(begin);
        }
        self.watch(&streams, begin, over);
        over.store(true, Ordering::Relaxed);
        stops.iter().flatten().for_each(Stop::ask);
        let gathered = gather(self.setup, streams, loads)?;
        if self.stop.is_asked() { Err(Error::failed("stopped")) } else { Ok(gathered) }
    }

    /// Starts the threads of a stream; both have their sockets when it returns.
    fn stream<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        number: usize,
        seen: &'s Seen,
        stops: &'s [Stop; 2],
    ) -> Result<StreamThreads<'s>, Error> {
        let spec = &self.setup.streams[number];
        let transport = find(&spec.transport)?;
        let link = || Link {
            setup: self.setup,
            testbed: self.testbed,
            clock: self.clock,
            seed: self.seed,
            number,
            transport,
            seen,
            stop_near: &stops[0],
            stop_far: &stops[1],
        };
        let (tell, told) = mpsc::channel();
        let (far_begin, begin) = mpsc::channel();
        let far_link = link();
        let far =
            spawn(scope, format!("far-{}", spec.name), move || failing(&tell, far_link.far(&tell, &begin)))?;
        let target = answer(&told)?;
        let call = self.testbed.through(spec.from, transport.substrate, target)?;
        let (tell, told) = mpsc::channel();
        let (near_begin, begin) = mpsc::channel();
        let near_link = link();
        let near = spawn(scope, format!("near-{}", spec.name), move || {
            failing(&tell, near_link.near(call, &tell, &begin))
        })?;
        answer(&told)?;
        Ok(StreamThreads { transport, seen, stops, near, far, begin: [near_begin, far_begin] })
    }

    /// Waits until all streams are over, and stops each end that does not end by itself. Traffic that fails ends the
    /// run, too.
    fn watch(&self, streams: &[StreamThreads<'_>], begin: Instant, over: &AtomicBool) {
        let until = begin + self.setup.duration;
        let is_ping = |traffic: &TrafficSpec| matches!(traffic.kind, TrafficKind::Ping { .. });
        // Echoes of the last requests are still in flight.
        let echoes = if self.setup.traffic.iter().any(is_ping) { self.quiet } else { Duration::ZERO };
        let loaded = if self.setup.traffic.is_empty() { begin } else { until + echoes };
        let mut progress: Vec<Progress> = streams.iter().map(|_| Progress::default()).collect();
        loop {
            let now = self.clock.now();
            wait_until(&self.clock, now + LOOK, || self.stop.is_asked());
            if self.stop.is_asked() || over.load(Ordering::Relaxed) {
                return;
            }
            let mut all = now >= loaded;
            for (stream, progress) in streams.iter().zip(&mut progress) {
                all &= self.tend(stream, progress, now, until);
            }
            if all {
                return;
            }
        }
    }

    /// Stops the ends of a stream that are over; returns whether all of it is.
    fn tend(
        &self,
        stream: &StreamThreads<'_>,
        progress: &mut Progress,
        now: Instant,
        until: Instant,
    ) -> bool {
        let Seen { sent, arrived, ended, near_done, far_done } = stream.seen;
        let (sent, arrived) = (sent.load(Ordering::Relaxed), arrived.load(Ordering::Relaxed));
        let (near_done, far_done) = (near_done.load(Ordering::Acquire), far_done.load(Ordering::Acquire));
        if arrived != progress.arrived {
            (progress.arrived, progress.heard) = (arrived, now);
        }
        if progress.sent.is_none() && (near_done || now >= until) {
            progress.sent = Some(now);
        }
        let Some(sending_ended) = progress.sent else { return false };
        // Nothing has arrived for long after that, or everything has.
        let quiet = now > progress.heard.max(sending_ended) + self.quiet;
        let over = match stream.transport.substrate {
            Substrate::Udp => quiet,
            Substrate::Tcp => ended.load(Ordering::Relaxed) || (arrived >= sent && quiet),
        };
        let too_long = is_given_up(now, sending_ended, progress.heard, (self.setup.drain, self.quiet));
        if over || too_long {
            // A near end that waits for returns does not end by itself.
            stream.stops[0].ask();
            if near_done || too_long {
                stream.stops[1].ask();
            }
        }
        near_done && far_done
    }
}

/// State of a stream when it was last checked.
#[derive(Default)]
struct Progress {
    arrived: u64,
    /// When that number changed.
    heard: Instant,
    /// When sending ended.
    sent: Option<Instant>,
}

/// Whether late packets are no longer waited for: a queue may take as long as the scenario says while something still comes out of it, and a silence
/// is shorter.
fn is_given_up(
    now: Instant,
    sending_ended: Instant,
    heard: Instant,
    (drain, quiet): (Duration, Duration),
) -> bool {
    let silence = drain.min(LONGEST_DRAIN).max(quiet);
    now > heard.max(sending_ended) + silence || now > sending_ended + drain.max(quiet)
}

fn spawn<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: String,
    work: impl FnOnce() -> T + Send + 's,
) -> Result<ScopedJoinHandle<'s, T>, Error> {
    Builder::new().name(name).spawn_scoped(scope, work).map_err(|error| no_thread(&error))
}

/// Reports an error to the caller that waits for a thread to be ready.
fn failing<T>(
    tell: &mpsc::Sender<Result<std::net::SocketAddr, Error>>,
    outcome: Result<T, Error>,
) -> Result<T, Error> {
    if let Err(error) = &outcome {
        // The caller no longer waits if the thread was ready before; the outcome below then carries the error.
        let _if_waiting = tell.send(Err(error.clone()));
    }
    outcome
}

fn answer<T>(told: &mpsc::Receiver<Result<T, Error>>) -> Result<T, Error> {
    told.recv().map_err(|_| Error::failed("a thread of the run ended unexpectedly"))?
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, Error>>) -> Result<T, Error> {
    thread.join().map_err(|_| Error::failed("a thread of the run failed; this is a bug in antiphon"))?
}

fn gather(setup: &Setup, streams: Vec<StreamThreads<'_>>, loads: Vec<Load<'_>>) -> Result<Figures, Error> {
    let (mut records, mut events) = (Vec::new(), 0);
    for (number, stream) in streams.into_iter().enumerate() {
        let (near, far) = (joined(stream.near), joined(stream.far));
        let ((near, sends), (far, receives)) = (near?, far?);
        events += sends + receives;
        let on = stream.transport.substrate;
        records.extend(near.map(|near| StreamRecord { stream: number, near, far, on }));
    }
    let mut all = figures(setup, records);
    for load in loads {
        all.extend(load.join()?);
    }
    Ok((all, events))
}

/// From the start signal to the beginning: building the stations of a run of a day takes less.
const LEAD: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_of_a_long_queue_is_waited_for() {
        let at = |s: u64| Instant::from_millis(1_000 * s);
        let given_up = |now: u64, heard: u64, drain: u64| {
            is_given_up(at(now), at(100), at(heard), (Duration::from_secs(drain), Duration::from_secs(2)))
        };
        // Two minutes after the last was sent packets still come, as a queue of ten minutes has them.
        assert!(!given_up(220, 219, 600));
        // None for a minute; none for as long as a shorter scenario waits; and the queue's time is over.
        assert!(given_up(281, 220, 600) && !given_up(279, 220, 600));
        assert!(given_up(111, 100, 10) && !given_up(109, 100, 10));
        assert!(given_up(701, 700, 600));
        // A link's own delay is waited for in any case.
        assert!(!given_up(102, 100, 1) && given_up(103, 100, 1));
    }
}
