//! Channel groups, as options and in status reports.

use std::ops::Range;

use antiphon_media::packet::DYNAMIC_PAYLOAD_TYPE;
use antiphon_media::{ChannelGroups, StreamFormat};

use crate::{Error, SendOptions};

/// Figures of a channel group being sent.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct SendGroup {
    /// Its first and last channel, counted from 1: `3-4`.
    pub channels: String,
    /// Loss according to the receiver's reports, in percent of the last interval.
    pub remote_loss_percent: Option<f64>,
    /// Packets lost since the beginning, according to the receiver's reports.
    pub remote_lost: Option<i32>,
}

/// Figures of a channel group being received.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ReceiveGroup {
    /// Its first and last channel, counted from 1: `3-4`.
    pub channels: String,
    /// Packets that never came although later ones were played.
    pub lost: u64,
    /// Packets after their deadline.
    pub late: u64,
    /// Holes filled by concealment.
    pub concealed: u64,
}

/// The channel groups asked for, or one of all channels.
pub(crate) fn read_groups(
    asked: Option<&str>,
    format: StreamFormat,
    options: &SendOptions,
) -> Result<ChannelGroups, Error> {
    let Some(text) = asked else { return Ok(ChannelGroups::whole(format.channels())) };
    let refuse = |why: String| Err(Error::usage(why));
    let groups =
        ChannelGroups::parse(format.channels(), text).map_err(|error| Error::usage(error.to_string()))?;
    if groups.count() > 1 {
        if options.passport.is_some() {
            return refuse("a passport records one RTP stream: omit --groups or --passport".into());
        }
        if let Some(static_type) = options.payload_type.filter(|number| *number < DYNAMIC_PAYLOAD_TYPE) {
            return refuse(format!(
                "payload type {static_type} can't be that of channel groups: use 96 to 127"
            ));
        }
    }
    Ok(groups)
}

/// First and last channel of a group, counted from 1: `3-4`, or `5` alone.
pub(crate) fn channels_label(channels: &Range<usize>) -> String {
    match channels.len() {
        1 => channels.end.to_string(),
        _ => format!("{}-{}", channels.start + 1, channels.end),
    }
}

/// The most channel groups: as many as a stream may have channels.
pub(crate) const MOST_GROUPS: usize = 64;
