//! A stream under way: `cpal` calls it from a thread of its own for each period.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cpal::traits::{DeviceTrait, StreamTrait};
use cpal::{FromSample, Sample, SampleFormat, SizedSample, StreamConfig};

use crate::device::{Counters, Cycle, Direction, End};
use crate::os::Clock;

/// The handle of a stream. Dropping it ends the stream.
pub(super) struct Client {
    stream: cpal::Stream,
    events: Arc<Events>,
    /// Hears if the stream turns out to have no clock.
    unpaced: Receiver<()>,
    clock: Clock,
    /// Cycles when last looked at, and when that was, in microseconds.
    seen: (u64, u64),
}

/// What the stream's threads tell.
#[derive(Default)]
struct Events {
    gone: OnceLock<String>,
    cycles: AtomicU64,
}

impl Client {
    /// Begins to move sound between the device and `end`.
    pub fn start(
        device: &cpal::Device,
        config: StreamConfig,
        sample: SampleFormat,
        direction: Direction,
        end: Box<dyn End>,
        counters: Arc<Counters>,
    ) -> Result<Self, cpal::Error> {
        let (events, clock) = (Arc::new(Events::default()), Clock::new());
        let (tells, unpaced) = sync_channel(1);
        let pace = Pace { rate: config.sample_rate, clock: clock.clone(), frames: 0, began: None, tells };
        let running = Running {
            end,
            pace,
            channels: config.channels.into(),
            position: 0,
            events: events.clone(),
            counters: counters.clone(),
        };
        let failed = events.clone();
        let on_error = move |error: cpal::Error| match error.kind() {
            cpal::ErrorKind::Xrun => {
                counters.xruns.fetch_add(1, Ordering::Relaxed);
            }
            // Neither ends the stream.
            cpal::ErrorKind::RealtimeDenied | cpal::ErrorKind::DeviceChanged => {}
            _ => {
                // The first one tells why.
                let _later = failed.gone.set(error.to_string());
            }
        };
        let stream = match sample {
            SampleFormat::F32 => build::<f32>(device, config, direction, running, on_error),
            SampleFormat::I32 => build::<i32>(device, config, direction, running, on_error),
            _ => build::<i16>(device, config, direction, running, on_error),
        }?;
        stream.play()?;
        let seen = (0, clock.micros());
        Ok(Client { stream, events, unpaced, clock, seen })
    }

    /// Waits so long whether the stream turns out to have no clock.
    pub fn has_clock(&self, time: Duration) -> bool {
        self.unpaced.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }

    /// Sample frames of a period, if the system tells.
    pub fn period(&self) -> Option<u32> {
        self.stream.buffer_size().ok()
    }

    /// Why the stream is of no use any more.
    pub fn failure(&mut self) -> Option<String> {
        let (now, cycles) = (self.clock.micros(), self.events.cycles.load(Ordering::Relaxed));
        if cycles != self.seen.0 {
            self.seen = (cycles, now);
        }
        if self.unpaced.try_recv().is_ok() {
            return Some("it has no clock".into());
        }
        let stands = now.saturating_sub(self.seen.1) > STANDS_STILL;
        self.events.gone.get().cloned().or_else(|| stands.then(|| "it stands still".into()))
    }
}

fn build<T: SizedSample + FromSample<f32>>(
    device: &cpal::Device,
    config: StreamConfig,
    direction: Direction,
    mut running: Running,
    on_error: impl FnMut(cpal::Error) + Send + 'static,
) -> Result<cpal::Stream, cpal::Error>
where
    f32: FromSample<T>,
{
    match direction {
        Direction::Out => device.build_output_stream(
            config,
            move |data: &mut [T], info: &cpal::OutputCallbackInfo| {
                let stamp = info.timestamp();
                running.tell_latency(stamp.playback.checked_duration_since(stamp.callback));
                running.cycle(data.len(), |channels, position| PlayCycle { data, channels, position });
            },
            on_error,
            None,
        ),
        Direction::In => device.build_input_stream(
            config,
            move |data: &[T], info: &cpal::InputCallbackInfo| {
                let stamp = info.timestamp();
                running.tell_latency(stamp.callback.checked_duration_since(stamp.capture));
                running.cycle(data.len(), |channels, position| CaptureCycle { data, channels, position });
            },
            on_error,
            None,
        ),
    }
}

