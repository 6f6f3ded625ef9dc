//! Results of a run: the figures of its streams, defined in `measure`, and the counters of its media.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_measure::{Fate, PacketArrival, PacketLog, PacketLogConfig, SentFrame};
pub use antiphon_measure::{FigureDef, STREAM_FIGURES as FIGURES, StreamFigures, figure};

/// The outcome of each frame of a stream in one run, for charts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Course {
    /// When each frame was due, or sent where that is what counts, in the order of their numbers.
    pub sent: Vec<Instant>,
    /// Outcome of each frame at its sender: whether the transport gave it up or refused it.
    pub fates: Vec<Fate>,
    /// The index in `sent` of each frame that arrived, and when, in the order of arrival. Duplicates are left out.
    pub came: Vec<(usize, Instant)>,
    /// Of a video, its frames, whose packets are the frames above.
    pub frames: Vec<SentFrame>,
}

impl Course {
    /// When each frame of a video was due, and when the last of its packets came, if all did.
    pub fn video_frames(&self) -> Vec<(Instant, Option<Instant>)> {
        let mut times = vec![None; self.sent.len()];
        for (index, at) in &self.came {
            times[*index] = Some(*at);
        }
        let begins = self.frames.iter().map(|frame| frame.first as usize);
        let ends = begins.clone().skip(1).chain([times.len()]);
        let last = |(begin, end): (usize, usize)| -> Option<Instant> {
            times[begin..end].iter().try_fold(None, |last, at| Some(last.max(Some((*at)?))))?
        };
        let due = self.frames.iter().map(|frame| frame.due);
        due.zip(begins.zip(ends).map(last)).collect()
    }

    /// The outcomes as a comparison logs them, of packets of `len` bytes sent every `packet`: their arrivals at the receiver,
    /// on one clock.
    pub fn packet_log(&self, packet: Duration, len: u32) -> PacketLog {
        let capacity = self.sent.len();
        let mut log =
            PacketLog::new(PacketLogConfig { capacity, clock_rate: 90_000, packet, packet_bytes: len });
        let mut sendings = (0..).zip(self.sent.iter().zip(&self.fates)).peekable();
        // A log hears of sendings and arrivals in the order of time.
        let mut send_until = |log: &mut PacketLog, now: Instant| {
            while let Some((seq, (at, fate))) = sendings.next_if(|(_, (at, _))| **at <= now) {
                log.on_sent(seq, *at);
                if *fate != Fate::Pending {
                    log.on_fate(seq, *fate);
                }
            }
        };
        for (index, at) in &self.came {
            send_until(&mut log, *at);
            let one_way = Some(at.since(self.sent[*index]));
            let seq = *index as u64;
            log.on_received(PacketArrival { seq, at: *at, timestamp: 0, len, one_way, repaired: false });
        }
        if let Some(last) = self.sent.last() {
            send_until(&mut log, *last);
        }
        log.finish();
        log
    }
}

/// Counters of a medium in one run, to explain figures.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct MediumFigures {
    /// The medium's name in its setup.
    pub name: String,
    /// Name and value of each counter, the same names in each run of a setup.
    pub counters: Vec<(String, f64)>,
}

/// Results of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunFigures {
    /// Each stream's and each ping's name and figures, in the order of the setup, streams first. A multicast stream's
    /// are those of its first receiver; the others follow as `name@node`.
    pub streams: Vec<(String, StreamFigures)>,
    /// Each medium, in the order of the setup.
    pub media: Vec<MediumFigures>,
    /// Events that the world processed.
    pub events: u64,
}
