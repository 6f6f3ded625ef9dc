//! A listener for voice channels that hears hostile datagrams: every payload type, goodbyes, other senders, pauses of time. No panic, and
//! nothing is heard or ended that has not come.
#![no_main]

mod ends;

use std::time::Duration;

use antiphon_core::{Input, Instant, Participant, PathId, WireId};
use antiphon_media::voice::Piece;
use antiphon_session::{VoicePort, VoiceReceiving, VoiceRole, VoiceSink};
use arbitrary::Arbitrary;
use ends::stack;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Call {
    fifo: Option<u8>,
    delay: Option<u8>,
    forever: bool,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Any bytes.
    Noise { path: u8, bytes: Vec<u8> },
    /// A packet with one of the payload types of voice, of one of a few senders and channels.
    Voice { path: u8, kind: u8, time: u16, far: bool, sender: u8, channel: u8, payload: Vec<u8> },
    /// A channel's end.
    Goodbye { path: u8, sender: u8, channel: u8 },
    Advance { ms: u16 },
}

/// Counts what is heard.
#[derive(Default)]
struct Heard {
    sound: u64,
    taken: u64,
}

impl VoiceSink for Heard {
    fn piece(&mut self, _channel: u32, _tick: u64, piece: Piece<'_>) {
        if let Piece::Sound(bytes) = piece {
            self.sound += bytes.len() as u64;
        }
    }

    fn on_taken(&mut self, tick: u64) {
        self.taken = self.taken.max(tick);
    }
}

const WIRE: WireId = WireId(0);

fn ssrc(sender: u8, channel: u8) -> [u8; 4] {
    // The last channel, too.
    let channel = if channel == u8::MAX { u16::MAX } else { u16::from(channel % 4) };
    (u32::from(sender % 3) << 16 | u32::from(channel)).to_be_bytes()
}

fuzz_target!(|call: Call| {
    let Call { fifo, delay, forever, steps } = call;
    let receives = VoiceReceiving {
        fifo: fifo.map(|fifo| 8 * usize::from(fifo) + 8),
        delay: delay.map(|delay| 8 * usize::from(delay)),
        clock_ppm: 0,
        forever,
    };
    let mut now = Instant::ZERO;
    let mut port = VoicePort::new(now, 1, VoiceRole::Receiver, None, receives, Heard::default());
    port.listen(now, WIRE, stack("rtp", "", 1), Duration::from_secs(1));
    for step in steps.into_iter().take(200) {
        let (path, mut bytes) = match step {
            Step::Noise { path, bytes } => (path, bytes),
            Step::Voice { path, kind, time, far, sender, channel, payload } => {
                let time = u32::from(time) << if far { 16 } else { 0 };
                let kind = [0, 13, 111, 96][usize::from(kind % 4)];
                // Some name a page of channels, that there is or not.
                let page = [0xc4, sender % 3, 0, 0];
                let (first, page) = if sender >= 128 { (0x90, &page[..]) } else { (0x80, &[][..]) };
                let head = [&[first, kind, 0, 0][..], &time.to_be_bytes(), &ssrc(sender, channel), page].concat();
                (path, [head, payload].concat())
            }
            Step::Goodbye { path, sender, channel } => {
                (path, [&[0x81, 203, 0, 1][..], &ssrc(sender, channel)].concat())
            }
            Step::Advance { ms } => {
                now += Duration::from_millis(u64::from(ms % 3_000));
                port.advance(now);
                continue;
            }
        };
        let path = PathId(u32::from(path % 2));
        port.handle_input(now, WIRE, Input::Datagram { path, bytes: &mut bytes, received_at: now });
        port.advance(now);
        let received = port.received();
        assert!(received.ended <= received.channels);
        assert!(received.fifos.taken <= received.bytes);
    }
    port.stop(now);
    port.advance(now);
    let (received, heard) = (port.received(), port.sink());
    assert!(heard.sound >= received.fifos.taken && heard.sound <= received.bytes + received.fifos.missing + received.fifos.pause);
});
