use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

use antiphon_media::StreamFormat;
use proptest::prelude::*;
use pulseaudio::protocol::{
    DESCRIPTOR_SIZE, Descriptor, DescriptorFlags, PlaybackStreamMovedParams, Request, Underflow,
    read_descriptor, write_command_message, write_descriptor,
};

use super::*;
use crate::device::Cycle;

/// The other end of a ring: plays a count, in as much of each cycle as there is, and keeps what is captured.
struct Counting {
    there: usize,
    flows: bool,
    next: f32,
    captured: Sender<Vec<f32>>,
}

impl End for Counting {
    fn process(&mut self, cycle: &mut dyn Cycle) {
        let mut captured = vec![0.0; 2 * cycle.frames()];
        cycle.capture(0, &mut captured);
        // Nobody listens where sound is played.
        let _unheard = self.captured.send(captured);
        let there = self.there.min(cycle.frames());
        for frame in 0..there {
            cycle.play(frame, &[self.next, -self.next]);
            self.next += 1.0;
        }
        cycle.play_silence(there);
    }

    fn idle(&mut self, _now: u64) {}

    fn lacks(&self, frames: usize) -> usize {
        if self.flows { frames.saturating_sub(self.there) } else { 0 }
    }
}

/// A worker, the server's end of its socket, what it has captured, and its counters.
fn worker(direction: Direction, there: usize) -> (Worker, UnixStream, Receiver<Vec<f32>>, Arc<Counters>) {
    let (ours, server) = UnixStream::pair().unwrap();
    let (captured, heard) = channel();
    let counters = Arc::new(Counters::default());
    let stream = PulseStream {
        direction,
        format: StreamFormat::new(48_000, 2).unwrap(),
        channel: STREAM,
        wanted: if direction == Direction::Out { 40 * FRAME } else { 0 },
        held: 40 * FRAME,
        period: 10,
        device: "hall".into(),
    };
    let end = Box::new(Counting { there, flows: false, next: 1.0, captured });
    let connection = Connection::over(ours).unwrap();
    (Worker::new(connection, stream, end, counters.clone(), Arc::default()), server, heard, counters)
}

fn tell(server: &mut UnixStream, command: &Command) {
    write_command_message(server, u32::MAX, command, MAX_VERSION).unwrap();
}

fn request(frames: usize) -> Command {
    Command::Request(Request { channel: STREAM, length: (frames * FRAME) as u32 })
}

const STREAM: u32 = 3;
const FRAME: usize = 8;

