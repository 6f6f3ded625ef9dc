//! The application-defined RTCP packet (RFC 3550 §6.7) that is about associations: by it a sender with several of them shows
//! that they are one sender's, and a receiver asks a sender for its stream. It is sent by itself, as RFC 5506 permits.

use super::wire::{read_app, write_app};

/// What a packet says about the association that it comes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AppKind {
    /// Another association will show this token.
    Announce = 0,
    /// This is an association of the sender that announced this token.
    Join,
    /// The receiver has taken the association.
    Accept,
    /// The sender goes on over another association.
    Leave,
    /// A receiver asks for the stream, and goes on to show that it is there. It shows the token that it was told last; zeros
    /// before the first.
    Ask,
    /// The sender tells a receiver a token, which only who gets packets at its address learns. As long as the question, so
    /// that nobody who forges an address has more sent there than it sends.
    Challenge,
    /// The sender has as many receivers as it takes.
    Full,
}

/// A token that only those know who see the association over which it was told.
pub type Token = [u8; 16];

/// The packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct App {
    /// Who sends it.
    pub ssrc: u32,
    /// What it says.
    pub kind: AppKind,
    /// The token that was announced.
    pub token: Token,
}

impl App {
    /// Bytes of every such packet.
    pub const LEN: usize = 28;

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let token = self.token.as_chunks().0.iter().map(|word| u32::from_be_bytes(*word));
        write_app(&mut bytes, self.kind as u8, self.ssrc, NAME, token).expect("it has this length");
        bytes
    }

    /// Reads one; `None` for any other packet.
    pub fn parse(bytes: &[u8]) -> Option<App> {
        let (subtype, ssrc, token) = read_app(bytes, NAME)?;
        Some(App { ssrc, kind: *KINDS.get(usize::from(subtype))?, token: token.try_into().ok()? })
    }
}

/// By their subtypes.
const KINDS: [AppKind; 7] = [
    AppKind::Announce,
    AppKind::Join,
    AppKind::Accept,
    AppKind::Leave,
    AppKind::Ask,
    AppKind::Challenge,
    AppKind::Full,
];

const NAME: [u8; 4] = *b"ANTI";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_rfc_3550() {
        let app = App { ssrc: 0x0102_0304, kind: AppKind::Join, token: *b"sixteen  letters" };
        // Version 2, subtype 1, APP = 204, 6 words after the first, the source, the name, and the token.
        let bytes = b"\x81\xcc\x00\x06\x01\x02\x03\x04ANTIsixteen  letters";
        assert_eq!(&app.to_bytes(), bytes);
        let subtypes = KINDS.map(|kind| App { kind, ..app }.to_bytes()[0]);
        assert_eq!(subtypes, [0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86]);
    }

    #[test]
    fn a_packet_that_is_cut_off_or_continued_is_none() {
        let bytes = App { ssrc: 7, kind: AppKind::Leave, token: [3; 16] }.to_bytes();
        assert!((0..bytes.len()).all(|len| App::parse(&bytes[..len]).is_none()));
        for more in 1..8 {
            assert_eq!(App::parse(&[&bytes[..], &vec![0; more]].concat()), None);
        }
    }

    proptest! {
        #[test]
        fn packets_are_read_as_written(ssrc in any::<u32>(), kind in 0usize..7, token in any::<Token>()) {
            let app = App { ssrc, kind: KINDS[kind], token };
            prop_assert_eq!(App::parse(&app.to_bytes()), Some(app));
            prop_assert!(crate::packet::classify(&app.to_bytes()) == Some(crate::packet::PacketKind::Rtcp));
        }

        #[test]
        fn other_bytes_are_none(bytes in prop::collection::vec(any::<u8>(), 0..64), at in 0usize..12, bit in 0u8..8) {
            prop_assert!(bytes.len() == App::LEN || App::parse(&bytes).is_none());
            let app = App { ssrc: 7, kind: AppKind::Join, token: [3; 16] };
            let mut changed = app.to_bytes();
            changed[at] ^= 1 << bit;
            // The SSRC and the lowest bits of the subtype may have any value.
            prop_assert!(App::parse(&changed).is_none() || (4..8).contains(&at) || at == 0 && bit < 3);
        }
    }
}
