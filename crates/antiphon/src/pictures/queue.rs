//! Packets of pictures on their way from the media thread to the thread that writes them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use antiphon_media::packet::EncodingName;
use antiphon_session::{VideoArrived, VideoSink};
use rtrb::{Consumer, Producer, RingBuffer};

use super::film::Shared;

/// The media thread's end.
pub(super) struct In {
    ring: Producer<u8>,
    shared: Arc<Shared>,
}

/// The writing thread's end.
pub(super) struct Out {
    ring: Consumer<u8>,
    packet: Vec<u8>,
}

/// What comes with a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct About {
    pub ssrc: u32,
    pub timestamp: u32,
    pub encoding: EncodingName,
    /// Where its picture belongs in what is written of the sound, in nanoseconds.
    pub written: Option<i64>,
    /// It was sent again to a group.
    pub again: bool,
}

/// Both ends. Packets that find no room are counted.
pub(super) fn queue(shared: Arc<Shared>) -> (In, Out) {
    let (producer, consumer) = RingBuffer::new(RING);
    (In { ring: producer, shared }, Out { ring: consumer, packet: Vec::new() })
}

impl In {
    fn push(&mut self, packet: &VideoArrived<'_>, again: bool) {
        let mut head = [0; HEAD];
        let name = packet.encoding.as_str().as_bytes();
        head[..4].copy_from_slice(&(packet.packet.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&packet.ssrc.to_le_bytes());
        head[8..12].copy_from_slice(&packet.timestamp.to_le_bytes());
        head[12..12 + name.len()].copy_from_slice(name);
        head[20..28].copy_from_slice(&packet.place.unwrap_or(i64::MIN).to_le_bytes());
        head[28] = again.into();
        let len = HEAD + packet.packet.len();
        let Ok(mut chunk) = self.ring.write_chunk(len) else {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let (first, second) = chunk.as_mut_slices();
        let (room, rest) = (first.len(), second.len());
        for (at, part) in [(0, &head[..]), (HEAD, packet.packet)] {
            let before = room.saturating_sub(at).min(part.len());
            first[at.min(room)..][..before].copy_from_slice(&part[..before]);
            let behind = (at + before).saturating_sub(room);
            second[behind.min(rest)..][..part.len() - before].copy_from_slice(&part[before..]);
        }
        chunk.commit_all();
    }
}

impl VideoSink for In {
    fn on_packet(&mut self, packet: &VideoArrived<'_>) {
        self.push(packet, false);
    }

    fn wants_key_frame(&self) -> bool {
        self.shared.wants_key.load(Ordering::Relaxed)
    }

    fn wants_repeats(&self) -> bool {
        self.shared.wants_repeats.load(Ordering::Relaxed)
    }

    fn on_repeat(&mut self, packet: &VideoArrived<'_>) {
        self.push(packet, true);
    }
}

impl Out {
    /// The next packet.
    pub fn pop(&mut self) -> Option<(About, &[u8])> {
        let mut head = [0; HEAD];
        self.take(&mut head)?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let name = &head[12..20];
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let encoding = EncodingName::new(std::str::from_utf8(&name[..end]).ok()?)?;
        let written = head[20..28].try_into().map(i64::from_le_bytes).ok().filter(|place| *place != i64::MIN);
        let about = About { ssrc: word(4), timestamp: word(8), encoding, written, again: head[28] == 1 };
        let mut packet = std::mem::take(&mut self.packet);
        packet.resize(word(0) as usize, 0);
        let taken = self.take(&mut packet);
        self.packet = packet;
        taken?;
        Some((about, &self.packet))
    }

    fn take(&mut self, out: &mut [u8]) -> Option<()> {
        let chunk = self.ring.read_chunk(out.len()).ok()?;
        let (first, second) = chunk.as_slices();
        out[..first.len()].copy_from_slice(first);
        out[first.len()..].copy_from_slice(second);
        chunk.commit_all();
        Some(())
    }
}

/// Bytes before a packet.
const HEAD: usize = 29;
/// Bytes that wait at most: three seconds of 8 Mbit/s, as the sound's ring holds three seconds.
const RING: usize = 3_000_000;

#[cfg(test)]
mod tests {
    use antiphon_core::Instant;

    use super::*;

    #[test]
    fn packets_of_any_size_pass_in_order_and_what_has_no_room_is_counted() {
        let shared = Arc::new(Shared::default());
        let (mut to, mut from) = queue(shared.clone());
        let encoding = EncodingName::new("H264").unwrap();
        let bytes: Vec<u8> = (0..70_000u32).map(|n| n as u8).collect();
        let packet = |n: u32| VideoArrived {
            at: Instant::ZERO,
            ssrc: n,
            encoding,
            timestamp: n * 7,
            marker: false,
            place: n.is_multiple_of(2).then_some(i64::from(n) - 5),
            payload: &[],
            packet: &bytes[..n as usize * 61 % 70_000],
        };
        // Round the ring several times.
        for n in 0..2_000 {
            match n % 3 {
                0 => to.on_repeat(&packet(n)),
                _ => to.on_packet(&packet(n)),
            }
            let (about, got) = from.pop().unwrap();
            assert_eq!(about.again, n % 3 == 0);
            let sent = packet(n);
            assert_eq!((about.ssrc, about.timestamp, about.encoding), (n, n * 7, encoding));
            assert_eq!(about.written, sent.place);
            assert!(got == sent.packet, "packet {n}");
        }
        assert!(from.pop().is_none());
        for _ in 0..RING / 61_000 + 10 {
            to.on_packet(&packet(1_000));
        }
        assert!(shared.dropped.load(Ordering::Relaxed) >= 10);
        let left = std::iter::from_fn(|| from.pop().map(|(about, _)| about.ssrc)).count();
        assert!(left >= RING / (61_000 + HEAD) - 1);
    }
}
