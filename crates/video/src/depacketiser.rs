//! RTP packets, lost, late, twice or in another order, back into frames, and whether each is whole.
//!
//! Packets wait, by number, until a frame's are all there. Frames come out in the order of sending. A gap holds up what
//! is behind it until it is filled, or given up: when so many packets have come behind it, when too much waits, or when
//! the caller says that a frame is to be shown ([`Depacketiser::give_up_through`]). This object knows no clock.

use std::collections::BTreeMap;

use antiphon_core::{MediaTime, Unwrapper};
use antiphon_media::packet::{ExtensionIds, RtpError, parse_rtp};

use crate::codec::Codec;
use crate::frame::{Frame, MAX_FRAME, Picture, video_time};
use crate::inspect::Inspector;
use crate::marking::{MARKING_ID, Marking};
use crate::payload::Assembler;

/// How long packets wait for those before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DepacketiserConfig {
    /// How the pictures are compressed.
    pub codec: Codec,
    /// Under which identifier senders mark frames, 1 to 14; `None` if they don't.
    pub marking: Option<u8>,
    /// Packets behind a gap after which it is given up. Few where nothing is repaired; where a transport repairs, as many
    /// as a playout delay holds.
    pub reorder: u64,
    /// Bytes that wait at most, of all frames together.
    pub max_bytes: usize,
}

impl DepacketiserConfig {
    /// Waits for 64 packets, which are more than a path overtakes and less than half a second of 1 Mbit/s.
    pub fn new(codec: Codec) -> Self {
        DepacketiserConfig {
            codec,
            marking: Some(MARKING_ID),
            reorder: 64,
            max_bytes: MAX_FRAME + MAX_FRAME / 2,
        }
    }
}

/// A frame that was received, whole or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedFrame {
    /// The frame, if no packet of it is missing and its packets fit together.
    pub frame: Option<Frame>,
    /// Its RTP time stamp, unwrapped; the first of a stream is in the second cycle ([`Unwrapper`]).
    pub timestamp: u64,
    /// Packets of it that came.
    pub packets: u64,
    /// Packets that are missing among it and directly before it: they were its own or those of frames that are lost as a
    /// whole. 0 for a frame that is not whole says that its packets contradict each other.
    pub missing: u64,
    /// Pictures of the base layer that are lost as a whole since the frame told before it, if the sender marks frames:
    /// 0 says that nothing is lost that this frame needs, whatever is missing.
    pub base_lost: Option<u8>,
    /// What is known of it, even if it is not whole.
    pub picture: Picture,
}

impl ReceivedFrame {
    /// Whether all of it is there.
    pub fn is_whole(&self) -> bool {
        self.frame.is_some()
    }
}

/// What became of the packets and frames of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VideoCounters {
    /// Packets taken.
    pub packets: u64,
    /// Packets that came after their frame had been given up, or given.
    pub late: u64,
    /// Packets that were there already.
    pub duplicates: u64,
    /// Numbers of packets that never came.
    pub missing: u64,
    /// Frames given whole.
    pub whole: u64,
    /// Frames of which something came, and not all.
    pub broken: u64,
    /// Times at which a stream went on elsewhere in its numbers.
    pub restarts: u64,
}

/// Puts the frames of one stream (one SSRC) together.
#[derive(Debug)]
pub struct Depacketiser {
    config: DepacketiserConfig,
    assembler: Assembler,
    inspector: Inspector,
    sequences: Unwrapper<16>,
    timestamps: Unwrapper<32>,
    held: BTreeMap<u64, Held>,
    /// The first packet of an unfinished frame, and behind its last one so far.
    looked_at: Option<(u64, u64)>,
    bytes: usize,
    /// The number that comes next: all before it are settled.
    next: Option<u64>,
    /// The packet before `next` was the last of its frame.
    between_frames: bool,
    /// Packets given up since the last frame that was told.
    missing: u64,
    /// The frame told last, if it was not whole: what else comes of it is not told again.
    broken: Option<u64>,
    /// Pictures of the base layer so far, by the frame told last ([`Marking::base_pictures`]).
    base_pictures: Option<u8>,
    /// Frames up to this time stamp are given up.
    given_up: Option<u64>,
    first_timestamp: Option<u64>,
    /// The number after a packet that came from far behind: a second one there is a stream that began anew.
    elsewhere: Option<u16>,
    counters: VideoCounters,
}

#[derive(Debug)]
struct Held {
    timestamp: u64,
    /// Surely the first packet of a frame.
    start: bool,
    marker: bool,
    marking: Option<Marking>,
    payload: Vec<u8>,
}

/// How far a frame reaches from the first packet that waits.
struct Run {
    /// Behind its last packet.
    end: u64,
    /// The end is known: a marker, or a packet of another frame behind it.
    is_ended: bool,
}

