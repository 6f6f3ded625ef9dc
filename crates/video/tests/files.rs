//! Files that ffmpeg wrote (libx264, libvpx, SVT-AV1; one second of 12 frames, a key frame every six): read, cut off,
//! damaged, sent in packets, and written anew.

use std::io::Cursor;
use std::path::Path;

use antiphon_core::MediaTime;
use antiphon_video::{
    AudioCodec, AudioTrack, Codec, Depacketiser, DepacketiserConfig, Frame, FrameRate, MatroskaWriter,
    OpenOptions, PictureSize, StreamInfo, VideoFileError, VideoPacketConfig, VideoPacketiser, VideoReader,
};

const FILES: [(&str, Codec); 11] = [
    ("h264.mp4", Codec::H264),
    ("fragments.mp4", Codec::H264),
    ("h264.mkv", Codec::H264),
    ("raw.h264", Codec::H264),
    ("vp8.webm", Codec::Vp8),
    ("vp9.webm", Codec::Vp9),
    ("vp9.mp4", Codec::Vp9),
    ("av1.mkv", Codec::Av1),
    ("av1.ivf", Codec::Av1),
    ("mjpeg.mkv", Codec::Mjpeg),
    ("raw.mjpeg", Codec::Mjpeg),
];

fn bytes(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/video_file").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn options() -> OpenOptions {
    OpenOptions { rate: Some(FrameRate { frames: 12, seconds: 1 }) }
}

fn read(data: Vec<u8>) -> (Vec<Frame>, Option<VideoFileError>, Option<StreamInfo>) {
    let mut reader = match VideoReader::open(Cursor::new(data), options()) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error), None),
    };
    let mut frames = Vec::new();
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None, Some(reader.info().clone())),
            Err(error) => {
                assert!(matches!(reader.next_frame(), Ok(None)), "after an error there is no more");
                return (frames, Some(error), Some(reader.info().clone()));
            }
        }
    }
}

#[test]
fn every_frame_of_every_kind_of_file_is_read() {
    for (name, codec) in FILES {
        let (frames, error, info) = read(bytes(name));
        assert!(error.is_none(), "{name}: {error:?}");
        assert_eq!(frames.len(), 12, "{name}");
        assert_eq!(info.map(|info| (info.codec, info.size)), Some((codec, Some(SIZE))), "{name}");
        let mut times: Vec<u64> = frames.iter().map(|frame| frame.time.frames).collect();
        times.sort_unstable();
        for (n, time) in (0u64..).zip(times) {
            // Matroska counts milliseconds, of 90 units each.
            assert!(time.abs_diff(n * 7_500) <= 90, "{name}: frame {n} at {time}");
        }
        for (n, frame) in frames.iter().enumerate() {
            let key = codec == Codec::Mjpeg || n % 6 == 0;
            assert_eq!((frame.codec, frame.picture.key), (codec, key), "{name}: frame {n}");
            if key {
                assert_eq!(frame.picture.size, Some(SIZE), "{name}: frame {n}");
            }
        }
    }
}

#[test]
fn frames_that_nobody_needs_are_known() {
    let droppable = |name| read(bytes(name)).0.iter().filter(|frame| frame.picture.droppable).count();
    // Between two frames of the base layer stands one that none refers to (-bf 1).
    assert!((2..=6).contains(&droppable("h264.mp4")));
    assert_eq!(droppable("h264.mkv"), 0);
    assert_eq!(droppable("vp8.webm"), 0);
    assert!(droppable("av1.mkv") > 0);
}

#[test]
fn the_same_stream_in_two_containers_is_the_same() {
    for (one, other) in [("av1.mkv", "av1.ivf"), ("vp9.webm", "vp9.mp4")] {
        let of = |name| read(bytes(name)).0.into_iter().map(|frame| frame.data).collect::<Vec<_>>();
        assert!(of(one) == of(other), "{one} and {other}");
    }
}

#[test]
fn a_file_that_is_cut_off_gives_what_is_whole_and_says_so() {
    for (name, _) in FILES {
        let whole = bytes(name);
        let (all, _, _) = read(whole.clone());
        let mut silent = 0;
        for len in 0..whole.len() {
            let (frames, error, _) = read(whole[..len].to_vec());
            // Of a raw stream, the last frame may be cut off in its middle.
            let sure = frames.len().saturating_sub(usize::from(name.starts_with("raw")));
            assert_eq!(frames[..sure], all[..sure], "{name} at {len}");
            silent += usize::from(error.is_none());
            if let Some(error) = error {
                assert!(error.to_string().len() > 20);
            }
        }
        // Raw streams and IVF hold no length: they may end behind any frame.
        let may_end = match name {
            "raw.h264" => whole.len(),
            "raw.mjpeg" | "av1.ivf" => 40,
            // The tables of an MP4 and the size of a segment tell; an index behind the last frame is not missed.
            _ => 400,
        };
        assert!(silent <= may_end, "{name}: {silent} of {} lengths go unnoticed", whole.len());
    }
}

#[test]
fn damaged_files_neither_panic_nor_fill_memory() {
    for (name, _) in FILES {
        let whole = bytes(name);
        let mut rng = antiphon_core::Rng::fork(1, name);
        for _ in 0..300 {
            let mut damaged = whole.clone();
            for _ in 0..=rng.below(6) {
                let at = rng.below(damaged.len() as u32) as usize;
                match rng.below(3) {
                    0 => damaged[at] = rng.next_u32() as u8,
                    1 => damaged[at] = 0xff,
                    _ => damaged[at] ^= 1 << rng.below(8),
                }
            }
            let (frames, _, _) = read(damaged);
            assert!(frames.len() < 1_000 && frames.iter().all(|frame| frame.data.len() < 100_000), "{name}");
        }
    }
}

