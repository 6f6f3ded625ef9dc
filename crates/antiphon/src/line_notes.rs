//! What the lines of a run say, and the taps by which they are captured.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use antiphon_core::{Stack, Wire, WireId};
use antiphon_net::{Line, LineObserver, Tap, Taps};

/// The wires of a run, as captures know them; the run and its lines share it.
#[derive(Clone, Default)]
pub struct Stacks(Rc<RefCell<BTreeMap<WireId, Known>>>);

/// What captures know of a wire.
#[derive(Clone)]
pub(crate) struct Known {
    /// Its interface in a capture.
    pub name: String,
    pub kind: Wire,
    pub stack: Rc<dyn Stack>,
}

impl Stacks {
    pub(crate) fn insert(&self, wire: WireId, known: Known) {
        self.0.borrow_mut().insert(wire, known);
    }

    pub(crate) fn remove(&self, wire: WireId) {
        self.0.borrow_mut().remove(&wire);
    }

    /// A connection that came in is known by the byte stream that listens.
    fn of(&self, wire: WireId) -> Option<Known> {
        let known = self.0.borrow();
        let listening = || known.values().find(|known| known.kind == Wire::ByteStream);
        known.get(&wire).or_else(listening).cloned()
    }
}

/// Notes and facts of the lines of a run.
#[derive(Default)]
pub(crate) struct LineNotes {
    notes: Vec<String>,
    facts: Vec<String>,
    /// All notes and facts so far: many connections report the same.
    said: BTreeSet<String>,
}

impl LineNotes {
    /// The notes so far.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The notes, and the facts.
    pub fn into_parts(self) -> (Vec<String>, Vec<String>) {
        (self.notes, self.facts)
    }

    pub fn note(&mut self, notes: &[String]) {
        for note in notes {
            if self.said.len() < MOST_SAID && self.said.insert(note.clone()) {
                self.notes.push(note.clone());
            }
        }
    }

    /// Adds the facts of a line that is closing.
    pub fn add_facts(&mut self, line: &mut dyn Line) {
        for fact in line.facts() {
            if self.said.len() < MOST_SAID && self.said.insert(fact.clone()) {
                self.facts.push(fact);
            }
        }
    }
}

/// Collects the notes of lines and gives them taps. A capture has one interface for each datagram socket, and one for each
/// simultaneous connection, which is reused when the connection ends.
pub(crate) struct TapAssigner {
    line_notes: Rc<RefCell<LineNotes>>,
    taps: Option<Taps>,
    /// Taps without a line, by the name of their wire.
    idle: Vec<(String, Tap)>,
    /// How many were made, by the name of their wire.
    made: BTreeMap<String, usize>,
    stacks: Stacks,
}

impl TapAssigner {
    /// For the lines of one run.
    pub fn new(line_notes: &Rc<RefCell<LineNotes>>, taps: Option<Taps>, stacks: &Stacks) -> Self {
        let (line_notes, stacks) = (Rc::clone(line_notes), stacks.clone());
        TapAssigner { line_notes, taps, idle: Vec::new(), made: BTreeMap::new(), stacks }
    }

    /// An unused tap for `wire`.
    fn tap(&mut self, wire: WireId) -> Option<Tap> {
        let taps = self.taps.as_ref()?;
        let Known { name, stack, .. } = self.stacks.of(wire)?;
        if let Some(at) = self.idle.iter().position(|(of, _)| *of == name) {
            return Some(self.idle.remove(at).1);
        }
        let made = self.made.entry(name.clone()).or_default();
        *made += 1;
        let interface = if *made == 1 { name } else { format!("{name}-{made}") };
        Some(taps.tap_inside(&interface, stack.dissector()))
    }
}

impl LineObserver for TapAssigner {
    fn on_open(&mut self, wire: WireId, line: &mut dyn Line) {
        self.line_notes.borrow_mut().note(line.notes());
        if let Some(tap) = self.tap(wire) {
            line.set_tap(tap);
        }
    }

    fn on_close(&mut self, wire: WireId, line: &mut dyn Line) {
        self.line_notes.borrow_mut().add_facts(line);
        if let (Some(mut tap), Some(known)) = (line.take_tap(), self.stacks.of(wire)) {
            tap.hang_up();
            self.idle.push((known.name, tap));
        }
    }
}

/// The most different sentences that are kept: a server of many connections gets the same from each.
const MOST_SAID: usize = 64;

#[cfg(test)]
mod tests {
    use antiphon_core::wire::TCP_SEGMENT;
    use antiphon_net::{Capture, OsClock, SocketOptions, UdpLine};

    use super::*;
    use crate::run::WIRE;

    /// A server that a thousand peers call one after another does not hold a thousand rings.
    #[test]
    fn a_tap_is_the_next_lines_when_one_gives_it_back() {
        let directory = tempfile::tempdir().unwrap();
        let capture = Capture::create(directory.path().join("x.pcapng"), OsClock::new()).unwrap();
        let choice = crate::transport::TransportChoice::read("tcp").unwrap();
        let stack = choice.stack(0, 1, crate::DEFAULT_LATENCY).open(TCP_SEGMENT).unwrap();
        let taps = Some(capture.taps());
        let line_notes = Rc::default();
        let stacks = Stacks::default();
        stacks.insert(WIRE, Known { name: "tcp".into(), kind: Wire::ByteStream, stack });
        let mut assigner = TapAssigner::new(&line_notes, taps, &stacks);
        let line = || UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).unwrap();
        let mut held = line();
        assigner.on_open(WIRE, &mut held);
        for _ in 0..1000 {
            let mut line = line();
            assigner.on_open(WIRE, &mut line);
            assigner.on_close(WIRE, &mut line);
        }
        assert_eq!(assigner.made["tcp"], 2);
        assigner.on_close(WIRE, &mut held);
        assert_eq!(assigner.idle.len(), 2);
    }
}
