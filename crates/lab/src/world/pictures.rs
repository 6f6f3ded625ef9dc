//! Pictures beside the sound of a session: a source and a sink of the real video track, and the real congestion manager, which shares
//! out what the path carries.
//!
//! A packet holds its number instead of a picture, so that the receiver's end knows what came of each. What the sender leaves out it tells in
//! its own counters.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use antiphon_core::{Epoch, Instant};
use antiphon_measure::{Fate, SentFrame, VideoLayout, add_video, percent};
use antiphon_media::packet::{EncodingName, VIDEO_HEADER};
use antiphon_session::{
    Session, SharedPath, VideoArrived, VideoPayload, VideoSink, VideoSource, VideoTrack, VideoTrackConfig,
    VideoTrackCounters, VideoWay,
};

use super::streams::StreamBuilder;
use crate::figures::{Course, StreamFigures};
use crate::setup::PicturesSpec;

/// Bytes of the number that a packet holds.
pub const PICTURE_NUMBER: usize = 8;

/// Sends pictures beside the sound of `session`, whose send track is set.
pub fn send(builder: &StreamBuilder<'_>, session: &mut Session, spec: &PicturesSpec) {
    let track = session.send_track();
    let streams = track.map_or(0, |track| track.ssrcs().count()) + 1;
    let config = VideoTrackConfig {
        encoding: EncodingName::new("H264").expect("it is a short word"),
        payload_type: PAYLOAD_TYPE,
        sound: track.map_or(0, |track| track.packetiser().ssrc()),
        epoch: Epoch::default(),
        seed: builder.fork("pictures"),
        max_packet: spec.layout.packet + VIDEO_HEADER,
    };
    let camera = Camera {
        layout: within(builder, spec),
        start: spec.start,
        next: (0, 0),
        bytes: vec![0; spec.layout.packet],
    };
    session.set_congestion_manager(Box::new(SharedPath::new(streams)));
    session.add_video_track(VideoTrack::new(Box::new(camera), config));
}

/// The pictures that are due before the end of sending.
fn within(builder: &StreamBuilder<'_>, spec: &PicturesSpec) -> VideoLayout {
    let time = builder.until.since(builder.start + spec.start).as_nanos();
    let most = time.div_ceil(spec.layout.interval.as_nanos().max(1));
    VideoLayout { count: spec.layout.count.min(u64::try_from(most).unwrap_or(u64::MAX)), ..spec.layout }
}

/// When a picture is due, after the first one.
fn due(layout: &VideoLayout, unit: u64) -> Duration {
    let nanos = layout.interval.as_nanos().saturating_mul(u128::from(unit));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Pictures of one size at regular intervals, each to be shown by itself.
struct Camera {
    layout: VideoLayout,
    start: Duration,
    /// The next picture, and its next packet.
    next: (u64, u64),
    bytes: Vec<u8>,
}

impl VideoSource for Camera {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        let (unit, part) = self.next;
        if unit == self.layout.count {
            return None;
        }
        let packets = self.layout.packets();
        self.bytes[..PICTURE_NUMBER].copy_from_slice(&(unit * packets + part).to_be_bytes());
        let due = self.start + due(&self.layout, unit);
        Some(VideoPayload {
            unit,
            part: (part as u32, packets as u32),
            due,
            shown: due,
            is_key: true,
            is_needed: true,
            layer: 0,
            bytes: &self.bytes[..self.layout.bytes_of(part)],
        })
    }

    fn take(&mut self) {
        let (unit, part) = self.next;
        self.next = if part + 1 == self.layout.packets() { (unit + 1, 0) } else { (unit, part + 1) };
    }

    fn is_ended(&mut self) -> bool {
        self.next.0 == self.layout.count
    }

    fn on_way(&mut self, _way: VideoWay) {}
}

/// Where pictures are shown.
#[derive(Debug)]
pub struct Screen {
    name: String,
    layout: VideoLayout,
    /// When the first picture was due.
    begin: Instant,
    came: Arc<Mutex<Came>>,
}

