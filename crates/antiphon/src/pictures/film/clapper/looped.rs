//! The clip again and again: its sound, and its pictures cut into payloads.

use std::sync::OnceLock;
use std::time::Duration;

use antiphon_media::Pull;
use antiphon_session::{VideoPayload, VideoSource, VideoWay};
use antiphon_video::{Clip, FrameCutter};

/// The pictures of the clip again and again, cut into payloads.
pub(super) struct Looped {
    units: Vec<Unit>,
    /// The next one, and which of its payloads.
    next: (u64, usize),
    end: Duration,
}

struct Unit {
    due: Duration,
    shown: Duration,
    is_key: bool,
    is_needed: bool,
    layer: u8,
    payloads: Vec<Vec<u8>>,
}

impl Looped {
    pub fn new(clip: Clip, most: usize, seconds: u64) -> Self {
        let mut reader = clip.open().expect("a clip");
        let mut cutter = FrameCutter::new(reader.info().codec, 1);
        let mut units = Vec::new();
        while let Some(frame) = reader.next_frame().expect("a good file") {
            let shown = frame.time.duration();
            let picture = frame.picture;
            units.push(Unit {
                due: shown,
                shown,
                is_key: picture.key,
                is_needed: !picture.droppable,
                layer: picture.temporal_layer,
                payloads: cutter.cut(&frame, most).expect("a frame").map(<[u8]>::to_vec).collect(),
            });
        }
        // One that others need is sent before the first of them is shown.
        let mut first = LENGTH;
        for unit in units.iter_mut().rev() {
            first = first.min(unit.shown);
            unit.due = first;
        }
        Looped { units, next: (0, 0), end: Duration::from_secs(seconds) }
    }

    /// The next unit, and how much later it is than in the first round.
    fn unit(&self) -> Option<(&Unit, Duration)> {
        let count = self.units.len() as u64;
        let later = LENGTH * (self.next.0 / count) as u32;
        let unit = &self.units[(self.next.0 % count) as usize];
        (unit.due + later < self.end).then_some((unit, later))
    }
}

impl VideoSource for Looped {
    fn next(&mut self) -> Option<VideoPayload<'_>> {
        let (number, part) = self.next;
        let (unit, later) = self.unit()?;
        Some(VideoPayload {
            unit: number,
            part: (part as u32, unit.payloads.len() as u32),
            due: unit.due + later,
            shown: unit.shown + later,
            is_key: unit.is_key,
            is_needed: unit.is_needed,
            layer: unit.layer,
            bytes: &unit.payloads[part],
        })
    }

    fn take(&mut self) {
        let (number, part) = self.next;
        let parts = self.unit().map_or(0, |(unit, _)| unit.payloads.len());
        self.next = if part + 1 >= parts { (number + 1, 0) } else { (number, part + 1) };
    }

    fn is_ended(&mut self) -> bool {
        self.unit().is_none()
    }

    fn on_way(&mut self, _way: VideoWay) {}
}

/// The clip's sound at this rate, of which 48 kHz are a multiple.
pub(super) fn clip_sound(rate: u32) -> Vec<f32> {
    static SOUND: OnceLock<Vec<f32>> = OnceLock::new();
    let sound = SOUND.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sound.ogg");
        std::fs::write(&path, antiphon_sound::Clip::Clapper.bytes(48_000)).expect("room");
        let mut opened = antiphon_sound::open_source(&path.display().to_string()).expect("a good file");
        let (mut all, mut block) = (Vec::new(), [0.0; 512]);
        loop {
            match opened.source.pull(&mut block) {
                Pull::Frames(frames) => all.extend(&block[..frames]),
                Pull::Starved => std::thread::yield_now(),
                Pull::End => break,
            }
        }
        // The last samples are missing in Ogg Vorbis.
        all.resize(48_000 * LENGTH.as_secs() as usize, 0.0);
        all
    });
    let every = (48_000 / rate) as usize;
    sound.chunks_exact(every).map(|samples| samples.iter().sum::<f32>() / every as f32).collect()
}

/// Of the clip.
const LENGTH: Duration = Duration::from_secs(76);
