//! The channel groups of a track.

use std::ops::Range;

use antiphon_media::packet::{PacketConfig, PacketError, Packetiser};

/// A channel group that is sent.
pub struct Lane {
    pub channels: Range<usize>,
    pub packetiser: Packetiser,
    /// Its part of a block; empty where it is the whole block.
    pub part: Vec<f32>,
    /// Messages made.
    pub made: u64,
}

impl Lane {
    /// Its packetiser, the number of its messages, and its channels of a block of `channels` channels.
    pub fn pick<'a>(
        &'a mut self,
        block: &'a [f32],
        channels: usize,
    ) -> (&'a mut Packetiser, &'a mut u64, &'a [f32]) {
        let own = self.channels.len();
        if own == channels {
            return (&mut self.packetiser, &mut self.made, block);
        }
        let frames = block.len() / channels;
        for (to, from) in self.part.chunks_exact_mut(own).zip(block.chunks_exact(channels)) {
            to.copy_from_slice(&from[self.channels.clone()]);
        }
        (&mut self.packetiser, &mut self.made, &self.part[..frames * own])
    }
}

/// Messages that a block of `frames` becomes in all lanes: of many channels several in each.
pub fn messages_of_a_block(lanes: &[Lane], frames: usize) -> Result<usize, PacketError> {
    let of = |lane: &Lane| Ok(frames.div_ceil(lane.packetiser.config().packet_frames()?));
    lanes.iter().map(of).sum()
}

/// The longest message of these packets, in bytes.
pub fn longest_message<'a>(packets: impl Iterator<Item = &'a PacketConfig>) -> usize {
    packets
        .map(|packet| packet.longest().expect("a track is only made of settings that make packets"))
        .max()
        .unwrap_or(0)
}
