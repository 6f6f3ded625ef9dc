use super::*;
use crate::deposit::tests::Small;
use crate::deposit::{PipeDeposit, WavDeposit};
use crate::raw::RawFormat;
use crate::wav::{Header, WavInfo};
use antiphon_media::SampleFormat;
use std::io::Write;
use std::sync::mpsc::{Receiver, channel};

fn stream() -> StreamFormat {
    StreamFormat::new(8_000, 1).unwrap()
}

/// Takes samples only while its gate is open: a disk that stalls.
struct Gated {
    gate: Receiver<()>,
    stored: Arc<Mutex<Vec<f32>>>,
}

impl Deposit for Gated {
    fn store(&mut self, samples: &[f32]) -> io::Result<()> {
        // A dropped sender leaves the gate open.
        let _ = self.gate.recv();
        self.stored.lock().unwrap().extend(samples);
        Ok(())
    }
    fn skip(&mut self, frames: u64) -> io::Result<()> {
        self.stored.lock().unwrap().extend(vec![f32::NAN; frames as usize]);
        Ok(())
    }
    fn checkpoint(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn bytes(&self) -> u64 {
        0
    }
    fn frame_bytes(&self) -> u64 {
        4
    }
}

/// A sink on a stalled disk, the disk's gate, and the samples that arrive.
fn stalled(notes: &Notes) -> (RecordSink, mpsc::Sender<()>, Arc<Mutex<Vec<f32>>>) {
    let (open, gate) = channel();
    let stored = Arc::new(Mutex::new(Vec::new()));
    let deposit = Gated { gate, stored: stored.clone() };
    let sink = RecordSink::start(Box::new(deposit), stream(), "slow.wav", notes).unwrap();
    (sink, open, stored)
}

#[test]
fn a_stalled_disk_costs_what_the_ring_cannot_hold() {
    let notes = Notes::default();
    let (mut sink, open, stored) = stalled(&notes);
    let mut frame = 0usize;
    let mut dropped = 0;
    let mut push = |sink: &mut RecordSink| {
        let block: Vec<f32> = (frame..frame + 1_000).map(|n| n as f32 + 1.0).collect();
        frame += 1_000;
        match sink.push(&block) {
            Ok(()) => false,
            Err(SinkError::Overrun { dropped: now }) => {
                dropped += now;
                true
            }
            Err(error) => panic!("{error}"),
        }
    };
    // Three seconds fit into the ring, and the writer holds at most a chunk of two: the 41st block is one too many.
    let accepted = (0..41).position(|_| push(&mut sink)).expect("the ring is bounded");
    assert!(accepted >= 24, "a ring of {accepted} blocks");
    assert!((0..4).all(|_| push(&mut sink)));
    drop(open);
    while stored.lock().unwrap().len() < accepted * 1_000 {
        thread::yield_now();
    }
    assert!(!push(&mut sink), "room again, and still dropped");
    sink.finish().unwrap();
    let stored = stored.lock().unwrap();
    assert_eq!(stored.len(), frame);
    let silent = stored.iter().filter(|x| **x == 0.0).count();
    assert_eq!(silent, dropped, "every dropped sample frame is silence, and nothing else is");
    let in_place = |(n, x): (usize, &f32)| *x == 0.0 || *x == n as f32 + 1.0;
    assert!(stored.iter().enumerate().all(in_place));
    assert!(notes.list()[0].contains(&format!("{dropped} sample frames")), "{:?}", notes.list());
}

#[test]
fn a_listener_gets_the_newest_sound_after_a_pause() {
    let (open, gate) = channel();
    let stored = Arc::new(Mutex::new(Vec::new()));
    let deposit = Box::new(Gated { gate, stored: stored.clone() });
    let notes = Notes::default();
    let mut sink = RecordSink::start_live(deposit, stream(), "player", &notes).unwrap();
    let block = |n: usize| vec![n as f32 + 1.0; 100];
    // The first ones are taken at once; of the others more than 200 ms wait, and then all but 20 ms are old.
    for n in 0..50 {
        sink.push(&block(n)).unwrap();
    }
    drop(open);
    while stored.lock().unwrap().len() < 5_000 {
        thread::yield_now();
    }
    sink.finish().unwrap();
    let stored = stored.lock().unwrap();
    assert_eq!(stored.len(), 5_000, "what follows is where it belongs");
    let skipped = stored.iter().filter(|sample| sample.is_nan()).count();
    assert!(skipped >= 5_000 - 1_600 - 160, "{skipped} left out");
    assert!(stored[5_000 - 160..].iter().zip(4_840..).all(|(sample, n)| *sample == (n / 100) as f32 + 1.0));
    let first = stored.iter().position(|sample| sample.is_nan()).unwrap();
    assert!(stored[..first].iter().zip(0..).all(|(sample, n)| *sample == (n / 100) as f32 + 1.0));
    assert!(notes.list()[0].contains("left out"), "{:?}", notes.list());
}

#[test]
fn a_sink_that_hangs_does_not_hang_the_program() {
    let (mut sink, open, _stored) = stalled(&Notes::default());
    sink.stall = Duration::from_millis(1);
    sink.push(&[0.5; 100]).unwrap();
    let error = sink.finish().unwrap_err().to_string();
    assert!(error.contains("accepts no more data"), "{error}");
    drop(open);
}

#[test]
fn a_full_disk_fails_the_sink_and_names_file_and_bytes() {
    let header = Header { stream: stream(), sample: SampleFormat::L16 };
    let disk = Small { room: header.emit(0).len() + 5_001, ..Small::default() };
    let deposit = WavDeposit::create(disk.clone(), header).unwrap();
    let mut sink = RecordSink::start(Box::new(deposit), stream(), "full.wav", &Notes::default()).unwrap();
    while sink.push(&[0.25; 100]) != Err(SinkError::Failed) {
        thread::yield_now();
    }
    let error = sink.finish().unwrap_err();
    assert_eq!(sink.finish().unwrap_err(), error, "the second answer differs");
    let error = error.to_string();
    assert!(error.contains("full.wav") && error.contains("5000 bytes"), "{error}");
    let bytes = disk.bytes.lock().unwrap();
    assert_eq!(WavInfo::parse(&mut &bytes[..]).unwrap().claimed, Some(5_000));
}

#[test]
fn a_sink_that_is_dropped_closes_its_file() {
    let header = Header { stream: stream(), sample: SampleFormat::L16 };
    let disk = Small { room: 1 << 16, ..Small::default() };
    let deposit = WavDeposit::create(disk.clone(), header).unwrap();
    let mut sink = RecordSink::start(Box::new(deposit), stream(), "dropped.wav", &Notes::default()).unwrap();
    sink.push(&[0.25; 100]).unwrap();
    let (_sender, never) = channel();
    let ended = std::mem::replace(&mut sink.ended, never);
    drop(sink);
    // Ends when the writer ends.
    assert!(ended.recv().is_err());
    let bytes = disk.bytes.lock().unwrap();
    assert_eq!(WavInfo::parse(&mut &bytes[..]).unwrap().claimed, Some(200));
}

#[test]
fn a_closed_pipe_is_an_error_with_words() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let raw: RawFormat = "s16be".parse().unwrap();
    let deposit = Box::new(PipeDeposit::new(writer, raw, stream()));
    let mut sink = RecordSink::start(deposit, stream(), "standard output", &Notes::default()).unwrap();
    sink.push(&[0.5; 64]).unwrap();
    let error = sink.finish().unwrap_err().to_string();
    assert!(error.contains("has ended"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_behind_a_pipe_is_named() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let deposit = Box::new(PipeDeposit::new(full, "s16le".parse().unwrap(), stream()));
    let mut sink = RecordSink::start(deposit, stream(), "standard output", &Notes::default()).unwrap();
    sink.push(&[0.5; 64]).unwrap();
    let error = sink.finish().unwrap_err().to_string();
    assert!(error.contains("standard output: no space left after 0 bytes"), "{error}");
}

#[test]
fn a_pipe_carries_samples_in_their_byte_order() {
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(buf)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let pipe = Shared::default();
    let deposit = Box::new(PipeDeposit::new(pipe.clone(), "s16be".parse().unwrap(), stream()));
    let mut sink = RecordSink::start(deposit, stream(), "standard output", &Notes::default()).unwrap();
    sink.push(&[0.5, -1.0, 1.0 / 32_768.0]).unwrap();
    sink.finish().unwrap();
    assert_eq!(*pipe.0.lock().unwrap(), [0x40, 0, 0x80, 0, 0, 1]);
}

/// Blocks of 5 ms, each read before the next is pushed. A writer that polls every 50 ms has written the previous block
/// when a block is read, and writes the next 50 ms later, which is 45 ms after it was pushed: a block within 10 ms
/// would be chance.
#[test]
#[cfg(target_os = "linux")]
fn a_prompt_sink_plays_each_block_at_once() {
    use nix::poll::{PollFd, PollFlags, poll};
    use std::io::Read;
    use std::os::fd::AsFd;
    let (mut reader, writer) = io::pipe().unwrap();
    let stream = StreamFormat::new(48_000, 2).unwrap();
    let deposit = Box::new(PipeDeposit::new(writer, "s16le".parse().unwrap(), stream));
    let mut sink = RecordSink::start(deposit, stream, "standard output", &Notes::default()).unwrap().prompt();
    let (mut bytes, mut at_once) = ([0; 4 * 240], 0);
    for n in 0..100 {
        let readable_within =
            |millis: u8| poll(&mut [PollFd::new(reader.as_fd(), PollFlags::POLLIN)], millis).unwrap();
        assert_eq!(readable_within(5), 0, "the block's time, in which nothing comes");
        sink.push(&[n as f32 / 128.0; 480]).unwrap();
        at_once += readable_within(10);
        reader.read_exact(&mut bytes).unwrap();
        assert!(bytes.chunks(2).all(|sample| sample == (n * 256i16).to_le_bytes()));
    }
    // A loaded machine may delay most blocks, since two threads have to be scheduled, but not nine out of ten.
    assert!(at_once >= 10, "{at_once} of 100 within 10 ms");
    sink.finish().unwrap();
}
