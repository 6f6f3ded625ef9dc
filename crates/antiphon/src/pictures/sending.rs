//! A video file, read and cut into payloads on a thread of its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use antiphon_core::{Profile, Wire};
use antiphon_media::packet::{EncodingName, ExtensionIds, VIDEO_HEADER};
use antiphon_session::{
    GroupPaths, Session, SharedPath, VideoPayload, VideoSource, VideoTrack, VideoTrackConfig, VideoWay,
};
use antiphon_video::{
    CLOCK_RATE, Clip, Frame, FrameCutter, FrameRate, OpenOptions, StreamInfo, UnknownClip, VideoDescription,
    VideoReader,
};
use rtrb::{Consumer, Producer, RingBuffer};

use super::versions::Versions;
use crate::Error;
use crate::run::spawn;
use crate::transport::unguessable;
use crate::trouble::ReadTrouble;

/// A video file that was found to be one. Its thread waits to be told how long payloads may be.
pub(crate) struct VideoFile {
    pub info: StreamInfo,
    /// Bytes a second of its beginning; `None` of what can't be read twice.
    rate: Option<f64>,
    begin: Sender<Order>,
    trouble: ReadTrouble,
}

/// How long packets of pictures may be beside sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketLength {
    /// In bytes.
    most: usize,
    /// How long one takes at the rate of the pictures: the sound waits behind it, and on a path that carries little more than these for as long.
    takes: Duration,
}

impl PacketLength {
    /// For packets of at most so many bytes, beside sound over an endpoint with this profile.
    pub fn beside(most: usize, sound: &Profile) -> Self {
        let is_repaired = sound.retransmits && sound.wire == Wire::Datagram;
        PacketLength { most, takes: if is_repaired { LONGEST_BESIDE_REPAIRS } else { LONGEST } }
    }

    /// In bytes, for pictures of so many bytes a second, if that is known.
    fn at_rate(self, rate: Option<f64>) -> usize {
        let short = rate.map(|rate| (rate * self.takes.as_secs_f64()) as usize);
        short.map_or(self.most, |short| short.max(SHORTEST_PACKET).min(self.most))
    }
}

struct Order {
    most: usize,
    length: Option<Duration>,
    seed: u64,
    units: Producer<Unit>,
    spent: Consumer<Unit>,
}

