//! Baseline JPEG as RFC 2435 carries it: what the headers say, and the headers made anew.

use crate::frame::PictureSize;

/// A JPEG that RFC 2435 can carry, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jpeg<'a> {
    /// 0: chroma at half the columns (4:2:2); 1: at half the columns and rows (4:2:0) (RFC 2435 §4.1).
    pub kind: u8,
    /// Columns and rows, each a multiple of 8 of at most 2040.
    pub size: PictureSize,
    /// MCUs between restart markers; 0 for none.
    pub restart_interval: u16,
    /// Luma's table and chroma's, in zigzag order.
    pub tables: Tables,
    /// Entropy-coded data, without the marker of the end.
    pub scan: &'a [u8],
}

/// Two quantisation tables of 8 bits, in zigzag order.
pub type Tables = [[u8; 64]; 2];

/// Why a JPEG cannot be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JpegError {
    /// Not a JPEG, or cut off.
    #[error("a picture is no whole JPEG: it is damaged or cut off")]
    Damaged,
    /// RFC 2435 has no place for it.
    #[error(
        "a JPEG {what}, which RTP cannot carry (RFC 2435): encode it again, as ffmpeg -c:v mjpeg -huffman default -pix_fmt yuvj420p does"
    )]
    Unsupported {
        /// What is special.
        what: &'static str,
    },
}

impl<'a> Jpeg<'a> {
    /// Takes a JPEG apart.
    pub fn read(data: &'a [u8]) -> Result<Self, JpegError> {
        let mut rest = data.strip_prefix(&[0xff, SOI]).ok_or(JpegError::Damaged)?;
        let mut headers = Headers::default();
        loop {
            let [0xff, marker, after @ ..] = rest else { return Err(JpegError::Damaged) };
            // Any number of bytes 0xff may stand before a marker (T.81 §B.1.1.2).
            if *marker == 0xff {
                rest = &rest[1..];
                continue;
            }
            let [high, low, ..] = after else { return Err(JpegError::Damaged) };
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            let body = after.get(2..len).ok_or(JpegError::Damaged)?;
            rest = &after[len..];
            if headers.take(*marker, body)? {
                return headers.finish(rest);
            }
        }
    }

    /// Writes it with the headers of RFC 2435 appendix B.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.scan.len() + 640);
        out.extend([0xff, SOI]);
        for (n, table) in self.tables.iter().enumerate() {
            out.extend([0xff, DQT, 0, 67, n as u8]);
            out.extend(table);
        }
        if self.restart_interval > 0 {
            out.extend([0xff, DRI, 0, 4]);
            out.extend(self.restart_interval.to_be_bytes());
        }
        out.extend([0xff, SOF0, 0, 17, 8]);
        out.extend((self.size.height as u16).to_be_bytes());
        out.extend((self.size.width as u16).to_be_bytes());
        out.extend([3, 1, if self.kind == 0 { 0x21 } else { 0x22 }, 0, 2, 0x11, 1, 3, 0x11, 1]);
        for (class_and_id, counts, symbols) in HUFFMAN {
            out.extend([0xff, DHT]);
            out.extend((19 + symbols.len() as u16).to_be_bytes());
            out.push(class_and_id);
            out.extend(counts);
            out.extend(symbols);
        }
        out.extend([0xff, SOS, 0, 12, 3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]);
        out.extend(self.scan);
        out.extend([0xff, EOI]);
        out
    }
}

/// The form of [`crate::Frame`]: the same picture with the headers that a receiver of RTP rebuilds.
pub fn normalise(data: &[u8]) -> Result<Vec<u8>, JpegError> {
    Ok(Jpeg::read(data)?.write())
}

/// The tables of a quality factor of 1 to 99 (RFC 2435 appendix A).
pub fn tables_of_quality(q: u8) -> Tables {
    let q = i32::from(q.clamp(1, 99));
    let scale = if q < 50 { 5000 / q } else { 200 - q * 2 };
    STANDARD_TABLES
        .map(|table| table.map(|value| ((i32::from(value) * scale + 50) / 100).clamp(1, 255) as u8))
}

