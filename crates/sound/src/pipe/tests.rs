use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};

const RATE: u32 = 8_000;

/// Sound that a test supplies piece by piece; sample frame *n* has the value *n*. Ends when the sender is dropped.
struct Pieces {
    pieces: Receiver<usize>,
    at: usize,
}

impl Decode for Pieces {
    fn format(&self) -> StreamFormat {
        StreamFormat::new(RATE, 2).unwrap()
    }
    fn sample_format(&self) -> SampleFormat {
        SampleFormat::F32
    }
    fn length(&self) -> Option<u64> {
        None
    }
    fn decode(&mut self, out: &mut Vec<f32>) -> Result<bool, String> {
        let Ok(frames) = self.pieces.recv() else {
            return Ok(false);
        };
        out.extend((self.at..self.at + frames).flat_map(|frame| [frame as f32, -(frame as f32)]));
        self.at += frames;
        Ok(true)
    }
}

/// A source and its input: how many sample frames come, and at what time.
struct Fed {
    source: PipeSource,
    pieces: Sender<usize>,
    millis: Arc<AtomicU64>,
    woken: Receiver<()>,
}

fn fed(live: Option<bool>) -> Fed {
    let (pieces, received) = channel();
    let millis = Arc::new(AtomicU64::new(0));
    let time = millis.clone();
    let clock = Box::new(move || Instant::from_millis(time.load(Ordering::SeqCst)));
    let decoder = Box::new(Pieces { pieces: received, at: 0 });
    let mut source =
        PipeSource::start(Piped { decoder, pipe: None, live, clock }, &Notes::default()).unwrap();
    let (tell, woken) = channel();
    source.set_waker(Box::new(move || tell.send(()).unwrap_or_default()));
    Fed { source, pieces, millis, woken }
}

impl Fed {
    /// Supplies a piece and waits until it is in the ring.
    fn give(&self, frames: usize) {
        self.pieces.send(frames).unwrap();
        self.woken.recv().unwrap();
    }

    /// Supplies this many pieces, at real time.
    fn give_live(&self, pieces: usize, frames: usize) {
        for _ in 0..pieces {
            self.millis.fetch_add(frames as u64 * 1_000 / u64::from(RATE), Ordering::SeqCst);
            self.give(frames);
        }
    }

    fn pull(&mut self, frames: usize) -> Vec<f32> {
        let mut block = vec![0.0; 2 * frames];
        assert_eq!(self.source.pull(&mut block), Pull::Frames(frames));
        block.chunks(2).inspect(|frame| assert_eq!(frame[0], -frame[1])).map(|frame| frame[0]).collect()
    }
}

#[test]
fn a_live_pipe_is_detected_by_its_pace_and_keeps_the_newest() {
    let mut fed = fed(None);
    assert!(!fed.source.is_live(), "nothing is known yet");
    // Two seconds in blocks of 32 ms without a pull.
    fed.give_live(62, 256);
    assert!(fed.source.is_live());
    assert_eq!(fed.source.ready(), Ready { frames: 62 * 256, ended: false, piece: 0 });
    assert_eq!(fed.source.keep_newest(256), 61 * 256);
    assert_eq!(fed.pull(256), (61 * 256..62 * 256).map(|n| n as f32).collect::<Vec<_>>());
    // Within sound the join is smooth: 20 sample frames are 2.5 ms.
    fed.give_live(10, 256);
    assert_eq!(fed.source.keep_newest(256), 9 * 256);
    let joined = fed.pull(256);
    let (first, newest) = (62 * 256, 71 * 256);
    assert!((joined[0] - first as f32).abs() < 0.01 * 2_304.0, "{}", joined[0]);
    assert!(joined.windows(2).all(|w| w[1] > w[0] && w[1] - w[0] < 2_304.0 / 10.0), "no step");
    assert_eq!(joined[20..], (newest + 20..newest + 256).map(|n| n as f32).collect::<Vec<_>>());
}

