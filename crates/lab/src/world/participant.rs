//! Participants at the ends of a stream: loads of the laboratory, and sessions.

use antiphon_core::{Counters, OnEndpoint, Participant, Single};
use antiphon_session::{Reflector, Session, VideoTrackCounters};

use super::generator::{Generator, Listener};
use super::medusa::Medusa;
use super::meter::{Arrivals, SharedMeter};
use super::pictures::Screen;
use super::stream_figures::Played;
use super::video::VideoSender;
use crate::figures::{Course, StreamFigures};

/// A participant at an end of a stream, and what is measured there.
pub struct StreamParticipant {
    /// What it does.
    pub kind: Kind,
    /// Of what arrives, or comes back to a sender; it or an observer of its session writes it.
    meter: Option<SharedMeter>,
    /// What comes of the pictures of the session.
    screen: Option<Screen>,
}

/// The participants by what they do.
pub enum Kind {
    /// Sends packets.
    Generator(Box<Single<Generator>>),
    /// Sends a video.
    Video(Box<Single<VideoSender>>),
    /// Sends like the program of paper `transport-alternatives`.
    Medusa(Box<Single<Medusa>>),
    /// Receives packets.
    Listener(Box<Single<Listener>>),
    /// Returns what comes.
    Reflector(Box<Reflector>),
    /// Sends sound.
    Sender(Box<Session>),
    /// Receives sound.
    Receiver(Box<Session>),
}

impl StreamParticipant {
    /// A participant, with the meter of what arrives there, if that is measured.
    pub fn new(kind: Kind, meter: Option<SharedMeter>) -> Self {
        StreamParticipant { kind, meter, screen: None }
    }

    /// The same, and pictures are shown there.
    pub fn showing(self, screen: Option<Screen>) -> Self {
        StreamParticipant { screen, ..self }
    }

    /// The participant, for a driver.
    pub fn get(&self) -> &dyn Participant {
        match &self.kind {
            Kind::Generator(generator) => &**generator,
            Kind::Video(video) => &**video,
            Kind::Medusa(medusa) => &**medusa,
            Kind::Listener(listener) => &**listener,
            Kind::Reflector(reflector) => &**reflector,
            Kind::Sender(session) | Kind::Receiver(session) => &**session,
        }
    }

    /// The same, mutable.
    pub fn get_mut(&mut self) -> &mut dyn Participant {
        match &mut self.kind {
            Kind::Generator(generator) => &mut **generator,
            Kind::Video(video) => &mut **video,
            Kind::Medusa(medusa) => &mut **medusa,
            Kind::Listener(listener) => &mut **listener,
            Kind::Reflector(reflector) => &mut **reflector,
            Kind::Sender(session) | Kind::Receiver(session) => &mut **session,
        }
    }

    /// Whether connections are offered to it ([`Participant::accept`]), or its one wire is the connection.
    pub fn accepts(&self) -> bool {
        matches!(self.kind, Kind::Reflector(_) | Kind::Receiver(_))
    }

    /// Counters of its transport.
    pub fn counters(&self) -> Counters {
        match &self.kind {
            Kind::Generator(generator) => generator.get().endpoint().stats().counters,
            Kind::Video(video) => video.get().endpoint().stats().counters,
            Kind::Medusa(medusa) => medusa.get().endpoint().stats().counters,
            Kind::Sender(session) => session.stats().counters,
            _ => Counters::default(),
        }
    }

    /// Where pictures are shown, if it receives any.
    pub fn screen(&self) -> Option<&Screen> {
        self.screen.as_ref()
    }

    /// The same, to be kept after it.
    pub fn into_screen(self) -> Option<Screen> {
        self.screen
    }

    /// What it counts of the pictures beside the sound that it sends.
    pub fn pictures_sent(&self) -> Option<VideoTrackCounters> {
        let Kind::Sender(session) = &self.kind else { return None };
        session.video_sent().next()
    }

    /// Its meter, if it measures.
    pub fn meter(&self) -> Option<&SharedMeter> {
        self.meter.as_ref()
    }

    /// Packets that have arrived, or come back; `None` if it measures nothing.
    pub fn arrivals(&self) -> Option<u64> {
        self.meter.as_ref().map(|meter| meter.borrow().arrivals())
    }

    /// Its figures, if it measures.
    pub fn figures(&self) -> Option<StreamFigures> {
        let returns = matches!(self.kind, Kind::Generator(_) | Kind::Medusa(_));
        let mut figures = self.meter.as_ref()?.borrow().figures(returns);
        if let Some(played) = self.played() {
            played.add_to(&mut figures);
        }
        Some(figures)
    }

    /// The outcome of each frame, if it measures.
    pub fn course(&self) -> Option<Course> {
        self.meter.as_ref().map(|meter| meter.borrow().course())
    }

    /// A receiver's recorded arrivals, and the results of its playout.
    pub fn take_notes(&mut self) -> (Arrivals, Option<Played>) {
        let notes = self.meter.as_ref().map(|meter| meter.borrow_mut().take_notes());
        (notes.unwrap_or_default(), self.played())
    }

    /// The results of a receiver's playout.
    fn played(&self) -> Option<Played> {
        if let Kind::Receiver(session) = &self.kind { Played::of(session) } else { None }
    }
}