impl Depacketiser {
    /// For a stream whose packets are not known yet.
    pub fn new(config: DepacketiserConfig) -> Self {
        Depacketiser {
            assembler: Assembler::new(config.codec),
            inspector: Inspector::new(config.codec),
            config,
            sequences: Unwrapper::default(),
            timestamps: Unwrapper::default(),
            held: BTreeMap::new(),
            looked_at: None,
            bytes: 0,
            next: None,
            between_frames: false,
            missing: 0,
            broken: None,
            base_pictures: None,
            given_up: None,
            first_timestamp: None,
            elsewhere: None,
            counters: VideoCounters::default(),
        }
    }

    /// Takes an RTP packet of the stream.
    pub fn handle_packet(&mut self, bytes: &[u8]) -> Result<(), RtpError> {
        let ids = ExtensionIds { marking: self.config.marking, ..ExtensionIds::NONE };
        let packet = parse_rtp(bytes, ids)?;
        let marking = packet.marking;
        self.counters.packets += 1;
        if self.begins_anew(packet.sequence) {
            self.restart();
        }
        let sequence = self.sequences.extend(packet.sequence.into());
        let is_first = self.next.is_none();
        let next = *self.next.get_or_insert(sequence);
        if sequence < next {
            self.counters.late += 1;
            return Ok(());
        }
        let payload = packet.payload;
        let start = match marking {
            Some(marking) => marking.start,
            None if is_first => self.assembler.may_start(payload),
            None => self.assembler.is_start(payload),
        };
        let held = Held {
            timestamp: self.timestamps.extend(packet.timestamp.into()),
            start,
            marker: packet.marker,
            marking,
            payload: payload.to_vec(),
        };
        self.first_timestamp.get_or_insert(held.timestamp);
        self.bytes += held.payload.len() + OVERHEAD;
        if let Some(before) = self.held.insert(sequence, held) {
            self.bytes -= before.payload.len() + OVERHEAD;
            self.counters.duplicates += 1;
        }
        Ok(())
    }

    /// Whether packets continue elsewhere: two in a row from so far behind that none of them can be late (RFC 3550 §A.1).
    fn begins_anew(&mut self, sequence: u16) -> bool {
        let Some(next) = self.next else { return false };
        let is_far_behind = self.sequences.peek(sequence.into()) + MAX_MISORDER < next;
        let again = is_far_behind && self.elsewhere == Some(sequence);
        self.elsewhere = is_far_behind.then_some(sequence.wrapping_add(1));
        again
    }

    /// The stream begins anew, with other numbers. What waits is given up without a word.
    pub fn restart(&mut self) {
        self.counters.restarts += 1;
        self.held.clear();
        self.bytes = 0;
        (self.sequences, self.timestamps) = Default::default();
        (self.next, self.looked_at) = (None, None);
        self.between_frames = false;
        (self.missing, self.broken, self.given_up) = (0, None, None);
        (self.first_timestamp, self.elsewhere, self.base_pictures) = (None, None, None);
    }

    /// Frames up to this time stamp (unwrapped) no longer wait for packets: they are given as they are.
    pub fn give_up_through(&mut self, timestamp: u64) {
        self.given_up = self.given_up.max(Some(timestamp));
    }

    /// The next frame in the order of sending; `None` while it waits for packets.
    pub fn poll_frame(&mut self) -> Option<ReceivedFrame> {
        loop {
            let begin = *self.held.first_key_value()?.0;
            let next = *self.next.get_or_insert(begin);
            if begin > next {
                if !self.is_given_up(next, begin) {
                    return None;
                }
                self.give_up_packets(begin - next);
                self.next = Some(begin);
                self.between_frames = false;
            }
            let run = self.run(begin);
            if !run.is_ended && !self.is_given_up(run.end, begin) {
                return None;
            }
            if let Some(told) = self.settle(begin, &run) {
                return Some(told);
            }
        }
    }

    /// All that waits, whole or not: the stream has ended.
    pub fn finish(&mut self) -> Option<ReceivedFrame> {
        self.give_up_through(u64::MAX);
        self.poll_frame()
    }

    /// What became of packets and frames so far.
    pub fn counters(&self) -> VideoCounters {
        self.counters
    }

    /// Bytes that wait now.
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether packet `missing` is waited for no longer; `waiting` is the first packet that is there.
    fn is_given_up(&self, missing: u64, waiting: u64) -> bool {
        let highest = self.held.last_key_value().map_or(0, |(sequence, _)| *sequence);
        let is_told = |held: &Held| self.given_up.is_some_and(|limit| held.timestamp <= limit);
        highest >= missing.saturating_add(self.config.reorder)
            || self.bytes > self.config.max_bytes
            || self.held.get(&waiting).is_some_and(is_told)
    }