#[test]
fn a_live_pipe_is_read_on_without_pulls() {
    let mut fed = fed(Some(true));
    // The ring holds three seconds; the fourth and fifth find no room, and no piece waits.
    let room = 24_000;
    for _ in 0..40 {
        fed.pieces.send(1_000).unwrap();
    }
    while fed.source.shared.dropped.load(Ordering::Acquire) < 40_000 - room {
        thread::yield_now();
    }
    assert_eq!(fed.source.ready().frames as u64, room);
    // All sound in it is two seconds old.
    assert_eq!(fed.source.keep_newest(256), 40_000);
    assert_eq!(fed.source.ready().frames, 0);
    while fed.woken.try_recv().is_ok() {}
    fed.give(256);
    assert_eq!(fed.pull(256)[0], 40_000.0);
    assert_eq!(fed.source.keep_newest(256), 0);
}

#[test]
fn a_recording_in_a_pipe_is_held_up_and_whole() {
    for live in [None, Some(false)] {
        let mut fed = fed(live);
        // Ten seconds at once, five seconds before the first pull.
        for _ in 0..80 {
            fed.pieces.send(1_000).unwrap();
        }
        while fed.source.ready().frames < 24_000 {
            thread::yield_now();
        }
        fed.millis.store(5_000, Ordering::SeqCst);
        assert!(!fed.source.is_live());
        assert_eq!(fed.source.keep_newest(256), 0);
        drop(std::mem::replace(&mut fed.pieces, channel().0));
        let (mut heard, mut block) = (Vec::new(), [0.0; 512]);
        loop {
            match fed.source.pull(&mut block) {
                Pull::Frames(frames) => heard.extend(block[..2 * frames].chunks(2).map(|frame| frame[0])),
                Pull::Starved => thread::yield_now(),
                Pull::End => break,
            }
        }
        assert_eq!(heard, (0..80_000).map(|n| n as f32).collect::<Vec<_>>(), "{live:?}");
        assert_eq!(fed.source.ready(), Ready { frames: 0, ended: true, piece: 0 });
    }
}

#[test]
fn the_end_wakes_a_waiting_thread() {
    let mut fed = fed(Some(true));
    fed.give(100);
    drop(std::mem::replace(&mut fed.pieces, channel().0));
    fed.woken.recv().unwrap();
    assert_eq!(fed.source.ready(), Ready { frames: 100, ended: true, piece: 0 });
    let mut block = [0.0; 512];
    assert_eq!(fed.source.pull(&mut block), Pull::Frames(100));
    assert_eq!(fed.source.pull(&mut block), Pull::End);
}

/// A microphone: the pipe is shortened once it is known to be live, and every block can be pulled when it is written.
#[test]
#[cfg(target_os = "linux")]
fn a_live_pipe_is_shortened() {
    use nix::fcntl::{FcntlArg, fcntl};
    use std::io::Write;
    use std::os::fd::OwnedFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    let pipe = File::from(OwnedFd::from(reader));
    let (look, stream) = (pipe.try_clone().unwrap(), StreamFormat::new(48_000, 2).unwrap());
    let raw = "s16le".parse().unwrap();
    let decoder =
        Box::new(crate::wav::WavDecoder::raw(pipe.try_clone().unwrap(), stream, raw, Notes::default()));
    let piped = Piped { decoder, pipe: Some((pipe, 4096)), live: Some(true), clock: os::clock() };
    let mut source = PipeSource::start(piped, &Notes::default()).unwrap();
    let (tell, woken) = channel();
    source.set_waker(Box::new(move || tell.send(()).unwrap_or_default()));
    let mut block = [0.0; 512];
    for _ in 0..100 {
        writer.write_all(&[0; 4 * 256]).unwrap();
        while source.ready().frames < 256 {
            woken.recv().unwrap();
        }
        assert_eq!(source.pull(&mut block), Pull::Frames(256));
    }
    assert_eq!(fcntl(&look, FcntlArg::F_GETPIPE_SZ).unwrap(), 4096);
}
