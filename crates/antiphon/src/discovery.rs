//! Finding each other in the local network: DNS-SD over multicast DNS (RFC 6763, RFC 6762).
//!
//! What waits for others says under `_antiphon._udp.local.` which service it is: its name, address and port, and in TXT what a user
//! needs to choose it. All transports are under one type, as RFC 6763 §7 has `_udp` for everything but TCP, and the list of transports
//! is in TXT. Streams to a group are announced otherwise ([`crate::announce`]), as others hear that.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::MAX_SESSION_NAME;
use antiphon_proto::TRANSPORTS;
use mdns_sd::{IfKind, Receiver, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};

use crate::run::Runner;
use crate::transport::StreamUri;
use crate::{Error, quoted};

/// What a service in the network is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerRole {
    /// Sends to receivers that call.
    Sender,
    /// Receives from a sender that calls.
    Receiver,
    /// Waits for a call in both directions.
    Talk,
    /// The far end of `compare`.
    Reflector,
}

impl PeerRole {
    const ALL: [PeerRole; 4] = [PeerRole::Sender, PeerRole::Receiver, PeerRole::Talk, PeerRole::Reflector];

    /// As a word, also in TXT.
    pub fn name(self) -> &'static str {
        match self {
            PeerRole::Sender => "sender",
            PeerRole::Receiver => "receiver",
            PeerRole::Talk => "talk",
            PeerRole::Reflector => "reflector",
        }
    }
}

/// What a service tells of itself.
pub(crate) struct Advertised {
    pub name: String,
    pub role: PeerRole,
    /// Schemes of its transports, the first one first.
    pub transports: Vec<&'static str>,
    /// Where it listens.
    pub address: SocketAddr,
    /// What is sent: `l16/48000/2`.
    pub format: Option<String>,
    /// What it is meant for.
    pub purpose: Option<&'static str>,
}

/// Tells the network of what waits on the first wire of `runner`, which `uri` names.
pub(crate) fn advertise(
    name: &str,
    role: PeerRole,
    uri: &StreamUri,
    runner: &Runner,
) -> Result<Advertiser, Error> {
    let told = Advertised {
        name: name.into(),
        role,
        transports: vec![uri.transport.scheme],
        address: runner.local_address(),
        format: None,
        purpose: None,
    };
    Advertiser::start(&told, uri.keys.socket.multicast.interface.as_deref())
}

/// Tells the network of a service until it is dropped; then takes it back.
pub(crate) struct Advertiser {
    daemon: ServiceDaemon,
    fullname: String,
}

impl Advertiser {
    /// `interface`: a name or an address; `None`: on all.
    pub fn start(told: &Advertised, interface: Option<&str>) -> Result<Self, Error> {
        Self::on_port(mdns_sd::MDNS_PORT, told, interface)
    }

    fn on_port(port: u16, told: &Advertised, interface: Option<&str>) -> Result<Self, Error> {
        let cannot = |error| Error::failed(format!("cannot announce '{}': {error}", told.name));
        let daemon = open(port, interface).map_err(cannot)?;
        let mut txt = vec![("txtvers", "1".to_string()), ("role", told.role.name().into())];
        txt.push(("transport", told.transports.join(",")));
        txt.extend(told.format.iter().map(|format| ("format", format.clone())));
        txt.extend(told.purpose.iter().map(|purpose| ("purpose", (*purpose).to_string())));
        let ip = told.address.ip();
        let addresses: Vec<IpAddr> = if ip.is_unspecified() { Vec::new() } else { vec![ip] };
        // A host name of its own: that of the machine belongs to its own responder.
        let host = format!("antiphon-{}-{}.local.", std::process::id(), told.address.port());
        let name = shortened(&told.name);
        let service = ServiceInfo::new(SERVICE, name, &host, &addresses[..], told.address.port(), &txt[..]);
        let service = service.map_err(cannot)?;
        let service = if addresses.is_empty() { service.enable_addr_auto() } else { service };
        let fullname = service.get_fullname().to_string();
        daemon.register(service).map_err(cannot)?;
        Ok(Advertiser { daemon, fullname })
    }
}

impl Drop for Advertiser {
    fn drop(&mut self) {
        // Without an answer it ends all the same, and the others forget it after two minutes.
        if let Ok(over) = self.daemon.unregister(&self.fullname) {
            let _ended = over.recv_timeout(GOODBYE);
        }
        let _ended = self.daemon.shutdown();
    }
}

fn open(port: u16, interface: Option<&str>) -> mdns_sd::Result<ServiceDaemon> {
    let daemon = ServiceDaemon::new_with_port(port)?;
    if let Some(interface) = interface {
        let kind = interface.parse::<IpAddr>().map_or_else(|_| IfKind::from(interface), IfKind::from);
        daemon.disable_interface(IfKind::All)?;
        daemon.enable_interface(kind)?;
    }
    Ok(daemon)
}

