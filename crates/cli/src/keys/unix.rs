//! Single keys from the terminal, while a stream runs.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Mutex;

use rustix::process::getpgrp;
use rustix::stdio::stdin;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// How the terminal was, while keys are read from it.
static BEFORE: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Reads keys for as long as it exists.
pub struct Keys;

impl Keys {
    /// Hands each key to `on_key`, on a thread of its own; `None` if standard input is no terminal of ours.
    pub fn watch(on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        let input = stdin().try_clone_to_owned().ok()?;
        Self::read(File::from(input), true, on_key)
    }

    /// The same from the terminal of this program, whatever standard input is. Ctrl-Z does nothing there: it would leave the
    /// terminal as it is now to the shell.
    pub fn watch_terminal(on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        Self::read(File::open("/dev/tty").ok()?, false, on_key)
    }

    fn read(mut terminal: File, suspends: bool, on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        // A job in the background would be stopped for changing the terminal.
        let (before, owner) = (tcgetattr(&terminal).ok()?, tcgetpgrp(&terminal).ok()?);
        if owner != getpgrp() {
            return None;
        }
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        if !suspends {
            // Zero switches a special key off (termios(3), _POSIX_VDISABLE of Linux).
            keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
        }
        let held = terminal.as_fd().try_clone_to_owned().ok()?;
        let read = move || {
            let mut key = [0];
            while let Ok(1) = terminal.read(&mut key) {
                on_key(key[0]);
            }
        };
        // It ends with the program: nothing ends the wait for a key.
        std::thread::Builder::new().name("keys".into()).spawn(read).ok()?;
        let mut changed = BEFORE.lock().ok()?;
        tcsetattr(&held, OptionalActions::Now, &keys).ok()?;
        *changed = Some((File::from(held), before));
        Some(Keys)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        restore();
    }
}

/// Leaves the terminal as it was; also before the program is ended.
pub fn restore() {
    let before = BEFORE.lock().ok().and_then(|mut before| before.take());
    if let Some((terminal, before)) = before {
        // Without a terminal there is nothing to restore.
        let _gone = tcsetattr(&terminal, OptionalActions::Now, &before);
    }
}
