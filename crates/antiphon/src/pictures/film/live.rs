//! Sound and pictures for a listener: both in one Matroska stream, each as it is due.
//!
//! Nothing waits for what is late. Sound that the listener does not take in time is left out, and pictures that can't be decoded, since
//! others are missing, until the next key frame. The stream begins with a key frame, or with the sound alone when none comes; a
//! player is started again when pictures come after all, or others than before.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use antiphon_core::MediaTime;
use antiphon_measure::LipSync;
use antiphon_media::StreamFormat;
use antiphon_sound::{Deposit, Outlet, OutletWriter};
use antiphon_video::{Codec, Frame, MatroskaWriter, StreamInfo, WriteError};

use super::Shared;
use super::deposit::{BLOCK, as_io, audio, position_nanos};
use super::incoming::{Incoming, Policy};
use super::sync::SyncMeter;
use crate::pictures::queue::Out;

/// What a live stream is written to, which can be opened, and perhaps once more.
pub(super) trait Listener: Send {
    type Input: Input;

    fn open(&self) -> io::Result<Self::Input>;

    fn begins_again(&self) -> bool;
}

/// An opened listener.
pub(super) trait Input: Write + Send {
    /// Whether it is still there.
    fn check(&mut self) -> io::Result<()>;

    /// Nothing more will come.
    fn finish(&mut self);
}

impl Listener for Outlet {
    type Input = OutletWriter;

    fn open(&self) -> io::Result<OutletWriter> {
        Outlet::open(self)
    }

    fn begins_again(&self) -> bool {
        Outlet::begins_again(self)
    }
}

impl Input for OutletWriter {
    fn check(&mut self) -> io::Result<()> {
        OutletWriter::check(self)
    }

    fn finish(&mut self) {
        OutletWriter::finish(self);
    }
}

/// The stream being written.
pub(super) struct LiveDeposit<L: Listener> {
    format: StreamFormat,
    listener: L,
    state: State<L::Input>,
    incoming: Incoming,
    /// Sample frames taken.
    position: u64,
    /// Pictures written to listeners before.
    written: u64,
}

enum State<I: Write> {
    /// The listener is not there yet.
    Closed,
    /// It waits for a key frame.
    Waiting(BufWriter<I>),
    /// It gets what comes.
    Playing(Playing<I>),
}

struct Playing<I: Write> {
    writer: MatroskaWriter<BufWriter<I>>,
    /// How its pictures are compressed; `None`: it gets sound alone.
    codec: Option<Codec>,
    /// The place at which it began: times count from there.
    base: Duration,
}

