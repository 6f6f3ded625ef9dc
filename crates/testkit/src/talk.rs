//! Numbered messages, and when a party sends them.

use std::time::Duration;

use antiphon_core::{Instant, Profile, StreamId};

/// A message that looks like RTP (version 2), carries its number and is filled so that mixed-up bytes show. At least 8 bytes.
pub fn message(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (number as usize * 31 + at) as u8).collect();
    bytes[0] = 0x80;
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The number of such a message.
pub fn number_of(message: &[u8]) -> u32 {
    u32::from_be_bytes([message[4], message[5], message[6], message[7]])
}

/// The numbers of the messages that begin in a datagram.
pub fn numbers_in(datagram: &[u8]) -> impl Iterator<Item = u32> {
    let begins = |at: &[u8]| Some(number_of(at)).filter(|number| at == &message(*number, MARK)[..]);
    datagram.windows(MARK).filter(|window| window[0] == 0x80).filter_map(begins)
}

/// Bytes that distinguish the beginning of a message.
const MARK: usize = 16;

/// What a message is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Its length in bytes.
    pub len: usize,
    /// From handing it over to its deadline.
    pub budget: Option<Duration>,
    /// The stream that carries it.
    pub stream: StreamId,
    /// Its priority.
    pub priority: u8,
}

impl Shape {
    /// So many bytes, of use for so long, on the first stream.
    pub fn new(len: usize, budget: Option<Duration>) -> Self {
        Shape { len, budget, ..Shape::default() }
    }
}

/// The shape of a message, by its number and what the endpoint is at that moment.
type Shapes = Box<dyn Fn(u64, &Profile) -> Shape>;

/// Messages of a party, made by [`message`].
pub struct Talk {
    begins: Instant,
    /// From one to the next; none: as fast as they find room.
    every: Option<Duration>,
    count: u64,
    shapes: Shapes,
}

impl Talk {
    /// So many messages from `begins` on, one each `every`.
    pub fn paced(
        begins: Instant,
        every: Duration,
        count: u64,
        shapes: impl Fn(u64, &Profile) -> Shape + 'static,
    ) -> Self {
        Talk { begins, every: Some(every), count, shapes: Box::new(shapes) }
    }

    /// Messages of `len` bytes from `begins` on, as fast as they find room.
    pub fn eager(begins: Instant, len: usize) -> Self {
        Talk { begins, every: None, count: u64::MAX, shapes: Box::new(move |_, _| Shape::new(len, None)) }
    }

    /// When a message is due.
    pub fn due(&self, number: u64) -> Option<Instant> {
        let since = |every: Duration| Duration::from_nanos(every.as_nanos() as u64 * number);
        (number < self.count).then(|| self.begins + self.every.map(since).unwrap_or_default())
    }

    /// Whether messages are sent as fast as they find room.
    pub fn is_eager(&self) -> bool {
        self.every.is_none()
    }

    /// What the message of this number is.
    pub fn shape(&self, number: u64, profile: &Profile) -> Shape {
        (self.shapes)(number, profile)
    }
}
