//! Opens clients of a sound server, watches them, and opens another one when the server is gone and comes back. Meanwhile it
//! takes the device's place: sound goes on being taken, or silence given, at the nominal rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::meter::Counters;
use super::uncalled::Uncalled;
use super::{End, Pacing, Side};
use crate::os::Clock;
use crate::stream::start_thread;
use crate::{Notes, OpenError};

/// A kind of sound server, and how a stream is connected to it, now and again.
pub(crate) trait Server: Send + 'static {
    /// What is connected. Dropping it closes it; then its end is used no more.
    type Client: Send + 'static;

    /// Its name in sentences.
    const NAME: &'static str;

    /// When its sinks hand over sound.
    const PACING: Pacing;

    /// What avoids xruns, in words.
    const AGAINST_XRUNS: &'static str;

    /// Opens another client, whose end `link` makes. If that fails: why, unless no server runs.
    fn reopen(&mut self, link: &mut dyn FnMut() -> Box<dyn End>) -> Result<Self::Client, Option<String>>;

    /// Looks at a client, some times a second. If it is of no use any more: why.
    fn watch(&mut self, client: &mut Self::Client) -> Result<(), String>;

    /// Tells that `client` is connected `seconds` after the one before was lost.
    fn tell_return(&self, client: &Self::Client, seconds: f64) -> String;
}

/// The thread that watches the server; it ends, and closes the client, when this is dropped.
pub(super) struct Keeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
    notes: Notes,
    /// What the device did to the sound, in sentences.
    summary: fn(&Counters) -> Vec<String>,
}

impl Keeper {
    /// Watches over `client`.
    pub fn start<S: Server>(
        server: S,
        client: S::Client,
        side: Box<dyn Side>,
        clock: Clock,
        counters: Arc<Counters>,
        notes: &Notes,
    ) -> Result<Self, OpenError> {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = Watch::new(server, client, side, clock, counters.clone(), stop.clone());
        let thread = start_thread("device", move || watch.run())?;
        Ok(Keeper { stop, thread: Some(thread), counters, notes: notes.clone(), summary: summary::<S> })
    }

    /// Watches nothing.
    #[cfg(all(test, not(feature = "loom")))]
    pub fn none(counters: Arc<Counters>) -> Self {
        Keeper {
            stop: Arc::default(),
            thread: None,
            counters,
            notes: Notes::default(),
            summary: |_| Vec::new(),
        }
    }

    /// Waits until `is_empty`, and until the device has played the last period and what it holds; then closes the client.
    pub fn finish(&mut self, is_empty: impl Fn() -> bool, period: usize, rate: u32) {
        let last = Duration::from_secs_f64(period as f64 / f64::from(rate.max(1)));
        let held = u64::from(self.counters.latency.load(Ordering::Relaxed));
        let held = Duration::from_micros(held).min(LONGEST_HELD);
        // The ring holds less than half a second; a server that stands still is not waited for.
        for _ in 0..FINISH_POLLS {
            if is_empty() {
                break;
            }
            pause(FINISH_POLL);
        }
        pause(2 * last + held);
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            self.notes.add("the thread that watches the sound server panicked");
        }
        for line in (self.summary)(&self.counters) {
            self.notes.add(line);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits; a thread that is woken early waits on.
fn pause(time: Duration) {
    thread::park_timeout(time);
}

/// What the device did to the sound, in sentences; none if it did nothing.
fn summary<S: Server>(counters: &Counters) -> Vec<String> {
    let (name, count) = (S::NAME, |counter: &AtomicU64| counter.load(Ordering::Relaxed));
    let (xruns, underruns, lost) =
        (count(&counters.xruns), count(&counters.underruns), count(&counters.lost));
    let mut lines = Vec::new();
    if xruns > 0 {
        lines.push(format!(
            "{name}: {xruns} xruns, no fault of the network; {} avoids them",
            S::AGAINST_XRUNS
        ));
    }
    if underruns > 0 {
        let (missing, captures) = (count(&counters.missing), counters.fetched.load(Ordering::Relaxed));
        lines.push(match captures {
            true => {
                format!("{name}: the server lost cycles {underruns} times ({missing} sample frames of silence)")
            }
            false => format!(
                "{name}: {underruns} cycles came before their sound was handed over ({missing} sample frames of silence)"
            ),
        });
    }
    if count(&counters.dropped) > 0 {
        lines.push(format!(
            "{name}: {} captured sample frames were not fetched in time",
            count(&counters.dropped)
        ));
    }
    if lost > 0 {
        lines.push(format!("{name}: the server, or its device, was lost {lost} times"));
    }
    lines
}

/// The watching thread.
struct Watch<S: Server> {
    server: S,
    client: Option<S::Client>,
    /// The device's end while there is no client.
    idle: Option<Box<dyn End>>,
    side: Box<dyn Side>,
    clock: Clock,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    /// When the server was lost, and when it was last tried to reach one, in microseconds.
    lost_at: u64,
    tried: u64,
    /// Why the server that runs now is of no use; told once.
    refused: Option<String>,
    uncalled: Uncalled,
    /// Closes the client that was lost, for which a server may take as long as a program in it hangs.
    closing: Option<JoinHandle<()>>,
}

impl<S: Server> Watch<S> {
    fn new(
        server: S,
        client: S::Client,
        side: Box<dyn Side>,
        clock: Clock,
        counters: Arc<Counters>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Watch {
            server,
            client: Some(client),
            idle: None,
            side,
            clock,
            counters,
            stop,
            lost_at: 0,
            tried: 0,
            refused: None,
            uncalled: Uncalled::new(),
            closing: None,
        }
    }

    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            self.look();
            pause(if self.client.is_some() { WATCH } else { IDLE });
        }
    }

