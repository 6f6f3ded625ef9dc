//! FDDI rings.

use std::time::Duration;

use antiphon_link::{Ring, RingSpec, StationSpec};

use super::build::Nodes;
use super::cell::{overrides, packets};
use super::error::Read;
use super::read::Section;
use crate::setup::MediumKind;

/// `[ring.NAME]`, and `[ring.NAME.station.NODE]`: settings of one station.
pub(super) fn ring(section: &Section<'_>, nodes: &Nodes) -> Read<MediumKind> {
    let joined = nodes.several(section, "stations")?;
    let ttrt =
        section.need("ttrt", "\"8ms\"")?.duration(Duration::from_millis(4)..=Duration::from_millis(165))?;
    let common = station(section, StationSpec::default())?;
    let mut stations = vec![common; joined.len()];
    overrides(section, nodes, &joined, |place, inner| {
        stations[place] = station(inner, stations[place])?;
        Ok(())
    })?;
    let spec = RingSpec { ttrt, stations };
    Ring::<Vec<u8>>::new(&spec).map_err(|why| section.fault(why.to_string()))?;
    Ok(MediumKind::Ring { nodes: joined, spec })
}

fn station(section: &Section<'_>, before: StationSpec) -> Read<StationSpec> {
    let mut station = before;
    section.set("hop", &mut station.hop, |value| {
        value.duration(Duration::from_nanos(10)..=Duration::from_millis(1))
    })?;
    section.set("synchronous", &mut station.synchronous, |value| {
        Ok(match value.text("\"2ms\", or \"unbounded\"")? {
            "unbounded" => None,
            _ => Some(value.duration(Duration::ZERO..=Duration::from_millis(165))?),
        })
    })?;
    section.set("frames-per-token", &mut station.frames_per_token, |value| {
        Ok(Some(value.whole32(1..=1_000_000)?))
    })?;
    section.set("queue", &mut station.queue, packets)?;
    Ok(station)
}
