//! What a peer can make a port hold.

use super::*;

/// Takes what it gets.
struct Anywhere;

impl VoiceSink for Anywhere {
    fn piece(&mut self, _channel: u32, _tick: u64, _piece: Piece<'_>) {}

    fn on_taken(&mut self, _tick: u64) {}
}

fn incoming() -> Incoming<Anywhere> {
    Incoming::new(Instant::ZERO, VoiceReceiving::default(), Anywhere)
}

fn datum(channel: u32, timestamp: u32, sound: &[u8]) -> Datum<'_> {
    let content = VoiceContent::Sound(sound);
    Datum { sender: 7, channel, sequence: 0, timestamp, marker: false, content }
}

#[test]
fn a_fifo_holds_memory_for_what_it_holds_and_no_more() {
    let mut incoming = incoming();
    let at = Instant::from_millis(1);
    incoming.on_datum(at, &datum(0, 0, &[1; 1024]));
    incoming.on_datum(at, &datum(1, 0, &[1; 8]));
    // Of 2048 and 16 bytes.
    assert_eq!(incoming.pool.held(), 1024 + 512);
    incoming.finish(Instant::from_millis(500));
    assert_eq!((incoming.pool.held(), incoming.received().fifos.taken), (0, 1032));
}

#[test]
fn the_channels_of_a_peer_hold_no_more_than_256_mib() {
    let mut incoming = incoming();
    let at = Instant::from_millis(1);
    let channels = MOST_CHANNELS as u32;
    // All channels that there are with data as long as a message, which is more than FIFOs take, and once more.
    for (channel, timestamp) in (0..channels).map(|channel| (channel, 0)).chain((0..9).map(|n| (n, 1 << 20)))
    {
        incoming.on_datum(at, &datum(channel, timestamp, &[1; 20_000]));
        assert!(incoming.pool.held() <= MOST_HELD);
    }
    let received = incoming.received();
    assert_eq!(incoming.pool.held(), MOST_HELD);
    // 16 384 bytes each; the rest has no memory, and what finds none in a FIFO is an overflow.
    assert_eq!((received.channels, received.malformed), (16_384, u64::from(channels) - 16_384));
    assert_eq!(received.fifos.overflow, 16_384 * (20_000 - 16_384) + 9 * 20_000);
    // When they have ended, another sender has all of it.
    incoming.end(at);
    incoming.on_datum(at, &Datum { sender: 8, ..datum(3, 0, &[1; 20_000]) });
    assert_eq!((incoming.received().channels, incoming.pool.held()), (1, 16_384));
}
