//! A program that plays what it reads on its standard input: mpv, ffplay, or any other by its path.
//!
//! It is started on the thread that writes, as starting one takes milliseconds, and ended with the stream: its input ends, then it
//! has a while to play what it has, then it is killed. None is left behind.

mod find;
mod spec;

use std::fs::File;
use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use antiphon_media::{Sink, SinkError, StreamFormat, Wants};

pub use find::Program;
pub use spec::PlayerSpec;

use crate::os;
use crate::record::RecordSink;

/// What stands in the title of a player's window behind the program's name, once it is known: whose pictures they are.
#[derive(Clone, Debug, Default)]
pub struct Title(Arc<OnceLock<String>>);

impl Title {
    /// Tells it. Only the first time counts.
    pub fn set(&self, text: String) {
        let _known_already = self.0.set(text);
    }

    /// Waits a moment until it is known.
    fn get_soon(&self) -> Option<&str> {
        for _ in 0..TITLE_PATIENCE.as_millis() / LOOK_AGAIN.as_millis() {
            if self.0.get().is_some() {
                break;
            }
            thread::park_timeout(LOOK_AGAIN);
        }
        self.0.get().map(String::as_str)
    }
}

/// A player that runs, or did.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    program: Program,
    title: Option<Title>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    child: Mutex<Option<Child>>,
    /// It ended by itself, as its user closed it.
    closed: AtomicBool,
    /// It ended by itself, as it failed: how, in words.
    failed: Mutex<Option<String>>,
}

impl Player {
    pub fn new(program: Program, title: Option<Title>) -> Self {
        Player { program, title, shared: Arc::default() }
    }

    /// Starts it; what is written to the file is what it plays. One that runs already is ended.
    pub fn start(&self) -> io::Result<File> {
        let mut child = self.child();
        if let Some(before) = child.take() {
            end(before);
        }
        let mut command = Command::new(&self.program.path);
        // A group of its own: what a script starts ends with it.
        let arguments = self.program.arguments_for(self.title.as_ref().and_then(Title::get_soon));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
        in_group_of_its_own(&mut command);
        let mut started = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot be started: {error}")))?;
        let input = started.stdin.take().expect("a pipe was asked for");
        *child = Some(started);
        let input = os::input_of(input);
        // What waits in the pipe while a player opens its window is heard late for ever.
        os::shorten_pipe(&input, PIPE_BYTES);
        Ok(input)
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        let mut child = self.child();
        let status = child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        status.inspect(|status| self.note(*status)).is_some()
    }

    /// It reads no more: waits a little for its end, and ends it otherwise.
    pub fn on_closed_input(&self) {
        if !self.wait(REASON_PATIENCE) {
            *self.failed() = Some("reads no more".into());
            self.kill();
        }
    }

    /// Its input has ended: waits until it has played what it has.
    pub fn finish(&self) {
        if !self.wait(LAST_PATIENCE) {
            self.kill();
        }
    }

    /// Ends it.
    pub fn kill(&self) {
        if let Some(child) = self.child().take() {
            end(child);
        }
    }

    /// Waits so long for its end; returns whether it has ended, or was never there.
    fn wait(&self, patience: Duration) -> bool {
        for _ in 0..patience.as_millis() / LOOK_AGAIN.as_millis() {
            if self.child().is_none() || self.has_ended() {
                return true;
            }
            thread::park_timeout(LOOK_AGAIN);
        }
        self.has_ended()
    }

    fn note(&self, status: ExitStatus) {
        match self.program.was_closed(status) {
            true => self.shared.closed.store(true, Ordering::Release),
            false => *self.failed() = Some(format!("ended with {status}")),
        }
    }

