//! What a sound server or sound card did to the sound: counted apart from what the network did.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Totals of a device since it was opened, and what it is like now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceFigures {
    /// The kind of sound server: `JACK`, `PulseAudio`, `ALSA`.
    pub server: &'static str,
    /// Whether it runs now: not while its server is gone.
    pub connected: bool,
    /// Its rate in Hz.
    pub rate: u32,
    /// Sample frames of its period.
    pub period: u32,
    /// Cycles that the sound server did not finish in time (xruns), as it reports them.
    pub xruns: u64,
    /// Of a sink: cycles for which not enough sound had been handed over in time. Of a source: how often the server lost cycles.
    pub underruns: u64,
    /// Sample frames of silence in place of that sound.
    pub missing_frames: u64,
    /// Of a source: sample frames that were captured and not fetched in time.
    pub dropped_frames: u64,
    /// How often its server was lost, or called no longer though it ran.
    pub lost: u64,
    /// Of a sink: sample frames that wait for the device, for which sound is played later.
    pub queue: u32,
    /// How long sound takes in the server and its device, in microseconds, as the server says; if it does.
    pub latency_micros: Option<u32>,
}

/// Counted on any thread; neither allocates nor locks.
#[derive(Default)]
pub(crate) struct Counters {
    pub connected: AtomicBool,
    pub rate: AtomicU32,
    pub period: AtomicU32,
    pub xruns: AtomicU64,
    pub underruns: AtomicU64,
    /// Of the underruns, those at the beginning of a stream.
    pub settling: AtomicU64,
    pub missing: AtomicU64,
    pub dropped: AtomicU64,
    /// The same with those before anything was fetched.
    pub overflowed: AtomicU64,
    /// Whether anything was fetched.
    pub fetched: AtomicBool,
    pub lost: AtomicU64,
    /// Of a sink that takes whole cycles: time that the server lost at once, in microseconds, less what was made up for.
    pub slipped: AtomicI64,
    /// When a cycle was last handled, in microseconds; 0 before the first.
    pub last_cycle: AtomicU64,
    pub queue: AtomicU32,
    /// See [`DeviceFigures::latency_micros`]; 0 if the server does not say.
    pub latency: AtomicU32,
    /// Sample frames by which the queue is longer than it must be, for threads that come late; grows with underruns.
    pub margin: AtomicU32,
    /// The margin that the user asks for, in sample frames; 0 if it is to be found.
    pub margin_asked: AtomicU32,
    /// Locked only by the thread that watches the server and the user interface's.
    told: Mutex<VecDeque<String>>,
}

impl Counters {
    /// A sentence for the user, as it happens.
    pub fn tell(&self, sentence: impl Into<String>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() == MOST_TOLD {
            told.pop_front();
        }
        told.push_back(sentence.into());
    }
}

/// Shows what happens to a device; usable on any thread.
#[derive(Clone)]
pub struct DeviceMeter {
    pub(super) counters: Arc<Counters>,
    /// The kind of server: "JACK".
    pub(super) server: &'static str,
}

impl DeviceMeter {
    /// Of a device in a test.
    #[cfg(test)]
    pub(crate) fn of(counters: Arc<Counters>) -> Self {
        DeviceMeter { counters, server: "test" }
    }

    /// The figures so far.
    pub fn figures(&self) -> DeviceFigures {
        let counters = &*self.counters;
        let latency = counters.latency.load(Ordering::Relaxed);
        DeviceFigures {
            server: self.server,
            connected: counters.connected.load(Ordering::Relaxed),
            rate: counters.rate.load(Ordering::Relaxed),
            period: counters.period.load(Ordering::Relaxed),
            xruns: counters.xruns.load(Ordering::Relaxed),
            underruns: counters.underruns.load(Ordering::Relaxed),
            missing_frames: counters.missing.load(Ordering::Relaxed),
            dropped_frames: counters.dropped.load(Ordering::Relaxed),
            lost: counters.lost.load(Ordering::Relaxed),
            queue: counters.queue.load(Ordering::Relaxed),
            latency_micros: (latency > 0).then_some(latency),
        }
    }

    /// What has happened since the last call, in sentences.
    pub fn take_events(&self) -> Vec<String> {
        self.counters.told.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

/// Sentences that wait for a user interface; older ones are dropped.
const MOST_TOLD: usize = 32;
