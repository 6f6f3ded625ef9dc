use std::io::{self, Write};

use super::deposit::Medium;
use super::incoming::{MOST_HELD, nanos};
use super::*;
use antiphon_core::{Instant, NtpTime};
use antiphon_media::packet::{EncodingName, VIDEO_CLOCK, VideoStream};
use antiphon_session::VideoArrived;
use antiphon_sound::Deposit;
use antiphon_video::{Clip, Codec, FrameCutter, Marking, VideoDescription, h264};

/// Counts what is written.
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Medium for Nowhere {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends the clip again and again, each picture at a place in the sound that `place` says; returns the deposit.
fn record(times: u64, place: impl Fn(i64) -> Option<i64>) -> (FilmDeposit<Nowhere>, FilmCounters) {
    record_described(None, times, place)
}

/// The same, or, if it is described, as another program sends it that tells the parameter sets of H.264 in SDP alone.
fn record_described(
    described: Option<VideoDescription>,
    times: u64,
    place: impl Fn(i64) -> Option<i64>,
) -> (FilmDeposit<Nowhere>, FilmCounters) {
    let is_described = described.is_some();
    let shared = Arc::new(Shared { described, ..Shared::default() });
    let (mut to, from) = queue(shared.clone());
    let format = StreamFormat::new(48_000, 1).expect("a usual format");
    let counters = FilmCounters(shared.clone());
    let mut film = FilmDeposit::new(Nowhere, format, from, shared);
    let (mut reader, mut frames) = (Clip::H264Slow.open().expect("a clip"), Vec::new());
    while let Some(mut frame) = reader.next_frame().expect("a good file") {
        if is_described {
            frame.data = without_sets(&frame.data);
        }
        frames.push(frame);
    }
    let encoding = EncodingName::new("H264").expect("a word");
    let mut stream = VideoStream::new(encoding, 127, 0, 1);
    let (mut cutter, mut buf) = (FrameCutter::new(Codec::H264, 1), [0; 1_500]);
    let length = 76 * u64::from(VIDEO_CLOCK);
    for (round, frame) in (0..times).flat_map(|round| frames.iter().map(move |frame| (round, frame))) {
        let ticks = round * length + frame.time.frames;
        let payloads: Vec<Vec<u8>> = cutter.cut(frame, 1_400).expect("a frame").map(<[u8]>::to_vec).collect();
        for (n, payload) in payloads.iter().enumerate() {
            let (start, end) = (n == 0, n + 1 == payloads.len());
            let marking = Marking { start, end, independent: frame.picture.key, ..Marking::default() };
            let len = stream.packet((ticks, marking), NtpTime::from_bits(1), payload, &mut buf);
            stream.advance();
            to.on_packet(&VideoArrived {
                at: Instant::ZERO,
                ssrc: stream.ssrc(),
                encoding,
                timestamp: stream.timestamp_at(ticks),
                marker: end,
                place: place(nanos(ticks)),
                payload,
                packet: &buf[..len.expect("it fits")],
            });
        }
        film.checkpoint().expect("nothing fails");
    }
    (film, counters)
}

#[test]
fn pictures_of_any_place_take_little_memory() {
    // Twelve times 2.5 MB, first for the day after tomorrow, then without a place.
    for place in [Some(172_800_000_000_000), None] {
        let (mut film, counters) = record(12, |ticks| place.map(|place: i64| place + ticks));
        let held = film.incoming.held_bytes();
        assert!((MOST_HELD / 2..=MOST_HELD).contains(&held), "{held} bytes");
        film.close().expect("nothing fails");
        let counted = counters.get();
        assert_eq!((counted.whole, counted.broken, counted.dropped), (12 * 209, 0, 0));
    }
}

fn without_sets(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let sets = h264::parameter_sets(data);
    let others = h264::units(data).filter(|unit| !sets.iter().any(|set| set == unit));
    others.for_each(|unit| h264::push_unit(&mut out, unit));
    out
}

#[test]
fn without_parameter_sets_nothing_is_written_and_those_of_sdp_are_put_in() {
    let mut reader = Clip::H264Slow.open().expect("a clip");
    let first = reader.next_frame().expect("a good file").expect("a picture");
    let config = h264::parameter_sets(&first.data);
    assert!(config.len() >= 2, "the clip has its own");
    for (config, written) in [(Vec::new(), 0), (config, 209)] {
        let described = VideoDescription { config, ..VideoDescription::new(Codec::H264) };
        let (mut film, counters) = record_described(Some(described), 1, Some);
        film.close().expect("nothing fails");
        let counted = counters.get();
        assert_eq!((counted.whole, counted.written), (209, written));
    }
}

#[test]
fn a_stream_of_another_codec_is_left_out_and_counts_nothing() {
    let (mut film, counters) = record(1, Some);
    let before = counters.get();
    let shared = counters.0.clone();
    let (mut to, from) = queue(shared);
    film.incoming.set_packets(from);
    for n in 0..100 {
        to.on_packet(&VideoArrived {
            at: Instant::ZERO,
            ssrc: 5,
            encoding: EncodingName::new("VP8").expect("a word"),
            timestamp: n * 3_600,
            marker: true,
            place: Some(0),
            payload: &[],
            packet: &[0x80, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5, 0x10, 0],
        });
    }
    assert_eq!(counters.trouble(), None);
    film.checkpoint().expect("nothing fails");
    assert_eq!(counters.get(), before);
    assert_eq!(before.whole, 209);
    let why = counters.trouble().expect("it is told");
    assert!(why.contains("another codec"), "{why}");
}

/// A film that is recorded, of packets that come one by one.
fn incoming() -> (impl VideoSink, FilmDeposit<Nowhere>, FilmCounters) {
    let shared = Arc::new(Shared::default());
    let (to, from) = queue(shared.clone());
    let format = StreamFormat::new(48_000, 1).expect("a usual format");
    let counters = FilmCounters(shared.clone());
    (to, FilmDeposit::new(Nowhere, format, from, shared), counters)
}

#[test]
fn pictures_of_an_unknown_codec_are_told() {
    let (mut to, mut film, counters) = incoming();
    to.on_packet(&VideoArrived {
        at: Instant::ZERO,
        ssrc: 5,
        encoding: EncodingName::new("H266").expect("a word"),
        timestamp: 0,
        marker: true,
        place: Some(0),
        payload: &[],
        packet: &[0x80, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5, 0x10, 0],
    });
    film.checkpoint().expect("nothing fails");
    assert!(counters.trouble().is_some_and(|why| why.contains("not known")));
}

#[test]
fn a_picture_that_never_ends_is_given_up_and_the_next_one_is_whole() {
    let (mut to, mut film, counters) = incoming();
    let encoding = EncodingName::new("H264").expect("a word");
    let (mut stream, mut buf) = (VideoStream::new(encoding, 127, 0, 1), [0; 1_500]);
    // Fragments of a key frame (RFC 6184 §5.8): of the first the head says that it begins, of none that it ends.
    let fragment = |head: u8| [&[0x7c, head][..], &[1; 1_400]].concat();
    // A slice that is whole: the first of a key frame.
    let slice = [0x65, 0x88, 1, 2, 3].to_vec();
    let endless = (0..20_000).map(|n| (0, n == 0, false, fragment(if n == 0 { 0x85 } else { 0x05 })));
    for (n, (ticks, start, end, payload)) in endless.chain([(3_600, true, true, slice)]).enumerate() {
        let marking = Marking { start, end, independent: true, ..Marking::default() };
        let len =
            stream.packet((ticks, marking), NtpTime::from_bits(1), &payload, &mut buf).expect("it fits");
        stream.advance();
        to.on_packet(&VideoArrived {
            at: Instant::ZERO,
            ssrc: stream.ssrc(),
            encoding,
            timestamp: stream.timestamp_at(ticks),
            marker: end,
            place: Some(nanos(ticks)),
            payload: &payload,
            packet: &buf[..len],
        });
        if n % 100 == 0 {
            film.checkpoint().expect("nothing fails");
        }
    }
    film.checkpoint().expect("nothing fails");
    let counted = counters.get();
    assert_eq!((counted.whole, counted.broken, counted.dropped), (1, 1, 0), "{counted:?}");
}
