//! What a server tells of the time that sound takes in it and its device.

use antiphon_media::StreamFormat;
use pulseaudio::protocol::{MAX_VERSION, TagStructReader};

use super::stream::frame_bytes;
use crate::device::Direction;

/// Microseconds from writing a sample to its playing, or from its capture to its being sent, as the answer to
/// `GetPlaybackLatency` or `GetRecordLatency` tells them; `None` if it is no such answer.
///
/// Not read by the crate's `PlaybackLatency`: that makes a `Duration` of the times of day in the answer, and panics if they
/// are none.
pub(super) fn latency(answer: &[u8], direction: Direction, format: StreamFormat) -> Option<u32> {
    let mut rest = answer;
    let (sink, source) = {
        let mut reader = TagStructReader::new(&mut rest, MAX_VERSION);
        let times = (reader.read_usec().ok()?, reader.read_usec().ok()?);
        let _plays = reader.read_bool().ok()?;
        times
    };
    // Two times of day, each a tag and two words.
    rest = rest.get(2 * 9..)?;
    let mut reader = TagStructReader::new(&mut rest, MAX_VERSION);
    let (written, read) = (reader.read_i64().ok()?, reader.read_i64().ok()?);
    let waiting = u64::try_from(written.checked_sub(read)?).unwrap_or(0) / frame_bytes(format) as u64;
    let device = match direction {
        Direction::Out => sink,
        Direction::In => source,
    };
    let waiting = waiting.saturating_mul(1_000_000) / u64::from(format.rate());
    // More than ten seconds is no latency.
    u32::try_from(device.saturating_add(waiting)).ok().filter(|micros| *micros < 10_000_000)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use pulseaudio::protocol::{PlaybackLatency, TagStructWriter};

    use super::*;

    fn answer(read_offset: i64) -> Vec<u8> {
        let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let told = PlaybackLatency {
            sink_usec: 7_000,
            source_usec: 3_000,
            playing: true,
            local_time: time,
            remote_time: time,
            write_offset: 8 * 4_800,
            read_offset,
            underrun_for: 0,
            playing_for: 0,
        };
        let mut bytes = Vec::new();
        TagStructWriter::new(&mut bytes, MAX_VERSION).write(told).unwrap();
        bytes
    }

    #[test]
    fn what_waits_and_what_the_device_holds_are_added() {
        let format = StreamFormat::new(48_000, 2).unwrap();
        let of = |direction, read| latency(&answer(read), direction, format);
        assert_eq!(of(Direction::Out, 8 * 4_320), Some(17_000));
        assert_eq!(of(Direction::In, 8 * 4_800), Some(3_000));
        assert_eq!(of(Direction::Out, 8 * 5_000), Some(7_000), "it has read ahead");
        assert_eq!(of(Direction::Out, i64::MIN), None);
        assert_eq!(latency(&answer(0)[..30], Direction::Out, format), None);
        // A time of day of more than a million microseconds.
        let mut strange = answer(8 * 4_320);
        strange[2 * 9 + 1..2 * 9 + 1 + 18].fill(0xff);
        assert_eq!(latency(&strange, Direction::Out, format), Some(17_000));
    }
}
