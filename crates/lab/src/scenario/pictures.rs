//! Pictures beside the sound of a stream.

use std::time::Duration;

use antiphon_measure::VideoLayout;
use antiphon_media::packet::VIDEO_HEADER;

use super::error::{Read, clip};
use super::load::{bytes, start};
use super::read::Section;
use super::stream::{INTERVALS, MAX_VIDEO_FRAME, MAX_VIDEO_FRAMES};
use crate::setup::{PicturesSpec, StreamSpec};

/// `[stream.NAME.pictures]`, in packets of at most `longest` bytes.
pub(super) fn pictures(
    stream: &Section<'_>,
    longest: usize,
    duration: Duration,
) -> Read<Option<PicturesSpec>> {
    let Some(section) = stream.sub("pictures")? else { return Ok(None) };
    let name = section.need("name", "\"video\"")?.text("\"video\"")?.into();
    let frame = bytes(&section.need("frame", "\"12kB\"")?, MAX_VIDEO_FRAME)?;
    let packet = bytes(&section.need("packet", "\"1200B\"")?, longest - VIDEO_HEADER)?;
    let interval = section.need("interval", "\"40ms\"")?.duration(INTERVALS)?;
    let count = section.need("count", "200")?.whole(1..=MAX_VIDEO_FRAMES)?;
    let layout = VideoLayout { frame, packet, interval, count };
    let start = start(&section, duration)?;
    section.finish()?;
    Ok(Some(PicturesSpec { name, start, layout }))
}

/// Refuses pictures whose figures would have the name of others.
pub(super) fn unique(top: &Section<'_>, streams: &[StreamSpec]) -> Read<()> {
    for (index, stream) in streams.iter().enumerate() {
        let Some(PicturesSpec { name, .. }) = &stream.pictures else { continue };
        let before = streams[..index].iter().filter_map(|other| other.pictures.as_ref());
        if streams.iter().any(|other| other.name == *name)
            || before.into_iter().any(|other| other.name == *name)
        {
            return Err(top.fault(format!(
                "the pictures of [stream.{}] are named '{}', as another stream is: choose another name",
                clip(&stream.name),
                clip(name)
            )));
        }
    }
    Ok(())
}
