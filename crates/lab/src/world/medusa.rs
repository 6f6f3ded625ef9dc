//! The sender of paper `transport-alternatives`: blocks of JACK, resampled, in Medusa's framing, measured when they
//! return.

use std::time::Duration;

use antiphon_core::{Endpoint, Event, Instant, Message, OnEndpoint, Rng, StreamId};
use antiphon_media::FormatError;
use antiphon_media::medusa::{BlockMaker, BlockMode, JACK_BLOCK, JACK_RATE, MAX_DATA};

use super::meter::{Arrival, SharedLog, SharedMeter};

/// From one block of JACK to the next.
pub const BLOCK_TIME: Duration = Duration::from_nanos(JACK_BLOCK as u64 * 1_000_000_000 / JACK_RATE as u64);

/// Settings of a sender.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Channels of sound, each with its own packets.
    pub channels: u16,
    /// At most.
    pub blocks: u64,
    /// How a block is sent.
    pub mode: BlockMode,
    /// No block is due then or later.
    pub until: Instant,
    /// Blocks on the network are given up if their transmission could not begin for this long.
    pub patience: Option<Duration>,
    /// Number of the first packet in the log.
    pub first: u16,
    /// Seed of the sound.
    pub seed: u64,
    /// The sound is at JACK's rate and is resampled, as the paper's program does: work that takes time on sockets.
    /// In virtual time it takes none, and packets get noise of the same size at once.
    pub resamples: bool,
}

/// Sends sound as the paper's program does, on an endpoint with Medusa's framing, and measures what comes back.
///
/// A packet is identified by its data, which is noise. One that comes back with other bytes, joined across a hole,
/// counts as lost, as in the paper.
pub struct Medusa {
    endpoint: Box<dyn Endpoint>,
    sending: Sending,
    sound: Rng,
    resampling: Option<Resampling>,
    log: SharedLog,
    meter: SharedMeter,
    /// Checksum of each packet's data, by its index in the log.
    sums: Vec<u64>,
    /// The index of the packet that follows the one that came back last: most come back in their order.
    expected: usize,
    begun: Option<Instant>,
    next: u64,
    data: Vec<u8>,
    finished: bool,
}

/// Makes packets of blocks of JACK.
struct Resampling {
    maker: BlockMaker,
    block: Vec<f32>,
}

impl Medusa {
    /// A sender on `endpoint`; refused if the channels are too many.
    pub fn new(
        endpoint: Box<dyn Endpoint>,
        sending: Sending,
        log: &SharedLog,
        meter: SharedMeter,
    ) -> Result<Self, FormatError> {
        let channels = usize::from(sending.channels);
        Ok(Medusa {
            sound: Rng::fork(sending.seed, "sound"),
            resampling: sending.resamples.then(|| Resampling::new(channels, sending.mode)).transpose()?,
            log: SharedLog::clone(log),
            meter,
            sums: Vec::with_capacity(sending.blocks as usize * channels),
            expected: 0,
            begun: None,
            next: 0,
            data: vec![0; MAX_DATA],
            finished: false,
            endpoint,
            sending,
        })
    }

    /// The endpoint below.
    pub fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn due(&self) -> Option<Instant> {
        let nanos = u128::from(self.next) * JACK_BLOCK as u128 * 1_000_000_000 / u128::from(JACK_RATE);
        let due = self.begun? + Duration::from_nanos(nanos as u64);
        (self.next < self.sending.blocks && due < self.sending.until).then_some(due)
    }

    fn send_due(&mut self, now: Instant) {
        while self.due().is_some_and(|due| due <= now) && now < self.sending.until {
            let block = self.next;
            self.next += 1;
            if let Some(resampling) = &mut self.resampling {
                resampling.push(&mut self.sound);
            }
            for channel in 0..self.sending.channels {
                let len = self.write(block, channel);
                self.send(now, channel, len);
            }
        }
    }