    fn give_up_packets(&mut self, count: u64) {
        self.missing += count;
        self.counters.missing += count;
    }

    /// The packets of one frame from `begin` on, as far as none is missing. Goes on from where it stopped the last time, so
    /// that a frame of many packets costs no more for each.
    fn run(&mut self, begin: u64) -> Run {
        let timestamp = self.held.get(&begin).map(|held| held.timestamp);
        let mut end = self.looked_at.filter(|(of, _)| *of == begin).map_or(begin, |(_, end)| end);
        let mut is_ended = false;
        for (sequence, held) in self.held.range(end..) {
            if *sequence != end {
                break;
            }
            is_ended = timestamp != Some(held.timestamp);
            if is_ended {
                break;
            }
            end += 1;
            is_ended = held.marker;
            if is_ended {
                break;
            }
        }
        self.looked_at = (!is_ended).then_some((begin, end));
        Run { end, is_ended }
    }

    /// Takes a frame's packets out and says what it is; `None` for the rest of a frame that was told as broken.
    fn settle(&mut self, begin: u64, run: &Run) -> Option<ReceivedFrame> {
        let first = self.held.get(&begin)?;
        let timestamp = first.timestamp;
        let is_begun = self.between_frames || first.start;
        let marking = first.marking;
        let mut taken = Vec::new();
        let mut at = begin;
        // Of a frame that is given up, packets behind the gap are taken out, too.
        while let Some((sequence, held)) = self.held.first_key_value() {
            if held.timestamp != timestamp || taken.len() as u64 >= run.end - begin && run.is_ended {
                break;
            }
            let sequence = *sequence;
            self.give_up_packets(sequence - at);
            at = sequence + 1;
            let held = self.held.remove(&sequence)?;
            self.bytes -= held.payload.len() + OVERHEAD;
            let marker = held.marker;
            taken.push(held.payload);
            if marker {
                self.between_frames = true;
                break;
            }
        }
        let is_complete = run.is_ended && at == run.end && is_begun;
        self.between_frames = run.is_ended && at == run.end || self.between_frames && at > run.end;
        self.next = Some(at);
        self.looked_at = None;
        // Packets of padding alone only take numbers (RFC 3550 §5.1).
        taken.retain(|payload| !payload.is_empty());
        if self.broken == Some(timestamp) || taken.is_empty() {
            return None;
        }
        let payloads: Vec<&[u8]> = taken.iter().map(Vec::as_slice).collect();
        let data = if is_complete { self.assembler.assemble(&payloads) } else { None };
        Some(self.told(timestamp, &payloads, marking, data))
    }

    fn told(
        &mut self,
        timestamp: u64,
        payloads: &[&[u8]],
        marking: Option<Marking>,
        data: Option<Vec<u8>>,
    ) -> ReceivedFrame {
        // Of one that is not whole its marks alone are known.
        let mut picture = data.as_ref().and_then(|data| self.inspector.inspect(data)).unwrap_or_default();
        if let Some(marking) = marking {
            picture.key |= marking.independent;
            picture.droppable = marking.discardable;
            picture.temporal_layer = marking.temporal_layer;
        } else if let Some(layer) =
            payloads.first().and_then(|payload| self.assembler.temporal_layer(payload))
        {
            picture.temporal_layer = layer;
        }
        if data.is_some() {
            self.counters.whole += 1;
            self.broken = None;
        } else {
            self.counters.broken += 1;
            self.broken = Some(timestamp);
        }
        let base_lost = marking.and_then(|marking| self.base_lost(marking));
        let time = self.time(timestamp);
        ReceivedFrame {
            frame: data.map(|data| Frame { codec: self.config.codec, time, picture, data }),
            timestamp,
            packets: payloads.len() as u64,
            missing: std::mem::take(&mut self.missing),
            base_lost,
            picture,
        }
    }

    /// How many pictures of the base layer stand between the frame told before and this one.
    fn base_lost(&mut self, marking: Marking) -> Option<u8> {
        let before = self.base_pictures.replace(marking.base_pictures)?;
        let own = u8::from(marking.temporal_layer == 0);
        Some(marking.base_pictures.wrapping_sub(before).wrapping_sub(own))
    }

    /// Media time from the first packet that came. A frame that was sent earlier, or is shown earlier, has time 0.
    fn time(&self, timestamp: u64) -> MediaTime {
        video_time(timestamp.saturating_sub(self.first_timestamp.unwrap_or(timestamp)))
    }
}

/// Bytes that a packet costs beside its payload, so that empty ones are bounded, too.
const OVERHEAD: usize = 64;
/// A packet that is so many numbers late is not late but of another numbering (RFC 3550 §A.1 has 100).
const MAX_MISORDER: u64 = 3_000;

#[cfg(test)]
mod tests;
