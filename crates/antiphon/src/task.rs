//! Sends or receives sound in the background: [`send`](crate::send) and [`receive`](crate::receive) on a thread of
//! their own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::{OsClock, Stop};

use crate::auto::is_auto;
use crate::change::Asker;
use crate::run::spawn;
use crate::send::Prepared;
use crate::{
    Error, ReceiveOptions, ReceiveStatus, SendOptions, SendStatus, SendSummary, TransportChanges, receive,
    send,
};

/// A stream in the background. Dropping it stops it.
pub struct SoundTask {
    stop: Stop,
    shared: Arc<Shared>,
    /// Asks for changes of the transport, or why there can be none.
    asker: Result<Asker, Error>,
    thread: Option<JoinHandle<()>>,
}

/// State of a background stream.
#[derive(Clone, Debug)]
pub enum SoundStatus {
    /// Of a stream being sent.
    Sending(SendStatus),
    /// Of a stream being received.
    Receiving(ReceiveStatus),
}

struct Shared {
    state: Mutex<Progress>,
    changed: Condvar,
}

struct Progress {
    status: SoundStatus,
    ended: Option<Result<(), Error>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SoundTask {
    /// Begins to send; returns when source and address have been found valid.
    pub fn send(options: SendOptions) -> Result<Self, Error> {
        let status = SoundStatus::Sending(SendStatus::default());
        if is_auto(&options.target) {
            let chooses = Error::usage(format!(
                "'{}' chooses the transport itself: name a transport to change it",
                options.target
            ));
            return Self::start(status, Err(chooses), move |stop, notice, show| {
                let mut show = |status: &SendStatus| show(SoundStatus::Sending(status.clone()));
                send(&options, stop, notice, &mut show).and_then(as_asked)
            });
        }
        let prepared = Prepared::new(&options)?;
        let asker = prepared.asker();
        Self::start(status, Ok(asker), move |stop, notice, show| {
            let mut show = |status: &SendStatus| show(SoundStatus::Sending(status.clone()));
            prepared.run(stop, notice, &mut show, &mut |_, _, _| {}).and_then(as_asked)
        })
    }

    /// Begins to receive; returns when the socket is open, so that packets sent from then on are received.
    pub fn receive(options: ReceiveOptions) -> Result<Self, Error> {
        let status = SoundStatus::Receiving(ReceiveStatus::default());
        let follows = Error::usage("a receiver follows its sender: change the transport there");
        Self::start(status, Err(follows), move |stop, notice, show| {
            let mut show = |status: &ReceiveStatus| show(SoundStatus::Receiving(status.clone()));
            receive(&options, stop, notice, &mut show).map(|_| ())
        })
    }

    fn start<R>(status: SoundStatus, asker: Result<Asker, Error>, run: R) -> Result<Self, Error>
    where
        R: FnOnce(&Stop, &mut dyn FnMut(String), &mut dyn FnMut(SoundStatus)) -> Result<(), Error>
            + Send
            + 'static,
    {
        let state = Mutex::new(Progress { status, ended: None });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let (begun, has_begun) = mpsc::channel();
        let (stop, seen) = (Stop::new(), Arc::clone(&shared));
        let thread_stop = stop.clone();
        let body = move || {
            let mut begun = Some(begun);
            let result = run(
                &thread_stop,
                // The first sentence reports that it has begun.
                &mut |_sentence| {
                    let _starter_waits = begun.take().map(|begun| begun.send(()));
                },
                &mut |status| seen.lock().status = status,
            );
            seen.lock().ended = Some(result);
            seen.changed.notify_all();
        };
        let task = SoundTask { stop, shared, asker, thread: Some(spawn("sound", body)?) };
        if has_begun.recv().is_err() {
            // It ended before it had begun; waiting without a limit gives the reason.
            task.wait(None).unwrap_or(Ok(()))?;
        }
        Ok(task)
    }

    /// Its state, or its last state once it has ended.
    pub fn status(&self) -> SoundStatus {
        self.shared.lock().status.clone()
    }

    /// Goes over to the transport and address of `uri` without a gap; the receiver must listen there
    /// ([`ReceiveOptions::also`]). Returns when the change is queued; changes happen one after the other, and
    /// [`Self::changes`] shows what became of them.
    ///
    /// Errors: usage for a URI that a running stream can't take, a receiver, or a stream over `auto://`; failed when the
    /// stream has ended.
    pub fn switch_to(&self, uri: &str) -> Result<(), Error> {
        self.asker.as_ref().map_err(Error::clone)?.switch_to(uri)
    }

    /// Sends everything over `uri` as well until the end, to the same receiver, which must listen there.
    ///
    /// Errors: as [`Self::switch_to`], and usage when the stream has two such transports already.
    pub fn also(&self, uri: &str) -> Result<(), Error> {
        self.asker.as_ref().map_err(Error::clone)?.also(uri)
    }

    /// What became of the changes of its transport; `None` where the caller can't change it.
    pub fn changes(&self) -> Option<TransportChanges> {
        self.asker.as_ref().ok().map(Asker::so_far)
    }

    /// Waits for its end: `None` when it did not come in time. `patience`: `None`: without limit.
    ///
    /// A stream that was sent while changes of its transport did not happen, be it that [`Self::stop`] came first, ends
    /// with an error of kind failed: a line for each.
    pub fn wait(&self, patience: Option<Duration>) -> Option<Result<(), Error>> {
        let clock = OsClock::new();
        let mut state = self.shared.lock();
        loop {
            if let Some(ended) = &state.ended {
                return Some(ended.clone());
            }
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Some(Err(Error::failed("the thread panicked")));
            }
            let waited = clock.now().since(Instant::ZERO);
            let left = patience.map_or(LOOK_EVERY, |patience| patience.saturating_sub(waited));
            if left.is_zero() {
                return None;
            }
            let woken = self.shared.changed.wait_timeout(state, left.min(LOOK_EVERY));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks it to end in order; [`Self::wait`] returns when it has.
    pub fn stop(&self) {
        self.stop.ask();
    }
}

/// The end of a stream: the sound was sent, and changes that did not happen are an error, as on the command line.
fn as_asked(sent: SendSummary) -> Result<(), Error> {
    if sent.failures.is_empty() { Ok(()) } else { Err(Error::failed(sent.failures.join("\n"))) }
}

impl Drop for SoundTask {
    fn drop(&mut self) {
        self.stop.ask();
        // Callers that need the result call `wait` before.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// How soon the end of the thread is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn free_uri() -> String {
        format!("rtp://127.0.0.1:{}", antiphon_testkit::free_ports(1))
    }

    #[test]
    fn sound_passes_in_the_background_with_early_errors() {
        let directory = tempfile::tempdir().unwrap();
        let sink = directory.path().join("heard.wav").display().to_string();
        let uri = free_uri();
        let listening = ReceiveOptions { source: uri.clone(), sink, ..ReceiveOptions::default() };
        let receiving = SoundTask::receive(listening).expect("listens");
        let length = Some(Duration::from_millis(300));
        let sending =
            SendOptions { source: "tone:440Hz".into(), target: uri, length, ..SendOptions::default() };
        let sending = SoundTask::send(sending).expect("begins");
        let patience = Some(Duration::from_secs(20));
        sending.wait(patience).expect("ends").expect("in order");
        receiving.wait(patience).expect("ends").expect("in order");
        let SoundStatus::Receiving(heard) = receiving.status() else { panic!("it receives") };
        let SoundStatus::Sending(sent) = sending.status() else { panic!("it sends") };
        assert_eq!((heard.packets_received, heard.lost), (sent.packets_sent, 0));
        // 300 ms in packets of 256 sample frames at 48 kHz.
        assert!(sent.packets_sent >= 56, "{sent:?}");

        let wrong = SendOptions { target: "rtp://".into(), ..SendOptions::default() };
        assert_eq!(SoundTask::send(wrong).err().expect("refused").kind, ErrorKind::Usage);
    }

    #[test]
    fn stopping_ends_what_would_go_on() {
        let options =
            ReceiveOptions { source: free_uri(), sink: "null:".into(), ..ReceiveOptions::default() };
        let receiving = SoundTask::receive(options).expect("listens");
        assert!(receiving.wait(Some(Duration::ZERO)).is_none());
        receiving.stop();
        receiving.wait(Some(Duration::from_secs(20))).expect("ends").expect("in order");
    }
}
