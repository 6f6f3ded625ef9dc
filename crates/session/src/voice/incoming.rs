//! The channels that a port receives.

mod channel;
#[cfg(test)]
mod tests;

use antiphon_core::Instant;
use antiphon_media::voice::{
    ByteClock, Datum, FifoCounters, MOST_CHANNELS, OPUS_SIZES, OPUS_STATE, OPUS_TICKS, Piece, VOICE_RATE,
    VOICE_SIZES, VoiceContent, VoiceFifo, VoicePool, voice_channel,
};

use super::{VoiceReceiving, VoiceSink};
use channel::{Channel, End};

/// What was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VoiceReceived {
    /// Channels that have begun.
    pub channels: u64,
    /// Those that have ended.
    pub ended: u64,
    /// Packets of voice.
    pub packets: u64,
    /// Bytes of voice in them.
    pub bytes: u64,
    /// Messages that are no voice of the sender: broken, of another sender, or of a channel for which there is no memory.
    pub malformed: u64,
    /// Of all FIFOs.
    pub fifos: FifoCounters,
}

/// All channels of one direction.
///
/// A sink's bytes are counted and not taken one by one: whenever anything comes for a channel, its FIFO is brought up to that
/// instant, with the same result as a tick every 125 us.
pub(super) struct Incoming<S> {
    settings: VoiceReceiving,
    sink: S,
    clock: ByteClock,
    /// The upper half of the peer's SSRCs, of those on the first page.
    sender: Option<u16>,
    /// By number.
    channels: Vec<Option<Box<Channel>>>,
    /// The numbers of those that there are: a sender may have a single one with the greatest number.
    begun: Vec<u32>,
    /// How many of them have said goodbye.
    said: u64,
    /// Byte of the clock at which the sender's last datum came.
    heard: u64,
    /// What all FIFOs hold.
    pool: VoicePool,
    /// Of FIFOs that are gone.
    past: FifoCounters,
    received: VoiceReceived,
    /// Byte of the clock at which all channels are brought up to date.
    next_drain: u64,
}

impl<S: VoiceSink> Incoming<S> {
    pub fn new(now: Instant, settings: VoiceReceiving, sink: S) -> Self {
        Incoming {
            clock: ByteClock::new(now, settings.clock_ppm),
            settings,
            sink,
            sender: None,
            channels: Vec::new(),
            begun: Vec::new(),
            said: 0,
            heard: 0,
            pool: VoicePool::new(MOST_HELD),
            past: FifoCounters::default(),
            received: VoiceReceived::default(),
            next_drain: DRAIN,
        }
    }

    /// What was received; FIFOs are as of the last drain.
    pub fn received(&self) -> VoiceReceived {
        let mut fifos = self.past;
        self.channels.iter().flatten().for_each(|channel| fifos.add(&channel.fifo.counters()));
        VoiceReceived { fifos, ..self.received }
    }

    /// What the FIFO of a channel has counted.
    pub fn fifo(&self, channel: usize) -> Option<FifoCounters> {
        Some(self.channels.get(channel)?.as_ref()?.fifo.counters())
    }

    pub fn sink(&self) -> &S {
        &self.sink
    }

    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Whether any channel has come.
    pub fn has_begun(&self) -> bool {
        self.received.channels > 0
    }

    /// Whether channels have come and all of them have said goodbye.
    pub fn is_over(&self) -> bool {
        self.has_begun() && self.received.channels == self.said
    }

    /// Whether their FIFOs are empty.
    pub fn is_drained(&self) -> bool {
        self.channels.iter().flatten().all(|channel| channel.fifo.level() == 0)
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.sender.map(|_| self.clock.at(self.next_drain))
    }

    /// Brings all channels up to `now` when it is time for it.
    pub fn run(&mut self, now: Instant) {
        let at = self.clock.bytes(now);
        if self.sender.is_some() && at >= self.next_drain {
            self.drain(at);
            self.next_drain = at + DRAIN;
        }
    }