/// Splits a stream of JPEGs: the length of the first one, once its end is there.
///
/// Inside a scan, 0xff is followed by 0 or a restart marker (T.81 §B.1.1.5), so the first end marker is the picture's,
/// except in a thumbnail of a header; headers are skipped by their lengths.
pub fn first_len(data: &[u8]) -> Option<usize> {
    let mut at = 2;
    loop {
        match *data.get(at..)? {
            [0xff, 0xff, ..] => at += 1,
            [0xff, EOI, ..] => return Some(at + 2),
            [0xff, 0 | 1 | 0xd0..=0xd7, ..] => at += 2,
            [0xff, _, high, low, ..] => at += 2 + usize::from(u16::from_be_bytes([high, low])).max(2),
            [0xff, ..] => return None,
            [_, ..] => at += data[at..].iter().position(|byte| *byte == 0xff)?,
            [] => return None,
        }
    }
}

#[derive(Default)]
struct Headers {
    quantisers: [Option<[u8; 64]>; 4],
    size: Option<PictureSize>,
    sampling: u8,
    selectors: [u8; 3],
    restart_interval: u16,
    huffman: u8,
}

impl Headers {
    /// Takes a segment; `true` for the last, behind which the scan begins.
    fn take(&mut self, marker: u8, body: &[u8]) -> Result<bool, JpegError> {
        let unsupported = |what| Err(JpegError::Unsupported { what });
        match marker {
            DQT => self.quantisation(body)?,
            DHT => self.huffman(body)?,
            DRI => match body {
                [high, low] => self.restart_interval = u16::from_be_bytes([*high, *low]),
                _ => return Err(JpegError::Damaged),
            },
            SOF0 => self.frame(body)?,
            // Extended sequential with 8 bits and progressive pictures need a decoder of their own.
            0xc1..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcf => {
                return unsupported("is progressive or otherwise not baseline");
            }
            SOS => match body {
                [3, _, 0x00, _, 0x11, _, 0x11, 0, 63, 0] => return Ok(true),
                _ => return unsupported("has more than one scan, or unusual tables for it"),
            },
            EOI | SOI => return Err(JpegError::Damaged),
            _ => {}
        }
        Ok(false)
    }

    fn quantisation(&mut self, mut body: &[u8]) -> Result<(), JpegError> {
        while let Some((id, rest)) = body.split_first() {
            if *id > 3 {
                return Err(JpegError::Unsupported { what: "has quantisation tables of 16 bits" });
            }
            let (table, rest) = rest.split_first_chunk::<64>().ok_or(JpegError::Damaged)?;
            self.quantisers[usize::from(*id)] = Some(*table);
            body = rest;
        }
        Ok(())
    }

    /// RFC 2435 sends no Huffman tables: they must be those of T.81 annex K.
    fn huffman(&mut self, mut body: &[u8]) -> Result<(), JpegError> {
        while let Some((id, rest)) = body.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or(JpegError::Damaged)?;
            let symbols = counts.iter().map(|count| usize::from(*count)).sum();
            let (symbols, rest) = rest.split_at_checked(symbols).ok_or(JpegError::Damaged)?;
            let standard = HUFFMAN.iter().position(|table| *table == (*id, *counts, symbols));
            let Some(n) = standard else {
                return Err(JpegError::Unsupported { what: "has Huffman tables of its own" });
            };
            self.huffman |= 1 << n;
            body = rest;
        }
        Ok(())
    }

    fn frame(&mut self, body: &[u8]) -> Result<(), JpegError> {
        let [8, h0, h1, w0, w1, 3, _, y, q0, _, 0x11, q1, _, 0x11, q2] = body else {
            return Err(JpegError::Unsupported {
                what: "is not of three colours with 8 bits in 4:2:0 or 4:2:2",
            });
        };
        let size = PictureSize {
            width: u16::from_be_bytes([*w0, *w1]).into(),
            height: u16::from_be_bytes([*h0, *h1]).into(),
        };
        if [size.width, size.height].iter().any(|side| *side == 0 || *side > 2040 || side % 8 != 0) {
            return Err(JpegError::Unsupported {
                what: "has sides that are no multiple of 8 up to 2040 pixels",
            });
        }
        self.size = Some(size);
        self.sampling = *y;
        self.selectors = [*q0, *q1, *q2];
        Ok(())
    }

    fn finish<'a>(&self, scan: &'a [u8]) -> Result<Jpeg<'a>, JpegError> {
        let size = self.size.ok_or(JpegError::Damaged)?;
        let kind = match self.sampling {
            0x21 => 0,
            0x22 => 1,
            _ => return Err(JpegError::Unsupported { what: "is neither 4:2:0 nor 4:2:2" }),
        };
        // A JPEG without Huffman tables, as some cameras send, means the standard ones.
        if self.huffman != 0 && self.huffman != 0b1111 {
            return Err(JpegError::Unsupported { what: "has Huffman tables of its own" });
        }
        let [luma, blue, red] =
            self.selectors.map(|id| self.quantisers.get(usize::from(id)).copied().flatten());
        if blue != red {
            return Err(JpegError::Unsupported { what: "has three quantisation tables" });
        }
        let (Some(luma), Some(chroma)) = (luma, blue) else { return Err(JpegError::Damaged) };
        let end = scan.windows(2).rposition(|pair| pair == [0xff, EOI]).ok_or(JpegError::Damaged)?;
        let tables = [luma, chroma];
        Ok(Jpeg { kind, size, restart_interval: self.restart_interval, tables, scan: &scan[..end] })
    }
}

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;
const SOF0: u8 = 0xc0;
const DHT: u8 = 0xc4;

