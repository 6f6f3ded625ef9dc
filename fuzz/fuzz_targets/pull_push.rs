//! The playout buffer under any packets at any time, in every way of keeping time; its totals must balance.
#![no_main]

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::packet::MediaPacket;
use antiphon_media::playout::{Clocking, Inserted, Playout, PlayoutConfig};
use antiphon_media::{SampleFormat, StreamFormat};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// Near the last packet.
    Next {
        skip: i8,
        frames: u16,
    },
    /// Anywhere.
    Any {
        sequence: u64,
        timestamp: u64,
        frames: u16,
        recovered: bool,
    },
    Pull {
        frames: u16,
    },
    Advance {
        ms: u16,
    },
    Target {
        ms: u16,
    },
    Restart,
    Finish,
}

fuzz_target!(|input: (u8, u8, Vec<Step>)| {
    let (clocking, channels, steps) = input;
    let clocking = match clocking % 4 {
        0 => Clocking::Sender,
        1 => Clocking::Sink,
        _ => Clocking::Unhurried { patience: usize::from(clocking / 4) },
    };
    let format = StreamFormat::new(8_000, 1 + u32::from(channels % 4)).expect("a possible format");
    let config = PlayoutConfig::new(format, Duration::from_millis(40), clocking);
    let mut playout = Playout::new(config).expect("a short target");
    let channels = format.channels();
    let (mut now, mut sequence, mut timestamp) = (Instant::from_millis(1), 1_000u64, 1_000_000u64);
    let mut out = vec![0.0; 8192 * channels];
    let sound = vec![0u8; 8192 * channels * 2];
    let insert = |playout: &mut Playout, now, sequence, timestamp, frames: u16, recovered| {
        let frames = 1 + usize::from(frames) % 4096;
        let payload = &sound[..frames * channels * 2];
        let sample = SampleFormat::L16;
        let packet = MediaPacket { sequence, timestamp, frames, lead: 0, coding: sample.into(), channels, recovered, payload };
        (playout.insert(now, &packet), frames)
    };
    for step in steps {
        match step {
            Step::Next { skip, frames } => {
                let (inserted, frames) = insert(&mut playout, now, sequence, timestamp, frames, false);
                if inserted != Inserted::Full {
                    sequence = sequence.saturating_add_signed(1 + i64::from(skip) / 16);
                    timestamp = timestamp.saturating_add(frames as u64);
                }
            }
            // The depacketiser's numbers begin in the middle of 64 bits and move by half a cycle at most.
            Step::Any { sequence, timestamp, frames, recovered } => {
                let (sequence, timestamp) = (sequence >> 1, timestamp >> 1);
                insert(&mut playout, now, sequence, timestamp, frames, recovered);
            }
            Step::Pull { frames } => {
                let frames = usize::from(frames) % 8192;
                let pulled = playout.pull(now, &mut out[..frames * channels]);
                assert!(pulled.frames <= frames);
                assert_eq!(pulled.frames, pulled.played + pulled.concealed + pulled.silent);
                if clocking == Clocking::Sink {
                    assert_eq!(pulled.frames, frames, "a device gets its whole block");
                }
                assert!(out.iter().all(|sample| sample.is_finite()));
            }
            Step::Advance { ms } => now += Duration::from_millis(ms.into()),
            Step::Target { ms } => playout.set_playout_delay(Duration::from_millis(ms.into())),
            Step::Restart => playout.restart(),
            Step::Finish => playout.finish(),
        }
        let c = playout.counters();
        assert_eq!(c.inserted, c.played + c.late + c.duplicate + c.early + c.discarded + c.buffered, "{c:?}");
        let _due = playout.poll_timeout();
    }
});
