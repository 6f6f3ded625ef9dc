//! The receiver's side: asks for what a recording misses, and puts it in its place.

use std::path::Path;
use std::time::Duration;

use antiphon_media::codec::decode;
use antiphon_media::completion::{Message, Offer, Stretch};
use antiphon_net::{OsClock, SocketOptions, Stop};
use antiphon_session::{Gap, Gaps, Written};
use antiphon_sound::WavPatch;

use super::wanted::Wanted;
use super::{Broken, CompleteOver, MOST_MESSAGE, OUTAGE, message_options, receive, send};
use crate::Error;
use crate::messages::MessageLink;
use crate::transport::StreamUri;

/// Waits for the sender's offer while the stream is received.
pub(crate) struct Listening {
    uri: String,
    socket: SocketOptions,
    link: MessageLink,
    buffer: Vec<u8>,
    offered: Option<Offer>,
}

impl Listening {
    pub fn open(over: &CompleteOver, stream: &StreamUri, socket: &SocketOptions) -> Result<Self, Error> {
        let uri = over.uri(stream.address(), true);
        let link = MessageLink::open(&uri, &message_options(socket))?;
        Ok(Listening { uri, socket: socket.clone(), link, buffer: vec![0; MOST_MESSAGE], offered: None })
    }

    /// Whether a sender says that its stream has ended.
    pub fn is_offered(&mut self) -> bool {
        if self.offered.is_none()
            && let Ok(Some(Message::Offer(offer))) = self.next(Duration::ZERO, &Stop::new())
        {
            self.offered = Some(offer);
        }
        self.offered.is_some()
    }

    fn next(&mut self, patience: Duration, stop: &Stop) -> Result<Option<Message<'_>>, Broken> {
        receive(&self.link, &mut self.buffer, patience, stop)
    }

    /// Hears the next caller.
    fn renew(&mut self) -> Result<(), Broken> {
        self.offered = None;
        let _it_has_ended_already = self.link.close();
        let opened = MessageLink::open(&self.uri, &message_options(&self.socket));
        self.link = opened.map_err(|error| Broken::File(error.to_string()))?;
        Ok(())
    }
}

/// A finished recording that may be completed.
pub(crate) struct Completing<'a> {
    pub listening: Listening,
    pub path: &'a Path,
    pub written: &'a mut Written,
}

impl Completing<'_> {
    /// Completes the recording, if its sender offers that in time. `Ok`: the sample frames that were missing and came.
    /// `written` says afterwards what is still missing.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn run(mut self, stop: &Stop, notice: &mut dyn FnMut(String)) -> Result<u64, String> {
        let failed = |why: String| format!("the recording was not completed: {why}");
        let Some((ssrc, first)) = self.written.origin else {
            return Err(failed("not all of it is of one sender, at its time".into()));
        };
        let mut patch = WavPatch::open(self.path).map_err(|error| failed(error.to_string()))?;
        if patch.format() != self.written.format || patch.frames() != self.written.frames {
            return Err(failed(
                "its file has another rate, other channels or another length than the stream".into(),
            ));
        }
        let mut state = None;
        let clock = OsClock::new();
        let mut progress = clock.now();
        let result = loop {
            let before = state.as_ref().map_or(0, State::came);
            let result =
                self.listening.hear((ssrc, first), self.written, &mut state, &mut patch, stop, notice);
            let came = state.as_ref().map_or(0, State::came);
            if came > before {
                progress = clock.now();
            }
            let patience = if came > 0 { OUTAGE } else { NO_OFFER };
            match result {
                Ok(()) => break Ok(()),
                Err(Broken::Stopped) => break Err("stopped".into()),
                Err(Broken::File(why)) => break Err(why),
                Err(Broken::Rules(why)) if clock.now().since(progress) >= patience => break Err(why),
                Err(Broken::Connection) if clock.now().since(progress) >= patience => {
                    break Err("its sender has not offered it: start 'antiphon send' with --complete".into());
                }
                Err(Broken::Rules(_) | Broken::Connection) => {
                    if let Err(Broken::File(why)) = self.listening.renew() {
                        break Err(why);
                    }
                }
            }
        };
        let patched = patch.finish().map_err(|error| error.to_string());
        if let Some(state) = &state {
            state.tell(self.written);
        }
        result.and(patched).map_err(failed)?;
        Ok(state.as_ref().map_or(0, State::came))
    }
}

