//! What a world tells of its run: figures, outcomes, changes, members, captures.

use std::io;

use antiphon_core::{Instant, nearest};
use antiphon_session::{Change, Member};

use super::participant::Kind;
use super::pictures::Screen;
use super::socket::Socket;
use super::tap::Tap;
use super::{TapError, TrafficCounters, World, stream_figures};
use crate::figures::{Course, RunFigures, StreamFigures};

impl World {
    /// The figures so far.
    pub fn figures(&self) -> RunFigures {
        let mut streams: Vec<_> = Vec::new();
        let mut others = Vec::new();
        for stream in &self.streams {
            let first = self.senders[stream.flows[0] as usize];
            let (near, far) = (&self.sockets[first], &self.sockets[first + 1..]);
            for (receiver, (node, far)) in stream.receivers.iter().zip(far).enumerate() {
                let mut figures = stream_figures::figures(near, far, &stream.flows, &self.net);
                if let Some(beside) = &stream.beside {
                    self.add_beside(&mut figures, far, beside);
                }
                if receiver == 0 {
                    streams.push((stream.name.clone(), figures));
                    streams.extend(self.pictures(first));
                } else {
                    others.push((format!("{}@{node}", stream.name), figures));
                }
            }
        }
        let pings =
            self.traffic.iter().filter_map(|(name, traffic)| Some((name.clone(), traffic.figures()?)));
        streams.extend(pings);
        streams.extend(others);
        let (media, parts) = self.net.media();
        let media = media.iter().map(|medium| medium.figures(parts)).collect();
        RunFigures { streams, media, events: self.events }
    }

    /// Adds to a receiver's figures what its arrivals show of those of another stream at its first receiver.
    fn add_beside(&self, figures: &mut StreamFigures, receiver: &Socket, other: &str) {
        let own = receiver.participant().screen().filter(|screen| screen.name() == other);
        let of_stream = || {
            let other = self.sockets[self.sender_of(other)? + 1].participant();
            Some(other.meter()?.borrow().times())
        };
        let others = own.map(Screen::times).or_else(of_stream);
        if let Some((meter, others)) = receiver.participant().meter().zip(others) {
            meter.borrow().add_beside(figures, &others);
        }
    }

    /// The figures of the pictures beside the sound that this socket sends, by their name.
    fn pictures(&self, sender: usize) -> Option<(String, StreamFigures)> {
        let screen = self.sockets[sender + 1].participant().screen()?;
        Some((screen.name().into(), screen.figures(self.sockets[sender].participant().pictures_sent()?)))
    }

    /// The outcome of each frame of `stream` at its first receiver so far; `None` if there is no stream of that name. Of pictures beside
    /// sound: of each packet, as if it was sent when its picture was due.
    pub fn course(&self, stream: &str) -> Option<Course> {
        let screens = self.sockets.iter().filter_map(|socket| socket.participant().screen());
        if let Some(screen) = screens.into_iter().find(|screen| screen.name() == stream) {
            return Some(screen.course());
        }
        let first = self.sender_of(stream)?;
        let (near, far) = (self.sockets[first].participant(), self.sockets[first + 1].participant());
        far.course().or_else(|| near.course())
    }

    /// What became of the further associations of `stream` so far, in order; the *n*-th of its setup is wire *n*, from 1.
    /// Empty if there is no stream of that name.
    pub fn changes(&self, stream: &str) -> &[(Instant, Change)] {
        self.sender_of(stream).map_or(&[], |first| self.sockets[first].changes())
    }

    /// The receivers of a stream of sound as their reports show them to its sender: of a group there are many. Empty if there is
    /// no such stream.
    pub fn members(&self, stream: &str) -> &[Member] {
        match self.sender_of(stream).map(|first| &self.sockets[first].participant().kind) {
            Some(Kind::Sender(session)) => session.members(),
            _ => &[],
        }
    }

    /// The sender's socket of a stream.
    fn sender_of(&self, stream: &str) -> Option<usize> {
        let flows = &self.streams.iter().find(|one| one.name == stream)?.flows;
        Some(self.senders[flows[0] as usize])
    }

    /// Counters of a generator of traffic so far; `None` if there is none of that name.
    pub fn traffic(&self, name: &str) -> Option<TrafficCounters> {
        let (_, traffic) = self.traffic.iter().find(|(other, _)| other == name)?;
        Some(traffic.counters())
    }

    /// Captures what crosses a medium from now on into `out`, as pcapng: at `node`, or at all its nodes. Each node is
    /// an interface of the capture; outbound packets are written as they are handed over, even if a queue then drops
    /// them.
    ///
    /// A packet that two nodes see is in the file twice: an analyser takes that for a retransmission, so choose a node,
    /// or filter by interface, to analyse TCP. Errors of `out` do not change the run; see [`Self::finish_captures`].
    pub fn capture(
        &mut self,
        medium: &str,
        node: Option<&str>,
        out: Box<dyn io::Write>,
    ) -> Result<(), TapError> {
        let (media, _) = self.net.media();
        let Some(number) = media.iter().position(|one| one.name == medium) else {
            let known = media.iter().map(|one| one.name.as_str());
            return Err(TapError::NoSuchMedium {
                name: medium.into(),
                nearest: nearest(medium, known).map(String::from),
            });
        };
        let on_it = media[number].nodes.iter().map(|one| (*one, self.names[*one].as_str()));
        let chosen: Vec<_> =
            on_it.clone().filter(|(_, name)| node.is_none_or(|node| node == *name)).collect();
        if let (Some(node), true) = (node, chosen.is_empty()) {
            let nearest = nearest(node, on_it.map(|(_, name)| name)).map(String::from);
            return Err(TapError::NoSuchNode { name: node.into(), medium: medium.into(), nearest });
        }
        let tap = Tap::new(number, medium, chosen.into_iter(), out)?;
        self.net.add_tap(tap);
        Ok(())
    }

    /// Ends all captures. Returns the first error of any; a file with an error holds what was written before.
    pub fn finish_captures(&mut self) -> io::Result<()> {
        let results: Vec<_> = self.net.take_taps().into_iter().map(Tap::finish).collect();
        results.into_iter().collect()
    }

    /// Whether every packet in every medium is accounted for.
    pub fn balances(&self) -> bool {
        self.net.balances()
    }
}
