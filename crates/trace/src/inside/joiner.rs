//! Joins messages from numbered pieces.

use std::collections::{BTreeMap, VecDeque};

use antiphon_core::Fragment;

/// Joins the pieces of messages by their numbers, and omits repeated pieces.
///
/// `F` distinguishes flows: direction and peer. The joiner keeps the numbers of the last [`MAX_HELD`] pieces and, for
/// pieces of incomplete messages, also the bytes, at most [`MAX_HELD_BYTES`]; beyond that the oldest are dropped.
#[derive(Debug)]
pub struct Joiner<F> {
    held: BTreeMap<Name<F>, Held>,
    /// Names in order of arrival, with the count of pieces then: a name may return for another piece.
    order: VecDeque<(Name<F>, u64)>,
    taken: u64,
    bytes: usize,
    message: Vec<u8>,
    lacking: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Name<F> {
    flow: F,
    line: u128,
    number: u32,
}

#[derive(Debug)]
struct Held {
    serial: u64,
    first: bool,
    last: bool,
    print: u64,
    /// `None` once the message has been shown.
    bytes: Option<Vec<u8>>,
}

impl<F: Copy + Ord> Default for Joiner<F> {
    fn default() -> Self {
        Joiner {
            held: BTreeMap::new(),
            order: VecDeque::new(),
            taken: 0,
            bytes: 0,
            message: Vec::new(),
            lacking: 0,
        }
    }
}

impl<F: Copy + Ord> Joiner<F> {
    /// Takes a piece; returns the message that it completes. A piece received recently is ignored.
    pub fn take(&mut self, flow: F, piece: &Fragment<'_>) -> Option<&[u8]> {
        let name = Name { flow, line: piece.line, number: piece.number };
        let print = fingerprint(piece);
        if self.held.get(&name).is_some_and(|held| held.print == print) {
            return None;
        }
        // The same number with different content: a sender that restarted.
        self.forget(&name);
        let alone = piece.first && piece.last;
        let len = if alone { 0 } else { piece.bytes.len() };
        self.make_room(len);
        self.taken += 1;
        let bytes = (!alone).then(|| piece.bytes.to_vec());
        let held = Held { serial: self.taken, first: piece.first, last: piece.last, print, bytes };
        self.bytes += len;
        self.held.insert(name, held);
        self.order.push_back((name, self.taken));
        if alone {
            self.message.clear();
            self.message.extend_from_slice(piece.bytes);
            return Some(&self.message);
        }
        let (start, pieces) = self.run(name)?;
        self.join(start, pieces);
        Some(&self.message)
    }

    /// Drops incomplete messages; returns how many pieces could not be shown because the rest of their message did not
    /// arrive in time.
    pub fn finish(&mut self) -> u64 {
        self.lacking += self.held.values().filter(|held| held.bytes.is_some()).count() as u64;
        (self.bytes, self.held, self.order) = (0, BTreeMap::new(), VecDeque::new());
        self.lacking
    }

    /// The first piece of the message to which `name` belongs, and its number of pieces, if all are here.
    fn run(&self, name: Name<F>) -> Option<(Name<F>, usize)> {
        let waiting = |name: &Name<F>| self.held.get(name).filter(|held| held.bytes.is_some());
        let (mut start, mut pieces) = (name, 1);
        while !waiting(&start)?.first {
            start.number = start.number.wrapping_sub(1);
            pieces += 1;
            // The last piece of a message can't precede another piece of the same message.
            if pieces > MAX_PIECES || waiting(&start)?.last {
                return None;
            }
        }
        let mut end = name;
        while !waiting(&end)?.last {
            end.number = end.number.wrapping_add(1);
            pieces += 1;
            if pieces > MAX_PIECES || waiting(&end)?.first {
                return None;
            }
        }
        Some((start, pieces))
    }

    fn join(&mut self, mut name: Name<F>, pieces: usize) {
        self.message.clear();
        for _ in 0..pieces {
            let held = self.held.get_mut(&name).expect("the run is of pieces that are here");
            let bytes = held.bytes.take().expect("and wait for the others");
            self.bytes -= bytes.len();
            self.message.extend_from_slice(&bytes);
            name.number = name.number.wrapping_add(1);
        }
    }

    fn make_room(&mut self, len: usize) {
        while self.order.len() >= MAX_HELD || self.bytes + len > MAX_HELD_BYTES {
            let Some((name, serial)) = self.order.pop_front() else { return };
            if self.held.get(&name).is_some_and(|held| held.serial == serial) {
                self.forget(&name);
            }
        }
    }

