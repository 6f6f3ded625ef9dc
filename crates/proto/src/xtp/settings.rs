//! The query keys of `xtp://`.

use std::time::Duration;

use antiphon_core::units::{BitRate, ByteCount, Ratio, parse_duration};
use antiphon_core::uri::{Query, UriError};

use super::group::MOST_MEMBERS;
use super::wire::Traffic;
use crate::Key;
use crate::query::{bad, choose, refuse, unknown};

/// Settings from a URI.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Settings {
    pub acks: Acks,
    pub reliability: Reliability,
    pub ordered: bool,
    pub flow: Flow,
    /// How long a request for status is waited for at least, before it is repeated.
    pub wtimer: Duration,
    /// Whether checksums cover the header only.
    pub nocheck: bool,
    /// Whether messages leave and are delivered by their priority.
    pub sort: bool,
    /// Limits of this side: `out` of what it sends, `in` of what it wants to be sent.
    pub traffic: Traffic,
    /// The listener's port inside UDP, and over IP.
    pub port: u16,
    pub service: Service,
    /// Combinations that leave with so many packets to a group, unasked: a share.
    pub parity: f64,
    /// Members for which the sender to a group waits before it sends.
    pub wait_for: usize,
}

/// What an association is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Service {
    /// A stream of messages.
    Stream,
    /// Each message by itself.
    Datagram,
}

/// When a sender asks what has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acks {
    Never,
    /// With one of so many packets.
    Every(u32),
    /// The receiver reports gaps by itself; the sender asks with every 32nd packet, so that memory of what has arrived is
    /// freed.
    OnGap,
    /// With the first packet that leaves so long after the last request.
    Interval(Duration),
}

/// How long what is lost is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reliability {
    /// Not at all.
    None,
    /// Until its deadline.
    Deadline,
    /// Until it arrives.
    Full,
}

/// Whether the receiver limits the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    Off,
    /// By its free memory.
    Window,
    /// By the buffers that its program has given.
    Reserved,
}

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "acks",
        help: "when a sender asks for an acknowledgement: all packets (default), never, on a gap, each of so many, or so often: acks=gap, acks=4, acks=10ms",
    },
    Key {
        name: "reliability",
        help: "how long a message is sent again: deadline (default), full, or none, whose holes stay holes: reliability=none",
    },
    Key { name: "order", help: "unordered (default) or ordered: order=ordered" },
    Key {
        name: "flow",
        help: "the receiver limits the sender by its memory (on, default), by what its program has room for (reserved), or not (off): flow=reserved",
    },
    Key {
        name: "wtimer",
        help: "an acknowledgement is waited for at least so long before it is asked for again, two round trips otherwise: wtimer=500ms",
    },
    Key {
        name: "checksum",
        help: "of all (default) or of headers alone, where UDP's covers the rest: checksum=header",
    },
    Key {
        name: "sort",
        help: "on or off (default): urgent messages leave and are delivered before others (SORT): sort=on",
    },
    Key { name: "out-rate", help: "sends no faster than this: out-rate=2Mbit/s" },
    Key { name: "burst", help: "bytes that leave at once under out-rate or in-rate: burst=3kB" },
    Key { name: "in-rate", help: "asks the peer to send no faster than this: in-rate=2Mbit/s" },
    Key {
        name: "service",
        help: "stream (default) or datagram, at both ends: each message by itself, unacknowledged: service=datagram",
    },
    Key {
        name: "members",
        help: "a sender to a group waits for so many members before it sends (default 1, without repairs 0): members=8",
    },
    Key {
        name: "parity",
        help: "a sender to a group adds so much redundancy unasked, 0 (default) to 100 %: parity=10%25",
    },
    Key { name: "xtp-port", help: "the listener's XTP port inside UDP: xtp-port=5004" },
];

/// Reads the query keys; `max_data` is the largest segment of data, `group` whether the address is that of a group.
pub(super) fn read(query: &Query, max_data: usize, group: bool) -> Result<Settings, UriError> {
    refuse_elsewhere(query, group)?;
    let service = query.read("service", |text| choose(text, SERVICES))?.unwrap_or(Service::Stream);
    if service == Service::Datagram {
        let stream = [
            "acks",
            "reliability",
            "order",
            "flow",
            "wtimer",
            "out-rate",
            "burst",
            "in-rate",
            "members",
            "parity",
        ];
        refuse(query, &stream, "a datagram service has none: use service=stream")?;
    }
    let (acks, reliability) = read_repair(query, group)?;
    let flow = query.read("flow", |text| choose(text, FLOWS))?;
    if acks == Acks::Never && flow.is_some_and(|flow| flow != Flow::Off) {
        return Err(bad(
            query,
            "flow",
            "without acknowledgements the receiver can't limit the sender: use flow=off".into(),
        ));
    }
    let flow = flow.unwrap_or(if acks == Acks::Never { Flow::Off } else { Flow::Window });
    Ok(Settings {
        acks,
        reliability,
        ordered: query
            .read("order", |text| choose(text, &[("unordered", false), ("ordered", true)]))?
            .unwrap_or(false),
        flow,
        // Without it an acknowledgement is asked for again as soon as it is late.
        wtimer: query.read("wtimer", read_wtimer)?.unwrap_or(Duration::ZERO),
        nocheck: query
            .read("checksum", |text| choose(text, &[("all", false), ("header", true)]))?
            .unwrap_or(false),
        service,
        sort: query.read("sort", |text| choose(text, &[("off", false), ("on", true)]))?.unwrap_or(false),
        traffic: read_traffic(query, max_data)?,
        port: query.read("xtp-port", read_port)?.unwrap_or(DEFAULT_PORT),
        parity: query.read("parity", read_parity)?.unwrap_or(0.0),
        wait_for: query
            .read("members", read_members)?
            .unwrap_or(usize::from(reliability != Reliability::None)),
    })
}

