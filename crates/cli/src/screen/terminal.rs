//! The terminal of the screen: its other buffer is shown while the screen is open, and on every way out the first one again.

use std::io::{self, Write};
use std::sync::{Mutex, Once, TryLockError};
use std::time::Duration;

use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::ResetColor;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};

/// Whether the screen is open. Held while something is written to it.
static OPEN: Mutex<bool> = Mutex::new(false);

/// Collects a picture and writes it at once, so that none is seen half drawn.
#[derive(Default)]
pub struct Out(Vec<u8>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let picture = std::mem::take(&mut self.0);
        let open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !*open || picture.is_empty() {
            return Ok(());
        }
        let mut terminal = io::stderr().lock();
        terminal.write_all(&picture)?;
        terminal.flush()
    }
}

/// Shows the other buffer. A panic leaves it before its message is printed.
pub fn enter() -> io::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
    let mut open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    execute!(io::stderr(), EnterAlternateScreen, Hide)?;
    *open = true;
    Ok(())
}

/// Shows the first buffer again, and leaves the terminal as it was; also before the program is ended.
pub fn restore() {
    for _ in 0..PATIENCE {
        let open = match OPEN.try_lock() {
            Ok(open) => Some(open),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut open) = open {
            if std::mem::take(&mut *open) {
                // A terminal that is gone needs nothing.
                let _gone = execute!(io::stderr(), ResetColor, LeaveAlternateScreen, Show);
            }
            break;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    crate::keys::restore();
}

/// How often a picture that is being written is waited for. A terminal that takes nothing must not hold up the end.
const PATIENCE: u32 = 20;