    fn forget(&mut self, name: &Name<F>) {
        if let Some(bytes) = self.held.remove(name).and_then(|held| held.bytes) {
            self.bytes -= bytes.len();
            self.lacking += 1;
        }
    }
}

/// Distinguishes a repeated piece from another with its number (FNV-1a with 64 bits).
fn fingerprint(piece: &Fragment<'_>) -> u64 {
    let feed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let place = u8::from(piece.first) | u8::from(piece.last) << 1;
    piece.bytes.iter().fold(feed(0xcbf2_9ce4_8422_2325, place), |hash, byte| feed(hash, *byte))
}

/// Most pieces kept: a thousand packets a second for four seconds, within which repairs arrive.
pub const MAX_HELD: usize = 4_096;
/// Most bytes of incomplete messages.
pub const MAX_HELD_BYTES: usize = 1 << 20;
/// Most pieces of a message: more than a UDP packet (65 507 bytes) has at 260 bytes a piece.
pub const MAX_PIECES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(number: u32, at: &str, bytes: &'static [u8]) -> Fragment<'static> {
        Fragment { line: 1, number, first: at.contains('<'), last: at.contains('>'), bytes }
    }

    #[test]
    fn parts_are_joined_in_any_order_across_the_wrap() {
        let mut joiner = Joiner::default();
        let parts = [piece(1, ">", b"d"), piece(u32::MAX, "<", b"a"), piece(u32::MAX - 1, "<>", b"x")];
        assert_eq!(joiner.take((), &parts[0]), None);
        assert_eq!(joiner.take((), &parts[1]), None);
        assert_eq!(joiner.take((), &parts[2]), Some(&b"x"[..]));
        // The flow is another one: none of its pieces belong here.
        let mut others = Joiner::default();
        assert_eq!(others.take(2, &parts[0]), None);
        assert_eq!(others.take(1, &piece(0, "", b"bc")), None);
        assert_eq!(others.take(1, &parts[1]), None);
        assert_eq!(joiner.take((), &piece(0, "", b"bc")), Some(&b"abcd"[..]));
        assert_eq!((joiner.finish(), others.finish()), (0, 3));
    }

    #[test]
    fn repeated_pieces_are_not_shown_again() {
        let mut joiner = Joiner::default();
        assert!(joiner.take((), &piece(7, "<>", b"message")).is_some());
        assert_eq!(joiner.take((), &piece(7, "<>", b"message")), None);
        assert_eq!(joiner.take((), &piece(7, "<>", b"other")), Some(&b"other"[..]));
        for _ in 0..2 {
            assert_eq!(joiner.take((), &piece(8, "<", b"a")), None);
        }
        assert_eq!(joiner.take((), &piece(9, ">", b"b")), Some(&b"ab"[..]));
        assert_eq!(joiner.take((), &piece(9, ">", b"b")), None);
        assert_eq!(joiner.finish(), 0, "a repetition lacks nothing");
    }

    #[test]
    fn frames_without_end_are_bounded_and_counted() {
        let big = [0; 10_000].as_slice();
        let mut joiner = Joiner::default();
        for number in 0..1_000 {
            assert_eq!(
                joiner.take((), &Fragment { line: 1, number, first: number == 0, last: false, bytes: big }),
                None
            );
        }
        assert!(joiner.bytes <= MAX_HELD_BYTES);
        assert_eq!(joiner.lacking, 1_000 - MAX_HELD_BYTES as u64 / 10_000);
        for number in 0..2 * MAX_HELD as u32 {
            joiner.take((), &Fragment { line: 2, number, first: false, last: false, bytes: &[1] });
        }
        assert_eq!((joiner.held.len(), joiner.order.len()), (MAX_HELD, MAX_HELD));
        assert_eq!(joiner.finish(), 1_000 + 2 * MAX_HELD as u64);
    }

    #[test]
    fn a_beginning_ends_what_stood_before_it() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.take((), &piece(1, "<", b"a")), None);
        assert_eq!(joiner.take((), &piece(2, "<", b"b")), None);
        assert_eq!(joiner.take((), &piece(3, ">", b"c")), Some(&b"bc"[..]));
        assert_eq!(joiner.finish(), 1);
    }

    proptest! {
        /// Any order, with repetitions: each message once, whole.
        #[test]
        fn each_frame_comes_out_once(
            sizes in prop::collection::vec(1usize..6, 1..20), start: u32,
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
        ) {
            let mut pieces = Vec::new();
            for (message, size) in sizes.iter().enumerate() {
                for index in 0..*size {
                    let bytes = [message as u8, index as u8];
                    pieces.push((index == 0, index + 1 == *size, bytes));
                }
            }
            let order = order.iter().map(|index| index.index(pieces.len())).chain(0..pieces.len());
            let (mut joiner, mut messages) = (Joiner::default(), Vec::new());
            for n in order {
                let (first, last, bytes) = &pieces[n];
                let number = start.wrapping_add(n as u32);
                let piece = Fragment { line: 0, number, first: *first, last: *last, bytes };
                messages.extend(joiner.take((), &piece).map(<[u8]>::to_vec));
            }
            messages.sort();
            let whole = |(message, size): (usize, &usize)| (0..*size).flat_map(|index| [message as u8, index as u8]).collect();
            let expected: Vec<Vec<u8>> = sizes.iter().enumerate().map(whole).collect();
            prop_assert_eq!(messages, expected);
            prop_assert_eq!(joiner.finish(), 0);
        }
    }
}
