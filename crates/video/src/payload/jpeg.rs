//! Motion JPEG (RFC 2435 §3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Type-specific |              Fragment Offset                  |
//! |      Type     |       Q       |     Width/8   |    Height/8   |
//! |       Restart Interval        |F|L|       Restart Count       |   types 64 to 127
//! |      MBZ      |   Precision   |             Length            |   Q 128 and above, first packet
//! |                    Quantization Table Data                    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::collections::BTreeMap;

use super::Payloads;
use crate::frame::PictureSize;
use crate::jpeg::{Jpeg, Tables, tables_of_quality};

/// Tables come with every frame and may change with each (§4.2).
const TABLES_IN_EACH_FRAME: u8 = 255;

pub fn cut(data: &[u8], max: usize, out: &mut Payloads) -> Option<()> {
    let jpeg = Jpeg::read(data).ok()?;
    let restarts = jpeg.restart_interval > 0;
    let kind = jpeg.kind | if restarts { 64 } else { 0 };
    let sides = [(jpeg.size.width / 8) as u8, (jpeg.size.height / 8) as u8];
    let mut restart = Vec::new();
    if restarts {
        restart.extend(jpeg.restart_interval.to_be_bytes());
        // Packets do not follow restart intervals: the frame is decoded as a whole (§3.1.7).
        restart.extend([0xff, 0xff]);
    }
    let mut at = 0;
    loop {
        let [_, high, middle, low] = (at as u32).to_be_bytes();
        let main = [0, high, middle, low, kind, TABLES_IN_EACH_FRAME, sides[0], sides[1]];
        let tables = jpeg.tables.as_flattened();
        let first = [[0, 0, 0, 128].as_slice(), tables].concat();
        let tables = if at == 0 { &first[..] } else { &[] };
        let room = max - main.len() - restart.len() - tables.len();
        let end = (at + room).min(jpeg.scan.len());
        out.push(&[&main, &restart, tables, &jpeg.scan[at..end]]);
        at = end;
        if at == jpeg.scan.len() {
            return Some(());
        }
    }
}

pub fn is_start(payload: &[u8]) -> bool {
    payload.len() >= 8 && payload[1..4] == [0, 0, 0]
}

/// Tables that a sender gives once and then names by a quality of 128 to 254 (§4.2).
#[derive(Debug, Default)]
pub struct TableCache {
    tables: BTreeMap<u8, Tables>,
}

impl TableCache {
    pub fn assemble(&mut self, payloads: &[&[u8]]) -> Option<Vec<u8>> {
        let mut scan = Vec::with_capacity(payloads.iter().map(|payload| payload.len()).sum());
        let mut picture = None;
        for payload in payloads {
            let (main, mut rest) = payload.split_first_chunk::<8>()?;
            let [_, high, middle, low, kind, q, width, height] = *main;
            let offset = u32::from_be_bytes([0, high, middle, low]) as usize;
            if offset != scan.len() {
                return None;
            }
            let mut restart_interval = 0;
            if (64..128).contains(&kind) {
                let (header, behind) = rest.split_first_chunk::<4>()?;
                restart_interval = u16::from_be_bytes([header[0], header[1]]);
                rest = behind;
            }
            if picture.is_none() {
                let (tables, behind) = self.tables(q, rest)?;
                rest = behind;
                let size = PictureSize { width: u32::from(width) * 8, height: u32::from(height) * 8 };
                if kind & 0x3f > 1 || kind >= 128 || width == 0 || height == 0 {
                    return None;
                }
                picture = Some((kind & 1, size, restart_interval, tables));
            }
            scan.extend(rest);
        }
        let (kind, size, restart_interval, tables) = picture?;
        // Some senders put the marker of the end into the last packet.
        let scan =
            scan.windows(2).rposition(|pair| pair == [0xff, 0xd9]).map_or(&scan[..], |end| &scan[..end]);
        Some(Jpeg { kind, size, restart_interval, tables, scan }.write())
    }

    fn tables<'a>(&mut self, q: u8, rest: &'a [u8]) -> Option<(Tables, &'a [u8])> {
        if (1..=99).contains(&q) {
            return Some((tables_of_quality(q), rest));
        }
        if q < 128 {
            return None;
        }
        let (header, rest) = rest.split_first_chunk::<4>()?;
        let (data, rest) = rest.split_at_checked(u16::from_be_bytes([header[2], header[3]]).into())?;
        if data.is_empty() {
            return Some((*self.tables.get(&q)?, rest));
        }
        // One table serves both, as of a grey picture.
        let (luma, behind) = data.split_first_chunk::<64>()?;
        let chroma = if behind.is_empty() { luma } else { behind.first_chunk::<64>()? };
        if header[1] & 3 != 0 {
            return None;
        }
        if q != TABLES_IN_EACH_FRAME {
            self.tables.insert(q, [*luma, *chroma]);
        }
        Some(([*luma, *chroma], rest))
    }
}
