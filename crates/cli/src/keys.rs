//! Single keys from the terminal, while a stream runs. The systems differ in its modes.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::File;
use std::io::Read;
use std::sync::Mutex;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

/// How the terminal was, while keys are read from it.
static BEFORE: Mutex<Option<(File, system::Modes)>> = Mutex::new(None);

/// Reads keys for as long as it exists.
pub struct Keys;

impl Keys {
    /// Hands each key to `on_key`, on a thread of its own; `None` if standard input is no terminal of ours.
    pub fn watch(on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        Self::read(system::standard_input()?, true, on_key)
    }

    /// The same from the terminal of this program, whatever standard input is. Ctrl-Z does nothing there: it would leave the
    /// terminal as it is now to the shell.
    pub fn watch_terminal(on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        Self::read(system::own_terminal()?, false, on_key)
    }

    fn read(mut terminal: File, suspends: bool, on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        let (before, keys) = system::modes(&terminal, suspends)?;
        // Where there is no second handle or thread, no keys are read, as where there is no terminal.
        let held = terminal.try_clone().ok()?;
        let read = move || {
            let mut key = [0];
            while let Ok(1) = terminal.read(&mut key) {
                on_key(key[0]);
            }
        };
        // It ends with the program: nothing ends the wait for a key.
        std::thread::Builder::new().name("keys".into()).spawn(read).ok()?;
        let mut changed = BEFORE.lock().ok()?;
        system::set(&held, &keys)?;
        *changed = Some((held, before));
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
        let _gone = system::set(&terminal, &before);
    }
}
