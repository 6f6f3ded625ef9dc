//! The modes of a terminal on Unix. `None` says that it is none, or not ours.

use std::fs::File;

use rustix::process::getpgrp;
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcgetpgrp, tcsetattr};

pub(super) use rustix::termios::Termios as Modes;

pub(super) fn standard_input() -> Option<File> {
    Some(File::from(stdin().try_clone_to_owned().ok()?))
}

pub(super) fn own_terminal() -> Option<File> {
    File::open("/dev/tty").ok()
}

/// The modes that it has, and those in which keys come one by one.
pub(super) fn modes(terminal: &File, suspends: bool) -> Option<(Modes, Modes)> {
    // A job in the background would be stopped for changing the terminal.
    let (before, owner) = (tcgetattr(terminal).ok()?, tcgetpgrp(terminal).ok()?);
    if owner != getpgrp() {
        return None;
    }
    let mut keys = before.clone();
    keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    if !suspends {
        // Zero switches a special key off (termios(3), _POSIX_VDISABLE of Linux).
        keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
    }
    Some((before, keys))
}

pub(super) fn set(terminal: &File, modes: &Modes) -> Option<()> {
    tcsetattr(terminal, OptionalActions::Now, modes).ok()
}
