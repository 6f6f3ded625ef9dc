//! How the sinks of a receiver are opened and finished.

use antiphon_media::{Sink, SinkError, StreamFormat, Wants};
use antiphon_session::{Notice, OpenSink, Parties, ReceiveError, ReceiveTrack, Session, converted_sink};
use antiphon_sound::SinkSpec;

use super::opening::may_open;
use super::{Opened, SharedOpener};
use crate::pictures::Film;
use crate::{Error, SinkClock};

/// That the user has closed the player, in a sentence.
pub(crate) fn was_closed(session: &Session) -> Option<String> {
    let of_parties = session.parties().and_then(Parties::error);
    let error = session.receive_track().and_then(ReceiveTrack::error).or(of_parties);
    (error == Some(&ReceiveError::SinkClosed)).then(|| "the player was closed".into())
}

/// A track whose sink `opener` opens, if there is one.
pub(crate) fn opening(track: ReceiveTrack, opener: Option<&SharedOpener>, sink: &SinkSpec) -> ReceiveTrack {
    match opener {
        Some(opener) => track.open_when(may_open(opener, sink)),
        None => track,
    }
}

/// Rate and channels in which `sink` takes a stream of `format`.
pub(super) fn sink_format(sink: &SinkSpec, format: StreamFormat) -> Result<StreamFormat, String> {
    let rate = sink.rate.unwrap_or(format.rate());
    let channels = sink.channels.unwrap_or(format.channels() as u32);
    StreamFormat::new(rate, channels).map_err(|error| error.to_string())
}

/// Opens the sink when the format is known, in the rate and channels that the sink wants; `opener` may have opened it.
pub(crate) fn open_sink(
    (sink, mut film): (SinkSpec, Option<Film>),
    opener: Option<SharedOpener>,
    clock: SinkClock,
    mut tell: impl FnMut(Opened) + 'static,
) -> OpenSink {
    Box::new(move |format, sample| {
        let wanted = sink_format(&sink, format)?;
        let rate = wanted.rate();
        let opened = opener.as_ref().and_then(|opener| opener.borrow_mut().take((wanted, sample)));
        let opened = match (&mut film, opened) {
            (Some(film), _) => film.open(wanted),
            (None, Some(opened)) => opened,
            (None, None) => sink.open(wanted, sample),
        };
        let opened = opened.map_err(|error| error.to_string())?;
        let told = Opened { notes: opened.notes, path: opened.path, rate, device: opened.device };
        tell(told);
        // The player converts to the rate of a device, with its drift.
        let rate = if opened.sink.clocked() { opened.sink.format().rate() } else { format.rate() };
        let given = StreamFormat::new(rate, format.channels() as u32).map_err(|error| error.to_string())?;
        let sink = converted_sink(opened.sink, given).map_err(|error| error.to_string())?;
        Ok(match clock {
            SinkClock::System if !sink.clocked() => Box::new(Paced(sink)),
            _ => sink,
        })
    })
}

/// A sink that takes sound at this machine's pace, whatever the sender's clock does.
struct Paced(Box<dyn Sink>);

impl Sink for Paced {
    fn format(&self) -> StreamFormat {
        self.0.format()
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.0.push(block)
    }

    fn clocked(&self) -> bool {
        true
    }

    fn wants(&self) -> Option<Wants> {
        None
    }

    fn period(&self) -> Option<usize> {
        self.0.period()
    }

    fn room(&self) -> usize {
        self.0.room()
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        self.0.silence(frames)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.finish()
    }
}

/// Finishes the sink; returns the notices not reported yet.
pub(crate) fn finish(session: &mut Session, notes: &mut Vec<String>) -> Result<Vec<Notice>, Error> {
    let Some(track) = session.receive_track_mut() else { return Ok(Vec::new()) };
    let (error, counters) = (track.error().cloned(), track.counters());
    if counters.overrun_frames > 0 {
        notes.push(format!("{} sample frames dropped because the sink is too slow", counters.overrun_frames));
    }
    let notices = std::iter::from_fn(|| track.poll_notice()).collect();
    if let Some(Err(cause)) = track.take_sink().map(|mut sink| sink.finish()) {
        return Err(Error::failed(cause.to_string()));
    }
    match error {
        Some(ReceiveError::SinkClosed) | None => Ok(notices),
        Some(error) => Err(Error::failed(error.to_string())),
    }
}
