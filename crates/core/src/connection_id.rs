//! The ids by which packets name their association.

use std::fmt;

/// Id by which a peer's packets name their association, on whatever path they arrive (RFC 9000 §5.1: connection ID): up
/// to 20 bytes, opaque to code that compares them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    len: u8,
    /// Zero after `len`, so that equal ids are equal.
    bytes: [u8; MAX_LEN],
}

impl ConnectionId {
    /// An id of these `bytes`; `None` if they are more than 20.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = ConnectionId { len: u8::try_from(bytes.len()).ok()?, bytes: [0; MAX_LEN] };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// The bytes of the id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl From<u32> for ConnectionId {
    /// A 32-bit number in network order, such as SCTP's verification tag.
    fn from(number: u32) -> Self {
        ConnectionId::new(&number.to_be_bytes()).expect("four bytes are no more than 20")
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionId(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Most bytes of an id, as in QUIC version 1 (RFC 9000 §17.2).
const MAX_LEN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_up_to_20_bytes_and_differ_by_length() {
        let full = [7; 20];
        assert_eq!(ConnectionId::new(&full).expect("20 bytes fit").as_bytes(), full);
        assert_eq!(ConnectionId::new(&[7; 21]), None);
        assert_eq!(ConnectionId::new(&[7; 300]), None);
        assert_ne!(ConnectionId::new(&[]), ConnectionId::new(&[0]));
        let tag = ConnectionId::from(0x0102_03ff);
        assert_eq!(
            (tag.as_bytes(), format!("{tag:?}").as_str()),
            (&[1, 2, 3, 255][..], "ConnectionId(010203ff)")
        );
    }
}
