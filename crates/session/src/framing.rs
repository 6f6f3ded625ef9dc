//! How RTP packets lie in a transport's messages, and how to recognise a sender that uses another framing.

use std::rc::Rc;
use std::str::FromStr;

use antiphon_core::{Dissector, Endpoint, Instant, OverIp, Plain, Profile, Role, Stack, Validator, Wire};
use antiphon_media::medusa::{HEADER, Header, count_headers};
use antiphon_media::packet::classify;

use crate::framed::{Framed, Framing};
use crate::looks::ByLooks;

/// What stands around a stream's RTP and RTCP packets. Sender and receiver need the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StreamFraming {
    /// Nothing: a packet is a message of the transport.
    #[default]
    Rtp,
    /// Medusa's ([`framed`]): each packet behind a key, in a stream of bytes that is cut into blocks of 1024; the
    /// receiver finds the next packet by its key, whatever is missing or inserted.
    Medusa,
}

/// The name of a framing is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown framing '{name}'{}; known: rtp, medusa", antiphon_core::did_you_mean(*.nearest))]
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

    /// Explains that the sender uses the other framing, and what to do.
    pub fn mismatch(self) -> &'static str {
        match self {
            StreamFraming::Rtp => {
                "the stream has Medusa framing: receive with --framing medusa, or send without it"
            }
            StreamFraming::Medusa => {
                "the stream has no Medusa framing: receive without --framing medusa, or send with it"
            }
        }
    }

    /// `stack` with this framing around its messages.
    pub fn around(self, stack: Rc<dyn Stack>) -> Rc<dyn Stack> {
        match self {
            StreamFraming::Rtp => stack,
            StreamFraming::Medusa => framed(stack, Framing::default()),
        }
    }

    /// Packets in the other framing within a message of an endpoint of this profile, or within what an unknown source sent.
    pub(crate) fn foreign_in(self, profile: &Profile, bytes: &[u8]) -> usize {
        match self {
            // Split by RFC 4571's lengths, a stream in Medusa's framing gives few frames, each of many packets.
            StreamFraming::Rtp if classify(bytes).is_none() => count_headers(bytes),
            StreamFraming::Rtp => 0,
            // Where a transport has packets of its own, datagrams of an unknown source may look like anything.
            StreamFraming::Medusa => usize::from(is_bare(profile) && classify(bytes).is_some()),
        }
    }
}

/// Whether datagrams are blocks of Medusa's and nothing else.
fn is_bare(framed: &Profile) -> bool {
    framed.wire == Wire::Datagram && framed.message_overhead == HEADER
}

/// `stack` with Medusa's framing around its messages, whose blocks go out as `framing` says. A message's stream is its channel.
pub fn framed(stack: Rc<dyn Stack>, framing: Framing) -> Rc<dyn Stack> {
    Rc::new(FramedStack { inner: stack, framing })
}

/// A stack whose endpoints have Medusa's framing around their messages.
struct FramedStack {
    inner: Rc<dyn Stack>,
    framing: Framing,
}

impl Stack for FramedStack {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        Box::new(Framed::new(self.inner.open(now, role), self.framing))
    }

    fn validator(&self, now: Instant) -> Box<dyn Validator> {
        let inner = self.inner.validator(now);
        if !is_bare(&self.open(now, Role::Listener).profile()) {
            return inner;
        }
        Box::new(ByLooks { inner, looks: |datagram| Header::parse(datagram).is_some() })
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        // RFC 4571's lengths do not divide the framing's stream of bytes.
        let inner = self.inner.dissector();
        if inner.stream_header().is_some() { Box::new(Plain) } else { inner }
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        self.inner.over_ip()
    }
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
