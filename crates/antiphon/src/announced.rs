//! What others in the network announce: streams to a group (SAP, RFC 2974), and what waits to be called (DNS-SD).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use antiphon_media::sap::{Announcement, MAX_SAP, SAP_PORT};
use antiphon_media::{StreamDescription, session_name};
use antiphon_net::{GroupSocket, OsClock, SocketOptions, Stop};

use crate::Error;
use crate::announce::ANNOUNCEMENT_GROUPS;
use crate::discovery::{Finder, FoundPeer};

/// What was found in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announced {
    /// A stream to a group.
    Stream(AnnouncedStream),
    /// A program that waits to be called.
    Peer(FoundPeer),
}

/// A stream that is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedStream {
    /// Its name, in one line; may be empty.
    pub name: String,
    /// The host that announces it, as it says itself.
    pub origin: IpAddr,
    /// What a receiver needs to know.
    pub description: StreamDescription,
}

impl AnnouncedStream {
    /// Where to receive it: `rtp://@239.1.2.3:5004`; `None` if it goes to no group.
    pub fn uri(&self) -> Option<String> {
        let group = self.description.address.filter(IpAddr::is_multicast)?;
        let group = if group.is_ipv6() { format!("[{group}]") } else { group.to_string() };
        let source = self.description.source.map_or_else(String::new, |source| format!("?source={source}"));
        Some(format!("rtp://@{group}:{}{source}", self.description.port?))
    }
}

/// Hears announcements for `length`, or until `stop` is asked for; tells each program once, and each stream once and again when it has
/// changed.
pub fn hear_announcements(
    length: Duration,
    interface: Option<&str>,
    stop: &Stop,
    found: &mut dyn FnMut(&Announced),
) -> Result<(), Error> {
    let mut options = SocketOptions::default();
    options.multicast.interface = interface.map(String::from);
    let socket = GroupSocket::hearing(&ANNOUNCEMENT_GROUPS, SAP_PORT, &options)?;
    let mut finder = Finder::new(interface)?;
    let clock = OsClock::new();
    let mut known = Known::default();
    let mut room = vec![0; MAX_SAP];
    loop {
        let now = clock.now();
        let left = length.saturating_sub(now.since(antiphon_core::Instant::ZERO));
        let last = left.is_zero() || stop.is_asked();
        finder.look(now, last, &mut |peer| found(&Announced::Peer(peer.clone())));
        if last {
            return Ok(());
        }
        let heard = socket.receive(&mut room, left.min(LOOK_EVERY));
        let heard = heard.map_err(|error| Error::failed(format!("cannot hear announcements: {error}")))?;
        let Some((len, _)) = heard else { continue };
        if let Some(stream) = known.take(&room[..len]) {
            found(&Announced::Stream(stream));
        }
    }
}

/// Announcements heard so far.
#[derive(Default)]
struct Known {
    /// By host and hash of the description.
    heard: BTreeSet<(IpAddr, u16)>,
}

impl Known {
    /// The stream that a datagram announces, if it is new.
    fn take(&mut self, datagram: &[u8]) -> Option<AnnouncedStream> {
        // Other packets may be sent to these groups.
        let announced = Announcement::read(datagram).ok()?;
        let key = (announced.origin, announced.hash);
        if announced.deletion {
            self.heard.remove(&key);
            return None;
        }
        if self.heard.contains(&key) || self.heard.len() >= MOST_KNOWN {
            return None;
        }
        let description = StreamDescription::from_sdp(announced.description).ok()?;
        self.heard.insert(key);
        Some(AnnouncedStream {
            name: session_name(announced.description),
            origin: announced.origin,
            description,
        })
    }
}

/// How soon a wish to stop is seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most streams that are remembered, as any host in the network may announce more.
const MOST_KNOWN: usize = 1000;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SDP: &str = "v=0\r\no=- 7 1 IN IP4 192.0.2.7\r\ns=Stage left\r\nc=IN IP4 239.1.2.3/4\r\nt=0 0\r\n\
                       m=audio 5004 RTP/AVP 98\r\na=rtpmap:98 L24/48000/2\r\n";

    fn announcement(n: u32, deletion: bool, description: &str) -> Vec<u8> {
        let origin = Ipv4Addr::from(0xc000_0200 + n).into();
        Announcement { deletion, hash: 1, origin, description: description.as_bytes() }.to_bytes()
    }

    #[test]
    fn a_stream_is_told_once_and_again_after_it_was_taken_back() {
        let mut known = Known::default();
        let stream = known.take(&announcement(7, false, SDP)).expect("a stream");
        assert_eq!(
            (stream.name.as_str(), stream.uri().as_deref()),
            ("Stage left", Some("rtp://@239.1.2.3:5004"))
        );
        assert_eq!(known.take(&announcement(7, false, SDP)), None);
        assert!(known.take(&announcement(8, false, SDP)).is_some(), "of another host");
        assert_eq!(known.take(&announcement(7, true, "")), None);
        assert!(known.take(&announcement(7, false, SDP)).is_some());
    }

    #[test]
    fn strange_announcements_are_passed_over_and_memory_is_bounded() {
        let mut known = Known::default();
        for strange in ["", "v=0", "v=0\r\ns=video\r\nm=video 5 RTP/AVP 96\r\n"] {
            assert_eq!(known.take(&announcement(1, false, strange)), None);
        }
        assert_eq!(known.take(b"anything"), None);
        let told = (0..3_000).filter(|n| known.take(&announcement(*n, false, SDP)).is_some()).count();
        assert_eq!(told, MOST_KNOWN);
    }

    #[test]
    fn one_source_and_version_6_are_in_the_uri() {
        let mut stream = Known::default().take(&announcement(7, false, SDP)).expect("a stream");
        stream.description.source = Some(Ipv4Addr::new(192, 0, 2, 7).into());
        assert_eq!(stream.uri().as_deref(), Some("rtp://@239.1.2.3:5004?source=192.0.2.7"));
        stream.description.address = Some("ff15::7".parse().expect("an address"));
        stream.description.source = None;
        assert_eq!(stream.uri().as_deref(), Some("rtp://@[ff15::7]:5004"));
        stream.description.address = Some(Ipv4Addr::LOCALHOST.into());
        assert_eq!(stream.uri(), None);
    }
}
