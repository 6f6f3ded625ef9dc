//! Packets of Opus from an unknown sender: broken, lost, twice, early, late, in any order; played on the sender's clock, with a
//! playout delay that adapts, and as a recording.
#![no_main]

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::opus::{MOST_FRAMES, packet_frames};
use antiphon_media::packet::{Depacketiser, ExtensionIds, parse_rtp};
use antiphon_media::playout::{AdaptiveDelay, Clocking, Playout, PlayoutConfig};
use antiphon_media::{Coding, StreamFormat};
use libfuzzer_sys::fuzz_target;

// A byte chooses channels and clock; then each packet: its length, by how much sequence number, time stamp and time go on.
fuzz_target!(|data: &[u8]| {
    let [kind, rest @ ..] = data else { return };
    let mut rest = rest;
    let format = StreamFormat::new(48_000, 1 + u32::from(kind & 1)).expect("a possible format");
    let clocking = match kind & 6 {
        0 => Clocking::Unhurried { patience: 3 },
        _ => Clocking::Sender,
    };
    let adapts = AdaptiveDelay { min: Duration::ZERO, max: Duration::from_millis(30), freeze: None };
    let config = PlayoutConfig {
        opus: true,
        adapts: (kind & 6 == 2).then_some(adapts),
        ..PlayoutConfig::new(format, Duration::from_millis(20), clocking)
    };
    let mut playout = Playout::new(config).expect("a possible stream");
    let mut depacketiser = Depacketiser::new(format, Coding::Opus);
    let (mut sequence, mut timestamp, mut now) = (0u16, 0u32, Instant::from_millis(1));
    let mut out = vec![0.0; 512 * format.channels()];
    let mut play = |playout: &mut Playout, now: Instant| {
        // What is ahead of its time may fill a buffer's length with concealment.
        for _ in 0..400 {
            let pulled = playout.pull(now, &mut out);
            // A decoder gives at most full scale; where pieces are left out or heard twice, several may be blended.
            let most = if config.adapts.is_some() { 4.0 } else { 1.0 };
            let loudest = out[..pulled.frames * format.channels()].iter().map(|x| x.abs()).fold(0.0, f32::max);
            assert!(loudest <= most, "{loudest} of {config:?} {pulled:?}");
            if pulled.frames == 0 {
                break;
            }
        }
    };
    while let [len, steps, more @ ..] = rest {
        let (payload, behind) = more.split_at(usize::from(*len).min(more.len()));
        rest = behind;
        sequence = sequence.wrapping_add(u16::from(steps & 7)).wrapping_sub(1);
        timestamp = timestamp.wrapping_add((u32::from(steps >> 3 & 7) * 480).wrapping_sub(480));
        now += Duration::from_millis(u64::from(steps >> 6) * 7);
        let mut bytes = vec![0x80, 96];
        bytes.extend(sequence.to_be_bytes());
        bytes.extend(timestamp.to_be_bytes());
        bytes.extend([0, 0, 0, 7]);
        bytes.extend(payload);
        let view = parse_rtp(&bytes, ExtensionIds::NONE).expect("a valid header");
        if let Ok(packet) = depacketiser.accept(&view) {
            assert!((1..=MOST_FRAMES).contains(&packet.frames) && packet_frames(payload) == Some(packet.frames));
            playout.insert(now, &packet);
        }
        play(&mut playout, now);
    }
    playout.finish();
    play(&mut playout, now + Duration::from_secs(1));
});
