//! A stream under way: a thread that answers the server's requests for sound, or takes what it captured.
//!
//! The server's requests for sound are its clock. A request is answered at once. What is not there yet may follow with the next
//! one, as long as the server still holds half of its buffer; beyond that, silence takes its place. So the server never runs
//! dry, and what waits in it comes back to what it was asked to be. A server that asks for more than its buffer holds has run
//! dry: what it asks for beyond is for a time that is over, and it does not play it.

use std::net::Shutdown;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use pulseaudio::protocol::{Command, CommandTag, LatencyParams, MAX_VERSION, TagStructReader};

use super::connection::{Answer, Connection, Failure, Message};
use super::latency::latency;
use super::stream::{CaptureCycle, PlayCycle, PulseStream, frame_bytes};
use super::text::text;
use crate::OpenError;
use crate::device::{Counters, Direction, End};
use crate::os::Clock;
use crate::stream::start_thread;

/// The handle of a stream. Dropping it ends the stream.
pub(super) struct Client {
    stop: Arc<AtomicBool>,
    socket: UnixStream,
    gone: Arc<OnceLock<Failure>>,
    thread: Option<JoinHandle<()>>,
    device: String,
}

impl Client {
    /// Begins to move sound between `stream` and `end`.
    pub fn start(
        connection: Connection,
        stream: PulseStream,
        end: Box<dyn End>,
        counters: Arc<Counters>,
    ) -> Result<Self, OpenError> {
        let (stop, gone) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        let socket =
            connection.handle().map_err(|error| OpenError::refused(error.to_string(), "try again"))?;
        let device = stream.device.clone();
        let worker = Worker::new(connection, stream, end, counters, stop.clone());
        let failed = gone.clone();
        let thread = start_thread("pulse", move || {
            if let Err(failure) = worker.run() {
                // Set by this thread alone, once.
                let _first = failed.set(failure);
            }
        })?;
        Ok(Client { stop, socket, gone, thread: Some(thread), device })
    }

    /// Why the stream has ended, if it has.
    pub fn failure(&self) -> Option<&Failure> {
        self.gone.get()
    }

    /// The sink or source that it was connected to first.
    pub fn device(&self) -> &str {
        &self.device
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread; a connection that is closed already cannot be closed again.
        let _closed_already = self.socket.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A panic there was printed, and the stream is at its end.
            let _panicked = thread.join();
        }
    }
}

/// The thread.
struct Worker {
    connection: Connection,
    stream: PulseStream,
    end: Box<dyn End>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    clock: Clock,
    /// Bytes that the server has asked for and not got yet.
    wanted: usize,
    /// What has come since the last cycle.
    captured: Vec<f32>,
    /// Sample frames so far, wrapping.
    position: u32,
    cycles: u64,
    /// The longest of the last cycles, in sample frames.
    longest: usize,
    /// When there was a cycle, in microseconds.
    last_cycle: u64,
    /// After how many microseconds without one the server stands still, and whether it does.
    stall: u64,
    stalls: bool,
    /// Sample frames for which a source has given silence meanwhile, and when it went on, in microseconds.
    stale: usize,
    resumed: u64,
    /// The number of the question for the latency, and when it was asked.
    asked: Option<u32>,
    asked_at: u64,
}

impl Worker {
    fn new(
        connection: Connection,
        stream: PulseStream,
        end: Box<dyn End>,
        counters: Arc<Counters>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let (clock, format) = (Clock::new(), stream.format);
        let period = stream.period.max(1);
        let planned = period as u64 * 1_000_000 / u64::from(format.rate());
        Worker {
            wanted: stream.wanted,
            captured: Vec::with_capacity(format.rate() as usize * format.channels()),
            position: 0,
            cycles: 0,
            longest: period,
            last_cycle: clock.micros(),
            stall: LEAST_STALL + STALL_CYCLES * planned,
            stalls: false,
            stale: 0,
            resumed: 0,
            asked: None,
            asked_at: 0,
            connection,
            stream,
            end,
            counters,
            stop,
            clock,
        }
    }