/// What `cpal`'s thread uses.
struct Running {
    end: Box<dyn End>,
    pace: Pace,
    channels: usize,
    /// Sample frames so far, wrapping.
    position: u32,
    events: Arc<Events>,
    counters: Arc<Counters>,
}

impl Running {
    fn cycle<C: Cycle>(&mut self, samples: usize, make: impl FnOnce(usize, u32) -> C) {
        let frames = samples / self.channels;
        self.events.cycles.fetch_add(1, Ordering::Relaxed);
        self.pace.on_cycle(frames);
        self.end.process(&mut make(self.channels, self.position));
        self.position = self.position.wrapping_add(frames as u32);
    }

    fn tell_latency(&self, time: Option<Duration>) {
        let micros = time.map_or(0, |time| u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
        self.counters.latency.store(micros, Ordering::Relaxed);
    }
}

/// Finds out that a device has no clock: it takes much more sound than time passes.
struct Pace {
    rate: u32,
    clock: Clock,
    frames: u64,
    /// When the first cycle was, in microseconds.
    began: Option<u64>,
    tells: SyncSender<()>,
}

impl Pace {
    fn on_cycle(&mut self, frames: usize) {
        let now = self.clock.micros();
        let began = *self.began.get_or_insert(now);
        self.frames += frames as u64;
        let due = now.saturating_sub(began) * u64::from(self.rate) / 1_000_000;
        if self.frames > 2 * due + u64::from(self.rate) {
            // It has been told already, if there is no room.
            let _told = self.tells.try_send(());
        }
    }
}

/// A period to play.
struct PlayCycle<'a, T> {
    data: &'a mut [T],
    channels: usize,
    position: u32,
}

impl<T: SizedSample + FromSample<f32>> Cycle for PlayCycle<'_, T> {
    fn frames(&self) -> usize {
        self.data.len() / self.channels
    }

    fn next(&self) -> usize {
        self.frames()
    }

    fn freewheels(&self) -> bool {
        false
    }

    fn late(&self) -> u32 {
        0
    }

    fn position(&self) -> u32 {
        self.position
    }

    fn slips(&self) -> bool {
        // What was to be played during an xrun is played after it, as the sink's queue follows.
        false
    }

    fn play(&mut self, from: usize, sound: &[f32]) {
        let to = self.data[from * self.channels..].iter_mut();
        to.zip(sound).for_each(|(to, sample)| *to = T::from_sample(*sample));
    }

    fn play_silence(&mut self, from: usize) {
        self.data[from * self.channels..].fill(T::EQUILIBRIUM);
    }

    fn capture(&mut self, _from: usize, _sound: &mut [f32]) {}
}

/// A period that was captured.
struct CaptureCycle<'a, T> {
    data: &'a [T],
    channels: usize,
    position: u32,
}

impl<T: SizedSample> Cycle for CaptureCycle<'_, T>
where
    f32: FromSample<T>,
{
    fn frames(&self) -> usize {
        self.data.len() / self.channels
    }

    fn next(&self) -> usize {
        self.frames()
    }

    fn freewheels(&self) -> bool {
        false
    }

    fn late(&self) -> u32 {
        0
    }

    fn position(&self) -> u32 {
        self.position
    }

    fn slips(&self) -> bool {
        // An overrun of the card loses sound, and the next period follows as if nothing had been lost.
        true
    }

    fn play(&mut self, _from: usize, _sound: &[f32]) {}

    fn play_silence(&mut self, _from: usize) {}

    fn capture(&mut self, from: usize, sound: &mut [f32]) {
        let captured = self.data[from * self.channels..].iter();
        sound.iter_mut().zip(captured).for_each(|(to, sample)| *to = f32::from_sample(*sample));
    }
}

/// Without a cycle for so long, in microseconds, a device is gone.
const STANDS_STILL: u64 = 2_000_000;
