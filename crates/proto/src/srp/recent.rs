//! What a side sent last, to recognise it when it comes back.

/// The last 32 values.
#[derive(Debug)]
pub(super) struct Recent<T> {
    values: [Option<T>; 32],
    next: usize,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent { values: [const { None }; 32], next: 0 }
    }
}

impl<T> Recent<T> {
    /// Adds a value in place of the oldest.
    pub fn push(&mut self, value: T) {
        self.values[self.next] = Some(value);
        self.next = (self.next + 1) % self.values.len();
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }
}