    fn run(mut self) -> Result<(), Failure> {
        loop {
            while let Some(message) = self.connection.next_message()? {
                self.handle(message)?;
            }
            self.play()?;
            self.capture();
            self.ask_latency()?;
            self.connection.flush()?;
            self.idle();
            self.connection.wait(if self.stalls { IDLE } else { PATIENCE })?;
            if self.stop.load(Ordering::Acquire) {
                return Ok(());
            }
            self.connection.receive()?;
        }
    }

    fn handle(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Sound(stream, range) => {
                if stream == self.stream.channel && self.stream.direction == Direction::In {
                    let sound = self.connection.bytes(range).chunks_exact(size_of::<f32>());
                    let samples =
                        sound.map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                    self.captured.extend(samples);
                }
                Ok(())
            }
            Message::Control(range) => self.control(range),
        }
    }

    fn control(&mut self, range: Range<usize>) -> Result<(), Failure> {
        if let Some(asked) = self.asked
            && let Some(answer) = Answer::of(self.connection.bytes(range.clone()), asked)?
        {
            self.asked = None;
            let told =
                answer.rest().ok().and_then(|rest| latency(rest, self.stream.direction, self.stream.format));
            if let Some(micros) = told {
                self.counters.latency.store(micros, Ordering::Relaxed);
            }
            return Ok(());
        }
        match self.event(range) {
            Some(Command::Request(request)) if request.channel == self.stream.channel => {
                self.wanted = self.wanted.saturating_add(request.length as usize);
            }
            Some(Command::Underflow(_) | Command::Overflow(_)) if self.cycles > SETTLED_CYCLES => {
                self.counters.xruns.fetch_add(1, Ordering::Relaxed);
            }
            Some(Command::PlaybackStreamKilled(_) | Command::RecordStreamKilled(_)) => {
                return Err(Failure::Killed);
            }
            Some(Command::PlaybackStreamMoved(moved)) => {
                self.stream.held = moved.buffer_attr.target_length as usize;
                self.counters
                    .tell(format!("PulseAudio plays to the sink '{}' now", text(&moved.device_name)));
            }
            Some(Command::RecordStreamMoved(moved)) => {
                self.counters
                    .tell(format!("PulseAudio captures from the source '{}' now", text(&moved.device_name)));
            }
            Some(Command::PlaybackBufferAttrChanged(changed)) => {
                self.stream.held = changed.buffer_attr.target_length as usize;
            }
            Some(Command::PlaybackStreamSuspended(change) | Command::RecordStreamSuspended(change)) => {
                self.counters.tell(match change.suspended {
                    true => "PulseAudio has suspended the device: silence until it resumes",
                    false => "PulseAudio's device runs again",
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// The event that a message tells, if it is one that matters here. Nothing else is read: what the server might answer is
    /// not what it may ask for.
    fn event(&self, range: Range<usize>) -> Option<Command> {
        use CommandTag as Tag;
        let mut bytes = self.connection.bytes(range);
        let tag = TagStructReader::new(&mut &*bytes, MAX_VERSION).read_enum::<Tag>().ok()?;
        let matters = matches!(
            tag,
            Tag::Request
                | Tag::Underflow
                | Tag::Overflow
                | Tag::PlaybackStreamKilled
                | Tag::RecordStreamKilled
                | Tag::PlaybackStreamMoved
                | Tag::RecordStreamMoved
                | Tag::PlaybackBufferAttrChanged
                | Tag::PlaybackStreamSuspended
                | Tag::RecordStreamSuspended
        );
        if !matters {
            return None;
        }
        // An event with other contents than this version of the protocol has is none of ours.
        Command::read_tag_prefixed(&mut bytes, self.connection.version()).ok().map(|(_, command)| command)
    }

    /// Gives the server what it has asked for.
    fn play(&mut self) -> Result<(), Failure> {
        let frame = frame_bytes(self.stream.format);
        let held = self.stream.held / frame;
        let past = (self.wanted / frame).saturating_sub(held).min(self.stream.format.rate() as usize);
        if past > 0 {
            // A second at most; the rest follows. It is silent already.
            self.connection.sound(self.stream.channel, past * frame)?;
            self.position = self.position.wrapping_add(past as u32);
            self.wanted -= past * frame;
        }
        let frames = (self.wanted / frame).min(held);
        let frames = frames - self.end.lacks(frames).min(held / 2);
        if frames == 0 {
            return Ok(());
        }
        self.on_cycle(frames);
        let bytes = self.connection.sound(self.stream.channel, frames * frame)?;
        let channels = self.stream.format.channels();
        self.end.process(&mut PlayCycle { bytes, channels, next: self.longest, position: self.position });
        self.position = self.position.wrapping_add(frames as u32);
        self.wanted -= frames * frame;
        Ok(())
    }

    /// Takes what has come.
    fn capture(&mut self) {
        let channels = self.stream.format.channels();
        let frames = self.captured.len() / channels;
        if frames == 0 {
            return;
        }
        self.on_cycle(frames);
        // What a server that stood still has kept meanwhile comes in large pieces, and silence has taken its place.
        let catches_up = self.last_cycle.saturating_sub(self.resumed) < CATCHES_UP;
        let stale = if catches_up { self.stale } else { 0 };
        let surplus = frames.saturating_sub(2 * self.stream.period).min(stale);
        self.stale = stale - surplus;
        let sound = &self.captured[surplus * channels..frames * channels];
        self.end.process(&mut CaptureCycle { sound, channels, position: self.position });
        self.position = self.position.wrapping_add((frames - surplus) as u32);
        self.captured.clear();
    }

    /// Takes the device's place while the server stands still, as it does while a device is suspended.
    fn idle(&mut self) {
        let now = self.clock.micros();
        // A device that was idle may take long to begin.
        let stall = if self.cycles == 0 { FIRST_STALL } else { self.stall };
        if now.saturating_sub(self.last_cycle) <= stall {
            return;
        }
        if !self.stalls {
            self.stalls = true;
            if self.stream.direction == Direction::In {
                self.counters.underruns.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.end.idle(now);
    }

    fn on_cycle(&mut self, frames: usize) {
        let now = self.clock.micros();
        if self.stalls {
            self.stalls = false;
            if self.stream.direction == Direction::In {
                let micros = now.saturating_sub(self.last_cycle);
                let missing = micros * u64::from(self.stream.format.rate()) / 1_000_000;
                self.counters.missing.fetch_add(missing, Ordering::Relaxed);
                self.stale = missing as usize;
                self.resumed = now;
            }
        }
        self.last_cycle = now;
        self.cycles += 1;
        // The first request is for all that is to wait there.
        if self.cycles > 1 {
            let fades = self.longest - self.longest / FADE;
            self.longest = fades.max(frames).min(self.stream.format.rate() as usize / 4);
        }
    }

    fn ask_latency(&mut self) -> Result<(), Failure> {
        let now = self.clock.micros();
        if now.saturating_sub(self.asked_at) < ASK_MICROS || self.cycles == 0 {
            return Ok(());
        }
        self.asked_at = now;
        let asked =
            LatencyParams { channel: self.stream.channel, now: UNIX_EPOCH + Duration::from_micros(now) };
        self.asked = Some(self.connection.request(&match self.stream.direction {
            Direction::Out => Command::GetPlaybackLatency(asked),
            Direction::In => Command::GetRecordLatency(asked),
        })?);
        Ok(())
    }
}

/// How long the server is waited for at a time.
const PATIENCE: Duration = Duration::from_millis(50);
/// A cycle without a device.
const IDLE: Duration = Duration::from_millis(5);
/// A server that has not been heard for so many cycles, and so many microseconds, stands still.
const STALL_CYCLES: u64 = 8;
const LEAST_STALL: u64 = 200_000;
/// The same before the first cycle.
const FIRST_STALL: u64 = 2_000_000;
/// A server that goes on sends what it has kept within so many microseconds.
const CATCHES_UP: u64 = 1_000_000;
/// A stream begins with an empty buffer, for which the server reports an underflow.
const SETTLED_CYCLES: u64 = 20;
/// The longest cycle of late is forgotten within some of these.
const FADE: usize = 64;
/// How often the server is asked how long sound takes there.
const ASK_MICROS: u64 = 500_000;

#[cfg(test)]
mod tests;
