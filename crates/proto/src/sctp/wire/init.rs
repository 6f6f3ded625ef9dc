//! INIT and INIT ACK (RFC 9260 §3.3.2, §3.3.3) with their parameters.
//!
//! ```text
//! | 1 or 2 | 0 | length          |
//! | initiate tag                 |
//! | a_rwnd                       |
//! | out streams   | in streams   |
//! | initial TSN                  |
//! | parameters: type, length, value, padded …
//! ```

use antiphon_core::Seq32;

use super::chunks::Unknown;
use super::{Tlvs, chunk, word16, word32};

/// Bytes of the fixed part, after the chunk's header.
pub const FIXED: usize = 16;
/// The smallest receiver window that an INIT may offer (RFC 9260 §3.3.2).
pub const LEAST_WINDOW: u32 = 1500;

/// Parameter types (RFC 9260 §3.3.2.1, §3.3.3.1; RFC 3758 §3.1; RFC 5061 §4.2.7; RFC 4820 §4).
pub mod parameter {
    pub const HEARTBEAT_INFO: u16 = 1;
    pub const IPV4: u16 = 5;
    pub const IPV6: u16 = 6;
    pub const STATE_COOKIE: u16 = 7;
    pub const UNRECOGNISED: u16 = 8;
    pub const COOKIE_PRESERVATIVE: u16 = 9;
    pub const HOST_NAME: u16 = 11;
    pub const ADDRESS_TYPES: u16 = 12;
    pub const ECN: u16 = 0x8000;
    pub const PADDING: u16 = 0x8005;
    pub const EXTENSIONS: u16 = 0x8008;
    pub const FORWARD_TSN: u16 = 0xc000;
}

/// The fixed part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitFields {
    pub tag: u32,
    pub window: u32,
    pub out_streams: u16,
    pub in_streams: u16,
    pub tsn: Seq32,
}

/// Contents of the parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offer<'a> {
    /// Partial reliability (RFC 3758).
    pub forward_tsn: bool,
    /// Interleaving (RFC 8260): I-DATA and I-FORWARD TSN.
    pub interleaving: bool,
    /// I-DATA alone, which identifies Linux (6.1 at least): it numbers a message's fragments from 0 at the second one,
    /// where RFC 8260 §2.1 has 1, so neither side could reassemble the other's messages.
    pub interleaves_otherwise: bool,
    pub cookie: Option<&'a [u8]>,
    /// The first parameter that prevents an association: a host name in place of an address.
    pub unresolvable: Option<&'a [u8]>,
    /// Whether reading stopped early, at a parameter of unknown type that requires it.
    pub stopped: bool,
}

impl InitFields {
    /// The fixed part, and the parameters after it.
    pub fn parse(value: &[u8]) -> Option<(InitFields, Tlvs<'_>)> {
        if value.len() < FIXED {
            return None;
        }
        let fields = InitFields {
            tag: word32(value, 0),
            window: word32(value, 4),
            out_streams: word16(value, 8),
            in_streams: word16(value, 10),
            tsn: Seq32(word32(value, 12)),
        };
        Some((fields, Tlvs::new(&value[FIXED..])))
    }

    /// Whether an association may be created from it (RFC 9260 §3.3.2, §5.1.1).
    pub fn is_valid(&self) -> bool {
        self.tag != 0 && self.out_streams != 0 && self.in_streams != 0 && self.window >= LEAST_WINDOW
    }

    pub fn emit(&self) -> [u8; FIXED] {
        let mut value = [0; FIXED];
        value[..4].copy_from_slice(&self.tag.to_be_bytes());
        value[4..8].copy_from_slice(&self.window.to_be_bytes());
        value[8..10].copy_from_slice(&self.out_streams.to_be_bytes());
        value[10..12].copy_from_slice(&self.in_streams.to_be_bytes());
        value[12..].copy_from_slice(&self.tsn.0.to_be_bytes());
        value
    }
}

impl<'a> Offer<'a> {
    /// Reads the parameters; passes each one that must be reported, whole, to `unknown`.
    pub fn read(parameters: Tlvs<'a>, mut unknown: impl FnMut(&'a [u8])) -> Offer<'a> {
        let mut offer = Offer::default();
        for (kind, value, whole) in parameters {
            match kind {
                parameter::FORWARD_TSN => offer.forward_tsn = true,
                parameter::EXTENSIONS => {
                    let (data, forward) =
                        (value.contains(&chunk::I_DATA), value.contains(&chunk::I_FORWARD_TSN));
                    offer.interleaving = data && forward;
                    offer.interleaves_otherwise = data && !forward;
                }
                parameter::STATE_COOKIE => offer.cookie = offer.cookie.or(Some(value)),
                parameter::HOST_NAME => offer.unresolvable = offer.unresolvable.or(Some(whole)),
                // Addresses: paths come from the driver here. The others need no action.
                parameter::IPV4
                | parameter::IPV6
                | parameter::UNRECOGNISED
                | parameter::COOKIE_PRESERVATIVE
                | parameter::ADDRESS_TYPES
                | parameter::ECN
                | parameter::PADDING => {}
                other => {
                    let rule = Unknown::parameter(other);
                    if rule.report {
                        unknown(whole);
                    }
                    if !rule.skip {
                        offer.stopped = true;
                        break;
                    }
                }
            }
        }
        offer
    }
}