/// A frame that is cut.
#[derive(Default)]
struct Unit {
    number: u64,
    due: Duration,
    shown: Duration,
    is_key: bool,
    is_needed: bool,
    layer: u8,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl VideoFile {
    /// Opens it on the thread that will read it. `rate`: for raw streams, which hold no times.
    pub fn open(path: &Path, rate: Option<FrameRate>) -> Result<Self, Error> {
        let clip = bundled(path)?;
        let (told, opened) = mpsc::channel();
        let (begin, order) = mpsc::channel();
        let trouble = ReadTrouble::default();
        let (name, own, to) = (path.display().to_string(), path.to_owned(), trouble.clone());
        spawn("video-read", move || {
            let open = || {
                if let Some(clip) = clip {
                    return clip.open();
                }
                let file = File::open(&own).map_err(antiphon_video::VideoFileError::from)?;
                VideoReader::open(BufReader::new(file), OpenOptions { rate })
            };
            let is_file = clip.is_some() || std::fs::metadata(&own).is_ok_and(|data| data.is_file());
            let mean = is_file.then(|| open().ok().and_then(mean_rate)).flatten();
            match open() {
                Ok(reader) => {
                    let _asked = told.send(Ok((reader.info().clone(), mean)));
                    read(reader, &order, &to, &name);
                }
                Err(error) => {
                    let _asked = told.send(Err(Error::usage(format!("{name}: {error}"))));
                }
            }
        })?;
        let (info, rate) =
            opened.recv().map_err(|_| Error::failed("the thread that reads the video has ended"))??;
        Ok(VideoFile { info, rate, begin, trouble })
    }

    /// Opens the versions of one film, the lowest first.
    pub fn open_all(paths: &[PathBuf], rate: Option<FrameRate>) -> Result<Vec<Self>, Error> {
        let files: Result<Vec<Self>, Error> = paths.iter().map(|path| VideoFile::open(path, rate)).collect();
        let files = files?;
        let codecs = || files.iter().map(|file| file.info.codec);
        if let (Some(one), Some(path)) =
            (codecs().next(), codecs().position(|codec| Some(codec) != codecs().next()).map(|at| &paths[at]))
        {
            return Err(Error::usage(format!(
                "{}: versions of one film have one codec, and the first is {one}: convert it, or leave it out",
                path.display()
            )));
        }
        Ok(files)
    }

    /// Its codec and size, in words.
    pub fn describe(&self) -> String {
        let size =
            self.info.size.map_or_else(String::new, |size| format!(", {}×{}", size.width, size.height));
        format!("the pictures ({}{size})", self.info.codec)
    }

    /// What SDP tells other programs of it, in an RTP session of its own to this address.
    pub fn described(&self, to: SocketAddr) -> VideoDescription {
        let described = VideoDescription::of(&self.info);
        let ids = ExtensionIds::default();
        VideoDescription {
            payload_type: self.info.codec.static_payload_type().unwrap_or(PAYLOAD_TYPE),
            address: Some(to.ip()),
            port: Some(to.port()),
            marking: ids.marking,
            ntp: ids.ntp,
            // A group is sent nothing again for one of its members.
            feedback: !to.ip().is_multicast(),
            ..described
        }
    }

    /// Sends films beside the sound of a session, each the versions of one, in packets of at most this length, and as much of them as the
    /// path carries, of earlier ones first; no more than `length` of each. The lowest version comes first; none are no pictures.
    /// `described`: to other programs, as SDP tells them.
    pub fn send_with(
        films: Vec<Vec<Self>>,
        session: &mut Session,
        packets: PacketLength,
        how: (Option<Duration>, u64),
        described: Option<&VideoDescription>,
    ) -> Result<Vec<ReadTrouble>, Error> {
        let films: Vec<Vec<Self>> = films.into_iter().filter(|versions| !versions.is_empty()).collect();
        let streams = session.send_track().map_or(0, |track| track.ssrcs().count()) + films.len();
        // Other programs tell nothing of their paths.
        if !films.is_empty() && described.is_none() {
            session.set_congestion_manager(match session.is_group() {
                true => Box::new(GroupPaths::of_call(streams)),
                false => Box::new(SharedPath::new(streams)),
            });
        }
        let mut troubles = Vec::new();
        for versions in films {
            troubles.extend(Self::send_film(versions, session, packets, how, described)?);
        }
        Ok(troubles)
    }

    fn send_film(
        versions: Vec<Self>,
        session: &mut Session,
        packets: PacketLength,
        (length, seed): (Option<Duration>, u64),
        described: Option<&VideoDescription>,
    ) -> Result<Vec<ReadTrouble>, Error> {
        let Some(lowest) = versions.first() else { return Ok(Vec::new()) };
        let seed = seed ^ unguessable();
        let codec = lowest.info.codec;
        let max_packet = packets.at_rate(lowest.rate);
        let config = VideoTrackConfig {
            encoding: EncodingName::new(codec.encoding_name()).expect("it is a short word"),
            payload_type: described.map_or(PAYLOAD_TYPE, |described| described.payload_type),
            sound: session.send_track().map_or(0, |track| track.packetiser().ssrc()),
            epoch: session.epoch(),
            seed,
            max_packet,
        };
        let most = max_packet.saturating_sub(VIDEO_HEADER);
        let started: Result<Vec<_>, Error> =
            versions.into_iter().map(|version| version.start(most, (length, seed))).collect();
        let (mut sources, troubles): (Vec<_>, Vec<_>) = started?.into_iter().unzip();
        let source = match sources.len() {
            1 => sources.remove(0),
            _ => Box::new(Versions::new(sources)),
        };
        session.add_video_track(VideoTrack::new(source, config));
        Ok(troubles)
    }

    /// Reads and cuts it from now on, into payloads of at most so many bytes.
    fn start(
        self,
        most: usize,
        (length, seed): (Option<Duration>, u64),
    ) -> Result<(Box<dyn VideoSource>, ReadTrouble), Error> {
        if most < FrameCutter::LEAST {
            return Err(Error::usage(format!(
                "pictures need payloads of {} bytes, and packets here have room for {most}: use a larger MTU",
                FrameCutter::LEAST
            )));
        }
        let (units, ready) = RingBuffer::new(UNITS);
        let (give_back, spent) = RingBuffer::new(UNITS);
        self.begin
            .send(Order { most, length, seed, units, spent })
            .map_err(|_| Error::failed("the thread that reads the video has ended"))?;
        Ok((Box::new(Queue { ready, give_back, unit: None, part: 0 }), self.trouble))
    }
}

/// The bundled clip of a path that names one, such as `clip:h264-100`.
fn bundled(path: &Path) -> Result<Option<Clip>, Error> {
    let name = path.to_str().and_then(|text| text.strip_prefix("clip:"));
    name.map(|name| name.parse().map_err(|error: UnknownClip| Error::usage(error.to_string()))).transpose()
}

/// Bytes a second in the beginning of a file.
fn mean_rate(mut reader: VideoReader) -> Option<f64> {
    let (mut bytes, mut end) = (0, Duration::ZERO);
    while let Ok(Some(frame)) = reader.next_frame() {
        (bytes, end) = (bytes + frame.data.len(), end.max(shown(&frame)));
        if end >= BEGINNING {
            break;
        }
    }
    (end >= Duration::from_secs(1)).then(|| bytes as f64 / end.as_secs_f64())
}

/// The reading thread.
fn read(mut reader: VideoReader, order: &Receiver<Order>, trouble: &ReadTrouble, name: &str) {
    let Ok(Order { most, length, seed, mut units, mut spent }) = order.recv() else { return };
    let mut cutter = FrameCutter::new(reader.info().codec, seed);
    let (mut ahead, mut number, mut damaged) = (VecDeque::with_capacity(AHEAD), 0, 0u64);
    loop {
        while ahead.len() < AHEAD {
            match reader.next_frame() {
                Ok(Some(frame)) => ahead.push_back(frame),
                Ok(None) => break,
                // What came before is sent.
                Err(error) => {
                    trouble.set(format!("{name}: {error}"));
                    break;
                }
            }
        }
        // A frame that others need is sent before the first of them is shown.
        let Some(due) = ahead.iter().map(shown).min() else { break };
        let Some(frame) = ahead.pop_front() else { break };
        if length.is_some_and(|length| due >= length) {
            break;
        }
        // The first units are made here; later ones are used again.
        let mut unit = spent.pop().unwrap_or_default();
        if fill(&mut unit, &frame, (number, due), &mut cutter, most).is_none() {
            damaged += 1;
            continue;
        }
        number += 1;
        while let Err(rtrb::PushError::Full(full)) = units.push(unit) {
            if units.is_abandoned() {
                return;
            }
            unit = full;
            std::thread::park_timeout(REST);
        }
    }
    if damaged > 0 && trouble.note().is_none() {
        trouble.set(format!("{name}: {damaged} pictures are damaged, and were not sent"));
    }
}

fn fill(
    unit: &mut Unit,
    frame: &Frame,
    (number, due): (u64, Duration),
    cutter: &mut FrameCutter,
    most: usize,
) -> Option<()> {
    unit.bytes.clear();
    unit.ends.clear();
    for payload in cutter.cut(frame, most)? {
        unit.bytes.extend(payload);
        unit.ends.push(unit.bytes.len());
    }
    let picture = &frame.picture;
    (unit.number, unit.due, unit.shown) = (number, due, shown(frame));
    (unit.is_key, unit.is_needed, unit.layer) = (picture.key, !picture.droppable, picture.temporal_layer);
    Some(())
}

fn shown(frame: &Frame) -> Duration {
    debug_assert_eq!(frame.time.rate, CLOCK_RATE);
    frame.time.duration()
}

/// The media thread's end of the ring.
struct Queue {
    ready: Consumer<Unit>,
    give_back: Producer<Unit>,
    unit: Option<Unit>,
    part: usize,
}

impl VideoSource for Queue {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        if self.unit.is_none() {
            self.unit = self.ready.pop().ok();
        }
        let unit = self.unit.as_ref()?;
        let begin = self.part.checked_sub(1).map_or(0, |before| unit.ends[before]);
        Some(VideoPayload {
            unit: unit.number,
            part: (self.part as u32, unit.ends.len() as u32),
            due: unit.due,
            shown: unit.shown,
            is_key: unit.is_key,
            is_needed: unit.is_needed,
            layer: unit.layer,
            bytes: &unit.bytes[begin..unit.ends[self.part]],
        })
    }