    /// The sinks take everything that has come, as nobody waits any longer.
    pub fn finish(&mut self, now: Instant) {
        self.end(now);
        let until = self.take_rest(self.clock.bytes(now));
        self.sink.on_taken(until);
    }

    /// The sinks take, at byte `at` of the clock, what they would have taken later. Returns the byte behind the last.
    fn take_rest(&mut self, at: u64) -> u64 {
        let mut until = at;
        for number in &self.begun {
            if let Some(channel) = &mut self.channels[*number as usize] {
                until = until.max(channel.take_rest(*number, at, &mut self.pool, &mut self.sink));
            }
        }
        until
    }

    fn drain(&mut self, at: u64) {
        for number in &self.begun {
            if let Some(channel) = &mut self.channels[*number as usize] {
                channel.take(*number, at, &mut self.pool, &mut self.sink);
            }
        }
        self.sink.on_taken(at);
    }

    /// The sender's association has ended, or another one has taken its place.
    pub fn end(&mut self, now: Instant) {
        self.drain(self.clock.bytes(now));
        self.received.ended = self.received.channels;
        for number in &self.begun {
            if let Some(channel) = &mut self.channels[*number as usize] {
                channel.ended.get_or_insert(End::Gone);
            }
        }
    }

    /// A message has come that is no voice.
    pub fn on_malformed(&mut self) {
        self.received.malformed += 1;
    }

    /// A datum has come.
    pub fn on_datum(&mut self, now: Instant, datum: &Datum<'_>) {
        let (at, number) = (self.clock.bytes(now), datum.channel);
        if self.sender != Some(datum.sender) {
            if !self.gives_way(at) {
                return self.on_malformed();
            }
            self.begin(at, datum.sender);
        }
        self.heard = at;
        let len = if let VoiceContent::Sound(sound) = datum.content { sound.len() } else { 0 };
        if !self.make_channel(number, at, len) {
            return self.on_malformed();
        }
        let Incoming { channels, settings, sink, pool, received, .. } = self;
        let Some(channel) = channels[number as usize].as_mut() else { return };
        channel.take(number, at, pool, sink);
        if channel.ended == Some(End::Gone) {
            channel.go_on();
            received.ended -= 1;
        }
        let tick = channel.taken;
        let mut each = |piece: Piece<'_>| sink.piece(number, tick, piece);
        match datum.content {
            VoiceContent::Pause(level) => {
                channel.fifo.begin_pause(pool, datum.timestamp, level, &mut each);
            }
            VoiceContent::Sound(sound) => {
                received.packets += 1;
                received.bytes += sound.len() as u64;
                channel.push(at, datum.timestamp, sound, settings, pool, &mut each);
            }
            VoiceContent::Opus(packet) => {
                let mut opus = match channel.opus.take() {
                    Some(opus) => opus,
                    None if pool.give_away(OPUS_STATE) => Default::default(),
                    None => {
                        received.malformed += 1;
                        return;
                    }
                };
                let sound = opus.decoder.decode(packet);
                let timestamp = (opus.clock.extend(datum.timestamp.into()) / u64::from(OPUS_TICKS)) as u32;
                received.packets += u64::from(!sound.is_empty());
                received.bytes += sound.len() as u64;
                received.malformed += u64::from(sound.is_empty());
                channel.push(at, timestamp, sound, settings, pool, &mut each);
                channel.opus = Some(opus);
            }
        }
    }

    /// A channel's source has ended.
    pub fn on_goodbye(&mut self, ssrc: u32) {
        let number = self.sender.and_then(|sender| voice_channel(sender, ssrc));
        let channel =
            number.and_then(|number| self.channels.get_mut(number as usize)).and_then(Option::as_mut);
        let Some(channel) = channel else { return };
        let before = channel.ended.replace(End::Said);
        self.said += u64::from(before != Some(End::Said));
        self.received.ended += u64::from(before.is_none());
    }