    /// Looks at the client, or for another one.
    fn look(&mut self) {
        self.side.collect();
        let Some(client) = &mut self.client else { return self.replace() };
        if let Err(why) = self.server.watch(client) {
            return self.lose(why);
        }
        // Elsewhere a server may have nothing to play, and not call.
        let is_called = S::PACING == Pacing::Cycles;
        if is_called && self.uncalled.look(self.counters.last_cycle.load(Ordering::Relaxed)) {
            let name = S::NAME;
            self.lose(format!(
                "the {name} server runs, but calls this program no longer (a program before it may hang): silence until it does again, \
                 which a new client tries"
            ));
            // It is there: no second need pass.
            self.tried = 0;
        }
    }

    /// Closes the client of a server that is gone, and takes the device's place.
    fn lose(&mut self, why: String) {
        self.counters.lost.fetch_add(1, Ordering::Relaxed);
        self.counters.connected.store(false, Ordering::Relaxed);
        self.counters.tell(why);
        self.lost_at = self.clock.micros();
        self.tried = self.lost_at;
        self.idle = Some(self.side.link());
        let client = self.client.take();
        // Without a thread it is closed here, since the closure that has it is dropped: no reason to tell anybody.
        self.closing = start_thread("close", move || drop(client)).ok();
        self.idle();
    }

    fn idle(&mut self) {
        let now = self.clock.micros();
        if let Some(idle) = &mut self.idle {
            idle.idle(now);
        }
    }

    /// Is the device, and tries to get another client once a second.
    fn replace(&mut self) {
        self.idle();
        let now = self.clock.micros();
        // A library may open no client while it closes one.
        let is_closing = self.closing.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_closing || now.saturating_sub(self.tried) < TRY_AGAIN_MICROS {
            return;
        }
        self.tried = now;
        let (side, mut linked) = (&mut self.side, false);
        let opened = self.server.reopen(&mut || {
            linked = true;
            side.link()
        });
        match opened {
            Ok(client) => {
                let seconds = self.clock.micros().saturating_sub(self.lost_at) as f64 / 1e6;
                self.counters.connected.store(true, Ordering::Relaxed);
                self.counters.tell(self.server.tell_return(&client, seconds));
                self.client = Some(client);
                self.idle = None;
                self.uncalled.restart(self.counters.last_cycle.load(Ordering::Relaxed));
                self.refused = None;
            }
            Err(why) => {
                if linked {
                    // The media thread uses the ring of the client that came to nothing.
                    self.idle = Some(self.side.link());
                }
                if let Some(why) = why {
                    self.refuse(why);
                }
            }
        }
    }

    fn refuse(&mut self, why: String) {
        if self.refused.as_ref() != Some(&why) {
            self.counters.tell(why.clone());
            self.refused = Some(why);
        }
    }
}

/// How often a client is looked at, and its cycles ([`Uncalled`]).
const WATCH: Duration = Duration::from_millis(50);
/// A cycle without a device.
const IDLE: Duration = Duration::from_millis(5);
const TRY_AGAIN_MICROS: u64 = 1_000_000;
/// How often, and how many times at most, the end of a ring is waited for.
const FINISH_POLL: Duration = Duration::from_millis(5);
const FINISH_POLLS: u32 = 200;
/// A device that says that it holds more is not waited for so long.
const LONGEST_HELD: Duration = Duration::from_secs(1);

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::super::meter::DeviceMeter;
    use super::super::play::PlayParts;
    use super::*;
    use antiphon_media::StreamFormat;

    /// A server that always takes a client.
    struct Willing;

    impl Server for Willing {
        type Client = ();
        const NAME: &'static str = "test";
        const PACING: Pacing = Pacing::Cycles;
        const AGAINST_XRUNS: &'static str = "nothing";

        fn reopen(&mut self, link: &mut dyn FnMut() -> Box<dyn End>) -> Result<(), Option<String>> {
            drop(link());
            Ok(())
        }

        fn watch(&mut self, _client: &mut ()) -> Result<(), String> {
            Ok(())
        }

        fn tell_return(&self, _client: &(), _seconds: f64) -> String {
            "again".into()
        }
    }

    #[test]
    fn a_client_that_is_called_no_longer_is_replaced_counted_and_told() {
        let (counters, stream) = (Arc::new(Counters::default()), StreamFormat::new(48_000, 1).unwrap());
        let time = Arc::new(AtomicU64::new(5_000_000));
        let clock = Clock::Test(time.clone());
        let PlayParts { side, .. } = PlayParts::new(stream, Pacing::Cycles, &counters, clock.clone());
        let mut watch = Watch::new(Willing, (), Box::new(side), clock, counters.clone(), Arc::default());
        let mut look = |calls: bool| {
            let now = time.fetch_add(50_000, Ordering::Relaxed);
            if calls {
                counters.last_cycle.store(now, Ordering::Relaxed);
            }
            watch.look();
            counters.lost.load(Ordering::Relaxed)
        };
        assert!((0..100).all(|_| look(true) == 0));
        assert!((0..23).all(|_| look(false) == 0));
        assert_eq!(look(false), 1);
        assert!(!counters.connected.load(Ordering::Relaxed));
        // The first one is closed on a thread of its own.
        let mut looks = 0;
        while !counters.connected.load(Ordering::Relaxed) {
            looks += u32::from(look(false) > 0);
            thread::yield_now();
        }
        assert!(looks > 0);
        assert!((0..100).all(|_| look(true) == 1));
        let told = DeviceMeter { counters, server: "test" }.take_events();
        assert!(told[0].starts_with("the test server runs, but calls this program no longer"), "{told:?}");
        assert_eq!(told[1..], ["again"]);
    }
}
