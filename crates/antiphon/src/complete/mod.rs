//! Completes a recording after its stream: the receiver asks by stretches of sample frames for what it misses, over a
//! transport that loses nothing, and the sender reads its source again.
//!
//! The sender calls, since it has reached the receiver before. The receiver takes what it asked for and nothing else; the
//! sender sends at most as much as the whole recording, whatever is asked.

mod fetch;
mod offer;
mod wanted;

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_media::completion;
use antiphon_net::{SocketOptions, Stop};
use antiphon_session::{LinkState, StreamFraming};

use crate::Error;
use crate::messages::{MessageError, MessageLink, MessageOptions};
use crate::transport::StreamUri;

pub(crate) use antiphon_media::completion::Offer;
pub(crate) use fetch::{Completing, Listening};
pub(crate) use offer::offer;

/// Where a recording is completed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompleteOver {
    /// A TCP connection to the address and port of the stream.
    SamePort,
    /// A transport that loses nothing, by its URI.
    Uri(String),
}

impl CompleteOver {
    /// The URI that is called after the stream to `stream`.
    pub(crate) fn target(&self, stream: &StreamUri) -> String {
        self.uri(stream.address(), false)
    }

    /// The URI that is called, or listened on.
    fn uri(&self, stream: SocketAddr, listens: bool) -> String {
        match self {
            CompleteOver::SamePort if listens => format!("tcp://@{stream}"),
            CompleteOver::SamePort => format!("tcp://{stream}"),
            CompleteOver::Uri(uri) => uri.clone(),
        }
    }

    /// Refuses streams that cannot or need not be completed, and transports that lose something.
    pub(crate) fn check(&self, stream: &StreamUri, listens: bool) -> Result<(), Error> {
        let scheme = stream.transport.scheme;
        let stack = stream.stack(0, Duration::ZERO, StreamFraming::Rtp).open(LEAST_MTU)?;
        let is_reliable = |stack: &dyn antiphon_core::Stack| {
            stack.open(antiphon_core::Instant::ZERO, antiphon_core::Role::Caller).profile().reliable
        };
        if is_reliable(&*stack) {
            return Err(Error::usage(format!(
                "{scheme} as it is asked for here loses nothing, so there is nothing to complete: leave --complete out"
            )));
        }
        if stream.address().ip().is_multicast() {
            return Err(Error::usage("--complete is for one receiver, not for a multicast group"));
        }
        let uri = self.uri(stream.address(), listens);
        let over = StreamUri::read(&uri, &SocketOptions::default())?;
        if !is_reliable(&*over.stack(0, Duration::ZERO, StreamFraming::Rtp).open(LEAST_MTU)?) {
            return Err(Error::usage(format!(
                "--complete={uri}: this transport may lose something: use tcp, or sctp?reliability=full"
            )));
        }
        if *self == CompleteOver::SamePort && stream.address().port() == 0 {
            return Err(Error::usage(
                "--complete needs a port that the sender knows: write --complete=tcp://:PORT",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

/// A datagram's room where only a transport's properties are asked for.
const LEAST_MTU: usize = 1200;

fn message_options(socket: &SocketOptions) -> MessageOptions {
    MessageOptions { socket: socket.clone(), ..MessageOptions::default() }
}

/// Why the other side's messages end.
#[derive(Debug)]
enum Broken {
    /// The connection is gone: it may be called again.
    Connection,
    /// The other side does not keep to the rules, or has asked for too much: it is not called again.
    Rules(String),
    /// The user ended it.
    Stopped,
    /// A file could not be read or written.
    File(String),
}

/// Sends a message, waiting for room.
fn send(link: &MessageLink, message: &completion::Message<'_>, stop: &Stop) -> Result<(), Broken> {
    let mut bytes = Vec::new();
    completion::write(message, &mut bytes);
    loop {
        match link.send(&bytes, None) {
            Ok(()) => return Ok(()),
            Err(MessageError::Full) if stop.is_asked() => return Err(Broken::Stopped),
            Err(MessageError::Full) if link.state() == LinkState::Connected && !link.has_broken() => {
                std::thread::park_timeout(LOOK_AGAIN);
            }
            Err(_) => return Err(Broken::Connection),
        }
    }
}

/// The next message, if one comes within `patience`.
fn receive<'a>(
    link: &MessageLink,
    buffer: &'a mut [u8],
    patience: Duration,
    stop: &Stop,
) -> Result<Option<completion::Message<'a>>, Broken> {
    let looks = patience.as_nanos().div_ceil(LOOK.as_nanos()).max(1);
    for _ in 0..looks {
        match link.receive(buffer, Some(patience.min(LOOK))) {
            Ok(message) if message.full_len > message.len => {
                return Err(Broken::Rules("a message is too long".into()));
            }
            Ok(message) => {
                let packet = completion::parse(&buffer[..message.len]);
                return packet.map(Some).ok_or_else(|| Broken::Rules("it sends something else".into()));
            }
            Err(MessageError::TimedOut) if stop.is_asked() => return Err(Broken::Stopped),
            // What was asked or sent before is lost, even if another connection is there by now.
            Err(MessageError::TimedOut) if link.has_broken() => return Err(Broken::Connection),
            Err(MessageError::TimedOut) => {}
            Err(_) => return Err(Broken::Connection),
        }
    }
    Ok(None)
}

/// How soon a full queue is tried again: 256 messages of 16 kB take longer on any network.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How soon a request to stop is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection may be away before a recording is given up: the patience of recordings.
const OUTAGE: Duration = Duration::from_secs(600);
/// The largest message.
const MOST_MESSAGE: usize = 16 * 1024;
