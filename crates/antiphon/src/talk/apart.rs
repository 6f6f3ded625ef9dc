//! A call whose two directions have transports of their own: a stream that is sent and one that is received, beside each other.
//!
//! Each end sends to where the other receives. Without an association in common the ends can't tell each other their delays.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_net::Stop;
use antiphon_session::PlayoutDelay;

use super::group::is_group;
use super::plan::with_devices;
use super::{TalkOptions, TalkStatus, TalkSummary};
use crate::receive::unasked_latency;
use crate::run::spawn;
use crate::send::Prepared;
use crate::transport::with_scheme;
use crate::{DEFAULT_LATENCY, Error, ReceiveOptions, SendOptions, SendStatus, SendSummary, receive};

/// Talks with a peer that sends to `back`.
pub(super) fn talk_apart(
    options: &TalkOptions,
    back: &str,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&TalkStatus),
) -> Result<TalkSummary, Error> {
    if options.monitor {
        return Err(Error::usage("--monitor needs one transport for both directions: omit it or --back"));
    }
    if is_group(&options.send.target) || is_group(back) {
        return Err(Error::usage(
            "--back is for a call with one host: in a call over a group everybody sends to the group and hears it, so omit it",
        ));
    }
    let options = with_devices(options)?;
    let mute = options.mute.clone();
    let hears = hears(&options, back)?;
    let sending = Sending::start(&options)?;
    let hears_stop = Stop::new();
    let mut last = TalkStatus { muted: mute.is_muted(), ..TalkStatus::default() };
    // Both streams have things to tell, one at a time.
    let notice = RefCell::new(notice);
    let tell = |sentence| (*notice.borrow_mut())(sentence);
    let heard = receive(&hears, &hears_stop, &mut { tell }, &mut |received| {
        sending.told.try_iter().for_each(tell);
        last = TalkStatus {
            muted: mute.is_muted(),
            sent: sending.states.try_iter().last().unwrap_or_else(|| last.sent.clone()),
            received: received.clone(),
            delay: None,
            parties: None,
        };
        status(&last);
        if stop.is_asked() {
            sending.stop.ask();
            hears_stop.ask();
        }
        if sending.has_failed() {
            hears_stop.ask();
        }
    });
    // The peer's sound is over: what is left of a source with an end is sent.
    if stop.is_asked() || heard.is_err() || last.sent.total_s.is_none() {
        sending.stop.ask();
    }
    let sent = sending.finish(stop, &mut { tell }, &mut |sent| {
        last.sent = sent;
        status(&last);
    });
    let (sent, heard) = (sent?, heard?);
    last = TalkStatus {
        muted: mute.is_muted(),
        sent: sent.status,
        received: heard.status,
        delay: None,
        parties: None,
    };
    status(&last);
    let mut notes = sent.notes;
    notes.extend(heard.notes);
    Ok(TalkSummary {
        status: last,
        interrupted: stop.is_asked(),
        notes,
        recording: heard.recording,
        recordings: Vec::new(),
        // An end that leaves first is no failure of the other.
        shortfall: None,
    })
}

/// How this end hears what comes to `back`.
fn hears(options: &TalkOptions, back: &str) -> Result<ReceiveOptions, Error> {
    let unasked = unasked_latency(&options.receive.sink.parse()?);
    Ok(ReceiveOptions {
        source: with_scheme(back),
        // In a call nothing is waited for, not even by a file.
        latency: Some(options.receive.latency.unwrap_or(unasked)),
        forever: false,
        ..options.receive.clone()
    })
}

/// The direction that is sent, on threads of its own.
struct Sending {
    stop: Stop,
    told: Receiver<String>,
    states: Receiver<SendStatus>,
    failed: Arc<AtomicBool>,
    thread: JoinHandle<Result<SendSummary, Error>>,
}

impl Sending {
    fn start(options: &TalkOptions) -> Result<Self, Error> {
        let send = SendOptions {
            target: with_scheme(&options.send.target),
            latency: Some(options.send.latency.unwrap_or(PlayoutDelay::Of(DEFAULT_LATENCY))),
            // Neither end can be the first for both directions.
            wait_for_peer: true,
            ..options.send.clone()
        };
        let prepared = Prepared::new(&send)?.with_source(|source| options.mute.source(source));
        let (tell, told) = mpsc::channel();
        let (show, states) = mpsc::channel();
        let stop = Stop::new();
        let failed = Arc::new(AtomicBool::new(false));
        let (own_stop, own_failed) = (stop.clone(), failed.clone());
        let thread = spawn("talk-send", move || {
            // Nobody may be there to hear it any more.
            let mut notice = |text| drop(tell.send(text));
            let mut status = |status: &SendStatus| drop(show.send(status.clone()));
            let ended = prepared.run(&own_stop, &mut notice, &mut status, &mut |_, _, _| {});
            own_failed.store(ended.is_err(), Ordering::Relaxed);
            ended
        })?;
        Ok(Sending { stop, told, states, failed, thread })
    }

    /// Whether it ended with an error.
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Waits for its end, or until stopped; hands each state to `show`.
    fn finish(
        self,
        stop: &Stop,
        tell: &mut dyn FnMut(String),
        show: &mut dyn FnMut(SendStatus),
    ) -> Result<SendSummary, Error> {
        while !self.thread.is_finished() {
            if stop.is_asked() {
                self.stop.ask();
            }
            if let Ok(status) = self.states.recv_timeout(LOOK) {
                show(status);
            }
            self.told.try_iter().for_each(&mut *tell);
        }
        self.told.try_iter().for_each(tell);
        self.thread.join().map_err(|_| Error::failed("the thread that sends panicked"))?
    }
}

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(100);
