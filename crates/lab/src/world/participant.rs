//! Participants at the ends of a stream: loads of the laboratory, and sessions.

use std::cell::RefCell;
use std::rc::Rc;

use antiphon_core::{Counters, Participant, Single};
use antiphon_session::{Reflector, Session};

use super::generator::{Generator, Listener};
use super::medusa::Medusa;
use super::meter::{Arrivals, Meter};
use super::streams::Played;
use crate::figures::{Course, StreamFigures};

/// A participant at an end of a stream; the concrete type is known for those that are asked for figures.
pub enum StreamParticipant {
    /// Sends packets.
    Generator(Box<Single<Generator>>),
    /// Sends like the program of paper `transport-alternatives`.
    Medusa(Box<Single<Medusa>>),
    /// Receives packets and measures them.
    Listener(Box<Single<Listener>>),
    /// Returns what comes.
    Reflector(Box<Reflector>),
    /// Sends sound.
    Sender(Box<Session>),
    /// Receives sound, with a meter that observes it.
    Receiver(Box<Session>, SharedMeter),
}

/// A meter that an observer of a session writes.
pub type SharedMeter = Rc<RefCell<Meter>>;

impl StreamParticipant {
    /// The participant, for a driver.
    pub fn get(&self) -> &dyn Participant {
        match self {
            StreamParticipant::Generator(generator) => &**generator,
            StreamParticipant::Medusa(medusa) => &**medusa,
            StreamParticipant::Listener(listener) => &**listener,
            StreamParticipant::Reflector(reflector) => &**reflector,
            StreamParticipant::Sender(session) | StreamParticipant::Receiver(session, _) => &**session,
        }
    }

    /// The same, mutable.
    pub fn get_mut(&mut self) -> &mut dyn Participant {
        match self {
            StreamParticipant::Generator(generator) => &mut **generator,
            StreamParticipant::Medusa(medusa) => &mut **medusa,
            StreamParticipant::Listener(listener) => &mut **listener,
            StreamParticipant::Reflector(reflector) => &mut **reflector,
            StreamParticipant::Sender(session) | StreamParticipant::Receiver(session, _) => &mut **session,
        }
    }

    /// Whether connections are offered to it ([`Participant::accept`]), or its one wire is the connection.
    pub fn accepts(&self) -> bool {
        matches!(self, StreamParticipant::Reflector(_) | StreamParticipant::Receiver(..))
    }

    /// Counters of its transport.
    pub fn counters(&self) -> Counters {
        match self {
            StreamParticipant::Generator(generator) => generator.get().endpoint().stats().counters,
            StreamParticipant::Medusa(medusa) => medusa.get().endpoint().stats().counters,
            StreamParticipant::Sender(session) => session.stats().counters,
            _ => Counters::default(),
        }
    }

    /// Measurements of what comes back to a sender.
    fn returns(&self) -> Option<&Meter> {
        match self {
            StreamParticipant::Generator(generator) => generator.get().meter(),
            StreamParticipant::Medusa(medusa) => Some(medusa.get().meter()),
            _ => None,
        }
    }

    /// Packets that have arrived, or come back; `None` if it measures nothing.
    pub fn arrivals(&self) -> Option<u64> {
        match self {
            StreamParticipant::Listener(listener) => Some(listener.get().meter().arrivals()),
            StreamParticipant::Receiver(_, meter) => Some(meter.borrow().arrivals()),
            sender => sender.returns().map(Meter::arrivals),
        }
    }

    /// Its figures, if it measures.
    pub fn figures(&self) -> Option<StreamFigures> {
        match self {
            StreamParticipant::Listener(listener) => Some(listener.get().meter().figures(false)),
            StreamParticipant::Receiver(session, meter) => {
                let mut figures = meter.borrow().figures(false);
                if let Some(played) = Played::of(session) {
                    played.add_to(&mut figures);
                }
                Some(figures)
            }
            sender => sender.returns().map(|meter| meter.figures(true)),
        }
    }

    /// The outcome of each frame, if it measures.
    pub fn course(&self) -> Option<Course> {
        match self {
            StreamParticipant::Listener(listener) => Some(listener.get().meter().course()),
            StreamParticipant::Receiver(_, meter) => Some(meter.borrow().course()),
            sender => sender.returns().map(Meter::course),
        }
    }

    /// A receiver's recorded arrivals, and the results of its playout.
    pub fn take_notes(&mut self) -> (Arrivals, Option<Played>) {
        match self {
            StreamParticipant::Listener(listener) => (listener.get_mut().meter_mut().take_notes(), None),
            StreamParticipant::Receiver(session, meter) => {
                (meter.borrow_mut().take_notes(), Played::of(session))
            }
            _ => (Arrivals::default(), None),
        }
    }
}