/// A service that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPeer {
    /// Its name, in one line.
    pub name: String,
    /// What it is for; `None` for what this version does not know.
    pub role: Option<PeerRole>,
    /// Schemes of its transports, those that this version has.
    pub transports: Vec<&'static str>,
    /// Where it is reached.
    pub address: SocketAddr,
    /// What it sends, as it says: `l16/48000/2`.
    pub format: Option<String>,
    /// What it is meant for, as it says.
    pub purpose: Option<String>,
}

impl FoundPeer {
    /// What others tell is for a list on a terminal: cleaned and bounded.
    fn read(service: &ResolvedService) -> Option<Self> {
        let instance = service.fullname.strip_suffix(SERVICE)?.strip_suffix('.')?;
        let text = |key| {
            let value = service.get_property_val_str(key).map(|value| clean(value, LONGEST_VALUE));
            value.filter(|value| !value.is_empty())
        };
        let role = text("role");
        // One that tells no transport has none that this version knows.
        let transports = service.get_property_val_str("transport").unwrap_or_default();
        let known = |word: &str| TRANSPORTS.iter().map(|one| one.scheme).find(|scheme| *scheme == word);
        let mut schemes: Vec<&'static str> = Vec::new();
        for scheme in transports.split(',').filter_map(|word| known(word.trim())) {
            if !schemes.contains(&scheme) {
                schemes.push(scheme);
            }
        }
        let addresses = service.get_addresses().iter().map(mdns_sd::ScopedIp::to_ip_addr);
        let ip = addresses.min_by_key(|ip| (rank(*ip), *ip))?;
        Some(FoundPeer {
            name: clean(&unescaped(instance), MAX_SESSION_NAME),
            role: PeerRole::ALL.into_iter().find(|one| role.as_deref() == Some(one.name())),
            transports: schemes,
            address: SocketAddr::new(ip, service.port),
            format: text("format"),
            purpose: text("purpose"),
        })
    }

    /// What to type to use it; `None` where this program cannot, or the address holds for the other machine alone.
    pub fn command(&self) -> Option<String> {
        let usable = self.address.port() != 0 && rank(self.address.ip()) < UNUSABLE;
        let (role, scheme) = (self.role?, self.transports.first().filter(|_| usable)?);
        let uri = quoted(&format!("{scheme}://{}", self.address));
        Some(match role {
            PeerRole::Sender => format!("antiphon receive {uri} SINK"),
            PeerRole::Receiver => format!("antiphon send SOURCE {uri}"),
            PeerRole::Talk => format!("antiphon talk {uri}"),
            PeerRole::Reflector => format!("antiphon compare {}", quoted(&self.address.to_string())),
        })
    }
}

/// Those that anybody in the network reaches come first.
fn rank(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) if !ip.is_loopback() && !ip.is_unspecified() => 0,
        IpAddr::V6(ip) if !ip.is_loopback() && !ip.is_unspecified() && !ip.is_unicast_link_local() => 1,
        ip if ip.is_loopback() => 2,
        // Without the interface it leads nowhere.
        _ => UNUSABLE,
    }
}

const UNUSABLE: u8 = 3;

/// Looks for services.
pub(crate) struct Finder {
    daemon: ServiceDaemon,
    events: Receiver<ServiceEvent>,
    /// By their full names: since when they are known, and whether they were told.
    known: BTreeMap<String, (Instant, Option<FoundPeer>)>,
}

impl Finder {
    pub fn new(interface: Option<&str>) -> Result<Self, Error> {
        Self::on_port(mdns_sd::MDNS_PORT, interface)
    }

    fn on_port(port: u16, interface: Option<&str>) -> Result<Self, Error> {
        let cannot = |error| Error::failed(format!("cannot look for others by mDNS: {error}"));
        let daemon = open(port, interface).map_err(cannot)?;
        let events = daemon.browse(SERVICE).map_err(cannot)?;
        Ok(Finder { daemon, events, known: BTreeMap::new() })
    }

    /// Tells each once. One with an address of a kind that few reach waits for another one, unless this is the `last` look.
    pub fn look(&mut self, now: Instant, last: bool, found: &mut dyn FnMut(&FoundPeer)) {
        for event in self.events.try_iter().take(MOST_KNOWN) {
            let ServiceEvent::ServiceResolved(service) = event else { continue };
            let Some(peer) = FoundPeer::read(&service) else { continue };
            let full = self.known.len() >= MOST_KNOWN;
            match self.known.get_mut(&service.fullname) {
                Some((_, Some(before))) => *before = peer,
                Some((_, None)) => {}
                None if full => {}
                None => {
                    self.known.insert(service.fullname.clone(), (now, Some(peer)));
                }
            }
        }
        for (since, peer) in self.known.values_mut() {
            let good = |peer: &mut FoundPeer| rank(peer.address.ip()) == 0;
            if let Some(peer) = peer.take_if(|peer| last || good(peer) || now.since(*since) >= BETTER) {
                found(&peer);
            }
        }
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        let _ended = self.daemon.shutdown();
    }
}