impl Listening {
    /// One caller, from its offer to the end. What the file holds after it stands in `state`.
    fn hear(
        &mut self,
        (ssrc, first): (u32, u32),
        written: &Written,
        state: &mut Option<State>,
        patch: &mut WavPatch,
        stop: &Stop,
        notice: &mut dyn FnMut(String),
    ) -> Result<(), Broken> {
        let offer = match self.offered.take() {
            Some(offer) => offer,
            None => match self.next(NO_OFFER, stop)? {
                Some(Message::Offer(offer)) => offer,
                Some(_) => return Err(Broken::Rules("it offers nothing".into())),
                None => return Err(Broken::Connection),
            },
        };
        // How many sample frames of the sender come before the recording.
        let before = first.wrapping_sub(offer.first);
        let ours = (offer.ssrc, offer.format, offer.sample.into()) == (ssrc, written.format, written.coding);
        if !ours || before > i32::MAX as u32 || u64::from(before) > offer.frames {
            return Err(Broken::Rules("another stream is offered".into()));
        }
        if state.is_none() {
            let wanted = State::new(offer, u64::from(before), written);
            if !wanted.missing.is_empty() {
                let seconds = wanted.missing.frames() as f64 / f64::from(offer.format.rate());
                let places = wanted.missing.stretches().count();
                notice(format!("asking for what is missing: {seconds:.3} s in {places} places"));
            }
            if before > 0 {
                patch.prepend(before.into()).map_err(|error| Broken::File(error.to_string()))?;
            }
            *state = Some(wanted);
        }
        let Some(state) = state.as_mut().filter(|state| state.offer == offer) else {
            return Err(Broken::Rules("another stream is offered".into()));
        };
        self.ask(&state.missing, stop)?;
        while !state.missing.is_empty() {
            match receive(&self.link, &mut self.buffer, SILENCE, stop)? {
                Some(Message::Sound { at, samples }) => state.put(at, samples, patch)?,
                Some(Message::End) => break,
                Some(_) => return Err(Broken::Rules("the sender does not keep to the rules".into())),
                None => return Err(Broken::Connection),
            }
        }
        send(&self.link, &Message::Done { missing: state.missing.frames() }, stop)?;
        let _the_sender_ends_it_too = self.link.close();
        Ok(())
    }

    fn ask(&self, missing: &Wanted, stop: &Stop) -> Result<(), Broken> {
        let mut stretches = missing.stretches().peekable();
        loop {
            let part: Vec<Stretch> = stretches.by_ref().take(MOST_ASKED).collect();
            if part.is_empty() {
                return Ok(());
            }
            let more = stretches.peek().is_some();
            send(&self.link, &Message::Ask { more, stretches: part }, stop)?;
        }
    }
}

/// What is known of the sender, and what is missing of its stream.
struct State {
    offer: Offer,
    missing: Wanted,
    /// Sample frames that were missing.
    all: u64,
    samples: Vec<f32>,
}

impl State {
    fn new(offer: Offer, before: u64, written: &Written) -> Self {
        let gap = |gap: &Gap| Stretch { at: gap.at + before, frames: gap.frames };
        let listed = written.gaps.list();
        // Of gaps that were not listed, since there are so many, only that they come later is known.
        let behind = listed.last().filter(|_| written.gaps.unlisted() > 0).map(|last| {
            let at = last.at + last.frames;
            Gap { at, frames: written.frames.saturating_sub(at) }
        });
        let gaps = listed.iter().copied().chain(behind).map(|one| gap(&one));
        let missing = Wanted::new(offer.frames, before, written.frames, gaps);
        State { offer, all: missing.frames(), missing, samples: Vec::new() }
    }

    /// Sample frames that have come.
    fn came(&self) -> u64 {
        self.all - self.missing.frames()
    }

    fn put(&mut self, at: u64, bytes: &[u8], patch: &mut WavPatch) -> Result<(), Broken> {
        let (channels, width) = (self.offer.format.channels(), self.offer.sample.bytes());
        let frames = (bytes.len() / (channels * width)) as u64;
        if !bytes.len().is_multiple_of(channels * width) || !self.missing.take(Stretch { at, frames }) {
            return Err(Broken::Rules("the sender sends what was not asked for".into()));
        }
        self.samples.resize(bytes.len() / width, 0.0);
        let count = decode(self.offer.sample, bytes, &mut self.samples);
        // The tail may come in any order.
        let failed =
            |error: std::io::Error| Broken::File(format!("the recording cannot be written: {error}"));
        while patch.frames() < at {
            let frames = (at - patch.frames()).min(MOST_MESSAGE as u64) as usize;
            patch.write(patch.frames(), &vec![0.0; frames * channels]).map_err(failed)?;
        }
        patch.write(at, &self.samples[..count]).map_err(failed)
    }

    /// Says in `written` what is still missing of the file.
    fn tell(&self, written: &mut Written) {
        written.frames = written.frames.max(self.offer.frames);
        let mut gaps = Gaps::new();
        self.missing.stretches().for_each(|one| gaps.add(one.at, one.frames));
        written.gaps = gaps;
    }
}

/// Stretches in one message: at most 10 bytes for each of their numbers.
const MOST_ASKED: usize = MOST_MESSAGE / 20 - 1;
/// How long a sender may take until it offers to complete the recording: it may still wait for the last reports.
const NO_OFFER: Duration = Duration::from_secs(15);
/// How long nothing may come in between: the sender reads its source up to the next place.
const SILENCE: Duration = Duration::from_secs(60);
