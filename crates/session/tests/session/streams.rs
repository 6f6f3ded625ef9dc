//! Reports beside the sound, on a stream of their own where the transport has several.

use std::sync::{Arc, Mutex};

use antiphon_core::Instant;
use antiphon_media::StreamFormat;
use antiphon_media::playout::PlayoutCounters;

use crate::world::{heard, linked, ms, send_session};
use antiphon_testkit::{Taken, expected};

const END: Instant = Instant::from_millis(60_000);
/// Ten seconds at 8 kHz: so little that no congestion window ever holds sound back.
const FRAMES: u64 = 80_000;

/// Chunks of the first second.
const START: usize = 30;

/// What a DATA chunk carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sound,
    Report,
    Goodbye,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    tsn: u32,
    stream: u16,
    kind: Kind,
}

fn telephone() -> StreamFormat {
    StreamFormat::new(8000, 1).unwrap()
}

/// The DATA chunks of an SCTP packet (RFC 9260 §3.3.1).
fn data_chunks(packet: &[u8]) -> Vec<Chunk> {
    let half = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (mut at, mut chunks) = (12, Vec::new());
    while at + 4 <= packet.len() {
        let len = usize::from(half(at + 2));
        if packet[at] == 0 {
            let tsn = u32::from(half(at + 4)) << 16 | u32::from(half(at + 6));
            chunks.push(Chunk { tsn, stream: half(at + 8), kind: kind_of(&packet[at + 16..at + len]) });
        }
        at += len.next_multiple_of(4);
    }
    chunks
}

/// Packet types 200 to 204 are RTCP's, 203 of them a goodbye, which is never the first of its compound (RFC 3550 §6.1).
fn kind_of(frame: &[u8]) -> Kind {
    if !(200..=204).contains(&frame[1]) {
        return Kind::Sound;
    }
    let mut rest = frame;
    while rest.len() >= 4 {
        if rest[1] == 203 {
            return Kind::Goodbye;
        }
        rest = &rest[4 * (usize::from(u16::from_be_bytes([rest[2], rest[3]])) + 1)..];
    }
    Kind::Report
}

/// Chunks as they were first sent, in both directions.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Chunk>>>);

impl Seen {
    /// Looks at every packet, and drops those that carry only chunks sent for the first time that `takes` selects; none
    /// at the start, since a delay of the first sound does not delay the rest.
    fn watch(&self, takes: fn(&Chunk) -> bool) -> Taken {
        let seen = self.0.clone();
        Box::new(move |_, packet| {
            let (mut seen, chunks) = (seen.lock().unwrap(), data_chunks(packet));
            let new: Vec<Chunk> =
                chunks.iter().filter(|c| seen.iter().all(|s| s.tsn != c.tsn)).copied().collect();
            seen.extend(&new);
            seen.len() > START && !new.is_empty() && new.len() == chunks.len() && new.iter().all(takes)
        })
    }

    /// How many of a kind were sent on a stream.
    fn count(&self, kind: Kind, stream: u16) -> usize {
        self.0.lock().unwrap().iter().filter(|chunk| (chunk.kind, chunk.stream) == (kind, stream)).count()
    }
}

/// Ten seconds in which every report of the sender's after the first second is lost once: returns what was heard, and
/// the chunks in both directions.
/// up and down.
fn with_lost_reports(scheme: &'static str) -> (PlayoutCounters, [Seen; 2]) {
    let seen = [Seen::default(), Seen::default()];
    // A repetition takes a round trip at least, 100 ms: more than the playout delay.
    let (mut world, kept) =
        linked(scheme, send_session(scheme, telephone(), FRAMES, 5), Some(ms(80)), "delay=50ms", 1);
    world.up.taken = Some(seen[0].watch(|chunk| chunk.kind == Kind::Report));
    world.down.taken = Some(seen[1].watch(|_| false));
    world.run(END);
    let (counters, playout) = (heard(&world.far).counters(), heard(&world.far).playout().unwrap());
    assert_eq!((counters.packets, counters.malformed), (FRAMES.div_ceil(256), 0));
    assert_eq!(kept.len() as u64, FRAMES);
    (playout, seen)
}

#[test]
fn a_lost_report_delays_no_sound_on_another_stream() {
    let (playout, [up, down]) = with_lost_reports("sctp?order=ordered&streams=2");
    assert_eq!((playout.late, playout.concealed_frames), (0, 0), "{playout:?}");
    // An interval of half a second is randomised to 0.62 s at most (RFC 3550 §6.3.1).
    assert!(up.count(Kind::Report, 1) >= 15 && down.count(Kind::Report, 1) >= 15);
    assert_eq!((up.count(Kind::Report, 0), down.count(Kind::Report, 0)), (0, 0));
    assert_eq!((up.count(Kind::Sound, 0), up.count(Kind::Sound, 1)), (FRAMES.div_ceil(256) as usize, 0));

    // On one stream, each of them costs two or three blocks that wait behind it: a repetition takes 190 ms.
    let (playout, [up, _]) = with_lost_reports("sctp?order=ordered");
    assert!(playout.late as usize >= up.count(Kind::Report, 0), "{playout:?}");
    assert!(up.count(Kind::Report, 0) >= 15);
}

#[test]
fn a_goodbye_does_not_overtake_the_repetition_of_the_last_sound() {
    let scheme = "sctp?order=ordered&streams=2&reliability=full";
    let seen = Seen::default();
    // The repetition takes longer than the receiver waits for stragglers after a goodbye, 100 ms.
    let (mut world, kept) =
        linked(scheme, send_session(scheme, telephone(), FRAMES, 5), None, "delay=150ms", 1);
    let (mut watch, counted) = (seen.watch(|chunk| chunk.kind == Kind::Sound), seen.clone());
    let last = FRAMES.div_ceil(256) as usize;
    world.up.taken =
        Some(Box::new(move |n, packet| watch(n, packet) && counted.count(Kind::Sound, 0) == last));
    world.run(END);
    assert!(world.near.stats().counters.retransmitted >= 1, "the last of the sound was lost");
    assert!(kept.samples() == expected(telephone(), 0, FRAMES), "{} samples", kept.len());
    assert_eq!((seen.count(Kind::Goodbye, 0), seen.count(Kind::Goodbye, 1)), (3, 0));
}
