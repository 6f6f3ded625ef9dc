//! Restores packets that come in any order to the order of their numbers, within a bounded range.

use std::collections::VecDeque;

use super::PacketRow;

/// The meaning of a number that never came although higher ones did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hole {
    /// The path lost it: it gets a row without arrival.
    Lost,
    /// It was never sent, as over a transport that loses nothing: it gets no row.
    NotSent,
}

/// Holds the last [`Window::LEN`] numbers of a stream, since a packet may be overtaken and its fate known late, and
/// outputs rows in rising order. A row whose number has already been output is counted and dropped.
pub struct Window {
    rows: VecDeque<Option<PacketRow>>,
    /// Number of the first of `rows`, once there is one.
    first: Option<u64>,
    hole: Hole,
    too_late: u64,
}

impl Window {
    /// Numbers held: 5 s of 5 ms packets. A packet overtaken by more is of no use to a listener.
    pub const LEN: usize = 1024;

    /// The most holes that one step makes: half of RTP's number space. After a larger step, the stream continues as if
    /// it began there.
    pub const MAX_STEP: u64 = 1 << 15;

    /// An empty window.
    pub fn new(hole: Hole) -> Self {
        Window { rows: VecDeque::with_capacity(Self::LEN), first: None, hole, too_late: 0 }
    }

    /// Takes a packet. If its number is already held, it is a duplicate. Rows that no longer fit go to `each`.
    pub fn put<E>(
        &mut self,
        row: PacketRow,
        mut each: impl FnMut(PacketRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = *self.first.get_or_insert(row.number);
        let Some(ahead) = row.number.checked_sub(first) else {
            self.too_late += 1;
            return Ok(());
        };
        if ahead > self.rows.len() as u64 + Self::MAX_STEP {
            self.flush(&mut each)?;
            self.first = Some(row.number);
        }
        while row.number >= self.next() {
            if self.rows.len() == Self::LEN {
                self.let_one_out(&mut each)?;
            }
            self.rows.push_back(None);
        }
        match self.slot(row.number) {
            Some(Some(there)) => there.duplicates = there.duplicates.saturating_add(1),
            Some(empty) => *empty = Some(row),
            None => unreachable!("room was made for this number"),
        }
        Ok(())
    }

    /// The row of `number`, if it is still held, for changes; set to `None`, it becomes a hole.
    pub fn slot(&mut self, number: u64) -> Option<&mut Option<PacketRow>> {
        let index = number.checked_sub(self.first?)?;
        self.rows.get_mut(usize::try_from(index).ok()?)
    }

    /// The rows held, in order.
    #[cfg(test)]
    pub fn rows(&self) -> impl Iterator<Item = &PacketRow> {
        self.rows.iter().flatten()
    }

    /// Outputs all rows.
    pub fn flush<E>(&mut self, mut each: impl FnMut(PacketRow) -> Result<(), E>) -> Result<(), E> {
        while !self.rows.is_empty() {
            self.let_one_out(&mut each)?;
        }
        Ok(())
    }

    /// Packets that came after their number had been output.
    pub fn too_late(&self) -> u64 {
        self.too_late
    }

    fn next(&self) -> u64 {
        self.first.map_or(0, |first| first + self.rows.len() as u64)
    }

    fn let_one_out<E>(&mut self, each: &mut impl FnMut(PacketRow) -> Result<(), E>) -> Result<(), E> {
        let (Some(number), Some(row)) = (self.first, self.rows.pop_front()) else { return Ok(()) };
        self.first = Some(number + 1);
        match row {
            Some(row) => each(row),
            None if self.hole == Hole::Lost => each(PacketRow { number, ..PacketRow::default() }),
            None => Ok(()),
        }
    }
}
