//! Voice data of an unknown peer, as a FIFO takes them.
#![no_main]

use antiphon_media::voice::{NoiseLevel, Piece, VoiceContent, VoiceFifo, VoicePool, parse_voice};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // A peer whose FIFOs may have more than there is: two segments for one that may hold three.
    let mut fifo = VoiceFifo::new(MOST);
    let mut pool = VoicePool::new(MOST - 200);
    pool.reserve(MOST);
    let (mut rest, mut heard) = (data, 0u64);
    while let [kind, low, more @ ..] = rest {
        let (packet, behind) = more.split_at(usize::from(*low).min(more.len()));
        rest = behind;
        let mut each = |piece: Piece<'_>| heard += piece.bytes();
        match kind % 4 {
            0 => fifo.take(&mut pool, u64::from(*low) + 1, &mut each),
            1 => fifo.begin_pause(&mut pool, u32::from(*low) << (kind >> 3), NoiseLevel::from_byte(*low), &mut each),
            2 => fifo.push(&mut pool, u32::from(*low) << (kind >> 3), packet, &mut each),
            _ => {
                if let Some(datum) = parse_voice(packet)
                    && let VoiceContent::Sound(sound) = datum.content
                {
                    assert!(!sound.is_empty());
                    fifo.push(&mut pool, datum.timestamp, sound, &mut each);
                }
            }
        }
        assert!(fifo.level() <= MOST && pool.held() <= MOST - 200);
    }
});

const MOST: usize = 768;
