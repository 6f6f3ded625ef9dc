//! After start-up, pulling and pushing neither allocate nor free: the allocator counts per thread.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use antiphon_core::Instant;
use antiphon_media::{LivePace, Pull, SampleFormat, Sink, SinkError, Source, StreamFormat};
use antiphon_sound::{MemorySink, open_sink, open_source};
use antiphon_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn pull_all(source: &mut dyn Source, most_blocks: usize) -> usize {
    let mut block = [0.0; 2 * 256];
    let mut blocks = 0;
    while blocks < most_blocks {
        match source.pull(&mut block) {
            Pull::Frames(_) => blocks += 1,
            Pull::Starved => std::thread::yield_now(),
            Pull::End => break,
        }
    }
    blocks
}

#[test]
fn the_counter_counts() {
    assert_eq!(Counting::calls(|| drop(std::hint::black_box(Box::new(7)))), 2);
    assert_eq!(Counting::calls(|| ()), 0);
}

#[test]
fn pulling_does_not_allocate() {
    // The clip is longer than its ring, so its thread decodes while this one pulls.
    for uri in ["clip:demo", "clip:tabla?loop=yes", "tone:440Hz", "tone:noise", "tone:sweep", "tone:click"] {
        let mut opened = open_source(uri).unwrap();
        let mut blocks = 0;
        assert_eq!(Counting::calls(|| blocks = pull_all(&mut *opened.source, 2_500)), 0, "{uri}");
        assert!(blocks > 1_800, "{uri} ended after {blocks} blocks");
    }
}

#[test]
fn pushing_never_allocates_even_on_overrun_or_failure() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("take.wav");
    let stream = StreamFormat::new(48_000, 2).unwrap();
    let mut file = open_sink(path.to_str().unwrap(), stream, SampleFormat::L24).unwrap();
    let mut null = open_sink("null:", stream, SampleFormat::L24).unwrap();
    let (mut memory, _kept) = MemorySink::new(stream, 256 * 100);
    let block = [0.25; 2 * 256];
    let mut overruns = 0;
    for sink in [&mut *file.sink, &mut *null.sink, &mut memory as &mut dyn Sink] {
        let allocated = Counting::calls(|| {
            // As fast as the loop runs: far above real time, so that rings do overrun.
            for _ in 0..20_000 {
                overruns += usize::from(matches!(sink.push(&block), Err(SinkError::Overrun { .. })));
            }
        });
        assert_eq!(allocated, 0);
    }
    assert!(overruns > 0, "no overrun was provoked");
    file.sink.finish().unwrap();
}

/// Set for the process that the test below starts; a run of all ignored tests has no standard input.
const PASSES_ON: &str = "PASSES_STANDARD_INPUT_ON";

/// Not a test but the other process: copies live sound from standard input to standard output, each block when the
/// source wakes it.
#[test]
#[ignore = "run by the next test, in a process of its own"]
fn passes_standard_input_on() {
    if std::env::var_os(PASSES_ON).is_none() {
        return;
    }
    let mut source = open_source("-?format=s16le&rate=48kHz&channels=2&live=yes").unwrap().source;
    let mut sink = open_sink("-?format=s16le", source.format(), SampleFormat::L16).unwrap().sink;
    let thread = std::thread::current();
    source.set_waker(Box::new(move || thread.unpark()));
    let mut pace = LivePace::new(256, 48_000);
    let (mut block, mut blocks, mut now) = ([0.0; 2 * 256], 0u64, Instant::ZERO);
    let allocated = Counting::calls(|| {
        loop {
            // Every block is pulled in its own time: there is no other clock here.
            while pace.poll(now, &mut *source) {
                match source.pull(&mut block) {
                    Pull::Frames(frames) => sink.push(&block[..2 * frames]).unwrap(),
                    Pull::Starved => break,
                    Pull::End => return,
                }
                blocks += 1;
            }
            match pace.poll_timeout() {
                Some(due) => now = due,
                None => std::thread::park(),
            }
        }
    });
    sink.finish().unwrap();
    eprintln!("passed on {blocks} with {allocated} allocations");
}

/// Each block is on standard output before the next is on standard input.
#[test]
fn live_pipes_pass_blocks_on_without_allocating() {
    let arguments = ["--exact", "passes_standard_input_on", "--ignored", "--nocapture"];
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .env(PASSES_ON, "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut begun, mut back) = (Vec::new(), [0; 4 * 256]);
    for n in 0..200u8 {
        let block = [n + 1; 4 * 256];
        input.write_all(&block).unwrap();
        // The harness prints before the first block.
        while n == 0 && begun.last() != Some(&1) {
            begun.extend([0]);
            let at = begun.len() - 1;
            output.read_exact(&mut begun[at..]).unwrap();
        }
        let read = if n == 0 { 4 * 256 - 1 } else { 4 * 256 };
        output.read_exact(&mut back[..read]).unwrap();
        assert!(back[..read].iter().all(|byte| *byte == n + 1), "block {n}");
    }
    drop(input);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("passed on 200 with 0 allocations"), "{said}");
    assert!(child.wait().unwrap().success());
}