/// T.81 tables K.1 and K.2, in zigzag order (RFC 2435 appendix A).
const STANDARD_TABLES: Tables = [
    [
        16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40, 26, 24, 22, 22, 24, 49, 35, 37, 29,
        40, 58, 51, 61, 60, 57, 51, 56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81, 87, 95, 98,
        103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99,
    ],
    [
        17, 18, 18, 24, 21, 24, 47, 26, 26, 47, 99, 66, 56, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    ],
];

/// Class and number, how many codes of each length, and what they mean: T.81 tables K.3 to K.6, for luma then chroma.
const HUFFMAN: [(u8, [u8; 16], &[u8]); 4] = [
    (0x00, [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    (
        0x10,
        [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d],
        &[
            0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
            0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0,
            0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28,
            0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
            0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,
            0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
            0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
            0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5,
            0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
            0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
            0xf9, 0xfa,
        ],
    ),
    (0x01, [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    (
        0x11,
        [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77],
        &[
            0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
            0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0,
            0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26,
            0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
            0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
            0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
            0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5,
            0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
            0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
            0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
            0xf9, 0xfa,
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(scan: &[u8]) -> Vec<u8> {
        let size = PictureSize { width: 320, height: 240 };
        Jpeg { kind: 1, size, restart_interval: 4, tables: tables_of_quality(60), scan }.write()
    }

    #[test]
    fn what_is_written_is_read() {
        let data = picture(&[1, 2, 0xff, 0, 3]);
        let jpeg = Jpeg::read(&data).expect("our own");
        assert_eq!((jpeg.kind, jpeg.restart_interval, jpeg.scan), (1, 4, &[1, 2, 0xff, 0, 3][..]));
        assert_eq!(normalise(&data).as_ref(), Ok(&data));
        for len in 0..data.len() {
            assert!(Jpeg::read(&data[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn what_rtp_cannot_carry_is_refused_with_a_remedy() {
        let mut data = picture(&[1]);
        let at = data.windows(2).position(|pair| pair == [0xff, SOF0]).expect("it has a frame header");
        data[at + 1] = 0xc2;
        let error = Jpeg::read(&data).expect_err("progressive").to_string();
        assert!(error.contains("progressive") && error.contains("-huffman default"), "{error}");
    }

    #[test]
    fn pictures_behind_each_other_are_told_apart() {
        let first = picture(&[1, 0xff, 0xd0, 2]);
        let mut both = first.clone();
        both.extend(picture(&[7]));
        assert_eq!(first_len(&both), Some(first.len()));
        assert_eq!(first_len(&first[..first.len() - 1]), None);
    }

    #[test]
    fn tables_of_quality_50_are_the_standard_ones() {
        assert_eq!(tables_of_quality(50), STANDARD_TABLES);
        assert_eq!(tables_of_quality(99)[0][0], 1);
    }
}
