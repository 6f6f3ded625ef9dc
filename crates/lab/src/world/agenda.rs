//! What happens next: one entry for each component, the earliest first, ties in the order in which they were made.

use antiphon_core::Instant;

/// An indexed binary heap. Setting a component's time costs the logarithm of their number and allocates nothing.
#[derive(Debug)]
pub struct Agenda {
    heap: Vec<Entry>,
    /// Where each component's entry is in the heap; [`NONE`] if it has none.
    place: Vec<u32>,
    made: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    at: Instant,
    /// Entries are numbered as they are made.
    order: u64,
    component: u32,
}

const NONE: u32 = u32::MAX;

impl Agenda {
    /// An agenda for components `0..count`, none of which has anything to do.
    pub fn new(count: usize) -> Self {
        Agenda { heap: Vec::with_capacity(count), place: vec![NONE; count], made: 0 }
    }

    /// The component wants to be called at `at`, or not at all. One that asks for the time it has keeps its turn.
    pub fn set(&mut self, component: usize, at: Option<Instant>) {
        let place = self.place[component];
        match (at, place) {
            (None, NONE) => {}
            (None, _) => self.remove(place as usize),
            (Some(at), NONE) => {
                let entry = self.entry(component, at);
                self.heap.push(entry);
                self.rise(self.heap.len() - 1, entry);
            }
            (Some(at), _) if self.heap[place as usize].at == at => {}
            (Some(at), _) => {
                let entry = self.entry(component, at);
                self.settle(place as usize, entry);
            }
        }
    }

    /// Who is next, and when.
    pub fn first(&self) -> Option<(Instant, usize)> {
        self.heap.first().map(|entry| (entry.at, entry.component as usize))
    }

    /// When the one after the next is due.
    pub fn second(&self) -> Option<Instant> {
        self.heap.iter().skip(1).take(2).map(|entry| entry.at).min()
    }

    fn entry(&mut self, component: usize, at: Instant) -> Entry {
        self.made += 1;
        Entry { at, order: self.made, component: component as u32 }
    }

    fn remove(&mut self, place: usize) {
        let gone = self.heap[place].component;
        self.place[gone as usize] = NONE;
        if let Some(last) = self.heap.pop()
            && place < self.heap.len()
        {
            self.settle(place, last);
        }
    }

    fn settle(&mut self, place: usize, entry: Entry) {
        if place > 0 && entry < self.heap[(place - 1) / 2] {
            self.rise(place, entry);
        } else {
            self.sink(place, entry);
        }
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] < entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let left = 2 * place + 1;
            let Some(&(mut child)) = self.heap.get(left) else { break };
            let mut at = left;
            if let Some(&right) = self.heap.get(left + 1).filter(|right| **right < child) {
                (child, at) = (right, left + 1);
            }
            if entry < child {
                break;
            }
            self.put(place, child);
            place = at;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.place[entry.component as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use antiphon_core::Rng;

    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn ties_come_in_the_order_in_which_they_were_made() {
        let mut agenda = Agenda::new(4);
        for component in [2, 0, 3, 1] {
            agenda.set(component, Some(ms(5)));
        }
        // Asking again for the same time keeps the turn, asking for another and coming back does not.
        agenda.set(2, Some(ms(5)));
        agenda.set(0, Some(ms(4)));
        agenda.set(0, Some(ms(5)));
        let mut order = Vec::new();
        while let Some((at, component)) = agenda.first() {
            assert_eq!(at, ms(5));
            order.push(component);
            agenda.set(component, None);
        }
        assert_eq!(order, [2, 3, 1, 0]);
    }

    #[test]
    fn it_agrees_with_a_sorted_list() {
        let mut rng = Rng::new(3);
        let mut agenda = Agenda::new(40);
        let mut list: Vec<(Instant, u64, usize)> = Vec::new();
        for made in 1..20_000 {
            let component = rng.below(40) as usize;
            let at = (rng.below(4) > 0).then(|| ms(u64::from(rng.below(50))));
            let same = list.iter().any(|entry| entry.2 == component && Some(entry.0) == at);
            agenda.set(component, at);
            if !same {
                list.retain(|entry| entry.2 != component);
                list.extend(at.map(|at| (at, made, component)));
                list.sort_unstable();
            }
            assert_eq!(agenda.first(), list.first().map(|entry| (entry.0, entry.2)));
            assert_eq!(agenda.second(), list.get(1).map(|entry| entry.0));
        }
    }
}
