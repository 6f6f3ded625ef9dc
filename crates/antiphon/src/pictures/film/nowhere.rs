//! A listener that keeps nothing: what it would be shown is measured.

use std::io::{self, Write};

use super::live::{Input, Listener};

/// Takes all and keeps nothing.
pub(super) struct Nowhere;

impl Listener for Nowhere {
    type Input = Self;

    fn open(&self) -> io::Result<Self> {
        Ok(Nowhere)
    }

    fn begins_again(&self) -> bool {
        true
    }
}

impl Input for Nowhere {
    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) {}
}

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
