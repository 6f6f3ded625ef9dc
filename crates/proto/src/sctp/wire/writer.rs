//! Writes a packet, chunk by chunk, into the caller's buffer.

use antiphon_core::Seq32;

use super::chunks::{DataHeader, ForwardTsn, SACK_HEADER, Skipped};
use super::{HEADER, Header, TLV, chunk, seal};

/// A packet being written.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// Begins a packet of at most `buf.len()` bytes, which must be at least [`HEADER`].
    pub fn new(buf: &'a mut [u8], header: Header) -> Self {
        buf[..2].copy_from_slice(&header.source.to_be_bytes());
        buf[2..4].copy_from_slice(&header.destination.to_be_bytes());
        buf[4..8].copy_from_slice(&header.tag.to_be_bytes());
        buf[8..HEADER].fill(0);
        Writer { buf, len: HEADER }
    }

    /// Writes a packet of one chunk made of parts, for which there must be room; returns its length.
    pub fn only(buf: &mut [u8], header: Header, kind: u8, flags: u8, parts: &[&[u8]]) -> usize {
        let mut writer = Writer::new(buf, header);
        writer.chunk(kind, flags, parts);
        writer.finish()
    }

    /// Bytes left for complete chunks with their headers and padding.
    pub fn room(&self) -> usize {
        (self.buf.len() - self.len) & !3
    }

    /// [`Self::room`] before the first chunk.
    pub fn room_when_empty(&self) -> usize {
        (self.buf.len() - HEADER) & !3
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it contains no chunk yet.
    pub fn is_empty(&self) -> bool {
        self.len == HEADER
    }

    /// Appends a chunk made of parts; returns `false`, and writes nothing, when there is no room.
    pub fn chunk(&mut self, kind: u8, flags: u8, parts: &[&[u8]]) -> bool {
        let len = TLV + parts.iter().map(|part| part.len()).sum::<usize>();
        let (Ok(length), true) = (u16::try_from(len), len.next_multiple_of(4) <= self.room()) else {
            return false;
        };
        self.put(&[kind, flags]);
        self.put(&length.to_be_bytes());
        parts.iter().for_each(|part| self.put(part));
        self.pad();
        true
    }

    /// Appends a DATA or I-DATA chunk.
    pub fn data(&mut self, header: &DataHeader, payload: &[u8]) -> bool {
        let (kind, flags, value, len) = header.emit();
        self.chunk(kind, flags, &[&value[..len], payload])
    }

    /// Appends a SACK with as many gaps and duplicates as fit.
    pub fn sack(
        &mut self,
        cumulative: Seq32,
        window: u32,
        gaps: impl Iterator<Item = (u16, u16)>,
        duplicates: &[Seq32],
    ) -> bool {
        if self.room() < SACK_HEADER {
            return false;
        }
        let start = self.len;
        self.put(&[chunk::SACK, 0, 0, 0]);
        self.put(&cumulative.0.to_be_bytes());
        self.put(&window.to_be_bytes());
        self.put(&[0; 4]);
        let (mut gap_count, mut duplicate_count) = (0u16, 0u16);
        for (first, last) in gaps {
            if self.room() < 4 {
                break;
            }
            self.put(&first.to_be_bytes());
            self.put(&last.to_be_bytes());
            gap_count += 1;
        }
        for tsn in duplicates {
            if self.room() < 4 {
                break;
            }
            self.put(&tsn.0.to_be_bytes());
            duplicate_count += 1;
        }
        let length = (self.len - start) as u16;
        self.buf[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
        self.buf[start + 12..start + 14].copy_from_slice(&gap_count.to_be_bytes());
        self.buf[start + 14..start + 16].copy_from_slice(&duplicate_count.to_be_bytes());
        true
    }

    /// Appends a FORWARD TSN or I-FORWARD TSN.
    pub fn forward_tsn(&mut self, interleaved: bool, cumulative: Seq32, skipped: &[Skipped]) -> bool {
        let len = TLV + 4 + skipped.len() * ForwardTsn::entry_len(interleaved);
        let (Ok(length), true) = (u16::try_from(len), len <= self.room()) else { return false };
        let kind = if interleaved { chunk::I_FORWARD_TSN } else { chunk::FORWARD_TSN };
        self.put(&[kind, 0]);
        self.put(&length.to_be_bytes());
        self.put(&cumulative.0.to_be_bytes());
        for entry in skipped {
            let (bytes, len) = entry.emit(interleaved);
            self.put(&bytes[..len]);
        }
        true
    }

    /// Appends a PAD chunk that extends the packet to `size` bytes, a multiple of 4 (RFC 4820 §3).
    pub fn pad_to(&mut self, size: usize) {
        let Some(len) = size.checked_sub(self.len).filter(|len| (TLV..=self.room()).contains(len)) else {
            return;
        };
        self.put(&[chunk::PAD, 0]);
        self.put(&(len as u16).to_be_bytes());
        self.buf[self.len..size].fill(0);
        self.len = size;
    }

    /// Writes the checksum and returns the packet's length.
    pub fn finish(self) -> usize {
        seal(&mut self.buf[..self.len]);
        self.len
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buf[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn pad(&mut self) {
        let end = self.len.next_multiple_of(4);
        self.buf[self.len..end].fill(0);
        self.len = end;
    }
}

/// Appends a parameter or an error cause to a list. Earlier ones are padded; the padding of the last one belongs to the
/// chunk, whose length does not count it (RFC 9260 §3.2).
pub fn push_tlv(out: &mut Vec<u8>, kind: u16, value: &[&[u8]]) {
    let len = TLV + value.iter().map(|part| part.len()).sum::<usize>();
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(len as u16).to_be_bytes());
    value.iter().for_each(|part| out.extend_from_slice(part));
}
