//! A member's coded repairs: recent packets, and combinations of which several packets are missing.

use std::collections::VecDeque;

use super::combination::{Combination, Content, FIXED, MOST_NAMED, coefficient};
use crate::gf256;
use crate::pool::Pool;

/// Finds missing packets from combinations.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Packets that have come, ascending by position: those that a repair of what is missing may name, [`LEAST_KEPT`] at least and [`MOST_KEPT`]
    /// at most.
    kept: VecDeque<Kept>,
    /// Combinations reduced to what is missing. Each begins with its first unknown in the stream, which no other has.
    equations: Vec<Equation>,
    /// Equations that are not used now.
    spare: Vec<Equation>,
    seen: Vec<u64>,
    pool: Pool,
    /// Packets found, to be fetched.
    found: VecDeque<Kept>,
}

/// A data packet.
#[derive(Debug)]
pub(super) struct Kept {
    pub from: u64,
    tag: Option<u64>,
    ends: bool,
    sort: u16,
    bytes: Vec<u8>,
}

impl Kept {
    pub fn content(&self) -> Content<'_> {
        Content { tag: self.tag, ends: self.ends, sort: self.sort, bytes: &self.bytes }
    }
}

#[derive(Debug, Default)]
struct Equation {
    unknown: Vec<Unknown>,
    sum: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Unknown {
    from: u64,
    len: usize,
    factor: u8,
}

impl Equation {
    fn factor_of(&self, from: u64) -> Option<u8> {
        self.unknown.iter().find(|unknown| unknown.from == from).map(|unknown| unknown.factor)
    }

    /// Adds `factor` times another.
    fn add(&mut self, factor: u8, other: &Equation) {
        for term in &other.unknown {
            let product = gf256::multiply(factor, term.factor);
            match self.unknown.iter_mut().find(|unknown| unknown.from == term.from) {
                Some(unknown) => unknown.factor ^= product,
                None => self.unknown.push(Unknown { factor: product, ..*term }),
            }
        }
        self.unknown.retain(|unknown| unknown.factor != 0);
        if self.sum.len() < other.sum.len() {
            self.sum.resize(other.sum.len(), 0);
        }
        gf256::add_multiple(&mut self.sum, factor, &other.sum);
    }

    /// An unknown has become known.
    fn put_in(&mut self, from: u64, content: Content<'_>) {
        let Some(place) = self.unknown.iter().position(|unknown| unknown.from == from) else { return };
        let Unknown { factor, len, .. } = self.unknown.swap_remove(place);
        if len == content.bytes.len() && self.sum.len() >= FIXED + len {
            content.add_to(&mut self.sum, factor);
        } else {
            // The sender contradicts itself.
            self.unknown.clear();
        }
    }
}

impl Decoder {
    pub fn new() -> Self {
        Decoder {
            kept: VecDeque::new(),
            equations: Vec::new(),
            spare: Vec::new(),
            seen: Vec::new(),
            pool: Pool::new(MOST_KEPT),
            found: VecDeque::new(),
        }
    }

    /// Allocates what it needs for packets of `typical` bytes.
    pub fn reserve(&mut self, typical: usize) {
        self.kept.reserve_exact((LEAST_KEPT + 1).saturating_sub(self.kept.len()));
        self.found.reserve_exact(MOST_EQUATIONS);
        self.equations.reserve_exact(MOST_EQUATIONS);
        self.seen.reserve_exact(MOST_EQUATIONS);
        self.spare.reserve_exact(MOST_EQUATIONS + 1);
        self.pool.fill(LEAST_KEPT + 1, LEAST_KEPT + 1, typical);
        while self.spare.len() + self.equations.len() <= MOST_EQUATIONS {
            let (unknown, sum) = (Vec::with_capacity(2 * MOST_UNKNOWN), Vec::with_capacity(typical));
            self.spare.push(Equation { unknown, sum });
        }
    }

    fn give_back(&mut self, mut equation: Equation) {
        equation.unknown.clear();
        equation.sum.clear();
        if self.spare.len() <= MOST_EQUATIONS {
            self.spare.push(equation);
        }
    }

    /// Whether a packet of that position has come lately.
    fn has(&self, from: u64) -> Result<usize, usize> {
        self.kept.binary_search_by_key(&from, |kept| kept.from)
    }

    /// A packet has come or was found: what it is part of becomes simpler. `complete`: all before this position has come or is given up.
    pub fn keep(&mut self, complete: u64, from: u64, content: Content<'_>) {
        let Err(place) = self.has(from) else { return };
        let mut bytes = self.pool.take();
        bytes.extend_from_slice(content.bytes);
        let Content { tag, ends, sort, .. } = content;
        self.kept.insert(place, Kept { from, tag, ends, sort, bytes });
        self.forget(complete);
        let begins = |equation: &Equation| equation.unknown.first().is_some_and(|first| first.from == from);
        if let Some(at) = self.equations.iter().position(begins) {
            // No other has it. This one gets another first unknown, which no other may have.
            let mut equation = self.equations.swap_remove(at);
            equation.put_in(from, content);
            self.insert(equation);
        } else {
            self.equations.iter_mut().for_each(|equation| equation.put_in(from, content));
        }
        self.solve();
    }

