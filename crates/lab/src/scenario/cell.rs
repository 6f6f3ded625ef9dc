//! 802.11 cells.

use std::time::Duration;

use antiphon_core::{BitRate, Ratio};
use antiphon_link::wlan::{
    Access, AccessMode, Category, CellSpec, DozeAgain, Fade, MAX_RETRY_LIMIT, Phy, PowerSave, Preamble, Rate,
    RateControl, Scan, StationId, StationSpec,
};

use super::build::Nodes;
use super::error::{Read, did_you_mean};
use super::read::{Section, Value};
use crate::setup::{MediumKind, NodeId};

/// `[cell.NAME]`: settings of all stations, and `[cell.NAME.station.NODE]`: settings of one.
///
/// An access point is the first of the stations. Frame errors and fading of the whole cell concern the others, as a
/// frame fails at either end, and so do absences.
pub(super) fn cell(section: &Section<'_>, nodes: &Nodes) -> Read<MediumKind> {
    let access_point = section.find("access-point")?;
    let access_point =
        access_point.map(|value| nodes.find(value.text("\"NODE\"")?, value.span())).transpose()?;
    let mut stations: Vec<NodeId> = access_point.into_iter().collect();
    let named = nodes.several(section, "stations")?;
    stations.extend(named.into_iter().filter(|node| Some(*node) != access_point));
    let phy = phy(section)?;
    let common = station(section, StationSpec::default())?;
    let mut specs = vec![common; stations.len()];
    if access_point.is_some() {
        (specs[0].frame_error, specs[0].fade) = (Ratio(0.0), None);
        (specs[0].scan, specs[0].power_save) = (None, None);
    }
    overrides(section, nodes, &stations, |place, inner| {
        specs[place] = station(inner, specs[place])?;
        Ok(())
    })?;
    let spec = CellSpec { phy, stations: specs, access_point: access_point.map(|_| StationId(0)) };
    spec.validate()
        .map_err(|why| section.fault(format!("{why}; the stations are {}", list(&stations, nodes))))?;
    Ok(MediumKind::Cell { nodes: stations, spec })
}

fn list(stations: &[NodeId], nodes: &Nodes) -> String {
    let names: Vec<String> =
        stations.iter().take(12).enumerate().map(|(n, node)| format!("{n} {}", nodes.name(*node))).collect();
    names.join(", ")
}