#[test]
fn absurd_sizes_are_refused_before_memory_is_taken() {
    let mut ivf = bytes("av1.ivf");
    ivf[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = read(ivf).1.expect("no frame has 4 GB");
    assert!(matches!(error, VideoFileError::TooLong { .. }), "{error}");
    // The movie box claims 2 GB.
    let mut mp4 = bytes("fragments.mp4");
    let at = mp4.windows(4).position(|kind| kind == b"moov").expect("a movie box") - 4;
    mp4[at..at + 4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    let error = read(mp4).1.expect("no table has 2 GB");
    assert!(matches!(error, VideoFileError::TooLong { .. }), "{error}");
}

#[test]
fn missing_key_frames_are_told() {
    // Without its first frame, the stream can be decoded from the seventh on.
    let whole = bytes("av1.ivf");
    let first = 32 + 12 + u32::from_le_bytes(whole[32..36].try_into().expect("four bytes")) as usize;
    let headless = [&whole[..32], &whole[first..]].concat();
    let mut reader = VideoReader::open(Cursor::new(headless.clone()), options()).expect("a file");
    let begun = reader.next_frame().expect("a key frame comes").expect("a frame");
    assert!(begun.picture.key && reader.skipped() == 5);
    // Without both key frames, not at all.
    let mut at = 32;
    let mut none = headless[..32].to_vec();
    for _ in 0..5 {
        let end = at + 12 + u32::from_le_bytes(headless[at..at + 4].try_into().expect("four bytes")) as usize;
        none.extend(&headless[at..end]);
        at = end;
    }
    assert!(matches!(read(none).1, Some(VideoFileError::NoKeyFrame { frames: 5 })));
}

#[test]
fn other_files_and_raw_streams_without_a_rate_are_refused() {
    assert!(matches!(read(b"RIFF....WAVEfmt ".to_vec()).1, Some(VideoFileError::Unknown)));
    assert!(matches!(read(Vec::new()).1, Some(VideoFileError::Unknown)));
    let raw = VideoReader::open(Cursor::new(bytes("raw.h264")), OpenOptions::default());
    assert!(matches!(raw, Err(VideoFileError::NoRate)));
}

#[test]
fn files_travel_in_packets_and_are_written_anew() {
    for (name, codec) in FILES {
        let (frames, _, info) = read(bytes(name));
        let config = VideoPacketConfig { max_packet: 300, ..VideoPacketConfig::new(codec) };
        let mut packetiser = VideoPacketiser::new(config, 1).expect("a possible configuration");
        let mut depacketiser = Depacketiser::new(DepacketiserConfig::new(codec));
        let mut received = Vec::new();
        let mut buf = [0; 300];
        for frame in &frames {
            let made = packetiser.packetise(frame, &mut buf, |_, packet| {
                depacketiser.handle_packet(packet).expect("our own");
            });
            assert!(made.is_ok(), "{name}: {made:?}");
            received.extend(std::iter::from_fn(|| depacketiser.poll_frame()));
        }
        let data: Vec<_> =
            received.iter().map(|frame| frame.frame.as_ref().map(|frame| &frame.data)).collect();
        assert!(data.iter().copied().eq(frames.iter().map(|frame| Some(&frame.data))), "{name}");

        let audio = AudioTrack { codec: AudioCodec::Pcm16, rate: 8_000, channels: 1 };
        // Nothing but the codec is known before the first frame.
        let info = info.map_or_else(|| StreamInfo::new(codec), |info| StreamInfo::new(info.codec));
        let mut writer = MatroskaWriter::new(Vec::new(), info, Some(audio));
        writer.write_samples(MediaTime::new(0, 8_000), &[0.25; 800]).expect("memory");
        for (n, frame) in (0u64..).zip(&frames) {
            writer.write_frame(frame).expect("memory");
            writer.write_samples(MediaTime::new(800 + n * 600, 8_000), &[0.5; 600]).expect("memory");
        }
        let written = writer.finish().expect("memory");
        let (again, error, _) = read(written.clone());
        assert!(error.is_none(), "{name}: {error:?}");
        assert_eq!(again.len(), frames.len(), "{name}");
        for (again, frame) in again.iter().zip(&frames) {
            assert!(again.time.frames.abs_diff(frame.time.frames) <= 90, "{name}");
            assert_eq!(again.picture, frame.picture, "{name}");
            // An access unit delimiter has no place in Matroska.
            assert!(again.data == frame.data || name == "raw.h264", "{name}");
        }
        // A recording that breaks off plays up to there.
        let (part, _, _) = read(written[..written.len() / 2].to_vec());
        assert!(part.len() >= 3 && part[..] == again[..part.len()], "{name}: {}", part.len());
    }
}

#[test]
fn sound_waits_for_the_first_key_frame_and_not_for_ever() {
    let audio = AudioTrack { codec: AudioCodec::Pcm16, rate: 48_000, channels: 2 };
    let mut writer = MatroskaWriter::new(Vec::new(), StreamInfo::new(Codec::Vp8), Some(audio));
    let (frames, _, _) = read(bytes("vp8.webm"));
    writer.write_frame(&frames[1]).expect("it is left out");
    assert_eq!(writer.frames(), (0, 1));
    for n in 0..30u64 {
        writer.write_samples(MediaTime::new(n * 48_000, 48_000), &[0.0; 96_000]).expect("memory");
    }
    let error = writer.write_frame(&frames[0]).expect_err("too late");
    assert!(error.to_string().contains("sound alone"), "{error}");
    assert!(writer.finish().expect("memory").len() > 30 * 192_000);
}

const SIZE: PictureSize = PictureSize { width: 96, height: 64 };