impl<L: Listener> LiveDeposit<L> {
    /// Pictures that are not whole wait for `grace` after their place in the sound has come.
    pub fn new(
        listener: L,
        format: StreamFormat,
        packets: Out,
        shared: Arc<Shared>,
        grace: Duration,
    ) -> Self {
        let grace = i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX);
        let policy = Policy { grace, shown: true, any_codec: listener.begins_again() };
        LiveDeposit {
            format,
            state: State::Closed,
            listener,
            incoming: Incoming::new(packets, shared, policy),
            position: 0,
            written: 0,
        }
    }

    /// Brings everything up to the place of the sound, of which so many sample frames follow at once.
    fn advance(&mut self, following: usize) -> Result<(), WriteError> {
        if matches!(self.state, State::Closed) {
            self.state = State::Waiting(BufWriter::new(self.listener.open()?));
        }
        let at = self.now();
        self.incoming.take_packets(position_nanos(self.position, self.format));
        self.leave_out(at);
        let until = self.time_of(self.position + following as u64);
        if self.needs_other_listener(until) {
            self.state = State::Waiting(BufWriter::new(self.listener.open()?));
        }
        self.begin(until)?;
        self.write_first(self.due(until))?;
        self.count();
        Ok(())
    }

    fn now(&self) -> Duration {
        self.time_of(self.position)
    }

    fn time_of(&self, position: u64) -> Duration {
        MediaTime::new(position, self.format.rate()).duration()
    }

    /// How many of the pictures that wait are due, as they are in the order of decoding: those up to the last one whose place comes before
    /// `until`. One that is too late to be shown with its sound waits for the next that is not: then a player decodes it, and does not show it.
    fn due(&self, until: Duration) -> usize {
        let due_before = |until: Duration| {
            let is_due = |frame: &Frame| frame.time.duration() < until && !self.is_too_late(frame);
            self.incoming.frames.iter().rposition(is_due).map_or(0, |last| last + 1)
        };
        let due = due_before(until);
        // One that is early leaves the screen to those before it until its own time has come.
        match self.incoming.frames.range(..due).any(|frame| self.is_too_late(frame)) {
            true => due_before(self.now() + Duration::from_nanos(1)),
            false => due,
        }
    }

    fn is_too_late(&self, frame: &Frame) -> bool {
        frame.time.duration() + LipSync::SKEW < self.now()
    }

    /// Leaves out what is late: nothing needs it, or a newer picture is due that needs none.
    fn leave_out(&mut self, at: Duration) {
        let grace = self.incoming.grace();
        let late = |frame: &Frame| frame.time.duration() + grace < at;
        let waiting = self.incoming.frames.iter().filter(|frame| has_place(frame)).count();
        let due = self
            .incoming
            .frames
            .iter()
            .rposition(|frame| frame.time.duration() <= at)
            .map_or(0, |last| last + 1);
        if self.incoming.frames.front().is_some_and(late)
            && let Some(key) = self.incoming.frames.range(..due).rposition(|frame| frame.picture.key)
        {
            self.incoming.frames.drain(..key);
        }
        self.incoming.frames.retain(|frame| !frame.picture.droppable || !late(frame));
        let left = self.incoming.frames.iter().filter(|frame| has_place(frame)).count();
        self.incoming.sync().on_too_late(waiting - left);
        // A sender may say of any picture that it belongs to next week.
        while self.incoming.is_full() {
            self.incoming.frames.pop_front();
            self.incoming.break_chain();
        }
    }

    /// Whether a key frame is due that the listener's stream has no place for.
    fn needs_other_listener(&self, until: Duration) -> bool {
        let State::Playing(playing) = &self.state else { return false };
        let mut due = self.incoming.frames.range(..self.due(until)).filter(|frame| frame.picture.key);
        self.listener.begins_again() && due.any(|frame| playing.codec != Some(frame.codec))
    }

    /// Begins the stream with the key frame that is due, or without one when it has been waited for long enough.
    fn begin(&mut self, until: Duration) -> Result<(), WriteError> {
        if !matches!(self.state, State::Waiting(_)) {
            return Ok(());
        }
        let waited = self.now();
        let first = self.incoming.frames.range(..self.due(until)).position(|frame| frame.picture.key);
        let patience = match (self.incoming.codec(), self.listener.begins_again()) {
            (None, _) => FOR_PICTURES,
            (Some(_), true) => FOR_A_KEY_FRAME,
            (Some(_), false) => FOR_THE_ONLY_KEY_FRAME,
        };
        if first.is_none() && waited < patience {
            return Ok(());
        }
        let State::Waiting(input) = std::mem::replace(&mut self.state, State::Closed) else { return Ok(()) };
        if let Some(first) = first {
            self.incoming.frames.drain(..first);
        }
        let key = self.incoming.frames.front().filter(|_| first.is_some());
        let codec = key.map(|frame| frame.codec);
        // Times begin with the first picture that is shown, or the sound.
        let shown =
            self.incoming.frames.iter().find(|frame| !self.is_too_late(frame)).filter(|_| key.is_some());
        let base = shown.map_or(waited, |frame| frame.time.duration().min(waited));
        let info = StreamInfo::new(codec.unwrap_or(Codec::H264));
        let mut writer = MatroskaWriter::new(input, info, Some(audio(self.format)));
        if codec.is_none() {
            writer.begin_without_video()?;
        }
        self.state = State::Playing(Playing { writer, codec, base });
        Ok(())
    }

    fn write_first(&mut self, count: usize) -> Result<(), WriteError> {
        let now = self.now();
        let State::Playing(playing) = &mut self.state else { return Ok(()) };
        let of_it = self.incoming.frames.range(..count).filter(|frame| playing.codec == Some(frame.codec));
        note_shown(&mut self.incoming.sync(), now, of_it.map(|frame| frame.time.duration()));
        for frame in self.incoming.frames.drain(..count) {
            // A stream that can't begin again goes on without pictures that it has no place for.
            if playing.codec == Some(frame.codec) {
                let time = media_time(frame.time.duration().saturating_sub(playing.base));
                playing.writer.write_frame(&Frame { time, ..frame })?;
                self.written += 1;
            }
        }
        Ok(())
    }

    fn write_sound(&mut self, samples: &[f32]) -> Result<(), WriteError> {
        let channels = self.format.channels();
        for part in samples.chunks(BLOCK * channels) {
            self.advance(part.len() / channels)?;
            let at = self.now();
            if let State::Playing(playing) = &mut self.state {
                let time = media_time(at.saturating_sub(playing.base));
                playing.writer.write_samples(time, part)?;
            }
            self.position += (part.len() / channels) as u64;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Closed => Ok(()),
            State::Waiting(input) => input.get_mut().check(),
            State::Playing(playing) => playing.writer.flush(),
        }
    }

    fn count(&self) {
        if self.written > 0 {
            self.incoming.count_written(self.written);
        }
    }

    fn end(&mut self) -> Result<(), WriteError> {
        self.advance(0)?;
        self.incoming.finish();
        self.begin(Duration::MAX)?;
        self.write_first(self.due(Duration::MAX))?;
        self.count();
        self.flush()?;
        Ok(())
    }

    fn finish(&mut self) {
        let input = match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => return,
            State::Waiting(input) => Some(input),
            State::Playing(playing) => playing.writer.finish().ok(),
        };
        if let Some(mut input) = input {
            let _it_may_be_gone = input.flush();
            input.get_mut().finish();
        }
    }
}