/// Refuses what has no effect for a group, or for one receiver.
fn refuse_elsewhere(query: &Query, group: bool) -> Result<(), UriError> {
    match group {
        false => {
            let why = "is for a multicast group: send to an address such as 239.1.2.3, or leave it out";
            refuse(query, &["members", "parity"], why)
        }
        true => {
            let why =
                "is for one receiver: the members of a group report and ask by themselves; leave it out";
            refuse(query, &["flow", "wtimer"], why)
        }
    }
}

/// When acknowledgements are asked for, and how long what is lost is sent again.
fn read_repair(query: &Query, group: bool) -> Result<(Acks, Reliability), UriError> {
    let reliability = query.read("reliability", |text| choose(text, RELIABILITIES))?;
    let acks = query.read("acks", read_acks)?;
    if group && !matches!(acks, None | Some(Acks::Never | Acks::Every(1))) {
        let why =
            "is for one receiver: the members of a group report by themselves; use acks=all or acks=never";
        return Err(bad(query, "acks", why.into()));
    }
    let (acks, reliability) = match (acks, reliability) {
        (Some(Acks::Never), None) => (Acks::Never, Reliability::None),
        (acks, reliability) => (acks.unwrap_or(Acks::Every(1)), reliability.unwrap_or(Reliability::Deadline)),
    };
    if acks == Acks::Never && reliability != Reliability::None {
        let other = if group { "all" } else { "gap" };
        let why =
            format!("without acknowledgements nothing is repaired: use reliability=none, or acks={other}");
        return Err(bad(query, "reliability", why));
    }
    Ok((acks, reliability))
}

fn read_wtimer(text: &str) -> Result<Duration, String> {
    let wait = parse_duration(text).map_err(|error| error.to_string())?;
    (wait <= MOST_WTIMER).then_some(wait).ok_or(format!("use 0ms to {MOST_WTIMER:?}"))
}

fn read_port(text: &str) -> Result<u16, &'static str> {
    text.parse().ok().filter(|port| *port != 0).ok_or("use a port from 1 to 65535")
}

fn read_parity(text: &str) -> Result<f64, String> {
    let Ratio(share) = text.parse::<Ratio>().map_err(|error| error.to_string())?;
    Ok(share)
}

fn read_members(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|members| *members <= MOST_MEMBERS).ok_or(format!("use 0 to {MOST_MEMBERS}"))
}

const RELIABILITIES: &[(&str, Reliability)] =
    &[("deadline", Reliability::Deadline), ("full", Reliability::Full), ("none", Reliability::None)];
const SERVICES: &[(&str, Service)] = &[("stream", Service::Stream), ("datagram", Service::Datagram)];
const FLOWS: &[(&str, Flow)] = &[("on", Flow::Window), ("reserved", Flow::Reserved), ("off", Flow::Off)];

fn read_acks(text: &str) -> Result<Acks, String> {
    match text {
        "all" => return Ok(Acks::Every(1)),
        "never" => return Ok(Acks::Never),
        "gap" => return Ok(Acks::OnGap),
        _ => {}
    }
    if let Ok(packets) = text.parse::<u32>() {
        let fits = (1..=MOST_PACKETS).contains(&packets);
        return fits
            .then_some(Acks::Every(packets))
            .ok_or_else(|| format!("use 1 to {MOST_PACKETS} packets"));
    }
    let Ok(interval) = parse_duration(text) else {
        return Err(unknown(
            text,
            &["all", "never", "gap", "a number of packets", "an interval such as 10ms"],
        ));
    };
    if interval < LEAST_INTERVAL || interval > MOST_INTERVAL {
        return Err(format!("use {LEAST_INTERVAL:?} to {MOST_INTERVAL:?}"));
    }
    Ok(Acks::Interval(interval))
}

