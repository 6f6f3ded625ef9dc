//! The channels that a port receives.

use antiphon_core::{Instant, Unwrapper};
use antiphon_media::voice::{
    ByteClock, Datum, FifoCounters, MOST_CHANNELS, OPUS_STATE, OPUS_TICKS, Piece, VOICE_RATE, VOICE_SIZES,
    VoiceContent, VoiceDecoder, VoiceFifo,
};

use super::{VoiceReceiving, VoiceSink};

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
    /// Messages that are none of this port's: broken, or of a channel for which there is no memory.
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
    /// The upper half of the peer's SSRCs.
    sender: Option<u16>,
    channels: Vec<Option<Box<Channel>>>,
    /// Bytes of all FIFOs.
    held: usize,
    /// Of FIFOs that are gone.
    past: FifoCounters,
    received: VoiceReceived,
    /// Byte of the clock at which all channels are brought up to date.
    next_drain: u64,
}

struct Channel {
    fifo: VoiceFifo,
    /// Byte of the clock up to which the sink has taken.
    taken: u64,
    /// Byte of the clock at which the sink begins to take.
    begins: u64,
    /// Byte of the clock from which on the FIFO keeps its length: all of the first datum has come. `None` before any sound.
    sized: Option<u64>,
    ended: bool,
    opus: Option<Box<Opus>>,
}

/// What a channel in Opus needs.
#[derive(Default)]
struct Opus {
    decoder: VoiceDecoder,
    /// Its time stamps, of which there are six in a byte's time.
    clock: Unwrapper<32>,
}

impl<S: VoiceSink> Incoming<S> {
    pub fn new(now: Instant, settings: VoiceReceiving, sink: S) -> Self {
        Incoming {
            clock: ByteClock::new(now, settings.clock_ppm),
            settings,
            sink,
            sender: None,
            channels: Vec::new(),
            held: 0,
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

    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Whether channels have come and all of them have ended.
    pub fn is_over(&self) -> bool {
        self.received.channels > 0 && self.received.channels == self.received.ended
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
        let at = self.clock.bytes(now);
        let longest = self.channels.iter().flatten().map(|channel| channel.fifo.level() as u64).max();
        for (number, channel) in self.channels.iter_mut().enumerate() {
            if let Some(channel) = channel {
                let rest = channel.fifo.level() as u64;
                (channel.begins, channel.taken) = (at, at);
                channel.take(number as u16, at + rest, &mut self.sink);
            }
        }
        self.sink.on_taken(at + longest.unwrap_or(0));
    }

    fn drain(&mut self, at: u64) {
        for (number, channel) in self.channels.iter_mut().enumerate() {
            if let Some(channel) = channel {
                channel.take(number as u16, at, &mut self.sink);
            }
        }
        self.sink.on_taken(at);
    }

    /// The sender is gone, or another one has taken its place.
    pub fn end(&mut self, now: Instant) {
        self.drain(self.clock.bytes(now));
        self.received.ended = self.received.channels;
        self.channels.iter_mut().flatten().for_each(|channel| channel.ended = true);
    }

    /// A datum has come.
    pub fn on_datum(&mut self, now: Instant, datum: &Datum<'_>) {
        if self.sender != Some(datum.sender) {
            self.begin(now, datum.sender);
        }
        let (at, number) = (self.clock.bytes(now), datum.channel);
        let len = if let VoiceContent::Sound(sound) = datum.content { sound.len() } else { 0 };
        if !self.make_channel(number, at, len) {
            self.received.malformed += 1;
            return;
        }
        let Incoming { channels, settings, sink, held, received, .. } = self;
        let Some(channel) = channels[usize::from(number)].as_mut() else { return };
        channel.take(number, at, sink);
        let tick = channel.taken;
        let mut each = |piece: Piece<'_>| sink.piece(number, tick, piece);
        match datum.content {
            VoiceContent::Pause(level) => channel.fifo.begin_pause(datum.timestamp, level, &mut each),
            VoiceContent::Sound(sound) => {
                received.packets += 1;
                received.bytes += sound.len() as u64;
                channel.push(at, datum.timestamp, sound, settings, held, &mut each);
            }
            VoiceContent::Opus(packet) => {
                if channel.opus.is_none() && *held + OPUS_STATE > MOST_HELD {
                    received.malformed += 1;
                    return;
                }
                let mut opus = channel.opus.take().unwrap_or_else(|| {
                    *held += OPUS_STATE;
                    Box::default()
                });
                let sound = opus.decoder.decode(packet);
                let timestamp = (opus.clock.extend(datum.timestamp.into()) / u64::from(OPUS_TICKS)) as u32;
                received.packets += 1;
                received.bytes += sound.len() as u64;
                received.malformed += u64::from(sound.is_empty());
                channel.push(at, timestamp, sound, settings, held, &mut each);
                channel.opus = Some(opus);
            }
        }
    }

    /// A channel's source has ended.
    pub fn on_goodbye(&mut self, ssrc: u32) {
        let channel = self.channels.get_mut((ssrc & 0xffff) as usize).and_then(Option::as_mut);
        let Some(channel) = channel.filter(|_| self.sender == Some((ssrc >> 16) as u16)) else { return };
        if !std::mem::replace(&mut channel.ended, true) {
            self.received.ended += 1;
        }
    }

    /// Channels of another sender replace those of the previous one.
    fn begin(&mut self, now: Instant, sender: u16) {
        self.end(now);
        for channel in self.channels.drain(..).flatten() {
            self.past.add(&channel.fifo.counters());
        }
        self.received = VoiceReceived { channels: 0, ended: 0, ..self.received };
        (self.sender, self.held) = (Some(sender), 0);
        self.next_drain = self.clock.bytes(now) + DRAIN;
    }

    /// Makes the FIFO of a channel that begins with `len` bytes; `false` if there is no memory for it.
    fn make_channel(&mut self, number: u16, at: u64, len: usize) -> bool {
        let index = usize::from(number);
        if self.channels.get(index).is_some_and(Option::is_some) {
            return true;
        }
        let fifo = self.settings.fifo_len(len);
        if self.held + fifo > MOST_HELD {
            return false;
        }
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, || None);
        }
        self.held += fifo;
        let begins = at + self.settings.delay(len);
        let channel =
            Channel { fifo: VoiceFifo::new(fifo), taken: at, begins, sized: None, ended: false, opus: None };
        self.channels[index] = Some(Box::new(channel));
        self.received.channels += 1;
        true
    }
}

