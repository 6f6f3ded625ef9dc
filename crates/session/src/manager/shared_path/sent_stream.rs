//! What was sent of one stream, until something is told of it.

use antiphon_core::Instant;

/// What was sent of one stream and is not told of yet.
#[derive(Debug)]
pub(super) struct SentStream {
    ssrc: Option<u32>,
    ring: Vec<Sent>,
    /// Every older packet is told of.
    oldest: u16,
    /// The number after the newest one.
    next: u16,
    /// The newest one that has arrived.
    arrived: Option<u16>,
    /// When a packet was last sent; `None` before the first.
    last_sent: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    number: u16,
    pub at: Instant,
    /// 0 when it has been told of.
    pub bytes: u32,
    /// It was told that it has arrived.
    has_come: bool,
}

impl SentStream {
    pub fn new() -> Self {
        let sent = Sent { number: 0, at: Instant::ZERO, bytes: 0, has_come: false };
        let ring = vec![sent; REMEMBERED];
        SentStream { ssrc: None, ring, oldest: 0, next: 0, arrived: None, last_sent: None }
    }

    /// It is that of `ssrc` from now on, of which `number` is the first packet.
    pub fn begin(&mut self, ssrc: u32, number: u16) {
        self.forget();
        (self.ssrc, self.oldest, self.next, self.arrived) = (Some(ssrc), number, number, None);
    }

    pub fn is_of(&self, ssrc: u32) -> bool {
        self.ssrc == Some(ssrc)
    }

    /// When a packet was last sent; `None` before the first.
    pub fn last_sent(&self) -> Option<Instant> {
        self.last_sent
    }

    /// Bytes that nothing was told of.
    pub fn in_flight(&self) -> u64 {
        self.ring.iter().map(|sent| u64::from(sent.bytes)).sum()
    }

    /// Returns the bytes of a packet of which nothing was told, and whose place this one takes.
    pub fn on_sent(&mut self, now: Instant, number: u16, bytes: usize) -> u64 {
        let place = &mut self.ring[usize::from(number) % REMEMBERED];
        let before = std::mem::replace(place, Sent { number, at: now, bytes: bytes as u32, has_come: false });
        (self.next, self.last_sent) = (number.wrapping_add(1), Some(now));
        if usize::from(self.next.wrapping_sub(self.oldest)) > REMEMBERED {
            self.oldest = self.next.wrapping_sub(REMEMBERED as u16);
        }
        u64::from(before.bytes)
    }

    /// A packet has arrived: returns it if that is news.
    pub fn on_arrived(&mut self, number: u16) -> Option<Sent> {
        let sent = &mut self.ring[usize::from(number) % REMEMBERED];
        if sent.number != number || sent.bytes == 0 {
            return None;
        }
        let news = *sent;
        (sent.bytes, sent.has_come) = (0, true);
        let is_newer = |before: u16| number.wrapping_sub(before) as i16 > 0;
        if self.arrived.is_none_or(is_newer) {
            self.arrived = Some(number);
        }
        Some(news)
    }

    /// Packets that others have overtaken for too long, and their bytes.
    pub fn lost(&mut self) -> (u32, u64) {
        let Some(arrived) = self.arrived else { return (0, 0) };
        let (mut packets, mut bytes) = (0, 0);
        while self.oldest != self.next && (arrived.wrapping_sub(self.oldest) as i16) >= 0 {
            let sent = &mut self.ring[usize::from(self.oldest) % REMEMBERED];
            if sent.bytes > 0 && sent.number == self.oldest {
                let behind = arrived.wrapping_sub(self.oldest);
                if behind < OVERTAKEN {
                    break;
                }
                packets += 1;
                bytes += u64::from(std::mem::take(&mut sent.bytes));
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
        (packets, bytes)
    }

    /// Whether a packet was not sent yet.
    pub fn is_ahead(&self, number: u16) -> bool {
        self.last_sent.is_some() && number.wrapping_sub(self.next) as i16 >= 0
    }

    /// Whether it was told that a packet has arrived.
    pub fn has_come(&self, number: u16) -> bool {
        let sent = &self.ring[usize::from(number) % REMEMBERED];
        sent.number == number && sent.has_come
    }

    /// When the oldest packet was sent that nothing was told of.
    pub fn oldest_at(&self) -> Option<Instant> {
        let mut numbers = (0..self.next.wrapping_sub(self.oldest)).map(|n| self.oldest.wrapping_add(n));
        numbers.find_map(|number| {
            let sent = &self.ring[usize::from(number) % REMEMBERED];
            (sent.bytes > 0).then_some(sent.at)
        })
    }

    /// Nothing will be told of what was sent before `first`: returns its bytes.
    pub fn forget_before(&mut self, first: Instant) -> u64 {
        let mut bytes = 0;
        while self.oldest != self.next {
            let sent = &mut self.ring[usize::from(self.oldest) % REMEMBERED];
            if sent.number == self.oldest && sent.at >= first {
                break;
            }
            bytes += u64::from(std::mem::take(&mut sent.bytes));
            self.oldest = self.oldest.wrapping_add(1);
        }
        bytes
    }

    /// A packet that nothing was told of yet.
    pub fn sent(&self, number: u16) -> Option<&Sent> {
        let sent = &self.ring[usize::from(number) % REMEMBERED];
        (sent.number == number && sent.bytes > 0).then_some(sent)
    }

    /// Nothing will be told of all that was sent.
    pub fn forget(&mut self) {
        self.oldest = self.next;
        self.ring.iter_mut().for_each(|sent| sent.bytes = 0);
    }
}

/// Number and SSRC of an RTP packet.
pub(super) fn name_of(packet: &[u8]) -> Option<(u16, u32)> {
    let header = packet.first_chunk::<12>()?;
    let ssrc = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    Some((u16::from_be_bytes([header[2], header[3]]), ssrc))
}

/// Packets of a stream that are remembered: half a second of 50 Mbit/s.
const REMEMBERED: usize = 2048;
/// Packets that have overtaken one that is lost (RFC 5681 §3.2).
const OVERTAKEN: u16 = 3;
