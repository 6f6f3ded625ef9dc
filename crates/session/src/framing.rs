//! How frames lie in what a transport carries, and how to see that a sender does it otherwise.

use std::str::FromStr;

use antiphon_core::{Endpoint, Wire};
use antiphon_media::medusa::{HEADER, Header, count_headers};
use antiphon_media::packet::classify;

use crate::framed::{Framed, Framing};

/// What stands around a stream's RTP and RTCP packets. Sender and receiver need the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StreamFraming {
    /// Nothing: a packet is a frame of the transport's.
    #[default]
    Rtp,
    /// Medusa's ([`Framed`]): each packet behind a key, in a stream of bytes that is cut into blocks of 1024; the receiver
    /// finds the next packet by its key, whatever is missing or came between.
    Medusa,
}

/// A name that no framing has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no framing '{name}'{}; known: rtp, medusa", antiphon_core::did_you_mean(*.nearest))]
pub struct UnknownFraming {
    /// What was written, shortened.
    pub name: String,
    /// What may have been meant.
    pub nearest: Option<&'static str>,
}

impl StreamFraming {
    /// All of them.
    pub const ALL: [StreamFraming; 2] = [StreamFraming::Rtp, StreamFraming::Medusa];

    /// Its name on the command line and in URIs.
    pub fn name(self) -> &'static str {
        match self {
            StreamFraming::Rtp => "rtp",
            StreamFraming::Medusa => "medusa",
        }
    }

    /// What to say, and to do, where this is awaited and a sender has the other.
    pub fn mismatch(self) -> &'static str {
        match self {
            StreamFraming::Rtp => {
                "the sender puts Medusa's framing around its packets: receive with --framing medusa, or send without it"
            }
            StreamFraming::Medusa => {
                "what comes is not in Medusa's framing: receive without --framing medusa, or send with it"
            }
        }
    }

    /// `endpoint` with this framing around its frames.
    pub fn around(self, endpoint: Box<dyn Endpoint>) -> Box<dyn Endpoint> {
        match self {
            StreamFraming::Rtp => endpoint,
            StreamFraming::Medusa => Box::new(Framed::new(endpoint, Framing::default())),
        }
    }

    /// Which first datagrams make an association on `endpoint`, framed already: those that its transport `admits`, or, where
    /// the transport adds nothing to frames, those that begin in this framing.
    pub(crate) fn admission(self, endpoint: &dyn Endpoint, admits: fn(&[u8]) -> bool) -> fn(&[u8]) -> bool {
        match self {
            StreamFraming::Medusa if is_bare(endpoint) => |datagram| Header::parse(datagram).is_some(),
            StreamFraming::Medusa | StreamFraming::Rtp => admits,
        }
    }

    /// Packets in the other framing within a frame of `endpoint`'s, or within what a stranger sent it.
    pub(crate) fn foreign_in(self, endpoint: &dyn Endpoint, bytes: &[u8]) -> usize {
        match self {
            // Read with RFC 4571's lengths, a stream in Medusa's framing makes few frames, of many packets each.
            StreamFraming::Rtp if classify(bytes).is_none() => count_headers(bytes),
            StreamFraming::Rtp => 0,
            // Where a transport has packets of its own, a stranger's may look like anything.
            StreamFraming::Medusa => usize::from(is_bare(endpoint) && classify(bytes).is_some()),
        }
    }
}

/// Whether datagrams are frames of Medusa's and nothing else.
fn is_bare(framed: &dyn Endpoint) -> bool {
    let profile = framed.profile();
    profile.wire == Wire::Datagram && profile.frame_overhead == HEADER
}

impl FromStr for StreamFraming {
    type Err = UnknownFraming;

    fn from_str(text: &str) -> Result<Self, UnknownFraming> {
        let known = StreamFraming::ALL.into_iter().find(|framing| framing.name() == text);
        known.ok_or_else(|| UnknownFraming {
            name: text.chars().take(40).collect(),
            nearest: antiphon_core::nearest(text, StreamFraming::ALL.map(StreamFraming::name)),
        })
    }
}
