//! What the lines of a run say, and the taps by which they are captured.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use antiphon_core::{Instant, Role, Stack, Wire, WireId};
use antiphon_net::{Line, LineObserver, Tap, Taps};

use crate::run::Stacks;

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
        let (line_notes, stacks) = (Rc::clone(line_notes), Rc::clone(stacks));
        TapAssigner { line_notes, taps, idle: Vec::new(), made: BTreeMap::new(), stacks }
    }

    /// The name and the stack of a wire; a connection that came in has those of the byte stream that listens.
    fn stack_of(&self, wire: WireId) -> Option<(String, Rc<dyn Stack>)> {
        let stacks = self.stacks.borrow();
        let streams = |(_, stack): &&(String, Rc<dyn Stack>)| {
            stack.open(Instant::ZERO, Role::Listener).profile().wire == Wire::ByteStream
        };
        stacks.get(&wire).or_else(|| stacks.values().find(streams)).cloned()
    }

    /// An unused tap for `wire`.
    fn tap(&mut self, wire: WireId) -> Option<Tap> {
        let taps = self.taps.as_ref()?;
        let (name, stack) = self.stack_of(wire)?;
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
        if let (Some(mut tap), Some((name, _))) = (line.take_tap(), self.stack_of(wire)) {
            tap.hang_up();
            self.idle.push((name, tap));
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
        let stacks = Rc::new(RefCell::new(BTreeMap::from([(WIRE, ("tcp".to_string(), stack))])));
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
