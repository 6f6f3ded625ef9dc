//! AV1 ("RTP Payload Format For AV1", version 1.0, §4.4): OBUs without size fields, cut where a packet is full.
//!
//! ```text
//!  0 1 2 3 4 5 6 7
//! +-+-+-+-+-+-+-+-+
//! |Z|Y| W |N|-|-|-|   Z: goes on from the packet before; Y: goes on in the next; N: a coded video sequence begins
//! +-+-+-+-+-+-+-+-+
//! ```
//!
//! W is the number of OBUs, or 0; the last of W has no length in front, all others do.

use super::Payloads;
use crate::av1::{begins_sequence, obus, push_received};
use crate::bits::{leb128, leb128_len, push_leb128};

const CONTINUES: u8 = 0x80;
const GOES_ON: u8 = 0x40;
const NEW_SEQUENCE: u8 = 0x08;
/// As many OBUs are in a packet as W can count.
const MOST: usize = 3;

pub fn cut(data: &[u8], max: usize, out: &mut Payloads) {
    let mut packet = Packet::new(max);
    let mut first = if begins_sequence(data) { NEW_SEQUENCE } else { 0 };
    let mut bare = Vec::new();
    for obu in obus(data) {
        bare.clear();
        bare.reserve(obu.len_without_size());
        bare.extend(obu.bare_header());
        bare.extend(obu.payload);
        let mut rest = &bare[..];
        let mut continues = false;
        while !rest.is_empty() {
            // An element that is not the last of its packet gets a length in front: room for its longest is kept.
            if packet.room() == 0 {
                packet.flush(first, false, out);
                first = 0;
            }
            if packet.elements.is_empty() {
                packet.continues = continues;
            }
            let (piece, behind) = rest.split_at(rest.len().min(packet.room()));
            packet.elements.push(piece.to_vec());
            rest = behind;
            continues = !rest.is_empty();
            if continues {
                packet.flush(first, true, out);
                first = 0;
            }
        }
    }
    packet.flush(first, false, out);
}

struct Packet {
    max: usize,
    continues: bool,
    elements: Vec<Vec<u8>>,
}

impl Packet {
    fn new(max: usize) -> Self {
        Packet { max, continues: false, elements: Vec::new() }
    }

    /// Bytes that a further element may have.
    fn room(&self) -> usize {
        if self.elements.len() == MOST {
            return 0;
        }
        let taken =
            self.elements.iter().map(|element| leb128_len(element.len()) + element.len()).sum::<usize>();
        self.max.saturating_sub(1 + taken)
    }

    fn flush(&mut self, flags: u8, goes_on: bool, out: &mut Payloads) {
        let Some((last, others)) = self.elements.split_last() else { return };
        let mut header = flags | (self.elements.len() as u8) << 4;
        header |= if self.continues { CONTINUES } else { 0 };
        header |= if goes_on { GOES_ON } else { 0 };
        let mut payload = vec![header];
        for element in others {
            push_leb128(&mut payload, element.len());
            payload.extend(element);
        }
        payload.extend(last);
        out.push(&[&payload]);
        self.elements.clear();
        self.continues = false;
    }
}

/// Only the begin of a coded video sequence says that nothing of the temporal unit stood before it.
pub fn is_start(payload: &[u8]) -> bool {
    payload.first().is_some_and(|header| header & (NEW_SEQUENCE | CONTINUES) == NEW_SEQUENCE)
}

pub fn assemble(payloads: &[&[u8]]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(payloads.iter().map(|payload| payload.len() + 4).sum());
    let mut unfinished: Option<Vec<u8>> = None;
    for payload in payloads {
        let (header, mut rest) = payload.split_first()?;
        if (header & CONTINUES != 0) != unfinished.is_some() {
            return None;
        }
        let count = usize::from(header >> 4 & 3);
        let mut n = 0;
        while !rest.is_empty() {
            n += 1;
            let (element, behind) = if n == count {
                (rest, &[][..])
            } else {
                let (len, digits) = leb128(rest)?;
                rest.get(digits..)?.split_at_checked(len)?
            };
            rest = behind;
            let goes_on = rest.is_empty() && header & GOES_ON != 0;
            match (unfinished.take(), goes_on) {
                (None, false) if element.is_empty() => {}
                (None, false) => push_received(&mut out, element)?,
                (begun, _) => {
                    // The first part of one has nothing before it.
                    let mut obu = begun.unwrap_or_default();
                    obu.extend(element);
                    if goes_on {
                        unfinished = Some(obu);
                    } else {
                        push_received(&mut out, &obu)?;
                    }
                }
            }
        }
        if count != 0 && n != count {
            return None;
        }
    }
    unfinished.is_none().then_some(out)
}
