//! From blocks back to packets, although blocks between them may be missing.
//!
//! A key can occur in the sound by chance (2⁻³² at each byte), so a header counts only with a plausible size and a
//! number near those before it; otherwise the search continues one byte further. A packet that contains another
//! plausible header has lost its end with a missing block: it is dropped, and the other packet is taken. If the missing
//! blocks reach from the middle of one packet to the same place in another, the two become one undetected: the header
//! has no checksum. The paper counts such packets as lost, by their contents.

use super::header::{HEADER, Header, KEY, MAX_CHANNELS, MAX_DATA, key_channel};

/// Finds packets in a stream of bytes with gaps. Holds at most [`Resynchroniser::MEMORY`] bytes.
#[derive(Debug)]
pub struct Resynchroniser {
    /// Bytes not yet used: `at..`.
    buf: Vec<u8>,
    at: usize,
    /// Bytes of the front packet, after the first, that are known not to begin another header.
    searched: usize,
    channels: [Channel; MAX_CHANNELS as usize],
    counters: ResyncCounters,
}

/// What a resynchroniser has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResyncCounters {
    /// Packets found.
    pub packets: u64,
    /// Sequence numbers skipped whose packets have not arrived yet.
    pub missing: u64,
    /// Packets that came a second time.
    pub duplicates: u64,
    /// Keys that no plausible header followed.
    pub false_keys: u64,
    /// Packets whose end was lost.
    pub cut: u64,
    /// Bytes that belong to no packet.
    pub skipped: u64,
}

/// The sequence numbers of one channel.
#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    highest: Option<u32>,
    /// Which of the 64 numbers up to `highest` have arrived, the lowest bit for `highest` itself.
    came: u64,
    /// A number outside the window; if its successor follows, the sender has restarted.
    unknown_source: Option<u32>,
}

impl Resynchroniser {
    /// The most bytes that it keeps: two packets of the largest size.
    pub const MEMORY: usize = 2 * (HEADER + MAX_DATA);

    /// Starts with an empty stream.
    pub fn new() -> Self {
        Resynchroniser {
            buf: Vec::with_capacity(Self::MEMORY),
            at: 0,
            searched: 0,
            channels: [Channel::default(); MAX_CHANNELS as usize],
            counters: ResyncCounters::default(),
        }
    }

    /// The counters.
    pub fn counters(&self) -> ResyncCounters {
        self.counters
    }

    /// Takes as many of the next bytes of the stream as there is room for: at least [`MAX_DATA`] once [`Self::poll`]
    /// has returned `None`.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        self.buf.drain(..self.at);
        self.at = 0;
        let taken = bytes.len().min(Self::MEMORY - self.buf.len());
        self.buf.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Returns the next packet, its data in the first `size` bytes of `out`, which holds [`MAX_DATA`] bytes; `None`
    /// until more bytes have come.
    pub fn poll(&mut self, out: &mut [u8]) -> Option<Header> {
        loop {
            self.seek();
            let rest = &self.buf[self.at..];
            if rest.len() < HEADER {
                return None;
            }
            let Some(header) = Header::parse(rest).filter(|header| self.admits(*header)) else {
                self.counters.false_keys += 1;
                self.skip(1);
                continue;
            };
            let len = HEADER + header.size as usize;
            match self.inner(header) {
                Inner::Header(place) => {
                    self.counters.cut += 1;
                    self.skip(place);
                }
                Inner::Unclear => return None,
                Inner::None if self.buf.len() - self.at < len => return None,
                Inner::None => {
                    out[..len - HEADER].copy_from_slice(&self.buf[self.at + HEADER..self.at + len]);
                    (self.at, self.searched) = (self.at + len, 0);
                    self.count(header);
                    return Some(header);
                }
            }
        }
    }

