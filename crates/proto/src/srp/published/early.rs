//! The client's buffer for messages that arrive before earlier ones.

use antiphon_core::Instant;

/// Messages by id, in a fixed number of places; buffers are reused.
#[derive(Debug)]
pub(super) struct Early {
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    id: u32,
    taken: bool,
    data: Vec<u8>,
    info: EarlyInfo,
}

/// What is known of a message beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyInfo {
    pub received_at: Instant,
    /// It arrived as the answer to a request.
    pub answer: bool,
}

impl Early {
    pub fn new(places: usize) -> Self {
        let empty = EarlyInfo { received_at: Instant::ZERO, answer: false };
        let place = |_| Place { id: 0, taken: false, data: Vec::new(), info: empty };
        // A power of two, so that neighbours have different places where ids wrap to 0.
        Early { places: (0..places.clamp(1, 1 << 16).next_power_of_two()).map(place).collect() }
    }

    /// No places and no memory: replaces the real buffer while that is moved out.
    pub fn empty() -> Self {
        Early { places: Vec::new() }
    }

    /// Reserves memory for messages of `typical` bytes.
    pub fn reserve(&mut self, typical: usize) {
        for place in &mut self.places {
            place.data.reserve_exact(typical.saturating_sub(place.data.len()));
        }
    }

    /// How many ids, the next expected one included, have a place.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Keeps a message whose id is fewer than [`Self::places`] ahead of the next one; returns whether it is new.
    pub fn store(&mut self, id: u32, data: &[u8], info: EarlyInfo) -> bool {
        let place = self.place(id);
        if place.taken && place.id == id {
            return false;
        }
        place.data.clear();
        place.data.extend_from_slice(data);
        (place.id, place.taken, place.info) = (id, true, info);
        true
    }

    /// The message of that id, if present; it stays readable until another takes its place.
    pub fn take(&mut self, id: u32) -> Option<(EarlyInfo, &[u8])> {
        let place = self.place(id);
        if !place.taken || place.id != id {
            return None;
        }
        place.taken = false;
        Some((place.info, &place.data))
    }

    /// Whether any message waits.
    pub fn holds_any(&self) -> bool {
        self.places.iter().any(|place| place.taken)
    }

    fn place(&mut self, id: u32) -> &mut Place {
        let at = id as usize % self.places.len();
        &mut self.places[at]
    }
}