/// The tables `station.NODE`, each passed on with the station's index.
pub(super) fn overrides(
    section: &Section<'_>,
    nodes: &Nodes,
    stations: &[NodeId],
    mut change: impl FnMut(usize, &Section<'_>) -> Read<()>,
) -> Read<()> {
    let Some(all) = section.sub("station")? else { return Ok(()) };
    for (name, inner) in all.sections()? {
        let unknown = || {
            let near = did_you_mean(name, stations.iter().map(|node| nodes.name(*node)));
            let list = list(stations, nodes);
            inner.fault(format!("'{name}' is not a station of [{}]{near} {list}", section.place))
        };
        let named = nodes.named(name, &inner.span).map_err(|_| unknown())?;
        section.context.each(named.map(NodeId), |id| {
            let place = stations.iter().position(|node| *node == id).ok_or_else(unknown)?;
            change(place, &inner)
        })?;
        inner.finish()?;
    }
    Ok(())
}

fn phy(section: &Section<'_>) -> Read<Phy> {
    let mut phy = Phy::COMPATIBLE;
    section.set("slot", &mut phy.slot, |value| {
        value.duration(Duration::from_micros(1)..=Duration::from_millis(1))
    })?;
    section.set("preamble", &mut phy.preamble, |value| {
        value.choice(&[("long", Preamble::Long), ("short", Preamble::Short)])
    })?;
    section.set("multicast-rate", &mut phy.multicast_rate, rate)?;
    Ok(phy)
}

fn rate(value: &Value<'_>) -> Read<Rate> {
    let bits: BitRate = value.parse()?;
    Rate::of(bits).ok_or_else(|| {
        let known: Vec<String> = Rate::ALL.map(|rate| rate.bit_rate().to_string()).to_vec();
        value.fault(format!("802.11g has no {bits}; it has {}", known.join(", ")))
    })
}

/// A station's settings, over its previous ones.
fn station(section: &Section<'_>, before: StationSpec) -> Read<StationSpec> {
    let mut station = before;
    section.set("rate", &mut station.rate, rate)?;
    section.set("rate-control", &mut station.rate_control, |value| {
        value.choice(&[
            ("fixed", RateControl::Fixed),
            ("arf", RateControl::Arf),
            ("minstrel", RateControl::Minstrel),
        ])
    })?;
    section.set("lowest-rate", &mut station.lowest_rate, rate)?;
    section.set("retry-limit", &mut station.retry_limit, |value| {
        Ok(value.whole(0..=MAX_RETRY_LIMIT.into())? as u8)
    })?;
    section.set("queue", &mut station.queue, packets)?;
    section.set("frame-error", &mut station.frame_error, Value::parse)?;
    section.set("frame-error-spread", &mut station.frame_error_spread, |value| {
        value.quantity(|text| match text.trim().parse::<f64>() {
            Ok(factor) if (1.0..=10.0).contains(&factor) => Ok(factor),
            _ => Err(format!("'{text}' is no factor: write one from 1 to 10, such as \"2\"")),
        })
    })?;
    if let Some(inner) = section.sub("fade")? {
        let mean =
            inner.need("mean", "\"50ms\"")?.duration(Duration::from_micros(100)..=Duration::from_secs(60))?;
        let share = inner.need("share", "\"1%\"")?;
        let fade = Fade { mean, share: share.parse()? };
        if fade.share.0 >= 1.0 {
            return Err(share.fault("a station is not in outage all the time: less than 100%"));
        }
        station.fade = (fade.share.0 > 0.0).then_some(fade);
        inner.finish()?;
    }
    if let Some(inner) = section.sub("scan")? {
        let time = |key, example| {
            inner.need(key, example)?.duration(Duration::from_millis(1)..=Duration::from_hours(24))
        };
        station.scan =
            Some(Scan { length: time("length", "\"204.8ms\"")?, every: time("every", "\"300s\"")? });
        inner.finish()?;
    }
    if let Some(inner) = section.sub("power-save")? {
        let time = |key, example, least| inner.need(key, example)?.duration(least..=Duration::from_secs(60));
        let listen = time("listen", "\"204.8ms\"", Duration::from_millis(1))?;
        let hold = time("hold", "\"10ms\"", Duration::ZERO)?;
        station.power_save = Some(PowerSave { listen, hold, again: doze_again(&inner)? });
        inner.finish()?;
    }
    station.access = access(section, before.access)?;
    Ok(station)
}

/// `idle` and `beacon-loss`: a client that dozes again.
fn doze_again(section: &Section<'_>) -> Read<Option<DozeAgain>> {
    let Some(idle) = section.find("idle")? else {
        return match section.find("beacon-loss")? {
            Some(value) => Err(value
                .fault("only a client that dozes again misses beacons: set idle as well, such as \"60ms\"")),
            None => Ok(None),
        };
    };
    let idle = idle.duration(Duration::from_millis(1)..=Duration::from_secs(60))?;
    let mut beacon_loss = Ratio(0.0);
    if let Some(value) = section.find("beacon-loss")? {
        beacon_loss = value.parse()?;
        if beacon_loss.0 >= 1.0 {
            return Err(value.fault("a client that receives no beacon never comes back: less than 100%"));
        }
    }
    Ok(Some(DozeAgain { idle, beacon_loss }))
}

/// A queue of a station: `100packets`.
pub(super) fn packets(value: &Value<'_>) -> Read<u32> {
    let count = value.quantity(|text| {
        let number = text.trim().strip_suffix("packets").or_else(|| text.trim().strip_suffix("packet"));
        match number.and_then(|number| number.trim().parse::<u32>().ok()) {
            Some(count) => Ok(count),
            None => {
                Err(format!("'{text}' needs a whole number and a unit: write a queue such as \"100packets\""))
            }
        }
    })?;
    match count {
        1..=32_768 => Ok(count),
        _ => Err(value.fault(format!("a queue of {count} packets is impossible here: 1 to 32768 packets"))),
    }
}

/// DCF and its contention window, or EDCA and those of its categories.
fn access(section: &Section<'_>, before: AccessMode) -> Read<AccessMode> {
    let mut access = before;
    section.set("access", &mut access, |value| {
        let edca = value.choice(&[("dcf", false), ("edca", true)])?;
        Ok(match (edca, before) {
            (false, AccessMode::Edca(_)) => AccessMode::Dcf(Access::DCF),
            (true, AccessMode::Dcf(_)) => AccessMode::Edca(Access::EDCA),
            _ => before,
        })
    })?;
    match &mut access {
        AccessMode::Dcf(dcf) => contention(section, dcf)?,
        AccessMode::Edca(categories) => {
            for (category, access) in Category::ALL.into_iter().zip(categories) {
                if let Some(inner) = section.sub(category.name())? {
                    contention(&inner, access)?;
                    inner.finish()?;
                }
            }
        }
    }
    Ok(access)
}

fn contention(section: &Section<'_>, access: &mut Access) -> Read<()> {
    section.set("aifsn", &mut access.aifsn, |value| value.whole32(1..=15))?;
    section.set("cw-min", &mut access.cw_min, |value| value.whole32(0..=32_767))?;
    section.set("cw-max", &mut access.cw_max, |value| value.whole32(0..=32_767))?;
    section.set("txop", &mut access.txop, |value| value.duration(Duration::ZERO..=Duration::from_millis(10)))
}
