//! Packet buffers that are reused, within a budget: unknown sources cannot make it use more memory.

use std::cell::RefCell;
use std::rc::Rc;

use antiphon_core::Instant;
use antiphon_link::Packet;

/// Buffers of one emulator thread.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Rc<RefCell<Shared>>,
}

struct Shared {
    free: Vec<Vec<u8>>,
    /// Bytes in packets in flight.
    used: usize,
}

/// Bytes of all packets in flight in one emulator, beyond which it takes no more. A second of 500 Mbit/s.
const BUDGET: usize = 64 << 20;

/// The most buffers kept for reuse; each has grown to the largest packet it carried.
const KEPT: usize = 4096;

impl Pool {
    pub fn new() -> Self {
        Pool { shared: Rc::new(RefCell::new(Shared { free: Vec::with_capacity(KEPT), used: 0 })) }
    }

    /// A packet with these bytes that came at `now`; `None` if the budget is used up. `overhead`: additional bytes that it takes on
    /// the link.
    pub fn packet(&self, now: Instant, bytes: &[u8], overhead: usize) -> Option<Pooled> {
        if self.shared.borrow().used + bytes.len() > BUDGET {
            return None;
        }
        Some(self.copy(now, bytes, overhead))
    }

    fn copy(&self, came: Instant, bytes: &[u8], overhead: usize) -> Pooled {
        let mut shared = self.shared.borrow_mut();
        shared.used += bytes.len();
        let mut buffer = shared.free.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Pooled { buffer, came, overhead, pool: self.clone() }
    }
}

/// A packet whose buffer returns to the pool when it is dropped.
pub(crate) struct Pooled {
    buffer: Vec<u8>,
    came: Instant,
    overhead: usize,
    pool: Pool,
}

impl Pooled {
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// When it came to the link.
    pub fn came(&self) -> Instant {
        self.came
    }
}

impl Packet for Pooled {
    fn wire_len(&self) -> usize {
        self.buffer.len() + self.overhead
    }

    fn priority(&self) -> Option<u16> {
        None
    }

    /// Copies count against the budget, but are not refused: a link makes at most one of each packet.
    fn duplicate(&self) -> Self {
        self.pool.copy(self.came, &self.buffer, self.overhead)
    }

    fn flip_bit(&mut self, bit: u64) {
        self.buffer.flip_bit(bit);
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut shared = self.pool.shared.borrow_mut();
        shared.used -= self.buffer.len();
        // A buffer that carried a very large packet is freed, so that not 4096 of them are kept.
        if shared.free.len() < KEPT && self.buffer.capacity() <= 4096 {
            shared.free.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_and_comes_back() {
        let pool = Pool::new();
        let giant = vec![0u8; 1 << 20];
        let mut held: Vec<Pooled> = std::iter::from_fn(|| pool.packet(Instant::ZERO, &giant, 28)).collect();
        assert_eq!(held.len(), BUDGET >> 20);
        assert!(pool.packet(Instant::ZERO, &[1], 0).is_none());
        held.pop();
        let small = pool.packet(Instant::ZERO, &[1, 2, 3], 28).expect("there is room again");
        assert_eq!((small.bytes(), small.wire_len()), (&[1u8, 2, 3][..], 31));
        drop(held);
        assert_eq!(pool.shared.borrow().used, 3);
    }
}
