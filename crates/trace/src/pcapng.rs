//! Blocks of a pcapng file (draft-ietf-opsawg-pcapng), written whole or not at all.
//!
//! Written here, since the available library (pcap-file 2.0) writes the statistics block's time with its halves
//! swapped, and since the buffer must end at a block boundary whenever it goes to the file: then a process killed at
//! any time leaves a file that can be opened.

use std::fs::File;
use std::io::{self, Write};

/// Where a capture is written to.
pub trait Medium: Write {
    /// Truncates to `len` bytes: removes the part of a block for which there was no room.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Medium for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        use std::io::Seek;
        self.set_len(len)?;
        self.seek(io::SeekFrom::Start(len)).map(drop)
    }
}

impl Medium for Vec<u8> {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }
}

/// A medium that cannot be truncated, such as a pipe: after an error it may end inside a block.
pub struct Stream<W>(pub W);

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Medium for Stream<W> {
    fn cut(&mut self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Writes blocks through a buffer, which holds at most [`BUFFER`] bytes and one packet.
pub struct PcapngFile<M> {
    medium: M,
    buffer: Vec<u8>,
    /// Bytes in the medium: whole blocks.
    written: u64,
    interfaces: u32,
}

/// One packet with its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// What [`PcapngFile::interface`] returned.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub nanos: u64,
    /// In which direction it crossed the interface.
    pub way: Way,
    /// The IP packet.
    pub bytes: &'a [u8],
}

/// Direction in which a packet crossed an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Into the host.
    Inbound,
    /// Out of the host.
    Outbound,
    /// Unspecified, as in the middle of a link.
    Unknown,
}

/// Totals of one interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets in the file.
    pub packets: u64,
    /// Packets missing from the file.
    pub dropped: u64,
}

impl<M: Medium> PcapngFile<M> {
    /// Begins a section with the description `comment`, and writes it at once.
    pub fn begin(medium: M, comment: &str) -> io::Result<Self> {
        let mut file =
            PcapngFile { medium, buffer: Vec::with_capacity(2 * BUFFER), written: 0, interfaces: 0 };
        file.block(SECTION_HEADER, |buffer| {
            buffer.extend_from_slice(&BYTE_ORDER.to_le_bytes());
            // Version 1.0, length not given.
            buffer.extend_from_slice(&[1, 0, 0, 0]);
            buffer.extend_from_slice(&u64::MAX.to_le_bytes());
            option(buffer, option_code::COMMENT, comment.as_bytes());
            option(buffer, option_code::SHB_USERAPPL, APPLICATION.as_bytes());
            end_of_options(buffer);
        });
        file.flush()?;
        Ok(file)
    }

    /// Describes the next interface and returns its number.
    pub fn interface(&mut self, name: &str, description: &str) -> u32 {
        self.block(INTERFACE_DESCRIPTION, |buffer| {
            buffer.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
            buffer.extend_from_slice(&[0; 2]);
            // No limit on the length of packets.
            buffer.extend_from_slice(&0u32.to_le_bytes());
            option(buffer, option_code::IF_NAME, name.as_bytes());
            option(buffer, option_code::IF_DESCRIPTION, description.as_bytes());
            option(buffer, option_code::IF_TSRESOL, &[NANOSECONDS]);
            end_of_options(buffer);
        });
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Writes a packet; to the medium only once the buffer is full.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.block(ENHANCED_PACKET, |buffer| {
            buffer.extend_from_slice(&packet.interface.to_le_bytes());
            timestamp(buffer, packet.nanos);
            let len = (packet.bytes.len() as u32).to_le_bytes();
            buffer.extend_from_slice(&len);
            buffer.extend_from_slice(&len);
            buffer.extend_from_slice(packet.bytes);
            pad(buffer);
            // Values of bits 0 and 1 (§4.3.1).
            let way: u32 = match packet.way {
                Way::Unknown => 0,
                Way::Inbound => 1,
                Way::Outbound => 2,
            };
            option(buffer, option_code::EPB_FLAGS, &way.to_le_bytes());
            end_of_options(buffer);
        });
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Writes an interface's totals at `nanos` since 1970.
    pub fn statistics(&mut self, interface: u32, nanos: u64, totals: Totals) {
        self.block(INTERFACE_STATISTICS, |buffer| {
            buffer.extend_from_slice(&interface.to_le_bytes());
            timestamp(buffer, nanos);
            let received = totals.packets + totals.dropped;
            option(buffer, option_code::ISB_IFRECV, &received.to_le_bytes());
            option(buffer, option_code::ISB_IFDROP, &totals.dropped.to_le_bytes());
            end_of_options(buffer);
        });
    }

    /// Writes everything to the medium. On an error, earlier data stays, up to the last whole block, if the medium can
    /// be truncated.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let result = self.medium.write_all(&self.buffer).and_then(|()| self.medium.flush());
        match &result {
            Ok(()) => self.written += self.buffer.len() as u64,
            // A device or a pipe can't be truncated; the error to report is the one of writing.
            Err(_) => drop(self.medium.cut(self.written)),
        }
        self.buffer.clear();
        result
    }

    /// The medium. Unflushed data is lost.
    pub fn into_medium(self) -> M {
        self.medium
    }

    /// Frames what `body` writes: type, length, body, length again.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&kind.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        body(&mut self.buffer);
        let len = ((self.buffer.len() - start + 4) as u32).to_le_bytes();
        self.buffer[start + 4..start + 8].copy_from_slice(&len);
        self.buffer.extend_from_slice(&len);
    }
}

/// Code, length, value, padded to a whole word. All parts are padded, so the buffer's length gives the padding.
fn option(buffer: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    buffer.extend_from_slice(&code.to_le_bytes());
    buffer.extend_from_slice(&(value.len() as u16).to_le_bytes());
    buffer.extend_from_slice(value);
    pad(buffer);
}

fn end_of_options(buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&[0; 4]);
}

fn pad(buffer: &mut Vec<u8>) {
    let whole = buffer.len().next_multiple_of(4);
    buffer.resize(whole, 0);
}

/// Upper half first, whatever the byte order (§4.3).
fn timestamp(buffer: &mut Vec<u8>, nanos: u64) {
    buffer.extend_from_slice(&((nanos >> 32) as u32).to_le_bytes());
    buffer.extend_from_slice(&(nanos as u32).to_le_bytes());
}

/// Block types (§4, §11.1).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
/// Shows readers the byte order (§4.1).
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Packets begin with an IPv4 or IPv6 header (tcpdump.org's list of link types).
const LINKTYPE_RAW: u16 = 101;
/// Value of `if_tsresol`: units of 10^-9 s (§4.2).
const NANOSECONDS: u8 = 9;
/// The program that wrote the file.
const APPLICATION: &str = concat!("antiphon ", env!("CARGO_PKG_VERSION"));
/// Bytes buffered before a system call is made.
pub const BUFFER: usize = 1 << 18;

/// Option codes (§3.5, §4.1 to §4.6).
mod option_code {
    pub const COMMENT: u16 = 1;
    pub const SHB_USERAPPL: u16 = 4;
    pub const IF_NAME: u16 = 2;
    pub const IF_DESCRIPTION: u16 = 3;
    pub const IF_TSRESOL: u16 = 9;
    pub const EPB_FLAGS: u16 = 2;
    pub const ISB_IFRECV: u16 = 4;
    pub const ISB_IFDROP: u16 = 5;
}
