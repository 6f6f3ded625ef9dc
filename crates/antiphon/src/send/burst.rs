//! Streams of many channels, whose blocks take many packets.

use antiphon_media::{Coding, StreamFormat};

use super::plan::{SendPlan, block_frames};
use crate::run::WirePlan;
use crate::send::SendOptions;

impl SendPlan {
    /// The wire that carries the stream. Packets of a block are each due at their own time; where they are many, those that are due at once, as after a stall, go to the
    /// kernel together.
    pub fn on_wire(&self, wire: WirePlan, options: &SendOptions) -> WirePlan {
        let mut wire = wire;
        let block = block_frames(options, &self.uri.keys, self.coding);
        wire.socket.segments |= is_burst(self.format, self.coding, block);
        wire
    }
}

/// Whether a block of so many sample frames takes many packets. Such a stream needs a fast network (64 channels of 16 bits have 49 Mbit/s),
/// where a queue that drops several packets together costs less than a system's work for each of them.
fn is_burst(format: StreamFormat, coding: Coding, block_frames: u32) -> bool {
    match coding {
        Coding::Pcm(sample) => block_frames as usize * format.channels() * sample.bytes() >= BURST,
        Coding::Opus => false,
    }
}

/// Bytes: eight packets on Ethernet, twice the least that leave as one.
const BURST: usize = 8 * 1_400;

#[cfg(test)]
mod tests {
    use antiphon_media::SampleFormat;

    use super::*;

    #[test]
    fn many_channels_leave_in_bursts_and_few_do_not() {
        let burst = |channels, sample: SampleFormat, block| {
            is_burst(StreamFormat::new(48_000, channels).expect("a usual format"), sample.into(), block)
        };
        assert!(burst(64, SampleFormat::L16, 256) && burst(32, SampleFormat::L24, 128));
        assert!(!burst(2, SampleFormat::L16, 256) && !burst(64, SampleFormat::L16, 64));
        assert!(!is_burst(StreamFormat::new(48_000, 2).expect("a usual format"), Coding::Opus, 960));
    }
}