#[test]
fn each_request_is_answered_in_full() {
    let (worker, mut server, _heard, _counters) = worker(Direction::Out, 15);
    for frames in [10, 20] {
        tell(&mut server, &request(frames));
    }
    tell(&mut server, &Command::Request(Request { channel: STREAM + 1, length: 800 }));
    tell(&mut server, &Command::PlaybackStreamKilled(STREAM));
    // What was asked for as the stream began, and the first requests, before the worker has looked.
    let mut worker = worker;
    worker.connection.receive().unwrap();
    worker.play().unwrap();
    worker.connection.flush().unwrap();
    assert_eq!(worker.run(), Err(Failure::Killed));
    let mut sent = Vec::new();
    server.read_to_end(&mut sent).unwrap();
    let descriptor = read_descriptor(&mut &sent[..]).unwrap();
    assert_eq!((descriptor.channel, descriptor.length as usize), (STREAM, 40 * FRAME));
    let samples: Vec<f32> = sent[DESCRIPTOR_SIZE..DESCRIPTOR_SIZE + 40 * FRAME]
        .chunks(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    for (number, frame) in samples.chunks(2).enumerate() {
        let count = if number < 15 { (number + 1) as f32 } else { 0.0 };
        assert_eq!(frame, [count, -count], "sample frame {number}, then silence for what is missing");
    }
}

#[test]
fn requests_that_came_together_are_one_cycle() {
    let (mut worker, mut server, _heard, counters) = worker(Direction::Out, 100);
    [10, 20].iter().for_each(|frames| tell(&mut server, &request(*frames)));
    let underflow = Command::Underflow(Underflow { channel: STREAM, offset: 0 });
    tell(&mut server, &underflow);
    worker.connection.receive().unwrap();
    while let Some(message) = worker.connection.next_message().unwrap() {
        worker.handle(message).unwrap();
    }
    assert_eq!(worker.wanted, 70 * FRAME);
    worker.stream.held = 100 * FRAME;
    assert_eq!(counters.xruns.load(Ordering::Relaxed), 0, "the stream has begun just now");
    worker.play().unwrap();
    assert_eq!((worker.wanted, worker.position, worker.longest), (0, 70, 10));
    worker.cycles = SETTLED_CYCLES + 1;
    worker.wanted = 30 * FRAME;
    worker.play().unwrap();
    assert_eq!(worker.longest, 30);
    tell(&mut server, &underflow);
    worker.connection.receive().unwrap();
    while let Some(message) = worker.connection.next_message().unwrap() {
        worker.handle(message).unwrap();
    }
    assert_eq!(counters.xruns.load(Ordering::Relaxed), 1);
}

#[test]
fn the_server_waits_for_half_its_buffer_and_no_longer() {
    let (mut worker, _server, heard, _counters) = worker(Direction::Out, 0);
    worker.play().unwrap();
    assert_eq!(worker.wanted, 0);
    let (captured, heard) = (heard.try_iter().count(), heard);
    assert_eq!(captured, 1, "silence at first");
    // From now on sound flows, and ten sample frames of it are there.
    let (sender, cycles) = channel();
    worker.end = Box::new(Counting { there: 10, flows: true, next: 1.0, captured: sender });
    drop(heard);
    for (asked, given) in [(10, 10), (25, 10), (10, 10), (25, 20)] {
        worker.wanted += asked * FRAME;
        worker.play().unwrap();
        let frames: usize = cycles.try_iter().map(|cycle| cycle.len() / 2).sum();
        assert_eq!(frames, given, "of {asked} more");
    }
    assert_eq!(worker.wanted, 20 * FRAME);
}

#[test]
fn what_a_server_asks_for_too_late_is_silence() {
    let (mut worker, mut server, heard, _counters) = worker(Direction::Out, 100);
    // It stood still for a while, in which sound was discarded, and has 300 sample frames less than none.
    worker.wanted = 340 * FRAME;
    worker.play().unwrap();
    worker.connection.flush().unwrap();
    assert_eq!(heard.try_iter().map(|cycle| cycle.len() / 2).sum::<usize>(), 40);
    assert_eq!((worker.wanted, worker.position), (0, 340));
    drop(worker);
    let mut sent = Vec::new();
    server.read_to_end(&mut sent).unwrap();
    let past = DESCRIPTOR_SIZE + 300 * FRAME;
    assert!(sent[DESCRIPTOR_SIZE..past].iter().all(|byte| *byte == 0));
    assert_eq!(sent[past + DESCRIPTOR_SIZE..][..4], 1.0_f32.to_le_bytes());
}

#[test]
fn captured_sound_goes_to_the_ring_in_its_order() {
    let (worker, mut server, heard, counters) = worker(Direction::In, 0);
    let sound = |from: u32| (from..from + 60).map(|n| n as f32).collect::<Vec<_>>();
    for (stream, from) in [(STREAM, 0), (STREAM + 1, 500), (STREAM, 60)] {
        let bytes: Vec<u8> = sound(from).iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let (length, flags) = (bytes.len() as u32, DescriptorFlags::empty());
        write_descriptor(&mut server, &Descriptor { length, channel: stream, offset: 0, flags }).unwrap();
        server.write_all(&bytes).unwrap();
    }
    tell(
        &mut server,
        &Command::PlaybackStreamMoved(PlaybackStreamMovedParams {
            stream_index: STREAM,
            device_index: 1,
            device_name: c"stage\n".into(),
            device_suspended: false,
            buffer_attr: pulseaudio::protocol::stream::BufferAttr::default(),
            configured_sink_latency: 0,
        }),
    );
    // Half a header, and then the end.
    server.write_all(&[0; 7]).unwrap();
    let mut worker = worker;
    worker.connection.receive().unwrap();
    while let Some(message) = worker.connection.next_message().unwrap() {
        worker.handle(message).unwrap();
    }
    worker.capture();
    drop(server);
    assert_eq!(worker.run(), Err(Failure::Closed));
    let all: Vec<f32> = heard.iter().flatten().collect();
    assert_eq!(all, [sound(0), sound(60)].concat());
    let meter = crate::device::DeviceMeter::of(counters);
    assert_eq!(meter.take_events(), ["PulseAudio plays to the sink 'stage' now"]);
}

#[test]
fn what_was_kept_while_the_server_stood_still_is_left_out() {
    let (mut worker, _server, heard, counters) = worker(Direction::In, 0);
    let capture = |worker: &mut Worker, frames: usize| {
        worker.captured.extend((0..2 * frames).map(|n| n as f32));
        worker.capture();
        heard.try_iter().flatten().collect::<Vec<f32>>()
    };
    assert_eq!(capture(&mut worker, 10).len(), 20);
    // A second passes, for which silence is given.
    worker.stalls = true;
    worker.last_cycle = 0;
    let time = Arc::new(std::sync::atomic::AtomicU64::new(1_000_000));
    worker.clock = Clock::Test(time.clone());
    let newest = capture(&mut worker, 30_000);
    assert_eq!((newest.len(), newest[0]), (40, 2.0 * 29_980.0), "two periods");
    assert_eq!(capture(&mut worker, 10).len(), 20);
    assert_eq!(capture(&mut worker, 18_000).len(), 40);
    assert_eq!(capture(&mut worker, 100).len(), 200 - 2 * 40);
    assert_eq!(counters.missing.load(Ordering::Relaxed), 48_000);
    // It has all been left out; and a second later it would be something else.
    assert_eq!(capture(&mut worker, 1_000).len(), 2_000);
    worker.stale = 500;
    time.store(2_000_000, Ordering::Relaxed);
    assert_eq!(capture(&mut worker, 1_000).len(), 2_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_messages_are_survived(
        messages in prop::collection::vec(
            (prop_oneof![Just(STREAM), Just(u32::MAX), any::<u32>()], 0u32..110, any::<u32>(), prop::collection::vec(any::<u8>(), 0..80)),
            0..20,
        ),
        out in any::<bool>(),
    ) {
        let direction = if out { Direction::Out } else { Direction::In };
        let (worker, mut server, _heard, _counters) = worker(direction, 5);
        for (channel, tag, number, contents) in messages {
            let mut bytes = Vec::new();
            for word in [tag, number] {
                bytes.push(b'L');
                bytes.extend_from_slice(&word.to_be_bytes());
            }
            bytes.extend_from_slice(&contents);
            let flags = DescriptorFlags::empty();
            let descriptor = Descriptor { length: bytes.len() as u32, channel, offset: 0, flags };
            write_descriptor(&mut server, &descriptor).unwrap();
            server.write_all(&bytes).unwrap();
        }
        server.shutdown(Shutdown::Write).unwrap();
        // A server that sends nothing more has ended, whatever it said before.
        prop_assert!(worker.run().is_err());
    }
}