    /// Writes a channel's packet of a block into the buffer; returns its length.
    fn write(&mut self, block: u64, channel: u16) -> usize {
        if let Some(resampling) = &self.resampling {
            return resampling.maker.write(usize::from(channel), &mut self.data);
        }
        let len = SAMPLE_BYTES * self.sending.mode.frames_of(block);
        let (words, rest) = self.data[..len].as_chunks_mut::<8>();
        for word in words {
            *word = self.sound.next_u64().to_le_bytes();
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&self.sound.next_u64().to_le_bytes()[..rest.len()]);
        }
        len
    }

    fn send(&mut self, now: Instant, channel: u16, len: usize) {
        let data = &self.data[..len];
        let deadline = self.sending.patience.map(|patience| now + patience);
        let frame = Message {
            stream: StreamId(channel),
            ..Message::new(self.log.borrow().next_tag(), data, deadline)
        };
        let sent = self.endpoint.send(now, frame);
        let number = self.sending.first.wrapping_add(self.sums.len() as u16);
        self.log.borrow_mut().on_sent(0, number, now, sent);
        self.sums.push(sum(data));
    }

    fn fetch(&mut self) {
        while let Some(received) = self.endpoint.poll_message(&mut self.data) {
            let Some(place) = self.place(sum(&self.data[..received.len])) else { continue };
            let sequence = self.sending.first.wrapping_add(place as u16);
            self.meter.borrow_mut().on_arrival(Arrival { at: received.received_at, group: 0, sequence });
        }
    }

    /// The index in the log of the packet whose data has this checksum: one of those sent last.
    fn place(&mut self, sum: u64) -> Option<usize> {
        let oldest = self.sums.len().saturating_sub(MOST_ON_THE_WAY);
        let is_expected = self.expected >= oldest && self.sums.get(self.expected) == Some(&sum);
        let place = if is_expected {
            self.expected
        } else {
            oldest + self.sums[oldest..].iter().rposition(|sent| *sent == sum)?
        };
        self.expected = place + 1;
        Some(place)
    }

    fn events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected => _ = self.begun.get_or_insert(now),
                Event::Broken(_) => self.log.borrow_mut().broken |= self.due().is_some(),
                Event::Outcome { tag, outcome } => self.log.borrow_mut().on_outcome(tag.0, outcome),
                Event::Closed(_) => self.finished = true,
                _ => {}
            }
        }
    }
}

impl Resampling {
    fn new(channels: usize, mode: BlockMode) -> Result<Self, FormatError> {
        Ok(Resampling { maker: BlockMaker::new(channels, mode)?, block: vec![0.0; JACK_BLOCK * channels] })
    }

    /// Takes the next block.
    fn push(&mut self, sound: &mut Rng) {
        for sample in &mut self.block {
            // A quarter of full scale.
            *sample = f32::from((sound.next_u32() >> 16) as i16) / 131_072.0;
        }
        self.maker.push(&self.block);
    }
}

impl OnEndpoint for Medusa {
    fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn endpoint_mut(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    fn work(&mut self, now: Instant) {
        self.fetch();
        self.events(now);
        if self.endpoint.profile().calls_with_first_message {
            self.begun.get_or_insert(now);
        }
        self.send_due(now);
    }

    fn next_work(&self) -> Option<Instant> {
        self.due()
    }

    fn is_over(&self) -> bool {
        self.finished
    }
}

/// Packets that may be in flight: 43 s of the most channels, where buffers and queues hold 2 s.
const MOST_ON_THE_WAY: usize = 65_536;

/// Bytes of a sample on the network.
const SAMPLE_BYTES: usize = 2;

/// FNV-1a (draft-eastlake-fnv) over words of eight bytes: sufficient to detect that two packets were joined.
fn sum(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain(std::iter::once(&last)).map(|word| u64::from_le_bytes(*word));
    words.fold(0xcbf2_9ce4_8422_2325 ^ data.len() as u64, |sum, word| {
        // The multiplication moves bits up only.
        let sum = (sum ^ word).wrapping_mul(0x100_0000_01b3);
        sum ^ sum >> 32
    })
}
