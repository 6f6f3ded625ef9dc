//! The modes of a console on Windows. `None` says that there is none.
#![allow(unsafe_code, reason = "the modes of a console have no safe interface")]

use std::fs::{File, OpenOptions};
use std::os::windows::io::{AsHandle, AsRawHandle};

use windows_sys::Win32::System::Console::{
    ENABLE_ECHO_INPUT, ENABLE_LINE_INPUT, GetConsoleMode, SetConsoleMode,
};

pub(super) use windows_sys::Win32::System::Console::CONSOLE_MODE as Modes;

pub(super) fn standard_input() -> Option<File> {
    Some(File::from(std::io::stdin().as_handle().try_clone_to_owned().ok()?))
}

pub(super) fn own_terminal() -> Option<File> {
    // Its modes are set only with the right to write.
    OpenOptions::new().read(true).write(true).open("CONIN$").ok()
}

/// The modes that it has, and those in which keys come one by one; no key suspends a program here.
pub(super) fn modes(console: &File, _suspends: bool) -> Option<(Modes, Modes)> {
    let mut before = 0;
    // SAFETY: the handle is open as long as the file; what is no console is answered with an error.
    let is_console = unsafe { GetConsoleMode(console.as_raw_handle(), &raw mut before) } != 0;
    is_console.then_some((before, before & !(ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT)))
}

pub(super) fn set(console: &File, modes: &Modes) -> Option<()> {
    // SAFETY: the handle is open as long as the file.
    (unsafe { SetConsoleMode(console.as_raw_handle(), *modes) } != 0).then_some(())
}
