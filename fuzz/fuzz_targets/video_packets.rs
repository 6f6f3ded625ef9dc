//! Packets of video from unknown senders: put together in bounded memory, and never to a whole frame twice.
#![no_main]

use antiphon_video::{Codec, Depacketiser, DepacketiserConfig};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    /// A packet so many numbers and time stamps further on, with this payload.
    Packet { numbers: i8, ticks: u8, marker: bool, marks: Option<u8>, payload: Vec<u8> },
    Raw(Vec<u8>),
    GiveUp { ticks: u16 },
    Restart,
}

const MOST: usize = 4_000;

fuzz_target!(|input: (u8, u8, Vec<Step>)| {
    let (codec, reorder, steps) = input;
    let codec = Codec::ALL[usize::from(codec) % Codec::ALL.len()];
    let config = DepacketiserConfig { reorder: u64::from(reorder), max_bytes: MOST, ..DepacketiserConfig::new(codec) };
    let mut depacketiser = Depacketiser::new(config);
    let (mut sequence, mut timestamp, mut packets) = (0u16, 0u32, 0);
    for step in steps {
        match step {
            Step::Packet { numbers, ticks, marker, marks, payload } => {
                sequence = sequence.wrapping_add_signed(numbers.into());
                timestamp = timestamp.wrapping_add(ticks.into());
                let mut packet = vec![0x80, 96 | u8::from(marker) << 7];
                packet.extend(sequence.to_be_bytes());
                packet.extend(timestamp.to_be_bytes());
                packet.extend([0, 0, 0, 1]);
                if let Some(marks) = marks {
                    packet[0] |= 0x10;
                    packet.extend([0xbe, 0xde, 0, 1, 0x50, marks, 0, 0]);
                }
                packet.extend(payload);
                depacketiser.handle_packet(&packet).expect("it is RTP");
                packets += 1;
            }
            Step::Raw(bytes) => packets += u64::from(depacketiser.handle_packet(&bytes).is_ok()),
            Step::GiveUp { ticks } => depacketiser.give_up_through((1 << 32) + u64::from(ticks)),
            Step::Restart => depacketiser.restart(),
        }
        let mut last = None;
        while let Some(received) = depacketiser.poll_frame() {
            let is_whole = received.is_whole();
            assert!(!is_whole || last != Some(received.timestamp) || received.packets > 0);
            last = Some(received.timestamp);
        }
        assert!(depacketiser.held_bytes() <= MOST + 5_000, "memory is bounded");
    }
    while depacketiser.finish().is_some() {}
    let counters = depacketiser.counters();
    assert!(depacketiser.held_bytes() == 0 && counters.packets == packets);
    assert!(counters.whole + counters.broken <= packets);
});
