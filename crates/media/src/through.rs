//! Sources and sinks whose sound passes through a function, and which are otherwise those that they wrap.

use crate::{Pull, Ready, SampleFormat, Sink, SinkError, Source, StreamFormat, Wake, Wants};

/// `inner`, but pulled by `pull`, which pulls it. For functions that look at the sound or change it; the length stays that of
/// `inner`.
pub fn pulled_through<F>(inner: Box<dyn Source>, pull: F) -> Box<dyn Source>
where
    F: FnMut(&mut dyn Source, &mut [f32]) -> Pull + Send + 'static,
{
    Box::new(Through { inner, sound: pull })
}

/// `inner`, but pushed to by `push`, which pushes to it.
pub fn pushed_through<F>(inner: Box<dyn Sink>, push: F) -> Box<dyn Sink>
where
    F: FnMut(&mut dyn Sink, &[f32]) -> Result<(), SinkError> + Send + 'static,
{
    Box::new(Through { inner, sound: push })
}

struct Through<T, F> {
    inner: T,
    sound: F,
}

impl<F: FnMut(&mut dyn Source, &mut [f32]) -> Pull + Send> Source for Through<Box<dyn Source>, F> {
    fn format(&self) -> StreamFormat {
        self.inner.format()
    }

    fn sample_format(&self) -> SampleFormat {
        self.inner.sample_format()
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        (self.sound)(&mut *self.inner, block)
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn is_live(&self) -> bool {
        self.inner.is_live()
    }

    fn ready(&self) -> Ready {
        self.inner.ready()
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        self.inner.keep_newest(frames)
    }

    fn set_waker(&mut self, wake: Wake) {
        self.inner.set_waker(wake);
    }
}

impl<F: FnMut(&mut dyn Sink, &[f32]) -> Result<(), SinkError> + Send> Sink for Through<Box<dyn Sink>, F> {
    fn format(&self) -> StreamFormat {
        self.inner.format()
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        (self.sound)(&mut *self.inner, block)
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
        self.inner.silence(frames)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.inner.finish()
    }
}
