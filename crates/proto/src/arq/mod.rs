//! `arq://`: the simple retransmission protocol of the report on TV sound over WLAN (Aalborg; chapters 4 and 7).
//!
//! | mode | headers | acknowledged | sent again |
//! | --- | --- | --- | --- |
//! | `as-published` | text | every packet by one of its own, at once | after 20 ms, three times at most |
//! | `improved` | binary | several packets by one, with messages of the way back | when later packets arrived, or after an adaptive time-out; never too late to be played |
//!
//! With `reliability=full` the improved mode gives nothing up, under a congestion window, and its receiver acknowledges
//! only what it has room for: for recordings.
//!
//! Both ends need the same mode: packets of the other one are counted as malformed. A listener whose URI names none
//! uses its caller's.

mod dissector;
mod flight;
mod improved;
mod paper_loop;
mod published;
mod ring;
mod rtt;
mod settings;
mod text;
mod window;
mod wire;

use antiphon_core::StreamPlace;

use self::improved::Improved;
use self::published::Published;
use self::settings::Settings;
use crate::adapt::TwoModes;
use crate::dissect::EachDatagram;
use crate::looks::ByLooks;
use crate::registry::one_address;
use crate::{DEFAULT_PORT, Substrate, Transport};

/// The protocol as the other crates see it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "arq",
    title: "simple ARQ",
    plain: "UDP with acknowledgements: resends lost packets",
    summary: "RTP over UDP with acknowledgements: resends lost packets while they can still be played",
    substrate: Substrate::Udp,
    over_ip: None,
    default_port: DEFAULT_PORT,
    reflect_offset: 4,
    multicast: false,
    members: false,
    broadcast: false,
    variants: &["reliability=full"],
    keys: settings::KEYS,
    other_peers: one_address,
    stack: |args| MODES.stack(args),
    dissector: || Box::new(MODES.dissector),
};

static MODES: TwoModes<Settings> = TwoModes {
    read: |_, query| settings::read(query),
    open: |settings, role, max_datagram, seed, _now| match *settings {
        Settings::Published(settings) => {
            Box::new(Published::open(settings, role, max_datagram, FIRST_NUMBER))
        }
        Settings::Improved(settings) => Box::new(Improved::open(settings, role, max_datagram, seed)),
    },
    is_published: speaks_text,
    looks: ByLooks { begins: begins_an_association, place: place_of },
    dissector: EachDatagram::new(dissector::dissect),
};

fn speaks_text(datagram: &[u8]) -> Option<bool> {
    let text = text::parse(datagram).is_some();
    (text || wire::parse(datagram).is_some()).then_some(text)
}

/// Whether a datagram is a data packet of either mode: acknowledgements do not begin an association.
fn begins_an_association(datagram: &[u8]) -> bool {
    let binary = wire::parse(datagram).is_some_and(|packet| packet.data.is_some());
    binary || matches!(text::parse(datagram), Some(text::Text::Data { .. }))
}

/// The published packets name no stream.
fn place_of(datagram: &[u8]) -> Option<StreamPlace> {
    let data = wire::parse(datagram)?.data?;
    Some(StreamPlace { stream: data.epoch.into(), number: data.number.into(), bits: 32 })
}

/// Numbers of the published mode begin with 1 (chapter 7, listing).
const FIRST_NUMBER: u64 = 1;
