//! One of the channels that a port receives.

use antiphon_core::Unwrapper;
use antiphon_media::voice::{NoiseLevel, Piece, VoiceDecoder, VoiceFifo, VoicePool};

use crate::voice::{VoiceReceiving, VoiceSink};

/// A channel's FIFO, and how far its sink is.
pub(super) struct Channel {
    pub fifo: VoiceFifo,
    /// Byte of the clock up to which the sink has taken.
    pub taken: u64,
    /// Byte of the clock at which the sink begins to take.
    begins: u64,
    /// Noise of the pause that the sink hears until then, if there was one.
    waits: Option<NoiseLevel>,
    /// Byte of the clock from which on the FIFO keeps its length: all of the first datum has come. `None` before any sound.
    sized: Option<u64>,
    pub ended: Option<End>,
    /// It begins again as a stream does.
    restarts: bool,
    pub opus: Option<Box<Opus>>,
}

/// How a channel ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// By a goodbye: what still comes was overtaken by it.
    Said,
    /// With its association: the sender may go on over another one.
    Gone,
}

/// What a channel in Opus needs.
#[derive(Default)]
pub(super) struct Opus {
    pub decoder: VoiceDecoder,
    /// Its time stamps, of which there are six in a byte's time.
    pub clock: Unwrapper<32>,
}

impl Channel {
    /// One whose FIFO may hold `fifo` bytes: it is made at byte `at` of the clock, and its sink begins at `begins`.
    pub fn new(fifo: usize, at: u64, begins: u64) -> Self {
        Channel {
            fifo: VoiceFifo::new(fifo),
            taken: at,
            begins,
            waits: None,
            sized: None,
            ended: None,
            restarts: false,
            opus: None,
        }
    }

    /// Sound that has come goes into the FIFO.
    pub fn push(
        &mut self,
        at: u64,
        timestamp: u32,
        sound: &[u8],
        settings: &VoiceReceiving,
        pool: &mut VoicePool,
        each: &mut impl FnMut(Piece<'_>),
    ) {
        if sound.is_empty() {
            return;
        }
        if self.sized.is_none_or(|sized| at < sized) && settings.fifo.is_none() {
            // A datum may come in several packets.
            let more = self.fifo.grow(settings.fifo_len(self.fifo.level() + sound.len()));
            if more > 0 {
                pool.reserve(more);
            }
        }
        let begins = at + settings.delay(sound.len());
        let pausing = self.fifo.pausing();
        if self.sized.is_none() || pausing.is_some() || self.restarts {
            // A talk spurt begins as a stream does.
            (self.begins, self.waits) = (begins, pausing);
            self.restarts = false;
        }
        self.sized.get_or_insert(begins);
        self.fifo.push(pool, timestamp, sound, each);
    }

    /// Its sender goes on over another association, after a time that nobody knows.
    pub fn go_on(&mut self) {
        self.ended = None;
        self.restarts = self.fifo.level() == 0;
        self.fifo.restart();
    }

    /// The sink takes what it wants until byte `at` of its clock.
    pub fn take(&mut self, number: u32, at: u64, pool: &mut VoicePool, sink: &mut impl VoiceSink) {
        if self.ended.is_some() && self.fifo.level() == 0 {
            self.taken = at;
            return;
        }
        if self.taken < self.begins {
            let until = at.min(self.begins).max(self.taken);
            if let Some(level) = self.waits {
                let tick = self.taken;
                self.fifo.wait(until - tick, level, &mut |piece| sink.piece(number, tick, piece));
            }
            self.taken = until;
        }
        let mut tick = self.taken;
        let wanted = at.saturating_sub(self.taken);
        self.taken = self.taken.max(at);
        if wanted > 0 {
            self.fifo.take(pool, wanted, &mut |piece| {
                sink.piece(number, tick, piece);
                tick += piece.bytes();
            });
        }
    }

    /// The sink, which has taken up to byte `at` of its clock, takes the rest at once; but the pause before it is as long as it
    /// was to be. Returns the byte behind.
    pub fn take_rest(
        &mut self,
        number: u32,
        at: u64,
        pool: &mut VoicePool,
        sink: &mut impl VoiceSink,
    ) -> u64 {
        let rest = self.fifo.level() as u64;
        if rest == 0 {
            return at;
        }
        if self.waits.is_none() {
            self.begins = at;
        }
        let until = self.begins.max(at) + rest;
        self.take(number, until, pool, sink);
        until
    }
}