impl Channel {
    /// Sound that has come goes into the FIFO.
    fn push(
        &mut self,
        at: u64,
        timestamp: u32,
        sound: &[u8],
        settings: &VoiceReceiving,
        held: &mut usize,
        each: &mut impl FnMut(Piece<'_>),
    ) {
        if sound.is_empty() {
            return;
        }
        if self.sized.is_none_or(|sized| at < sized) && settings.fifo.is_none() {
            // A datum may come in several packets.
            let wanted = settings.fifo_len(self.fifo.level() + sound.len());
            if *held + wanted <= MOST_HELD {
                *held += self.fifo.grow(wanted);
            }
        }
        let begins = at + settings.delay(sound.len());
        if self.sized.is_none() || self.fifo.is_pausing() {
            // A talk spurt begins as a stream does.
            self.begins = begins;
        }
        self.sized.get_or_insert(begins);
        self.fifo.push(timestamp, sound, each);
    }

    /// The sink takes what it wants until byte `at` of its clock.
    fn take(&mut self, number: u16, at: u64, sink: &mut impl VoiceSink) {
        if self.ended && self.fifo.level() == 0 {
            self.taken = at;
            return;
        }
        if self.taken < self.begins {
            // It waits for the playout delay, in a pause if there was sound before.
            self.taken = at.min(self.begins);
        }
        let mut tick = self.taken;
        let wanted = at.saturating_sub(self.taken);
        self.taken = self.taken.max(at);
        if wanted > 0 {
            self.fifo.take(wanted, &mut |piece| {
                sink.piece(number, tick, piece);
                tick += piece.bytes();
            });
        }
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
/// Bytes of all FIFOs of a peer: those of 16 384 channels with the longest data.
const MOST_HELD: usize = 128 << 20;
/// A sender that was held up sends more than a datum.
const LARGEST_DATUM: usize = 2 * *VOICE_SIZES.end();

const _: () = assert!(MOST_HELD / LARGEST_DATUM == 16_384 && MOST_CHANNELS == 65_536);
