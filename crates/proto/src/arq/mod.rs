//! `arq://`: the simple retransmission protocol of the report on TV sound over WLAN (Aalborg; chapters 4 and 7).
//!
//! | mode | headers | acknowledged | sent again |
//! | --- | --- | --- | --- |
//! | `as-published` | text | every packet by one of its own, at once | after 20 ms, three times at most |
//! | `improved` | binary | several packets by one, with frames of the way back | when later packets arrived, or after an adaptive time-out; never too late to be played |
//!
//! Both ends need the same mode: packets of the other one are counted as malformed. A listener whose URI names none takes
//! its caller's.

mod aimd;
mod flight;
mod improved;
mod paper_loop;
mod published;
mod ring;
mod rtt;
mod settings;
mod text;
mod unwrap;
mod window;
mod wire;

use antiphon_core::{Endpoint, Unwrap};

use crate::adapt::{Adaptive, Other};
use crate::{Beneath, HOUSE_PORT, OpenArgs, OpenError, Role, Strengths, Transport};
use improved::Improved;
use published::Published;
use settings::Settings;

/// The protocol as the rest of the house sees it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "arq",
    title: "simple ARQ",
    summary: "RTP over UDP with acknowledgements: sends again what was lost, as long as it can still be played",
    beneath: Beneath::Udp,
    over_ip: None,
    default_port: HOUSE_PORT,
    reflect_offset: 4,
    strengths: Strengths { reliable: false, ordered: false, multicast: false },
    keys: settings::KEYS,
    open,
    admits,
    unwrap: Unwrap::Datagram(unwrap::unwrap),
};

fn open(args: &OpenArgs<'_>) -> Result<Box<dyn Endpoint>, OpenError> {
    let (settings, max_datagram) = (settings::read(args.query)?, args.max_datagram);
    let endpoint = endpoint(settings, max_datagram, args.seed);
    if args.role == Role::Caller || args.query.value("mode").is_some() {
        return Ok(endpoint);
    }
    // What belongs to the improved mode alone binds a listener to it.
    let published = settings::read(&crate::query::with(args.query, "mode", "as-published"));
    let (Ok(published), seed) = (published, args.seed) else { return Ok(endpoint) };
    let open = move |_now| self::endpoint(published, max_datagram, seed);
    Ok(Box::new(Adaptive::new(endpoint, Other { speaks: speaks_text, open: Box::new(open) })))
}

fn endpoint(settings: Settings, max_datagram: usize, seed: u64) -> Box<dyn Endpoint> {
    match settings {
        Settings::Published(settings) => Box::new(Published::new(settings, max_datagram, FIRST_NUMBER)),
        Settings::Improved(settings) => Box::new(Improved::new(settings, max_datagram, seed)),
    }
}

fn speaks_text(datagram: &[u8]) -> Option<bool> {
    let text = text::parse(datagram).is_some();
    (text || wire::parse(datagram).is_some()).then_some(text)
}

/// Whether a datagram is a data packet of either mode: acknowledgements answer, they don't begin.
fn admits(datagram: &[u8]) -> bool {
    let binary = wire::parse(datagram).is_some_and(|packet| packet.data.is_some());
    binary || matches!(text::parse(datagram), Some(text::Text::Data { .. }))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    Closing,
    Closed,
}

/// Numbers of the published mode begin with 1 (chapter 7, listing).
const FIRST_NUMBER: u64 = 1;

/// The largest UDP payload over IPv4: 65 535 less 20 bytes of IP and 8 of UDP header (RFC 768, RFC 791).
const MAX_UDP_PAYLOAD: usize = 65_507;