    fn was_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.shared.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, Option<String>> {
        self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it failed, and what to do.
    fn failure(&self) -> Option<String> {
        let how = self.failed().clone()?;
        let name = self.program.name();
        Some(format!(
            "the player '{name}' {how}: what it says stands above; name another one with player:/PATH/TO/PROGRAM"
        ))
    }
}

/// Ends a player, and what it started in its group.
fn end(mut child: Child) {
    if let Ok(None) = child.try_wait() {
        kill_group(&mut child);
        let _is_no_zombie = child.wait();
    }
}

#[cfg(unix)]
fn in_group_of_its_own(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(unix)]
fn kill_group(child: &mut Child) {
    use nix::sys::signal::{Signal, killpg};
    let group = i32::try_from(child.id()).map(nix::unistd::Pid::from_raw);
    let _has_ended = group.map(|group| killpg(group, Signal::SIGKILL));
}

/// Ctrl-C in our console is not for the player.
#[cfg(windows)]
fn in_group_of_its_own(command: &mut Command) {
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    std::os::windows::process::CommandExt::creation_flags(command, CREATE_NEW_PROCESS_GROUP);
}

/// The player alone: Windows ends no group at once.
#[cfg(windows)]
fn kill_group(child: &mut Child) {
    let _has_ended = child.kill();
}

/// Where a live stream of sound and pictures goes to.
#[derive(Clone, Debug)]
pub struct Outlet(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Stdout,
    Player(Player),
}

impl Outlet {
    pub(crate) fn stdout() -> Self {
        Outlet(Kind::Stdout)
    }

    pub(crate) fn player(player: Player) -> Self {
        Outlet(Kind::Player(player))
    }

    /// Opens it: starts the player. Blocks for milliseconds.
    pub fn open(&self) -> io::Result<OutletWriter> {
        let file = match &self.0 {
            Kind::Stdout => {
                let output = os::stdout()?;
                if os::is_stream(&output) {
                    os::shorten_pipe(&output, PIPE_BYTES);
                }
                output
            }
            Kind::Player(player) => player.start()?,
        };
        Ok(OutletWriter { file: Some(file), kind: self.0.clone() })
    }

    /// Whether it can be opened once more, for a stream of another kind.
    pub fn begins_again(&self) -> bool {
        matches!(self.0, Kind::Player(_))
    }
}

/// What is written to an [`Outlet`].
#[derive(Debug)]
pub struct OutletWriter {
    file: Option<File>,
    kind: Kind,
}

impl OutletWriter {
    /// Notices a player that has ended although nothing is written.
    pub fn check(&mut self) -> io::Result<()> {
        match &self.kind {
            Kind::Player(player) if player.has_ended() => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }

    /// Nothing more is written: waits until a player has ended, and ends it if it does not.
    pub fn finish(&mut self) {
        let Some(file) = self.file.take() else { return };
        // The player waits for the end of its input.
        drop(file);
        if let Kind::Player(player) = &self.kind {
            player.finish();
        }
    }
}

impl Write for OutletWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let written = file.write(bytes);
        if let (Err(error), Kind::Player(player)) = (&written, &self.kind)
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            player.on_closed_input();
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutletWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Sound for a player: one that its user has closed is no failure, and none is left behind.
pub(crate) struct PlayerSink {
    inner: RecordSink,
    player: Player,
}

impl PlayerSink {
    pub fn new(inner: RecordSink, player: Player) -> Self {
        PlayerSink { inner, player }
    }

    fn closed(&self, result: Result<(), SinkError>) -> Result<(), SinkError> {
        match result {
            Err(SinkError::Failed) if self.player.was_closed() => Err(SinkError::Closed),
            other => other,
        }
    }
}

impl Sink for PlayerSink {
    fn format(&self) -> StreamFormat {
        self.inner.format()
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        let pushed = self.inner.push(block);
        self.closed(pushed)
    }

    fn clocked(&self) -> bool {
        self.inner.clocked()
    }

    fn wants(&self) -> Option<Wants> {
        self.inner.wants()
    }

    fn period(&self) -> Option<usize> {
        self.inner.period()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        let taken = self.inner.silence(frames);
        self.closed(taken)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let finished = self.inner.finish();
        // A player that is paused holds up its writer.
        self.player.kill();
        match self.player.failure() {
            Some(why) => Err(SinkError::Cause(why)),
            None if self.player.was_closed() => Ok(()),
            None => finished,
        }
    }
}

impl Drop for PlayerSink {
    fn drop(&mut self) {
        self.player.kill();
    }
}

/// What a player's pipe holds: the least in Linux (pipe(7)), 20 ms of 16-bit stereo at 48 kHz.
const PIPE_BYTES: usize = 4096;
/// How long a player that reads no more may take to end.
const REASON_PATIENCE: Duration = Duration::from_secs(1);
/// How long it may play after its input has ended: less than [`RecordSink`] waits for its writer.
const LAST_PATIENCE: Duration = Duration::from_secs(3);
/// How long the start of a player waits for its title. It is told as soon as the sink is open.
const TITLE_PATIENCE: Duration = Duration::from_millis(50);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
