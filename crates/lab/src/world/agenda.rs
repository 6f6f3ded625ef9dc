//! The next event: one entry for each component, the earliest first, ties in the order in which they were made.

use antiphon_core::Instant;

/// A tournament tree of the components: each node holds the earlier of its two children. Setting a component's time
/// updates its ancestors as far up as they change; nothing is allocated.
///
/// Two components are beside the tree, so that a change of theirs costs no more than an assignment: one that takes part in most
/// events, and the last of those that had nothing to do and now have. Many of the latter are called next, and then have nothing
/// to do again: a port through which a packet passes, say.
#[derive(Debug)]
pub struct Agenda {
    /// 1 is the root, the children of node *n* are 2*n* and 2*n* + 1, and the second half of all are the components,
    /// filled up to a power of two with some that are never due. The leaves of the two beside the tree are never due, either.
    nodes: Vec<Entry>,
    /// The component with the most changes.
    busiest: usize,
    /// Its entry.
    busy: Entry,
    /// The entry of the component that has something to do since the last change of that kind; at first the busiest one's, as
    /// there is none.
    latest: Entry,
    made: u64,
}

/// A component's time, above the number of its request, above the component: one comparison orders them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry(u128);

impl Entry {
    fn new(at: Instant, order: u64, component: usize) -> Self {
        let turn = order << COMPONENT_BITS | component as u64;
        Entry(u128::from(at.as_nanos()) << 64 | u128::from(turn))
    }

    fn at(self) -> Instant {
        Instant::from_nanos((self.0 >> 64) as u64)
    }

    fn component(self) -> usize {
        self.0 as usize & (MOST_COMPONENTS - 1)
    }
}

/// Room for a million components, and for as many requests as a month of computing makes.
const COMPONENT_BITS: u32 = 20;
const MOST_COMPONENTS: usize = 1 << COMPONENT_BITS;

/// Not due at all.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Agenda {
    /// An agenda for components `0..count`, none of which has anything to do. `busiest`, whose time changes most often, is
    /// the cheapest to set; any choice gives the same order.
    ///
    /// # Panics
    ///
    /// If there are more than a million.
    pub fn new(count: usize, busiest: usize) -> Self {
        let leaves = count.next_power_of_two();
        assert!(leaves <= MOST_COMPONENTS, "{count} components are more than an agenda tells apart");
        let mut nodes: Vec<Entry> = (0..2 * leaves).map(|node| Entry::new(NEVER, 0, node % leaves)).collect();
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        let never = Entry::new(NEVER, 0, busiest);
        Agenda { nodes, busiest, busy: never, latest: never, made: 0 }
    }

    /// The component is to be called at `at`, or not at all. A request for the same time keeps its place among ties.
    #[inline]
    pub fn set(&mut self, component: usize, at: Option<Instant>) {
        let at = at.unwrap_or(NEVER);
        let before = self.entry(component);
        if before.at() == at {
            return;
        }
        self.made += 1;
        let entry = Entry::new(at, self.made, component);
        if component == self.busiest {
            self.busy = entry;
        } else if component == self.latest.component() {
            self.latest = entry;
        } else if before.at() < NEVER {
            self.set_leaf(entry);
        } else {
            let earlier = std::mem::replace(&mut self.latest, entry);
            if earlier.at() < NEVER {
                self.set_leaf(earlier);
            }
        }
    }

    #[inline]
    fn entry(&self, component: usize) -> Entry {
        if component == self.busiest {
            self.busy
        } else if component == self.latest.component() {
            self.latest
        } else {
            self.nodes[self.nodes.len() / 2 + component]
        }
    }

    /// Enters a component's time in the tree.
    fn set_leaf(&mut self, entry: Entry) {
        let nodes = &mut self.nodes[..];
        let (mut node, mut sooner) = (nodes.len() / 2 + entry.component(), entry);
        nodes[node] = sooner;
        while node > 1 {
            sooner = sooner.min(nodes[node ^ 1]);
            node /= 2;
            if std::mem::replace(&mut nodes[node], sooner) == sooner {
                // Nodes further up do not change.
                break;
            }
        }
    }

    /// Whether the component is to be called.
    pub fn is_set(&self, component: usize) -> bool {
        self.entry(component).at() < NEVER
    }

    /// The next component, and when.
    #[inline]
    pub fn first(&self) -> Option<(Instant, usize)> {
        let next = self.nodes[1].min(self.busy).min(self.latest);
        Some((next.at(), next.component())).filter(|(at, _)| *at < NEVER)
    }

    /// When the one after the next is due.
    #[inline]
    pub fn second(&self) -> Option<Instant> {
        let (nodes, root) = (&self.nodes[..], self.nodes[1]);
        let (first, other) = (self.busy.min(self.latest), self.busy.max(self.latest));
        let mut soonest = if first < root { root.min(other).at() } else { first.at() };
        if root <= first {
            // The second of the tree is among those that were compared with its first.
            let mut node = nodes.len() / 2 + root.component();
            while node > 1 {
                soonest = soonest.min(nodes[node ^ 1].at());
                node /= 2;
            }
        }
        Some(soonest).filter(|at| *at < NEVER)
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
        let mut agenda = Agenda::new(4, 3);
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
        for (count, busiest) in [(1, 0), (9, 0), (9, 4), (40, 39), (300, 17)] {
            agrees_with_a_sorted_list(count, busiest);
        }
    }

    fn agrees_with_a_sorted_list(count: u32, busiest: usize) {
        let mut rng = Rng::new(3);
        let mut agenda = Agenda::new(count as usize, busiest);
        let mut list: Vec<(Instant, u64, usize)> = Vec::new();
        for made in 1..20_000 {
            let component = rng.below(count) as usize;
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
