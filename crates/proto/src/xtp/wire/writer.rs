//! Writes packets.

use super::{
    ADDRESS, CHECK, HEADER, Header, Key, NO_TRAFFIC, RETURNED, Status, TRAFFIC, Traffic, VERSION, folded,
    option,
};

/// Writes a packet into a buffer that has room for it.
pub(in crate::xtp) struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
    nocheck: bool,
}

impl<'a> Writer<'a> {
    /// Begins with the header.
    pub fn new(buf: &'a mut [u8], header: &Header, format: u8) -> Self {
        let Header { key, returned, options, sort, sync, seq } = *header;
        let mut writer = Writer { buf, len: 0, nocheck: header.has(option::NOCHECK) };
        writer.u64(key.0 | if returned { RETURNED } else { 0 });
        writer.u32(options << 8 | u32::from(VERSION << 5 | format));
        writer.u32(0);
        writer.u32(u32::from(sort));
        writer.u32(sync);
        writer.u64(seq);
        writer
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buf[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// The rest of the buffer, of which `write` says how much it has used.
    pub fn rest(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        self.len += write(&mut self.buf[self.len..]);
    }

    /// Passes over bytes that stand there already.
    pub fn skip(&mut self, len: usize) {
        self.len += len;
    }

    /// The next `len` bytes, to be filled in.
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        self.len += len;
        &mut self.buf[self.len - len..self.len]
    }

    pub fn u32(&mut self, number: u32) {
        self.bytes(&number.to_be_bytes());
    }

    pub fn u64(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    pub fn status(&mut self, status: &Status) {
        self.u64(status.rseq);
        self.u64(status.alloc);
        self.u32(status.echo);
    }

    /// A status with the key that packets to its sender must carry.
    pub fn keyed_status(&mut self, status: &Status, key: Key) {
        self.group_status(status, 0, key);
    }

    /// The same to a group, whose members spread their requests over so many microseconds.
    pub fn group_status(&mut self, status: &Status, spread: u32, key: Key) {
        self.status(status);
        self.u32(spread);
        self.u64(key.0);
    }

    /// An IPv4 address segment without hosts, which are those of the layer below (format 1).
    pub fn address(&mut self, group: [u8; 4], ports: (u16, u16)) {
        self.bytes(&[0, ADDRESS as u8, 0, 1]);
        self.bytes(&group);
        self.u32(0);
        self.u32(u32::from(ports.1) << 16 | u32::from(ports.0));
    }

    /// A traffic specifier; without limits the short one.
    pub fn traffic(&mut self, service: u8, traffic: Option<&Traffic>) {
        let Some(traffic) = traffic else {
            self.bytes(&[0, NO_TRAFFIC as u8, service, 0]);
            return self.u32(0);
        };
        let Traffic { max_data, in_rate, in_burst, out_rate, out_burst } = *traffic;
        self.bytes(&[0, TRAFFIC as u8, service, 1]);
        [max_data, in_rate, in_burst, out_rate, out_burst].into_iter().for_each(|word| self.u32(word));
    }

    /// Ends the packet: states its length and checksum. Returns its length.
    pub fn finish(self) -> usize {
        let packet = &mut self.buf[..self.len];
        packet[12..16].copy_from_slice(&((self.len - HEADER) as u32).to_be_bytes());
        let covered = if self.nocheck { HEADER } else { packet.len() };
        let check = checksum(&packet[..covered]);
        packet[CHECK..CHECK + 2].copy_from_slice(&check.to_be_bytes());
        self.len
    }
}

/// The Internet checksum of bytes that have zero in its place.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    !folded(bytes)
}
