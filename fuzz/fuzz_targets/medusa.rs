//! Blocks of unknown sources: Medusa's resynchroniser finds packets in them, with bounded memory.
#![no_main]

use antiphon_media::medusa::{HEADER, MAX_CHANNELS, MAX_DATA, Resynchroniser};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|blocks: Vec<&[u8]>| {
    let (mut resync, mut out) = (Resynchroniser::new(), [0; MAX_DATA]);
    let (mut bytes, mut used) = (0, 0);
    for block in &blocks {
        bytes += block.len();
        let mut rest = *block;
        while !rest.is_empty() {
            let taken = resync.push(rest);
            assert!(taken > 0, "no room, and nothing comes out");
            rest = &rest[taken..];
            while let Some(header) = resync.poll(&mut out) {
                assert!(header.channel < MAX_CHANNELS && (1..=MAX_DATA as u32).contains(&header.size));
                used += HEADER + header.size as usize;
            }
        }
    }
    let counters = resync.counters();
    let left = bytes - used - counters.skipped as usize;
    assert!(left <= Resynchroniser::MEMORY, "{left}");
});
