//! Single keys from the console, while a stream runs.
#![allow(unsafe_code, reason = "the modes of a console have no safe interface")]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::sync::Mutex;

use windows_sys::Win32::System::Console::{
    CONSOLE_MODE, ENABLE_ECHO_INPUT, ENABLE_LINE_INPUT, GetConsoleMode, SetConsoleMode,
};

/// How the console was, while keys are read from it.
static BEFORE: Mutex<Option<(File, CONSOLE_MODE)>> = Mutex::new(None);

/// Reads keys for as long as it exists.
pub struct Keys;

impl Keys {
    /// Hands each key to `on_key`, on a thread of its own; `None` if standard input is no console.
    pub fn watch(on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        let input = std::io::stdin().as_handle().try_clone_to_owned().ok()?;
        Self::read(File::from(input), on_key)
    }

    /// The same from the console of this program, whatever standard input is.
    pub fn watch_terminal(on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        // Its modes are set only with the right to write.
        Self::read(OpenOptions::new().read(true).write(true).open("CONIN$").ok()?, on_key)
    }

    fn read(mut console: File, on_key: impl Fn(u8) + Send + 'static) -> Option<Keys> {
        let mut before = 0;
        // SAFETY: the handle is open as long as the file; what is no console is answered with an error.
        if unsafe { GetConsoleMode(console.as_raw_handle(), &raw mut before) } == 0 {
            return None;
        }
        let held = console.try_clone().ok()?;
        let read = move || {
            let mut key = [0];
            while let Ok(1) = console.read(&mut key) {
                on_key(key[0]);
            }
        };
        // It ends with the program: nothing ends the wait for a key.
        std::thread::Builder::new().name("keys".into()).spawn(read).ok()?;
        let mut changed = BEFORE.lock().ok()?;
        set(&held, before & !(ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT))?;
        *changed = Some((held, before));
        Some(Keys)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        restore();
    }
}

/// Leaves the console as it was; also before the program is ended.
pub fn restore() {
    let before = BEFORE.lock().ok().and_then(|mut before| before.take());
    if let Some((console, before)) = before {
        // Without a console there is nothing to restore.
        let _gone = set(&console, before);
    }
}

fn set(console: &File, mode: CONSOLE_MODE) -> Option<()> {
    // SAFETY: the handle is open as long as the file.
    (unsafe { SetConsoleMode(console.as_raw_handle(), mode) } != 0).then_some(())
}