    /// Advances to the next key, or to the beginning of a possible one.
    fn seek(&mut self) {
        let rest = &self.buf[self.at..];
        let begins = |bytes: &[u8]| match bytes.len() {
            0 => true,
            n @ 1..=3 => bytes == &KEY[..n],
            _ => key_channel(bytes).is_some(),
        };
        let mut place = next_key(rest, 0);
        while place < rest.len() && !begins(&rest[place..]) {
            place = next_key(rest, place + 1);
        }
        if place > 0 {
            self.skip(place);
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        self.searched = 0;
        self.counters.skipped += bytes as u64;
    }

    /// Whether a header is plausible by its number. One outside the window is remembered.
    fn admits(&mut self, header: Header) -> bool {
        let channel = &mut self.channels[usize::from(header.channel)];
        if channel.is_near(header.seq) {
            return true;
        }
        if channel.unknown_source.is_some_and(|unknown_source| unknown_source.wrapping_add(1) == header.seq) {
            *channel = Channel::default();
            return true;
        }
        channel.unknown_source = Some(header.seq);
        false
    }

    /// Looks for another packet's header within the packet at the front.
    fn inner(&mut self, front: Header) -> Inner {
        let (rest, len) = (&self.buf[self.at..], HEADER + front.size as usize);
        // A key that begins in the last bytes ends after them.
        let end = len.min(rest.len().saturating_sub(KEY.len() - 1));
        let mut place = next_key(&rest[..end], self.searched + 1);
        while place < end {
            if key_channel(&rest[place..]).is_some() {
                match Header::parse(&rest[place..]) {
                    None if rest.len() < place + HEADER => return Inner::Unclear,
                    Some(header) if self.is_next(header, front) => return Inner::Header(place),
                    _ => {}
                }
            }
            place = next_key(&rest[..end], place + 1);
        }
        self.searched = self.searched.max(end.saturating_sub(1));
        Inner::None
    }

    /// Whether `header` may follow `front`. All channels count alike, so a new channel is compared with the other.
    fn is_next(&self, header: Header, front: Header) -> bool {
        let channel = &self.channels[usize::from(header.channel)];
        let highest = Some(channel.highest.unwrap_or(front.seq));
        Channel { highest, ..*channel }.is_near(header.seq)
    }

    fn count(&mut self, header: Header) {
        self.counters.packets += 1;
        let channel = &mut self.channels[usize::from(header.channel)];
        channel.unknown_source = None;
        let Some(highest) = channel.highest else {
            (channel.highest, channel.came) = (Some(header.seq), 1);
            return;
        };
        let ahead = header.seq.wrapping_sub(highest) as i32;
        if ahead > 0 {
            self.counters.missing += ahead as u64 - 1;
            channel.came = channel.came.checked_shl(ahead as u32).unwrap_or(0) | 1;
            channel.highest = Some(header.seq);
        } else {
            // A number beyond the window's memory is counted as new.
            let bit = 1u64.checked_shl(ahead.unsigned_abs()).unwrap_or(0);
            if channel.came & bit != 0 {
                self.counters.duplicates += 1;
            } else {
                self.counters.missing = self.counters.missing.saturating_sub(1);
                channel.came |= bit;
            }
        }
    }
}

impl Default for Resynchroniser {
    fn default() -> Self {
        Resynchroniser::new()
    }
}

/// Inside a packet.
enum Inner {
    None,
    /// Another packet's header, at this offset from its beginning.
    Header(usize),
    /// A key whose header is not complete yet.
    Unclear,
}

impl Channel {
    fn is_near(&self, seq: u32) -> bool {
        self.highest.is_none_or(|highest| (seq.wrapping_sub(highest) as i32).unsigned_abs() <= WINDOW)
    }
}

/// Where in `bytes` the first byte of a key is next, at or after `from`; their length if it is nowhere. Every byte that
/// arrives is looked at, so whole chunks are compared at once.
fn next_key(bytes: &[u8], from: usize) -> usize {
    let Some(rest) = bytes.get(from..) else { return bytes.len() };
    let without = |chunk: &&[u8; 32]| !chunk.iter().fold(false, |any, byte| any | (*byte == KEY[0]));
    let skipped = 32 * rest.as_chunks().0.iter().take_while(without).count();
    let found = rest[skipped..].iter().position(|byte| *byte == KEY[0]);
    found.map_or(bytes.len(), |place| from + skipped + place)
}

/// Packets: 44 s of the paper's stream, longer than any outage that a stream survives.
const WINDOW: u32 = 4096;

#[cfg(test)]
mod tests;
