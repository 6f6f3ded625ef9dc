//! Events that wait for the application, in the order in which they occurred.

use std::collections::VecDeque;

use antiphon_core::{Event, Outcome, Tag};

/// A queue of events in which a message's outcome, by far the most frequent event, takes 16 bytes. An [`Event`] is as
/// large as its largest kind, with all figures of a path: eleven times as much, a third of a megabyte for the outcomes
/// of a full queue.
#[derive(Debug, Default)]
pub(crate) struct Events {
    notes: VecDeque<Note>,
    /// Those that are no outcomes.
    others: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug)]
enum Note {
    Message(Tag, Outcome),
    /// The first of the others.
    Other,
}

impl Events {
    /// Makes room for `notes` in all.
    pub fn reserve(&mut self, notes: usize) {
        self.notes.reserve_exact(notes.saturating_sub(self.notes.len()));
        self.others.reserve_exact(FEW_OTHERS.saturating_sub(self.others.len()));
    }

    /// Adds a message's outcome.
    pub fn settle(&mut self, tag: Tag, outcome: Outcome) {
        self.notes.push_back(Note::Message(tag, outcome));
    }

    /// Adds any other event.
    pub fn push(&mut self, event: Event) {
        self.notes.push_back(Note::Other);
        self.others.push_back(event);
    }

    /// The next event.
    pub fn pop(&mut self) -> Option<Event> {
        match self.notes.pop_front()? {
            Note::Message(tag, outcome) => Some(Event::Outcome { tag, outcome }),
            Note::Other => self.others.pop_front(),
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.notes.len()
    }
}

/// Between two reads of the events there are at most a broken path, its return, a change of phase and new room.
const FEW_OTHERS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_their_order_and_outcomes_are_small() {
        let mut events = Events::default();
        events.push(Event::Connected);
        events.settle(Tag(7), Outcome::Acked);
        events.push(Event::Writable);
        assert_eq!(events.len(), 3);
        let got: Vec<Event> = std::iter::from_fn(|| events.pop()).collect();
        let message = Event::Outcome { tag: Tag(7), outcome: Outcome::Acked };
        assert_eq!(got, [Event::Connected, message, Event::Writable]);
        assert_eq!((size_of::<Note>(), size_of::<Event>() / size_of::<Note>()), (16, 11));
    }
}