fn read_traffic(query: &Query, max_data: usize) -> Result<Traffic, UriError> {
    let read = |key| query.read(key, rate);
    let (out_rate, in_rate) = (read("out-rate")?.unwrap_or(0), read("in-rate")?.unwrap_or(0));
    if out_rate == 0 && in_rate == 0 {
        refuse(query, &["burst"], "needs a rate: add out-rate=2Mbit/s or in-rate=2Mbit/s")?;
    }
    let burst = query.read("burst", |text| {
        let bytes = text.parse::<ByteCount>().map_err(|error| error.to_string())?.0;
        let least = LEAST_BURST as u64;
        u32::try_from(bytes)
            .ok()
            .filter(|bytes| u64::from(*bytes) >= least)
            .ok_or(format!("use {least}B to 4GB"))
    })?;
    // A burst of two packets unless set: the first leaves at once, the second without waiting for a wake-up.
    let burst = burst.unwrap_or(2 * LEAST_BURST);
    let of = |rate: u32| if rate == 0 { 0 } else { burst };
    Ok(Traffic {
        max_data: max_data as u32,
        in_rate,
        in_burst: of(in_rate),
        out_rate,
        out_burst: of(out_rate),
    })
}

/// A rate in bytes per second.
fn rate(text: &str) -> Result<u32, String> {
    let bits = text.parse::<BitRate>().map_err(|error| error.to_string())?.0;
    u32::try_from(bits / 8).ok().filter(|bytes| *bytes >= LEAST_RATE).ok_or("use 8kbit/s to 34Gbit/s".into())
}

/// The port of `reflect` and of URIs without one; XTP has no registered port.
pub(super) const DEFAULT_PORT: u16 = 5004;
/// Most packets for which one acknowledgement is asked.
const MOST_PACKETS: u32 = 1024;
const LEAST_INTERVAL: Duration = Duration::from_millis(1);
const MOST_INTERVAL: Duration = Duration::from_secs(1);
/// A quarter of the time after which a silent peer counts as gone.
const MOST_WTIMER: Duration = Duration::from_secs(10);
/// The least burst: a packet of an Ethernet path.
const LEAST_BURST: u32 = 1500;
/// The least rate, in bytes per second: a packet takes a second and a half.
const LEAST_RATE: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        read(&text.parse().expect("a query"), 1400, false).map_err(|error| error.to_string())
    }

    fn of_group(text: &str) -> Result<Settings, String> {
        read(&text.parse().expect("a query"), 1400, true).map_err(|error| error.to_string())
    }

    #[test]
    fn acknowledgement_policies_are_read() {
        let acks = |text| settings(text).map(|settings| (settings.acks, settings.reliability, settings.flow));
        let window = Flow::Window;
        assert_eq!(acks(""), Ok((Acks::Every(1), Reliability::Deadline, window)));
        assert_eq!(acks("acks=all&reliability=full"), Ok((Acks::Every(1), Reliability::Full, window)));
        assert_eq!(acks("acks=never"), Ok((Acks::Never, Reliability::None, Flow::Off)));
        assert_eq!(acks("acks=gap"), Ok((Acks::OnGap, Reliability::Deadline, window)));
        assert_eq!(acks("acks=7"), Ok((Acks::Every(7), Reliability::Deadline, window)));
        assert_eq!(
            acks("acks=20ms&reliability=none"),
            Ok((Acks::Interval(Duration::from_millis(20)), Reliability::None, window))
        );
    }

    #[test]
    fn rates_are_in_bytes_and_bursts_hold_a_packet() {
        let traffic = |text| settings(text).map(|settings| settings.traffic);
        let none = Traffic { max_data: 1400, ..Traffic::default() };
        assert_eq!(traffic(""), Ok(none));
        assert_eq!(traffic("out-rate=1Mbit/s"), Ok(Traffic { out_rate: 125_000, out_burst: 3000, ..none }));
        let both = Traffic { out_rate: 125_000, out_burst: 6000, in_rate: 250_000, in_burst: 6000, ..none };
        assert_eq!(traffic("out-rate=1Mbit/s&in-rate=2Mbit/s&burst=6kB"), Ok(both));
    }

    #[test]
    fn refusals_name_the_remedy() {
        for (text, remedy) in [
            ("acks=al", "did you mean 'all'"),
            ("acks=0", "use 1 to 1024 packets"),
            ("acks=5s", "1s"),
            ("acks=never&reliability=full", "acks=gap"),
            ("acks=never&flow=on", "flow=off"),
            ("reliability=ful", "did you mean 'full'"),
            ("burst=3kB", "out-rate=2Mbit/s"),
            ("out-rate=1Mbit/s&burst=100B", "1500B"),
            ("out-rate=1kbit/s", "8kbit/s"),
            ("xtp-port=0", "1 to 65535"),
            ("wtimer=11s", "0ms to 10s"),
            ("order=orderd", "did you mean 'ordered'"),
            ("wtimer=1h", "use 0ms to"),
            ("members=2", "239.1.2.3"),
            ("parity=10%25", "239.1.2.3"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
        for (text, remedy) in [
            ("members=1001", "0 to 1000"),
            ("parity=101%25", "0% to 100%"),
            ("flow=on", "leave it out"),
            ("wtimer=500ms", "leave it out"),
            ("acks=gap", "acks=never"),
            ("acks=4", "acks=never"),
            ("acks=10ms", "acks=never"),
            ("acks=never&reliability=full", "acks=all"),
        ] {
            let error = of_group(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
        assert_eq!(of_group("acks=all&members=2").map(|settings| settings.wait_for), Ok(2));
    }
}
