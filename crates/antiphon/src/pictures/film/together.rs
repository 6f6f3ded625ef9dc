//! Several recordings of one sound, each with pictures of its own.

use std::io;

use antiphon_sound::Deposit;

use super::deposit::{FilmDeposit, Medium};

/// They are written by turns; the first that fails ends all.
pub(super) struct Together<M> {
    first: FilmDeposit<M>,
    others: Vec<FilmDeposit<M>>,
}

impl<M: Medium> Together<M> {
    /// The first one is what the recording is measured by.
    pub fn new(first: FilmDeposit<M>, others: Vec<FilmDeposit<M>>) -> Self {
        Together { first, others }
    }

    fn each(&mut self, mut act: impl FnMut(&mut FilmDeposit<M>) -> io::Result<()>) -> io::Result<()> {
        act(&mut self.first)?;
        self.others.iter_mut().try_for_each(act)
    }
}

impl<M: Medium> Deposit for Together<M> {
    fn store(&mut self, samples: &[f32]) -> io::Result<()> {
        self.each(|one| one.store(samples))
    }

    fn skip(&mut self, frames: u64) -> io::Result<()> {
        self.each(|one| one.skip(frames))
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.each(FilmDeposit::checkpoint)
    }

    fn close(&mut self) -> io::Result<()> {
        // One that can't be finished leaves the others as they are to be.
        let first = self.first.close();
        self.others.iter_mut().fold(first, |so_far, one| so_far.and(one.close()))
    }

    fn bytes(&self) -> u64 {
        self.first.bytes()
    }

    fn frame_bytes(&self) -> u64 {
        self.first.frame_bytes()
    }
}
