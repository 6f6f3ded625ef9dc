//! The terminal screen of a running stream (`--screen`).
//!
//! A thread of its own draws it five times a second from a copy of the states and notices ([`Model`]), so that a terminal
//! that blocks delays nothing else. What figures mean, and what to do, is the library's ([`antiphon::StreamLog`]).

mod panels;
mod parts;
pub mod terminal;
mod view;

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon::core::Instant;
use antiphon::net::OsClock;
use antiphon::{
    Error, Latency, MuteSwitch, ProgrammeChoice, Programmes, ReceiveStatus, SendStatus, Stop, StreamLog,
    TalkStatus,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::args::Global;
use crate::keys::Keys;
use crate::output::Output;
use crate::{programmes, signals};
use terminal::Out;
pub use view::View;

/// The stream that is shown.
pub struct Subject {
    /// The command: `receive`.
    pub command: &'static str,
    /// URI of the stream.
    pub uri: String,
    /// Playout delay asked for at this end.
    pub latency: Option<Latency>,
    /// In a call, what mutes this end.
    pub mute: Option<MuteSwitch>,
    /// At a receiver, what chooses its sender's programme.
    pub programme: Option<ProgrammeChoice>,
}

/// The last state of a stream.
#[derive(Clone, Debug)]
pub enum State {
    /// Of `send`.
    Send(Box<SendStatus>),
    /// Of `receive`.
    Receive(Box<ReceiveStatus>),
    /// Of `talk`.
    Talk(Box<TalkStatus>),
}

/// All that is drawn.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub command: &'static str,
    pub uri: String,
    pub latency: Option<Latency>,
    pub can_mute: bool,
    pub log: StreamLog,
    pub state: Option<State>,
    pub stopping: bool,
}

impl Model {
    pub fn new(subject: &Subject) -> Self {
        Model {
            command: subject.command,
            uri: subject.uri.clone(),
            latency: subject.latency,
            can_mute: subject.mute.is_some(),
            log: StreamLog::new(&subject.uri),
            ..Model::default()
        }
    }

    /// The programmes of the sender that is heard, if there is a choice.
    pub fn programmes(&self) -> Option<&Programmes> {
        let Some(State::Receive(status)) = &self.state else { return None };
        status.programmes.as_ref().filter(|known| known.heard().is_some())
    }

    /// The stream has a new state.
    pub fn on_state(&mut self, now: Instant, state: State) {
        match &state {
            State::Send(status) => self.log.on_sent(now, status),
            State::Receive(status) => self.log.on_received(now, status),
            State::Talk(status) => self.log.on_talk(now, status),
        }
        self.state = Some(state);
    }
}

/// The screen, while it is open.
pub struct Screen {
    model: Arc<Mutex<Model>>,
    drawing: Option<(Sender<Told>, JoinHandle<()>)>,
    keys: Option<Keys>,
    clock: OsClock,
    /// The newest notices, which are printed when the screen has closed.
    notices: Vec<String>,
}

/// What the drawing thread is told.
enum Told {
    Key(u8),
    Close,
}

/// Refuses a screen where there is no place for one.
pub fn check(asked: bool, global: &Global, output: &Output) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::usage(why));
    match asked {
        false => Ok(()),
        true if global.json => refuse("--screen and --json show the same figures: choose one"),
        true if global.quiet => refuse("--screen shows what --quiet silences: choose one"),
        true if !output.draws => refuse(
            "--screen needs a terminal on standard error, and TERM other than dumb: omit --screen to get plain lines",
        ),
        true => Ok(()),
    }
}

impl Screen {
    /// Opens it.
    pub fn open(subject: &Subject, output: &Output, stop: &Stop) -> Result<Self, Error> {
        let cannot = |why: String| {
            Error::usage(format!(
                "--screen cannot use this terminal: {why}; omit --screen to get plain lines"
            ))
        };
        let model = Arc::new(Mutex::new(Model::new(subject)));
        let (tell, told) = channel();
        let (keys_tell, mute) = (tell.clone(), subject.mute.clone());
        let on_key = move |key| match (key, &mute) {
            (b'm' | b'M', Some(mute)) => {
                mute.toggle();
            }
            // As Ctrl-C: the first asks, the second ends at once.
            (b'q' | b'Q', _) => signals::interrupt(),
            _ => {
                let _closed = keys_tell.send(Told::Key(key));
            }
        };
        let keys = Keys::watch_terminal(on_key).ok_or_else(|| {
            cannot("this program runs in the background, or without a terminal to read keys from".into())
        })?;
        terminal::enter().map_err(|error| cannot(error.to_string()))?;
        let mut screen = Screen {
            model: model.clone(),
            drawing: None,
            keys: Some(keys),
            clock: output.clock(),
            notices: Vec::new(),
        };
        let mut terminal = Terminal::new(CrosstermBackend::new(Out::default()))
            .map_err(|error| cannot(error.to_string()))?;
        let (mut view, stop, programme) =
            (View::new(output.screen_coloured), stop.clone(), subject.programme.clone());
        let draw = move || {
            loop {
                let mut shown = lock(&model).clone();
                shown.stopping = stop.is_asked();
                // A terminal that is gone shows nothing; the stream goes on.
                let _gone = terminal.draw(|frame| view.draw(frame, &shown));
                match told.recv_timeout(REDRAW) {
                    Ok(Told::Key(key)) => match (&programme, shown.programmes()) {
                        (Some(choice), Some(known)) if programmes::on_key(key, known, choice) => {}
                        _ => view.on_key(key, &shown),
                    },
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(Told::Close) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name("screen".into()).spawn(draw);
        screen.drawing = Some((tell, thread.map_err(|error| cannot(error.to_string()))?));
        Ok(screen)
    }

    /// The stream has a new state.
    pub fn state(&mut self, state: State) {
        lock(&self.model).on_state(self.clock.now(), state);
    }

    /// The user is told something.
    pub fn notice(&mut self, text: &str) {
        lock(&self.model).log.on_notice(self.clock.now(), text);
        if self.notices.len() == MOST_NOTICES {
            self.notices.remove(0);
        }
        self.notices.push(text.into());
    }

    /// Closes it; returns the notices that it has shown.
    pub fn close(mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some((tell, thread)) = self.drawing.take() {
            let _ended = tell.send(Told::Close);
            // If it has panicked, the panic was reported.
            let _reported = thread.join();
        }
        terminal::restore();
        self.keys = None;
    }
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

const REDRAW: Duration = Duration::from_millis(200);
/// Notices that are kept for the end.
const MOST_NOTICES: usize = 100;

#[cfg(test)]
mod tests;
