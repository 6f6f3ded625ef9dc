//! The SDP file of a stream that is sent.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use antiphon_media::{MediaClock, SdpOptions, StreamDescription, sdp_of};
use antiphon_net::{OsClock, Target, source_address};
use antiphon_session::SendTrack;

use crate::Error;
use crate::run::Runner;
use crate::transport::StreamUri;

/// Writes what describes `track`, whose reports bear the name `cname`, to `path`.
pub(super) fn write_sdp(
    path: &Path,
    track: &SendTrack,
    uri: &StreamUri,
    cname: &str,
    clock: OsClock,
    runner: &Runner,
) -> Result<(), Error> {
    let to = uri.address();
    let describe = |packet| {
        let (address, port, rtcp_mux) = (Some(to.ip()), Some(to.port()), true);
        Ok(StreamDescription { address, port, rtcp_mux, ..StreamDescription::of(packet)? })
    };
    let described: Vec<_> = track.packets().map(describe).collect::<Result<_, Error>>()?;
    let ssrcs: Vec<u32> = track.ssrcs().collect();
    let sdp = SdpOptions {
        name: "Antiphon".into(),
        session_id: clock.epoch().ntp(clock.now()).to_bits() >> 32,
        origin: origin(uri, runner),
        ttl: uri.keys.socket.multicast.ttl.unwrap_or(1),
        // The wall clock of this machine, of which it is not known what it follows.
        reference_clock: Some("local".into()),
        media_clock: Some(MediaClock::Sender),
    };
    std::fs::write(path, sdp_of(&described, &ssrcs, cname, &sdp))
        .map_err(|error| Error::failed(format!("cannot write '{}': {error}", path.display())))
}

/// The address that packets are sent from: sockets that are not connected, such as those that send to a group, do not
/// know it.
fn origin(uri: &StreamUri, runner: &Runner) -> IpAddr {
    let local = runner.local_address().ip();
    let towards = match uri.target {
        Target::Call(peer) if local.is_unspecified() || local.is_multicast() => {
            source_address(peer, &uri.keys.socket)
        }
        _ => None,
    };
    let fallback = if local.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { local };
    towards.unwrap_or(fallback)
}
