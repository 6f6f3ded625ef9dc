//! The receiver of the improved mode: which numbers have arrived, and the acknowledgements of them.

use std::time::Duration;

use antiphon_core::Instant;

use super::wire::{ACK_PART, AGE_UNIT_NANOS, Ack, Data, MAX_MAP, SPAN, unwrap};
use crate::probation::Probation;

/// Which numbers of the peer have arrived, and the acknowledgement that is due.
#[derive(Debug)]
pub(super) struct Window {
    ack_delay: Duration,
    numbering: Option<Numbering>,
    /// Other numberings, one of which may take its place.
    probation: Probation,
    owed: Owed,
    map: [u8; MAX_MAP],
}

#[derive(Debug)]
struct Numbering {
    epoch: u32,
    /// Everything before this number is settled.
    floor: u64,
    /// The number after the highest that arrived.
    end: u64,
    /// `floor..floor + SPAN`, by number modulo `SPAN`.
    arrived: [u64; SPAN as usize / 64],
    latest: u64,
    latest_repeated: bool,
    latest_at: Instant,
    /// When a number last came that was new: what is replayed doesn't keep it alive.
    new_at: Instant,
}

/// The acknowledgement that is due.
#[derive(Clone, Copy, Default, Debug)]
struct Owed {
    packets: u32,
    /// Bytes received since the last acknowledgement, which must not be longer, so that no address can be flooded
    /// through us.
    bytes: usize,
    due: Option<Instant>,
    now: bool,
}

/// Kind of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    New,
    /// It arrived before, or the sender had given it up.
    Duplicate,
    /// It belongs to another numbering, or comes before the first number.
    Foreign,
}

impl Window {
    pub fn new(ack_delay: Duration) -> Self {
        let owed = Owed::default();
        Window { ack_delay, numbering: None, probation: Probation::default(), owed, map: [0; MAX_MAP] }
    }

    /// Notes a data packet; `len` is that of its datagram.
    pub fn receive(&mut self, now: Instant, data: &Data<'_>, received_at: Instant, len: usize) -> Arrival {
        let other = self.numbering.as_ref().filter(|n| n.epoch != data.epoch);
        let mut is_proved = |known_at| {
            !data.repeated && self.probation.is_proved_by(data.epoch, data.number, received_at, known_at)
        };
        if other.is_some_and(|n| !is_proved(n.new_at)) {
            return Arrival::Foreign;
        }
        if self.numbering.as_ref().is_none_or(|n| n.epoch != data.epoch) {
            self.numbering = Some(Numbering::new(data, received_at));
            self.owed = Owed::default();
        }
        let Some(numbering) = &mut self.numbering else { return Arrival::Foreign };
        let Some((arrival, gap)) = numbering.note(data, received_at) else { return Arrival::Foreign };
        if arrival == Arrival::New {
            numbering.new_at = received_at;
            self.probation.clear();
        }
        let owed = &mut self.owed;
        owed.packets += 1;
        owed.bytes = owed.bytes.saturating_add(len);
        owed.now |= gap || owed.packets >= MOST_PACKETS;
        owed.due = owed.due.or(Some(now + self.ack_delay));
        arrival
    }

    /// Whether an acknowledgement may be added to a data packet.
    pub fn is_owed(&self) -> bool {
        self.owed.packets > 0
    }

    /// Whether an acknowledgement must be sent by itself.
    pub fn is_due(&self) -> bool {
        self.owed.now
    }

    /// If an acknowledgement is due, it must be sent now.
    pub fn hurry(&mut self) {
        self.owed.now = self.is_owed();
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.owed.due.filter(|_| !self.owed.now)
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.owed.now |= self.owed.due.is_some_and(|due| due <= now);
    }

    /// The bytes of an acknowledgement inside a packet, if one is due.
    pub fn ack_len(&self) -> usize {
        ACK_PART + self.map_len()
    }

    fn map_len(&self) -> usize {
        let allowed = self.owed.bytes.saturating_sub(2 + ACK_PART);
        let wanted = self.numbering.as_ref().map_or(0, |n| n.end.saturating_sub(n.floor + 1).div_ceil(8));
        (wanted as usize).min(allowed).min(MAX_MAP)
    }

    /// The acknowledgement that is due; it counts as sent.
    pub fn take_ack(&mut self, now: Instant) -> Option<Ack<'_>> {
        let map_len = self.map_len();
        let numbering = self.numbering.as_ref().filter(|_| self.owed.packets > 0)?;
        for (i, byte) in self.map[..map_len].iter_mut().enumerate() {
            let from = numbering.floor + 1 + 8 * i as u64;
            *byte = (0..8).fold(0, |byte, bit| byte | u8::from(numbering.has(from + bit)) << bit);
        }
        self.owed = Owed::default();
        let age = now.since(numbering.latest_at).as_nanos() as u64 / AGE_UNIT_NANOS;
        Some(Ack {
            epoch: numbering.epoch,
            floor: numbering.floor as u32,
            latest: numbering.latest.wrapping_sub(numbering.floor) as i16,
            latest_repeated: numbering.latest_repeated,
            age: u16::try_from(age).unwrap_or(u16::MAX),
            map: &self.map[..map_len],
        })
    }
}

impl Numbering {
    fn new(data: &Data<'_>, at: Instant) -> Self {
        // In the second cycle, so that numbers before the first one seen stay positive.
        let number = (1 << 32) + u64::from(data.number);
        let floor = number - u64::from(data.back);
        let arrived = [0; SPAN as usize / 64];
        let (epoch, latest_repeated) = (data.epoch, data.repeated);
        Numbering {
            epoch,
            floor,
            end: floor,
            arrived,
            latest: number,
            latest_repeated,
            latest_at: at,
            new_at: at,
        }
    }