impl<L: Listener> Deposit for LiveDeposit<L> {
    fn store(&mut self, samples: &[f32]) -> io::Result<()> {
        self.write_sound(samples).map_err(as_io)?;
        self.flush()
    }

    fn skip(&mut self, frames: u64) -> io::Result<()> {
        self.position += frames;
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.advance(0).map_err(as_io)?;
        self.flush()?;
        match &mut self.state {
            State::Playing(playing) => playing.writer.get_mut().get_mut().check(),
            _ => Ok(()),
        }
    }

    fn close(&mut self) -> io::Result<()> {
        let ended = match self.state {
            State::Closed => Ok(()),
            _ => self.end().map_err(as_io),
        };
        self.finish();
        ended
    }

    fn bytes(&self) -> u64 {
        self.position * self.frame_bytes()
    }

    fn frame_bytes(&self) -> u64 {
        2 * self.format.channels() as u64
    }
}

/// What a player shows of pictures that it is given at once when the sound stands at `now`: of those that are not early the newest, and the
/// early ones at their times.
fn note_shown(sync: &mut SyncMeter, now: Duration, times: impl Iterator<Item = Duration> + Clone) {
    let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let newest = times.clone().filter(|time| *time <= now).max();
    let mut replaced = 0;
    for time in times {
        match time <= now && newest != Some(time) {
            true => replaced += usize::from(!time.is_zero()),
            false => sync.on_shown(nanos(time.max(now)), nanos(time)),
        }
    }
    sync.on_too_late(replaced);
}

/// Whether a picture does not belong before the beginning: such a one is only decoded.
fn has_place(frame: &Frame) -> bool {
    frame.time.frames > 0
}

fn media_time(time: Duration) -> MediaTime {
    MediaTime::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1_000_000_000)
}

/// How long a listener waits for a first packet of pictures before the sound begins alone: longer than between two pictures of 2.75 Hz.
const FOR_PICTURES: Duration = Duration::from_millis(500);
/// How long it waits for a key frame of those that come. Files often have one every 2 s; a player is started again with it.
const FOR_A_KEY_FRAME: Duration = Duration::from_secs(3);
/// The same where the stream can't begin again: what x264 and other encoders have between two, 250 pictures of 25 Hz.
const FOR_THE_ONLY_KEY_FRAME: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests;