/// The packets that came. A sink belongs to a thread of its own elsewhere, so that it can't share a plain cell.
#[derive(Debug)]
struct Came {
    /// The number of each, and when it came first.
    first: Vec<(u64, Instant)>,
    /// Of each number whether it came.
    has: Vec<bool>,
    duplicates: u64,
}

struct Sink(Arc<Mutex<Came>>);

impl VideoSink for Sink {
    fn on_packet(&mut self, packet: &VideoArrived<'_>) {
        let Some(number) = packet.payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)) else {
            return;
        };
        let mut came = lock(&self.0);
        let Some(has) = usize::try_from(number).ok().and_then(|number| came.has.get_mut(number)) else {
            return;
        };
        if std::mem::replace(has, true) {
            came.duplicates += 1;
        } else {
            came.first.push((number, packet.at));
        }
    }
}

fn lock(came: &Mutex<Came>) -> MutexGuard<'_, Came> {
    // Nothing that holds it can panic half way.
    came.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Screen {
    /// A screen for all that the sender of `builder` sends.
    pub fn new(builder: &StreamBuilder<'_>, spec: &PicturesSpec) -> Self {
        let layout = within(builder, spec);
        let packets = (layout.count * layout.packets()) as usize;
        let came = Came { first: Vec::with_capacity(packets), has: vec![false; packets], duplicates: 0 };
        Screen {
            name: spec.name.clone(),
            layout,
            begin: builder.start + spec.start,
            came: Arc::new(Mutex::new(came)),
        }
    }

    /// The session's end of it.
    pub fn sink(&self) -> Box<dyn VideoSink> {
        Box::new(Sink(Arc::clone(&self.came)))
    }

    /// The name of its figures.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When packets arrived, and from when to when pictures were sent.
    pub fn times(&self) -> (Vec<Instant>, Range<Instant>) {
        let times = lock(&self.came).first.iter().map(|(_, at)| *at).collect();
        (times, self.begin..self.begin + due(&self.layout, self.layout.count))
    }

    /// What came of the pictures, of which the sender counts `sent`.
    pub fn figures(&self, sent: VideoTrackCounters) -> StreamFigures {
        let came = lock(&self.came);
        let (received, missing) =
            (came.first.len() as u64, sent.packets.saturating_sub(came.first.len() as u64));
        let given_up = sent.expired.min(missing);
        let mut figures = StreamFigures {
            sent: Some(sent.packets as f64),
            received: Some(received as f64),
            missing_percent: percent(missing, sent.packets),
            lost_percent: percent(missing - given_up, sent.packets),
            expired: Some(given_up as f64),
            refused: Some(sent.refused as f64),
            duplicate: Some(came.duplicates as f64),
            ..StreamFigures::default()
        };
        add_video(&mut figures, &self.layout, self.begin, &self.frames(), &came.first);
        // Those that were left out have numbers, too.
        figures.frames_sent = Some(sent.units as f64);
        figures
    }

    /// All pictures, also those that the sender left out.
    fn frames(&self) -> Vec<SentFrame> {
        let frame = |unit| SentFrame {
            due: self.begin + due(&self.layout, unit),
            first: unit * self.layout.packets(),
        };
        (0..self.layout.count).map(frame).collect()
    }

    /// The outcome of each packet, as if it was sent when its picture was due.
    pub fn course(&self) -> Course {
        let packets = self.layout.packets();
        let sent: Vec<Instant> = (0..self.layout.count * packets)
            .map(|number| self.begin + due(&self.layout, number / packets))
            .collect();
        let came = lock(&self.came).first.iter().map(|(number, at)| (*number as usize, *at)).collect();
        Course { fates: vec![Fate::Pending; sent.len()], sent, came, frames: self.frames() }
    }
}

/// The first dynamic one that the sound does not take (RFC 3551 §6).
const PAYLOAD_TYPE: u8 = 100;