    /// Notes an arrival; whether it was new, and whether it revealed a gap. `None` for a number before the first.
    fn note(&mut self, data: &Data<'_>, at: Instant) -> Option<(Arrival, bool)> {
        let number = unwrap(self.floor, data.number)?;
        // Numbers that the sender no longer waits for are settled here, too. After this, `number` is inside the span.
        self.advance_to(number.saturating_sub(u64::from(data.back)));
        if number < self.floor && self.floor - number > SPAN {
            // So old that the sender cannot be waiting for it.
            return Some((Arrival::Duplicate, false));
        }
        (self.latest, self.latest_repeated, self.latest_at) = (number, data.repeated, at);
        if number < self.floor || self.has(number) {
            return Some((Arrival::Duplicate, false));
        }
        let gap = number > self.end.max(self.floor);
        self.arrived[word(number)] |= bit(number);
        self.end = self.end.max(number + 1);
        self.advance_to(self.floor);
        Some((Arrival::New, gap))
    }

    /// Settles everything before `floor`, and what has arrived from there on.
    fn advance_to(&mut self, floor: u64) {
        if floor.saturating_sub(self.floor) >= SPAN {
            self.arrived = [0; SPAN as usize / 64];
            self.floor = floor;
        }
        while self.floor < floor || self.has(self.floor) {
            self.arrived[word(self.floor)] &= !bit(self.floor);
            self.floor += 1;
        }
    }

    fn has(&self, number: u64) -> bool {
        number >= self.floor && number - self.floor < SPAN && self.arrived[word(number)] & bit(number) != 0
    }
}

fn word(number: u64) -> usize {
    (number % SPAN / 64) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

/// An acknowledgement after at most so many packets, however fast they come.
const MOST_PACKETS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn data(number: u32, back: u16) -> Data<'static> {
        Data { epoch: 7, number, back, repeated: false, payload: b"x" }
    }

    fn receive(window: &mut Window, number: u32, back: u16) -> Arrival {
        window.receive(Instant::ZERO, &data(number, back), Instant::ZERO, 100)
    }

    #[test]
    fn gaps_show_at_once_and_duplicates_count_as_such() {
        let mut window = Window::new(Duration::from_millis(5));
        let near_the_wrap = u32::MAX - 1;
        assert_eq!(receive(&mut window, near_the_wrap, 0), Arrival::New);
        assert!(!window.is_due() && window.poll_timeout() == Some(Instant::from_millis(5)));
        assert_eq!(receive(&mut window, 1, 3), Arrival::New);
        assert!(window.is_due(), "u32::MAX and 0 are missing");
        let ack = window.take_ack(Instant::from_millis(1)).unwrap();
        assert_eq!((ack.floor, ack.latest, ack.age, ack.map), (u32::MAX, 2, 100, &[0b10][..]));
        assert_eq!(receive(&mut window, 1, 3), Arrival::Duplicate);
        assert_eq!(receive(&mut window, near_the_wrap, 0), Arrival::Duplicate);
        assert_eq!(receive(&mut window, u32::MAX, 0), Arrival::New);
        // The sender gives up 0: its next packet says so.
        assert_eq!(receive(&mut window, 2, 1), Arrival::New);
        let ack = window.take_ack(Instant::ZERO).unwrap();
        assert_eq!((ack.floor, ack.map), (3, &[][..]));
        assert!(window.take_ack(Instant::ZERO).is_none(), "owed once");
    }

    #[test]
    fn another_numbering_takes_over_when_this_one_has_been_silent() {
        let mut window = Window::new(Duration::ZERO);
        receive(&mut window, 5, 0);
        let late = Instant::from_millis(1001);
        let mut restarted = |number, back| {
            let data = Data { epoch: 8, ..data(number, back) };
            let arrival = window.receive(late, &data, late, 100);
            (arrival, window.take_ack(late).map(|ack| (ack.epoch, ack.floor)))
        };
        assert_eq!(restarted(1_000_000, 0), (Arrival::Foreign, Some((7, 6))), "what was owed before");
        assert_eq!(restarted(1_000_001, 1), (Arrival::Foreign, None));
        // The sender still waits for the first two.
        assert_eq!(restarted(1_000_002, 2), (Arrival::New, Some((8, 1_000_000))));
        let data = Data { epoch: 8, repeated: true, ..data(1_000_000, 2) };
        assert_eq!(window.receive(late, &data, late, 100), Arrival::New);
        assert_eq!(receive(&mut window, 6, 0), Arrival::Foreign, "late packets don't bring an old one back");
    }

    #[test]
    fn an_acknowledgement_is_no_longer_than_what_called_for_it() {
        let mut window = Window::new(Duration::ZERO);
        window.receive(Instant::ZERO, &data(0, 0), Instant::ZERO, 13);
        window.take_ack(Instant::ZERO);
        window.receive(Instant::ZERO, &data(1000, 999), Instant::ZERO, 20);
        assert_eq!(2 + window.ack_len(), 20);
        let ack = window.take_ack(Instant::ZERO).unwrap();
        assert_eq!((ack.floor, ack.latest, ack.map), (1, 999, &[0; 5][..]));
    }

    #[test]
    fn far_off_numbers_cost_no_more_than_near_ones() {
        let mut window = Window::new(Duration::ZERO);
        for number in [0, 1 << 30, 5, 1 << 31, u32::MAX, 7, 3 << 30, 0] {
            receive(&mut window, number, 1023);
            if let Some(ack) = window.take_ack(Instant::ZERO) {
                assert!(ack.map.len() <= MAX_MAP);
            }
        }
    }
}