    /// Whether another sender may take the place of this one.
    fn gives_way(&self, at: u64) -> bool {
        self.sender.is_none() || self.received.ended == self.received.channels || at - self.heard >= SILENCE
    }

    /// Channels of another sender replace those of the previous one, of which the sinks take the rest.
    fn begin(&mut self, at: u64, sender: u16) {
        self.drain(at);
        self.take_rest(at);
        for number in self.begun.drain(..) {
            if let Some(channel) = self.channels[number as usize].take() {
                self.past.add(&channel.fifo.counters());
            }
        }
        self.received = VoiceReceived { channels: 0, ended: 0, ..self.received };
        (self.sender, self.said) = (Some(sender), 0);
        self.pool.clear(MOST_HELD);
        self.next_drain = at + DRAIN;
    }

    /// Makes the FIFO of a channel that begins with `len` bytes; `false` if there is no memory for these.
    fn make_channel(&mut self, number: u32, at: u64, len: usize) -> bool {
        let index = number as usize;
        if self.channels.get(index).is_some_and(Option::is_some) {
            return true;
        }
        let fifo = self.settings.fifo_len(len);
        if self.pool.room() < len.clamp(1, fifo.max(1)) {
            return false;
        }
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, || None);
        }
        self.pool.reserve(fifo);
        let begins = at + self.settings.delay(len);
        self.channels[index] = Some(Box::new(Channel::new(fifo, at, begins)));
        self.begun.push(number);
        self.received.channels += 1;
        true
    }
}

impl VoiceReceiving {
    /// Bytes of the FIFO of a channel whose data have `len` bytes: twice a datum, or with a playout delay so much that half
    /// of it may be early and half late.
    fn fifo_len(&self, len: usize) -> usize {
        let len = len.clamp(*VOICE_SIZES.start(), LARGEST_DATUM);
        match (self.fifo, self.delay) {
            (Some(fifo), _) => fifo,
            (None, Some(delay)) => len + 2 * delay,
            (None, None) => 2 * len,
        }
    }

    /// Bytes of its clock that a sink waits after the first datum, of `len` bytes: as long as the FIFO then is as far from
    /// empty as from full.
    fn delay(&self, len: usize) -> u64 {
        let free = self.fifo_len(len).saturating_sub(len);
        self.delay.unwrap_or(free / 2) as u64
    }
}

/// How often all channels are brought up to date, in bytes of the sink's clock: a quarter of a second.
const DRAIN: u64 = VOICE_RATE as u64 / 4;
/// A sender that has been silent for so long, in bytes of the sink's clock, gives way to another one: a second. Pauses are told
/// every half second.
const SILENCE: u64 = VOICE_RATE as u64;
/// Bytes that all FIFOs of a peer hold together, and its decoders: of the most channels, 2 kB each, which are the FIFOs of data of 1024 bytes. A FIFO is
/// fullest when a datum has come, and is brought up to date when the next one does.
const MOST_HELD: usize = 256 << 20;
/// The most channels in Opus that a peer may send, as each has a decoder and a FIFO for its longest packets here: half of what may be held, as coding
/// them takes several processors.
pub const MOST_OPUS_CHANNELS: usize = MOST_HELD / 2 / (OPUS_STATE + LONGEST_OPUS_FIFO);
/// Bytes of the FIFO of a channel in Opus whose packets have 60 ms, twice as many where the sender was held up.
const LONGEST_OPUS_FIFO: usize = 4 * OPUS_SIZES[OPUS_SIZES.len() - 1];
/// A sender that was held up sends more than a datum.
const LARGEST_DATUM: usize = 2 * *VOICE_SIZES.end();
/// Beside what it holds a channel takes its state, and what its FIFO remembers of holes: 64 MiB of the most channels that a peer may have.
const _: () = assert!((size_of::<Channel>() + VoiceFifo::BESIDE) * MOST_CHANNELS <= 64 << 20);
