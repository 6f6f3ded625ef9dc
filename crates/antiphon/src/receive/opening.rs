//! Opens a device's sink on a thread of its own, as a sound server may take half a second to register many ports: meanwhile the media thread sends
//! what is captured and reads its socket.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;

use antiphon_media::{SampleFormat, StreamFormat};
use antiphon_session::MayOpen;
use antiphon_sound::{OpenError, OpenedSink, SinkKind, SinkSpec};

use crate::Error;
use crate::run::spawn;

/// A format, and how precise its samples are.
type Wanted = (StreamFormat, SampleFormat);
type Result = std::result::Result<OpenedSink, OpenError>;

/// Opens one sink. Its thread ends with it.
pub(crate) struct Opener {
    ask: mpsc::Sender<Wanted>,
    opened: mpsc::Receiver<Result>,
    /// What is being opened, or has been.
    asked: Option<Wanted>,
    done: Option<Result>,
}

/// For the media thread, whose closures share it.
pub(crate) type SharedOpener = Rc<RefCell<Opener>>;

impl Opener {
    /// For a sink that is a device's; `None` for others, which take no time. The thread is started here, so that it has no priority of a media thread.
    pub fn start(sink: &SinkSpec) -> std::result::Result<Option<SharedOpener>, Error> {
        let sink = match sink.kind {
            SinkKind::Jack(_) | SinkKind::Pulse(_) | SinkKind::Card(_) => sink.clone(),
            _ => return Ok(None),
        };
        let (ask, asked) = mpsc::channel::<Wanted>();
        let (tell, opened) = mpsc::channel();
        spawn("sink opening", move || {
            for (format, sample) in asked {
                if tell.send(sink.open(format, sample)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Some(Rc::new(RefCell::new(Opener { ask, opened, asked: None, done: None }))))
    }

    /// Begins to open a sink of that format, unless it has; returns whether [`Self::take`] has it.
    fn is_done(&mut self, wanted: Wanted) -> bool {
        if self.done.is_none() {
            match self.opened.try_recv() {
                Ok(done) => self.done = Some(done),
                Err(mpsc::TryRecvError::Empty) => {}
                // Only a panic ends the thread; the sink is opened where it is needed then.
                Err(mpsc::TryRecvError::Disconnected) => return true,
            }
        }
        match (self.asked, &self.done) {
            (None, _) => self.ask(wanted),
            (Some(asked), Some(_)) if asked != wanted => self.ask(wanted),
            (Some(_), done) => done.is_some(),
        }
    }

    fn ask(&mut self, wanted: Wanted) -> bool {
        (self.asked, self.done) = (Some(wanted), None);
        self.ask.send(wanted).is_err()
    }

    /// The sink of that format, if it has been opened, or why it could not be.
    pub fn take(&mut self, wanted: Wanted) -> Option<Result> {
        let is_it = self.asked == Some(wanted);
        self.asked.take_if(|_| is_it && self.done.is_some())?;
        self.done.take()
    }
}

/// Tells when a stream may begin, whose sink has the rate and channels that `sink` asks for, or its own.
pub(crate) fn may_open(opener: &SharedOpener, sink: &SinkSpec) -> MayOpen {
    let (opener, sink) = (opener.clone(), sink.clone());
    Box::new(move |format, sample| match super::sinks::sink_format(&sink, format) {
        Ok(wanted) => opener.borrow_mut().is_done((wanted, sample)),
        // Opening it says why not.
        Err(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ended_while_it_opened_a_sink_holds_nobody_up() {
        let (ask, asked) = mpsc::channel();
        let (tell, opened) = mpsc::channel();
        let mut opener = Opener { ask, opened, asked: None, done: None };
        let wanted = (StreamFormat::new(48_000, 2).unwrap(), SampleFormat::L16);
        assert!(!opener.is_done(wanted), "it is asked");
        assert!(!opener.is_done(wanted), "it has not answered");
        drop((asked, tell));
        assert!(opener.is_done(wanted));
        assert!(opener.take(wanted).is_none(), "it is opened where it is needed");
    }
}