/// A name without the backslashes of DNS (RFC 6763 §4.3).
fn unescaped(instance: &str) -> String {
    let mut text = String::with_capacity(instance.len());
    let mut chars = instance.chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    text
}

/// In one line, at most so long.
fn clean(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect::<String>().trim().into()
}

/// The longest beginning of a name that fits into a label of DNS.
fn shortened(name: &str) -> &str {
    let mut end = name.len().min(LONGEST_LABEL);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The type of all services of this program.
const SERVICE: &str = "_antiphon._udp.local.";
/// RFC 1035 §2.3.4.
const LONGEST_LABEL: usize = 63;
/// Characters of what is shown of a TXT value: a word or two.
const LONGEST_VALUE: usize = 40;
/// Most services that are remembered, as any host in the network may announce more.
const MOST_KNOWN: usize = 1_000;
/// How long an address of IPv4 is waited for: hosts tell those of each kind in packets of their own.
const BETTER: Duration = Duration::from_millis(500);
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, txt: &[(&str, &str)], addresses: &str) -> ResolvedService {
        let info = ServiceInfo::new(SERVICE, name, "h.local.", addresses, 7710, txt).expect("a service");
        info.as_resolved_service()
    }

    #[test]
    fn a_service_says_what_to_type() {
        let told = [
            ("role", "sender"),
            ("transport", "rtp,tcp"),
            ("format", "l16/48000/2"),
            ("purpose", "tv-sound"),
        ];
        let peer =
            FoundPeer::read(&service("Living room. TV", &told, "fe80::7,192.0.2.7,2001:db8::7")).unwrap();
        assert_eq!((peer.name.as_str(), peer.role), ("Living room. TV", Some(PeerRole::Sender)));
        assert_eq!(peer.command().as_deref(), Some("antiphon receive rtp://192.0.2.7:7710 SINK"));
        for (role, command) in [
            ("receiver", "antiphon send SOURCE rtp://192.0.2.7:7710"),
            ("talk", "antiphon talk rtp://192.0.2.7:7710"),
            ("reflector", "antiphon compare 192.0.2.7:7710"),
        ] {
            let told = [("role", role), ("transport", "rtp")];
            let peer = FoundPeer::read(&service("a", &told, "192.0.2.7")).unwrap();
            assert_eq!(peer.command().as_deref(), Some(command));
        }
        let told = [("role", "talk"), ("transport", "srp")];
        let peer = FoundPeer::read(&service("a", &told, "2001:db8::7")).unwrap();
        assert_eq!(peer.command().as_deref(), Some("antiphon talk 'srp://[2001:db8::7]:7710'"));
    }

    #[test]
    fn what_others_tell_is_cleaned_and_never_a_command() {
        let told = [
            ("role", "sender"),
            ("transport", "x; rm -rf /,rtp,rtp"),
            ("format", "\x1b[2J\nabc"),
            ("purpose", ""),
        ];
        let peer = FoundPeer::read(&service("\x1b[31mred\r\n", &told, "192.0.2.7")).unwrap();
        assert_eq!((peer.name.as_str(), peer.format.as_deref()), ("[31mred", Some("[2Jabc")));
        assert_eq!((peer.transports.as_slice(), peer.purpose), (["rtp"].as_slice(), None));
        let long = "x".repeat(200);
        let peer = FoundPeer::read(&service("a", &[("format", long.as_str())], "192.0.2.7")).unwrap();
        assert_eq!(peer.format.unwrap().len(), LONGEST_VALUE);
        for told in [[("role", "root"), ("transport", "rtp")], [("role", "sender"), ("transport", "sh")]] {
            assert_eq!(FoundPeer::read(&service("a", &told, "192.0.2.7")).unwrap().command(), None);
        }
        let local = [("role", "sender"), ("transport", "rtp")];
        assert_eq!(FoundPeer::read(&service("a", &local, "fe80::7")).unwrap().command(), None);
        let mut other = service("a", &local, "192.0.2.7");
        other.fullname = "a._http._tcp.local.".into();
        assert_eq!(FoundPeer::read(&other), None);
    }

    #[test]
    fn a_long_name_fits_into_a_label() {
        assert_eq!(shortened(&"☂".repeat(40)), "☂".repeat(21));
        assert_eq!((shortened("TV"), unescaped(r"a\.b\\c").as_str()), ("TV", r"a.b\c"));
    }
}