    fn take(&mut self) {
        self.part += 1;
        if self.unit.as_ref().is_some_and(|unit| self.part >= unit.ends.len())
            && let Some(unit) = self.unit.take()
        {
            self.part = 0;
            // There is room for all units that there are.
            let _used_again = self.give_back.push(unit);
        }
    }

    fn is_ended(&mut self) -> bool {
        self.unit.is_none() && self.ready.is_abandoned() && self.ready.is_empty()
    }

    fn on_way(&mut self, _way: VideoWay) {}
}

/// RTP's number for the pictures: sound in many channel groups has those from 96 on.
const PAYLOAD_TYPE: u8 = 127;
/// How long a packet takes at most on a path that carries the pictures and little more, and where lost sound is repaired: a repair waits for two packets, its
/// request for one, so that fewer of them come too late (the laboratory's experiment `two-stream/packets`). The shortest packet that is made for it: the
/// headers of a shorter one would be more than an eighth.
const LONGEST: Duration = Duration::from_millis(20);
const LONGEST_BESIDE_REPAIRS: Duration = Duration::from_millis(17);
const SHORTEST_PACKET: usize = 500;
/// Of a file so much is read to know its rate.
const BEGINNING: Duration = Duration::from_secs(20);
/// Frames that are read ahead, to know which one is shown first: decoders keep 16 at most (ITU-T H.264 §A.3.1, MaxDpbFrames).
const AHEAD: usize = 17;
/// Frames that wait to be sent: a third of a second at 25 frames/s.
const UNITS: usize = 8;
/// How long the reading thread waits for room.
const REST: Duration = Duration::from_millis(10);