    /// A repair names packets of one stretch. So of those far before the first gap none is needed, and of sound, which is given up soon, no more than
    /// memory was reserved for.
    fn forget(&mut self, complete: u64) {
        let is_over = |kept: &VecDeque<Kept>| {
            let behind = kept.get(MOST_NAMED).filter(|_| kept.len() > LEAST_KEPT);
            behind.is_some_and(|behind| behind.from < complete || kept.len() > MOST_KEPT)
        };
        while is_over(&self.kept)
            && let Some(oldest) = self.kept.pop_front()
        {
            self.pool.give(oldest.bytes);
        }
    }

    /// A combination has come. `is_missing` says of a position whether it has not come. False: it is of no use.
    pub fn take(&mut self, combination: &Combination<'_>, is_missing: impl Fn(u64) -> bool) -> bool {
        if self.equations.len() >= MOST_EQUATIONS {
            return false;
        }
        // Enough are spare once memory is reserved; before that one is made.
        let mut equation = self.spare.pop().unwrap_or_default();
        equation.sum.extend_from_slice(combination.sum);
        for (from, len) in combination.packets() {
            let factor = coefficient(combination.index, from);
            match self.has(from) {
                Ok(at) if self.kept[at].bytes.len() == len => {
                    self.kept[at].content().add_to(&mut equation.sum, factor);
                }
                Err(_) if is_missing(from) => equation.unknown.push(Unknown { from, len, factor }),
                // It has come, and is no longer kept.
                _ => {
                    self.give_back(equation);
                    return false;
                }
            }
        }
        for other in &self.equations {
            if let Some(factor) = equation.factor_of(other.unknown[0].from) {
                equation.add(factor, other);
            }
        }
        let useful = self.insert(equation);
        self.solve();
        useful
    }

    /// Adds an equation that has no other's first unknown. False: it says nothing new, or too little about too much.
    fn insert(&mut self, mut equation: Equation) -> bool {
        if !(1..=MOST_UNKNOWN).contains(&equation.unknown.len()) {
            self.give_back(equation);
            return false;
        }
        // What is missing first may be played first: so that this is found, the others are asked for.
        let first = (0..equation.unknown.len()).min_by_key(|at| equation.unknown[*at].from).unwrap_or(0);
        equation.unknown.swap(0, first);
        let inverse = gf256::inverse(equation.unknown[0].factor);
        gf256::scale(&mut equation.sum, inverse);
        equation
            .unknown
            .iter_mut()
            .for_each(|unknown| unknown.factor = gf256::multiply(unknown.factor, inverse));
        let pivot = equation.unknown[0].from;
        for other in &mut self.equations {
            if let Some(factor) = other.factor_of(pivot) {
                other.add(factor, &equation);
            }
        }
        self.equations.push(equation);
        while let Some(at) = self.equations.iter().position(|other| other.unknown.len() > MOST_UNKNOWN) {
            let equation = self.equations.swap_remove(at);
            self.give_back(equation);
        }
        true
    }

    /// Finds the packets of equations with one unknown.
    fn solve(&mut self) {
        while let Some(at) = self.equations.iter().position(|equation| equation.unknown.len() <= 1) {
            let mut equation = self.equations.swap_remove(at);
            if let Some(unknown) = equation.unknown.first().copied() {
                gf256::scale(&mut equation.sum, gf256::inverse(unknown.factor));
                if let Some(content) = Content::read(&equation.sum, unknown.len) {
                    let mut bytes = self.pool.take();
                    bytes.extend_from_slice(content.bytes);
                    let Content { tag, ends, sort, .. } = content;
                    self.found.push_back(Kept { from: unknown.from, tag, ends, sort, bytes });
                }
            }
            self.give_back(equation);
        }
    }

    /// First bytes of the packets that follow from combinations as soon as the others of these have come, ascending: one for each combination.
    pub fn seen(&mut self) -> &[u64] {
        self.seen.clear();
        self.seen.extend(self.equations.iter().map(|equation| equation.unknown[0].from));
        self.seen.sort_unstable();
        &self.seen
    }

    /// A packet that was found, to be given to [`Self::return_found`].
    pub fn poll_found(&mut self) -> Option<Kept> {
        self.found.pop_front()
    }

    /// Returns the packet of [`Self::poll_found`]. If it was of use, it is kept as if it had come.
    pub fn return_found(&mut self, complete: u64, found: Kept, of_use: bool) {
        if of_use {
            self.keep(complete, found.from, found.content());
        }
        self.pool.give(found.bytes);
    }

    /// What is missing before `position` is given up: nothing is searched there any more.
    pub fn give_up(&mut self, position: u64) {
        let is_over = |equation: &Equation| equation.unknown.iter().any(|unknown| unknown.from < position);
        while let Some(at) = self.equations.iter().position(is_over) {
            let equation = self.equations.swap_remove(at);
            self.give_back(equation);
        }
    }
}

/// Packets that are kept for combinations whatever is missing: at 5 ms a packet those of 2.5 s.
const LEAST_KEPT: usize = 512;
/// Packets that are kept at most, 6 MB of full ones: those of 2.5 s at 20 Mbit/s.
pub(super) const MOST_KEPT: usize = 4096;
/// Combinations that wait for others: the packets that one names.
const MOST_EQUATIONS: usize = MOST_NAMED;
/// Unknowns of one of them. Equations of far-apart packets are not put together without end.
const MOST_UNKNOWN: usize = 2 * MOST_EQUATIONS;

#[cfg(test)]
mod tests;
