//! Which sound a packet carries, and whose: from its in-band header, a description, or its payload type.

use antiphon_media::packet::{DYNAMIC_PAYLOAD_TYPE, RtpView, static_format};
use antiphon_media::{ChannelGroups, Coding, Origin, StreamDescription, StreamFormat};

/// Which part of which sender's sound a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub origin: Origin,
    pub groups: ChannelGroups,
    /// Format of all groups together.
    pub format: StreamFormat,
    pub coding: Coding,
}

impl Part {
    /// All of a stream that is not divided.
    fn whole(ssrc: u32, format: StreamFormat, coding: Coding) -> Self {
        let groups = ChannelGroups::whole(format.channels());
        Part { origin: Origin::undivided(ssrc), groups, format, coding }
    }

    /// Sample frames in a packet; 0 if it is broken.
    pub fn frames_in(&self, view: &RtpView<'_>) -> usize {
        let channels = self.groups.range(self.origin.group).map_or(1, |channels| channels.len());
        self.coding.frames(view.payload, channels).unwrap_or(0)
    }

    /// Part of a divided stream, as the packet itself says; `None` if it says nothing valid about groups.
    fn in_band(view: &RtpView<'_>) -> Option<Self> {
        let (group, told) = (view.group?, view.format?);
        let index = usize::from(group.index);
        let fits = group.groups.range(index)?.len() == told.format.channels();
        // The first group's SSRC names the sender, and belongs to that group alone.
        if !fits || (index == 0) != (group.sender == view.ssrc) || group.groups.count() == 1 {
            return None;
        }
        let of = |channels: usize| StreamFormat::new(told.format.rate(), channels as u32).ok();
        let format = of(group.groups.channels())?;
        // What one group may have, another may not.
        let carried = |len: usize| of(len).is_some_and(|format| told.coding.check(format).is_ok());
        if !group.groups.ranges().all(|range| carried(range.len())) {
            return None;
        }
        let (sender, groups) = (group.sender, group.groups);
        let origin = Origin { ssrc: view.ssrc, sender, group: index, groups: groups.count() };
        Some(Part { origin, groups, format, coding: told.coding })
    }
}

/// Where the format of packets comes from.
pub(crate) struct Formats {
    /// Payload type and format as SDP or a flag gave them.
    described: Option<(u8, StreamFormat, Coding)>,
    /// Whether that format holds under every dynamic payload type.
    any_payload_type: bool,
    /// Whether there is a description, even if only of a part.
    is_described: bool,
    /// The format that a sender told in band, so that its further packets are understood.
    told: Option<Part>,
}

impl Formats {
    pub fn new(description: Option<&StreamDescription>, any_payload_type: bool) -> Self {
        // The description of one group would present a part as the whole.
        let whole = description.filter(|described| !described.is_part);
        Formats {
            described: whole.map(|d| (d.payload_type, d.format, d.coding)),
            any_payload_type,
            is_described: description.is_some(),
            told: None,
        }
    }

    /// Whether nothing but the payload type indicates this packet's format. A stray datagram may have one, too, and the sink
    /// is opened only once, so a second packet has to confirm it.
    pub fn has_only_payload_type(&self, view: &RtpView<'_>) -> bool {
        view.format.is_none() && !self.is_described && self.told.is_none()
    }

    /// What the packet's sound is: as told by SDP or a flag, in band, or by a static payload type. What the packet says of
    /// channel groups comes first: SDP and flags describe a group. `known`: what its SSRC is in the stream that is followed.
    pub fn part_of(&mut self, view: &RtpView<'_>, known: Option<Part>) -> Option<Part> {
        if let Some(part) = Part::in_band(view) {
            self.told = Some(part);
            return Some(part);
        }
        let told = self.told.filter(|told| told.origin.ssrc == view.ssrc);
        let of_a_group = known.into_iter().chain(told).find(|part| part.groups.count() > 1);
        if of_a_group.is_some() {
            return of_a_group;
        }
        let whole = |(_, format, coding)| Part::whole(view.ssrc, format, coding);
        if let Some(described) =
            self.described.filter(|(payload_type, ..)| *payload_type == view.payload_type)
        {
            return Some(whole(described));
        }
        if let Some(in_band) = view.format {
            // Not every packet carries the format, but a new sender must show two packets in a row.
            self.told = Some(Part::whole(view.ssrc, in_band.format, in_band.coding));
            return self.told;
        }
        let any = self.any_payload_type && view.payload_type >= DYNAMIC_PAYLOAD_TYPE;
        let fixed = || static_format(view.payload_type);
        told.or(known)
            .or_else(|| fixed().map(|(sample, format)| Part::whole(view.ssrc, format, sample.into())))
            .or_else(|| self.described.filter(|_| any).map(whole))
    }
}
