//! What describes a stream that is sent: its SDP file, and its announcement.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::Sender;

use antiphon_media::{MediaClock, PtpClock, SdpOptions, StreamDescription, sdp_of};
use antiphon_net::{OsClock, Target, source_address};
use antiphon_session::SendTrack;
use antiphon_video::VideoDescription;

use crate::announce::Announcer;
use crate::discovery::{Advertised, Advertiser, PeerRole};
use crate::run::Runner;
use crate::transport::StreamUri;
use crate::{Announce, Error, SendOptions};

/// The announcement of a stream; it ends when it is dropped.
pub(super) enum Published {
    /// To a group.
    Stream { _announcer: Announcer },
    /// Of a sender that receivers call.
    Sender { _advertiser: Advertiser },
}

/// Writes the SDP file of `track`, whose reports bear the name `cname`, and of the pictures beside it, and announces it, where `options` ask for these.
pub(super) fn publish(
    options: &SendOptions,
    (track, cname, video): (&SendTrack, &str, Option<&VideoDescription>),
    uri: &StreamUri,
    clock: OsClock,
    runner: &Runner,
    tell: &Sender<String>,
) -> Result<Option<Published>, Error> {
    let describe = |name| describe((track, cname, options.ptp), name, uri, clock, runner);
    let with_pictures = |sound: String| match video {
        Some(video) => video.add_to(&sound).map_err(|error| Error::failed(error.to_string())),
        None => Ok(sound),
    };
    if let Some(path) = &options.sdp {
        let sdp = with_pictures(describe(DEFAULT_NAME)?.sdp)?;
        std::fs::write(path, sdp)
            .map_err(|error| Error::failed(format!("cannot write '{}': {error}", path.display())))?;
        let _main_thread_is_gone = tell.send(format!("wrote {}", path.display()));
    }
    let Some(Announce { group, name }) = &options.announce else { return Ok(None) };
    if let Target::Listen(_) = uri.target {
        let one = track.packetiser().config();
        let format = format!("{}/{}/{}", one.coding.name(), one.format.rate(), track.channels());
        let told = Advertised {
            name: name.clone(),
            role: PeerRole::Sender,
            transports: vec![uri.transport.scheme],
            address: runner.local_address(),
            format: Some(format),
            purpose: Some(options.purpose.name()),
        };
        let advertiser = Advertiser::start(&told, uri.keys.socket.multicast.interface.as_deref())?;
        let _main_thread_is_gone = tell.send(format!("announced as '{name}' (DNS-SD)"));
        return Ok(Some(Published::Sender { _advertiser: advertiser }));
    }
    let Described { sdp, origin } = describe(name)?;
    let announcer = Announcer::start(with_pictures(sdp)?, origin, *group, &uri.keys.socket)?;
    let _main_thread_is_gone = tell.send(format!("announced as '{name}' to {group}"));
    Ok(Some(Published::Stream { _announcer: announcer }))
}

/// SDP of a stream, and the address that it is sent from.
struct Described {
    sdp: String,
    origin: IpAddr,
}

fn describe(
    (track, cname, ptp): (&SendTrack, &str, Option<PtpClock>),
    name: &str,
    uri: &StreamUri,
    clock: OsClock,
    runner: &Runner,
) -> Result<Described, Error> {
    let to = uri.address();
    let of_packets = |packet| {
        let (address, port, rtcp_mux) = (Some(to.ip()), Some(to.port()), true);
        Ok(StreamDescription {
            address,
            port,
            rtcp_mux,
            // The wall clock of this machine, of which it is not known what it follows; or that which the user names.
            reference_clock: Some(ptp.map_or_else(|| "local".into(), |clock| clock.reference())),
            media_clock: Some(ptp.map_or(MediaClock::Sender, |_| MediaClock::Direct(0))),
            ..StreamDescription::of(packet)?
        })
    };
    let described: Vec<_> = track.packets().map(of_packets).collect::<Result<_, Error>>()?;
    let ssrcs: Vec<u32> = track.ssrcs().collect();
    let origin = origin(uri, runner);
    let sdp = SdpOptions {
        name: name.into(),
        session_id: clock.epoch().ntp(clock.now()).to_bits() >> 32,
        origin,
        ttl: uri.keys.socket.multicast.ttl.unwrap_or(1),
    };
    Ok(Described { sdp: sdp_of(&described, &ssrcs, cname, &sdp), origin })
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

/// Session name of an SDP file, which nobody has named.
const DEFAULT_NAME: &str = "Antiphon";
